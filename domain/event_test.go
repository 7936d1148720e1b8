package domain_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// full is an event in which every field is set.
func full() domain.Event {
	p, yes := 42.0, true
	return domain.Event{
		Type: domain.EventFail, AtMs: 1, Attempt: 2, Worker: "w", Progress: &p, Cursor: "c", Stage: "s", ResultRef: "r", ResultHash: "h",
		ContentType: "text/plain", Bytes: 3, Result: json.RawMessage(`1`), Error: &domain.TaskError{Code: "IO", Message: "m"}, Retryable: &yes,
		Stopped: true, Begun: true, QuestionID: "q", Prompt: "p", Schema: json.RawMessage(`{}`), Answer: json.RawMessage(`2`), By: "b", Reason: "y",
		TTLMs: 4, Source: "x", OccurredAtMs: 5, Jitter: 0.5, RetryAtMs: 6,
		RetryAfterMs: 7, Waiter: &domain.Waiter{ID: "w"}, WaiterID: "v", Action: "a", Compensation: "u",
	}
}

// TestDigest: what an event says counts, and not when and by which way it came.
// Every field is tried, so a new one cannot be left out unseen.
func TestDigest(t *testing.T) {
	t.Parallel()
	circumstances := map[string]bool{"AtMs": true, "Source": true, "OccurredAtMs": true, "Jitter": true, "RetryAtMs": true}
	base := full()
	v := reflect.TypeFor[domain.Event]()
	for i := range v.NumField() {
		name := v.Field(i).Name
		if reflect.ValueOf(base).Field(i).IsZero() {
			t.Errorf("%s is not set in the example", name)
		}
		e := full()
		reflect.ValueOf(&e).Elem().Field(i).SetZero()
		if same := e.Digest() == base.Digest(); same != circumstances[name] {
			t.Errorf("without %s the digest is the same: %v", name, same)
		}
	}
	e := full()
	e.Error.Details = json.RawMessage(`{"a":1}`)
	if e.Digest() == base.Digest() {
		t.Error("the details of an error do not count")
	}
	spaced := full()
	spaced.Answer, spaced.Schema = json.RawMessage(" 2 "), json.RawMessage("{ }")
	if spaced.Digest() != base.Digest() {
		t.Error("spacing counts")
	}
	if got := base.Digest(); len(got) != 32 {
		t.Errorf("the digest is %q", got)
	}
	// Ledgers hold digests, so a change would make repeats into conflicts.
	if got := (domain.Event{Type: domain.EventStart, Worker: "w1"}).Digest(); got != digestOf(`{"type":"start","atMs":0,"worker":"w1"}`) {
		t.Errorf("the digest of a plain start has changed to %s", got)
	}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// FuzzDigest: an event that has been through JSON has the digest it had.
func FuzzDigest(f *testing.F) {
	f.Add([]byte("some draws"))
	f.Add([]byte{17, 3, 9, 200, 31, 1, 7, 7, 7, 0, 5, 5, 5, 5, 90, 33, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		e := domaintest.GenFrom(data).Event(domain.Task{})
		before := e.Digest()
		raw, err := json.Marshal(e)
		if err != nil {
			return // A number that JSON doesn't have.
		}
		var back domain.Event
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if back.Digest() != before || e.Digest() != before {
			t.Fatalf("%s: %s, then %s", raw, before, back.Digest())
		}
		back.AtMs, back.Source, back.OccurredAtMs = 1<<40, "another way", 7
		if back.Digest() != before {
			t.Fatalf("%s: received otherwise it has another digest", raw)
		}
	})
}

func TestInline(t *testing.T) {
	t.Parallel()
	ref := func(hash string) string { return "blob:" + hash }
	e, content, err := domain.Inline(event(t, "succeed at=1"), ref)
	if err != nil || content != nil || e.ResultRef != "" {
		t.Errorf("without a result: %+v, %q (%v)", e, content, err)
	}
	want := sha256.Sum256([]byte(`{"a":[1,2],"b":"x y"}`))
	for _, raw := range []string{`{"a":[1,2],"b":"x y"}`, "{ \"a\" : [ 1,2 ],\n\t\"b\": \"x y\" }"} {
		e := domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(raw), ContentType: "text/html", Bytes: 99}
		got, content, err := domain.Inline(e, ref)
		if err != nil || string(content) != `{"a":[1,2],"b":"x y"}` {
			t.Fatalf("%s: %q (%v)", raw, content, err)
		}
		if got.ResultHash != hex.EncodeToString(want[:]) || got.ResultRef != "blob:"+got.ResultHash || got.Bytes != int64(len(content)) ||
			got.ContentType != "application/json" || got.Result != nil {
			t.Errorf("%s: %+v", raw, got)
		}
		if string(e.Result) != raw {
			t.Error("the argument was changed")
		}
	}
	for name, e := range map[string]domain.Event{
		"with a reference": {Result: json.RawMessage("1"), ResultRef: "r"},
		"with a hash":      {Result: json.RawMessage("1"), ResultHash: "h"},
		"no JSON":          {Result: json.RawMessage("{")},
		"two values":       {Result: json.RawMessage("1 2")},
	} {
		if _, _, err := domain.Inline(e, ref); field(err) != "event.result" || !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzInline: the reference names the content, and spacing makes no difference.
func FuzzInline(f *testing.F) {
	for _, seed := range []string{`{"a": 1}`, ` "x" `, `null`, `[1, 2,3]`, `{`, `"<&>"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, content, err := domain.Inline(domain.Event{Result: raw}, func(hash string) string { return hash })
		if valid := len(raw) == 0 || json.Valid(raw); valid != (err == nil) {
			t.Fatalf("%q: valid %v, %v", raw, valid, err)
		}
		if err != nil || len(raw) == 0 {
			return
		}
		sum := sha256.Sum256(content)
		if got.ResultRef != hex.EncodeToString(sum[:]) || got.Bytes != int64(len(content)) || len(content) > len(raw) {
			t.Fatalf("%q: %+v of %q", raw, got, content)
		}
		var wide bytes.Buffer
		if err := json.Indent(&wide, raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		again, _, err := domain.Inline(domain.Event{Result: wide.Bytes()}, func(hash string) string { return hash })
		if err != nil || again.ResultHash != got.ResultHash {
			t.Fatalf("%q: with other spacing another result (%v)", raw, err)
		}
	})
}

// TestRecordedEvents: history holds what was said, but no inline results and no
// lots.
func TestRecordedEvents(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1")
	e := full()
	e.Type, e.AtMs, e.Attempt = domain.EventSucceed, 5, 1
	tr, err := domain.Apply(now, e)
	if err != nil {
		t.Fatal(err)
	}
	got := tr.Task.History[1].Event
	e.Result, e.Jitter, e.RetryAtMs = nil, 0, 0
	if !reflect.DeepEqual(got, e) {
		t.Errorf("recorded %+v\nsent     %+v", got, e)
	}
	// The record of a wait is a time, not the lot that led to it.
	tr, err = domain.Apply(now, event(t, "fail at=5 retryable jitter=0.5"))
	if err != nil || tr.Task.History[1].Event.Jitter != 0 || tr.Task.History[1].Event.RetryAtMs != tr.Task.RetryAtMs || tr.Task.RetryAtMs != 105 {
		t.Errorf("recorded %+v, retry at %d (%v)", tr.Task.History[1].Event, tr.Task.RetryAtMs, err)
	}
}
