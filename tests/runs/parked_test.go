package runs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// asker asks for one review and ends with it. It counts what it commits, by run.
type asker struct {
	mu    sync.Mutex
	steps map[string]int
}

func (a *asker) step(_ context.Context, req run.StepRequest) (run.StepResponse, error) {
	a.mu.Lock()
	a.steps[req.RunID]++
	a.mu.Unlock()
	if req.Step == 1 {
		return run.StepResponse{Checkpoint: raw(`{"asked": true}`), ToolCalls: []run.ToolCall{{ToolCallID: "call_1", Tool: "review"}}}, nil
	}
	if len(req.Results) != 1 || string(req.Results[0].Result) != `{"of":"`+req.RunID+`"}` {
		return run.StepResponse{}, agent.Final(fmt.Errorf("results: %+v", req.Results))
	}
	return run.StepResponse{Final: req.Results[0].Result}, nil
}

// Many runs are parked while no worker is there, all results come meanwhile, and when a
// worker comes each run commits exactly once more.
func TestManyAreParked(t *testing.T) {
	ctx := within(t, parkedWithin)
	tenant := tenantOf(t)
	in := harness.Install(t, shared, tenant, twoTools+"runtimes: {assistant: {activity: {taskQueue: agents-"+tenant+", heartbeats: true}, lease: 10s, checkEvery: 1h}}\n", nil).StartWorker()
	a := &asker{steps: map[string]int{}}
	w := sdkworker.New(in.Temporal, "agents-"+tenant, sdkworker.Options{
		ActivityTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
	})
	agent.Register(w, a.step, agent.ActivityOptions{})
	require.NoError(t, w.Start())
	defer w.Stop()

	begun := time.Now()
	id := func(i int) string { return fmt.Sprintf("parked-%d", i) }
	each(t, parkedRuns, func(i int) error {
		_, err := in.Client.StartRun(ctx, starter.RunStart{RunID: id(i), Runtime: "assistant"})
		return err
	})
	each(t, parkedRuns, func(i int) error {
		// The task is there when its run is parked.
		return parked(ctx, in, id(i))
	})
	t.Logf("%d runs parked after %s", parkedRuns, time.Since(begun).Round(time.Second))
	in.StopWorker()

	each(t, parkedRuns, func(i int) error {
		cb := domain.Callback{CallbackID: "done", Event: domain.Event{Type: domain.EventSucceed, Result: raw(`{"of":"` + id(i) + `"}`)}}
		return in.Temporal.SignalWorkflow(ctx, protocol.TaskWorkflowID(tenant, protocol.CallTaskID(id(i), 1, "call_1")), "", protocol.SignalCallback, cb)
	})
	woken := time.Now()
	in.StartWorker()
	each(t, parkedRuns, func(i int) error {
		var rec protocol.RunRecord
		if err := in.Temporal.GetWorkflow(ctx, protocol.RunWorkflowID(tenant, id(i)), "").Get(ctx, &rec); err != nil {
			return err
		}
		if rec.Run.StepsDone != 2 {
			return fmt.Errorf("run %s has committed %d steps", id(i), rec.Run.StepsDone)
		}
		return nil
	})
	took := time.Since(woken)
	t.Logf("all %d have committed once more %s after the worker came, %.1f a second", parkedRuns, took.Round(100*time.Millisecond), parkedRuns/took.Seconds())
	require.Less(t, took, parkedWakeWithin, "the time that is promised")
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Len(t, a.steps, parkedRuns)
	for id, n := range a.steps {
		// A step may be taken again when the engine has lost its hand-over; it is committed once.
		require.GreaterOrEqual(t, n, 2, "steps of run %s", id)
	}
}

// parked waits until a run waits for its tool.
func parked(ctx context.Context, in *harness.Installation, id string) error {
	for ch, err := range in.Client.WatchRun(ctx, id, 0) {
		if err != nil {
			return err
		}
		if callIs(1, "call_1", run.CallOpen)(ch.Description.Run) {
			return nil
		}
	}
	return fmt.Errorf("run %s has ended", id)
}

// each does something for many, a few at a time.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	const atOnce = 32
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(atOnce, n) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
