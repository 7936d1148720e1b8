package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// start is when every task of the tests was submitted; now is a minute later.
const start = int64(1_767_323_045_000) // 2026-01-02 03:04:05 UTC

var now = time.UnixMilli(start + 60_000)

// fake is a client whose tasks are scripted.
type fake struct {
	tasks   map[string]starter.Description
	changes map[string][]starter.Change
	results map[string][]byte
	listing starter.Listing
	logs    []starter.LogChunk
	verdict starter.Verdict
	outcome domain.Outcome
	deliver domain.Delivered
	hb      starter.HeartbeatAnswer
	attach  starter.Attached
	retried starter.Retried
	err     error
	fakeRuns

	submitted  starter.Submitted
	manual     starter.ManualListing
	reconciled []starter.ReconciledTask
	orphaned   starter.Orphaned
	swept      []starter.Swept
	// hang lists tasks that never end.
	hang map[string]bool
	// onCancel is told of every cancel.
	onCancel func(taskID string)
	// onDescribe is told before every description.
	onDescribe func(taskID string)

	mu    sync.Mutex
	calls []string
}

// called notes a call as JSON.
func (f *fake) called(name string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, a := range args {
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		parts = append(parts, string(b))
	}
	f.calls = append(f.calls, name+" "+strings.Join(parts, " "))
	return f.err
}

func (f *fake) Submit(_ context.Context, s starter.Submission) (starter.Submitted, error) {
	id := "task_" + s.Tool
	if s.TaskID != "" {
		id = s.TaskID
	}
	err := f.called("submit", s, s.TTL.String())
	if f.submitted.TaskID != "" {
		return f.submitted, err
	}
	return starter.Submitted{
		TaskID: id, Status: starter.StatusAccepted, State: domain.StateQueued, Existing: s.IdempotencyKey == "again", PollAfterSeconds: 2,
		SupportsCancel: true, ExpiresAtMs: start + 3_600_000, WorkflowID: "default/task/" + id,
	}, err
}

func (f *fake) Describe(_ context.Context, taskID string) (starter.Description, error) {
	if err := f.called("describe", taskID); err != nil {
		return starter.Description{}, err
	}
	if f.onDescribe != nil {
		f.onDescribe(taskID)
	}
	d, ok := f.tasks[taskID]
	if !ok {
		return d, &starter.Error{Code: starter.CodeUnknownTask, Message: "there is no task " + taskID}
	}
	return d, nil
}

func (f *fake) Watch(ctx context.Context, taskID string, cursor int64) iter.Seq2[starter.Change, error] {
	return func(yield func(starter.Change, error) bool) {
		if err := f.called("watch", taskID, cursor); err != nil {
			yield(starter.Change{}, err)
			return
		}
		f.mu.Lock()
		changes, ok := f.changes[taskID]
		hang := f.hang[taskID]
		f.mu.Unlock()
		if !ok {
			yield(starter.Change{}, &starter.Error{Code: starter.CodeUnknownTask, Message: "there is no task " + taskID})
			return
		}
		for _, ch := range changes {
			if !yield(ch, nil) {
				return
			}
		}
		if hang {
			<-ctx.Done()
			yield(starter.Change{}, context.Cause(ctx))
		}
	}
}

// bytesReader is a result in memory.
type bytesReader []byte

func (b bytesReader) Range(_ context.Context, offset, length int64) ([]byte, int64, error) {
	total := int64(len(b))
	if offset > total {
		return nil, total, &starter.Error{Code: starter.CodeInvalid, Field: "offset", Message: "offset must lie within the result"}
	}
	return b[offset:min(offset+length, total)], total, nil
}

func (b bytesReader) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (f *fake) Result(_ context.Context, taskID string, late bool) (starter.Result, cli.Reader, error) {
	if err := f.called("result", taskID, late); err != nil {
		return starter.Result{}, nil, err
	}
	b, ok := f.results[taskID]
	if !ok {
		return starter.Result{}, nil, &starter.Error{Code: starter.CodeNotSucceeded, Message: "task " + taskID + " is failed", Hint: "retry it"}
	}
	return starter.Result{TaskID: taskID, Ref: "blob:x", Hash: "abc", ContentType: "application/json", Bytes: int64(len(b))}, bytesReader(b), nil
}

func (f *fake) Logs(_ context.Context, taskID string, r starter.LogRequest) iter.Seq2[starter.LogChunk, error] {
	return func(yield func(starter.LogChunk, error) bool) {
		err := f.called("logs", taskID, r)
		for _, l := range f.logs {
			if !yield(l, nil) {
				return
			}
		}
		if err != nil {
			yield(starter.LogChunk{}, err)
		}
	}
}

func (f *fake) Cancel(_ context.Context, taskID string, c protocol.Cancel) (domain.Outcome, error) {
	err := f.called("cancel", taskID, c)
	if f.onCancel != nil {
		f.onCancel(taskID)
	}
	return f.outcome, err
}

func (f *fake) Retry(_ context.Context, taskID string, r starter.Retry) (starter.Retried, error) {
	return f.retried, f.called("retry", taskID, r)
}

func (f *fake) Callback(_ context.Context, taskID string, cb domain.Callback) (starter.Verdict, error) {
	return f.verdict, f.called("callback", taskID, cb)
}

func (f *fake) Signal(_ context.Context, taskID string, cb domain.Callback) error {
	return f.called("signal", taskID, cb)
}

func (f *fake) Heartbeat(_ context.Context, taskID string, hb starter.Heartbeat) (starter.HeartbeatAnswer, error) {
	return f.hb, f.called("heartbeat", taskID, hb)
}

func (f *fake) Answer(_ context.Context, taskID string, a protocol.Answer) (domain.Outcome, error) {
	return f.outcome, f.called("answer", taskID, a)
}

func (f *fake) Attach(_ context.Context, taskID string, a protocol.Attach) (starter.Attached, error) {
	return f.attach, f.called("attach", taskID, a)
}

func (f *fake) Detach(_ context.Context, taskID string, d protocol.Detach) (domain.Outcome, error) {
	return f.outcome, f.called("detach", taskID, d)
}

func (f *fake) Resolve(_ context.Context, taskID string, r protocol.Resolve) (domain.Outcome, error) {
	return f.outcome, f.called("resolve", taskID, r)
}

func (f *fake) Manual(_ context.Context, r starter.ManualRequest) (starter.ManualListing, error) {
	return f.manual, f.called("manual", r)
}

func (f *fake) ReconcileAll(_ context.Context, r starter.ReconcileRequest) ([]starter.ReconciledTask, error) {
	return f.reconciled, f.called("reconcile", r)
}

func (f *fake) Orphans(_ context.Context, r starter.OrphansRequest) (starter.Orphaned, error) {
	return f.orphaned, f.called("orphans", r)
}

func (f *fake) Deliver(_ context.Context, taskID, key string) (domain.Delivered, error) {
	return f.deliver, f.called("deliver", taskID, key)
}

func (f *fake) DeliveryStatus(_ context.Context, key string) (protocol.DeliveryRecord, error) {
	return protocol.DeliveryRecord{Key: key, Kind: protocol.DeliveryWebhook, Target: "ops", TaskID: "t1", State: protocol.DeliveryDeadLetter, LastError: "status 500"}, f.called("delivery", key)
}

func (f *fake) Redeliver(_ context.Context, key string, r protocol.Redeliver) (protocol.DeliveryRecord, error) {
	return protocol.DeliveryRecord{Key: key + "/again-2", Kind: protocol.DeliveryWebhook, Target: "ops", TaskID: "t1", State: protocol.DeliveryPending}, f.called("redeliver", key, r)
}

func (f *fake) List(_ context.Context, r starter.ListRequest) (starter.Listing, error) {
	return f.listing, f.called("list", r)
}

// describe is a task as the client gives it at the time now.
func describe(t domain.Task) starter.Description {
	d := starter.Description{WorkflowID: "default/task/" + t.ID, RunID: "run-1", Closed: t.State.Terminal()}
	d.View = domain.Describe(t, now.UnixMilli())
	d.ServerTimeMs = now.UnixMilli()
	return d
}

// known is the id under which a run is scripted: that of a demo is random but for its
// beginning.
func known(id string) string {
	if rest, ok := strings.CutPrefix(id, "demo-"); ok && len(rest) == 8 {
		return "demo"
	}
	return id
}

// newTask is a task of one hour, with the given events, a second apart.
func newTask(tb testing.TB, id string, policy domain.Policy, events ...domain.Event) domain.Task {
	tb.Helper()
	t, err := domain.New(domain.Create{
		ID: id, Tool: "resize", Title: "resize the images", NowMs: start, TTLMs: 3_600_000, MaxAttempts: 2, Tenant: "default", Policy: policy,
	})
	if err != nil {
		tb.Fatal(err)
	}
	for i, e := range events {
		e.AtMs = start + int64(i+1)*1000
		tr, err := domain.Apply(t, e)
		if err != nil {
			tb.Fatal(err)
		}
		if !tr.Changed {
			tb.Fatalf("event %d of %s changes nothing: %s", i, id, tr.Reason)
		}
		t = tr.Task
	}
	return t
}

func percent(p float64) *float64 { return &p }

// The events of the tests.
var (
	started   = domain.Event{Type: domain.EventStart, Worker: "host-1/pid 7"}
	half      = domain.Event{Type: domain.EventProgress, Progress: percent(50), Stage: "image 5 of 10"}
	succeeded = domain.Event{Type: domain.EventSucceed, ResultRef: "blob:default/task/x/abc", ResultHash: "abc", Bytes: 2048, ContentType: "application/json"}
	broken    = domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "NO_SPACE", Message: "the disk is full"}}
	suspect   = domain.Event{Type: domain.EventSuspect}
	lost      = domain.Event{Type: domain.EventRequeue, Source: "probe", Error: &domain.TaskError{Message: "the answer of the bank was lost"}}
	yes       = true
	asks      = domain.Event{Type: domain.EventInputRequired, QuestionID: "q1", Prompt: "overwrite it?"}
)

// history gives a task as a watch tells it: one change for each version.
func history(tb testing.TB, id string, events ...domain.Event) []starter.Change {
	tb.Helper()
	changes := []starter.Change{{Page: domain.Page{Mode: domain.ModeCaughtUp, Events: []domain.Entry{}}, Description: describe(newTask(tb, id, domain.Policy{}))}}
	for i := range events {
		t := newTask(tb, id, domain.Policy{}, events[:i+1]...)
		changes = append(changes, starter.Change{
			Page: domain.Page{Mode: domain.ModeDelta, Events: t.History[len(t.History)-1:], Task: t}, Description: describe(t),
		})
	}
	return changes
}

// setup is a client with a task in every situation.
func setup(tb testing.TB) *fake {
	tb.Helper()
	f := &fake{tasks: map[string]starter.Description{}, changes: map[string][]starter.Change{}, results: map[string][]byte{}, hang: map[string]bool{}}
	put := func(t domain.Task) { f.tasks[t.ID] = describe(t) }
	put(newTask(tb, "queued", domain.Policy{}))
	put(newTask(tb, "running", domain.Policy{}, started, half))
	put(newTask(tb, "asking", domain.Policy{External: true, LeaseMs: 60_000}, started, asks))
	put(newTask(tb, "done", domain.Policy{}, started, half, succeeded))
	kept := f.tasks["done"]
	kept.KeptUntilMs = kept.Task.KeptUntilMs(259_200_000) // three days
	f.tasks["done"] = kept
	put(newTask(tb, "failed", domain.Policy{}, started, broken))
	full := newTask(tb, "full", domain.Policy{}, started)
	full.Cancel = &domain.CancelRequest{AtMs: start + 2000, By: "ada", Reason: "too slow"}
	full.IdempotencyKey, full.RunID, full.ToolCallID = "order-1", "run-7", "call-2"
	full.Labels = map[string]string{"b": "2", "a": "1\x1b[2J"}
	d := describe(full)
	d.Pending = []starter.Pending{{Type: protocol.ActivityLease, State: "started", Attempt: 2, LastHeartbeatAtMs: start + 55_000, Heartbeat: json.RawMessage(`{"images":5}`)}}
	d.Targets, d.Repeats, d.Conflicts = []string{"ops"}, 3, 1
	f.tasks["full"] = d
	shared := newTask(tb, "shared", domain.Policy{Expected: &domain.Window{LowMs: 30_000, HighMs: 150_000}}, started,
		domain.Event{Type: domain.EventAttach, Waiter: &domain.Waiter{ID: "ann"}},
		domain.Event{Type: domain.EventAttach, Waiter: &domain.Waiter{ID: "run_x", RunID: "run-8", ToolCallID: "c"}},
		domain.Event{Type: domain.EventDetach, WaiterID: "ann", Reason: domain.DetachWaitTimeout})
	put(shared)
	put(newTask(tb, "patient", domain.Policy{}, started, domain.Event{Type: domain.EventDetach, WaiterID: domain.WaiterSubmitter, Reason: domain.DetachWaitTimeout}))
	unsafe := domain.Policy{Effects: domain.EffectsUnsafe, OnUnknown: domain.UnknownManual}
	put(newTask(tb, "unclear", unsafe, started, suspect, lost))
	undone := lost
	undone.Compensation = "undo_1"
	put(newTask(tb, "undoing", unsafe, started, suspect, undone))
	put(newTask(tb, "throttled", domain.Policy{}, started, domain.Event{Type: domain.EventFail, Retryable: &yes, RetryAfterMs: 300_000, Error: &domain.TaskError{Code: "BUSY", Message: "come back later"}}))
	f.changes["done"] = history(tb, "done", started, half, succeeded)
	f.changes["failed"] = history(tb, "failed", started, broken)
	f.changes["running"] = history(tb, "running", started, half)
	f.hang["running"] = true
	f.results["done"] = []byte(`{"images": 10}`)
	setupRuns(tb, f)
	f.outcome = domain.Outcome{Reason: domain.ReasonCancelRequested, Changed: true, State: domain.StateRunning, Version: 3}
	f.attach = starter.Attached{Outcome: domain.Outcome{Reason: domain.ReasonAttached, Changed: true, State: domain.StateRunning}}
	f.verdict = starter.Verdict{Verdict: starter.VerdictAccepted, Outcome: domain.Outcome{Reason: domain.ReasonProgress, Changed: true, State: domain.StateRunning, Version: 3}}
	return f
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
	calls          []string
}

// run runs a command line against a fake.
func run(tb testing.TB, f *fake, stdin string, args ...string) result {
	tb.Helper()
	return runIn(tb, f, cli.Parts{Now: now, Dir: tb.TempDir(), UIURL: "http://127.0.0.1:8233"}, stdin, args...)
}

func runIn(tb testing.TB, f *fake, p cli.Parts, stdin string, args ...string) result {
	tb.Helper()
	p.Tasks, p.Runs = f, f
	var stdout, stderr bytes.Buffer
	code := cli.RunWith(tb.Context(), args, strings.NewReader(stdin), &stdout, &stderr, []string{"USER=ada"}, p)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String(), calls: f.calls}
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\n-- stdout --\n%s-- stderr --\n%s", r.code, r.stdout, r.stderr)
}
