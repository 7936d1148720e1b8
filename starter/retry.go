package starter

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Retry asks for one more attempt of a task that has ended.
type Retry struct {
	// TTL is the time to live from the retry on. Default: the tool's.
	TTL time.Duration
	// By and Reason say who asks for it and why.
	By     string
	Reason string
}

// Retried answers a retry.
type Retried struct {
	TaskID string `json:"taskId"`
	// State and Version are the task's, empty while no worker has told.
	State   domain.State `json:"state,omitempty"`
	Version int64        `json:"version,omitempty"`
	// Existing says that somebody else's retry of the task is under way: none was
	// added.
	Existing    bool  `json:"existing"`
	ExpiresAtMs int64 `json:"expiresAtMs,omitempty"`
	// Note is for people: what the retry does not do.
	Note string `json:"note,omitempty"`
}

// Retry adds an attempt and a new deadline to a task that failed, expired or was
// cancelled. Its version and what it knows of callbacks go on. Of two operators
// who retry at once one adds the attempt, the other is told of it. Errors:
// invalid-request, unknown-task, not-retryable, not-ended, terminated, no-worker,
// unavailable.
func (c *Client) Retry(ctx context.Context, taskID string, r Retry) (Retried, error) {
	if err := checkPerson(r.By, r.Reason); err != nil {
		return Retried{}, err
	}
	asked := -1
	for lap := 0; ; lap++ {
		s, err := c.read(ctx, taskID)
		if err != nil {
			return Retried{}, err
		}
		// Somebody else's retry that came after the question is its answer, also
		// when that attempt has ended by now.
		if asked >= 0 && s.desc.Task.Retries > asked {
			return retried(s.desc.Task, true), nil
		}
		asked = s.desc.Task.Retries
		req, err := c.retryOf(s.desc.Task, r)
		if err != nil {
			return Retried{}, err
		}
		var out Retried
		if s.closed() {
			out, err = c.retryClosed(ctx, taskID, s, req)
		} else {
			out, err = c.retryOpen(ctx, taskID, s.desc.Task, req)
		}
		moved := errors.Is(err, errClosed) || errors.Is(err, errReopened)
		switch {
		case !moved:
			return out, engineError(ctx, "retry task "+taskID, err)
		case lap == maxLaps:
			return Retried{}, fail(CodeUnavailable, "repeat the call", "task %s closes and opens too fast to be retried", taskID)
		}
		if err := pause(ctx, again*time.Duration(lap+1)); err != nil {
			return Retried{}, err
		}
	}
}

// retryOf checks what was asked for against the task and its tool.
func (c *Client) retryOf(t domain.Task, r Retry) (protocol.Retry, error) {
	ttl, most := config.DefaultTTL, c.o.Config.MaxTTL
	if tool, ok := c.o.Config.Tool(t.Tool); ok {
		ttl, most = tool.TTL, tool.MaxTTL
	}
	if r.TTL != 0 {
		ttl = r.TTL
	}
	switch {
	case ttl < time.Millisecond:
		return protocol.Retry{}, invalidf("ttlMs", "must be > 0, it is %s", ttl)
	case ttl > most:
		return protocol.Retry{}, invalidf("ttlMs", "must be at most %s, it is %s", config.FormatDuration(most), ttl)
	}
	return protocol.Retry{TTLMs: ttl.Milliseconds(), By: r.By, Reason: r.Reason, AtMs: c.o.Now()}, nil
}

// judgeRetry says what the rules say to a retry of this task.
func judgeRetry(taskID string, t domain.Task, r protocol.Retry) (domain.Task, error) {
	tr, err := domain.Apply(t, domain.Event{Type: domain.EventRetry, AtMs: r.AtMs, TTLMs: r.TTLMs, By: r.By, Reason: r.Reason})
	if err != nil {
		return t, invalid(err)
	}
	if tr.Changed {
		return tr.Task, nil
	}
	return t, retryRefused(taskID, tr.Reason, t.State)
}

func retryRefused(taskID string, why domain.Reason, state domain.State) error {
	if why == domain.ReasonNotRetryable {
		return fail(CodeNotRetryable, "take its result, or submit a new task", "task %s %s", taskID, Standing(state))
	}
	return fail(CodeNotEnded, "wait for its end, or cancel it first", "task %s %s", taskID, Standing(state))
}

// retryOpen is for a task whose workflow is open: it waits for a late result, or
// it has been retried already.
func (c *Client) retryOpen(ctx context.Context, taskID string, t domain.Task, req protocol.Retry) (Retried, error) {
	if t.Retries > 0 && !t.State.Terminal() {
		return retried(t, true), nil
	}
	if _, err := judgeRetry(taskID, t, req); err != nil {
		return Retried{}, err
	}
	var out domain.Outcome
	err := c.update(ctx, message{workflowID: c.workflowID(taskID), name: protocol.UpdateRetry, updateID: once(), arg: req}, &out)
	var refused *domain.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Outcome.Reason == domain.ReasonNotEnded:
		// It had ended when it was read, so somebody else was faster.
		return c.retriedMeanwhile(ctx, taskID)
	case errors.As(err, &refused):
		return Retried{}, retryRefused(taskID, refused.Outcome.Reason, refused.Outcome.State)
	case errors.Is(err, errNoAnswer):
		return Retried{}, c.noWorker(taskID, hintWorker)
	case err != nil:
		return Retried{}, err
	}
	after := retried(t, false)
	after.State, after.Version, after.ExpiresAtMs = out.State, out.Version, req.AtMs+req.TTLMs
	return after, nil
}

func retried(t domain.Task, existing bool) Retried {
	r := Retried{TaskID: t.ID, State: t.State, Version: t.Version, Existing: existing, ExpiresAtMs: t.ExpiresAtMs}
	if t.RunID != "" {
		r.Note = "run " + t.RunID + " may have consumed the failure already; then it does not get the later result"
	}
	return r
}

// retriedMeanwhile answers the slower of two operators, also when nobody can say
// how far the faster one's attempt has come.
func (c *Client) retriedMeanwhile(ctx context.Context, taskID string) (Retried, error) {
	s, err := c.read(ctx, taskID)
	switch {
	case errors.Is(err, ErrNoWorker):
		return Retried{TaskID: taskID, Existing: true}, nil
	case err != nil:
		return Retried{}, err
	}
	return retried(s.desc.Task, true), nil
}

// retryClosed starts a new run under the same id, with the record of the closed
// one. The engine lets one such run begin and refuses when the closed one was
// completed.
func (c *Client) retryClosed(ctx context.Context, taskID string, s snapshot, req protocol.Retry) (Retried, error) {
	after, err := judgeRetry(taskID, s.record.Task, req)
	if err != nil {
		return Retried{}, err
	}
	in, err := c.firstInput(ctx, taskID, s.runID)
	if err != nil {
		return Retried{}, err
	}
	if tool, ok := c.o.Config.Tool(in.Create.Tool); ok {
		// The tool may have moved since; its work is done where it is now.
		in.Tool = tool.Binding()
	}
	in.Carry = &protocol.Carry{Task: s.record.Task, Ledger: s.record.Ledger, Targets: s.record.Targets, Retry: &req, Begun: s.record.Begun}
	in.Revision = protocol.Revision
	options := c.startOptions(in.Create, in.Fingerprint)
	options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
	if err := c.stillLast(ctx, c.workflowID(taskID), s.runID, &options); err != nil {
		return Retried{}, err
	}
	_, err = c.engine.ExecuteWorkflow(ctx, options, protocol.WorkflowAsyncTask, in)
	switch {
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		return c.retriedMeanwhile(ctx, taskID)
	case err != nil:
		return Retried{}, err
	}
	return retried(after, false), nil
}

// stillLast makes sure that no other retry began and ended since the record was
// read: the engine would let this one begin, with an old record. It also carries
// over what the UI shows, and who was the first to ask. Between this look and the start an attempt would have to
// begin and fail within one call; see docs/rough-edges.md.
func (c *Client) stillLast(ctx context.Context, workflowID, runID string, options *client.StartWorkflowOptions) error {
	d, err := c.engine.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return err
	}
	if d.WorkflowExecution.RunID != runID {
		return errReopened
	}
	if shown, err := d.GetStaticDetails(); err == nil {
		options.StaticDetails = shown
	}
	if first, err := c.memo(d, protocol.MemoWaiter); err == nil {
		options.Memo[protocol.MemoWaiter] = first
	}
	return nil
}

// firstInput reads what a run was started with from the first event of its
// history: the tool's input and its binding stand nowhere else.
func (c *Client) firstInput(ctx context.Context, taskID, runID string) (protocol.TaskInput, error) {
	var in protocol.TaskInput
	err := c.inputOf(ctx, c.workflowID(taskID), runID, &in)
	return in, err
}

func (c *Client) inputOf(ctx context.Context, workflowID, runID string, in any) error {
	history := c.engine.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !history.HasNext() {
		return fail(CodeInternal, "", "the history of workflow %s is empty", workflowID)
	}
	event, err := history.Next()
	if err != nil {
		return err
	}
	started := event.GetWorkflowExecutionStartedEventAttributes()
	if err := c.o.DataConverter.FromPayloads(started.GetInput(), in); err != nil {
		return fail(CodeInternal, "", "the input of workflow %s cannot be read", workflowID).because(err)
	}
	return nil
}
