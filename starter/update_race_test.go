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

// stumbling is an engine whose first updates meet a workflow task that fails.
type stumbling struct {
	starter.Engine
	left atomic.Int64
}

func (s *stumbling) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if s.left.Add(-1) >= 0 {
		return nil, serviceerror.NewWorkflowNotReady("unexpected workflow task failure")
	}
	return s.Engine.UpdateWorkflow(ctx, o)
}

// The bug: an update that met a task in the moment of its continue-as-new, when
// the engine fails the workflow task because another signal has come, was left as
// a signal at once. Its sender was told "taken", with a worker there to answer.
func TestCallbackThatMeetsAContinueAsNewIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) {
		s := &stumbling{Engine: o.Temporal}
		s.left.Store(2)
		o.Temporal = s
	})
	id := w.submit(t, starter.Submission{TaskID: "t"}).TaskID
	if v := w.call(t, id, "c", start()); v.Verdict != starter.VerdictAccepted || v.Outcome.Reason != domain.ReasonStarted {
		t.Fatalf("verdict %s, reason %s", v.Verdict, v.Outcome.Reason)
	}
}
