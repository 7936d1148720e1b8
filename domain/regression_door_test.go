package domain_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// More bugs that were there, at the doors.

// The event was checked before the ledger was asked, so a repeat with a broken
// body was an invalid request instead of a conflict.
func TestRepeatIsAnsweredBeforeTheEventIsLookedAt(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"expire at=5", "nonsense at=5", "progress at=-1", "fail at=5 details={", "succeed at=5 result=1 ref=r"} {
		p := newPair(t, "")
		if _, _, err := p.Callback(callback(t, "c1", "start at=1"), 10); err != nil {
			t.Fatal(err)
		}
		c := callback(t, "c1", broken)
		clean, digest, content, err := domain.Unpack(p.Task, c)
		if err != nil || content != nil {
			t.Fatalf("%s: %v, content %q", broken, err, content)
		}
		_, out, err := domain.Judge(p.Task, p.Ledger, clean, digest, 10)
		if err != nil || out.Reason != domain.ReasonDuplicateCallback || !out.Conflict {
			t.Errorf("%s: %s, conflict %v (%v)", broken, out.Reason, out.Conflict, err)
		}
		c.CallbackID = "c2"
		if _, _, err := domain.Judge(p.Task, p.Ledger, c, digest, 10); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s under a new id gives %v", broken, err)
		}
	}
}

// A callback that fell back from an update to a signal was answered without
// its `late` and its `duplicate`.
func TestFallbackGetsItsWholeFirstAnswer(t *testing.T) {
	t.Parallel()
	for _, life := range [][2]string{
		{"ttl=100; start at=1", "succeed at=100 ref=r hash=h"},
		{"ttl=100; expire at=100", "succeed at=101 ref=r hash=h"},
		{"; start at=1", "start at=2"},
		{"; start at=1; succeed at=2 ref=r hash=h", "succeed at=3 ref=r hash=h"},
	} {
		now, l, c := task(t, life[0]), &domain.Ledger{}, callback(t, "c1", life[1])
		tr, first, err := domain.Receive(now, l, c, c.Event.Digest(), 500)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, l); err != nil {
			t.Fatal(err)
		}
		_, again, err := domain.Receive(tr.Task, l, c, c.Event.Digest(), 600)
		if err != nil || again != first {
			t.Errorf("%s: first %+v, then %+v (%v)", life, first, again, err)
		}
	}
}

// The ledger was packed only when it was marshalled through a pointer; inside a
// struct by value it came out as its two counters, and everything was forgotten.
func TestLedgerIsPackedByValue(t *testing.T) {
	t.Parallel()
	type carried struct{ Ledger domain.Ledger }
	var c, back carried
	c.Ledger.Remember("c1", "d1", "", domain.Transition{Reason: domain.ReasonStarted})
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if _, ok := back.Ledger.Seen("c1"); !ok {
		t.Errorf("the callback is forgotten: %s", raw)
	}
}

// What followed the first JSON value of an input was ignored.
func TestFingerprintReadsTheWholeInput(t *testing.T) {
	t.Parallel()
	for _, input := range []string{`{} {}`, `1 2`, `{}x`, `[`} {
		if _, err := domain.Fingerprint("tool", json.RawMessage(input)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// Two events with broken details had one digest, whatever else they said.
func TestDigestOfBrokenJSON(t *testing.T) {
	t.Parallel()
	a, b := event(t, "fail error=a details={"), event(t, "fail error=b details={")
	if a.Digest() == b.Digest() {
		t.Error("two different events have the same digest")
	}
	if again := event(t, "fail at=7 error=a details={"); a.Digest() != again.Digest() {
		t.Error("the same event has two digests")
	}
}
