package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Whoever cancels the workflow in the Temporal UI cancels the run: its calls are told,
// and the run ends when they have, or when the grace is over.
func TestCancelInTheTemporalUI(t *testing.T) {
	t.Parallel()
	for name, confirmed := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &runWorld{begin: asking(0)}
			e := newRunEnv(t, w)
			e.at(1*time.Minute, func() {
				e.take(func(run.StepRequest) run.StepResponse {
					return asks(toolCall("a"), toolCall("b", needs("a")), toolCall("ask", of("deploy", `{}`)))
				})
			})
			e.at(2*time.Minute, func() { e.CancelWorkflow() })
			e.at(2*time.Minute+time.Second, func() {
				require.Len(t, w.cancels, 1)
				require.Equal(t, taskOf(1, "a"), w.cancels[0].TaskID)
				require.Equal(t, "temporal", w.cancels[0].By)
				d := e.describe()
				require.Equal(t, "its calls to stop: build (a)", d.WaitsFor)
				require.Equal(t, run.WakeForGrace, d.WakeFor)
				e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann"}, func(r *runReply) { require.True(t, r.out.Duplicate) })
				e.update(protocol.UpdateInput, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`1`)}, refused(t, run.ReasonRunEnding))
				e.update(protocol.UpdateClaim, protocol.Claim{}, refused(t, run.ReasonNoStep))
				if confirmed {
					e.finish(taskOf(1, "a"), func(task *domain.Task) { task.State = domain.StateCancelled })
				}
			})
			e.run(pulls())
			rec := e.record()
			require.Equal(t, run.StateCancelled, rec.State)
			require.True(t, temporal.IsCanceledError(e.GetWorkflowError()))
			require.Equal(t, "temporal", rec.Cancel.By)
			if confirmed {
				require.Empty(t, rec.Unconfirmed)
				require.Equal(t, start.Add(2*time.Minute+time.Second).UnixMilli(), rec.EndedAtMs)
			} else {
				require.Equal(t, []run.Key{{Step: 1, ID: "a"}}, rec.Unconfirmed)
				require.Equal(t, start.Add(4*time.Minute).UnixMilli(), rec.EndedAtMs)
			}
			require.Len(t, w.begun, 2)
		})
	}
}

func TestTheDeadlineOfARun(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
	e.at(24*time.Hour+time.Second, func() {
		require.Len(t, w.cancels, 1)
		require.Equal(t, "timer", w.cancels[0].By)
		e.finish(taskOf(1, "a"))
	})
	e.run(pulls())
	rec := e.record()
	require.ErrorContains(t, e.GetWorkflowError(), "plan a trip expired at its deadline, 2026-01-03T03:04:05Z")
	require.Equal(t, run.StateExpired, rec.State)
	require.Equal(t, run.CodeDeadlineExceeded, rec.Error.Code)
	require.Equal(t, run.CallSucceeded, rec.Calls[0].State, "a retry finds it")
}

func TestLimitsOfARun(t *testing.T) {
	t.Parallel()
	for code, tc := range map[string]struct {
		limits run.Limits
		resp   run.StepResponse
	}{
		run.CodeLimitSteps:     {run.Limits{MaxSteps: 2}, asks(toolCall("b"))},
		run.CodeLimitCalls:     {run.Limits{MaxCalls: 2}, asks(toolCall("b"), toolCall("c"))},
		run.CodeLimitOpenCalls: {run.Limits{MaxOpenCalls: 1}, asks(toolCall("b"), toolCall("c"))},
		run.CodeLimitTokens:    {run.Limits{MaxTokens: 10}, run.StepResponse{Await: run.AwaitInput, Usage: []run.Usage{{Model: "m", InputTokens: 11}}}},
		run.CodeLimitCost:      {run.Limits{MaxCostUSD: 1}, run.StepResponse{Await: run.AwaitInput, Usage: []run.Usage{{Model: "m", CostUSD: 1.5}}}},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			e := newRunEnv(t, w)
			e.at(1*time.Minute, func() {
				e.take(func(req run.StepRequest) run.StepResponse {
					require.Equal(t, tc.limits.MaxTokens, req.Limits.MaxTokens, "it is announced")
					return asks(toolCall("a"))
				})
			})
			e.at(2*time.Minute, func() { e.finish(taskOf(1, "a")) })
			e.at(3*time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return tc.resp }) })
			e.run(pulls(func(in *protocol.RunInput) { in.Create.Limits = tc.limits }))
			rec := e.record()
			require.Equal(t, run.StateFailed, rec.State)
			require.Equal(t, code, rec.Error.Code)
			require.Len(t, w.begun, 1, "nothing of it is done")
			require.NotNil(t, rec.Step)
		})
	}
}

// retried is the input that retries a run that has ended.
func retried(rec run.Run, r protocol.RunRetry) protocol.RunInput {
	in := pulls()
	in.Carry = &protocol.RunCarry{Run: rec, Retry: &r}
	return in
}

// A run that failed is retried: the step comes again, with what it was about. What ended
// while the run was closed could tell nobody, so that is looked for at once.
func TestRetryOfARun(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a"), toolCall("bg", func(c *run.ToolCall) { c.Background = true }))
		})
	})
	e.at(2*time.Minute, func() { e.finish(taskOf(1, "a")) })
	e.at(3*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse { return run.StepResponse{Error: failure("NO_KEY", false)} })
	})
	e.run(pulls())
	failed := e.record()
	require.Equal(t, run.StateFailed, failed.State)
	require.Empty(t, w.cancels, "its calls go on: a retry takes them up")

	w2 := &runWorld{}
	w2.inspect = func(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		end := domain.Task{ID: taskOf(1, "bg"), State: domain.StateSucceeded, ResultRef: "late", ResultHash: "h"}
		return protocol.CallsFound{Ends: []protocol.CallFound{{Key: r.Calls[0].Key, Task: &end}}}, nil
	}
	e2 := newRunEnv(t, w2)
	e2.SetStartTime(start.Add(time.Hour))
	e2.at(time.Second, func() {
		require.Len(t, w2.inspects, 1, "at once")
		require.True(t, w2.inspects[0].DryRun, "it only looks")
		d := e2.describe()
		require.Equal(t, run.StateRunning, d.Run.State)
		require.Equal(t, run.CallSucceeded, d.Run.Calls[1].State)
		require.Equal(t, 1, d.Run.Retries)
		e2.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, run.CauseRecover, req.Cause)
			require.Equal(t, 2, req.Step)
			require.Equal(t, 2, req.Attempt)
			require.Equal(t, []string{"a succeeded"}, states(req), "what it was about the first time")
			require.Equal(t, "bg", req.Pending[0].ToolCallID)
			return run.StepResponse{Await: run.AwaitInput}
		})
	})
	e2.at(2*time.Second, func() {
		e2.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"bg succeeded"}, states(req))
			require.Equal(t, "late", req.Results[0].ResultRef)
			return final(`1`)
		})
	})
	e2.run(retried(failed, protocol.RunRetry{By: "ann"}))
	rec := e2.record()
	require.Equal(t, run.StateSucceeded, rec.State)
	require.Equal(t, "ann", rec.History[len(failed.History)].By)
	require.Empty(t, w2.begun)
}

// A retry that is refused leaves the end as it was: it must not hide the record.
func TestARetryThatIsRefused(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{})
	e.run(pulls())
	expired := e.record()
	require.Equal(t, run.StateExpired, expired.State)
	for _, r := range []protocol.RunRetry{{}, {TTLMs: -1}} {
		e := newRunEnv(t, &runWorld{})
		e.SetStartTime(start.Add(48 * time.Hour))
		e.run(retried(expired, r))
		require.Equal(t, expired, e.record())
	}
	e = newRunEnv(t, &runWorld{})
	e.SetStartTime(start.Add(48 * time.Hour))
	e.ends(time.Second)
	e.run(retried(expired, protocol.RunRetry{TTLMs: 60_000}))
	require.Equal(t, run.StateSucceeded, e.record().State)
}

// A run that does the work of a call tells the run above what it asks and how it ends.
func TestARunTellsTheOneAbove(t *testing.T) {
	t.Parallel()
	w := &runWorld{begin: asking(0)}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("q", of(run.ToolAsk, `{"prompt":"which?"}`)), toolCall("d", of("deploy", `{}`)))
		})
	})
	e.at(2*time.Minute, func() {
		require.Len(t, w.parents, 1)
		a := w.parents[0].Asks
		require.Equal(t, "p1", w.parents[0].RunID)
		require.Equal(t, run.Key{Step: 4, ID: "sub"}, a.Key)
		require.Len(t, a.Asks, 2)
		require.Equal(t, "r1", a.Asks[0].RunID)
		e.update(protocol.UpdateAnswer, raw(`{"toolCallId":"q","answer":1}`), came(t, run.ReasonAnswered))
	})
	e.at(3*time.Minute, func() {
		require.Len(t, w.parents[1].Asks.Asks, 1)
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"d","decision":"deny"}`), came(t, run.ReasonDenied))
	})
	e.at(4*time.Minute, func() {
		require.Len(t, w.parents, 3)
		require.Empty(t, w.parents[2].Asks.Asks, "nothing is asked any more")
		e.take(func(run.StepRequest) run.StepResponse {
			return run.StepResponse{Final: json.RawMessage(`{"x":1}`), Usage: []run.Usage{{Model: "m", InputTokens: 7}}}
		})
	})
	e.run(pulls(func(in *protocol.RunInput) {
		in.Create.Parent = &run.Parent{RunID: "p1", ToolCallID: "sub", Step: 4, Depth: 1}
	}))
	require.Len(t, w.parents, 4)
	f := w.parents[3].Finished
	require.Equal(t, run.Key{Step: 4, ID: "sub"}, f.Key)
	require.Equal(t, "r1", f.SubRunID)
	require.Equal(t, run.StateSucceeded, f.State)
	require.JSONEq(t, `{"x":1}`, string(f.Final.Data))
	require.EqualValues(t, 7, f.Usage[0].InputTokens)
}

// subRuns begins each call as a run.
func subRuns(c protocol.CallStart) (protocol.CallBegun, error) {
	return protocol.CallBegun{Started: &run.Started{SubRunID: "sub-" + c.ID}}, nil
}

func subAsk(id, prompt string) protocol.RunAsks {
	a := protocol.RunAsks{Key: run.Key{Step: 1, ID: id}, SubRunID: "sub-" + id}
	if prompt != "" {
		a.Asks = []protocol.Ask{{RunID: "sub-" + id, ToolCallID: "q", AskedAtStep: 1, Tool: run.ToolAsk, Kind: protocol.AskQuestion, Prompt: prompt}}
	}
	return a
}

func TestARunAboveOthers(t *testing.T) {
	t.Parallel()
	w := &runWorld{begin: subRuns}
	found := false
	w.watch = func(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		if !found {
			return protocol.CallsFound{}, errNothingYet
		}
		return protocol.CallsFound{Ends: []protocol.CallFound{{Key: run.Key{Step: 1, ID: "gone"}, End: run.End{State: run.CallFailed, Error: failure(run.CodeTaskTerminated, false)}}}}, nil
	}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a", of(run.ToolRun, `{}`)), toolCall("b", of(run.ToolRun, `{}`)), toolCall("gone", of(run.ToolRun, `{}`)))
		})
	})
	e.at(2*time.Minute, func() {
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("a", "one?"))
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("gone", "two?"))
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("z", "of no call"))
	})
	e.at(3*time.Minute, func() {
		d := e.describe()
		require.Equal(t, run.StateWaitingInput, d.Run.State)
		require.Equal(t, "a person: wakepoint.run (a), wakepoint.run (gone); and tools: wakepoint.run (b)", d.WaitsFor)
		require.Len(t, d.Asks, 2)
		require.Equal(t, "one?", d.Asks[0].Prompt)
		e.SignalWorkflow(protocol.SignalRunAsks, subAsk("a", ""))
		e.SignalWorkflow(protocol.SignalRunFinished, protocol.RunFinished{
			Key: run.Key{Step: 1, ID: "a"}, SubRunID: "sub-a", State: run.StateSucceeded, Final: run.Inline([]byte(`{"x":1}`), ""), Usage: []run.Usage{{Model: "m", OutputTokens: 5}},
		})
		e.SignalWorkflow(protocol.SignalRunFinished, protocol.RunFinished{Key: run.Key{Step: 1, ID: "b"}, SubRunID: "sub-b", State: run.StateExpired, Error: failure("X", false)})
		e.SignalWorkflow(protocol.SignalRunFinished, protocol.RunFinished{Key: run.Key{Step: 1, ID: "b"}, SubRunID: "sub-b", State: run.StateSucceeded})
		found = true
	})
	// A run that was terminated says nothing, and its question is one no more. It was
	// shown for ever.
	e.at(5*time.Minute, func() {
		d := e.describe()
		require.Equal(t, run.StateRunning, d.Run.State)
		require.Empty(t, d.Asks)
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"a succeeded", "b expired", "gone failed"}, states(req))
			require.JSONEq(t, `{"x":1}`, string(req.Results[0].Result))
			return final(`1`)
		})
	})
	e.run(pulls())
	require.EqualValues(t, 5, e.record().Tokens())
}

// What becomes of calls in the background when the run ends.
func TestCallsInTheBackgroundAtTheEnd(t *testing.T) {
	t.Parallel()
	for onFinal, told := range map[string]int{"": 1, run.OnFinalCancel: 1, run.OnFinalDetach: 0} {
		t.Run("on final "+onFinal, func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			e := newRunEnv(t, w)
			e.at(1*time.Minute, func() {
				e.take(func(run.StepRequest) run.StepResponse {
					return asks(toolCall("a"), toolCall("bg", func(c *run.ToolCall) { c.Background = true }))
				})
			})
			e.at(2*time.Minute, func() { e.finish(taskOf(1, "a")) })
			e.at(3*time.Minute, func() {
				e.take(func(run.StepRequest) run.StepResponse {
					return run.StepResponse{Final: json.RawMessage(`1`), OnFinal: onFinal}
				})
			})
			e.run(pulls())
			require.Equal(t, run.StateSucceeded, e.record().State)
			require.Len(t, w.cancels, told)
		})
	}
}

// The work of calls that come with the end is begun before the run closes.
func TestCallsThatComeWithTheEnd(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return run.StepResponse{Final: json.RawMessage(`1`), OnFinal: run.OnFinalDetach, ToolCalls: []run.ToolCall{toolCall("bg", func(c *run.ToolCall) { c.Background = true })}}
		})
	})
	e.run(pulls())
	require.Len(t, w.begun, 1)
	require.Equal(t, run.CallOpen, e.record().Calls[0].State)
}
