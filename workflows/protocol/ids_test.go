package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// maxID is the length of an id in the SQL stores of Temporal.
const maxID = 255

func TestWorkflowIDs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ got, want string }{
		{protocol.TaskWorkflowID("acme", "t-1"), "acme/task/t-1"},
		{protocol.RunWorkflowID("acme", "r.1"), "acme/run/r.1"},
		{protocol.DeliveryWorkflowID("acme", "k"), "acme/delivery/8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"},
		{protocol.SweepScheduleID("acme", ""), "acme/sweep"},
		{protocol.SweepScheduleID("acme", "host-7"), "acme/sweep/host-7"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	tenant, id := strings.Repeat("t", domain.MaxTenant), strings.Repeat("i", domain.MaxID)
	for _, long := range []string{
		protocol.TaskWorkflowID(tenant, id), protocol.RunWorkflowID(tenant, id), protocol.DeliveryWorkflowID(tenant, strings.Repeat("k", domain.MaxRef)),
		protocol.CallbackUpdateID(strings.Repeat("c", domain.MaxCallbackID)), protocol.AnswerUpdateID(strings.Repeat("q", domain.MaxCallbackID), strings.Repeat("d", 64)),
	} {
		if len(long) > maxID {
			t.Errorf("%d bytes: %s", len(long), long)
		}
	}
}

func TestParseWorkflowIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"", "acme", "acme/task", "acme/task/", "/task/t1", "acme/run/t1", "acme/task/a/b", "acme/task/ü", "acme/task/t 1", "a b/task/t1",
		"acme/Task/t1", "acme/delivery/x", " acme/task/t1", strings.Repeat("t", 33) + "/task/t1", "acme/task/" + strings.Repeat("i", 129),
	} {
		if tenant, task, err := protocol.ParseTaskWorkflowID(id); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%q is taken for task %q of %q", id, task, tenant)
		}
	}
	if _, _, err := protocol.ParseRunWorkflowID("acme/task/t1"); !errors.Is(err, domain.ErrInvalid) {
		t.Error("a task is taken for a run")
	}
	tenant, run, err := protocol.ParseRunWorkflowID("acme/run/r1")
	if tenant != "acme" || run != "r1" || err != nil {
		t.Error(tenant, run, err)
	}
}

func FuzzTaskWorkflowID(f *testing.F) {
	f.Add("acme", "t1")
	f.Add("a/b", "c")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, tenant, task string) {
		id := protocol.TaskWorkflowID(tenant, task)
		gotTenant, gotTask, err := protocol.ParseTaskWorkflowID(id)
		sound := domain.CheckTenant(tenant) == nil && domain.CheckID("taskId", task) == nil
		if sound != (err == nil) {
			t.Fatalf("%q: sound %v, parsed with %v", id, sound, err)
		}
		if err == nil && (gotTenant != tenant || gotTask != task) {
			t.Fatalf("%q came back as %q and %q", id, gotTenant, gotTask)
		}
		if sound && len(id) > maxID {
			t.Fatalf("%d bytes", len(id))
		}
	})
}

// Any text can be parsed without harm, and what parses is built the same again.
func FuzzParseWorkflowID(f *testing.F) {
	for _, s := range []string{"acme/task/t1", "acme/run/r1", "//", "a/task/b/c", "\xff/task/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if tenant, task, err := protocol.ParseTaskWorkflowID(id); err == nil && protocol.TaskWorkflowID(tenant, task) != id {
			t.Fatalf("%q is read as %q and %q", id, tenant, task)
		}
		if tenant, run, err := protocol.ParseRunWorkflowID(id); err == nil && protocol.RunWorkflowID(tenant, run) != id {
			t.Fatalf("%q is read as %q and %q", id, tenant, run)
		}
	})
}

// Temporal has one space of update ids for a workflow. Ids of callbacks are told
// from each other and from those of answers, whatever senders call theirs.
func FuzzUpdateIDs(f *testing.F) {
	digest := strings.Repeat("0f", 16)
	long := strings.Repeat("x", 200)
	f.Add("q1", "q1", digest)
	f.Add("ans/q1/"+digest, "q1", digest)
	f.Add(protocol.AnswerUpdateID(long, digest), long, digest)
	f.Add(strings.TrimPrefix(protocol.CallbackUpdateID(long), "cb/"), long, digest)
	f.Add(long, long[:199], digest)
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, a, b, digest string) {
		ca, cb := protocol.CallbackUpdateID(a), protocol.CallbackUpdateID(b)
		if (a == b) != (ca == cb) {
			t.Fatalf("callbacks %q and %q have the update ids %q and %q", a, b, ca, cb)
		}
		for _, answer := range []string{protocol.AnswerUpdateID(b, digest), protocol.AnswerUpdateID(a, digest)} {
			if ca == answer || cb == answer {
				t.Fatalf("callback %q and answer (%q, %q) share the update id %q", a, b, digest, answer)
			}
			if len(answer) > maxID {
				t.Fatalf("%d bytes: %q", len(answer), answer)
			}
		}
		if len(ca) > maxID {
			t.Fatalf("%d bytes: %q", len(ca), ca)
		}
		if len(a) <= 160 && !strings.HasPrefix(a, "#") && ca != "cb/"+a {
			t.Fatalf("%q is not readable in %q", a, ca)
		}
	})
}

// Two people who answer alike are one answer, two who differ are two.
func TestAnswerUpdateIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, q := range []string{"q", "q1", strings.Repeat("q", 159), strings.Repeat("q", 160), strings.Repeat("q", 200), "#q"} {
		for _, text := range []string{`1`, `2`, `"1"`, `{"a":1}`} {
			d := domain.Event{Type: domain.EventAnswer, QuestionID: q, Answer: []byte(text)}.Digest()
			id := protocol.AnswerUpdateID(q, d)
			if was, ok := seen[id]; ok {
				t.Errorf("%s %s has the update id of %s", q, text, was)
			}
			seen[id] = q + " " + text
			if protocol.AnswerUpdateID(q, d) != id {
				t.Error("the same answer has another id")
			}
		}
	}
}

func FuzzDeliveryWorkflowID(f *testing.F) {
	f.Add("acme", "k1", "k2")
	f.Add("acme", "", "\xff")
	f.Fuzz(func(t *testing.T, tenant, a, b string) {
		x, y := protocol.DeliveryWorkflowID(tenant, a), protocol.DeliveryWorkflowID(tenant, b)
		if (a == b) != (x == y) {
			t.Fatalf("keys %q and %q: %q and %q", a, b, x, y)
		}
		if domain.CheckTenant(tenant) == nil && len(x) > maxID {
			t.Fatalf("%d bytes", len(x))
		}
		if len(a) > 3 && strings.Contains(strings.TrimPrefix(x, tenant), a) && len(a) > 64 {
			t.Fatalf("the key stands in the id: %q", x)
		}
	})
}
