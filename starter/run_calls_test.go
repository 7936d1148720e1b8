package starter_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

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
