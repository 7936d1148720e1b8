package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Jobs of a tool with a limit on jobs at a time hold a slot of the tool's own task
// queue for as long as they run. One activity submits and watches, so that the slot
// is never free in between; its start comes by a signal.

// run submits a job that holds a slot.
func (r *task) run(attempt int, req protocol.SubmitRequest) {
	r.inSlot(attempt, "run attempt "+itoa(attempt), protocol.RunRequest{
		SubmitRequest: req, Progress: r.t.Progress, Stage: r.t.Stage, PollMs: r.in.Tool.PollMs,
	})
}

// hold watches a job that holds a slot and is known already, as after a
// continue-as-new. The activity that began it may still be the one that watches.
func (r *task) hold() {
	if r.submit.open {
		return
	}
	req := protocol.SubmitRequest{Job: r.job(r.t.Attempts), DeadlineAtMs: r.t.ExpiresAtMs, Effects: r.t.Policy.Effects}
	r.inSlot(r.t.Attempts, "hold a slot and watch the outside job", protocol.RunRequest{
		SubmitRequest: req, Progress: r.t.Progress, Stage: r.t.Stage, PollMs: r.in.Tool.PollMs,
	})
}

func (r *task) inSlot(attempt int, summary string, req protocol.RunRequest) {
	opts := slotOptions(r.submitQueue(), summary, r.untilDeadline())
	r.begin(&r.submit, attempt, func(ctx workflow.Context) {
		var res protocol.ProbeResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityRun, req).Get(ctx, &res)
		// The signal of the start was sent before the activity ended.
		r.readStarted()
		if err != nil {
			r.slotLost(ctx, attempt, err)
			return
		}
		if ctx.Err() != nil || r.t.Attempts != attempt || r.t.State != domain.StateRunning {
			return
		}
		r.seen(res)
	})
}

// slotLost is what follows when the activity that held the slot is over and the job
// has no end: without a job it is a submission that failed, with one nobody watches.
func (r *task) slotLost(ctx workflow.Context, attempt int, err error) {
	if r.handle == nil {
		if !r.notSubmitted(attempt, err) {
			_ = workflow.Sleep(ctx, min(submitPause, r.untilDeadline()))
		}
		return
	}
	if ctx.Err() != nil || r.t.Attempts != attempt || r.t.State != domain.StateRunning {
		return
	}
	r.log.Warn("nobody watches the outside job any more", "error", err)
	r.suspect(attempt, "probe")
}

// slotOptions are those of an activity that lasts as long as its job. The wait for a
// slot is bounded by the deadline only.
func slotOptions(queue, summary string, until time.Duration) workflow.ActivityOptions {
	o := submitOptions(queue, summary, until+slotSpare)
	o.StartToCloseTimeout = until + slotSpare
	return o
}
