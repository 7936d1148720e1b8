package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// What happens while no worker is there.

const awayTools = `
tools:
  review:
    executor: external
    ttl: 1h
  brief:
    executor: external
    ttl: 15s
  blink:
    executor: external
    ttl: 2s
`

// impatient is a client that soon leaves a callback as a signal.
func (b bed) impatient() *starter.Client {
	return b.client(func(o *starter.Options) { o.UpdateTimeout, o.QueryTimeout = 300*time.Millisecond, 300*time.Millisecond })
}

// The worker is away over the deadline, and callbacks come on both sides of it,
// by both doors. Those that came in time have happened in time, whatever the
// timer says that rang meanwhile; the others are late.
func TestWorkerAwayOverTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 4*time.Minute), t, awayTools, nil)
	b.StartWorker()
	// By signal the sender's time counts, clamped to now; by update through the
	// gateway's client, the time of receipt.
	claims := []struct {
		name    string
		claimed time.Duration
		want    domain.State
	}{
		{"an hour before", -time.Hour, domain.StateSucceeded},
		{"a millisecond before", -time.Millisecond, domain.StateSucceeded},
		{"exactly then", 0, domain.StateExpired},
		{"a millisecond after", time.Millisecond, domain.StateExpired},
		{"an hour after", time.Hour, domain.StateExpired},
	}
	deadline := make(map[string]int64)
	begin := func(id string) {
		b.submit("brief", id)
		deadline[id] = b.describe(id).Task.ExpiresAtMs
	}
	for i := range claims {
		begin(fmt.Sprintf("signal-%d", i))
		begin(fmt.Sprintf("update-%d", i))
	}
	begin("in-time")
	begin("too-late")
	b.StopWorker()
	c := b.impatient()

	v, err := c.Callback(b.ctx, "in-time", domain.Callback{CallbackID: "c", Event: succeed("h")})
	require.NoError(t, err)
	require.Less(t, time.Now().UnixMilli(), deadline["in-time"], "the machine is too slow for this test's deadline")
	require.Equal(t, starter.VerdictTaken, v.Verdict)
	last := deadline["too-late"]
	harness.Until(t, time.Minute, "every deadline is over", func() bool { return time.Now().UnixMilli() > last+100 })
	v, err = c.Callback(b.ctx, "too-late", domain.Callback{CallbackID: "c", Event: succeed("h")})
	require.NoError(t, err)
	require.Equal(t, starter.VerdictTaken, v.Verdict)

	answers := make(map[string]chan domain.Outcome)
	for i, claim := range claims {
		by := func(id string) domain.Callback {
			e := succeed("h")
			e.AtMs = deadline[id] + claim.claimed.Milliseconds()
			return domain.Callback{CallbackID: "c", DeliveryID: "d", Event: e}
		}
		id := fmt.Sprintf("signal-%d", i)
		require.NoError(t, b.Temporal.SignalWorkflow(b.ctx, b.workflowID(id), "", protocol.SignalCallback, by(id)))
		id = fmt.Sprintf("update-%d", i)
		answers[id] = b.rawUpdate(id, by(id))
	}
	for i := range claims {
		b.admitted(fmt.Sprintf("update-%d", i), "c")
	}
	b.StartWorker()
	for i, claim := range claims {
		for _, door := range []string{"signal", "update"} {
			id := fmt.Sprintf("%s-%d", door, i)
			b.closed(id)
			got := b.describe(id).Task
			require.Equal(t, claim.want, got.State, "%s, claimed %s", id, claim.name)
			if claim.want == domain.StateExpired {
				require.Equal(t, deadline[id], got.EndedAtMs, "an expired task ended at its deadline")
			}
		}
		out := <-answers[fmt.Sprintf("update-%d", i)]
		require.Equal(t, claim.want == domain.StateExpired, out.Late, "claimed %s: %+v", claim.name, out)
	}
	b.closed("in-time")
	require.Equal(t, domain.StateSucceeded, b.describe("in-time").Task.State)
	b.closed("too-late")
	require.Equal(t, domain.StateExpired, b.describe("too-late").Task.State)
	again := b.callback("too-late", "another", succeed("h"))
	require.Equal(t, starter.VerdictLate, again.Verdict)
}

// rawUpdate sends an update as a bridge with only a Temporal client would, and
// waits for its outcome beside the test. Without one the channel is closed.
func (b bed) rawUpdate(taskID string, cb domain.Callback) chan domain.Outcome {
	b.t.Helper()
	answer := make(chan domain.Outcome, 1)
	go func() {
		defer close(answer)
		for {
			h, err := b.Temporal.UpdateWorkflow(b.ctx, client.UpdateWorkflowOptions{
				WorkflowID: b.workflowID(taskID), UpdateName: protocol.UpdateCallback, UpdateID: protocol.CallbackUpdateID(cb.CallbackID),
				Args: []any{cb}, WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			var out domain.Outcome
			if err == nil {
				err = h.Get(b.ctx, &out)
			}
			var gone *serviceerror.NotFound
			switch {
			case err == nil:
				answer <- out
				return
			case b.ctx.Err() != nil, errors.As(err, &gone), temporal.IsApplicationError(err):
				b.t.Logf("update of %s: %v", taskID, err)
				return
			}
		}
	}()
	return answer
}

// admitted waits until the engine holds an update that no worker has seen.
func (b bed) admitted(taskID, callbackID string) {
	b.t.Helper()
	harness.Until(b.t, time.Minute, "the engine has the update of "+taskID, func() bool {
		_, err := b.Temporal.WorkflowService().PollWorkflowExecutionUpdate(b.ctx, &workflowservice.PollWorkflowExecutionUpdateRequest{
			Namespace:  "default",
			UpdateRef:  &updatepb.UpdateRef{WorkflowExecution: b.execution(taskID), UpdateId: protocol.CallbackUpdateID(callbackID)},
			WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED},
		})
		return err == nil
	})
}

// An update that no worker answers is left as a signal. The engine may still
// have the update too; when a worker comes, the callback is applied once, and
// neither of the two is called a repeat of the other.
func TestUpdateThatFellBackToASignal(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	b.StartWorker()
	id := b.submit("review", "t-1")
	b.callback(id, "begin", start("ann"))
	b.StopWorker()

	c := b.impatient()
	cb := domain.Callback{CallbackID: "half", DeliveryID: "delivery-1", Event: progress(50, "")}
	cb.Event.AtMs = time.Now().UnixMilli()
	v, err := c.Callback(b.ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.Verdict{Verdict: starter.VerdictTaken}, v)
	// The same delivery is still on its way to be answered as an update.
	waiting := b.rawUpdate(id, cb)
	b.admitted(id, cb.CallbackID)

	b.StartWorker()
	b.until(id, "the progress", func(d starter.Description) bool { return d.Task.Progress == 50 })
	v, err = b.Client.Callback(b.ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.VerdictAccepted, v.Verdict, "the same delivery asked again is told what it came to")
	require.Equal(t, domain.ReasonProgress, v.Outcome.Reason)
	if out, ok := <-waiting; ok {
		require.False(t, out.Duplicate)
		require.Equal(t, domain.ReasonProgress, out.Reason)
	}
	d := b.describe(id)
	require.Zero(t, d.Repeats, "nothing was a repeat so far")
	require.Equal(t, int64(2), d.Task.Version)

	cb.DeliveryID = "delivery-2"
	v, err = b.Client.Callback(b.ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.VerdictDuplicate, v.Verdict, "another delivery of it is a repeat")
}

// A cancel that no worker answers is left with the engine, too.
func TestCancelWithoutAWorkerIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	id := b.submit("review", "t-1")
	out, err := b.impatient().Cancel(b.ctx, id, protocol.Cancel{By: "olga"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonCancelRequested, out.Reason)
	b.StartWorker()
	b.closed(id)
	require.Equal(t, domain.StateCancelled, b.describe(id).Task.State)
}

// What is closed is read, and answers callbacks, with nobody there but the
// engine.
func TestClosedTasksNeedNoWorker(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	b.StartWorker()
	b.submit("review", "good")
	b.callback("good", "begin", start("ann"))
	b.callback("good", "end", succeed("h"))
	b.closed("good")
	b.submit("blink", "slow")
	b.closed("slow")
	b.submit("review", "bad")
	b.callback("bad", "end", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "BROKEN", Message: "no"}})
	b.closed("bad")
	b.StopWorker()

	for id, want := range map[string]domain.State{"good": domain.StateSucceeded, "slow": domain.StateExpired, "bad": domain.StateFailed} {
		d := b.describe(id)
		require.True(t, d.Closed)
		require.Equal(t, want, d.Task.State)
		p, err := b.Client.Resume(b.ctx, id, 0)
		require.NoError(t, err)
		require.Equal(t, domain.ModeDelta, p.Mode)
	}
	for _, tc := range []struct {
		task, callbackID string
		event            domain.Event
		reason           domain.Reason
		verdict          starter.CallbackVerdict
	}{
		{"good", "end", succeed("h"), domain.ReasonDuplicateCallback, starter.VerdictDuplicate},
		{"good", "end", succeed("other"), domain.ReasonDuplicateCallback, starter.VerdictConflict},
		{"good", "new-1", succeed("h"), domain.ReasonDuplicateResult, starter.VerdictDuplicate},
		{"good", "new-2", succeed("other"), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"good", "new-3", progress(10, ""), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"bad", "new-4", succeed("h"), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"slow", "new-5", succeed("h"), domain.ReasonTerminalConflict, starter.VerdictLate},
	} {
		v := b.callback(tc.task, tc.callbackID, tc.event)
		require.Equal(t, tc.reason, v.Outcome.Reason, "%s %s", tc.task, tc.callbackID)
		require.Equal(t, tc.verdict, v.Verdict, "%s %s", tc.task, tc.callbackID)
		require.False(t, v.Outcome.Changed)
	}
	v, err := b.Client.Callback(b.ctx, "nobody", domain.Callback{CallbackID: "x", Event: succeed("h")})
	require.ErrorIs(t, err, starter.ErrUnknownTask)
	require.Equal(t, starter.VerdictUnknownTask, v.Verdict)
	_, err = b.Client.Callback(b.ctx, "good", domain.Callback{CallbackID: " ", Event: succeed("h")})
	require.ErrorIs(t, err, starter.ErrInvalid)

	// While nobody is there, what is open cannot be read, and says why.
	b.submit("review", "open")
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	_, err = b.impatient().Describe(ctx, "open")
	require.ErrorIs(t, err, starter.ErrNoWorker)
}
