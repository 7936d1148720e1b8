package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// show writes the task's current details, markdown for the Temporal UI. They
// live in the worker's memory and are read by a query, so they cost no event.
func (r *task) show() {
	text := DetailsAt(r.t, r.nowMs())
	if c := r.in.Carry; c != nil && c.Retry == nil {
		text += origin(r.t)
	}
	workflow.SetCurrentDetails(r.ctx, text)
}

// showStall shows once that the work stands still, which no event tells.
func (r *task) showStall() {
	stalled := r.t.Policy.ShowsStall && domain.Describe(r.t, r.nowMs()).Stalled
	if stalled != r.stallShown {
		r.stallShown = stalled
		r.show()
	}
}

// origin is what stands in the details of a task's first run. The engine does
// not give them to a run that continues as new.
func origin(t domain.Task) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- **%s:** %s\n", name, markdown.Text(value))
		}
	}
	line("Task", t.ID)
	line("Tenant", t.Tenant)
	line("Run", t.RunID)
	line("Tool call", t.ToolCallID)
	for _, name := range workflow.DeterministicKeys(t.Labels) {
		line("Label "+markdown.Text(name), t.Labels[name])
	}
	return b.String()
}

// Details is a task as markdown, as it was when the outside was last heard of.
func Details(t domain.Task) string { return DetailsAt(t, t.LastHeardAtMs) }

// DetailsAt is a task as markdown at nowMs.
func DetailsAt(t domain.Task, nowMs int64) string {
	var b strings.Builder
	v := domain.Describe(t, nowMs)
	fmt.Fprintf(&b, "### %s\n\n", v.Phase)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "- **%s:** %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Tool", "%s", markdown.Text(t.Tool))
	if t.Title != "" {
		line("Title", "%s", markdown.Text(t.Title))
	}
	line("Progress", "%d %%", t.Progress)
	if t.Stage != "" {
		line("Stage", "%s", markdown.Text(t.Stage))
	}
	line("Attempt", "%d of %d", t.Attempts, t.MaxAttempts)
	if t.Worker != "" {
		line("Worker", "%s", markdown.Text(t.Worker))
	}
	line("Deadline", "%s", stamp(t.ExpiresAtMs))
	if t.EndedAtMs > 0 {
		line("Ended", "%s", stamp(t.EndedAtMs))
	}
	if v.WaitsFor != "" {
		line("Waits for", "%s", markdown.Text(v.WaitsFor))
	}
	if v.Stalled {
		line("Stalled", "no progress since %s", stamp(t.LastProgressAtMs))
	}
	if t.RetryAtMs > 0 {
		line("Next attempt", "%s", stamp(t.RetryAtMs))
	}
	if m := t.Manual; m != nil {
		line("Unknown since", "%s", stamp(m.SinceMs))
		if m.Compensation != "" {
			line("Being undone by", "task %s%s", markdown.Code(m.Compensation), after(", which did not succeed: ", m.CompensationFailed))
		}
	}
	if v.End != nil {
		line("End", "%s: %s", string(v.End.Kind), markdown.Text(v.End.Text))
	}
	for _, w := range v.Waiting {
		line("Waited for by", "%s%s", markdown.Text(w.ID), after(", run ", w.RunID))
	}
	if c := t.Cancel; c != nil {
		line("Cancel asked for", "%s%s%s", stamp(c.AtMs), after(" by ", c.By), after(": ", c.Reason))
	}
	if q, ok := t.OpenQuestion(); ok {
		line("Question "+markdown.Text(q.QuestionID), "%s", markdown.Text(q.Prompt))
	}
	if t.Error != nil {
		line("Error", "%s", markdown.Text(t.Error.Error()))
	}
	if t.ResultRef != "" {
		line("Result", "%s", markdown.Code(t.ResultRef))
	}
	if l := t.Late; l != nil {
		line("Late result", "%s, %s", markdown.Code(l.ResultRef), stamp(l.AtMs))
	}
	if v.NextStep != "" {
		line("Next step", "%s", markdown.Text(v.NextStep))
	}
	line("Version", "%d", t.Version)
	return b.String()
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

// after gives text with what stands before it, if there is any.
func after(before, s string) string {
	if s == "" {
		return ""
	}
	return before + markdown.Text(s)
}
