package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// The variants of each state that a rule can tell apart. All have their
// deadline at 1000, or at 2000 after a manual retry.
var matrixStates = []struct{ name, life string }{
	{"queued", ""},
	{"queued, strict", "strict"},
	{"queued in its retry wait", "; start at=1; fail at=2 retryable error=boom"},
	{"queued after a manual retry", "max=1; start at=1; fail at=2; retry at=3 ttl=997"},
	{"queued after a manual retry of what never began", "; cancel-requested at=2; retry at=3 ttl=997"},
	{"running", "; start at=1; progress at=2 progress=30 stage=build"},
	{"running, second attempt", "; start at=1; fail at=2 retryable; start at=200; progress at=201 progress=30 stage=build"},
	{"running, last attempt", "max=1; start at=1; progress at=2 progress=30 stage=build"},
	{"running, doing it twice does harm", "effects=unsafe; start at=1; progress at=2 progress=30 stage=build"},
	{"running after a manual retry", "max=1; start at=1; fail at=2; retry at=3 ttl=997; start at=4 attempt=2"},
	{"running, asked to cancel", "; start at=1; progress at=2 progress=30 stage=build; cancel-requested at=3"},
	{"running, suspected lost", "; start at=1; progress at=2 progress=30 stage=build; suspect at=3"},
	{"running with an open question", "; start at=1; progress at=2 progress=30 stage=build; input-required at=3 question=q prompt=why?"},
	{"running with an answered question", "; start at=1; progress at=2 progress=30 stage=build; input-required at=3 question=q prompt=why?; answer at=4 question=q answer=1"},
	{"running, a person looks for it", "effects=unsafe unknown=manual; start at=1; progress at=2 progress=30 stage=build; requeue at=3"},
	{"running, being undone", "effects=unsafe unknown=manual; start at=1; progress at=2 progress=30 stage=build; requeue at=3 compensation=undo_1"},
	{"running, could not be undone", "effects=unsafe unknown=manual; start at=1; progress at=2 progress=30 stage=build; requeue at=3 compensation=undo_1; compensated at=4 error=stuck"},
	{"running, being undone and to be cancelled", "effects=unsafe unknown=manual; start at=1; progress at=2 progress=30 stage=build; requeue at=3 compensation=undo_1; cancel-requested at=4"},
	{"running, shared by two", "; start at=1; progress at=2 progress=30 stage=build; attach at=3 waiter=b"},
	{"running, shared by two, one lost patience", "; start at=1; progress at=2 progress=30 stage=build; attach at=3 waiter=b; detach at=4 waiterId=submitter reason=wait-timeout"},
	{"succeeded", "; start at=1; succeed at=2 ref=r hash=h"},
	{"failed", "; start at=1; fail at=2 error=boom"},
	{"expired", "; start at=1; expire at=1000"},
	{"expired, late results are recorded", "late=record grace=500; start at=1; expire at=1000"},
	{"expired, a late result is kept", "late=record grace=500; start at=1; expire at=1000; succeed at=1001 ref=r hash=late"},
	{"cancelled, confirmed", "; start at=1; cancel-requested at=2; cancelled at=3"},
	{"cancelled, unconfirmed", "; start at=1; cancel-requested at=2; cancel-timeout at=3"},
}

// Every event type, where its fields matter in several ways. {attempt} is the
// attempt that the task is in, {other} another one.
var matrixEvents = []string{
	"start", "start attempt={attempt}", "start attempt={other}",
	"progress progress=29", "progress progress=30", "progress progress=30 stage=link", "progress progress=31", "progress progress=101",
	"progress progress=31 attempt={attempt}", "progress progress=31 attempt={other}",
	"heartbeat", "heartbeat stage=link", "heartbeat attempt={attempt}",
	"succeed ref=r hash=h", "succeed ref=r hash=late", "succeed ref=r", "succeed ref=r hash=h attempt={attempt}", "succeed ref=r hash=h attempt={other}",
	"fail", "fail retryable", "fail retryable attempt={attempt}", "fail attempt={other}",
	"input-required question=q prompt=why?", "input-required question=new prompt=why?", "input-required prompt=why?",
	"cancelled", "cancelled attempt={attempt}",
	"expire", "cancel-requested", "cancel-timeout",
	"answer question=q answer=1", "answer question=q answer=2", "answer question=other answer=1", "answer question=q",
	"suspect", "lease-renewed", "requeue", "requeue stopped", "requeue attempt={other}",
	"retry ttl=100", "retry", "nonsense",
	"attach waiter=b", "attach waiter=c", "attach", "detach waiterId=b reason=wait-timeout", "detach waiterId=submitter", "detach waiterId=nobody", "detach",
	"cancel-requested waiterId=b", "cancel-requested waiterId=submitter",
	"resolve action=succeeded ref=r hash=h", "resolve action=succeeded", "resolve action=failed", "resolve action=repeat", "resolve action=guess", "resolve action=failed attempt={other}",
	"compensated", "compensated compensation=undo_1", "compensated compensation=undo_2", "compensated error=stuck", "requeue compensation=undo_1",
}

// TestMatrix lets every event meet every variant of every state, before the
// deadline, at it, and after it. The answers are in testdata/matrix.txt; the
// pair checks each against the oracle and the invariants.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("Every event in every state: what it comes to, and which events come to it.\n")
	b.WriteString("-> change  = repeat  ! notified  L late\n")
	for _, s := range matrixStates {
		fmt.Fprintf(&b, "\n## %s (%s)\n", s.name, summary(task(t, s.life)))
		at, after := matrixColumn(t, s.life, 1000), matrixColumn(t, s.life, 1400)
		b.WriteString("before the deadline\n" + matrixColumn(t, s.life, 500))
		if at == after {
			b.WriteString("at the deadline and after it\n" + at)
			continue
		}
		b.WriteString("at the deadline\n" + at + "after it\n" + after)
	}
	golden(t, "testdata/matrix.txt", b.String())
}

// matrixColumn gathers the events by what they come to, those that may come
// from outside first.
func matrixColumn(t *testing.T, life string, at int64) string {
	t.Helper()
	var b strings.Builder
	for _, class := range []struct {
		name string
		door bool
	}{{"from outside", true}, {"of our own", false}} {
		var order []string
		events := map[string][]string{}
		for _, e := range matrixEvents {
			if domain.EventType(strings.Fields(e)[0]).Door() != class.door {
				continue
			}
			cell := matrixCell(t, life, e, at)
			if events[cell] == nil {
				order = append(order, cell)
			}
			events[cell] = append(events[cell], e)
		}
		// The greatest group is "every other", if that says it shorter.
		most := slices.MaxFunc(order, func(x, y string) int { return len(events[x]) - len(events[y]) })
		for _, cell := range order {
			if cell != most || len(events[cell]) < 6 {
				b.WriteString(wrapped("  "+cell+":", events[cell]))
			}
		}
		if n := len(events[most]); n >= 6 {
			every := "every other event"
			if len(order) == 1 {
				every = "every event"
			}
			fmt.Fprintf(&b, "  %s: %s %s (%d)\n", most, every, class.name, n)
		}
	}
	return b.String()
}

func wrapped(line string, items []string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			line += ","
		}
		if len(line)+len(item) > 118 {
			b.WriteString(line + "\n")
			line = "     "
		}
		line += " " + item
	}
	return b.String() + line + "\n"
}

func matrixCell(t *testing.T, life, line string, at int64) string {
	t.Helper()
	p := lived(t, life)
	p.Careful = true
	before := p.Task
	current := max(before.Attempts, 1)
	if before.State == domain.StateQueued && strings.HasPrefix(line, "start") {
		current = before.Attempts + 1
	}
	line = strings.NewReplacer("{attempt}", fmt.Sprint(current), "{other}", fmt.Sprint(current+1)).Replace(line)
	e := event(t, line)
	e.AtMs = at
	tr, err := p.Apply(e)
	var disagree *domaintest.Disagreement
	switch {
	case errors.As(err, &disagree):
		t.Errorf("%s: %v", life, err)
		return "?"
	case err != nil:
		return "invalid"
	}
	cell := string(tr.Reason)
	if tr.Changed {
		cell += " -> " + summary(tr.Task)
	}
	if tr.Duplicate {
		cell += " ="
	}
	if tr.Notify {
		cell += " !"
	}
	if tr.Late {
		cell += " L"
	}
	return cell
}
