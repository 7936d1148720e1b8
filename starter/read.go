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

// errReopened says that a closed workflow was opened again while it was being read. No
// caller of the client sees it.
var errReopened = errors.New("it was retried meanwhile")

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
	of := c.aTask(taskID)
	return follow(ctx, of, func() (snapshot, error) {
		var s snapshot
		open, err := c.query(ctx, of, &s.desc)
		if err != nil || open {
			return s, err
		}
		return c.readClosed(ctx, taskID)
	})
}

// follow repeats a read of a workflow that is opened again under its hands.
func follow[T any](ctx context.Context, of subject, read func() (T, error)) (T, error) {
	for lap := 0; ; lap++ {
		s, err := read()
		switch {
		case !errors.Is(err, errReopened):
			return s, err
		case lap == maxLaps:
			return s, fail(CodeUnavailable, "repeat the call", "%s closes and opens too fast to be read", of.name)
		}
		if err := pause(ctx, again*time.Duration(lap+1)); err != nil {
			return s, err
		}
	}
}

// subject is the workflow that a read is about, and how errors name it.
type subject struct {
	workflowID, name string
	unknown          func() *Error
	// instead is what to do when it was terminated.
	instead string
}

func (c *Client) aTask(taskID string) subject {
	return subject{c.workflowID(taskID), "task " + taskID, func() *Error { return unknownTask(taskID) }, "submit a new task; what the task knew is in the history of its workflow, in the Temporal UI"}
}

// query asks an open workflow to describe itself. The engine itself refuses the query
// of a closed one, which would otherwise be replayed by a worker from its beginning.
func (c *Client) query(ctx context.Context, of subject, into any) (open bool, err error) {
	wait, cancel := context.WithTimeout(ctx, c.o.QueryTimeout)
	defer cancel()
	resp, err := c.engine.QueryWorkflowWithOptions(wait, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: of.workflowID, QueryType: protocol.QueryDescribe, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err == nil && resp.QueryRejected != nil:
		if resp.QueryRejected.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_PAUSED {
			return false, fail(CodeNoWorker, "unpause the workflow in Temporal", "%s is paused in Temporal", of.name)
		}
		return false, nil
	case err == nil:
		if err := resp.QueryResult.Get(into); err != nil {
			return false, fail(CodeInternal, "", "the answer of %s cannot be read", of.name).because(err)
		}
		return true, nil
	case notFound(err):
		return false, of.unknown().because(err)
	}
	return false, c.silence(ctx, of, err)
}

// silence finds out who did not answer: the engine or the worker.
func (c *Client) silence(ctx context.Context, of subject, err error) error {
	if ctx.Err() != nil || !transient(err) {
		return err
	}
	const quick = 2 * time.Second
	probe, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	if _, up := c.engine.DescribeWorkflow(probe, of.workflowID, ""); up != nil {
		return err
	}
	return fail(CodeNoWorker, hintWorker, "no worker answers for %s", of.name).because(err)
}

// readClosed reads the record of a closed workflow. No worker is needed.
func (c *Client) readClosed(ctx context.Context, taskID string) (snapshot, error) {
	of, rec := c.aTask(taskID), &protocol.TaskRecord{}
	d, err := c.closed(ctx, of, rec, func(err error) (bool, error) { return protocol.RecordFrom(err, rec) })
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

// closed gets the record of a workflow from how it closed: from its result into rec,
// or by from out of the error. errReopened says that it is open.
func (c *Client) closed(ctx context.Context, of subject, rec any, from func(error) (bool, error)) (*client.WorkflowExecutionDescription, error) {
	d, err := c.engine.DescribeWorkflow(ctx, of.workflowID, "")
	switch {
	case err != nil && notFound(err):
		return d, of.unknown().because(err)
	case err != nil:
		return d, err
	}
	switch d.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return d, errReopened
	case enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return d, of.terminated(d.Status)
	default:
	}
	err = c.engine.GetWorkflow(ctx, of.workflowID, d.WorkflowExecution.RunID).Get(ctx, rec)
	if err == nil || ctx.Err() != nil {
		return d, err
	}
	found, broken := from(err)
	switch {
	case found && broken != nil:
		return d, fail(CodeInternal, "look at the workflow in the Temporal UI", "the record of %s cannot be read", of.name).because(broken)
	case found:
		return d, nil
	}
	return d, of.noRecord(err)
}

func (of subject) terminated(status enums.WorkflowExecutionStatus) *Error {
	how := "was terminated"
	if status == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT {
		how = "timed out"
	}
	return fail(CodeTerminated, of.instead, "the workflow of %s %s in Temporal and left no record", of.name, how)
}

// noRecord says why the error that closed a workflow holds no record.
func (of subject) noRecord(err error) error {
	var (
		app    *temporal.ApplicationError
		killed *temporal.TerminatedError
		late   *temporal.TimeoutError
	)
	switch {
	case errors.As(err, &app) && app.Type() == protocol.ErrTypeInvalid:
		return invalid(problemOf(app))
	case errors.As(err, &app):
		return fail(CodeInternal, "look at the workflow in the Temporal UI", "the workflow of %s failed without a record", of.name).because(err)
	case errors.As(err, &killed):
		return of.terminated(enums.WORKFLOW_EXECUTION_STATUS_TERMINATED)
	case errors.As(err, &late):
		return of.terminated(enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT)
	}
	return err
}

// problemOf reads a refusal of bad input that crossed the engine.
func problemOf(app *temporal.ApplicationError) error {
	var p protocol.Problem
	if err := app.Details(&p); err != nil || p.Field == "" {
		return fail(CodeInvalid, "", "%s", app.Message()).because(app)
	}
	return &domain.InvalidError{Field: p.Field, Rule: p.Rule}
}
