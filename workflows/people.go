package workflows

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// reconcileWithin bounds how long an answer to the update `reconcile` waits for the
// outside.
const reconcileWithin = 20 * time.Second

func detachEvent(d protocol.Detach) domain.Event {
	return domain.Event{Type: domain.EventDetach, AtMs: d.AtMs, WaiterID: d.WaiterID, Reason: d.Reason, By: d.By}
}

func (r *task) onDetach(d protocol.Detach) (domain.Outcome, error) { return r.change(detachEvent(d)) }

func (r *task) admitDetach(d protocol.Detach) error { return r.admit(detachEvent(d)) }

// resolveEvent gives the event of a person's word, and the bytes of a result that
// came with it.
func (r *task) resolveEvent(v protocol.Resolve) (domain.Event, []byte, error) {
	e := domain.Event{
		Type: domain.EventResolve, AtMs: v.AtMs, Action: v.Action, Result: v.Result, ResultRef: v.ResultRef, ResultHash: v.ResultHash,
		ContentType: v.ContentType, Bytes: v.Bytes, Error: v.Error, By: v.By, Reason: v.Reason, Source: "person",
	}
	if err := e.Validate(); err != nil {
		return e, nil, err
	}
	return domain.Inline(e, func(hash string) string { return domain.BlobRef(r.t.Tenant, r.t.ID, hash) })
}

func (r *task) onResolve(v protocol.Resolve) (domain.Outcome, error) {
	r.drain()
	e, content, err := r.resolveEvent(v)
	if err != nil {
		return domain.Outcome{}, err
	}
	tr, err := domain.Apply(r.t, r.stamped(e))
	if err != nil {
		return domain.Outcome{}, err
	}
	if content != nil && keeps(tr, e.ResultHash) {
		r.unstored = append(r.unstored, protocol.Blob{Ref: e.ResultRef, Hash: e.ResultHash, ContentType: e.ContentType, Content: content})
	}
	r.take(tr)
	return outcomeOf(tr), nil
}

func (r *task) admitResolve(v protocol.Resolve) error {
	e, _, err := r.resolveEvent(v)
	if err != nil {
		return err
	}
	return r.admit(e)
}

// onReconcile asks the outside at once and takes what it says. It is the one handler
// that waits: whoever reconciles wants to hear what became of it.
func (r *task) onReconcile(ctx workflow.Context, _ json.RawMessage) (protocol.Reconciled, error) {
	r.drain()
	r.readStarted()
	out := protocol.Reconciled{Before: r.standing(), Outside: protocol.OutsideNotAsked}
	switch {
	case r.t.State.Terminal():
		out.Note = "the task has ended"
	case !r.hasExecutor():
		out.Note = "there is nobody to ask: the world calls us"
	case r.submitting():
		out.Note = "a submission is under way, which looks for the job itself"
	case r.t.State == domain.StateQueued:
		out.Note = "the task waits for its next attempt"
	default:
		if !r.ask.open {
			r.askOutside(reconcileWithin, silenceIsNothing)
		}
		// Whoever asked is answered also when the workflow is cancelled meanwhile.
		free, _ := workflow.NewDisconnectedContext(ctx)
		if err := workflow.Await(free, func() bool { return !r.ask.open }); err != nil {
			return out, err
		}
		out.Outside, out.Note, out.Did = r.answer.Outside, r.answer.Note, r.answer.Did
	}
	out.After = r.standing()
	return out, nil
}

func (r *task) standing() protocol.Standing {
	return protocol.Standing{State: r.t.State, Phase: domain.Describe(r.t, r.nowMs()).Phase, Version: r.t.Version, Attempt: r.t.Attempts}
}

// cause is what an activity said went wrong, without the engine's words around it.
func cause(err error) string {
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return app.Message()
	case errors.As(err, &late):
		return "no worker answered in time"
	}
	return err.Error()
}

// said puts the answer of the outside into words.
func said(res protocol.ProbeResult, err error) protocol.Reconciled {
	out := protocol.Reconciled{Note: res.Note}
	switch {
	case err != nil:
		out.Outside, out.Note = protocol.OutsideNoAnswer, shortened(cause(err))
	case res.Event != nil:
		out.Outside, out.Note = protocol.OutsideEnded, string(res.Event.Type)
	case res.NotAsked:
		out.Outside = protocol.OutsideNotAsked
	case res.Lost:
		out.Outside = protocol.OutsideLost
	case res.Known:
		out.Outside = protocol.OutsideRunning
	default:
		out.Outside = protocol.OutsideUnknown
	}
	return out
}

// compensate has undone what the attempt may have done, by a task of its own.
func (r *task) compensate() {
	attempt, id := r.t.Attempts, r.t.Manual.Compensation
	req := protocol.CompensateRequest{
		Job: r.job(attempt), Compensate: r.in.Tool.Compensate, CompensationID: id, Input: r.in.Input, Reason: r.t.Manual.Why,
	}
	opts := compensateOptions("undo by " + r.in.Tool.Compensate)
	r.begin(&r.undo, attempt, func(ctx workflow.Context) {
		var res protocol.CompensateResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityCompensate, req).Get(ctx, &res)
		if ctx.Err() != nil || r.t.Attempts != attempt {
			return
		}
		e := domain.Event{Type: domain.EventCompensated, AtMs: r.nowMs(), Attempt: attempt, Compensation: id, Error: res.Error, Source: "compensation"}
		switch {
		case err != nil:
			e.Error = &domain.TaskError{Code: "NOT_COMPENSATED", Message: shortened(cause(err))}
		case res.State != domain.StateSucceeded && res.Error == nil:
			e.Error = &domain.TaskError{Code: "NOT_COMPENSATED", Message: "the task that undoes is " + string(res.State)}
		}
		r.applyOutside(e)
	})
}
