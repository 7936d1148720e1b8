package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var engine *harness.Engine

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.bench"); f == nil || f.Value.String() == "" {
		// Nothing here is a test, so no engine is needed.
		os.Exit(m.Run())
	}
	os.Exit(harness.Main(m, &engine))
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

// instant is a system outside whose jobs are over when they are looked at.
type instant struct{}

func (instant) Submit(_ context.Context, req tool.Request) (tool.Handle, error) {
	return tool.Handle{Executor: "instant", ID: req.SubmissionKey}, nil
}

func (instant) Observe(context.Context, tool.Handle) (tool.Observation, error) {
	return harness.Stored("r", "h"), nil
}

func (instant) Cancel(context.Context, tool.Handle) error { return nil }

func (instant) Find(_ context.Context, key string) (tool.Handle, bool, error) {
	return tool.Handle{Executor: "instant", ID: key}, true, nil
}

// BenchmarkJob is a task with a job that is over at the first look, without a limit
// on jobs at a time and with one that is never reached: what holding a slot costs.
func BenchmarkJob(b *testing.B) {
	for name, limit := range map[string]string{"free": "", "slot": ", maxConcurrent: 1000"} {
		b.Run(name, func(b *testing.B) {
			yaml := "tools:\n  job: {executor: instant, ttl: 1h, poll: 100ms" + limit + "}\n"
			in := harness.Install(b, engine, fmt.Sprintf("job-%s-%d", name, b.N), yaml, map[string]tool.Executor{"instant": instant{}}).StartWorker()
			parallel(b, func(ctx context.Context, i int64) error {
				id := fmt.Sprintf("j-%d", i)
				if _, err := in.Client.Submit(ctx, starter.Submission{Tool: "job", TaskID: id}); err != nil {
					return err
				}
				return in.Temporal.GetWorkflow(ctx, protocol.TaskWorkflowID(in.Config.Tenant, id), "").Get(ctx, nil)
			})
		})
	}
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
