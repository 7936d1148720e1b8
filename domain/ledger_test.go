package domain_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

const someDigest = "0123456789abcdef0123456789abcdef"

func repacked(t *testing.T, l *domain.Ledger) *domain.Ledger {
	t.Helper()
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back domain.Ledger
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

// TestLedgerKeepsTheFirstAnswer: later ones are not its business.
func TestLedgerKeepsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	var l domain.Ledger
	if _, ok := l.Seen("c1"); ok || l.Len() != 0 {
		t.Error("an empty ledger remembers something")
	}
	l.Remember("c1", "d1", someDigest, domain.Transition{Reason: domain.ReasonStarted, Changed: true, Task: domain.Task{Version: 7}})
	l.Remember("c1", "d2", "another", domain.Transition{Reason: domain.ReasonFailed})
	l.Remember("", "d3", someDigest, domain.Transition{Reason: domain.ReasonFailed})
	a, ok := l.Seen("c1")
	if !ok || a.Reason != domain.ReasonStarted || !a.Changed || a.Late || a.Version != 7 || a.Digest != someDigest || l.Len() != 1 {
		t.Errorf("%+v, %v, %d remembered", a, ok, l.Len())
	}
	if !a.Same("d1") || a.Same("d2") || a.Same("") {
		t.Error("it belongs to another delivery")
	}
	if _, ok := l.Seen(""); ok {
		t.Error("no id is an id")
	}
}

// TestLedgerForgetsTheOldest, beyond 8,192, in order, also after it was packed
// in the middle.
func TestLedgerForgetsTheOldest(t *testing.T) {
	t.Parallel()
	const more = 3000
	id := func(i int) string { return fmt.Sprintf("callback-%d", i) }
	l := &domain.Ledger{}
	for i := range domain.LedgerLimit + more {
		if i == domain.LedgerLimit-1 || i == domain.LedgerLimit+1000 {
			l = repacked(t, l)
		}
		l.Remember(id(i), "d", someDigest, domain.Transition{Reason: domain.ReasonProgress, Task: domain.Task{Version: int64(i)}})
	}
	l = repacked(t, l)
	if l.Len() != domain.LedgerLimit {
		t.Fatalf("%d are remembered", l.Len())
	}
	for i := range domain.LedgerLimit + more {
		a, ok := l.Seen(id(i))
		if ok != (i >= more) || ok && a.Version != int64(i) {
			t.Fatalf("callback %d: %v, %+v", i, ok, a)
		}
	}
	raw, err := json.Marshal(l)
	if err != nil || len(raw) > 512<<10 {
		t.Errorf("a full ledger has %d bytes (%v)", len(raw), err)
	}
}

// TestLedgerPacksEveryAnswer: each reason that a callback can be answered with
// has its byte; without one it would come back as "other".
func TestLedgerPacksEveryAnswer(t *testing.T) {
	t.Parallel()
	for _, r := range domain.Rules() {
		door := len(r.On) == 0 || slices.ContainsFunc(r.On, domain.EventType.Door)
		if r.Reason == "" || !door {
			continue
		}
		for _, changed := range []bool{true, false} {
			for _, late := range []bool{true, false} {
				l := &domain.Ledger{}
				l.Remember("c", "d", someDigest, domain.Transition{Reason: r.Reason, Changed: changed, Late: late, Task: domain.Task{Version: 1<<32 - 1}})
				a, ok := repacked(t, l).Seen("c")
				if !ok || a.Reason != r.Reason || a.Changed != changed || a.Late != late || a.Version != 1<<32-1 || a.Digest != someDigest || !a.Same("d") {
					t.Errorf("%s: %+v", r.Reason, a)
				}
			}
		}
	}
	// What has no byte is still remembered.
	l := &domain.Ledger{}
	l.Remember("c", "d", someDigest, domain.Transition{Reason: "from the future", Changed: true})
	if a, ok := repacked(t, l).Seen("c"); !ok || a.Reason != "other" || !a.Changed {
		t.Errorf("a reason without a byte: %+v, %v", a, ok)
	}
}

// TestLedgerFormat pins the packed form, which histories hold.
func TestLedgerFormat(t *testing.T) {
	t.Parallel()
	l := &domain.Ledger{Conflicts: 2, Repeats: 3}
	l.Remember("c1", "d1", someDigest, domain.Transition{Reason: domain.ReasonSucceeded, Changed: true, Task: domain.Task{Version: 2}})
	l.Remember("c2", "", someDigest, domain.Transition{Reason: domain.ReasonExpired, Late: true, Changed: true, Task: domain.Task{Version: 258}})
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/ledger.json", string(raw)+"\n")
	if back := repacked(t, l); back.Conflicts != 2 || back.Repeats != 3 || back.Len() != 2 {
		t.Errorf("%d conflicts, %d repeats, %d callbacks", back.Conflicts, back.Repeats, back.Len())
	}
}

func TestLedgerRefusesBrokenForms(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"packed":"!"}`, `{"packed":"AAAA"}`, `{"packed":5}`, `[]`, `"x"`,
		`{"packed":"` + base64.StdEncoding.EncodeToString(make([]byte, 46)) + `"}`,
	} {
		var l domain.Ledger
		if err := json.Unmarshal([]byte(raw), &l); !errors.Is(err, domain.ErrLedger) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	var l domain.Ledger
	if err := json.Unmarshal([]byte(`{}`), &l); err != nil || l.Len() != 0 {
		t.Errorf("an empty one: %d, %v", l.Len(), err)
	}
}

// TestLedgerClone: what the copy learns, the ledger does not.
func TestLedgerClone(t *testing.T) {
	t.Parallel()
	l := &domain.Ledger{Repeats: 1}
	for i := range domain.LedgerLimit + 5 {
		l.Remember(fmt.Sprint(i), "d", someDigest, domain.Transition{Reason: domain.ReasonProgress})
	}
	c := l.Clone()
	for i := range 10 {
		c.Remember(fmt.Sprint("new", i), "d", someDigest, domain.Transition{Reason: domain.ReasonProgress})
	}
	c.Repeats = 9
	if _, ok := l.Seen("new0"); ok || l.Repeats != 1 || c.Len() != domain.LedgerLimit {
		t.Errorf("the ledger has learned from its copy, or the copy is of another size: %d", c.Len())
	}
	if _, ok := l.Seen("5"); !ok {
		t.Error("the ledger has forgotten what its copy forgot")
	}
	if _, ok := c.Seen("5"); ok {
		t.Error("the copy does not forget the oldest")
	}
}

// FuzzLedger holds a ledger, packed and read again after every few steps,
// against a map and a list.
func FuzzLedger(f *testing.F) {
	f.Add([]byte("abcabc"))
	f.Add([]byte(strings.Repeat("x", 40)))
	f.Fuzz(func(t *testing.T, steps []byte) {
		l := &domain.Ledger{}
		first := map[string]int64{}
		for i, b := range steps[:min(len(steps), 500)] {
			id := fmt.Sprintf("id-%d", b%64)
			if b >= 192 {
				l = repacked(t, l)
			}
			if _, ok := first[id]; !ok {
				first[id] = int64(i)
			}
			l.Remember(id, fmt.Sprint("d", i), someDigest, domain.Transition{Reason: domain.ReasonProgress, Late: b%2 == 0, Task: domain.Task{Version: int64(i)}})
		}
		if l.Len() != len(first) {
			t.Fatalf("%d remembered, %d sent", l.Len(), len(first))
		}
		for id, version := range first {
			if a, ok := l.Seen(id); !ok || a.Version != version || !a.Same(fmt.Sprint("d", version)) {
				t.Fatalf("%s: %+v, %v; first at %d", id, a, ok, version)
			}
		}
	})
}

// FuzzLedgerJSON reads anything; what it can read it writes and reads again.
func FuzzLedgerJSON(f *testing.F) {
	f.Add([]byte(`{"repeats":1,"packed":""}`))
	f.Add([]byte(`{"packed":"` + base64.StdEncoding.EncodeToString(make([]byte, 90)) + `"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var l domain.Ledger
		if err := json.Unmarshal(raw, &l); err != nil {
			return
		}
		back := repacked(t, &l)
		if back.Len() > l.Len() || back.Repeats != l.Repeats || back.Conflicts != l.Conflicts {
			t.Fatalf("%+v became %+v", l, back)
		}
	})
}
