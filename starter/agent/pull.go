package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
)

// Steps is where steps come from; a [starter.Client] is one.
type Steps interface {
	Next(ctx context.Context, runID string, o starter.NextOptions) (run.StepRequest, error)
	Commit(ctx context.Context, runID string, step int, token string, resp run.StepResponse) (run.Outcome, error)
	StepHeartbeat(ctx context.Context, runID, token string, delta json.RawMessage) (run.Outcome, error)
}

// PullOptions is how a runtime pulls.
type PullOptions struct {
	// Holder names this process; one that was restarted under the same name takes its
	// own step back at once, without waiting for the lease.
	// Default: the host's name and the process id.
	Holder string
	// Lease is how long the process may be silent before the step is given to somebody
	// else. Default: the runtime's.
	Lease time.Duration
	// RuntimeVersion, if given, takes steps of runs of that version only.
	RuntimeVersion string
	// Logger takes what goes wrong and is tried again. Default: slog.Default.
	Logger *slog.Logger
}

func (o PullOptions) withDefaults() PullOptions {
	if o.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "runtime"
		}
		o.Holder = host + "-" + strconv.Itoa(os.Getpid())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// The pauses between two tries of what went wrong.
const (
	pauseFirst = 200 * time.Millisecond
	pauseMost  = 10 * time.Second
	// nextWait is how long one question for the next step waits.
	nextWait = time.Minute
)

// Pull takes the steps of a run until the run has ended, which is no error, or ctx ends.
// While neither engine nor worker answers it goes on trying. Errors: those of
// [starter.Client.Next] for which no repeat helps, and the context's.
func Pull(ctx context.Context, c Steps, runID string, f Func, o PullOptions) error {
	o = o.withDefaults()
	pause := pauseFirst
	for {
		req, err := c.Next(ctx, runID, starter.NextOptions{Holder: o.Holder, Lease: o.Lease, RuntimeVersion: o.RuntimeVersion, Wait: nextWait})
		if err == nil {
			pause = pauseFirst
			err = takeStep(ctx, c, runID, f, o, req)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			continue
		case errors.Is(err, starter.ErrEnded):
			return nil
		case !passing(err):
			return err
		}
		o.Logger.Warn("the next step could not be had; trying again", "run", runID, "error", err)
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, pauseMost)
	}
}

// passing tells whether an error may pass by itself.
func passing(err error) bool {
	var e *starter.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case starter.CodeUnavailable, starter.CodeNoWorker, starter.CodeNoStep, starter.CodeStepHeld, starter.CodeWaitTimeout, starter.CodeWrongRuntime:
		return true
	default:
		return false
	}
}

// takeStep works on one step and commits it, for as long as it takes until somebody has
// said what became of the commit.
func takeStep(ctx context.Context, c Steps, runID string, f Func, o PullOptions, req run.StepRequest) error {
	h := &hints{}
	lease := time.Duration(req.LeaseMs) * time.Millisecond
	// A step that is under way goes on also when the process is told to stop: its work
	// would be lost, and it is soon over.
	work, stop := beating(context.WithValue(context.WithoutCancel(ctx), hintsKey{}, h), pulse(lease), func(ctx context.Context) bool {
		_, err := c.StepHeartbeat(ctx, runID, req.StepToken, h.take())
		return err != nil && !passing(err)
	})
	defer stop()
	return commit(ctx, c, runID, req, answer(work, f, req), o)
}

func commit(ctx context.Context, c Steps, runID string, req run.StepRequest, resp run.StepResponse, o PullOptions) error {
	pause := pauseFirst
	for refusals := 0; ; {
		_, err := c.Commit(context.WithoutCancel(ctx), runID, req.Step, req.StepToken, resp)
		var e *starter.Error
		switch {
		case err == nil:
			return nil
		case errors.Is(err, starter.ErrEnded):
			return err
		case errors.As(err, &e) && (e.Code == starter.CodeInvalid || e.Code == starter.CodeNothingToWait) && refusals < 2:
			// The answer breaks a rule: that is a failure of the step, and its reason. If
			// that is refused too, then what was used is what breaks it.
			o.Logger.Error("the answer of a step was refused", "run", runID, "step", req.Step, "error", err)
			usage := resp.Usage
			if refusals++; refusals == 2 {
				usage = nil
			}
			resp = run.StepResponse{Usage: usage, Error: &domain.TaskError{
				Code: run.CodeInvalidResponse, Class: domain.ClassUser, Message: e.Message, Retryable: true,
			}}
			continue
		case !passing(err):
			// Somebody else has the step, or has committed it.
			o.Logger.Warn("a step was not committed", "run", runID, "step", req.Step, "attempt", req.Attempt, "error", err)
			return nil
		}
		o.Logger.Warn("a step could not be committed; trying again", "run", runID, "step", req.Step, "error", err)
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, pauseMost)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
