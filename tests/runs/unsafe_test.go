package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const unsafeTools = `
tools:
  pay: {executor: script, ttl: 1h, poll: 100ms, effects: unsafe, maxAttempts: 1}
  build: {executor: script, ttl: 1h, poll: 100ms, maxAttempts: 2}
  cached: {executor: script, ttl: 1h, poll: 100ms, cache: {ttl: 1h}}
runtimes: {assistant: {pull: {}}}
`

// A call of an unsafe tool of unknown outcome is not repeated: the run waits for the
// person who is asked, says so, and goes on with what that person says.
func TestAnUnsafeCallGoesToAPerson(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	s := harness.NewScript()
	b := harness.NewBed(ctx, t, shared, unsafeTools, s)
	b.StartWorker()
	started, err := b.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant"})
	require.NoError(t, err)
	id := started.RunID
	taskID := protocol.CallTaskID(id, 1, "p")
	s.Say(b.JobKey(taskID, 1), tool.Observation{State: tool.StateLost, Error: &tool.Failure{Code: "KILLED", Message: "its host went away"}})
	step(ctx, t, b.Installation, id, run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "p", Tool: "pay"}}})
	until(ctx, t, b.Installation, id, callIs(1, "p", run.CallOpen))
	b.Until(taskID, "a person is asked", func(d starter.Description) bool { return d.Task.Manual != nil })
	d, err := b.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	require.Equal(t, domain.PhaseWaitingInput, d.Calls[0].Phase)
	require.Equal(t, "a person to find out whether the work was done", d.Calls[0].WaitsFor)
	rec, err := b.Client.RecoverRun(ctx, id, protocol.Recover{By: "ann"})
	require.NoError(t, err)
	require.Zero(t, rec.Changed, "a recovery does not repeat what must not be repeated")
	_, err = b.Client.Resolve(ctx, taskID, protocol.Resolve{Action: domain.ResolveSucceeded, Result: raw(`{"paid":true}`), By: "ann"})
	require.NoError(t, err)
	req := step(ctx, t, b.Installation, id, run.StepResponse{Final: raw(`1`)})
	require.JSONEq(t, `{"paid":true}`, string(req.Results[0].Result))
	require.Equal(t, 1, s.Counts(b.JobKey(taskID, 1)).Submits)
	ended(ctx, t, b.Installation, id)
}

// Equal calls of a tool with a cache share one task, also of two runs, and so do calls
// with one idempotency key. Cancelling for one of them does not take it from the other.
func TestCallsThatShareATask(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	s := harness.NewScript()
	b := harness.NewBed(ctx, t, shared, unsafeTools, s)
	b.StartWorker()
	var ids []string
	for range 2 {
		started, err := b.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant"})
		require.NoError(t, err)
		ids = append(ids, started.RunID)
		step(ctx, t, b.Installation, started.RunID, run.StepResponse{ToolCalls: []run.ToolCall{
			{ToolCallID: "c", Tool: "cached", Input: raw(`{"n":1}`)}, {ToolCallID: "k", Tool: "build", IdempotencyKey: "one"},
		}})
		until(ctx, t, b.Installation, started.RunID, func(r run.Run) bool { return callIs(1, "c", run.CallOpen)(r) && callIs(1, "k", run.CallOpen)(r) })
	}
	tasks := map[string]string{}
	for _, id := range ids {
		d, err := b.Client.DescribeRun(ctx, id)
		require.NoError(t, err)
		for _, c := range d.Calls {
			if tasks[c.ToolCallID] == "" {
				tasks[c.ToolCallID] = c.TaskID
			}
			require.Equal(t, tasks[c.ToolCallID], c.TaskID)
		}
	}
	_, err := b.Client.CancelCall(ctx, ids[0], protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: "k"}, Message: "not for me", By: "ann"})
	require.NoError(t, err)
	b.Until(tasks["k"], "one has left", func(d starter.Description) bool { return len(d.Waiting) == 1 })
	s.Say(b.JobKey(tasks["c"], 1), harness.Result(`{"cached":1}`))
	s.Say(b.JobKey(tasks["k"], 1), harness.Result(`{"built":1}`))
	for i, id := range ids {
		req := step(ctx, t, b.Installation, id, run.StepResponse{Final: raw(`1`)})
		require.JSONEq(t, `{"cached":1}`, string(req.Results[0].Result))
		if i == 0 {
			require.Equal(t, run.CallCancelled, req.Results[1].State)
			continue
		}
		require.JSONEq(t, `{"built":1}`, string(req.Results[1].Result))
	}
	require.Equal(t, 1, s.Counts(b.JobKey(tasks["c"], 1)).Submits)
}
