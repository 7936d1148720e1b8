package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func limited(opts ...func(*protocol.TaskInput)) protocol.TaskInput {
	in := executed(opts...)
	in.Tool.SubmitQueue, in.Tool.HoldSlot = "q-tool-review", true
	return in
}

func startedJob(attempt int) protocol.JobStarted {
	return protocol.JobStarted{Attempt: attempt, Handle: protocol.Handle{Executor: "fake", ID: "job"}, Worker: "w7"}
}

// The activity that submits also watches; its start comes by a signal.
func TestSlot(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	w.run = func(_ context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
		return ended(succeed("h"), r.Attempt)
	}
	e.run(limited())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSucceed}, eventTypes(rec.Task))
	require.Equal(t, "w7", rec.Task.Worker)
	require.Equal(t, "job", rec.Handle.ID)
	require.Empty(t, w.submits, "one activity does it all")
	require.Len(t, w.ran(), 1)
}

// A job that is known already, as after a continue-as-new, holds its slot again and
// is not submitted.
func TestSlotAfterAContinueAsNew(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return protocol.ProbeResult{}, ctx.Err()
	}
	e.at(50*time.Millisecond, func() {
		e.SetContinueAsNewSuggested(true)
		e.signal(callback("c", domain.Event{Type: domain.EventHeartbeat, Attempt: 1, Stage: "on"}))
	})
	e.run(limited())
	in := e.carried()
	require.Equal(t, "job", in.Carry.Handle.ID)

	w2 := &world{run: func(ctx context.Context, _ protocol.RunRequest) (protocol.ProbeResult, error) {
		<-ctx.Done() // it waits for a slot that never comes
		return protocol.ProbeResult{}, ctx.Err()
	}, probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) }}
	next := newEnv(t, w2)
	next.run(in)
	require.Equal(t, domain.StateSucceeded, next.record().Task.State)
	for _, again := range w2.ran() {
		require.NotNil(t, again.Handle, "it is watched, not submitted")
	}
	require.Empty(t, w2.submits)
}

// An activity that is over without an end leaves a job that nobody watches, or a
// submission that did not happen.
func TestSlotLost(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]error{
		"with a job, by its worker's stop": temporal.NewNonRetryableApplicationError("stops", protocol.ErrTypeWorkerStops, nil),
		"with a job, otherwise":            temporal.NewNonRetryableApplicationError("gone", "HostLost", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			e := newEnv(t, w)
			n := 0
			w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
				if n++; n == 1 {
					e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
					return protocol.ProbeResult{}, gone
				}
				<-ctx.Done() // it waits for a slot that never comes
				return protocol.ProbeResult{}, ctx.Err()
			}
			w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) }
			e.run(limited())
			rec := e.record()
			require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSucceed}, eventTypes(rec.Task), "its end does not wait for a slot")
			for _, again := range w.ran()[1:] {
				require.NotNil(t, again.Handle, "it is not submitted again")
			}
		})
	}
	t.Run("before a job: not started, another attempt", func(t *testing.T) {
		t.Parallel()
		w := &world{}
		e := newEnv(t, w)
		w.run = func(_ context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
			if r.Attempt == 1 {
				return protocol.ProbeResult{}, temporal.NewNonRetryableApplicationError("full", protocol.ErrTypeNotStarted, nil, &domain.TaskError{Code: "FULL", Message: "full", Retryable: true})
			}
			e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
			return ended(succeed("h"), r.Attempt)
		}
		e.run(limited())
		rec := e.record()
		require.Equal(t, domain.StateSucceeded, rec.Task.State)
		require.Equal(t, []domain.EventType{domain.EventStart, domain.EventFail, domain.EventStart, domain.EventSucceed}, eventTypes(rec.Task))
		require.Equal(t, "acme/t1/2", w.ran()[1].SubmissionKey)
	})
}

// An end that comes by callback frees the slot.
func TestSlotIsFreedByACallback(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	freed := make(chan struct{})
	w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
		e.SignalWorkflow(protocol.SignalCallback, callback("c", domain.Event{Type: domain.EventSucceed, Attempt: 1, ResultRef: "r", ResultHash: "h"}))
		// A cancellation comes as the answer to a heartbeat.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			<-tick.C
		}
		close(freed)
		return protocol.ProbeResult{}, ctx.Err()
	}
	e.run(limited())
	require.Equal(t, domain.StateSucceeded, e.record().Task.State)
	select {
	case <-freed:
	case <-time.After(30 * time.Second):
		t.Fatal("the activity still holds its slot")
	}
}

// A queued task that is cancelled while it waits for a slot ends at once.
func TestSlotNeverGiven(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	w.run = func(ctx context.Context, _ protocol.RunRequest) (protocol.ProbeResult, error) {
		e.UpdateWorkflow(protocol.UpdateCancel, "c", updateOf(t), protocol.Cancel{By: "ann"})
		<-ctx.Done()
		return protocol.ProbeResult{}, ctx.Err()
	}
	e.run(limited())
	require.Equal(t, domain.StateCancelled, e.record().Task.State)
}

// The word that a job was started may come after the word that it failed. The next
// attempt has a slot of its own and nothing to do with that job.
func TestSlotStartIsToldAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		if r.Attempt == 1 {
			fail := domain.Event{Type: domain.EventFail, Attempt: 1, Error: &domain.TaskError{Message: "no", Retryable: true}}
			e.SignalWorkflow(protocol.SignalCallback, callback("c", fail))
			e.SignalWorkflow(protocol.SignalSubmitted, startedJob(1))
			<-gate
			return protocol.ProbeResult{}, ctx.Err()
		}
		j := startedJob(r.Attempt)
		j.Handle.ID = "second"
		e.SignalWorkflow(protocol.SignalSubmitted, j)
		return ended(succeed("h"), r.Attempt)
	}
	e.run(limited())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 2, rec.Task.Attempts)
	require.Equal(t, "second", rec.Handle.ID)
	require.Len(t, w.ran(), 2)
}

// A failure that comes by callback ends the attempt, whoever watches its job.
func TestSlotFailureByACallback(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		e.SignalWorkflow(protocol.SignalSubmitted, startedJob(r.Attempt))
		if r.Attempt == 1 {
			fail := domain.Event{Type: domain.EventFail, Attempt: 1, Error: &domain.TaskError{Message: "no", Retryable: true}}
			e.SignalWorkflow(protocol.SignalCallback, callback("c", fail))
			<-gate
			return protocol.ProbeResult{}, ctx.Err()
		}
		return ended(succeed("h"), r.Attempt)
	}
	e.run(limited())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventFail, domain.EventStart, domain.EventSucceed}, eventTypes(rec.Task))
	require.Len(t, w.ran(), 2)
}

// A task that is retried while it waits for a late result begins anew, without the
// job of the attempt before.
func TestSlotAfterARetryWithinTheGrace(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	w.run = func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
		j := startedJob(r.Attempt)
		e.SignalWorkflow(protocol.SignalSubmitted, j)
		if r.Attempt == 1 {
			<-ctx.Done()
			return protocol.ProbeResult{}, ctx.Err()
		}
		return ended(succeed("h"), r.Attempt)
	}
	e.at(10*time.Second, func() {
		e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
	})
	e.run(limited(func(in *protocol.TaskInput) {
		in.Create.TTLMs, in.Create.Policy.LatePolicy = time.Second.Milliseconds(), domain.LateRecord
	}))
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 2, rec.Task.Attempts)
	require.Len(t, w.ran(), 2)
}
