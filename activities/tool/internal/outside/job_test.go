package outside_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, tc := range []struct {
		key, id string
		// back is what the id tells of the key.
		back string
	}{
		{"acme/task_01/1", "acme/job/task_01/1", "acme/task_01/1"},
		{"acme/a.b_c-D/12", "acme/job/a.b_c-D/12", "acme/a.b_c-D/12"},
		{"acme/job/x/1", "acme/job/job/x/1", "acme/job/x/1"},
		{"acme/" + strings.Repeat("k", 235), "acme/job/" + strings.Repeat("k", 235), "acme/" + strings.Repeat("k", 235)},
		{"acme/" + strings.Repeat("k", 236), "", ""},
		{"acme/with space", "", ""},
		{"acme/sha256-00", "", ""},
		{"no tenant", "", ""},
		{"plain", "", ""},
		{"/x", "", ""},
		{strings.Repeat("t", 33) + "/x", "", ""},
	} {
		id := outside.ID(tc.key)
		if tc.back != "" && id != tc.id {
			t.Errorf("id of %q is %q, want %q", tc.key, id, tc.id)
		}
		if tc.back == "" && !strings.Contains(id, "/job/sha256-") {
			t.Errorf("id of %q is %q, want a hash", tc.key, id)
		}
		if len(id) > 255 {
			t.Errorf("id of %q has %d bytes", tc.key, len(id))
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have the same id", tc.key, other)
		}
		seen[id] = tc.key
		if back, ours := outside.Key(id); back != tc.back || !ours {
			t.Errorf("key of %q is %q, ours: %v, want %q", id, back, ours, tc.back)
		}
	}
}

func TestIDsOfOthers(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "order-7", "acme/task/task_01", "/job/x", "a/b/job/x", "acme/job/", "acme/job/with space"} {
		if key, ours := outside.Key(id); ours {
			t.Errorf("%q is taken for the job of %q", id, key)
		}
	}
}

func request() tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "t", Attempt: 1, SubmissionKey: "acme/t/1", Input: json.RawMessage(`{"a":1}`)}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for rule, spoil := range map[string]func(*tool.Request){
		"submissionKey must not be blank":                                     func(r *tool.Request) { r.SubmissionKey = " " },
		"submissionKey must have at most 512 bytes and no control characters": func(r *tool.Request) { r.SubmissionKey = "a\x00" },
		"tenant must not be empty or contain control characters":              func(r *tool.Request) { r.Tenant = "" },
		"taskId must not be empty or contain control characters":              func(r *tool.Request) { r.TaskID = "a\n" },
		"attempt must be 1 or more":                                           func(r *tool.Request) { r.Attempt = 0 },
		"deadlineAtMs must not be negative":                                   func(r *tool.Request) { r.DeadlineAtMs = -1 },
		"input must have at most 1048576 bytes":                               func(r *tool.Request) { r.Input = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) },
		"input must be JSON":                                                  func(r *tool.Request) { r.Input = json.RawMessage(`{`) },
	} {
		req := request()
		spoil(&req)
		want(t, outside.Check(&req), outside.CodeInvalidRequest, rule)
	}
	req := request()
	req.Input = json.RawMessage(" ")
	if err := outside.Check(&req); err != nil || string(req.Input) != "{}" {
		t.Errorf("absent input: %v, input %s", err, req.Input)
	}
}

// want checks that an error is a definite one.
func want(t *testing.T, err error, code, message string) {
	t.Helper()
	f, ok := tool.DefiniteFailure(err)
	if !ok || f.Code != code || f.Message != message || f.Retryable {
		t.Errorf("got %v (%+v), want a definite %s: %s", err, f, code, message)
	}
}

func TestReuse(t *testing.T) {
	t.Parallel()
	had := outside.NewRecord("pay", request())
	same := request()
	same.Attempt, same.Input = 2, json.RawMessage(` { "a" : 1 } `)
	if err := outside.NewRecord("pay", same).Reused(had); err != nil {
		t.Errorf("a later attempt: %v", err)
	}
	for differs, rec := range map[string]outside.Record{
		"submission key": {},
		"tenant":         {SubmissionKey: had.SubmissionKey},
		"task":           {SubmissionKey: had.SubmissionKey, Tenant: "acme"},
		"tool":           {SubmissionKey: had.SubmissionKey, Tenant: "acme", TaskID: "t"},
		"input":          {SubmissionKey: had.SubmissionKey, Tenant: "acme", TaskID: "t", Tool: "pay"},
	} {
		want(t, rec.Reused(had), outside.CodeKeyReused, `submissionKey "`+rec.SubmissionKey+`" was used with another `+differs)
	}
}

// Two inputs that differ in a digit that a float64 can't hold are two inputs.
func TestInputHash(t *testing.T) {
	t.Parallel()
	hash := func(input string) string {
		req := request()
		req.Input = json.RawMessage(input)
		return outside.NewRecord("pay", req).InputHash
	}
	if hash(`{"n": 9007199254740993}`) == hash(`{"n": 9007199254740992}`) {
		t.Error("large numbers are rounded")
	}
	if hash(`{"a":1,"b":[2]}`) != hash(`{ "b": [2], "a": 1 }`) {
		t.Error("the order of fields counts")
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		spread      bool
		input, want string
	}{
		{false, `{"a":1}`, `[{"a":1}]`},
		{false, `[1,2]`, `[[1,2]]`},
		{true, `[1,"b",null,{"c":2}]`, `[1,"b",null,{"c":2}]`},
		{true, `[]`, `[]`},
	} {
		args, err := outside.Args(tc.spread, json.RawMessage(tc.input))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc, diff)
		}
	}
	for _, input := range []string{`{}`, `null`, `"x"`} {
		_, err := outside.Args(true, json.RawMessage(input))
		want(t, err, outside.CodeInvalidInput, "the input must be an array, its elements are the arguments")
	}
}

func TestLeft(t *testing.T) {
	t.Parallel()
	if left, err := outside.Left(0); left != 0 || err != nil {
		t.Errorf("no deadline: %v, %v", left, err)
	}
	if left, err := outside.Left(time.Now().Add(time.Hour).UnixMilli()); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("an hour: %v, %v", left, err)
	}
	_, err := outside.Left(1)
	want(t, err, outside.CodeTimeout, "the deadline has passed already")
}

func TestHandles(t *testing.T) {
	t.Parallel()
	h, err := outside.Handle("activity", outside.NewRecord("pay", request()), "run-1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := outside.Resolve("activity", h)
	if diff := cmp.Diff(outside.Data{SubmissionKey: "acme/t/1", Tenant: "acme", TaskID: "t", Attempt: 1, RunID: "run-1"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, spoil := range map[string]func(*tool.Handle){
		"another executor": func(h *tool.Handle) { h.Executor = "workflow" },
		"another id":       func(h *tool.Handle) { h.ID = "acme/job/u/1" },
		"no data":          func(h *tool.Handle) { h.Data = nil },
		"no run":           func(h *tool.Handle) { h.Data = json.RawMessage(`{"submissionKey":"acme/t/1"}`) },
	} {
		bad := h
		spoil(&bad)
		if _, err := outside.Resolve("activity", bad); err == nil {
			t.Errorf("%s: the handle is taken", name)
		}
	}
}
