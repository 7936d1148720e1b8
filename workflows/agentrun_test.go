package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestARunThatPulls(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, run.CauseStart, req.Cause)
			require.Equal(t, "start", req.Inputs[0].InputID)
			return asks(toolCall("a"), toolCall("b"), toolCall("c", needs("a")))
		})
	})
	e.at(time.Minute, func() {
		d := e.describe()
		require.Equal(t, run.StateWaitingTool, d.Run.State)
		require.Equal(t, "tools: build (a), build (b), build (c)", d.WaitsFor)
		require.Len(t, w.begun, 2, "c waits for a")
		e.finish(taskOf(1, "a"))
	})
	e.at(2*time.Minute, func() { e.finish(taskOf(1, "b"), failedWith("BOOM")) })
	e.at(3*time.Minute, func() {
		e.update(protocol.UpdateClaim, protocol.Claim{}, func(r *runReply) { require.Equal(t, run.ReasonNoStep, r.refusal(t).Reason) })
		e.finish(taskOf(1, "c"))
	})
	e.at(4*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, run.CauseResults, req.Cause)
			require.Equal(t, []string{"a succeeded", "b failed", "c succeeded"}, states(req))
			require.Equal(t, "BOOM", req.Results[1].Error.Code)
			return final(`"done"`)
		})
	})
	e.run(pulls())
	rec := e.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Equal(t, `"done"`, string(rec.Final.Data))
	require.Equal(t, `{"n": 1 }`, string(rec.Checkpoint.Data), "byte for byte")
	require.Empty(t, rec.Calls)
	require.Len(t, rec.Done, 3)
	require.NotEmpty(t, w.watches, "the standing check has begun after a minute")
}

func TestARunThatFollowsAPlan(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")); e.finish(taskOf(1, "b")) })
	e.at(2*time.Minute, func() { e.finish(taskOf(1, "c")) })
	e.run(pulls(func(in *protocol.RunInput) {
		in.Runtime = protocol.RuntimeBinding{Mode: protocol.ModePlan}
		in.Plan = []run.ToolCall{toolCall("a"), toolCall("b"), toolCall("c", needs("a", "b"))}
	}))
	rec := e.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Contains(t, string(rec.Final.Data), `"toolCallId":"c","tool":"build"`)
}

func TestARunOfAnActivity(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.step = func(req run.StepRequest) (run.StepResponse, error) {
		switch {
		case req.Step == 1 && req.Attempt == 1:
			return run.StepResponse{}, errGoesOn
		case req.Step == 1:
			return asks(toolCall("a")), nil
		}
		return final(`"ok"`), nil
	}
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.run(pulls(func(in *protocol.RunInput) {
		in.Runtime = protocol.RuntimeBinding{Mode: protocol.ModeActivity, Name: "agent", TaskQueue: "agents"}
	}))
	require.Equal(t, run.StateSucceeded, e.record().State)
	require.Len(t, w.steps, 3)
	require.Equal(t, 2, w.steps[1].Attempt)
	require.Equal(t, `{"n":1}`, string(w.steps[2].Checkpoint), "as this runtime's own JSON writer has written it")
}

func TestARunThatPushes(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.push = func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		if r.Request.Step == 1 {
			c := commitOf(1, r.Request.StepToken, asks(toolCall("a")))
			return protocol.PushStepResult{Commit: &c}, nil
		}
		return protocol.PushStepResult{Accepted: true}, nil
	}
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.at(90*time.Second, func() {
		e.update(protocol.UpdateCommit, commitOf(2, w.steps[1].StepToken, final(`1`)), func(r *runReply) { require.NoError(t, r.err) })
	})
	e.run(pulls(func(in *protocol.RunInput) {
		in.Runtime = protocol.RuntimeBinding{Mode: protocol.ModePush, Name: "agent"}
	}))
	require.Equal(t, run.StateSucceeded, e.record().State)
}
