package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// show writes the run's current details, markdown for the Temporal UI.
func (r *agentRun) show() {
	workflow.SetCurrentDetails(r.ctx, RunDetails(r.r, workflow.GetInfo(r.ctx).Namespace, r.openAsks()))
}

// maxRows is how many calls the details show: the newest.
const maxRows = 40

// RunDetails is a run as markdown, with links to its tasks in the Temporal UI.
func RunDetails(r run.Run, namespace string, asks []protocol.Ask) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", r.State)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "- **%s:** %s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Title != "" {
		line("Title", "%s", markdown.Text(r.Title))
	}
	if w := run.WaitsFor(r); w != "" {
		line("Waits for", "%s", markdown.Text(w))
	}
	l := r.Used()
	line("Steps", "%d committed of at most %d", l.Steps, l.MaxSteps)
	if s := r.Step; s != nil {
		line("Step", "%d, attempt %d%s%s", s.Number, s.Attempt, after(", held by ", s.Holder), after(", because of ", string(s.Cause)))
		if s.Error != nil {
			line("Last attempt", "%s", markdown.Text(s.Error.Error()))
		}
	}
	line("Calls", "%d made, %d open", l.Calls, l.OpenCalls)
	if l.Tokens > 0 || l.CostUSD > 0 {
		line("Used", "%d tokens, %.4f USD", l.Tokens, l.CostUSD)
	}
	line("Deadline", "%s", stamp(r.ExpiresAtMs))
	if p := r.Parent; p != nil {
		line("Run above", "%s, call %s", link(p.RunID, namespace, protocol.RunWorkflowID(r.Tenant, p.RunID)), markdown.Code(p.ToolCallID))
	}
	if c := r.Cancel; c != nil {
		line("Cancel asked for", "%s%s%s", stamp(c.AtMs), after(" by ", c.By), after(": ", c.Reason))
	}
	if r.Error != nil {
		line("Error", "%s", markdown.Text(r.Error.Error()))
	}
	if next := run.NextStep(r); next != "" {
		line("Next step", "%s", markdown.Text(next))
	}
	for _, a := range asks {
		line("Asks a person", "%s %s%s", markdown.Text(a.Kind), markdown.Code(a.ToolCallID), after(": ", a.Prompt))
	}
	for i := max(len(r.Outputs)-3, 0); i < len(r.Outputs); i++ {
		line("Said at step "+itoa(r.Outputs[i].Step), "%s", markdown.Text(spoken(r.Outputs[i].Content)))
	}
	line("Version", "%d", r.Version)
	b.WriteString(callTable(r, namespace))
	return b.String()
}

// callTable is the graph of the run's calls, the newest last.
func callTable(r run.Run, namespace string) string {
	calls := append(append([]run.Call{}, r.Done...), r.Calls...)
	if len(calls) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| step | call | tool | state | task | needs |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range calls[max(len(calls)-maxRows, 0):] {
		needs := make([]string, len(c.DependsOn))
		for i, d := range c.DependsOn {
			needs[i] = markdown.Text(d)
		}
		what := ""
		switch {
		case c.SubRunID != "":
			what = link(short(c.SubRunID), namespace, protocol.RunWorkflowID(r.Tenant, c.SubRunID))
		case c.TaskID != "":
			what = link(short(c.TaskID), namespace, protocol.TaskWorkflowID(r.Tenant, c.TaskID))
		}
		state := string(c.State)
		if c.TakenAt > 0 {
			state += fmt.Sprintf(", taken at step %d", c.TakenAt)
		}
		if c.Background {
			state += ", background"
		}
		if c.Error != nil && c.Error.Code != "" {
			state += ", " + markdown.Text(c.Error.Code)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", c.Step, markdown.Text(c.ID), markdown.Text(c.Tool), state, what, strings.Join(needs, ", "))
	}
	return b.String()
}

// short is the beginning of an id: the table is narrow, and the link has the whole.
func short(id string) string {
	const most = 16
	if len(id) <= most {
		return id
	}
	return id[:most] + "…"
}

// link leads to a workflow's page in the Temporal UI.
func link(text, namespace, workflowID string) string {
	return "[" + markdown.Text(text) + "](/namespaces/" + pathSegment(namespace) + "/workflows/" + pathSegment(workflowID) + ")"
}

// pathSegment writes s as a segment of a path. It is here because a workflow takes
// nothing from package net.
func pathSegment(s string) string {
	const plain = "-._~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(plain, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// spoken is what an output says: a text without its quotes.
func spoken(content []byte) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	return string(content)
}
