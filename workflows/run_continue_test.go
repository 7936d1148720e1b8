package workflows_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// suggest makes the run continue as new when it next looks.
func (e *runEnv) suggest() { e.SetContinueAsNewSuggested(true) }

// next is the environment on the other side of a continue-as-new.
func (e *runEnv) next(w *runWorld, after time.Duration) *runEnv {
	n := newRunEnv(e.t, w)
	n.SetStartTime(start.Add(after))
	return n
}

// Everything that a run is crosses the border: each field of the carried state is set
// here and compared.
func TestARunCarriesEverything(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		if c.Tool == run.ToolRun {
			return subRuns(c)
		}
		return asking(time.Hour)(c)
	}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.claims("w1", func(run.StepRequest) {
			e.commits(run.StepResponse{
				Checkpoint: json.RawMessage(`{"b": "<" }`), CheckpointFormat: "f1", RuntimeVersion: "v1", Wake: run.WakeAny, WakeOnInput: true, Await: run.AwaitInput, Output: json.RawMessage(`"hello"`),
				ToolCalls: []run.ToolCall{
					toolCall("a", func(c *run.ToolCall) { c.IdempotencyKey = "k" }), toolCall("b", needs("a")), toolCall("ask", of("deploy", `{}`)),
					toolCall("slow", func(c *run.ToolCall) { c.WaitMs = 1000 }), toolCall("sub", of(run.ToolRun, `{}`)), toolCall("bg", func(c *run.ToolCall) { c.Background = true }),
				},
				Usage: []run.Usage{{Model: "m", InputTokens: 3, OutputTokens: 4, CachedInputTokens: 1, CostUSD: 0.5}},
			}, came(t, run.ReasonCommitted))
		})
	})
	e.at(2*time.Minute, func() {
		e.update(protocol.UpdateCancelCall, protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: "bg"}, By: "ann"}, came(t, run.ReasonCancelRequested))
		e.claims("w2")
	})
	e.at(3*time.Minute, func() {
		// The step that is held was about slow; what is said now is the next one's.
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`{"a":1}`), Source: "bob"})
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("sub", "which?"))
		e.SignalWorkflow(protocol.SignalInput, raw(`{"inputId":"bad"}`))
		e.update(protocol.UpdatePause, protocol.Pause{By: "ann"}, came(t, run.ReasonPaused))
	})
	var before protocol.RunDescription
	e.at(3*time.Minute+10*time.Second, func() {
		before = e.describe()
		e.suggest()
		// They wait for the very task that continues, and are applied before.
		e.SignalWorkflowSkippingWorkflowTask(protocol.SignalInput, protocol.RunSaid{InputID: "last", Content: json.RawMessage(`1`)})
		e.finish(taskOf(1, "bg"))
	})
	in := pulls(func(in *protocol.RunInput) {
		in.Create.Labels, in.Create.Traceparent, in.Create.Runtime = map[string]string{"a": "b"}, "00-x", "agent"
		in.Create.Parent = &run.Parent{RunID: "p1", ToolCallID: "c", Step: 2, Depth: 1}
		in.Create.Policy = run.Policy{LeaseMs: 100_000, StepAttempts: 4, CancelGraceMs: 7000, RunDependents: true, CheckEveryMs: 3_600_000}
		in.Create.Limits = run.Limits{MaxSteps: 9, MaxCalls: 20, MaxOpenCalls: 10, MaxTokens: 1000, MaxCostUSD: 9}
		in.Fingerprint, in.ContinueAfterEvents = "fp", 100_000
		in.Runtime.StepTimeoutMs, in.Runtime.Heartbeats = 77_000, true
	})
	e.run(in)
	got := e.carried()
	c := got.Carry
	got.Carry = nil
	require.Empty(t, cmp.Diff(in, got), "the input goes on as it was")

	want := before.Run
	end := run.End{State: run.CallSucceeded, ResultRef: "blob:acme/task/" + taskOf(1, "bg") + "/h", ResultHash: "h"}
	for _, ev := range []run.Event{
		{Type: run.EventCallEnded, Call: run.Key{Step: 1, ID: "bg"}, End: &end},
		{Type: run.EventInput, Input: &run.Input{InputID: "last", Content: json.RawMessage(`1`)}},
	} {
		ev.AtMs = start.Add(3*time.Minute + 10*time.Second).UnixMilli()
		tr, err := run.Apply(want, ev)
		require.NoError(t, err)
		want = tr.Run
	}
	require.Empty(t, cmp.Diff(want, c.Run))
	require.Equal(t, run.StatePaused, c.Run.State)
	require.Equal(t, []run.Key{{Step: 1, ID: "slow"}}, c.Run.Step.Results)
	require.Equal(t, "w2", c.Run.Step.Holder)
	require.Len(t, c.Run.Detached, 1)
	require.True(t, c.Run.Detached[0].Sent)
	require.Len(t, c.Run.Inputs, 2)
	require.Contains(t, c.Rejected.Error, "input")
	require.Equal(t, []protocol.RunAsks{subAsk("sub", "which?")}, c.Asks)
	require.NotEmpty(t, c.Asked)
	require.Equal(t, run.StateRunning, c.Shown, "lists do not show a pause")
	require.Nil(t, c.Retry)
	require.Empty(t, c.Unmatched)
	requireAllSet(t, *c, "Unmatched", "Retry")

	crossed(t, e, in, c, before)
}

// requireAllSet asks that no field was forgotten: a new one is to be set in this test.
func requireAllSet(t *testing.T, c protocol.RunCarry, but ...string) {
	t.Helper()
	skip := map[string]bool{"EndedAtMs": true, "Error": true, "Final": true, "Cancel": true, "Ending": true, "Retries": true, "Unconfirmed": true, "Done": true, "InputIDs": true, "Superseded": true}
	for _, name := range but {
		skip[name] = true
	}
	for _, x := range []any{c, c.Run} {
		v := reflect.ValueOf(x)
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !skip[name] && v.Field(i).IsZero() {
				t.Errorf("%s.%s is not set", v.Type(), name)
			}
		}
	}
}

// crossed looks at the other side: what is carried stands, nothing is begun, told or
// asked a second time, and the step that is held commits with its token.
func crossed(t *testing.T, e *runEnv, in protocol.RunInput, c *protocol.RunCarry, before protocol.RunDescription) {
	t.Helper()
	w := &runWorld{}
	e2 := e.next(w, 4*time.Minute)
	in.Carry = c
	e2.at(time.Second, func() {
		d := e2.describe()
		require.Equal(t, before.Asks, d.Asks)
		require.Equal(t, before.LastRejected, d.LastRejected)
		require.Empty(t, w.begun)
		require.Empty(t, w.cancels)
		require.Empty(t, w.parents)
		e2.update(protocol.UpdateInput, protocol.RunSaid{InputID: "last", Content: json.RawMessage(`1`)}, func(r *runReply) { require.True(t, r.out.Duplicate) })
		e2.update(protocol.UpdateUnpause, protocol.Pause{}, came(t, run.ReasonUnpaused))
		e2.update(protocol.UpdateCommit, commitOf(1, "x", final(`1`)), refused(t, run.ReasonStaleToken))
		final := run.StepResponse{Final: json.RawMessage(`1`)}
		for _, id := range []string{"a", "b", "ask", "sub"} {
			final.CancelCalls = append(final.CancelCalls, run.CancelCall{ToolCallID: id, AskedAtStep: 1})
		}
		e2.update(protocol.UpdateCommit, commitOf(2, c.Run.Step.Token, final), came(t, run.ReasonFinished))
	})
	e2.run(in)
	require.Equal(t, run.StateSucceeded, e2.record().State)
	require.Len(t, w.parents, 1)
	require.NotNil(t, w.parents[0].Finished)
}

// Fifty open calls cross with their tasks, and each ends on the other side.
func TestOpenCallsCross(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse { return asks(manyCalls(run.DefaultMaxOpenCalls)...) })
	})
	e.at(90*time.Second, func() {
		e.suggest()
		for i, c := range e.describe().Run.Calls {
			if i%2 == 0 {
				e.SignalWorkflowSkippingWorkflowTask(protocol.SignalTaskFinished, protocol.TaskFinished{Task: domain.Task{ID: c.TaskID, State: domain.StateSucceeded, ResultRef: c.ID, ResultHash: "h"}})
			}
		}
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("z", ""))
	})
	e.run(pulls())
	in := e.carried()
	require.Len(t, in.Carry.Run.Calls, run.DefaultMaxOpenCalls)
	b, err := json.Marshal(in)
	require.NoError(t, err)
	require.Less(t, len(b), 2<<20)

	w2 := &runWorld{}
	e2 := e.next(w2, 3*time.Minute)
	e2.at(2*time.Minute, func() {
		require.Empty(t, w2.begun)
		require.Len(t, w2.watches[0].Calls, run.DefaultMaxOpenCalls/2, "the standing check begins anew")
		for i, c := range in.Carry.Run.Calls {
			if i%2 == 1 {
				e2.finish(c.TaskID)
			}
		}
	})
	e2.at(3*time.Minute, func() {
		e2.take(func(req run.StepRequest) run.StepResponse {
			require.Len(t, req.Results, run.DefaultMaxOpenCalls)
			for i, c := range manyCalls(run.DefaultMaxOpenCalls) {
				require.Equal(t, c.ToolCallID, req.Results[i].ToolCallID)
			}
			return final(`1`)
		})
	})
	e2.run(in)
	require.Equal(t, run.StateSucceeded, e2.record().State)
}

// Ends whose call is not known yet cross too, and are taken when the call is begun.
func TestUnmatchedEndsCross(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Second, func() {
		e.claims("w1", func(run.StepRequest) {
			e.commits(asks(toolCall("a"), toolCall("b", needs("a"))), came(t, run.ReasonCommitted))
		})
	})
	e.at(30*time.Second, func() { e.suggest(); e.finish("nobody's") })
	e.run(pulls())
	in := e.carried()
	require.Empty(t, in.Carry.Unmatched, "nothing was being begun")
	in.Carry.Unmatched = []protocol.TaskFinished{{Task: domain.Task{ID: "shared", State: domain.StateSucceeded, ResultRef: "r", ResultHash: "h"}}}

	w2 := &runWorld{begin: func(protocol.CallStart) (protocol.CallBegun, error) {
		return protocol.CallBegun{Started: &run.Started{TaskID: "shared"}}, nil
	}}
	e2 := e.next(w2, 2*time.Minute)
	e2.at(time.Second, func() { e2.finish(taskOf(1, "a")) })
	e2.at(2*time.Second, func() {
		e2.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"a succeeded", "b succeeded"}, states(req))
			return final(`1`)
		})
	})
	e2.run(in)
	require.Equal(t, run.StateSucceeded, e2.record().State)
}

// It is time to continue as new while calls are begun: what comes meanwhile waits, and
// the run continues when it knows its calls.
func TestNoCallIsLeftInBetween(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		e.finish("shared")
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: c.ID, Content: json.RawMessage(`1`)})
		return protocol.CallBegun{Started: &run.Started{TaskID: "shared"}}, nil
	}
	e.at(1*time.Second, func() {
		e.suggest()
		e.claims("w1")
	})
	e.run(pulls())
	in := e.carried()
	e = e.next(w, 10*time.Second)
	e.at(time.Second, func() {
		e.suggest()
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, asks(toolCall("a"), toolCall("b"))), came(t, run.ReasonCommitted))
	})
	e.run(in)
	c := e.carried().Carry
	require.Empty(t, c.Unmatched)
	require.Len(t, c.Run.Calls, 2)
	for _, call := range c.Run.Calls {
		require.Equal(t, run.CallSucceeded, call.State)
	}
	require.Equal(t, 2, c.Run.Step.Number)
	require.Len(t, c.Run.Inputs, 2)
}

// A step that is brought to its runtime is waited for; a run whose history has grown far
// meanwhile leaves it behind, and brings it again without a failure of the runtime. It
// was counted as one, and the only attempt of a run was gone.
func TestAStepThatIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, mode := range []protocol.RuntimeMode{protocol.ModeActivity, protocol.ModePush} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			never := func(run.StepRequest) (run.StepResponse, error) { return run.StepResponse{}, activity.ErrResultPending }
			w.step, w.push = never, pushed(w, never)
			e := newRunEnv(t, w)
			say := func(id string) {
				e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: id, Content: json.RawMessage(`1`)})
			}
			e.at(1*time.Second, func() { e.suggest(); e.SetCurrentHistoryLength(19_000); say("i") })
			e.at(2*time.Second, func() { require.NotNil(t, e.describe().Run.Step); e.SetCurrentHistoryLength(20_000); say("j") })
			e.run(by(mode, tries(1)))
			in := e.carried()
			require.False(t, in.Carry.Run.State.Terminal())
			require.Zero(t, in.Carry.Run.Step.Failures)

			w2 := &runWorld{}
			done := func(req run.StepRequest) (run.StepResponse, error) {
				if req.Step == 1 {
					return run.StepResponse{Await: run.AwaitInput}, nil
				}
				require.Len(t, req.Inputs, 2)
				return final(`1`), nil
			}
			w2.step, w2.push = done, pushed(w2, done)
			e2 := e.next(w2, time.Minute)
			e2.run(in)
			require.Equal(t, run.StateSucceeded, e2.record().State)
			require.Len(t, w2.steps, 2)
			require.Equal(t, 2, w2.steps[0].Attempt)
			require.NotEqual(t, w.steps[0].StepToken, w2.steps[0].StepToken)
			require.Equal(t, "start", w2.steps[0].Inputs[0].InputID)
			require.Len(t, w2.steps[0].Inputs, 1)
		})
	}
}

// The same while the run is paused: the step waits until it is not.
func TestAStepThatIsLeftBehindPaused(t *testing.T) {
	t.Parallel()
	w := &runWorld{step: func(run.StepRequest) (run.StepResponse, error) { return run.StepResponse{}, activity.ErrResultPending }}
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.suggest()
		e.SetCurrentHistoryLength(20_000)
		e.update(protocol.UpdatePause, protocol.Pause{}, came(t, run.ReasonPaused))
	})
	e.run(by(protocol.ModeActivity))
	w2 := &runWorld{step: func(run.StepRequest) (run.StepResponse, error) { return final(`1`), nil }}
	e2 := e.next(w2, time.Minute)
	e2.at(time.Minute, func() {
		require.Empty(t, w2.steps)
		e2.update(protocol.UpdateUnpause, protocol.Pause{}, came(t, run.ReasonUnpaused))
	})
	e2.run(e.carried())
	require.Equal(t, run.StateSucceeded, e2.record().State)
	require.Len(t, w2.steps, 1)
}

// A step that was accepted is its runtime's also on the other side: it is not sent again
// before its lease has run out.
func TestAnAcceptedStepCrosses(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	w.push = accepts(w)
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.suggest()
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: w.steps[0].StepToken}, came(t, run.ReasonRenewed))
	})
	e.run(by(protocol.ModePush))
	w2 := &runWorld{}
	w2.push = accepts(w2)
	e2 := e.next(w2, 2*time.Second)
	e2.at(50*time.Second, func() { require.Empty(t, w2.steps) })
	e2.at(60*time.Second, func() {
		require.Len(t, w2.steps, 1)
		require.Equal(t, 2, w2.steps[0].Attempt)
		e2.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, final(`1`)), refused(t, run.ReasonStaleToken))
		e2.update(protocol.UpdateCommit, commitOf(1, w2.steps[0].StepToken, final(`1`)), came(t, run.ReasonFinished))
	})
	e2.run(e.carried())
	require.Equal(t, run.StateSucceeded, e2.record().State)
}

// An update that takes its time is answered before the run continues, and what it finds
// crosses with the run; also when that, or what came meanwhile, is the end.
func TestARecoveryIsAnsweredBeforeTheRunContinues(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprint("the run ends ", ends), func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			tries := 0
			w.inspect = func(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
				if tries++; tries < 4 {
					return protocol.CallsFound{}, errNothingYet
				}
				return protocol.CallsFound{Ends: []protocol.CallFound{{Key: r.Calls[0].Key, End: run.End{State: run.CallSucceeded, ResultRef: "r", ResultHash: "h"}}}}, nil
			}
			e := newRunEnv(t, w)
			e.at(1*time.Second, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
			var found *runReply
			e.at(2*time.Second, func() {
				e.suggest()
				found = e.update(protocol.UpdateRecover, protocol.Recover{})
			})
			if ends {
				e.at(10*time.Second, func() {
					e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann"}, came(t, run.ReasonCancelRequested))
				})
			}
			e.run(pulls())
			require.NoError(t, found.err)
			require.Equal(t, 1, found.found.Changed)
			in := e.carried()
			require.Equal(t, run.CallSucceeded, in.Carry.Run.Calls[0].State)
			e2 := e.next(&runWorld{}, 2*time.Minute)
			if !ends {
				e2.ends(time.Second)
			}
			e2.run(in)
			require.Equal(t, ends, e2.record().State == run.StateCancelled)
		})
	}
}

// A cancel in the Temporal UI that comes with the continue-as-new is not lost.
func TestACancelThatComesWithTheContinueAsNew(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Second, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
	e.at(1*time.Minute, func() { e.suggest(); e.CancelWorkflow() })
	e.run(pulls())
	in := e.carried()
	require.Equal(t, "temporal", in.Carry.Run.Cancel.By)
	w2 := &runWorld{}
	e2 := e.next(w2, 2*time.Minute)
	e2.at(time.Second, func() { e2.finish(taskOf(1, "a")) })
	e2.run(in)
	require.Equal(t, run.StateCancelled, e2.record().State)
	require.Empty(t, w2.cancels, "it was told before")
}

// After so many events the run continues by itself.
func TestARunContinuesAfterEvents(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{})
	say := func(id string) {
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: id, Content: json.RawMessage(`1`)})
	}
	e.at(1*time.Second, func() { e.SetCurrentHistoryLength(49); say("i") })
	e.at(2*time.Second, func() { require.Len(t, e.describe().Run.Inputs, 2); e.SetCurrentHistoryLength(50); say("j") })
	e.run(pulls(func(in *protocol.RunInput) { in.ContinueAfterEvents = 50 }))
	require.Len(t, e.carried().Carry.Run.Inputs, 3)
}
