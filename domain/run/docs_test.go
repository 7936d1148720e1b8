package run_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain/run"
)

// TestDocs prints docs/run-states.md from the rules. With -update it rewrites it, otherwise
// it must be byte-equal.
func TestDocs(t *testing.T) {
	t.Parallel()
	golden(t, "../../docs/run-states.md", statesPage(t))
}

// arrow is a way from one state to another, and the events that lead along it. The state
// follows from the run as a whole, so that no rule names it: TestOracleAgrees holds these
// against what happens.
type arrow struct {
	from, to run.State
	by       []run.EventType
}

var callEvents = []run.EventType{
	run.EventCallEnded, run.EventApprovalAsked, run.EventApprove, run.EventAnswer, run.EventCallTimeout, run.EventWaitTimeout, run.EventCancelCall,
}

// stopped are the events with which the last call of a run on its way to an end stops.
var stopped = []run.EventType{run.EventCallEnded, run.EventApprovalAsked, run.EventWaitTimeout, run.EventCancelTimeout}

var arrows = []arrow{
	{run.StateRunning, run.StateWaitingTool, []run.EventType{run.EventCommit, run.EventCancel, run.EventExpire}},
	{run.StateRunning, run.StateWaitingInput, []run.EventType{run.EventCommit}},
	{run.StateRunning, run.StatePaused, []run.EventType{run.EventPause}},
	{run.StateRunning, run.StateSucceeded, []run.EventType{run.EventCommit}},
	{run.StateRunning, run.StateFailed, []run.EventType{run.EventClaim, run.EventCommit, run.EventStepFailed, run.EventStepLost}},
	{run.StateRunning, run.StateCancelled, []run.EventType{run.EventCancel}},
	{run.StateRunning, run.StateExpired, []run.EventType{run.EventExpire}},
	{run.StateWaitingTool, run.StateRunning, append([]run.EventType{run.EventInput}, callEvents...)},
	{run.StateWaitingTool, run.StateWaitingInput, []run.EventType{run.EventApprovalAsked, run.EventNoted, run.EventCallStarted, run.EventCallEnded}},
	{run.StateWaitingTool, run.StatePaused, []run.EventType{run.EventPause}},
	{run.StateWaitingTool, run.StateFailed, stopped},
	{run.StateWaitingTool, run.StateCancelled, append([]run.EventType{run.EventCancel}, stopped...)},
	{run.StateWaitingTool, run.StateExpired, append([]run.EventType{run.EventExpire}, stopped...)},
	{run.StateWaitingInput, run.StateRunning, append([]run.EventType{run.EventInput}, callEvents...)},
	{run.StateWaitingInput, run.StateWaitingTool, append([]run.EventType{run.EventNoted, run.EventCancel, run.EventExpire}, callEvents...)},
	{run.StateWaitingInput, run.StatePaused, []run.EventType{run.EventPause}},
	{run.StateWaitingInput, run.StateCancelled, []run.EventType{run.EventCancel}},
	{run.StateWaitingInput, run.StateExpired, []run.EventType{run.EventExpire}},
	{run.StatePaused, run.StateRunning, []run.EventType{run.EventUnpause}},
	{run.StatePaused, run.StateWaitingTool, []run.EventType{run.EventUnpause, run.EventCommit, run.EventCancel, run.EventExpire}},
	{run.StatePaused, run.StateWaitingInput, []run.EventType{run.EventUnpause}},
	{run.StatePaused, run.StateSucceeded, []run.EventType{run.EventCommit}},
	{run.StatePaused, run.StateFailed, []run.EventType{run.EventCommit, run.EventStepFailed, run.EventStepLost}},
	{run.StatePaused, run.StateCancelled, []run.EventType{run.EventCancel}},
	{run.StatePaused, run.StateExpired, []run.EventType{run.EventExpire}},
	{run.StateFailed, run.StateRunning, []run.EventType{run.EventRetry}},
	{run.StateExpired, run.StateRunning, []run.EventType{run.EventRetry}},
	{run.StateExpired, run.StateWaitingTool, []run.EventType{run.EventRetry}},
	{run.StateExpired, run.StateWaitingInput, []run.EventType{run.EventRetry}},
}

// unlike lists where the arrows and what happened differ.
func unlike(moves map[string][]run.EventType) []string {
	var out []string
	known := 0
	for _, a := range arrows {
		met := moves[string(a.from)+" --> "+string(a.to)]
		if len(met) == 0 {
			out = append(out, fmt.Sprintf("nothing led from %s to %s", a.from, a.to))
			continue
		}
		known++
		for _, e := range met {
			if !slices.Contains(a.by, e) {
				out = append(out, fmt.Sprintf("%s led from %s to %s", e, a.from, a.to))
			}
		}
	}
	if known != len(moves) {
		out = append(out, fmt.Sprintf("there are %d ways from state to state, and the chart has %d of them: %v", len(moves), known, moves))
	}
	return out
}

// names writes a list.
func names[T ~string](list []T, between string) string {
	s := make([]string, len(list))
	for i, x := range list {
		s[i] = string(x)
	}
	return strings.Join(s, between)
}

func chart() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> RUNNING: create\n")
	for _, a := range arrows {
		label := names(a.by, "<br/>")
		switch {
		case len(a.by) > 6:
			label = "what happens to its calls"
			for _, e := range a.by {
				if !slices.Contains(callEvents, e) && e != run.EventNoted {
					label += "<br/>" + string(e)
				}
			}
		case len(a.by) > 3 && a.by[len(a.by)-1] == run.EventCancelTimeout:
			label = "its last call has stopped<br/>cancel-timeout"
			if !slices.Contains(stopped, a.by[0]) {
				label = string(a.by[0]) + "<br/>" + label
			}
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, label)
	}
	for _, s := range run.States() {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n")
	return b.String()
}

func statesPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`<!-- Printed from the code: go test ./domain/run -run TestDocs -update -->

# The states of a run

A run is in one of eight states; the last four are ends. What moves it are events: what its runtime commits, what becomes of its
calls, what people say, and what time brings. The state follows from the whole of the run: a step is due or under way (RUNNING), a
person's move is next (WAITING_INPUT), or that of a tool (WAITING_TOOL). A run on its way to an end is WAITING_TOOL until its calls
have stopped. What the words mean is in [runs.md](runs.md).

`)
	b.WriteString(chart())
	b.WriteString(`
## The rules

For each event the first rule that fits decides. *changes* adds one version and one entry to the history; *notes* keeps something
and adds none; *repeats* means that it has been done already, and is answered as it was then; *refuses* that it does not fit the run;
*rejects* is an ` + "`invalid-request`" + `. After a change follows what follows from it: calls that have all they need start, those that
never will are skipped, the next step becomes due, and a run on its way to an end ends with its last call.

| # | event | from | when | what follows | kind | reason |
| --- | --- | --- | --- | --- | --- | --- |
`)
	for i, r := range run.Rules() {
		reason := "`invalid-request`"
		if r.Reason != "" {
			reason = "`" + string(r.Reason) + "`"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", i+1, names(r.On, ", "), or(names(r.From, ", "), "any"), r.When, r.To, r.Kind, reason)
	}
	b.WriteString(`
An event of an unknown type, or of a negative time, is an ` + "`invalid-request`" + `. So is a commit, an input, a decision or an answer for which
the run has no room: calls, answers and inputs may have ` + strconv.Itoa(run.MaxOpenBytes>>10) + ` KiB of JSON together.

## Reasons

Every answer of a run carries one reason. The set is closed; new ones may be added in a later version.

| reason | kind | what it means | what the sender does |
| --- | --- | --- | --- |
`)
	for _, n := range reasonNotes {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", n.reason, strings.Join(kindsOf(n.reason), ", "), n.means, n.sender)
	}
	b.WriteString(`
## Codes of errors

What a run gives as the code of an error: to a call, whose result it is; to a step; or to itself.

| code | what it means |
| --- | --- |
`)
	for _, n := range codeNotes {
		fmt.Fprintf(&b, "| `%s` | %s |\n", n.code, n.means)
	}
	return b.String()
}

// kindsOf gives what the rules with a reason do.
func kindsOf(reason run.Reason) []string {
	var kinds []string
	for _, r := range run.Rules() {
		if r.Reason == reason && !slices.Contains(kinds, string(r.Kind)) {
			kinds = append(kinds, string(r.Kind))
		}
	}
	return kinds
}

// TestReasonsAreComplete reads the constants from the source, so that a new reason or code
// cannot come without a word about it.
func TestReasonsAreComplete(t *testing.T) {
	t.Parallel()
	var reasons, codes []string
	for _, n := range reasonNotes {
		reasons = append(reasons, string(n.reason))
		if !strings.HasSuffix(n.means, ".") || n.sender == "" {
			t.Errorf("%s: no sentence or nothing for the sender", n.reason)
		}
		if len(kindsOf(n.reason)) == 0 {
			t.Errorf("%s: no rule gives it", n.reason)
		}
	}
	for _, n := range codeNotes {
		codes = append(codes, n.code)
		if !strings.HasSuffix(n.means, ".") {
			t.Errorf("%s: no sentence", n.code)
		}
	}
	var states, types, calls []string
	for _, s := range run.States() {
		states = append(states, string(s))
	}
	for _, e := range run.EventTypes() {
		types = append(types, string(e))
	}
	for _, c := range run.CallStates() {
		calls = append(calls, string(c))
	}
	for _, list := range []struct {
		prefix string
		listed []string
	}{{"Reason", reasons}, {"Code", codes}, {"State", states}, {"Event", types}, {"Call", calls}} {
		declared := constantsOf(t, list.prefix)
		slices.Sort(declared)
		slices.Sort(list.listed)
		if !slices.Equal(declared, list.listed) {
			t.Errorf("%s: declared %v\nlisted %v", list.prefix, declared, list.listed)
		}
	}
}

// constantsOf gives the values of the text constants whose names begin so.
func constantsOf(t *testing.T, prefix string) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, prefix) {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	return values
}
