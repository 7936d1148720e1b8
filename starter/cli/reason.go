package cli

import (
	"cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// refusals say in words why an event was refused.
var refusals = map[domain.Reason]string{
	domain.ReasonAlreadyRunning:    "another worker has started it already",
	domain.ReasonNotStartable:      "it cannot be started now",
	domain.ReasonNotRunning:        "it is not being worked on",
	domain.ReasonStaleProgress:     "more progress was reported before",
	domain.ReasonStaleAttempt:      "it belongs to another attempt",
	domain.ReasonDuplicateQuestion: "the question was asked before",
	domain.ReasonAnswerConflict:    "the question was answered already",
	domain.ReasonUnknownQuestion:   "the task asks no such question",
	domain.ReasonNotCancelling:     "nobody has asked for it to be cancelled",
	domain.ReasonAlreadySuspected:  "its worker is suspected lost already",
	domain.ReasonNotSuspected:      "its worker is not suspected lost",
	domain.ReasonNotRetryable:      "it cannot be retried",
	domain.ReasonNotEnded:          "it has not ended",
	domain.ReasonLateResult:        "it came after the deadline",
	domain.ReasonDuplicateTarget:   "the target was attached before",
	domain.ReasonDuplicateResult:   "the same result was there before",
	domain.ReasonDuplicateExpire:   "it has expired before",
	domain.ReasonNotManual:         "it waits for no person",
	domain.ReasonUnknownWaiter:     "nobody of that name waits for it",
	domain.ReasonDuplicateWaiter:   "that one waits for it already",
	domain.ReasonDuplicateDetach:   "that one has left already",
	domain.ReasonBeingUndone:       "what it may have done is being undone",
}

// refusal says in words why a request about a task was refused, and how the task
// stands. Of a question it says which one.
func refusal(r domain.Reason, question string, s domain.State) string {
	stands := "the task " + starter.Standing(s)
	switch {
	case s == "":
		stands = ""
	case r == domain.ReasonTerminalConflict:
		return stands
	}
	text := cmp.Or(refusals[r], string(r))
	if question != "" {
		switch r { //nolint:exhaustive // only these are about one question
		case domain.ReasonAnswerConflict:
			text = "question " + question + " was answered already"
		case domain.ReasonUnknownQuestion:
			text = "the task asks no question " + question
		case domain.ReasonDuplicateQuestion:
			text = "question " + question + " was asked before"
		}
	}
	return join("; ", text, stands)
}
