package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// startAtOnce is how many calls one activity begins: what it has begun when it is
// killed is found again by the ids, so this only bounds how long it takes.
const startAtOnce = 50

// maxUnmatched is how many ends are kept whose call is not known yet. A call whose end
// is dropped is found by the standing check.
const maxUnmatched = 100

// startCalls begins the work of calls. While the commit that asked for them is not
// durable it is done by a regular activity, which the server begins only when it is: a
// local one would have begun the work of a step that a crash takes back, and that may
// ask for something else when it is taken again.
func (r *agentRun) startCalls(keys []run.Key) {
	keys = keys[:min(len(keys), startAtOnce)]
	req := protocol.StartCallsRequest{
		Tenant: r.r.Tenant, RunID: r.r.ID, Runtime: r.in.Runtime.Name, Traceparent: r.r.Traceparent, Calls: make([]protocol.CallStart, 0, len(keys)),
	}
	if p := r.r.Parent; p != nil {
		req.Depth = p.Depth
	}
	for _, k := range keys {
		c, ok := r.find(k)
		if !ok {
			continue
		}
		req.Calls = append(req.Calls, protocol.CallStart{
			Key: k, Tool: c.Tool, Input: c.Input, TTLMs: c.TTLMs, IdempotencyKey: c.IdempotencyKey,
			Approved: c.Approval != nil, Needs: r.needs(c), Resolve: len(c.DependsOn) > 0,
		})
		r.must(run.Event{Type: run.EventNoted, Call: k, Reason: run.NotedStarting})
	}
	durable := r.durable()
	r.begin(&r.start, func(ctx workflow.Context) {
		var res protocol.StartCallsResult
		if err := r.soon(ctx, durable, protocol.ActivityStartCalls, req, &res, startCallsOptions(len(req.Calls))); err != nil {
			// Only a server that gives up its own activity leads here.
			r.log.Error("calls could not be started", "error", err)
			for _, c := range req.Calls {
				r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: callNotStarted(err)})
			}
			return
		}
		for _, c := range res.Calls {
			r.begun(c)
		}
		r.rematch()
	})
}

// soon runs an activity as a local one if nothing speaks against it, and as a regular
// one otherwise or if that does not work at once.
func (r *agentRun) soon(ctx workflow.Context, local bool, name string, arg, result any, opts workflow.ActivityOptions) error {
	if local {
		err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, localOptions()), name, arg).Get(ctx, result)
		if err == nil {
			return nil
		}
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), name, arg).Get(ctx, result)
}

// needs gives the results that the input of a call refers to.
func (r *agentRun) needs(c run.Call) []protocol.CallResult {
	refs, err := run.References(c.Input)
	if err != nil || len(refs) == 0 {
		return nil
	}
	var needs []protocol.CallResult
	for _, id := range c.DependsOn {
		if !slices.ContainsFunc(refs, func(ref run.Reference) bool { return ref.From == id }) {
			continue
		}
		if d, ok := r.find(run.Key{Step: c.Step, ID: id}); ok {
			needs = append(needs, protocol.CallResult{
				ID: id, TaskID: d.TaskID, SubRunID: d.SubRunID, State: d.State, Ref: d.ResultRef, Hash: d.ResultHash, ContentType: d.ContentType, Answer: d.Answer,
			})
		}
	}
	return needs
}

// begun takes in what became of the start of a call.
func (r *agentRun) begun(c protocol.CallBegun) {
	if len(c.Input) > 0 {
		r.must(run.Event{Type: run.EventNoted, Call: c.Key, Reason: run.NotedInput, Answer: c.Input})
	}
	switch {
	case c.End != nil && c.Started != nil:
		// The task had ended before: found by its id, or in the cache.
		r.must(run.Event{Type: run.EventCallStarted, Call: c.Key, Started: c.Started})
		r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: c.End})
	case c.End != nil:
		r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: c.End})
	case c.Asks:
		r.must(run.Event{Type: run.EventApprovalAsked, Call: c.Key, Started: c.Started})
	default:
		r.must(run.Event{Type: run.EventCallStarted, Call: c.Key, Started: c.Started})
		r.watchFrom = r.nowMs()
	}
}

func callNotStarted(err error) *run.End {
	return &run.End{State: run.CallFailed, Error: &domain.TaskError{Code: run.CodeNotStarted, Class: domain.ClassSystem, Message: shortened(why(err))}}
}

// taskFinished takes the end of a task as that of the calls that wait for it. One task
// may be that of several calls: they were answered from the cache, or had the same
// idempotency key.
func (r *agentRun) taskFinished(f protocol.TaskFinished) {
	if f.Kind != "" || !f.Task.State.Terminal() {
		// News of a late result: the call has its end already.
		return
	}
	if !r.match(f) && r.start.open && len(r.unmatched) < maxUnmatched {
		r.unmatched = append(r.unmatched, f)
	}
}

func (r *agentRun) match(f protocol.TaskFinished) bool {
	end := run.EndOfTask(f.Task)
	found := false
	for _, k := range r.waitingFor(f.Task.ID) {
		found = true
		r.must(run.Event{Type: run.EventCallEnded, Call: k, End: &end})
	}
	return found
}

// waitingFor lists the calls of a task. That of a call whose start is under way is
// known before it is said.
func (r *agentRun) waitingFor(taskID string) []run.Key {
	var keys []run.Key
	for _, c := range r.r.Calls {
		if c.TaskID == taskID && !c.State.Ended() || c.Starting && protocol.CallTaskID(r.r.ID, c.Step, c.ID) == taskID {
			keys = append(keys, c.Key)
		}
	}
	for _, d := range r.r.Detached {
		if d.TaskID == taskID {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// rematch looks again at ends whose call was not known.
func (r *agentRun) rematch() {
	for _, f := range r.unmatched {
		r.match(f)
	}
	r.unmatched = nil
}

// subRunEnded takes the end of a run as that of the call that it did the work of.
func (r *agentRun) subRunEnded(f protocol.RunFinished) {
	r.asks = slices.DeleteFunc(r.asks, func(a protocol.RunAsks) bool { return a.Key == f.Key })
	end := run.EndOfRun(f.State, f.Final, f.Error, f.Usage)
	r.must(run.Event{Type: run.EventCallEnded, Call: f.Key, End: &end})
}

// subRunAsks takes in what a run that does the work of a call asks people.
func (r *agentRun) subRunAsks(a protocol.RunAsks) {
	r.asks = slices.DeleteFunc(r.asks, func(x protocol.RunAsks) bool { return x.Key == a.Key })
	c, ok := r.find(a.Key)
	if !ok || c.State.Ended() {
		return
	}
	reason := run.NotedAnswered
	if len(a.Asks) > 0 {
		r.asks = append(r.asks, a)
		reason = run.NotedAsks
	}
	r.must(run.Event{Type: run.EventNoted, Call: a.Key, Reason: reason})
	r.show()
}

// openAsks lists what people are asked, here and below.
func (r *agentRun) openAsks() []protocol.Ask {
	var asks []protocol.Ask
	for _, c := range r.r.Calls {
		if c.State != run.CallApproval && c.State != run.CallAsking {
			continue
		}
		a := protocol.Ask{RunID: r.r.ID, ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Tool: c.Tool, Kind: protocol.AskApproval, Prompt: c.Title, UntilMs: c.UntilMs}
		var ask run.AskInput
		if err := json.Unmarshal(c.Input, &ask); err == nil && ask.Prompt != "" && (c.Tool == run.ToolAsk || c.Tool == run.ToolApprove) {
			a.Prompt, a.Schema = shortened(ask.Prompt), ask.Schema
		}
		if c.State == run.CallAsking {
			a.Kind = protocol.AskQuestion
		} else if len(c.Input) <= run.MaxAnswer {
			a.Input = c.Input
		}
		asks = append(asks, a)
	}
	for _, sub := range r.subAsksOpen() {
		asks = append(asks, sub.Asks...)
	}
	return asks
}

// subAsksOpen are the asks of runs whose call has not ended. One may end without a word
// of its run: it was given up, or found terminated.
func (r *agentRun) subAsksOpen() []protocol.RunAsks {
	var open []protocol.RunAsks
	for _, a := range r.asks {
		if c, ok := r.find(a.Key); ok && !c.State.Ended() {
			open = append(open, a)
		}
	}
	return open
}

// tellCalls tells tasks what the run wants of them: to stop, or only that it waits no
// longer.
func (r *agentRun) tellCalls(cancel, detach []run.Key) {
	req := protocol.CancelCallsRequest{Tenant: r.r.Tenant, RunID: r.r.ID}
	for _, k := range cancel {
		if c, ok := r.find(k); ok {
			req.Calls = append(req.Calls, protocol.CancelTask{OpenCall: openCall(c), Reason: c.Cancel.Reason, By: cancelledBy(c.Cancel.By)})
		}
	}
	for _, d := range r.r.Detached {
		if slices.Contains(detach, d.Key) {
			req.Calls = append(req.Calls, protocol.CancelTask{
				OpenCall: protocol.OpenCall{Key: d.Key, Tool: d.Tool, TaskID: d.TaskID, SubRunID: d.SubRunID, WaiterID: d.WaiterID},
				Detach:   true, Reason: domain.DetachWaitTimeout,
			})
		}
	}
	durable := r.durable()
	r.begin(&r.tell, func(ctx workflow.Context) {
		var told protocol.CallsTold
		if err := r.soon(ctx, durable, protocol.ActivityCancelCalls, req, &told, tellCallsOptions()); err != nil {
			// The tasks have deadlines of their own, and the grace bounds the waiting.
			r.log.Error("tasks could not be told", "error", err)
		}
		for _, c := range req.Calls {
			reason := run.NotedCancel
			if c.Detach {
				reason = run.NotedDetach
			}
			r.must(run.Event{Type: run.EventNoted, Call: c.Key, Reason: reason})
			if slices.Contains(told.Left, c.Key) {
				r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: &run.End{State: run.CallCancelled, Error: &domain.TaskError{
					Code: run.CodeCancelled, Message: "given up here; the task goes on for others who wait for it",
				}}})
			}
		}
	})
}

func cancelledBy(by string) string {
	if by == "" {
		return "run"
	}
	return by
}

func openCall(c run.Call) protocol.OpenCall {
	return protocol.OpenCall{Key: c.Key, Tool: c.Tool, State: c.State, TaskID: c.TaskID, SubRunID: c.SubRunID, WaiterID: c.WaiterID}
}

// openCalls lists the calls that have a task and no end.
func (r *agentRun) openCalls() []protocol.OpenCall {
	var calls []protocol.OpenCall
	for _, c := range r.r.Calls {
		if c.State == run.CallOpen {
			calls = append(calls, openCall(c))
		}
	}
	return calls
}

// watchAt is when the standing check begins, 0 for never: a run that wakes soon needs
// none, and one that waits long has it for what a task cannot tell that was terminated
// or reset in the Temporal UI.
func (r *agentRun) watchAt() int64 {
	if r.watch.open || r.r.State.Terminal() || len(r.openCalls()) == 0 {
		return 0
	}
	if r.watchFrom == 0 {
		return r.nowMs()
	}
	return r.watchFrom + r.r.Policy.CheckEveryMs
}

// keepWatch begins the standing check when its time has come, and ends one that does
// not look at all that is open.
func (r *agentRun) keepWatch() {
	calls := r.openCalls()
	if r.watch.open {
		unseen := slices.ContainsFunc(calls, func(c protocol.OpenCall) bool { return !slices.Contains(r.watched, c.Key) })
		if (unseen || len(calls) == 0) && !r.watch.told {
			r.watch.told = true
			r.watch.cancel()
		}
		return
	}
	if at := r.watchAt(); at == 0 || at > r.nowMs() {
		return
	}
	r.watched = nil
	for _, c := range calls {
		r.watched = append(r.watched, c.Key)
	}
	req := protocol.WatchCallsRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Calls: calls, EveryMs: r.r.Policy.CheckEveryMs}
	r.begin(&r.watch, func(ctx workflow.Context) {
		var found protocol.CallsFound
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, watchCallsOptions()), protocol.ActivityWatchCalls, req).Get(ctx, &found)
		r.watchFrom = r.nowMs()
		if err != nil {
			return
		}
		r.takeFound(found)
	})
}

// takeFound takes the ends that were found.
func (r *agentRun) takeFound(found protocol.CallsFound) int {
	learned := 0
	for _, f := range found.Ends {
		c, ok := r.find(f.Key)
		if !ok || c.State.Ended() {
			continue
		}
		end := f.End
		if f.Task != nil {
			end = run.EndOfTask(*f.Task)
		}
		if r.must(run.Event{Type: run.EventCallEnded, Call: f.Key, End: &end}).Outcome.Changed {
			learned++
		}
	}
	return learned
}
