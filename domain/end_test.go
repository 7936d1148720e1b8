package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// endCase is a life and how it ended. Those with a word on how it comes about are
// the rows of the table in docs/states.md.
type endCase struct {
	life  string
	kind  domain.EndKind
	by    string
	text  string
	comes string
}

var endCases = []endCase{
	{"; start at=1; succeed at=2 ref=r hash=h", domain.EndSucceeded, "callback", "the work was done", "a callback or a probe brought the result"},
	{"; start at=1; succeed at=2 ref=r hash=h source=probe", domain.EndSucceeded, "probe", "the work was done", ""},
	{"expectsCallback; start at=1; succeed at=2 ref=r hash=h source=ci", domain.EndSucceeded, "ci", "the work was done", ""},
	{asked + "; resolve at=4 action=succeeded ref=r hash=h by=ann", domain.EndSucceeded, "ann", "the work was done", "a person found the work done"},
	{
		"expectsCallback; start at=1; suspect at=2; succeed at=3 ref=r hash=h source=probe", domain.EndCallbackLost, "probe",
		"the work was done, but its callback never came; the end was found by looking", "the tool calls back, and did not; looking for the job found its result",
	},
	{"; start at=1; fail at=2 error=boom", domain.EndFailed, "callback", "the tool failed", "a final failure, or one in the last attempt"},
	{"; start at=1; fail at=2 error=boom source=probe", domain.EndFailed, "probe", "the tool failed", ""},
	{asked + "; resolve at=4 action=failed by=ann", domain.EndFailed, "ann", "a person found out that the work was not done", "a person found the work not done"},
	{
		"max=1 effects=unsafe unknown=manual; start at=1; requeue at=3 compensation=undo_1; compensated at=5 source=compensation", domain.EndFailed, "compensation",
		"what the tool may have done was undone, and no attempt is left", "the last attempt was undone",
	},
	{"; start at=1; expire at=1000", domain.EndTimedOut, "timer", "the deadline came before the end of the work", "the deadline"},
	{"; start at=1; progress at=1000 progress=5 source=ci", domain.EndTimedOut, "timer", "the deadline came before the end of the work", ""},
	{"max=1; start at=1; fail at=2 code=TIMEOUT error=slow retryable source=probe", domain.EndTimedOut, "probe", "the tool took longer than it may", "the tool's own limit, as an error `TIMEOUT` or `DEADLINE_EXCEEDED`"},
	{"; start at=1; fail at=2 code=DEADLINE_EXCEEDED", domain.EndTimedOut, "callback", "the tool took longer than it may", ""},
	{"; cancel-requested at=2 by=ann", domain.EndCancelled, "ann", "it was cancelled by ann", "a person, or the last who waited, cancelled what was queued"},
	{"; cancel-requested at=2", domain.EndCancelled, "", "it was cancelled", ""},
	{"; start at=1; cancel-requested at=2 by=ann; cancelled at=3 source=ci", domain.EndCancelled, "ci", "it was cancelled by ann", "somebody cancelled, and the other side stopped"},
	{
		"; start at=1; cancel-requested at=2 by=ann; cancel-timeout at=3", domain.EndCancelled, "timer",
		"it was cancelled by ann, and nobody confirmed that the work has stopped", "somebody cancelled, and the other side gave no answer",
	},
	{"max=1; start at=1; suspect at=2; requeue at=3 source=probe", domain.EndWorkerLost, "probe", "whoever did the work was lost, and no attempt is left", "silence, and the job could not be found"},
	{
		"effects=unsafe; start at=1; requeue at=3 source=probe", domain.EndOutcomeUnknown, "probe",
		"it is not known whether the work was done, and doing it twice may do harm", "silence, of a tool that is unsafe and whose `onUnknown` is `fail`",
	},
	{asked + "; expire at=1000", domain.EndOutcomeUnknown, "timer", "the deadline came before anybody found out whether the work was done", "the deadline, while a person looks for the work or it is being undone"},
	{
		"run=run-1; start at=1; detach at=2000000 waiterId=submitter reason=wait-timeout", domain.EndWaitTimeout, "submitter",
		"run run-1 stopped waiting at 1970-01-01T00:33:20Z; the work goes on", "the `waitMs` of a call was over; the task itself has no end yet",
	},
	{"; start at=1; detach at=2000 waiterId=submitter reason=wait-timeout", domain.EndWaitTimeout, "submitter", "whoever submitted it stopped waiting at 1970-01-01T00:00:02Z; the work goes on", ""},
	{
		"; attach at=1 waiter=b; detach at=3000 waiterId=submitter reason=wait-timeout; detach at=4000 waiterId=b reason=wait-timeout", domain.EndWaitTimeout, "b",
		"b stopped waiting at 1970-01-01T00:00:04Z; the work goes on", "",
	},
	{
		"; attach at=1 waiter=b; detach at=3000 waiterId=submitter reason=wait-timeout; detach at=4000 waiterId=b reason=bored", domain.EndWaitTimeout, "submitter",
		"whoever submitted it stopped waiting at 1970-01-01T00:00:03Z; the work goes on", "",
	},
	// No end: it is waited for, or given up without a word about patience.
	{"", "", "", "", ""},
	{"; start at=1", "", "", "", ""},
	{"; start at=1; fail at=2 retryable", "", "", "", ""},
	{asked, "", "", "", ""},
	{left, "", "", "", ""},
	{"; start at=1; detach at=3 waiterId=submitter reason=bored", "", "", "", ""},
	{"; start at=1; detach at=3 waiterId=submitter reason=wait-timeout; attach at=4 waiter=submitter", "", "", "", ""},
	{"; start at=1; fail at=2; retry at=3 ttl=100", "", "", "", ""},
	// An end is that of the attempt that ended, not of one before.
	{"effects=unsafe; start at=1; requeue at=2; retry at=3 ttl=100; start at=4 attempt=2; expire at=103", domain.EndTimedOut, "timer", "the deadline came before the end of the work", ""},
	{asked + "; resolve at=4 action=repeat; start at=5 attempt=2; expire at=1000", domain.EndTimedOut, "timer", "the deadline came before the end of the work", ""},
	{asked + "; heartbeat at=4; expire at=1000", domain.EndTimedOut, "timer", "the deadline came before the end of the work", ""},
	{undoing + "; expire at=1000", domain.EndOutcomeUnknown, "timer", "the deadline came before anybody found out whether the work was done", ""},
	{undoing + "; compensated at=4; start at=300; expire at=1000", domain.EndTimedOut, "timer", "the deadline came before the end of the work", ""},
}

// endLife makes room for lives with times that can be read.
func endLife(t *testing.T, life string) domain.Task {
	t.Helper()
	if strings.Contains(life, "000 waiterId") {
		life = "ttl=9000000 " + life
	}
	return task(t, life)
}

func TestEndOf(t *testing.T) {
	t.Parallel()
	seen := map[domain.EndKind]bool{}
	for _, c := range endCases {
		now := endLife(t, c.life)
		end, ok := domain.EndOf(now)
		if want := (domain.End{Kind: c.kind, Text: c.text, By: c.by}); end != want || ok != (c.kind != "") {
			t.Errorf("%s: %+v, %v\nwant %+v", c.life, end, ok, want)
		}
		if ended := now.State.Terminal(); ended != (ok && c.kind != domain.EndWaitTimeout) {
			t.Errorf("%s: %s, and the end is %q", c.life, now.State, end.Kind)
		}
		if v := domain.Describe(now, 5); (v.End != nil) != ok || ok && *v.End != end {
			t.Errorf("%s: the view has the end %+v", c.life, v.End)
		}
		seen[end.Kind] = true
	}
	var listed []string
	for _, k := range domain.EndKinds() {
		listed = append(listed, string(k))
		if !seen[k] {
			t.Errorf("no case ends as %s", k)
		}
	}
	declared := constantsOf(t, "EndKind")
	slices.Sort(listed)
	slices.Sort(declared)
	if !slices.Equal(declared, listed) {
		t.Errorf("declared %v, listed %v", declared, listed)
	}
	if end, ok := domain.EndOf(domain.Task{State: "nonsense"}); ok {
		t.Errorf("an unknown state ends as %+v", end)
	}
}

// TestFiveEnds: the five that the contract tells apart have five kinds, and what
// programs see of them differs in more than words.
func TestFiveEnds(t *testing.T) {
	t.Parallel()
	seen := map[domain.EndKind]string{}
	for name, life := range map[string]string{
		"the run stopped waiting":                         "run=r; start at=1; detach at=2 waiterId=submitter reason=wait-timeout",
		"the tool timed out":                              "; start at=1; expire at=1000",
		"a person cancelled":                              "; start at=1; cancel-requested at=2 by=ann; cancelled at=3",
		"the worker was lost":                             "max=1; start at=1; suspect at=2; requeue at=3 source=probe",
		"the callback was lost though the work succeeded": "expectsCallback; start at=1; suspect at=2; succeed at=3 ref=r hash=h source=probe",
	} {
		end, ok := domain.EndOf(task(t, life))
		if !ok || seen[end.Kind] != "" {
			t.Errorf("%s and %s both end as %q", name, seen[end.Kind], end.Kind)
		}
		seen[end.Kind] = name
	}
}

// endsTable is the part of docs/states.md that tells ends apart.
func endsTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| end | state | how it comes about | in words |\n| --- | --- | --- | --- |\n")
	for _, kind := range domain.EndKinds() {
		for _, c := range endCases {
			if c.kind == kind && c.comes != "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", kind, endLife(t, c.life).State, c.comes, c.text)
			}
		}
	}
	return b.String()
}
