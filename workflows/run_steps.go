package workflows

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// stepTimeout bounds one attempt of a step, unless the runtime says otherwise.
const stepTimeout = 10 * time.Minute

// maxMessage is how large a checkpoint or a final answer may be in the answer of an
// activity. It goes on to another activity in base64, and the engine ends a workflow that
// sends a message of 2 MiB.
const maxMessage = 1 << 20

// forgetfulness is how long contents that were deleted are remembered: whoever stored
// the same again at that moment may have found them still there.
const forgetfulness = time.Minute

// forgotten is content that was deleted.
type forgotten struct {
	ref     string
	untilMs int64
}

// forever is the lease of a step that the engine itself watches: it may wait for the
// runtime's worker as long as the run lives.
const forever = 100 * 365 * 24 * time.Hour

// takeStep brings the step that is due to its runtime. One that pulls comes by itself.
func (r *agentRun) takeStep() {
	switch r.in.Runtime.Mode {
	case protocol.ModePull:
	case protocol.ModePlan:
		r.planStep()
	case protocol.ModeActivity:
		r.claimFor(forever)
		r.begin(&r.step, r.activityStep)
	case protocol.ModePush:
		r.claimFor(forever)
		r.begin(&r.step, r.pushStep)
	}
}

// holdsStep says that the step is still out as the attempt that is being carried out.
func (r *agentRun) holdsStep() bool {
	s := r.r.Step
	return s != nil && s.Held && s.Token == r.stepToken
}

// unwatched says that the step is out and was carried out by the execution before this
// one: its activity has not crossed over, so the step is brought to its runtime again.
// That is no failure of the runtime.
func (r *agentRun) unwatched() bool {
	s := r.r.Step
	return s != nil && s.Held && s.LeaseMs == forever.Milliseconds() && !r.step.open && !r.r.Paused && r.r.Ending == nil && !r.r.State.Terminal()
}

// claimFor takes the step on behalf of its runtime.
func (r *agentRun) claimFor(lease time.Duration) {
	name := r.in.Runtime.Name
	if name == "" {
		name = string(r.in.Runtime.Mode)
	}
	r.must(run.Event{Type: run.EventClaim, Holder: name, LeaseMs: lease.Milliseconds(), Token: r.token(r.r.Step), Left: true})
	r.delta, r.stepToken = nil, r.r.Step.Token
}

func (r *agentRun) stepTimeout() time.Duration {
	if ms := r.in.Runtime.StepTimeoutMs; ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return stepTimeout
}

// request is the step that is out. Its lease is what its runtime has to keep to, and not
// what the run itself waits.
func (r *agentRun) request() protocol.PrepareStepRequest {
	req, checkpoint := r.r.Request()
	req.LeaseMs = r.stepTimeout().Milliseconds()
	if r.in.Runtime.Heartbeats || r.in.Runtime.Mode == protocol.ModePush {
		req.LeaseMs = r.r.Policy.LeaseMs
	}
	return protocol.PrepareStepRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Request: req, Checkpoint: checkpoint}
}

// activityStep runs the step as an activity on the runtime's own task queue. The engine
// tries it once: each further try is a new attempt with a token of its own.
func (r *agentRun) activityStep(ctx workflow.Context) {
	req := r.request()
	token := req.Request.StepToken
	var prepared []byte
	if err := r.soon(ctx, true, protocol.ActivityPrepareStep, req, &prepared, prepareOptions()); err != nil {
		r.stepFailed(ctx, token, err)
		return
	}
	// As its own JSON, so that the checkpoint reaches the runtime byte for byte.
	arg := converter.NewRawValue(jsonPayload(prepared))
	opts := stepOptions(r.in.Runtime.TaskQueue, "step "+itoa(req.Request.Step)+", attempt "+itoa(req.Request.Attempt), r.stepTimeout())
	if r.in.Runtime.Heartbeats {
		opts.HeartbeatTimeout = time.Duration(r.r.Policy.LeaseMs) * time.Millisecond
	}
	var resp run.StepResponse
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityAgentStep, arg).Get(ctx, &resp); err != nil {
		r.stepFailed(ctx, token, err)
		return
	}
	c, err := r.pack(ctx, req.Request.Step, token, resp)
	if err != nil {
		r.stepFailed(ctx, token, err)
		return
	}
	r.commit(c)
}

// pack moves the checkpoint and the final answer out of a response: small ones stay in
// the run, others go into the blob store.
func (r *agentRun) pack(ctx workflow.Context, step int, token string, resp run.StepResponse) (protocol.Commit, error) {
	resp = run.Normal(resp)
	c := protocol.Commit{Step: step, StepToken: token}
	for _, f := range []struct {
		field string
		data  json.RawMessage
		into  **run.Content
	}{{"checkpoint", resp.Checkpoint, &c.Checkpoint}, {"final", resp.Final, &c.Final}} {
		if len(f.data) == 0 {
			continue
		}
		*f.into = run.Inline(f.data, "application/json")
		if len(f.data) <= run.MaxInline {
			continue
		}
		if len(f.data) > maxMessage {
			return c, domain.Invalid(f.field, "must be at most %d bytes in the answer of an activity, it has %d; a larger checkpoint is stored by the runtime and named by checkpointRef", maxMessage, len(f.data))
		}
		var stored run.Content
		store := protocol.StoreContentRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Content: **f.into}
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, storeOptions()), protocol.ActivityStoreContent, store).Get(ctx, &stored); err != nil {
			return c, err
		}
		*f.into = &stored
	}
	if ref := resp.CheckpointRef; ref != nil {
		if c.Checkpoint != nil {
			return c, domain.Invalid("checkpointRef", "must not come with checkpoint")
		}
		var stored run.Content
		check := protocol.StoreContentRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Content: run.Content{Ref: ref.Ref, Hash: ref.Hash, Bytes: ref.Bytes}}
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, storeOptions()), protocol.ActivityStoreContent, check).Get(ctx, &stored); err != nil {
			return c, err
		}
		c.Checkpoint = &stored
	}
	resp.Checkpoint, resp.CheckpointRef, resp.Final = nil, nil, nil
	c.Response = resp
	return c, nil
}

// forget deletes old checkpoints. What cannot be deleted now is left to the sweep, which
// comes when the run has ended.
func (r *agentRun) forget(refs []string) {
	req := protocol.ForgetContentsRequest{Tenant: r.r.Tenant, RunID: r.r.ID, Refs: refs}
	now := r.nowMs()
	r.forgotten = slices.DeleteFunc(r.forgotten, func(f forgotten) bool { return f.untilMs <= now })
	for _, ref := range refs {
		r.forgotten = append(r.forgotten, forgotten{ref: ref, untilMs: now + forgetfulness.Milliseconds()})
	}
	r.begin(&r.tidy, func(ctx workflow.Context) {
		if err := r.soon(ctx, r.durable(), protocol.ActivityForgetContents, req, nil, notifyOptions()); err != nil {
			r.log.Warn("old checkpoints could not be deleted", "error", err)
		}
		r.must(run.Event{Type: run.EventNoted, Reason: run.NotedForgotten, Refs: refs})
	})
}

// mayBeGone tells whether a checkpoint that comes back may just have been deleted.
func (r *agentRun) mayBeGone(c *run.Content) bool {
	return c != nil && c.Ref != "" && slices.ContainsFunc(r.forgotten, func(f forgotten) bool { return f.ref == c.Ref && f.untilMs > r.nowMs() })
}

// pushStep sends the step to the runtime's URL.
func (r *agentRun) pushStep(ctx workflow.Context) {
	req := protocol.PushStepRequest{PrepareStepRequest: r.request(), Runtime: r.in.Runtime.Name}
	token := req.Request.StepToken
	opts := stepOptions("", "step "+itoa(req.Request.Step)+", attempt "+itoa(req.Request.Attempt)+", to "+r.in.Runtime.Name, r.stepTimeout())
	opts.HeartbeatTimeout = silence
	var res protocol.PushStepResult
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), protocol.ActivityPushStep, req).Get(ctx, &res)
	switch {
	case err != nil:
		r.stepFailed(ctx, token, err)
	case res.Accepted:
		// From now on it is the runtime's to say that it is alive.
		r.lease(token)
	default:
		r.commit(*res.Commit)
	}
}

// lease begins the lease of a runtime that has taken the step and will commit later. It
// may have done so already.
func (r *agentRun) lease(token string) {
	if s := r.r.Step; s != nil && s.Token == token {
		r.must(run.Event{Type: run.EventHeartbeat, Token: token, LeaseMs: r.r.Policy.LeaseMs})
	}
}

// commit takes what a runtime answered. An answer that cannot be taken is a failure of
// the step.
func (r *agentRun) commit(c protocol.Commit) {
	if r.mayBeGone(c.Checkpoint) {
		r.stepFails(c.StepToken, &domain.TaskError{Code: run.CodeStepFailed, Retryable: true, Message: "the checkpoint is one that was just deleted; it has to be stored again"})
		return
	}
	tr, err := r.apply(commitEvent(c))
	switch {
	case err != nil:
		r.stepFails(c.StepToken, &domain.TaskError{Code: run.CodeInvalidResponse, Class: domain.ClassUser, Retryable: true, Message: shortened(err.Error())})
	case tr.Outcome.Changed || tr.Outcome.Duplicate:
	case tr.Outcome.Reason == run.ReasonNothingToWait:
		r.stepFails(c.StepToken, &domain.TaskError{Code: run.CodeInvalidResponse, Class: domain.ClassUser, Retryable: true, Message: string(tr.Outcome.Reason) + ": the step asks for nothing and nothing is open"})
	default:
		r.log.Info("a commit was refused", "step", c.Step, "reason", tr.Outcome.Reason)
	}
}

// stepFailed takes in what went wrong with a step. One that was taken away cannot fail;
// an activity that says by itself that it was cancelled has failed like any other.
func (r *agentRun) stepFailed(ctx workflow.Context, token string, err error) {
	if ctx.Err() != nil {
		return
	}
	out := &domain.TaskError{Code: run.CodeStepFailed, Retryable: true, Message: shortened(why(err))}
	var app *temporal.ApplicationError
	var invalid *domain.InvalidError
	switch {
	case errors.As(err, &app):
		out.Retryable = !app.NonRetryable()
		if app.Type() == protocol.ErrTypeStepUnheard {
			// Its runtime may be at work, and say so.
			out.Code = run.CodeStepLost
		}
	case errors.As(err, &invalid):
		out.Code, out.Class = run.CodeInvalidResponse, domain.ClassUser
	case temporal.IsTimeoutError(err):
		out.Code = run.CodeStepLost
	}
	r.stepFails(token, out)
}

func (r *agentRun) stepFails(token string, err *domain.TaskError) {
	r.must(run.Event{Type: run.EventStepFailed, Token: token, Error: err})
}

// planStep is the runtime of a run that follows a plan: the first step asks for its
// calls, the second one sums up how they ended.
func (r *agentRun) planStep() {
	r.claimFor(forever)
	req, _ := r.r.Request()
	c := protocol.Commit{Step: req.Step, StepToken: req.StepToken}
	if r.r.StepsDone == 0 {
		c.Response = run.StepResponse{ToolCalls: r.in.Plan}
		r.commit(c)
		return
	}
	final, err := run.PlanEnd(req)
	if err != nil {
		r.stepFails(req.StepToken, err)
		return
	}
	c.Final = run.Inline(final, "application/json")
	r.commit(c)
}
