package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

const (
	// CodeFailed is the code of a failure whose type says nothing.
	CodeFailed = "WORKFLOW_FAILED"

	// queryTimeout bounds the query for progress, which waits for a worker.
	queryTimeout = 2 * time.Second
	// firstTask is how many events a workflow has before its first task is taken: its start and
	// that task's being scheduled.
	firstTask = 2
	// failingTask is the try of one workflow task from which on it is called failing.
	failingTask = 3
)

// Observe asks the server about the workflow; see [tool.Executor].
func (e *Executor) Observe(ctx context.Context, h tool.Handle) (tool.Observation, error) {
	data, err := outside.Resolve(Kind, h)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe: %w", err)
	}
	desc, err := e.current(ctx, h.ID, data)
	if outside.Gone(err) {
		return outside.Unknown(h.ID), nil
	}
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe %q: %w", data.SubmissionKey, err)
	}
	obs := tool.Observation{State: tool.StateRunning, Attempt: data.Attempt}
	if desc.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
		// Only the end of the chain tells its outcome, and a later attempt has taken its place.
		obs.State, obs.Error = tool.StateUnknown, superseded(h.ID)
		return obs, nil
	}
	if !over(desc.Status) {
		said := e.progress(ctx, desc)
		obs.Progress, obs.Stage = said.Percent, said.Stage
		if obs.Stage == "" {
			obs.Stage = e.stage(desc)
		}
		return obs, nil
	}
	obs.Definite = true
	if desc.WorkflowCloseTime != nil {
		obs.LastSeenAtMs = desc.WorkflowCloseTime.UnixMilli()
	}
	if err := e.end(ctx, desc, data, &obs); err != nil {
		return tool.Observation{}, fmt.Errorf("observe %q: %w", data.SubmissionKey, err)
	}
	return obs, nil
}

// end reads how a closed workflow ended.
func (e *Executor) end(ctx context.Context, desc *client.WorkflowExecutionDescription, data outside.Data, obs *tool.Observation) error {
	switch desc.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		obs.State = tool.StateCancelled
		return nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		obs.State, obs.Error = tool.StateFailed, outside.Terminated("")
		return nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		obs.State, obs.Error = tool.StateFailed, &tool.Failure{
			Code: outside.CodeTimeout, Message: "the workflow did not end in time", Severity: tool.SeverityError, Class: tool.ClassThirdParty, Retryable: true,
		}
		if desc.HistoryLength <= firstTask+1 { // and the event of its end
			obs.Error.Code, obs.Error.Class = outside.CodeNotPickedUp, tool.ClassSystem
			obs.Error.Message = fmt.Sprintf("no worker of task queue %q took it until its deadline", e.cfg.Tool.TaskQueue)
		}
		return nil
	default:
	}
	ctx, cancel := outside.Look(ctx)
	defer cancel()
	var raw converter.RawValue
	run := e.cfg.Client.GetWorkflow(ctx, desc.WorkflowExecution.ID, desc.WorkflowExecution.RunID)
	err := run.GetWithOptions(ctx, &raw, client.WorkflowRunGetOptions{DisableFollowingRuns: true})
	var failed *temporal.WorkflowExecutionError
	switch {
	case errors.As(err, &failed):
		obs.State, obs.Error = tool.StateFailed, outside.Failure(failed.Unwrap(), CodeFailed)
		return nil
	case err != nil && !errors.Is(err, temporal.ErrNoData):
		return fmt.Errorf("result: %w", err)
	}
	obs.State = tool.StateSucceeded
	obs.Result, err = outside.Result(ctx, e.cfg.Store, data.BlobKey(), raw.Payload())
	return err
}

// current describes the newest run of the chain that a handle names. A job that was started again
// for a later attempt is another chain under the same id; then it is the first run of the old one.
func (e *Executor) current(ctx context.Context, id string, data outside.Data) (*client.WorkflowExecutionDescription, error) {
	desc, err := e.describe(ctx, id, "")
	if err != nil || firstRun(desc) == data.RunID {
		return desc, err
	}
	return e.describe(ctx, id, data.RunID)
}

func superseded(id string) *tool.Failure {
	return &tool.Failure{
		Code: outside.CodeSuperseded, Message: fmt.Sprintf("%q was started again for a later attempt", id), Severity: tool.SeverityError, Class: tool.ClassSystem,
	}
}

// progress asks the workflow, if the tool says how. One that can't answer now just tells nothing.
func (e *Executor) progress(ctx context.Context, desc *client.WorkflowExecutionDescription) outside.Progress {
	if e.cfg.Tool.ProgressQuery == "" || desc.HistoryLength <= firstTask {
		return outside.Progress{}
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	answer, err := e.cfg.Client.QueryWorkflow(ctx, desc.WorkflowExecution.ID, desc.WorkflowExecution.RunID, e.cfg.Tool.ProgressQuery)
	if err != nil {
		return outside.Progress{}
	}
	var raw converter.RawValue
	if answer.Get(&raw) != nil {
		return outside.Progress{}
	}
	return outside.ReadProgress(raw.Payload())
}

// stage says for people what the workflow itself does not.
func (e *Executor) stage(desc *client.WorkflowExecutionDescription) string {
	switch task := desc.RawResponse.GetPendingWorkflowTask(); {
	case desc.Status == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return "paused in Temporal"
	case desc.HistoryLength <= firstTask && task.GetState() != enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED:
		return outside.WaitingStage(e.cfg.Tool.TaskQueue)
	case task.GetAttempt() >= failingTask:
		return "its workflow task keeps failing, Temporal's UI says why"
	}
	return outside.RunningStage
}

// Cancel asks the workflow to end; see [tool.Executor].
func (e *Executor) Cancel(ctx context.Context, h tool.Handle) error {
	data, err := outside.Resolve(Kind, h)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	desc, err := e.current(ctx, h.ID, data)
	if outside.Gone(err) {
		return fmt.Errorf("cancel: %w: id %q", tool.ErrUnknownHandle, h.ID)
	}
	if err == nil && firstRun(desc) == data.RunID && !over(desc.Status) {
		ctx, stop := outside.Look(ctx)
		defer stop()
		// A run that was continued or ended meanwhile is not found. The next Cancel reaches its
		// successor, and a cancel is repeated until the job has ended.
		err = e.cfg.Client.CancelWorkflow(ctx, h.ID, desc.WorkflowExecution.RunID)
	}
	if err != nil && !outside.Gone(err) {
		return fmt.Errorf("cancel %q: %w", data.SubmissionKey, err)
	}
	return nil
}

// Find looks the workflow of a key up; see [tool.Executor].
func (e *Executor) Find(ctx context.Context, submissionKey string) (tool.Handle, bool, error) {
	var desc *client.WorkflowExecutionDescription
	gone, err := outside.Settled(ctx, func(ctx context.Context) (bool, error) {
		var err error
		if desc, err = e.describe(ctx, outside.ID(submissionKey), ""); outside.Gone(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return tool.Handle{}, false, fmt.Errorf("find %q: %w", submissionKey, err)
	}
	if gone {
		return tool.Handle{}, false, nil
	}
	rec, err := recordOf(desc)
	if err != nil || rec.SubmissionKey != submissionKey {
		return tool.Handle{}, false, err
	}
	h, err := outside.Handle(Kind, rec, firstRun(desc))
	return h, err == nil, err
}
