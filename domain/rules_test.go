package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// ruleCase is one transition: a life so far (see [task]), an event, and what it
// comes to.
type ruleCase struct {
	name   string
	life   string
	event  string
	reason domain.Reason // empty for an invalid event
	after  string        // state and version, progress, attempts
}

var ruleCases = []ruleCase{
	// Time and ends.
	{"a negative time is invalid", "", "start at=-1", "", ""},
	{"a negative time is invalid at the end too", "; expire at=1", "succeed at=-1 ref=r hash=h", "", ""},
	{"the same result again", "; start at=1; succeed at=2 ref=r hash=h", "succeed at=3 ref=other hash=h", "duplicate-result", "succeeded v2 100% 1/2"},
	{"another result", "; start at=1; succeed at=2 ref=r hash=h", "succeed at=3 ref=r hash=other", "terminal-conflict", "succeeded v2 100% 1/2"},
	{"the deadline again", "; expire at=1000", "expire at=2000", "duplicate-expire", "expired v1 0% 0/2"},
	{"the deadline of a failed task", "; start at=1; fail at=2", "expire at=2000", "terminal-conflict", "failed v2 0% 1/2"},
	{"a late result is kept", "late=record grace=50; expire at=1000", "succeed at=1049 ref=r hash=h", "late-result", "expired v2 0% 0/2"},
	{"a late result comes again", "late=record; expire at=1000; succeed at=1001 ref=r hash=h", "succeed at=1002 ref=r hash=h", "duplicate-result", "expired v2 0% 0/2"},
	{"a second late result", "late=record; expire at=1000; succeed at=1001 ref=r hash=h", "succeed at=1002 ref=r hash=h2", "terminal-conflict", "expired v2 0% 0/2"},
	{"a late result after the grace", "late=record grace=50; expire at=1000", "succeed at=1050 ref=r hash=h", "terminal-conflict", "expired v1 0% 0/2"},
	{"half a late result", "late=record; expire at=1000", "succeed at=1001 hash=h", "terminal-conflict", "expired v1 0% 0/2"},
	{"a late result of another attempt", "late=record; start at=1; expire at=1000", "succeed at=1001 attempt=2 ref=r hash=h", "terminal-conflict", "expired v2 0% 1/2"},
	{"a late result where they are rejected", "late=reject; expire at=1000", "succeed at=1001 ref=r hash=h", "terminal-conflict", "expired v1 0% 0/2"},
	{"a late failure", "late=record; start at=1; expire at=1000", "fail at=1001", "terminal-conflict", "expired v2 0% 1/2"},
	// Manual retry.
	{"a failed task is retried", "max=1; start at=1; fail at=2", "retry at=3 ttl=100", "retried", "queued v3 0% 1/2"},
	{"an expired task is retried", "; start at=1; progress at=2 progress=30; expire at=1000", "retry at=1001 ttl=100", "retried", "queued v4 0% 1/3"},
	{"a cancelled task is retried", "; start at=1; cancelled at=2", "retry at=3 ttl=100", "retried", "queued v3 0% 1/3"},
	{"a task that never began is retried", "; cancel-requested at=1", "retry at=2 ttl=100", "retried", "queued v2 0% 1/3"},
	{"a retry without time to live", "; expire at=1000", "retry at=1001", "", ""},
	{"a retry with a negative time to live", "; expire at=1000", "retry at=1001 ttl=-5", "", ""},
	{"a succeeded task cannot be retried", "; start at=1; succeed at=2 ref=r hash=h", "retry at=3 ttl=100", "not-retryable", "succeeded v2 100% 1/2"},
	{"a running task cannot be retried", "; start at=1", "retry at=2 ttl=100", "not-ended", "running v1 0% 1/2"},
	{"two operators retry at once", "; start at=1; fail at=2; retry at=3 ttl=100", "retry at=3 ttl=100", "not-ended", "queued v3 0% 1/3"},
	// The deadline.
	{"the timer", "; start at=1; progress at=2 progress=30", "expire at=1000", "expired", "expired v3 30% 1/2"},
	{"an expiry is believed at any time", "; start at=1", "expire at=2", "expired", "expired v2 0% 1/2"},
	{"a callback exactly at the deadline", "; start at=1", "succeed at=1000 ref=r hash=h", "expired", "expired v2 0% 1/2"},
	{"a callback a millisecond before it", "; start at=1", "succeed at=999 ref=r hash=h", "succeeded", "succeeded v2 100% 1/2"},
	{"a stale callback after it", "; start at=1", "fail at=1000 attempt=7", "expired", "expired v2 0% 1/2"},
	{"an unknown type after it", "; start at=1", "nonsense at=1000", "expired", "expired v2 0% 1/2"},
	{"a never started task after it", "", "succeed at=1000 ref=r hash=h", "expired", "expired v1 0% 0/2"},
	{"an invalid progress after it", "; start at=1", "progress at=1000 progress=101", "expired", "expired v2 0% 1/2"},
	{"a retry after it", "; start at=1", "retry at=1000 ttl=100", "expired", "expired v2 0% 1/2"},
	// The attempt fence.
	{"a start of the next attempt but one", "", "start at=1 attempt=2", "stale-attempt", "queued v0 0% 0/2"},
	{"a start of another attempt while running", "; start at=1", "start at=2 attempt=2", "stale-attempt", "running v1 0% 1/2"},
	{"a late fail of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "fail at=201 attempt=1", "stale-attempt", "running v3 0% 2/2"},
	{"a late success of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "succeed at=201 attempt=1 ref=r hash=h", "stale-attempt", "running v3 0% 2/2"},
	{"a heartbeat of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "heartbeat at=201 attempt=1", "stale-attempt", "running v3 0% 2/2"},
	{"a question of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "input-required at=201 attempt=1 question=q prompt=p", "stale-attempt", "running v3 0% 2/2"},
	{"attempt 1 stopped during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "cancelled at=201 attempt=1", "stale-attempt", "running v3 0% 2/2"},
	{"a fail of attempt 2", "; start at=1; fail at=2 retryable; start at=200", "fail at=201 attempt=2", "failed", "failed v4 0% 2/2"},
	{"a fail without an attempt", "; start at=1; fail at=2 retryable; start at=200", "fail at=201", "failed", "failed v4 0% 2/2"},
	{"no attempt after a manual retry", "; start at=1; fail at=2; retry at=3 ttl=500; start at=4 attempt=2", "succeed at=5 ref=r hash=h", "stale-attempt", "running v4 0% 2/3"},
	{"a start without an attempt after a manual retry", "; start at=1; fail at=2; retry at=3 ttl=500", "start at=4", "stale-attempt", "queued v3 0% 1/3"},
	{"a suspicion of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "suspect at=201 attempt=1", "stale-attempt", "running v3 0% 2/2"},
	{"a loss of attempt 1 during attempt 2", "; start at=1; fail at=2 retryable; start at=200", "requeue at=201 attempt=1", "stale-attempt", "running v3 0% 2/2"},
	// Start, progress, heartbeat.
	{"the first start", "", "start at=1 worker=w", "started", "running v1 0% 1/2"},
	{"a start of the attempt by name", "", "start at=1 attempt=1", "started", "running v1 0% 1/2"},
	{"a start of the second attempt", "; start at=1; progress at=2 progress=50; fail at=3 retryable", "start at=200 attempt=2", "started", "running v4 0% 2/2"},
	{"a start while running", "; start at=1", "start at=2", "already-running", "running v1 0% 1/2"},
	{"progress", "; start at=1", "progress at=2 progress=30", "progress", "running v2 30% 1/2"},
	{"all of the progress is no end", "; start at=1", "progress at=2 progress=100", "progress", "running v2 100% 1/2"},
	{"less progress", "; start at=1; progress at=2 progress=30", "progress at=3 progress=29", "stale-progress", "running v2 30% 1/2"},
	{"the same progress", "; start at=1; progress at=2 progress=30", "progress at=3 progress=30", "duplicate-progress", "running v2 30% 1/2"},
	{"the same progress in a new stage", "; start at=1; progress at=2 progress=30", "progress at=3 progress=30 stage=link", "stage", "running v3 30% 1/2"},
	{"no number", "; start at=1", "progress at=2", "", ""},
	{"half a percent", "; start at=1", "progress at=2 progress=0.5", "", ""},
	{"101 percent", "; start at=1", "progress at=2 progress=101", "", ""},
	{"less than nothing", "; start at=1", "progress at=2 progress=-1", "", ""},
	{"NaN percent", "; start at=1", "progress at=2 progress=NaN", "", ""},
	{"a heartbeat", "; start at=1", "heartbeat at=2", "heartbeat", "running v1 0% 1/2"},
	{"a heartbeat with a new stage", "; start at=1", "heartbeat at=2 stage=fetch", "stage", "running v2 0% 1/2"},
	{"a heartbeat with the same stage", "; start at=1; heartbeat at=2 stage=fetch", "heartbeat at=3 stage=fetch", "heartbeat", "running v2 0% 1/2"},
	{"a heartbeat of a suspected worker", "; start at=1; suspect at=2", "heartbeat at=3", "lease-renewed", "running v3 0% 1/2"},
	// Disorder.
	{"progress of a task that never started", "", "progress at=1 progress=30", "progress", "running v2 30% 1/2"},
	{"no progress of a task that never started", "", "progress at=1 progress=0", "started", "running v1 0% 1/2"},
	{"an invalid progress of a task that never started", "", "progress at=1 progress=101", "", ""},
	{"success of a task that never started", "", "succeed at=1 attempt=1 ref=r hash=h", "succeeded", "succeeded v2 100% 1/2"},
	{"failure of a task that never started", "", "fail at=1 retryable", "requeued", "queued v2 0% 1/2"},
	{"a question of a task that never started", "", "input-required at=1 question=q prompt=p", "input-required", "running v2 0% 1/2"},
	{"success of attempt 2 of a task that never started", "", "succeed at=1 attempt=2 ref=r hash=h", "stale-attempt", "queued v0 0% 0/2"},
	{"a heartbeat of a task that never started", "", "heartbeat at=1", "not-running", "queued v0 0% 0/2"},
	{"success between two attempts", "; start at=1; fail at=2 retryable", "succeed at=3 ref=r hash=h", "not-running", "queued v2 0% 1/2"},
	{"strict: progress of a task that never started", "strict", "progress at=1 progress=30", "not-running", "queued v0 0% 0/2"},
	{"strict: an invalid progress of a task that never started", "strict", "progress at=1 progress=101", "not-running", "queued v0 0% 0/2"},
	{"strict: success of a task that never started", "strict", "succeed at=1 ref=r hash=h", "not-running", "queued v0 0% 0/2"},
	{"strict: failure of a task that never started", "strict", "fail at=1", "not-running", "queued v0 0% 0/2"},
	// Results.
	{"success", "; start at=1; progress at=2 progress=30", "succeed at=3 ref=r hash=h", "succeeded", "succeeded v3 100% 1/2"},
	{"success without a reference", "; start at=1", "succeed at=2 hash=h", "", ""},
	{"success with a blank hash", "; start at=1", `succeed at=2 ref=r hash=" "`, "", ""},
	{"success during a cancel wins", "; start at=1; cancel-requested at=2", "succeed at=3 ref=r hash=h", "succeeded", "succeeded v3 100% 1/2"},
	{"a retryable failure", "; start at=1; progress at=2 progress=30", "fail at=3 retryable error=boom", "requeued", "queued v3 0% 1/2"},
	{"a retryable failure of the last attempt", "max=1; start at=1", "fail at=2 retryable", "failed", "failed v2 0% 1/1"},
	{"a failure for good", "; start at=1; progress at=2 progress=30", "fail at=3 error=boom", "failed", "failed v3 30% 1/2"},
	{"a retryable failure during a cancel", "; start at=1; cancel-requested at=2", "fail at=3 retryable", "cancelled", "cancelled v3 0% 1/2"},
	{"a failure for good during a cancel", "; start at=1; cancel-requested at=2", "fail at=3", "failed", "failed v3 0% 1/2"},
	// Questions.
	{"a question", "; start at=1", "input-required at=2 question=q prompt=why?", "input-required", "running v2 0% 1/2"},
	{"a question without an id", "; start at=1", "input-required at=2 prompt=why?", "", ""},
	{"a question without a prompt", "; start at=1", "input-required at=2 question=q", "", ""},
	{"the same question", "; start at=1; input-required at=2 question=q prompt=why?", "input-required at=3 question=q prompt=why?", "duplicate-question", "running v2 0% 1/2"},
	{"an answer", "; start at=1; input-required at=2 question=q prompt=why?", "answer at=3 question=q answer=1", "answered", "running v3 0% 1/2"},
	{"no answer", "; start at=1; input-required at=2 question=q prompt=why?", "answer at=3 question=q", "", ""},
	{"an answer to nothing", "; start at=1", "answer at=3 question=q answer=1", "unknown-question", "running v1 0% 1/2"},
	{"the same answer", "; start at=1; input-required at=2 question=q prompt=why?; answer at=3 question=q answer=[1]", `answer at=4 question=q answer='[ 1 ]'`, "duplicate-answer", "running v3 0% 1/2"},
	{"another answer", "; start at=1; input-required at=2 question=q prompt=why?; answer at=3 question=q answer=1", "answer at=4 question=q answer=2", "answer-conflict", "running v3 0% 1/2"},
	{"an answer to a former attempt", "; start at=1; input-required at=2 question=q prompt=why?; fail at=3 retryable; start at=200", "answer at=201 question=q answer=1", "unknown-question", "running v4 0% 2/2"},
	{"an answer between two attempts", "; start at=1; input-required at=2 question=q prompt=why?; fail at=3 retryable", "answer at=4 question=q answer=1", "not-running", "queued v3 0% 1/2"},
	// Cancel.
	{"a queued task is cancelled at once", "", "cancel-requested at=1 by=me", "cancelled", "cancelled v1 0% 0/2"},
	{"so is one in its retry wait", "; start at=1; fail at=2 retryable", "cancel-requested at=3", "cancelled", "cancelled v3 0% 1/2"},
	{"a running one is asked", "; start at=1", "cancel-requested at=2", "cancel-requested", "running v2 0% 1/2"},
	{"it is asked once", "; start at=1; cancel-requested at=2", "cancel-requested at=3", "duplicate-cancel", "running v2 0% 1/2"},
	{"the other side confirms", "; start at=1; cancel-requested at=2", "cancelled at=3", "cancelled", "cancelled v3 0% 1/2"},
	{"the other side stops by itself", "; start at=1", "cancelled at=2", "cancelled", "cancelled v2 0% 1/2"},
	{"a stop of what never ran", "", "cancelled at=2", "not-running", "queued v0 0% 0/2"},
	{"nobody confirms", "; start at=1; cancel-requested at=2", "cancel-timeout at=3", "cancel-unconfirmed", "cancelled v3 0% 1/2"},
	{"nobody was asked", "; start at=1", "cancel-timeout at=3", "not-cancelling", "running v1 0% 1/2"},
	{"a cancel after the end", "; start at=1; succeed at=2 ref=r hash=h", "cancel-requested at=3", "terminal-conflict", "succeeded v2 100% 1/2"},
	// Lease.
	{"silence", "; start at=1", "suspect at=2", "suspected-lost", "running v2 0% 1/2"},
	{"more silence", "; start at=1; suspect at=2", "suspect at=3", "already-suspected", "running v2 0% 1/2"},
	{"the outside still works", "; start at=1; suspect at=2", "lease-renewed at=3", "lease-renewed", "running v3 0% 1/2"},
	{"nobody had doubts", "; start at=1", "lease-renewed at=3", "not-suspected", "running v1 0% 1/2"},
	{"the outside is done after all", "; start at=1; suspect at=2", "succeed at=3 ref=r hash=h", "succeeded", "succeeded v3 100% 1/2"},
	{"the worker is lost", "; start at=1; suspect at=2", "requeue at=3", "requeued", "queued v3 0% 1/2"},
	{"the worker of the last attempt is lost", "max=1; start at=1", "requeue at=3", "worker-lost", "failed v2 0% 1/1"},
	{"the worker of unsafe work is lost", "effects=unsafe; start at=1", "requeue at=3 stopped", "worker-lost", "failed v2 0% 1/2"},
	{"the worker is lost during a cancel", "; start at=1; cancel-requested at=2", "requeue at=3", "cancelled", "cancelled v3 0% 1/2"},
	{"no worker is lost while queued", "", "requeue at=3", "not-running", "queued v0 0% 0/2"},
	{"an unknown type", "; start at=1", "nonsense at=2", "", ""},
}

func summary(t domain.Task) string {
	return fmt.Sprintf("%s v%d %d%% %d/%d", t.State, t.Version, t.Progress, t.Attempts, t.MaxAttempts)
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := domain.Rules()
	covered := make([]string, len(rules))
	cover := func(before domain.Task, e domain.Event, name string) []int {
		decided := domain.Deciding(before, e)
		for _, i := range decided {
			covered[i] = name
		}
		return decided
	}
	for _, c := range slices.Concat(ruleCases, peopleCases) {
		before, e := task(t, c.life), event(t, c.event)
		decided := cover(before, e, c.name)
		tr, err := domain.Apply(before, e)
		if c.reason == "" {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("%s: %v, %s; it is no invalid request", c.name, err, tr.Reason)
			}
			continue
		}
		if err != nil || tr.Reason != c.reason || summary(tr.Task) != c.after {
			t.Errorf("%s: %s, %s (%v)\nwant %s, %s", c.name, tr.Reason, summary(tr.Task), err, c.reason, c.after)
		}
		last := rules[decided[len(decided)-1]]
		if len(decided) == 2 && last.Kind != domain.Changes {
			last = rules[decided[0]]
		}
		if last.Reason != c.reason || last.Notify != tr.Notify || (last.Kind == domain.Repeats) != tr.Duplicate {
			t.Errorf("%s: decided by %v, but answered %+v", c.name, last, tr)
		}
	}
	// No life leads to a queued task without an attempt left; the rule stands
	// for records that come from elsewhere.
	used := task(t, "max=1")
	used.Attempts = 1
	e := event(t, "start at=1")
	cover(used, e, "no attempt is left")
	if tr, err := domain.Apply(used, e); err != nil || tr.Reason != domain.ReasonNotStartable || tr.Changed {
		t.Errorf("a start without an attempt left is %s (%v)", tr.Reason, err)
	}
	for i, r := range rules {
		if covered[i] == "" {
			t.Errorf("no case is decided by rule %d: %v", i+1, r)
		}
	}
}

// TestRulesAreACopy makes sure that nobody can change the machine.
func TestRulesAreACopy(t *testing.T) {
	t.Parallel()
	a := domain.Rules()
	a[0].Kind = "changed"
	if domain.Rules()[0].Kind == "changed" {
		t.Error("a caller has changed the rules")
	}
}

// TestRulesAreWellFormed checks what the printed table relies on.
func TestRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	for i, r := range domain.Rules() {
		switch {
		case r.Kind == domain.Rejects && (r.Reason != "" || r.To != "" || r.Notify || r.When == ""):
			t.Errorf("rule %d rejects and yet does more, or doesn't say when: %v", i+1, r)
		case r.Kind != domain.Rejects && r.Reason == "":
			t.Errorf("rule %d has no reason: %v", i+1, r)
		case r.Kind != domain.Changes && (r.To != "" || r.Notify):
			t.Errorf("rule %d changes nothing and yet leads on: %v", i+1, r)
		case r.To.Terminal() && !r.Notify:
			t.Errorf("rule %d ends the task and tells nobody: %v", i+1, r)
		case r.To != "" && !r.To.Terminal() && r.Notify:
			t.Errorf("rule %d tells of no end: %v", i+1, r)
		}
		for _, s := range r.From {
			if !slices.Contains(domain.States(), s) {
				t.Errorf("rule %d is from an unknown state: %v", i+1, r)
			}
		}
	}
}
