package domain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// Each test here tells a bug that was there, of tasks that several wait for or that a
// person is asked about.

// A result that came while its work was being undone was told to whoever had asked
// for it, who then counted on what was no longer there; and a retryable failure began
// the next attempt beside the undoing of the one before.
func TestWhatIsBeingUndoneIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"succeed at=5 ref=r hash=h", "fail at=5 retryable", "cancelled at=5", "progress at=5 progress=50", "cancel-timeout at=5"} {
		p := lived(t, undoing)
		if tr := apply(t, p, line); tr.Reason != domain.ReasonBeingUndone || tr.Changed {
			t.Errorf("%s is %s", line, tr.Reason)
		}
		if !domain.Next(p.Task, 5).Compensate {
			t.Errorf("after %s nothing is undone", line)
		}
	}
}

// A cancel whose grace ended before the undoing did ended the task, and nobody learned
// how the undoing went.
func TestCancelWaitsForTheUndoing(t *testing.T) {
	t.Parallel()
	p := lived(t, "cancelGrace=10 "+undoing+"; cancel-requested at=4")
	for _, lost := range []bool{true, false} {
		if e, ok := domain.Asked(p.Task, false, lost, 400); ok {
			t.Errorf("lost %v: %s follows", lost, e.Type)
		}
	}
	if domain.Next(p.Task, 400).AskOutside {
		t.Error("the outside is asked, although its answer would not help")
	}
	tr := apply(t, p, "compensated at=500")
	if tr.Task.State != domain.StateCancelled || !*tr.Task.Confirmed || tr.Task.Error.Code != domain.CodeCompensated {
		t.Errorf("%s, error %v", tr.Task.State, tr.Task.Error)
	}
}

// Work that was to be done again on a person's word went back into the queue although
// a cancel had been asked for, and was begun once more only to be stopped.
func TestResolvedForRepetitionAfterACancel(t *testing.T) {
	t.Parallel()
	got := task(t, asked+"; cancel-requested at=4 by=ann; resolve at=5 action=repeat by=bob")
	if got.State != domain.StateCancelled || got.Confirmed == nil || *got.Confirmed || got.DecidedFor != 0 {
		t.Errorf("%s, confirmed %v, decided for %d", got.State, got.Confirmed, got.DecidedFor)
	}
}

// An undoing that failed without a word counted as one that still ran, so it was run
// again for ever.
func TestUndoingThatFailsWithoutAWord(t *testing.T) {
	t.Parallel()
	p := lived(t, undoing)
	tr, err := p.Apply(domain.Event{Type: domain.EventCompensated, AtMs: 5, Error: &domain.TaskError{}})
	if err != nil || tr.Reason != domain.ReasonNotCompensated {
		t.Fatalf("%s (%v)", tr.Reason, err)
	}
	if domain.Next(tr.Task, 5).Compensate || domain.PhaseOf(tr.Task) != domain.PhaseWaitingInput {
		t.Errorf("it is undone again; the phase is %s", domain.PhaseOf(tr.Task))
	}
}

// The word that an outcome is unknown stayed on the task after a person had decided,
// or the work had come back. A later deadline then looked as if nobody had found out.
func TestWhatIsKnownIsNoLongerUnknown(t *testing.T) {
	t.Parallel()
	for _, life := range []string{
		asked + "; heartbeat at=4",
		asked + "; lease-renewed at=4",
		asked + "; succeed at=4 ref=r hash=h",
		asked + "; cancelled at=4",
		asked + "; resolve at=4 action=repeat",
		asked + "; resolve at=4 action=succeeded ref=r hash=h",
		asked + "; expire at=1000; retry at=1001 ttl=100",
		"effects=unsafe; start at=1; requeue at=3; retry at=4 ttl=100",
	} {
		if got := task(t, life); got.Error != nil || got.Manual != nil {
			t.Errorf("%s: error %v, manual %+v", life, got.Error, got.Manual)
		}
	}
}

// The reason of leaving had no limit of its own, and 64 waiters with reasons of 4 KiB
// made a record that Temporal refuses. What is recorded of waiters is counted too.
func TestWaitersHaveRoomInTheRecord(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1")
	give := func(e domain.Event) {
		t.Helper()
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		tr, err := domain.Apply(now, e)
		if err != nil {
			t.Fatal(err)
		}
		now = tr.Task
	}
	// A control character has six bytes as JSON, which is the worst there is.
	escaped := strings.Repeat("\x01", domain.MaxCallbackID)
	for i := range domain.MaxWaiters {
		id := strings.Repeat("w", domain.MaxID-3) + fmt.Sprintf("%03d", i)
		give(domain.Event{Type: domain.EventAttach, AtMs: 2, Waiter: &domain.Waiter{ID: id, RunID: strings.Repeat("r", domain.MaxID), ToolCallID: escaped}})
		give(domain.Event{Type: domain.EventDetach, AtMs: 3, WaiterID: id, Reason: strings.Repeat("\x01", domain.MaxWorker)})
	}
	if len(now.Waiters) != domain.MaxWaiters {
		t.Fatalf("%d waiters", len(now.Waiters))
	}
	if _, err := domain.Apply(now, event(t, "attach at=4 waiter=onemore")); field(err) != "waiter" {
		t.Errorf("one more than %d: %v", domain.MaxWaiters, err)
	}
	if _, err := domain.Apply(now, domain.Event{Type: domain.EventDetach, AtMs: 4, WaiterID: "submitter", Reason: strings.Repeat("x", domain.MaxWorker+1)}); field(err) != "reason" {
		t.Errorf("a reason too long: %v", err)
	}
	// The submitter has always its place, and one that left may come back.
	give(event(t, "detach at=4 waiterId=submitter"))
	give(event(t, "attach at=5 waiter=submitter run=again"))
	raw, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	// What is left below 2 MiB by a full ledger (480 KiB), the questions of an
	// attempt and their answers (768 KiB).
	if limit := (2 << 20) - (480+768)<<10; len(raw) >= limit {
		t.Errorf("the record has %d bytes, of %d", len(raw), limit)
	}
}

// The submitter, when it left last, was listed last, and documents and signals name it
// first.
func TestSubmitterIsListedFirst(t *testing.T) {
	t.Parallel()
	got := task(t, "run=r; attach at=1 waiter=b; attach at=2 waiter=c; detach at=3 waiterId=submitter reason=wait-timeout")
	if told := waiters(got.Told()); told != "submitter (r), b, c" {
		t.Errorf("told: %s", told)
	}
	got = task(t, "run=r; attach at=1 waiter=b; detach at=3 waiterId=submitter; attach at=4 waiter=submitter run=r2")
	if waiting := waiters(got.Waiting()); waiting != "submitter (r2), b" {
		t.Errorf("waiting: %s", waiting)
	}
}

// A cancel of our own that named nobody was said to be ended by a callback.
func TestNobodysEventIsNoCallback(t *testing.T) {
	t.Parallel()
	for life, by := range map[string]string{
		"; cancel-requested at=2":                             "",
		"max=1; start at=1; requeue at=2":                     "",
		"; start at=1; fail at=2":                             "callback",
		"; start at=1; fail at=2 source=ci":                   "ci",
		"; start at=1; cancel-requested at=2; cancelled at=3": "callback",
	} {
		if got := task(t, life).EndedBy; got != by {
			t.Errorf("%s: ended by %q, not %q", life, got, by)
		}
	}
}

// Lists of waiters are handed out and kept; whoever changes one must not change the
// task.
func TestWaitersAreCopies(t *testing.T) {
	t.Parallel()
	for _, life := range []string{shared, left, "; detach at=1 waiterId=submitter; attach at=2 waiter=submitter"} {
		now := task(t, life)
		before := waiters(now.Waiters)
		for _, list := range [][]domain.Waiter{now.Waiting(), now.Told()} {
			for i := range list {
				list[i].ID = strconv.Itoa(i)
			}
		}
		if after := waiters(now.Waiters); after != before {
			t.Errorf("%s: %s became %s", life, before, after)
		}
	}
}

// TestRetryAfterBounds: neither a negative nor an endless wish of the other side makes
// another wait than the rules say, and the lot spreads it by a tenth at most.
func TestRetryAfterBounds(t *testing.T) {
	t.Parallel()
	const day = int64(domain.MaxRetryAfterMs)
	for _, c := range []struct {
		after    int64
		jitter   float64
		min, max int64
	}{
		{-5, 0, 100, 100},
		{0, 0.9, 100, 100},
		{99, 0, 100, 100},
		{101, 0, 101, 101},
		{101, 0.99, 110, 111},
		{1000, 0.5, 1050, 1050},
		{day, 0, day, day},
		{day + 1, 0, day, day},
		{1<<63 - 1, 0, day, day},
		{1<<63 - 1, 0.999, day, day + day/10},
	} {
		now := task(t, "ttl=900000000; start at=0")
		tr, err := domain.Apply(now, domain.Event{Type: domain.EventFail, AtMs: 7, Retryable: yes(true), RetryAfterMs: c.after, Jitter: c.jitter})
		if err != nil {
			t.Fatal(err)
		}
		if wait := tr.Task.RetryAtMs - 7; wait < c.min || wait > c.max {
			t.Errorf("asked for %d, by lot %v: a wait of %d, not %d to %d", c.after, c.jitter, wait, c.min, c.max)
		}
	}
	if err := (domain.Event{Type: domain.EventFail, RetryAfterMs: -1}).Validate(); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("a negative wait: %v", err)
	}
}
