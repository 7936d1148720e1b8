package run_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// ruleCase is one transition: a life so far (see [lived]), an event, and what it comes to.
type ruleCase struct {
	name   string
	life   string
	event  string
	reason run.Reason // empty for an invalid event
	after  string     // state and version
}

// The beginnings of lives.
const (
	held     = "; claim token=t1 holder=ann"                               // version 1
	failing  = held + "; step-failed token=t1 retryable error=busy"        // version 2, and 100 ms to wait
	called   = held + "; commit step=1 token=t1 call=a:fetch call=b:fetch" // version 2
	opened   = called + "; call-started call=1/a task=ta"                  // version 3
	approval = called + "; approval-asked call=1/a until=500"              // version 3
	question = held + "; commit step=1 token=t1 call=a:wakepoint.ask; approval-asked call=1/a until=500"
	patient  = held + "; commit step=1 token=t1 call=a:fetch,wait=100"
	hurried  = patient + "; noted call=1/a reason=starting; wait-timeout call=1/a" // the start is under way
	ending   = opened + "; cancel by=ann"                                          // version 4
	won      = held + `; commit step=1 token=t1 final='"done"'`
	lost     = held + "; step-failed token=t1 error=broken"
	parked   = held + "; commit step=1 token=t1 await"
)

var ruleCases = []ruleCase{
	// Who says so.
	{"a cancel by somebody with a very long name", opened, "cancel by=" + strings.Repeat("x", domain.MaxWorker+1), "", ""},
	// Steps.
	{"a claim without a token", "", "claim", "", ""},
	{"a claim with a negative lease", "", "claim token=t lease=-1", "", ""},
	{"a claim at a negative time", "", "claim at=-1 token=t", "", ""},
	{"a claim of a run that has ended", won, "claim token=t2", "run-closed", "SUCCEEDED v2"},
	{"a heartbeat of a run that has ended", lost, "heartbeat token=t1", "run-closed", "FAILED v2"},
	{"a claim while nothing is due", called, "claim token=t2", "no-step", "WAITING_TOOL v2"},
	{"a claim during the wait before the next attempt", failing, "claim at=101 token=t2", "no-step", "RUNNING v2"},
	{"a claim after it", failing, "claim at=102 token=t2", "claimed", "RUNNING v3"},
	{"a claim of a paused run", "; pause", "claim at=2 token=t1", "no-step", "PAUSED v1"},
	{"a claim of a run on its way to an end", ending, "claim at=6 token=t2", "no-step", "WAITING_TOOL v4"},
	{"a claim by another version", "version=v1", "claim token=t1 version=v2", "wrong-runtime", "RUNNING v0"},
	{"a claim by the run's version", "version=v1", "claim token=t1 version=v1", "claimed", "RUNNING v1"},
	{"a claim by a runtime that says no version", "version=v1", "claim token=t1", "claimed", "RUNNING v1"},
	{"two runtimes claim at once", held, "claim at=1 token=t2 holder=bob", "step-held", "RUNNING v1"},
	{"one without a name cannot be the holder", held, "claim at=1 token=t2", "step-held", "RUNNING v1"},
	{"the last millisecond of a lease", held, "claim at=50 token=t2 holder=bob", "step-held", "RUNNING v1"},
	{"a claim when the lease has run out", held, "claim at=51 token=t2 holder=bob", "claimed", "RUNNING v2"},
	{"the holder claims again", held, "claim at=2 token=t2 holder=ann", "claimed", "RUNNING v2"},
	{"the holder claims again at once, and again", held + "; claim at=2 token=t2 holder=ann", "claim at=3 token=t3 holder=ann", "no-step", "RUNNING v2"},
	{"the holder dies on its last attempt", "attempts=1" + held, "claim at=2 token=t2 holder=ann", "step-given-up", "FAILED v2"},
	{"a heartbeat", held, "heartbeat at=40 token=t1", "lease-renewed", "RUNNING v1"},
	{"a heartbeat after the lease ran out", held + "; step-lost", "heartbeat at=60 token=t1", "lease-renewed", "RUNNING v2"},
	{"a heartbeat of an attempt that has failed by its own word", failing, "heartbeat at=3 token=t1", "stale-token", "RUNNING v2"},
	{"a heartbeat of an earlier attempt", held + "; claim token=t2 holder=ann", "heartbeat at=3 token=t1", "stale-token", "RUNNING v2"},
	{"a heartbeat before anybody has claimed", "", "heartbeat", "stale-token", "RUNNING v0"},
	{"a heartbeat of a run on its way to an end", held + "; cancel-call call=1/x; pause; unpause; input id=i text=x", "heartbeat token=t1 at=9", "lease-renewed", "RUNNING v4"},
	{"an attempt fails", held, "step-failed at=2 token=t1 retryable error=busy", "step-retry", "RUNNING v2"},
	{"an attempt fails without a word", held, "step-failed at=2 token=t1", "step-retry", "RUNNING v2"},
	{"an attempt fails for good", held, "step-failed at=2 token=t1 error=broken", "step-given-up", "FAILED v2"},
	{"the last attempt fails", "attempts=1" + held, "step-failed at=2 token=t1 retryable error=busy", "step-given-up", "FAILED v2"},
	{"the same attempt fails again", failing, "step-failed at=3 token=t1 error=busy retryable", "step-retry", "RUNNING v2"},
	{"a lost attempt fails", held + "; step-lost", "step-failed at=60 token=t1 error=busy", "step-retry", "RUNNING v2"},
	{"an attempt of a run that expires", "; claim token=t1; commit step=1 token=t1 call=a:fetch wakeOnInput; call-started call=1/a; input id=i text=x; claim token=t2; expire", "step-failed token=t2 error=broken", "run-ending", "WAITING_TOOL v6"},
	{"its heartbeat", "; claim token=t1; commit step=1 token=t1 call=a:fetch wakeOnInput; call-started call=1/a; input id=i text=x; claim token=t2; expire", "heartbeat token=t2", "run-ending", "WAITING_TOOL v6"},
	{"a runtime is silent", held, "step-lost at=51", "step-lost", "RUNNING v2"},
	{"a runtime is silent in the last attempt", "attempts=1" + held, "step-lost at=51", "step-given-up", "FAILED v2"},
	{"silence of nobody", "", "step-lost", "unchanged", "RUNNING v0"},
	// Commits.
	{"a commit without a step", held, "commit token=t1", "", ""},
	{"a commit", held, "commit at=2 step=1 token=t1 call=a:fetch", "committed", "WAITING_TOOL v2"},
	{"the same commit again", called, "commit at=9 step=1 token=t1 call=a:fetch call=b:fetch", "committed", "WAITING_TOOL v2"},
	{"the same last commit again", won, `commit at=9 step=1 token=t1 final='"done"'`, "finished", "SUCCEEDED v2"},
	{"another body for the step", called, "commit at=9 step=1 token=t1 call=a:fetch", "commit-conflict", "WAITING_TOOL v2"},
	{"another attempt commits what was committed", called, "commit at=9 step=1 token=t0 call=a:fetch call=b:fetch", "stale-token", "WAITING_TOOL v2"},
	{"a commit to a run that has ended", lost, "commit at=9 step=1 token=t1 await", "run-closed", "FAILED v2"},
	{"a commit of the next step but one", held, "commit at=9 step=2 token=t1 await", "step-ahead", "RUNNING v1"},
	{"a commit of a run on its way to an end", ending, "commit at=9 step=2 token=t2 await", "run-ending", "WAITING_TOOL v4"},
	{"a commit while no step is due", called, "commit at=9 step=2 token=t2 await", "no-step", "WAITING_TOOL v2"},
	{"a commit of an earlier attempt", held + "; claim token=t2 holder=ann", "commit at=9 step=1 token=t1 await", "stale-token", "RUNNING v2"},
	{"a commit before anybody has claimed", "", "commit step=1 token=t1 await", "stale-token", "RUNNING v0"},
	{"a commit of an attempt that was only slow", held + "; step-lost at=51", "commit at=60 step=1 token=t1 await", "committed", "WAITING_INPUT v3"},
	{"a commit of an attempt that said it had failed", failing, "commit at=9 step=1 token=t1 await", "committed", "WAITING_INPUT v3"},
	{"a commit while paused", held + "; pause", "commit at=9 step=1 token=t1 await", "committed", "PAUSED v3"},
	{"an error that is final", held, "commit at=9 step=1 token=t1 error=broken", "step-given-up", "FAILED v2"},
	{"an error", held, "commit at=9 step=1 token=t1 error=busy retryable", "step-retry", "RUNNING v2"},
	{"the same error again", failing, "commit at=9 step=1 token=t1 error=busy retryable", "step-retry", "RUNNING v2"},
	{"the third error", failing + "; claim at=102 token=t2; step-lost; claim token=t3", "commit at=110 step=1 token=t3 error=busy retryable", "step-given-up", "FAILED v6"},
	{"an end that forgets a call", called + "; input id=i text=x; call-ended call=1/a state=succeeded; call-started call=1/b; call-ended call=1/b state=failed; claim token=t2", `commit at=20 step=2 token=t2 final='"x"' onFinal=never`, "", ""},
	{"it cancels a call that is not there", held, "commit at=9 step=1 token=t1 await cancel=1/a", "", ""},
	{"it asks for nothing", held, "commit at=9 step=1 token=t1", "nothing-to-wait-for", "RUNNING v1"},
	{"it asks for nothing, and something waits", held + "; input id=i text=x", "commit at=9 step=1 token=t1", "committed", "RUNNING v3"},
	{"a limit", "maxCalls=1" + held, "commit at=9 step=1 token=t1 call=a:x call=b:x", "limit", "FAILED v2"},
	{"an end", held, `commit at=9 step=1 token=t1 final='"x"'`, "finished", "SUCCEEDED v2"},
	// Calls.
	{"a call is started", called, "call-started call=1/a task=ta", "call-started", "WAITING_TOOL v3"},
	{"a call is started again", opened, "call-started call=1/a task=ta", "unchanged", "WAITING_TOOL v3"},
	{"a call that nobody asked for is started", called, "call-started call=1/z", "unknown-call", "WAITING_TOOL v2"},
	{"a call is started that has ended", called + "; call-ended call=1/a state=failed", "call-started call=1/a task=ta", "noted", "WAITING_TOOL v3"},
	{"a call is started that waits for another", held + "; commit step=1 token=t1 call=a:x call=b:x,needs=a", "call-started call=1/b", "unchanged", "WAITING_TOOL v2"},
	{"a call is started that a person has not approved", approval, "call-started call=1/a", "unchanged", "WAITING_INPUT v3"},
	{"a call ends", opened, "call-ended call=1/a state=succeeded", "call-ended", "WAITING_TOOL v4"},
	{"the last call ends", opened + "; call-ended call=1/b state=failed", "call-ended call=1/a state=succeeded", "call-ended", "RUNNING v5"},
	{"a call ends again", opened + "; call-ended call=1/a state=failed", "call-ended call=1/a state=succeeded", "duplicate-result", "WAITING_TOOL v4"},
	{"a call ends without an end", opened, "call-ended call=1/a", "", ""},
	{"a call ends and is open", opened, "call-ended call=1/a state=open", "", ""},
	{"an unknown call ends", opened, "call-ended call=1/z state=failed", "unknown-call", "WAITING_TOOL v3"},
	{"a call ends with which the run had lost patience", patient + "; call-started call=1/a task=ta; wait-timeout call=1/a", "call-ended call=1/a state=succeeded", "input", "RUNNING v5"},
	{"a call ends with which the run had lost patience while it was being started", hurried, "call-ended call=1/a state=failed", "input", "RUNNING v4"},
	{"the start of such a call comes to nothing when the run has ended", hurried + "; cancel", "call-ended call=1/a state=failed", "noted", "CANCELLED v4"},
	{"a person is asked first", called, "approval-asked call=1/a until=500", "approval-asked", "WAITING_INPUT v3"},
	{"a person is asked twice", approval, "approval-asked call=1/a until=700", "unchanged", "WAITING_INPUT v3"},
	{"a person is asked about what has begun", opened, "approval-asked call=1/a until=700", "unchanged", "WAITING_TOOL v3"},
	{"a person is asked about what was decided", approval + "; approve call=1/a decision=approve", "approval-asked call=1/a until=700", "unchanged", "WAITING_TOOL v4"},
	{"a person is asked about what has ended", hurried, "approval-asked call=1/a", "noted", "RUNNING v3"},
	{"a person is asked about what was given up", called + "; noted call=1/a reason=starting; cancel-call call=1/a", "approval-asked call=1/a", "call-ended", "WAITING_TOOL v4"},
	{"a person is asked for a run that has ended", called + "; noted call=1/a reason=starting; cancel; cancel-timeout", "approval-asked call=1/a", "call-ended", "CANCELLED v5"},
	{"a task was told", opened + "; cancel-call call=1/a", "noted call=1/a reason=cancel-sent", "noted", "WAITING_TOOL v4"},
	{"a run below asks a person", opened, "noted call=1/a reason=asks", "asks-below", "WAITING_INPUT v4"},
	// People.
	{"an approval", approval, "approve call=1/a decision=approve", "approved", "WAITING_TOOL v4"},
	{"a denial", approval, "approve call=1/a decision=deny message=no", "denied", "WAITING_TOOL v4"},
	{"an edit", approval, `approve call=1/a decision=edit input='{"x":1}'`, "edited", "WAITING_TOOL v4"},
	{"an edit without arguments", approval, "approve call=1/a decision=edit", "", ""},
	{"an approval with arguments", approval, "approve call=1/a decision=approve input=1", "", ""},
	{"a shrug", approval, "approve call=1/a decision=maybe", "", ""},
	{"no decision", approval, "approve call=1/a", "", ""},
	{"the same approval", approval + "; approve call=1/a decision=approve by=ann", "approve call=1/a decision=approve by=bob", "duplicate-answer", "WAITING_TOOL v4"},
	{"the same edit, written otherwise", approval + `; approve call=1/a decision=edit input='{"x":1}'`, `approve call=1/a decision=edit input='{ "x" : 1 }'`, "duplicate-answer", "WAITING_TOOL v4"},
	{"another decision", approval + "; approve call=1/a decision=approve", "approve call=1/a decision=deny", "answer-conflict", "WAITING_TOOL v4"},
	{"another edit", approval + "; approve call=1/a decision=edit input=1", "approve call=1/a decision=edit input=2", "answer-conflict", "WAITING_TOOL v4"},
	{"an approval that nobody asks for", opened, "approve call=1/a decision=approve", "not-asked", "WAITING_TOOL v3"},
	{"an approval of a question", question, "approve call=1/a decision=approve", "not-asked", "WAITING_INPUT v3"},
	{"an approval for a run that has ended", called + "; noted call=1/a reason=starting; cancel; cancel-timeout", "approve call=1/a decision=approve", "run-closed", "CANCELLED v4"},
	{"an approval of nothing", opened, "approve call=1/z decision=approve", "unknown-call", "WAITING_TOOL v3"},
	{"an approval comes too late", approval + "; call-timeout at=500 call=1/a", "approve at=501 call=1/a decision=approve", "not-asked", "WAITING_TOOL v4"},
	{"an answer", question, "answer call=1/a answer=42", "answered", "RUNNING v4"},
	{"an answer that is no JSON", question, "answer call=1/a answer={", "", ""},
	{"no answer", question, "answer call=1/a", "", ""},
	{"the same answer", question + "; answer call=1/a answer=42", "answer call=1/a answer=42", "duplicate-answer", "RUNNING v4"},
	{"another answer", question + "; answer call=1/a answer=42", "answer call=1/a answer=43", "answer-conflict", "RUNNING v4"},
	{"an answer that nobody asks for", opened, "answer call=1/a answer=42", "not-asked", "WAITING_TOOL v3"},
	{"a call is given up", opened, "cancel-call call=1/a by=ann", "cancel-requested", "WAITING_TOOL v4"},
	{"a call is given up twice", opened + "; cancel-call call=1/a", "cancel-call call=1/a", "duplicate-cancel", "WAITING_TOOL v4"},
	{"a call is given up that has ended", opened + "; call-ended call=1/a state=failed", "cancel-call call=1/a", "duplicate-cancel", "WAITING_TOOL v4"},
	{"a call of a run that has ended is given up", "; claim token=t1; commit step=1 token=t1 call=a:fetch wakeOnInput; call-started call=1/a; input id=i text=x; claim token=t2; step-failed token=t2 error=broken", "cancel-call call=1/a", "run-closed", "FAILED v6"},
	// Inputs.
	{"an input", called, "input id=i text=x", "input", "WAITING_TOOL v3"},
	{"an input that was waited for", parked, "input id=i text=x", "input", "RUNNING v3"},
	{"an input without an id", parked, "input text=x", "", ""},
	{"an input without anything", parked, "input", "", ""},
	{"the same input", parked + "; input id=i text=x", "input id=i text=x", "duplicate-input", "RUNNING v3"},
	{"the same input after a step has taken it", parked + "; input id=i text=x; claim token=t2; commit step=2 token=t2 await", "input id=i text=x", "duplicate-input", "WAITING_INPUT v5"},
	{"the id of an input for something else", parked + "; input id=i text=x", "input id=i text=y", "input-conflict", "RUNNING v3"},
	{"the id of an input that a step has taken for something else", parked + "; input id=i text=x; claim token=t2; commit step=2 token=t2 await", "input id=i text=y", "input-conflict", "WAITING_INPUT v5"},
	{"an input for a run that has ended", won, "input id=i text=x", "run-closed", "SUCCEEDED v2"},
	{"an input for a run on its way to an end", ending, "input id=i text=x", "run-ending", "WAITING_TOOL v4"},
	{"one input more than can wait", strings.Repeat("; input id=#i text=x", run.MaxInputs), "input id=i text=x", "", ""},
	// Holding and ending.
	{"a pause", called, "pause", "paused", "PAUSED v3"},
	{"a pause of what is paused", called + "; pause", "pause", "unchanged", "PAUSED v3"},
	{"a pause of a run on its way to an end", ending, "pause", "unchanged", "WAITING_TOOL v4"},
	{"an end of the pause", called + "; pause", "unpause", "unpaused", "WAITING_TOOL v4"},
	{"an end of no pause", called, "unpause", "unchanged", "WAITING_TOOL v2"},
	{"a pause of a run that has ended", won, "pause", "run-closed", "SUCCEEDED v2"},
	{"a cancel", opened, "cancel by=ann", "cancel-requested", "WAITING_TOOL v4"},
	{"a cancel with nothing to stop", called, "cancel by=ann", "cancel-requested", "CANCELLED v3"},
	{"a second cancel", ending, "cancel", "duplicate-cancel", "WAITING_TOOL v4"},
	{"a cancel of a run that expires", opened + "; expire", "cancel", "run-ending", "WAITING_TOOL v4"},
	{"a cancel of a run that has ended", won, "cancel", "run-closed", "SUCCEEDED v2"},
	{"the deadline", opened, "expire at=1000", "expired", "WAITING_TOOL v4"},
	{"the deadline of a run on its way to an end", ending, "expire at=1000", "run-ending", "WAITING_TOOL v4"},
	{"the grace is over", ending, "cancel-timeout at=40", "cancel-timeout", "CANCELLED v5"},
	{"the grace of nothing is over", opened, "cancel-timeout at=40", "unchanged", "WAITING_TOOL v3"},
	{"nobody decides", approval, "call-timeout at=500 call=1/a", "timed-out", "WAITING_TOOL v4"},
	{"nobody was asked", opened, "call-timeout at=500 call=1/a", "not-asked", "WAITING_TOOL v3"},
	{"nobody was asked about nothing", opened, "call-timeout at=500 call=1/z", "not-asked", "WAITING_TOOL v3"},
	{"the patience is over", patient + "; call-started call=1/a", "wait-timeout at=102 call=1/a", "wait-timeout", "RUNNING v4"},
	{"the patience is over after the end", patient + "; call-ended call=1/a state=failed", "wait-timeout at=102 call=1/a", "unchanged", "RUNNING v3"},
	{"a failed run is retried", lost, "retry", "retried", "RUNNING v3"},
	{"an expired run is retried", called + "; expire", "retry at=1000 ttl=500", "retried", "RUNNING v4"},
	{"an expired run is retried without more time", called + "; expire", "retry at=1000", "", ""},
	{"a retry with a negative time to live", lost, "retry ttl=-1", "", ""},
	{"a cancelled run is retried", called + "; cancel", "retry", "not-retriable", "CANCELLED v3"},
	{"a successful run is retried", won, "retry", "not-retriable", "SUCCEEDED v2"},
	{"an open run is retried", called, "retry", "not-retriable", "WAITING_TOOL v2"},
	{"two operators retry at once", lost + "; retry", "retry", "not-retriable", "RUNNING v3"},
	{"an unknown type", called, "nonsense", "", ""},
}

// numbered makes ids of repeated inputs different.
func numbered(life string) string {
	for i := 0; strings.Contains(life, "#i"); i++ {
		life = strings.Replace(life, "#i", fmt.Sprint("n", i), 1)
	}
	return life
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := run.Rules()
	covered := make([]string, len(rules))
	for _, c := range ruleCases {
		p := lived(t, numbered(c.life))
		before, e := p.Run, event(t, c.event)
		i := run.Deciding(before, e)
		if i >= 0 {
			covered[i] = c.name
		}
		tr, err := p.Apply(e)
		if c.reason == "" {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("%s: %v, %s; it is no invalid request", c.name, err, tr.Outcome.Reason)
			}
			continue
		}
		if err != nil || tr.Outcome.Reason != c.reason || summary(tr.Run) != c.after {
			t.Errorf("%s: %s, %s (%v)\nwant %s, %s", c.name, tr.Outcome.Reason, summary(tr.Run), err, c.reason, c.after)
			continue
		}
		if rule := rules[i]; rule.Reason != c.reason && rule.Reason != run.ReasonDuplicateCommit || (rule.Kind == domain.Repeats) != tr.Outcome.Duplicate || (rule.Kind == domain.Notes) != tr.Kept {
			t.Errorf("%s: decided by %+v, but answered %+v", c.name, rule, tr.Outcome)
		}
	}
	for i, r := range rules {
		if covered[i] == "" {
			t.Errorf("no case is decided by rule %d: %v %s %s", i+1, r.On, r.When, r.Reason)
		}
	}
}

// TestRulesAreACopy makes sure that nobody can change the machine.
func TestRulesAreACopy(t *testing.T) {
	t.Parallel()
	a := run.Rules()
	a[0].Kind = "changed"
	if run.Rules()[0].Kind == "changed" {
		t.Error("a caller has changed the rules")
	}
}

// TestRulesAreWellFormed checks what the printed table relies on.
func TestRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	for i, r := range run.Rules() {
		switch {
		case r.Kind == domain.Rejects && (r.Reason != "" || r.To != "" || r.When == ""):
			t.Errorf("rule %d rejects and yet does more, or doesn't say when: %v", i+1, r.When)
		case r.Kind != domain.Rejects && r.Reason == "":
			t.Errorf("rule %d has no reason: %v", i+1, r.When)
		case r.Kind == domain.Changes && r.To == "":
			t.Errorf("rule %d changes the run and doesn't say how: %v", i+1, r.Reason)
		case (r.Kind == domain.Repeats || r.Kind == domain.Refuses) && r.To != "":
			t.Errorf("rule %d changes nothing and yet leads on: %v", i+1, r.When)
		case len(r.On) == 0:
			t.Errorf("rule %d is on nothing", i+1)
		}
		for _, s := range r.From {
			if !slices.Contains(run.States(), s) {
				t.Errorf("rule %d is from an unknown state: %v", i+1, s)
			}
		}
	}
}
