package run

import (
	"fmt"
	"strings"
)

// WaitsFor says in words whose move is next.
func WaitsFor(r Run) string {
	switch {
	case r.State.Terminal():
		return ""
	case r.Ending != nil:
		return "its calls to stop: " + openNames(r, func(c Call) bool { return !c.State.Ended() })
	case r.Paused:
		return "somebody to unpause it"
	case r.Step != nil && r.Step.Held:
		return fmt.Sprintf("the runtime to commit step %d, attempt %d%s", r.Step.Number, r.Step.Attempt, after(" (", r.Step.Holder, ")"))
	case r.Step != nil && r.Step.NotBeforeMs > 0:
		return fmt.Sprintf("the wait before attempt %d of step %d", r.Step.Attempt+1, r.Step.Number)
	case r.Step != nil:
		return fmt.Sprintf("a runtime to take step %d", r.Step.Number)
	}
	var calls, parts []string
	if asks := openNames(r, Call.asksPerson); asks != "" {
		calls = append(calls, "a person: "+asks)
	}
	if tools := openNames(r, func(c Call) bool { return !c.State.Ended() && !c.asksPerson() }); tools != "" {
		calls = append(calls, "tools: "+tools)
	}
	if len(calls) > 0 {
		and := "; and "
		if r.Wake == WakeAny {
			and = "; or "
		}
		parts = append(parts, strings.Join(calls, and))
	}
	if r.AwaitInput || r.WakeOnInput {
		parts = append(parts, "an input")
	}
	return strings.Join(parts, "; or ")
}

// NextStep says what a person can do about a run that has ended badly.
func NextStep(r Run) string {
	switch r.State {
	case StateFailed:
		if r.Error != nil && r.Error.Code == CodePlanFailed {
			return "see why the calls did not succeed, then start the file again; a retry would find the same results"
		}
		return "read the error, mend the runtime or raise the limit, then: wakepoint run retry " + r.ID
	case StateExpired:
		return "retry the run with more time: wakepoint run retry " + r.ID + " --ttl 1h"
	case StateCancelled:
		if len(r.Unconfirmed) > 0 {
			return "check whether the work of the calls has stopped that did not confirm it"
		}
	case StateRunning, StateWaitingTool, StateWaitingInput, StatePaused, StateSucceeded:
	}
	return ""
}

// openNames lists the calls that fit, a few by name.
func openNames(r Run, fits func(Call) bool) string {
	const most = 5
	var names []string
	more := 0
	for _, c := range r.Calls {
		switch {
		case !fits(c):
		case len(names) == most:
			more++
		default:
			names = append(names, c.Tool+" ("+c.ID+")")
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func after(before, s, behind string) string {
	if s == "" {
		return ""
	}
	return before + s + behind
}
