package workflows

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// startAtOnce is how many calls one activity begins: what it has begun when it is
// killed is found again by the ids, so this only bounds how long it takes.
const startAtOnce = 50

// startBytes bounds what one activity is told, of inputs and of the results that they
// refer to. The engine refuses a message of 2 MiB, and ends the workflow with it.
const startBytes = 512 << 10

// maxUnmatched is how many ends are kept whose call is not known yet. A call whose end
// is dropped is found by the standing check.
const maxUnmatched = 100

// startCalls begins the work of calls. While the commit that asked for them is not
// durable it is done by a regular activity, which the server begins only when it is: a
// local one would have begun the work of a step that a crash takes back, and that may
// ask for something else when it is taken again.
func (r *agentRun) startCalls(keys []run.Key) {
	req := protocol.StartCallsRequest{
		Tenant: r.r.Tenant, RunID: r.r.ID, Runtime: r.in.Runtime.Name, Traceparent: r.r.Traceparent, Calls: make([]protocol.CallStart, 0, len(keys)),
	}
	if p := r.r.Parent; p != nil {
		req.Depth = p.Depth
	}
	req.Budget = run.Budget(r.r)
	bytes := 0
	for _, k := range keys {
		c, ok := r.find(k)
		if !ok {
			continue
		}
		start := protocol.CallStart{
			Key: k, Tool: c.Tool, Input: c.Input, TTLMs: c.TTLMs, IdempotencyKey: c.IdempotencyKey,
			Approved: c.Approval != nil, Resolve: len(c.DependsOn) > 0 && !c.Resolved,
		}
		if start.Resolve {
			start.Needs = r.needs(c)
		}
		bytes += len(start.Input)
		for _, n := range start.Needs {
			bytes += len(n.Answer) * 4 / 3 // in base64
		}
		if n := len(req.Calls); n == startAtOnce || n > 0 && bytes > startBytes {
			break
		}
		req.Calls = append(req.Calls, start)
		r.must(run.Event{Type: run.EventNoted, Call: k, Reason: run.NotedStarting})
	}
	durable := r.durable()
	r.begin(&r.start, func(ctx workflow.Context) {
		var res protocol.StartCallsResult
		err := r.soon(ctx, durable, protocol.ActivityStartCalls, req, &res, startCallsOptions(len(req.Calls)))
		if temporal.IsCanceledError(err) {
			r.abandonStarts(req.Calls)
			return
		}
		if err != nil {
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
	first := len(r.openCalls()) == 0
	switch {
	case c.Again:
		r.putOff(c)
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
		if first {
			// With others open already the check goes on as it is: a call that begins must
			// not put it off.
			r.watchFrom = r.nowMs()
		}
	}
}

// pauseOf is how long a call waits whose start did not work.
type pauseOf struct {
	key     run.Key
	untilMs int64
	ms      int64
}

// The pauses before a start is tried again that did not work for one call alone.
const (
	firstStartPause = time.Second
	mostStartPause  = time.Minute
)

// putOff lets a call be started again later. The others go on.
func (r *agentRun) putOff(c protocol.CallBegun) {
	r.log.Warn("a call could not be started; it is tried again", "call", c.ID, "step", c.Step, "why", c.Note)
	call, ok := r.find(c.Key)
	if !ok || call.State != run.CallReady || call.Cancel != nil || r.r.Ending != nil || r.r.State.Terminal() {
		// Nobody wants it any more, and it has no task.
		r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: &run.End{State: run.CallCancelled, Error: &domain.TaskError{
			Code: run.CodeCancelled, Message: "given up before it could be started",
		}}})
		return
	}
	r.must(run.Event{Type: run.EventNoted, Call: c.Key, Reason: run.NotedNotStarted})
	i := slices.IndexFunc(r.pauses, func(p pauseOf) bool { return p.key == c.Key })
	if i < 0 {
		i = len(r.pauses)
		r.pauses = append(r.pauses, pauseOf{key: c.Key})
	}
	p := &r.pauses[i]
	p.ms = min(max(2*p.ms, firstStartPause.Milliseconds()), mostStartPause.Milliseconds())
	p.untilMs = r.nowMs() + p.ms
}

// startable leaves out the calls whose pause is not over, and says when the first of
// them is.
func (r *agentRun) startable(keys []run.Key) (now []run.Key, nextMs int64) {
	for _, k := range keys {
		i := slices.IndexFunc(r.pauses, func(p pauseOf) bool { return p.key == k })
		if i < 0 || r.pauses[i].untilMs <= r.nowMs() {
			now = append(now, k)
			continue
		}
		if nextMs == 0 || r.pauses[i].untilMs < nextMs {
			nextMs = r.pauses[i].untilMs
		}
	}
	return now, nextMs
}

// abandonStarts gives up a start that was still being tried when the run had ended. What
// it may have begun is told to stop: its ids are known.
func (r *agentRun) abandonStarts(calls []protocol.CallStart) {
	for _, c := range calls {
		switch c.Tool {
		case run.ToolAsk, run.ToolApprove:
			r.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: &run.End{State: run.CallCancelled, Error: &domain.TaskError{Code: run.CodeCancelled, Message: "nobody was asked"}}})
		case run.ToolRun:
			r.must(run.Event{Type: run.EventCallStarted, Call: c.Key, Started: &run.Started{SubRunID: protocol.SubRunID(r.r.ID, c.Step, c.ID)}})
		default:
			r.must(run.Event{Type: run.EventCallStarted, Call: c.Key, Started: &run.Started{TaskID: protocol.CallTaskID(r.r.ID, c.Step, c.ID)}})
		}
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
	end.SubRunID = protocol.SubRunID(r.r.ID, f.Step, f.ID)
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
		a.Asks = lighter(a.Asks, asksRoom-size(r.asks))
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
	return lighter(asks, asksRoom)
}

// asksRoom bounds what is carried, told upwards and shown of what people are asked, in
// bytes of JSON.
const asksRoom = 256 << 10

// lighter keeps of the asks for which there is no room only what names them: the run that
// asks has the rest.
func lighter(asks []protocol.Ask, room int) []protocol.Ask {
	out := make([]protocol.Ask, len(asks))
	for i, a := range asks {
		if n := size(a); n <= room {
			room -= n
		} else {
			a.Input, a.Schema = nil, nil
			room -= size(a)
		}
		out[i] = a
	}
	return out
}

// size is how many bytes of JSON a value has.
func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(b)
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
