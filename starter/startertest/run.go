package startertest

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	agent "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// agentRun is a run of an agent, played by the rules of its domain. What its activities
// would do, beginning calls and looking at them, the test does itself.
type agentRun struct {
	in  protocol.RunInput
	run agent.Run
	// said waits for a worker.
	said  []protocol.RunSaid
	delta json.RawMessage
	// found is what a recovery will find.
	found protocol.Recovered
}

// ApplyRun lets an event happen to an open run as its workflow would.
func (e *Engine) ApplyRun(workflowID string, ev agent.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.last(workflowID)
	if f == nil || !f.open() || f.agent == nil {
		return fmt.Errorf("no open run %s", workflowID)
	}
	if ev.AtMs == 0 {
		ev.AtMs = e.Now()
	}
	tr, err := agent.Apply(f.agent.run, ev)
	if err != nil {
		return err
	}
	f.agent.run = tr.Run
	e.settle(f)
	e.notify()
	return nil
}

// SetFound says what a recovery of an open run will find.
func (e *Engine) SetFound(workflowID string, found protocol.Recovered) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last(workflowID).agent.found = found
}

// ForgetUpdates forgets the answers to the updates of a workflow, as the engine does for
// those of an earlier run of it.
func (e *Engine) ForgetUpdates(workflowID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last(workflowID).updates = make(map[string]answer)
}

// StartedRun gives the input of the newest run of an agent's workflow.
func (e *Engine) StartedRun(workflowID string) protocol.RunInput {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.last(workflowID); f != nil && f.agent != nil {
		return f.agent.in
	}
	return protocol.RunInput{}
}

func (e *Engine) settleRun(f *flow) {
	a := f.agent
	if !f.begun {
		f.begun = true
		if err := e.beginRun(f); err != nil {
			f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, asRunError(err), e.Now())
			return
		}
	}
	for _, s := range a.said {
		e.applyRun(a, agent.Event{Type: agent.EventInput, Input: &agent.Input{InputID: s.InputID, Content: s.Content, Source: s.Source}})
	}
	a.said = nil
	if f.cancelled {
		f.cancelled = false
		e.applyRun(a, agent.Event{Type: agent.EventCancel, By: "temporal", Reason: "the workflow was cancelled"})
	}
	for ev, due := agent.Due(a.run, e.Now()); due; ev, due = agent.Due(a.run, e.Now()) {
		e.applyRun(a, ev)
	}
	if agent.Next(a.run, e.Now()).Close {
		e.closeRun(f)
	}
}

func (e *Engine) beginRun(f *flow) error {
	a := f.agent
	if c := a.in.Carry; c != nil {
		a.run = c.Run
		if r := c.Retry; r != nil {
			e.applyRun(a, agent.Event{Type: agent.EventRetry, TTLMs: r.TTLMs, Limits: r.Limits, By: r.By, Reason: r.Reason})
		}
		return nil
	}
	create := a.in.Create
	create.NowMs = f.startedAtMs
	r, err := agent.New(create)
	a.run = r
	return err
}

// applyRun lets happen what nobody is told of.
func (e *Engine) applyRun(a *agentRun, ev agent.Event) {
	ev.AtMs = e.Now()
	if tr, err := agent.Apply(a.run, ev); err == nil {
		a.run = tr.Run
	}
}

func (e *Engine) closeRun(f *flow) {
	rec := protocol.RunRecord{Run: f.agent.run, Runtime: f.agent.in.Runtime, Plan: f.agent.in.Plan}
	switch f.agent.run.State {
	case agent.StateFailed:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, crossed(temporal.NewNonRetryableApplicationError("failed", protocol.ErrTypeRunFailed, nil, rec)), e.Now())
	case agent.StateExpired:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, crossed(temporal.NewNonRetryableApplicationError("expired", protocol.ErrTypeRunExpired, nil, rec)), e.Now())
	case agent.StateCancelled:
		f.end(enums.WORKFLOW_EXECUTION_STATUS_CANCELED, crossed(temporal.NewCanceledError(rec)), e.Now())
	case agent.StateSucceeded:
		f.result = payloads(rec)
		f.end(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, e.Now())
	case agent.StateRunning, agent.StateWaitingTool, agent.StateWaitingInput, agent.StatePaused:
	}
}

// updateRun runs an update on an open run, with the message as it crosses the engine.
func (e *Engine) updateRun(f *flow, name string, arg any) (any, error) {
	raw, err := json.Marshal(arg)
	if err != nil {
		return nil, err
	}
	a := f.agent
	if name == protocol.UpdateRecover {
		out := a.found
		out.State = a.run.State
		return out, nil
	}
	ev, err := runEvent(a.run, f.runID, name, raw)
	if err != nil {
		return nil, asRunError(err)
	}
	ev.AtMs = e.Now()
	tr, err := agent.Apply(a.run, ev)
	if err != nil {
		return nil, asRunError(err)
	}
	if !tr.Outcome.Changed && !tr.Outcome.Duplicate && !tr.Kept {
		return nil, asRunError(&agent.RefusedError{Outcome: tr.Outcome})
	}
	a.run = tr.Run
	switch name {
	case protocol.UpdateClaim:
		req, checkpoint := a.run.Request()
		a.delta = nil
		return protocol.Claimed{Request: req, Checkpoint: checkpoint}, nil
	case protocol.UpdateHeartbeat:
		var m protocol.StepHeartbeat
		if json.Unmarshal(raw, &m) == nil && len(m.Delta) > 0 {
			a.delta = m.Delta
		}
	}
	return tr.Outcome, nil
}

// runEvent reads the message of an update.
func runEvent(r agent.Run, executionID, name string, raw []byte) (agent.Event, error) {
	var m struct {
		protocol.CallID
		Holder         string             `json:"holder"`
		LeaseMs        int64              `json:"leaseMs"`
		RuntimeVersion string             `json:"runtimeVersion"`
		Step           int                `json:"step"`
		StepToken      string             `json:"stepToken"`
		Response       agent.StepResponse `json:"response"`
		Checkpoint     *agent.Content     `json:"checkpoint"`
		Final          *agent.Content     `json:"final"`
		Decision       string             `json:"decision"`
		Input          json.RawMessage    `json:"input"`
		Message        string             `json:"message"`
		Answer         json.RawMessage    `json:"answer"`
		By             string             `json:"by"`
		Reason         string             `json:"reason"`
		InputID        string             `json:"inputId"`
		Content        json.RawMessage    `json:"content"`
		Source         string             `json:"source"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return agent.Event{}, err
	}
	key := agent.Key{Step: m.AskedAtStep, ID: m.ToolCallID}
	for _, c := range r.Calls {
		if m.AskedAtStep == 0 && c.ID == key.ID {
			key.Step = max(key.Step, c.Step)
		}
	}
	ev := agent.Event{Call: key, By: m.By, Reason: m.Reason}
	switch name {
	case protocol.UpdateClaim:
		ev = agent.Event{Type: agent.EventClaim, Holder: m.Holder, LeaseMs: m.LeaseMs, RuntimeVersion: m.RuntimeVersion, Token: "none"}
		if r.Step != nil {
			ev.Token = protocol.StepToken(executionID, r.Step.Number, r.Step.Attempt+1)
		}
	case protocol.UpdateCommit:
		ev = agent.Event{
			Type: agent.EventCommit, Step: m.Step, Token: m.StepToken, Response: &m.Response, Checkpoint: m.Checkpoint, Final: m.Final,
			Digest: agent.Digest(m.Response, m.Checkpoint, m.Final), Error: m.Response.Error,
		}
	case protocol.UpdateHeartbeat:
		ev = agent.Event{Type: agent.EventHeartbeat, Token: m.StepToken}
	case protocol.UpdateInput:
		ev = agent.Event{Type: agent.EventInput, Input: &agent.Input{InputID: m.InputID, Content: m.Content, Source: m.Source}}
	case protocol.UpdateApprove:
		ev.Type, ev.Decides = agent.EventApprove, &agent.Approval{Decision: m.Decision, Input: m.Input, Message: m.Message, By: m.By}
	case protocol.UpdateAnswer:
		ev.Type, ev.Answer = agent.EventAnswer, m.Answer
	case protocol.UpdateCancelCall:
		ev.Type, ev.Reason = agent.EventCancelCall, m.Message
	case protocol.UpdateCancel:
		ev.Type = agent.EventCancel
	case protocol.UpdatePause:
		ev.Type = agent.EventPause
	case protocol.UpdateUnpause:
		ev.Type = agent.EventUnpause
	default:
		return ev, serviceerror.NewInvalidArgument("unknown update " + name)
	}
	return ev, nil
}

func (e *Engine) describeRun(f *flow) protocol.RunDescription {
	a, now := f.agent, e.Now()
	p := agent.Next(a.run, now)
	return protocol.RunDescription{
		Run: a.run, Runtime: a.in.Runtime, WaitsFor: agent.WaitsFor(a.run), Delta: a.delta, WakeAtMs: p.WakeAtMs, WakeFor: p.WakeFor, ServerTimeMs: now,
	}
}

func asRunError(err error) error {
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		return crossed(temporal.NewNonRetryableApplicationError(err.Error(), protocol.ErrTypeRunRefused, nil, refused.Outcome))
	}
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) {
		return asApplicationError(err)
	}
	return crossed(temporal.NewNonRetryableApplicationError(err.Error(), "", nil))
}
