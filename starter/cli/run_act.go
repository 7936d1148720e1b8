package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// runRefusals say in words why a run refused, and by which code.
var runRefusals = map[run.Reason]struct{ code, text string }{
	run.ReasonRunClosed:      {string(starter.CodeEnded), "the run has ended"},
	run.ReasonRunEnding:      {string(starter.CodeRunEnding), "the run is on its way to its end"},
	run.ReasonUnknownCall:    {codeUnknownCall, "the run has no such call"},
	run.ReasonNotAsked:       {string(starter.CodeConflict), "nobody is asked about that call"},
	run.ReasonAnswerConflict: {string(starter.CodeConflict), "somebody has decided or answered otherwise already"},
	run.ReasonInputConflict:  {string(starter.CodeConflict), "something else was said under that id"},
}

// printRunOutcome tells what a request came to. A request that was refused is a failure,
// but for one that had been made before.
func (a *app) printRunOutcome(runID string, o run.Outcome, said string) error {
	// What was left with the engine has changed nothing yet and is no refusal.
	left := o.State == "" && (o.Reason == run.ReasonCancelRequested || o.Reason == starter.ReasonTaken)
	same := o.Duplicate || o.Reason == run.ReasonUnchanged
	if !o.Changed && !same && !left && o.Reason != run.ReasonRenewed {
		why := runRefusals[o.Reason]
		text := cmp.Or(why.text, string(o.Reason))
		switch stands := "the run " + starter.RunStanding(o.State); {
		case o.State == "" || o.Reason == run.ReasonRunEnding:
		case o.Reason == run.ReasonRunClosed:
			text = stands
		default:
			text += "; " + stands
		}
		return failf(cmp.Or(why.code, string(starter.CodeConflict)), "look at the run: wakepoint run show "+runID, "%s", text)
	}
	if a.json {
		return a.printJSON(o)
	}
	if same {
		said += " (as before)"
	}
	stands := ""
	switch {
	case left:
		stands = "; no worker has answered, the engine keeps it for the run"
	case o.State != "":
		stands = "; the run " + starter.RunStanding(o.State)
	}
	a.say("%s%s", said, stands)
	return nil
}

func (a *app) runInputCommand() *cobra.Command {
	var said protocol.RunSaid
	var text, raw string
	cmd := &cobra.Command{
		Use: "input RUN", Short: "say something to a run", Args: exactly("RUN"),
		Long: `Says something to a run: its runtime is told with the next step, which comes at once
if the run waits for it. With --id it can be repeated without being said twice.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&text, "text", "", "what is said, in words")
	fl.StringVarP(&raw, "input", "i", "", "what is said, as JSON, @FILE, or - for standard input")
	fl.StringVar(&said.InputID, "id", "", "id of your own for it")
	fl.StringVar(&said.Source, "source", "cli", "who says it, for the runtime")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := filled(cmd, "id", "source", "input"); err != nil {
			return err
		}
		if said.Content, err = a.textOrJSON(cmd, "input", text, raw, run.MaxInput); err != nil {
			return err
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.runs.Say(ctx, args[0], said)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, "said")
		})(cmd, args)
	}
	return cmd
}

// textOrJSON reads what is given in words by --text, or as JSON by another flag.
func (a *app) textOrJSON(cmd *cobra.Command, flag, text, raw string, limit int64) (json.RawMessage, error) {
	switch given := cmd.Flags().Changed; {
	case given("text") == given(flag):
		return nil, usage("", "give one of --text and --%s", flag)
	case given("text"):
		return json.Marshal(text)
	}
	return a.jsonContent("--"+flag, raw, limit)
}

// stepFlag names the step that asked for a call.
func stepFlag(cmd *cobra.Command, id *protocol.CallID) {
	cmd.Flags().IntVar(&id.AskedAtStep, "step", 0, "the step that asked for the call (default the newest of that id)")
}

func (a *app) runAnswerCommand() *cobra.Command {
	var ans protocol.AnswerCall
	var text, raw string
	cmd := &cobra.Command{
		Use: "answer RUN CALL", Short: "answer a question of a run", Args: exactly("RUN", "CALL"),
		Long: `Answers a question that a run asks; wakepoint run show lists them, and the command for
each. A question takes one answer. One that comes from a run below is answered there.`,
	}
	cmd.Flags().StringVar(&text, "text", "", "answer in words")
	cmd.Flags().StringVar(&raw, "answer", "", "answer as JSON, @FILE, or - for standard input")
	cmd.Flags().StringVar(&ans.By, "by", "", "who answers, for the history (default $USER)")
	stepFlag(cmd, &ans.CallID)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := filled(cmd, "answer", "step"); err != nil {
			return err
		}
		ans.ToolCallID, ans.By = args[1], a.person(ans.By)
		if ans.Answer, err = a.textOrJSON(cmd, "answer", text, raw, run.MaxAnswer); err != nil {
			return err
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.runs.AnswerRun(ctx, args[0], ans)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, "answered")
		})(cmd, args)
	}
	return cmd
}

func (a *app) runApproveCommand() *cobra.Command {
	var ap protocol.Approve
	var deny bool
	var edit string
	cmd := &cobra.Command{
		Use: "approve RUN CALL", Short: "approve a call of a run, edit it or deny it", Args: exactly("RUN", "CALL"),
		Long: `Decides about a call that waits for a person; wakepoint run show lists them. A call
takes one decision, and its result tells the model who decided and what counted.`,
		Example: `  wakepoint run approve RUN CALL
  wakepoint run approve RUN CALL --deny --message "not on a Friday"
  wakepoint run approve RUN CALL --edit '{"to": "staging"}'`,
	}
	fl := cmd.Flags()
	fl.BoolVar(&deny, "deny", false, "deny it")
	fl.StringVar(&edit, "edit", "", "approve it with these arguments instead: JSON, @FILE, or - for standard input")
	fl.StringVar(&ap.Message, "message", "", "what the model is told")
	fl.StringVar(&ap.By, "by", "", "who decides, for the history (default $USER)")
	stepFlag(cmd, &ap.CallID)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := filled(cmd, "edit", "step"); err != nil {
			return err
		}
		ap.ToolCallID, ap.By, ap.Decision = args[1], a.person(ap.By), run.DecisionApprove
		said := "approved"
		switch edited := cmd.Flags().Changed("edit"); {
		case edited && deny:
			return usage("", "--deny and --edit exclude each other")
		case deny:
			ap.Decision, said = run.DecisionDeny, "denied"
		case edited:
			ap.Decision, said = run.DecisionEdit, "approved with other arguments"
			if ap.Input, err = a.jsonContent("--edit", edit, run.MaxCallInput); err != nil {
				return err
			}
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.runs.Approve(ctx, args[0], ap)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, said)
		})(cmd, args)
	}
	return cmd
}

func (a *app) runCancelCommand() *cobra.Command {
	var c protocol.Cancel
	var call protocol.CallID
	cmd := &cobra.Command{
		Use: "cancel RUN", Short: "ask for a run, or one call of it, to be given up", Args: exactly("RUN"),
		Long: `Asks for the run to be given up: it takes no step any more, asks its open calls to stop
and waits for their true ends. Watch the run for its end.

With --call only that call is given up; its end is the result that the runtime gets.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&call.ToolCallID, "call", "", "only this call")
	stepFlag(cmd, &call)
	fl.StringVar(&c.Reason, "reason", "", "why, for the history, and for the model if it is about a call")
	fl.StringVar(&c.By, "by", "", "who asks, for the history (default $USER)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "call", "step"); err != nil {
			return err
		}
		if call.ToolCallID == "" && call.AskedAtStep != 0 {
			return usage("name the call too", "--step goes with --call")
		}
		c.By = a.person(c.By)
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			if call.ToolCallID != "" {
				o, err := s.runs.CancelCall(ctx, args[0], protocol.CancelOneCall{CallID: call, Message: c.Reason, By: c.By})
				if err != nil {
					return err
				}
				return a.printRunOutcome(args[0], o, "cancel of the call requested")
			}
			o, err := s.runs.CancelRun(ctx, args[0], c)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, "cancel requested")
		})(cmd, args)
	}
	return cmd
}

func (a *app) runPauseCommand() *cobra.Command {
	var p protocol.Pause
	off := false
	cmd := &cobra.Command{
		Use: "pause RUN", Short: "hold the steps of a run, or let them go on", Args: exactly("RUN"),
		Long: `Holds the steps of a run: its tasks go on, and a step that is out may still commit.
With --off the steps go on.`,
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			p.By = a.person(p.By)
			do, said := s.runs.Pause, "paused"
			if off {
				do, said = s.runs.Unpause, "unpaused"
			}
			o, err := do(ctx, args[0], p)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, said)
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "let the steps go on")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the history")
	cmd.Flags().StringVar(&p.By, "by", "", "who asks, for the history (default $USER)")
	return cmd
}

func (a *app) runRetryCommand() *cobra.Command {
	var r starter.RunRetry
	var ttl duration
	var limits limitFlags
	cmd := &cobra.Command{
		Use: "retry RUN", Short: "let a run that failed or expired go on from its checkpoint", Args: exactly("RUN"),
		Long: `Lets a run that failed or expired go on from its last checkpoint, with the step that it
had. A limit that struck strikes again, unless a higher one is given.`,
		RunE: needing(limitNames("ttl"), a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			r.By, r.TTL, r.Limits = a.person(r.By), ttl.Duration, limits.given()
			out, err := s.runs.RetryRun(ctx, args[0], r)
			if err != nil {
				return err
			}
			if out.Existing && (r.TTL != 0 || r.Limits != nil) {
				return failf(string(starter.CodeConflict), "look at the run: wakepoint run show "+args[0], "run %s was retried already and goes on; its limits and its deadline were not changed", args[0])
			}
			if a.json {
				return a.printJSON(out)
			}
			if out.Existing {
				a.say("the run was retried already and goes on, no retry was added")
			} else {
				a.say("retried, until %s", a.moment(out.ExpiresAtMs))
			}
			if out.Note != "" {
				a.say("note: %s", out.Note)
			}
			a.say("hint: wakepoint run watch %s", args[0])
			return nil
		})),
	}
	cmd.Flags().Var(&ttl, "ttl", "time to live from now on, such as 30m, 12h or 3d (default the runtime's)")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the history")
	cmd.Flags().StringVar(&r.By, "by", "", "who asks, for the history (default $USER)")
	limits.add(cmd)
	return cmd
}

func (a *app) runResultCommand() *cobra.Command {
	return &cobra.Command{
		Use: "result RUN", Short: "write the final answer of a run that succeeded", Args: exactly("RUN"),
		Long: `Writes the bytes of the final answer to standard output, as the runtime gave them and
verified against the hash in the run's record. With --json it says what they are too.`,
		RunE: a.with(needs{results: true}, func(ctx context.Context, s *session, args []string) error {
			answer, err := s.runs.RunResult(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer)
			}
			if _, err := a.out.Write(answer.Content); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
			return nil
		}),
	}
}
