package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Jobs of a tool with a limit on jobs at a time hold a slot of the tool's own task
// queue for as long as they run. One activity submits and watches, so that the slot
// is never free in between; its start comes by a signal.
//
// A job whose activity is gone, with its worker or at a continue-as-new, waits for a
// slot again behind everybody else. It is watched without one meanwhile: what it
// comes to must not wait for its turn.

// slot is what a task knows of the slot of its job.
type slot struct {
	// held says that the activity that started the job still watches it.
	held bool
	// givenUp is the attempt that waits for no slot any more.
	givenUp int
}

// run submits a job that holds a slot.
func (r *task) run(attempt int, req protocol.SubmitRequest) {
	r.slot.held = false
	r.inSlot(attempt, "run attempt "+itoa(attempt), req)
}

// hold waits for a slot for a job that is known already.
func (r *task) hold() {
	if r.submit.open || r.slot.givenUp == r.t.Attempts {
		return
	}
	r.inSlot(r.t.Attempts, "wait for a slot and hold it for the outside job", protocol.SubmitRequest{
		Job: r.job(r.t.Attempts), DeadlineAtMs: r.t.ExpiresAtMs, Effects: r.t.Policy.Effects,
	})
}

func (r *task) inSlot(attempt int, summary string, req protocol.SubmitRequest) {
	run := protocol.RunRequest{SubmitRequest: req, Progress: r.t.Progress, Stage: r.t.Stage, PollMs: r.in.Tool.PollMs}
	opts := slotOptions(r.submitQueue(), summary, r.untilDeadline())
	no := r.submit.no + 1
	r.begin(&r.submit, attempt, func(ctx workflow.Context) {
		var res protocol.ProbeResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityRun, run).Get(ctx, &res)
		// The signal of the start was sent before the activity ended.
		r.readStarted()
		if err != nil && r.submit.no != no {
			return // the next one has begun already
		}
		if err != nil {
			r.slotLost(ctx, attempt, run.Handle != nil, err)
			return
		}
		if ctx.Err() != nil || r.t.Attempts != attempt || r.t.State != domain.StateRunning {
			return
		}
		r.seen(res)
	})
}

// slotLost is what follows when the activity that held the slot is over and the job
// has no end.
func (r *task) slotLost(ctx workflow.Context, attempt int, waited bool, err error) {
	died, left := workerDied(err)
	if died && r.handle == nil {
		// It may have got further than its signal.
		r.takeOver(attempt, left)
	}
	switch {
	case r.handle == nil && died:
		// The next one looks for the job before it submits.
	case r.handle == nil:
		if !r.notSubmitted(attempt, err) {
			_ = workflow.Sleep(ctx, r.beforeAnother())
		}
	case r.t.Attempts == attempt:
		r.slot.held = false
		if waited || !died {
			r.slot.givenUp = attempt
		}
		r.log.Warn("the job holds no slot any more, it is watched without", "error", err)
	}
}

// takeOver takes from what the activity has left what its signal did not say.
func (r *task) takeOver(attempt int, left protocol.RunNote) {
	if r.begun != nil && r.begun.Attempt == attempt {
		begun := *r.begun
		begun.Host = left.Host
		r.begun = &begun
	}
	if left.Handle != nil {
		r.submitted(attempt, protocol.SubmitResult{Handle: *left.Handle})
	}
}

// workerDied says that an activity ended with its worker, and gives what it left.
func workerDied(err error) (bool, protocol.RunNote) {
	var n protocol.RunNote
	var late *temporal.TimeoutError
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &late) && late.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		if late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&n) != nil {
			n = protocol.RunNote{}
		}
		return true, n
	case errors.As(err, &app) && app.Type() == protocol.ErrTypeWorkerStops:
		return true, n
	}
	return false, n
}

// slotOptions are those of an activity that lasts as long as its job. The wait for a
// slot is bounded by the deadline only.
func slotOptions(queue, summary string, until time.Duration) workflow.ActivityOptions {
	o := submitOptions(queue, summary, until+slotSpare)
	o.StartToCloseTimeout = until + slotSpare
	// Repeated by the server it would wait for a slot with nobody watching its job.
	// The type is how the server names a heartbeat that did not come.
	o.RetryPolicy.NonRetryableErrorTypes = []string{"TemporalTimeout:" + enumspb.TIMEOUT_TYPE_HEARTBEAT.String()}
	return o
}
