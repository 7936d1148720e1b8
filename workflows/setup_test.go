package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// start is the clock of every test environment when its workflow begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func startMs() int64 { return start.UnixMilli() }

// world is what the activities of a test do: fields that are nil answer that
// there is nothing.
type world struct {
	// mu lets one activity at a time do something: deliveries run side by side.
	mu       sync.Mutex
	submit   func(protocol.SubmitRequest) (protocol.SubmitResult, error)
	probe    func(protocol.ProbeRequest) (protocol.ProbeResult, error)
	ask      func(protocol.ProbeRequest) (protocol.ProbeResult, error)
	cancel   func(protocol.CancelRequest) error
	lease    func(context.Context, protocol.LeaseRequest) error
	send     func(protocol.SendRequest) (protocol.SendResult, error)
	stored   []protocol.StoreRequest
	notified []protocol.NotifyRequest
	storeErr func(n int) error
	notify   func(protocol.NotifyRequest) (protocol.NotifyResult, error)
	run      func(context.Context, protocol.RunRequest) (protocol.ProbeResult, error)
	undo     func(protocol.CompensateRequest) (protocol.CompensateResult, error)
	runs     []protocol.RunRequest
	undos    []protocol.CompensateRequest
	submits  []protocol.SubmitRequest
	cancels  []protocol.CancelRequest
	leases   []protocol.LeaseRequest
}

// errGoesOn is a probe that has nothing to report. The environment repeats an
// activity at most ten times, so the pause is long enough for an hour.
var errGoesOn = temporal.NewApplicationErrorWithOptions("goes on", protocol.ErrTypeStillRunning, temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Minute})

// env is a test environment with both workflows and a world.
type env struct {
	*testsuite.TestWorkflowEnvironment
	t testing.TB
	w *world
}

func newEnv(t testing.TB, w *world) *env {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := &env{TestWorkflowEnvironment: s.NewTestWorkflowEnvironment(), t: t, w: w}
	e.SetStartTime(start)
	e.SetTestTimeout(time.Minute)
	// The default of a second is short for a machine that does other things too.
	e.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
	e.RegisterWorkflowWithOptions(workflows.AsyncTask, workflow.RegisterOptions{Name: protocol.WorkflowAsyncTask})
	e.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: protocol.WorkflowDelivery})
	for name, f := range w.activities() {
		e.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	return e
}

// ran are the runs of [protocol.ActivityRun] so far; one may begin while its workflow
// closes.
func (w *world) ran() []protocol.RunRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

func (w *world) activities() map[string]any {
	return map[string]any{
		protocol.ActivitySubmit: func(_ context.Context, r protocol.SubmitRequest) (protocol.SubmitResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.submits = append(w.submits, r)
			if w.submit == nil {
				return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}, Worker: "w1"}, nil
			}
			return w.submit(r)
		},
		protocol.ActivityProbe: func(_ context.Context, r protocol.ProbeRequest) (protocol.ProbeResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.probe == nil {
				return protocol.ProbeResult{}, errGoesOn
			}
			return w.probe(r)
		},
		protocol.ActivityAsk: func(_ context.Context, r protocol.ProbeRequest) (protocol.ProbeResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.ask == nil {
				return protocol.ProbeResult{}, nil
			}
			return w.ask(r)
		},
		protocol.ActivityCancel: func(_ context.Context, r protocol.CancelRequest) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cancels = append(w.cancels, r)
			if w.cancel == nil {
				return nil
			}
			return w.cancel(r)
		},
		protocol.ActivityLease: func(ctx context.Context, r protocol.LeaseRequest) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.leases = append(w.leases, r)
			if w.lease == nil {
				return activity.ErrResultPending
			}
			return w.lease(ctx, r)
		},
		protocol.ActivityStore: func(_ context.Context, r protocol.StoreRequest) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stored = append(w.stored, r)
			if w.storeErr != nil {
				return w.storeErr(len(w.stored))
			}
			return nil
		},
		protocol.ActivityNotifyRun: func(_ context.Context, r protocol.NotifyRequest) (protocol.NotifyResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notified = append(w.notified, r)
			if w.notify != nil {
				return w.notify(r)
			}
			return protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, nil
		},
		protocol.ActivityRun: func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
			// Not under the lock: it lasts as long as its job.
			w.mu.Lock()
			w.runs = append(w.runs, r)
			w.mu.Unlock()
			return w.run(ctx, r)
		},
		protocol.ActivityCompensate: func(_ context.Context, r protocol.CompensateRequest) (protocol.CompensateResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.undos = append(w.undos, r)
			return w.undo(r)
		},
		protocol.ActivitySend: func(_ context.Context, r protocol.SendRequest) (protocol.SendResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.send == nil {
				return protocol.SendResult{StatusCode: 200}, nil
			}
			return w.send(r)
		},
	}
}

// external is a task that the world works on, with an hour to live.
func external(opts ...func(*protocol.TaskInput)) protocol.TaskInput {
	in := protocol.TaskInput{
		Create: domain.Create{ID: "t1", Tenant: "acme", Tool: "review", TTLMs: time.Hour.Milliseconds(), MaxAttempts: 2, Policy: domain.Policy{External: true}},
		Tool:   protocol.ToolBinding{Executor: "external"},
	}
	for _, o := range opts {
		o(&in)
	}
	return in
}

// executed is a task with an executor.
func executed(opts ...func(*protocol.TaskInput)) protocol.TaskInput {
	in := external(opts...)
	in.Create.Policy.External = false
	in.Tool = protocol.ToolBinding{Executor: "fake"}
	return in
}

func callback(id string, e domain.Event) domain.Callback {
	return domain.Callback{CallbackID: id, DeliveryID: "d-" + id, Event: e, Source: "test"}
}

func succeed(hash string) domain.Event {
	return domain.Event{Type: domain.EventSucceed, ResultRef: "ref/" + hash, ResultHash: hash}
}

// at runs f when the clock of the environment stands d after the start.
func (e *env) at(d time.Duration, f func()) { e.RegisterDelayedCallback(f, d) }

// signal sends a callback by the signal door.
func (e *env) signal(c domain.Callback) { e.SignalWorkflow(protocol.SignalCallback, c) }

// queue puts a callback into the signal door without waking the workflow, so
// that it is there together with what comes next.
func (e *env) queue(c domain.Callback) {
	e.SignalWorkflowSkippingWorkflowTask(protocol.SignalCallback, c)
}

// raw is a message as the JSON writer of another language sends it: json.Marshal
// would put it into Go's own spelling.
func raw(text string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: []byte(text),
	})
}

// reply is what an update came to.
type reply struct {
	out domain.Outcome
	err error
}

// refusal is the outcome in the details of a refused update.
func (r *reply) refusal(t testing.TB) domain.Outcome {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, r.err, &app)
	require.Equal(t, protocol.ErrTypeRefused, app.Type())
	var out domain.Outcome
	require.NoError(t, app.Details(&out))
	return out
}

// update sends an update; its reply is filled in by the time the workflow has
// seen it.
func (e *env) update(name, id string, arg any) *reply {
	r := &reply{}
	e.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
		OnReject: func(err error) { r.err = err },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			if r.err = err; err == nil {
				r.out = v.(domain.Outcome)
			}
		},
	}, arg)
	return r
}

func (e *env) callbackUpdate(c domain.Callback) *reply {
	return e.update(protocol.UpdateCallback, protocol.CallbackUpdateID(c.CallbackID), c)
}

func (e *env) run(in protocol.TaskInput) {
	e.t.Helper()
	e.ExecuteWorkflow(protocol.WorkflowAsyncTask, in)
	require.True(e.t, e.IsWorkflowCompleted(), "the workflow must have ended")
}

// record is the final record of the task, however it was closed.
func (e *env) record() protocol.TaskRecord {
	e.t.Helper()
	rec, err := recordOf(e.GetWorkflowError(), e.GetWorkflowResult)
	require.NoError(e.t, err)
	return rec
}

func recordOf(err error, result func(any) error) (rec protocol.TaskRecord, _ error) {
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch {
	case err == nil:
		return rec, result(&rec)
	case errors.As(err, &app):
		return rec, app.Details(&rec)
	case errors.As(err, &canceled):
		return rec, canceled.Details(&rec)
	}
	return rec, err
}

// problem is the detail of an update that was invalid.
func (r *reply) problem(t testing.TB) protocol.Problem {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, r.err, &app)
	require.Equal(t, protocol.ErrTypeInvalid, app.Type())
	var p protocol.Problem
	require.NoError(t, app.Details(&p))
	require.Equal(t, domain.CodeInvalid, p.Code)
	return p
}

// answer is the outcome of an update, taken or refused.
func (r *reply) answer(t testing.TB) domain.Outcome {
	t.Helper()
	if r.err != nil {
		return r.refusal(t)
	}
	return r.out
}

// carried is the input with which the workflow continued as new.
func (e *env) carried() protocol.TaskInput {
	e.t.Helper()
	var can *workflow.ContinueAsNewError
	require.ErrorAs(e.t, e.GetWorkflowError(), &can)
	require.Equal(e.t, protocol.WorkflowAsyncTask, can.WorkflowType.Name)
	var in protocol.TaskInput
	require.NoError(e.t, converter.GetDefaultDataConverter().FromPayloads(can.Input, &in))
	require.NotNil(e.t, in.Carry)
	return in
}

// describe asks the running task.
func (e *env) describe() protocol.Description {
	e.t.Helper()
	v, err := e.QueryWorkflow(protocol.QueryDescribe)
	require.NoError(e.t, err)
	var d protocol.Description
	require.NoError(e.t, v.Get(&d))
	return d
}

// eventTypes lists the event types of a history.
func eventTypes(t domain.Task) []domain.EventType {
	var out []domain.EventType
	for _, h := range t.History {
		out = append(out, h.Event.Type)
	}
	return out
}
