package activities_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	obs := tooltest.Running()
	obs.Worker = "host-1/pid 7"
	b.tool.Script(key, obs)
	req := protocol.SubmitRequest{Job: job(), Input: []byte(`{"x":1}`), DeadlineAtMs: 99}
	res, err := b.submit(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.Worker != "host-1/pid 7" || res.Handle.Executor != tooltest.Kind {
		t.Errorf("%+v", res)
	}
	again, err := b.submit(req)
	if err != nil || !cmp.Equal(res, again) || b.tool.Started(key) != 1 {
		t.Errorf("the same key: %+v, %v, started %d times", again, err, b.tool.Started(key))
	}
	want := &tool.Request{Tenant: "acme", TaskID: "t1", Attempt: 1, SubmissionKey: key, Tool: "build", Input: []byte(`{"x":1}`), DeadlineAtMs: 99}
	if diff := cmp.Diff(want, b.tool.Calls()[0].Request); diff != "" {
		t.Error(diff)
	}
}

// Who works on it is for people only: a submission does not fail for it.
func TestSubmitThatCannotLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Fail(tooltest.Observe, key, io.EOF)
	if res, err := b.submit(protocol.SubmitRequest{Job: job()}); err != nil || res.Worker != "" {
		t.Errorf("%+v, %v", res, err)
	}
}

// "Nothing was started" is definite and says why; everything else is ambiguous,
// and the server repeats it under the same key.
func TestSubmitFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want *domain.TaskError
	}{
		"not started": {
			&tool.NotStartedError{Failure: tool.Failure{Code: "NO_PROGRAM", Message: "no such file", Class: tool.ClassUser, Retryable: true}, Cause: io.EOF},
			&domain.TaskError{Code: "NO_PROGRAM", Message: "no such file", Class: domain.ClassUser, Retryable: true},
		},
		"ambiguous":     {&tool.AmbiguousError{Op: "submit", SubmissionKey: key, Cause: io.EOF}, nil},
		"anything else": {io.ErrUnexpectedEOF, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tool.Fail(tooltest.Submit, key, tc.err)
			_, err := b.submit(protocol.SubmitRequest{Job: job()})
			app := failure(t, err)
			if tc.want == nil {
				if app.NonRetryable() || app.Type() == protocol.ErrTypeNotStarted {
					t.Errorf("error = %v, want one that is retried", err)
				}
				return
			}
			var got domain.TaskError
			if derr := app.Details(&got); derr != nil {
				t.Fatal(derr)
			}
			if diff := cmp.Diff(*tc.want, got); diff != "" || !app.NonRetryable() || app.Type() != protocol.ErrTypeNotStarted {
				t.Errorf("%v:\n%s", err, diff)
			}
		})
	}
}

// A tool that the worker doesn't know is definite for a submission. Every other
// verb says the same, so that nothing waits for a worker that will never come.
func TestUnknownTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := job()
	j.Tool = "nobody's"
	_, submit := b.submit(protocol.SubmitRequest{Job: j})
	_, probe := b.probe(protocol.ProbeRequest{Job: j})
	_, ask := b.ask(protocol.ProbeRequest{Job: j})
	_, logs := b.logs(protocol.LogsRequest{Job: j})
	for verb, err := range map[string]error{"submit": submit, "probe": probe, "ask": ask, "logs": logs, "cancel": b.cancel(protocol.CancelRequest{Job: j})} {
		app := failure(t, err)
		var cause domain.TaskError
		if derr := app.Details(&cause); derr != nil {
			t.Fatal(derr)
		}
		if !app.NonRetryable() || app.Type() != protocol.ErrTypeNotStarted || cause.Code != activities.CodeUnknownTool || cause.Retryable || !strings.Contains(cause.Message, "wakepoint.yaml") {
			t.Errorf("%s: %v, %+v", verb, err, cause)
		}
	}
	if n := len(b.tool.Calls()); n != 0 {
		t.Errorf("%d calls of another tool's executor", n)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("by its handle, as often as one likes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		req := protocol.CancelRequest{Job: b.started(), Reason: "enough"}
		for range 2 {
			if err := b.cancel(req); err != nil {
				t.Fatal(err)
			}
		}
		if b.tool.Count(tooltest.Cancel, key) != 2 || b.tool.Count(tooltest.Find, key) != 0 {
			t.Errorf("calls = %+v", b.tool.Calls())
		}
	})
	t.Run("by its key, when the handle is not known", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.started()
		if err := b.cancel(protocol.CancelRequest{Job: job()}); err != nil {
			t.Fatal(err)
		}
		if b.tool.Count(tooltest.Find, key) != 1 || b.tool.Count(tooltest.Cancel, key) != 1 {
			t.Errorf("calls = %+v", b.tool.Calls())
		}
	})
	t.Run("of what was never started", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		if err := b.cancel(protocol.CancelRequest{Job: job()}); err != nil || b.tool.Count(tooltest.Cancel, key) != 0 {
			t.Errorf("%v, calls = %+v", err, b.tool.Calls())
		}
	})
	t.Run("that can't be told is retried", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		j := b.started()
		b.tool.Fail(tooltest.Cancel, key, io.EOF)
		if err := b.cancel(protocol.CancelRequest{Job: j}); failure(t, err).NonRetryable() {
			t.Errorf("error = %v, want one that is retried", err)
		}
	})
}

func TestLogs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.SetLog(key, tool.StreamStdout, "0123456789")
	j := b.started()
	got, err := b.logs(protocol.LogsRequest{Job: j, Stream: tool.StreamStdout, Offset: 2, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(protocol.LogsResult{Data: []byte("234"), Offset: 2, Next: 5}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := b.logs(protocol.LogsRequest{Job: job(), Stream: tool.StreamStdout, Offset: 10}); err != nil || len(got.Data) != 0 || got.Next != 10 {
		t.Errorf("by key: %+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		ex  tool.Executor
		job protocol.Job
	}{
		"an executor without logs": {mute{b.tool}, j},
		"a job that is not known":  {b.tool, protocol.Job{Tool: "build", SubmissionKey: "other"}},
		"a strange handle":         {b.tool, protocol.Job{Tool: "build", Handle: &protocol.Handle{Executor: "strange", ID: "x"}}},
	} {
		b.o.Executors = map[string]tool.Executor{"build": tc.ex}
		_, err := b.logs(protocol.LogsRequest{Job: tc.job, Stream: tool.StreamStdout})
		if app := failure(t, err); !app.NonRetryable() || app.Type() != activities.ErrTypeNoLogs {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// mute hides the optional abilities of an executor.
type mute struct{ tool.Executor }

func TestNotifyRun(t *testing.T) {
	t.Parallel()
	finished := protocol.TaskFinished{Task: domain.Task{ID: "t1", State: domain.StateSucceeded, History: []domain.Entry{}}, AtMs: 5}
	req := protocol.NotifyRequest{Tenant: "acme", RunID: "r1", Finished: finished}
	for name, tc := range map[string]struct {
		err     error
		receipt string
	}{
		"taken":                 {nil, protocol.ReceiptSignaled},
		"closed, or never was":  {serviceerror.NewNotFound("workflow execution already completed"), protocol.ReceiptRunClosed},
		"wrapped":               {errors.Join(errors.New("signal"), serviceerror.NewNotFound("x")), protocol.ReceiptRunClosed},
		"the engine is away":    {serviceerror.NewUnavailable("down"), ""},
		"too many signals":      {serviceerror.NewInvalidArgument("limit"), ""},
		"a namespace not found": {serviceerror.NewNamespaceNotFound("x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.signalErr = tc.err
			got, err := b.notify(req)
			if got.Receipt != tc.receipt || (err == nil) != (tc.receipt != "") {
				t.Errorf("%+v, %v", got, err)
			}
			if diff := cmp.Diff([]signal{{"acme/run/r1", "", protocol.SignalTaskFinished, finished}}, b.signals, cmp.AllowUnexported(signal{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Jitter" }, cmp.Ignore())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	content := []byte(`{"html":"<b>&</b>"}`)
	const hash = "0f3c5b1ef0ef4e1bf3a4d4ea9cd9a7e4d3b8d0ff7a1d3c9a7f86d0ac1e9d0000"
	b := setup(t)
	ref, err := b.store.PutBytes(t.Context(), store.Key{Tenant: "acme", TaskID: "t1"}, content, "application/json")
	if err != nil {
		t.Fatal(err)
	}
	good := protocol.StoreRequest{Tenant: "acme", TaskID: "t1", Blob: protocol.Blob{Ref: ref.Ref, Hash: ref.Hash, ContentType: "application/json", Content: content}}
	for range 2 {
		if err := b.put(good); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.store.Get(t.Context(), ref.Ref, ref.Hash); err != nil || string(got) != string(content) {
		t.Errorf("%s, %v", got, err)
	}
	// Bytes that are not those the task speaks of must never look stored.
	bad := good
	bad.Blob.Ref = domain.BlobRef("acme", "t1", hash)
	if err := b.put(bad); err == nil || !strings.Contains(err.Error(), hash) {
		t.Errorf("another content under the reference: %v", err)
	}
	b.o.Blobs = brokenStore{}
	if err := b.put(good); failure(t, err).NonRetryable() {
		t.Errorf("error = %v, want one that is retried", err)
	}
}

// A lease begins as an activity that nobody has completed yet.
func TestLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, err := activities.New(b.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Lease(t.Context(), protocol.LeaseRequest{Job: job()}); !errors.Is(err, activity.ErrResultPending) {
		t.Errorf("error = %v", err)
	}
}
