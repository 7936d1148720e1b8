package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// refused asks that an update was refused for a reason.
func refused(t *testing.T, reason run.Reason) func(*runReply) {
	t.Helper()
	return func(r *runReply) {
		t.Helper()
		require.Error(t, r.err, reason)
		require.Equal(t, reason, r.refusal(t).Reason)
	}
}

// came asks that an update was taken, and what it came to.
func came(t *testing.T, reason run.Reason) func(*runReply) {
	t.Helper()
	return func(r *runReply) {
		t.Helper()
		require.NoError(t, r.err, reason)
		require.Equal(t, reason, r.out.Reason)
	}
}

// invalid asks that an update was refused because of a field.
func invalid(t *testing.T, field string) func(*runReply) {
	t.Helper()
	return func(r *runReply) {
		t.Helper()
		require.Error(t, r.err, field)
		require.Equal(t, field, r.problem(t).Field)
	}
}

// claims takes the step that is due, and keeps what it was handed.
func (e *runEnv) claims(holder string, then ...func(run.StepRequest)) {
	e.update(protocol.UpdateClaim, protocol.Claim{Holder: holder}, func(r *runReply) {
		require.NoError(e.t, r.err)
		e.w.steps = append(e.w.steps, r.claimed.Request)
		for _, f := range then {
			f(r.claimed.Request)
		}
	})
}

// commits answers the newest step that was handed out.
func (e *runEnv) commits(resp run.StepResponse, then ...func(*runReply)) {
	req := e.w.steps[len(e.w.steps)-1]
	e.update(protocol.UpdateCommit, commitOf(req.Step, req.StepToken, resp), then...)
}

// ends brings the run to its end when nothing is open.
func (e *runEnv) ends(d time.Duration) {
	e.at(d, func() { e.take(func(run.StepRequest) run.StepResponse { return final(`"over"`) }) })
}

func TestClaims(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w1", RuntimeVersion: "v1"}, refused(t, run.ReasonWrongRuntime))
		e.update(protocol.UpdateClaim, protocol.Claim{LeaseMs: -1}, invalid(t, "leaseMs"))
		e.claims("w1", func(req run.StepRequest) {
			require.Equal(t, 1, req.Attempt)
			require.Equal(t, int64(run.DefaultLeaseMs), req.LeaseMs)
		})
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w2"}, refused(t, run.ReasonStepHeld))
		e.update(protocol.UpdateClaim, protocol.Claim{}, refused(t, run.ReasonStepHeld))
	})
	// One that comes again has lost what it held; a lease that has run out is free.
	e.at(1*time.Minute+30*time.Second, func() { e.claims("w1", func(req run.StepRequest) { require.Equal(t, 2, req.Attempt) }) })
	e.at(1*time.Minute+50*time.Second, func() {
		old, now := w.steps[0].StepToken, w.steps[1].StepToken
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: old}, refused(t, run.ReasonStaleToken))
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{}, refused(t, run.ReasonStaleToken))
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: now, Delta: json.RawMessage(`"think"`)}, came(t, run.ReasonRenewed))
	})
	e.at(2*time.Minute+40*time.Second, func() {
		require.JSONEq(t, `"think"`, string(e.describe().Delta))
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w2"}, refused(t, run.ReasonStepHeld))
	})
	e.at(2*time.Minute+51*time.Second, func() {
		require.Empty(t, e.describe().Delta, "nobody is at it any more")
		e.claims("w2", func(req run.StepRequest) { require.Equal(t, 3, req.Attempt) })
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[1].StepToken, final(`1`)), refused(t, run.ReasonStaleToken))
	})
	e.at(3*time.Minute, func() { e.commits(final(`2`), came(t, run.ReasonFinished)) })
	e.run(pulls(func(in *protocol.RunInput) { in.Create.RuntimeVersion = "v2" }))
	rec := e.record()
	require.Equal(t, `2`, string(rec.Final.Data))
	require.Equal(t, run.ReasonStepLost, rec.History[2].Reason)
	require.Empty(t, w.begun)
}

// A hint about a step is void when the step has been committed.
func TestAHintEndsWithItsStep(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.claims("w1", func(req run.StepRequest) {
			e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: req.StepToken, Delta: json.RawMessage(`1`)})
			e.commits(run.StepResponse{Await: run.AwaitInput}, came(t, run.ReasonCommitted))
		})
	})
	e.at(2*time.Second, func() {
		require.Empty(t, e.describe().Delta)
		e.update(protocol.UpdateCancel, protocol.Cancel{}, came(t, run.ReasonCancelRequested))
	})
	e.run(pulls())
	require.Equal(t, run.StateCancelled, e.record().State)
}

func TestCommits(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	at := func(step int, token string, resp run.StepResponse) protocol.Commit {
		return commitOf(step, token, resp)
	}
	token := func() string { return w.steps[len(w.steps)-1].StepToken }
	none := func() { require.Empty(t, w.begun); require.Zero(t, e.describe().Run.StepsDone) }
	e.at(1*time.Minute, func() {
		e.update(protocol.UpdateCommit, at(1, "x", asks(toolCall("a"))), refused(t, run.ReasonStaleToken))
		e.claims("w1")
	})
	e.at(61*time.Second, func() {
		e.update(protocol.UpdateCommit, at(2, token(), asks(toolCall("a"))), refused(t, run.ReasonStepAhead))
		e.update(protocol.UpdateCommit, at(1, token(), asks(toolCall("a"), toolCall("a"))), invalid(t, "toolCalls[1].toolCallId"))
		e.update(protocol.UpdateCommit, at(1, token(), asks(toolCall("a", needs("b")), toolCall("b", needs("a")))), invalid(t, "toolCalls"))
		e.update(protocol.UpdateCommit, at(1, token(), asks(toolCall("a", needs("z")))), invalid(t, "toolCalls[0].dependsOn"))
		e.update(protocol.UpdateCommit, at(1, token(), run.StepResponse{}), refused(t, run.ReasonNothingToWait))
		e.update(protocol.UpdateCommit, at(1, token(), run.StepResponse{OnFinal: run.OnFinalDetach, ToolCalls: []run.ToolCall{toolCall("a")}}), invalid(t, "onFinal"))
		e.update(protocol.UpdateCommit, at(1, "", asks(toolCall("a"))), invalid(t, "stepToken"))
		broken := at(1, token(), asks(toolCall("a")))
		broken.Checkpoint.Hash = "x"
		e.update(protocol.UpdateCommit, broken, invalid(t, "checkpoint"))
	})
	e.at(62*time.Second, func() {
		none()
		// Of two that come at once one wins, and the other is told.
		one, two := at(1, token(), asks(toolCall("a"))), at(1, token(), asks(toolCall("b")))
		e.update(protocol.UpdateCommit, one, came(t, run.ReasonCommitted))
		e.update(protocol.UpdateCommit, two, refused(t, run.ReasonCommitConflict))
		e.update(protocol.UpdateCommit, one, func(r *runReply) {
			came(t, run.ReasonCommitted)(r)
			require.True(t, r.out.Duplicate)
			require.Equal(t, 1, r.out.Step)
		})
	})
	e.at(63*time.Second, func() {
		require.Len(t, w.begun, 1)
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w1"}, refused(t, run.ReasonNoStep))
		e.update(protocol.UpdateCommit, at(2, token(), final(`1`)), refused(t, run.ReasonNoStep))
		e.finish(taskOf(1, "a"))
	})
	e.at(64*time.Second, func() {
		e.claims("w1", func(run.StepRequest) {
			e.commits(run.StepResponse{ToolCalls: []run.ToolCall{toolCall("a")}, Output: json.RawMessage(`"wait"`)}, came(t, run.ReasonCommitted))
		})
	})
	e.at(65*time.Second, func() { e.update(protocol.UpdateInput, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`1`)}) })
	e.at(66*time.Second, func() { e.finish(taskOf(2, "a")) })
	e.at(67*time.Second, func() {
		e.claims("w1", func(req run.StepRequest) {
			require.Equal(t, "i", req.Inputs[0].InputID)
			// A step that failed does nothing else, and comes again.
			failed := run.StepResponse{Error: failure("HICCUP", true)}
			e.commits(failed, came(t, run.ReasonStepRetry))
			e.commits(failed, func(r *runReply) { require.True(t, r.out.Duplicate) })
		})
	})
	e.at(10*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse { require.Equal(t, 2, req.Attempt); return final(`1`) })
	})
	e.run(pulls())
	rec := e.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Len(t, w.begun, 2)
	require.Equal(t, `{"n": 1 }`, string(rec.Checkpoint.Data), "a step without a checkpoint leaves the last one")
	require.JSONEq(t, `"wait"`, string(rec.Outputs[0].Content))
}

func TestInputsByBothDoors(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	say := func(id, content string) protocol.RunSaid {
		return protocol.RunSaid{InputID: id, Content: json.RawMessage(content), Source: "bob"}
	}
	e.at(1*time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
	e.at(2*time.Minute, func() {
		e.update(protocol.UpdateInput, say("u", `1`), came(t, run.ReasonInput))
		e.update(protocol.UpdateInput, say("u", `1`), func(r *runReply) { require.True(t, r.out.Duplicate) })
		e.update(protocol.UpdateInput, say("u", `2`), refused(t, run.ReasonInputConflict))
		e.update(protocol.UpdateInput, say("", `2`), invalid(t, "input.inputId"))
		e.update(protocol.UpdateInput, raw(`{"inputId":"x"}`), invalid(t, "input.content"))
		e.SignalWorkflow(protocol.SignalInput, say("s", `3`))
		e.SignalWorkflow(protocol.SignalInput, say("s", `3`))
	})
	e.at(3*time.Minute, func() {
		d := e.describe()
		require.Nil(t, d.Run.Step, "nothing wakes it before the call has ended")
		require.Len(t, d.Run.Inputs, 2)
		require.Nil(t, d.LastRejected)
		e.SignalWorkflow(protocol.SignalInput, raw(`{"inputId":"bad"}`))
	})
	e.at(4*time.Minute, func() {
		require.Contains(t, e.describe().LastRejected.Error, "input.content")
		e.finish(taskOf(1, "a"))
	})
	e.at(5*time.Minute, func() {
		e.claims("w1", func(req run.StepRequest) {
			require.Equal(t, run.CauseResults, req.Cause)
			require.Equal(t, []string{"a succeeded"}, states(req))
			require.Equal(t, "u", req.Inputs[0].InputID)
			require.Equal(t, "s", req.Inputs[1].InputID)
			// What comes while a step is held is the next one's.
			e.update(protocol.UpdateInput, say("later", `4`), came(t, run.ReasonInput))
			e.commits(run.StepResponse{ToolCalls: []run.ToolCall{toolCall("a")}, WakeOnInput: true}, came(t, run.ReasonCommitted))
		})
	})
	e.at(6*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, run.CauseInput, req.Cause)
			require.Empty(t, req.Results)
			require.Len(t, req.Inputs, 1)
			require.Equal(t, "a", req.Pending[0].ToolCallID)
			require.Equal(t, 2, req.Pending[0].AskedAtStep)
			return run.StepResponse{Await: run.AwaitInput, CancelCalls: []run.CancelCall{{ToolCallID: "a", AskedAtStep: 2}}}
		})
	})
	e.at(7*time.Minute, func() {
		e.update(protocol.UpdateInput, say("s", `3`), func(r *runReply) { require.True(t, r.out.Duplicate, "taken long ago") })
	})
	e.at(8*time.Minute, func() {
		require.Nil(t, e.describe().Run.Step)
		require.Len(t, w.cancels, 1)
		e.SignalWorkflow(protocol.SignalInput, say("last", `5`))
	})
	e.at(9*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Len(t, req.Inputs, 1)
			return run.StepResponse{Final: json.RawMessage(`1`), CancelCalls: []run.CancelCall{{ToolCallID: "a", AskedAtStep: 2}}}
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}

func TestPause(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.claims("w1")
		e.update(protocol.UpdatePause, protocol.Pause{By: "ann", Reason: "look"}, came(t, run.ReasonPaused))
		e.update(protocol.UpdatePause, protocol.Pause{By: "bob"}, func(r *runReply) { require.True(t, r.out.Duplicate) })
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w1"}, refused(t, run.ReasonNoStep))
	})
	e.at(61*time.Second, func() {
		// A step that is out may commit, its calls begin and end.
		e.commits(asks(toolCall("a")), came(t, run.ReasonCommitted))
	})
	e.at(62*time.Second, func() { require.Len(t, w.begun, 1); e.finish(taskOf(1, "a")) })
	e.at(63*time.Second, func() {
		d := e.describe()
		require.Equal(t, run.StatePaused, d.Run.State)
		require.Equal(t, "somebody to unpause it", d.WaitsFor)
		require.Equal(t, run.CallSucceeded, d.Run.Calls[0].State)
		e.update(protocol.UpdateClaim, protocol.Claim{}, refused(t, run.ReasonNoStep))
		e.update(protocol.UpdateUnpause, protocol.Pause{By: "ann"}, came(t, run.ReasonUnpaused))
		e.update(protocol.UpdateUnpause, protocol.Pause{}, func(r *runReply) { require.True(t, r.out.Duplicate) })
	})
	e.ends(2 * time.Minute)
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}

func TestCancelOneCall(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	one := func(id string, step int) protocol.CancelOneCall {
		return protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: id, AskedAtStep: step}, Message: "too dear", By: "ann"}
	}
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a"), toolCall("b"), toolCall("c", needs("a")))
		})
	})
	e.at(2*time.Minute, func() {
		e.update(protocol.UpdateCancelCall, one("z", 1), refused(t, run.ReasonUnknownCall))
		e.update(protocol.UpdateCancelCall, one("a", 2), refused(t, run.ReasonUnknownCall))
		e.update(protocol.UpdateCancelCall, one("a", 0), came(t, run.ReasonCancelRequested))
		e.update(protocol.UpdateCancelCall, one("a", 1), func(r *runReply) { require.True(t, r.out.Duplicate) })
		e.update(protocol.UpdateCancelCall, one("c", 1), came(t, run.ReasonCancelRequested))
	})
	e.at(3*time.Minute, func() {
		require.Len(t, w.cancels, 1, "c has no task that could be told")
		require.Equal(t, taskOf(1, "a"), w.cancels[0].TaskID)
		require.Equal(t, "too dear", w.cancels[0].Reason)
		require.False(t, w.cancels[0].Detach)
		// It finishes first, and that is what counts.
		e.finish(taskOf(1, "a"))
		e.finish(taskOf(1, "b"))
	})
	e.at(4*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"a succeeded", "b succeeded", "c cancelled"}, states(req))
			require.Equal(t, "too dear", req.Results[2].Error.Message)
			return final(`1`)
		})
	})
	e.run(pulls())
	require.Len(t, w.begun, 2)
}

// What cannot be read is an answer to whoever sent it, and the run goes on.
func TestARunLivesThroughWhatItCannotRead(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{})
	broken := []string{`{"step":"one"}`, `[]`, `"x"`, `17`, `{"response":{"toolCalls":{}}}`}
	for i, text := range broken {
		e.at(time.Duration(i+1)*time.Second, func() {
			for _, name := range []string{
				protocol.UpdateClaim, protocol.UpdateCommit, protocol.UpdateHeartbeat, protocol.UpdateInput, protocol.UpdateApprove, protocol.UpdateAnswer,
				protocol.UpdateCancelCall, protocol.UpdateCancel, protocol.UpdatePause, protocol.UpdateUnpause, protocol.UpdateRecover,
			} {
				lenient := text == broken[0] || text == broken[4]
				e.update(name, raw(text), func(r *runReply) {
					if !lenient {
						require.Error(t, r.err, "%s %s", name, text)
					}
					var app *temporal.ApplicationError
					if name != protocol.UpdateRecover && r.err != nil {
						require.ErrorAs(t, r.err, &app, "%s %s", name, text)
						require.Contains(t, []string{protocol.ErrTypeInvalid, protocol.ErrTypeRunRefused}, app.Type())
					}
				})
			}
			for _, name := range []string{protocol.SignalTaskFinished, protocol.SignalRunFinished, protocol.SignalRunAsks, protocol.SignalInput} {
				e.SignalWorkflow(name, raw(text))
			}
		})
	}
	e.at(10*time.Second, func() {
		require.NotNil(t, e.describe().LastRejected)
		for _, name := range []string{protocol.SignalTaskFinished, protocol.SignalRunFinished, protocol.SignalRunAsks, protocol.SignalInput} {
			e.SignalWorkflow(name, []byte{0, 1, 2})
			e.SignalWorkflow(name, nil)
			e.SignalWorkflow(name, raw(`{"inputId":`))
			e.SignalWorkflow(name, raw(`{}`))
		}
	})
	e.at(time.Minute, func() {
		d := e.describe()
		require.False(t, d.Run.State.Terminal())
		require.Len(t, d.Run.Inputs, 1, "only the first one")
	})
	e.at(2*time.Minute, func() { e.update(protocol.UpdateUnpause, protocol.Pause{}) })
	e.at(3*time.Minute, func() { e.update(protocol.UpdateCancel, protocol.Cancel{}) })
	e.run(pulls())
	require.Equal(t, run.StateCancelled, e.record().State)
}

// An update that would change nothing is not written into the history: no handler has
// begun.
func TestARepeatedRefusalCostsNothing(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{})
	e.at(time.Second, func() {
		for range 3 {
			r := e.update(protocol.UpdateCommit, commitOf(1, "old", final(`1`)))
			e.at(time.Second, func() { require.Equal(t, run.ReasonStaleToken, r.refusal(t).Reason) })
		}
	})
	e.at(time.Minute, func() {
		require.Zero(t, e.describe().Run.Version)
		e.update(protocol.UpdateCancel, protocol.Cancel{})
	})
	e.run(pulls())
}
