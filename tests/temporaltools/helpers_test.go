package temporaltools

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/activities/tool/workflow"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// rig is a tenant and a task queue of a test's own with the three executors that use it.
type rig struct {
	*testing.T
	client client.Client
	store  *store.Store
	// queue is the task queue, and the tenant's name too.
	queue string
}

func newRig(t *testing.T) rig {
	t.Helper()
	t.Parallel()
	return rig{t, dial(t), blobs(t), unique("rig")}
}

// names counts, so that a test run twice meets nothing of the first time.
var names atomic.Int64

func unique(name string) string { return fmt.Sprintf("%s-%d", name, names.Add(1)) }

// receive waits for what comes out of a channel.
func receive[V any](t testing.TB, c <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
	}
	return v
}

// serve starts somebody's worker on the queue.
func (r rig) serve(register func(sdkworker.Worker)) {
	r.Helper()
	w := sdkworker.New(r.client, r.queue, sdkworker.Options{MaxHeartbeatThrottleInterval: 100 * time.Millisecond})
	register(w)
	must(r.T, w.Start())
	r.Cleanup(w.Stop)
}

func (r rig) activity(change func(*config.ActivityTool)) *activity.Executor {
	r.Helper()
	a := config.ActivityTool{Type: "job", TaskQueue: r.queue}
	if change != nil {
		change(&a)
	}
	ex, err := activity.New(activity.Config{Name: "tool", Client: r.client, Store: r.store, Tool: a})
	must(r.T, err)
	return ex
}

func (r rig) workflow(change func(*config.WorkflowTool)) *workflow.Executor {
	r.Helper()
	w := config.WorkflowTool{Type: "job", TaskQueue: r.queue}
	if change != nil {
		change(&w)
	}
	ex, err := workflow.New(workflow.Config{Name: "tool", Client: r.client, Store: r.store, Tool: w})
	must(r.T, err)
	return ex
}

func (r rig) function(name string) gofunc.Executor {
	r.Helper()
	ex, err := gofunc.New(gofunc.Config{Name: name, Client: r.client, Store: r.store, TaskQueue: r.queue, Heartbeat: heartbeat})
	must(r.T, err)
	return ex
}

// request is a job of the test's tenant.
func (r rig) request(task, input string) tool.Request {
	return tool.Request{
		Tenant: r.queue, TaskID: task, Attempt: 1, SubmissionKey: r.queue + "/" + task + "/1", Tool: "tool", Input: json.RawMessage(input),
	}
}

func (r rig) submit(ex tool.Executor, req tool.Request) tool.Handle {
	r.Helper()
	h, err := ex.Submit(r.Context(), req)
	must(r.T, err)
	return h
}

// until observes until the job is as wanted.
func (r rig) until(ex tool.Executor, h tool.Handle, what string, holds func(tool.Observation) bool) tool.Observation {
	r.Helper()
	var obs tool.Observation
	harness.Until(r.T, time.Minute, what, func() bool {
		var err error
		obs, err = ex.Observe(r.Context(), h)
		must(r.T, err)
		return holds(obs)
	})
	return obs
}

// end observes until the job is over.
func (r rig) end(ex tool.Executor, h tool.Handle) tool.Observation {
	r.Helper()
	return r.until(ex, h, "the job is over", func(o tool.Observation) bool { return o.State.Terminal() })
}

// read is a result, wherever it lies.
func (r rig) read(res *tool.Result) string {
	r.Helper()
	if res.Ref == "" {
		return string(res.Inline)
	}
	b, err := r.store.Get(r.Context(), res.Ref, res.Hash)
	must(r.T, err)
	return string(b)
}

// ended checks how a job ended without success.
func (r rig) ended(obs tool.Observation, state tool.State, definite bool, code, message string) {
	r.Helper()
	if obs.State != state || obs.Definite != definite || obs.Error == nil || obs.Error.Code != code || obs.Error.Message != message {
		r.Errorf("it ended as %s, definite: %v, with %+v; want %s, definite: %v, with %s: %s", obs.State, obs.Definite, obs.Error, state, definite, code, message)
	}
}
