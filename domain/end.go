package domain

import (
	"fmt"
	"time"
)

// EndKind tells different ends apart that have the same state, and equal ends that
// have different states.
type EndKind string

// The kinds of ends.
const (
	// EndSucceeded: the work was done, and its word came the usual way.
	EndSucceeded EndKind = "succeeded"
	// EndCallbackLost: the work was done, but nobody called back; its end was found
	// by looking.
	EndCallbackLost EndKind = "callback-lost"
	// EndFailed: the tool said that it failed.
	EndFailed EndKind = "failed"
	// EndTimedOut: the tool took too long: the deadline came, or its own limit.
	EndTimedOut EndKind = "timed-out"
	// EndCancelled: somebody cancelled.
	EndCancelled EndKind = "cancelled"
	// EndWorkerLost: whoever did the work was lost, and no attempt is left.
	EndWorkerLost EndKind = "worker-lost"
	// EndOutcomeUnknown: it was never found out whether the work was done.
	EndOutcomeUnknown EndKind = "outcome-unknown"
	// EndWaitTimeout is no end of the task: everybody who waited lost patience, and
	// the work goes on.
	EndWaitTimeout EndKind = "wait-timeout"
)

// EndKinds lists every kind, in the order in which documents show them.
func EndKinds() []EndKind {
	return []EndKind{EndSucceeded, EndCallbackLost, EndFailed, EndTimedOut, EndCancelled, EndWorkerLost, EndOutcomeUnknown, EndWaitTimeout}
}

// End says how a task ended, in a word for programs and one for people.
type End struct {
	Kind EndKind `json:"kind"`
	Text string  `json:"text"`
	// By is who ended it; see [Task.EndedBy].
	By string `json:"by,omitempty"`
}

// EndOf derives the end of a task; false while it has none.
func EndOf(t Task) (End, bool) {
	end := End{By: t.EndedBy}
	switch t.State {
	case StateSucceeded:
		end.Kind, end.Text = EndSucceeded, "the work was done"
		if t.Policy.ExpectsCallback && t.EndedBy == "probe" {
			end.Kind, end.Text = EndCallbackLost, "the work was done, but its callback never came; the end was found by looking"
		}
	case StateFailed:
		end.Kind, end.Text = endOfFailure(t.Error)
	case StateExpired:
		end.Kind, end.Text = EndTimedOut, "the deadline came before the end of the work"
		if t.Error != nil && t.Error.Code == CodeOutcomeUnknown {
			end.Kind, end.Text = EndOutcomeUnknown, "the deadline came before anybody found out whether the work was done"
		}
	case StateCancelled:
		end.Kind, end.Text = EndCancelled, cancelledText(t)
	case StateQueued, StateRunning:
		return givenUpWaiting(t)
	default:
		return End{}, false
	}
	return end, true
}

func endOfFailure(e *TaskError) (EndKind, string) {
	code := ""
	if e != nil {
		code = e.Code
	}
	switch code {
	case CodeWorkerLost:
		return EndWorkerLost, "whoever did the work was lost, and no attempt is left"
	case CodeOutcomeUnknown:
		return EndOutcomeUnknown, "it is not known whether the work was done, and doing it twice may do harm"
	case CodeTimeout, CodeExpired:
		return EndTimedOut, "the tool took longer than it may"
	case CodeCompensated:
		return EndFailed, "what the tool may have done was undone, and no attempt is left"
	case CodeNotDone:
		return EndFailed, "a person found out that the work was not done"
	}
	return EndFailed, "the tool failed"
}

func cancelledText(t Task) string {
	text := "it was cancelled"
	if t.Cancel != nil && t.Cancel.By != "" {
		text += " by " + t.Cancel.By
	}
	if t.Confirmed != nil && !*t.Confirmed {
		text += ", and nobody confirmed that the work has stopped"
	}
	return text
}

// givenUpWaiting tells of an open task for which nobody waits any more.
func givenUpWaiting(t Task) (End, bool) {
	if len(t.Waiters) == 0 || len(t.Waiting()) > 0 {
		return End{}, false
	}
	var last Waiter
	for _, w := range t.Waiters {
		if w.LeftFor == DetachWaitTimeout && w.LeftAtMs >= last.LeftAtMs {
			last = w
		}
	}
	if last.LeftAtMs == 0 {
		return End{}, false
	}
	who := "whoever submitted it"
	switch {
	case last.RunID != "":
		who = "run " + last.RunID
	case last.ID != WaiterSubmitter:
		who = last.ID
	}
	return End{
		Kind: EndWaitTimeout, By: last.ID,
		Text: fmt.Sprintf("%s stopped waiting at %s; the work goes on", who, time.UnixMilli(last.LeftAtMs).UTC().Format(time.RFC3339)),
	}, true
}
