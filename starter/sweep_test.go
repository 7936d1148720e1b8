package starter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// broom is an engine that runs sweeps.
type broom struct {
	starter.Engine
	mu      sync.Mutex
	options map[string]client.StartWorkflowOptions
	inputs  map[string]protocol.SweepInput
	// ends are how sweeps end by host; a missing one ends well.
	ends map[string]error
}

func (b *broom) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if workflow != protocol.WorkflowSweep {
		return b.Engine.ExecuteWorkflow(ctx, o, workflow, args...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	in := args[0].(protocol.SweepInput)
	b.options[o.ID], b.inputs[o.ID] = o, in
	return sweepRun{end: b.ends[in.Host]}, nil
}

type sweepRun struct {
	client.WorkflowRun
	end error
}

// errNever is a sweep that does not end.
var errNever = errors.New("never")

func (r sweepRun) Get(ctx context.Context, into any) error {
	if errors.Is(r.end, errNever) {
		<-ctx.Done()
		return ctx.Err()
	}
	*into.(*protocol.SweepReport) = protocol.SweepReport{Looked: 1}
	return r.end
}

func withBroom(t *testing.T) (*world, *broom) {
	t.Helper()
	b := &broom{options: map[string]client.StartWorkflowOptions{}, inputs: map[string]protocol.SweepInput{}, ends: map[string]error{}}
	w := setup(t, func(o *starter.Options) {
		b.Engine = o.Temporal
		o.Temporal = b
	})
	return w, b
}

func TestSweep(t *testing.T) {
	t.Parallel()
	w, b := withBroom(t)
	got, err := w.Sweep(t.Context(), starter.SweepRequest{Hosts: []string{"h2", "h1", "h2"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []starter.Swept{
		{WorkflowID: "acme/sweep-now", Report: protocol.SweepReport{Looked: 1}},
		{Host: "h1", WorkflowID: "acme/sweep/h1-now", Report: protocol.SweepReport{Looked: 1}},
		{Host: "h2", WorkflowID: "acme/sweep/h2-now", Report: protocol.SweepReport{Looked: 1}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(starter.Swept{})); diff != "" {
		t.Error(diff)
	}
	queue := w.config.TaskQueue
	for id, in := range map[string]protocol.SweepInput{
		"acme/sweep-now":    {Tenant: "acme", TaskQueue: queue},
		"acme/sweep/h1-now": {Tenant: "acme", Host: "h1", TaskQueue: queue + "-host-h1"},
	} {
		o := b.options[id]
		if b.inputs[id] != in || o.TaskQueue != queue || o.WorkflowIDConflictPolicy != enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING || o.WorkflowRunTimeout == 0 {
			t.Errorf("%s: %+v, %+v", id, b.inputs[id], o)
		}
	}
	// Looking is another workflow: it must not join one that deletes, nor the reverse.
	if _, err := w.Sweep(t.Context(), starter.SweepRequest{DryRun: true}); err != nil || !b.inputs["acme/sweep-look"].DryRun {
		t.Errorf("%v: %+v", err, b.inputs)
	}
}

func TestSweepsThatFail(t *testing.T) {
	t.Parallel()
	w, b := withBroom(t)
	b.ends = map[string]error{
		"":       errNever,
		"away":   serviceerror.NewUnavailable("away"),
		"gone":   temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil),
		"broken": temporal.NewApplicationError("permission denied", "x"),
	}
	got, err := w.Sweep(t.Context(), starter.SweepRequest{Hosts: []string{"away", "broken", "gone", "well"}, Wait: 50 * time.Millisecond})
	if err != nil || len(got) != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []*starter.Error{starter.ErrWaitTimeout, starter.ErrUnavailable, starter.ErrInternal, starter.ErrNoWorker, nil} {
		switch e := got[i].Error; {
		case want == nil && e == nil:
		case want == nil, e == nil, !errors.Is(e, want):
			t.Errorf("host %q: %v, want %v", got[i].Host, e, want)
		case e.Hint == "":
			t.Errorf("host %q: no hint in %v", got[i].Host, e)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Sweep(ctx, starter.SweepRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who gives up: %v", err)
	}
	_, err = w.Sweep(t.Context(), starter.SweepRequest{Hosts: []string{"a/b"}})
	is(t, err, starter.ErrInvalid)
	_, err = w.Sweep(t.Context(), starter.SweepRequest{Wait: -1})
	is(t, err, starter.ErrInvalid)
}
