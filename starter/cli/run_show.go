package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// rawJSON is JSON that is written as it is.
type rawJSON = json.RawMessage

func (a *app) runShowCommand() *cobra.Command {
	history := false
	cmd := &cobra.Command{
		Use: "show RUN", Short: "show how a run stands, on one screen", Args: exactly("RUN"),
		Long: `Shows how a run stands: its state and what it waits for, what people are asked and
the command that answers, and for each open call how the work stands.`,
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			d, err := s.runs.DescribeRun(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				if history {
					return a.printJSON(runWhole(d))
				}
				return a.printJSON(runViewOf(d))
			}
			term.Fields(a.out, a.runFields(s, d))
			for _, ask := range d.Asks {
				fmt.Fprintln(a.out)
				term.Fields(a.out, a.askFields(d, ask))
			}
			a.openCalls(s, d)
			if !history {
				return nil
			}
			fmt.Fprintln(a.out)
			for _, e := range d.Run.History {
				fmt.Fprintln(a.out, join(" ", a.clock(e.AtMs), fmt.Sprintf("v%d", e.Version), term.Clean(entryText(e, d.Run))))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&history, "history", false, "also the events of the run, the newest 64")
	return cmd
}

// runFields is a run on one screen, but for its asks and open calls.
func (a *app) runFields(s *session, d starter.RunDescription) []term.Field {
	r := d.Run
	f := []term.Field{
		{Name: "run", Value: join(": ", r.ID, r.Title)},
		{Name: "runtime", Value: join(", ", runtimeText(d), prefixed("version ", r.RuntimeVersion))},
		{Name: "state", Value: fmt.Sprintf("%s (version %d)", r.State, r.Version)},
		{Name: "waits for", Value: d.WaitsFor},
	}
	add := func(name, value string) { f = append(f, term.Field{Name: name, Value: value}) }
	if st := r.Step; st != nil && !r.State.Terminal() {
		add("step", a.stepText(*st))
		if st.Error != nil {
			add("error before", st.Error.Error())
		}
	}
	if len(d.Delta) > 0 {
		add("hint", string(d.Delta))
	}
	l := r.Used()
	add("steps", fmt.Sprintf("%d committed%s", l.Steps, ofAtMost(l.MaxSteps)))
	open := ""
	if l.OpenCalls > 0 {
		open = fmt.Sprintf("%d open%s", l.OpenCalls, ofAtMost(l.MaxOpenCalls))
	}
	add("calls", join(", ", fmt.Sprintf("%d%s", l.Calls, ofAtMost(l.MaxCalls)), open))
	if l.Tokens > 0 || l.MaxTokens > 0 {
		add("tokens", fmt.Sprintf("%d%s", l.Tokens, ofAtMost(l.MaxTokens)))
	}
	if l.CostUSD > 0 || l.MaxCostUSD > 0 {
		add("cost", fmt.Sprintf("%.4f USD%s", l.CostUSD, ofAtMost(l.MaxCostUSD)))
	}
	for _, u := range r.Usage {
		add("used", usageText(u))
	}
	add("started", a.moment(r.CreatedAtMs))
	if !r.State.Terminal() {
		add("deadline", a.moment(r.ExpiresAtMs))
	}
	add("ended", a.moment(r.EndedAtMs))
	f = append(f, a.moreRunFields(d)...)
	for _, p := range d.Pending {
		add("activity", a.pending(p))
	}
	if p := r.Parent; p != nil {
		add("for", fmt.Sprintf("run %s, call %s of step %d", p.RunID, p.ToolCallID, p.Step))
	}
	add("labels", labels(r.Labels))
	add("workflow", d.WorkflowID)
	add("temporal ui", s.link(d.WorkflowID, d.WorkflowRunID))
	return f
}

// runtimeText names who takes the steps, and how.
func runtimeText(d starter.RunDescription) string {
	if d.Runtime.Mode == protocol.ModePlan {
		return "none, it follows a plan"
	}
	return fmt.Sprintf("%s (%s)", d.Run.Runtime, d.Runtime.Mode)
}

func ofAtMost[T int | int64 | float64](most T) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprintf(" of at most %v", most)
}

func usageText(u run.Usage) string {
	cached, cost := "", ""
	if u.CachedInputTokens > 0 {
		cached = fmt.Sprintf(" (%d cached)", u.CachedInputTokens)
	}
	if u.CostUSD > 0 {
		cost = fmt.Sprintf("%.4f USD", u.CostUSD)
	}
	return join(", ", fmt.Sprintf("%s: %d in%s", u.Model, u.InputTokens, cached), fmt.Sprintf("%d out", u.OutputTokens), cost)
}

// stepText is the step that is due or out.
func (a *app) stepText(st run.Step) string {
	text := fmt.Sprintf("%d, because of %s", st.Number, st.Cause)
	if st.Number == 1 && st.Cause == run.CauseStart {
		text = "1"
	}
	if st.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", st.Attempt)
	}
	if st.Held {
		text = join(", ", text, prefixed("held by ", st.Holder))
		// One that the engine itself watches has no lease that says anything.
		const sensible = int64(365 * 24 * 3600 * 1000)
		if st.LeaseUntilMs-a.deps.now().UnixMilli() < sensible {
			text = join(", ", text, "lease until "+a.moment(st.LeaseUntilMs))
		}
	} else if st.NotBeforeMs > 0 {
		text = join(", ", text, "again "+a.ago(st.NotBeforeMs))
	}
	return text
}

// moreRunFields are those that not every run has.
func (a *app) moreRunFields(d starter.RunDescription) []term.Field {
	r := d.Run
	var f []term.Field
	add := func(name, value string) { f = append(f, term.Field{Name: name, Value: value}) }
	if r.Error != nil {
		add("error", r.Error.Error())
	}
	add("next step", d.NextStep)
	if c := r.Cancel; c != nil {
		add("cancel", join(", ", "requested "+a.moment(c.AtMs), prefixed("by ", c.By), c.Reason))
	}
	for _, c := range r.Calls {
		if c.State.Ended() && c.TakenAt == 0 {
			add("result", resultText(c))
		}
	}
	for _, k := range r.Unconfirmed {
		add("confirmed", fmt.Sprintf("no, nobody said that the work of call %s of step %d has stopped", k.ID, k.Step))
	}
	if r.Retries > 0 {
		add("retries", fmt.Sprint(r.Retries))
	}
	if c := r.Checkpoint; !c.Empty() {
		add("checkpoint", join(", ", term.Bytes(c.Bytes), r.CheckpointFormat, "sha256 "+c.Hash))
	}
	const newest = 3
	for _, o := range r.Outputs[max(len(r.Outputs)-newest, 0):] {
		add("said", fmt.Sprintf("step %d: %s", o.Step, words(o.Content)))
	}
	if c := r.Final; !c.Empty() {
		add("answer", join("; ", term.Bytes(c.Bytes), "read it: wakepoint run result "+shellWord(r.ID)))
	}
	if n := len(r.Inputs); n > 0 {
		add("inputs", fmt.Sprintf("%d not committed by a step yet", n))
	}
	if j := d.LastRejected; j != nil {
		add("refused", join(", ", j.Error, a.ago(j.AtMs)))
	}
	return f
}

// resultText is a result that no step has taken yet.
func resultText(c run.Call) string {
	size := ""
	if c.ResultBytes > 0 {
		size = term.Bytes(c.ResultBytes)
	}
	text := join(", ", fmt.Sprintf("%s of step %d: %s", c.ID, c.Step, c.State), size)
	if c.Error != nil {
		text += ", " + c.Error.Error()
	}
	return text
}

// words is JSON for people: a text without its quotes.
func words(b []byte) string {
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

// askFields is what a person is asked, and the commands that answer.
func (a *app) askFields(d starter.RunDescription, ask protocol.Ask) []term.Field {
	of := ""
	if ask.RunID != d.Run.ID {
		of = ", of run " + ask.RunID
	}
	f := []term.Field{
		{Name: ask.Kind, Value: fmt.Sprintf("%s of step %d%s", ask.ToolCallID, ask.AskedAtStep, of)},
		{Name: "tool", Value: ask.Tool},
		{Name: "asks", Value: ask.Prompt},
		{Name: "arguments", Value: askArguments(ask)},
		{Name: "schema", Value: string(ask.Schema)},
		{Name: "until", Value: a.moment(ask.UntilMs)},
	}
	for _, c := range askCommands(ask) {
		f = append(f, term.Field{Name: "answer", Value: c})
	}
	return f
}

// askArguments are what a person approves, and what --edit replaces.
func askArguments(ask protocol.Ask) string {
	var in run.ApproveInput
	if ask.Tool == run.ToolApprove && json.Unmarshal(ask.Input, &in) == nil {
		return string(in.Arguments)
	}
	return string(ask.Input)
}

// askCommands are the commands that answer an ask, by the run that asks.
func askCommands(ask protocol.Ask) []string {
	of := fmt.Sprintf(" %s %s --step %d", shellWord(ask.RunID), shellWord(ask.ToolCallID), ask.AskedAtStep)
	if ask.Kind == protocol.AskQuestion {
		if len(ask.Schema) > 0 {
			return []string{"wakepoint run answer" + of + " --answer JSON"}
		}
		return []string{"wakepoint run answer" + of + " --text TEXT"}
	}
	return []string{"wakepoint run approve" + of, "wakepoint run approve" + of + " --deny", "wakepoint run approve" + of + " --edit JSON"}
}

// shellWord quotes what a shell would not take as one word.
func shellWord(s string) string {
	plain := s != "" && !strings.HasPrefix(s, "-") && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,=") == ""
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxBlocks is how many open calls are shown in full: more are a table.
const maxBlocks = 6

// openCalls shows what is open, but for what is told of by what it asks.
func (a *app) openCalls(s *session, d starter.RunDescription) {
	calls := slices.DeleteFunc(slices.Clone(d.Calls), func(c starter.CallDescription) bool {
		return c.State == run.CallApproval || c.State == run.CallAsking
	})
	if len(calls) <= maxBlocks {
		for _, c := range calls {
			fmt.Fprintln(a.out)
			term.Fields(a.out, a.callFields(s, d, c))
		}
		return
	}
	rows := make([][]string, 0, len(calls))
	for _, c := range calls {
		progress := ""
		if c.Progress > 0 || c.Stage != "" {
			progress = join(" ", fmt.Sprintf("%d%%", c.Progress), c.Stage)
		}
		rows = append(rows, []string{
			fmt.Sprintf("%s (step %d)", c.ToolCallID, c.AskedAtStep), c.Tool, join("", c.TaskID, prefixed("run ", c.SubRunID)), string(c.Phase), progress,
			a.ago(c.LastHeardAtMs), a.ago(c.NextProbeAtMs), a.ago(c.ExpiresAtMs), join("; ", c.WaitsFor, c.Note), handleText(c.Handle),
		})
	}
	fmt.Fprintln(a.out)
	term.Table(a.out, []string{"CALL", "TOOL", "TASK", "PHASE", "PROGRESS", "HEARD", "PROBE", "DEADLINE", "WAITS FOR", "JOB OUTSIDE"}, rows)
}

// callFields is an open call.
func (a *app) callFields(s *session, d starter.RunDescription, c starter.CallDescription) []term.Field {
	background := ""
	if c.Background {
		background = "in the background"
	}
	title := c.Title
	if title == c.Tool {
		title = ""
	}
	f := []term.Field{
		{Name: "call", Value: join(", ", fmt.Sprintf("%s of step %d", c.ToolCallID, c.AskedAtStep), background)},
		{Name: "tool", Value: join(": ", c.Tool, title)},
		{Name: "task", Value: c.TaskID},
		{Name: "run", Value: c.SubRunID},
		{Name: "phase", Value: join(" ", string(c.Phase), "("+join(", ", "call "+string(c.State), strings.ToLower(c.Standing))+")")},
	}
	add := func(name, value string) { f = append(f, term.Field{Name: name, Value: value}) }
	bar := ""
	if c.SubRunID != "" {
		// How that run stands is its phase.
		c.Stage = ""
	}
	if c.Progress > 0 || c.Stage != "" {
		const columns = 20
		bar = fmt.Sprintf("%s %d%%", term.Bar(c.Progress, columns), c.Progress)
	}
	stalled := ""
	if c.Stalled {
		stalled = "(stalled)"
	}
	add("progress", join("  ", bar, c.Stage, stalled))
	if c.Attempt > 1 {
		add("attempt", fmt.Sprint(c.Attempt))
	}
	if c.State == run.CallBlocked {
		if known, ok := d.Run.Find(run.Key{Step: c.AskedAtStep, ID: c.ToolCallID}); ok {
			add("needs", strings.Join(known.DependsOn, ", "))
		}
	}
	add("job outside", handleText(c.Handle))
	add("waits for", c.WaitsFor)
	add("last heard", a.moment(c.LastHeardAtMs))
	add("next probe", a.moment(c.NextProbeAtMs))
	if c.UntilMs > 0 {
		add("until", a.moment(c.UntilMs))
	} else {
		add("deadline", a.moment(c.ExpiresAtMs))
	}
	add("note", c.Note)
	switch {
	case c.TaskID != "":
		add("temporal ui", s.taskLink(d.Run.Tenant, c.TaskID))
	case c.SubRunID != "":
		add("temporal ui", s.runLink(d.Run.Tenant, c.SubRunID))
	}
	return f
}
