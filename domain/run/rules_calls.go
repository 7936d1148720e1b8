package run

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/wakepoint/wakepoint/domain"
)

func knownCall(r Run, e Event) bool { return r.call(e.Call) >= 0 }

// the gives the call that an event is about.
func (r *Run) the(e *Event) *Call { return &r.Calls[r.call(e.Call)] }

func callIn(states ...CallState) func(Run, Event) bool {
	return func(r Run, e Event) bool { return slices.Contains(states, r.Calls[r.call(e.Call)].State) }
}

func callEnded(r Run, e Event) bool { return r.Calls[r.call(e.Call)].State.Ended() }

var callRules = []Rule{
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
		On: on(EventCallEnded), From: live, When: "the run had lost patience with it", To: "its end is a new input", Kind: domain.Changes, Reason: ReasonInput,
		guard: lostPatience, do: func(r *Run, e *Event) { r.lateEnd(*e) },
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
		On: on(EventCallStarted, EventApprovalAsked), When: "it waits for other calls, or its start for a person", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool {
			return callIn(CallBlocked)(r, e) || e.Type == EventCallStarted && callIn(CallApproval, CallAsking)(r, e)
		},
	},
	{
		On: on(EventCallStarted), When: "it has a task already", Kind: domain.Repeats, Reason: ReasonUnchanged, guard: callIn(CallOpen),
	},
	{
		On: on(EventCallStarted), To: "the call is open", Kind: domain.Changes, Reason: ReasonCallStarted,
		do: func(r *Run, e *Event) { r.the(e).started(e.Started, CallOpen) },
	},
	{
		On: on(EventApprovalAsked), When: "the call has ended meanwhile", To: "nobody waits for its start", Kind: domain.Notes, Reason: ReasonNoted,
		guard: callEnded, do: func(r *Run, e *Event) { r.the(e).Starting = false },
	},
	{
		On: on(EventApprovalAsked), When: "a person is asked, or has decided, or the call has a task", Kind: domain.Repeats, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool {
			return callIn(CallApproval, CallAsking, CallOpen)(r, e) || r.the(&e).Approval != nil
		},
	},
	{
		On: on(EventApprovalAsked), When: "the run has ended, or the call is to be given up", To: "the call is cancelled", Kind: domain.Changes, Reason: ReasonCallEnded,
		guard: func(r Run, e Event) bool { return r.State.Terminal() || r.the(&e).Cancel != nil },
		do: func(r *Run, e *Event) {
			r.the(e).end(e.AtMs, End{State: CallCancelled, Error: &domain.TaskError{Code: CodeCancelled, Message: "nobody was asked: it was given up before"}})
		},
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
	{
		On: on(EventCallEnded), When: "it has a result already, and its start was still under way", To: "nobody waits for its start", Kind: domain.Notes, Reason: ReasonNoted,
		guard: func(r Run, e Event) bool { return callEnded(r, e) && r.the(&e).Starting },
		do:    func(r *Run, e *Event) { r.the(e).Starting = false },
	},
	{On: on(EventCallEnded), When: "it has a result already", Kind: domain.Repeats, Reason: ReasonDuplicateResult, guard: callEnded},
	{
		On: on(EventCallEnded), To: "the call has its result", Kind: domain.Changes, Reason: ReasonCallEnded,
		do: func(r *Run, e *Event) {
			c, end := r.the(e), *e.End
			if end.State == CallCancelled && c.Cancel != nil && c.Cancel.Reason != "" {
				end.Error = cancelledError(c.Cancel)
			}
			answer := end.Answer
			end.Answer = nil
			c.learnWhose(end)
			c.end(e.AtMs, end)
			r.keepAnswer(c, answer)
			r.account(end.Usage)
		},
	},
	{
		On: on(EventNoted), When: "the run that does its work begins to ask people something, or has its answer", To: "that is shown here too", Kind: domain.Changes, Reason: ReasonAsksBelow,
		guard: func(r Run, e Event) bool {
			i := r.call(e.Call)
			return i >= 0 && !r.State.Terminal() && r.Calls[i].State == CallOpen &&
				(e.Reason == NotedAsks && !r.Calls[i].Asks || e.Reason == NotedAnswered && r.Calls[i].Asks)
		},
		do: func(r *Run, e *Event) { r.noted(*e) },
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

// learnWhose takes from an end whose it is, if the call's start has not said so yet.
func (c *Call) learnWhose(e End) {
	if c.TaskID == "" && c.SubRunID == "" {
		c.TaskID, c.SubRunID = e.TaskID, e.SubRunID
	}
}

// startedTooLate remembers the task of a call that the run waits for no longer. The call
// stays as it is: a step may be out that is about it, and each attempt of a step is about
// the same.
func (r *Run) startedTooLate(e *Event) {
	c := r.the(e)
	starting := c.Starting
	c.Starting = false
	if e.Started == nil || c.TaskID != "" || c.SubRunID != "" {
		return
	}
	// One that was not starting any more has told its end already.
	if starting && c.Error != nil && c.Error.Code == CodeWaitTimeout {
		d := *c
		d.TaskID, d.SubRunID, d.WaiterID = e.Started.TaskID, e.Started.SubRunID, e.Started.WaiterID
		r.detach(d)
	}
}

// lostPatience tells whether the run waits no longer for a call whose work goes on. One
// whose start is under way has no task yet that could be detached.
func lostPatience(r Run, e Event) bool {
	if r.detached(e.Call) >= 0 {
		return true
	}
	i := r.call(e.Call)
	return i >= 0 && r.Calls[i].Starting && r.Calls[i].State == CallFailed && r.Calls[i].Error != nil && r.Calls[i].Error.Code == CodeWaitTimeout
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
	Kind        string    `json:"kind"`
	ToolCallID  string    `json:"toolCallId"`
	AskedAtStep int       `json:"askedAtStep"`
	Tool        string    `json:"tool"`
	TaskID      string    `json:"taskId,omitempty"`
	SubRunID    string    `json:"subRunId,omitempty"`
	State       CallState `json:"state"`
	// Result is the answer of a run, or of a person, if it is small.
	Result      json.RawMessage   `json:"result,omitempty"`
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
	r.account(e.End.Usage)
	var d Detached
	if i := r.detached(e.Call); i >= 0 {
		d = r.Detached[i]
		r.Detached = slices.Delete(r.Detached, i, i+1)
	} else {
		c := r.the(&e)
		c.Starting = false
		d = Detached{Key: c.Key, Tool: c.Tool, TaskID: e.End.TaskID, SubRunID: e.End.SubRunID}
	}
	if len(r.Inputs) >= MaxInputs {
		return
	}
	late := LateEnd{
		Kind: KindLateEnd, ToolCallID: d.ID, AskedAtStep: d.Step, Tool: d.Tool, TaskID: d.TaskID, SubRunID: d.SubRunID, State: e.End.State,
		ResultRef: e.End.ResultRef, ResultHash: e.End.ResultHash, ContentType: e.End.ContentType,
	}
	if len(e.End.Answer) <= MaxAnswer && json.Valid(e.End.Answer) {
		late.Result = e.End.Answer
	}
	if e.End.Error != nil {
		err := *e.End.Error
		err.Code, err.Message, err.Details = cut(err.Code), cut(err.Message), nil
		late.Error = &err
	}
	content, err := json.Marshal(late)
	if err != nil {
		return
	}
	// One task may be that of several calls, and a person may have used the id.
	of := d.TaskID + d.SubRunID
	if of == "" {
		of = strconv.Itoa(d.Step) + "-" + d.ID
	}
	id := "late-" + of
	for n := 2; ; n++ {
		if _, seen := r.said(id); !seen {
			break
		}
		id = "late-" + of + "-" + strconv.Itoa(n)
	}
	r.Inputs = append(r.Inputs, Input{InputID: id, Content: content, Source: SourceTask, AtMs: e.AtMs})
}

// What [EventNoted] says was done.
const (
	NotedStarting = "starting"
	// NotedNotStarted says that a start came to nothing, and will be tried again.
	NotedNotStarted = "not-started"
	NotedCancel     = "cancel-sent"
	NotedDetach     = "detach-sent"
	// NotedAsks and NotedAnswered say that the run that does the work of a call asks a
	// person something, and that it does no more.
	NotedAsks = "asks"
	// NotedInput says what a call's input is, now that its references are resolved.
	NotedInput    = "input"
	NotedAnswered = "answered"
	// NotedForgotten says that contents were deleted from the blob store.
	NotedForgotten = "forgotten"
)

func (r *Run) noted(e Event) {
	if e.Reason == NotedForgotten {
		r.Superseded = slices.DeleteFunc(slices.Clone(r.Superseded), func(ref string) bool { return slices.Contains(e.Refs, ref) })
		return
	}
	if i := r.call(e.Call); i >= 0 {
		switch e.Reason {
		case NotedStarting:
			r.Calls[i].Starting = r.Calls[i].State == CallReady
		case NotedNotStarted:
			r.Calls[i].Starting = false
		case NotedCancel:
			r.Calls[i].CancelSent = true
		case NotedInput:
			if r.Calls[i].TakenAt != 0 || r.Step != nil && slices.Contains(r.Step.Results, e.Call) {
				// What a step is about stays the same.
				break
			}
			before := r.Calls[i].Input
			r.Calls[i].Input, r.Calls[i].Resolved = e.Answer, true
			if !json.Valid(e.Answer) || len(e.Answer) > len(before) && r.open() > MaxOpenBytes {
				r.Calls[i].Input, r.Calls[i].Resolved = before, false
			}
		case NotedAsks, NotedAnswered:
			r.Calls[i].Asks = e.Reason == NotedAsks
		}
	}
	if i := r.detached(e.Call); i >= 0 && e.Reason == NotedDetach {
		r.Detached[i].Sent = true
	}
}
