package run

import (
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

// Transition is what an event came to.
type Transition struct {
	Run     Run
	Outcome Outcome
	// Kept says that the run is another one though no version was added.
	Kept bool
}

// Apply lets an event happen to a run. The argument stays as it is. For each event the
// first rule that fits decides; see [Rules]. An error is a [domain.InvalidError]: nothing
// changed.
func Apply(r Run, e Event) (Transition, error) {
	if e.AtMs < 0 {
		return Transition{}, domain.Invalid("event.atMs", "must be >= 0, it is %d", e.AtMs)
	}
	for i := range rules {
		rule := &rules[i]
		if !rule.fits(r, e) {
			continue
		}
		switch rule.Kind {
		case domain.Rejects:
			if err := rule.check(r, e); err != nil {
				return Transition{}, err
			}
			continue
		case domain.Repeats, domain.Refuses:
			out := r.outcome(rule.Reason)
			out.Duplicate = rule.Kind == domain.Repeats
			if rule.answer != nil {
				out = rule.answer(r, e)
			}
			return Transition{Run: r, Outcome: out}, nil
		case domain.Notes:
			next := r.clone()
			rule.do(&next, &e)
			next.settle(e.AtMs)
			return Transition{Run: next, Outcome: next.outcome(rule.Reason), Kept: true}, nil
		case domain.Changes:
			tr := rule.change(r, e)
			if err := checkRoom(r, tr.Run, e); err != nil {
				return Transition{}, err
			}
			return tr, nil
		}
	}
	return Transition{}, domain.Invalid("event.type", "must be a known one, %q is not", e.Type)
}

func (rule *Rule) fits(r Run, e Event) bool {
	return (len(rule.On) == 0 || slices.Contains(rule.On, e.Type)) &&
		(len(rule.From) == 0 || slices.Contains(rule.From, r.State)) &&
		(rule.guard == nil || rule.guard(r, e))
}

func (rule *Rule) change(r Run, e Event) Transition {
	next := r.clone()
	entry := Entry{AtMs: e.AtMs, Event: string(e.Type), Reason: rule.Reason, Step: e.Step, ToolCallID: e.Call.ID, By: cut(e.By), Text: cut(e.Reason)}
	if e.Call.Step != 0 {
		entry.Step = e.Call.Step
	}
	rule.do(&next, &e)
	next.settle(e.AtMs)
	next.Version++
	entry.Version, entry.State = next.Version, next.State
	err := e.Error
	if e.Response != nil && err == nil {
		err = e.Response.Error
	}
	if err != nil && entry.Text == "" {
		entry.Text = cut(err.Error())
	}
	keep := next.History[max(len(next.History)-HistoryLimit+1, 0):]
	next.History = newest(append(append(make([]Entry, 0, len(keep)+1), keep...), entry))
	out := next.outcome(rule.Reason)
	out.Changed = true
	if e.Type == EventCommit && rule.Reason != ReasonStepRetry && rule.Reason != ReasonStepGivenUp && rule.Reason != ReasonLimit {
		out.Step = e.Step
		commit := Commit{Step: e.Step, Token: e.Token, Digest: e.Digest, Outcome: out}
		next.Commits = newest(append(slices.Clone(next.Commits[max(len(next.Commits)-MaxCommits+1, 0):]), commit))
	}
	return Transition{Run: next, Outcome: out}
}

func (r Run) outcome(reason Reason) Outcome {
	out := Outcome{Reason: reason, State: r.State, Version: r.Version, Step: r.StepsDone}
	if r.Step != nil {
		out.Step = r.Step.Number
	}
	return out
}

// settle lets follow what follows from a change: dependents start or are skipped, the
// next step becomes due, an ending run ends.
func (r *Run) settle(nowMs int64) {
	if r.State.Terminal() {
		r.prune()
		return
	}
	r.release(nowMs)
	r.prune()
	if r.Ending != nil && !slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.State.Ended() }) {
		r.finish(nowMs)
		return
	}
	if cause, due := r.due(); due {
		r.Step = &Step{Number: r.StepsDone + 1, Cause: cause, DueMs: nowMs}
	}
	r.State = r.standing()
}

// release starts blocked calls that have all they need, and skips those that never will.
func (r *Run) release(nowMs int64) {
	for again := true; again; {
		again = false
		for i := range r.Calls {
			c := &r.Calls[i]
			if c.State != CallBlocked {
				continue
			}
			switch failed, open := r.needs(*c); {
			case failed != "" && !r.Policy.RunDependents:
				c.end(nowMs, End{State: CallSkipped, Error: &domain.TaskError{Code: CodeDependency, Message: "call " + failed + ", which it depends on, did not succeed"}})
				again = true
			case !open:
				c.State = CallReady
				again = true
			}
		}
	}
}

// needs tells which dependency of a call did not succeed, and whether one is open.
func (r *Run) needs(c Call) (failed string, open bool) {
	for _, id := range c.DependsOn {
		i := r.call(Key{Step: c.Step, ID: id})
		switch d := r.Calls[i].State; {
		case !d.Ended():
			open = true
		case d != CallSucceeded && failed == "":
			failed = id
		}
	}
	return failed, open
}

// prune moves calls whose results were committed out of the way, once no other call of
// theirs needs the result.
func (r *Run) prune() {
	needed := func(c Call) bool {
		return slices.ContainsFunc(r.Calls, func(d Call) bool {
			notBegun := d.State == CallBlocked || d.State == CallReady || d.State == CallApproval
			return notBegun && d.Step == c.Step && slices.Contains(d.DependsOn, c.ID)
		})
	}
	var keep []Call
	for _, c := range r.Calls {
		// One whose start is under way may yet say that it has a task.
		if c.TakenAt == 0 {
			keep = append(keep, c)
			continue
		}
		if c.Starting || needed(c) {
			c.taken()
			keep = append(keep, c)
			continue
		}
		c.taken()
		c.Answer, c.DependsOn = nil, nil
		r.Done = newest(append(slices.Clone(r.Done[max(len(r.Done)-MaxDone+1, 0):]), c))
	}
	r.Calls = keep
}

// taken drops what nobody needs of a call whose result a step has taken: it is shown, and
// may be referred to, and no more.
func (c *Call) taken() {
	c.Input, c.Approval = nil, nil
	if c.Error != nil {
		e := *c.Error
		e.Message, e.Details = cut(e.Message), nil
		c.Error = &e
	}
}

// finish makes an ending an end.
func (r *Run) finish(nowMs int64) {
	for _, c := range r.Calls {
		if !c.State.Ended() {
			r.Unconfirmed = append(slices.Clone(r.Unconfirmed), c.Key)
		}
	}
	r.State, r.Error, r.EndedAtMs, r.Ending = r.Ending.State, r.Ending.Error, nowMs, nil
}

// due tells whether a parked run takes its next step now, and why.
func (r *Run) due() (Cause, bool) {
	if r.Step != nil || r.Paused || r.Ending != nil {
		return "", false
	}
	ended := slices.ContainsFunc(r.Calls, func(c Call) bool { return c.State.Ended() && c.TakenAt == 0 })
	open := slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.State.Ended() })
	switch {
	case ended && r.resultsDue():
		return CauseResults, true
	case len(r.Inputs) > 0 && (r.AwaitInput || r.WakeOnInput || !open):
		return CauseInput, true
	}
	return "", false
}

// resultsDue tells whether the results that are there may go to the runtime: all at
// once, or each as it comes.
func (r *Run) resultsDue() bool {
	return r.Wake == WakeAny || !slices.ContainsFunc(r.Calls, Call.waiting)
}

// standing is the state of a run that has not ended.
func (r *Run) standing() State {
	asks := slices.ContainsFunc(r.Calls, func(c Call) bool { return c.asksPerson() })
	open := slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.State.Ended() })
	switch {
	case r.Ending != nil:
		return StateWaitingTool
	case r.Paused:
		return StatePaused
	case r.Step != nil:
		return StateRunning
	case asks || !open && r.AwaitInput:
		return StateWaitingInput
	}
	return StateWaitingTool
}

// asksPerson tells whether a person's move is next, here or in the run that does the
// work of the call.
func (c Call) asksPerson() bool {
	return c.State == CallApproval || c.State == CallAsking || c.State == CallOpen && c.Asks
}

// end ends a call.
func (c *Call) end(nowMs int64, e End) {
	c.State, c.EndedAtMs, c.Starting, c.UntilMs = e.State, max(nowMs, 1), false, 0
	c.ResultRef, c.ResultHash, c.ContentType, c.ResultBytes, c.Answer = e.ResultRef, e.ResultHash, cut(e.ContentType), e.Bytes, e.Answer
	if e.Error != nil {
		c.Error = kept(e.Error)
	}
}

// giveUp makes a call that has not ended end soon: at once if it has no task, else when
// its task says so.
func (c *Call) giveUp(nowMs int64, by, why string) {
	if c.State.Ended() || c.Cancel != nil {
		return
	}
	c.Cancel = &domain.CancelRequest{AtMs: nowMs, By: cut(by), Reason: cut(why)}
	if c.State == CallOpen || c.Starting {
		return
	}
	c.end(nowMs, End{State: CallCancelled, Error: cancelledError(c.Cancel)})
}

func cancelledError(c *domain.CancelRequest) *domain.TaskError {
	message := c.Reason
	if message == "" {
		message = "cancelled on request"
	}
	return &domain.TaskError{Code: CodeCancelled, Message: message}
}

// begin starts an ending: no step is taken any more, and open calls are given up.
func (r *Run) begin(nowMs int64, to State, err *domain.TaskError, by, why string) {
	r.Ending = &Ending{State: to, Error: err, UntilMs: nowMs + r.Policy.CancelGraceMs}
	for i := range r.Calls {
		r.Calls[i].giveUp(nowMs, by, why)
	}
}
