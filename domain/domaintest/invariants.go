package domaintest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/wakepoint/wakepoint/domain"
)

// guarded is a task whose slices have room behind their end, filled with marks:
// whoever appends in place, instead of copying first, overwrites a mark.
type guarded struct {
	task domain.Task
	// before is a copy that shares nothing with the task.
	before domain.Task
}

const mark = "room behind the end"

// guard prepares a task. A deep one also finds changes behind pointers; it is
// slow, so a long sequence takes it now and then.
func guard(t domain.Task, deep bool) guarded {
	h := make([]domain.Entry, len(t.History), len(t.History)+2)
	copy(h, t.History)
	h[:cap(h)][len(h)].Event.Reason = mark
	t.History = h
	if len(t.Questions) > 0 {
		q := make([]domain.Question, len(t.Questions), len(t.Questions)+2)
		copy(q, t.Questions)
		q[:cap(q)][len(q)].Prompt = mark
		t.Questions = q
	}
	if len(t.Waiters) > 0 {
		w := make([]domain.Waiter, len(t.Waiters), len(t.Waiters)+2)
		copy(w, t.Waiters)
		w[:cap(w)][len(w)].LeftFor = mark
		t.Waiters = w
	}
	if deep {
		return guarded{task: t, before: deepCopy(reflect.ValueOf(t)).Interface().(domain.Task)}
	}
	before := t
	before.History = append([]domain.Entry{}, t.History...)
	before.Questions = append([]domain.Question(nil), t.Questions...)
	before.Waiters = append([]domain.Waiter(nil), t.Waiters...)
	return guarded{task: t, before: before}
}

// deepCopy copies what v points to as well. All fields of a task are exported.
func deepCopy(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(deepCopy(v.Field(i)))
		}
		return c
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(deepCopy(v.Elem()))
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
		return c
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeMap(v.Type()))
		for _, k := range v.MapKeys() {
			c.SetMapIndex(k, deepCopy(v.MapIndex(k)))
		}
		return c
	default:
		return v
	}
}

func text(t domain.Task) string {
	raw, err := json.Marshal(t)
	if err != nil {
		return fmt.Sprintf("unwritable: %v %+v", err, t)
	}
	return string(raw)
}

// broken lists the invariants of the contract that an application of e broke.
func (g guarded) broken(e domain.Event, tr domain.Transition, err error) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	t, n := g.task, tr.Task
	if !reflect.DeepEqual(t, g.before) {
		say("the argument was changed:\n    %s\n    %s", text(g.before), text(t))
	}
	if h := t.History; h[:cap(h)][len(h)].Event.Reason != mark {
		say("the argument's history was appended to in place")
	}
	if q := t.Questions; len(q) > 0 && q[:cap(q)][len(q)].Prompt != mark {
		say("the argument's questions were appended to in place")
	}
	if w := t.Waiters; len(w) > 0 && w[:cap(w)][len(w)].LeftFor != mark {
		say("the argument's waiters were appended to in place")
	}
	if err != nil {
		if !errors.Is(err, domain.ErrInvalid) {
			say("an error that is no InvalidError: %v", err)
		}
		return out
	}
	added := n.Version - t.Version
	switch {
	case !tr.Changed && added != 0:
		say("no change, and yet %d versions more", added)
	case !tr.Changed && !reflect.DeepEqual(stillness(n), stillness(t)):
		say("no change, and yet the task differs:\n    %s\n    %s", text(t), text(n))
	case tr.Changed && added < 1:
		say("a change without a version")
	case tr.Changed && added > 1 && (added != 2 || (t.Attempts != 0 || t.State != domain.StateQueued) && tr.LateNotification == nil):
		say("%d versions for one event", added)
	}
	out = append(out, historyBroken(t, n)...)
	if t.State.Terminal() && n.State != t.State && tr.Reason != domain.ReasonRetried {
		say("terminal %s became %s by %s", t.State, n.State, tr.Reason)
	}
	if t.State.Terminal() && tr.Changed && tr.Reason != domain.ReasonRetried && tr.Reason != domain.ReasonLateResult {
		say("a terminal task changed by %s", tr.Reason)
	}
	out = append(out, stuck(n, max(e.AtMs, 0))...)
	return append(out, notificationBroken(e, tr)...)
}

// stuck lists what would leave a task in a corner from which nobody moves it.
func stuck(n domain.Task, nowMs int64) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	p := domain.Next(n, nowMs)
	_, ended := domain.EndOf(n)
	switch open := !n.State.Terminal(); {
	case open && (p.WakeAtMs == 0 || p.Close):
		say("an open task that wakes for nothing: %+v", p)
	case !open && !ended:
		say("a %s task without an end", n.State)
	case n.Manual != nil && (n.State != domain.StateRunning && !goesOn(n) || n.SuspectedAtMs != 0 || n.Error == nil || n.Error.Code != domain.CodeOutcomeUnknown):
		say("a person looks for a task that is %s, suspected at %d, with error %v", n.State, n.SuspectedAtMs, n.Error)
	case n.Manual != nil && (p.Probe || p.Lease || p.Submit):
		say("a person looks for it, and so does %+v", p)
	case n.State == domain.StateQueued && n.Cancel != nil:
		say("a queued task is to be cancelled, and does not end")
	case n.State == domain.StateQueued && n.Attempts >= n.MaxAttempts:
		say("a queued task has no attempt left: %d of %d", n.Attempts, n.MaxAttempts)
	case n.DecidedFor > n.Attempts+1:
		say("attempt %d was decided on, and %d were begun", n.DecidedFor, n.Attempts)
	}
	return out
}

// goesOn says of a task that expired that what it may have done is still undone.
func goesOn(t domain.Task) bool {
	return t.State == domain.StateExpired && t.Manual.Compensation != "" && t.Manual.CompensationFailed == ""
}

// stillness is a task without what a heartbeat may touch.
func stillness(t domain.Task) domain.Task {
	t.LastHeardAtMs = 0
	return t
}

func historyBroken(t, n domain.Task) []string {
	var out []string
	if len(n.History) > domain.HistoryLimit {
		out = append(out, fmt.Sprintf("%d entries in the history", len(n.History)))
	}
	for i, h := range n.History {
		if want := n.Version - int64(len(n.History)-1-i); h.Version != want {
			out = append(out, fmt.Sprintf("entry %d of the history has version %d, not %d", i, h.Version, want))
		}
	}
	if t.Version < domain.HistoryLimit && int64(len(n.History)) != min(n.Version, domain.HistoryLimit) {
		out = append(out, fmt.Sprintf("%d entries at version %d", len(n.History), n.Version))
	}
	return out
}

func notificationBroken(e domain.Event, tr domain.Transition) []string {
	n, late, version := tr.Notification, tr.LateNotification, tr.Task.Version
	if late != nil {
		version--
	}
	switch {
	case tr.Notify != (n != nil):
		return []string{"notify without a notification, or the other way round"}
	case tr.Changed && tr.Task.State.Terminal() != tr.Notify:
		return []string{fmt.Sprintf("a change to %s with notify %v", tr.Task.State, tr.Notify)}
	case late != nil && (n == nil || tr.Reason != domain.ReasonExpired || late.Version != tr.Task.Version || late.Reason != domain.ReasonLateResult || late.AtMs != e.AtMs):
		return []string{fmt.Sprintf("a notification of a late result that isn't one: %+v", *late)}
	case n != nil && (!tr.Changed || n.TaskID != tr.Task.ID || n.State != tr.Task.State || n.Version != version || n.Reason != tr.Reason):
		return []string{fmt.Sprintf("a notification that isn't of this change: %+v", *n)}
	case n != nil && e.AtMs != 0 && n.AtMs != e.AtMs:
		return []string{fmt.Sprintf("a notification of %d for an event of %d", n.AtMs, e.AtMs)}
	}
	return nil
}
