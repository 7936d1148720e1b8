package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
	"github.com/wakepoint/wakepoint/config"
)

const (
	// memoKey is where the memo of a job's workflow has our record.
	memoKey = "wakepoint"
	// cleanUp is how much longer than the task a workflow may live. Its execution time-out ends it
	// without a word; until then it can act on the cancel that the task's expiry brings.
	cleanUp = time.Minute
)

// Submit gets or creates the workflow of a key; see [tool.Executor].
func (e *Executor) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	if err := outside.Check(&req); err != nil {
		return tool.Handle{}, err
	}
	rec := outside.NewRecord(e.cfg.Name, req)
	left, late := outside.Left(req.DeadlineAtMs)
	if late != nil {
		return e.adoptLate(ctx, rec, late)
	}
	args, err := outside.Args(e.cfg.Tool.Args == config.ArgsSpread, req.Input)
	if err != nil {
		return tool.Handle{}, err
	}
	opts := e.options(rec, left)
	opts.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	h, there, err := e.start(ctx, rec, opts, args)
	if !there {
		return h, err
	}
	had, ended, err := e.look(ctx, rec)
	switch {
	case err != nil:
		return tool.Handle{}, err
	case !ended || rec.Attempt <= had.record.Attempt:
		return outside.Handle(Kind, had.record, had.runID)
	}
	// Somebody has decided to repeat what has no result. The server looks again whether that is
	// so; when another Submit was faster, its job is the one.
	opts.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	h, there, err = e.start(ctx, rec, opts, args)
	if !there {
		return h, err
	}
	if had, _, err = e.look(ctx, rec); err != nil {
		return tool.Handle{}, err
	}
	return outside.Handle(Kind, had.record, had.runID)
}

// start starts the workflow, unless there is one of its id.
func (e *Executor) start(ctx context.Context, rec outside.Record, opts client.StartWorkflowOptions, args []any) (h tool.Handle, there bool, err error) {
	run, err := e.cfg.Client.ExecuteWorkflow(ctx, opts, e.cfg.Tool.Type, args...)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &already):
		return tool.Handle{}, true, nil
	case err != nil:
		return tool.Handle{}, false, outside.StartError(rec.SubmissionKey, err)
	}
	h, err = outside.Handle(Kind, rec, run.GetRunID())
	return h, false, err
}

func (e *Executor) options(rec outside.Record, left time.Duration) client.StartWorkflowOptions {
	if left > 0 {
		left += cleanUp
	}
	return client.StartWorkflowOptions{
		ID: outside.ID(rec.SubmissionKey), TaskQueue: e.cfg.Tool.TaskQueue, WorkflowExecutionTimeout: left,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            fmt.Sprintf("tool %s for %s", rec.Tool, rec.TaskID),
		Memo:                                     map[string]any{memoKey: rec},
	}
}

// found is a job that the server knows.
type found struct {
	record outside.Record
	// runID is the first of the chain, which continue-as-new and reset don't change.
	runID string
}

// look reads the job of a key that is known to be there. ended says that it is over without a
// result, so that it may be started again.
func (e *Executor) look(ctx context.Context, rec outside.Record) (had found, ended bool, err error) {
	desc, err := e.describe(ctx, outside.ID(rec.SubmissionKey), "")
	if err == nil {
		had.record, err = recordOf(desc)
	}
	if err != nil {
		return found{}, false, &tool.AmbiguousError{Op: "submit", SubmissionKey: rec.SubmissionKey, Cause: err}
	}
	had.runID = firstRun(desc)
	return had, over(desc.Status) && desc.Status != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, rec.Reused(had.record)
}

// adoptLate takes the job of a request whose deadline has passed, if there is one.
func (e *Executor) adoptLate(ctx context.Context, rec outside.Record, late error) (tool.Handle, error) {
	had, _, err := e.look(ctx, rec)
	if outside.Gone(err) {
		return tool.Handle{}, late
	}
	if err != nil {
		return tool.Handle{}, err
	}
	return outside.Handle(Kind, had.record, had.runID)
}

// recordOf reads what was noted with a job. The zero record, which is nobody's, stands for a
// workflow of the same id that was not started here.
func recordOf(desc *client.WorkflowExecutionDescription) (rec outside.Record, err error) {
	err = desc.GetMemoValue(memoKey, &rec)
	if errors.Is(err, temporal.ErrNoData) {
		return outside.Record{}, nil
	}
	return rec, err
}

// firstRun is the run that a chain began with.
func firstRun(desc *client.WorkflowExecutionDescription) string {
	if first := desc.RawResponse.GetWorkflowExecutionInfo().GetFirstRunId(); first != "" {
		return first
	}
	return desc.WorkflowExecution.RunID
}

func over(s enumspb.WorkflowExecutionStatus) bool {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED:
		return false
	default:
		return true
	}
}

func (e *Executor) describe(ctx context.Context, id, runID string) (*client.WorkflowExecutionDescription, error) {
	ctx, cancel := outside.Look(ctx)
	defer cancel()
	return e.cfg.Client.DescribeWorkflow(ctx, id, runID)
}
