package domain

import "slices"

// Those who wait for a task. A task that several share is given up only when the
// last of them gives it up.

// waiter finds a waiter by its id; the submitter is one from the beginning.
func (t Task) waiter(id string) (Waiter, bool) {
	i := slices.IndexFunc(t.Waiters, func(w Waiter) bool { return w.ID == id })
	if i >= 0 {
		return t.Waiters[i], true
	}
	if id == WaiterSubmitter {
		return t.submitter(), true
	}
	return Waiter{}, false
}

func (t Task) submitter() Waiter {
	return Waiter{ID: WaiterSubmitter, RunID: t.RunID, ToolCallID: t.ToolCallID, AtMs: t.CreatedAtMs}
}

// all lists the waiters, the submitter first, those who left included.
func (t Task) all() []Waiter {
	if slices.ContainsFunc(t.Waiters, func(w Waiter) bool { return w.ID == WaiterSubmitter }) {
		return t.Waiters
	}
	return append([]Waiter{t.submitter()}, t.Waiters...)
}

// Waiting lists who waits for the task, the submitter first.
func (t Task) Waiting() []Waiter {
	return slices.DeleteFunc(slices.Clone(t.all()), func(w Waiter) bool { return w.LeftAtMs != 0 })
}

// Told lists who is told of the end: who waits, and who stopped waiting only because
// its patience was over, to whom a late end is still news.
func (t Task) Told() []Waiter {
	return slices.DeleteFunc(slices.Clone(t.all()), func(w Waiter) bool { return !w.wants() })
}

func (w Waiter) wants() bool { return w.LeftAtMs == 0 || w.LeftFor == DetachWaitTimeout }

// wantedWithout tells whether the end is still wanted when one more leaves.
func (t Task) wantedWithout(id string) bool {
	return slices.ContainsFunc(t.all(), func(w Waiter) bool { return w.ID != id && w.wants() })
}

// leave records that a waiter waits no longer.
func (t *Task) leave(e Event, why string) {
	w, _ := t.waiter(e.WaiterID)
	w.LeftAtMs, w.LeftFor = max(e.AtMs, 1), why
	t.setWaiter(w)
}

// join records that one more waits, or waits again.
func (t *Task) join(e Event) {
	w := *e.Waiter
	w.AtMs, w.LeftAtMs, w.LeftFor = e.AtMs, 0, ""
	t.setWaiter(w)
}

func (t *Task) setWaiter(w Waiter) {
	t.Waiters = slices.Clone(t.Waiters)
	if i := slices.IndexFunc(t.Waiters, func(x Waiter) bool { return x.ID == w.ID }); i >= 0 {
		t.Waiters[i] = w
		return
	}
	if w.ID == WaiterSubmitter {
		t.Waiters = slices.Insert(t.Waiters, 0, w)
		return
	}
	t.Waiters = append(t.Waiters, w)
}

func checkWaiter(t Task, w *Waiter) error {
	if w == nil {
		return Invalid("waiter", "must be given")
	}
	if err := CheckID("waiter.id", w.ID); err != nil {
		return err
	}
	if w.RunID != "" {
		if err := CheckID("waiter.runId", w.RunID); err != nil {
			return err
		}
	}
	if err := checkText("waiter.toolCallId", w.ToolCallID, MaxCallbackID); err != nil {
		return err
	}
	if _, known := t.waiter(w.ID); !known && len(t.Waiters) >= MaxWaiters {
		return Invalid("waiter", "must be one of at most %d of a task", MaxWaiters)
	}
	return nil
}

var waiterRules = []Rule{
	{
		On: on(EventAttach), From: live, When: "the waiter is missing or malformed, or there are too many", Kind: Rejects,
		check: func(t Task, e Event) error { return checkWaiter(t, e.Waiter) },
	},
	{
		On: on(EventAttach), From: live, When: "it waits already", Kind: Repeats, Reason: ReasonDuplicateWaiter,
		guard: func(t Task, e Event) bool {
			w, known := t.waiter(e.Waiter.ID)
			return known && w.LeftAtMs == 0
		},
	},
	{
		On: on(EventAttach), From: live, Kind: Changes, Reason: ReasonAttached,
		do: func(t *Task, e *Event) { t.join(*e) },
	},
	{
		On: on(EventDetach), From: live, When: "the waiter is not named, or the reason is too long", Kind: Rejects,
		check: func(_ Task, e Event) error {
			if blank(e.WaiterID) {
				return Invalid("waiterId", "must not be blank")
			}
			// It is kept with each waiter, and they must have room in the record.
			return checkText("reason", e.Reason, MaxWorker)
		},
	},
	{
		On: on(EventDetach, EventCancelRequested), From: live, When: "it names a waiter that is none", Kind: Refuses, Reason: ReasonUnknownWaiter,
		guard: func(t Task, e Event) bool {
			_, known := t.waiter(e.WaiterID)
			return e.WaiterID != "" && !known
		},
	},
	{
		On: on(EventDetach, EventCancelRequested), From: live, When: "it names a waiter that has left", Kind: Repeats, Reason: ReasonDuplicateDetach,
		guard: func(t Task, e Event) bool {
			w, known := t.waiter(e.WaiterID)
			return known && w.LeftAtMs != 0 && (e.Type == EventDetach || w.LeftFor != DetachWaitTimeout)
		},
	},
	{
		On: on(EventDetach), From: live, Kind: Changes, Reason: ReasonDetached,
		do: func(t *Task, e *Event) { t.leave(*e, e.Reason) },
	},
}
