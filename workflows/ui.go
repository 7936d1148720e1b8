package workflows

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
		line("Cancel asked for", "%s%s%s", stamp(c.AtMs), after(" by ", c.By), after(": ", c.Reason))
	}
	if q, ok := t.OpenQuestion(); ok {
		line("Question "+plain(q.QuestionID), "%s", plain(q.Prompt))
	}
	if t.Error != nil {
		line("Error", "%s", plain(t.Error.Error()))
	}
	if t.ResultRef != "" {
		line("Result", "%s", code(t.ResultRef))
	}
	if l := t.Late; l != nil {
		line("Late result", "%s, %s", code(l.ResultRef), stamp(l.AtMs))
	}
	if v.NextStep != "" {
		line("Next step", "%s", v.NextStep)
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
	return before + plain(s)
}

// plain keeps what tools and callers write from becoming markup or new lines
// of the page: they are not the ones who run it.
func plain(s string) string { return escapes.Replace(oneLine(s)) }

// code is text as it is. No escapes work inside of code, and nothing but a
// backtick ends it.
func code(s string) string { return "`" + strings.ReplaceAll(oneLine(s), "`", "'") + "`" }

// escapes takes the meaning from every character that has one within a line of
// markdown. The backslash is one: what stands before another escape undoes it.
var escapes = func() *strings.Replacer {
	pairs := []string{"&", "&amp;", "<", "&lt;"}
	for _, c := range "\\`*_[]|~" {
		pairs = append(pairs, string(c), "\\"+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// oneLine shortens text and drops what would break the line or hide in it, such
// as characters that turn the direction of writing.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, shortened(s))
}

// shortened cuts text for people to what they read.
func shortened(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
