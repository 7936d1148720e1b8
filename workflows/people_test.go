package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func ask(id string) domain.Event {
	return domain.Event{Type: domain.EventInputRequired, QuestionID: id, Prompt: "which one?"}
}

func TestTwoCancels(t *testing.T) {
	t.Parallel()
	t.Run("of a running task: the first one counts", func(t *testing.T) {
		t.Parallel()
		w := &world{}
		e := newEnv(t, w)
		var first, second *reply
		e.at(time.Minute, func() { first = e.update(protocol.UpdateCancel, "a", protocol.Cancel{By: "ann", Reason: "wrong file"}) })
		e.at(time.Minute+time.Second, func() { second = e.update(protocol.UpdateCancel, "b", protocol.Cancel{By: "bob"}) })
		e.at(time.Minute+2*time.Second, e.CancelWorkflow)
		e.run(executed())
		require.Equal(t, domain.ReasonCancelRequested, first.out.Reason)
		out := second.refusal(t)
		require.Equal(t, domain.ReasonDuplicateCancel, out.Reason)
		require.True(t, out.Duplicate)
		rec := e.record()
		require.Equal(t, "ann", rec.Task.Cancel.By)
		require.Equal(t, "wrong file", rec.Task.Cancel.Reason)
		require.Len(t, w.cancels, 1, "the outside is told once")
		require.Equal(t, "wrong file", w.cancels[0].Reason)
	})
	t.Run("at the same moment, of a queued task", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var first, second *reply
		e.at(time.Minute, func() {
			first = e.update(protocol.UpdateCancel, "a", protocol.Cancel{By: "ann"})
			second = e.update(protocol.UpdateCancel, "b", protocol.Cancel{By: "bob"})
		})
		e.run(external())
		require.Equal(t, domain.ReasonCancelled, first.out.Reason)
		if second.err != nil {
			require.Equal(t, domain.ReasonTerminalConflict, second.refusal(t).Reason)
		}
		require.Equal(t, "ann", e.record().Task.Cancel.By)
	})
}

// When the grace is over the outside is asked once more, and its answer counts.
func TestCancelGrace(t *testing.T) {
	t.Parallel()
	end := func(e domain.Event) func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
			e.Attempt = r.Attempt
			return protocol.ProbeResult{Event: &e}, nil
		}
	}
	yes, no := true, false
	for name, tc := range map[string]struct {
		ask       func(protocol.ProbeRequest) (protocol.ProbeResult, error)
		state     domain.State
		confirmed *bool
	}{
		"it has stopped":                 {end(domain.Event{Type: domain.EventCancelled}), domain.StateCancelled, &yes},
		"it had finished":                {end(succeed("h")), domain.StateSucceeded, nil},
		"it had failed":                  {end(domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "boom"}}), domain.StateFailed, nil},
		"it had failed, and would again": {end(retryable(1)), domain.StateCancelled, &yes},
		"it is lost": {func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
			return protocol.ProbeResult{Lost: true}, nil
		}, domain.StateCancelled, &yes},
		"it still works": {func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
			return protocol.ProbeResult{Known: true}, nil
		}, domain.StateCancelled, &no},
		"it is not known":   {func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, nil }, domain.StateCancelled, &no},
		"it doesn't answer": {func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, errGoesOn }, domain.StateCancelled, &no},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			e := newEnv(t, w)
			var asked []time.Time
			w.ask = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
				asked = append(asked, e.Now())
				return tc.ask(r)
			}
			e.at(time.Minute, func() { e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"}) })
			e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.CancelGraceMs = 20_000 }))
			rec := e.record()
			require.Equal(t, tc.state, rec.Task.State)
			require.Equal(t, tc.confirmed, rec.Task.Confirmed)
			require.Len(t, asked, 1, "once")
			require.Equal(t, 80*time.Second, asked[0].Sub(start), "when the grace was over")
			require.Len(t, w.cancels, 1)
		})
	}
}

// A worker outside learns of a cancel from the answer to its heartbeat, and says
// by the same way that it has stopped.
func TestCancelReachesAWorkerByItsLease(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
	e.at(2*time.Minute, func() { e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"}) })
	e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 60_000 }))
	require.True(t, temporal.IsCanceledError(e.GetWorkflowError()))
	rec := e.record()
	require.True(t, *rec.Task.Confirmed)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventCancelRequested, domain.EventCancelled}, eventTypes(rec.Task))
	require.Len(t, w.leases, 1)
	require.Empty(t, w.cancels, "there is no executor to tell")
}

func TestAnswerRaces(t *testing.T) {
	t.Parallel()
	answer := func(text, by string) protocol.Answer {
		return protocol.Answer{QuestionID: "q1", Answer: json.RawMessage(text), By: by}
	}
	t.Run("two people at the same moment", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var ann, bob, same, unknown *reply
		var waiting, after protocol.Description
		e.at(time.Minute, func() { e.signal(callback("ask", ask("q1"))) })
		e.at(2*time.Minute, func() {
			waiting = e.describe()
			ann = e.update(protocol.UpdateAnswer, "a", answer(`{"pick": 1}`, "ann"))
			bob = e.update(protocol.UpdateAnswer, "b", answer(`{"pick":2}`, "bob"))
			same = e.update(protocol.UpdateAnswer, "c", answer(`{"pick":1}`, "eve"))
			unknown = e.update(protocol.UpdateAnswer, "d", protocol.Answer{QuestionID: "q2", Answer: []byte(`1`)})
		})
		e.at(3*time.Minute, func() { after = e.describe() })
		e.at(4*time.Minute, func() { e.signal(callback("end", succeed("h"))) })
		e.run(external())
		require.Equal(t, domain.PhaseWaitingInput, waiting.Phase)
		require.Equal(t, domain.ReasonAnswered, ann.out.Reason)
		require.Equal(t, domain.ReasonAnswerConflict, bob.answer(t).Reason)
		require.False(t, bob.answer(t).Changed)
		require.Equal(t, domain.ReasonDuplicateAnswer, same.answer(t).Reason)
		require.True(t, same.answer(t).Duplicate)
		require.Equal(t, domain.ReasonUnknownQuestion, unknown.answer(t).Reason)
		require.Equal(t, domain.PhaseWaitingExternal, after.Phase)
		require.JSONEq(t, `{"pick":1}`, string(after.Task.Questions[0].Answer))
		require.Equal(t, "ann", after.Task.Questions[0].AnsweredBy)
	})
	t.Run("a question of another attempt", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var late *reply
		e.at(1*time.Minute, func() { e.signal(callback("ask", ask("q1"))) })
		e.at(2*time.Minute, func() { e.signal(callback("f", retryable(1))) })
		e.at(3*time.Minute, func() { e.signal(callback("s2", started(2))) })
		e.at(4*time.Minute, func() { late = e.update(protocol.UpdateAnswer, "a", answer(`1`, "ann")) })
		e.run(external())
		require.Equal(t, domain.ReasonUnknownQuestion, late.refusal(t).Reason)
	})
	t.Run("an answer after the end", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var late *reply
		e.at(1*time.Minute, func() { e.signal(callback("ask", ask("q1"))) })
		e.at(time.Hour+time.Minute, func() { late = e.update(protocol.UpdateAnswer, "a", answer(`1`, "ann")) })
		e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LatePolicy = domain.LateRecord }))
		require.Equal(t, domain.ReasonTerminalConflict, late.refusal(t).Reason)
	})
}

func TestAttach(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var one, again, two, late *reply
	var after protocol.Description
	e.at(time.Minute, func() {
		one = e.update(protocol.UpdateAttach, "a", protocol.Attach{Target: "mail"})
		again = e.update(protocol.UpdateAttach, "b", protocol.Attach{Target: "mail"})
		two = e.update(protocol.UpdateAttach, "c", protocol.Attach{Target: "ops"})
	})
	e.at(2*time.Minute, func() { after = e.describe() })
	e.at(time.Hour+time.Minute, func() { late = e.update(protocol.UpdateAttach, "d", protocol.Attach{Target: "late"}) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Targets, in.Create.Policy.LatePolicy = []string{"ops"}, domain.LateRecord
	}))
	require.Equal(t, domain.ReasonAttached, one.out.Reason)
	require.True(t, one.out.Changed)
	require.Equal(t, domain.ReasonDuplicateTarget, again.out.Reason)
	require.Equal(t, domain.ReasonDuplicateTarget, two.out.Reason, "a target of the submission is one")
	require.Equal(t, []string{"ops", "mail"}, after.Targets)
	require.Equal(t, domain.ReasonTerminalConflict, late.refusal(t).Reason, "it would never be told")
	require.Zero(t, one.out.Version, "a target is no change of the task")
}

// While an expired task waits for a late result it is open, and an operator
// retries it by update.
func TestRetryDuringTheLateGrace(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	const ttl = 30 * time.Minute
	var early, retry, second *reply
	var expired, queued protocol.Description
	e.at(time.Minute, func() { early = e.update(protocol.UpdateRetry, "r0", protocol.Retry{TTLMs: ttl.Milliseconds()}) })
	e.at(time.Hour+1*time.Minute, func() {
		expired = e.describe()
		retry = e.update(protocol.UpdateRetry, "r1", protocol.Retry{TTLMs: ttl.Milliseconds(), By: "ann", Reason: "more time"})
		second = e.update(protocol.UpdateRetry, "r2", protocol.Retry{TTLMs: ttl.Milliseconds(), By: "bob"})
	})
	e.at(time.Hour+2*time.Minute, func() { queued = e.describe() })
	e.at(time.Hour+3*time.Minute, func() { e.signal(callback("s2", started(2))) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Create.Policy.LatePolicy, in.Create.RunID, in.Create.MaxAttempts = domain.LateRecord, "r1", 1
	}))
	require.Equal(t, domain.ReasonNotEnded, early.refusal(t).Reason)
	require.Equal(t, domain.PhaseExpired, expired.Phase)
	require.Equal(t, domain.WakeLateGrace, expired.WakeFor)
	require.Equal(t, domain.ReasonRetried, retry.out.Reason)
	require.Equal(t, domain.ReasonNotEnded, second.answer(t).Reason, "of two operators one retries")
	require.Equal(t, domain.PhaseSubmitted, queued.Phase)
	require.Equal(t, startMs()+(time.Hour+time.Minute+ttl).Milliseconds(), queued.Task.ExpiresAtMs)
	require.Equal(t, 2, queued.Task.MaxAttempts)
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	require.Equal(t, 1, rec.Task.Retries)
	require.Equal(t, queued.Task.ExpiresAtMs, rec.Task.EndedAtMs, "the new deadline holds")
	require.Len(t, w.notified, 2, "each end is told")
}

// A retry of an executed task submits again, for the next attempt, and asks the
// outside again at the next deadline.
func TestRetryOfAnExecutedTask(t *testing.T) {
	t.Parallel()
	w := &world{ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return protocol.ProbeResult{Known: true}, nil
	}}
	e := newEnv(t, w)
	asks := 0
	ask := w.ask
	w.ask = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		asks++
		return ask(r)
	}
	e.at(time.Hour+time.Minute, func() {
		e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
	})
	e.run(executed(func(in *protocol.TaskInput) {
		in.Create.Policy.LatePolicy, in.Create.Policy.GraceMs = domain.LateRecord, (10 * time.Minute).Milliseconds()
	}))
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	require.Len(t, w.submits, 2)
	require.Equal(t, []int{1, 2}, []int{w.submits[0].Attempt, w.submits[1].Attempt})
	require.Len(t, w.cancels, 2, "each expired attempt is told to stop")
	require.Equal(t, 2, w.cancels[1].Attempt)
	require.Equal(t, 2, asks)
}
