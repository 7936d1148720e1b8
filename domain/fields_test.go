package domain_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wakepoint/wakepoint/domain"
)

func yes(b bool) *bool { return &b }

// TestFields: what a life leaves in the record beside state and version. Each
// case names the fields that differ from those of a new task.
func TestFields(t *testing.T) {
	t.Parallel()
	boom := func(retryable bool) *domain.TaskError {
		return &domain.TaskError{Code: "IO", Message: "boom", Retryable: retryable}
	}
	lost := func(code string) *domain.TaskError {
		return &domain.TaskError{Code: code, Message: "the worker fell silent and the work could not be found", Retryable: code == domain.CodeWorkerLost}
	}
	for _, c := range []struct {
		name, life string
		want       func(t *domain.Task)
	}{
		{"new", "", func(*domain.Task) {}},
		{"started", "; start at=5 worker=w stage=warm", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Worker, t.Stage = "running", 1, 1, "w", "warm"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"progress keeps stage and cursor of the sender", "; start at=5; progress at=9 progress=7 stage=build cursor=line-3", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Progress, t.Stage, t.Cursor = "running", 1, 2, 7, "build", "line-3"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 9, 9
		}},
		{"progress without them keeps the old ones", "; start at=5; progress at=9 progress=7 stage=build cursor=line-3; progress at=11 progress=8", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Progress, t.Stage, t.Cursor = "running", 1, 3, 8, "build", "line-3"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 11, 11
		}},
		{"a heartbeat is heard, without a version", "; start at=5; heartbeat at=30", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 30, 5
		}},
		{"an older heartbeat is not heard later", "; start at=5; heartbeat at=30; heartbeat at=20", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 30, 5
		}},
		{"a repeat is not heard", "; start at=5; start at=30", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"succeeded", "; start at=5 worker=w; succeed at=9 ref=r hash=h contentType=text/plain bytes=12", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Progress, t.Worker = "succeeded", 1, 2, 100, "w"
			t.ResultRef, t.ResultHash, t.ContentType, t.ResultBytes = "r", "h", "text/plain", 12
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 9
			t.EndedBy = "callback"
		}},
		{"requeued", "; start at=5 worker=w; progress at=6 progress=50; fail at=9 retryable error=boom code=IO", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Worker, t.Error, t.Submission = "queued", 1, 3, "w", boom(true), 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.RetryAtMs = 5, 9, 6, 109
		}},
		{"started again", "; start at=5 worker=w stage=old; fail at=9 retryable error=boom code=IO; start at=200 worker=w2", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Worker, t.Error, t.Submission = "running", 2, 3, "w2", boom(true), 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 200, 200, 200
		}},
		{"failed", "; start at=5; fail at=9 error=boom code=IO", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Error, t.Submission = "failed", 1, 2, boom(false), 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 9
			t.EndedBy = "callback"
		}},
		{"failed without a word", "; start at=5; fail at=9", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Submission = "failed", 1, 2, 1
			t.Error = &domain.TaskError{Message: "failed without saying why"}
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 9
			t.EndedBy = "callback"
		}},
		{"expired ends at its deadline, whoever was late", "; start at=5; progress at=4000 progress=9", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "expired", 1, 2
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 1000
			t.EndedBy = "timer"
		}},
		{"an expiry ends a retry wait", "; start at=5; fail at=990 retryable error=boom code=IO; expire at=1000", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Error, t.Submission = "expired", 1, 3, boom(true), 1
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 990, 5, 1000
			t.EndedBy = "timer"
		}},
		{"a late result", "late=record; expire at=1000; succeed at=1005 ref=r hash=h", func(t *domain.Task) {
			t.State, t.Version, t.EndedAtMs, t.Policy.LatePolicy = "expired", 2, 1000, "record"
			t.Late = &domain.LateResult{ResultRef: "r", ResultHash: "h", AtMs: 1005}
			t.EndedBy = "timer"
		}},
		{"asked to cancel", "; start at=5; cancel-requested at=8 by=ann reason=dear", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 2
			t.Cancel = &domain.CancelRequest{AtMs: 8, Reason: "dear", By: "ann"}
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"cancelled and confirmed", "; start at=5; cancel-requested at=8 by=ann; cancelled at=9", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Submission, t.Confirmed = "cancelled", 1, 3, 1, yes(true)
			t.Cancel = &domain.CancelRequest{AtMs: 8, By: "ann"}
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 9
			t.EndedBy = "callback"
		}},
		{"cancelled, unconfirmed: the submission stays", "; start at=5; cancel-requested at=8; cancel-timeout at=9", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Confirmed = "cancelled", 1, 3, yes(false)
			t.Cancel = &domain.CancelRequest{AtMs: 8}
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs, t.EndedAtMs = 5, 5, 5, 9
			t.EndedBy = "timer"
		}},
		{"suspected at the epoch is suspected", "; start at=0; suspect at=0", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.SuspectedAtMs = "running", 1, 2, 1
		}},
		{"heard of again", "; start at=5; suspect at=50; lease-renewed at=55", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 3
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 55, 5
		}},
		{"lost, to be tried again", "; start at=5; suspect at=50; requeue at=55", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.RetryAtMs, t.Error = "queued", 1, 3, 155, lost(domain.CodeWorkerLost)
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"lost, and doing it twice does harm", "effects=unsafe; start at=5; suspect at=50; requeue at=55", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.EndedAtMs, t.Error = "failed", 1, 3, 55, lost(domain.CodeOutcomeUnknown)
			t.Policy.Effects = "unsafe"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"asked and answered", `; start at=5; input-required at=8 question=q prompt=why? schema={}; answer at=9 question=q answer=[1] by=ann`, func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 3
			t.Questions = []domain.Question{{
				QuestionID: "q", Prompt: "why?", Schema: json.RawMessage("{}"), AskedAtMs: 8,
				Answer: json.RawMessage("[1]"), AnsweredBy: "ann", AnsweredAtMs: 9,
			}}
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 8, 5
		}},
		{"retried by hand", "; start at=5 stage=x; cancel-requested at=8 by=ann; cancelled at=9; retry at=20 ttl=50", func(t *domain.Task) {
			t.State, t.Attempts, t.MaxAttempts, t.Version, t.Submission, t.Retries = "queued", 1, 3, 4, 1, 1
			t.ExpiresAtMs, t.Stage = 70, "x"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"retried by hand with an error: it stays readable", "; start at=5; fail at=9 error=boom code=IO; retry at=20 ttl=50", func(t *domain.Task) {
			t.State, t.Attempts, t.MaxAttempts, t.Version, t.Submission, t.Retries, t.Error = "queued", 1, 3, 3, 1, 1, boom(false)
			t.ExpiresAtMs = 70
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"for a person, and then undone without luck", "effects=unsafe unknown=manual; start at=5; suspect at=50; requeue at=55 compensation=undo_1; compensated at=60 error=stuck code=IO", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Error = "running", 1, 4, lost(domain.CodeOutcomeUnknown)
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
			t.Manual = &domain.Manual{SinceMs: 55, Why: t.Error.Message, Compensation: "undo_1", CompensationFailed: "IO: stuck"}
		}},
		{"undone without a word, at the epoch", "effects=unsafe unknown=manual; start at=0; requeue at=0 error=gone compensation=undo_1; compensated at=0 code=", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Error = "running", 1, 3, &domain.TaskError{Code: domain.CodeOutcomeUnknown, Message: "gone"}
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.Manual = &domain.Manual{SinceMs: 1, Why: "gone", Compensation: "undo_1", CompensationFailed: "failed without saying why"}
		}},
		{"heard of again by the person's side of it", "effects=unsafe unknown=manual; start at=5; requeue at=55; heartbeat at=60", func(t *domain.Task) {
			t.State, t.Attempts, t.Version = "running", 1, 3
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 60, 5
		}},
		{"found done by a person", "effects=unsafe unknown=manual; start at=5; requeue at=55; resolve at=60 action=succeeded ref=r hash=h contentType=text/plain bytes=3 by=ann", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Progress, t.EndedAtMs, t.EndedBy = "succeeded", 1, 3, 100, 60, "ann"
			t.ResultRef, t.ResultHash, t.ContentType, t.ResultBytes = "r", "h", "text/plain", 3
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"found not done by a person: the next submission is a new one", "effects=unsafe unknown=manual; start at=5; requeue at=55; resolve at=60 action=failed by=ann", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Submission, t.EndedAtMs, t.EndedBy = "failed", 1, 3, 1, 60, "ann"
			t.Error = &domain.TaskError{Code: domain.CodeNotDone, Message: "a person found out that the work was not done"}
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"found not done, and the person says why", "effects=unsafe unknown=manual; start at=5; requeue at=55; resolve at=60 action=failed error=boom code=IO", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Submission, t.EndedAtMs, t.Error = "failed", 1, 3, 1, 60, boom(false)
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 5, 5
		}},
		{"to be done again, at once and under the same submission", "effects=unsafe unknown=manual max=1; start at=5; progress at=6 progress=9; input-required at=7 question=q prompt=p; requeue at=55; resolve at=60 action=repeat", func(t *domain.Task) {
			t.State, t.Attempts, t.MaxAttempts, t.Version, t.DecidedFor = "queued", 1, 2, 5, 2
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 7, 6
		}},
		{"undone: the next submission is a new one, after the wait", "effects=unsafe unknown=manual; start at=5; progress at=6 progress=9; requeue at=55 compensation=undo_1; compensated at=60 retryAfter=500", func(t *domain.Task) {
			t.State, t.Attempts, t.Version, t.Submission, t.RetryAtMs = "queued", 1, 4, 1, 560
			t.Error = &domain.TaskError{Code: domain.CodeCompensated, Class: domain.ClassSystem, Retryable: true, Message: "what the attempt may have done was undone by task undo_1"}
			t.Policy.Effects, t.Policy.OnUnknown = "unsafe", "manual"
			t.StartedAtMs, t.LastHeardAtMs, t.LastProgressAtMs = 5, 6, 6
		}},
		{"shared by several", "run=run-1 call=c1; attach at=0 waiter=b run=run-2 call=c2; attach at=4 waiter=c; detach at=6 waiterId=submitter reason=wait-timeout; cancel-requested at=0 waiterId=b", func(t *domain.Task) {
			t.Version, t.RunID, t.ToolCallID = 4, "run-1", "c1"
			t.Waiters = []domain.Waiter{
				{ID: "submitter", RunID: "run-1", ToolCallID: "c1", LeftAtMs: 6, LeftFor: "wait-timeout"},
				{ID: "b", RunID: "run-2", ToolCallID: "c2", LeftAtMs: 1, LeftFor: "cancelled"},
				{ID: "c", AtMs: 4},
			}
		}},
		{"one that comes back has not left", "; attach at=2 waiter=b run=run-2; detach at=3 waiterId=b; attach at=5 waiter=b run=run-3", func(t *domain.Task) {
			t.Version = 3
			t.Waiters = []domain.Waiter{{ID: "b", RunID: "run-3", AtMs: 5}}
		}},
	} {
		got := task(t, c.life)
		want := task(t, "")
		c.want(&want)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(domain.Task{}, "History")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if int64(len(got.History)) != got.Version {
			t.Errorf("%s: %d entries at version %d", c.name, len(got.History), got.Version)
		}
	}
}

// TestTaskJSON: a record comes back from JSON as it was, and its names are
// those that others read.
func TestTaskJSON(t *testing.T) {
	t.Parallel()
	now := task(t, `late=record lease=9; start at=5 worker=w; input-required at=6 question=q prompt=p; answer at=7 question=q answer=[1]; cancel-requested at=8 by=ann; fail at=9 error=boom`)
	now.Tenant, now.RunID, now.ToolCallID, now.Tool, now.Title = "acme", "run", "call", "tool", "title"
	now.IdempotencyKey, now.Priority, now.Labels, now.ResultTTLMs = "key", 2, map[string]string{"a": "b"}, 5
	now.Waiters = []domain.Waiter{{ID: "submitter", RunID: "run", ToolCallID: "call", AtMs: 1, LeftAtMs: 2, LeftFor: "wait-timeout"}}
	now.Manual = &domain.Manual{SinceMs: 3, Why: "lost", Compensation: "undo_1", CompensationFailed: "stuck"}
	now.DecidedFor = 2
	now.Policy.OnUnknown, now.Policy.ExpectsCallback, now.Policy.ShowsStall = "manual", true, true
	now.Late, now.Confirmed = &domain.LateResult{ResultRef: "r", ResultHash: "h", AtMs: 3}, yes(false)
	raw, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/task.json", string(raw)+"\n")
	var back domain.Task
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(back, "", "  ")
	if err != nil || string(again) != string(raw) {
		t.Errorf("it came back as %s (%v)", again, err)
	}
}

// TestCreateKeepsTheRecord: what a task belongs to is in its record from the
// start.
func TestCreateKeepsTheRecord(t *testing.T) {
	t.Parallel()
	c := domain.Create{
		ID: "t", NowMs: 5, TTLMs: 10, MaxAttempts: 3, Tenant: "acme", RunID: "run", ToolCallID: "call", Tool: "tool", Title: "title",
		IdempotencyKey: "key", Priority: 2, Labels: map[string]string{"a": "b"}, ResultTTLMs: 7, Policy: domain.Policy{LeaseMs: 9},
	}
	got, err := domain.New(c)
	if err != nil {
		t.Fatal(err)
	}
	want := domain.Task{
		ID: "t", State: domain.StateQueued, ExpiresAtMs: 15, MaxAttempts: 3, History: []domain.Entry{}, Tenant: "acme", RunID: "run",
		ToolCallID: "call", Tool: "tool", Title: "title", IdempotencyKey: "key", Priority: 2, CreatedAtMs: 5,
		Labels: map[string]string{"a": "b"}, Policy: domain.Policy{LeaseMs: 9}, ResultTTLMs: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
