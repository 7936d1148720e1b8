package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// submitFlags are those of submit.
type submitFlags struct {
	input        string
	args, labels []string
	ttl          duration
	wait         bool
	patience     duration
	s            starter.Submission
	inputGiven   bool
}

func (a *app) submitCommand() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use: "submit TOOL", Short: "start a task, or find the one that the same key has started", Args: exactly("TOOL"),
		Long: `Starts a task of a declared tool and prints its id. That it was accepted does not
mean that it is done: watch it, or give --wait.

The input is JSON: --input, or put together from --arg NAME=TEXT and
--arg NAME:=JSON. With --key the same submission is the same task, however often
it is sent; the same key with something else is refused.`,
		Example: `  wakepoint task submit go-test --arg package=./domain --wait
  wakepoint task submit report --input @order.json --key order-4711
  id=$(wakepoint task submit resize --arg width:=640)`,
		ValidArgsFunction: a.completeTools,
		PreRun: func(cmd *cobra.Command, args []string) {
			f.s.Tool, f.inputGiven = args[0], cmd.Flags().Changed("input")
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.input, "input", "i", "", "input as JSON, @FILE, or - for standard input")
	fl.StringArrayVarP(&f.args, "arg", "a", nil, "one field of the input: NAME=TEXT or NAME:=JSON (may be repeated)")
	fl.StringVar(&f.s.IdempotencyKey, "key", "", "idempotency key")
	fl.StringVar(&f.s.TaskID, "id", "", "id of your own for the task")
	fl.StringVar(&f.s.Title, "title", "", "title for people")
	fl.Var(&f.ttl, "ttl", "time to live, such as 30s, 5m or 3d (default the tool's)")
	fl.IntVar(&f.s.MaxAttempts, "max-attempts", 0, "how often to try at most (default the tool's)")
	fl.IntVar(&f.s.Priority, "priority", 0, "1 (first) to 5 (last) (default the tool's)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label NAME=TEXT (may be repeated)")
	fl.StringArrayVar(&f.s.Targets, "target", nil, "declared target to be told of the end (may be repeated)")
	fl.StringVar(&f.s.RunID, "run", "", "id of the run that asks")
	fl.StringVar(&f.s.ToolCallID, "tool-call", "", "the run's id for its call")
	fl.StringVar(&f.s.WaiterID, "waiter", "", "name of who waits, for a task that several share")
	fl.BoolVar(&f.s.NoCache, "no-cache", false, "start a task of its own, also when an equal call has a result")
	fl.BoolVarP(&f.wait, "wait", "w", false, "wait for the end, and exit with 4 when it is no success")
	fl.Var(&f.patience, "for", "with --wait: how long, such as 30s or 5m; then exit with 7, and the task goes on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "key", "id", "title", "ttl", "max-attempts", "priority", "run", "tool-call", "waiter", "for"); err != nil {
			return err
		}
		if f.patience.Duration > 0 && !f.wait {
			return usage("give --wait too", "--for needs --wait")
		}
		if err := a.prepare(&f); err != nil {
			return err
		}
		return a.with(f.needs(), func(ctx context.Context, s *session, _ []string) error {
			return a.submit(ctx, s, f)
		})(cmd, args)
	}
	return cmd
}

// needs is what the submission needs: ids that are made of keys or inputs are made
// with the secret.
func (f *submitFlags) needs() needs {
	n := needs{secret: f.s.IdempotencyKey != ""}
	if f.s.TaskID == "" && !f.s.NoCache {
		n.tool = f.s.Tool
	}
	return n
}

// prepare reads what the flags name.
func (a *app) prepare(f *submitFlags) (err error) {
	f.s.TTL = f.ttl.Duration
	if f.s.Labels, err = pairs("--label", f.labels); err != nil {
		return err
	}
	switch {
	case f.inputGiven && len(f.args) > 0:
		return usage("give the whole input by one of them", "--input and --arg exclude each other")
	case f.inputGiven:
		f.s.Input, err = a.jsonContent("--input", f.input, domain.MaxBody)
	case len(f.args) > 0:
		f.s.Input, err = argsInput(f.args)
	}
	return err
}

// pairs reads NAME=TEXT.
func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(list))
	for _, p := range list {
		name, text, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usage("write "+flag+" NAME=TEXT", "%s %q must be NAME=TEXT", flag, p)
		}
		if _, twice := m[name]; twice {
			return nil, usage("", "%s %s is given twice", flag, name)
		}
		m[name] = text
	}
	return m, nil
}

// argsInput puts an object together from NAME=TEXT and NAME:=JSON.
func argsInput(args []string) (json.RawMessage, error) {
	object := make(map[string]json.RawMessage, len(args))
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		name, isJSON := strings.CutSuffix(name, ":")
		if !ok || name == "" {
			return nil, usage("write --arg NAME=TEXT or --arg NAME:=JSON", "--arg %q must be NAME=TEXT or NAME:=JSON", arg)
		}
		if _, twice := object[name]; twice {
			return nil, usage("give a list as --arg "+name+":='[...]'", "--arg %s is given twice", name)
		}
		value := json.RawMessage(text)
		if !isJSON {
			var err error
			if value, err = json.Marshal(text); err != nil {
				return nil, err
			}
		} else if !json.Valid(value) {
			return nil, usage("write text as --arg "+name+"=TEXT", "--arg %s:= must be JSON, it is %q", name, text)
		}
		object[name] = value
	}
	return json.Marshal(object)
}

// argHint adds to a refusal of the input how a field is given that is no text, or
// where it says what the tool takes.
func argHint(err error, tool string, args []string) error {
	var e *starter.Error
	if !errors.As(err, &e) || e.Hint != "" {
		return err
	}
	field, _ := strings.CutPrefix(e.Field, "input.")
	for _, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); name == field {
			return &failure{
				code: string(e.Code), message: e.Message, field: e.Field, cause: err,
				hint: "numbers, true, false and lists are given as JSON: --arg " + field + ":=JSON",
			}
		}
	}
	if e.Code == starter.CodeInvalid && (e.Field == "input" || field != e.Field) {
		return &failure{code: string(e.Code), message: e.Message, field: e.Field, cause: err, hint: "what it takes: wakepoint tools " + tool}
	}
	return err
}

func (a *app) submit(ctx context.Context, s *session, f submitFlags) error {
	sub, err := s.tasks.Submit(ctx, f.s)
	if err != nil {
		return argHint(err, f.s.Tool, f.args)
	}
	if f.wait {
		return a.submitAndWait(ctx, s, sub, f.patience.Duration)
	}
	if a.json {
		return a.printJSON(sub)
	}
	a.accepted(s, sub)
	follow := "watch"
	if sub.State == domain.StateSucceeded {
		follow = "result"
	}
	a.say("hint: wakepoint task %s %s", follow, sub.TaskID)
	return nil
}

// accepted prints the id to standard output, alone, for scripts.
func (a *app) accepted(s *session, sub starter.Submitted) {
	fmt.Fprintln(a.out, sub.TaskID)
	switch {
	case !sub.Existing:
		a.say("accepted, not done yet")
	case sub.Cached && sub.State.Terminal():
		a.say("an equal call has a result already")
	case sub.Cached:
		a.say("an equal call is under way already")
	case sub.State == "":
		a.say("accepted before")
	default:
		a.say("accepted before, it %s", starter.Standing(sub.State))
	}
	if sub.Attached && sub.WaiterID != "" {
		a.say("waiting as %s, beside others", sub.WaiterID)
	}
	if link := s.link(sub.WorkflowID, ""); link != "" {
		a.say("temporal ui: %s", link)
	}
}

func (a *app) submitAndWait(ctx context.Context, s *session, sub starter.Submitted, patience time.Duration) error {
	if !a.json {
		a.accepted(s, sub)
	}
	// The progress is beside the result, which is the id.
	w := a.newWatcher(a.err, []string{sub.TaskID}, 0)
	w.quiet, w.patience = a.json, patience
	err := w.run(ctx, s.tasks)
	if f := (*failure)(nil); errors.As(err, &f) && f.code == string(starter.CodeWaitTimeout) && sub.WaiterID != "" {
		// That the task cannot be told changes nothing for the caller.
		_, _ = s.tasks.Detach(ctx, sub.TaskID, protocol.Detach{WaiterID: sub.WaiterID, Reason: domain.DetachWaitTimeout})
	}
	if a.json && w.last[0] != nil {
		if err := a.printJSON(viewOf(w.last[0].Description)); err != nil {
			return err
		}
	}
	return err
}

// completeTools completes the names of tools for shells.
func (a *app) completeTools(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.config()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, t := range cfg.Tools {
		names = append(names, t.Name+"\t"+t.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
