package temporaltools

import (
	"context"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// A Go function that our worker takes down with it in the middle is lost, not failed: the same key
// is submitted again, for the next attempt, when there is a worker again.
func TestTaskOfAFunctionWhoseWorkerStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	b := harness.NewBed(ctx, t, engine, `
tools:
  count:
    go: {function: count, heartbeat: 2s}
    poll: 100ms
    backoff: {initial: 100ms, max: 1s}
`, nil)
	calls := make(chan gofunc.Call, 8)
	release := make(chan struct{})
	b.Options.StopTimeout = time.Second
	b.Options.Functions = map[string]gofunc.Func{"count": func(ctx context.Context, c gofunc.Call) (any, error) {
		calls <- c
		c.Progress(30, "counting")
		select {
		case <-release:
			return map[string]int{"attempt": c.Attempt}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	b.StartWorker()
	b.Submit("count", "t")
	b.Until("t", "the function's own progress", func(d starter.Description) bool { return d.Task.Progress == 30 && d.Task.Stage == "counting" })
	first := receive(t, calls)
	b.StopWorker()
	b.StartWorker()
	second := receive(t, calls)
	if first.SubmissionKey != second.SubmissionKey || first.Attempt != 1 || second.Attempt != 2 || first.SubmissionKey != b.JobKey("t", 1) {
		t.Errorf("it was called with %+v, then with %+v", first, second)
	}
	close(release)
	d := b.UntilClosed("t")
	if d.Task.State != domain.StateSucceeded || d.Task.Attempts != 2 || len(calls) != 0 {
		t.Fatalf("the task is %s after %d attempts, %d more calls: %+v", d.Task.State, d.Task.Attempts, len(calls), d.Task.Error)
	}
	raw, err := b.Store.Get(ctx, d.Task.ResultRef, d.Task.ResultHash)
	if err != nil || string(raw) != `{"attempt":2}` {
		t.Errorf("its result is %s, %v", raw, err)
	}
}
