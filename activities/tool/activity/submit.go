package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

// maxLife is how long a job without a deadline may take. The server wants some bound.
const maxLife = 365 * 24 * time.Hour

// Submit gets or creates the activity of a key; see [tool.Executor].
func (e *Executor) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	if err := outside.Check(&req); err != nil {
		return tool.Handle{}, err
	}
	rec := outside.NewRecord(e.cfg.Name, req)
	left, late := outside.Left(req.DeadlineAtMs)
	if late != nil {
		return e.adoptLate(ctx, rec, late)
	}
	opts, err := e.options(rec, left)
	if err != nil {
		return tool.Handle{}, err
	}
	args, err := e.cfg.Arguments(req)
	if err != nil {
		return tool.Handle{}, err
	}
	opts.ActivityIDReusePolicy = enumspb.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE
	h, there, err := e.start(ctx, rec, opts, args)
	if !there {
		return h, err
	}
	had, ended, err := e.look(ctx, rec)
	switch {
	case err != nil:
		return tool.Handle{}, err
	case !ended || rec.Attempt <= had.record.Attempt:
		return outside.Handle(e.cfg.Kind, had.record, had.runID)
	}
	// Somebody has decided to repeat what has no result. The server looks again whether that is
	// so; when another Submit was faster, its job is the one.
	opts.ActivityIDReusePolicy = enumspb.ACTIVITY_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	h, there, err = e.start(ctx, rec, opts, args)
	if !there {
		return h, err
	}
	if had, _, err = e.look(ctx, rec); err != nil {
		return tool.Handle{}, err
	}
	return outside.Handle(e.cfg.Kind, had.record, had.runID)
}

// start starts the activity, unless there is one of its id.
func (e *Executor) start(ctx context.Context, rec outside.Record, opts client.StartActivityOptions, args []any) (h tool.Handle, there bool, err error) {
	run, err := e.cfg.Client.ExecuteActivity(ctx, opts, e.cfg.Tool.Type, args...)
	var already *serviceerror.ActivityExecutionAlreadyStarted
	var lacking *serviceerror.Unimplemented
	switch {
	case errors.As(err, &already):
		return tool.Handle{}, true, nil
	case errors.As(err, &lacking):
		return tool.Handle{}, false, outside.NotStarted(outside.CodeNoStandalone,
			"the Temporal server runs no activities without a workflow: it is too old, or activity.enableStandalone is off for the namespace", tool.ClassSystem, err)
	case err != nil:
		return tool.Handle{}, false, outside.StartError(rec.SubmissionKey, err)
	}
	h, err = outside.Handle(e.cfg.Kind, rec, run.GetRunID())
	return h, false, err
}

func (e *Executor) options(rec outside.Record, left time.Duration) (client.StartActivityOptions, error) {
	details, err := json.Marshal(rec)
	if left == 0 {
		left = maxLife
	}
	return client.StartActivityOptions{
		ID: outside.ID(rec.SubmissionKey), TaskQueue: e.cfg.Tool.TaskQueue,
		ScheduleToCloseTimeout: left, StartToCloseTimeout: min(e.cfg.Tool.StartToClose, left), HeartbeatTimeout: e.cfg.Tool.Heartbeat,
		ActivityIDConflictPolicy: enumspb.ACTIVITY_ID_CONFLICT_POLICY_FAIL,
		// The task repeats the work, by its own rules: a try of the server's would be one that the
		// task neither counts nor fences, and could follow an outcome that is not known.
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:     fmt.Sprintf("tool %s for %s", rec.Tool, rec.TaskID),
		// Standalone activities have no memo. This is read back when the key comes again.
		StaticDetails: string(details),
	}, err
}

// found is a job that the server knows.
type found struct {
	record outside.Record
	runID  string
}

// look reads the job of a key that is known to be there. ended says that it is over without a
// result, so that it may be started again.
func (e *Executor) look(ctx context.Context, rec outside.Record) (had found, ended bool, err error) {
	desc, err := e.describe(ctx, outside.ID(rec.SubmissionKey), "", client.DescribeActivityOptions{})
	if err != nil {
		return found{}, false, &tool.AmbiguousError{Op: "submit", SubmissionKey: rec.SubmissionKey, Cause: err}
	}
	if had.record, err = recordOf(desc); err != nil {
		return found{}, false, &tool.AmbiguousError{Op: "submit", SubmissionKey: rec.SubmissionKey, Cause: err}
	}
	had.runID = desc.ActivityRunID
	return had, over(desc.Status) && desc.Status != enumspb.ACTIVITY_EXECUTION_STATUS_COMPLETED, rec.Reused(had.record)
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
	return outside.Handle(e.cfg.Kind, had.record, had.runID)
}

// recordOf reads what was noted with a job. The zero record, which is nobody's, stands for an
// activity of the same id that was not started here.
func recordOf(desc *client.ActivityExecutionDescription) (rec outside.Record, err error) {
	details, err := desc.GetStaticDetails()
	if err != nil {
		return rec, err
	}
	if json.Unmarshal([]byte(details), &rec) != nil {
		return outside.Record{}, nil
	}
	return rec, nil
}

func over(s enumspb.ActivityExecutionStatus) bool {
	return s != enumspb.ACTIVITY_EXECUTION_STATUS_RUNNING && s != enumspb.ACTIVITY_EXECUTION_STATUS_UNSPECIFIED
}

func (e *Executor) describe(ctx context.Context, id, runID string, o client.DescribeActivityOptions) (*client.ActivityExecutionDescription, error) {
	ctx, cancel := outside.Look(ctx)
	defer cancel()
	return e.cfg.Client.GetActivityHandle(client.GetActivityHandleOptions{ActivityID: id, RunID: runID}).Describe(ctx, o)
}
