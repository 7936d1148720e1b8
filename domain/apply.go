package domain

import (
	"fmt"
	"slices"
)

// Notification is one entry of the outbox.
type Notification struct {
	TaskID  string `json:"taskId"`
	State   State  `json:"state"`
	Version int64  `json:"version"`
	// AtMs is the time of the event that caused it: an expiry caused by a late
	// callback carries that callback's time.
	AtMs   int64  `json:"atMs"`
	Reason Reason `json:"reason"`
}

// Transition is what an event came to.
type Transition struct {
	// Task is the task afterwards; the same as before unless Changed, but for
	// the time at which the outside was last heard of.
	Task      Task   `json:"task"`
	Changed   bool   `json:"changed"`
	Duplicate bool   `json:"duplicate"`
	Notify    bool   `json:"notify"`
	Reason    Reason `json:"reason"`
	// Late marks an event from outside whose time is not before the deadline,
	// or that found the task expired, whatever time it claims.
	Late bool `json:"late,omitempty"`
	// Notification is set when Notify is.
	Notification *Notification `json:"notification,omitempty"`
	// LateNotification is set when the event caused the expiry and brought a
	// late result that is kept: two changes, and two things to tell.
	LateNotification *Notification `json:"lateNotification,omitempty"`
}

// Apply gives what an event comes to. It never changes its argument. An error
// is always an [InvalidError], and then nothing has changed.
func Apply(t Task, e Event) (Transition, error) {
	late := e.Type.Door() && (e.AtMs >= t.ExpiresAtMs || t.State == StateExpired)
	if startsUnheard(t, e) {
		first, err := applyOne(t, Event{Type: EventStart, AtMs: e.AtMs, Attempt: e.Attempt, Worker: e.Worker, Source: e.Source})
		if err != nil {
			return Transition{}, err
		}
		second, err := applyOne(first.Task, e)
		if err != nil {
			return Transition{}, err
		}
		if !second.Changed {
			return first, nil
		}
		return second, nil
	}
	tr, err := applyOne(t, e)
	tr.Late = late
	if err == nil && tr.Reason == ReasonExpired && keepsLate(tr.Task, e) {
		kept, err := applyOne(tr.Task, e)
		if err != nil {
			return Transition{}, err
		}
		tr.Task, tr.LateNotification = kept.Task, kept.Notification
	}
	return tr, err
}

// startsUnheard tells whether e reaches a task that was never started, before
// its deadline: webhooks come in any order, and work that reports has begun.
func startsUnheard(t Task, e Event) bool {
	if t.Policy.Strict || t.State != StateQueued || t.Attempts != 0 || e.AtMs < 0 || e.AtMs >= t.ExpiresAtMs || e.Attempt > 1 {
		return false
	}
	return slices.Contains(on(EventProgress, EventSucceed, EventFail, EventInputRequired), e.Type)
}

func applyOne(t Task, e Event) (Transition, error) {
	for i := range rules {
		r := &rules[i]
		if !r.fits(t, e) {
			continue
		}
		if r.Kind == Rejects {
			if err := r.check(t, e); err != nil {
				return Transition{}, err
			}
			continue
		}
		return r.apply(t, e), nil
	}
	return Transition{}, Invalid("event.type", "must be one of the known event types, not %q", e.Type)
}

func (r *Rule) fits(t Task, e Event) bool {
	if len(r.On) > 0 && !slices.Contains(r.On, e.Type) {
		return false
	}
	if len(r.From) > 0 && !slices.Contains(r.From, t.State) {
		return false
	}
	return r.guard == nil || r.guard(t, e)
}

func (r *Rule) apply(t Task, e Event) Transition {
	tr := Transition{Task: t, Reason: r.Reason, Duplicate: r.Kind == Repeats, Changed: r.Kind == Changes}
	if r.Kind == Notes {
		tr.Task.LastHeardAtMs = max(t.LastHeardAtMs, e.AtMs)
	}
	if !tr.Changed {
		return tr
	}
	cause, n := e, &tr.Task
	if r.To != "" {
		n.State = r.To
	}
	if e.Type.Door() && !t.State.Terminal() && r.Reason != ReasonExpired {
		n.cameBack()
	}
	if e.Type.Door() && !n.State.Terminal() {
		n.LastHeardAtMs, n.SuspectedAtMs = max(n.LastHeardAtMs, e.AtMs), 0
	}
	e.Result, e.RetryAtMs = nil, 0
	if r.do != nil {
		r.do(n, &e)
	}
	if n.State.Terminal() && !t.State.Terminal() {
		n.EndedBy = endedBy(e)
		if n.State != StateExpired || !n.BeingUndone() {
			n.Manual = nil
		}
	}
	e.Jitter = 0
	n.record(e)
	if r.Notify {
		tr.Notify = true
		tr.Notification = &Notification{TaskID: n.ID, State: n.State, Version: n.Version, AtMs: cause.AtMs, Reason: r.Reason}
	}
	return tr
}

// String is the rule as one line, for errors and tests.
func (r Rule) String() string {
	return fmt.Sprintf("%v from %v when %q -> %s %s (%s)", r.On, r.From, r.When, r.Kind, r.Reason, r.To)
}

// What the rules do to a task. Each works on a copy that Apply has made.

func (t *Task) start(e Event) {
	t.Attempts++
	t.Progress, t.Stage, t.Worker, t.RetryAtMs, t.Questions = 0, e.Stage, e.Worker, 0, nil
	t.StartedAtMs, t.LastProgressAtMs = e.AtMs, e.AtMs
}

func (t *Task) moved(e Event) {
	t.LastProgressAtMs = e.AtMs
	if e.Stage != "" {
		t.Stage = e.Stage
	}
	if e.Cursor != "" {
		t.Cursor = e.Cursor
	}
}

func (t *Task) failed(e *Event) {
	t.Error = e.Error.clone()
	if t.Error == nil {
		t.Error = &TaskError{Message: "failed without saying why"}
	}
	t.Error.Retryable = e.retryable()
	t.Submission++
}

func (t *Task) lost(e *Event, code string) {
	t.Error = e.Error.clone()
	if t.Error == nil {
		t.Error = &TaskError{Message: "the worker fell silent and the work could not be found"}
	}
	t.Error.Code, t.Error.Retryable = code, code == CodeWorkerLost
}

func (t *Task) requeue(e *Event) {
	t.Progress, t.Questions, t.SuspectedAtMs, t.Manual = 0, nil, 0, nil
	t.RetryAtMs = e.AtMs + max(t.Policy.Backoff.Wait(t.Attempts, e.Jitter), putOff(*e))
	e.RetryAtMs = t.RetryAtMs
}

// putOff is the wait that the other side asks for, and a little more by lot:
// those whom it sent away together must not come back together.
func putOff(e Event) int64 {
	const spread = 0.1
	after := min(e.RetryAfterMs, MaxRetryAfterMs)
	return after + int64(float64(after)*spread*e.Jitter)
}

func (t *Task) retry(e Event) {
	t.MaxAttempts++
	// A task that ended before it was started was known outside as attempt 1.
	// That attempt is over: what was sent in its name and refused stays so.
	t.Attempts = max(t.Attempts, 1)
	t.ExpiresAtMs = e.AtMs + e.TTLMs
	t.Progress, t.RetryAtMs, t.EndedAtMs, t.SuspectedAtMs = 0, 0, 0, 0
	t.Cancel, t.Confirmed, t.Questions, t.Late, t.Manual = nil, nil, nil, nil, nil
	t.Retries++
	t.EndedBy, t.DecidedFor = "", 0
	// Only who was told that nobody knows has decided about it. Where nobody was, the
	// next attempt looks for the work first, and may ask a person yet.
	if t.Error != nil && t.Error.Code == CodeOutcomeUnknown {
		t.decided()
	}
}

// endedBy says who ended a task; empty when the event does not say it.
func endedBy(e Event) string {
	switch {
	case e.Type == EventExpire || e.Source == "" && e.Type == EventCancelTimeout:
		return "timer"
	case e.By != "":
		return e.By
	case e.Source == "" && e.Type.Door():
		return "callback"
	}
	return e.Source
}

func (t *Task) end(atMs int64) {
	t.EndedAtMs, t.RetryAtMs, t.SuspectedAtMs = atMs, 0, 0
}

func (t *Task) confirm(yes bool) { t.Confirmed = &yes }

func (t *Task) keepLate(e Event) {
	t.Late = &LateResult{ResultRef: e.ResultRef, ResultHash: e.ResultHash, AtMs: e.AtMs}
}

// keepsLate tells whether e is a whole result that a late policy keeps, within
// its grace. Whether e itself causes the expiry or finds the task expired makes
// no difference; either way the task ends at its deadline.
func keepsLate(t Task, e Event) bool {
	return t.Policy.LatePolicy == LateRecord && e.Type == EventSucceed && t.Late == nil && e.AtMs-t.ExpiresAtMs < t.Policy.grace() &&
		!blank(e.ResultRef) && !blank(e.ResultHash) && !staleAttempt(t, e)
}

func staleAttempt(t Task, e Event) bool {
	current := max(t.Attempts, 1)
	return e.Attempt != current && (e.Attempt != 0 || t.Retries > 0)
}

func newStage(t Task, e Event) bool { return e.Stage != "" && e.Stage != t.Stage }
