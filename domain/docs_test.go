package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// TestDocs prints docs/states.md and docs/reasons.md from the rules. With
// -update it rewrites them, otherwise they must be byte-equal.
func TestDocs(t *testing.T) {
	t.Parallel()
	golden(t, "../docs/states.md", statesPage(t))
	golden(t, "../docs/reasons.md", reasonsPage(t))
}

const printed = "<!-- Printed from the code: go test ./domain -run TestDocs -update -->\n\n"

func statesPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(printed + `# The states of a task

A task is in one of six states; the last four are ends. What moves it are events: callbacks from outside, and what Wakepoint
says to itself (the deadline, a cancel request, a lost worker, an answer, a person's word on lost work, a manual retry).

`)
	b.WriteString(chart())
	b.WriteString(`
What leaves the state as it is, and is a change of the task all the same:

`)
	for _, r := range domain.Rules() {
		if r.Kind == domain.Changes && r.To == "" {
			fmt.Fprintf(&b, "- %s: %s%s (`%s`)\n", names(r.From, ", "), names(r.On, " or "), when(r), r.Reason)
		}
	}
	b.WriteString(`
## The rules

For each event the first rule that fits decides. *changes* adds one version and one entry to the history; *notes* keeps when the
outside was heard of and nothing else; *repeats* means that it has been done already; *refuses* that it does not fit the task;
*rejects* is an ` + "`invalid-request`" + `. None of the last four adds a version. What a reason tells a sender is in [reasons.md](reasons.md).

Two things come before the rules. A callback id that has been answered is ` + "`duplicate-callback`" + `, before its event is looked at. And
unless the tool is declared ` + "`strict`" + `, a progress, a success, a failure or a question that reaches a task that was never started,
before its deadline, starts it first, as an event of its own: webhooks come in any order.

One thing comes after them. When late results are recorded, a success that caused the expiry by rule 10 is also held against rule 5,
so that it is kept, and told, like one that found the task expired.

| # | event | from | when | to | kind | reason | notify |
| --- | --- | --- | --- | --- | --- | --- | --- |
`)
	for i, r := range domain.Rules() {
		to, notify, reason := string(r.To), "", string(r.Reason)
		if to == "" && r.Kind == domain.Changes {
			to = "(stays)"
		}
		if r.Notify {
			notify = "yes"
		}
		if reason == "" {
			reason = "`invalid-request`"
		} else {
			reason = "`" + reason + "`"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s |\n", i+1, or(names(r.On, ", "), "any"), or(names(r.From, ", "), "any"), r.When, to, r.Kind, reason, notify)
	}
	b.WriteString("\nAn event of an unknown type that no rule takes is an `invalid-request`.\n")
	b.WriteString(`
## How it ended

Ends that have the same state are told apart by their kind, with who ended it beside: a person, the name of a callback's source,
` + "`callback`, `probe`, `timer`" + `. One kind is no end of the task: everybody who waited lost patience, and the work goes on.

`)
	b.WriteString(endsTable(t))
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func names[T ~string](list []T, between string) string {
	s := make([]string, len(list))
	for i, x := range list {
		s[i] = string(x)
	}
	return strings.Join(s, between)
}

func when(r domain.Rule) string {
	if r.When == "" {
		return ""
	}
	return ", when " + r.When
}

// chart draws an arrow for every pair of states that a rule leads from and to,
// with the reasons for which it does.
func chart() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> queued: create\n")
	type arrow struct{ from, to domain.State }
	var arrows []arrow
	labels := map[arrow][]string{}
	for _, r := range domain.Rules() {
		if r.Kind != domain.Changes || r.To == "" {
			continue
		}
		for _, f := range r.From {
			a := arrow{f, r.To}
			if labels[a] == nil {
				arrows = append(arrows, a)
			}
			label := names(r.On, " or ")
			switch {
			case label == "":
				label = "deadline"
			case label != string(r.Reason):
				label += " (" + string(r.Reason) + ")"
			}
			if !slices.Contains(labels[a], label) {
				labels[a] = append(labels[a], label)
			}
		}
	}
	// In the order of the states, so that the drawing reads from the start on.
	states := domain.States()
	slices.SortStableFunc(arrows, func(x, y arrow) int {
		return slices.Index(states, x.from) - slices.Index(states, y.from)
	})
	for _, a := range arrows {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, strings.Join(labels[a], "<br/>"))
	}
	for _, s := range states {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
