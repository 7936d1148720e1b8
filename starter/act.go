package starter

import (
	"context"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// once is the update id of a message that only its own call may repeat.
func once() string { return "op/" + uuid.NewString() }

// checkPerson checks what a person says about himself and his reason.
func checkPerson(by, reason string) error {
	switch {
	case !utf8.ValidString(by):
		return invalidf("by", "must be valid UTF-8")
	case !utf8.ValidString(reason):
		return invalidf("reason", "must be valid UTF-8")
	case len(by) > domain.MaxWorker:
		return invalidf("by", "must be at most %d bytes, it has %d", domain.MaxWorker, len(by))
	case len(reason) > domain.MaxErrorText:
		return invalidf("reason", "must be at most %d bytes, it has %d", domain.MaxErrorText, len(reason))
	}
	return nil
}

// Cancel asks for the work of a task to be given up: a request, see
// docs/concepts.md. The outcome says what it came to, also when that is nothing:
// duplicate-cancel, terminal-conflict. When no worker answers, the request is left
// with the engine, which keeps it; State and Version of the outcome are then empty.
//
// With a WaiterID it is the wish of one who waits: while somebody else wants the
// task too, it only detaches that one (reason detached). Such a request needs a
// worker. Errors: invalid-request, unknown-task, no-worker, unavailable.
func (c *Client) Cancel(ctx context.Context, taskID string, req protocol.Cancel) (domain.Outcome, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := checkPerson(req.By, req.Reason); err != nil {
		return domain.Outcome{}, err
	}
	if req.WaiterID != "" {
		if err := domain.CheckID("waiterId", req.WaiterID); err != nil {
			return domain.Outcome{}, invalid(err)
		}
		req.WaiterID = c.asWhom(ctx, taskID, req.WaiterID)
	}
	if req.AtMs == 0 {
		req.AtMs = c.o.Now()
	}
	ended := func(t domain.Task) (domain.Outcome, error) {
		return outcome(t, domain.Event{Type: domain.EventCancelRequested, AtMs: req.AtMs, By: req.By, Reason: req.Reason, WaiterID: req.WaiterID})
	}
	leave := func() (domain.Outcome, error) {
		if req.WaiterID != "" {
			// The engine's own request is for the whole task.
			return domain.Outcome{}, c.noWorker(taskID, hintWorker)
		}
		err := c.engine.CancelWorkflow(ctx, c.workflowID(taskID), "")
		if err == nil {
			return domain.Outcome{Reason: domain.ReasonCancelRequested}, nil
		}
		if !notFound(err) {
			return domain.Outcome{}, engineError(ctx, "cancel task "+taskID, err)
		}
		s, err := c.read(ctx, taskID)
		if err != nil {
			return domain.Outcome{}, err
		}
		return ended(s.desc.Task)
	}
	return c.ask(ctx, taskID, message{name: protocol.UpdateCancel, updateID: once(), arg: req}, ended, leave)
}

// outcome is what an event would come to.
func outcome(t domain.Task, e domain.Event) (domain.Outcome, error) {
	tr, err := domain.Apply(t, e)
	if err != nil {
		return domain.Outcome{}, invalid(err)
	}
	return domain.Outcome{
		Reason: tr.Reason, Changed: tr.Changed, Duplicate: tr.Duplicate, Late: tr.Late, State: tr.Task.State, Version: tr.Task.Version,
	}, nil
}

// Answer answers a question of a task. A question takes exactly one answer: of
// two that differ one is told answer-conflict. Errors: invalid-request,
// unknown-task, no-worker, unavailable.
func (c *Client) Answer(ctx context.Context, taskID string, a protocol.Answer) (domain.Outcome, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := checkAnswer(a); err != nil {
		return domain.Outcome{}, err
	}
	if a.AtMs == 0 {
		a.AtMs = c.o.Now()
	}
	// The update id is this call's own: a later attempt may ask the same question
	// again, and the same answer must reach it. That a repeat is one is found by
	// the rules.
	m := message{name: protocol.UpdateAnswer, updateID: protocol.AnswerUpdateID(a.QuestionID, uuid.NewString()), arg: a}
	return c.ask(ctx, taskID, m, func(t domain.Task) (domain.Outcome, error) {
		return outcome(t, domain.Event{Type: domain.EventAnswer, AtMs: a.AtMs, QuestionID: a.QuestionID, Answer: a.Answer, By: a.By})
	}, func() (domain.Outcome, error) { return domain.Outcome{}, c.noWorker(taskID, hintWorker) })
}

func checkAnswer(a protocol.Answer) error {
	switch {
	case a.QuestionID == "":
		return invalidf("questionId", "must not be blank")
	case len(a.QuestionID) > domain.MaxCallbackID:
		return invalidf("questionId", "must be at most %d bytes, it has %d", domain.MaxCallbackID, len(a.QuestionID))
	case !utf8.ValidString(a.QuestionID):
		return invalidf("questionId", "must be valid UTF-8")
	case len(a.Answer) == 0:
		return invalidf("answer", "must not be absent")
	case len(a.Answer) > domain.MaxDetails:
		return invalidf("answer", "must be at most %d bytes of JSON, it has %d", domain.MaxDetails, len(a.Answer))
	case !utf8.Valid(a.Answer) || !json.Valid(a.Answer):
		return invalidf("answer", "must be valid JSON")
	}
	return checkPerson(a.By, "")
}

func (c *Client) checkTarget(field, name string) error {
	if err := domain.CheckID(field, name); err != nil {
		return invalid(err)
	}
	if _, ok := c.o.Config.Target(name); !ok {
		return invalidf(field, "must name a declared target, %q is none%s", name, config.Suggest(name, targetNames(c.o.Config)))
	}
	return nil
}

func targetNames(cfg *config.Config) []string {
	names := make([]string, len(cfg.Targets))
	for i, t := range cfg.Targets {
		names[i] = t.Name
	}
	return names
}

// Heartbeat says that the worker outside is alive.
type Heartbeat struct {
	// Attempt is the one that it works on, 1 or more.
	Attempt int
	// Details is anything for people to see, JSON of at most 16 KiB.
	Details json.RawMessage
}

// HeartbeatAnswer is what the worker outside is told.
type HeartbeatAnswer struct {
	// CancelRequested asks it to stop and to send the event cancelled.
	CancelRequested bool `json:"cancelRequested"`
}

// Heartbeat renews the lease of a task's attempt. It costs no history. A task that
// is just moving to a new run has no lease for a moment; that is waited for.
// Errors: invalid-request, unknown-task, ended, no-lease, unavailable.
func (c *Client) Heartbeat(ctx context.Context, taskID string, hb Heartbeat) (HeartbeatAnswer, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return HeartbeatAnswer{}, invalid(err)
	}
	if err := checkHeartbeat(hb); err != nil {
		return HeartbeatAnswer{}, err
	}
	var details []any
	if len(hb.Details) > 0 {
		details = append(details, hb.Details)
	}
	// The gap is as long as a worker takes for one workflow task.
	for _, wait := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 0} {
		err := c.engine.RecordActivityHeartbeatByID(ctx, "", c.workflowID(taskID), "", protocol.LeaseActivityID(hb.Attempt), details...)
		var cancel *temporal.CanceledError
		switch {
		case err == nil:
			return HeartbeatAnswer{}, nil
		case errors.As(err, &cancel):
			return HeartbeatAnswer{CancelRequested: true}, nil
		case !notFound(err):
			return HeartbeatAnswer{}, engineError(ctx, "heartbeat of task "+taskID, err)
		case wait == 0:
			return HeartbeatAnswer{}, c.noLease(ctx, taskID, hb.Attempt)
		}
		if s, err := c.read(ctx, taskID); err == nil && s.ended() || errors.Is(err, ErrUnknownTask) {
			return HeartbeatAnswer{}, c.noLease(ctx, taskID, hb.Attempt)
		}
		if err := pause(ctx, wait); err != nil {
			return HeartbeatAnswer{}, err
		}
	}
	return HeartbeatAnswer{}, c.noLease(ctx, taskID, hb.Attempt)
}

func checkHeartbeat(hb Heartbeat) error {
	switch {
	case hb.Attempt < 1:
		return invalidf("attempt", "must be >= 1, it is %d", hb.Attempt)
	case len(hb.Details) > domain.MaxDetails:
		return invalidf("details", "must be at most %d bytes of JSON, it has %d", domain.MaxDetails, len(hb.Details))
	case len(hb.Details) > 0 && (!utf8.Valid(hb.Details) || !json.Valid(hb.Details)):
		return invalidf("details", "must be valid JSON")
	}
	return nil
}

// noLease says why there is none.
func (c *Client) noLease(ctx context.Context, taskID string, attempt int) error {
	s, err := c.read(ctx, taskID)
	if err != nil {
		return err
	}
	t := s.desc.Task
	switch {
	case s.ended():
		return fail(CodeEnded, "stop working on it", "task %s %s", taskID, Standing(t.State))
	case t.Policy.LeaseMs == 0:
		return fail(CodeNoLease, "declare a lease for the tool, or send heartbeats as callbacks", "tool %s has no lease", t.Tool)
	case t.Attempts != attempt:
		return fail(CodeNoLease, "stop working on that attempt", "task %s is at attempt %d, not %d", taskID, t.Attempts, attempt)
	case t.State != domain.StateRunning:
		return fail(CodeNoLease, "send the event start first", "task %s %s", taskID, Standing(t.State))
	}
	return fail(CodeNoLease, "send a heartbeat as a callback: it renews a lease that has run out", "the lease of task %s has run out", taskID)
}
