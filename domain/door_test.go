package domain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// TestAdmit: what the validator of an update lets in.
func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, life, event string
		refusal           domain.Reason // empty when it is let in
		invalid           bool
	}{
		{"what changes something", "; start at=1", "progress at=5 progress=5", "", false},
		{"an end", "; start at=1", "succeed at=5 ref=r hash=h", "", false},
		{"a heartbeat, though it is no change", "; start at=1", "heartbeat at=5", "", false},
		{"what starts an unheard-of task", "", "progress at=5 progress=0", "", false},
		{"what causes the expiry", "; start at=1", "progress at=1000 progress=5", "", false},
		{"a stale callback that causes the expiry", "; start at=1", "fail at=1000 attempt=9", "", false},
		{"a late result that is kept", "late=record; expire at=1000", "succeed at=1001 ref=r hash=h", "", false},
		{"the same progress", "; start at=1; progress at=2 progress=5", "progress at=5 progress=5", "duplicate-progress", false},
		{"less progress", "; start at=1; progress at=2 progress=5", "progress at=5 progress=4", "stale-progress", false},
		{"a start while running", "; start at=1", "start at=5", "already-running", false},
		{"another attempt", "; start at=1", "fail at=5 attempt=2", "stale-attempt", false},
		{"an ended task", "; start at=1; fail at=2", "succeed at=5 ref=r hash=h", "terminal-conflict", false},
		{"the same result", "; start at=1; succeed at=2 ref=r hash=h", "succeed at=5 ref=r hash=h", "duplicate-result", false},
		{"an expired task", "; expire at=1000", "succeed at=1001 ref=r hash=h", "terminal-conflict", false},
		{"a heartbeat of a queued task", "", "heartbeat at=5", "not-running", false},
		{"the same question", "; start at=1; input-required at=2 question=q prompt=p", "input-required at=5 question=q prompt=p", "duplicate-question", false},
		{"strict: refusals are answered inside", "strict", "progress at=5 progress=5", "", false},
		{"strict: so are repeats", "strict; start at=1", "start at=5", "", false},
		{"strict: and ended tasks", "strict; start at=1; fail at=2", "succeed at=5 ref=r hash=h", "", false},
		{"an expire", "; start at=1", "expire at=5", "", true},
		{"an invalid progress", "; start at=1", "progress at=5 progress=500", "", true},
		{"strict: an invalid progress", "strict; start at=1", "progress at=5 progress=500", "", true},
		{"half a result", "; start at=1", "succeed at=5 ref=r", "", true},
	} {
		now, cb := task(t, c.life), callback(t, "c1", c.event)
		err := domain.Admit(now, &domain.Ledger{}, cb, cb.Event.Digest(), 5000)
		var refused *domain.RefusedError
		switch {
		case c.invalid:
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("%s: %v, want an invalid request", c.name, err)
			}
		case c.refusal == "":
			if err != nil {
				t.Errorf("%s: %v, want it let in", c.name, err)
			}
		case !errors.As(err, &refused) || refused.Outcome.Reason != c.refusal:
			t.Errorf("%s: %v, want %s", c.name, err, c.refusal)
		case refused.Outcome.Changed || refused.Outcome.State != now.State || refused.Outcome.Version != now.Version:
			t.Errorf("%s: the refusal is of another task: %+v", c.name, refused.Outcome)
		case !strings.Contains(err.Error(), string(c.refusal)) || !strings.Contains(err.Error(), string(now.State)):
			t.Errorf("%s: the refusal doesn't say why: %v", c.name, err)
		}
	}
}

// TestValidatorCostsNothing: neither admitting nor refusing leaves a trace.
func TestValidatorCostsNothing(t *testing.T) {
	t.Parallel()
	now, l := task(t, "; start at=1"), &domain.Ledger{}
	for _, line := range []string{"progress at=5 progress=5", "start at=5", "fail at=5 attempt=2", "progress at=5 progress=500", "heartbeat at=5"} {
		c := callback(t, "c1", line)
		for range 3 {
			_ = domain.Admit(now, l, c, c.Event.Digest(), 10) // What it says is the matter of TestAdmit.
		}
	}
	if l.Len() != 0 || l.Repeats != 0 || l.Conflicts != 0 {
		t.Errorf("%d callbacks remembered, %d repeats, %d conflicts", l.Len(), l.Repeats, l.Conflicts)
	}
	if got := summary(now); got != "running v1 0% 1/2" {
		t.Errorf("the task is %s", got)
	}
	c := callback(t, "c1", "start at=5")
	if _, _, err := domain.Receive(now, l, c, c.Event.Digest(), 10); err != nil {
		t.Fatal(err)
	}
	again := callback(t, "c1", "start at=6")
	again.DeliveryID = "other"
	if err := domain.Admit(now, l, again, again.Event.Digest(), 10); !strings.Contains(err.Error(), "duplicate-callback") {
		t.Errorf("a repeat is %v", err)
	}
	if l.Repeats != 0 {
		t.Error("the validator has counted a repeat")
	}
}

// TestStrictRemembersRefusals, and that by default the signal door does too,
// because it has answered.
func TestStrictRemembersRefusals(t *testing.T) {
	t.Parallel()
	for _, create := range []string{"strict", ""} {
		now, l := task(t, create+"; start at=1; fail at=2"), &domain.Ledger{}
		c := callback(t, "c1", "succeed at=5 ref=r hash=h")
		_, out, err := domain.Receive(now, l, c, c.Event.Digest(), 10)
		if err != nil || out.Reason != domain.ReasonTerminalConflict {
			t.Fatalf("%q: %s (%v)", create, out.Reason, err)
		}
		c.DeliveryID = "again"
		if _, out, err = domain.Receive(now, l, c, c.Event.Digest(), 11); err != nil || out.Reason != domain.ReasonDuplicateCallback || out.Conflict || l.Repeats != 1 {
			t.Errorf("%q: the repeat is %+v (%v), %d repeats", create, out, err, l.Repeats)
		}
	}
}

// TestReceiveClamps: a claimed time in the future is now, none is now, and one
// in the past is believed; the sender's clock is kept beside it.
func TestReceiveClamps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ claimed, now, want int64 }{{0, 50, 50}, {30, 50, 30}, {50, 50, 50}, {51, 50, 50}, {1 << 60, 50, 50}} {
		cb := domain.Callback{CallbackID: "c1", Event: domain.Event{Type: domain.EventStart, AtMs: c.claimed}, Source: "hook", OccurredAtMs: 77}
		tr, _, err := domain.Receive(task(t, ""), &domain.Ledger{}, cb, "", c.now)
		if err != nil {
			t.Fatal(err)
		}
		e := tr.Task.History[0].Event
		if e.AtMs != c.want || e.OccurredAtMs != 77 || e.Source != "hook" {
			t.Errorf("claimed %d, received %d: recorded at %d, occurred %d, source %q", c.claimed, c.now, e.AtMs, e.OccurredAtMs, e.Source)
		}
	}
	// What an event says of itself comes before what its envelope says.
	cb := domain.Callback{CallbackID: "c1", Event: domain.Event{Type: domain.EventStart, AtMs: 1, Source: "a", OccurredAtMs: 7}, Source: "b", OccurredAtMs: 8}
	tr, _, err := domain.Receive(task(t, ""), &domain.Ledger{}, cb, "", 5)
	if e := tr.Task.History[0].Event; err != nil || e.Source != "a" || e.OccurredAtMs != 7 {
		t.Errorf("source %q, occurred %d (%v)", e.Source, e.OccurredAtMs, err)
	}
	// Recorded conversations are played against a clock that stands still.
	trusting := task(t, "")
	trusting.Policy.TrustTimes = true
	for _, at := range []int64{0, 900} {
		cb := domain.Callback{CallbackID: "c1", Event: domain.Event{Type: domain.EventStart, AtMs: at}}
		if tr, _, err := domain.Receive(trusting, &domain.Ledger{}, cb, "", 5); err != nil || tr.Task.History[0].Event.AtMs != at {
			t.Errorf("with trusted times %d becomes %+v (%v)", at, tr.Task.History, err)
		}
	}
}

// TestJudgeForgets: the same as Receive, and nothing is remembered.
func TestJudgeForgets(t *testing.T) {
	t.Parallel()
	now, l, c := task(t, "; start at=1"), &domain.Ledger{}, callback(t, "c1", "progress at=5 progress=5")
	first, out, err := domain.Judge(now, l, c, c.Event.Digest(), 10)
	if err != nil || !out.Changed || l.Len() != 0 {
		t.Fatalf("%+v, %d remembered (%v)", out, l.Len(), err)
	}
	again, same, err := domain.Receive(now, l, c, c.Event.Digest(), 10)
	if err != nil || same != out || summary(again.Task) != summary(first.Task) || l.Len() != 1 {
		t.Errorf("Judge says %+v, Receive %+v (%v)", out, same, err)
	}
}

// TestOutcomeFor: what a client makes of an outcome that the server has stored
// for an update id, and hands to everybody who sends that id.
func TestOutcomeFor(t *testing.T) {
	t.Parallel()
	mine := callback(t, "c1", "succeed at=5 ref=r hash=h")
	first := domain.Outcome{
		Reason: domain.ReasonSucceeded, Changed: true, State: domain.StateSucceeded, Version: 2,
		DeliveryID: mine.DeliveryID, Digest: mine.Event.Digest(),
	}
	other := mine
	other.DeliveryID = "another delivery"
	changedBody := mine
	changedBody.Event.ResultHash = "another"
	otherBody := other
	otherBody.Event.ResultHash = "another"
	later := mine
	later.Event.AtMs, later.Event.Source, later.Event.OccurredAtMs = 99, "elsewhere", 98
	repeat := first
	repeat.Reason, repeat.Changed, repeat.Duplicate, repeat.Conflict = domain.ReasonDuplicateCallback, false, true, true
	repeat.Digest = "of the first body"

	for _, c := range []struct {
		name               string
		stored             domain.Outcome
		sender             domain.Callback
		reason             domain.Reason
		duplicate, conflic bool
	}{
		{"my own answer", first, mine, domain.ReasonSucceeded, false, false},
		{"my own answer, asked for again later", first, later, domain.ReasonSucceeded, false, false},
		{"the same callback sent again", first, other, domain.ReasonDuplicateCallback, true, false},
		{"the same delivery with another body", first, changedBody, domain.ReasonDuplicateCallback, true, true},
		{"another callback under the same id", first, otherBody, domain.ReasonDuplicateCallback, true, true},
		{"my own answer was that it is a conflict", repeat, mine, domain.ReasonDuplicateCallback, true, true},
	} {
		got := c.stored.For(c.sender)
		if got.Reason != c.reason || got.Duplicate != c.duplicate || got.Conflict != c.conflic {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.State != c.stored.State || got.Version != c.stored.Version || got.DeliveryID != c.sender.DeliveryID {
			t.Errorf("%s: it tells of another task or delivery: %+v", c.name, got)
		}
		if c.duplicate && got.Changed {
			t.Errorf("%s: a repeat that has changed something", c.name)
		}
	}
}

// TestFallbackFromUpdateToSignal: the same delivery over the other door is not
// called a repeat, and not counted as one.
func TestFallbackFromUpdateToSignal(t *testing.T) {
	t.Parallel()
	now, l, c := task(t, "; start at=1"), &domain.Ledger{}, callback(t, "c1", "succeed at=5 ref=r hash=h")
	tr, first, err := domain.Receive(now, l, c, c.Event.Digest(), 10)
	if err != nil {
		t.Fatal(err)
	}
	after, out, err := domain.Receive(tr.Task, l, c, c.Event.Digest(), 20)
	if err != nil || out != first || after.Changed || after.Task.Version != 2 {
		t.Errorf("first %+v, then %+v, changed %v (%v)", first, out, after.Changed, err)
	}
	if l.Repeats != 0 || l.Conflicts != 0 {
		t.Errorf("%d repeats, %d conflicts", l.Repeats, l.Conflicts)
	}
	// Without delivery ids nothing can be told apart: it is a repeat.
	c.CallbackID, c.DeliveryID = "c2", ""
	for i := range 2 {
		_, out, err = domain.Receive(tr.Task, l, c, c.Event.Digest(), 30)
		if err != nil || (out.Reason == domain.ReasonDuplicateCallback) != (i == 1) {
			t.Errorf("time %d: %+v (%v)", i, out, err)
		}
	}
}

// TestUnpack: an inline result becomes a reference, and the digest is of what
// was sent.
func TestUnpack(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1")
	now.Tenant = "acme"
	c := callback(t, "c1", `succeed at=5 result='{ "a": 1 }'`)
	clean, digest, content, err := domain.Unpack(now, c)
	if err != nil || string(content) != `{"a":1}` || digest != c.Event.Digest() {
		t.Fatalf("content %q, digest %s (%v)", content, digest, err)
	}
	e := clean.Event
	if e.Result != nil || e.ResultRef != domain.BlobRef("acme", "t", e.ResultHash) || e.Bytes != 7 || e.ContentType != "application/json" {
		t.Errorf("unpacked to %+v", e)
	}
	if string(c.Event.Result) != `{ "a": 1 }` {
		t.Error("the argument was changed")
	}
	tr, out, err := domain.Receive(now, &domain.Ledger{}, clean, digest, 10)
	if err != nil || out.Reason != domain.ReasonSucceeded || tr.Task.ResultBytes != 7 || tr.Task.ContentType != "application/json" {
		t.Errorf("%+v, %+v (%v)", out, tr.Task, err)
	}
	if _, _, _, err := domain.Unpack(now, domain.Callback{}); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("an envelope without an id gives %v", err)
	}
	plain := callback(t, "c2", "progress at=5 progress=5")
	if clean, _, content, err := domain.Unpack(now, plain); err != nil || content != nil || clean.Event.Digest() != plain.Event.Digest() {
		t.Errorf("what has no result is changed: %+v, %q (%v)", clean, content, err)
	}
}
