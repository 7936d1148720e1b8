package workflows

import (
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// openDoors registers what a run answers to. All of its state is there already: the
// engine may hand over updates the moment a handler is registered.
func (r *agentRun) openDoors() error {
	for _, q := range []struct {
		name, about string
		handler     any
	}{
		{protocol.QueryResume, "what happened since a cursor", r.onResume},
		{protocol.QueryDescribe, "how the run stands", r.onDescribe},
	} {
		if err := workflow.SetQueryHandlerWithOptions(r.ctx, q.name, q.handler, workflow.QueryHandlerOptions{Description: q.about}); err != nil {
			return err
		}
	}
	for _, u := range r.doors() {
		if err := workflow.SetUpdateHandlerWithOptions(r.ctx, u.name, u.handler, workflow.UpdateHandlerOptions{
			Validator: u.validator, Description: u.about,
		}); err != nil {
			return err
		}
	}
	return nil
}

// runDoor is an update of a run.
type runDoor struct {
	name, about        string
	handler, validator any
}

func (r *agentRun) doors() []runDoor {
	return []runDoor{
		{protocol.UpdateClaim, "takes the step that is due", runHandler(r.onClaim), runValidator(r.admitClaim)},
		{protocol.UpdateCommit, "ends a step", runHandler(func(c protocol.Commit) (run.Outcome, error) { return r.change(commitEvent(c)) }), runValidator(r.admitCommit)},
		{protocol.UpdateHeartbeat, "renews the lease of a step", runHandler(r.onHeartbeat), runValidator(func(h protocol.StepHeartbeat) error { return r.admit(heartbeatEvent(h)) })},
		changes(r, protocol.UpdateInput, "says something to the run", saidEvent),
		changes(r, protocol.UpdateApprove, "decides about a call", r.approveEvent),
		changes(r, protocol.UpdateAnswer, "answers a question of the run", r.answerEvent),
		changes(r, protocol.UpdateCancelCall, "gives up one call", r.cancelCallEvent),
		changes(r, protocol.UpdateCancel, "asks for the run to be given up", func(c protocol.Cancel) run.Event {
			return run.Event{Type: run.EventCancel, By: c.By, Reason: c.Reason}
		}),
		changes(r, protocol.UpdatePause, "holds the steps, tasks go on", func(p protocol.Pause) run.Event {
			return run.Event{Type: run.EventPause, By: p.By, Reason: p.Reason}
		}),
		changes(r, protocol.UpdateUnpause, "lets the steps go on", func(p protocol.Pause) run.Event {
			return run.Event{Type: run.EventUnpause, By: p.By, Reason: p.Reason}
		}),
		{
			protocol.UpdateRecover, "compares what the run knows with how things stand",
			func(ctx workflow.Context, m protocol.Recover) (protocol.Recovered, error) { return r.onRecover(ctx, m) },
			func(protocol.Recover) error { return nil },
		},
	}
}

// changes is a door whose messages are events of the domain.
func changes[T any](r *agentRun, name, about string, event func(T) run.Event) runDoor {
	return runDoor{
		name, about,
		runHandler(func(m T) (run.Outcome, error) { return r.change(event(m)) }),
		runValidator(func(m T) error { return r.admit(event(m)) }),
	}
}

// runHandler reads the message by itself: one that cannot be read is an answer and
// must not fail the workflow task.
func runHandler[T, A any](f func(T) (A, error)) func(workflow.Context, json.RawMessage) (A, error) {
	return func(_ workflow.Context, raw json.RawMessage) (A, error) {
		m, err := read[T](raw)
		if err != nil {
			var none A
			return none, asRunError(err)
		}
		a, err := f(m)
		return a, asRunError(err)
	}
}

func runValidator[T any](f func(T) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		m, err := read[T](raw)
		if err == nil {
			err = f(m)
		}
		return asRunError(err)
	}
}

func asRunError(err error) error {
	var refused *run.RefusedError
	if errors.As(err, &refused) {
		return temporal.NewNonRetryableApplicationError(refused.Error(), protocol.ErrTypeRunRefused, nil, refused.Outcome)
	}
	return asApplicationError(err)
}

// change applies an event of an update. What would change nothing and is no repeat is
// refused, as by the validator: it may have become so since.
func (r *agentRun) change(e run.Event) (run.Outcome, error) {
	r.drain()
	r.readClock()
	tr, err := r.apply(e)
	if err != nil {
		return run.Outcome{}, err
	}
	if !tr.Outcome.Changed && !tr.Outcome.Duplicate && !tr.Kept {
		return run.Outcome{}, &run.RefusedError{Outcome: tr.Outcome}
	}
	if tr.Outcome.Changed || tr.Kept {
		r.updatedAt = workflow.GetInfo(r.ctx).GetCurrentHistoryLength()
	}
	return tr.Outcome, nil
}

// admit refuses what would change nothing, at no cost in history. With signals still
// undrained, or a time come that has not been read, it cannot know, and lets in.
func (r *agentRun) admit(e run.Event) error {
	if _, due := run.Due(r.r, r.nowMs()); due || r.finished.Len()+r.subEnded.Len()+r.said.Len() > 0 {
		return nil
	}
	e.AtMs = r.nowMs()
	tr, err := applyRun(r.r, e)
	if err != nil {
		return err
	}
	if !tr.Outcome.Changed && !tr.Outcome.Duplicate && !tr.Kept {
		return &run.RefusedError{Outcome: tr.Outcome}
	}
	return nil
}

func (r *agentRun) claimEvent(c protocol.Claim) run.Event {
	e := run.Event{Type: run.EventClaim, Holder: c.Holder, LeaseMs: c.LeaseMs, RuntimeVersion: c.RuntimeVersion, Token: "none"}
	if s := r.r.Step; s != nil {
		e.Token = r.token(s)
	}
	return e
}

// token is that of the next attempt of a step.
func (r *agentRun) token(s *run.Step) string {
	return protocol.StepToken(workflow.GetInfo(r.ctx).WorkflowExecution.RunID, s.Number, s.Attempt+1)
}

func (r *agentRun) onClaim(c protocol.Claim) (protocol.Claimed, error) {
	r.drain()
	r.readClock()
	if err := r.checkPulls(); err != nil {
		return protocol.Claimed{}, err
	}
	out, err := r.change(r.claimEvent(c))
	if err != nil {
		return protocol.Claimed{}, err
	}
	if out.Reason != run.ReasonClaimed {
		// The runtime has died on this step too often: the run has failed, and has no step.
		return protocol.Claimed{}, &run.RefusedError{Outcome: run.Outcome{Reason: run.ReasonRunClosed, State: out.State, Version: out.Version, Step: out.Step}}
	}
	r.delta = nil
	req, checkpoint := r.r.Request()
	return protocol.Claimed{Request: req, Checkpoint: checkpoint}, nil
}

func (r *agentRun) admitClaim(c protocol.Claim) error {
	if err := r.checkPulls(); err != nil {
		return err
	}
	return r.admit(r.claimEvent(c))
}

// checkPulls refuses a claim of a run whose steps are brought to its runtime.
func (r *agentRun) checkPulls() error {
	if m := r.in.Runtime.Mode; m != protocol.ModePull {
		return domain.Invalid("runtime", "must be one that pulls, the run's is of mode %s", m)
	}
	return nil
}

func heartbeatEvent(h protocol.StepHeartbeat) run.Event {
	return run.Event{Type: run.EventHeartbeat, Token: h.StepToken}
}

func (r *agentRun) onHeartbeat(h protocol.StepHeartbeat) (run.Outcome, error) {
	e := heartbeatEvent(h)
	if r.in.Runtime.Mode == protocol.ModePush && !r.step.open {
		// Nobody waits for its answer any more: from now on its own lease counts.
		e.LeaseMs = r.r.Policy.LeaseMs
	}
	out, err := r.change(e)
	if err == nil && len(h.Delta) > 0 && len(h.Delta) <= run.MaxOutput {
		r.delta = h.Delta
	}
	return out, err
}

func commitEvent(c protocol.Commit) run.Event {
	resp := run.Normal(c.Response)
	// Their bytes are beside the response.
	resp.Checkpoint, resp.CheckpointRef, resp.Final = nil, nil, nil
	return run.Event{
		Type: run.EventCommit, Step: c.Step, Token: c.StepToken, Response: &resp, Checkpoint: c.Checkpoint, Final: c.Final,
		Digest: run.Digest(resp, c.Checkpoint, c.Final), Error: resp.Error,
	}
}

// admitCommit refuses for a moment a checkpoint that may just have been deleted. The
// refusal is the validator's, because that is not remembered: the same commit is taken a
// little later, when its sender has stored the content again.
func (r *agentRun) admitCommit(c protocol.Commit) error {
	if r.mayBeGone(c.Checkpoint) {
		return temporal.NewApplicationError("the checkpoint is one that was just deleted; store it again and repeat the commit", protocol.ErrTypeTryAgain)
	}
	return r.admit(commitEvent(c))
}

func saidEvent(s protocol.RunSaid) run.Event {
	return run.Event{Type: run.EventInput, Input: &run.Input{InputID: s.InputID, Content: s.Content, Source: s.Source}}
}

// call names the call that is meant: without a step the newest of that id.
func (r *agentRun) call(id protocol.CallID) run.Key {
	if id.AskedAtStep != 0 {
		return run.Key{Step: id.AskedAtStep, ID: id.ToolCallID}
	}
	k := run.Key{ID: id.ToolCallID}
	for _, c := range r.r.Calls {
		if c.ID == id.ToolCallID && c.Step > k.Step {
			k = c.Key
		}
	}
	return k
}

func (r *agentRun) approveEvent(a protocol.Approve) run.Event {
	return run.Event{
		Type: run.EventApprove, Call: r.call(a.CallID), By: a.By, Reason: a.Message,
		Decides: &run.Approval{Decision: a.Decision, Input: a.Input, Message: a.Message, By: a.By},
	}
}

func (r *agentRun) answerEvent(a protocol.AnswerCall) run.Event {
	return run.Event{Type: run.EventAnswer, Call: r.call(a.CallID), By: a.By, Answer: a.Answer}
}

func (r *agentRun) cancelCallEvent(c protocol.CancelOneCall) run.Event {
	return run.Event{Type: run.EventCancelCall, Call: r.call(c.CallID), By: c.By, Reason: c.Message}
}

// onRecover asks the task of every open call, and through it the outside, and takes in
// what it finds.
func (r *agentRun) onRecover(ctx workflow.Context, m protocol.Recover) (protocol.Recovered, error) {
	r.drain()
	req := protocol.WatchCallsRequest{Tenant: r.r.Tenant, RunID: r.r.ID, DryRun: m.DryRun, By: m.By}
	for _, c := range r.r.Calls {
		if !c.State.Ended() {
			req.Calls = append(req.Calls, openCall(c))
		}
	}
	var found protocol.CallsFound
	if len(req.Calls) > 0 {
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, inspectCallsOptions()), protocol.ActivityInspectCalls, req).Get(ctx, &found); err != nil {
			return protocol.Recovered{}, temporal.NewApplicationError("the tasks could not be asked: "+why(err), protocol.ErrTypeInvalid)
		}
	}
	out := protocol.Recovered{Calls: found.Drift}
	if !m.DryRun {
		r.drain()
		out.Changed = r.takeFound(found)
	}
	if out.Calls == nil {
		out.Calls = []protocol.CallDrift{}
	}
	out.State = r.r.State
	if r.r.Step != nil {
		out.Step = run.WaitsFor(r.r)
	}
	return out, nil
}

func (r *agentRun) onResume(q protocol.ResumeRequest) (run.Page, error) {
	p, err := run.Resume(r.r, q.Cursor)
	return p, asRunError(err)
}

func (r *agentRun) onDescribe() (protocol.RunDescription, error) {
	now := r.nowMs()
	p := run.Next(r.r, now)
	delta := r.delta
	if s := r.r.Step; s == nil || !s.Held {
		// What it was a hint about is over.
		delta = nil
	}
	return protocol.RunDescription{
		Run: r.r, Runtime: r.in.Runtime, Asks: r.openAsks(), WaitsFor: run.WaitsFor(r.r), Delta: delta,
		WakeAtMs: p.WakeAtMs, WakeFor: p.WakeFor, LastRejected: r.rejected, ServerTimeMs: now,
	}, nil
}
