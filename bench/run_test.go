package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// parkedRuns is how many runs are parked at a time, unless WAKEPOINT_PARKED says
// otherwise.
const parkedRuns = 500

// BenchmarkParkedRuns parks runs in WAITING_TOOL, takes the worker away, sends all
// results, and brings a worker back. It reports what a parked run costs the worker that
// has it in its cache (worker-KiB/run) and the engine (engine-KiB/run), how many history
// events it has, and how long it takes until all have committed once more (wake-s, and
// woken/s).
func BenchmarkParkedRuns(b *testing.B) {
	n := parkedRuns
	if text := os.Getenv("WAKEPOINT_PARKED"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for i := range b.N {
		tenant := fmt.Sprintf("parked-%d-%d", b.N, i)
		yaml := "tools: {review: {executor: external, ttl: 1h}}\nruntimes: {agent: {activity: {taskQueue: agents-" + tenant + ", heartbeats: true}, lease: 10s, checkEvery: 1h}}\n"
		p := parking{b: b, n: n, in: harness.Install(b, engine, tenant, yaml, nil)}
		p.live()
	}
}

type parking struct {
	b  *testing.B
	n  int
	in *harness.Installation
}

func (p *parking) id(i int) string { return fmt.Sprintf("run-%d", i) }

// step asks once and ends with what came back.
func (p *parking) step(_ context.Context, req run.StepRequest) (run.StepResponse, error) {
	if req.Step == 1 {
		return run.StepResponse{Checkpoint: json.RawMessage(`{}`), ToolCalls: []run.ToolCall{{ToolCallID: "c", Tool: "review"}}}, nil
	}
	return run.StepResponse{Final: json.RawMessage(`1`)}, nil
}

func (p *parking) live() {
	b, in, ctx := p.b, p.in, p.b.Context()
	w := sdkworker.New(in.Temporal, "agents-"+in.Config.Tenant, sdkworker.Options{
		ActivityTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
	})
	agent.Register(w, p.step, agent.ActivityOptions{})
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	in.StartWorker()
	engineBefore, workerBefore := rss(b, engine.PID()), heap()
	p.each(func(i int) error {
		_, err := in.Client.StartRun(ctx, starter.RunStart{RunID: p.id(i), Runtime: "agent"})
		return err
	})
	events := atomic.Int64{}
	p.each(func(i int) error {
		if err := p.parked(ctx, p.id(i)); err != nil {
			return err
		}
		d, err := in.Temporal.DescribeWorkflow(ctx, protocol.RunWorkflowID(in.Config.Tenant, p.id(i)), "")
		if err == nil {
			events.Add(int64(d.HistoryLength))
		}
		return err
	})
	perRun := func(bytes int64) float64 { return float64(bytes) / 1024 / float64(p.n) }
	b.ReportMetric(perRun(heap()-workerBefore), "worker-KiB/run")
	b.ReportMetric(perRun(rss(b, engine.PID())-engineBefore), "engine-KiB/run")
	b.ReportMetric(float64(events.Load())/float64(p.n), "events/run")
	in.StopWorker()
	p.each(func(i int) error {
		cb := domain.Callback{CallbackID: "done", Event: domain.Event{Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h"}}
		return in.Temporal.SignalWorkflow(ctx, protocol.TaskWorkflowID(in.Config.Tenant, protocol.CallTaskID(p.id(i), 1, "c")), "", protocol.SignalCallback, cb)
	})
	begun := time.Now()
	in.StartWorker()
	p.each(func(i int) error {
		return in.Temporal.GetWorkflow(ctx, protocol.RunWorkflowID(in.Config.Tenant, p.id(i)), "").Get(ctx, nil)
	})
	took := time.Since(begun).Seconds()
	b.ReportMetric(took, "wake-s")
	b.ReportMetric(float64(p.n)/took, "woken/s")
}

func (p *parking) parked(ctx context.Context, id string) error {
	for ch, err := range p.in.Client.WatchRun(ctx, id, 0) {
		if err != nil {
			return err
		}
		if c, ok := ch.Description.Run.Find(run.Key{Step: 1, ID: "c"}); ok && c.State == run.CallOpen {
			return nil
		}
	}
	return fmt.Errorf("run %s has ended", id)
}

// each does something for all runs, a few at a time.
func (p *parking) each(f func(i int) error) {
	p.b.Helper()
	var next atomic.Int64
	var wait sync.WaitGroup
	for range inFlight {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < p.n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					p.b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if p.b.Failed() {
		p.b.FailNow()
	}
}

// heap is what is in use here, where the worker is.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// rss is the resident memory of a process, in bytes.
func rss(b *testing.B, pid int) int64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
