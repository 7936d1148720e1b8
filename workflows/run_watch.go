package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// openCalls lists the calls that have a task and no end, and the tasks that the run has
// lost patience with, whose late end is still news.
func (r *agentRun) openCalls() []protocol.OpenCall {
	var calls []protocol.OpenCall
	for _, c := range r.r.Calls {
		if c.State == run.CallOpen {
			calls = append(calls, openCall(c))
		}
	}
	for _, d := range r.r.Detached {
		if d.TaskID != "" || d.SubRunID != "" {
			calls = append(calls, protocol.OpenCall{Key: d.Key, Tool: d.Tool, State: run.CallOpen, TaskID: d.TaskID, SubRunID: d.SubRunID, WaiterID: d.WaiterID})
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
	r.watched, r.watchBegan = nil, r.nowMs()
	for _, c := range calls {
		r.watched = append(r.watched, c.Key)
	}
	if r.lookFirst {
		r.look(calls)
		return
	}
	req := protocol.WatchCallsRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Calls: calls, EveryMs: r.r.Policy.CheckEveryMs}
	r.begin(&r.watch, func(ctx workflow.Context) {
		var found protocol.CallsFound
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, watchCallsOptions()), protocol.ActivityWatchCalls, req).Get(ctx, &found)
		r.watchFrom = r.nowMs()
		if err != nil {
			if temporal.IsCanceledError(err) {
				// More is open now. That must not put the next look off.
				r.watchFrom = r.watchBegan
			}
			return
		}
		r.takeFound(found)
	})
}

// look asks once how all that is open stands: what ended while the run was closed could
// tell nobody, and must be taken before patience with it ends.
func (r *agentRun) look(calls []protocol.OpenCall) {
	req := protocol.WatchCallsRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Calls: calls, DryRun: true}
	r.begin(&r.watch, func(ctx workflow.Context) {
		var found protocol.CallsFound
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, inspectCallsOptions()), protocol.ActivityInspectCalls, req).Get(ctx, &found)
		r.lookFirst, r.watchFrom = false, r.nowMs()
		if err != nil {
			r.log.Warn("what is open could not be looked at", "error", err)
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
		detached := slices.ContainsFunc(r.r.Detached, func(d run.Detached) bool { return d.Key == f.Key })
		if !detached && (!ok || c.State.Ended()) {
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
