package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
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

// Many operators press retry at once. One adds the attempt, the others are told
// of it.
func TestTwoOperatorsRetryAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, retryTools, nil)
	b.StartWorker()
	race := func(id string) {
		t.Helper()
		before := b.Describe(id).Task
		answers := make([]starter.Retried, 6)
		errs := make([]error, len(answers))
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				answers[i], errs[i] = b.Client.Retry(b.Ctx, id, starter.Retry{By: "operator", TTL: time.Hour})
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
		after := b.Describe(id)
		require.False(t, after.Closed)
		require.Equal(t, before.MaxAttempts+1, after.Task.MaxAttempts)
		require.Equal(t, 1, after.Task.Retries)
		require.Equal(t, before.Version+1, after.Task.Version, "the version goes on")
		b.Callback(id, "begin-2", harness.Attempt(2, harness.Start("bob")))
		require.Equal(t, domain.ReasonSucceeded, b.Callback(id, "end", harness.Attempt(2, harness.Succeed("h"))).Outcome.Reason)
	}
	// A closed workflow is started again; one that waits for a late result is
	// still open and takes an update.
	b.Submit("once", "closed")
	b.Callback("closed", "f", harness.Fail("BROKEN", false))
	b.UntilClosed("closed")
	race("closed")
	b.Submit("kept", "open")
	b.Callback("open", "s", harness.Start("ann"))
	b.UntilState("open", domain.StateExpired)
	race("open")
}

// What a task refused while it was over stays refused when it has been retried:
// it belongs to an attempt that is over. By both doors.
func TestRefusedCallbackStaysRefusedAfterAManualRetry(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("once", id)
	b.Callback(id, "begin", harness.Start("ann"))
	b.Callback(id, "f", harness.Fail("BROKEN", false))
	b.UntilClosed(id)
	for callbackID, e := range map[string]domain.Event{"named": harness.Attempt(1, harness.Succeed("h")), "nameless": harness.Succeed("h")} {
		v := b.Callback(id, callbackID, e)
		require.Equal(t, domain.ReasonTerminalConflict, v.Outcome.Reason)
		require.Equal(t, starter.VerdictConflict, v.Verdict)
	}
	_, err := b.Client.Retry(b.Ctx, id, starter.Retry{By: "olga"})
	require.NoError(t, err)
	b.Callback(id, "begin-2", harness.Attempt(2, harness.Start("bob")))
	for callbackID, e := range map[string]domain.Event{"named": harness.Attempt(1, harness.Succeed("h")), "nameless": harness.Succeed("h")} {
		v := b.Callback(id, callbackID, e)
		require.Equal(t, domain.ReasonStaleAttempt, v.Outcome.Reason, callbackID)
		require.Equal(t, starter.VerdictStale, v.Verdict, callbackID)
		require.NoError(t, b.Client.Signal(b.Ctx, id, domain.Callback{CallbackID: callbackID, Event: e}))
	}
	// And what attempt 1 was answered is still known as a repeat.
	require.Equal(t, starter.VerdictDuplicate, b.Callback(id, "begin", harness.Start("ann")).Verdict)
	v := b.Callback(id, "end", harness.Attempt(2, harness.Succeed("h2")))
	require.Equal(t, domain.ReasonSucceeded, v.Outcome.Reason)
	b.UntilClosed(id)
	require.Equal(t, "h2", b.Describe(id).Task.ResultHash)
}

// The fail of a worker that was given up must not kill the next attempt.
func TestLateFailOfAttempt1DuringAttempt2(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("twice", id)
	b.Callback(id, "s1", harness.Attempt(1, harness.Start("ann")))
	require.Equal(t, domain.ReasonRequeued, b.Callback(id, "f1", harness.Attempt(1, harness.Fail("FLAKY", true))).Outcome.Reason)
	require.Equal(t, domain.ReasonStarted, b.Callback(id, "s2", harness.Attempt(2, harness.Start("bob"))).Outcome.Reason)
	late := harness.Attempt(1, harness.Fail("FATAL", false))
	require.Equal(t, domain.ReasonStaleAttempt, b.Callback(id, "f1-late", late).Outcome.Reason)
	require.NoError(t, b.Client.Signal(b.Ctx, id, domain.Callback{CallbackID: "f1-later", Event: late}))
	require.Equal(t, domain.ReasonSucceeded, b.Callback(id, "end", harness.Attempt(2, harness.Succeed("h"))).Outcome.Reason)
	b.UntilClosed(id)
	require.Equal(t, "FLAKY", b.Describe(id).Task.Error.Code)
}

// Update ids are one space in Temporal, whatever the update's name: without
// their prefixes a callback would be answered with the outcome of an answer.
func TestCallbackIDThatEqualsAnAnswerID(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, retryTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("once", id)
	b.Callback(id, "begin", harness.Start("ann"))
	q := domain.Event{Type: domain.EventInputRequired, QuestionID: "q1", Prompt: "go on?"}
	require.Equal(t, domain.ReasonInputRequired, b.Callback(id, "q1", q).Outcome.Reason)
	h, err := b.Temporal.UpdateWorkflow(b.Ctx, client.UpdateWorkflowOptions{
		WorkflowID: b.WorkflowID(id), UpdateName: protocol.UpdateAnswer, UpdateID: protocol.AnswerUpdateID("q1", "x"),
		Args: []any{protocol.Answer{QuestionID: "q1", Answer: []byte(`true`), By: "olga"}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	var out domain.Outcome
	require.NoError(t, h.Get(b.Ctx, &out))
	require.Equal(t, domain.ReasonAnswered, out.Reason)
	for i, callbackID := range []string{"q1/x", protocol.AnswerUpdateID("q1", "x")} {
		v := b.Callback(id, callbackID, harness.Progress(float64(10+i), ""))
		require.Equal(t, domain.ReasonProgress, v.Outcome.Reason, callbackID)
	}
	again, err := b.Client.Answer(b.Ctx, id, protocol.Answer{QuestionID: "q1", Answer: []byte(`false`), By: "otto"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonAnswerConflict, again.Reason, "a question takes one answer")
}
