package temporaltools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// registers gives the queue one activity.
func registers(fn any) func(sdkworker.Worker) {
	return func(w sdkworker.Worker) { w.RegisterActivityWithOptions(fn, sdkactivity.RegisterOptions{Name: "job"}) }
}

func TestActivityTellsItsProgressAndFails(t *testing.T) {
	t.Parallel()
	o, st := newOutside(t, unique("outside")), blobs(t)
	r := rig{t, o.client, st, o.queue}
	ex := r.activity(func(a *config.ActivityTool) { a.Type, a.Heartbeat = "outside.activity", heartbeat })
	req := r.request("t", `{"key":"k"}`)
	h := r.submit(ex, req)
	o.order("k") <- ending{Word: map[string]any{"progress": 40, "stage": "linking"}}
	obs := r.until(ex, h, "its word is seen", func(o tool.Observation) bool { return o.Progress != nil })
	if *obs.Progress != 40 || obs.Stage != "linking" || obs.Worker == "" || obs.Attempt != 1 || obs.LastSeenAtMs == 0 || obs.State != tool.StateRunning {
		t.Errorf("it runs as %+v", obs)
	}
	o.order("k") <- ending{Fail: true}
	obs = r.end(ex, h)
	r.ended(obs, tool.StateFailed, true, "PAYMENT_DECLINED", "the card was declined")
	if !obs.Error.Retryable || obs.Error.RetryAfterMs != 1500 || string(obs.Error.Details) != `{"cents":7}` {
		t.Errorf("it failed with %+v", obs.Error)
	}
	// A later attempt under the same key is another job; the handle of the old one still tells its end.
	req.Attempt = 2
	again := r.submit(ex, req)
	if obs := r.until(ex, again, "it runs", func(o tool.Observation) bool { return o.Stage == "running" }); obs.Attempt != 2 {
		t.Errorf("the second is of attempt %d", obs.Attempt)
	}
	r.ended(r.end(ex, h), tool.StateFailed, true, "PAYMENT_DECLINED", "the card was declined")
	o.order("k") <- ending{Result: json.RawMessage(`{"ok":true}`)}
	if obs := r.end(ex, again); obs.State != tool.StateSucceeded || !obs.Definite || r.read(obs.Result) != `{"ok":true}` {
		t.Errorf("the second ended as %+v", obs)
	}
}

func TestActivityWithoutWorker(t *testing.T) {
	r := newRig(t)
	ex := r.activity(nil)
	req := r.request("t", `{}`)
	req.DeadlineAtMs = time.Now().Add(2 * time.Second).UnixMilli()
	h := r.submit(ex, req)
	obs, err := ex.Observe(t.Context(), h)
	must(t, err)
	if obs.State != tool.StateRunning || obs.Stage != "waiting for a worker of task queue "+r.queue {
		t.Errorf("it is %s, %q", obs.State, obs.Stage)
	}
	r.ended(r.end(ex, h), tool.StateFailed, true, "NOT_PICKED_UP", `no worker of task queue "`+r.queue+`" took it until its deadline`)
}

// Whether an activity that its server has given up still runs is not known, so its end is no
// definite one.
func TestActivityThatRunsOverItsDeadline(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.serve(registers(func(context.Context) error { <-release; return nil }))
	t.Cleanup(func() { close(release) }) // before the worker stops
	for name, limit := range map[string]func(*tool.Request, *config.ActivityTool){
		"deadline": func(q *tool.Request, _ *config.ActivityTool) {
			q.DeadlineAtMs = time.Now().Add(2 * time.Second).UnixMilli()
		},
		"startToClose": func(_ *tool.Request, a *config.ActivityTool) { a.StartToClose = time.Second },
	} {
		req := r.request(name, `[]`)
		ex := r.activity(func(a *config.ActivityTool) {
			a.Args = config.ArgsSpread
			limit(&req, a)
		})
		obs := r.end(ex, r.submit(ex, req))
		r.ended(obs, tool.StateLost, false, "TIMEOUT", `worker "`+obs.Worker+`" did not end it in time`)
	}
}

func TestActivityWhoseWorkerFallsSilent(t *testing.T) {
	r := newRig(t)
	r.serve(registers(func(context.Context) error { return sdkactivity.ErrResultPending }))
	ex := r.activity(func(a *config.ActivityTool) { a.Args, a.Heartbeat = config.ArgsSpread, time.Second })
	obs := r.end(ex, r.submit(ex, r.request("t", `[]`)))
	r.ended(obs, tool.StateLost, false, "WORKER_LOST", `worker "`+obs.Worker+`" sent no heartbeat for 1s`)
}

func TestActivityResults(t *testing.T) {
	r := newRig(t)
	large := `"` + strings.Repeat("x", 100<<10) + `"`
	r.serve(registers(func(_ context.Context, what string, n json.Number) (any, error) {
		switch what {
		case "bytes":
			return []byte{0, 1, 2}, nil
		case "large":
			return json.RawMessage(large), nil
		case "nothing":
			return nil, nil
		}
		return n, nil
	}))
	ex := r.activity(func(a *config.ActivityTool) { a.Args = config.ArgsSpread })
	for what, want := range map[string]tool.Result{
		"bytes":   {ContentType: "application/octet-stream", Bytes: 3},
		"large":   {ContentType: "application/json", Bytes: int64(len(large))},
		"nothing": {ContentType: "application/json"},
		"number":  {ContentType: "application/json"},
	} {
		obs := r.end(ex, r.submit(ex, r.request(what, `["`+what+`", 9007199254740993]`)))
		if obs.State != tool.StateSucceeded {
			t.Fatalf("%s: it ended as %+v", what, obs)
		}
		content := map[string]string{"bytes": "\x00\x01\x02", "large": large, "nothing": "null", "number": "9007199254740993"}[what]
		if got := r.read(obs.Result); got != content || obs.Result.ContentType != want.ContentType || obs.Result.Bytes != want.Bytes {
			t.Errorf("%s: got %d bytes, %+v", what, len(got), obs.Result)
		}
	}
}

func TestActivityThatIsTerminated(t *testing.T) {
	r := newRig(t)
	ex := r.activity(func(a *config.ActivityTool) { a.Args = config.ArgsSpread })
	terminate := func(h tool.Handle) tool.Observation {
		run := r.client.GetActivityHandle(client.GetActivityHandleOptions{ActivityID: h.ID})
		must(t, run.Terminate(t.Context(), client.TerminateActivityOptions{Reason: "wrong customer"}))
		return r.end(ex, h)
	}
	// Before any worker has it, it is sure that nothing was done.
	r.ended(terminate(r.submit(ex, r.request("waiting", `[]`))), tool.StateFailed, true, "TERMINATED", "terminated in Temporal: wrong customer")
	release := make(chan struct{})
	r.serve(registers(func(context.Context) error { <-release; return nil }))
	t.Cleanup(func() { close(release) })
	h := r.submit(ex, r.request("running", `[]`))
	r.until(ex, h, "it runs", func(o tool.Observation) bool { return o.Stage == "running" })
	r.ended(terminate(h), tool.StateFailed, false, "TERMINATED", "terminated in Temporal: wrong customer")
}

func TestKeysOfOthers(t *testing.T) {
	r := newRig(t)
	for kind, ex := range map[string]tool.Executor{"activity": r.activity(nil), "workflow": r.workflow(nil)} {
		req := r.request(kind, `{"a":1}`)
		h := r.submit(ex, req)
		req.Input = json.RawMessage(`{"a":2}`)
		_, err := ex.Submit(t.Context(), req)
		if f, ok := tool.DefiniteFailure(err); !ok || f.Code != "KEY_REUSED" {
			t.Errorf("%s: another input: %v", kind, err)
		}
		req.Input = json.RawMessage(` { "a": 1 }`)
		if again := r.submit(ex, req); cmp.Diff(h, again) != "" {
			t.Errorf("%s: the same input, written otherwise: %+v, want %+v", kind, again, h)
		}
	}
	// What others started under such an id is not taken for ours.
	must(t, errOf(r.client.ExecuteActivity(t.Context(), client.StartActivityOptions{ID: r.queue + "/job/a/1", TaskQueue: r.queue, StartToCloseTimeout: time.Minute}, "job")))
	must(t, errOf(r.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: r.queue + "/job/w/1", TaskQueue: r.queue}, "job")))
	for task, ex := range map[string]tool.Executor{"a": r.activity(nil), "w": r.workflow(nil)} {
		req := r.request(task, `{}`)
		if _, found, err := ex.Find(t.Context(), req.SubmissionKey); found || err != nil {
			t.Errorf("%s: found: %v, %v", task, found, err)
		}
		_, err := ex.Submit(t.Context(), req)
		if f, ok := tool.DefiniteFailure(err); !ok || f.Code != "KEY_REUSED" {
			t.Errorf("%s: %v", task, err)
		}
		harness.Until(t, time.Minute, "the list has the one that is ours", func() bool {
			page, err := ex.(tool.Lister).List(t.Context(), "")
			must(t, err)
			return len(page.Jobs) == 1 && page.Next == "" && page.Jobs[0].State == tool.StateRunning
		})
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestDeadlinesThatHavePassed(t *testing.T) {
	r := newRig(t)
	for kind, ex := range map[string]tool.Executor{"activity": r.activity(nil), "workflow": r.workflow(nil)} {
		late := r.request(kind, `{}`)
		late.DeadlineAtMs = time.Now().Add(-time.Second).UnixMilli()
		_, err := ex.Submit(t.Context(), late)
		if f, ok := tool.DefiniteFailure(err); !ok || f.Code != "TIMEOUT" {
			t.Errorf("%s: %v", kind, err)
		}
		if _, found, err := ex.Find(t.Context(), late.SubmissionKey); found || err != nil {
			t.Errorf("%s: after a refusal found: %v, %v", kind, found, err)
		}
		// One that was started in time is found by whoever asks again.
		h := r.submit(ex, r.request(kind, `{}`))
		if again := r.submit(ex, late); cmp.Diff(h, again) != "" {
			t.Errorf("%s: asked again it is %+v, want %+v", kind, again, h)
		}
	}
}

func TestServersThatRefuse(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("q", 2000)
	for kind, ex := range map[string]tool.Executor{
		"activity": r.activity(func(a *config.ActivityTool) { a.TaskQueue = long }),
		"workflow": r.workflow(func(w *config.WorkflowTool) { w.TaskQueue = long }),
	} {
		_, err := ex.Submit(t.Context(), r.request(kind, `{}`))
		f, ok := tool.DefiniteFailure(err)
		if !ok || f.Code != "REFUSED_BY_ENGINE" || f.Retryable || !errors.Is(err, tool.ErrNotStarted) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
