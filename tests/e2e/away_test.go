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
	return b.NewClient(func(o *starter.Options) { o.UpdateTimeout, o.QueryTimeout = 300*time.Millisecond, 300*time.Millisecond })
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
		b.Submit("brief", id)
		deadline[id] = b.Describe(id).Task.ExpiresAtMs
	}
	for i := range claims {
		begin(fmt.Sprintf("signal-%d", i))
		begin(fmt.Sprintf("update-%d", i))
	}
	begin("in-time")
	begin("too-late")
	b.StopWorker()
	c := b.impatient()

	v, err := c.Callback(b.Ctx, "in-time", domain.Callback{CallbackID: "c", Event: harness.Succeed("h")})
	require.NoError(t, err)
	require.Less(t, time.Now().UnixMilli(), deadline["in-time"], "the machine is too slow for this test's deadline")
	require.Equal(t, starter.VerdictTaken, v.Verdict)
	last := deadline["too-late"]
	harness.Until(t, time.Minute, "every deadline is over", func() bool { return time.Now().UnixMilli() > last+100 })
	v, err = c.Callback(b.Ctx, "too-late", domain.Callback{CallbackID: "c", Event: harness.Succeed("h")})
	require.NoError(t, err)
	require.Equal(t, starter.VerdictTaken, v.Verdict)

	answers := make(map[string]chan domain.Outcome)
	for i, claim := range claims {
		by := func(id string) domain.Callback {
			e := harness.Succeed("h")
			e.AtMs = deadline[id] + claim.claimed.Milliseconds()
			return domain.Callback{CallbackID: "c", DeliveryID: "d", Event: e}
		}
		id := fmt.Sprintf("signal-%d", i)
		require.NoError(t, b.Temporal.SignalWorkflow(b.Ctx, b.WorkflowID(id), "", protocol.SignalCallback, by(id)))
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
			b.UntilClosed(id)
			got := b.Describe(id).Task
			require.Equal(t, claim.want, got.State, "%s, claimed %s", id, claim.name)
			if claim.want == domain.StateExpired {
				require.Equal(t, deadline[id], got.EndedAtMs, "an expired task ended at its deadline")
			}
		}
		out := <-answers[fmt.Sprintf("update-%d", i)]
		require.Equal(t, claim.want == domain.StateExpired, out.Late, "claimed %s: %+v", claim.name, out)
	}
	b.UntilClosed("in-time")
	require.Equal(t, domain.StateSucceeded, b.Describe("in-time").Task.State)
	b.UntilClosed("too-late")
	require.Equal(t, domain.StateExpired, b.Describe("too-late").Task.State)
	again := b.Callback("too-late", "another", harness.Succeed("h"))
	require.Equal(t, starter.VerdictLate, again.Verdict)
}

// rawUpdate sends an update as a bridge with only a Temporal client would, and
// waits for its outcome beside the test. Without one the channel is closed.
func (b bed) rawUpdate(taskID string, cb domain.Callback) chan domain.Outcome {
	b.T.Helper()
	answer := make(chan domain.Outcome, 1)
	go func() {
		defer close(answer)
		for {
			h, err := b.Temporal.UpdateWorkflow(b.Ctx, client.UpdateWorkflowOptions{
				WorkflowID: b.WorkflowID(taskID), UpdateName: protocol.UpdateCallback, UpdateID: protocol.CallbackUpdateID(cb.CallbackID),
				Args: []any{cb}, WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			var out domain.Outcome
			if err == nil {
				err = h.Get(b.Ctx, &out)
			}
			var gone *serviceerror.NotFound
			switch {
			case err == nil:
				answer <- out
				return
			case b.Ctx.Err() != nil, errors.As(err, &gone), temporal.IsApplicationError(err):
				b.T.Logf("update of %s: %v", taskID, err)
				return
			}
		}
	}()
	return answer
}

// admitted waits until the engine holds an update that no worker has seen.
func (b bed) admitted(taskID, callbackID string) {
	b.T.Helper()
	harness.Until(b.T, time.Minute, "the engine has the update of "+taskID, func() bool {
		_, err := b.Temporal.WorkflowService().PollWorkflowExecutionUpdate(b.Ctx, &workflowservice.PollWorkflowExecutionUpdateRequest{
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
	id := "t-1"
	b.Submit("review", id)
	b.Callback(id, "begin", harness.Start("ann"))
	b.StopWorker()

	c := b.impatient()
	cb := domain.Callback{CallbackID: "half", DeliveryID: "delivery-1", Event: harness.Progress(50, "")}
	cb.Event.AtMs = time.Now().UnixMilli()
	v, err := c.Callback(b.Ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.Verdict{Verdict: starter.VerdictTaken}, v)
	// The same delivery is still on its way to be answered as an update.
	waiting := b.rawUpdate(id, cb)
	b.admitted(id, cb.CallbackID)

	b.StartWorker()
	b.Until(id, "the progress", func(d starter.Description) bool { return d.Task.Progress == 50 })
	v, err = b.Client.Callback(b.Ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.VerdictAccepted, v.Verdict, "the same delivery asked again is told what it came to")
	require.Equal(t, domain.ReasonProgress, v.Outcome.Reason)
	if out, ok := <-waiting; ok {
		require.False(t, out.Duplicate)
		require.Equal(t, domain.ReasonProgress, out.Reason)
	}
	d := b.Describe(id)
	require.Zero(t, d.Repeats, "nothing was a repeat so far")
	require.Equal(t, int64(2), d.Task.Version)

	cb.DeliveryID = "delivery-2"
	v, err = b.Client.Callback(b.Ctx, id, cb)
	require.NoError(t, err)
	require.Equal(t, starter.VerdictDuplicate, v.Verdict, "another delivery of it is a repeat")
}

// A cancel that no worker answers is left with the engine, too.
func TestCancelWithoutAWorkerIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	id := "t-1"
	b.Submit("review", id)
	out, err := b.impatient().Cancel(b.Ctx, id, protocol.Cancel{By: "olga"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonCancelRequested, out.Reason)
	b.StartWorker()
	b.UntilClosed(id)
	require.Equal(t, domain.StateCancelled, b.Describe(id).Task.State)
}

// What is closed is read, and answers callbacks, with nobody there but the
// engine.
func TestClosedTasksNeedNoWorker(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	b.StartWorker()
	b.Submit("review", "good")
	b.Callback("good", "begin", harness.Start("ann"))
	b.Callback("good", "end", harness.Succeed("h"))
	b.UntilClosed("good")
	b.Submit("blink", "slow")
	b.UntilClosed("slow")
	b.Submit("review", "bad")
	b.Callback("bad", "end", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "BROKEN", Message: "no"}})
	b.UntilClosed("bad")
	b.StopWorker()

	for id, want := range map[string]domain.State{"good": domain.StateSucceeded, "slow": domain.StateExpired, "bad": domain.StateFailed} {
		d := b.Describe(id)
		require.True(t, d.Closed)
		require.Equal(t, want, d.Task.State)
		p, err := b.Client.Resume(b.Ctx, id, 0)
		require.NoError(t, err)
		require.Equal(t, domain.ModeDelta, p.Mode)
	}
	for _, tc := range []struct {
		task, callbackID string
		event            domain.Event
		reason           domain.Reason
		verdict          starter.CallbackVerdict
	}{
		{"good", "end", harness.Succeed("h"), domain.ReasonDuplicateCallback, starter.VerdictDuplicate},
		{"good", "end", harness.Succeed("other"), domain.ReasonDuplicateCallback, starter.VerdictConflict},
		{"good", "new-1", harness.Succeed("h"), domain.ReasonDuplicateResult, starter.VerdictDuplicate},
		{"good", "new-2", harness.Succeed("other"), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"good", "new-3", harness.Progress(10, ""), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"bad", "new-4", harness.Succeed("h"), domain.ReasonTerminalConflict, starter.VerdictConflict},
		{"slow", "new-5", harness.Succeed("h"), domain.ReasonTerminalConflict, starter.VerdictLate},
	} {
		v := b.Callback(tc.task, tc.callbackID, tc.event)
		require.Equal(t, tc.reason, v.Outcome.Reason, "%s %s", tc.task, tc.callbackID)
		require.Equal(t, tc.verdict, v.Verdict, "%s %s", tc.task, tc.callbackID)
		require.False(t, v.Outcome.Changed)
	}
	v, err := b.Client.Callback(b.Ctx, "nobody", domain.Callback{CallbackID: "x", Event: harness.Succeed("h")})
	require.ErrorIs(t, err, starter.ErrUnknownTask)
	require.Equal(t, starter.VerdictUnknownTask, v.Verdict)
	_, err = b.Client.Callback(b.Ctx, "good", domain.Callback{CallbackID: " ", Event: harness.Succeed("h")})
	require.ErrorIs(t, err, starter.ErrInvalid)

	// While nobody is there, what is open cannot be read, and says why.
	b.Submit("review", "open")
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
	defer cancel()
	_, err = b.impatient().Describe(ctx, "open")
	require.ErrorIs(t, err, starter.ErrNoWorker)
}
