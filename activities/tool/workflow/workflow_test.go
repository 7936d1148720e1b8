package workflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/workflow"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// server is a client whose server answers what a test says. What real ones answer is the engine's
// to show: see tests/temporaltools.
type server struct {
	start, describe, cancel, result, query, list error
	// status, events and task are of the workflow as it is described.
	status enumspb.WorkflowExecutionStatus
	events int
	task   *workflowpb.PendingWorkflowTaskInfo
	// first is the first run of its chain.
	first string

	cancelled int
}

func (s *server) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return run{s: s}, s.start
}

func (s *server) GetWorkflow(context.Context, string, string) client.WorkflowRun { return run{s: s} }

func (s *server) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	if s.describe != nil {
		return nil, s.describe
	}
	d := &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{FirstRunId: s.first, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run-9"}},
		PendingWorkflowTask:   s.task,
	}}
	d.WorkflowExecution.ID, d.WorkflowExecution.RunID, d.Status, d.HistoryLength = id, "run-9", s.status, s.events
	return d, nil
}

func (s *server) CancelWorkflow(context.Context, string, string) error {
	s.cancelled++
	return s.cancel
}

func (s *server) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, s.query
}

func (s *server) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return nil, s.list
}

type run struct {
	client.WorkflowRun
	s *server
}

func (run) GetRunID() string { return "run-1" }

func (r run) GetWithOptions(context.Context, any, client.WorkflowRunGetOptions) error {
	return r.s.result
}

func configOf(t *testing.T, s *server) workflow.Config {
	t.Helper()
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return workflow.Config{Name: "order", Client: s, Store: st, Tool: config.WorkflowTool{Type: "Order", TaskQueue: "orders", ProgressQuery: "howFar"}}
}

// setup gives an executor and the handle of a job.
func setup(t *testing.T, s *server) (*workflow.Executor, tool.Handle) {
	t.Helper()
	ex, err := workflow.New(configOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	sure, err := workflow.New(configOf(t, &server{}))
	if err != nil {
		t.Fatal(err)
	}
	h, err := sure.Submit(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if s.first == "" {
		s.first = "run-1"
	}
	return ex, h
}

func request() tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "t", Attempt: 1, SubmissionKey: "acme/t/1"}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for rule, spoil := range map[string]func(*workflow.Config){
		`workflow " ": name must not be blank`:                   func(c *workflow.Config) { c.Name = " " },
		`workflow "order": client must be set`:                   func(c *workflow.Config) { c.Client = nil },
		`workflow "order": store must be set`:                    func(c *workflow.Config) { c.Store = nil },
		`workflow "order": type must not be blank`:               func(c *workflow.Config) { c.Tool.Type = "" },
		`workflow "order": taskQueue must not be blank`:          func(c *workflow.Config) { c.Tool.TaskQueue = "" },
		`workflow "order": args "all" must be "one" or "spread"`: func(c *workflow.Config) { c.Tool.Args = "all" },
	} {
		c := configOf(t, &server{})
		spoil(&c)
		if _, err := workflow.New(c); err == nil || err.Error() != rule {
			t.Errorf("got %v, want %s", err, rule)
		}
	}
}

func TestSubmitErrors(t *testing.T) {
	t.Parallel()
	already := serviceerror.NewWorkflowExecutionAlreadyStarted("already", "", "run-1")
	for name, tc := range map[string]struct {
		s server
		// code of a definite failure; empty when the error is ambiguous.
		code string
	}{
		"invalid":                   {server{start: serviceerror.NewInvalidArgument("bad")}, "REFUSED_BY_ENGINE"},
		"not allowed":               {server{start: serviceerror.NewPermissionDenied("no", "")}, "REFUSED_BY_ENGINE"},
		"unavailable":               {server{start: serviceerror.NewUnavailable("later")}, ""},
		"too busy":                  {server{start: serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "busy")}, ""},
		"there, but not to be seen": {server{start: already, describe: serviceerror.NewUnavailable("later")}, ""},
		"there, and not ours":       {server{start: already}, "KEY_REUSED"},
	} {
		ex, _ := setup(t, &tc.s)
		_, err := ex.Submit(t.Context(), request())
		f, definite := tool.DefiniteFailure(err)
		if definite != (tc.code != "") || f.Code != tc.code || f.Retryable || definite == errors.Is(err, tool.ErrAmbiguous) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAWorkflowShows(t *testing.T) {
	t.Parallel()
	failing := &workflowpb.PendingWorkflowTaskInfo{State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, Attempt: 5}
	for name, tc := range map[string]struct {
		s     server
		state tool.State
		stage string
		code  string
	}{
		"waits": {server{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, events: 2}, tool.StateRunning, "waiting for a worker of task queue orders", ""},
		"runs":  {server{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, events: 5, query: errors.New("no worker")}, tool.StateRunning, "running", ""},
		"keeps failing": {
			server{status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, events: 5, task: failing, query: errors.New("no worker")},
			tool.StateRunning, "its workflow task keeps failing, Temporal's UI says why", "",
		},
		"paused":          {server{status: enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED, events: 5, query: errors.New("paused")}, tool.StateRunning, "paused in Temporal", ""},
		"timed out":       {server{status: enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, events: 8}, tool.StateFailed, "", "TIMEOUT"},
		"never picked up": {server{status: enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, events: 3}, tool.StateFailed, "", "NOT_PICKED_UP"},
		"superseded": {
			server{status: enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, first: "run-7", events: 5}, tool.StateUnknown, "", "SUPERSEDED",
		},
		"gone": {server{describe: serviceerror.NewNotFound("gone")}, tool.StateUnknown, "", "UNKNOWN_JOB"},
	} {
		ex, h := setup(t, &tc.s)
		obs, err := ex.Observe(t.Context(), h)
		code := ""
		if obs.Error != nil {
			code = obs.Error.Code
		}
		if err != nil || obs.State != tc.state || obs.Stage != tc.stage || code != tc.code || obs.Definite != obs.State.Terminal() {
			t.Errorf("%s: %+v, %+v, %v", name, obs, obs.Error, err)
		}
	}
}

func TestOtherVerbsErrors(t *testing.T) {
	t.Parallel()
	gone, down := serviceerror.NewNotFound("gone"), serviceerror.NewUnavailable("down")
	s := &server{describe: gone}
	ex, h := setup(t, s)
	if _, found, err := ex.Find(t.Context(), "acme/t/1"); found || err != nil {
		t.Errorf("find of a job that is gone: %v, %v", found, err)
	}
	if err := ex.Cancel(t.Context(), h); !errors.Is(err, tool.ErrUnknownHandle) {
		t.Errorf("cancel of a job that is gone: %v", err)
	}
	s.describe, s.status, s.cancel = nil, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, down
	if err := ex.Cancel(t.Context(), h); err != nil || s.cancelled != 0 {
		t.Errorf("cancel of a job that is over: %v, after %d calls", err, s.cancelled)
	}
	s.result = down
	if obs, err := ex.Observe(t.Context(), h); !errors.Is(err, down) {
		t.Errorf("a result that can't be read: %+v, %v", obs, err)
	}
	s.status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if err := ex.Cancel(t.Context(), h); !errors.Is(err, down) || s.cancelled != 1 {
		t.Errorf("cancel that does not arrive: %v", err)
	}
	s.cancel = serviceerror.NewNotFound("workflow execution already completed")
	if err := ex.Cancel(t.Context(), h); err != nil {
		t.Errorf("cancel of a job that ended meanwhile: %v", err)
	}
	s.describe, s.list = down, down
	_, oerr := ex.Observe(t.Context(), h)
	_, _, ferr := ex.Find(t.Context(), "acme/t/1")
	_, lerr := ex.List(t.Context(), "")
	for verb, err := range map[string]error{"observe": oerr, "find": ferr, "list": lerr, "cancel": ex.Cancel(t.Context(), h)} {
		if !errors.Is(err, down) || !strings.HasPrefix(err.Error(), verb) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if _, err := ex.List(t.Context(), "!"); err == nil {
		t.Error("any cursor is taken")
	}
	h.Executor = "activity"
	_, oerr = ex.Observe(t.Context(), h)
	for verb, err := range map[string]error{"observe": oerr, "cancel": ex.Cancel(t.Context(), h)} {
		if !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("%s of another executor's handle: %v", verb, err)
		}
	}
}
