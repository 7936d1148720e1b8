package starter

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// ReasonTaken is the reason of an outcome that nobody has told yet: what was said is kept
// by the engine and will reach the run. State and Version are then empty.
const ReasonTaken run.Reason = "taken"

// act sends what a person wants of a run. Also a refusal is an outcome, its reason says
// why. A closed run answers from its record; silent is for when no worker does.
func (c *Client) act(ctx context.Context, runID string, m message, as func(run.Run) run.Event, silent func() (run.Outcome, error)) (run.Outcome, error) {
	var out run.Outcome
	m.updateID = once()
	var left func() error
	if silent != nil {
		left = func() (err error) {
			out, err = silent()
			return err
		}
	}
	err := c.askRun(ctx, runID, m, &out, func(rec protocol.RunRecord) (err error) {
		out, err = runOutcome(rec.Run, as(rec.Run))
		return err
	}, left)
	var refused *run.RefusedError
	if errors.As(err, &refused) {
		return refused.Outcome, nil
	}
	return out, err
}

// Say gives a run something new to know: it waits for the next step, or wakes the run.
// An InputID makes it safe to repeat, and saying something else under it is
// input-conflict; one is made up if there is none. When no worker answers, it is left
// with the engine, which keeps it: the reason is then [ReasonTaken]. The outcome says
// what it came to, also when that is nothing: duplicate-input, run-closed. Errors:
// invalid-request, unknown-run, terminated, unavailable.
func (c *Client) Say(ctx context.Context, runID string, said protocol.RunSaid) (run.Outcome, error) {
	if said.InputID == "" {
		said.InputID = "in-" + uuid.NewString()
	}
	in := run.Input{InputID: said.InputID, Content: said.Content, Source: said.Source}
	if err := run.CheckInput(in); err != nil {
		return run.Outcome{}, invalid(err)
	}
	m := message{name: protocol.UpdateInput, arg: said}
	return c.act(ctx, runID, m, func(run.Run) run.Event {
		return run.Event{Type: run.EventInput, AtMs: c.o.Now(), Input: &in}
	}, func() (run.Outcome, error) {
		err := c.engine.SignalWorkflow(ctx, c.runWorkflowID(runID), "", protocol.SignalInput, said)
		if notFound(err) {
			err = errClosed
		}
		return run.Outcome{Reason: ReasonTaken}, err
	})
}

// checkCallID checks the name of a call.
func checkCallID(id protocol.CallID) error {
	if id.ToolCallID == "" {
		return domain.Invalid("toolCallId", "must not be blank")
	}
	if id.AskedAtStep < 0 {
		return domain.Invalid("askedAtStep", "must be >= 1, or absent for the newest call of that id; it is %d", id.AskedAtStep)
	}
	return checkText("toolCallId", id.ToolCallID, domain.MaxCallbackID)
}

// keyOf finds the call that is named as the run itself does; without a step it is the
// newest of that id.
func keyOf(r run.Run, id protocol.CallID) run.Key {
	k := run.Key{Step: id.AskedAtStep, ID: id.ToolCallID}
	if k.Step != 0 {
		return k
	}
	for _, call := range r.Calls {
		if call.ID == k.ID {
			k.Step = max(k.Step, call.Step)
		}
	}
	return k
}

// Approve decides about a call that waits for a person: approve, deny, or edit its
// arguments. A call takes one decision: of two people who differ one is told
// answer-conflict. The outcome says what it came to, also when that is nothing:
// duplicate-answer, not-asked, unknown-call, run-closed. Errors: invalid-request,
// unknown-run, terminated, no-worker, unavailable.
func (c *Client) Approve(ctx context.Context, runID string, a protocol.Approve) (run.Outcome, error) {
	for _, err := range []error{
		checkCallID(a.CallID), checkJSON("input", a.Input, run.MaxCallInput, a.Decision == run.DecisionEdit),
		checkText("message", a.Message, domain.MaxErrorText), checkPerson(a.By, ""),
	} {
		if err != nil {
			return run.Outcome{}, invalid(err)
		}
	}
	return c.act(ctx, runID, message{name: protocol.UpdateApprove, arg: a}, func(r run.Run) run.Event {
		return run.Event{
			Type: run.EventApprove, AtMs: c.o.Now(), Call: keyOf(r, a.CallID), By: a.By,
			Decides: &run.Approval{Decision: a.Decision, By: a.By, Message: a.Message, Input: a.Input},
		}
	}, nil)
}

// AnswerRun answers a question of a run, which takes exactly one answer. The outcome says
// what it came to, also when that is nothing: duplicate-answer, answer-conflict,
// not-asked, unknown-call, run-closed. Errors: invalid-request, unknown-run, terminated,
// no-worker, unavailable.
func (c *Client) AnswerRun(ctx context.Context, runID string, a protocol.AnswerCall) (run.Outcome, error) {
	for _, err := range []error{checkCallID(a.CallID), checkJSON("answer", a.Answer, run.MaxAnswer, true), checkPerson(a.By, "")} {
		if err != nil {
			return run.Outcome{}, invalid(err)
		}
	}
	if err := c.matches(ctx, runID, a); err != nil {
		return run.Outcome{}, invalid(err)
	}
	return c.act(ctx, runID, message{name: protocol.UpdateAnswer, arg: a}, func(r run.Run) run.Event {
		return run.Event{Type: run.EventAnswer, AtMs: c.o.Now(), Call: keyOf(r, a.CallID), Answer: a.Answer, By: a.By}
	}, nil)
}

// matches holds an answer against the schema of its question: it counts once and cannot
// be mended. A run that cannot be read says by itself what becomes of the answer.
func (c *Client) matches(ctx context.Context, runID string, a protocol.AnswerCall) error {
	s, err := c.readRun(ctx, runID)
	if err != nil {
		return nil //nolint:nilerr // the update fails with the same, or works
	}
	key := keyOf(s.desc.Run, a.CallID)
	for _, ask := range s.desc.Asks {
		if ask.RunID == runID && ask.ToolCallID == key.ID && ask.AskedAtStep == key.Step && len(ask.Schema) > 0 {
			return config.Match("answer", ask.Schema, a.Answer)
		}
	}
	return nil
}

// CancelCall gives up one call of a run: its task is asked to stop, and its end is the
// result. The outcome says what it came to, also when that is nothing: duplicate-cancel,
// unknown-call, run-closed. Errors: invalid-request, unknown-run, terminated, no-worker,
// unavailable.
func (c *Client) CancelCall(ctx context.Context, runID string, m protocol.CancelOneCall) (run.Outcome, error) {
	for _, err := range []error{checkCallID(m.CallID), checkText("message", m.Message, domain.MaxErrorText), checkPerson(m.By, "")} {
		if err != nil {
			return run.Outcome{}, invalid(err)
		}
	}
	return c.act(ctx, runID, message{name: protocol.UpdateCancelCall, arg: m}, func(r run.Run) run.Event {
		return run.Event{Type: run.EventCancelCall, AtMs: c.o.Now(), Call: keyOf(r, m.CallID), By: m.By, Reason: m.Message}
	}, nil)
}

// CancelRun asks for a run to be given up: it takes no step any more, asks its open calls
// to stop and waits for their true ends within its grace. When no worker answers, the
// request is left with the engine, which keeps it; State and Version of the outcome are
// then empty. The outcome says what it came to, also when that is nothing:
// duplicate-cancel, run-ending, run-closed. A WaiterID is for tasks. Errors:
// invalid-request, unknown-run, terminated, unavailable.
func (c *Client) CancelRun(ctx context.Context, runID string, req protocol.Cancel) (run.Outcome, error) {
	if err := checkPerson(req.By, req.Reason); err != nil {
		return run.Outcome{}, err
	}
	if req.WaiterID != "" {
		return run.Outcome{}, invalidf("waiterId", "must be absent: nobody shares a run")
	}
	if req.AtMs == 0 {
		req.AtMs = c.o.Now()
	}
	return c.act(ctx, runID, message{name: protocol.UpdateCancel, arg: req}, func(run.Run) run.Event {
		return run.Event{Type: run.EventCancel, AtMs: req.AtMs, By: req.By, Reason: req.Reason}
	}, func() (run.Outcome, error) {
		err := c.engine.CancelWorkflow(ctx, c.runWorkflowID(runID), "")
		if notFound(err) {
			err = errClosed
		}
		return run.Outcome{Reason: run.ReasonCancelRequested}, err
	})
}

// Pause holds the steps of a run: its tasks go on, and a step that is out may commit. The
// outcome says what it came to, also when that is nothing: unchanged, run-closed. Errors:
// invalid-request, unknown-run, terminated, no-worker, unavailable.
func (c *Client) Pause(ctx context.Context, runID string, p protocol.Pause) (run.Outcome, error) {
	return c.hold(ctx, runID, protocol.UpdatePause, run.EventPause, p)
}

// Unpause lets the steps of a run go on. Outcome and errors are as of [Client.Pause].
func (c *Client) Unpause(ctx context.Context, runID string, p protocol.Pause) (run.Outcome, error) {
	return c.hold(ctx, runID, protocol.UpdateUnpause, run.EventUnpause, p)
}

func (c *Client) hold(ctx context.Context, runID, update string, event run.EventType, p protocol.Pause) (run.Outcome, error) {
	if err := checkPerson(p.By, p.Reason); err != nil {
		return run.Outcome{}, err
	}
	return c.act(ctx, runID, message{name: update, arg: p}, func(run.Run) run.Event {
		return run.Event{Type: event, AtMs: c.o.Now(), By: p.By, Reason: p.Reason}
	}, nil)
}
