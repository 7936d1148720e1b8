package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// retryable is a failure after which another attempt makes sense.
func retryable(attempt int) domain.Event {
	yes := true
	return domain.Event{Type: domain.EventFail, Attempt: attempt, Retryable: &yes, Error: &domain.TaskError{Message: "boom"}}
}

func started(attempt int) domain.Event {
	return domain.Event{Type: domain.EventStart, Attempt: attempt, Worker: "w"}
}

func TestALateFailOfAttempt1DuringAttempt2(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"update", "signal"} {
		t.Run("by "+door, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var late *reply
			e.at(1*time.Minute, func() { e.signal(callback("s1", started(1))) })
			e.at(2*time.Minute, func() { e.signal(callback("f1", retryable(1))) })
			e.at(3*time.Minute, func() { e.signal(callback("s2", started(2))) })
			e.at(4*time.Minute, func() {
				// The worker of attempt 1 gives up as well, under an id of its own.
				if c := callback("f1-late", retryable(1)); door == "update" {
					late = e.callbackUpdate(c)
				} else {
					e.signal(c)
				}
			})
			var after protocol.Description
			e.at(5*time.Minute, func() { after = e.describe() })
			e.at(6*time.Minute, func() { e.signal(callback("done", attempt(2, succeed("h")))) })
			e.run(external())
			require.NoError(t, e.GetWorkflowError())
			require.Equal(t, domain.StateRunning, after.Task.State, "attempt 2 lives")
			require.Equal(t, 2, after.Task.Attempts)
			require.EqualValues(t, 3, after.Task.Version)
			if door == "update" {
				require.Equal(t, domain.ReasonStaleAttempt, late.refusal(t).Reason)
			} else {
				a, seen := e.record().Ledger.Seen("f1-late")
				require.True(t, seen)
				require.Equal(t, domain.ReasonStaleAttempt, a.Reason)
			}
		})
	}
}

// A callback that was refused while the task had ended must not be taken when
// it comes again after a manual retry: it speaks of work that was given up.
func TestARefusedCallbackRepeatedAfterAManualRetry(t *testing.T) {
	t.Parallel()
	refused := map[string]domain.Callback{
		"that names no attempt":       callback("x", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "boom"}}),
		"that names the attempt":      callback("x", attempt(1, domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "boom"}})),
		"a success without attempt":   callback("x", succeed("old")),
		"a success with its attempt":  callback("x", attempt(1, succeed("old"))),
		"progress without an attempt": callback("x", progress(70)),
	}
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("of a task that is still open", func(t *testing.T) {
				t.Parallel()
				c := c // the other case goes on beside this one
				if c.Event.Type == domain.EventSucceed {
					// In the grace it is kept as the late result, and the task closes.
					c = callback("x", attempt(c.Event.Attempt, domain.Event{Type: domain.EventHeartbeat, Stage: "almost"}))
				}
				e := newEnv(t, &world{})
				var before, queued, running *reply
				e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
				// The grace of late results keeps the workflow open.
				e.at(time.Hour+1*time.Minute, func() { before = e.update(protocol.UpdateCallback, "1", c) })
				e.at(time.Hour+2*time.Minute, func() {
					e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
				})
				e.at(time.Hour+3*time.Minute, func() { queued = e.update(protocol.UpdateCallback, "2", c) })
				e.at(time.Hour+4*time.Minute, func() { e.signal(callback("s2", started(2))) })
				e.at(time.Hour+5*time.Minute, func() { running = e.update(protocol.UpdateCallback, "3", c) })
				e.at(time.Hour+6*time.Minute, func() { e.signal(c) })
				e.at(time.Hour+7*time.Minute, func() { e.signal(callback("done", attempt(2, succeed("new")))) })
				e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.LatePolicy = domain.LateRecord }))
				require.NoError(t, e.GetWorkflowError())
				require.Equal(t, domain.ReasonTerminalConflict, before.refusal(t).Reason)
				require.Contains(t, []domain.Reason{domain.ReasonStaleAttempt, domain.ReasonNotRunning}, queued.refusal(t).Reason)
				require.Equal(t, domain.ReasonStaleAttempt, running.refusal(t).Reason)
				rec := e.record()
				require.Equal(t, "new", rec.Task.ResultHash)
				require.Equal(t, 2, rec.Task.Attempts)
			})
			t.Run("of a task that had closed", func(t *testing.T) {
				t.Parallel()
				first := newEnv(t, &world{})
				first.at(time.Minute, func() { first.signal(callback("s", started(1))) })
				first.at(2*time.Minute, func() {
					e := attempt(1, domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "no"}})
					first.signal(callback("f", e))
				})
				in := external()
				first.run(in)
				rec := first.record()
				require.Equal(t, domain.StateFailed, rec.Task.State)
				in.Carry = &protocol.Carry{Task: rec.Task, Ledger: rec.Ledger, Retry: &protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"}}

				e := newEnv(t, &world{})
				e.SetStartTime(start.Add(time.Hour))
				var running, repeat *reply
				e.at(time.Minute, func() { e.signal(callback("s2", started(2))) })
				e.at(2*time.Minute, func() {
					running = e.callbackUpdate(c)
					repeat = e.update(protocol.UpdateCallback, "again", callback("f", domain.Event{Type: domain.EventFail}))
				})
				e.at(3*time.Minute, func() { e.signal(callback("done", attempt(2, succeed("new")))) })
				e.run(in)
				require.NoError(t, e.GetWorkflowError())
				require.Equal(t, domain.ReasonStaleAttempt, running.refusal(t).Reason)
				require.Equal(t, domain.ReasonDuplicateCallback, repeat.refusal(t).Reason, "the ledger goes on")
				require.True(t, repeat.refusal(t).Conflict)
				again := e.record()
				require.Equal(t, "new", again.Task.ResultHash)
				require.Equal(t, rec.Task.Version+3, again.Task.Version, "the version goes on: retried, started, succeeded")
				require.Equal(t, 1, again.Task.Retries)
			})
		})
	}
}

// Temporal has one space of update ids for a workflow. The prefixes keep a
// callback from being answered with the outcome of somebody's answer.
func TestACallbackIDEqualToAnAnswerID(t *testing.T) {
	t.Parallel()
	digest := domain.Event{Type: domain.EventAnswer, Answer: []byte(`"yes"`)}.Digest()
	answerID := protocol.AnswerUpdateID("q1", digest)
	for name, id := range map[string]string{"the question's id": "q1", "the whole update id": answerID, "its part behind the prefix": "q1/" + digest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var ans, cb *reply
			e.at(1*time.Minute, func() {
				e.signal(callback("ask", domain.Event{Type: domain.EventInputRequired, QuestionID: "q1", Prompt: "sure?"}))
			})
			e.at(2*time.Minute, func() {
				ans = e.update(protocol.UpdateAnswer, answerID, protocol.Answer{QuestionID: "q1", Answer: []byte(`"yes"`), By: "ann"})
			})
			e.at(3*time.Minute, func() { cb = e.callbackUpdate(callback(id, succeed("h"))) })
			e.run(external())
			require.NoError(t, e.GetWorkflowError())
			require.Equal(t, domain.ReasonAnswered, ans.out.Reason)
			require.Equal(t, domain.ReasonSucceeded, cb.out.Reason, "it was applied, not answered from the other's outcome")
			require.NotEqual(t, answerID, protocol.CallbackUpdateID(id))
			require.Equal(t, "h", e.record().Task.ResultHash)
		})
	}
}

// A gateway whose update was not answered in time sends the same delivery as a
// signal. Whichever comes first, the sender's own delivery is no repeat to it.
func TestAnUpdateThatFellBackToASignal(t *testing.T) {
	t.Parallel()
	c := callback("c", progress(40))
	other := c
	other.DeliveryID = "another"

	t.Run("is drained before the update that comes after all", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var own, theirs *reply
		e.at(time.Minute, func() {
			e.queue(c)
			own = e.update(protocol.UpdateCallback, "own", c)
			theirs = e.update(protocol.UpdateCallback, "theirs", other)
		})
		e.at(2*time.Minute, func() { e.signal(callback("done", succeed("h"))) })
		e.run(external())
		out := own.answer(t).For(c)
		require.Equal(t, domain.ReasonProgress, out.Reason)
		require.True(t, out.Changed)
		require.False(t, out.Duplicate)
		require.EqualValues(t, 2, out.Version)
		require.Equal(t, domain.ReasonDuplicateCallback, theirs.answer(t).For(other).Reason)
		require.Zero(t, e.record().Ledger.Repeats, "the own one is no repeat, the other was refused at the door")
		require.EqualValues(t, 3, e.record().Task.Version, "started, progress, succeeded: applied once")
	})
	t.Run("comes after the update that was taken", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		var own, again *reply
		e.at(time.Minute, func() { own = e.callbackUpdate(c) })
		e.at(2*time.Minute, func() { e.signal(c) })
		e.at(3*time.Minute, func() { again = e.update(protocol.UpdateCallback, "again", c) })
		e.at(4*time.Minute, func() { e.signal(callback("done", succeed("h"))) })
		e.run(external())
		require.True(t, own.out.Changed)
		require.True(t, again.answer(t).For(c).Changed, "asked again for the same delivery, it gives the same answer")
		require.EqualValues(t, 3, e.record().Task.Version)
	})
	t.Run("is drained before a continue-as-new that the update comes after", func(t *testing.T) {
		t.Parallel()
		first := newEnv(t, &world{})
		first.at(time.Minute, func() {
			first.SetContinueAsNewSuggested(true)
			first.signal(c)
		})
		first.run(external())
		in := first.carried()
		require.Equal(t, 1, in.Carry.Ledger.Len())

		e := newEnv(t, &world{})
		var own, theirs *reply
		e.at(time.Minute, func() {
			own = e.update(protocol.UpdateCallback, "own", c)
			theirs = e.update(protocol.UpdateCallback, "theirs", other)
		})
		e.at(2*time.Minute, func() { e.signal(callback("done", succeed("h"))) })
		e.run(in)
		out := own.answer(t).For(c)
		require.Equal(t, domain.ReasonProgress, out.Reason)
		require.True(t, out.Changed)
		require.False(t, out.Duplicate)
		require.EqualValues(t, 2, out.Version, "the version of then, not of now")
		require.Equal(t, domain.ReasonDuplicateCallback, theirs.refusal(t).For(other).Reason)
		require.EqualValues(t, 3, e.record().Task.Version)
	})
}

// With another body under the same id nothing changes and the sender is told.
func TestAnIDWithAnotherBodyIsAConflict(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var update *reply
	var after protocol.Description
	e.at(time.Minute, func() { e.callbackUpdate(callback("c", progress(40))) })
	e.at(2*time.Minute, func() { update = e.update(protocol.UpdateCallback, "second", callback("c", progress(50))) })
	e.at(3*time.Minute, func() { e.signal(callback("c", succeed("h"))) })
	e.at(4*time.Minute, func() { after = e.describe() })
	e.run(external())
	out := update.refusal(t)
	require.Equal(t, domain.ReasonDuplicateCallback, out.Reason)
	require.True(t, out.Conflict)
	require.Equal(t, domain.StateRunning, after.Task.State)
	require.Equal(t, 40, after.Task.Progress)
	require.EqualValues(t, 1, after.Conflicts, "the one by signal is counted where people look")
}
