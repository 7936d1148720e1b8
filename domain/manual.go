package domain

// Work of unknown outcome that must not be done twice goes to a person.

// toPerson keeps the task open for somebody who finds out. When the event names a
// compensation, that is tried first.
func (t *Task) toPerson(e *Event) {
	t.lost(e, CodeOutcomeUnknown)
	t.SuspectedAtMs = 0
	t.Manual = &Manual{SinceMs: max(e.AtMs, 1), Why: t.Error.Message, Compensation: e.Compensation}
}

// AsksPerson says that a person looks for the work, and nothing is being undone.
func (t Task) AsksPerson() bool { return t.Manual != nil && !t.BeingUndone() }

// BeingUndone says that what an attempt may have done is being undone.
func (t Task) BeingUndone() bool {
	return t.Manual != nil && t.Manual.Compensation != "" && t.Manual.CompensationFailed == ""
}

// cameBack takes the task back from the person, because the work was heard of.
// While something is being undone it is too late for that.
func (t *Task) cameBack() {
	if !t.AsksPerson() {
		return
	}
	t.Manual = nil
	t.known()
}

// known drops the word that the outcome is unknown, once it no longer is: nothing
// else tells a later end from one that nobody found out about.
func (t *Task) known() {
	if t.Error != nil && t.Error.Code == CodeOutcomeUnknown {
		t.Error = nil
	}
}

// decided says that a person takes the next attempt upon himself.
func (t *Task) decided() {
	t.DecidedFor = t.Attempts + 1
	t.known()
}

// resolved ends what was unknown as a person says.
func (t *Task) resolved(e *Event) {
	if e.Action == ResolveSucceeded {
		t.Progress, t.ResultRef, t.ResultHash = 100, e.ResultRef, e.ResultHash
		t.ContentType, t.ResultBytes, t.Error = e.ContentType, e.Bytes, nil
		t.end(e.AtMs)
		return
	}
	t.Submission++
	if t.Error = e.Error.clone(); t.Error == nil {
		t.Error = &TaskError{Code: CodeNotDone, Message: "a person found out that the work was not done"}
	}
	t.end(e.AtMs)
}

// repeated begins another attempt on a person's word. The key stays: should the
// work have been done after all, the other side can still tell.
func (t *Task) repeated(e *Event) {
	t.Manual, t.Progress, t.Questions, t.SuspectedAtMs = nil, 0, nil, 0
	t.MaxAttempts = max(t.MaxAttempts, t.Attempts+1)
	t.RetryAtMs = 0
	t.decided()
}

// compensated says that what an attempt may have done was undone: a definite end.
func (t *Task) compensated() {
	id := t.Manual.Compensation
	t.Error = &TaskError{Code: CodeCompensated, Class: ClassSystem, Retryable: true, Message: "what the attempt may have done was undone by task " + id}
	t.Submission++
	t.Manual = nil
}

func checkResolve(_ Task, e Event) error {
	switch e.Action {
	case ResolveSucceeded:
		if blank(e.ResultRef) {
			return Invalid("resultRef", "must not be blank for a result, or give the result itself")
		}
		if blank(e.ResultHash) {
			return Invalid("resultHash", "must not be blank for a result, or give the result itself")
		}
	case ResolveFailed, ResolveRepeat:
	default:
		return Invalid("action", "must be succeeded, failed or repeat, not %q", e.Action)
	}
	return nil
}

// compensating says that the event tells how the running compensation ended.
func compensating(t Task, e Event) bool {
	return t.BeingUndone() && (e.Compensation == "" || e.Compensation == t.Manual.Compensation)
}

// undoRules keep what comes from outside away from work that is being undone: a
// result would be told to somebody who then holds what is no longer there, and a
// failure would begin an attempt that the undoing may meet.
var undoRules = []Rule{{
	On:   on(EventProgress, EventSucceed, EventFail, EventInputRequired, EventCancelled, EventCancelTimeout),
	From: from(StateRunning), When: "what it may have done is being undone", Kind: Refuses, Reason: ReasonBeingUndone,
	guard: func(t Task, _ Event) bool { return t.BeingUndone() },
}}

var manualRules = []Rule{
	{
		On: on(EventResolve), From: live, When: "the action is unknown, or a result is missing", Kind: Rejects,
		check: checkResolve,
	},
	{
		On: on(EventResolve), From: live, When: "no person is asked", Kind: Refuses, Reason: ReasonNotManual,
		guard: func(t Task, _ Event) bool { return t.Manual == nil },
	},
	{
		On: on(EventResolve), From: from(StateRunning), When: "it is to be done again, but a cancel was asked for", To: StateCancelled, Kind: Changes, Reason: ReasonResolved, Notify: true,
		guard: func(t Task, e Event) bool { return e.Action == ResolveRepeat && t.Cancel != nil },
		do: func(t *Task, e *Event) {
			t.confirm(false)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventResolve), From: from(StateRunning), When: "it is to be done again", To: StateQueued, Kind: Changes, Reason: ReasonResolved,
		guard: func(_ Task, e Event) bool { return e.Action == ResolveRepeat },
		do:    func(t *Task, e *Event) { t.repeated(e) },
	},
	{
		On: on(EventResolve), From: from(StateRunning), When: "it was done", To: StateSucceeded, Kind: Changes, Reason: ReasonResolved, Notify: true,
		guard: func(_ Task, e Event) bool { return e.Action == ResolveSucceeded },
		do:    func(t *Task, e *Event) { t.resolved(e) },
	},
	{
		On: on(EventResolve), From: from(StateRunning), When: "it was not done", To: StateFailed, Kind: Changes, Reason: ReasonResolved, Notify: true,
		do: func(t *Task, e *Event) { t.resolved(e) },
	},
	{
		On: on(EventCompensated), From: live, When: "nothing is being undone, or something else", Kind: Refuses, Reason: ReasonNotManual,
		guard: func(t Task, e Event) bool { return !compensating(t, e) },
	},
	{
		On: on(EventCompensated), From: from(StateRunning), When: "it could not be undone", Kind: Changes, Reason: ReasonNotCompensated,
		guard: func(_ Task, e Event) bool { return e.Error != nil },
		do: func(t *Task, e *Event) {
			m := *t.Manual
			if m.CompensationFailed = e.Error.Error(); blank(m.CompensationFailed) {
				m.CompensationFailed = "failed without saying why"
			}
			t.Manual = &m
		},
	},
	{
		On: on(EventCompensated), From: from(StateRunning), When: "a cancel was asked for", To: StateCancelled, Kind: Changes, Reason: ReasonCompensated, Notify: true,
		guard: func(t Task, _ Event) bool { return t.Cancel != nil },
		do: func(t *Task, e *Event) {
			t.compensated()
			t.confirm(true)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventCompensated), From: from(StateRunning), When: "an attempt is left", To: StateQueued, Kind: Changes, Reason: ReasonCompensated,
		guard: func(t Task, _ Event) bool { return t.Attempts < t.MaxAttempts },
		do: func(t *Task, e *Event) {
			t.compensated()
			t.requeue(e)
		},
	},
	{
		On: on(EventCompensated), From: from(StateRunning), To: StateFailed, Kind: Changes, Reason: ReasonCompensated, Notify: true,
		do: func(t *Task, e *Event) {
			t.compensated()
			t.end(e.AtMs)
		},
	},
}
