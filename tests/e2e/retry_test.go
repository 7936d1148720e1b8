package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const retryTools = `
tools:
  once:
    executor: external
    ttl: 1h
    maxAttempts: 1
  twice:
    executor: external
    ttl: 1h
    maxAttempts: 2
    backoff: {initial: 1ms, max: 1ms}
  kept:
    executor: external
    ttl: 2s
    maxAttempts: 1
    late: {policy: record, grace: 1h}
`

func failure(code string) domain.Event {
	return domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: code, Message: "no"}}
}

func attempt(n int, e domain.Event) domain.Event {
	e.Attempt = n
	return e
}

// Many operators press retry at once. One adds the attempt, the others are told
// of it.
func TestTwoOperatorsRetryAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, retryTools, nil)
	b.StartWorker()
	race := func(id string) {
		t.Helper()
		before := b.describe(id).Task
		answers := make([]starter.Retried, 6)
		errs := make([]error, len(answers))
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				answers[i], errs[i] = b.Client.Retry(b.ctx, id, starter.Retry{By: "operator", TTL: time.Hour})
			})
		}
		wg.Wait()
		first := 0
		for i := range answers {
			require.NoError(t, errs[i])
			if !answers[i].Existing {
				first++
			}
		}
		require.Equal(t, 1, first, "one retry of %d", len(answers))
		after := b.describe(id)
		require.False(t, after.Closed)
		require.Equal(t, before.MaxAttempts+1, after.Task.MaxAttempts)
		require.Equal(t, 1, after.Task.Retries)
		require.Equal(t, before.Version+1, after.Task.Version, "the version goes on")
		b.callback(id, "begin-2", attempt(2, start("bob")))
		require.Equal(t, domain.ReasonSucceeded, b.callback(id, "end", attempt(2, succeed("h"))).Outcome.Reason)
	}
	// A closed workflow is started again; one that waits for a late result is
	// still open and takes an update.
	b.submit("once", "closed")
	b.callback("closed", "f", failure("BROKEN"))
	b.closed("closed")
	race("closed")
	b.submit("kept", "open")
	b.callback("open", "s", start("ann"))
	b.untilState("open", domain.StateExpired)
	race("open")
}

// What a task refused while it was over stays refused when it has been retried:
// it belongs to an attempt that is over. By both doors.
func TestRefusedCallbackStaysRefusedAfterAManualRetry(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := b.submit("once", "t-1")
	b.callback(id, "begin", start("ann"))
	b.callback(id, "f", failure("BROKEN"))
	b.closed(id)
	for callbackID, e := range map[string]domain.Event{"named": attempt(1, succeed("h")), "nameless": succeed("h")} {
		v := b.callback(id, callbackID, e)
		require.Equal(t, domain.ReasonTerminalConflict, v.Outcome.Reason)
		require.Equal(t, starter.VerdictConflict, v.Verdict)
	}
	_, err := b.Client.Retry(b.ctx, id, starter.Retry{By: "olga"})
	require.NoError(t, err)
	b.callback(id, "begin-2", attempt(2, start("bob")))
	for callbackID, e := range map[string]domain.Event{"named": attempt(1, succeed("h")), "nameless": succeed("h")} {
		v := b.callback(id, callbackID, e)
		require.Equal(t, domain.ReasonStaleAttempt, v.Outcome.Reason, callbackID)
		require.Equal(t, starter.VerdictStale, v.Verdict, callbackID)
		require.NoError(t, b.Client.Signal(b.ctx, id, domain.Callback{CallbackID: callbackID, Event: e}))
	}
	// And what attempt 1 was answered is still known as a repeat.
	require.Equal(t, starter.VerdictDuplicate, b.callback(id, "begin", start("ann")).Verdict)
	v := b.callback(id, "end", attempt(2, succeed("h2")))
	require.Equal(t, domain.ReasonSucceeded, v.Outcome.Reason)
	b.closed(id)
	require.Equal(t, "h2", b.describe(id).Task.ResultHash)
}

// The fail of a worker that was given up must not kill the next attempt.
func TestLateFailOfAttempt1DuringAttempt2(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := b.submit("twice", "t-1")
	b.callback(id, "s1", attempt(1, start("ann")))
	again := true
	flaky := failure("FLAKY")
	flaky.Retryable = &again
	require.Equal(t, domain.ReasonRequeued, b.callback(id, "f1", attempt(1, flaky)).Outcome.Reason)
	require.Equal(t, domain.ReasonStarted, b.callback(id, "s2", attempt(2, start("bob"))).Outcome.Reason)
	late := attempt(1, failure("FATAL"))
	require.Equal(t, domain.ReasonStaleAttempt, b.callback(id, "f1-late", late).Outcome.Reason)
	require.NoError(t, b.Client.Signal(b.ctx, id, domain.Callback{CallbackID: "f1-later", Event: late}))
	require.Equal(t, domain.ReasonSucceeded, b.callback(id, "end", attempt(2, succeed("h"))).Outcome.Reason)
	b.closed(id)
	require.Equal(t, "FLAKY", b.describe(id).Task.Error.Code)
}

// Update ids are one space in Temporal, whatever the update's name: without
// their prefixes a callback would be answered with the outcome of an answer.
func TestCallbackIDThatEqualsAnAnswerID(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := b.submit("once", "t-1")
	b.callback(id, "begin", start("ann"))
	q := domain.Event{Type: domain.EventInputRequired, QuestionID: "q1", Prompt: "go on?"}
	require.Equal(t, domain.ReasonInputRequired, b.callback(id, "q1", q).Outcome.Reason)
	h, err := b.Temporal.UpdateWorkflow(b.ctx, client.UpdateWorkflowOptions{
		WorkflowID: b.workflowID(id), UpdateName: protocol.UpdateAnswer, UpdateID: protocol.AnswerUpdateID("q1", "x"),
		Args: []any{protocol.Answer{QuestionID: "q1", Answer: []byte(`true`), By: "olga"}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	var out domain.Outcome
	require.NoError(t, h.Get(b.ctx, &out))
	require.Equal(t, domain.ReasonAnswered, out.Reason)
	for i, callbackID := range []string{"q1/x", protocol.AnswerUpdateID("q1", "x")} {
		v := b.callback(id, callbackID, progress(float64(10+i), ""))
		require.Equal(t, domain.ReasonProgress, v.Outcome.Reason, callbackID)
	}
	again, err := b.Client.Answer(b.ctx, id, protocol.Answer{QuestionID: "q1", Answer: []byte(`false`), By: "otto"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonAnswerConflict, again.Reason, "a question takes one answer")
}
