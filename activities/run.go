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
		err = a.o.Signals.SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", protocol.SignalSubmitted,
			protocol.JobStarted{Attempt: req.Attempt, Handle: started, Worker: workerOf(ctx, ex, h)})
		if err != nil {
			return protocol.ProbeResult{}, err
		}
	}
	return a.watch(ctx, ex, req, n)
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
			defer stop()
			return a.ended(ctx, probe, obs)
		}
		if err == nil {
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
