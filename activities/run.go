package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const (
	// looksAgain is the pause after a look that failed, at first; it doubles up to
	// looksAgainAtMost.
	looksAgain       = 500 * time.Millisecond
	looksAgainAtMost = 10 * time.Second
	// tellWithin bounds one try to tell the task that its job was started.
	tellWithin = 10 * time.Second
)

// Run submits a job and watches it to its end in one activity, so that the job holds
// one of its task queue's slots for as long as it runs: that is how a limit on jobs
// at a time is kept without a queue of our own. The task is told of the start by a
// signal. Killed, it is not repeated by the server: the task reads the handle in its
// heartbeat details and has the job watched without a slot. Its errors are those of
// [Activities.Submit] and [Activities.Probe], and WorkerStops.
func (a *Activities) Run(ctx context.Context, req protocol.RunRequest) (protocol.ProbeResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	n, err := noteOf(ctx)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	if n.Handle == nil {
		n.Handle = req.Handle
	}
	if n.Handle == nil {
		h, after, err := a.submit(ctx, ex, req.SubmitRequest, n)
		if err != nil {
			return protocol.ProbeResult{}, err
		}
		started := handleTo(h)
		n = after
		n.Handle, n.seen = &started, seen{Progress: req.Progress, Stage: req.Stage}
		activity.RecordHeartbeat(ctx, n)
	}
	if req.Handle == nil && !n.Told {
		// Also by a try that found the job: the one before may have failed here.
		if err := a.tellStart(ctx, req, *n.Handle, workerOf(ctx, ex, handleOf(n.Handle))); err != nil {
			return protocol.ProbeResult{}, err
		}
		n.Told = true
		activity.RecordHeartbeat(ctx, n)
	}
	return a.watch(ctx, ex, req, n)
}

// tellStart tells the task of its job, also one that has given it up meanwhile and
// cancelled the activity: it has to stop the job.
func (a *Activities) tellStart(ctx context.Context, req protocol.RunRequest, h protocol.Handle, worker string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer stop()
	return a.o.Signals.SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", protocol.SignalSubmitted,
		protocol.JobStarted{Attempt: req.Attempt, Handle: h, Worker: worker})
}

// watch looks until the job has ended.
func (a *Activities) watch(ctx context.Context, ex tool.Executor, req protocol.RunRequest, n note) (protocol.ProbeResult, error) {
	probe := protocol.ProbeRequest{Job: req.Job, Progress: req.Progress, Stage: req.Stage, PollMs: req.PollMs}
	failing := looksAgain
	for {
		stop := beat(ctx, n)
		obs, err := ex.Observe(ctx, handleOf(n.Handle))
		if errors.Is(err, tool.ErrWrongHost) {
			// This slot is on a host where the job cannot be seen.
			stop()
			return protocol.ProbeResult{}, temporal.NewNonRetryableApplicationError(err.Error(), "WrongHost", err)
		}
		if err == nil && obs.State.Terminal() {
			var res protocol.ProbeResult
			if res, err = a.ended(ctx, probe, obs); err == nil {
				stop()
				return res, nil
			}
			// Another try of the activity would have to wait for a slot first.
		} else if err == nil {
			failing = looksAgain
			if n.seen, err = a.look(ctx, probe, obs, n.seen); isOver(err) {
				stop()
				return protocol.ProbeResult{}, err
			}
		}
		wait := pause(probe, obs)
		if err != nil {
			a.o.Logger.Warn("a look at a job failed", "tool", req.Tool, "task", req.TaskID, "error", err)
			wait, failing = max(failing, throttledFor(err)), min(failing*2, looksAgainAtMost)
		}
		stop()
		activity.RecordHeartbeat(ctx, n)
		stop = beat(ctx, n)
		err = rest(ctx, wait)
		stop()
		if err != nil {
			return protocol.ProbeResult{}, err
		}
	}
}

func isOver(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable()
}

func throttledFor(err error) time.Duration {
	var t *tool.ThrottledError
	if errors.As(err, &t) {
		return min(t.After, domain.MaxRetryAfterMs*time.Millisecond)
	}
	return 0
}

// rest waits, but not for a worker that stops: another one goes on then.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-activity.GetWorkerStopChannel(ctx):
		return temporal.NewApplicationErrorWithOptions("the worker stops, another goes on", protocol.ErrTypeWorkerStops,
			temporal.ApplicationErrorOptions{NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign})
	}
}
