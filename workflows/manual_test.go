package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// unsafeWork is a task whose work must not be done twice.
func unsafeWork(opts ...func(*protocol.TaskInput)) protocol.TaskInput {
	return executed(append([]func(*protocol.TaskInput){func(in *protocol.TaskInput) {
		in.Create.Policy.Effects, in.Create.Policy.OnUnknown = domain.EffectsUnsafe, domain.UnknownManual
		in.Revision = protocol.Revision
	}}, opts...)...)
}

// errOutcomeUnknown is what a submission ends with of which nobody can know.
var errOutcomeUnknown = temporal.NewNonRetryableApplicationError("unknown", protocol.ErrTypeOutcomeUnknown, nil,
	&domain.TaskError{Code: domain.CodeOutcomeUnknown, Message: "the answer was lost"})

func lost(protocol.ProbeRequest) (protocol.ProbeResult, error) {
	return protocol.ProbeResult{Lost: true, Note: "its supervisor was killed"}, nil
}

// Work of unknown outcome waits for a person, whichever way it got lost, and what
// the person says is what happens.
func TestManual(t *testing.T) {
	t.Parallel()
	lostSubmission := func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, errOutcomeUnknown
	}
	for name, tc := range map[string]struct {
		w       *world
		resolve protocol.Resolve
		state   domain.State
		code    string
		submits int
	}{
		"lost by the worker, done": {
			w: &world{probe: lost}, resolve: protocol.Resolve{Action: domain.ResolveSucceeded, Result: []byte(`{"charge":17}`), By: "ann"},
			state: domain.StateSucceeded, submits: 1,
		},
		"lost by the worker, not done": {
			w: &world{probe: lost}, resolve: protocol.Resolve{Action: domain.ResolveFailed, By: "ann", Reason: "the bank knows nothing"},
			state: domain.StateFailed, code: domain.CodeNotDone, submits: 1,
		},
		"lost with the answer, done elsewhere": {
			w: &world{submit: lostSubmission}, resolve: protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "s3://x", ResultHash: "h"},
			state: domain.StateSucceeded, submits: 1,
		},
		"lost with the answer, failed with a code": {
			w: &world{submit: lostSubmission}, resolve: protocol.Resolve{Action: domain.ResolveFailed, Error: &domain.TaskError{Code: "REFUSED", Message: "no"}},
			state: domain.StateFailed, code: "REFUSED", submits: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, tc.w)
			var waiting protocol.Description
			var answer, again *reply
			e.at(time.Minute, func() { waiting = e.describe() })
			e.at(2*time.Minute, func() { answer = e.update(protocol.UpdateResolve, "r1", tc.resolve) })
			e.at(2*time.Minute, func() { again = e.update(protocol.UpdateResolve, "r2", tc.resolve) })
			e.run(unsafeWork())
			require.NotNil(t, waiting.Task.Manual)
			require.Equal(t, domain.PhaseWaitingInput, waiting.Phase)
			require.Equal(t, domain.CodeOutcomeUnknown, waiting.Task.Error.Code)
			require.Contains(t, waiting.NextStep, "wakepoint task resolve t1")
			require.Equal(t, domain.ReasonResolved, answer.answer(t).Reason)
			if again.err == nil || again.err.Error() == "" {
				require.NotEqual(t, domain.ReasonResolved, again.out.Reason, "a second word changes nothing")
			}
			rec := e.record()
			require.Equal(t, tc.state, rec.Task.State)
			require.Nil(t, rec.Task.Manual)
			require.Len(t, tc.w.submits, tc.submits, "it must not run a second time")
			if tc.code != "" {
				require.Equal(t, tc.code, rec.Task.Error.Code)
			}
			if tc.resolve.Result != nil {
				require.Len(t, tc.w.stored, 1)
				require.Equal(t, rec.Task.ResultRef, tc.w.stored[0].Blob.Ref)
			}
		})
	}
}

// "Do it again" is a person's decision: the same key, whatever the effects.
func TestManualRepeat(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if r.Attempt == 1 {
			return lost(r)
		}
		return ended(succeed("h"), r.Attempt)
	}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.update(protocol.UpdateResolve, "r", protocol.Resolve{Action: domain.ResolveRepeat, By: "ann"})
	})
	e.run(unsafeWork(func(in *protocol.TaskInput) { in.Create.MaxAttempts = 1 }))
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 2, rec.Task.Attempts)
	require.Len(t, w.submits, 2)
	first, second := w.submits[0], w.submits[1]
	require.Equal(t, first.SubmissionKey, second.SubmissionKey)
	require.Equal(t, 1, second.RepeatOf, "it may be there: it is looked for first")
	require.True(t, second.Decided)
	require.False(t, first.Decided)
	require.Zero(t, first.RepeatOf)
}

// What is heard of again needs no person.
func TestManualComesBack(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]domain.Event{
		"heartbeat": {Type: domain.EventHeartbeat, Attempt: 1},
		"progress":  {Type: domain.EventProgress, Attempt: 1, Progress: ptr(40)},
		"success":   {Type: domain.EventSucceed, Attempt: 1, ResultRef: "r", ResultHash: "h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			w := &world{}
			w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
				if looks++; looks == 1 {
					return lost(r)
				}
				return ended(succeed("h"), r.Attempt)
			}
			e := newEnv(t, w)
			e.at(time.Minute, func() { e.signal(callback("c1", sign)) })
			e.run(unsafeWork())
			rec := e.record()
			require.Equal(t, domain.StateSucceeded, rec.Task.State)
			require.Len(t, w.submits, 1)
			require.Equal(t, 1, rec.Task.Attempts)
		})
	}
}

// Nobody comes: the deadline ends it, and says what is not known.
func TestManualUntilTheDeadline(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{probe: lost})
	e.run(unsafeWork())
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	end, ok := domain.EndOf(rec.Task)
	require.True(t, ok)
	require.Equal(t, domain.EndOutcomeUnknown, end.Kind)
}

// A cancel of work that nobody can find asks once more and then ends unconfirmed.
func TestManualCancelled(t *testing.T) {
	t.Parallel()
	w := &world{probe: lost}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann"}) })
	e.run(unsafeWork())
	rec := e.record()
	require.Equal(t, domain.StateCancelled, rec.Task.State)
	require.False(t, *rec.Task.Confirmed)
	require.Len(t, w.cancels, 1)
}

// Manual crosses a continue-as-new, and is not submitted by it.
func TestManualCarried(t *testing.T) {
	t.Parallel()
	w := &world{probe: lost}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.SetContinueAsNewSuggested(true)
		e.signal(callback("c1", domain.Event{Type: domain.EventHeartbeat, Attempt: 7}))
	})
	e.run(unsafeWork())
	in := e.carried()
	require.NotNil(t, in.Carry.Task.Manual)
	require.Equal(t, &protocol.Begun{SubmissionKey: "acme/t1/1", Attempt: 1, Handle: in.Carry.Handle}, in.Carry.Begun)

	next := newEnv(t, w)
	next.at(time.Minute, func() {
		next.update(protocol.UpdateResolve, "r", protocol.Resolve{Action: domain.ResolveFailed})
	})
	next.run(in)
	require.Equal(t, domain.StateFailed, next.record().Task.State)
	require.Len(t, w.submits, 1)
}

// What an attempt may have done is undone by a task of its own; then it is as if it
// had failed.
func TestCompensation(t *testing.T) {
	t.Parallel()
	undone := func(protocol.CompensateRequest) (protocol.CompensateResult, error) {
		return protocol.CompensateResult{State: domain.StateSucceeded}, nil
	}
	failed := func(protocol.CompensateRequest) (protocol.CompensateResult, error) {
		return protocol.CompensateResult{State: domain.StateFailed, Error: &domain.TaskError{Code: "NO_REFUND", Message: "too late"}}, nil
	}
	for name, tc := range map[string]struct {
		undo     func(protocol.CompensateRequest) (protocol.CompensateResult, error)
		max      int
		state    domain.State
		code     string
		attempts int
		keys     []string
	}{
		"undone, an attempt is left": {undone, 2, domain.StateSucceeded, domain.CodeCompensated, 2, []string{"acme/t1/1", "acme/t1/2"}},
		"undone, none is left":       {undone, 1, domain.StateFailed, domain.CodeCompensated, 1, []string{"acme/t1/1"}},
		"not undone: a person":       {failed, 2, domain.StateFailed, domain.CodeNotDone, 1, []string{"acme/t1/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{undo: tc.undo}
			w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
				if r.Attempt == 1 {
					return lost(r)
				}
				return ended(succeed("h"), r.Attempt)
			}
			e := newEnv(t, w)
			e.at(10*time.Minute, func() {
				e.update(protocol.UpdateResolve, "r", protocol.Resolve{Action: domain.ResolveFailed, By: "ann"})
			})
			in := unsafeWork()
			in.Tool.Compensate, in.Create.MaxAttempts, in.Input = "refund", tc.max, []byte(`{"amount":5}`)
			e.run(in)
			rec := e.record()
			require.Equal(t, tc.state, rec.Task.State)
			require.Equal(t, tc.code, rec.Task.Error.Code)
			require.Equal(t, tc.attempts, rec.Task.Attempts)
			var keys []string
			for _, s := range w.submits {
				keys = append(keys, s.SubmissionKey)
			}
			require.Equal(t, tc.keys, keys)
			require.NotEmpty(t, w.undos)
			u := w.undos[0]
			require.Equal(t, "refund", u.Compensate)
			require.Equal(t, domain.CompensationID("t1", 1), u.CompensationID)
			require.JSONEq(t, `{"amount":5}`, string(u.Input))
			require.Equal(t, "acme/t1/1", u.SubmissionKey)
		})
	}
}

// A refusal for now costs no attempt, however long it lasts.
func TestThrottledSubmission(t *testing.T) {
	t.Parallel()
	w := &world{}
	tries := 0
	w.submit = func(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
		if tries++; tries < 5 {
			return protocol.SubmitResult{}, temporal.NewApplicationErrorWithOptions("busy", protocol.ErrTypeThrottled, temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Minute})
		}
		return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}}, nil
	}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) }
	e := newEnv(t, w)
	e.run(unsafeWork())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 1, rec.Task.Attempts)
}

// The other side says when to come again; the wait between attempts is no shorter.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{
		"of a job": {probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
			if r.Attempt == 1 {
				ev := retryable(0)
				ev.RetryAfterMs = (10 * time.Minute).Milliseconds()
				return ended(ev, 1)
			}
			return ended(succeed("h"), r.Attempt)
		}},
		"of a submission": {submit: func(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
			if r.Attempt == 1 {
				return protocol.SubmitResult{}, temporal.NewNonRetryableApplicationError("full", protocol.ErrTypeNotStarted, nil,
					&domain.TaskError{Code: "FULL", Message: "full", Retryable: true}, (10 * time.Minute).Milliseconds())
			}
			return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}}, nil
		}, probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, w)
			e.run(executed())
			rec := e.record()
			require.Equal(t, domain.StateSucceeded, rec.Task.State)
			require.Equal(t, 2, rec.Task.Attempts)
			require.GreaterOrEqual(t, rec.Task.EndedAtMs-startMs(), (10 * time.Minute).Milliseconds())
			require.Less(t, rec.Task.EndedAtMs-startMs(), (12 * time.Minute).Milliseconds())
		})
	}
}

func ptr(f float64) *float64 { return &f }

// The record says where the job of the last submission is, for whoever comes after.
func TestRecordSaysWhereTheJobIs(t *testing.T) {
	t.Parallel()
	w := &world{probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) }}
	e := newEnv(t, w)
	e.run(unsafeWork())
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.NotNil(t, rec.Begun)
	require.Equal(t, rec.Handle, rec.Begun.Handle)
}

// Refused for now until the deadline is not unknown: nothing was started.
func TestThrottledUntilTheDeadline(t *testing.T) {
	t.Parallel()
	w := &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, temporal.NewNonRetryableApplicationError("busy", protocol.ErrTypeThrottled, nil)
	}}
	e := newEnv(t, w)
	e.run(unsafeWork(func(in *protocol.TaskInput) { in.Create.TTLMs = (90 * time.Second).Milliseconds() }))
	rec := e.record()
	end, _ := domain.EndOf(rec.Task)
	require.Equal(t, domain.EndTimedOut, end.Kind)
	require.Nil(t, rec.Task.Error)
}

// What is being undone is not for a person, also after a continue-as-new: the list
// shows no change until there is one.
func TestUndoingCarriedShowsNoChange(t *testing.T) {
	t.Parallel()
	w := &world{probe: lost, undo: func(protocol.CompensateRequest) (protocol.CompensateResult, error) {
		return protocol.CompensateResult{}, errGoesOn
	}}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.SetContinueAsNewSuggested(true)
		e.signal(callback("c1", domain.Event{Type: domain.EventHeartbeat, Attempt: 7}))
	})
	in := unsafeWork()
	in.Tool.Compensate, in.Create.MaxAttempts = "refund", 1
	e.run(in)
	carried := e.carried()
	require.True(t, carried.Carry.Task.BeingUndone())

	w.undo = func(protocol.CompensateRequest) (protocol.CompensateResult, error) {
		return protocol.CompensateResult{State: domain.StateSucceeded}, nil
	}
	next := newEnv(t, w)
	// A call that is not expected makes the workflow fail.
	next.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(protocol.AttrState.ValueSet(string(domain.StateFailed)))).Return(nil).Once()
	next.run(carried)
	require.Equal(t, domain.CodeCompensated, next.record().Task.Error.Code)
	next.AssertExpectations(t)
}
