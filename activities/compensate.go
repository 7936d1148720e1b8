package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// CompensationInput is what a tool is called with that undoes the work of another.
type CompensationInput struct {
	// TaskID, Tool, Attempt and SubmissionKey name the work that may have been done.
	TaskID        string `json:"taskId"`
	Tool          string `json:"tool"`
	Attempt       int    `json:"attempt"`
	SubmissionKey string `json:"submissionKey"`
	// Input is what that tool was called with.
	Input json.RawMessage `json:"input,omitempty"`
	// Handle addresses the outside job, if it is known.
	Handle *protocol.Handle `json:"handle,omitempty"`
	// Reason says what is not known.
	Reason string `json:"reason,omitempty"`
}

const (
	// compensationLook is the pause between two looks at a task that undoes, at
	// first; it grows with the task's age.
	compensationLook       = time.Second
	compensationLookAtMost = time.Minute
)

// Compensate runs the tool that undoes what an attempt may have done, as a task of
// its own, and waits for its end by failing retryably with the delay until the next
// look: waiting costs no history. The id of that task is its lock, so a repeat
// starts no second one. It doesn't heartbeat.
func (a *Activities) Compensate(ctx context.Context, req protocol.CompensateRequest) (protocol.CompensateResult, error) {
	if a.o.Tools == nil || a.o.Tasks == nil {
		return cannotCompensate("this worker starts no tasks"), nil
	}
	t, ok := a.o.Tools(req.Compensate)
	if !ok {
		return cannotCompensate("this worker does not declare tool " + req.Compensate), nil
	}
	input, err := json.Marshal(CompensationInput{
		TaskID: req.TaskID, Tool: req.Tool, Attempt: req.Attempt, SubmissionKey: req.SubmissionKey,
		Input: req.Input, Handle: req.Handle, Reason: req.Reason,
	})
	if err != nil {
		return protocol.CompensateResult{}, err
	}
	if err := t.ValidateInput(input); err != nil {
		return cannotCompensate("tool " + t.Name + " does not take the input of a compensation: " + err.Error()), nil
	}
	create := t.CreateDefaults()
	create.ID, create.Tenant, create.Title = req.CompensationID, req.Tenant, "undo "+req.Tool+" of "+req.TaskID
	create.Labels = map[string]string{"compensates": req.TaskID}
	fingerprint, err := domain.Fingerprint(t.Name, input)
	if err != nil {
		return protocol.CompensateResult{}, err
	}
	workflowID := protocol.TaskWorkflowID(req.Tenant, req.CompensationID)
	_, err = a.o.Tasks.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: a.o.TaskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            cut(t.Name+": "+create.Title, 180),
		Memo:                                     map[string]any{protocol.MemoFingerprint: fingerprint},
		TypedSearchAttributes: temporal.NewSearchAttributes(protocol.AttrTenant.ValueSet(req.Tenant), protocol.AttrTool.ValueSet(t.Name),
			protocol.AttrState.ValueSet(string(domain.StateQueued))),
		Priority: temporal.Priority{PriorityKey: create.Priority, FairnessKey: req.Tenant},
	}, protocol.WorkflowAsyncTask, protocol.TaskInput{Create: create, Input: input, Tool: t.Binding(), Targets: t.Targets, Fingerprint: fingerprint, Revision: protocol.Revision})
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return protocol.CompensateResult{}, err
	}
	return a.compensated(ctx, workflowID)
}

func cannotCompensate(why string) protocol.CompensateResult {
	return protocol.CompensateResult{State: domain.StateFailed, Error: &domain.TaskError{Code: "NOT_COMPENSATED", Class: domain.ClassSystem, Message: why}}
}

// compensated says how the task that undoes has ended, or when to look again. One
// that a person retries after its failure is looked at anew by that person.
func (a *Activities) compensated(ctx context.Context, workflowID string) (protocol.CompensateResult, error) {
	d, err := a.o.Tasks.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return protocol.CompensateResult{}, err
	}
	switch d.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return protocol.CompensateResult{State: domain.StateSucceeded}, nil
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		err := a.o.Tasks.GetWorkflow(ctx, workflowID, d.WorkflowExecution.RunID).Get(ctx, nil)
		if ctx.Err() != nil {
			return protocol.CompensateResult{}, ctx.Err()
		}
		return notCompensated(err), nil
	default:
	}
	age := time.Since(activity.GetInfo(ctx).ScheduledTime)
	return protocol.CompensateResult{}, temporal.NewApplicationErrorWithOptions("the task that undoes goes on", protocol.ErrTypeStillRunning,
		temporal.ApplicationErrorOptions{
			NextRetryDelay: min(max(age/10, compensationLook), compensationLookAtMost), Category: temporal.ApplicationErrorCategoryBenign,
		})
}

func notCompensated(err error) protocol.CompensateResult {
	res := protocol.CompensateResult{State: domain.StateFailed, Error: &domain.TaskError{Code: "NOT_COMPENSATED", Message: "the task that undoes did not succeed"}}
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &app):
		res.Error.Message = cut(app.Message(), domain.MaxErrorText)
	case errors.As(err, &cancelled):
		res.State, res.Error.Message = domain.StateCancelled, "the task that undoes was cancelled"
	}
	return res
}
