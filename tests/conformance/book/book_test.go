package book_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/tests/conformance/book"
)

// check plays operations, one a line, and gives the first difference.
func check(t *testing.T, ops string) string {
	t.Helper()
	c := book.Conversation{Name: "mine"}
	for line := range strings.SplitSeq(strings.TrimSpace(ops), "\n") {
		var op book.Op
		if err := json.Unmarshal([]byte(line), &op); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		c.Ops = append(c.Ops, op)
	}
	return book.Check(c)
}

const (
	create = `{"op":"create","input":{"id":"t","nowMs":0,"ttlMs":100,"maxAttempts":1},"want":{"ok":` + fresh + `}}`
	fresh  = `{"id":"t","state":"queued","expiresAtMs":100,"attempts":0,"maxAttempts":1,"progress":0,"version":0,"history":[]}`
)

// TestBook plays what the recorded conversations do not hold.
func TestBook(t *testing.T) {
	t.Parallel()
	for name, ops := range map[string]string{
		"a create with an id that exists replaces the task": create + `
{"op":"apply","taskId":"t","event":{"type":"expire","atMs":100},"want":{"ok":{"task":{"id":"t","state":"expired","expiresAtMs":100,"attempts":0,"maxAttempts":1,"progress":0,"version":1,"history":[{"version":1,"event":{"type":"expire","atMs":100}}]},"changed":true,"duplicate":false,"notify":true,"reason":"expired","duplicateCallback":false}}}
` + create,
		"callback ids are of the whole book, and come before the event": create + `
{"op":"apply","taskId":"t","callbackId":"c","event":{"type":"progress","atMs":5,"progress":5},"want":{"ok":{"task":` + fresh + `,"changed":false,"duplicate":false,"notify":false,"reason":"not-running","duplicateCallback":false}}}
{"op":"apply","taskId":"t","callbackId":"c","event":{"type":"start","atMs":-5},"want":{"ok":{"task":` + fresh + `,"changed":false,"duplicate":true,"notify":false,"reason":"duplicate-callback","duplicateCallback":true}}}
{"op":"apply","taskId":"unknown","callbackId":"c","event":{"type":"start","atMs":5},"want":{"error":"invalid-request"}}`,
		"numbers that are missing or no numbers are invalid": create + `
{"op":"apply","taskId":"t","event":{"type":"start"},"want":{"error":"invalid-request"}}
{"op":"apply","taskId":"t","event":{"type":"start","atMs":null},"want":{"error":"invalid-request"}}
{"op":"apply","taskId":"t","event":{"type":"start","atMs":"5"},"want":{"error":"invalid-request"}}
{"op":"create","input":{"id":"u","ttlMs":100,"maxAttempts":1},"want":{"error":"invalid-request"}}
{"op":"create","input":{"id":"u","nowMs":null,"ttlMs":100,"maxAttempts":1},"want":{"error":"invalid-request"}}
{"op":"create","input":{"id":"u","nowMs":0,"ttlMs":100,"maxAttempts":1.5},"want":{"error":"invalid-request"}}
{"op":"resume","taskId":"t","cursor":null,"want":{"error":"invalid-request"}}
{"op":"resume","taskId":"t","want":{"error":"invalid-request"}}
{"op":"resume","taskId":"t","cursor":0.5,"want":{"error":"invalid-request"}}
{"op":"deliver","taskId":"t","idempotencyKey":"k","nowMs":null,"want":{"error":"invalid-request"}}
{"op":"deliver","taskId":"t","idempotencyKey":"k","want":{"error":"invalid-request"}}`,
		"whole numbers may be written as floats": `
{"op":"create","input":{"id":"t","nowMs":0.0,"ttlMs":1e2,"maxAttempts":1},"want":{"ok":` + fresh + `}}
{"op":"resume","taskId":"t","cursor":0.0,"want":{"ok":{"mode":"caught-up","events":[],"task":` + fresh + `}}}`,
		"a progress that is no number is looked at after the state": create + `
{"op":"apply","taskId":"t","event":{"type":"progress","atMs":5,"progress":"5"},"want":{"ok":{"task":` + fresh + `,"changed":false,"duplicate":false,"notify":false,"reason":"not-running","duplicateCallback":false}}}`,
	} {
		if d := check(t, ops); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestUnknownOperation is a difference, whatever was wanted.
func TestUnknownOperation(t *testing.T) {
	t.Parallel()
	if d := check(t, `{"op":"explode","want":{"error":"invalid-request"}}`); !strings.Contains(d, "unknown operation") {
		t.Errorf("%q", d)
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		got  any
		same bool
	}{
		{`{"ok":{"a":1,"b":[2]}}`, map[string]any{"b": []int{2}, "a": 1}, true},
		{`{"ok":{"a":1}}`, map[string]any{"a": 2}, false},
		{`{"ok":{"a":1}}`, map[string]any{"a": 1, "b": nil}, false},
		{`{"error":"invalid-request"}`, map[string]any{}, false},
		{`broken`, map[string]any{}, false},
		{`{"ok":1}`, func() {}, false},
	} {
		if d := book.Difference(json.RawMessage(c.want), c.got, nil); (d == "") != c.same {
			t.Errorf("%s against %v: %q", c.want, c.got, d)
		}
	}
}
