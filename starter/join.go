package starter

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// waiterOf is who asks, as one of those who wait. A run that names no waiter of
// its own is known by itself and its call, so that asking again is no second one.
func waiterOf(s Submission) *domain.Waiter {
	w := domain.Waiter{ID: s.WaiterID, RunID: s.RunID, ToolCallID: s.ToolCallID}
	if w.ID == "" {
		if s.RunID == "" {
			return nil
		}
		// Run ids and call ids together may be longer than an id, and calls hold any
		// character.
		sum := sha256.Sum256([]byte(s.RunID + "\x00" + s.ToolCallID))
		w.ID = "run_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
	}
	return &w
}

// found is a task that somebody had started before.
type found struct {
	taskID    string
	described *client.WorkflowExecutionDescription
	// s is how the task stands, if told says that anybody could tell; else err is why
	// not.
	s    snapshot
	told bool
	err  error
}

func (c *Client) found(ctx context.Context, taskID string, d *client.WorkflowExecutionDescription) found {
	f := found{taskID: taskID, described: d}
	c.tells(ctx, &f)
	return f
}

// tells finds out how a task stands, as far as that can be done soon.
func (c *Client) tells(ctx context.Context, f *found) bool {
	if f.told {
		return true
	}
	const soon = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	s, err := c.read(ctx, f.taskID)
	f.s, f.told, f.err = s, err == nil, err
	return f.told
}

// join answers a submission with a task that is there. Whoever asked for it and is
// not the one who started it is added, with the targets of his own, so that his
// cancel is his alone and he is told of the end.
func (c *Client) join(ctx context.Context, r request, f found) (Submitted, error) {
	t := f.s.desc.Task
	out := c.submitted(r, t.State, f.described.WorkflowExecution.RunID, true)
	out.TaskID, out.ExpiresAtMs = f.taskID, t.ExpiresAtMs
	if t.State.Terminal() {
		ended := t.WithoutHistory()
		out.Task = &ended
	}
	waiter := r.waiter
	if waiter != nil {
		out.WaiterID = waiter.ID
		if first, err := c.memo(f.described, protocol.MemoWaiter); err == nil && first == waiter.ID {
			// The same caller as before is the submitter, and no second one. If it had
			// left, it waits again from now on.
			out.WaiterID = domain.WaiterSubmitter
			if waiter = nil; left(t, domain.WaiterSubmitter) {
				waiter = &domain.Waiter{ID: domain.WaiterSubmitter, RunID: r.waiter.RunID, ToolCallID: r.waiter.ToolCallID}
			}
		}
	}
	targets := r.sub.Targets
	if f.told {
		targets = slices.DeleteFunc(slices.Clone(targets), func(name string) bool { return slices.Contains(f.s.desc.Targets, name) })
	}
	for waiter != nil || len(targets) > 0 {
		m := protocol.Attach{Waiter: waiter}
		if len(targets) > 0 {
			m.Target, targets = targets[0], targets[1:]
		}
		a, err := c.Attach(ctx, f.taskID, m)
		if err != nil {
			return out, err
		}
		out.Attached, waiter = out.Attached || a.Outcome.Changed || a.Task != nil, nil
		if a.Task != nil {
			out.Task, out.State = a.Task, a.Task.State
		}
	}
	return out, nil
}

// left tells whether one who waited for a task does so no longer.
func left(t domain.Task, waiterID string) bool {
	return slices.ContainsFunc(t.Waiters, func(w domain.Waiter) bool { return w.ID == waiterID && w.LeftAtMs != 0 })
}

// Attached is what became of an attach.
type Attached struct {
	Outcome domain.Outcome `json:"outcome"`
	// Task is set, without history, for a task that had ended. Whoever was to be
	// told is told at once: the run by a signal, the target by a delivery.
	Task *domain.Task `json:"task,omitempty"`
}

// Attach adds somebody to those who wait for a task, or a declared target, or both.
// A task that has ended answers with itself; then the client tells the waiter's run
// and the target, as the task would have, each once. Errors: invalid-request,
// unknown-task, no-worker, unavailable.
func (c *Client) Attach(ctx context.Context, taskID string, a protocol.Attach) (Attached, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return Attached{}, invalid(err)
	}
	if err := c.checkAttach(a); err != nil {
		return Attached{}, invalid(err)
	}
	if a.AtMs == 0 {
		a.AtMs = c.o.Now()
	}
	for lap := 0; ; lap++ {
		// Of its own each time: an update that met the end is answered so for ever.
		m := message{name: protocol.UpdateAttach, updateID: once(), arg: a}
		out, err := c.ask(ctx, taskID, m, func(t domain.Task) (domain.Outcome, error) {
			return domain.Outcome{Reason: domain.ReasonTerminalConflict, State: t.State, Version: t.Version}, nil
		}, func() (domain.Outcome, error) { return domain.Outcome{}, c.noWorker(taskID, hintWorker) })
		if err != nil || !out.State.Terminal() {
			return Attached{Outcome: out}, err
		}
		s, err := c.read(ctx, taskID)
		switch {
		case err != nil:
			return Attached{}, err
		case s.ended():
			t := s.desc.Task.WithoutHistory()
			return Attached{Outcome: out, Task: &t}, c.tell(ctx, t, a)
		case lap == maxLaps:
			return Attached{}, fail(CodeUnavailable, "repeat the call", "task %s closes and opens too fast to be waited for", taskID)
		}
		// It was retried meanwhile: what was read is no end to tell of.
	}
}

func (c *Client) checkAttach(a protocol.Attach) error {
	if a.Target == "" && a.Waiter == nil {
		return domain.Invalid("target", "must be given, or a waiter")
	}
	if a.Target != "" {
		if err := c.checkTarget("target", a.Target); err != nil {
			return err
		}
	}
	w := a.Waiter
	if w == nil {
		return nil
	}
	if err := domain.CheckID("waiter.id", w.ID); err != nil {
		return err
	}
	if w.RunID != "" {
		if err := domain.CheckID("waiter.runId", w.RunID); err != nil {
			return err
		}
	}
	return checkText("waiter.toolCallId", w.ToolCallID, domain.MaxCallbackID)
}

// tell does for one who comes after the end what the task did for the others
// before it closed. Telling twice is telling once: a run drops what it has, and the
// id of a delivery is its key.
func (c *Client) tell(ctx context.Context, t domain.Task, a protocol.Attach) error {
	if w := a.Waiter; w != nil && w.RunID != "" {
		news := protocol.TaskFinished{Task: t, AtMs: t.EndedAtMs}
		if w.ID != domain.WaiterSubmitter {
			news.WaiterID, news.ToolCallID = w.ID, w.ToolCallID
		}
		err := c.engine.SignalWorkflow(ctx, protocol.RunWorkflowID(c.o.Tenant, w.RunID), "", protocol.SignalTaskFinished, news)
		if err != nil && !notFound(err) {
			return engineError(ctx, "tell run "+w.RunID, err)
		}
	}
	if a.Target == "" {
		return nil
	}
	err := c.startDelivery(ctx, protocol.DeliveryInput{
		Tenant: c.o.Tenant, Key: DeliveryKey(t, a.Target), Kind: protocol.DeliveryWebhook, Target: a.Target, Task: t, Type: "task." + string(t.State),
	})
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return engineError(ctx, "tell target "+a.Target, err)
	}
	return nil
}

// asWhom is the waiter that a name belongs to: whoever submitted the task under a name
// of its own is the submitter. A name that cannot be looked up stays as it is, and
// the task says what it thinks of it.
func (c *Client) asWhom(ctx context.Context, taskID, waiterID string) string {
	if waiterID == domain.WaiterSubmitter {
		return waiterID
	}
	d, err := c.engine.DescribeWorkflow(ctx, c.workflowID(taskID), "")
	if err != nil {
		return waiterID
	}
	if first, err := c.memo(d, protocol.MemoWaiter); err == nil && first == waiterID {
		return domain.WaiterSubmitter
	}
	return waiterID
}

// Detach says that one who waits waits no longer. The work goes on, also when
// nobody is left; whoever wants it to stop cancels. With the reason
// [domain.DetachWaitTimeout] the end is still told to the one who left. The
// outcome says what it came to, also when that is nothing: duplicate-detach,
// unknown-waiter, terminal-conflict. Errors: invalid-request, unknown-task,
// no-worker, unavailable.
func (c *Client) Detach(ctx context.Context, taskID string, d protocol.Detach) (domain.Outcome, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := domain.CheckID("waiterId", d.WaiterID); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := checkPerson(d.By, d.Reason); err != nil {
		return domain.Outcome{}, err
	}
	if d.AtMs == 0 {
		d.AtMs = c.o.Now()
	}
	d.WaiterID = c.asWhom(ctx, taskID, d.WaiterID)
	m := message{name: protocol.UpdateDetach, updateID: once(), arg: d}
	return c.ask(ctx, taskID, m, func(t domain.Task) (domain.Outcome, error) {
		return outcome(t, domain.Event{Type: domain.EventDetach, AtMs: d.AtMs, WaiterID: d.WaiterID, Reason: d.Reason, By: d.By})
	}, func() (domain.Outcome, error) { return domain.Outcome{}, c.noWorker(taskID, hintWorker) })
}
