package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// refusedByEngine is the size of a message with which the engine ends a workflow.
const refusedByEngine = 2 << 20

func sizeOf(t *testing.T, v any) int {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(t, err)
	return p.Size()
}

// failedRun has one call with a task, and has failed an hour before the test begins.
func failedRun(t *testing.T, c run.ToolCall, s run.Started, then ...run.Event) run.Run {
	t.Helper()
	at := start.Add(-time.Hour).UnixMilli()
	r, err := run.New(run.Create{ID: "r1", Tenant: "acme", NowMs: at, TTLMs: (24 * time.Hour).Milliseconds(), Policy: run.Policy{StepAttempts: 1}})
	require.NoError(t, err)
	events := append([]run.Event{
		{Type: run.EventClaim, Token: "t1"},
		{Type: run.EventCommit, Step: 1, Token: "t1", Response: &run.StepResponse{ToolCalls: []run.ToolCall{c}, WakeOnInput: true}},
		{Type: run.EventCallStarted, Call: run.Key{Step: 1, ID: c.ToolCallID}, Started: &s},
	}, then...)
	events = append(events, run.Event{Type: run.EventInput, Input: inputOf("i", "1")}, run.Event{Type: run.EventClaim, Token: "t2"},
		run.Event{Type: run.EventStepFailed, Token: "t2", Error: failure("X", false)})
	for _, e := range events {
		e.AtMs = at
		tr, err := run.Apply(r, e)
		require.NoError(t, err)
		r = tr.Run
	}
	require.Equal(t, run.StateFailed, r.State)
	return r
}

// foundOpen says of all that is looked at that it has ended.
func foundOpen(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
	var out protocol.CallsFound
	for _, c := range r.Calls {
		out.Ends = append(out.Ends, protocol.CallFound{Key: c.Key, Task: &domain.Task{ID: c.TaskID, State: domain.StateSucceeded, ResultRef: "ref", ResultHash: "h"}})
	}
	if len(out.Ends) == 0 {
		return out, errGoesOn
	}
	return out, nil
}

// A task ended while its run was closed, and the patience with it would have run out
// meanwhile. The retry took the time-out first and never looked: the result was lost.
func TestARetryLooksBeforePatienceEnds(t *testing.T) {
	t.Parallel()
	w := &runWorld{inspect: foundOpen}
	e := newRunEnv(t, w)
	in := pulls()
	in.Carry = &protocol.RunCarry{
		Run:   failedRun(t, toolCall("c", func(c *run.ToolCall) { c.WaitMs = 60_000 }), run.Started{TaskID: "x"}),
		Retry: &protocol.RunRetry{},
	}
	e.at(time.Minute, func() {
		c := e.describe().Run.Calls[0]
		require.Equal(t, run.CallSucceeded, c.State)
		require.Equal(t, "ref", c.ResultRef)
		e.CancelWorkflow()
	})
	e.run(in)
}

// What ended while the run was closed is not there: then patience ends, a look later.
func TestARetryLosesItsPatienceAfterTheLook(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	in := pulls()
	in.Carry = &protocol.RunCarry{
		Run:   failedRun(t, toolCall("c", func(c *run.ToolCall) { c.WaitMs = 60_000 }), run.Started{TaskID: "x"}),
		Retry: &protocol.RunRetry{},
	}
	e.at(time.Minute, func() {
		require.Len(t, w.inspects, 1)
		require.Equal(t, run.CodeWaitTimeout, e.describe().Run.Calls[0].Error.Code)
		e.CancelWorkflow()
	})
	e.run(in)
}

// The standing check looks at tasks that the run has lost patience with too: their late
// end is news, also when they were terminated.
func TestTheStandingCheckSeesDetachedTasks(t *testing.T) {
	t.Parallel()
	w := &runWorld{watch: foundOpen}
	e := newRunEnv(t, w)
	e.at(time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("c", func(c *run.ToolCall) { c.WaitMs = 1000 }))
		})
	})
	e.at(2*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse { return run.StepResponse{Await: run.AwaitInput} })
	})
	e.at(time.Hour, func() {
		d := e.describe()
		require.Len(t, d.Run.Inputs, 1)
		require.Contains(t, string(d.Run.Inputs[0].Content), `"resultRef":"ref"`)
		require.Empty(t, d.Run.Detached)
		e.CancelWorkflow()
	})
	e.run(pulls())
}

// The result of a tool held what looks like a reference. A person was shown it and
// approved, and the start after that put another result in its place.
func TestWhatWasApprovedIsNotResolvedAgain(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	resolved := json.RawMessage(`{"x":{"note":{"$from":"b"}}}`)
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		if c.ID == "c" && !c.Approved {
			return protocol.CallBegun{Asks: true, Started: &run.Started{}, Input: resolved}, nil
		}
		return protocol.CallBegun{Started: &run.Started{TaskID: taskOf(c.Step, c.ID)}}, nil
	}
	e := newRunEnv(t, w)
	e.at(time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a"), toolCall("b"), toolCall("c", needs("a", "b"), of("deploy", `{"x":{"$from":"a"}}`)))
		})
	})
	e.at(2*time.Minute, func() { e.finish(taskOf(1, "a")); e.finish(taskOf(1, "b")) })
	e.at(3*time.Minute, func() {
		e.update(protocol.UpdateApprove, approve("c", run.DecisionApprove, ""), came(t, run.ReasonApproved))
	})
	e.at(4*time.Minute, func() { e.CancelWorkflow() })
	e.run(pulls())
	last := w.begun[len(w.begun)-1]
	require.True(t, last.Approved)
	require.JSONEq(t, string(resolved), string(last.Input))
	require.False(t, last.Resolve)
	require.Empty(t, last.Needs)
}

// An activity answered with a checkpoint that fits its result, and not the message that
// stores it: the engine would have ended the run.
func TestACheckpointThatIsTooLargeForAMessage(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	w.step = func(run.StepRequest) (run.StepResponse, error) {
		return run.StepResponse{Checkpoint: json.RawMessage(`"` + strings.Repeat("x", 1700<<10) + `"`), Final: json.RawMessage(`1`)}, nil
	}
	e := newRunEnv(t, w)
	e.run(by(protocol.ModeActivity, tries(1)))
	rec := e.record()
	require.Equal(t, run.CodeInvalidResponse, rec.Error.Code)
	require.Contains(t, rec.Error.Message, "checkpointRef")
	require.Empty(t, w.stored)
}

// Each dependent carries the answers that it refers to. Many of them in one message were
// more than the engine takes.
func TestStartsAreTakenInPieces(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	const runs, dependents = 10, 15
	var calls []run.ToolCall
	var ids []string
	refs := map[string]any{}
	for i := range runs {
		id := fmt.Sprintf("s%d", i)
		ids = append(ids, id)
		refs[id] = map[string]string{"$from": id}
		calls = append(calls, toolCall(id, of(run.ToolRun, `{}`)))
	}
	input, err := json.Marshal(refs)
	require.NoError(t, err)
	for i := range dependents {
		calls = append(calls, toolCall(fmt.Sprintf("d%d", i), needs(ids...), of("build", string(input))))
	}
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		if c.Tool == run.ToolRun {
			return protocol.CallBegun{Started: &run.Started{SubRunID: "sub_" + c.ID}}, nil
		}
		return protocol.CallBegun{Started: &run.Started{TaskID: taskOf(c.Step, c.ID)}}, nil
	}
	e.at(time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(calls...) }) })
	e.at(2*time.Minute, func() {
		for _, id := range ids {
			e.SignalWorkflow(protocol.SignalRunFinished, protocol.RunFinished{
				Key: run.Key{Step: 1, ID: id}, SubRunID: "sub_" + id, State: run.StateSucceeded,
				Final: run.Inline([]byte(`"`+strings.Repeat("x", run.MaxAnswer-2)+`"`), ""),
			})
		}
	})
	e.at(3*time.Minute, func() { e.CancelWorkflow() })
	e.run(pulls())
	require.Len(t, w.begun, runs+dependents)
	for _, n := range w.batches {
		require.Less(t, n, refusedByEngine/2)
	}
	require.Greater(t, len(w.batches), 2)
}

// What many runs below ask was carried, and told upwards, whole.
func TestAsksAreBounded(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	const subs, each = 20, 8
	var calls []run.ToolCall
	for i := range subs {
		calls = append(calls, toolCall(fmt.Sprintf("s%d", i), of(run.ToolRun, `{}`)))
	}
	e.at(time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(calls...) }) })
	e.at(2*time.Minute, func() {
		for i := range subs {
			a := protocol.RunAsks{Key: run.Key{Step: 1, ID: fmt.Sprintf("s%d", i)}, SubRunID: "sub"}
			for j := range each {
				a.Asks = append(a.Asks, protocol.Ask{
					RunID: "sub", ToolCallID: fmt.Sprint(j), AskedAtStep: 1, Tool: "deploy", Kind: protocol.AskApproval,
					Input: json.RawMessage(`"` + strings.Repeat("x", run.MaxAnswer-2) + `"`),
				})
			}
			e.SignalWorkflow(protocol.SignalRunAsks, a)
		}
	})
	e.at(3*time.Minute, func() {
		require.Len(t, e.describe().Asks, subs*each, "all of them are named")
		e.suggest()
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: "x", Content: json.RawMessage(`1`)})
	})
	in := pulls()
	in.Create.Parent = &run.Parent{RunID: "p", ToolCallID: "c", Step: 1, Depth: 1}
	e.run(in)
	require.Less(t, sizeOf(t, e.carried()), refusedByEngine/2)
	for _, p := range w.parents {
		require.Less(t, sizeOf(t, p), refusedByEngine/2)
	}
}

// A run that was cancelled did not close while the start of a call went on failing.
func TestARunClosesThoughAStartGoesOn(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	w.starting = func(local bool) error {
		if local {
			return errors.New("the store is away")
		}
		return activity.ErrResultPending
	}
	e := newRunEnv(t, w)
	e.at(time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
	e.at(2*time.Minute, func() {
		e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann"}, came(t, run.ReasonCancelRequested))
	})
	e.run(pulls())
	require.Equal(t, run.StateCancelled, e.record().State)
	require.WithinDuration(t, start.Add(2*time.Minute+run.DefaultCancelGraceMs*time.Millisecond), e.Now(), time.Minute)
	require.Len(t, w.cancels, 1, "the task that it may have begun is told")
	require.Equal(t, taskOf(1, "a"), w.cancels[0].TaskID)
}

// A call that cannot be started does not keep the others from it, and is tried again.
func TestACallThatCannotBeStartedYet(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	tries := 0
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		if c.ID == "a" {
			if tries++; tries < 4 {
				return protocol.CallBegun{Again: true, Note: "the other side is away"}, nil
			}
		}
		return protocol.CallBegun{Started: &run.Started{TaskID: taskOf(c.Step, c.ID)}}, nil
	}
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a"), toolCall("b")) })
	})
	e.at(1500*time.Millisecond, func() {
		calls := e.describe().Run.Calls
		require.Equal(t, run.CallReady, calls[0].State)
		require.Equal(t, run.CallOpen, calls[1].State)
	})
	e.at(time.Minute, func() {
		require.Equal(t, run.CallOpen, e.describe().Run.Calls[0].State)
		e.CancelWorkflow()
	})
	e.run(pulls())
	require.Equal(t, 4, tries)
}

// A request to a runtime broke off, and the runtime was at work: its heartbeat gave the
// step to the next attempt at once, and its commit was stale.
func TestAHeartbeatAfterAPushThatBrokeOff(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.push = func(r protocol.PushStepRequest) (protocol.PushStepResult, error) {
		w.steps = append(w.steps, r.Request)
		return protocol.PushStepResult{}, temporal.NewApplicationError("the answer broke off", protocol.ErrTypeStepUnheard)
	}
	e.at(10*time.Second, func() {
		e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: w.steps[0].StepToken}, came(t, run.ReasonRenewed))
	})
	e.at(20*time.Second, func() {
		require.Len(t, w.steps, 1)
		require.Equal(t, run.DefaultLeaseMs, int(e.describe().Run.Step.LeaseMs))
		e.update(protocol.UpdateCommit, commitOf(1, w.steps[0].StepToken, final(`1`)), came(t, run.ReasonFinished))
	})
	e.run(by(protocol.ModePush, func(in *protocol.RunInput) {
		in.Create.Policy.StepBackoff = domain.Backoff{InitialMs: 600_000, MaxMs: 600_000}
	}))
	require.Equal(t, run.StateSucceeded, e.record().State)
}

// A run was retried, and waited for a person with a question that nobody knew.
func TestWhatARunBelowAskedBeforeARetry(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	in := pulls()
	asked := run.Event{Type: run.EventNoted, Call: run.Key{Step: 1, ID: "c"}, Reason: run.NotedAsks}
	in.Carry = &protocol.RunCarry{Run: failedRun(t, toolCall("c", of(run.ToolRun, `{}`)), run.Started{SubRunID: "sub_c"}, asked), Retry: &protocol.RunRetry{}}
	e.at(time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse { return run.StepResponse{} })
	})
	e.at(2*time.Minute, func() {
		d := e.describe()
		require.Equal(t, run.StateWaitingTool, d.Run.State)
		require.Empty(t, d.Asks)
		e.SignalWorkflow(protocol.SignalRunAsks, protocol.RunAsks{Key: run.Key{Step: 1, ID: "c"}, Asks: []protocol.Ask{{Prompt: "again?"}}})
	})
	e.at(3*time.Minute, func() {
		require.Equal(t, run.StateWaitingInput, e.describe().Run.State)
		e.CancelWorkflow()
	})
	e.run(in)
}

// A run that steps all the time looks all the same at what goes on in the background:
// each call that began had put the look off.
func TestTheStandingCheckIsNotPutOff(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	const steps = 30
	n := 0
	var turn func()
	turn = func() {
		n++
		id, step := fmt.Sprintf("q%d", n), n
		e.take(func(run.StepRequest) run.StepResponse {
			calls := []run.ToolCall{toolCall(id)}
			if step == 1 {
				calls = append(calls, toolCall("bg", func(c *run.ToolCall) { c.Background = true }))
			}
			return asks(calls...)
		})
		e.at(30*time.Second, func() { e.finish(taskOf(step, id)) })
		if n == steps {
			e.at(10*time.Second, func() { e.CancelWorkflow() })
			return
		}
		e.at(50*time.Second, turn)
	}
	e.at(time.Second, turn)
	e.run(pulls())
	require.Greater(t, len(w.watches), steps/3)
}

// What is said by a signal and refused is kept where people look.
func TestAnInputBySignalThatIsRefused(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(time.Second, func() {
		e.SignalWorkflow(protocol.SignalInput, protocol.RunSaid{InputID: "start", Content: json.RawMessage(`"something else"`), Source: "ann"})
	})
	e.at(2*time.Second, func() {
		require.Contains(t, e.describe().LastRejected.Error, "input-conflict")
		e.CancelWorkflow()
	})
	e.run(pulls())
}

// A task ended before the run had heard of its start: the worker had died with the answer.
// The call had its result and no task, so that nobody could tell whose the result was: it
// was handed to the step without its content.
func TestAnEndThatOvertakesItsStart(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	sub := protocol.SubRunID("r1", 1, "sub")
	w.begin = func(protocol.CallStart) (protocol.CallBegun, error) {
		e.finish(taskOf(1, "a"))
		e.SignalWorkflow(protocol.SignalRunFinished, protocol.RunFinished{
			Key: run.Key{Step: 1, ID: "sub"}, SubRunID: sub, State: run.StateSucceeded, Final: run.Inline([]byte("1"), "application/json"),
		})
		return protocol.CallBegun{}, errGoesOn
	}
	e.at(time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a"), toolCall("sub", func(c *run.ToolCall) { c.Tool = run.ToolRun }))
		})
	})
	e.at(time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"a succeeded", "sub succeeded"}, states(req))
			require.Equal(t, taskOf(1, "a"), req.Results[0].TaskID)
			require.Equal(t, sub, e.describe().Run.Calls[1].SubRunID)
			return final("1")
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}
