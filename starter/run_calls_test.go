package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func submitCall(id string) protocol.SubmitCall {
	return protocol.SubmitCall{
		Tool: "train", Input: json.RawMessage(`{"n":1}`), TaskID: protocol.CallTaskID("r", 1, id), RunID: "r", ToolCallID: id, WaiterID: protocol.CallWaiterID("r", 1, id),
	}
}

// refusedCall checks that a call was answered.
func refusedCall(t testing.TB, err error, code string) domain.TaskError {
	t.Helper()
	var refused *protocol.CallRefused
	if !errors.As(err, &refused) || refused.Reason.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return refused.Reason
}

func TestCallsSubmitUnderTheirOwnId(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	m := submitCall("c")
	m.TTLMs = 60_000
	first, err := w.Calls().Submit(t.Context(), m)
	if err != nil || first.TaskID != m.TaskID || first.WaiterID != "" || first.Title != "train" || first.ExpiresAtMs != epoch+60_000 || first.Task != nil {
		t.Fatalf("%+v (%v)", first, err)
	}
	d, err := w.Describe(t.Context(), m.TaskID)
	if err != nil || d.Task.RunID != "r" || d.Task.ToolCallID != "c" {
		t.Errorf("%+v (%v)", d.Task, err)
	}
	again, err := w.Calls().Submit(t.Context(), m)
	if err != nil || again.TaskID != m.TaskID || w.engine.Runs(w.workflowID(m.TaskID)) != 1 {
		t.Errorf("%+v (%v)", again, err)
	}
	w.call(t, m.TaskID, "1", succeed())
	if again, err = w.Calls().Submit(t.Context(), m); err != nil || again.Task == nil || again.Task.State != domain.StateSucceeded {
		t.Errorf("%+v (%v)", again, err)
	}
}

func TestCallsShareTasks(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	for name, change := range map[string]func(*protocol.SubmitCall){
		"key":   func(m *protocol.SubmitCall) { m.IdempotencyKey = "k" },
		"cache": func(m *protocol.SubmitCall) { m.Tool = "search" },
	} {
		a, b := submitCall("a-"+name), submitCall("b-"+name)
		change(&a)
		change(&b)
		first, err := w.Calls().Submit(t.Context(), a)
		if err != nil || first.TaskID == a.TaskID || first.WaiterID != domain.WaiterSubmitter {
			t.Fatalf("%s: %+v (%v)", name, first, err)
		}
		second, err := w.Calls().Submit(t.Context(), b)
		if err != nil || second.TaskID != first.TaskID || second.WaiterID != b.WaiterID {
			t.Errorf("%s: %+v (%v)", name, second, err)
		}
	}
}

func TestCallsThatCannotBeBegunAreAnswered(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	for code, change := range map[string]func(*protocol.SubmitCall){
		run.CodeUnknownTool:  func(m *protocol.SubmitCall) { m.Tool = "trian" },
		run.CodeInvalidInput: func(m *protocol.SubmitCall) { m.Input = json.RawMessage(`{"n":"one"}`) },
	} {
		m := submitCall("c")
		change(&m)
		_, err := w.Calls().Submit(t.Context(), m)
		if reason := refusedCall(t, err, code); reason.Message == "" || reason.Class != domain.ClassUser {
			t.Errorf("%+v", reason)
		}
	}
	m := submitCall("c")
	if _, err := w.Calls().Submit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Input = json.RawMessage(`{"n":2}`)
	_, err := w.Calls().Submit(t.Context(), m)
	refusedCall(t, err, run.CodeNotStarted)
	w.engine.Down(true)
	_, err = w.Calls().Submit(t.Context(), submitCall("d"))
	is(t, err, starter.ErrUnavailable)
}

// A task that was terminated in the Temporal UI keeps its key: the run tried for ever to
// begin a call of that key, which no repeat could mend.
func TestCallsWhoseTaskWasTerminatedAreAnswered(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	m := submitCall("a")
	m.IdempotencyKey = "k"
	first, err := w.Calls().Submit(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	w.engine.Terminate(w.workflowID(first.TaskID))
	m.ToolCallID, m.WaiterID = "b", protocol.CallWaiterID("r", 1, "b")
	_, err = w.Calls().Submit(t.Context(), m)
	if reason := refusedCall(t, err, run.CodeTaskTerminated); reason.Class != domain.ClassSystem || !strings.Contains(reason.Message, "terminated") {
		t.Errorf("%+v", reason)
	}
	// One of the call's own is found, and a look says what became of it.
	own := submitCall("c")
	for range 2 {
		if out, err := w.Calls().Submit(t.Context(), own); err != nil || out.TaskID != own.TaskID || out.Task != nil {
			t.Errorf("%+v (%v)", out, err)
		}
		w.engine.Terminate(w.workflowID(own.TaskID))
	}
	if seen, err := w.Calls().Task(t.Context(), own.TaskID); err != nil || seen.Status != protocol.SeenTerminated {
		t.Errorf("%+v (%v)", seen, err)
	}
}

// refusingEngine answers starts and reads with its errors, if it has any.
type refusingEngine struct {
	starter.Engine
	start, get error
}

func (e refusingEngine) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if e.start != nil {
		return nil, e.start
	}
	return e.Engine.ExecuteWorkflow(ctx, o, workflow, args...)
}

func (e refusingEngine) GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun {
	return refusingRun{e.Engine.GetWorkflow(ctx, workflowID, runID), e.get}
}

type refusingRun struct {
	client.WorkflowRun
	err error
}

func (r refusingRun) Get(ctx context.Context, into any) error {
	if r.err != nil {
		return r.err
	}
	return r.WorkflowRun.Get(ctx, into)
}

func (w *world) refusing(t testing.TB, e refusingEngine) *starter.RunCalls {
	t.Helper()
	e.Engine = w.engine
	c, err := starter.New(starter.Options{Temporal: e, Config: w.config, Now: w.clock.Load, Store: w.store})
	if err != nil {
		t.Fatal(err)
	}
	return c.Calls()
}

// What the engine refuses for good is an answer to the call; what broke on the way, or an
// operator can mend, is not.
func TestCallsThatTheEngineRefuses(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	_, err := w.refusing(t, refusingEngine{start: serviceerror.NewInvalidArgument("no such thing")}).Submit(t.Context(), submitCall("a"))
	if reason := refusedCall(t, err, run.CodeNotStarted); reason.Class != domain.ClassSystem || reason.Message == "" {
		t.Errorf("%+v", reason)
	}
	for _, passing := range []error{
		serviceerror.NewUnavailable("down"), serviceerror.NewInternal("a shard moved"), serviceerror.NewPermissionDenied("no", ""), &net.OpError{Op: "read", Err: io.EOF},
	} {
		_, err := w.refusing(t, refusingEngine{start: passing}).Submit(t.Context(), submitCall("a"))
		var refused *protocol.CallRefused
		if err == nil || errors.As(err, &refused) {
			t.Errorf("%v became %v, want another try", passing, err)
		}
	}
}

// 584 years and a minute became a minute: a duration holds no more.
func TestCallsWithATimeToLiveOfAges(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	const minute = int64(18446744073709 + 61_000)
	for _, ttl := range []int64{minute, -minute, 1 << 62} {
		m := submitCall("c")
		m.TTLMs = ttl
		_, err := w.Calls().Submit(t.Context(), m)
		refusedCall(t, err, run.CodeInvalidInput)
		_, err = w.Calls().Start(t.Context(), protocol.SubmitRun{
			RunID: "sub_x", Runtime: "agent", Input: run.SubRunInput{TTLMs: ttl}, Parent: run.Parent{RunID: "r", Step: 1, ToolCallID: "c", Depth: 1},
		})
		if reason := refusedCall(t, err, run.CodeInvalidInput); !strings.Contains(reason.Message, "ttlMs must be at most 10d") {
			t.Errorf("%d: %s", ttl, reason.Message)
		}
	}
}

// A workflow that had closed with a record that could not be read was an error each time,
// and the call waited for its deadline.
func TestCallsLookAtBrokenRecords(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	w.submit(t, starter.Submission{TaskID: "done"})
	w.call(t, "done", "1", succeed())
	w.submit(t, starter.Submission{TaskID: "cancelled"})
	if _, err := w.Cancel(t.Context(), "cancelled", protocol.Cancel{}); err != nil {
		t.Fatal(err)
	}
	ended := w.endedRun(t, run.StateSucceeded)
	for what, broken := range map[string]error{
		"no JSON":           fmt.Errorf("payload item 0: %w", converter.ErrUnableToDecode),
		"another encoding":  fmt.Errorf("payload item 0: %w", converter.ErrEncodingIsNotSupported),
		"no details at all": temporal.NewCanceledError(),
		"another error":     temporal.NewApplicationError("m", "Whatever"),
	} {
		calls := w.refusing(t, refusingEngine{get: broken})
		for _, id := range []string{"done", "cancelled"} {
			if seen, err := calls.Task(t.Context(), id); err != nil || seen.Status != protocol.SeenEnded || seen.Task != nil || seen.AtMs == 0 {
				t.Errorf("%s, %s: %+v (%v)", what, id, seen, err)
			}
		}
		if seen, err := calls.Run(t.Context(), ended); err != nil || seen.Status != protocol.SeenEnded || seen.Run != nil || seen.AtMs == 0 {
			t.Errorf("%s: %+v (%v)", what, seen, err)
		}
	}
	for _, passing := range []error{serviceerror.NewUnavailable("down"), context.DeadlineExceeded} {
		if seen, err := w.refusing(t, refusingEngine{get: passing}).Task(t.Context(), "done"); err == nil {
			t.Errorf("%v: %+v", passing, seen)
		}
	}
}

func TestCallsStartRuns(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	m := protocol.SubmitRun{
		RunID: protocol.SubRunID("r", 1, "c"), Parent: run.Parent{RunID: "r", ToolCallID: "c", Step: 1, Depth: 1}, Runtime: "agent", Traceparent: "00-x",
		Input: run.SubRunInput{Title: "below", Input: json.RawMessage(`1`), TTLMs: 60_000},
	}
	out, err := w.Calls().Start(t.Context(), m)
	if err != nil || out.SubRunID != m.RunID || out.Title != "below" || out.ExpiresAtMs != epoch+60_000 {
		t.Fatalf("%+v (%v)", out, err)
	}
	in := w.engine.StartedRun(runWorkflow(m.RunID))
	if in.Create.Parent == nil || *in.Create.Parent != m.Parent || in.Create.Runtime != "agent" || string(in.Create.Input.Content) != "1" || in.Create.Traceparent != "00-x" {
		t.Errorf("%+v", in.Create)
	}
	if again, err := w.Calls().Start(t.Context(), m); err != nil || again.SubRunID != m.RunID || w.engine.Runs(runWorkflow(m.RunID)) != 1 {
		t.Errorf("%+v (%v)", again, err)
	}
	for code, change := range map[string]func(*protocol.SubmitRun){
		"the run that asks has none":   func(m *protocol.SubmitRun) { m.Runtime = "" },
		"no runtime \"agnet\"":         func(m *protocol.SubmitRun) { m.Input.Runtime = "agnet" },
		"nested deeper":                func(m *protocol.SubmitRun) { m.Parent.Depth = run.MaxDepth + 1 },
		"ttlMs must be at most 10d":    func(m *protocol.SubmitRun) { m.Input.TTLMs = 1e10 },
		"input.content must be valid":  func(m *protocol.SubmitRun) { m.Input.Input = json.RawMessage("{") },
		"ttlMs must be > 0, it is -1s": func(m *protocol.SubmitRun) { m.Input.TTLMs = -1000 },
	} {
		bad := m
		bad.RunID = protocol.SubRunID("r", 2, code)
		change(&bad)
		_, err := w.Calls().Start(t.Context(), bad)
		if reason := refusedCall(t, err, run.CodeInvalidInput); !strings.Contains(reason.Message, code) {
			t.Errorf("%q lacks %q", reason.Message, code)
		}
	}
	m.Input.Runtime = "other"
	_, err = w.Calls().Start(t.Context(), m)
	refusedCall(t, err, run.CodeNotStarted)
}

func TestCallsLookWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	calls := w.Calls()
	w.submit(t, starter.Submission{TaskID: "open"})
	w.submit(t, starter.Submission{TaskID: "done"})
	w.call(t, "done", "1", succeed())
	w.submit(t, starter.Submission{TaskID: "killed"})
	w.engine.Terminate(w.workflowID("killed"))
	w.startRun(t, "open")
	w.startRun(t, "killed")
	w.engine.Terminate(runWorkflow("killed"))
	ended := []string{w.endedRun(t, run.StateSucceeded), w.endedRun(t, run.StateFailed), w.endedRun(t, run.StateCancelled)}
	w.clock.Add(1000)
	w.engine.Workers(false)
	for id, want := range map[string]protocol.SeenStatus{
		"open": protocol.SeenOpen, "killed": protocol.SeenTerminated, "nobody": protocol.SeenNone,
	} {
		if seen, err := calls.Task(t.Context(), id); err != nil || seen.Status != want || seen.Task != nil {
			t.Errorf("task %s: %+v (%v)", id, seen, err)
		}
		if seen, err := calls.Run(t.Context(), id); err != nil || seen.Status != want || seen.Run != nil || (want == protocol.SeenTerminated) != (seen.AtMs > 0) {
			t.Errorf("run %s: %+v (%v)", id, seen, err)
		}
	}
	if seen, err := calls.Task(t.Context(), "done"); err != nil || seen.Status != protocol.SeenEnded || seen.Task.State != domain.StateSucceeded || seen.AtMs != epoch || len(seen.Task.History) != 0 {
		t.Errorf("%+v (%v)", seen, err)
	}
	for _, id := range ended {
		if seen, err := calls.Run(t.Context(), id); err != nil || seen.Status != protocol.SeenEnded || !seen.Run.Run.State.Terminal() || seen.AtMs != epoch {
			t.Errorf("%s: %+v (%v)", id, seen, err)
		}
	}
	w.engine.Down(true)
	_, err := calls.Task(t.Context(), "open")
	is(t, err, starter.ErrUnavailable)
}

func TestCallsTellWhatTheRunWants(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	calls, ctx := w.Calls(), t.Context()
	w.submit(t, starter.Submission{TaskID: "t"})
	w.startRun(t, "r")
	cancel := func(taskID string, c protocol.Cancel) error {
		left, err := calls.Cancel(ctx, taskID, c)
		if left {
			t.Errorf("nobody else waits for task %s", taskID)
		}
		return err
	}
	for what, err := range map[string]error{
		"cancel":              cancel("t", protocol.Cancel{Reason: "enough"}),
		"cancel again":        cancel("t", protocol.Cancel{}),
		"cancel nothing":      cancel("nobody", protocol.Cancel{}),
		"cancel a run":        calls.CancelRun(ctx, "r", protocol.Cancel{WaiterID: "w"}),
		"cancel a run again":  calls.CancelRun(ctx, "r", protocol.Cancel{}),
		"cancel no run":       calls.CancelRun(ctx, "nobody", protocol.Cancel{}),
		"detach":              calls.Detach(ctx, "t", protocol.Detach{WaiterID: "w"}),
		"detach from nothing": calls.Detach(ctx, "nobody", protocol.Detach{WaiterID: "w"}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if out, err := calls.Reconcile(ctx, "t", "ann"); err != nil || out.After.State != domain.StateCancelled {
		t.Errorf("%+v (%v)", out, err)
	}
	if d, err := w.DescribeRun(ctx, "r"); err != nil || d.Run.State != run.StateCancelled {
		t.Errorf("%s (%v)", d.Run.State, err)
	}
}
