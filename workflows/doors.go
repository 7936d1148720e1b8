package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// openDoors registers every update and query. It comes after the state is
// whole and before the first wait: an update that waits runs the moment its
// handler is set, and one without a handler by then is refused for good.
func (r *task) openDoors() error {
	if err := workflow.SetQueryHandlerWithOptions(r.ctx, protocol.QueryResume, r.onResume, workflow.QueryHandlerOptions{
		Description: "what happened after the cursor",
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandlerWithOptions(r.ctx, protocol.QueryDescribe, r.onDescribe, workflow.QueryHandlerOptions{
		Description: "the task, its phase and what it waits for",
	}); err != nil {
		return err
	}
	for _, u := range []struct {
		name, about        string
		handler, validator any
	}{
		{protocol.UpdateCallback, "tells what happened outside", answers(r.readCallback, r.onCallback), admits(r.readCallback, r.admitCallback)},
		{protocol.UpdateCancel, "asks for the work to be given up", answers(read[protocol.Cancel], r.onCancel), admits(read[protocol.Cancel], r.admitCancel)},
		{protocol.UpdateAnswer, "answers a question of the task", answers(read[protocol.Answer], r.onAnswer), admits(read[protocol.Answer], r.admitAnswer)},
		{protocol.UpdateAttach, "adds a target for the end of the task", answers(read[protocol.Attach], r.onAttach), admits(read[protocol.Attach], r.admitAttach)},
		{protocol.UpdateRetry, "retries a task that has ended", answers(read[protocol.Retry], r.onRetry), admits(read[protocol.Retry], r.admitRetry)},
		{protocol.UpdateDetach, "says that a waiter waits no longer", answers(read[protocol.Detach], r.onDetach), admits(read[protocol.Detach], r.admitDetach)},
		{protocol.UpdateResolve, "is a person's word on work of unknown outcome", answers(read[protocol.Resolve], r.onResolve), admits(read[protocol.Resolve], r.admitResolve)},
		{protocol.UpdateReconcile, "asks the outside and takes what it says", r.onReconcile, admits(read[protocol.Reconcile], func(protocol.Reconcile) error { return nil })},
	} {
		if err := workflow.SetUpdateHandlerWithOptions(r.ctx, u.name, u.handler, workflow.UpdateHandlerOptions{
			Validator: u.validator, Description: u.about,
		}); err != nil {
			return err
		}
	}
	return nil
}

// receive is the room behind both doors.
func (r *task) receive(c domain.Callback) (domain.Outcome, error) {
	c, digest, content, err := domain.Unpack(r.t, c)
	if err != nil {
		return domain.Outcome{}, err
	}
	tr, out, err := domain.Receive(r.t, r.ledger, c, digest, r.nowMs())
	if err != nil {
		return domain.Outcome{}, err
	}
	if out.Conflict {
		r.log.Warn("callback id repeated with another body", "callbackId", c.CallbackID)
	}
	if content != nil && keeps(tr, c.Event.ResultHash) {
		r.unstored = append(r.unstored, protocol.Blob{Ref: c.Event.ResultRef, Hash: c.Event.ResultHash, ContentType: c.Event.ContentType, Content: content})
	}
	r.take(tr)
	return out, nil
}

// keeps tells whether the task refers to a result after a transition.
func keeps(tr domain.Transition, hash string) bool {
	return tr.Changed && (tr.Task.ResultHash == hash || (tr.Task.Late != nil && tr.Task.Late.ResultHash == hash))
}

func (r *task) onCallback(c domain.Callback) (domain.Outcome, error) {
	r.drain()
	return r.receive(c)
}

// admitCallback refuses what is invalid and what would change nothing, at no
// cost in history. With signals still undrained it cannot know, and lets in.
func (r *task) admitCallback(c domain.Callback) error {
	clean, digest, _, err := domain.Unpack(r.t, c)
	if err != nil || r.signals.Len() > 0 {
		return err
	}
	return domain.Admit(r.t, r.ledger, clean, digest, r.nowMs())
}

// change applies an event of a person and answers like a callback.
func (r *task) change(e domain.Event) (domain.Outcome, error) {
	r.drain()
	tr, err := domain.Apply(r.t, r.stamped(e))
	if err != nil {
		return domain.Outcome{}, err
	}
	r.take(tr)
	return outcomeOf(tr), nil
}

// admit refuses an event of a person that would change nothing.
func (r *task) admit(e domain.Event) error {
	if err := e.Validate(); err != nil || r.signals.Len() > 0 {
		return err
	}
	tr, err := domain.Apply(r.t, r.stamped(e))
	if err == nil && !tr.Changed {
		return &domain.RefusedError{Outcome: outcomeOf(tr)}
	}
	return err
}

func (r *task) stamped(e domain.Event) domain.Event {
	if now := r.nowMs(); e.AtMs == 0 || e.AtMs > now {
		e.AtMs = now
	}
	return e
}

func outcomeOf(tr domain.Transition) domain.Outcome {
	return domain.Outcome{
		Reason: tr.Reason, Changed: tr.Changed, Duplicate: tr.Duplicate, Late: tr.Late,
		State: tr.Task.State, Version: tr.Task.Version,
	}
}

func (r *task) cancelEvent(c protocol.Cancel) domain.Event {
	return domain.Event{
		Type: domain.EventCancelRequested, AtMs: c.AtMs, Reason: c.Reason, By: c.By, WaiterID: c.WaiterID, Begun: r.begunUnheard(),
	}
}

// begunUnheard says that what was begun under the key that still holds may have
// started a job of which nobody has heard.
func (r *task) begunUnheard() bool {
	return r.handle == nil && r.begun != nil && r.begun.SubmissionKey == r.job(r.t.Attempts).SubmissionKey
}

func (r *task) onCancel(c protocol.Cancel) (domain.Outcome, error) {
	return r.change(r.cancelEvent(c))
}

func (r *task) admitCancel(c protocol.Cancel) error {
	return r.admit(r.cancelEvent(c))
}

func answerEvent(a protocol.Answer) domain.Event {
	return domain.Event{Type: domain.EventAnswer, AtMs: a.AtMs, QuestionID: a.QuestionID, Answer: a.Answer, By: a.By}
}

func (r *task) onAnswer(a protocol.Answer) (domain.Outcome, error) {
	return r.change(answerEvent(a))
}

func (r *task) admitAnswer(a protocol.Answer) error {
	return r.admit(answerEvent(a))
}

func retryEvent(a protocol.Retry, nowMs int64) domain.Event {
	e := domain.Event{Type: domain.EventRetry, AtMs: a.AtMs, TTLMs: a.TTLMs, By: a.By, Reason: a.Reason}
	if e.AtMs == 0 || e.AtMs > nowMs {
		e.AtMs = nowMs
	}
	return e
}

func (r *task) onRetry(a protocol.Retry) (domain.Outcome, error) {
	out, err := r.change(retryEvent(a, r.nowMs()))
	if err == nil && out.Changed {
		r.askedAtDeadline, r.cancelSent = false, 0
	}
	return out, err
}

func (r *task) admitRetry(a protocol.Retry) error {
	return r.admit(retryEvent(a, r.nowMs()))
}

func (r *task) onAttach(a protocol.Attach) (domain.Outcome, error) {
	out := domain.Outcome{Reason: domain.ReasonDuplicateTarget, Duplicate: true, State: r.t.State, Version: r.t.Version}
	if a.Waiter != nil {
		var err error
		if out, err = r.change(attachEvent(a)); err != nil {
			return out, err
		}
	}
	r.drain()
	if a.Target == "" || slices.Contains(r.targets, a.Target) {
		return out, nil
	}
	r.targets = append(slices.Clone(r.targets), a.Target)
	return domain.Outcome{Reason: domain.ReasonAttached, Changed: true, State: r.t.State, Version: r.t.Version}, nil
}

func attachEvent(a protocol.Attach) domain.Event {
	return domain.Event{Type: domain.EventAttach, AtMs: a.AtMs, Waiter: a.Waiter}
}

func (r *task) admitAttach(a protocol.Attach) error {
	if a.Target != "" || a.Waiter == nil {
		if err := domain.CheckID("target", a.Target); err != nil {
			return err
		}
	}
	if r.t.State.Terminal() {
		return &domain.RefusedError{Outcome: domain.Outcome{Reason: domain.ReasonTerminalConflict, State: r.t.State, Version: r.t.Version}}
	}
	if a.Waiter == nil {
		return nil
	}
	// Whether it would change anything is the handler's to say: a repeat is answered
	// well, because whoever attaches twice waits all the same.
	_, err := domain.Apply(r.t, r.stamped(attachEvent(a)))
	return err
}

func (r *task) onResume(q protocol.ResumeRequest) (protocol.Page, error) {
	p, err := domain.Resume(r.t, q.Cursor, q.Retention)
	return p, asApplicationError(err)
}

func (r *task) onDescribe() (protocol.Description, error) {
	now := r.nowMs()
	v := domain.Describe(r.t, now)
	v.Repeats, v.Conflicts = r.ledger.Repeats, r.ledger.Conflicts
	p := domain.Next(r.t, now)
	return protocol.Description{
		View: v, Handle: r.handle, Targets: r.targets, WakeAtMs: p.WakeAtMs, WakeFor: p.WakeFor,
		LastRejected: r.rejected, Begun: r.begun, ServerTimeMs: now,
	}, nil
}

func invalidError(e *domain.InvalidError) error {
	return temporal.NewNonRetryableApplicationError(e.Error(), protocol.ErrTypeInvalid, nil,
		protocol.Problem{Code: domain.CodeInvalid, Field: e.Field, Rule: e.Rule})
}

func refusedError(e *domain.RefusedError) error {
	return temporal.NewNonRetryableApplicationError(e.Error(), protocol.ErrTypeRefused, nil, e.Outcome)
}
