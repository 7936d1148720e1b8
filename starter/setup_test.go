package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/startertest"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// epoch is when the clock of most tests stands at first.
const epoch = int64(1_700_000_000_000)

const declared = `
tenant: acme
maxTTL: 10d
targets:
  ops: {url: https://ops.example.com/}
  dev: {url: https://dev.example.com/}
tools:
  train:
    title: Train a model
    description: Trains *slowly*.
    executor: external
    inputSchema: {type: object, properties: {n: {type: integer}}}
    ttl: 1h
    maxTTL: 2d
    maxAttempts: 2
    lease: 30s
    targets: [ops]
    expected: {low: 40s, high: 2m}
  approve: {executor: external, ttl: 1d}
  late: {executor: external, ttl: 1m, late: {policy: record, grace: 1h}}
  vet: {exec: {argv: [go, vet]}}
  pay: {executor: external, effects: unsafe}
`

// world is a client on an engine in memory, with a clock that stands still.
type world struct {
	*starter.Client
	engine *startertest.Engine
	clock  *atomic.Int64
	config *config.Config
	// store is that of the client, if it was given one.
	store *store.Store
}

func setup(t testing.TB, change ...func(*starter.Options)) *world {
	t.Helper()
	cfg, err := config.Parse("wakepoint.yaml", []byte(declared))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{engine: startertest.New(), clock: new(atomic.Int64), config: cfg}
	w.clock.Store(epoch)
	w.engine.Now = w.clock.Load
	o := starter.Options{Temporal: w.engine, Config: cfg, Secret: []byte("0123456789abcdef"), Now: w.clock.Load}
	for _, c := range change {
		c(&o)
	}
	w.store = o.Store
	if w.Client, err = starter.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// submit starts a task of the tool train, unless the submission says otherwise.
func (w *world) submit(t testing.TB, s starter.Submission) starter.Submitted {
	t.Helper()
	if s.Tool == "" {
		s.Tool = "train"
	}
	out, err := w.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// call brings an event as a callback.
func (w *world) call(t testing.TB, taskID, callbackID string, e domain.Event) starter.Verdict {
	t.Helper()
	v, err := w.Callback(t.Context(), taskID, domain.Callback{CallbackID: callbackID, Event: e})
	if err != nil {
		t.Fatalf("callback %s: %v", callbackID, err)
	}
	return v
}

func (w *world) workflowID(taskID string) string { return protocol.TaskWorkflowID("acme", taskID) }

// ended gives the id of a task that has come to a state.
func (w *world) ended(t testing.TB, state domain.State) string {
	t.Helper()
	id := w.submit(t, starter.Submission{TaskID: "ended-" + string(state), MaxAttempts: 1}).TaskID
	switch state {
	case domain.StateSucceeded:
		w.call(t, id, "s", succeed())
	case domain.StateFailed:
		w.call(t, id, "f", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "BROKEN", Message: "no"}})
	case domain.StateCancelled:
		if _, err := w.Cancel(t.Context(), id, protocol.Cancel{By: "ann"}); err != nil {
			t.Fatal(err)
		}
	case domain.StateExpired:
		w.clock.Add(3_600_000)
	case domain.StateQueued, domain.StateRunning:
		t.Fatalf("%s is no end", state)
	}
	d, err := w.Describe(t.Context(), id)
	if err != nil || d.Task.State != state || !d.Closed {
		t.Fatalf("task is %s, closed %v (%v)", d.Task.State, d.Closed, err)
	}
	return id
}

func start() domain.Event { return domain.Event{Type: domain.EventStart, Worker: "w"} }

func progress(percent float64) domain.Event {
	return domain.Event{Type: domain.EventProgress, Progress: &percent}
}

func succeed() domain.Event {
	return domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`{"ok":true}`)}
}

// is checks the code of an error.
func is(t testing.TB, err error, want *starter.Error) {
	t.Helper()
	_ = as(t, err, want)
}

// after lets time pass in a bubble of synctest, where nobody waits for it.
func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a bubble moves by itself
}

// as checks the code of an error and gives it.
func as(t testing.TB, err error, want *starter.Error) *starter.Error {
	t.Helper()
	var e *starter.Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("got %v, want %s", err, want.Code)
	}
	return e
}

// cancelled is a context that has ended.
func cancelled(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
