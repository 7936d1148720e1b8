package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// callbackFlags are those of callback.
type callbackFlags struct {
	cb                 domain.Callback
	event, kind        string
	result, failedWith string
	progress           float64
	retryable, signal  bool
}

func (a *app) callbackCommand() *cobra.Command {
	var f callbackFlags
	cmd := &cobra.Command{
		Use: "callback TASK", Short: "bring a task news from outside", Args: exactly("TASK"),
		Long: `Brings a task news from outside, as a webhook would. The event is put together from
the flags, or given whole as JSON with --event (docs/wire.md lists its fields).

A callback has an id: sent again under the same id it changes nothing, and its
answer says so. Without --callback-id one is made. The verdict is accepted, taken
(kept for when a worker is back), duplicate, stale, late or conflict.`,
		Example: `  wakepoint task callback TASK --type progress --progress 40 --stage "half of it"
  wakepoint task callback TASK --type succeed --result '{"approved": true}'
  wakepoint task callback TASK --type fail --error "out of paper" --retryable`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "type", "", "start, progress, heartbeat, succeed, fail, input-required or cancelled")
	fl.StringVar(&f.event, "event", "", "the whole event as JSON, @FILE, or - for standard input")
	fl.StringVar(&f.cb.CallbackID, "callback-id", "", "id of the callback (default one is made)")
	fl.StringVar(&f.cb.Source, "source", "cli", "who sends, for the history")
	fl.IntVar(&f.cb.Event.Attempt, "attempt", 0, "attempt that it belongs to (default any, but needed after a manual retry)")
	fl.StringVar(&f.cb.Event.Worker, "worker", "", "who works on it")
	fl.Float64Var(&f.progress, "progress", 0, "percent, 0 to 100")
	fl.StringVar(&f.cb.Event.Stage, "stage", "", "what is being done")
	fl.StringVar(&f.result, "result", "", "result as JSON, @FILE, or - for standard input")
	fl.StringVar(&f.cb.Event.ResultRef, "result-ref", "", "where the result lies, instead of --result")
	fl.StringVar(&f.cb.Event.ResultHash, "result-hash", "", "hash of that result")
	fl.StringVar(&f.failedWith, "error", "", "why it failed: words, or JSON {\"code\", \"message\", ...}")
	fl.BoolVar(&f.retryable, "retryable", false, "another attempt may succeed")
	fl.StringVar(&f.cb.Event.QuestionID, "question", "", "id of the question, with input-required")
	fl.StringVar(&f.cb.Event.Prompt, "prompt", "", "the question in words")
	fl.BoolVar(&f.signal, "signal", false, "by the door that gives no answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "callback-id", "attempt", "type"); err != nil {
			return err
		}
		if err := a.eventOf(cmd, &f); err != nil {
			return err
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			return a.callback(ctx, s, args[0], f)
		})(cmd, args)
	}
	return cmd
}

// eventFlags describe the event, so they exclude --event.
var eventFlags = []string{
	"type", "attempt", "worker", "progress", "stage", "result", "result-ref", "result-hash", "error", "retryable", "question", "prompt",
}

// eventOf puts the event together.
func (a *app) eventOf(cmd *cobra.Command, f *callbackFlags) (err error) {
	given := cmd.Flags().Changed
	if f.cb.CallbackID == "" && !given("callback-id") {
		f.cb.CallbackID = "cli-" + uuid.NewString()
	}
	if given("event") {
		for _, name := range eventFlags {
			if given(name) {
				return usage("put it into the event", "--event and --%s exclude each other", name)
			}
		}
		raw, err := a.jsonContent("--event", f.event, domain.MaxBody)
		if err != nil {
			return err
		}
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f.cb.Event); err != nil {
			return usage("docs/wire.md lists the fields of an event", "--event is no event: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		return nil
	}
	if f.kind == "" {
		return usage("give --type, or the whole event with --event", "the type of the event is missing")
	}
	e := &f.cb.Event
	e.Type = domain.EventType(f.kind)
	if given("progress") {
		e.Progress = &f.progress
	}
	if given("retryable") {
		e.Retryable = &f.retryable
	}
	if given("error") {
		if e.Error, err = taskError("--error", f.failedWith); err != nil {
			return err
		}
	}
	if given("result") {
		e.Result, err = a.jsonContent("--result", f.result, domain.MaxBody)
	}
	return err
}

func (a *app) callback(ctx context.Context, s *session, taskID string, f callbackFlags) error {
	if f.signal {
		if err := s.tasks.Signal(ctx, taskID, f.cb); err != nil {
			return err
		}
		if a.json {
			return a.printJSON(starter.Verdict{Verdict: starter.VerdictTaken})
		}
		a.say("taken, as callback %s; nobody has answered", f.cb.CallbackID)
		return nil
	}
	v, err := s.tasks.Callback(ctx, taskID, f.cb)
	if err != nil {
		return err
	}
	switch v.Verdict {
	case starter.VerdictAccepted, starter.VerdictTaken, starter.VerdictDuplicate:
	case starter.VerdictStale, starter.VerdictLate, starter.VerdictConflict, starter.VerdictRejected, starter.VerdictUnknownTask:
		return failf("conflict", a.verdictHint(ctx, s, taskID, v, f.cb.Event), "%s: %s at version %d",
			v.Verdict, refusal(v.Outcome.Reason, f.cb.Event.QuestionID, v.Outcome.State), v.Outcome.Version)
	}
	if a.json {
		return a.printJSON(v)
	}
	text := string(v.Verdict)
	if v.Outcome.Reason != "" {
		text += fmt.Sprintf(": %s; the task %s at version %d", v.Outcome.Reason, starter.Standing(v.Outcome.State), v.Outcome.Version)
	}
	fmt.Fprintln(a.out, text)
	if v.Verdict == starter.VerdictTaken {
		a.say("note: no worker answered; the callback is kept and will be applied")
	}
	return nil
}

// verdictHint says what to do about a callback that was refused: of one that
// belongs to another attempt, which attempt to name.
func (a *app) verdictHint(ctx context.Context, s *session, taskID string, v starter.Verdict, e domain.Event) string {
	look := "look at the task: wakepoint task show " + taskID
	if v.Outcome.Reason != domain.ReasonStaleAttempt {
		return look
	}
	d, err := s.tasks.Describe(ctx, taskID)
	switch t := d.Task; {
	case err != nil || t.State.Terminal():
		return look
	case t.State == domain.StateQueued && e.Type == domain.EventStart:
		return fmt.Sprintf("if it is for the attempt that begins, give --attempt %d", t.Attempts+1)
	case t.State == domain.StateQueued:
		return fmt.Sprintf("attempt %d has not begun: send --type start --attempt %d first", t.Attempts+1, t.Attempts+1)
	default:
		return fmt.Sprintf("if it is for the attempt that runs, give --attempt %d", t.Attempts)
	}
}
