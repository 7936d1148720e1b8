package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// by is a run whose steps are brought to its runtime.
func by(mode protocol.RuntimeMode, opts ...func(*protocol.RunInput)) protocol.RunInput {
	in := pulls(opts...)
	in.Runtime.Mode = mode
	if mode == protocol.ModeActivity {
		in.Runtime.TaskQueue = "agents"
	}
	return in
}

func tries(n int) func(*protocol.RunInput) {
	return func(in *protocol.RunInput) { in.Create.Policy.StepAttempts = n }
}

func TestStepsOfAnActivityThatFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first func(run.StepRequest) (run.StepResponse, error)
		code  string
		gone  bool
	}{
		"an error": {func(run.StepRequest) (run.StepResponse, error) { return run.StepResponse{}, errors.New("boom") }, run.CodeStepFailed, false},
		"an error for good": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{}, temporal.NewNonRetryableApplicationError("no", "X", nil)
		}, run.CodeStepFailed, true},
		"an error of the answer": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{Error: failure("MODEL_AWAY", true)}, nil
		}, "MODEL_AWAY", false},
		"an error of the answer for good": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{Error: failure("NO_KEY", false)}, nil
		}, "NO_KEY", true},
		"an answer with a broken graph":   {func(run.StepRequest) (run.StepResponse, error) { return asks(toolCall("a", needs("z"))), nil }, run.CodeInvalidResponse, false},
		"an answer that asks for nothing": {func(run.StepRequest) (run.StepResponse, error) { return run.StepResponse{}, nil }, run.CodeInvalidResponse, false},
		"an answer with two checkpoints": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{Checkpoint: json.RawMessage(`1`), CheckpointRef: &run.ContentRef{Ref: "r", Hash: "h"}, Await: run.AwaitInput}, nil
		}, run.CodeInvalidResponse, false},
		"silence": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
		}, run.CodeStepLost, false},
		// The worker of the runtime was stopped: nobody had asked for a cancel, and the run
		// would have waited for that step until its deadline.
		"a cancel of its own": {func(run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{}, temporal.NewCanceledError()
		}, run.CodeStepFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			e := newRunEnv(t, w)
			w.step = func(req run.StepRequest) (run.StepResponse, error) {
				if req.Attempt == 1 {
					return tc.first(req)
				}
				return final(`"better"`), nil
			}
			e.run(by(protocol.ModeActivity))
			rec := e.record()
			if tc.gone {
				require.Equal(t, run.StateFailed, rec.State)
				require.Equal(t, tc.code, rec.Error.Code)
				require.NotNil(t, rec.Step, "a retry brings it again")
				require.Len(t, w.steps, 1)
				return
			}
			require.Equal(t, run.StateSucceeded, rec.State)
			require.Len(t, w.steps, 2)
			require.NotEqual(t, w.steps[0].StepToken, w.steps[1].StepToken)
			require.Equal(t, run.ReasonStepRetry, rec.History[1].Reason)
			require.Contains(t, rec.History[1].Text, tc.code)
			require.Empty(t, w.begun)
		})
	}
}

// A step that keeps failing ends the run, with the last error and the checkpoint.
func TestAStepThatKeepsFailing(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.step = func(req run.StepRequest) (run.StepResponse, error) {
		if req.Step == 1 {
			return run.StepResponse{Checkpoint: json.RawMessage(`{"kept":1}`), ToolCalls: []run.ToolCall{toolCall("a")}}, nil
		}
		return run.StepResponse{}, fmt.Errorf("boom %d", req.Attempt)
	}
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.run(by(protocol.ModeActivity, tries(3)))
	require.ErrorContains(t, e.GetWorkflowError(), "plan a trip failed: STEP_FAILED: boom 3")
	var app *temporal.ApplicationError
	require.ErrorAs(t, e.GetWorkflowError(), &app)
	require.Equal(t, protocol.ErrTypeRunFailed, app.Type())
	rec := e.record()
	require.Equal(t, `{"kept":1}`, string(rec.Checkpoint.Data))
	require.Equal(t, []run.Key{{Step: 1, ID: "a"}}, rec.Step.Results)
	require.Len(t, w.steps, 4)
	for _, s := range w.steps[1:] {
		require.Equal(t, []string{"a succeeded"}, states(s))
	}
}

// What is large goes into the blob store and is known by its hash.
func TestLargeContentsOfAStep(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	large := json.RawMessage(`"` + strings.Repeat("x", run.MaxInline) + `"`)
	w.step = func(req run.StepRequest) (run.StepResponse, error) {
		switch req.Step {
		case 1:
			return run.StepResponse{Checkpoint: large, ToolCalls: []run.ToolCall{toolCall("a")}}, nil
		case 2:
			return run.StepResponse{CheckpointRef: &run.ContentRef{Ref: "blob:acme/run/r1/x", Hash: "x", Bytes: 3}, ToolCalls: []run.ToolCall{toolCall("a")}}, nil
		}
		return run.StepResponse{Final: large}, nil
	}
	e.at(1*time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.at(2*time.Minute, func() { e.finish(taskOf(2, "a")) })
	e.run(by(protocol.ModeActivity))
	rec := e.record()
	require.Len(t, w.stored, 3)
	require.Equal(t, string(large), string(w.stored[0].Content.Data))
	require.Empty(t, w.stored[1].Content.Data, "the runtime has stored it by itself, it is looked at")
	require.Empty(t, rec.Final.Data)
	require.Equal(t, run.Hash(large), rec.Final.Hash)
	require.Equal(t, "blob:acme/run/r1/x", rec.Checkpoint.Ref)
	require.Len(t, w.begun, 2)
}

// A run that is cancelled does not wait for its step, whose runtime is told to stop.
func TestAStepIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, mode := range []protocol.RuntimeMode{protocol.ModeActivity, protocol.ModePush} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			e := newRunEnv(t, w)
			stopped := 0
			e.SetOnActivityCanceledListener(func(i *activity.Info) {
				if i.ActivityType.Name != protocol.ActivityWatchCalls {
					stopped++
				}
			})
			reply := func(req run.StepRequest) (run.StepResponse, error) {
				if req.Step == 1 {
					return run.StepResponse{ToolCalls: []run.ToolCall{toolCall("a")}, WakeOnInput: true}, nil
				}
				return run.StepResponse{}, activity.ErrResultPending
			}
			w.step, w.push = reply, pushed(w, reply)
			e.at(1*time.Minute, func() {
				e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`1`)})
			})
			e.at(2*time.Minute, func() {
				require.Equal(t, 2, e.describe().Run.Step.Number)
				e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann"})
			})
			e.at(2*time.Minute+time.Second, func() {
				require.Equal(t, 1, stopped, "while the run waits for its calls")
				e.finish(taskOf(1, "a"))
			})
			e.run(by(mode))
			rec := e.record()
			require.Equal(t, run.StateCancelled, rec.State)
			require.Equal(t, start.Add(2*time.Minute+time.Second).UnixMilli(), rec.EndedAtMs)
		})
	}
}

// pushed answers pushed steps like a runtime that answers at once.
func pushed(w *runWorld, f func(run.StepRequest) (run.StepResponse, error)) func(protocol.PushStepRequest) (protocol.PushStepResult, error) {
	return func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		resp, err := f(r.Request)
		if err != nil {
			return protocol.PushStepResult{}, err
		}
		c := commitOf(r.Request.Step, r.Request.StepToken, resp)
		return protocol.PushStepResult{Commit: &c}, nil
	}
}

// accepts answers 202.
func accepts(w *runWorld) func(protocol.PushStepRequest) (protocol.PushStepResult, error) {
	return func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		return protocol.PushStepResult{Accepted: true}, nil
	}
}

// A runtime that has accepted a step and then says nothing has lost it when its lease
// runs out; one that gives signs of life keeps it.
func TestPushedStepsThatAreSilent(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.push = accepts(w)
	beat := func() {
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: w.steps[0].StepToken}, came(t, run.ReasonRenewed))
	}
	e.at(50*time.Second, beat)
	e.at(100*time.Second, func() {
		require.Equal(t, start.Add(110*time.Second).UnixMilli(), e.describe().WakeAtMs)
		beat()
		e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w"}, invalid(t, "runtime"))
	})
	e.at(159*time.Second, func() { require.Len(t, w.steps, 1) })
	e.at(161*time.Second, func() {
		require.Len(t, w.steps, 2)
		require.Equal(t, 2, w.steps[1].Attempt)
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, final(`1`)), refused(t, run.ReasonStaleToken))
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[1].StepToken, final(`2`)), came(t, run.ReasonFinished))
	})
	e.run(by(protocol.ModePush))
	rec := e.record()
	require.Equal(t, `2`, string(rec.Final.Data))
	require.EqualValues(t, run.DefaultLeaseMs, w.steps[0].LeaseMs)
}

// A runtime commits by an update while its request is still open, and the next step is
// due at once. The open request would have held it up for as long as a step may take.
func TestACommitOvertakesTheAnswer(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.push = func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		if r.Request.Step == 1 {
			return protocol.PushStepResult{}, activity.ErrResultPending
		}
		c := commitOf(r.Request.Step, r.Request.StepToken, final(`1`))
		return protocol.PushStepResult{Commit: &c}, nil
	}
	e.at(10*time.Second, func() {
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`1`)})
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, run.StepResponse{Await: run.AwaitInput}), came(t, run.ReasonCommitted))
	})
	e.run(by(protocol.ModePush))
	rec := e.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Equal(t, start.Add(10*time.Second).UnixMilli(), rec.EndedAtMs)
	require.Len(t, w.steps, 2)
}

// A runtime says by an update that its step has failed, while its request is open: the
// next attempt does not wait for the answer either.
func TestAFailureOvertakesTheAnswer(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.push = func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		if r.Request.Attempt == 1 {
			return protocol.PushStepResult{}, activity.ErrResultPending
		}
		c := commitOf(1, r.Request.StepToken, final(`1`))
		return protocol.PushStepResult{Commit: &c}, nil
	}
	e.at(10*time.Second, func() {
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, run.StepResponse{Error: failure("X", true)}), came(t, run.ReasonStepRetry))
	})
	e.run(by(protocol.ModePush))
	rec := e.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Less(t, rec.EndedAtMs, start.Add(3*time.Minute).UnixMilli())
}

// The same commit by both ways is one.
func TestACommitByBothWays(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	answer := run.StepResponse{ToolCalls: []run.ToolCall{toolCall("a")}}
	w.push = func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		c := commitOf(r.Request.Step, r.Request.StepToken, answer)
		if r.Request.Step == 1 {
			// It is under way when the answer comes.
			e.update(protocol.UpdateCommit, c, came(t, run.ReasonCommitted))
		} else {
			c = commitOf(2, r.Request.StepToken, final(`1`))
		}
		return protocol.PushStepResult{Commit: &c}, nil
	}
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.run(by(protocol.ModePush))
	require.Equal(t, run.StateSucceeded, e.record().State)
	require.Len(t, w.begun, 1)
}

// A plan whose calls do not all succeed says which.
func TestAPlanThatFails(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{})
	e.at(time.Minute, func() { e.finish(taskOf(1, "a"), failedWith("BOOM")); e.finish(taskOf(1, "c")) })
	e.run(pulls(func(in *protocol.RunInput) {
		in.Runtime = protocol.RuntimeBinding{Mode: protocol.ModePlan}
		in.Plan = []run.ToolCall{toolCall("a"), toolCall("b", needs("a")), toolCall("c")}
	}))
	rec := e.record()
	require.Equal(t, run.StateFailed, rec.State)
	require.Equal(t, run.CodePlanFailed, rec.Error.Code)
	require.Contains(t, rec.Error.Message, "a failed, b skipped")
}

// The step reaches its runtime with its checkpoint byte for byte, as the last member.
func TestTheCheckpointOfAnActivity(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	var sent []string
	e.SetOnActivityStartedListener(func(i *activity.Info, _ context.Context, args converter.EncodedValues) {
		if i.ActivityType.Name == protocol.ActivityAgentStep {
			var text json.RawMessage
			require.NoError(t, args.Get(&text))
			sent = append(sent, string(text))
		}
	})
	w.step = func(req run.StepRequest) (run.StepResponse, error) {
		if req.Step == 1 {
			return run.StepResponse{Checkpoint: json.RawMessage(`{"b":"<"}`), ToolCalls: []run.ToolCall{toolCall("a")}}, nil
		}
		return final(`1`), nil
	}
	e.at(time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.run(by(protocol.ModeActivity))
	require.Len(t, sent, 2)
	require.True(t, strings.HasSuffix(sent[1], `}`), sent[1])
	require.Contains(t, sent[1], string(e.record().Checkpoint.Data))
}
