package run

import (
	"bytes"
	"encoding/json"

	"github.com/wakepoint/wakepoint/domain"
)

// whoRules come first: what people do begins with who they are.
var whoRules = []Rule{
	{
		On: on(EventApprove, EventAnswer, EventPause, EventUnpause, EventCancel, EventCancelCall, EventRetry), When: "who or why is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error {
			if err := checkText("by", e.By, domain.MaxWorker, false); err != nil {
				return err
			}
			return checkText("reason", e.Reason, domain.MaxErrorText, false)
		},
	},
}

var personRules = []Rule{
	{
		On: on(EventApprove), When: "the decision is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error { return checkDecision(e.Decides) },
	},
	{
		On: on(EventApprove), When: "it was decided in the same way", Kind: domain.Repeats, Reason: ReasonDuplicateAnswer,
		guard: func(r Run, e Event) bool {
			a := r.Calls[r.call(e.Call)].Approval
			return a != nil && a.Decision == e.Decides.Decision && bytes.Equal(asStored(a.Input), asStored(e.Decides.Input))
		},
	},
	{
		On: on(EventApprove), When: "it was decided in another way", Kind: domain.Refuses, Reason: ReasonAnswerConflict,
		guard: func(r Run, e Event) bool { return r.Calls[r.call(e.Call)].Approval != nil },
	},
	{On: on(EventApprove, EventAnswer), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventApprove), When: "nobody asks for it", Kind: domain.Refuses, Reason: ReasonNotAsked,
		guard: func(r Run, e Event) bool { return !callIn(CallApproval)(r, e) },
	},
	{
		On: on(EventApprove), When: "it is denied", To: "the call is denied", Kind: domain.Changes, Reason: ReasonDenied,
		guard: func(_ Run, e Event) bool { return e.Decides.Decision == DecisionDeny },
		do:    func(r *Run, e *Event) { r.decide(*e) },
	},
	{
		On: on(EventApprove), When: "the arguments are edited", To: "the call starts with the edited arguments", Kind: domain.Changes, Reason: ReasonEdited,
		guard: func(_ Run, e Event) bool { return e.Decides.Decision == DecisionEdit },
		do:    func(r *Run, e *Event) { r.decide(*e) },
	},
	{
		On: on(EventApprove), To: "the call starts", Kind: domain.Changes, Reason: ReasonApproved,
		do: func(r *Run, e *Event) { r.decide(*e) },
	},
	{
		On: on(EventAnswer), When: "the answer is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error { return checkJSON("answer", e.Answer, MaxAnswer) },
	},
	{
		On: on(EventAnswer), When: "it was answered with the same", Kind: domain.Repeats, Reason: ReasonDuplicateAnswer,
		guard: func(r Run, e Event) bool {
			c := r.Calls[r.call(e.Call)]
			return c.Tool == ToolAsk && c.State == CallSucceeded && bytes.Equal(c.Answer, e.Answer)
		},
	},
	{
		On: on(EventAnswer), When: "it was answered with something else", Kind: domain.Refuses, Reason: ReasonAnswerConflict,
		guard: func(r Run, e Event) bool {
			c := r.Calls[r.call(e.Call)]
			return c.Tool == ToolAsk && c.State == CallSucceeded
		},
	},
	{
		On: on(EventAnswer), When: "it asks nothing", Kind: domain.Refuses, Reason: ReasonNotAsked,
		guard: func(r Run, e Event) bool { return !callIn(CallAsking)(r, e) },
	},
	{
		On: on(EventAnswer), To: "the answer is the result of the call", Kind: domain.Changes, Reason: ReasonAnswered,
		do: func(r *Run, e *Event) {
			r.the(e).end(e.AtMs, End{State: CallSucceeded, Answer: e.Answer, Bytes: int64(len(e.Answer)), ContentType: "application/json"})
		},
	},
	{On: on(EventCancelCall), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventCancelCall), When: "it was asked for, or the call has ended", Kind: domain.Repeats, Reason: ReasonDuplicateCancel,
		guard: func(r Run, e Event) bool {
			c := r.Calls[r.call(e.Call)]
			return c.State.Ended() || c.Cancel != nil
		},
	},
	{
		On: on(EventCancelCall), To: "its task is asked to stop", Kind: domain.Changes, Reason: ReasonCancelRequested,
		do: func(r *Run, e *Event) { r.the(e).giveUp(e.AtMs, e.By, e.Reason) },
	},
}

func checkDecision(a *Approval) error {
	if a == nil {
		return domain.Invalid("decision", "must be given")
	}
	switch a.Decision {
	case DecisionApprove, DecisionDeny:
		if len(a.Input) > 0 {
			return domain.Invalid("input", "must come with the decision edit, not %s", a.Decision)
		}
	case DecisionEdit:
		if err := checkJSON("input", a.Input, MaxAnswer); err != nil {
			return err
		}
	default:
		return domain.Invalid("decision", "must be approve, deny or edit, not %q", a.Decision)
	}
	if err := checkText("message", a.Message, domain.MaxErrorText, false); err != nil {
		return err
	}
	return checkText("by", a.By, domain.MaxWorker, false)
}

// decide takes a person's decision about a call.
func (r *Run) decide(e Event) {
	c, a := r.the(&e), *e.Decides
	a.AtMs = e.AtMs
	if a.By == "" {
		a.By = e.By
	}
	c.Approval, c.UntilMs = &a, 0
	switch {
	case a.Decision == DecisionDeny:
		message := a.Message
		if message == "" {
			message = "a person denied it"
		}
		c.end(e.AtMs, End{State: CallDenied, Error: &domain.TaskError{Code: CodeDenied, Class: domain.ClassUser, Message: message}})
	case c.Tool == ToolApprove:
		answer, err := json.Marshal(a)
		if err != nil {
			answer = nil
		}
		c.end(e.AtMs, End{State: CallSucceeded, Answer: answer, Bytes: int64(len(answer)), ContentType: "application/json"})
	default:
		if a.Decision == DecisionEdit {
			c.Input, c.InputEdited, c.Resolved = a.Input, true, true
		}
		c.State = CallReady
	}
}

var inputRules = []Rule{
	{
		On: on(EventInput), When: "it is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error {
			if e.Input == nil {
				return domain.Invalid("input", "must be given")
			}
			return e.Input.validate()
		},
	},
	{
		On: on(EventInput), When: "it was said before", Kind: domain.Repeats, Reason: ReasonDuplicateInput,
		guard: func(r Run, e Event) bool { d, seen := r.said(e.Input.InputID); return seen && d == e.Input.digest() },
	},
	{
		On: on(EventInput), When: "its id was used for something else", Kind: domain.Refuses, Reason: ReasonInputConflict,
		guard: func(r Run, e Event) bool { _, seen := r.said(e.Input.InputID); return seen },
	},
	{On: on(EventInput), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{On: on(EventInput), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending},
	{
		On: on(EventInput), When: "too much waits for the next step already", Kind: domain.Rejects,
		check: func(r Run, e Event) error {
			total := len(e.Input.Content)
			for _, in := range r.Inputs {
				total += len(in.Content)
			}
			if len(r.Inputs) >= MaxInputs || total > MaxInputBytes {
				return domain.Invalid("input", "must wait: at most %d inputs and %d bytes wait for the next step", MaxInputs, MaxInputBytes)
			}
			return nil
		},
	},
	{
		On: on(EventInput), To: "it waits for the next step, or wakes the run", Kind: domain.Changes, Reason: ReasonInput,
		do: func(r *Run, e *Event) {
			in := *e.Input
			in.AtMs = e.AtMs
			r.Inputs = append(r.Inputs, in)
		},
	},
}

// said gives the digest of an input that is known.
func (r Run) said(id string) (string, bool) {
	for _, in := range r.Inputs {
		if in.InputID == id {
			return in.digest(), true
		}
	}
	for _, s := range r.InputIDs {
		if s.ID == id {
			return s.Digest, true
		}
	}
	return "", false
}
