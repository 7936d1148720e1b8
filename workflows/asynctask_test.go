package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestExternalTaskSucceedsByUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var started, done *reply
	e.at(time.Minute, func() {
		started = e.callbackUpdate(callback("c1", domain.Event{Type: domain.EventStart, Worker: "ann"}))
	})
	e.at(2*time.Minute, func() { done = e.callbackUpdate(callback("c2", succeed("h1"))) })
	e.run(external())
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, domain.ReasonStarted, started.out.Reason)
	require.Equal(t, "d-c1", started.out.DeliveryID)
	require.Equal(t, domain.ReasonSucceeded, done.out.Reason)
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, startMs()+time.Minute.Milliseconds(), rec.Task.StartedAtMs)
	require.Equal(t, 2, rec.Ledger.Len())
}

func TestExecutedTaskIsSubmittedAndWatched(t *testing.T) {
	t.Parallel()
	looks := 0
	w := &world{probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if looks++; looks < 5 {
			return protocol.ProbeResult{}, errGoesOn
		}
		ev := succeed("h9")
		ev.Attempt = r.Attempt
		return protocol.ProbeResult{Event: &ev}, nil
	}}
	e := newEnv(t, w)
	e.run(executed())
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, 5, looks)
	require.Len(t, w.submits, 1)
	require.Equal(t, "acme/t1/1", w.submits[0].SubmissionKey)
	rec := e.record()
	require.Equal(t, "h9", rec.Task.ResultHash)
	require.Equal(t, "w1", rec.Task.Worker)
}

// A program that was over before the task had heard of its start was shown as
// having ended before it began.
func TestEndIsNotBeforeItsStart(t *testing.T) {
	t.Parallel()
	w := &world{probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		ev := succeed("h1")
		ev.Attempt, ev.AtMs = r.Attempt, startMs()-1000
		return protocol.ProbeResult{Event: &ev}, nil
	}}
	e := newEnv(t, w)
	e.run(executed())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, rec.Task.StartedAtMs, rec.Task.EndedAtMs)
}

func TestDefiniteSubmissionFailureEndsTheAttempt(t *testing.T) {
	t.Parallel()
	w := &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, temporal.NewNonRetryableApplicationError("no", protocol.ErrTypeNotStarted, nil,
			domain.TaskError{Code: "NO_PROGRAM", Message: "no such program", Retryable: true})
	}}
	e := newEnv(t, w)
	e.run(executed())
	rec := e.record()
	require.Equal(t, domain.StateFailed, rec.Task.State)
	require.Equal(t, "NO_PROGRAM", rec.Task.Error.Code)
	require.Len(t, w.submits, 2, "each attempt is submitted once")
	require.NotEqual(t, w.submits[0].SubmissionKey, w.submits[1].SubmissionKey, "a definite failure moves the key on")
}

func TestLostJobKeepsItsKey(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if r.Attempt == 1 {
			return protocol.ProbeResult{Lost: true}, nil
		}
		ev := succeed("h1")
		ev.Attempt = 2
		return protocol.ProbeResult{Event: &ev}, nil
	}
	e := newEnv(t, w)
	e.run(executed())
	require.NoError(t, e.GetWorkflowError())
	require.Len(t, w.submits, 2)
	require.Equal(t, w.submits[0].SubmissionKey, w.submits[1].SubmissionKey, "after anything ambiguous the key stays")
	require.Equal(t, 2, w.submits[1].Attempt)
}

func TestUnsafeLostJobGoesToAPerson(t *testing.T) {
	t.Parallel()
	w := &world{probe: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return protocol.ProbeResult{Lost: true}, nil
	}}
	e := newEnv(t, w)
	e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.Effects = domain.EffectsUnsafe }))
	rec := e.record()
	require.Len(t, w.submits, 1, "it must not run a second time")
	require.Equal(t, domain.CodeOutcomeUnknown, rec.Task.Error.Code)
	require.Contains(t, domain.Describe(rec.Task, 0).NextStep, "find out whether the work was done")
}

func TestTaskExpires(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	e.run(external())
	var app *temporal.ApplicationError
	require.ErrorAs(t, e.GetWorkflowError(), &app)
	require.Equal(t, protocol.ErrTypeTaskExpired, app.Type())
	rec := e.record()
	require.Equal(t, startMs()+time.Hour.Milliseconds(), rec.Task.EndedAtMs)
}

// A job that ended in time, while nobody was there to look, has a result: the
// task asks once more before it expires.
func TestDeadlineAsksTheOutsideFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		endedAt time.Duration
		want    domain.State
	}{
		"ended one millisecond before":  {time.Hour - time.Millisecond, domain.StateSucceeded},
		"ended exactly at the deadline": {time.Hour, domain.StateExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{ask: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
				ev := succeed("h1")
				ev.Attempt, ev.AtMs = r.Attempt, startMs()+tc.endedAt.Milliseconds()
				return protocol.ProbeResult{Event: &ev}, nil
			}}
			e := newEnv(t, w)
			e.run(executed())
			require.Equal(t, tc.want, e.record().Task.State)
		})
	}
}

func TestExpiryTellsTheOutsideToStop(t *testing.T) {
	t.Parallel()
	w := &world{ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return protocol.ProbeResult{Known: true}, nil
	}}
	e := newEnv(t, w)
	e.run(executed())
	require.Equal(t, domain.StateExpired, e.record().Task.State)
	require.Len(t, w.cancels, 1)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("of a queued task at once", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var r *reply
		e.at(time.Minute, func() {
			r = e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann", Reason: "changed my mind"})
		})
		e.run(external())
		require.Equal(t, domain.ReasonCancelled, r.out.Reason)
		require.True(t, temporal.IsCanceledError(e.GetWorkflowError()))
		require.Equal(t, "ann", e.record().Task.Cancel.By)
	})
	t.Run("confirmed by the outside", func(t *testing.T) {
		t.Parallel()
		w := &world{}
		w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
			if len(w.cancels) == 0 {
				return protocol.ProbeResult{}, errGoesOn
			}
			return protocol.ProbeResult{Event: &domain.Event{Type: domain.EventCancelled, Attempt: r.Attempt}}, nil
		}
		e := newEnv(t, w)
		e.at(time.Minute, func() { e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"}) })
		e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.CancelGraceMs = (10 * time.Minute).Milliseconds() }))
		rec := e.record()
		require.Equal(t, domain.StateCancelled, rec.Task.State)
		require.True(t, *rec.Task.Confirmed)
	})
	t.Run("by the Temporal UI", func(t *testing.T) {
		t.Parallel()
		w := &world{}
		e := newEnv(t, w)
		e.at(time.Minute, e.CancelWorkflow)
		e.run(executed())
		rec := e.record()
		require.Equal(t, domain.StateCancelled, rec.Task.State)
		require.False(t, *rec.Task.Confirmed, "the outside never answered")
		require.Equal(t, "temporal", rec.Task.Cancel.By)
		require.Len(t, w.cancels, 1)
	})
	t.Run("loses to success", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		e.at(time.Minute, func() { e.signal(callback("a", domain.Event{Type: domain.EventStart})) })
		e.at(2*time.Minute, func() { e.update(protocol.UpdateCancel, "x", protocol.Cancel{}) })
		e.at(2*time.Minute+time.Second, func() { e.signal(callback("b", succeed("h"))) })
		e.run(external())
		require.Equal(t, domain.StateSucceeded, e.record().Task.State)
	})
}

func TestValidatorRefusesAtNoCost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var stale, bad, expire, again *reply
	e.at(time.Minute, func() { e.callbackUpdate(callback("p50", progress(50))) })
	e.at(2*time.Minute, func() {
		stale = e.callbackUpdate(callback("p30", progress(30)))
		bad = e.callbackUpdate(callback(" ", progress(60)))
		expire = e.callbackUpdate(callback("x", domain.Event{Type: domain.EventExpire}))
	})
	e.at(3*time.Minute, func() {
		// The environment, unlike the server, keeps the id of a refused update.
		again = e.update(protocol.UpdateCallback, "again", callback("p30", progress(30)))
	})
	e.at(4*time.Minute, func() { e.signal(callback("end", succeed("h"))) })
	e.run(external())
	require.Equal(t, domain.ReasonStaleProgress, stale.refusal(t).Reason)
	require.Equal(t, domain.ReasonStaleProgress, again.refusal(t).Reason, "a repeat of what was refused gets the same answer")
	for _, r := range []*reply{bad, expire} {
		var app *temporal.ApplicationError
		require.ErrorAs(t, r.err, &app)
		require.Equal(t, protocol.ErrTypeInvalid, app.Type())
		var p protocol.Problem
		require.NoError(t, app.Details(&p))
		require.NotEmpty(t, p.Field)
	}
	require.Equal(t, 2, e.record().Ledger.Len(), "refused callbacks are not remembered")
}

func progress(p float64) domain.Event { return domain.Event{Type: domain.EventProgress, Progress: &p} }

func TestInlineResultIsStoredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	w := &world{storeErr: func(n int) error {
		if n == 1 {
			return errors.New("the store is away")
		}
		return nil
	}}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.signal(callback("c", domain.Event{Type: domain.EventSucceed, Result: []byte(`{"answer": 42}`)}))
	})
	e.run(external())
	rec := e.record()
	require.GreaterOrEqual(t, len(w.stored), 2, "the local activity failed, the regular one stored it")
	require.Equal(t, rec.Task.ResultRef, w.stored[1].Blob.Ref)
	require.JSONEq(t, `{"answer":42}`, string(w.stored[1].Blob.Content))
	require.Equal(t, domain.BlobRef("acme", "t1", rec.Task.ResultHash), rec.Task.ResultRef)
}

func TestRunIsToldBeforeTheTaskCloses(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("c", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) { in.Create.RunID, in.Create.ToolCallID = "r1", "call-1" }))
	require.Len(t, w.notified, 1)
	require.Equal(t, "call-1", w.notified[0].Finished.Task.ToolCallID)
	require.Empty(t, w.notified[0].Finished.Task.History)
}

func TestLeaseLost(t *testing.T) {
	t.Parallel()
	t.Run("external work goes back to the queue", func(t *testing.T) {
		t.Parallel()
		// The environment times no heartbeats; tests/e2e shows the real thing.
		w := &world{lease: func(context.Context, protocol.LeaseRequest) error { return temporal.NewHeartbeatTimeoutError() }}
		e := newEnv(t, w)
		e.at(time.Minute, func() { e.signal(callback("s", domain.Event{Type: domain.EventStart, Worker: "ann"})) })
		e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 60_000 }))
		rec := e.record()
		require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventRequeue, domain.EventExpire}, eventTypes(rec.Task))
		require.Equal(t, domain.CodeWorkerLost, rec.Task.Error.Code)
	})
	t.Run("work that still runs keeps its lease", func(t *testing.T) {
		t.Parallel()
		w := &world{ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
			return protocol.ProbeResult{Known: true}, nil
		}}
		w.lease = func(context.Context, protocol.LeaseRequest) error {
			if len(w.leases) == 1 {
				return temporal.NewHeartbeatTimeoutError()
			}
			return activity.ErrResultPending
		}
		e := newEnv(t, w)
		e.at(3*time.Minute, func() {
			ev := succeed("h")
			ev.Attempt = 1
			e.signal(callback("end", ev))
		})
		e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 120_000 }))
		rec := e.record()
		require.Equal(t, domain.StateSucceeded, rec.Task.State)
		require.Contains(t, eventTypes(rec.Task), domain.EventLeaseRenewed)
		require.Equal(t, 1, rec.Task.Attempts)
		require.GreaterOrEqual(t, len(w.leases), 2, "the lease is opened again")
	})
}

func TestLateResultIsRecorded(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("s", domain.Event{Type: domain.EventStart})) })
	e.at(time.Hour+time.Minute, func() { e.signal(callback("late", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Create.Policy.LatePolicy, in.Create.RunID = domain.LateRecord, "r1"
	}))
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	require.Equal(t, "h", rec.Task.Late.ResultHash)
	require.Len(t, w.notified, 2)
	require.Equal(t, protocol.KindLateResult, w.notified[1].Finished.Kind)
}
