package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// viewOf is a description for programs, without the history: the events of a
// task are told once, where they happen.
func viewOf(d starter.Description) starter.Description {
	d.Task = d.Task.WithoutHistory()
	return d
}

// rowOf is a task as a line with a bar.
func rowOf(name string, d starter.Description) term.Row {
	r := term.Row{Name: name, State: string(d.Phase), Percent: d.Task.Progress, Note: note(d)}
	if d.Task.State == domain.StateQueued {
		r.Percent = -1
	}
	return r
}

// note is what else there is to say about a task on its line.
func note(d starter.Description) string {
	t := d.Task
	switch {
	case t.State == domain.StateSucceeded:
		return "in " + term.Duration(ms(t.EndedAtMs-t.CreatedAtMs))
	case t.State.Terminal() && t.Error != nil:
		return t.Error.Error()
	case t.State.Terminal():
		return ""
	}
	var parts []string
	if t.Cancel != nil {
		parts = append(parts, "cancel requested")
	}
	switch q, asks := t.OpenQuestion(); {
	case t.BeingUndone():
		parts = append(parts, "being undone by "+t.Manual.Compensation)
	case t.Manual != nil:
		parts = append(parts, "needs a person: "+t.Manual.Why)
	case d.Phase == domain.PhaseWaitingInput && asks:
		parts = append(parts, "asks "+q.QuestionID+": "+q.Prompt)
	}
	if t.Stage != "" {
		parts = append(parts, t.Stage)
	}
	if d.Stalled {
		parts = append(parts, "stalled")
	}
	if t.RetryAtMs > 0 && t.Error != nil {
		parts = append(parts, t.Error.Error())
	}
	return strings.Join(parts, ", ")
}

// eventText says in words what happened to a task.
func eventText(e domain.Event) string {
	var parts []string
	if e.Type != domain.EventHeartbeat || e.Stage == "" {
		parts = append(parts, string(e.Type))
	}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Progress != nil {
		add("%g%%", *e.Progress)
	}
	if e.Stage != "" {
		if len(parts) == 0 {
			// A heartbeat that is told of is one that changed the stage.
			add("stage %s", e.Stage)
		} else {
			add("%s", e.Stage)
		}
	}
	if e.Worker != "" {
		add("by worker %s", e.Worker)
	}
	if e.ResultRef != "" {
		if kept(e.ResultRef) {
			add("result of %s", term.Bytes(e.Bytes))
		} else {
			add("result %s", e.ResultRef)
		}
	}
	if e.Error != nil {
		add("%s", e.Error.Error())
	}
	if e.RetryAtMs > 0 {
		add("again after %s", term.Duration(ms(e.RetryAtMs-e.AtMs)))
	}
	if e.RetryAfterMs > 0 {
		add("the other side asked for %s", term.Duration(ms(e.RetryAfterMs)))
	}
	if e.Action != "" {
		add("it is to be taken as %s", e.Action)
	}
	if e.Waiter != nil {
		add("%s", waiterText(*e.Waiter))
	}
	if e.WaiterID != "" {
		add("waiter %s", e.WaiterID)
	}
	if e.Compensation != "" {
		add("undone by task %s", e.Compensation)
	}
	if e.QuestionID != "" {
		add("question %s", e.QuestionID)
	}
	if e.Prompt != "" {
		add("%s", e.Prompt)
	}
	if e.By != "" {
		add("by %s", e.By)
	}
	if e.Reason != "" {
		add("because %s", e.Reason)
	}
	return strings.Join(parts, ", ")
}

// fields is a task on one screen.
func (a *app) fields(s *session, d starter.Description) []term.Field {
	t := d.Task
	f := []term.Field{
		{Name: "task", Value: t.ID},
		{Name: "tool", Value: join(": ", t.Tool, t.Title)},
		{Name: "phase", Value: string(d.Phase) + " (" + string(t.State) + ", version " + fmt.Sprint(t.Version) + ")"},
		{Name: "progress", Value: join("  ", a.progress(d), t.Stage)},
		{Name: "attempt", Value: attempt(t)},
		{Name: "waits for", Value: d.WaitsFor},
		{Name: "worker", Value: t.Worker},
		{Name: "submitted", Value: a.moment(t.CreatedAtMs)},
		{Name: "started", Value: a.moment(t.StartedAtMs)},
		{Name: "last heard", Value: a.moment(d.LastHeartbeatAtMs)},
		{Name: "ended", Value: a.moment(t.EndedAtMs)},
	}
	if d.End != nil {
		name := "end"
		if !t.State.Terminal() {
			// It is the end of the waiting, not of the task.
			name = "waiting ended"
		}
		f = append(f, term.Field{Name: name, Value: endText(*d.End)})
	}
	if !t.State.Terminal() {
		f = append(f, term.Field{Name: "deadline", Value: a.moment(t.ExpiresAtMs)}, term.Field{Name: "retry", Value: a.retry(t)})
		if x := t.Policy.Expected; x != nil {
			f = append(f, term.Field{Name: "usually", Value: window(*x)})
		}
	}
	if d.Remaining != nil {
		f = append(f, term.Field{Name: "remaining", Value: window(*d.Remaining)})
	}
	f = append(f, a.manualOf(t)...)
	f = append(f, a.moreFields(d)...)
	for _, p := range d.Pending {
		f = append(f, term.Field{Name: "activity", Value: a.pending(p)})
	}
	return append(f, term.Field{Name: "workflow", Value: d.WorkflowID}, term.Field{Name: "temporal ui", Value: s.link(d.WorkflowID, d.RunID)})
}

// endText says how a task ended, or that nobody waits for it any more.
func endText(e domain.End) string { return join(": ", string(e.Kind), e.Text) }

// retry says when the next attempt begins, and when the other side put it off.
func (a *app) retry(t domain.Task) string {
	asked := ""
	if n := len(t.History); n > 0 && t.RetryAtMs > 0 {
		if after := t.History[n-1].Event.RetryAfterMs; after > 0 {
			asked = "the other side asked for " + term.Duration(ms(after))
		}
	}
	return join(", ", a.moment(t.RetryAtMs), asked)
}

// manualOf is what a person has to know of work of unknown outcome.
func (a *app) manualOf(t domain.Task) []term.Field {
	if t.Manual == nil {
		return nil
	}
	f := []term.Field{
		{Name: "not known", Value: join(", ", t.Manual.Why, "since "+a.moment(t.Manual.SinceMs))},
		{Name: "undoing", Value: undoing(t.Manual.Compensation, t.Manual.CompensationFailed)},
	}
	if !t.BeingUndone() {
		for _, c := range starter.ResolveCommands(t) {
			f = append(f, term.Field{Name: "resolve", Value: c})
		}
	}
	return f
}

// waiterText names one who waits.
func waiterText(w domain.Waiter) string {
	return join(", ", w.ID, prefixed("run ", w.RunID), prefixed("call ", w.ToolCallID))
}

// waiters are those who wait for a task that is shared, and those who left.
func (a *app) waiters(d starter.Description) []term.Field {
	var f []term.Field
	for _, w := range d.Waiting {
		f = append(f, term.Field{Name: "waiter", Value: waiterText(w)})
	}
	for _, w := range d.Task.Waiters {
		if w.LeftAtMs > 0 {
			f = append(f, term.Field{Name: "waiter", Value: join(", ", waiterText(w), "left "+a.moment(w.LeftAtMs), w.LeftFor)})
		}
	}
	return f
}

// attempt says which attempt it is, and of a task that was tried before which one
// comes: callbacks after a retry have to name it.
func attempt(t domain.Task) string {
	text := fmt.Sprintf("%d of %d", t.Attempts, t.MaxAttempts)
	if t.State == domain.StateQueued && t.Attempts > 0 {
		text += fmt.Sprintf(", attempt %d comes next", t.Attempts+1)
	}
	return text
}

// kept tells whether a result is in the store, so that its size is known, if only
// as 0. That of one elsewhere is not.
func kept(ref string) bool { return strings.HasPrefix(ref, blobref.Scheme) }

// moreFields are those that most tasks don't have.
func (a *app) moreFields(d starter.Description) []term.Field {
	t := d.Task
	var f []term.Field
	add := func(name, value string) { f = append(f, term.Field{Name: name, Value: value}) }
	if t.Error != nil {
		name := "error"
		if t.State == domain.StateSucceeded || t.State == domain.StateRunning {
			name = "error before"
		}
		add(name, t.Error.Error())
	}
	add("next step", d.NextStep)
	if t.Cancel != nil {
		add("cancel", join(", ", "requested "+a.moment(t.Cancel.AtMs), prefixed("by ", t.Cancel.By), t.Cancel.Reason))
	}
	if t.Confirmed != nil && !*t.Confirmed {
		add("confirmed", "no, nobody outside said that the work has stopped")
	}
	for _, q := range t.Questions {
		answer := "open: answer with `wakepoint task answer " + t.ID + " " + q.QuestionID + "`"
		if q.AnsweredAtMs > 0 {
			answer = join(" ", "answered", a.moment(q.AnsweredAtMs), prefixed("by ", q.AnsweredBy))
		}
		add("question", join("; ", join(": ", q.QuestionID, q.Prompt), answer))
	}
	if t.ResultRef != "" {
		size := ""
		if kept(t.ResultRef) {
			size = term.Bytes(t.ResultBytes)
		}
		add("result", join(", ", size, t.ContentType, "sha256 "+t.ResultHash))
	}
	add("kept until", a.moment(d.KeptUntilMs))
	if t.Late != nil {
		add("late result", "came "+a.moment(t.Late.AtMs)+", read it with --late")
	}
	add("key", t.IdempotencyKey)
	add("run", join(", ", t.RunID, prefixed("call ", t.ToolCallID)))
	f = append(f, a.waiters(d)...)
	add("labels", labels(t.Labels))
	add("targets", strings.Join(d.Targets, ", "))
	if d.Repeats+d.Conflicts > 0 {
		add("callbacks", fmt.Sprintf("%d came again, %d of them with another body", d.Repeats+d.Conflicts, d.Conflicts))
	}
	return f
}

func (a *app) progress(d starter.Description) string {
	if d.Task.State == domain.StateQueued {
		return ""
	}
	stalled := ""
	if d.Stalled {
		stalled = " (stalled)"
	}
	const columns = 20
	return fmt.Sprintf("%s %d%%%s", term.Bar(d.Task.Progress, columns), d.Task.Progress, stalled)
}

// pending is one activity in a line.
func (a *app) pending(p starter.Pending) string {
	parts := []string{p.Type + " " + p.State}
	if p.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt))
	}
	if p.LastHeartbeatAtMs > 0 {
		parts = append(parts, "heard of "+a.ago(p.LastHeartbeatAtMs))
	}
	if p.NextAttemptAtMs > 0 {
		parts = append(parts, "next "+a.ago(p.NextAttemptAtMs))
	}
	if p.LastFailure != "" {
		parts = append(parts, "last: "+term.Fit(term.Clean(p.LastFailure), 160))
	}
	if len(p.Heartbeat) > 0 && p.Type == protocol.ActivityLease {
		// What a worker outside says; a probe's words are the task's own progress.
		parts = append(parts, "says "+term.Fit(term.Clean(string(p.Heartbeat)), 80))
	}
	return strings.Join(parts, ", ")
}

func window(w domain.Window) string {
	if w.HighMs <= 0 {
		return "longer than expected"
	}
	if w.LowMs == w.HighMs {
		return "about " + term.Duration(ms(w.LowMs))
	}
	return "about " + term.Duration(ms(w.LowMs)) + " to " + term.Duration(ms(w.HighMs))
}

// join puts parts together and leaves out the empty ones.
func join(sep string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// labels are in the order of their names, as encoding/json has them.
func labels(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(b)
}
