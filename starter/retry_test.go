package starter_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestRetryStartsANewRunWithTheRecord(t *testing.T) {
	t.Parallel()
	for _, state := range []domain.State{domain.StateFailed, domain.StateExpired, domain.StateCancelled} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			id := w.ended(t, state)
			before, err := w.Describe(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			w.clock.Add(1000)
			out, err := w.Retry(t.Context(), id, starter.Retry{TTL: time.Minute, By: "ann", Reason: "again"})
			want := starter.Retried{TaskID: id, State: domain.StateQueued, Version: before.Task.Version + 1, ExpiresAtMs: w.clock.Load() + 60_000}
			if diff := cmp.Diff(want, out); diff != "" || err != nil {
				t.Errorf("%s (%v)", diff, err)
			}
			o, in := w.engine.Started(w.workflowID(id))
			if o.WorkflowIDReusePolicy != enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY || in.Carry == nil || in.Carry.Retry.By != "ann" ||
				in.Carry.Task.Version != before.Task.Version || string(in.Input) != "{}" || in.Create.ID != id || o.Memo[protocol.MemoFingerprint] != in.Fingerprint {
				t.Errorf("%+v\n%+v", o, in)
			}
			after, err := w.Describe(t.Context(), id)
			if err != nil || after.Task.State != domain.StateQueued || after.Task.Retries != 1 || !cmp.Equal(after.Targets, []string{"ops"}) {
				t.Errorf("%+v (%v)", after, err)
			}
			// The same submission finds it still.
			if sub := w.submit(t, starter.Submission{TaskID: id}); !sub.Existing || sub.State != domain.StateQueued {
				t.Errorf("%+v", sub)
			}
		})
	}
}

// TestRefusedCallbackRepeatedAfterAManualRetry: what was refused while the task was
// over stays refused, and from then on callbacks must name their attempt.
func TestRefusedCallbackRepeatedAfterAManualRetry(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateFailed)
	if v := w.call(t, id, "late one", succeed()); v.Verdict != starter.VerdictConflict {
		t.Fatalf("%+v", v)
	}
	if _, err := w.Retry(t.Context(), id, starter.Retry{}); err != nil {
		t.Fatal(err)
	}
	if v := w.call(t, id, "late one", succeed()); v.Verdict != starter.VerdictStale || v.Outcome.Reason != domain.ReasonStaleAttempt {
		t.Errorf("without its attempt: %+v", v)
	}
	// The failure of the first attempt was answered, and is so again.
	if v := w.call(t, id, "f", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "BROKEN", Message: "no"}}); v.Verdict != starter.VerdictDuplicate {
		t.Errorf("the end of attempt 1: %+v", v)
	}
	e := succeed()
	e.Attempt = 2
	w.call(t, id, "start 2", domain.Event{Type: domain.EventStart, Attempt: 2})
	if v := w.call(t, id, "end 2", e); v.Verdict != starter.VerdictAccepted || v.Outcome.State != domain.StateSucceeded {
		t.Errorf("attempt 2: %+v", v)
	}
}

func TestTwoOperatorsRetryingAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateFailed)
	var fresh, existing int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			out, err := w.Retry(t.Context(), id, starter.Retry{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case out.Existing:
				existing++
			default:
				fresh++
			}
		})
	}
	wg.Wait()
	d, err := w.Describe(t.Context(), id)
	if err != nil || fresh != 1 || existing != 9 || w.engine.Runs(w.workflowID(id)) != 2 || d.Task.Retries != 1 || d.Task.MaxAttempts != 2 {
		t.Errorf("%d added, %d found, %d runs, task %+v (%v)", fresh, existing, w.engine.Runs(w.workflowID(id)), d.Task, err)
	}
}

func TestRetryOfATaskThatIsOpenInItsLateGrace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{Tool: "late", TaskID: "a"}).TaskID
	w.clock.Add(61_000)
	out, err := w.Retry(t.Context(), id, starter.Retry{TTL: time.Minute})
	want := starter.Retried{TaskID: "a", State: domain.StateQueued, Version: 2, ExpiresAtMs: epoch + 121_000}
	if diff := cmp.Diff(want, out); diff != "" || err != nil {
		t.Errorf("%s (%v)", diff, err)
	}
	if w.engine.Runs(w.workflowID(id)) != 1 {
		t.Error("it has another run")
	}
	if out, err := w.Retry(t.Context(), id, starter.Retry{}); err != nil || !out.Existing {
		t.Errorf("again: %+v (%v)", out, err)
	}
}

func TestRetryThatIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "open", RunID: "r"}).TaskID
	_, err := w.Retry(t.Context(), id, starter.Retry{})
	is(t, err, starter.ErrNotEnded)
	_, err = w.Retry(t.Context(), w.ended(t, domain.StateSucceeded), starter.Retry{})
	is(t, err, starter.ErrNotRetryable)
	failed := w.ended(t, domain.StateFailed)
	for _, ttl := range []time.Duration{-1, time.Microsecond, 49 * time.Hour} {
		_, err := w.Retry(t.Context(), failed, starter.Retry{TTL: ttl})
		if e := as(t, err, starter.ErrInvalid); e.Field != "ttlMs" {
			t.Errorf("%v: %v", ttl, err)
		}
	}
	_, err = w.Retry(t.Context(), failed, starter.Retry{Reason: strings.Repeat("x", 5000)})
	is(t, err, starter.ErrInvalid)
	w.call(t, id, "1", domain.Event{Type: domain.EventFail})
	out, err := w.Retry(t.Context(), id, starter.Retry{})
	if err != nil || !strings.Contains(out.Note, "run r may have consumed the failure") {
		t.Errorf("%+v (%v)", out, err)
	}
}

func TestRetryWithoutAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.ended(t, domain.StateFailed)
		late := w.submit(t, starter.Submission{Tool: "late", TaskID: "late"}).TaskID
		w.clock.Add(61_000)
		if _, err := w.Describe(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		w.engine.Workers(false)
		// A closed task needs none: the new run waits for one.
		out, err := w.Retry(t.Context(), id, starter.Retry{})
		if err != nil || out.State != domain.StateQueued {
			t.Errorf("%+v (%v)", out, err)
		}
		_, err = w.Retry(t.Context(), late, starter.Retry{})
		is(t, err, starter.ErrNoWorker)
	})
}

// TestRetryUsesTheToolAsItIsNow: a tool may have moved to other machines since.
func TestRetryUsesTheToolAsItIsNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a", Input: json.RawMessage(`{"n":5}`), MaxAttempts: 1}).TaskID
	w.call(t, id, "1", domain.Event{Type: domain.EventFail})
	for name, text := range map[string]string{
		"elsewhere": "tenant: acme\ntools: {train: {executor: external, taskQueue: elsewhere}}",
		"wakepoint": "tenant: acme",
	} {
		cfg, err := config.Parse("w.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		later, err := starter.New(starter.Options{Temporal: w.engine, Config: cfg, Now: w.clock.Load})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := later.Retry(t.Context(), id, starter.Retry{}); err != nil {
			t.Fatal(err)
		}
		if _, in := w.engine.Started(w.workflowID(id)); in.Tool.TaskQueue != name && name == "elsewhere" || string(in.Input) != `{"n":5}` {
			t.Errorf("%+v", in)
		}
		d, err := later.Describe(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.call(t, id, name, domain.Event{Type: domain.EventFail, Attempt: d.Task.Attempts})
		w.call(t, id, name+" start", domain.Event{Type: domain.EventStart, Attempt: d.Task.Attempts + 1})
		w.call(t, id, name+" fail", domain.Event{Type: domain.EventFail, Attempt: d.Task.Attempts + 1})
	}
}
