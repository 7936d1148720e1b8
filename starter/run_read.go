package starter

import (
	"context"
	"errors"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// runSnapshot is a run at one moment.
type runSnapshot struct {
	desc protocol.RunDescription
	// record is set for a run whose workflow has closed, workflowRunID is then of it.
	record        *protocol.RunRecord
	workflowRunID string
}

func (s runSnapshot) closed() bool { return s.record != nil }

// ended says that nothing will change the run by itself any more.
func (s runSnapshot) ended() bool { return s.desc.Run.State.Terminal() }

func (c *Client) runWorkflowID(runID string) string { return protocol.RunWorkflowID(c.o.Tenant, runID) }

func (c *Client) aRun(runID string) subject {
	return subject{c.runWorkflowID(runID), "run " + runID, func() *Error { return unknownRun(runID) }, "start a new run; what the run knew is in the history of its workflow, in the Temporal UI"}
}

func unknownRun(runID string) *Error {
	return fail(CodeUnknownRun, "check the id and the tenant; runs are forgotten when the engine's retention ends", "there is no run %s", runID)
}

// RunStanding says in words how a run stands: "waits for tools", "has succeeded".
func RunStanding(s run.State) string {
	switch s {
	case run.StateRunning:
		return "is running"
	case run.StateWaitingTool:
		return "waits for tools"
	case run.StateWaitingInput:
		return "waits for a person"
	case run.StatePaused:
		return "is paused"
	case run.StateSucceeded:
		return "has succeeded"
	case run.StateFailed:
		return "has failed"
	case run.StateCancelled:
		return "was cancelled"
	case run.StateExpired:
		return "has expired"
	}
	return "is " + string(s)
}

// readRun gives a run as it is now: by query while its workflow is open, from the
// workflow's result once it has closed. All readers of a run share one query.
func (c *Client) readRun(ctx context.Context, runID string) (runSnapshot, error) {
	if err := domain.CheckID("runId", runID); err != nil {
		return runSnapshot{}, invalid(err)
	}
	s, err := c.runReads.do(ctx, c.runWorkflowID(runID), func(ctx context.Context) (runSnapshot, error) { return c.readRunNow(ctx, runID) })
	if err != nil {
		return runSnapshot{}, engineError(ctx, "read run "+runID, err)
	}
	return s, nil
}

func (c *Client) readRunNow(ctx context.Context, runID string) (runSnapshot, error) {
	of := c.aRun(runID)
	return follow(ctx, of, func() (runSnapshot, error) {
		var s runSnapshot
		open, err := c.query(ctx, of, &s.desc)
		if err != nil || open {
			return s, err
		}
		return c.readClosedRun(ctx, runID)
	})
}

// readClosedRun reads the record of a run. No worker is needed.
func (c *Client) readClosedRun(ctx context.Context, runID string) (runSnapshot, error) {
	rec := &protocol.RunRecord{}
	d, err := c.closed(ctx, c.aRun(runID), rec, func(err error) (bool, error) { return protocol.RunRecordFrom(err, rec) })
	if err != nil {
		return runSnapshot{}, err
	}
	return runSnapshot{
		desc:   protocol.RunDescription{Run: rec.Run, Runtime: rec.Runtime, ServerTimeMs: c.o.Now()},
		record: rec, workflowRunID: d.WorkflowExecution.RunID,
	}, nil
}

// readRunAfter reads a run whose workflow was just said not to be open. If it is open
// after all, the caller tries again.
func (c *Client) readRunAfter(ctx context.Context, runID string, lap int) (runSnapshot, error) {
	s, err := c.readRun(ctx, runID)
	switch {
	case err != nil || s.closed():
		return s, err
	case lap == maxLaps:
		return s, fail(CodeUnavailable, "repeat the call", "run %s closes and opens too fast to be talked to", runID)
	}
	return s, pause(ctx, again*time.Duration(lap+1))
}

// askRun sends an update to a run. Once the run has closed, ended answers from its
// record; when no worker answers, silent does, or it is an error. A refusal comes as a
// [run.RefusedError].
func (c *Client) askRun(ctx context.Context, runID string, m message, answer any, ended func(protocol.RunRecord) error, silent func() error) error {
	if err := domain.CheckID("runId", runID); err != nil {
		return invalid(err)
	}
	m.workflowID = c.runWorkflowID(runID)
	op := m.name + " run " + runID
	for lap := 0; ; lap++ {
		err := c.update(ctx, m, answer)
		var refused *run.RefusedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			return refused
		case errors.Is(err, errNoAnswer):
			if silent == nil {
				return c.noWorkerForRun(runID, m.wait)
			}
			if err = silent(); err == nil {
				return nil
			}
		}
		if !errors.Is(err, errClosed) {
			return engineError(ctx, op, err)
		}
		s, err := c.readRunAfter(ctx, runID, lap)
		if err != nil {
			return err
		}
		if s.closed() {
			return ended(*s.record)
		}
	}
}

func (c *Client) noWorkerForRun(runID string, wait time.Duration) error {
	if wait == 0 {
		wait = c.o.UpdateTimeout
	}
	return fail(CodeNoWorker, hintWorker, "no worker answered for run %s within %s", runID, wait)
}

// runOutcome is what an event would come to.
func runOutcome(r run.Run, e run.Event) (run.Outcome, error) {
	tr, err := run.Apply(r, e)
	if err != nil {
		return run.Outcome{}, invalid(err)
	}
	return tr.Outcome, nil
}
