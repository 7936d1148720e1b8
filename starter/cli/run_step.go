package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
)

func (a *app) runNextCommand() *cobra.Command {
	var o starter.NextOptions
	var wait, lease duration
	cmd := &cobra.Command{
		Use: "next RUN", Short: "take the step of a run that is due, for a runtime that pulls", Args: exactly("RUN"),
		Long: `Takes the step that is due and writes its request to standard output, as one line of
JSON; the bytes of the checkpoint are those that were committed. From then on the step
is the caller's: it commits in time, or renews the lease by heartbeat.

The exit code is 7 when there was no step to be had, which may be asked again, and 6
when the run has ended. docs/runtimes.md has a runtime in the shell.`,
		Example: `  wakepoint run next RUN --wait 1m --holder "$(hostname)" >step.json
  wakepoint run commit RUN --request @step.json --response '{"final": "done"}'`,
		RunE: needing([]string{"wait", "holder", "runtime-version", "lease"}, a.with(needs{results: true}, func(ctx context.Context, s *session, args []string) error {
			o.Wait, o.Lease = wait.Duration, lease.Duration
			req, err := s.runs.Next(ctx, args[0], o)
			if err != nil {
				return nextError(ctx, err)
			}
			b, err := run.EncodeRequest(req)
			if err != nil {
				return err
			}
			_, err = a.out.Write(append(b, '\n'))
			return err
		})),
	}
	fl := cmd.Flags()
	fl.Var(&wait, "wait", "how long to wait for a step, such as 30s or 1m (default not at all)")
	fl.StringVar(&o.Holder, "holder", "", "name of the runtime's process: one that asks again while it has the step gets it again at once")
	fl.StringVar(&o.RuntimeVersion, "runtime-version", "", "take steps of runs of this version only (default of any)")
	fl.Var(&lease, "lease", "how long the caller may be silent (default the runtime's)")
	return cmd
}

// nextError gives what may be asked again an exit code that a script can tell from the
// end of the run.
func nextError(ctx context.Context, err error) error {
	if code := starter.CodeOf(err); code != starter.CodeNoStep && code != starter.CodeStepHeld {
		return err
	}
	f := *failureOf(ctx, err)
	f.exits = ExitWaitTimeout
	return &f
}

// heldStep is a step as its commit and its heartbeats name it: by flags, or by the
// request that next has written.
type heldStep struct {
	step    int
	token   string
	request string
}

func (h *heldStep) add(cmd *cobra.Command, numbered bool) {
	if numbered {
		cmd.Flags().IntVar(&h.step, "step", 0, "number of the step")
	}
	cmd.Flags().StringVar(&h.token, "token", "", "token of the step")
	cmd.Flags().StringVar(&h.request, "request", "", "what next has written, as JSON, @FILE, or - for standard input, instead of them")
}

// maxRequest is more than any step request has: a checkpoint, and what is beside it.
const maxRequest = run.MaxCheckpoint + 8<<20

func (a *app) readHeld(cmd *cobra.Command, h *heldStep) error {
	given := cmd.Flags().Changed
	numbered := cmd.Flags().Lookup("step") != nil
	if !given("request") {
		switch {
		case numbered && (h.step < 1 || h.token == ""):
			return usage("they stand in what wakepoint run next has written; --request takes it whole", "give --step and --token, or --request")
		case h.token == "":
			return usage("it stands in what wakepoint run next has written; --request takes it whole", "give --token, or --request")
		}
		return nil
	}
	if given("token") || given("step") {
		return usage("", "--request goes with neither --step nor --token")
	}
	b, err := a.content("--request", h.request, maxRequest)
	if err != nil {
		return err
	}
	var req run.StepRequest
	if err := json.Unmarshal(b, &req); err != nil || req.Step < 1 || req.StepToken == "" {
		return usage("give what wakepoint run next has written", "--request is no step request")
	}
	h.step, h.token = req.Step, req.StepToken
	return nil
}

func (a *app) runCommitCommand() *cobra.Command {
	var h heldStep
	var response string
	cmd := &cobra.Command{
		Use: "commit RUN", Short: "end a step with what the runtime answers", Args: exactly("RUN"),
		Long: `Ends a step. The same commit again gets the same answer, so one whose answer was lost
is repeated as it was. A refusal has a code of its own, with --json as error.code:

  stale-token          the step was given to a newer attempt: drop the work
  commit-conflict      the step was committed with another answer
  step-ahead           an earlier step has not been committed
  no-step              the run has no step that is out
  nothing-to-wait-for  it asks for nothing, and nothing is open
  run-ending, ended    the run takes no step any more
  invalid-request      the answer breaks a rule; the runtime still has the step`,
		Example: `  wakepoint run commit RUN --step 1 --token T --response '{"final": {"ok": true}}'
  wakepoint run commit RUN --request @step.json --response @answer.json`,
	}
	h.add(cmd, true)
	cmd.Flags().StringVar(&response, "response", "", "the answer as JSON, @FILE, or - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "token", "request", "response"); err != nil {
			return err
		}
		if !cmd.Flags().Changed("response") {
			return usage("docs/runtimes.md has its fields", "give --response")
		}
		if h.request == "-" && response == "-" {
			return usage("", "only one of --request and --response can be standard input")
		}
		if err := a.readHeld(cmd, &h); err != nil {
			return err
		}
		resp, err := a.response(response)
		if err != nil {
			return err
		}
		return a.with(needs{results: true}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.runs.Commit(ctx, args[0], h.step, h.token, resp)
			if err != nil {
				return err
			}
			if o.Reason == run.ReasonLimit {
				return failf(string(starter.CodeConflict), "raise the limit: wakepoint run retry "+args[0]+" --max-…, see wakepoint run show "+args[0], "%s; the run fails", committed(h.step, o.Reason))
			}
			return a.printRunOutcome(args[0], o, committed(h.step, o.Reason))
		})(cmd, args)
	}
	return cmd
}

// committed says what became of the answer of a step.
func committed(step int, why run.Reason) string {
	switch why { //nolint:exhaustive // the others commit it
	case run.ReasonStepRetry:
		return fmt.Sprintf("step %d has failed and comes again", step)
	case run.ReasonStepGivenUp:
		return fmt.Sprintf("step %d has failed for good", step)
	case run.ReasonLimit:
		return fmt.Sprintf("step %d would pass a limit of the run: nothing that it asks for is done", step)
	}
	return fmt.Sprintf("step %d committed", step)
}

// response reads the answer of a step. A key that it cannot have is a slip of the pen:
// taken for nothing, the run would do something else than was meant.
func (a *app) response(text string) (run.StepResponse, error) {
	var resp run.StepResponse
	b, err := a.content("--response", text, run.MaxCheckpoint+run.MaxFinal+domain.MaxBody)
	if err != nil {
		return resp, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err = dec.Decode(&resp)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one value")
		}
	}
	if err != nil {
		return resp, usage("docs/runtimes.md has its fields", "--response is no step response: %s", jsonMistake(err))
	}
	return resp, nil
}

// jsonMistake is what the JSON package says, in words for people.
func jsonMistake(err error) string {
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typ) && typ.Field != "":
		return typ.Field + " must not be " + typ.Value
	case errors.As(err, &typ):
		return "it must be an object"
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it breaks off"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (a *app) runHeartbeatCommand() *cobra.Command {
	var h heldStep
	var delta string
	cmd := &cobra.Command{
		Use: "heartbeat RUN", Short: "renew the lease of a step", Args: exactly("RUN"),
		Long: `Says that the runtime is still at work. A refusal says that it need not be: the step
was given to somebody else (stale-token), or the run has ended.`,
	}
	h.add(cmd, false)
	cmd.Flags().StringVar(&delta, "delta", "", "a hint for people who watch, as JSON, @FILE, or - for standard input; it is not kept")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := filled(cmd, "token", "request", "delta"); err != nil {
			return err
		}
		if err := a.readHeld(cmd, &h); err != nil {
			return err
		}
		var hint json.RawMessage
		if cmd.Flags().Changed("delta") {
			if hint, err = a.jsonContent("--delta", delta, domain.MaxDetails); err != nil {
				return err
			}
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.runs.StepHeartbeat(ctx, args[0], h.token, hint)
			if err != nil {
				return err
			}
			return a.printRunOutcome(args[0], o, "lease renewed")
		})(cmd, args)
	}
	return cmd
}
