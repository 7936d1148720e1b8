package starter_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestDeliver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	if d, err := w.Deliver(t.Context(), id, "k"); err != nil || d.OK || d.Reason != domain.ReasonNotSucceeded || d.Receipt != nil {
		t.Errorf("too early: %+v (%v)", d, err)
	}
	w.call(t, id, "1", succeed())
	w.clock.Add(5)
	first, err := w.Deliver(t.Context(), id, "k")
	if err != nil || !first.OK || first.Duplicate || first.Reason != domain.ReasonDelivered || first.Receipt.DeliveredAtMs != epoch+5 || first.Receipt.ResultHash == "" {
		t.Errorf("%+v (%v)", first, err)
	}
	w.clock.Add(5)
	w.engine.Workers(false)
	second, err := w.Deliver(t.Context(), id, "k")
	if err != nil || !second.OK || !second.Duplicate || second.Reason != domain.ReasonDuplicateDelivery || !cmp.Equal(first.Receipt, second.Receipt) {
		t.Errorf("again: %+v (%v)", second, err)
	}
	w.engine.Workers(true)
	// The key is looked up before the task: another one, known or not, is told no more
	// than that it is taken.
	other := w.submit(t, starter.Submission{TaskID: "other"}).TaskID
	for _, task := range []string{other, "nobody"} {
		if d, err := w.Deliver(t.Context(), task, "k"); err != nil || d.OK || !d.Duplicate || d.Reason != domain.ReasonKeyReused || d.Receipt != nil {
			t.Errorf("%s: %+v (%v)", task, d, err)
		}
	}
	_, err = w.Deliver(t.Context(), "nobody", "fresh")
	is(t, err, starter.ErrUnknownTask)
	o, _ := w.engine.Started(protocol.DeliveryWorkflowID("acme", "k"))
	if o.StaticSummary != "hand over the result of a" || o.Memo[protocol.MemoTaskID] != "a" {
		t.Errorf("%+v", o)
	}
	for field, args := range map[string][2]string{"taskId": {"a/b", "k"}, "idempotencyKey": {"a", " "}} {
		_, err := w.Deliver(t.Context(), args[0], args[1])
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%v", err)
		}
	}
	if _, err := w.Deliver(t.Context(), "a", strings.Repeat("k", 3000)); starter.CodeOf(err) != starter.CodeInvalid {
		t.Errorf("%v", err)
	}
}

func TestDeliverManyAtOnceGivesOneReceipt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateSucceeded)
	var fresh, repeats int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			d, err := w.Deliver(t.Context(), id, "k")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || !d.OK || d.Receipt == nil:
				t.Errorf("%+v (%v)", d, err)
			case d.Duplicate:
				repeats++
			default:
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 || repeats != 9 {
		t.Errorf("%d delivered, %d repeated", fresh, repeats)
	}
}

func TestDeliverWithoutAWorkerIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.ended(t, domain.StateSucceeded)
		w.engine.Workers(false)
		_, err := w.Deliver(t.Context(), id, "k")
		if e := as(t, err, starter.ErrNoWorker); !strings.Contains(e.Hint, "same key") {
			t.Errorf("hint is %q", e.Hint)
		}
		w.engine.Workers(true)
		if d, err := w.Deliver(t.Context(), id, "k"); err != nil || !d.OK {
			t.Errorf("%+v (%v)", d, err)
		}
	})
}

// webhook starts the delivery that a task starts for a target.
func (w *world) webhook(t *testing.T, key string) {
	t.Helper()
	o, _ := w.engine.Started(protocol.DeliveryWorkflowID("acme", "k"))
	o.ID, o.Memo = protocol.DeliveryWorkflowID("acme", key), map[string]any{protocol.MemoTaskID: "ended-succeeded"}
	in := protocol.DeliveryInput{
		Tenant: "acme", Key: key, Kind: protocol.DeliveryWebhook, Target: "ops", Task: domain.Task{ID: "ended-succeeded"}, Type: "task.succeeded",
	}
	if _, err := w.engine.ExecuteWorkflow(t.Context(), o, protocol.WorkflowDelivery, in); err != nil {
		t.Fatal(err)
	}
}

func TestDeliveryStatusAndRedeliver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateSucceeded)
	if _, err := w.Deliver(t.Context(), id, "k"); err != nil {
		t.Fatal(err)
	}
	rec, err := w.DeliveryStatus(t.Context(), "k")
	if err != nil || rec.State != protocol.DeliveryDone || rec.Answer == nil {
		t.Errorf("%+v (%v)", rec, err)
	}
	_, err = w.Redeliver(t.Context(), "k", protocol.Redeliver{By: "ann"})
	is(t, err, starter.ErrConflict)
	_, err = w.DeliveryStatus(t.Context(), "none")
	is(t, err, starter.ErrUnknownKey)
	_, err = w.DeliveryStatus(t.Context(), " ")
	is(t, err, starter.ErrInvalid)
	_, err = w.Redeliver(t.Context(), "none", protocol.Redeliver{})
	is(t, err, starter.ErrUnknownKey)
	_, err = w.Redeliver(t.Context(), "k", protocol.Redeliver{By: strings.Repeat("x", 300)})
	is(t, err, starter.ErrInvalid)

	d, err := w.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	key := starter.DeliveryKey(d.Task, "ops")
	if key != "ended-succeeded/succeeded/2/ops" {
		t.Errorf("key is %s", key)
	}
	w.webhook(t, key)
	if rec, err := w.DeliveryStatus(t.Context(), key); err != nil || rec.State != protocol.DeliveryPending {
		t.Errorf("%+v (%v)", rec, err)
	}
	if rec, err := w.Redeliver(t.Context(), key, protocol.Redeliver{}); err != nil || rec.Key != key {
		t.Errorf("open: %+v (%v)", rec, err)
	}
	w.engine.DeadLetter(key, "acme", "503")
	if rec, err := w.DeliveryStatus(t.Context(), key); err != nil || rec.State != protocol.DeliveryDeadLetter || rec.LastError != "503" {
		t.Errorf("dead letter: %+v (%v)", rec, err)
	}
	// A pull under that key is told what the key is for.
	_, err = w.Deliver(t.Context(), id, key)
	is(t, err, starter.ErrConflict)
	for range 2 {
		rec, err = w.Redeliver(t.Context(), key, protocol.Redeliver{By: "ann"})
		if err != nil || rec.Key != key+"/again-2" || rec.State != protocol.DeliveryPending {
			t.Errorf("dead letter: %+v (%v)", rec, err)
		}
	}
	if n := w.engine.Runs(protocol.DeliveryWorkflowID("acme", key+"/again-2")); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

func TestAgainKeyCounts(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"k": "k/again-2", "k/again-2": "k/again-3", "k/again-9": "k/again-10", "k/again-x": "k/again-x/again-2", "k/again-1": "k/again-1/again-2"} {
		if got := starter.AgainKey(key); got != want {
			t.Errorf("%s gives %s, want %s", key, got, want)
		}
	}
}
