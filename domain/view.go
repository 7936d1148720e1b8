package domain

import "fmt"

// Phase is what a task is doing, for people. It is derived, never stored.
type Phase string

// The phases.
const (
	PhaseSubmitted       Phase = "SUBMITTED"
	PhaseRunning         Phase = "RUNNING"
	PhaseWaitingExternal Phase = "WAITING_EXTERNAL"
	PhaseWaitingInput    Phase = "WAITING_INPUT"
	PhaseRetryWait       Phase = "RETRY_WAIT"
	PhaseSuspectedLost   Phase = "SUSPECTED_LOST"
	PhaseSucceeded       Phase = "SUCCEEDED"
	PhaseFailed          Phase = "FAILED"
	PhaseExpired         Phase = "EXPIRED"
	PhaseCancelled       Phase = "CANCELLED"
)

// PhaseOf derives the phase.
func PhaseOf(t Task) Phase {
	switch t.State {
	case StateSucceeded:
		return PhaseSucceeded
	case StateFailed:
		return PhaseFailed
	case StateExpired:
		return PhaseExpired
	case StateCancelled:
		return PhaseCancelled
	case StateQueued:
		if t.RetryAtMs > 0 {
			return PhaseRetryWait
		}
		return PhaseSubmitted
	case StateRunning:
	}
	_, asks := t.OpenQuestion()
	switch {
	case t.SuspectedAtMs != 0:
		return PhaseSuspectedLost
	case t.Manual != nil && !t.AsksPerson():
		return PhaseWaitingExternal
	case asks, t.Manual != nil:
		return PhaseWaitingInput
	case t.Policy.External:
		return PhaseWaitingExternal
	}
	return PhaseRunning
}

// View is a task as people and clients see it at one moment.
type View struct {
	Task  Task  `json:"task"`
	Phase Phase `json:"phase"`
	// Stalled means that progress has stood still for the tool's stall time.
	Stalled bool `json:"stalled,omitempty"`
	// Remaining is how long the work will probably still take.
	Remaining *Window `json:"remaining,omitempty"`
	// LastHeartbeatAtMs is when the outside was last heard of.
	LastHeartbeatAtMs int64 `json:"lastHeartbeatAtMs,omitempty"`
	// WaitsFor says whose move is next.
	WaitsFor string `json:"waitsFor,omitempty"`
	// NextStep says what a person can do now, after a failure.
	NextStep string `json:"nextStep,omitempty"`
	// End says how the task ended, or that nobody waits for it any more.
	End *End `json:"end,omitempty"`
	// Waiting lists who waits for the task, once it is shared or somebody has left.
	Waiting []Waiter `json:"waiting,omitempty"`
	// Repeats and Conflicts count the callbacks that came again, with the same
	// body and with another one.
	Repeats   int64 `json:"repeats,omitempty"`
	Conflicts int64 `json:"conflicts,omitempty"`
}

// Describe derives the view of a task at nowMs.
func Describe(t Task, nowMs int64) View {
	v := View{Task: t, Phase: PhaseOf(t), LastHeartbeatAtMs: t.LastHeardAtMs, NextStep: nextStep(t)}
	if v.Phase == PhaseRetryWait && t.RetryAtMs <= nowMs {
		// The wait is over; what is waited for now is whoever starts it.
		v.Phase = PhaseSubmitted
	}
	v.WaitsFor = waitsFor(t, v.Phase)
	if end, ok := EndOf(t); ok {
		v.End = &end
	}
	if len(t.Waiters) > 0 {
		v.Waiting = t.Waiting()
	}
	if t.State == StateRunning {
		v.Stalled = t.Policy.StallMs > 0 && nowMs-t.LastProgressAtMs >= t.Policy.StallMs && t.Manual == nil
		v.Remaining = remaining(t, nowMs)
	}
	return v
}

// remaining takes the usual window of the whole work, less what has passed; a
// task that reports progress is also measured by its own pace.
func remaining(t Task, nowMs int64) *Window {
	passed := nowMs - t.StartedAtMs
	var w *Window
	if x := t.Policy.Expected; x != nil {
		w = &Window{LowMs: max(x.LowMs-passed, 0), HighMs: max(x.HighMs-passed, 0)}
	}
	if t.Progress > 0 && t.LastProgressAtMs > t.StartedAtMs {
		atPace := (t.LastProgressAtMs - t.StartedAtMs) * int64(100-t.Progress) / int64(t.Progress)
		atPace = max(atPace-(nowMs-t.LastProgressAtMs), 0)
		if w == nil && atPace == 0 {
			// Its own pace has been wrong, and nothing else is known.
			return nil
		}
		if w == nil {
			w = &Window{LowMs: atPace, HighMs: atPace}
		}
		w.LowMs, w.HighMs = min(w.LowMs, atPace), max(w.HighMs, atPace)
	}
	return w
}

func waitsFor(t Task, p Phase) string {
	switch p {
	case PhaseSubmitted:
		switch {
		case t.Policy.External && t.Attempts > 0:
			// From a manual retry on callbacks must name it, so say which.
			return fmt.Sprintf("somebody outside to start attempt %d", t.Attempts+1)
		case t.Policy.External:
			return "somebody outside to start it"
		}
		return "a worker that runs the tool"
	case PhaseRetryWait:
		return "the end of the retry wait"
	case PhaseWaitingExternal:
		if t.Manual != nil {
			return "task " + t.Manual.Compensation + " to undo what may have been done"
		}
		return "a callback from outside"
	case PhaseWaitingInput:
		if t.Manual != nil {
			return "a person to find out whether the work was done"
		}
		q, _ := t.OpenQuestion()
		return fmt.Sprintf("an answer to question %s", q.QuestionID)
	case PhaseSuspectedLost:
		return "the outside to say whether the work goes on"
	case PhaseRunning:
		return "the tool to end"
	case PhaseSucceeded, PhaseFailed, PhaseExpired, PhaseCancelled:
	}
	return ""
}

func nextStep(t Task) string {
	switch {
	case t.State.Terminal() && t.Manual != nil:
		return "wait for the end of task " + t.Manual.Compensation + ", which still undoes what may have been done, before you retry this one"
	case t.Manual != nil && t.AsksPerson():
		return "find out whether the work was done, then say so: wakepoint task resolve " + t.ID + " --succeeded --result RESULT, --failed, or --repeat"
	case (t.State == StateFailed || t.State == StateExpired) && t.Error != nil && t.Error.Code == CodeOutcomeUnknown:
		return "find out whether the work was done: if so take its result, if not retry the task; doing it twice may do harm"
	case t.State == StateFailed && t.Error != nil && t.Error.Class == ClassUser:
		return "mend the input and submit a new task, or retry this one"
	case t.State == StateFailed:
		return "read the error and the logs, then retry the task"
	case t.State == StateExpired && t.Late != nil:
		return "a result came after the deadline and was kept as lateResult; use it, or retry the task"
	case t.State == StateExpired:
		return "retry the task with more time"
	case t.State == StateCancelled && t.Confirmed != nil && !*t.Confirmed:
		return "check outside whether the work has stopped, nobody confirmed it"
	}
	return ""
}
