package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// tasks is an engine that has at most one workflow.
type tasks struct {
	options []client.StartWorkflowOptions
	inputs  []protocol.TaskInput
	status  enums.WorkflowExecutionStatus
	err     error
	down    error
}

func (e *tasks) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	if e.down != nil {
		return nil, e.down
	}
	if len(e.options) > 0 {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("started", "", "")
	}
	e.options, e.inputs = append(e.options, o), append(e.inputs, args[0].(protocol.TaskInput))
	return nil, nil //nolint:nilnil // nobody reads it
}

func (e *tasks) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	d := &client.WorkflowExecutionDescription{}
	d.Status = e.status
	return d, nil
}

func (e *tasks) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	return ended{err: e.err}
}

type ended struct {
	client.WorkflowRun
	err error
}

func (r ended) Get(context.Context, any) error { return r.err }

func (b *bench) compensate(r protocol.CompensateRequest) (protocol.CompensateResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.CompensateRequest) (protocol.CompensateResult, error) {
		return a.Compensate
	}, r)
}

func compensation(t *testing.T) (*bench, *tasks, protocol.CompensateRequest) {
	t.Helper()
	b, e := setup(t), &tasks{status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING}
	cfg, err := config.Parse("wakepoint.yaml", []byte("tools:\n  refund:\n    exec: {argv: [refund]}\n    inputSchema: {required: [taskId, submissionKey]}\n  strict:\n    exec: {argv: [x]}\n    inputSchema: {required: [amount]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	b.o.Tools, b.o.Tasks, b.o.TaskQueue = cfg.Tool, e, "q"
	return b, e, protocol.CompensateRequest{
		Job: job(), Compensate: "refund", CompensationID: domain.CompensationID("t1", 1), Input: []byte(`{"amount":5}`), Reason: "nobody knows",
	}
}

// What undoes runs as a task of its own, once, and is waited for at no cost.
func TestCompensate(t *testing.T) {
	t.Parallel()
	b, e, req := compensation(t)
	for range 2 {
		_, err := b.compensate(req)
		app := failure(t, err)
		if app.Type() != protocol.ErrTypeStillRunning || app.NonRetryable() || app.NextRetryDelay() <= 0 || app.Category() != temporal.ApplicationErrorCategoryBenign {
			t.Fatalf("%v, after %v", err, app.NextRetryDelay())
		}
	}
	if len(e.options) != 1 || e.options[0].ID != "acme/task/"+req.CompensationID || e.options[0].TaskQueue != "q" ||
		e.options[0].WorkflowIDReusePolicy != enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE {
		t.Fatalf("%+v", e.options)
	}
	in := e.inputs[0]
	var given activities.CompensationInput
	if err := json.Unmarshal(in.Input, &given); err != nil {
		t.Fatal(err)
	}
	if in.Create.ID != req.CompensationID || in.Create.Tenant != "acme" || in.Create.Tool != "refund" || in.Revision != protocol.Revision {
		t.Errorf("%+v", in.Create)
	}
	if given.TaskID != "t1" || given.SubmissionKey != key || given.Attempt != 1 || string(given.Input) != `{"amount":5}` || given.Reason != "nobody knows" {
		t.Errorf("%+v", given)
	}
	e.status = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	if res, err := b.compensate(req); err != nil || res.State != domain.StateSucceeded || res.Error != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

// Whatever else it comes to is for a person.
func TestNotCompensated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status enums.WorkflowExecutionStatus
		err    error
		state  domain.State
		says   string
	}{
		"failed":     {enums.WORKFLOW_EXECUTION_STATUS_FAILED, temporal.NewApplicationError("refund failed: too late", protocol.ErrTypeTaskFailed), domain.StateFailed, "refund failed: too late"},
		"cancelled":  {enums.WORKFLOW_EXECUTION_STATUS_CANCELED, temporal.NewCanceledError(), domain.StateCancelled, "the task that undoes was cancelled"},
		"terminated": {enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, errors.New("terminated"), domain.StateFailed, "the task that undoes did not succeed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, e, req := compensation(t)
			e.status, e.err = tc.status, tc.err
			res, err := b.compensate(req)
			if err != nil || res.State != tc.state || res.Error == nil || res.Error.Message != tc.says {
				t.Errorf("%+v (%v), %v", res, res.Error, err)
			}
		})
	}
	for name, change := range map[string]func(*bench, *protocol.CompensateRequest){
		"a tool that is not declared":          func(_ *bench, r *protocol.CompensateRequest) { r.Compensate = "nobody" },
		"a tool that does not take such input": func(_ *bench, r *protocol.CompensateRequest) { r.Compensate = "strict" },
		"a worker that starts no tasks":        func(b *bench, _ *protocol.CompensateRequest) { b.o.Tasks = nil },
	} {
		b, e, req := compensation(t)
		change(b, &req)
		if res, err := b.compensate(req); err != nil || res.Error == nil || len(e.options) != 0 {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	b, e, req := compensation(t)
	e.down = serviceerror.NewUnavailable("down")
	if _, err := b.compensate(req); err == nil || failure(t, err).NonRetryable() {
		t.Errorf("an engine that is down: %v", err)
	}
}
