package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

var engine *harness.Engine

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wakepoint-bench-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if engine, err = harness.StartEngine(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer engine.Stop()
		return m.Run()
	}())
}

// inFlight is how many clients are at work at a time.
const inFlight = 50

// parallel runs f with inFlight callers and reports executions per second.
func parallel(b *testing.B, f func(ctx context.Context, i int64) error) {
	b.Helper()
	var n atomic.Int64
	b.SetParallelism(max(inFlight/runtime.GOMAXPROCS(0), 1))
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(ctx, n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkEmptyWorkflow is the floor: what the engine does without us.
func BenchmarkEmptyWorkflow(b *testing.B) {
	c, err := engine.Client("default")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w := sdkworker.New(c, "bench-empty", sdkworker.Options{
		WorkflowTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
	})
	w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "empty"})
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	parallel(b, func(ctx context.Context, i int64) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: fmt.Sprintf("empty-%d-%d", b.N, i), TaskQueue: "bench-empty"}, "empty")
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	})
}

// BenchmarkTask is a whole task: submission, three callbacks by the door that
// answers, the end, and one delivery.
func BenchmarkTask(b *testing.B) {
	in := harness.Install(b, engine, "bench", "tools:\n  review:\n    executor: external\n    ttl: 1h\n", nil).StartWorker()
	parallel(b, func(ctx context.Context, i int64) error {
		id := fmt.Sprintf("b-%d-%d", b.N, i)
		if _, err := in.Client.Submit(ctx, starter.Submission{Tool: "review", TaskID: id}); err != nil {
			return err
		}
		half := 50.0
		for n, e := range []domain.Event{
			{Type: domain.EventStart, Worker: "w"},
			{Type: domain.EventProgress, Progress: &half},
			{Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h"},
		} {
			if _, err := in.Client.Callback(ctx, id, domain.Callback{CallbackID: fmt.Sprint(n), Event: e}); err != nil {
				return err
			}
		}
		_, err := in.Client.Deliver(ctx, id, "key-"+id)
		return err
	})
}

// BenchmarkRefusedCallback is what a sender costs that repeats what is stale: an
// update that the validator refuses.
func BenchmarkRefusedCallback(b *testing.B) {
	in := harness.Install(b, engine, "refused", "tools:\n  review:\n    executor: external\n    ttl: 1h\n", nil).StartWorker()
	ctx := b.Context()
	id := fmt.Sprintf("r-%d", b.N)
	if _, err := in.Client.Submit(ctx, starter.Submission{Tool: "review", TaskID: id}); err != nil {
		b.Fatal(err)
	}
	half, less := 50.0, 10.0
	if _, err := in.Client.Callback(ctx, id, domain.Callback{CallbackID: "p", Event: domain.Event{Type: domain.EventProgress, Progress: &half}}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		v, err := in.Client.Callback(ctx, id, domain.Callback{CallbackID: fmt.Sprint(i), Event: domain.Event{Type: domain.EventProgress, Progress: &less}})
		if err != nil || v.Verdict != starter.VerdictStale {
			b.Fatal(v, err)
		}
	}
}

// BenchmarkApply is the domain alone.
func BenchmarkApply(b *testing.B) {
	t, err := domain.New(domain.Create{ID: "t", NowMs: 1, TTLMs: 1 << 40, MaxAttempts: 1})
	if err != nil {
		b.Fatal(err)
	}
	tr, err := domain.Apply(t, domain.Event{Type: domain.EventStart, AtMs: 2})
	if err != nil {
		b.Fatal(err)
	}
	p := 50.0
	e := domain.Event{Type: domain.EventProgress, AtMs: 3, Progress: &p}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := domain.Apply(tr.Task, e); err != nil {
			b.Fatal(err)
		}
	}
}
