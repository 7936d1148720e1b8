package starter_test

import (
	"context"
	"sync/atomic"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The bug: the first caller, who had given up while others waited, asked again and
// was answered as the submitter, but nobody noted it: it was told of no end.
func TestASubmitterWhoLeftIsBackWhenItAsksAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := starter.Submission{IdempotencyKey: "k", RunID: "r1", ToolCallID: "c1"}
	first := w.submit(t, s)
	w.submit(t, starter.Submission{IdempotencyKey: "k", RunID: "r2"})
	if out, err := w.Cancel(t.Context(), first.TaskID, protocol.Cancel{WaiterID: first.WaiterID}); err != nil || out.Reason != domain.ReasonDetached {
		t.Fatalf("%+v (%v)", out, err)
	}
	again := w.submit(t, s)
	if again.WaiterID != domain.WaiterSubmitter || !again.Attached {
		t.Errorf("asked again: %+v", again)
	}
	d, err := w.Describe(t.Context(), first.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	told := d.Task.Told()
	if len(told) != 2 || told[0].ID != domain.WaiterSubmitter || told[0].RunID != "r1" || told[0].ToolCallID != "c1" {
		t.Errorf("told of the end: %+v", told)
	}
	if again := w.submit(t, s); again.Attached {
		t.Errorf("attached twice: %+v", again)
	}
}

// A submitter who left and comes back after the end is told as the task tells one,
// where it waits by then.
func TestASubmitterWhoLeftIsToldAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := starter.Submission{IdempotencyKey: "k", RunID: "r1", ToolCallID: "c1", WaiterID: "ann"}
	first := w.submit(t, s)
	if _, err := w.Detach(t.Context(), first.TaskID, protocol.Detach{WaiterID: first.WaiterID}); err != nil {
		t.Fatal(err)
	}
	w.call(t, first.TaskID, "1", succeed())
	for _, s.RunID = range []string{"r1", "r2"} {
		run := protocol.RunWorkflowID("acme", s.RunID)
		w.engine.OpenRun(run)
		if out := w.submit(t, s); out.WaiterID != domain.WaiterSubmitter || !out.Attached {
			t.Errorf("%s: %+v", s.RunID, out)
		}
		if news := w.engine.Finished(run); len(news) != 1 || news[0].WaiterID != "" || news[0].ToolCallID != "" {
			t.Errorf("%s was told %+v", s.RunID, news)
		}
	}
}

// between is an engine where something happens right before its n-th query.
type between struct {
	starter.Engine
	n  atomic.Int64
	do func()
}

func (b *between) QueryWorkflowWithOptions(ctx context.Context, r *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	if b.n.Add(-1) == 0 {
		b.do()
	}
	return b.Engine.QueryWorkflowWithOptions(ctx, r)
}

// The bug: an attach met the end of a task, which was retried before the client had
// read the record. The run was told that a task had ended which was queued, and it
// was not among those who are told of the real end.
func TestAttachThatMeetsAManualRetryWaitsForTheNewEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateFailed)
	run := protocol.RunWorkflowID("acme", "r2")
	w.engine.OpenRun(run)
	b := &between{Engine: w.engine, do: func() {
		if _, err := w.Retry(t.Context(), id, starter.Retry{}); err != nil {
			t.Error(err)
		}
	}}
	b.n.Store(2) // the first one sees the end
	late := setup(t, func(o *starter.Options) { o.Temporal, o.Now = b, w.clock.Load })
	out, err := late.Attach(t.Context(), id, protocol.Attach{Waiter: &domain.Waiter{ID: "late", RunID: "r2"}, Target: "dev"})
	if err != nil || out.Task != nil || out.Outcome.Reason != domain.ReasonAttached {
		t.Errorf("%+v (%v)", out, err)
	}
	if news := w.engine.Finished(run); len(news) != 0 {
		t.Errorf("the run was told of an end: %+v", news)
	}
	if got := waiting(t, w, id); len(got) != 2 || got[1] != "late" {
		t.Errorf("waiting: %v", got)
	}
}

// The bug: what a client delivers took the tenant's turn at another weight than its
// tasks do.
func TestDeliveriesHaveTheWeightOfTheirTenant(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.Config.FairnessWeight = 7 })
	id := w.ended(t, domain.StateSucceeded)
	out, err := w.Attach(t.Context(), id, protocol.Attach{Target: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	o, _ := w.engine.Started(protocol.DeliveryWorkflowID("acme", starter.DeliveryKey(*out.Task, "dev")))
	task, _ := w.engine.Started(w.workflowID(id))
	if o.Priority.FairnessKey != "acme" || o.Priority.FairnessWeight != 7 || task.Priority.FairnessWeight != 7 {
		t.Errorf("delivery %+v, task %+v", o.Priority, task.Priority)
	}
}
