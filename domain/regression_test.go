package domain_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// Each test here tells a bug that was there.

// The jitter was cleared before the wait was computed, so tasks that failed
// together were tried again together.
func TestJitterReachesTheRetryWait(t *testing.T) {
	t.Parallel()
	wait := func(jitter string) int64 {
		p := newPair(t, "ttl=100000 wait=1000")
		p.Task.Policy.Backoff.Jitter = 0.5
		p.Oracle.WaitMs = p.Task.Policy.Backoff.Wait
		apply(t, p, "start at=10")
		return apply(t, p, "fail at=20 retryable jitter="+jitter).Task.RetryAtMs
	}
	if a, b := wait("0"), wait("0.9"); a != 520 || b != 970 {
		t.Errorf("the retries are at %d and %d, not at 520 and 970", a, b)
	}
}

// With the option strict, which is about callbacks, a task was tried again at
// once.
func TestStrictTasksWaitToo(t *testing.T) {
	t.Parallel()
	got := task(t, "strict wait=100; start at=1; fail at=10 retryable")
	if got.RetryAtMs != 110 {
		t.Errorf("the retry is at %d, not at 110", got.RetryAtMs)
	}
}

// A sender could write a retry time into the history.
func TestRetryTimeIsNotTheSenders(t *testing.T) {
	t.Parallel()
	p := newPair(t, "")
	e := event(t, "start at=1")
	e.RetryAtMs = 999
	tr, err := p.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Task.History[0].Event.RetryAtMs; got != 0 {
		t.Errorf("the history has the sender's retry time %d", got)
	}
}

// A manual retry set the attempts to one more than were used, which took
// attempts away from a task that had failed early.
func TestRetryAddsOneAttempt(t *testing.T) {
	t.Parallel()
	got := task(t, "max=3; start at=1; fail at=10; retry at=20 ttl=100")
	if got.MaxAttempts != 4 || got.Attempts != 1 {
		t.Errorf("%d of %d attempts, not 1 of 4", got.Attempts, got.MaxAttempts)
	}
}

// A task that ended before it was started had used no attempt, so after a
// manual retry its callbacks of attempt 1, refused before, fitted again.
func TestRefusedBeforeTheStartStaysRefused(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"cancel-requested at=5", "expire at=1000"} {
		p := newPair(t, "")
		apply(t, p, end)
		const late = "succeed at=1001 attempt=1 ref=r hash=h"
		if tr := apply(t, p, late); tr.Reason != domain.ReasonTerminalConflict {
			t.Fatalf("%s: %s", end, tr.Reason)
		}
		apply(t, p, "retry at=1002 ttl=500")
		if tr := apply(t, p, "succeed at=1003 attempt=1 ref=r hash=h"); tr.Changed {
			t.Errorf("%s: after the retry the callback is %s", end, tr.Reason)
		}
		if tr := apply(t, p, "start at=1004 attempt=2"); tr.Reason != domain.ReasonStarted {
			t.Errorf("%s: attempt 2 is %s", end, tr.Reason)
		}
		if tr := apply(t, p, "succeed at=1005 attempt=1 ref=r hash=h"); tr.Reason != domain.ReasonStaleAttempt {
			t.Errorf("%s: during attempt 2 the callback is %s", end, tr.Reason)
		}
	}
}

// The deadline of a manual retry could lie beyond the range of numbers, which
// made it lie before everything.
func TestRetryDeadlineWithinRange(t *testing.T) {
	t.Parallel()
	p := newPair(t, "")
	apply(t, p, "expire at=1000")
	if _, err := p.Apply(event(t, "retry at=1001 ttl=9223372036854775807")); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("a time to live without end gives %v", err)
	}
}

// A late result that itself caused the expiry was kept however late it was,
// one that found the task expired only within the grace.
func TestGraceHoldsForBothWaysOfBeingLate(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "expire at=100"} {
		for at, kept := range map[string]bool{"149": true, "150": false} {
			life := "ttl=100 late=record grace=50; start at=1; " + before + "; succeed ref=r hash=h at=" + at
			if got := task(t, life); (got.Late != nil) != kept {
				t.Errorf("%s: kept %v", life, got.Late)
			}
		}
	}
}

// A result kept as late, and the refusal of one, were not marked late when the
// sender claimed a time before the deadline.
func TestWhatFindsTheTaskExpiredIsLate(t *testing.T) {
	t.Parallel()
	for policy, reason := range map[string]domain.Reason{"record": domain.ReasonLateResult, "reject": domain.ReasonTerminalConflict} {
		p := newPair(t, "ttl=100 late="+policy)
		apply(t, p, "start at=1")
		apply(t, p, "expire at=100")
		if tr := apply(t, p, "succeed at=99 ref=r hash=h"); tr.Reason != reason || !tr.Late {
			t.Errorf("%s: %s, late %v", policy, tr.Reason, tr.Late)
		}
	}
}

// The answer to a question that a former attempt had asked was taken for the
// question of the same name in the present one.
func TestAnswersAreFenced(t *testing.T) {
	t.Parallel()
	p := newPair(t, "")
	for _, line := range []string{"start at=1", "input-required at=2 question=q prompt=why?", "fail at=3 retryable", "start at=200", "input-required at=201 question=q prompt=why?"} {
		apply(t, p, line)
	}
	if tr := apply(t, p, "answer at=202 attempt=1 question=q answer=1"); tr.Reason != domain.ReasonStaleAttempt {
		t.Errorf("the answer to attempt 1 is %s", tr.Reason)
	}
	if tr := apply(t, p, "answer at=203 attempt=2 question=q answer=1"); tr.Reason != domain.ReasonAnswered {
		t.Errorf("the answer to attempt 2 is %s", tr.Reason)
	}
}

// Answers were compared byte by byte. A continue-as-new writes the task anew,
// so after one the very same answer was a conflict.
func TestAnswerIsTheSameAfterRewriting(t *testing.T) {
	t.Parallel()
	const answer = `answer at=9 question=q answer='{ "why": "<a>", "n": 1.50 }'`
	p := newPair(t, "")
	apply(t, p, "start at=1")
	apply(t, p, "input-required at=2 question=q prompt=why?")
	apply(t, p, answer)
	raw, err := json.Marshal(p.Task)
	if err != nil {
		t.Fatal(err)
	}
	p.Task = domain.Task{}
	if err := json.Unmarshal(raw, &p.Task); err != nil {
		t.Fatal(err)
	}
	tr, err := domain.Apply(p.Task, event(t, answer))
	if err != nil || tr.Reason != domain.ReasonDuplicateAnswer {
		t.Errorf("the same answer is %s (%v)", tr.Reason, err)
	}
}

// Sixty-four events of the greatest size made a record that Temporal refuses,
// so a sender could keep a task from ever continuing as new or closing.
func TestRecordStaysBelowTheLimitOfTemporal(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	worst := func(unit string) {
		text := func(n int) string { return strings.Repeat(unit, n/len(unit)) }
		raw := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
		l, now := &domain.Ledger{}, task(t, "max=10000; start at=1")
		for i := range domain.MaxQuestions {
			q := domain.Event{
				Type: domain.EventInputRequired, AtMs: 2, QuestionID: strconv.Itoa(i), Prompt: text(domain.MaxPrompt), Schema: raw(domain.MaxDetails),
			}
			tr, err := domain.Apply(now, q)
			if errors.Is(err, domain.ErrInvalid) {
				break // As many as there is room for.
			}
			now = tr.Task
		}
		for _, q := range now.Questions {
			tr, err := domain.Apply(now, domain.Event{Type: domain.EventAnswer, AtMs: 3, QuestionID: q.QuestionID, Answer: raw(domain.MaxDetails)})
			if err != nil {
				t.Fatal(err)
			}
			now = tr.Task
		}
		for i := range domain.LedgerLimit {
			e := domain.Event{
				Type: domain.EventHeartbeat, AtMs: 4, Stage: strconv.Itoa(i), Worker: text(domain.MaxWorker), Cursor: text(domain.MaxCursor),
				ResultRef: text(domain.MaxRef), Prompt: text(domain.MaxPrompt), Reason: text(domain.MaxErrorText), Schema: raw(domain.MaxDetails),
				Answer: raw(domain.MaxDetails), Error: &domain.TaskError{Message: text(domain.MaxErrorText), Details: raw(domain.MaxDetails)},
			}
			id := strconv.Itoa(i)
			if i > 100 {
				e = domain.Event{Type: domain.EventHeartbeat, AtMs: 4} // The ledger still fills.
			}
			tr, _, err := domain.Receive(now, l, domain.Callback{CallbackID: id, Event: e}, "", 5)
			if err != nil {
				t.Fatal(err)
			}
			now = tr.Task
		}
		tr, err := domain.Apply(now, domain.Event{Type: domain.EventFail, AtMs: 5, Error: &domain.TaskError{Message: text(domain.MaxErrorText), Details: raw(domain.MaxDetails)}})
		if err != nil {
			t.Fatal(err)
		}
		record, err := json.Marshal(map[string]any{"task": tr.Task, "ledger": l})
		if err != nil {
			t.Fatal(err)
		}
		if len(record) >= limit || len(now.Questions) < 5 || l.Len() != domain.LedgerLimit {
			t.Errorf("%q: a record of %d bytes, with %d questions and %d callbacks", unit, len(record), len(now.Questions), l.Len())
		}
	}
	worst("x")
	worst("\x01")
}

// What large events have pushed out cannot be told one by one.
func TestResumeWithoutOldEventsIsASnapshot(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1")
	for i := range 6 {
		e := domain.Event{Type: domain.EventHeartbeat, AtMs: 2, Stage: strconv.Itoa(i), Prompt: strings.Repeat("\x01", 16<<10)}
		tr, err := domain.Apply(now, e)
		if err != nil {
			t.Fatal(err)
		}
		now = tr.Task
	}
	if len(now.History) >= 7 || now.History[len(now.History)-1].Version != 7 {
		t.Fatalf("%d events are kept", len(now.History))
	}
	for cursor, want := range map[int64]domain.Mode{0: domain.ModeSnapshot, now.History[0].Version - 2: domain.ModeSnapshot, now.History[0].Version - 1: domain.ModeDelta, 7: domain.ModeCaughtUp} {
		p, err := domain.Resume(now, cursor, 0)
		if err != nil || p.Mode != want {
			t.Errorf("cursor %d: %s, not %s (%v)", cursor, p.Mode, want, err)
		}
	}
}

// A late result that itself caused the expiry was kept without being told or
// recorded; only the expiry was.
func TestLateResultThatCausesTheExpiryIsTold(t *testing.T) {
	t.Parallel()
	p := newPair(t, "ttl=100 late=record")
	apply(t, p, "start at=1")
	tr := apply(t, p, "succeed at=120 ref=r hash=h")
	if tr.Reason != domain.ReasonExpired || tr.Notification == nil || tr.Notification.Version != 2 {
		t.Errorf("%s, told %+v", tr.Reason, tr.Notification)
	}
	if n := tr.LateNotification; n == nil || n.Version != 3 || n.Reason != domain.ReasonLateResult || n.AtMs != 120 {
		t.Errorf("of the late result is told %+v", n)
	}
	if h := tr.Task.History; len(h) != 3 || h[2].Event.ResultHash != "h" {
		t.Errorf("the history is %s", entries(h))
	}
}
