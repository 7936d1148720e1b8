package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// workflowID is what the environment calls the workflow of an activity.
const workflowID = "default-test-workflow-id"

// bench is a set of activities with fakes around them.
type bench struct {
	t     *testing.T
	tool  *tooltest.Executor
	store *store.Store
	o     activities.Options

	mu      sync.Mutex
	now     time.Time
	signals []signal
	// signalErr answers signals.
	signalErr error
	// heartbeats are the details of the newest try.
	heartbeat map[string]any
	// heartbeatOf is whose they are.
	heartbeatOf string
}

type signal struct {
	workflowID, runID, name string
	arg                     any
}

func setup(t *testing.T) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := &bench{t: t, tool: tooltest.New(), store: s, now: time.UnixMilli(1_800_000_000_000).UTC()}
	b.o = activities.Options{
		Executors: map[string]tool.Executor{"build": b.tool}, Blobs: s, Signals: b, Now: func() time.Time { return b.now },
		Logger: slog.New(slog.DiscardHandler), Targets: map[string]activities.Target{},
	}
	return b
}

// SignalWorkflow keeps signals.
func (b *bench) SignalWorkflow(_ context.Context, workflowID, runID, name string, arg any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signals = append(b.signals, signal{workflowID, runID, name, arg})
	return b.signalErr
}

// run executes an activity once, as the server would the next try: with the last
// heartbeat's details of the try before.
func run[R, T any](b *bench, f func(*activities.Activities) func(context.Context, R) (T, error), req R) (T, error) {
	b.t.Helper()
	a, err := activities.New(b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(f(a), activity.RegisterOptions{Name: "it"})
	if kind := fmt.Sprintf("%T", req); kind != b.heartbeatOf {
		// Another activity has heartbeats of its own.
		b.heartbeat, b.heartbeatOf = nil, kind
	}
	if b.heartbeat != nil {
		env.SetHeartbeatDetails(b.heartbeat)
	}
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		b.heartbeat = map[string]any{}
		if err := details.Get(&b.heartbeat); err != nil {
			b.t.Error(err)
		}
	})
	var out T
	v, err := env.ExecuteActivity("it", req)
	if err != nil {
		return out, err
	}
	if err := v.Get(&out); err != nil {
		b.t.Fatal(err)
	}
	return out, nil
}

// do is run for an activity without a result.
func do[R any](b *bench, f func(*activities.Activities) func(context.Context, R) error, req R) error {
	b.t.Helper()
	_, err := run(b, func(a *activities.Activities) func(context.Context, R) (bool, error) {
		return func(ctx context.Context, r R) (bool, error) { return true, f(a)(ctx, r) }
	}, req)
	return err
}

func (b *bench) probe(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return a.Probe
	}, r)
}

func (b *bench) ask(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.ProbeRequest) (protocol.ProbeResult, error) {
		return a.Ask
	}, r)
}

func (b *bench) submit(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.SubmitRequest) (protocol.SubmitResult, error) {
		return a.Submit
	}, r)
}

func (b *bench) logs(r protocol.LogsRequest) (protocol.LogsResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.LogsRequest) (protocol.LogsResult, error) {
		return a.Logs
	}, r)
}

func (b *bench) notify(r protocol.NotifyRequest) (protocol.NotifyResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.NotifyRequest) (protocol.NotifyResult, error) {
		return a.NotifyRun
	}, r)
}

func (b *bench) send(r protocol.SendRequest) (protocol.SendResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.SendRequest) (protocol.SendResult, error) {
		return a.Send
	}, r)
}

func (b *bench) cancel(r protocol.CancelRequest) error {
	b.t.Helper()
	return do(b, func(a *activities.Activities) func(context.Context, protocol.CancelRequest) error { return a.Cancel }, r)
}

func (b *bench) put(r protocol.StoreRequest) error {
	b.t.Helper()
	return do(b, func(a *activities.Activities) func(context.Context, protocol.StoreRequest) error { return a.Store }, r)
}

const key = "acme/t1/1"

func job() protocol.Job {
	return protocol.Job{Tenant: "acme", TaskID: "t1", Tool: "build", Attempt: 1, SubmissionKey: key}
}

// started submits the job and gives it with its handle.
func (b *bench) started() protocol.Job {
	b.t.Helper()
	res, err := b.submit(protocol.SubmitRequest{Job: job(), Input: []byte(`{}`)})
	if err != nil {
		b.t.Fatal(err)
	}
	j := job()
	j.Handle = &res.Handle
	return j
}

// failure takes an error of an activity apart as the server passes it on.
func failure(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		t.Fatalf("error = %v, want one of an activity", err)
	}
	return app
}

// said gives all that an error and its causes say.
func said(err error) string {
	var b strings.Builder
	for e := err; e != nil; e = errors.Unwrap(e) {
		b.WriteString(e.Error() + "\n")
	}
	return b.String()
}

func TestNewChecksItsOptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for field, o := range map[string]activities.Options{"blobs": {Signals: b}, "signals": {Blobs: b.store}} {
		_, err := activities.New(o)
		var invalid *domain.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("without %s: %v", field, err)
		}
	}
	if _, err := activities.New(activities.Options{Blobs: b.store, Signals: b}); err != nil {
		t.Error(err)
	}
}
