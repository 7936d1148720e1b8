package gofunc

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

const (
	// beatEvery is how often a job's heartbeat is sent at most. A cancel comes with the answer, so
	// it is also how long a cancel takes to be seen.
	beatEvery = 2 * time.Second
	// beatsPerTimeout is how many heartbeats there are in a heartbeat time-out, so that one that
	// gets lost is no loss.
	beatsPerTimeout = 4
)

// Activity makes the activity of a function and the type that it is registered under:
//
//	typ, run := gofunc.Activity("resize", resize)
//	w.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: typ})
func Activity(name string, fn Func) (activityType string, run func(ctx context.Context, call Call) (any, error)) {
	return Type(name), func(ctx context.Context, call Call) (any, error) { return serve(ctx, fn, call) }
}

func serve(ctx context.Context, fn Func, call Call) (any, error) {
	call.said = &said{}
	stop := beat(ctx, call.said)
	defer stop() // a panic is the SDK's to report
	result, err := fn(ctx, call)
	stop()
	if err != nil {
		return nil, failed(ctx, err)
	}
	return result, nil
}

// beat heartbeats until it is stopped. The SDK's own heartbeats would come at 80 % of the time-out
// only, too late for whoever watches; but it is the SDK that has to end ctx, so when the server
// does not want the job any more the SDK is made to ask as well.
func beat(ctx context.Context, s *said) (stop func()) {
	info := sdkactivity.GetInfo(ctx)
	client := sdkactivity.GetClient(ctx)
	every := beatEvery
	if info.HeartbeatTimeout > 0 {
		every = min(every, info.HeartbeatTimeout/beatsPerTimeout)
	}
	sending, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-sending.Done():
				return
			case <-tick.C:
			}
			err := client.RecordActivityHeartbeat(sending, info.TaskToken, s.get())
			var gone *serviceerror.NotFound
			if temporal.IsCanceledError(err) && sending.Err() == nil || errors.As(err, &gone) {
				sdkactivity.RecordHeartbeat(ctx, s.get())
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

// failed says how a function ended that returned an error. One that returns because its context
// has ended was cancelled or interrupted, whichever it was; its own error is only words.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		switch {
		case temporal.IsCanceledError(context.Cause(ctx)):
			return temporal.NewCanceledError(err.Error())
		case stopping(ctx):
			return temporal.NewApplicationErrorWithOptions("its worker stopped: "+err.Error(), outside.TypeWorkerStopped, temporal.ApplicationErrorOptions{Cause: err})
		}
	}
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(f.Message, outside.TypeFailure, temporal.ApplicationErrorOptions{
		NonRetryable: !f.Retryable, Cause: err, Details: []any{tool.Failure(*f)},
	})
}

func stopping(ctx context.Context) bool {
	select {
	case <-sdkactivity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}
