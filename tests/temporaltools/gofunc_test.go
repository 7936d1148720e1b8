package temporaltools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	sdkactivity "go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
)

func function(name string, fn gofunc.Func) func(sdkworker.Worker) {
	return func(w sdkworker.Worker) {
		typ, run := gofunc.Activity(name, fn)
		w.RegisterActivityWithOptions(run, sdkactivity.RegisterOptions{Name: typ})
	}
}

func TestFunctionsSeeTheirCall(t *testing.T) {
	r := newRig(t)
	calls := make(chan gofunc.Call, 1)
	next := make(chan struct{})
	r.serve(function("f", func(ctx context.Context, c gofunc.Call) (any, error) {
		c.Progress(-5, "counting")
		c.Progress(140, "")
		calls <- c
		select {
		case <-next:
			return map[string]string{"for": c.TaskID}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	ex := r.function("f")
	req := r.request("t", `{"n":1}`)
	req.Attempt = 3
	h := r.submit(ex, req)
	if h.Executor != gofunc.Kind {
		t.Errorf("the handle is of %q", h.Executor)
	}
	c := receive(t, calls)
	if c.Tenant != req.Tenant || c.TaskID != "t" || c.Attempt != 3 || c.SubmissionKey != req.SubmissionKey || c.Tool != "tool" || string(c.Input) != `{"n":1}` {
		t.Errorf("it was called with %+v", c)
	}
	obs := r.until(ex, h, "its word is seen", func(o tool.Observation) bool { return o.Progress != nil })
	if *obs.Progress != 100 || obs.Stage != "counting" {
		t.Errorf("it says %d, %q", *obs.Progress, obs.Stage)
	}
	close(next)
	if obs := r.end(ex, h); obs.State != tool.StateSucceeded || r.read(obs.Result) != `{"for":"t"}` {
		t.Errorf("it ended as %+v", obs)
	}
}

func TestFunctionsFail(t *testing.T) {
	r := newRig(t)
	r.serve(function("f", func(_ context.Context, c gofunc.Call) (any, error) {
		switch c.TaskID {
		case "for-good":
			return nil, fmt.Errorf("charge: %w", &gofunc.Failure{Code: "CARD_EXPIRED", Message: "it has", Class: tool.ClassUser, Details: json.RawMessage(`{"y":1999}`)})
		case "for-now":
			return nil, &gofunc.Failure{Code: "BUSY", Message: "not now", Retryable: true, RetryAfterMs: 70}
		case "panic":
			panic("nil map")
		}
		return nil, errors.New("disk full")
	}))
	ex := r.function("f")
	for task, want := range map[string]tool.Failure{
		"for-good": {Code: "CARD_EXPIRED", Message: "it has", Class: tool.ClassUser},
		"for-now":  {Code: "BUSY", Message: "not now", Class: tool.ClassThirdParty, Retryable: true, RetryAfterMs: 70},
		"panic":    {Code: "PANIC", Message: "nil map", Class: tool.ClassThirdParty, Retryable: true},
		"plain":    {Code: "ACTIVITY_FAILED", Message: "disk full", Class: tool.ClassThirdParty, Retryable: true},
	} {
		obs := r.end(ex, r.submit(ex, r.request(task, `{}`)))
		r.ended(obs, tool.StateFailed, true, want.Code, want.Message)
		if e := obs.Error; e != nil && (e.Class != want.Class || e.Retryable != want.Retryable || e.RetryAfterMs != want.RetryAfterMs) {
			t.Errorf("%s: %+v", task, e)
		}
	}
}

// A function that is cut short because its worker stops has not failed: nobody knows how far it
// came. The same function that is cancelled has been cancelled.
func TestFunctionsWhoseWorkerStops(t *testing.T) {
	r := newRig(t)
	started := make(chan struct{}, 2)
	w := sdkworker.New(r.client, r.queue, sdkworker.Options{WorkerStopTimeout: time.Second})
	function("f", func(ctx context.Context, _ gofunc.Call) (any, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, fmt.Errorf("gave up: %w", ctx.Err())
	})(w)
	must(t, w.Start())
	ex := r.function("f")
	cancelled, stopped := r.submit(ex, r.request("cancelled", `{}`)), r.submit(ex, r.request("stopped", `{}`))
	receive(t, started)
	receive(t, started)
	must(t, ex.Cancel(t.Context(), cancelled))
	must(t, ex.Cancel(t.Context(), cancelled))
	if obs := r.end(ex, cancelled); obs.State != tool.StateCancelled || !obs.Definite {
		t.Errorf("the cancelled one ended as %+v", obs)
	}
	w.Stop()
	obs := r.end(ex, stopped)
	if obs.State != tool.StateLost || obs.Definite || obs.Error.Code != "WORKER_LOST" {
		t.Errorf("the stopped one ended as %+v, %+v", obs, obs.Error)
	}
}
