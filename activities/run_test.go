package activities_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (b *bench) run(r protocol.RunRequest) (protocol.ProbeResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.RunRequest) (protocol.ProbeResult, error) {
		return a.Run
	}, r)
}

func runRequest() protocol.RunRequest {
	return protocol.RunRequest{SubmitRequest: protocol.SubmitRequest{Job: job(), Input: []byte(`{}`)}, PollMs: 1}
}

// Run submits, tells the start, tells progress and gives the end.
func TestRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.Running(), tooltest.RunningAt(40, "half"), tooltest.RunningAt(40, "half"), tooltest.Succeeded(`{"a":1}`))
	res, err := b.run(runRequest())
	if err != nil || res.Event == nil || res.Event.Type != domain.EventSucceed {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(b.signals) != 2 || b.signals[0].name != protocol.SignalSubmitted || b.signals[1].name != protocol.SignalCallback {
		t.Fatalf("signals %+v", b.signals)
	}
	started := b.signals[0].arg.(protocol.JobStarted)
	if started.Attempt != 1 || started.Handle.Executor != tooltest.Kind {
		t.Errorf("%+v", started)
	}
	if p := b.signals[1].arg.(domain.Callback).Event; *p.Progress != 40 || p.Stage != "half" {
		t.Errorf("%+v", p)
	}
}

// Killed, it goes on by what it left, and submits nothing.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.Running(), tooltest.Succeeded(`1`))
	b.signalErr = serviceerror.NewUnavailable("down")
	if _, err := b.run(runRequest()); err == nil {
		t.Fatal("the start could not be told")
	}
	b.signalErr = nil
	res, err := b.run(runRequest())
	if err != nil || res.Event.Type != domain.EventSucceed || b.tool.Count(tooltest.Submit, key) != 1 {
		t.Errorf("%+v, %v, %d submissions", res, err, b.tool.Count(tooltest.Submit, key))
	}
	if len(b.signals) != 2 || b.signals[1].name != protocol.SignalSubmitted {
		t.Errorf("signals %+v: the task was never told of the start", b.signals)
	}
	if _, err := b.run(runRequest()); err != nil || len(b.signals) != 2 {
		t.Errorf("%v, signals %+v: it was told already", err, b.signals)
	}
	// And by a handle that the task knows.
	known := setup(t)
	known.tool.Script(key, tooltest.Running(), tooltest.Running(), tooltest.Failed("X", false))
	req := runRequest()
	req.Handle = known.started().Handle
	before := known.tool.Count(tooltest.Submit, key)
	res, err = known.run(req)
	if err != nil || res.Event.Type != domain.EventFail || known.tool.Count(tooltest.Submit, key) != before || len(known.signals) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Looks that fail are repeated; a job that the outside does not know for long is not.
func TestRunLooksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.Running(), tooltest.Succeeded(`1`))
	b.tool.Fail(tooltest.Observe, key, io.EOF, io.EOF)
	if res, err := b.run(runRequest()); err != nil || res.Event.Type != domain.EventSucceed {
		t.Errorf("%+v, %v", res, err)
	}
	elsewhere := setup(t)
	elsewhere.tool.Fail(tooltest.Observe, key, nil, tool.ErrWrongHost)
	if _, err := elsewhere.run(runRequest()); !failure(t, err).NonRetryable() {
		t.Errorf("a slot on another host: %v", err)
	}
	unknown := setup(t)
	start := time.UnixMilli(1_800_000_000_000)
	looks := 0
	unknown.o.Now = func() time.Time { looks++; return start.Add(time.Duration(looks) * 5 * time.Second) }
	unknown.tool.Script(key, tooltest.Unknown())
	_, err := unknown.run(runRequest())
	if app := failure(t, err); !app.NonRetryable() || app.Type() != "OutsideUnknown" {
		t.Errorf("%v", err)
	}
}

// givenUp is cancelled while it submits.
type givenUp struct {
	*tooltest.Executor
	cancel context.CancelFunc
}

func (g *givenUp) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	g.cancel()
	return g.Executor.Submit(context.WithoutCancel(ctx), req)
}

// strictSignals sends nothing for whoever is cancelled, as a client does.
type strictSignals struct{ *bench }

func (s strictSignals) SignalWorkflow(ctx context.Context, workflowID, runID, name string, arg any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.bench.SignalWorkflow(ctx, workflowID, runID, name, arg)
}

// A task that ends while its job is being submitted is told of the job all the same.
func TestRunTellsWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ex := &givenUp{Executor: b.tool}
	b.o.Executors, b.o.Signals = map[string]tool.Executor{"build": ex}, strictSignals{b}
	_, err := run(b, func(a *activities.Activities) func(context.Context, protocol.RunRequest) (protocol.ProbeResult, error) {
		return func(ctx context.Context, r protocol.RunRequest) (protocol.ProbeResult, error) {
			ctx, ex.cancel = context.WithCancel(ctx)
			return a.Run(ctx, r)
		}
	}, runRequest())
	if err == nil || len(b.signals) != 1 || b.signals[0].name != protocol.SignalSubmitted {
		t.Errorf("%v, signals %+v", err, b.signals)
	}
}

// fullStore takes no result at first.
type fullStore struct {
	activities.Blobs
	refusals int
}

func (f *fullStore) PutBytes(ctx context.Context, k store.Key, data []byte, contentType string) (store.Ref, error) {
	if f.refusals--; f.refusals >= 0 {
		return store.Ref{}, io.ErrShortWrite
	}
	return f.Blobs.PutBytes(ctx, k, data, contentType)
}

// A result that cannot be stored yet is not left alone: another try of the activity
// would wait for a slot first.
func TestRunStoresAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Blobs = &fullStore{b.store, 2}
	b.tool.Script(key, tooltest.Running(), tooltest.Succeeded(`1`))
	if res, err := b.run(runRequest()); err != nil || res.Event.Type != domain.EventSucceed || res.Event.ResultRef == "" {
		t.Errorf("%+v, %v", res, err)
	}
}

// Whatever somebody's worker says of a failure, the task keeps what an event may hold.
func TestFailureWithinTheLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for name, f := range map[string]tool.Failure{
		"severity": {Code: "X", Message: "m", Severity: long},
		"class":    {Code: "X", Message: "m", Class: "dire"},
		"code":     {Code: "no code " + long, Message: "m"},
		"message":  {Code: "X", Message: long},
		"details":  {Code: "X", Message: "m", Details: []byte(`"` + long + `"`)},
	} {
		b := setup(t)
		b.tool.Script(key, tool.Observation{State: tool.StateFailed, Definite: true, Error: &f})
		res, err := b.probe(protocol.ProbeRequest{Job: b.started()})
		if err != nil || res.Event == nil {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		if err := res.Event.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := setup(t)
	b.tool.Script(key, tool.Observation{State: tool.StateSucceeded, Definite: true, Result: &tool.Result{Ref: "s3://x", Hash: "h", ContentType: long}})
	if res, err := b.probe(protocol.ProbeRequest{Job: b.started()}); err != nil || res.Event.Validate() != nil {
		t.Errorf("content type: %v", err)
	}
}
