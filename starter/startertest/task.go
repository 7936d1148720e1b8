package startertest

import (
	"slices"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// settle does for a run what a worker would do now.
func (e *Engine) settle(f *flow) {
	if e.away || !f.open() {
		return
	}
	if f.typ == protocol.WorkflowDelivery {
		e.settleDelivery(f)
		return
	}
	if f.agent != nil {
		e.settleRun(f)
		return
	}
	if !f.begun && !e.begin(f) {
		return
	}
	for _, c := range f.signals {
		// An invalid signal is nobody's business here.
		_, _ = e.receive(f, c)
	}
	f.signals = nil
	if f.cancelled {
		f.cancelled = false
		e.apply(f, domain.Event{Type: domain.EventCancelRequested, AtMs: e.Now(), By: "temporal", Reason: "the workflow was cancelled"})
	}
	if ev, due := domain.Due(f.task, e.Now()); due {
		e.apply(f, ev)
	}
	if domain.Next(f.task, e.Now()).Close {
		e.close(f)
	}
}

func (e *Engine) begin(f *flow) bool {
	f.begun, f.ledger, f.targets = true, &domain.Ledger{}, f.in.Targets
	if c := f.in.Carry; c != nil {
		f.task, f.handle = c.Task, c.Handle
		if c.Ledger != nil {
			f.ledger = c.Ledger
		}
		if c.Targets != nil {
			f.targets = c.Targets
		}
		if c.Retry != nil {
			e.apply(f, domain.Event{Type: domain.EventRetry, AtMs: min(c.Retry.AtMs, e.Now()), TTLMs: c.Retry.TTLMs, By: c.Retry.By, Reason: c.Retry.Reason})
		}
		return true
	}
	create := f.in.Create
	if create.NowMs == 0 {
		create.NowMs = f.startedAtMs
	}
	t, err := domain.New(create)
	if err != nil {
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, asApplicationError(err), e.Now())
		return false
	}
	f.task = t
	return true
}

// apply lets happen what cannot be refused; anything else leaves the task as it is.
func (e *Engine) apply(f *flow, ev domain.Event) {
	if tr, err := domain.Apply(f.task, ev); err == nil {
		f.task = tr.Task
	}
}

func (e *Engine) receive(f *flow, c domain.Callback) (domain.Outcome, error) {
	clean, digest, _, err := domain.Unpack(f.task, c)
	if err != nil {
		return domain.Outcome{}, err
	}
	tr, out, err := domain.Receive(f.task, f.ledger, clean, digest, e.Now())
	if err != nil {
		return out, err
	}
	f.task = tr.Task
	return out, nil
}

func (e *Engine) close(f *flow) {
	rec := protocol.TaskRecord{Task: f.task, Ledger: f.ledger, Handle: f.handle, Targets: f.targets}
	switch f.task.State {
	case domain.StateFailed:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, crossed(temporal.NewNonRetryableApplicationError("failed", protocol.ErrTypeTaskFailed, nil, rec)), e.Now())
	case domain.StateExpired:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, crossed(temporal.NewNonRetryableApplicationError("expired", protocol.ErrTypeTaskExpired, nil, rec)), e.Now())
	case domain.StateCancelled:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, crossed(temporal.NewCanceledError(rec)), e.Now())
	case domain.StateSucceeded:
		f.result = payloads(rec)
		f.end(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, e.Now())
	case domain.StateQueued, domain.StateRunning:
	}
}

func (e *Engine) settleDelivery(f *flow) {
	if f.delivery.Kind != protocol.DeliveryPull {
		return
	}
	answer, err := domain.Deliver(f.delivery.Task.ID, &f.delivery.Task, nil, f.delivery.Key, f.startedAtMs)
	if err != nil {
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, asApplicationError(err), e.Now())
		return
	}
	f.record.State, f.record.Answer = protocol.DeliveryDone, &answer
	f.result = payloads(f.record)
	f.end(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, e.Now())
}

// handle runs an update on an open run. A refusal is not stored.
func (e *Engine) update(f *flow, name string, arg any) (any, error) {
	e.settle(f)
	if !f.open() {
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	}
	if f.typ == protocol.WorkflowDelivery {
		return f.record, nil
	}
	if f.agent != nil {
		return e.updateRun(f, name, arg)
	}
	now := e.Now()
	switch a := arg.(type) {
	case domain.Callback:
		clean, digest, _, err := domain.Unpack(f.task, a)
		if err == nil {
			err = domain.Admit(f.task, f.ledger, clean, digest, now)
		}
		if err != nil {
			return nil, asApplicationError(err)
		}
		return e.receive(f, a)
	case protocol.Cancel:
		return e.change(f, domain.Event{Type: domain.EventCancelRequested, AtMs: min(a.AtMs, now), Reason: a.Reason, By: a.By, WaiterID: a.WaiterID})
	case protocol.Detach:
		return e.change(f, domain.Event{Type: domain.EventDetach, AtMs: min(a.AtMs, now), WaiterID: a.WaiterID, Reason: a.Reason, By: a.By})
	case protocol.Resolve:
		return e.resolve(f, a)
	case protocol.Reconcile:
		return e.reconcile(f)
	case protocol.Answer:
		return e.change(f, domain.Event{Type: domain.EventAnswer, AtMs: min(a.AtMs, now), QuestionID: a.QuestionID, Answer: a.Answer, By: a.By})
	case protocol.Retry:
		return e.change(f, domain.Event{Type: domain.EventRetry, AtMs: min(a.AtMs, now), TTLMs: a.TTLMs, By: a.By, Reason: a.Reason})
	case protocol.Attach:
		return e.attach(f, a)
	}
	return nil, crossed(temporal.NewNonRetryableApplicationError("unknown update "+name, "", nil))
}

// attach adds a waiter, a target or both. What was there is a repeat, not a refusal.
func (e *Engine) attach(f *flow, a protocol.Attach) (any, error) {
	out := domain.Outcome{State: f.task.State, Version: f.task.Version}
	if a.Waiter != nil {
		tr, err := domain.Apply(f.task, domain.Event{Type: domain.EventAttach, AtMs: min(a.AtMs, e.Now()), Waiter: a.Waiter})
		if err != nil {
			return nil, asApplicationError(err)
		}
		f.task = tr.Task
		out.Reason, out.Changed, out.Duplicate, out.State, out.Version = tr.Reason, tr.Changed, tr.Duplicate, tr.Task.State, tr.Task.Version
	}
	if a.Target == "" {
		return out, nil
	}
	if slices.Contains(f.targets, a.Target) {
		if a.Waiter == nil {
			out.Reason, out.Duplicate = domain.ReasonDuplicateTarget, true
		}
		return out, nil
	}
	f.targets = append(slices.Clone(f.targets), a.Target)
	out.Reason, out.Changed, out.Duplicate = domain.ReasonAttached, true, false
	return out, nil
}

// resolve is a person's word; an inline result gets its address first.
func (e *Engine) resolve(f *flow, a protocol.Resolve) (any, error) {
	ev := domain.Event{
		Type: domain.EventResolve, AtMs: min(a.AtMs, e.Now()), Action: a.Action, Result: a.Result, ResultRef: a.ResultRef, ResultHash: a.ResultHash,
		ContentType: a.ContentType, Bytes: a.Bytes, Error: a.Error, By: a.By, Reason: a.Reason,
	}
	ev, _, err := domain.Inline(ev, func(hash string) string { return domain.BlobRef(f.task.Tenant, f.task.ID, hash) })
	if err != nil {
		return nil, asApplicationError(err)
	}
	return e.change(f, ev)
}

// reconcile asks what the test says about the outside, and takes the answer.
func (e *Engine) reconcile(f *flow) (any, error) {
	word, ok := e.outside[f.id]
	if !ok {
		word = Outside{Says: protocol.OutsideNotAsked}
	}
	out := protocol.Reconciled{Before: standing(f.task), Outside: word.Says, Note: word.Note}
	if word.Event != nil {
		ev := *word.Event
		if ev.AtMs == 0 {
			ev.AtMs = e.Now()
		}
		tr, err := domain.Apply(f.task, ev)
		if err != nil {
			return nil, asApplicationError(err)
		}
		f.task = tr.Task
		if tr.Changed {
			out.Did = tr.Reason
		}
	}
	out.After = standing(f.task)
	return out, nil
}

func standing(t domain.Task) protocol.Standing {
	return protocol.Standing{State: t.State, Phase: domain.PhaseOf(t), Version: t.Version, Attempt: t.Attempts}
}

func (e *Engine) change(f *flow, ev domain.Event) (any, error) {
	tr, err := domain.Apply(f.task, ev)
	if err != nil {
		return nil, asApplicationError(err)
	}
	out := domain.Outcome{Reason: tr.Reason, Changed: tr.Changed, Duplicate: tr.Duplicate, Late: tr.Late, State: tr.Task.State, Version: tr.Task.Version}
	if !tr.Changed {
		return nil, asApplicationError(&domain.RefusedError{Outcome: out})
	}
	f.task = tr.Task
	return out, nil
}

func (e *Engine) describe(f *flow) any {
	if f.typ == protocol.WorkflowDelivery {
		return f.record
	}
	if f.agent != nil {
		return e.describeRun(f)
	}
	now := e.Now()
	v := domain.Describe(f.task, now)
	v.Repeats, v.Conflicts = f.ledger.Repeats, f.ledger.Conflicts
	p := domain.Next(f.task, now)
	return protocol.Description{View: v, Handle: f.handle, Targets: f.targets, WakeAtMs: p.WakeAtMs, WakeFor: p.WakeFor, ServerTimeMs: now}
}
