package starter_test

import (
	"context"
	"sync/atomic"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// mute is an engine that knows of workflows and gives no records while it is busy.
type mute struct {
	starter.Engine
	busy atomic.Bool
}

type muteRun struct{ client.WorkflowRun }

func (muteRun) Get(context.Context, any) error { return serviceerror.NewUnavailable("busy") }

func (m *mute) GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun {
	if m.busy.Load() {
		return muteRun{}
	}
	return m.Engine.GetWorkflow(ctx, workflowID, runID)
}

// The bug: a result that could not be read for a moment was taken for one that does
// not answer, and the work was done again beside it.
func TestAResultThatCannotBeReadIsNoReasonToWorkAgain(t *testing.T) {
	t.Parallel()
	var m *mute
	w := setup(t, withCache(""), func(o *starter.Options) {
		m = &mute{Engine: o.Temporal}
		o.Temporal = m
	})
	first := w.submit(t, call1(`{"n":1}`))
	w.call(t, first.TaskID, "1", succeed())
	m.busy.Store(true)
	out, err := w.Submit(t.Context(), call1(`{"n":1}`))
	if is(t, err, starter.ErrUnavailable); out.TaskID != "" {
		t.Errorf("%+v", out)
	}
	m.busy.Store(false)
	if out := w.submit(t, call1(`{"n":1}`)); out.TaskID != first.TaskID || out.State != domain.StateSucceeded {
		t.Errorf("%+v", out)
	}
}
