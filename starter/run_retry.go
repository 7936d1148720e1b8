package starter

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// RunRetry asks for a run that failed or expired to go on.
type RunRetry struct {
	// TTL is the time to live from the retry on. Default: that of the runtime.
	TTL time.Duration
	// Limits that are higher than those of the run replace them: a limit that struck
	// strikes again otherwise. Default: they stay.
	Limits *run.Limits
	// By and Reason say who asks for it and why.
	By     string
	Reason string
}

// RunRetried answers a retry.
type RunRetried struct {
	RunID string `json:"runId"`
	// State and Version are the run's, empty while no worker has told.
	State   run.State `json:"state,omitempty"`
	Version int64     `json:"version,omitempty"`
	// Existing says that somebody else's retry of the run is under way.
	Existing    bool  `json:"existing"`
	ExpiresAtMs int64 `json:"expiresAtMs,omitempty"`
	// Note is for people: what the retry does not do.
	Note string `json:"note,omitempty"`
}

// RetryRun lets a run that failed or expired go on from its last checkpoint, with the
// step that it had and a new deadline. Of two operators who retry at once one does it,
// the other is told of it. Errors: invalid-request, unknown-run, not-retryable,
// not-ended, terminated, no-worker, unavailable.
func (c *Client) RetryRun(ctx context.Context, runID string, r RunRetry) (RunRetried, error) {
	if err := checkPerson(r.By, r.Reason); err != nil {
		return RunRetried{}, err
	}
	asked := -1
	for lap := 0; ; lap++ {
		s, err := c.readRun(ctx, runID)
		if err != nil {
			return RunRetried{}, err
		}
		was := s.desc.Run
		// Somebody else's retry that came after the question is its answer, also when
		// that one has ended by now.
		if asked >= 0 && was.Retries > asked || was.Retries > 0 && !s.ended() {
			return runRetried(was, true), nil
		}
		asked = was.Retries
		out, err := c.retryRun(ctx, runID, s, r)
		switch {
		case !errors.Is(err, errReopened):
			return out, engineError(ctx, "retry run "+runID, err)
		case lap == maxLaps:
			return RunRetried{}, fail(CodeUnavailable, "repeat the call", "run %s closes and opens too fast to be retried", runID)
		}
		if err := pause(ctx, again*time.Duration(lap+1)); err != nil {
			return RunRetried{}, err
		}
	}
}

// retryRun starts a new run of the workflow under the same id, with the record of the
// closed one. The engine lets one such run begin, and refuses when the closed one was
// completed.
func (c *Client) retryRun(ctx context.Context, runID string, s runSnapshot, r RunRetry) (RunRetried, error) {
	req, err := c.runRetryOf(s.desc.Run, r)
	if err != nil {
		return RunRetried{}, err
	}
	tr, err := run.Apply(s.desc.Run, run.Event{Type: run.EventRetry, AtMs: req.AtMs, TTLMs: req.TTLMs, Limits: req.Limits, By: req.By, Reason: req.Reason})
	switch {
	case err != nil:
		return RunRetried{}, invalid(err)
	case !s.ended():
		return RunRetried{}, fail(CodeNotEnded, "wait for its end, or cancel it first", "run %s %s", runID, RunStanding(s.desc.Run.State))
	case !tr.Outcome.Changed:
		return RunRetried{}, fail(CodeNotRetryable, "start a new run", "run %s %s", runID, RunStanding(s.desc.Run.State))
	case !s.closed():
		// It has ended and is about to close.
		return RunRetried{}, errReopened
	}
	workflowID := c.runWorkflowID(runID)
	var in protocol.RunInput
	if err := c.inputOf(ctx, workflowID, s.workflowRunID, &in); err != nil {
		return RunRetried{}, err
	}
	if rt, ok := c.o.Config.Runtime(in.Create.Runtime); ok {
		// The runtime may have moved since.
		in.Runtime = rt.Binding()
	}
	in.Carry = &protocol.RunCarry{Run: s.record.Run, Retry: &req}
	in.Revision = protocol.RunRevision
	options := c.runOptions(in.Create, in.Fingerprint)
	options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	if err := c.stillLast(ctx, workflowID, s.workflowRunID, &options); err != nil {
		return RunRetried{}, err
	}
	_, err = c.engine.ExecuteWorkflow(ctx, options, protocol.WorkflowAgentRun, in)
	switch {
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		return c.runRetriedMeanwhile(ctx, runID)
	case err != nil:
		return RunRetried{}, err
	}
	return runRetried(tr.Run, false), nil
}

// runRetryOf checks what was asked for.
func (c *Client) runRetryOf(was run.Run, r RunRetry) (protocol.RunRetry, error) {
	ttl := c.o.Config.RunDefaults().TTLMs
	if rt, ok := c.o.Config.Runtime(was.Runtime); ok {
		ttl = rt.CreateDefaults().TTLMs
	}
	if err := c.checkRunTTL(r.TTL); err != nil {
		return protocol.RunRetry{}, invalid(err)
	}
	if r.TTL > 0 {
		ttl = r.TTL.Milliseconds()
	}
	if l := r.Limits; l != nil {
		switch {
		case l.MaxSteps < 0 || l.MaxCalls < 0 || l.MaxOpenCalls < 0 || l.MaxTokens < 0 || !(l.MaxCostUSD >= 0):
			return protocol.RunRetry{}, invalidf("limits", "must be >= 0")
		case l.MaxOpenCalls > run.MaxOpen:
			return protocol.RunRetry{}, invalidf("limits.maxOpenCalls", "must be at most %d, it is %d", run.MaxOpen, l.MaxOpenCalls)
		}
	}
	return protocol.RunRetry{TTLMs: ttl, Limits: r.Limits, By: r.By, Reason: r.Reason, AtMs: c.o.Now()}, nil
}

func runRetried(r run.Run, existing bool) RunRetried {
	out := RunRetried{RunID: r.ID, State: r.State, Version: r.Version, Existing: existing, ExpiresAtMs: r.ExpiresAtMs}
	if r.Parent != nil {
		out.Note = "run " + r.Parent.RunID + ", which asked for it, may have consumed the failure already; then it does not get the later answer"
	}
	return out
}

// runRetriedMeanwhile answers the slower of two operators, also when nobody can say how
// far the faster one's retry has come.
func (c *Client) runRetriedMeanwhile(ctx context.Context, runID string) (RunRetried, error) {
	s, err := c.readRun(ctx, runID)
	switch {
	case errors.Is(err, ErrNoWorker):
		return RunRetried{RunID: runID, Existing: true}, nil
	case err != nil:
		return RunRetried{}, err
	}
	return runRetried(s.desc.Run, true), nil
}
