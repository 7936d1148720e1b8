package temporaltools

import (
	"encoding/json"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkworker "go.temporal.io/sdk/worker"
	sdkworkflow "go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/tests/harness"
)

func runs(fn any) func(sdkworker.Worker) {
	return func(w sdkworker.Worker) { w.RegisterWorkflowWithOptions(fn, sdkworkflow.RegisterOptions{Name: "job"}) }
}

func TestWorkflowTellsItsProgressAndFails(t *testing.T) {
	t.Parallel()
	o, st := newOutside(t, unique("outside")), blobs(t)
	r := rig{t, o.client, st, o.queue}
	ex := r.workflow(func(w *config.WorkflowTool) { w.Type, w.ProgressQuery = "outside.workflow", queryProgress })
	req := r.request("t", `{"key":"k"}`)
	h := r.submit(ex, req)
	r.until(ex, h, "it runs", func(tool.Observation) bool { started, _ := o.counts("k"); return started == 1 })
	must(t, o.signal(t.Context(), "k", ending{Word: map[string]any{"progress": 40, "stage": "linking"}}))
	obs := r.until(ex, h, "its word is seen", func(o tool.Observation) bool { return o.Progress != nil })
	if *obs.Progress != 40 || obs.Stage != "linking" || obs.Attempt != 1 {
		t.Errorf("it runs as %+v", obs)
	}
	must(t, o.signal(t.Context(), "k", ending{Fail: true}))
	obs = r.end(ex, h)
	r.ended(obs, tool.StateFailed, true, "PAYMENT_DECLINED", "the card was declined")
	if obs.Error.Retryable || string(obs.Error.Details) != `{"cents":7}` || obs.LastSeenAtMs == 0 {
		t.Errorf("it failed with %+v", obs.Error)
	}
	// A later attempt under the same key is another job; the handle of the old one still tells its
	// end, and no longer cancels.
	req.Attempt = 2
	again := r.submit(ex, req)
	r.until(ex, again, "it runs", func(tool.Observation) bool { started, _ := o.counts("k"); return started == 2 })
	r.ended(r.end(ex, h), tool.StateFailed, true, "PAYMENT_DECLINED", "the card was declined")
	must(t, ex.Cancel(t.Context(), h))
	must(t, o.signal(t.Context(), "k", ending{Result: json.RawMessage(`{"ok":true}`)}))
	if obs := r.end(ex, again); obs.State != tool.StateSucceeded || !obs.Definite || r.read(obs.Result) != `{"ok":true}` || obs.Attempt != 2 {
		t.Errorf("the second ended as %+v", obs)
	}
}

func TestWorkflowWithoutWorker(t *testing.T) {
	r := newRig(t)
	ex := r.workflow(func(w *config.WorkflowTool) { w.ProgressQuery = queryProgress })
	h := r.submit(ex, r.request("t", `{}`))
	obs, err := ex.Observe(t.Context(), h)
	must(t, err)
	if obs.State != tool.StateRunning || obs.Stage != "waiting for a worker of task queue "+r.queue {
		t.Errorf("it is %s, %q", obs.State, obs.Stage)
	}
	// A job that nobody has can be terminated, and that is an end.
	must(t, r.client.TerminateWorkflow(t.Context(), h.ID, "", "wrong customer"))
	r.ended(r.end(ex, h), tool.StateFailed, true, "TERMINATED", "terminated in Temporal")
}

// The deadline is the workflow's execution time-out, with a minute more to clean up in.
func TestWorkflowDeadline(t *testing.T) {
	r := newRig(t)
	ex := r.workflow(nil)
	req := r.request("t", `{}`)
	req.DeadlineAtMs = time.Now().Add(time.Hour).UnixMilli()
	h := r.submit(ex, req)
	desc, err := r.client.DescribeWorkflow(t.Context(), h.ID, "")
	must(t, err)
	limit := desc.RawResponse.GetExecutionConfig().GetWorkflowExecutionTimeout().AsDuration()
	if limit > time.Hour+time.Minute || limit < time.Hour+time.Minute-10*time.Second {
		t.Errorf("its execution time-out is %v", limit)
	}
}

// A workflow that continues as new is one job, and so are its cancel and its result.
func TestWorkflowThatContinuesAsNew(t *testing.T) {
	r := newRig(t)
	job := func(ctx sdkworkflow.Context, n int) (any, error) {
		if n > 0 {
			return nil, sdkworkflow.NewContinueAsNewError(ctx, "job", n-1)
		}
		if err := sdkworkflow.Await(ctx, func() bool { return sdkworkflow.GetSignalChannel(ctx, signalEnd).Len() > 0 }); err != nil {
			return nil, err
		}
		return []byte{1, 2, 3}, nil
	}
	r.serve(runs(job))
	ex := r.workflow(nil)
	var handles []tool.Handle
	for _, task := range []string{"ends", "cancelled"} {
		handles = append(handles, r.submit(ex, r.request(task, `3`)))
	}
	for _, h := range handles {
		r.until(ex, h, "it has continued", func(tool.Observation) bool {
			desc, err := r.client.DescribeWorkflow(t.Context(), h.ID, "")
			must(t, err)
			return desc.WorkflowExecution.RunID != "" && desc.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength() == 4 &&
				desc.RawResponse.GetWorkflowExecutionInfo().GetFirstRunId() != desc.WorkflowExecution.RunID
		})
		if obs, err := ex.Observe(t.Context(), h); err != nil || obs.State != tool.StateRunning {
			t.Errorf("it is %+v, %v", obs, err)
		}
	}
	if again := r.submit(ex, r.request("ends", `3`)); string(again.Data) != string(handles[0].Data) {
		t.Errorf("asked again it is %s, was %s", again.Data, handles[0].Data)
	}
	must(t, r.client.SignalWorkflow(t.Context(), handles[0].ID, "", signalEnd, nil))
	if obs := r.end(ex, handles[0]); obs.State != tool.StateSucceeded || r.read(obs.Result) != "\x01\x02\x03" || obs.Result.ContentType != "application/octet-stream" {
		t.Errorf("it ended as %+v", obs)
	}
	must(t, ex.Cancel(t.Context(), handles[1]))
	if obs := r.end(ex, handles[1]); obs.State != tool.StateCancelled || !obs.Definite {
		t.Errorf("the cancelled one ended as %+v", obs)
	}
}

// Somebody resets the workflow of a job in Temporal's UI: it is the same job, in another run.
func TestWorkflowThatIsReset(t *testing.T) {
	r := newRig(t)
	r.serve(runs(func(ctx sdkworkflow.Context, _ any) (string, error) {
		var word string
		sdkworkflow.GetSignalChannel(ctx, signalEnd).Receive(ctx, &word)
		return word, nil
	}))
	ex := r.workflow(nil)
	h := r.submit(ex, r.request("t", `{}`))
	r.until(ex, h, "it waits", func(o tool.Observation) bool { return o.Stage == "running" })
	desc, err := r.client.DescribeWorkflow(t.Context(), h.ID, "")
	must(t, err)
	const firstTaskStarted = 3
	harness.Until(t, time.Minute, "its first task is over", func() bool {
		_, err = r.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: h.ID, RunId: desc.WorkflowExecution.RunID},
			Reason: "try that again", WorkflowTaskFinishEventId: firstTaskStarted + 1, RequestId: r.queue,
		})
		return err == nil
	})
	must(t, r.client.SignalWorkflow(t.Context(), h.ID, "", signalEnd, "at last"))
	if obs := r.end(ex, h); obs.State != tool.StateSucceeded || r.read(obs.Result) != `"at last"` {
		t.Errorf("it ended as %+v, %+v", obs, obs.Error)
	}
}
