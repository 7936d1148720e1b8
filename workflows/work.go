package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// CodeBadObservation is the code of a task whose executor reported an end that
// the rules reject, such as a success without a result.
const CodeBadObservation = "BAD_OBSERVATION"

// job is an activity that goes on for the task.
type job struct {
	open bool
	// no tells it from the jobs before it, which may be for the same attempt.
	no      int
	attempt int
	cancel  workflow.CancelFunc
	// told says that its cancellation was asked for.
	told bool
}

// begin opens a job and runs f, which waits for it, beside the loop.
func (r *task) begin(j *job, attempt int, f func(ctx workflow.Context)) {
	ctx, cancel := workflow.WithCancel(r.ctx)
	no := j.no + 1
	*j = job{open: true, no: no, attempt: attempt, cancel: cancel}
	workflow.Go(ctx, func(ctx workflow.Context) {
		f(ctx)
		// Only the job that is still the current one may be marked as over.
		if j.no == no {
			j.open = false
		}
		r.wake()
	})
}

// carryOut makes what is open agree with the plan.
func (r *task) carryOut(p domain.Plan) {
	r.arm(p.WakeAtMs, p.WakeFor)
	// What tells an earlier job of the same key to stop must not reach this one.
	if p.Submit && !r.submit.open && !r.stop.open {
		r.submitJob(r.t.Attempts + 1)
	}
	if p.Probe && r.handle == nil && !r.submit.open {
		// The work is known to run, and how to reach it is not: its answer was
		// lost, or a callback was faster. The same key gets the same job.
		r.submitJob(r.t.Attempts)
	}
	if p.Probe && r.handle != nil && !r.probe.open && r.t.SuspectedAtMs == 0 {
		r.watch()
	}
	if p.Compensate && !r.undo.open {
		r.compensate()
	}
	if !p.Compensate && r.undo.open && !r.undo.told {
		r.undo.told = true
		r.undo.cancel()
	}
	r.keepLease(p)
	if p.AskOutside && !r.ask.open {
		r.askOutside(askWithin, silenceCounts)
	}
	r.callOff()
	// Not while the job is being submitted: it could begin behind the back of a
	// stop that found nothing.
	tellStop := p.CancelOutside || r.stray && r.givenUp()
	if tellStop && !r.submitting() && r.cancelSent != max(r.t.Attempts, 1) && !r.stop.open {
		r.tellStop()
	}
	if !p.Probe && r.probe.open && !r.probe.told {
		r.probe.told = true
		r.probe.cancel()
	}
	if !p.Probe && r.holds() && r.submit.open && r.handle != nil && !r.submit.told {
		// The job's slot is free for another one.
		r.submit.told = true
		r.submit.cancel()
	}
}

// holds says that a job of the tool holds a slot for as long as it runs.
func (r *task) holds() bool { return r.in.Tool.HoldSlot }

// submitting says that a submission is under way and nobody knows its job yet.
func (r *task) submitting() bool { return r.submit.open && (!r.holds() || r.handle == nil) }

func (r *task) givenUp() bool { return domain.GivenUp(r.t) }

// callOff gives up a submission whose task has ended meanwhile.
func (r *task) callOff() {
	if r.submit.open && !r.submit.told && r.givenUp() {
		r.submit.told = true
		r.submit.cancel()
	}
}

func (r *task) hasExecutor() bool { return !r.t.Policy.External }

func (r *task) job(attempt int) protocol.Job {
	return protocol.Job{
		Tenant: r.t.Tenant, TaskID: r.t.ID, Tool: r.t.Tool, Attempt: attempt,
		SubmissionKey: r.t.Tenant + "/" + r.t.SubmissionKey(), Handle: r.handle,
	}
}

// queue is where the activities on the outside job run.
func (r *task) queue() string {
	if r.handle != nil && r.handle.TaskQueue != "" {
		return r.handle.TaskQueue
	}
	return r.in.Tool.TaskQueue
}

func (r *task) untilDeadline() time.Duration {
	return max(time.Duration(r.t.ExpiresAtMs-r.nowMs())*time.Millisecond, time.Second)
}

// submitQueue is where submissions are made.
func (r *task) submitQueue() string {
	if q := r.in.Tool.SubmitQueue; q != "" {
		return q
	}
	return r.in.Tool.TaskQueue
}

// submitRequest says what is to be submitted, and notes that it was begun.
func (r *task) submitRequest(attempt int) protocol.SubmitRequest {
	req := protocol.SubmitRequest{
		Job: r.job(attempt), Input: r.in.Input, DeadlineAtMs: r.t.ExpiresAtMs,
		Decided: r.t.DecidedFor == attempt, Effects: r.t.Policy.Effects,
	}
	req.Handle = nil
	if r.begun != nil && r.begun.SubmissionKey == req.SubmissionKey {
		req.RepeatOf, req.RepeatHost, req.RepeatHandle = r.begun.Attempt, r.begun.Host, r.begun.Handle
	}
	r.begun = &protocol.Begun{SubmissionKey: req.SubmissionKey, Attempt: attempt, Handle: req.RepeatHandle}
	return req
}

func (r *task) submitJob(attempt int) {
	req := r.submitRequest(attempt)
	if r.holds() {
		r.run(attempt, req)
		return
	}
	opts := submitOptions(r.submitQueue(), "submit attempt "+itoa(attempt), r.untilDeadline())
	r.begin(&r.submit, attempt, func(ctx workflow.Context) {
		var res protocol.SubmitResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivitySubmit, req).Get(ctx, &res)
		if err == nil {
			r.submitted(attempt, res)
			return
		}
		if r.notSubmitted(attempt, err) {
			return
		}
		// Whatever ended a submission for good without a definite answer is not
		// asked again at once, or it would be asked as fast as it answers.
		_ = workflow.Sleep(ctx, r.beforeAnother())
	})
}

// beforeAnother is the pause before another submission. It outlasts the deadline: one
// that began at that moment would only make the end uncertain.
func (r *task) beforeAnother() time.Duration { return min(submitPause, r.untilDeadline()+time.Second) }

func (r *task) submitted(attempt int, res protocol.SubmitResult) {
	// A queued task waits for its next attempt: the job of the one before is none of
	// its own any more.
	queued := r.t.State == domain.StateQueued
	current := attempt == r.t.Attempts && !queued || attempt == r.t.Attempts+1 && (queued || r.givenUp())
	if r.begun != nil && r.begun.Attempt == attempt {
		// Also of an attempt that is over: the next one under this key looks there.
		begun := *r.begun
		begun.Handle = &res.Handle
		r.begun = &begun
	}
	if !current {
		return
	}
	r.handle, r.stray = &res.Handle, r.t.State.Terminal()
	if r.t.State == domain.StateQueued {
		_, _ = r.apply(domain.Event{Type: domain.EventStart, AtMs: r.nowMs(), Attempt: attempt, Worker: res.Worker, Source: "executor"})
	}
}

// notSubmitted ends the attempt when it is sure that nothing was started, and
// says whether it is. Otherwise the deadline has come, the task has ended, or an
// executor gave an error that the server does not retry: the key stays.
func (r *task) notSubmitted(attempt int, err error) (definite bool) {
	if cause, ok := outcomeUnknown(err); ok {
		// Nobody can say whether the attempt began outside.
		r.endSubmission(domain.Event{Type: domain.EventRequeue, Attempt: attempt, Error: cause})
		return true
	}
	if refusedForNow(err) && !r.submit.told {
		// Surely nothing was started, so a later try is no repeat of this one.
		r.begun = nil
		return false
	}
	cause, retryAfterMs, definite := notStarted(err)
	if !definite {
		r.stray = true
		if r.submit.told {
			// Called off, which does not tell whether a worker was at it.
			return true
		}
		r.log.Warn("submission given up", "attempt", attempt, "error", err)
		return false
	}
	r.endSubmission(domain.Event{Type: domain.EventFail, Attempt: attempt, Error: cause, RetryAfterMs: retryAfterMs})
	return true
}

// endSubmission ends an attempt by what its submission came to. An attempt that the
// task has not heard of begins with that.
func (r *task) endSubmission(e domain.Event) {
	e.AtMs, e.Source = r.nowMs(), "executor"
	if r.t.State == domain.StateQueued && e.Attempt == r.t.Attempts+1 {
		if _, err := r.apply(domain.Event{Type: domain.EventStart, AtMs: e.AtMs, Attempt: e.Attempt, Source: e.Source}); err != nil {
			return
		}
	}
	if !r.t.State.Terminal() {
		r.applyOutside(e)
	}
}

func notStarted(err error) (cause *domain.TaskError, retryAfterMs int64, definite bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != protocol.ErrTypeNotStarted {
		return nil, 0, false
	}
	cause = &domain.TaskError{}
	// Histories of the first revision hold the cause alone.
	if app.Details(cause, &retryAfterMs) != nil && app.Details(cause) != nil {
		cause = &domain.TaskError{Code: domain.CodeSubmitFailed, Message: app.Message()}
	}
	return cause, max(retryAfterMs, 0), true
}

func outcomeUnknown(err error) (*domain.TaskError, bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != protocol.ErrTypeOutcomeUnknown {
		return nil, false
	}
	cause := &domain.TaskError{}
	if err := app.Details(cause); err != nil {
		cause = &domain.TaskError{Message: app.Message()}
	}
	return cause, true
}

// refusedForNow says that a submission ended because the other side refused it for
// longer than the server repeats it.
func refusedForNow(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == protocol.ErrTypeThrottled
}

// applyOutside applies what an executor says about a job. A definite end
// means that the handle is done with.
func (r *task) applyOutside(e domain.Event) domain.Transition {
	e.Jitter = domain.LotFor(r.t.ID, r.t.Attempts)
	if e.Type == domain.EventRequeue && r.in.Tool.Compensate != "" {
		e.Compensation = domain.CompensationID(r.t.ID, r.t.Attempts)
	}
	if now := r.nowMs(); e.AtMs <= 0 || e.AtMs > now {
		e.AtMs = now
	}
	// The attempt begins for the task when it hears of it; work that was over by
	// then has taken no time, not less than none.
	e.AtMs = max(e.AtMs, r.t.StartedAtMs)
	tr, err := r.apply(e)
	if err != nil {
		// What the rules reject now they reject at every look, and the job has
		// ended: without this the task would ask for its end until the deadline.
		tr, _ = r.apply(domain.Event{Type: domain.EventFail, AtMs: e.AtMs, Attempt: e.Attempt, Source: e.Source, Jitter: e.Jitter, Error: &domain.TaskError{
			Code: CodeBadObservation, Class: domain.ClassSystem, Message: "the executor reports an end that cannot be taken: " + err.Error(),
		}})
	}
	return tr
}

// newAttempt forgets what belonged to the attempt before.
func (r *task) newAttempt() {
	submitting := r.submitting()
	r.handle, r.stray, r.slot = nil, false, slot{}
	old := []*job{&r.probe, &r.lease, &r.ask, &r.undo}
	if r.holds() {
		old = append(old, &r.submit)
	}
	for _, j := range old {
		if j.open && !j.told {
			j.told = true
			j.cancel()
		}
		// A submission that may be at it right now is waited for.
		j.open = j.open && j == &r.submit && submitting
	}
}

func (r *task) probeRequest() protocol.ProbeRequest {
	return protocol.ProbeRequest{Job: r.job(r.t.Attempts), Progress: r.t.Progress, Stage: r.t.Stage, PollMs: r.in.Tool.PollMs}
}

// watch keeps one probe on the outside job. It fails retryably, with its next
// delay, until the job has ended: the server repeats it at no cost in history.
func (r *task) watch() {
	if r.holds() {
		if r.slot.held {
			return
		}
		r.hold()
	}
	attempt, req := r.t.Attempts, r.probeRequest()
	lost := time.Duration(r.in.Tool.HostLostMs) * time.Millisecond
	if lost <= 0 {
		lost = hostLost
	}
	opts := probeOptions(r.queue(), "watch the outside job", lost)
	r.begin(&r.probe, attempt, func(ctx workflow.Context) {
		var res protocol.ProbeResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityProbe, req).Get(ctx, &res)
		if ctx.Err() != nil || r.t.Attempts != attempt || r.t.State != domain.StateRunning {
			return
		}
		if err != nil {
			r.log.Warn("nobody could look at the outside job", "error", err)
			r.suspect(attempt, "probe")
			return
		}
		r.seen(res)
	})
}

// suspect says that nothing was heard of the outside.
func (r *task) suspect(attempt int, source string) {
	if e, ok := domain.Silence(r.t, attempt, source, r.nowMs()); ok {
		_, _ = r.apply(e)
	}
}

// seen applies what a probe or a direct question brought.
func (r *task) seen(res protocol.ProbeResult) domain.Transition {
	if res.Event != nil {
		return r.applyOutside(*res.Event)
	}
	if e, ok := domain.Asked(r.t, res.Known, res.Lost, r.nowMs()); ok {
		if e.Type == domain.EventRequeue {
			e.Reason, e.Stopped = res.Note, e.Stopped && !res.MayRun
		}
		return r.applyOutside(e)
	}
	return domain.Transition{}
}

// keepLease keeps an activity open that a worker outside completes by
// heartbeats alone; its time-out is the worker's silence.
func (r *task) keepLease(p domain.Plan) {
	if r.lease.open && !p.Lease && r.t.State.Terminal() {
		return
	}
	if p.Lease && !r.lease.open {
		r.openLease(time.Duration(p.LeaseMs) * time.Millisecond)
	}
	if r.lease.open && r.t.Cancel != nil && !r.lease.told {
		// The next heartbeat is answered with the request to cancel.
		r.lease.told = true
		r.lease.cancel()
	}
}

func (r *task) openLease(lease time.Duration) {
	attempt := r.t.Attempts
	opts := leaseOptions(attempt, lease, r.untilDeadline()+lease)
	req := protocol.LeaseRequest{Job: r.job(attempt)}
	r.begin(&r.lease, attempt, func(ctx workflow.Context) {
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityLease, req).Get(ctx, nil)
		if err == nil || r.t.Attempts != attempt || r.t.State != domain.StateRunning {
			return
		}
		if temporal.IsCanceledError(err) {
			r.applyOutside(domain.Event{Type: domain.EventCancelled, AtMs: r.nowMs(), Attempt: attempt, Source: "lease"})
			return
		}
		r.suspect(attempt, "lease")
	})
}

// What it means that the outside gives no answer.
const (
	// silenceCounts: it was asked because an answer is needed, and long enough.
	silenceCounts = true
	// silenceIsNothing: somebody wanted to know, and did not wait for long. Should the
	// job be suspected meanwhile, the outside is asked again for that.
	silenceIsNothing = false
)

// askOutside asks once, directly, how the job stands. Without an executor
// there is nobody to ask, and silence is the answer.
func (r *task) askOutside(within time.Duration, counts bool) {
	r.answer = protocol.Reconciled{Outside: protocol.OutsideNotAsked}
	if !r.hasExecutor() {
		r.seen(protocol.ProbeResult{})
		return
	}
	// An answer that comes long after the deadline would hold it up.
	within = min(within, r.untilDeadline()+askAtDeadline)
	attempt, req := r.t.Attempts, r.probeRequest()
	opts := askOptions(r.queue(), "ask the outside how it stands", within)
	r.begin(&r.ask, attempt, func(ctx workflow.Context) {
		var res protocol.ProbeResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityAsk, req).Get(ctx, &res)
		if r.t.Attempts != attempt || r.t.State != domain.StateRunning {
			return
		}
		r.answer = said(res, err)
		if err != nil {
			r.log.Warn("the outside gave no answer", "error", err)
			res = protocol.ProbeResult{}
			if !counts {
				return
			}
		}
		if tr := r.seen(res); tr.Changed {
			r.answer.Did = tr.Reason
		}
	})
}

// tellStop tells the outside job to stop; one time for each attempt.
func (r *task) tellStop() {
	r.cancelSent = max(r.t.Attempts, 1)
	if !r.hasExecutor() {
		return
	}
	req := protocol.CancelRequest{Job: r.job(max(r.t.Attempts, 1))}
	if r.t.Cancel != nil {
		req.Reason = r.t.Cancel.Reason
	}
	opts := cancelOptions(r.queue())
	r.begin(&r.stop, r.cancelSent, func(ctx workflow.Context) {
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityCancel, req).Get(ctx, nil); err != nil {
			r.log.Warn("the outside could not be told to stop", "error", err)
		}
	})
}
