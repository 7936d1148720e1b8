package starter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var (
	// errNoAnswer says that an update was not answered in time. Whether it will
	// be applied is unknown.
	errNoAnswer = errors.New("nobody answered the update")
	// errClosed says that the workflow has closed or does not exist.
	errClosed = errors.New("the workflow is not open")
)

// typeAborted is the engine's type for an update that was accepted by a workflow
// which closed before it had answered.
const typeAborted = "AcceptedUpdateCompletedWorkflow"

// again is the pause before an update of unknown outcome is sent again.
const again = 100 * time.Millisecond

// message is one update.
type message struct {
	workflowID, name, updateID string
	arg                        any
	// wait is how long its answer may take. Default: UpdateTimeout.
	wait time.Duration
}

// update sends a message and waits for its answer, for at most its time once it is
// this caller's turn. While the outcome is unknown it is sent again under
// the same update id, which applies it once. Errors: what the task refuses, as a
// [domain.RefusedError] or an [ErrInvalid], a run as a [run.RefusedError]; errNoAnswer, errClosed, and the
// engine's.
func (c *Client) update(ctx context.Context, m message, answer any) error {
	leave, err := c.gates.enter(ctx, m.workflowID)
	if err != nil {
		return err
	}
	defer leave()
	wait, cancel := context.WithTimeout(ctx, cmp.Or(m.wait, c.o.UpdateTimeout))
	defer cancel()
	for {
		h, err := c.engine.UpdateWorkflow(wait, client.UpdateWorkflowOptions{
			WorkflowID: m.workflowID, UpdateName: m.name, UpdateID: m.updateID, Args: []any{m.arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = h.Get(wait, answer)
		}
		if err == nil {
			return nil
		}
		if err, known := updateError(err); known {
			return err
		}
		if over(ctx) == nil && over(wait) == nil {
			_ = pause(wait, again)
		}
		switch {
		case over(ctx) != nil:
			return over(ctx)
		case over(wait) != nil:
			return errNoAnswer
		}
	}
}

// updateError reads what came instead of an answer; false means that the outcome
// is unknown.
func updateError(err error) (error, bool) { //nolint:revive // the error is the value here
	var (
		app      *temporal.ApplicationError
		unheard  *client.WorkflowUpdateServiceTimeoutOrCanceledError
		pre      *serviceerror.FailedPrecondition
		notReady *serviceerror.WorkflowNotReady
	)
	switch {
	case errors.As(err, &app):
		return refusal(app), true
	case errors.As(err, &unheard), transient(err), errors.As(err, &notReady):
		// Not ready is a workflow that was just continuing as new, or one whose
		// worker keeps failing on it: only time tells them apart.
		return err, false
	case notFound(err):
		return errClosed, true
	case errors.As(err, &pre):
		// Paused, or nobody polls: waiting would not help.
		return errNoAnswer, true
	}
	return err, true
}

// refusal reads the error of a handler or of its validator.
func refusal(app *temporal.ApplicationError) error {
	switch app.Type() {
	case protocol.ErrTypeInvalid:
		return invalid(problemOf(app))
	case protocol.ErrTypeRefused:
		var out domain.Outcome
		if err := app.Details(&out); err != nil {
			return fail(CodeInternal, "", "a refusal cannot be read").because(err)
		}
		return &domain.RefusedError{Outcome: out}
	case protocol.ErrTypeRunRefused:
		var out run.Outcome
		if err := app.Details(&out); err != nil {
			return fail(CodeInternal, "", "a refusal cannot be read").because(err)
		}
		return &run.RefusedError{Outcome: out}
	case typeAborted:
		return errClosed
	case protocol.ErrTypeTryAgain:
		return fail(CodeUnavailable, "repeat the call", "%s", app.Message())
	}
	return fail(CodeInternal, "check that worker and client are of the same version", "it was refused: %s", app.Message()).because(app)
}

// ask sends an update of a person, who is told what it came to: also a refusal is
// an outcome, its reason says why. ended answers for a task that has closed, and
// silent when no worker does.
func (c *Client) ask(ctx context.Context, taskID string, m message, ended func(domain.Task) (domain.Outcome, error), silent func() (domain.Outcome, error)) (domain.Outcome, error) {
	m.workflowID = c.workflowID(taskID)
	op := m.name + " task " + taskID
	for lap := 0; ; lap++ {
		var out domain.Outcome
		err := c.update(ctx, m, &out)
		var refused *domain.RefusedError
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &refused):
			return refused.Outcome, nil
		case errors.Is(err, errNoAnswer):
			return silent()
		case !errors.Is(err, errClosed):
			return domain.Outcome{}, engineError(ctx, op, err)
		}
		s, err := c.readAfter(ctx, taskID, lap)
		if err != nil {
			return domain.Outcome{}, err
		}
		if s.closed() {
			return ended(s.record.Task)
		}
	}
}

// readAfter reads a task whose workflow was just said not to be open. If it is
// open after all, it was closing or being reopened, and the caller tries again.
func (c *Client) readAfter(ctx context.Context, taskID string, lap int) (snapshot, error) {
	s, err := c.read(ctx, taskID)
	switch {
	case err != nil || s.closed():
		return s, err
	case lap == maxLaps:
		return s, fail(CodeUnavailable, "repeat the call", "task %s closes and opens too fast to be talked to", taskID)
	}
	return s, pause(ctx, again*time.Duration(lap+1))
}

func (c *Client) noWorker(taskID, hint string) error {
	return fail(CodeNoWorker, hint, "no worker answered for task %s within %s", taskID, c.o.UpdateTimeout)
}
