package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
)

// show writes the task's current details, markdown for the Temporal UI. They
// live in the worker's memory and are read by a query, so they cost no event.
func (r *task) show() { workflow.SetCurrentDetails(r.ctx, Details(r.t)) }

// Details is a task as markdown.
func Details(t domain.Task) string {
	var b strings.Builder
	v := domain.Describe(t, t.LastHeardAtMs)
	fmt.Fprintf(&b, "### %s\n\n", v.Phase)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "- **%s:** %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Tool", "%s", plain(t.Tool))
	if t.Title != "" {
		line("Title", "%s", plain(t.Title))
	}
	line("Progress", "%d %%", t.Progress)
	if t.Stage != "" {
		line("Stage", "%s", plain(t.Stage))
	}
	line("Attempt", "%d of %d", t.Attempts, t.MaxAttempts)
	if t.Worker != "" {
		line("Worker", "%s", plain(t.Worker))
	}
	line("Deadline", "%s", stamp(t.ExpiresAtMs))
	if v.WaitsFor != "" {
		line("Waits for", "%s", plain(v.WaitsFor))
	}
	if t.RetryAtMs > 0 {
		line("Next attempt", "%s", stamp(t.RetryAtMs))
	}
	if c := t.Cancel; c != nil {
		line("Cancel asked for", "%s by %s: %s", stamp(c.AtMs), plain(c.By), plain(c.Reason))
	}
	if q, ok := t.OpenQuestion(); ok {
		line("Question "+plain(q.QuestionID), "%s", plain(q.Prompt))
	}
	if t.Error != nil {
		line("Error", "%s", plain(t.Error.Error()))
	}
	if t.ResultRef != "" {
		line("Result", "`%s`", plain(t.ResultRef))
	}
	if v.NextStep != "" {
		line("Next step", "%s", v.NextStep)
	}
	line("Version", "%d", t.Version)
	return b.String()
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

// plain keeps what tools and callers write from becoming markup or new lines
// of the page: they are not the ones who run it.
func plain(s string) string {
	const limit = 300
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return strings.NewReplacer("\n", " ", "\r", " ", "`", "'", "<", "&lt;", "[", "\\[", "*", "\\*", "_", "\\_", "|", "\\|").Replace(s)
}
