package activity

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

// CodeFailed is the code of a failure whose type says nothing.
const CodeFailed = "ACTIVITY_FAILED"

// Observe asks the server about the activity; see [tool.Executor].
func (e *Executor) Observe(ctx context.Context, h tool.Handle) (tool.Observation, error) {
	data, err := outside.Resolve(e.cfg.Kind, h)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe: %w", err)
	}
	desc, err := e.describe(ctx, h.ID, data.RunID, client.DescribeActivityOptions{IncludeOutcome: true, IncludeHeartbeatDetails: true})
	if outside.Gone(err) {
		return outside.Unknown(h.ID), nil
	}
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe %q: %w", data.SubmissionKey, err)
	}
	info := desc.RawResponse.GetInfo()
	obs := tool.Observation{Attempt: data.Attempt, Worker: desc.LastWorkerIdentity}
	obs.LastSeenAtMs = max(desc.LastHeartbeatTime.UnixMilli(), desc.LastStartedTime.UnixMilli(), 0)
	said := progressOf(desc)
	obs.Progress, obs.Stage = said.Percent, said.Stage
	if !over(desc.Status) {
		obs.State = tool.StateRunning
		if obs.Stage == "" {
			obs.Stage = e.stage(desc)
		}
		return obs, nil
	}
	obs.LastSeenAtMs, obs.Definite = desc.CloseTime.UnixMilli(), true
	// A task is only given to a worker after this was written down.
	started := info.GetLastStartedTime() != nil
	cause := desc.GetOutcomeFailure()
	switch desc.Status {
	case enumspb.ACTIVITY_EXECUTION_STATUS_COMPLETED:
		var raw converter.RawValue
		if err := desc.GetResult(&raw); err != nil && !errors.Is(err, temporal.ErrNoData) {
			return tool.Observation{}, fmt.Errorf("observe %q: result: %w", data.SubmissionKey, err)
		}
		obs.State = tool.StateSucceeded
		if obs.Result, err = outside.Result(ctx, e.cfg.Store, data.BlobKey(), raw.Payload()); err != nil {
			return tool.Observation{}, fmt.Errorf("observe %q: %w", data.SubmissionKey, err)
		}
	case enumspb.ACTIVITY_EXECUTION_STATUS_CANCELED:
		obs.State = tool.StateCancelled
	case enumspb.ACTIVITY_EXECUTION_STATUS_TIMED_OUT:
		e.timedOut(&obs, started, cause)
	case enumspb.ACTIVITY_EXECUTION_STATUS_TERMINATED:
		// Whoever ended it by hand does not want it repeated, but its worker was not even told.
		obs.State, obs.Definite = tool.StateFailed, !started
		obs.Error = outside.Terminated(desc.RawResponse.GetOutcome().GetFailure().GetMessage())
	default:
		obs.State, obs.Error = tool.StateFailed, outside.Failure(cause, CodeFailed)
		if outside.Interrupted(cause) {
			obs.State, obs.Definite = tool.StateLost, false
			obs.Error.Code, obs.Error.Class = outside.CodeWorkerLost, tool.ClassSystem
		}
	}
	return obs, nil
}

// timedOut tells a job that never began, which is a definite failure, from one that the server has
// given up: that left no word, and its worker may even be at it still.
func (e *Executor) timedOut(obs *tool.Observation, started bool, cause error) {
	obs.Error = &tool.Failure{Severity: tool.SeverityError, Class: tool.ClassSystem, Retryable: true}
	late, _ := outside.TimedOut(cause)
	switch {
	case !started:
		obs.State, obs.Error.Code = tool.StateFailed, outside.CodeNotPickedUp
		obs.Error.Message = fmt.Sprintf("no worker of task queue %q took it until its deadline", e.cfg.Tool.TaskQueue)
	case late != nil && late.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		obs.State, obs.Definite, obs.MayRun, obs.Error.Code = tool.StateLost, false, true, outside.CodeWorkerLost
		obs.Error.Message = fmt.Sprintf("worker %q sent no heartbeat for %v", obs.Worker, e.cfg.Tool.Heartbeat)
	default:
		obs.State, obs.Definite, obs.MayRun, obs.Error.Code = tool.StateLost, false, true, outside.CodeTimeout
		obs.Error.Message = fmt.Sprintf("worker %q did not end it in time", obs.Worker)
	}
}

// stage says for people what the activity itself does not.
func (e *Executor) stage(desc *client.ActivityExecutionDescription) string {
	switch desc.RunState {
	case enumspb.PENDING_ACTIVITY_STATE_PAUSED, enumspb.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED:
		return "paused in Temporal"
	case enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		return outside.WaitingStage(e.cfg.Tool.TaskQueue)
	default:
		return outside.RunningStage
	}
}

func progressOf(desc *client.ActivityExecutionDescription) outside.Progress {
	var raw converter.RawValue
	if !desc.HasHeartbeatDetails() || desc.GetHeartbeatDetails(&raw) != nil {
		return outside.Progress{}
	}
	return outside.ReadProgress(raw.Payload())
}

// Cancel asks the activity to end; it learns of it with its next heartbeat. See [tool.Executor].
func (e *Executor) Cancel(ctx context.Context, h tool.Handle) error {
	data, err := outside.Resolve(e.cfg.Kind, h)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	ctx, stop := outside.Look(ctx)
	defer stop()
	run := e.cfg.Client.GetActivityHandle(client.GetActivityHandleOptions{ActivityID: h.ID, RunID: data.RunID})
	err = run.Cancel(ctx, client.CancelActivityOptions{Reason: outside.CancelReason})
	var past *serviceerror.FailedPrecondition
	switch {
	case err == nil, errors.As(err, &past): // it is over, or was asked before
		return nil
	case outside.Gone(err):
		return fmt.Errorf("cancel: %w: id %q", tool.ErrUnknownHandle, h.ID)
	}
	return fmt.Errorf("cancel %q: %w", data.SubmissionKey, err)
}

// Find looks the activity of a key up; see [tool.Executor].
func (e *Executor) Find(ctx context.Context, submissionKey string) (tool.Handle, bool, error) {
	var desc *client.ActivityExecutionDescription
	gone, err := outside.Settled(ctx, func(ctx context.Context) (bool, error) {
		var err error
		if desc, err = e.describe(ctx, outside.ID(submissionKey), "", client.DescribeActivityOptions{}); outside.Gone(err) {
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
	h, err := outside.Handle(e.cfg.Kind, rec, desc.ActivityRunID)
	return h, err == nil, err
}
