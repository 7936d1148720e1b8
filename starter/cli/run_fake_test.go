package cli_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	domainrun "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// fakeRuns is what is scripted of runs.
type fakeRuns struct {
	runs       map[string]starter.RunDescription
	runChanges map[string][]starter.RunChange
	answers    map[string]starter.RunAnswer
	runStarted starter.RunStarted
	runListing starter.RunListing
	runOutcome domainrun.Outcome
	request    domainrun.StepRequest
	recovered  []recovery
	runRetried starter.RunRetried
	// onRunCancel is told of every cancel of a run.
	onRunCancel func(runID string)
}

type recovery struct {
	runID string
	out   protocol.Recovered
	err   error
}

func (f *fake) StartRun(_ context.Context, s starter.RunStart) (starter.RunStarted, error) {
	id := "run_1"
	if s.RunID != "" {
		id = s.RunID
	}
	err := f.called("start", s, s.TTL.String())
	if f.runStarted.RunID != "" {
		return f.runStarted, err
	}
	return starter.RunStarted{
		RunID: id, Status: starter.StatusAccepted, State: domainrun.StateRunning, Existing: s.IdempotencyKey == "again",
		ExpiresAtMs: start + 3_600_000, WorkflowID: "default/run/" + id,
	}, err
}

func (f *fake) DescribeRun(_ context.Context, runID string) (starter.RunDescription, error) {
	runID = known(runID)
	if err := f.called("describe-run", runID); err != nil {
		return starter.RunDescription{}, err
	}
	d, ok := f.runs[runID]
	if !ok {
		return d, &starter.Error{Code: starter.CodeUnknownRun, Message: "there is no run " + runID}
	}
	return d, nil
}

func (f *fake) WatchRun(ctx context.Context, runID string, cursor int64) iter.Seq2[starter.RunChange, error] {
	return func(yield func(starter.RunChange, error) bool) {
		runID = known(runID)
		if err := f.called("watch-run", runID, cursor); err != nil {
			yield(starter.RunChange{}, err)
			return
		}
		f.mu.Lock()
		changes, ok := f.runChanges[runID]
		hang := f.hang[runID]
		f.mu.Unlock()
		if !ok {
			yield(starter.RunChange{}, &starter.Error{Code: starter.CodeUnknownRun, Message: "there is no run " + runID})
			return
		}
		for _, ch := range changes {
			if ch.Description.Run.Version > cursor || cursor == 0 {
				if !yield(ch, nil) {
					return
				}
			}
		}
		if hang {
			<-ctx.Done()
			yield(starter.RunChange{}, context.Cause(ctx))
		}
	}
}

func (f *fake) RunResult(_ context.Context, runID string) (starter.RunAnswer, error) {
	a, ok := f.answers[runID]
	if err := f.called("run-result", runID); err != nil {
		return a, err
	}
	if !ok {
		return a, &starter.Error{Code: starter.CodeNotSucceeded, Message: "run " + runID + " has failed", Hint: "retry it"}
	}
	return a, nil
}

func (f *fake) ListRuns(_ context.Context, r starter.ListRunsRequest) (starter.RunListing, error) {
	return f.runListing, f.called("list-runs", r)
}

func (f *fake) Next(_ context.Context, runID string, o starter.NextOptions) (domainrun.StepRequest, error) {
	return f.request, f.called("next", runID, o)
}

func (f *fake) Commit(_ context.Context, runID string, step int, token string, resp domainrun.StepResponse) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("commit", runID, step, token, string(resp.Checkpoint), resp)
}

func (f *fake) StepHeartbeat(_ context.Context, runID, token string, delta json.RawMessage) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("step-heartbeat", runID, token, delta)
}

func (f *fake) Say(_ context.Context, runID string, said protocol.RunSaid) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("say", runID, said)
}

func (f *fake) AnswerRun(_ context.Context, runID string, a protocol.AnswerCall) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("answer-run", runID, a)
}

func (f *fake) Approve(_ context.Context, runID string, a protocol.Approve) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("approve", runID, a)
}

func (f *fake) CancelRun(_ context.Context, runID string, c protocol.Cancel) (domainrun.Outcome, error) {
	runID = known(runID)
	err := f.called("cancel-run", runID, c)
	if f.onRunCancel != nil {
		f.onRunCancel(runID)
	}
	return f.runOutcome, err
}

func (f *fake) CancelCall(_ context.Context, runID string, m protocol.CancelOneCall) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("cancel-call", runID, m)
}

func (f *fake) Pause(_ context.Context, runID string, p protocol.Pause) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("pause", runID, p)
}

func (f *fake) Unpause(_ context.Context, runID string, p protocol.Pause) (domainrun.Outcome, error) {
	return f.runOutcome, f.called("unpause", runID, p)
}

func (f *fake) RecoverRun(_ context.Context, runID string, r protocol.Recover) (protocol.Recovered, error) {
	err := f.called("recover", runID, r)
	for _, one := range f.recovered {
		return one.out, err
	}
	return protocol.Recovered{State: domainrun.StateRunning, Calls: []protocol.CallDrift{}}, err
}

func (f *fake) RecoverAll(_ context.Context, r protocol.Recover, tell func(string, protocol.Recovered, error)) error {
	for _, one := range f.recovered {
		tell(one.runID, one.out, one.err)
	}
	return f.called("recover-all", r)
}

func (f *fake) RetryRun(_ context.Context, runID string, r starter.RunRetry) (starter.RunRetried, error) {
	return f.runRetried, f.called("retry-run", runID, r)
}

// agentRun is a run of a runtime that pulls, with what has happened to it, a second
// apart.
func agentRun(tb testing.TB, id string, events ...domainrun.Event) []domainrun.Run {
	tb.Helper()
	r, err := domainrun.New(domainrun.Create{
		ID: id, Tenant: "default", Title: "book a trip", Runtime: "assistant", RuntimeVersion: "v1", NowMs: start, TTLMs: 3_600_000,
		Limits: domainrun.Limits{MaxSteps: 50, MaxTokens: 10_000, MaxCostUSD: 1}, Labels: map[string]string{"team": "a"},
		Input: &domainrun.Input{InputID: "start", Content: json.RawMessage(`"book me a trip"`)},
	})
	if err != nil {
		tb.Fatal(err)
	}
	all := []domainrun.Run{r}
	for i, e := range events {
		e.AtMs = start + int64(i+1)*1000
		tr, err := domainrun.Apply(r, e)
		if err != nil {
			tb.Fatalf("event %d of %s: %v", i, id, err)
		}
		if !tr.Outcome.Changed && !tr.Kept {
			tb.Fatalf("event %d of %s changes nothing: %s", i, id, tr.Outcome.Reason)
		}
		r = tr.Run
		all = append(all, r)
	}
	return all
}

// describeRun is a run as the client gives it at the time now.
func describeRun(r domainrun.Run) starter.RunDescription {
	d := starter.RunDescription{WorkflowID: "default/run/" + r.ID, WorkflowRunID: "wf-1", Closed: r.State.Terminal(), NextStep: domainrun.NextStep(r)}
	d.Run, d.WaitsFor, d.ServerTimeMs = r, domainrun.WaitsFor(r), now.UnixMilli()
	d.Runtime = protocol.RuntimeBinding{Mode: protocol.ModePull, Name: "assistant"}
	if r.Runtime == "" {
		d.Runtime = protocol.RuntimeBinding{Mode: protocol.ModePlan}
	}
	return d
}

// runHistory gives a run as a watch tells it: one change for each version.
func runHistory(all []domainrun.Run) []starter.RunChange {
	var changes []starter.RunChange
	for _, r := range all {
		page := domainrun.Page{Mode: domain.ModeCaughtUp, Events: []domainrun.Entry{}, Outputs: r.Outputs, Run: r}
		if n := len(r.History); n > 0 && r.Version > 0 {
			page.Mode, page.Events = domain.ModeDelta, r.History[n-1:]
		}
		changes = append(changes, starter.RunChange{Page: page, Description: describeRun(r)})
	}
	return changes
}

func claimed(step int) domainrun.Event {
	return domainrun.Event{Type: domainrun.EventClaim, Holder: "host-1", Token: "t" + string(rune('0'+step))}
}

// committed is a commit of the checkpoint {"n": 1} and whatever else is answered.
func committed(step int, resp domainrun.StepResponse) domainrun.Event {
	e := domainrun.Event{Type: domainrun.EventCommit, Step: step, Token: "t" + string(rune('0'+step)), Response: &resp, By: "runtime"}
	e.Checkpoint = domainrun.Inline([]byte(`{"n": 1}`), "application/json")
	if len(resp.Final) > 0 {
		e.Final, resp.Final = domainrun.Inline(resp.Final, "application/json"), nil
	}
	e.Digest = domainrun.Digest(resp, e.Checkpoint, e.Final)
	return e
}

func callStarted(step int, id string) domainrun.Event {
	return domainrun.Event{Type: domainrun.EventCallStarted, Call: domainrun.Key{Step: step, ID: id}, Started: &domainrun.Started{TaskID: "call_" + id, Title: "the tool"}}
}

func callEnded(step int, id string, end domainrun.End) domainrun.Event {
	return domainrun.Event{Type: domainrun.EventCallEnded, Call: domainrun.Key{Step: step, ID: id}, End: &end}
}

// setupRuns adds runs in every situation.
func setupRuns(tb testing.TB, f *fake) {
	tb.Helper()
	f.runs, f.runChanges, f.answers = map[string]starter.RunDescription{}, map[string][]starter.RunChange{}, map[string]starter.RunAnswer{}
	put := func(id string, events ...domainrun.Event) domainrun.Run {
		all := agentRun(tb, id, events...)
		f.runChanges[id] = runHistory(all)
		r := all[len(all)-1]
		f.runs[id] = describeRun(r)
		return r
	}
	calls := domainrun.StepResponse{
		Output: json.RawMessage(`"let me see"`),
		ToolCalls: []domainrun.ToolCall{
			{ToolCallID: "t1", Tool: "resize"},
			{ToolCallID: "d 1", Tool: "deploy", Input: json.RawMessage(`{"to":"prod"}`)},
			{ToolCallID: "q", Tool: domainrun.ToolAsk, Input: json.RawMessage(`{"prompt":"which city?"}`)},
			{ToolCallID: "s", Tool: domainrun.ToolRun, Background: true},
			{ToolCallID: "u", Tool: "nothing"},
		},
		Usage: []domainrun.Usage{{Model: "m1", InputTokens: 100, OutputTokens: 7, CachedInputTokens: 50, CostUSD: 0.02}},
	}
	waiting := []domainrun.Event{
		claimed(1), committed(1, calls), callStarted(1, "t1"),
		{Type: domainrun.EventApprovalAsked, Call: domainrun.Key{Step: 1, ID: "d 1"}, Started: &domainrun.Started{Title: "deploy", UntilMs: start + 600_000}},
		{Type: domainrun.EventApprovalAsked, Call: domainrun.Key{Step: 1, ID: "q"}, Started: &domainrun.Started{Title: "which city?", UntilMs: start + 600_000}},
		{Type: domainrun.EventCallStarted, Call: domainrun.Key{Step: 1, ID: "s"}, Started: &domainrun.Started{SubRunID: "sub_1", Title: "assistant"}},
		callEnded(1, "u", domainrun.End{State: domainrun.CallFailed, Error: &domain.TaskError{Code: domainrun.CodeUnknownTool, Message: `no tool "nothing" is declared`}}),
	}
	put("due")
	put("held", claimed(1))
	put("waiting", waiting...)
	d := f.runs["waiting"]
	d.Delta = json.RawMessage(`{"part":"Ro"}`)
	d.LastRejected = &protocol.Rejected{AtMs: start + 50_000, Error: "input: must be JSON"}
	d.Asks = []protocol.Ask{
		{RunID: "waiting", ToolCallID: "d 1", AskedAtStep: 1, Tool: "deploy", Kind: protocol.AskApproval, Prompt: "deploy", Input: json.RawMessage(`{"to":"prod"}`), UntilMs: start + 600_000},
		{RunID: "waiting", ToolCallID: "q", AskedAtStep: 1, Tool: domainrun.ToolAsk, Kind: protocol.AskQuestion, Prompt: "which city?", UntilMs: start + 600_000},
		{RunID: "sub_1", ToolCallID: "ap", AskedAtStep: 1, Tool: domainrun.ToolApprove, Kind: protocol.AskApproval, Prompt: "spend?", Input: json.RawMessage(`{"prompt":"spend?","arguments":{"usd":5}}`)},
		{RunID: "sub_1", ToolCallID: "form", AskedAtStep: 1, Tool: domainrun.ToolAsk, Kind: protocol.AskQuestion, Prompt: "who?", Schema: json.RawMessage(`{"type":"object"}`)},
	}
	for _, c := range d.Run.Calls {
		if !c.State.Ended() {
			d.Calls = append(d.Calls, starter.CallDescription{
				ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Tool: c.Tool, Title: c.Title, Background: c.Background, State: c.State, TaskID: c.TaskID, SubRunID: c.SubRunID,
				Phase: c.Phase(), UntilMs: c.UntilMs,
			})
		}
	}
	t1 := &d.Calls[0]
	t1.Standing, t1.Stage, t1.Progress, t1.Attempt, t1.Stalled = "RUNNING", "image 5 of 10", 50, 2, true
	t1.Handle = &protocol.Handle{Executor: "exec", ID: "job-7", TaskQueue: "host-1"}
	t1.LastHeardAtMs, t1.NextProbeAtMs, t1.ExpiresAtMs, t1.WaitsFor = start+58_000, start+70_000, start+1_200_000, "the tool to end"
	sub := &d.Calls[len(d.Calls)-1]
	sub.Standing, sub.Stage, sub.WaitsFor, sub.Note = "WAITING_INPUT", "waits for a person", "a person: wakepoint.ask (form)", "the run cannot be read: no worker"
	f.runs["waiting"] = d
	one := domainrun.StepResponse{Output: json.RawMessage(`"one moment"`), ToolCalls: []domainrun.ToolCall{{ToolCallID: "t1", Tool: "resize"}}}
	put("finished", claimed(1), committed(1, one), callStarted(1, "t1"), callEnded(1, "t1", domainrun.End{State: domainrun.CallSucceeded, ResultRef: "blob:x", Bytes: 12}),
		claimed(2), committed(2, domainrun.StepResponse{Final: json.RawMessage(`{"booked":  true}`)}))
	f.answers["finished"] = starter.RunAnswer{RunID: "finished", Content: json.RawMessage(`{"booked":  true}`), Hash: "abc", Bytes: 17, ContentType: "application/json"}
	put("broken", claimed(1), domainrun.Event{Type: domainrun.EventCommit, Step: 1, Token: "t1", Digest: "x", Response: &domainrun.StepResponse{Error: &domain.TaskError{Code: "NO_KEY", Message: "the key is wrong"}}, By: "runtime"})
	f.changes["call_t1"] = history(tb, "call_t1", started, half, succeeded)
	f.runOutcome = domainrun.Outcome{Reason: domainrun.ReasonCommitted, Changed: true, State: domainrun.StateWaitingTool, Version: 3}
	f.request = domainrun.StepRequest{
		RunID: "held", Step: 1, Attempt: 1, StepToken: "t1", LeaseMs: 60_000, Cause: domainrun.CauseStart, Checkpoint: json.RawMessage(`{"b" :  1, "a": "<"}`),
		Results: []domainrun.Result{}, Inputs: []domainrun.Input{}, Pending: []domainrun.Pending{},
	}
}
