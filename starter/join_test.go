package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func waiting(t *testing.T, w *world, id string) []string {
	t.Helper()
	d, err := w.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, x := range d.Task.Waiting() {
		ids = append(ids, x.ID)
	}
	return ids
}

// Whoever submits a task under a name may cancel under it, whether he was the first or
// came later.
func TestTheFirstKeepsHisName(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *world, id, waiter string) (domain.Outcome, error){
		"cancel": func(w *world, id, waiter string) (domain.Outcome, error) {
			return w.Cancel(t.Context(), id, protocol.Cancel{WaiterID: waiter})
		},
		"detach": func(w *world, id, waiter string) (domain.Outcome, error) {
			return w.Detach(t.Context(), id, protocol.Detach{WaiterID: waiter})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			id := w.submit(t, starter.Submission{TaskID: "a", WaiterID: "alice"}).TaskID
			if _, err := w.Attach(t.Context(), id, protocol.Attach{Waiter: &domain.Waiter{ID: "bob"}}); err != nil {
				t.Fatal(err)
			}
			if out, err := leave(w, id, "alice"); err != nil || out.Reason != domain.ReasonDetached {
				t.Errorf("%+v, %v", out, err)
			}
			if got := waiting(t, w, id); !cmp.Equal(got, []string{"bob"}) {
				t.Errorf("%v wait", got)
			}
		})
	}
}

// TestSharedTask: several runs share a task by its key, each gives up for itself,
// and only the last one's cancel is the task's.
func TestSharedTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := starter.Submission{IdempotencyKey: "k", RunID: "r1", ToolCallID: "c"}
	first := w.submit(t, s)
	if again := w.submit(t, s); again.Attached || again.WaiterID != domain.WaiterSubmitter {
		t.Errorf("the same run again: %+v", again)
	}
	s.RunID = "r2"
	second := w.submit(t, s)
	if !second.Attached || !second.Existing || second.WaiterID == "" || second.WaiterID == domain.WaiterSubmitter || second.TaskID != first.TaskID {
		t.Errorf("another run: %+v", second)
	}
	third := w.submit(t, starter.Submission{IdempotencyKey: "k", WaiterID: "ann"})
	if !third.Attached || third.WaiterID != "ann" {
		t.Errorf("a person: %+v", third)
	}
	if plain := w.submit(t, starter.Submission{IdempotencyKey: "k"}); plain.Attached || plain.WaiterID != "" {
		t.Errorf("nobody in particular: %+v", plain)
	}
	if got := waiting(t, w, first.TaskID); !cmp.Equal(got, []string{"submitter", second.WaiterID, "ann"}) {
		t.Errorf("waiting: %v", got)
	}
	w.call(t, first.TaskID, "1", start())
	for _, c := range []struct {
		waiter string
		want   domain.Reason
	}{
		{first.WaiterID, domain.ReasonDetached},
		{first.WaiterID, domain.ReasonDuplicateDetach},
		{"nobody", domain.ReasonUnknownWaiter},
		{second.WaiterID, domain.ReasonDetached},
		{"ann", domain.ReasonCancelRequested},
	} {
		out, err := w.Cancel(t.Context(), first.TaskID, protocol.Cancel{WaiterID: c.waiter})
		if err != nil || out.Reason != c.want {
			t.Errorf("cancel by %s: %+v (%v), want %s", c.waiter, out, err, c.want)
		}
	}
}

func TestSubmissionsAddTheirTargets(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.submit(t, starter.Submission{IdempotencyKey: "k"})
	out := w.submit(t, starter.Submission{IdempotencyKey: "k", Targets: []string{"ops", "dev"}})
	d, err := w.Describe(t.Context(), first.TaskID)
	if err != nil || !out.Attached || out.WaiterID != "" || !cmp.Equal(d.Targets, []string{"ops", "dev"}) {
		t.Errorf("%+v, targets %v (%v)", out, d.Targets, err)
	}
	if out := w.submit(t, starter.Submission{IdempotencyKey: "k", Targets: []string{"dev"}}); out.Attached {
		t.Errorf("again: %+v", out)
	}
}

// TestWhoComesAfterTheEndIsToldAtOnce: the run by a signal, the target by a
// delivery, the caller by the answer.
func TestWhoComesAfterTheEndIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := starter.Submission{IdempotencyKey: "k", RunID: "r1", ToolCallID: "c1"}
	first := w.submit(t, s)
	w.call(t, first.TaskID, "1", succeed())
	run := protocol.RunWorkflowID("acme", "r2")
	w.engine.OpenRun(run)
	out := w.submit(t, starter.Submission{IdempotencyKey: "k", RunID: "r2", ToolCallID: "c2", Targets: []string{"dev"}})
	if !out.Attached || out.Task == nil || out.Task.State != domain.StateSucceeded || out.State != domain.StateSucceeded {
		t.Fatalf("%+v", out)
	}
	news := w.engine.Finished(run)
	if len(news) != 1 || news[0].Task.RunID != "r1" || news[0].WaiterID != out.WaiterID || news[0].ToolCallID != "c2" || news[0].Task.ResultHash != out.Task.ResultHash || news[0].AtMs != out.Task.EndedAtMs {
		t.Errorf("the run was told %+v", news)
	}
	rec, err := w.DeliveryStatus(t.Context(), starter.DeliveryKey(*out.Task, "dev"))
	if err != nil || rec.Target != "dev" || rec.State != protocol.DeliveryPending {
		t.Errorf("%+v (%v)", rec, err)
	}
	// Twice is once, and a run that is gone is nobody to tell.
	out = w.submit(t, starter.Submission{IdempotencyKey: "k", RunID: "gone", Targets: []string{"dev"}})
	if !out.Attached || w.engine.Runs(protocol.DeliveryWorkflowID("acme", starter.DeliveryKey(*out.Task, "dev"))) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestAttachAndDetachRefuseWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	for field, a := range map[string]protocol.Attach{
		"target":            {},
		"waiter.id":         {Waiter: &domain.Waiter{ID: "a b"}},
		"waiter.runId":      {Waiter: &domain.Waiter{ID: "a", RunID: "/"}},
		"waiter.toolCallId": {Waiter: &domain.Waiter{ID: "a", ToolCallID: strings.Repeat("x", 201)}},
	} {
		_, err := w.Attach(t.Context(), id, a)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, d := range map[string]protocol.Detach{"waiterId": {}, "reason": {WaiterID: "a", Reason: "\xff"}} {
		_, err := w.Detach(t.Context(), id, d)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := w.Cancel(t.Context(), id, protocol.Cancel{WaiterID: "/"})
	if e := as(t, err, starter.ErrInvalid); e.Field != "waiterId" {
		t.Errorf("%v", err)
	}
	_, err = w.Detach(t.Context(), "nobody", protocol.Detach{WaiterID: "a"})
	is(t, err, starter.ErrUnknownTask)
	if out, err := w.Detach(t.Context(), id, protocol.Detach{WaiterID: "a"}); err != nil || out.Reason != domain.ReasonUnknownWaiter {
		t.Errorf("%+v (%v)", out, err)
	}
	ended := w.ended(t, domain.StateSucceeded)
	if out, err := w.Detach(t.Context(), ended, protocol.Detach{WaiterID: "submitter"}); err != nil || out.Reason != domain.ReasonTerminalConflict {
		t.Errorf("%+v (%v)", out, err)
	}
}

func TestACancelOfOneNeedsAWorker(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Workers(false)
		_, err := w.Cancel(t.Context(), id, protocol.Cancel{WaiterID: "submitter"})
		is(t, err, starter.ErrNoWorker)
		w.engine.Workers(true)
		if d, err := w.Describe(t.Context(), id); err != nil || d.Task.State != domain.StateQueued {
			t.Errorf("%s (%v)", d.Task.State, err)
		}
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		out := w.submit(t, starter.Submission{TaskID: "a", RunID: "r"})
		w.call(t, "a", "1", start())
		d, err := w.Wait(t.Context(), "a", starter.WaitOptions{For: time.Second})
		e := as(t, err, starter.ErrWaitTimeout)
		if d.Task.State != domain.StateRunning || !strings.Contains(e.Message, "1s") || !strings.Contains(e.Message, "goes on") || !strings.Contains(e.Hint, "cancel") {
			t.Errorf("%+v: %v", d.Task, err)
		}
		if d, err := w.Describe(t.Context(), "a"); err != nil || d.End != nil || len(d.Task.Waiters) != 0 {
			t.Errorf("a wait has changed the task: %+v (%v)", d, err)
		}
		_, err = w.Wait(t.Context(), "a", starter.WaitOptions{For: time.Second, WaiterID: out.WaiterID})
		is(t, err, starter.ErrWaitTimeout)
		d, err = w.Describe(t.Context(), "a")
		if err != nil || d.End == nil || d.End.Kind != domain.EndWaitTimeout || d.Task.State != domain.StateRunning {
			t.Errorf("%+v (%v)", d.End, err)
		}
		go func() {
			after(2 * time.Second)
			w.call(t, "a", "2", domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`1`)})
		}()
		if d, err := w.Wait(t.Context(), "a", starter.WaitOptions{For: time.Minute}); err != nil || d.Task.State != domain.StateSucceeded {
			t.Errorf("%s (%v)", d.Task.State, err)
		}
		if d, err := w.Wait(t.Context(), "a", starter.WaitOptions{}); err != nil || !d.Closed {
			t.Errorf("%+v (%v)", d, err)
		}
	})
}

// TestWaitEndsForTheCallersOwnReason: the end of its context stays what it is.
func TestWaitEndsForTheCallersOwnReason(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		w.submit(t, starter.Submission{TaskID: "a"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, "a", starter.WaitOptions{For: time.Minute}); !errors.Is(err, context.DeadlineExceeded) || starter.CodeOf(err) != "" {
			t.Errorf("%v", err)
		}
		_, err := w.Wait(t.Context(), "nobody", starter.WaitOptions{For: time.Minute})
		is(t, err, starter.ErrUnknownTask)
		for field, o := range map[string]starter.WaitOptions{"for": {For: -1}, "waiterId": {WaiterID: "/"}} {
			_, err := w.Wait(t.Context(), "a", o)
			if e := as(t, err, starter.ErrInvalid); e.Field != field {
				t.Errorf("%v", err)
			}
		}
		// Nobody can be told that the patience is over; it is over all the same.
		w.engine.Workers(false)
		_, err = w.Wait(t.Context(), "a", starter.WaitOptions{For: time.Second, WaiterID: "submitter"})
		if e := as(t, err, starter.ErrWaitTimeout); !errors.Is(e.Err, starter.ErrNoWorker) {
			t.Errorf("%v, because %v", err, e.Err)
		}
	})
}
