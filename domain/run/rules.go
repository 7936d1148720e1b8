package run

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

// Rule is one line of the run's state machine. For each event the first rule that fits
// decides.
type Rule struct {
	// On lists the event types; none means any.
	On []EventType
	// From lists the states; none means any.
	From []State
	// When is the rest of the condition, in words; empty means always.
	When string
	// To says what follows, in words.
	To     string
	Kind   domain.Kind
	Reason Reason

	guard  func(r Run, e Event) bool
	check  func(r Run, e Event) error
	do     func(r *Run, e *Event)
	answer func(r Run, e Event) Outcome
}

var (
	ended = []State{StateSucceeded, StateFailed, StateCancelled, StateExpired}
	live  = []State{StateRunning, StateWaitingTool, StateWaitingInput, StatePaused}
)

func on(types ...EventType) []EventType { return types }
func from(states ...State) []State      { return states }

// The rules: what comes from people who end or hold a run, steps, calls, what people
// say. Documents, tests and Apply all read this one list.
var rules = slices.Concat(stepRules, commitRules, callRules, personRules, inputRules, endingRules)

// Rules gives a copy of the list.
func Rules() []Rule { return slices.Clone(rules) }

// holds tells whether an event names the attempt of a step that is out.
func holds(r Run, e Event) bool {
	return r.Step != nil && r.Step.Attempt > 0 && r.Step.Token == e.Token && e.Token != ""
}

func ending(r Run, _ Event) bool { return r.Ending != nil }

var stepRules = []Rule{
	{
		On: on(EventClaim), When: "the token or the holder is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error {
			if e.LeaseMs < 0 {
				return domain.Invalid("leaseMs", "must be >= 0, it is %d", e.LeaseMs)
			}
			if err := checkText("runtimeVersion", e.RuntimeVersion, MaxText, false); err != nil {
				return err
			}
			if err := checkText("stepToken", e.Token, MaxToken, true); err != nil {
				return err
			}
			return checkText("holder", e.Holder, MaxText, false)
		},
	},
	{On: on(EventClaim, EventHeartbeat, EventStepFailed), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventClaim), When: "no step is due, its wait is not over, the run is paused or on its way to an end", Kind: domain.Refuses, Reason: ReasonNoStep,
		guard: func(r Run, e Event) bool {
			return r.Step == nil || r.Paused || r.Ending != nil || r.Step.NotBeforeMs > e.AtMs && !r.Step.Held
		},
	},
	{
		On: on(EventClaim), When: "it is a runtime of another version than the run's", Kind: domain.Refuses, Reason: ReasonWrongRuntime,
		guard: func(r Run, e Event) bool {
			return e.RuntimeVersion != "" && r.RuntimeVersion != "" && e.RuntimeVersion != r.RuntimeVersion
		},
	},
	{
		On: on(EventClaim), When: "somebody else holds the step and its lease has not run out", Kind: domain.Refuses, Reason: ReasonStepHeld,
		guard: func(r Run, e Event) bool {
			s := r.Step
			return s.Held && s.LeaseUntilMs > e.AtMs && (e.Holder == "" || e.Holder != s.Holder)
		},
	},
	{
		On: on(EventClaim), To: "the runtime has the step, with a token of its own", Kind: domain.Changes, Reason: ReasonClaimed,
		do: func(r *Run, e *Event) { r.claim(*e) },
	},
	{
		On: on(EventHeartbeat, EventStepFailed), When: "the token is not that of the newest attempt", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return !holds(r, e) },
	},
	{
		On: on(EventHeartbeat), Kind: domain.Notes, Reason: ReasonRenewed, To: "the lease begins anew",
		do: func(r *Run, e *Event) { r.Step.Held, r.Step.LeaseUntilMs = true, e.AtMs+r.Step.LeaseMs },
	},
	{
		On: on(EventStepFailed), When: "the error is final, or no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, e Event) bool { return givesUp(r, e.Error) }, do: func(r *Run, e *Event) { r.stepFails(*e, e.Error, true) },
	},
	{
		On: on(EventStepFailed), To: "the same step comes again, after a wait", Kind: domain.Changes, Reason: ReasonStepRetry,
		do: func(r *Run, e *Event) { r.stepFails(*e, e.Error, false) },
	},
	{
		On: on(EventStepLost), When: "nobody holds a step", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, _ Event) bool { return r.Step == nil || !r.Step.Held },
	},
	{
		On: on(EventStepLost), When: "no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, _ Event) bool { return givesUp(r, lostError(r)) }, do: func(r *Run, e *Event) { r.stepFails(*e, lostError(*r), true) },
	},
	{
		On: on(EventStepLost), To: "the same step comes again", Kind: domain.Changes, Reason: ReasonStepLost,
		do: func(r *Run, e *Event) { r.stepFails(*e, lostError(*r), false) },
	},
}

func lostError(r Run) *domain.TaskError {
	return &domain.TaskError{Code: CodeStepLost, Retryable: true, Class: domain.ClassSystem, Message: "the runtime " + r.Step.Holder + " was silent for longer than its lease"}
}

func givesUp(r Run, err *domain.TaskError) bool {
	return err != nil && !err.Retryable || r.Step.Failures+1 >= r.Policy.StepAttempts
}

// claim hands the step out. What it is about stays the same from the first time on.
func (r *Run) claim(e Event) {
	s := r.Step
	if s.Attempt == 0 {
		due := r.resultsDue()
		for _, c := range r.Calls {
			if c.State.Ended() && c.TakenAt == 0 && (due || c.Background) {
				s.Results = append(s.Results, c.Key)
			}
		}
		for _, in := range r.Inputs {
			s.Inputs = append(s.Inputs, in.InputID)
		}
	}
	lease := e.LeaseMs
	if lease == 0 {
		lease = r.Policy.LeaseMs
	}
	s.Attempt++
	s.Token, s.Holder, s.Held = e.Token, e.Holder, true
	s.LeaseMs, s.LeaseUntilMs, s.NotBeforeMs = lease, e.AtMs+lease, 0
}

// stepFails ends an attempt of the step. Its token still holds until the next attempt
// is handed out: a runtime that was only slow has done the work.
func (r *Run) stepFails(e Event, err *domain.TaskError, giveUp bool) {
	s := r.Step
	if err == nil {
		err = &domain.TaskError{Code: CodeStepFailed, Retryable: true, Message: "the runtime gave no reason"}
	}
	s.Held, s.LeaseUntilMs, s.Error = false, 0, err
	s.Failures++
	if giveUp {
		r.State, r.Error, r.EndedAtMs = StateFailed, err, e.AtMs
		return
	}
	if e.Type != EventStepLost {
		s.NotBeforeMs = e.AtMs + r.Policy.StepBackoff.Wait(s.Failures, e.Jitter)
	}
}

var commitRules = []Rule{
	{On: on(EventCommit), When: "it is malformed, or its graph is broken", Kind: domain.Rejects, check: checkCommit},
	{
		On: on(EventCommit), When: "it is the commit that ended the step", Kind: domain.Repeats, Reason: ReasonDuplicateCommit,
		guard: func(r Run, e Event) bool {
			c, ok := r.commitOf(e.Step)
			return ok && c.Token == e.Token && c.Digest == e.Digest
		},
		answer: func(r Run, e Event) Outcome {
			c, _ := r.commitOf(e.Step)
			out := c.Outcome
			out.Duplicate = true
			return out
		},
	},
	{
		On: on(EventCommit), When: "the step was committed under that token with another answer", Kind: domain.Refuses, Reason: ReasonCommitConflict,
		guard: func(r Run, e Event) bool {
			c, ok := r.commitOf(e.Step)
			return ok && c.Token == e.Token
		},
	},
	{
		On: on(EventCommit), When: "the step was committed by another attempt, or too long ago", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return e.Step <= r.StepsDone },
	},
	{On: on(EventCommit), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventCommit), When: "an earlier step has not been committed", Kind: domain.Refuses, Reason: ReasonStepAhead,
		guard: func(r Run, e Event) bool { return e.Step > r.StepsDone+1 },
	},
	{On: on(EventCommit), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending},
	{
		On: on(EventCommit), When: "no step is due", Kind: domain.Refuses, Reason: ReasonNoStep,
		guard: func(r Run, _ Event) bool { return r.Step == nil },
	},
	{
		On: on(EventCommit), When: "the token is not that of the newest attempt", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return !holds(r, e) },
	},
	{
		On: on(EventCommit), When: "it is an error that is final, or no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, e Event) bool { return e.Response.Error != nil && givesUp(r, e.Response.Error) },
		do:    func(r *Run, e *Event) { r.account(e.Response.Usage); r.stepFails(*e, e.Response.Error, true) },
	},
	{
		On: on(EventCommit), When: "it is an error", To: "the same step comes again, after a wait", Kind: domain.Changes, Reason: ReasonStepRetry,
		guard: func(_ Run, e Event) bool { return e.Response.Error != nil },
		do:    func(r *Run, e *Event) { r.account(e.Response.Usage); r.stepFails(*e, e.Response.Error, false) },
	},
	{On: on(EventCommit), When: "it does not fit what is open", Kind: domain.Rejects, check: checkAgainst},
	{On: on(EventCommit), When: "it asks for nothing, and nothing is open", Kind: domain.Refuses, Reason: ReasonNothingToWait, guard: nothingToWaitFor},
	{
		On: on(EventCommit), When: "it is not final and would pass a limit", To: "nothing of it is done, open calls are given up, then FAILED", Kind: domain.Changes, Reason: ReasonLimit,
		guard: func(r Run, e Event) bool { return limitHit(r, e) != nil },
		do: func(r *Run, e *Event) {
			err := limitHit(*r, *e)
			r.account(e.Response.Usage)
			r.Step.Held, r.Step.Error = false, err
			r.begin(e.AtMs, StateFailed, err, "limit", err.Message)
		},
	},
	{
		On: on(EventCommit), When: "it is final", To: "SUCCEEDED", Kind: domain.Changes, Reason: ReasonFinished,
		guard: func(_ Run, e Event) bool { return e.Final != nil }, do: (*Run).commit,
	},
	{On: on(EventCommit), To: "results and inputs are consumed, calls begin", Kind: domain.Changes, Reason: ReasonCommitted, do: (*Run).commit},
}

func (r Run) commitOf(step int) (Commit, bool) {
	i := slices.IndexFunc(r.Commits, func(c Commit) bool { return c.Step == step })
	if i < 0 {
		return Commit{}, false
	}
	return r.Commits[i], true
}

func knownCall(r Run, e Event) bool { return r.call(e.Call) >= 0 }

// the gives the call that an event is about.
func (r *Run) the(e *Event) *Call { return &r.Calls[r.call(e.Call)] }

func callIn(states ...CallState) func(Run, Event) bool {
	return func(r Run, e Event) bool { return slices.Contains(states, r.Calls[r.call(e.Call)].State) }
}

func callEnded(r Run, e Event) bool { return r.Calls[r.call(e.Call)].State.Ended() }

var callRules = []Rule{
	{
		On: on(EventCallEnded), When: "the run had lost patience with it", To: "its end is a new input", Kind: domain.Changes, Reason: ReasonInput,
		guard: func(r Run, e Event) bool { return r.State != "" && !r.State.Terminal() && r.detached(e.Call) >= 0 },
		do:    func(r *Run, e *Event) { r.lateEnd(*e) },
	},
	{
		On: on(EventCallStarted, EventApprovalAsked, EventCallEnded, EventApprove, EventAnswer, EventCancelCall), When: "no such call is open",
		Kind: domain.Refuses, Reason: ReasonUnknownCall, guard: func(r Run, e Event) bool { return !knownCall(r, e) },
	},
	{
		On: on(EventCallStarted), When: "the call has ended meanwhile", To: "its task is remembered, to be told", Kind: domain.Notes, Reason: ReasonNoted,
		guard: callEnded, do: func(r *Run, e *Event) { r.startedTooLate(e) },
	},
	{
		On: on(EventCallStarted), When: "it has a task already", Kind: domain.Repeats, Reason: ReasonUnchanged, guard: callIn(CallOpen),
	},
	{
		On: on(EventCallStarted), To: "the call is open", Kind: domain.Changes, Reason: ReasonCallStarted,
		do: func(r *Run, e *Event) { r.the(e).started(e.Started, CallOpen) },
	},
	{
		On: on(EventApprovalAsked), When: "the run has ended, or the call, or it is to be given up", To: "the call is cancelled", Kind: domain.Notes, Reason: ReasonNoted,
		guard: func(r Run, e Event) bool {
			c := r.Calls[r.call(e.Call)]
			return r.State.Terminal() || c.State.Ended() || c.Cancel != nil
		},
		do: func(r *Run, e *Event) {
			if c := r.the(e); !c.State.Ended() {
				c.end(e.AtMs, End{State: CallCancelled, Error: &domain.TaskError{Code: CodeCancelled, Message: "nobody was asked: it was given up before"}})
			}
		},
	},
	{
		On: on(EventApprovalAsked), When: "a person is asked already", Kind: domain.Repeats, Reason: ReasonUnchanged, guard: callIn(CallApproval, CallAsking),
	},
	{
		On: on(EventApprovalAsked), To: "a person is asked", Kind: domain.Changes, Reason: ReasonAsksApproval,
		do: func(r *Run, e *Event) {
			c := r.the(e)
			to := CallApproval
			if c.Tool == ToolAsk {
				to = CallAsking
			}
			c.started(e.Started, to)
		},
	},
	{On: on(EventCallEnded), When: "it has a result already", Kind: domain.Repeats, Reason: ReasonDuplicateResult, guard: callEnded},
	{
		On: on(EventCallEnded), When: "the state is not that of an end", Kind: domain.Rejects,
		check: func(_ Run, e Event) error {
			if e.End == nil || !e.End.State.Ended() {
				return domain.Invalid("end.state", "must be that of an end")
			}
			return nil
		},
	},
	{
		On: on(EventCallEnded), To: "the call has its result", Kind: domain.Changes, Reason: ReasonCallEnded,
		do: func(r *Run, e *Event) {
			c, end := r.the(e), *e.End
			if end.State == CallCancelled && c.Cancel != nil && c.Cancel.Reason != "" {
				end.Error = cancelledError(c.Cancel)
			}
			c.end(e.AtMs, end)
			r.account(end.Usage)
		},
	},
	{
		On: on(EventNoted), To: "nobody is told twice", Kind: domain.Notes, Reason: ReasonNoted,
		do: func(r *Run, e *Event) { r.noted(*e) },
	},
}

func (c *Call) started(s *Started, to CallState) {
	c.State, c.Starting = to, false
	if s == nil {
		return
	}
	c.TaskID, c.SubRunID, c.WaiterID, c.Title, c.ExpiresAtMs, c.UntilMs = s.TaskID, s.SubRunID, s.WaiterID, cut(s.Title), s.ExpiresAtMs, s.UntilMs
}

// startedTooLate remembers the task of a call that the run waits for no longer.
func (r *Run) startedTooLate(e *Event) {
	c := r.the(e)
	c.Starting = false
	if e.Started == nil || c.TaskID != "" || c.SubRunID != "" {
		return
	}
	c.TaskID, c.SubRunID, c.WaiterID = e.Started.TaskID, e.Started.SubRunID, e.Started.WaiterID
	if c.Error != nil && c.Error.Code == CodeWaitTimeout {
		r.detach(*c)
	}
}

func (r Run) detached(k Key) int {
	return slices.IndexFunc(r.Detached, func(d Detached) bool { return d.Key == k })
}

func (r *Run) detach(c Call) {
	keep := r.Detached[max(len(r.Detached)-MaxOpen+1, 0):]
	r.Detached = append(slices.Clone(keep), Detached{Key: c.Key, Tool: c.Tool, TaskID: c.TaskID, SubRunID: c.SubRunID, WaiterID: c.WaiterID})
}

// LateEnd is the content of the input that a task sends with whose end the run had lost
// patience.
type LateEnd struct {
	Kind        string            `json:"kind"`
	ToolCallID  string            `json:"toolCallId"`
	AskedAtStep int               `json:"askedAtStep"`
	Tool        string            `json:"tool"`
	TaskID      string            `json:"taskId,omitempty"`
	State       CallState         `json:"state"`
	ResultRef   string            `json:"resultRef,omitempty"`
	ResultHash  string            `json:"resultHash,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Error       *domain.TaskError `json:"error,omitempty"`
}

// KindLateEnd is the kind of a [LateEnd], and SourceTask the source of its input.
const (
	KindLateEnd = "late-result"
	SourceTask  = "task"
)

func (r *Run) lateEnd(e Event) {
	i := r.detached(e.Call)
	d := r.Detached[i]
	r.Detached = slices.Delete(r.Detached, i, i+1)
	if e.End == nil || len(r.Inputs) >= MaxInputs {
		return
	}
	late := LateEnd{
		Kind: KindLateEnd, ToolCallID: d.ID, AskedAtStep: d.Step, Tool: d.Tool, TaskID: d.TaskID, State: e.End.State,
		ResultRef: e.End.ResultRef, ResultHash: e.End.ResultHash, ContentType: e.End.ContentType,
	}
	if e.End.Error != nil {
		err := *e.End.Error
		err.Details = nil
		late.Error = &err
	}
	content, err := json.Marshal(late)
	if err != nil {
		return
	}
	r.account(e.End.Usage)
	r.Inputs = append(r.Inputs, Input{InputID: "late-" + d.TaskID + d.SubRunID, Content: content, Source: SourceTask, AtMs: e.AtMs})
}

// What [EventNoted] says was done.
const (
	NotedStarting = "starting"
	NotedCancel   = "cancel-sent"
	NotedDetach   = "detach-sent"
)

func (r *Run) noted(e Event) {
	if i := r.call(e.Call); i >= 0 {
		switch e.Reason {
		case NotedStarting:
			r.Calls[i].Starting = r.Calls[i].State == CallReady
		case NotedCancel:
			r.Calls[i].CancelSent = true
		}
	}
	if i := r.detached(e.Call); i >= 0 && e.Reason == NotedDetach {
		r.Detached[i].Sent = true
	}
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
			return a != nil && a.Decision == e.Decides.Decision && bytes.Equal(a.Input, e.Decides.Input)
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
			c.Input, c.InputEdited = a.Input, true
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

var endingRules = []Rule{
	{On: on(EventPause, EventUnpause, EventCancel, EventExpire, EventCancelTimeout, EventCallTimeout, EventWaitTimeout, EventStepLost), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventPause, EventUnpause), When: "it is so already, or the run is on its way to an end", Kind: domain.Repeats, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return r.Paused == (e.Type == EventPause) || r.Ending != nil },
	},
	{
		On: on(EventPause), From: live, To: "PAUSED: tasks go on, a step that is out may commit", Kind: domain.Changes, Reason: ReasonPaused,
		do: func(r *Run, _ *Event) { r.Paused = true },
	},
	{
		On: on(EventUnpause), From: live, To: "what is due goes on", Kind: domain.Changes, Reason: ReasonUnpaused,
		do: func(r *Run, _ *Event) { r.Paused = false },
	},
	{
		On: on(EventCancel), When: "it was asked for", Kind: domain.Repeats, Reason: ReasonDuplicateCancel,
		guard: func(r Run, _ Event) bool { return r.Cancel != nil },
	},
	{
		On: on(EventCancel), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending,
	},
	{
		On: on(EventCancel), To: "calls are asked to stop; CANCELLED when all have ended", Kind: domain.Changes, Reason: ReasonCancelRequested,
		do: func(r *Run, e *Event) {
			r.Cancel = &domain.CancelRequest{AtMs: e.AtMs, By: e.By, Reason: e.Reason}
			r.dropStep()
			r.begin(e.AtMs, StateCancelled, cancelledError(r.Cancel), e.By, e.Reason)
		},
	},
	{
		On: on(EventExpire), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending,
	},
	{
		On: on(EventExpire), To: "calls are asked to stop; EXPIRED when all have ended", Kind: domain.Changes, Reason: ReasonExpired,
		do: func(r *Run, e *Event) {
			r.dropStep()
			r.begin(e.AtMs, StateExpired, &domain.TaskError{Code: CodeDeadlineExceeded, Message: "the run did not end before its deadline"}, "timer", "the run's deadline has passed")
		},
	},
	{
		On: on(EventCancelTimeout), When: "the run is not on its way to an end", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return r.Ending == nil },
	},
	{
		On: on(EventCancelTimeout), To: "the end, though some calls have not said that they stopped", Kind: domain.Changes, Reason: ReasonCancelTimeout,
		do: func(r *Run, e *Event) { r.finish(e.AtMs) },
	},
	{
		On: on(EventCallTimeout), When: "nobody is asked", Kind: domain.Refuses, Reason: ReasonNotAsked,
		guard: func(r Run, e Event) bool { return !knownCall(r, e) || !callIn(CallApproval, CallAsking)(r, e) },
	},
	{
		On: on(EventCallTimeout), To: "the call is expired", Kind: domain.Changes, Reason: ReasonTimedOut,
		do: func(r *Run, e *Event) {
			c := r.the(e)
			code, what := CodeApprovalTimeout, "decided"
			if c.State == CallAsking {
				code, what = CodeAnswerTimeout, "answered"
			}
			c.end(e.AtMs, End{State: CallExpired, Error: &domain.TaskError{Code: code, Class: domain.ClassUser, Message: "nobody " + what + " in time"}})
		},
	},
	{
		On: on(EventWaitTimeout), When: "the call has ended", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return !knownCall(r, e) || callEnded(r, e) },
	},
	{
		On: on(EventWaitTimeout), To: "the call failed with WAIT_TIMEOUT, its task goes on", Kind: domain.Changes, Reason: ReasonWaitTimeout,
		do: func(r *Run, e *Event) {
			c := r.the(e)
			starting := c.Starting
			if c.State == CallOpen {
				r.detach(*c)
			}
			c.end(e.AtMs, End{State: CallFailed, Error: &domain.TaskError{Code: CodeWaitTimeout, Message: "it had not ended when the run stopped waiting for it; its work may go on"}})
			c.Starting = starting
		},
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired), When: "the new time to live is not positive, though the deadline has passed", Kind: domain.Rejects,
		check: func(r Run, e Event) error {
			const longest = 1 << 53
			if e.TTLMs < 0 || e.TTLMs > longest || e.TTLMs == 0 && r.ExpiresAtMs <= e.AtMs {
				return domain.Invalid("ttlMs", "must be > 0, it is %d", e.TTLMs)
			}
			return nil
		},
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired), To: "RUNNING: the step comes again", Kind: domain.Changes, Reason: ReasonRetried,
		do: func(r *Run, e *Event) { r.retry(*e) },
	},
	{On: on(EventRetry), Kind: domain.Refuses, Reason: ReasonNotRetriable},
}

// dropStep takes the step back from whoever has it. It is remembered: a retry brings it
// again.
func (r *Run) dropStep() {
	if r.Step != nil {
		r.Step.Held, r.Step.LeaseUntilMs = false, 0
	}
}

func (r *Run) retry(e Event) {
	r.Retries++
	r.State, r.Error, r.EndedAtMs, r.Ending, r.Cancel, r.Paused, r.Unconfirmed = StateRunning, nil, 0, nil, nil, false, nil
	if e.TTLMs > 0 {
		r.ExpiresAtMs = e.AtMs + e.TTLMs
	}
	if l := e.Limits; l != nil {
		for _, f := range []struct{ to, of *int }{{&r.Limits.MaxSteps, &l.MaxSteps}, {&r.Limits.MaxCalls, &l.MaxCalls}, {&r.Limits.MaxOpenCalls, &l.MaxOpenCalls}} {
			*f.to = max(*f.to, *f.of)
		}
		r.Limits.MaxTokens, r.Limits.MaxCostUSD = max(r.Limits.MaxTokens, l.MaxTokens), max(r.Limits.MaxCostUSD, l.MaxCostUSD)
	}
	if r.Step == nil {
		if _, due := r.due(); due || slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.State.Ended() }) || r.AwaitInput {
			return
		}
		r.Step = &Step{Number: r.StepsDone + 1, DueMs: e.AtMs}
	}
	r.Step.Cause, r.Step.Failures, r.Step.NotBeforeMs, r.Step.Error = CauseRecover, 0, 0, nil
}
