package workflows_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// asking is a world in which calls of the tool deploy wait for a person first, and
// questions for an answer.
func asking(until time.Duration) func(protocol.CallStart) (protocol.CallBegun, error) {
	return func(c protocol.CallStart) (protocol.CallBegun, error) {
		if !c.Approved && (c.Tool == "deploy" || c.Tool == run.ToolAsk || c.Tool == run.ToolApprove) {
			s := &run.Started{Title: "deploy to production"}
			if until > 0 {
				s.UntilMs = start.Add(until).UnixMilli()
			}
			return protocol.CallBegun{Asks: true, Started: s}, nil
		}
		return protocol.CallBegun{Started: &run.Started{TaskID: taskOf(c.Step, c.ID)}}, nil
	}
}

func of(tool, input string) func(*run.ToolCall) {
	return func(c *run.ToolCall) { c.Tool, c.Input = tool, json.RawMessage(input) }
}

func approve(id, decision, input string) protocol.Approve {
	return protocol.Approve{CallID: protocol.CallID{ToolCallID: id}, Decision: decision, Input: json.RawMessage(input), Message: "m", By: "ann"}
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	w := &runWorld{begin: asking(0)}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("yes", of("deploy", `{"n":1}`)), toolCall("no", of("deploy", `{"n":2}`)), toolCall("edit", of("deploy", `{"n":3}`)), toolCall("after", needs("no")), toolCall("free"),
				toolCall("sign", of(run.ToolApprove, `{"prompt":"sign?","arguments":{"x":1}}`)))
		})
	})
	e.at(2*time.Minute, func() {
		d := e.describe()
		require.Equal(t, run.StateWaitingInput, d.Run.State)
		require.Len(t, d.Asks, 4)
		require.Equal(t, protocol.Ask{RunID: "r1", ToolCallID: "yes", AskedAtStep: 1, Tool: "deploy", Kind: protocol.AskApproval, Prompt: "deploy to production", Input: json.RawMessage(`{"n":1}`)}, d.Asks[0])
		require.Equal(t, "sign?", d.Asks[3].Prompt)
		require.Len(t, w.begun, 5)
		e.update(protocol.UpdateApprove, approve("z", run.DecisionApprove, ""), refused(t, run.ReasonUnknownCall))
		e.update(protocol.UpdateApprove, approve("free", run.DecisionApprove, ""), refused(t, run.ReasonNotAsked))
		e.update(protocol.UpdateApprove, approve("yes", "maybe", ""), invalid(t, "decision"))
		e.update(protocol.UpdateApprove, approve("yes", run.DecisionEdit, ""), invalid(t, "input"))
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"yes","decision":"approve","input":{"n":9}}`), invalid(t, "input"))
		e.update(protocol.UpdateAnswer, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "yes"}, Answer: json.RawMessage(`1`)}, refused(t, run.ReasonNotAsked))
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"yes","decision":"approve","by":"ann"}`), came(t, run.ReasonApproved))
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"yes","decision":"approve","by":"bob"}`), func(r *runReply) { require.True(t, r.out.Duplicate) })
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"yes","decision":"deny"}`), refused(t, run.ReasonAnswerConflict))
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"no","decision":"deny","message":"not today","by":"ann"}`), came(t, run.ReasonDenied))
		e.update(protocol.UpdateApprove, approve("edit", run.DecisionEdit, `{"n": 30}`), came(t, run.ReasonEdited))
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"sign","decision":"approve","by":"ann"}`), came(t, run.ReasonApproved))
	})
	e.at(3*time.Minute, func() {
		require.Equal(t, run.StateWaitingTool, e.describe().Run.State)
		require.Len(t, w.begun, 7, "two are begun, the third is denied, and what needs it is skipped")
		for _, c := range w.begun[5:] {
			require.True(t, c.Approved, c.ID)
		}
		require.JSONEq(t, `{"n":30}`, string(w.begun[6].Input))
		for _, id := range []string{"yes", "edit", "free"} {
			e.finish(taskOf(1, id))
		}
	})
	e.at(4*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"yes succeeded", "no denied", "edit succeeded", "after skipped", "free succeeded", "sign succeeded"}, states(req))
			require.Equal(t, "ann", req.Results[0].Approval.By)
			require.Equal(t, start.Add(2*time.Minute).UnixMilli(), req.Results[0].Approval.AtMs)
			require.Equal(t, "not today", req.Results[1].Error.Message)
			require.True(t, req.Results[2].InputEdited)
			require.JSONEq(t, `{"n":30}`, string(req.Results[2].Input))
			require.Contains(t, string(req.Results[5].Result), `"decision":"approve"`)
			return final(`1`)
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	w := &runWorld{begin: asking(10 * time.Minute)}
	e := newRunEnv(t, w)
	answer := func(id, text string) protocol.AnswerCall {
		return protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: id}, Answer: json.RawMessage(text), By: "ann"}
	}
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("q", of(run.ToolAsk, `{"prompt":"which?","schema":{"type":"string"}}`)), toolCall("late", of(run.ToolAsk, `{"prompt":"?"}`)), toolCall("slow", of("deploy", `{}`)),
				toolCall("uses", needs("q"), of("build", `{"to":{"$from":"q"}}`)))
		})
	})
	e.at(2*time.Minute, func() {
		d := e.describe()
		require.Equal(t, protocol.AskQuestion, d.Asks[0].Kind)
		require.Equal(t, "which?", d.Asks[0].Prompt)
		require.JSONEq(t, `{"type":"string"}`, string(d.Asks[0].Schema))
		require.Equal(t, start.Add(10*time.Minute).UnixMilli(), d.Asks[0].UntilMs)
		require.Contains(t, d.WaitsFor, "a person: wakepoint.ask (q)")
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"q","decision":"approve"}`), refused(t, run.ReasonNotAsked))
		e.update(protocol.UpdateAnswer, raw(`{"toolCallId":"q"}`), invalid(t, "answer"))
		e.update(protocol.UpdateAnswer, answer("q", `"blue"`), came(t, run.ReasonAnswered))
		e.update(protocol.UpdateAnswer, answer("q", `"blue"`), func(r *runReply) { require.True(t, r.out.Duplicate) })
		e.update(protocol.UpdateAnswer, answer("q", `"red"`), refused(t, run.ReasonAnswerConflict))
	})
	e.at(3*time.Minute, func() {
		last := w.begun[len(w.begun)-1]
		require.Equal(t, "uses", last.ID)
		require.Equal(t, `"blue"`, string(last.Needs[0].Answer))
		e.finish(taskOf(1, "uses"))
	})
	e.at(9*time.Minute, func() { require.Nil(t, e.describe().Run.Step) })
	e.at(11*time.Minute, func() {
		e.update(protocol.UpdateAnswer, answer("late", `1`), refused(t, run.ReasonNotAsked))
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"q succeeded", "late expired", "slow expired", "uses succeeded"}, states(req))
			require.Equal(t, `"blue"`, string(req.Results[0].Result))
			require.Equal(t, run.CodeAnswerTimeout, req.Results[1].Error.Code)
			require.Equal(t, run.CodeApprovalTimeout, req.Results[2].Error.Code)
			return final(`1`)
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}

// The run stops waiting for a call, the call does not stop: its end is a new input.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	e.at(1*time.Minute, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("slow", func(c *run.ToolCall) { c.WaitMs = 60_000 }), toolCall("quick", func(c *run.ToolCall) { c.WaitMs = 60_000 }))
		})
	})
	e.at(90*time.Second, func() { e.finish(taskOf(1, "quick")) })
	e.at(2*time.Minute+time.Second, func() {
		require.Len(t, w.cancels, 1)
		require.True(t, w.cancels[0].Detach, "its task is told that nobody waits, and not to stop")
		require.Equal(t, taskOf(1, "slow"), w.cancels[0].TaskID)
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"slow failed", "quick succeeded"}, states(req))
			require.Equal(t, run.CodeWaitTimeout, req.Results[0].Error.Code)
			return run.StepResponse{Await: run.AwaitInput}
		})
	})
	e.at(3*time.Minute, func() {
		e.finish(taskOf(1, "slow"))
		e.finish(taskOf(1, "slow"))
	})
	e.at(4*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, run.CauseInput, req.Cause)
			require.Empty(t, req.Results)
			require.Len(t, req.Inputs, 1)
			require.Equal(t, run.SourceTask, req.Inputs[0].Source)
			var late run.LateEnd
			require.NoError(t, json.Unmarshal(req.Inputs[0].Content, &late))
			require.Equal(t, run.LateEnd{
				Kind: run.KindLateEnd, ToolCallID: "slow", AskedAtStep: 1, Tool: "build", TaskID: taskOf(1, "slow"), State: run.CallSucceeded,
				ResultRef: "blob:acme/task/" + taskOf(1, "slow") + "/h", ResultHash: "h",
			}, late)
			return final(`1`)
		})
	})
	e.run(pulls())
	require.Empty(t, e.record().Detached)
}

// A task that was terminated in the Temporal UI tells nobody. The run asks after a
// while, and asks about all that it waits for: the check begins anew when calls come.
func TestStandingCheck(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	terminated := false
	w.watch = func(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		for _, c := range r.Calls {
			if c.ID == "b" && terminated {
				return protocol.CallsFound{Ends: []protocol.CallFound{{Key: c.Key, End: run.End{State: run.CallFailed, Error: failure(run.CodeTaskTerminated, false)}}}}, nil
			}
		}
		return protocol.CallsFound{}, errNothingYet
	}
	e := newRunEnv(t, w)
	e.at(1*time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			r := asks(toolCall("a"), toolCall("a2"))
			r.Wake = run.WakeAny
			return r
		})
	})
	e.at(30*time.Second, func() { require.Empty(t, w.watches, "most calls end soon") })
	e.at(2*time.Minute, func() {
		require.Len(t, w.watches[0].Calls, 2)
		require.Equal(t, taskOf(1, "a"), w.watches[0].Calls[0].TaskID)
		require.EqualValues(t, run.DefaultCheckEveryMs, w.watches[0].EveryMs)
		e.finish(taskOf(1, "a2"))
	})
	e.at(3*time.Minute, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("b")) }) })
	var before int
	e.at(3*time.Minute+time.Second, func() { before = len(w.watches) })
	e.at(5*time.Minute, func() {
		require.Greater(t, len(w.watches), before)
		last := w.watches[len(w.watches)-1]
		require.Len(t, last.Calls, 2)
		require.Equal(t, run.Key{Step: 2, ID: "b"}, last.Calls[1].Key)
		require.Equal(t, last, w.watches[before], "what was looked at before is over")
		terminated = true
		e.finish(taskOf(1, "a"))
	})
	e.at(10*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"a succeeded", "b failed"}, states(req))
			require.Equal(t, run.CodeTaskTerminated, req.Results[1].Error.Code)
			return final(`1`)
		})
	})
	e.run(pulls())
}

func TestRecover(t *testing.T) {
	t.Parallel()
	w := &runWorld{begin: asking(0)}
	away := errors.New("no worker")
	w.inspect = func(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		if away != nil {
			return protocol.CallsFound{}, away
		}
		end := domain.Task{ID: taskOf(1, "a"), State: domain.StateSucceeded, ResultRef: "r", ResultHash: "h"}
		return protocol.CallsFound{
			Ends:  []protocol.CallFound{{Key: run.Key{Step: 1, ID: "a"}, Task: &end}, {Key: run.Key{Step: 9, ID: "x"}, Task: &end}},
			Drift: []protocol.CallDrift{{Key: run.Key{Step: 1, ID: "a"}, Tool: "build", Knew: run.CallOpen, Found: "succeeded", Did: "taken"}},
		}, nil
	}
	e := newRunEnv(t, w)
	e.at(1*time.Second, func() {
		e.update(protocol.UpdateRecover, protocol.Recover{By: "ann"}, func(r *runReply) {
			require.NoError(t, r.err)
			require.Equal(t, protocol.Recovered{State: run.StateRunning, Calls: []protocol.CallDrift{}, Step: "a runtime to take step 1"}, r.found)
		})
		e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a"), toolCall("b", of("deploy", `{}`))) })
	})
	e.at(2*time.Second, func() {
		e.update(protocol.UpdateRecover, protocol.Recover{}, func(r *runReply) { require.ErrorContains(t, r.err, "could not be asked"); away = nil })
	})
	e.at(10*time.Minute, func() {
		e.update(protocol.UpdateRecover, protocol.Recover{By: "ann", DryRun: true}, func(r *runReply) {
			require.NoError(t, r.err)
			require.Zero(t, r.found.Changed)
			require.Len(t, r.found.Calls, 1)
			require.Equal(t, run.CallOpen, e.describe().Run.Calls[0].State)
		})
	})
	e.at(11*time.Minute, func() {
		last := w.inspects[len(w.inspects)-1]
		require.True(t, last.DryRun)
		require.Len(t, last.Calls, 2, "all that has not ended")
		require.Equal(t, run.CallApproval, last.Calls[1].State)
		for range 2 {
			e.update(protocol.UpdateRecover, protocol.Recover{}, func(r *runReply) { require.NoError(t, r.err) })
		}
	})
	e.at(12*time.Minute, func() {
		require.Equal(t, run.CallSucceeded, e.describe().Run.Calls[0].State)
		e.update(protocol.UpdateRecover, protocol.Recover{}, func(r *runReply) {
			require.NoError(t, r.err)
			require.Zero(t, r.found.Changed, "twice changes nothing")
			e.update(protocol.UpdateCancel, protocol.Cancel{})
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateCancelled, e.record().State)
}

// What the model got wrong comes back to the model, and so does a result that was there
// before.
func TestCallsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
		switch c.ID {
		case "unknown":
			return protocol.CallBegun{End: &run.End{State: run.CallFailed, Error: failure(run.CodeUnknownTool, false)}}, nil
		case "cached":
			return protocol.CallBegun{Started: &run.Started{TaskID: "old"}, End: &run.End{State: run.CallSucceeded, ResultRef: "old-ref", ResultHash: "h"}}, nil
		case "resolved":
			return protocol.CallBegun{Started: &run.Started{TaskID: "t9"}, Input: json.RawMessage(`{"whole":"text"}`)}, nil
		}
		// Its end is there before the run knows its task: it is that of somebody else too.
		e.finish("shared")
		return protocol.CallBegun{Started: &run.Started{TaskID: "shared", WaiterID: "w"}}, nil
	}
	e.at(1*time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("unknown"), toolCall("cached"), toolCall("s1"), toolCall("s2"), toolCall("resolved"), toolCall("after", needs("unknown")))
		})
	})
	e.at(1*time.Minute, func() {
		e.finish("t9")
		e.finish("nobody's")
		e.finish("t9", func(task *domain.Task) { task.State = domain.StateRunning })
	})
	e.at(2*time.Minute, func() {
		e.take(func(req run.StepRequest) run.StepResponse {
			require.Equal(t, []string{"unknown failed", "cached succeeded", "s1 succeeded", "s2 succeeded", "resolved succeeded", "after skipped"}, states(req))
			require.Equal(t, run.CodeUnknownTool, req.Results[0].Error.Code)
			require.Equal(t, "old-ref", req.Results[1].ResultRef)
			require.JSONEq(t, `{"whole":"text"}`, string(req.Results[4].Input))
			return final(`1`)
		})
	})
	e.run(pulls())
	require.Equal(t, run.StateSucceeded, e.record().State)
}

// The work of a commit by an update is begun by a regular activity: the server begins it
// only when the commit is in history. Everything else is begun at once, and by a regular
// activity when that does not work.
func TestHowCallsAreStarted(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	var local []bool
	w.starting = func(l bool) error {
		local = append(local, l)
		if l && len(local) == 2 {
			return errors.New("the engine is away")
		}
		return nil
	}
	e := newRunEnv(t, w)
	length := 3
	grow := func() { length += 5; e.SetCurrentHistoryLength(length) }
	grow()
	e.at(1*time.Second, func() {
		grow()
		e.take(func(run.StepRequest) run.StepResponse {
			return asks(toolCall("a"), toolCall("b", needs("a")), toolCall("c", needs("b")))
		})
	})
	e.at(2*time.Second, func() { grow(); e.finish(taskOf(1, "a")) })
	e.at(1*time.Minute, func() { grow(); e.finish(taskOf(1, "b")) })
	e.at(2*time.Minute, func() { grow(); e.finish(taskOf(1, "c")) })
	e.ends(3 * time.Minute)
	e.run(pulls())
	require.Equal(t, []bool{false, true, false, true}, local)
	require.Len(t, w.begun, 3)
}

// Many calls are begun in handfuls.
func TestManyCallsAreStarted(t *testing.T) {
	t.Parallel()
	w := &runWorld{}
	e := newRunEnv(t, w)
	tries := 0
	w.starting = func(bool) error { tries++; return nil }
	e.at(time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse { return asks(manyCalls(run.MaxOpen)...) })
	})
	e.at(time.Minute, func() {
		require.Len(t, w.begun, run.MaxOpen)
		require.Equal(t, 2, tries)
		for _, c := range e.describe().Run.Calls {
			require.Equal(t, run.CallOpen, c.State)
			e.finish(c.TaskID)
		}
	})
	e.ends(2 * time.Minute)
	e.run(pulls(func(in *protocol.RunInput) { in.Create.Limits.MaxOpenCalls = run.MaxOpen }))
	require.Equal(t, run.StateSucceeded, e.record().State)
}

func manyCalls(n int) []run.ToolCall {
	var calls []run.ToolCall
	for i := range n {
		calls = append(calls, toolCall("c"+string(rune('a'+i/26))+string(rune('a'+i%26))))
	}
	return calls
}
