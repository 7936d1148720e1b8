package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// A tool whose job is watched by polling and whose worker also holds a lease.
const watchedTool = `
tools:
  build:
    executor: script
    ttl: 2h
    lease: 10m
    poll: 100ms
`

// Waiting is free: however often the outside is looked at, and however often
// the worker outside says that it lives, the history stays what it was, to the
// last byte. How often is set in sizes_*_test.go.
func TestWaitingIsFree(t *testing.T) {
	t.Parallel()
	script := harness.NewScript()
	b := newBed(within(t, waitingTakes), t, watchedTool, script)
	b.StartWorker()
	id := "t-1"
	b.Submit("build", id)
	key := b.JobKey(id, 1)
	require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Looks > fewPolls }))
	// The submission looks once itself, and a look is counted before the
	// engine has heard of it, so there were at least as many polls.
	awaitPending(b, id, protocol.ActivityLease, protocol.ActivityProbe)
	early := exactly(t, b.History(id))
	require.Contains(t, early, protocol.ActivityLease)

	require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Looks > manyPolls }))
	require.Equal(t, early, exactly(t, b.History(id)), "%d polls left something in the history that %d had not", manyPolls, fewPolls)

	beat := func(n int) {
		for i := range n {
			a, err := b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1, Details: fmt.Appendf(nil, `{"beat":%d}`, i)})
			require.NoError(t, err)
			require.False(t, a.CancelRequested)
		}
	}
	beat(fewBeats)
	require.Equal(t, early, exactly(t, b.History(id)), "after %d heartbeats", fewBeats)
	began := time.Now()
	beat(manyBeats - fewBeats)
	t.Logf("%.0f heartbeats a second", float64(manyBeats-fewBeats)/time.Since(began).Seconds())
	require.Equal(t, early, exactly(t, b.History(id)), "after %d heartbeats", manyBeats)

	// The lease was open all the time, and its last heartbeat is there to see.
	d := b.Describe(id)
	require.Len(t, d.Pending, 2)
	for _, p := range d.Pending {
		switch p.Type {
		case protocol.ActivityLease:
			require.JSONEq(t, fmt.Sprintf(`{"beat":%d}`, manyBeats-fewBeats-1), string(p.Heartbeat))
			require.EqualValues(t, 1, p.Attempt)
		case protocol.ActivityProbe:
			require.Greater(t, p.Attempt, int32(manyPolls/2), "polling is the retry of one activity")
		}
	}
	require.Zero(t, d.Task.Version-1, "the task itself has only started")

	script.Say(key, harness.Result(`{"ok":true}`))
	done := b.UntilState(id, domain.StateSucceeded)
	require.Equal(t, int64(2), done.Task.Version)
	require.Less(t, len(b.History(id)), 40, "start, submit, two activities and the end")
}

// awaitPending waits until activities are pending and have been started.
func awaitPending(b bed, taskID string, types ...string) {
	b.T.Helper()
	harness.Until(b.T, time.Minute, fmt.Sprintf("%v are open", types), func() bool {
		d, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(taskID), "")
		require.NoError(b.T, err)
		open := 0
		for _, p := range d.RawResponse.GetPendingActivities() {
			for _, want := range types {
				begun := p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED || p.GetAttempt() > 1
				if p.GetActivityType().GetName() == want && begun {
					open++
				}
			}
		}
		return open == len(types)
	})
}

const leasedTools = `
tools:
  review:
    executor: external
    ttl: 1h
    lease: 2s
    backoff: {initial: 1ms, max: 1ms}
  slow-review:
    executor: external
    ttl: 1h
    lease: 10m
  build:
    executor: script
    ttl: 1h
    lease: 2s
    poll: 100ms
`

// The answer to a heartbeat says that the work is to be given up, and the
// worker's word that it has stopped ends the task.
func TestHeartbeatBringsTheRequestToCancel(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, leasedTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("slow-review", id)
	b.Callback(id, "s", harness.Start("ann"))
	awaitPending(b, id, protocol.ActivityLease)
	a, err := b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
	require.NoError(t, err)
	require.False(t, a.CancelRequested)

	out, err := b.Client.Cancel(b.Ctx, id, protocol.Cancel{By: "olga", Reason: "not needed"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonCancelRequested, out.Reason)
	harness.Until(t, time.Minute, "a heartbeat is told of the cancel", func() bool {
		a, err := b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
		require.NoError(t, err)
		return a.CancelRequested
	})
	require.Equal(t, domain.StateRunning, b.Describe(id).Task.State, "a request is not an end")
	v := b.Callback(id, "stopped", domain.Event{Type: domain.EventCancelled, Attempt: 1})
	require.Equal(t, domain.ReasonCancelled, v.Outcome.Reason)
	d := b.UntilState(id, domain.StateCancelled)
	require.True(t, *d.Task.Confirmed)
	_, err = b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
	require.ErrorIs(t, err, starter.ErrEnded)
}

// A real lease runs out: the server notices the silence, the outside is asked,
// and it says that the work goes on.
func TestSilentLeaseIsAskedAboutAndRenewed(t *testing.T) {
	t.Parallel()
	script := harness.NewScript()
	b := newBed(within(t, 3*time.Minute), t, leasedTools, script)
	b.StartWorker()
	id := "t-1"
	b.Submit("build", id)
	d := b.Until(id, "the renewal", func(d starter.Description) bool {
		return happened(d.Task, domain.EventLeaseRenewed)
	})
	types := eventTypes(d.Task)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventLeaseRenewed}, types[:3])
	require.Equal(t, 1, d.Task.Attempts, "nothing was started a second time")
	silence := d.Task.History[1].Event.AtMs - d.Task.History[0].Event.AtMs
	require.GreaterOrEqual(t, silence, int64(2000), "not before the lease was over")
	script.Say(b.JobKey(id, 1), harness.Result(`1`))
	b.UntilState(id, domain.StateSucceeded)
	require.Equal(t, 1, script.Counts(b.JobKey(id, 1)).Submits)
}

// The same with somebody whom nobody can ask: the work goes back to the queue,
// and what the lost worker still sends does not touch the next attempt.
func TestSilentLeaseOfAnExternalTaskRequeues(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, leasedTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("review", id)
	b.Callback(id, "s1", harness.Start("ann"))
	d := b.Until(id, "the requeue", func(d starter.Description) bool {
		return d.Task.State == domain.StateQueued && d.Task.Attempts == 1
	})
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventRequeue}, eventTypes(d.Task))
	require.Equal(t, domain.CodeWorkerLost, d.Task.Error.Code)
	require.Positive(t, d.Task.RetryAtMs)

	_, err := b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
	require.ErrorIs(t, err, starter.ErrNoLease)
	second := harness.Start("bob")
	second.Attempt = 2
	require.Equal(t, domain.ReasonStarted, b.Callback(id, "s2", second).Outcome.Reason)
	late := domain.Event{Type: domain.EventFail, Attempt: 1, Error: &domain.TaskError{Message: "ann gave up"}}
	v := b.Callback(id, "f1", late)
	require.Equal(t, starter.VerdictStale, v.Verdict)
	require.Equal(t, domain.ReasonStaleAttempt, v.Outcome.Reason)
	done := harness.Succeed("h")
	done.Attempt = 2
	require.Equal(t, domain.ReasonSucceeded, b.Callback(id, "done", done).Outcome.Reason)
}

// A job that ended in silence, long before anybody would look again, is found
// with its result when the lease has run out.
func TestSilentLeaseOfAJobThatHasEndedTakesItsResult(t *testing.T) {
	t.Parallel()
	script := harness.NewScript()
	b := newBed(within(t, 3*time.Minute), t, leasedTools, script)
	// The job ends, and no probe is due for a minute: only the question brings it.
	slow := tool.Observation{State: tool.StateRunning, NextInMs: time.Minute.Milliseconds()}
	script.Say(b.JobKey("t-1", 1), slow)
	b.StartWorker()
	id := "t-1"
	b.Submit("build", id)
	require.NoError(t, script.Await(b.Ctx, b.JobKey(id, 1), func(c harness.Counts) bool { return c.Looks >= 2 }))
	script.Say(b.JobKey(id, 1), harness.Result(`{"found":1}`))
	d := b.UntilState(id, domain.StateSucceeded)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventSucceed}, eventTypes(d.Task))
}

func eventTypes(t domain.Task) []domain.EventType {
	var out []domain.EventType
	for _, h := range t.History {
		out = append(out, h.Event.Type)
	}
	return out
}

func happened(t domain.Task, e domain.EventType) bool {
	for _, h := range t.History {
		if h.Event.Type == e {
			return true
		}
	}
	return false
}
