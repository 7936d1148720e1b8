package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// suggest makes the task continue as new at its next step.
func (e *env) suggest() { e.SetContinueAsNewSuggested(true) }

// Everything that a task is crosses the border: each field of the carried state
// is set here and compared.
func TestContinueAsNewCarriesEverything(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.ask = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return protocol.ProbeResult{Known: true}, nil
	}
	e := newEnv(t, w)
	e.at(1*time.Minute, func() { e.callbackUpdate(callback("p", progress(40))) })
	e.at(2*time.Minute, func() { e.signal(callback("ask", ask("q1"))) })
	e.at(3*time.Minute, func() { e.signal(domain.Callback{CallbackID: "p", DeliveryID: "other", Event: progress(40)}) })
	e.at(4*time.Minute, func() { e.signal(callback("p", progress(50))) })
	e.at(5*time.Minute, func() { e.SignalWorkflow(protocol.SignalCallback, raw(`{"callbackId":"bad","event":{"type":"?"}}`)) })
	e.at(6*time.Minute, func() { e.update(protocol.UpdateAttach, "a", protocol.Attach{Target: "mail"}) })
	e.at(7*time.Minute, func() { e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann", Reason: "enough"}) })
	var before protocol.Description
	e.at(8*time.Minute, func() {
		before = e.describe()
		e.suggest()
		// It waits for the step that continues, and is applied before.
		e.queue(callback("last", progress(60)))
		e.signal(callback("hb", domain.Event{Type: domain.EventHeartbeat, Stage: "almost"}))
	})
	in := executed(func(in *protocol.TaskInput) {
		in.Input, in.Targets, in.Fingerprint = []byte(`{"x":1}`), []string{"ops"}, "f1"
		in.Tool = protocol.ToolBinding{Executor: "fake", TaskQueue: "q", PollMs: 7, HostLostMs: 9}
		in.Create.Policy.CancelGraceMs = time.Hour.Milliseconds()
		in.Create.RunID, in.Create.Labels, in.Create.Title = "r1", map[string]string{"a": "b"}, "t"
		in.ContinueAfterEvents = 100_000
	})
	e.run(in)
	got := e.carried()
	c := got.Carry
	got.Carry = nil
	require.Empty(t, cmp.Diff(in, got), "the input goes on as it was")

	want := before.Task
	for _, ev := range []domain.Event{
		{Type: domain.EventProgress, AtMs: startMs() + (8 * time.Minute).Milliseconds(), Progress: progress(60).Progress, Source: "test"},
		{Type: domain.EventHeartbeat, AtMs: startMs() + (8 * time.Minute).Milliseconds(), Stage: "almost", Source: "test"},
	} {
		tr, err := domain.Apply(want, ev)
		require.NoError(t, err)
		want = tr.Task
	}
	require.Empty(t, cmp.Diff(want, c.Task))
	require.Equal(t, "q1", c.Task.Questions[0].QuestionID)
	require.Equal(t, "ann", c.Task.Cancel.By)
	require.Equal(t, "fake", c.Handle.Executor)
	require.Equal(t, "acme/t1/1", c.Handle.ID)
	require.Equal(t, 1, c.CancelSent)
	require.Equal(t, []string{"ops", "mail"}, c.Targets)
	require.Equal(t, "bad", c.Rejected.CallbackID)
	require.Nil(t, c.Retry)
	require.Empty(t, c.Outbox.Entries)
	require.Empty(t, c.Unstored)
	require.Equal(t, 4, c.Ledger.Len())
	require.EqualValues(t, 1, c.Ledger.Repeats)
	require.EqualValues(t, 1, c.Ledger.Conflicts)
	for _, id := range []string{"p", "ask", "last", "hb"} {
		a, seen := c.Ledger.Seen(id)
		require.True(t, seen, id)
		require.True(t, a.Changed, id)
		require.True(t, a.Same("d-"+id), id)
	}

	// The other side: the probe is open again, the question and the cancel still
	// stand, nothing is submitted or told a second time.
	w2 := &world{}
	e2 := newEnv(t, w2)
	e2.SetStartTime(start.Add(8 * time.Minute))
	probed := make(chan protocol.ProbeRequest, 16)
	w2.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		probed <- r
		return protocol.ProbeResult{}, errGoesOn
	}
	var after protocol.Description
	var repeat, answer *reply
	e2.at(time.Minute, func() {
		after = e2.describe()
		repeat = e2.callbackUpdate(domain.Callback{CallbackID: "last", DeliveryID: "other", Event: progress(60)})
		answer = e2.update(protocol.UpdateAnswer, "a", protocol.Answer{QuestionID: "q1", Answer: []byte(`1`)})
	})
	e2.at(2*time.Minute, func() { e2.signal(callback("end", attempt(1, succeed("h")))) })
	got.Carry = c
	e2.run(got)
	require.NoError(t, e2.GetWorkflowError())
	require.Empty(t, cmp.Diff(c.Task, after.Task))
	require.Equal(t, before.LastRejected, after.LastRejected)
	require.Equal(t, c.Handle, after.Handle)
	require.Equal(t, 40+20, (<-probed).Progress)
	require.Empty(t, w2.submits)
	require.Empty(t, w2.cancels)
	require.Equal(t, domain.ReasonDuplicateCallback, repeat.refusal(t).Reason)
	require.Equal(t, domain.ReasonAnswered, answer.out.Reason)
	rec := e2.record()
	require.Equal(t, []string{"ops", "mail"}, rec.Targets)
	require.Len(t, w2.notified, 1)
	require.Equal(t, c.Task.Version+2, rec.Task.Version)
}

// A signal that came together with the step that continues is applied before,
// and when it ends the task, the task closes and does not continue.
func TestAnEndThatComesWithTheContinueAsNew(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]domain.Event{
		"a result":               {Type: domain.EventSucceed, Result: []byte(`{"a":"<"}`)},
		"a failure for good":     {Type: domain.EventFail, Error: &domain.TaskError{Message: "no"}},
		"the worker has stopped": {Type: domain.EventCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			e := newEnv(t, w)
			e.at(1*time.Minute, func() { e.signal(callback("s", started(1))) })
			e.at(2*time.Minute, func() {
				e.suggest()
				e.queue(callback("hb", domain.Event{Type: domain.EventHeartbeat, Stage: "x"}))
				e.signal(callback("end", event))
			})
			e.run(external(func(in *protocol.TaskInput) { in.Create.RunID = "r1" }))
			require.True(t, e.record().Task.State.Terminal())
			require.Len(t, w.notified, 1)
		})
	}
}

// The task waits for its store, and while it waits it is retried, a worker
// starts, and the time for a continue-as-new comes. What came meanwhile has been
// read by nobody: it is drained before the state is taken.
func TestSignalsThatCameWhileTheTaskWasBusyAreNotLost(t *testing.T) {
	t.Parallel()
	w := &world{storeErr: func(n int) error {
		if n < 5 {
			return errors.New("the store is away")
		}
		return nil
	}}
	e := newEnv(t, w)
	late := time.Hour + time.Minute
	e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
	e.at(late, func() {
		e.signal(callback("late", domain.Event{Type: domain.EventSucceed, Result: []byte(`1`)}))
	})
	e.at(late+time.Second+time.Millisecond, func() {
		e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
	})
	e.at(late+2*time.Second, func() {
		e.suggest()
		e.signal(callback("s2", started(2)))
		e.signal(callback("p2", attempt(2, progress(30))))
	})
	e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LatePolicy = domain.LateRecord }))
	c := e.carried().Carry
	require.Len(t, w.stored, 5)
	require.Equal(t, domain.StateRunning, c.Task.State)
	require.Equal(t, 2, c.Task.Attempts)
	require.Equal(t, 30, c.Task.Progress)
	require.Equal(t, 4, c.Ledger.Len())
}

// The bytes of a late result that could not be stored while the task was retried
// go with it.
func TestBytesThatAreNotStoredYetCross(t *testing.T) {
	t.Parallel()
	w := &world{storeErr: func(int) error { return errors.New("the store is away") }}
	e := newEnv(t, w)
	late := time.Hour + time.Minute
	e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
	e.at(late, func() {
		e.SignalWorkflow(protocol.SignalCallback, raw(`{"callbackId":"late","event":{"type":"succeed","result":"<&>"}}`))
	})
	e.at(late+time.Second, func() {
		e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
		e.suggest()
	})
	e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LatePolicy = domain.LateRecord }))
	next := e.carried()
	require.Equal(t, domain.StateQueued, next.Carry.Task.State)
	require.Len(t, next.Carry.Unstored, 1)
	w2 := &world{}
	e2 := newEnv(t, w2)
	e2.run(next)
	require.Equal(t, w.stored[0].Blob, w2.stored[0].Blob)
	require.Equal(t, []byte(`"<&>"`), w2.stored[0].Blob.Content)
}

// What a task that has not told of its end yet carries is stored and told by the
// next run.
func TestWhatWasNotToldIsToldByTheNextRun(t *testing.T) {
	t.Parallel()
	content := []byte(`{"a":"<"}`)
	e := newEnv(t, &world{})
	e.at(time.Minute, func() { e.signal(callback("end", domain.Event{Type: domain.EventSucceed, Result: content})) })
	in := external(func(in *protocol.TaskInput) { in.Create.RunID = "r1"; in.Targets = []string{"ops"} })
	e.run(in)
	rec := e.record()
	in.Carry = &protocol.Carry{
		Task: rec.Task, Ledger: rec.Ledger, Targets: rec.Targets,
		Outbox:   domain.Outbox{Entries: []domain.Notification{{TaskID: "t1", State: domain.StateSucceeded, Version: 2, AtMs: 7, Reason: domain.ReasonSucceeded}}},
		Unstored: []protocol.Blob{{Ref: rec.Task.ResultRef, Hash: rec.Task.ResultHash, ContentType: "application/json", Content: content}},
	}
	w2 := &world{}
	e2 := newEnv(t, w2)
	var children []string
	e2.watchChildren(&children)
	e2.run(in)
	require.Empty(t, cmp.Diff(rec.Task, e2.record().Task))
	require.Len(t, w2.notified, 1)
	require.EqualValues(t, 7, w2.notified[0].Finished.AtMs)
	require.Equal(t, []string{protocol.DeliveryWorkflowID("acme", "t1/succeeded/2/ops")}, children)
	require.Len(t, w2.stored, 1)
	require.Equal(t, string(content), string(w2.stored[0].Blob.Content), "the bytes crossed as they were")
}

// The lease of a worker outside is opened again by the next run.
func TestLeaseOverAContinueAsNew(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	e.at(time.Minute, func() {
		e.suggest()
		e.signal(callback("s", started(1)))
	})
	e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 60_000 }))
	w2 := &world{}
	e2 := newEnv(t, w2)
	e2.SetStartTime(start.Add(time.Minute))
	e2.at(time.Minute, func() { e2.signal(callback("end", attempt(1, succeed("h")))) })
	e2.run(e.carried())
	require.NoError(t, e2.GetWorkflowError())
	require.Len(t, w2.leases, 1)
	require.Equal(t, 1, w2.leases[0].Attempt)
}

// A submission whose answer was lost with the run that waited for it is made
// again under the same key, for the same attempt.
func TestSubmissionLostOverAContinueAsNew(t *testing.T) {
	t.Parallel()
	slow := func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, temporal.NewApplicationErrorWithOptions("no answer", "Lost", temporal.ApplicationErrorOptions{NextRetryDelay: 30 * time.Minute})
	}
	for name, known := range map[string]bool{"nothing was heard of it": false, "its work has already reported": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{submit: slow}
			e := newEnv(t, w)
			if known {
				e.at(time.Minute, func() { e.signal(callback("p", attempt(1, progress(10)))) })
			}
			e.at(2*time.Minute, func() {
				e.suggest()
				e.SignalWorkflow(protocol.SignalCallback, raw(`{"wakes":"only"}`))
			})
			e.run(executed())
			next := e.carried()
			require.Nil(t, next.Carry.Handle)
			require.Equal(t, known, next.Carry.Task.State == domain.StateRunning)

			w2 := &world{}
			probes(succeed("h"))(w2)
			e2 := newEnv(t, w2)
			e2.run(next)
			require.NoError(t, e2.GetWorkflowError())
			require.Equal(t, w.submits[0].SubmissionKey, w2.submits[0].SubmissionKey)
			require.Equal(t, 1, w2.submits[0].Attempt)
			require.Len(t, w2.submits, 1)
			require.Equal(t, 1, e2.record().Task.Attempts)
		})
	}
}

// A stop that was on its way ends with its run, so the next one sends it again.
func TestStopOnItsWayIsSentAgain(t *testing.T) {
	t.Parallel()
	w := &world{cancel: func(protocol.CancelRequest) error { return errors.New("the host doesn't answer") }}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann"}) })
	e.at(time.Minute+time.Second, func() {
		e.suggest()
		e.signal(callback("hb", domain.Event{Type: domain.EventHeartbeat, Stage: "x"}))
	})
	e.run(executed())
	next := e.carried()
	require.Zero(t, next.Carry.CancelSent)
	w2 := &world{}
	e2 := newEnv(t, w2)
	e2.SetStartTime(start.Add(time.Minute + time.Second))
	e2.run(next)
	require.Len(t, w2.cancels, 1)
	require.Equal(t, domain.StateCancelled, e2.record().Task.State)
}

// A suspicion and the request to ask cross as well.
func TestSuspicionOverAContinueAsNew(t *testing.T) {
	t.Parallel()
	w := &world{
		lease: func(context.Context, protocol.LeaseRequest) error { return temporal.NewHeartbeatTimeoutError() },
		ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
			return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})
		},
	}
	e := newEnv(t, w)
	e.at(10*time.Second, func() {
		e.suggest()
		e.SignalWorkflow(protocol.SignalCallback, raw(`{"wakes":"only"}`))
	})
	in := executed(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 600_000 })
	e.run(in)
	next := e.carried()
	require.NotZero(t, next.Carry.Task.SuspectedAtMs)

	w2 := &world{
		ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
			return protocol.ProbeResult{Known: true}, nil
		},
		lease: func(context.Context, protocol.LeaseRequest) error { return activity.ErrResultPending },
	}
	e2 := newEnv(t, w2)
	e2.SetStartTime(start.Add(10 * time.Second))
	e2.at(time.Minute, func() { e2.signal(callback("end", attempt(1, succeed("h")))) })
	e2.run(next)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventLeaseRenewed, domain.EventSucceed}, eventTypes(e2.record().Task))
	require.Len(t, w2.leases, 1)
}

// A task that was born at its first run keeps its deadline over any number of
// them, and the deadline rings in the last.
func TestDeadlineOverContinueAsNew(t *testing.T) {
	t.Parallel()
	in := external()
	at := start
	for i := range 4 {
		e := newEnv(t, &world{})
		e.SetStartTime(at)
		e.at(10*time.Minute, func() {
			e.suggest()
			e.signal(callback(fmt.Sprint("p", i), progress(float64(10*(i+1)))))
		})
		e.run(in)
		in = e.carried()
		at = at.Add(10 * time.Minute)
		require.Equal(t, startMs()+time.Hour.Milliseconds(), in.Carry.Task.ExpiresAtMs)
		require.Equal(t, i+1, in.Carry.Ledger.Len())
	}
	e := newEnv(t, &world{})
	e.SetStartTime(at)
	e.run(in)
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	require.Equal(t, startMs()+time.Hour.Milliseconds(), rec.Task.EndedAtMs)
	require.Equal(t, time.Hour, e.Now().Sub(start))
	require.EqualValues(t, 6, rec.Task.Version, "started, four reports, expired")
}

// A lower threshold than the server's is for tests and for those who want it.
func TestContinueAfterEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	e.at(time.Minute, func() {
		e.SetCurrentHistoryLength(49)
		e.signal(callback("a", progress(1)))
	})
	var still protocol.Description
	e.at(2*time.Minute, func() {
		still = e.describe()
		e.SetCurrentHistoryLength(50)
		e.signal(callback("b", progress(2)))
	})
	e.run(external(func(in *protocol.TaskInput) { in.ContinueAfterEvents = 50 }))
	require.EqualValues(t, 2, still.Task.Version)
	require.EqualValues(t, 3, e.carried().Carry.Task.Version)
}

// The carried state of a task that was used to the limit stays below the 2 MiB
// at which Temporal refuses a payload.
func TestTheLargestCarriedStateFits(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{storeErr: func(int) error { return errors.New("away") }})
	const callbacks = 9000
	e.at(time.Second, func() { e.signal(callback("s", started(1))) })
	for from := 0; from < callbacks; from += 500 {
		e.at(time.Minute+time.Duration(from)*time.Millisecond, func() {
			for i := from; i < from+500; i++ {
				stage := fmt.Sprintf("%0*d<", domain.MaxStage-1, i)
				e.queue(callback(fmt.Sprint("cb-", i), domain.Event{Type: domain.EventHeartbeat, Stage: stage}))
			}
			e.signal(callback(fmt.Sprint("step-", from), domain.Event{Type: domain.EventHeartbeat}))
		})
	}
	e.at(2*time.Minute, func() {
		e.suggest()
		e.signal(callback("last", progress(1)))
	})
	e.run(external())
	in := e.carried()
	require.Equal(t, domain.LedgerLimit, in.Carry.Ledger.Len())
	require.EqualValues(t, callbacks+2, in.Carry.Task.Version)
	require.Len(t, in.Carry.Task.History, domain.HistoryLimit)
	b, err := json.Marshal(in)
	require.NoError(t, err)
	require.Less(t, len(b), 1<<20)
}

// A submission that was begun before a continue-as-new may have started a job, also
// when the task is cancelled before anybody looks for it.
func TestBegunBeforeAContinueAsNewIsStopped(t *testing.T) {
	t.Parallel()
	in := executed()
	task, err := domain.New(in.Create)
	require.NoError(t, err)
	task.ExpiresAtMs = startMs() + time.Hour.Milliseconds()
	in.Carry = &protocol.Carry{Task: task, Begun: &protocol.Begun{SubmissionKey: "acme/t1/1", Attempt: 1}}
	w := &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return protocol.SubmitResult{}, temporal.NewNonRetryableApplicationError("no", "Other", nil)
	}}
	e := newEnv(t, w)
	e.at(0, func() { e.CancelWorkflow() })
	e.run(in)
	require.Equal(t, domain.StateCancelled, e.record().Task.State)
	require.Len(t, w.cancels, 1)
}
