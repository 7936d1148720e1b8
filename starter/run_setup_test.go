package starter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const declaredRuns = `
tenant: acme
maxTTL: 10d
tools:
  train: {executor: external, ttl: 1h, maxTTL: 2d, lease: 30s, inputSchema: {type: object, properties: {n: {type: integer}}}}
  search: {executor: external, ttl: 1h, cache: {ttl: 1h}}
runtimes:
  agent: {pull: {}, version: "7", ttl: 2h, limits: {maxSteps: 5, maxCalls: 10, maxTokens: 1000}}
  other: {pull: {}}
  graph: {activity: {taskQueue: agents}}
`

// setupRuns is a world with runtimes and a blob store.
func setupRuns(t testing.TB, change ...func(*starter.Options)) *world {
	t.Helper()
	cfg, err := config.Parse("wakepoint.yaml", []byte(declaredRuns))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return setup(t, append([]func(*starter.Options){func(o *starter.Options) { o.Config, o.Store = cfg, st }}, change...)...)
}

// runsInBubble is setupRuns with a clock that moves when everybody waits.
func runsInBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := setupRuns(t, func(o *starter.Options) { o.Now = nil })
		w.engine.Now = func() int64 { return time.Now().UnixMilli() }
		f(t, w)
	})
}

func (w *world) startRun(t testing.TB, id string) string {
	t.Helper()
	out, err := w.StartRun(t.Context(), starter.RunStart{RunID: id, Runtime: "agent", Input: json.RawMessage(`{"q":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	return out.RunID
}

func (w *world) next(t testing.TB, runID string) run.StepRequest {
	t.Helper()
	req, err := w.Next(t.Context(), runID, starter.NextOptions{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func (w *world) commit(t testing.TB, runID string, resp run.StepResponse) run.Outcome {
	t.Helper()
	req := w.next(t, runID)
	out, err := w.Commit(t.Context(), runID, req.Step, req.StepToken, resp)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// applyRun lets happen what the workflow would.
func (w *world) applyRun(t testing.TB, runID string, e run.Event) {
	t.Helper()
	if err := w.engine.ApplyRun(runWorkflow(runID), e); err != nil {
		t.Fatal(err)
	}
}

func runWorkflow(runID string) string { return protocol.RunWorkflowID("acme", runID) }

// asks commits a step with these calls of train and parks the run.
func (w *world) asks(t testing.TB, runID string, ids ...string) {
	t.Helper()
	var calls []run.ToolCall
	for _, id := range ids {
		calls = append(calls, run.ToolCall{ToolCallID: id, Tool: "train"})
	}
	w.commit(t, runID, run.StepResponse{ToolCalls: calls, Checkpoint: json.RawMessage(`{"at":1}`)})
}

// endedRun gives the id of a run that has come to a state.
func (w *world) endedRun(t testing.TB, state run.State) string {
	t.Helper()
	id := w.startRun(t, "ended-"+strings.ToLower(string(state)))
	switch state {
	case run.StateSucceeded:
		w.commit(t, id, run.StepResponse{Final: json.RawMessage(`{ "ok" : true }`)})
	case run.StateFailed:
		w.commit(t, id, run.StepResponse{Error: taskError("BROKEN")})
	case run.StateCancelled:
		if _, err := w.CancelRun(t.Context(), id, protocol.Cancel{By: "ann"}); err != nil {
			t.Fatal(err)
		}
	case run.StateExpired:
		w.clock.Add((2 * time.Hour).Milliseconds())
	case run.StateRunning, run.StateWaitingTool, run.StateWaitingInput, run.StatePaused:
		t.Fatalf("%s is no end", state)
	}
	d, err := w.DescribeRun(t.Context(), id)
	if err != nil || d.Run.State != state || !d.Closed {
		t.Fatalf("run is %s, closed %v (%v)", d.Run.State, d.Closed, err)
	}
	return id
}
