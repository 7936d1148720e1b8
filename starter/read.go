package starter

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// snapshot is a task at one moment.
type snapshot struct {
	desc protocol.Description
	// record is set for a task whose workflow has closed.
	record *protocol.TaskRecord
	// runID is of the closed run.
	runID string
	// status is how it closed.
	status enums.WorkflowExecutionStatus
}

func (s snapshot) closed() bool { return s.record != nil }

// ended says that nothing will change the task by itself any more.
func (s snapshot) ended() bool { return s.desc.Task.State.Terminal() }

// errReopened says that a closed task was retried while it was being read.
var errReopened = errors.New("the task was retried meanwhile")

// maxLaps bounds how often a read or a callback follows a task that closes and is
// reopened under its hands.
const maxLaps = 5

// read gives a task as it is now: by query while its workflow is open, from the
// workflow's result once it has closed. All readers of a task share one query,
// because the engine buffers only one for each workflow.
func (c *Client) read(ctx context.Context, taskID string) (snapshot, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return snapshot{}, invalid(err)
	}
	id := c.workflowID(taskID)
	s, err := c.reads.do(ctx, id, func(ctx context.Context) (snapshot, error) { return c.readNow(ctx, taskID) })
	if err != nil {
		return snapshot{}, engineError(ctx, "read task "+taskID, err)
	}
	return s, nil
}

func (c *Client) readNow(ctx context.Context, taskID string) (snapshot, error) {
	for lap := 0; ; lap++ {
		desc, open, err := c.query(ctx, taskID)
		if err != nil {
			return snapshot{}, err
		}
		if open {
			return snapshot{desc: desc}, nil
		}
		s, err := c.readClosed(ctx, taskID)
		if !errors.Is(err, errReopened) || lap == maxLaps {
			return s, err
		}
	}
}

// query asks an open workflow. The engine itself refuses the query of a closed
// one, which would otherwise be replayed by a worker from its beginning.
func (c *Client) query(ctx context.Context, taskID string) (protocol.Description, bool, error) {
	wait, cancel := context.WithTimeout(ctx, c.o.QueryTimeout)
	defer cancel()
	resp, err := c.engine.QueryWorkflowWithOptions(wait, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: c.workflowID(taskID), QueryType: protocol.QueryDescribe, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err == nil && resp.QueryRejected != nil:
		if resp.QueryRejected.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_PAUSED {
			return protocol.Description{}, false, fail(CodeNoWorker, "unpause the workflow in Temporal", "task %s is paused in Temporal", taskID)
		}
		return protocol.Description{}, false, nil
	case err == nil:
		var d protocol.Description
		if err := resp.QueryResult.Get(&d); err != nil {
			return protocol.Description{}, false, fail(CodeInternal, "", "the answer of task %s cannot be read", taskID).because(err)
		}
		return d, true, nil
	case notFound(err):
		return protocol.Description{}, false, unknownTask(taskID).because(err)
	}
	return protocol.Description{}, false, c.silence(ctx, taskID, err)
}

// silence finds out who did not answer: the engine or the worker.
func (c *Client) silence(ctx context.Context, taskID string, err error) error {
	if ctx.Err() != nil || !transient(err) {
		return err
	}
	const quick = 2 * time.Second
	probe, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	if _, up := c.engine.DescribeWorkflow(probe, c.workflowID(taskID), ""); up != nil {
		return err
	}
	return fail(CodeNoWorker, hintWorker, "no worker answers for task %s", taskID).because(err)
}

// readClosed reads the record of a closed workflow. No worker is needed.
func (c *Client) readClosed(ctx context.Context, taskID string) (snapshot, error) {
	d, err := c.engine.DescribeWorkflow(ctx, c.workflowID(taskID), "")
	switch {
	case err != nil && notFound(err):
		return snapshot{}, unknownTask(taskID).because(err)
	case err != nil:
		return snapshot{}, err
	}
	switch d.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return snapshot{}, errReopened
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return snapshot{}, terminated(taskID, d.Status)
	default:
	}
	rec, err := c.recordOf(ctx, taskID, d.WorkflowExecution.RunID)
	if err != nil {
		return snapshot{}, err
	}
	v := domain.Describe(rec.Task, c.o.Now())
	if rec.Ledger == nil {
		rec.Ledger = &domain.Ledger{}
	}
	v.Repeats, v.Conflicts = rec.Ledger.Repeats, rec.Ledger.Conflicts
	return snapshot{
		desc:   protocol.Description{View: v, Handle: rec.Handle, Targets: rec.Targets, ServerTimeMs: c.o.Now()},
		record: rec, runID: d.WorkflowExecution.RunID, status: d.Status,
	}, nil
}

func terminated(taskID string, status enums.WorkflowExecutionStatus) *Error {
	how := "was terminated"
	if status == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
		how = "timed out"
	}
	return fail(CodeTerminated, "submit a new task; what the task knew is in the history of its workflow, in the Temporal UI",
		"the workflow of task %s %s in Temporal and left no record", taskID, how)
}

// recordOf gets the record from how a run closed.
func (c *Client) recordOf(ctx context.Context, taskID, runID string) (*protocol.TaskRecord, error) {
	rec := &protocol.TaskRecord{}
	err := c.engine.GetWorkflow(ctx, c.workflowID(taskID), runID).Get(ctx, rec)
	if err == nil {
		return rec, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	return rec, c.recordFrom(taskID, err, rec)
}

// recordFrom takes the record out of the error that closed a run.
func (c *Client) recordFrom(taskID string, err error, rec *protocol.TaskRecord) error {
	if found, broken := protocol.RecordFrom(err, rec); found {
		return c.decoded(taskID, broken)
	}
	var (
		app    *temporal.ApplicationError
		killed *temporal.TerminatedError
		late   *temporal.TimeoutError
	)
	switch {
	case errors.As(err, &app) && app.Type() == protocol.ErrTypeInvalid:
		return invalid(problemOf(app))
	case errors.As(err, &app):
		return fail(CodeInternal, "look at the workflow in the Temporal UI", "the workflow of task %s failed without a record", taskID).because(err)
	case errors.As(err, &killed):
		return terminated(taskID, enums.WORKFLOW_EXECUTION_STATUS_TERMINATED)
	case errors.As(err, &late):
		return terminated(taskID, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT)
	}
	return err
}

func (c *Client) decoded(taskID string, err error) error {
	if err == nil {
		return nil
	}
	return fail(CodeInternal, "look at the workflow in the Temporal UI", "the record of task %s cannot be read", taskID).because(err)
}

// problemOf reads a refusal of bad input that crossed the engine.
func problemOf(app *temporal.ApplicationError) error {
	var p protocol.Problem
	if err := app.Details(&p); err != nil || p.Field == "" {
		return fail(CodeInvalid, "", "%s", app.Message()).because(app)
	}
	return &domain.InvalidError{Field: p.Field, Rule: p.Rule}
}
