package run

import (
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

// Plan is what has to be done for a run now. It follows from the run alone, so that
// whoever takes over goes on.
type Plan struct {
	// Start are the calls whose work is to be begun.
	Start []Key
	// Cancel are the calls whose task is to be told that they are given up.
	Cancel []Key
	// Detach are the tasks to be told that the run waits no longer.
	Detach []Key
	// Offer says that a step is due which nobody has.
	Offer bool
	// Forget are contents in the blob store that are not needed any more.
	Forget []string
	// WakeAtMs is when to look again, 0 for never, and WakeFor why.
	WakeAtMs int64
	WakeFor  string
	// Close says that the run has ended and nothing is left to be done.
	Close bool
}

// What a run wakes for.
const (
	WakeForDeadline = "deadline"
	WakeForLease    = "lease of the step"
	WakeForStep     = "next attempt of the step"
	WakeForWait     = "patience with a call"
	WakeForPerson   = "time of a person to decide"
	WakeForGrace    = "end of the cancel grace"
)

// Next derives the plan at nowMs.
func Next(r Run, nowMs int64) Plan {
	var p Plan
	ended := r.State.Terminal()
	starting := false
	for _, c := range r.Calls {
		starting = starting || c.Starting
		if c.State == CallReady && !c.Starting && c.Cancel == nil && r.Ending == nil && (!ended || r.State == StateSucceeded) {
			p.Start = append(p.Start, c.Key)
		}
		if c.State == CallOpen && c.Cancel != nil && !c.CancelSent {
			p.Cancel = append(p.Cancel, c.Key)
		}
	}
	for _, d := range r.Detached {
		if !d.Sent {
			p.Detach = append(p.Detach, d.Key)
		}
	}
	p.Offer = !ended && r.Step != nil && !r.Step.Held && !r.Paused && r.Ending == nil && r.Step.NotBeforeMs <= nowMs
	p.Close = ended && len(p.Start) == 0 && len(p.Cancel) == 0 && len(p.Detach) == 0 && !starting
	if n := len(r.Superseded); !ended && n >= MaxSuperseded {
		p.Forget = r.Superseded[:n-KeptSuperseded]
	}
	if !ended {
		for _, d := range deadlines(r) {
			if d.event == "" && d.atMs <= nowMs {
				// It is offered already. What has come would hide what is yet to come.
				continue
			}
			if p.WakeAtMs == 0 || d.atMs < p.WakeAtMs {
				p.WakeAtMs, p.WakeFor = d.atMs, d.what
			}
		}
	}
	return p
}

// deadline is a moment at which time alone changes something.
type deadline struct {
	atMs  int64
	what  string
	event EventType
	call  Key
}

// deadlines lists them all.
func deadlines(r Run) []deadline {
	var all []deadline
	if r.Ending != nil {
		return []deadline{{r.Ending.UntilMs, WakeForGrace, EventCancelTimeout, Key{}}}
	}
	all = append(all, deadline{r.ExpiresAtMs, WakeForDeadline, EventExpire, Key{}})
	if s := r.Step; s != nil && s.Held {
		all = append(all, deadline{s.LeaseUntilMs, WakeForLease, EventStepLost, Key{}})
	} else if s != nil && s.NotBeforeMs > 0 && !r.Paused {
		all = append(all, deadline{s.NotBeforeMs, WakeForStep, "", Key{}})
	}
	for _, c := range r.Calls {
		if c.State.Ended() {
			continue
		}
		if c.UntilMs > 0 {
			all = append(all, deadline{c.UntilMs, WakeForPerson, EventCallTimeout, c.Key})
		}
		if c.WaitMs > 0 {
			all = append(all, deadline{c.AskedAtMs + c.WaitMs, WakeForWait, EventWaitTimeout, c.Key})
		}
	}
	return all
}

// Due gives the event that time alone has brought by nowMs, the earliest first.
func Due(r Run, nowMs int64) (Event, bool) {
	if r.State.Terminal() {
		return Event{}, false
	}
	var first *deadline
	for _, d := range deadlines(r) {
		if d.event != "" && d.atMs <= nowMs && (first == nil || d.atMs < first.atMs) {
			first = &d
		}
	}
	if first == nil {
		return Event{}, false
	}
	return Event{Type: first.event, AtMs: nowMs, Call: first.call, By: "timer"}, true
}

// Request is the step that is out, as its runtime is asked. The contents of results and
// of a checkpoint in the blob store are left to whoever can read there.
func (r Run) Request() (StepRequest, *Content) {
	s := r.Step
	req := StepRequest{
		RunID: r.ID, Step: s.Number, Attempt: s.Attempt, StepToken: s.Token, LeaseMs: s.LeaseMs, Cause: s.Cause,
		CheckpointFormat: r.CheckpointFormat, RuntimeVersion: r.RuntimeVersion, Limits: r.Used(), Traceparent: r.Traceparent,
		Results: []Result{}, Inputs: []Input{}, Pending: []Pending{},
	}
	for _, c := range r.Calls {
		switch {
		case slices.Contains(s.Results, c.Key):
			req.Results = append(req.Results, c.result())
		case c.TakenAt == 0:
			// What has ended since the step was first handed out is pending for it.
			req.Pending = append(req.Pending, Pending{
				ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Tool: c.Tool, TaskID: c.TaskID, Phase: c.Phase(), Background: c.Background,
			})
		}
	}
	for _, in := range r.Inputs {
		if slices.Contains(s.Inputs, in.InputID) {
			req.Inputs = append(req.Inputs, in)
		}
	}
	return req, r.Checkpoint
}

func (c Call) result() Result {
	res := Result{
		ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Tool: c.Tool, TaskID: c.TaskID, State: c.State, Input: c.Input,
		InputEdited: c.InputEdited, Approval: c.Approval, ResultRef: c.ResultRef, ResultHash: c.ResultHash,
		ContentType: c.ContentType, Bytes: c.ResultBytes, Error: c.Error, Background: c.Background,
	}
	if len(c.Answer) > 0 {
		res.Result = c.Answer
	}
	return res
}

// Phase is that of a call for people, as far as the run knows; its task knows more.
func (c Call) Phase() domain.Phase {
	switch c.State {
	case CallBlocked, CallReady:
		return domain.PhaseSubmitted
	case CallApproval, CallAsking:
		return domain.PhaseWaitingInput
	case CallOpen:
		return domain.PhaseRunning
	case CallSucceeded:
		return domain.PhaseSucceeded
	case CallExpired:
		return domain.PhaseExpired
	case CallCancelled:
		return domain.PhaseCancelled
	case CallFailed, CallSkipped, CallDenied:
	}
	return domain.PhaseFailed
}
