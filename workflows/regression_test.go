package workflows_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The outbox took only one of the two notifications of a late result that made
// the task expire itself: the run heard of the expiry and not of the result.
func TestLateResultThatCausesTheExpiryIsToldToo(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("s", domain.Event{Type: domain.EventStart})) })
	// It waits for the workflow task that the deadline brings, and is handled first.
	e.at(time.Hour-time.Millisecond, func() { e.queue(callback("late", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Create.Policy.LatePolicy, in.Create.RunID = domain.LateRecord, "r1"
	}))
	a, ok := e.record().Ledger.Seen("late")
	require.True(t, ok)
	require.Equal(t, domain.ReasonExpired, a.Reason)
	require.True(t, a.Late)
	require.Len(t, w.notified, 2)
	require.Empty(t, w.notified[0].Finished.Kind)
	require.Equal(t, protocol.KindLateResult, w.notified[1].Finished.Kind)
	require.Equal(t, "h", w.notified[1].Finished.Task.Late.ResultHash)
	require.Equal(t, startMs()+time.Hour.Milliseconds(), w.notified[1].Finished.AtMs)
}

// An inline result crossed to the activity as JSON within JSON. Go's writer
// escapes <, > and &, so the bytes that arrived had another hash than the one
// that the task refers to, and the task tried to store them for ever.
func TestInlineResultKeepsItsBytes(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.SignalWorkflow(protocol.SignalCallback, raw(`{"callbackId":"c","event":{"type":"succeed","result":{ "html": "<b>R&D</b>" }}}`))
	})
	e.run(external())
	require.Len(t, w.stored, 1)
	b := w.stored[0].Blob
	require.True(t, bytes.Equal(b.Content, []byte(`{"html":"<b>R&D</b>"}`)), "not only the same JSON: %s", b.Content)
	sum := sha256.Sum256(b.Content)
	require.Equal(t, b.Hash, hex.EncodeToString(sum[:]))
	require.Equal(t, b.Hash, e.record().Task.ResultHash)
}

// The SDK drops a signal that it can't decode, with a line in the worker's log:
// a bridge that sends a number as a string was never told anywhere.
func TestUndecodableSignalIsShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, id, want string }{
		"a fraction as a time": {`{"callbackId":"c9","event":{"type":"start","atMs":1.5}}`, "c9", "event.atMs must be an integer"},
		"a string as a number": {`{"callbackId":"c9","event":{"type":"progress","progress":"50"}}`, "c9", "event.progress must be a number, not string"},
		"a string as a body":   {`"start"`, "", "message must be a JSON object, not string"},
		"a list":               {`[]`, "", "message must be a JSON object, not array"},
		"null":                 {`null`, "", "message must be a JSON object, not null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var before, after protocol.Description
			e.at(time.Minute, func() {
				before = e.describe()
				e.SignalWorkflow(protocol.SignalCallback, raw(tc.text))
			})
			e.at(2*time.Minute, func() { after = e.describe() })
			e.run(external())
			require.NotNil(t, after.LastRejected)
			require.Contains(t, after.LastRejected.Error, tc.want)
			require.Equal(t, tc.id, after.LastRejected.CallbackID)
			require.Equal(t, startMs()+time.Minute.Milliseconds(), after.LastRejected.AtMs)
			require.Equal(t, before.Task, after.Task)
			require.Zero(t, e.record().Ledger.Len(), "it is not remembered")
		})
	}
}

// An executor that reports a success without a result was asked again at once,
// for ever, because the rules reject such an event.
func TestBadObservationEndsTheAttempt(t *testing.T) {
	t.Parallel()
	looks := 0
	w := &world{probe: func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		looks++
		return protocol.ProbeResult{Event: &domain.Event{Type: domain.EventSucceed, ResultRef: "somewhere", Attempt: r.Attempt}}, nil
	}}
	e := newEnv(t, w)
	e.run(executed())
	rec := e.record()
	require.Equal(t, 1, looks)
	require.Equal(t, domain.StateFailed, rec.Task.State)
	require.Equal(t, workflows.CodeBadObservation, rec.Task.Error.Code)
	require.Contains(t, rec.Task.Error.Message, "resultHash must not be blank")
}

// A submission that ended for good without a definite answer was made again at
// once, as fast as the executor could refuse it.
func TestSubmissionThatEndsNeitherWayIsRepeatedAfterAPause(t *testing.T) {
	t.Parallel()
	var at []time.Time
	w := &world{}
	e := newEnv(t, w)
	w.submit = func(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
		if at = append(at, e.Now()); len(at) < 3 {
			return protocol.SubmitResult{}, temporal.NewNonRetryableApplicationError("out of sorts", "Odd", nil)
		}
		return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}}, nil
	}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		ev := succeed("h")
		ev.Attempt = r.Attempt
		return protocol.ProbeResult{Event: &ev}, nil
	}
	e.run(executed())
	require.NoError(t, e.GetWorkflowError())
	require.Len(t, at, 3)
	for i := range at[1:] {
		require.GreaterOrEqual(t, at[i+1].Sub(at[i]), time.Minute)
		require.Equal(t, w.submits[0].SubmissionKey, w.submits[i+1].SubmissionKey, "it may have started something")
	}
}

// A cancel that met a submission of unknown outcome closed the task and left
// the job to itself.
func TestCancelStopsAJobThatMayHaveBeenStarted(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"after its submission ended neither way": temporal.NewNonRetryableApplicationError("the connection broke", "Odd", nil),
		"while its submission goes on":           errGoesOn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) { return protocol.SubmitResult{}, err }}
			e := newEnv(t, w)
			e.at(10*time.Second, func() { e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"}) })
			e.run(executed())
			task := e.record().Task
			require.Equal(t, domain.StateCancelled, task.State)
			require.NotNil(t, task.Confirmed, "a job may run")
			require.False(t, *task.Confirmed)
			require.Len(t, w.submits, 1)
			require.Len(t, w.cancels, 1)
			require.Nil(t, w.cancels[0].Handle, "it is looked for by its key")
			require.Equal(t, "acme/t1/1", w.cancels[0].SubmissionKey)
		})
	}
}

// A manual retry that the rules refuse failed the new run without a record, and
// so hid the one of the run before.
func TestRefusedRetryKeepsTheRecord(t *testing.T) {
	t.Parallel()
	first := newEnv(t, &world{})
	in := external()
	first.run(in)
	was := first.record()
	in.Carry = &protocol.Carry{Task: was.Task, Ledger: was.Ledger, Retry: &protocol.Retry{TTLMs: 0}}
	again := newEnv(t, &world{})
	again.SetStartTime(start.Add(2 * time.Hour))
	again.run(in)
	require.Equal(t, was, again.record())
}

// The bytes of a result that could not be stored at all stayed with the task
// until something else happened to it, which after its end is nothing.
func TestStoringBeginsAgainByItself(t *testing.T) {
	t.Parallel()
	w := &world{storeErr: func(n int) error {
		// The local activity, then all ten attempts that the environment makes.
		if n <= 11 {
			return errors.New("the store is away")
		}
		return nil
	}}
	e := newEnv(t, w)
	e.at(time.Minute, func() {
		e.signal(callback("c", domain.Event{Type: domain.EventSucceed, Result: []byte(`1`)}))
	})
	e.run(external())
	require.NoError(t, e.GetWorkflowError())
	require.Len(t, w.stored, 12)
}

// A worker that falls silent before the answer to its submission came was given
// up without asking, although its job could be found by its key.
func TestSuspectWithoutAHandleIsAskedByItsKey(t *testing.T) {
	t.Parallel()
	w := &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, temporal.NewApplicationErrorWithOptions("lost", "Odd", temporal.ApplicationErrorOptions{NextRetryDelay: time.Hour})
	}}
	var asked []protocol.ProbeRequest
	w.ask = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		asked = append(asked, r)
		return protocol.ProbeResult{Known: true}, nil
	}
	w.lease = func(context.Context, protocol.LeaseRequest) error {
		if len(w.leases) == 1 {
			return temporal.NewHeartbeatTimeoutError()
		}
		return activity.ErrResultPending
	}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("s", domain.Event{Type: domain.EventStart, Attempt: 1})) })
	e.at(5*time.Minute, func() { e.signal(callback("e", succeed("h"))) })
	e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 120_000 }))
	require.Len(t, asked, 1)
	require.Nil(t, asked[0].Handle)
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 1, rec.Task.Attempts)
}

// A retry by update that comes while an end is being told used to change what
// was told of it.
func TestAnEndThatIsUndoneBeforeItIsToldIsNotTold(t *testing.T) {
	t.Parallel()
	w := &world{storeErr: func(n int) error {
		if n <= 1 {
			return errors.New("the store is away")
		}
		return nil
	}}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("s", domain.Event{Type: domain.EventStart})) })
	e.at(time.Hour+time.Minute, func() {
		e.signal(callback("late", domain.Event{Type: domain.EventSucceed, Result: []byte(`1`)}))
		e.update(protocol.UpdateRetry, "retry", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
	})
	e.at(time.Hour+2*time.Minute, func() { e.signal(callback("done", attempt(2, succeed("h")))) })
	e.at(time.Hour+90*time.Second, func() { e.signal(callback("s2", attempt(2, domain.Event{Type: domain.EventStart}))) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Create.Policy.LatePolicy, in.Create.RunID = domain.LateRecord, "r1"
	}))
	require.NoError(t, e.GetWorkflowError())
	var states []domain.State
	for _, n := range w.notified {
		require.Empty(t, n.Finished.Kind)
		states = append(states, n.Finished.Task.State)
	}
	require.Equal(t, []domain.State{domain.StateExpired, domain.StateSucceeded}, states)
}

// attempt names the attempt of an event.
func attempt(n int, e domain.Event) domain.Event {
	e.Attempt = n
	return e
}

// What tells the job of an ended attempt to stop must not reach the job of the next
// one, which may have the same key.
func TestRetryWaitsForTheStop(t *testing.T) {
	t.Parallel()
	w := &world{}
	var order []string
	tries := 0
	w.cancel = func(protocol.CancelRequest) error {
		if tries++; tries < 5 {
			return errors.New("not now")
		}
		order = append(order, "stopped")
		return nil
	}
	w.submit = func(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
		order = append(order, "submitted "+r.SubmissionKey)
		return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}}, nil
	}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if r.Attempt == 2 {
			return ended(succeed("h"), 2)
		}
		return protocol.ProbeResult{}, errGoesOn
	}
	e := newEnv(t, w)
	e.at(time.Minute+2*time.Second, func() {
		e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
	})
	e.run(executed(func(in *protocol.TaskInput) {
		in.Create.TTLMs, in.Create.Policy.LatePolicy = time.Minute.Milliseconds(), domain.LateRecord
	}))
	require.Equal(t, domain.StateSucceeded, e.record().Task.State)
	require.Equal(t, []string{"submitted acme/t1/1", "stopped", "submitted acme/t1/1"}, order)
}
