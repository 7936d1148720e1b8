package starter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func said(id, content string) protocol.RunSaid {
	return protocol.RunSaid{InputID: id, Content: json.RawMessage(content), Source: "ann"}
}

func call(id string) protocol.CallID { return protocol.CallID{ToolCallID: id} }

// came checks what an act came to.
func came(t testing.TB, out run.Outcome, err error, want run.Reason) {
	t.Helper()
	if err != nil || out.Reason != want {
		t.Errorf("got %s, want %s (%v)", out.Reason, want, err)
	}
}

func TestSay(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.commit(t, id, run.StepResponse{Await: run.AwaitInput})
	out, err := w.Say(t.Context(), id, said("1", `"hi"`))
	if came(t, out, err, run.ReasonInput); out.State != run.StateRunning {
		t.Errorf("%+v", out)
	}
	out, err = w.Say(t.Context(), id, said("1", `"hi"`))
	came(t, out, err, run.ReasonDuplicateInput)
	out, err = w.Say(t.Context(), id, said("1", `"ho"`))
	came(t, out, err, run.ReasonInputConflict)
	out, err = w.Say(t.Context(), id, said("", `"hi"`))
	came(t, out, err, run.ReasonInput)
	if req := w.next(t, id); len(req.Inputs) != 2 {
		t.Errorf("%+v", req.Inputs)
	}
	_, err = w.Say(t.Context(), id, said("2", `{`))
	is(t, err, starter.ErrInvalid)
	_, err = w.Say(t.Context(), id, said("2", `"`+strings.Repeat("x", run.MaxInput)+`"`))
	is(t, err, starter.ErrInvalid)
	_, err = w.Say(t.Context(), "nobody", said("2", `1`))
	is(t, err, starter.ErrUnknownRun)
	_, err = w.Say(t.Context(), "no/body", said("2", `1`))
	is(t, err, starter.ErrInvalid)
}

// What is said while no worker is there is kept by the engine.
func TestWithoutAWorkerWhatIsSaidIsKept(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		w.commit(t, id, run.StepResponse{Await: run.AwaitInput})
		w.engine.Workers(false)
		out, err := w.Say(t.Context(), id, said("1", `"hi"`))
		came(t, out, err, starter.ReasonTaken)
		out, err = w.Pause(t.Context(), id, protocol.Pause{})
		if is(t, err, starter.ErrNoWorker); out != (run.Outcome{}) {
			t.Errorf("%+v", out)
		}
		w.engine.Workers(true)
		if req := w.next(t, id); len(req.Inputs) != 1 || req.Inputs[0].InputID != "1" {
			t.Errorf("%+v", req.Inputs)
		}
		w.engine.Workers(false)
		out, err = w.CancelRun(t.Context(), id, protocol.Cancel{By: "ann"})
		if came(t, out, err, run.ReasonCancelRequested); out.State != "" {
			t.Errorf("%+v", out)
		}
		w.engine.Workers(true)
		if d, err := w.DescribeRun(t.Context(), id); err != nil || d.Run.State != run.StateCancelled {
			t.Errorf("%s (%v)", d.Run.State, err)
		}
		w.engine.Workers(false)
		out, err = w.CancelRun(t.Context(), id, protocol.Cancel{})
		came(t, out, err, run.ReasonRunClosed)
	})
}

func TestApproveAndAnswer(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.asks(t, id, "a", "b", "c", "d")
	for _, c := range []string{"a", "b", "c"} {
		w.applyRun(t, id, run.Event{Type: run.EventApprovalAsked, Call: run.Key{Step: 1, ID: c}, Started: &run.Started{UntilMs: epoch + 1_000_000}})
	}
	approve := func(callID, decision, input string) (run.Outcome, error) {
		a := protocol.Approve{CallID: call(callID), Decision: decision, By: "ann", Message: "m"}
		if input != "" {
			a.Input = json.RawMessage(input)
		}
		return w.Approve(t.Context(), id, a)
	}
	out, err := approve("a", run.DecisionApprove, "")
	came(t, out, err, run.ReasonApproved)
	out, err = approve("a", run.DecisionApprove, "")
	came(t, out, err, run.ReasonDuplicateAnswer)
	out, err = approve("a", run.DecisionDeny, "")
	came(t, out, err, run.ReasonAnswerConflict)
	out, err = approve("b", run.DecisionEdit, `{"n":2}`)
	came(t, out, err, run.ReasonEdited)
	out, err = approve("c", run.DecisionDeny, "")
	came(t, out, err, run.ReasonDenied)
	out, err = approve("d", run.DecisionApprove, "")
	came(t, out, err, run.ReasonNotAsked)
	out, err = approve("z", run.DecisionApprove, "")
	came(t, out, err, run.ReasonUnknownCall)
	for field, a := range map[string]protocol.Approve{
		"decision":    {CallID: call("d"), Decision: "maybe"},
		"input":       {CallID: call("d"), Decision: run.DecisionEdit, Input: json.RawMessage("{")},
		"toolCallId":  {Decision: run.DecisionApprove},
		"askedAtStep": {CallID: protocol.CallID{ToolCallID: "d", AskedAtStep: -1}, Decision: run.DecisionApprove},
		"by":          {CallID: call("d"), Decision: run.DecisionApprove, By: strings.Repeat("x", domain.MaxWorker+1)},
	} {
		if _, err := w.Approve(t.Context(), id, a); as(t, err, starter.ErrInvalid).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	out, err = w.AnswerRun(t.Context(), id, protocol.AnswerCall{CallID: call("d"), Answer: json.RawMessage(`"x"`)})
	came(t, out, err, run.ReasonNotAsked)
	_, err = w.AnswerRun(t.Context(), id, protocol.AnswerCall{CallID: call("d")})
	is(t, err, starter.ErrInvalid)
}

func TestAnswerRun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.commit(t, id, run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "q", Tool: run.ToolAsk, Input: json.RawMessage(`{"prompt":"?"}`)}, {ToolCallID: "c", Tool: "train"}}})
	w.applyRun(t, id, run.Event{Type: run.EventApprovalAsked, Call: run.Key{Step: 1, ID: "q"}, Started: &run.Started{}})
	answer := func(text string) (run.Outcome, error) {
		return w.AnswerRun(t.Context(), id, protocol.AnswerCall{CallID: call("q"), Answer: json.RawMessage(text), By: "ann"})
	}
	out, err := answer(`"yes"`)
	came(t, out, err, run.ReasonAnswered)
	out, err = answer(`"yes"`)
	came(t, out, err, run.ReasonDuplicateAnswer)
	out, err = answer(`"no"`)
	came(t, out, err, run.ReasonAnswerConflict)
	w.applyRun(t, id, run.Event{Type: run.EventCallEnded, Call: run.Key{Step: 1, ID: "c"}, End: &run.End{State: run.CallSucceeded}})
	if req := w.next(t, id); len(req.Results) != 2 || string(req.Results[0].Result) != `"yes"` {
		t.Errorf("%+v", req.Results)
	}
}

func TestCancelAndPause(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.asks(t, id, "a", "b")
	out, err := w.CancelCall(t.Context(), id, protocol.CancelOneCall{CallID: call("a"), Message: "no more", By: "ann"})
	came(t, out, err, run.ReasonCancelRequested)
	out, err = w.CancelCall(t.Context(), id, protocol.CancelOneCall{CallID: call("a")})
	came(t, out, err, run.ReasonDuplicateCancel)
	out, err = w.CancelCall(t.Context(), id, protocol.CancelOneCall{CallID: call("z")})
	came(t, out, err, run.ReasonUnknownCall)
	out, err = w.Pause(t.Context(), id, protocol.Pause{By: "ann"})
	came(t, out, err, run.ReasonPaused)
	out, err = w.Pause(t.Context(), id, protocol.Pause{})
	came(t, out, err, run.ReasonUnchanged)
	out, err = w.Unpause(t.Context(), id, protocol.Pause{})
	came(t, out, err, run.ReasonUnpaused)
	w.applyRun(t, id, run.Event{Type: run.EventCallStarted, Call: run.Key{Step: 1, ID: "b"}, Started: &run.Started{TaskID: "call_b"}})
	out, err = w.CancelRun(t.Context(), id, protocol.Cancel{By: "ann", Reason: "enough"})
	came(t, out, err, run.ReasonCancelRequested)
	out, err = w.CancelRun(t.Context(), id, protocol.Cancel{})
	came(t, out, err, run.ReasonDuplicateCancel)
	out, err = w.Say(t.Context(), id, said("1", "1"))
	came(t, out, err, run.ReasonRunEnding)
	_, err = w.CancelRun(t.Context(), id, protocol.Cancel{WaiterID: "me"})
	is(t, err, starter.ErrInvalid)
}

func TestAClosedRunAnswersFromItsRecord(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.endedRun(t, run.StateSucceeded)
	ctx := t.Context()
	for name, act := range map[string]func() (run.Outcome, error){
		"say":     func() (run.Outcome, error) { return w.Say(ctx, id, said("1", "1")) },
		"pause":   func() (run.Outcome, error) { return w.Pause(ctx, id, protocol.Pause{}) },
		"unpause": func() (run.Outcome, error) { return w.Unpause(ctx, id, protocol.Pause{}) },
		"cancel":  func() (run.Outcome, error) { return w.CancelRun(ctx, id, protocol.Cancel{}) },
	} {
		out, err := act()
		if came(t, out, err, run.ReasonRunClosed); out.State != run.StateSucceeded {
			t.Errorf("%s: %+v", name, out)
		}
	}
	out, err := w.Approve(ctx, id, protocol.Approve{CallID: call("a"), Decision: run.DecisionApprove})
	came(t, out, err, run.ReasonUnknownCall)
	// The id was used for something else, by somebody else.
	out, err = w.Say(ctx, id, said(starter.FirstInput, `{"q":1}`))
	came(t, out, err, run.ReasonInputConflict)
	w.engine.Terminate(runWorkflow(w.startRun(t, "killed")))
	_, err = w.Say(ctx, "killed", said("1", "1"))
	is(t, err, starter.ErrTerminated)
}
