package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (a *app) manualCommand() *cobra.Command {
	var r starter.ManualRequest
	cmd := &cobra.Command{
		Use: "manual", Short: "list the tasks that wait for a person, and what was tried", Args: exactly(),
		Long: `Lists the tasks of which nobody knows whether their work was done, and whose tools
may not be run twice without knowing. Each says why, what was tried, where to look,
and the commands that resolve it: once you know.`,
		RunE: needing([]string{"tool", "limit", "cursor"}, a.with(needs{}, func(ctx context.Context, s *session, _ []string) error {
			page, err := s.tasks.Manual(ctx, r)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(page)
			}
			a.manual(page)
			return nil
		})),
	}
	a.engineFlags(cmd.Flags())
	cmd.Flags().StringVar(&r.Tool, "tool", "", "only tasks of this tool")
	cmd.Flags().IntVar(&r.PageSize, "limit", starter.DefaultPageSize, "tasks on the page")
	cmd.Flags().StringVar(&r.Cursor, "cursor", "", "the cursor that ended the page before")
	return cmd
}

func (a *app) manual(page starter.ManualListing) {
	if len(page.Tasks) == 0 {
		a.say("no task waits for a person")
	}
	for i, m := range page.Tasks {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		term.Fields(a.out, a.manualFields(m))
	}
	if page.Cursor != "" {
		a.say("there is more: --cursor %s", page.Cursor)
	}
}

func (a *app) manualFields(m starter.ManualTask) []term.Field {
	f := []term.Field{
		{Name: "task", Value: m.TaskID},
		{Name: "tool", Value: join(": ", m.Tool, m.Title)},
		{Name: "since", Value: a.moment(m.SinceMs)},
		{Name: "not known", Value: m.Why},
	}
	if m.Error != nil {
		return append(f, term.Field{Name: "error", Value: m.Error.Message}, term.Field{Name: "hint", Value: m.Error.Hint})
	}
	for _, t := range m.Tried {
		attempt := ""
		if t.Attempt > 0 {
			attempt = fmt.Sprintf("attempt %d", t.Attempt)
		}
		f = append(f, term.Field{Name: "tried", Value: join(" ", a.clock(t.AtMs), join(": ", attempt, t.Text))})
	}
	f = append(f, term.Field{Name: "undoing", Value: undoing(m.Compensation, m.CompensationFailed)},
		term.Field{Name: "job outside", Value: join(", ", "key "+m.SubmissionKey, handleText(m.Handle))},
		term.Field{Name: "deadline", Value: a.moment(m.ExpiresAtMs)})
	for _, c := range m.Commands {
		f = append(f, term.Field{Name: "resolve", Value: c})
	}
	return f
}

// undoing says how far the task is that undoes.
func undoing(id, failed string) string {
	switch {
	case id == "":
		return ""
	case failed != "":
		return "task " + id + " could not: " + failed
	}
	return "task " + id + " is at it; wait for its end"
}

// handleText is where a job is.
func handleText(h *protocol.Handle) string {
	if h == nil {
		return ""
	}
	return join(", ", h.Executor+" "+h.ID, prefixed("queue ", h.TaskQueue))
}

// resolveFlags are those of resolve.
type resolveFlags struct {
	succeeded, failed, repeat bool
	result, err               string
	r                         protocol.Resolve
}

func (a *app) resolveCommand() *cobra.Command {
	var f resolveFlags
	cmd := &cobra.Command{
		Use: "resolve TASK", Short: "say what became of work that a person had to look for", Args: exactly("TASK"),
		Long: `Resolves a task that waits for a person, see wakepoint manual. Find out first
whether the work was done, then say one of:

  --succeeded  it was done; give its result, or the reference and hash of one
  --failed     it was not done, and shall not be
  --repeat     do it again: it was not done, or may be done twice`,
		Example: `  wakepoint task resolve TASK --succeeded --result '{"invoice": 4711}'
  wakepoint task resolve TASK --failed --error "never arrived at the bank"
  wakepoint task resolve TASK --repeat --reason "the bank has no such transfer"`,
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.succeeded, "succeeded", false, "the work was done")
	fl.BoolVar(&f.failed, "failed", false, "the work was not done")
	fl.BoolVar(&f.repeat, "repeat", false, "do the work again")
	fl.StringVar(&f.result, "result", "", "result as JSON, @FILE, or - for standard input")
	fl.StringVar(&f.r.ResultRef, "result-ref", "", "reference of a result that lies elsewhere")
	fl.StringVar(&f.r.ResultHash, "result-hash", "", "its hash")
	fl.StringVar(&f.r.ContentType, "content-type", "", "its media type")
	fl.StringVar(&f.err, "error", "", "error in words, or as JSON")
	fl.StringVar(&f.r.Reason, "reason", "", "how you know, for the history")
	fl.StringVar(&f.r.By, "by", "", "who says so, for the history (default $USER)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.prepareResolve(cmd, &f); err != nil {
			return err
		}
		return a.with(needs{results: f.r.ResultRef != ""}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.tasks.Resolve(ctx, args[0], f.r)
			if err != nil {
				return err
			}
			said := map[string]string{
				domain.ResolveSucceeded: "resolved: it was done", domain.ResolveFailed: "resolved: it was not done", domain.ResolveRepeat: "resolved: it is done again",
			}[f.r.Action]
			return a.printOutcome(args[0], o, said)
		})(cmd, args)
	}
	return cmd
}

func (a *app) prepareResolve(cmd *cobra.Command, f *resolveFlags) (err error) {
	if err := filled(cmd, "result", "result-ref", "result-hash", "content-type", "error"); err != nil {
		return err
	}
	f.r.By = a.person(f.r.By)
	given := cmd.Flags().Changed
	chosen := 0
	for action, is := range map[string]bool{domain.ResolveSucceeded: f.succeeded, domain.ResolveFailed: f.failed, domain.ResolveRepeat: f.repeat} {
		if is {
			f.r.Action = action
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return usage("say what you found out", "give one of --succeeded, --failed and --repeat")
	case f.succeeded && !given("result") && !given("result-ref"):
		return usage("without a result say --result null", "--succeeded needs --result, or --result-ref and --result-hash")
	case !f.succeeded && (given("result") || given("result-ref") || given("result-hash") || given("content-type")):
		return usage("", "a result goes with --succeeded only")
	case !f.failed && given("error"):
		return usage("", "--error goes with --failed only")
	case given("result"):
		f.r.Result, err = a.jsonContent("--result", f.result, domain.MaxInlineResult)
	case given("error"):
		f.r.Error, err = taskError("--error", f.err)
	}
	return err
}
