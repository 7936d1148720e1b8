package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

func TestCallbackVerdicts(t *testing.T) {
	t.Parallel()
	failed := domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "no"}}
	for name, tc := range map[string]struct {
		before func(t *testing.T, w *world, id string)
		e      domain.Event
		want   starter.CallbackVerdict
		reason domain.Reason
	}{
		"accepted":             {nil, progress(10), starter.VerdictAccepted, domain.ReasonProgress},
		"a heartbeat":          {func(t *testing.T, w *world, id string) { w.call(t, id, "1", start()) }, domain.Event{Type: domain.EventHeartbeat}, starter.VerdictAccepted, domain.ReasonHeartbeat},
		"said before":          {func(t *testing.T, w *world, id string) { w.call(t, id, "1", progress(10)) }, progress(10), starter.VerdictDuplicate, domain.ReasonDuplicateProgress},
		"running already":      {func(t *testing.T, w *world, id string) { w.call(t, id, "1", start()) }, start(), starter.VerdictDuplicate, domain.ReasonAlreadyRunning},
		"the past":             {func(t *testing.T, w *world, id string) { w.call(t, id, "1", progress(10)) }, progress(5), starter.VerdictStale, domain.ReasonStaleProgress},
		"another attempt":      {func(t *testing.T, w *world, id string) { w.call(t, id, "1", start()) }, domain.Event{Type: domain.EventFail, Attempt: 2}, starter.VerdictStale, domain.ReasonStaleAttempt},
		"at the deadline":      {func(_ *testing.T, w *world, _ string) { w.clock.Add(3_600_000) }, succeed(), starter.VerdictLate, domain.ReasonTerminalConflict},
		"same result":          {func(t *testing.T, w *world, id string) { w.call(t, id, "1", succeed()) }, succeed(), starter.VerdictDuplicate, domain.ReasonDuplicateResult},
		"the end was another":  {func(t *testing.T, w *world, id string) { w.call(t, id, "1", succeed()) }, failed, starter.VerdictConflict, domain.ReasonTerminalConflict},
		"late after the end":   {func(t *testing.T, w *world, id string) { w.call(t, id, "1", succeed()); w.clock.Add(7_200_000) }, failed, starter.VerdictLate, domain.ReasonTerminalConflict},
		"no worker":            {func(_ *testing.T, w *world, _ string) { w.engine.Workers(false) }, succeed(), starter.VerdictTaken, ""},
		"same callback":        {func(t *testing.T, w *world, id string) { w.call(t, id, "it", progress(7)) }, progress(7), starter.VerdictDuplicate, domain.ReasonDuplicateCallback},
		"same id, other words": {func(t *testing.T, w *world, id string) { w.call(t, id, "it", progress(7)) }, progress(8), starter.VerdictConflict, domain.ReasonDuplicateCallback},
		"same id after the end": {func(t *testing.T, w *world, id string) {
			w.call(t, id, "it", progress(7))
			w.call(t, id, "end", succeed())
		}, progress(7), starter.VerdictDuplicate, domain.ReasonDuplicateCallback},
		"same id, other words, after the end": {func(t *testing.T, w *world, id string) {
			w.call(t, id, "it", progress(7))
			w.call(t, id, "end", succeed())
		}, progress(8), starter.VerdictConflict, domain.ReasonDuplicateCallback},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := setup(t)
				id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
				if tc.before != nil {
					tc.before(t, w, id)
				}
				v := w.call(t, id, "it", tc.e)
				if v.Verdict != tc.want || v.Outcome.Reason != tc.reason {
					t.Errorf("verdict %s, reason %s; want %s, %s", v.Verdict, v.Outcome.Reason, tc.want, tc.reason)
				}
			})
		})
	}
}

// TestTrustedTimesAreLeftToTheTask: the client passes them on as they are, and a
// task that does not trust them clamps them itself.
func TestTrustedTimesAreLeftToTheTask(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.TrustTimes = true })
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	e := succeed()
	e.AtMs = epoch + 3_600_000
	w.call(t, id, "1", e)
	d, err := w.Describe(t.Context(), id)
	if err != nil || d.Task.State != domain.StateSucceeded || d.Task.EndedAtMs != epoch {
		t.Errorf("%s at +%d (%v)", d.Task.State, d.Task.EndedAtMs-epoch, err)
	}
}

func TestCallbackIsStampedWithTheTimeOfReceipt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ sent, want int64 }{
		"none":   {0, epoch + 5},
		"past":   {epoch + 1, epoch + 1},
		"future": {epoch + 1_000_000, epoch + 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
			w.clock.Add(5)
			e := start()
			e.AtMs = tc.sent
			w.call(t, id, "1", e)
			d, err := w.Describe(t.Context(), id)
			if err != nil || d.Task.StartedAtMs != tc.want {
				t.Errorf("started at +%d, want +%d (%v)", d.Task.StartedAtMs-epoch, tc.want-epoch, err)
			}
		})
	}
}

// TestCallbackKeepsTheTimeOfReceiptWhileNoWorkerIsThere: it was in time when it was
// taken, and a worker that comes after the deadline must find it so.
func TestCallbackKeepsTheTimeOfReceiptWhileNoWorkerIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Workers(false)
		e := succeed()
		e.AtMs = epoch + 3_599_999 // claims the future
		if v := w.call(t, id, "1", e); v.Verdict != starter.VerdictTaken {
			t.Fatalf("%+v", v)
		}
		w.clock.Add(7_200_000)
		w.engine.Workers(true)
		d, err := w.Describe(t.Context(), id)
		if err != nil || d.Task.State != domain.StateSucceeded || d.Task.EndedAtMs != epoch {
			t.Errorf("%s at +%d (%v)", d.Task.State, d.Task.EndedAtMs-epoch, err)
		}
	})
}

// TestCallbackThatFellBackToASignalIsNoDuplicateOfItself: the update that nobody
// answered may still be applied, before or after the signal.
func TestCallbackThatFellBackToASignalIsNoDuplicateOfItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Workers(false)
		cb := domain.Callback{CallbackID: "1", DeliveryID: "d1", Event: progress(5)}
		began := time.Now()
		v, err := w.Callback(t.Context(), id, cb)
		if err != nil || v.Verdict != starter.VerdictTaken {
			t.Fatalf("%+v (%v)", v, err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("fell back after %v", took)
		}
		w.engine.Workers(true)
		// The same delivery is asked again, as a gateway does that was cut off.
		v, err = w.Callback(t.Context(), id, cb)
		if err != nil || v.Verdict != starter.VerdictAccepted || v.Outcome.Duplicate {
			t.Errorf("the same delivery: %+v (%v)", v, err)
		}
		// Another delivery of it is a repeat.
		cb.DeliveryID = "d2"
		v, err = w.Callback(t.Context(), id, cb)
		if err != nil || v.Verdict != starter.VerdictDuplicate {
			t.Errorf("another delivery: %+v (%v)", v, err)
		}
		d, err := w.Describe(t.Context(), id)
		if err != nil || d.Task.Version != 2 || d.Repeats+d.Conflicts != 0 {
			t.Errorf("version %d, %d repeats, %d conflicts (%v)", d.Task.Version, d.Repeats, d.Conflicts, err)
		}
	})
}

func TestCallbackWithALostAnswerIsSentAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.LoseAnswers(2)
		v := w.call(t, id, "1", progress(5))
		if v.Verdict != starter.VerdictAccepted || !v.Outcome.Changed || w.engine.Calls("UpdateWorkflow") != 3 {
			t.Errorf("%+v after %d calls", v, w.engine.Calls("UpdateWorkflow"))
		}
	})
}

func TestCallbackRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	sixteen := json.RawMessage(`"` + strings.Repeat("x", 17<<10) + `"`)
	for name, tc := range map[string]struct {
		task  string
		cb    domain.Callback
		field string
	}{
		"task":                   {"a/b", domain.Callback{CallbackID: "1", Event: start()}, "taskId"},
		"blank id":               {"a", domain.Callback{CallbackID: " ", Event: start()}, "callbackId"},
		"long id":                {"a", domain.Callback{CallbackID: strings.Repeat("x", 201), Event: start()}, "callbackId"},
		"id not UTF-8":           {"a", domain.Callback{CallbackID: "\xff", Event: start()}, "callbackId"},
		"unknown type":           {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: "explode"}}, "event.type"},
		"no type":                {"a", domain.Callback{CallbackID: "1"}, "event.type"},
		"expire":                 {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventExpire}}, "event.type"},
		"retry":                  {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventRetry, TTLMs: 1}}, "event.type"},
		"negative time":          {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventStart, AtMs: -1}}, "event.atMs"},
		"fractional progress":    {"a", domain.Callback{CallbackID: "1", Event: progress(1.5)}, "event.progress"},
		"too much progress":      {"a", domain.Callback{CallbackID: "1", Event: progress(101)}, "event.progress"},
		"blank result":           {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventSucceed, ResultRef: "r"}}, "event.resultHash"},
		"stage not UTF-8":        {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventHeartbeat, Stage: "\xc3\x28"}}, "event.stage"},
		"error not UTF-8":        {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "\xff"}}}, "event.error.message"},
		"details not UTF-8":      {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Details: json.RawMessage("\"\xff\"")}}}, "event.error.details"},
		"result no JSON":         {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`{`)}}, "event"},
		"large body":             {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}}, "callback"},
		"large inline result":    {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`"` + strings.Repeat("x", 65<<10) + `"`)}}, "event.result"},
		"large details":          {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Message: "x", Details: sixteen}}}, "event.error.details"},
		"result and reference":   {"a", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`1`), ResultRef: "r"}}, "event.result"},
		"negative sender's time": {"a", domain.Callback{CallbackID: "1", Event: start(), OccurredAtMs: -1}, "occurredAtMs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := setup(t)
				w.submit(t, starter.Submission{TaskID: "a"})
				for _, worker := range []bool{true, false} {
					w.engine.Workers(worker)
					v, err := w.Callback(t.Context(), tc.task, tc.cb)
					var e *starter.Error
					// Whether progress and a reference fit is known by the task alone.
					if byTask := tc.field == "event.progress" || tc.field == "event.resultHash"; byTask && !worker {
						if err != nil || v.Verdict != starter.VerdictTaken {
							t.Errorf("without a worker: %+v (%v)", v, err)
						}
						continue
					}
					if !errors.As(err, &e) || e.Code != starter.CodeInvalid || e.Field != tc.field || v.Verdict != starter.VerdictRejected {
						t.Errorf("worker %v: %+v, %v; want field %s", worker, v, err, tc.field)
					}
				}
				w.engine.Workers(true)
				if d, err := w.Describe(t.Context(), "a"); err != nil || d.Task.Version != 0 {
					t.Errorf("the task is at version %d (%v)", d.Task.Version, err)
				}
			})
		})
	}
}

func TestCallbackOfARepeatIsAnsweredBeforeItsEventIsLookedAt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.call(t, id, "1", start())
	if v := w.call(t, id, "1", progress(1.5)); v.Verdict != starter.VerdictConflict {
		t.Errorf("open: %+v", v)
	}
	w.call(t, id, "2", succeed())
	if v := w.call(t, id, "1", domain.Event{Type: domain.EventExpire}); v.Verdict != starter.VerdictConflict {
		t.Errorf("closed: %+v", v)
	}
}

func TestCallbackForNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v, err := w.Callback(t.Context(), "nobody", domain.Callback{CallbackID: "1", Event: start()})
	if is(t, err, starter.ErrUnknownTask); v.Verdict != starter.VerdictUnknownTask {
		t.Errorf("%+v", v)
	}
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.engine.Terminate(w.workflowID(id))
	_, err = w.Callback(t.Context(), id, domain.Callback{CallbackID: "1", Event: start()})
	is(t, err, starter.ErrTerminated)
	w.engine.Forget(w.workflowID(id))
	_, err = w.Callback(t.Context(), id, domain.Callback{CallbackID: "1", Event: start()})
	is(t, err, starter.ErrUnknownTask)
}

func TestCallbackWhileTheEngineIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Down(true)
		v, err := w.Callback(t.Context(), id, domain.Callback{CallbackID: "1", Event: start()})
		if is(t, err, starter.ErrUnavailable); v.Verdict != "" {
			t.Errorf("%+v", v)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Callback(ctx, id, domain.Callback{CallbackID: "1", Event: start()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestCallbackLateResultAfterTheGraceIsOver: the record is closed, so what claims a
// time within the grace changes nothing any more and must not look as if it did.
func TestCallbackLateResultAfterTheGraceIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{Tool: "late", TaskID: "a"}).TaskID
	w.clock.Add(60_000 + 3_600_000)
	if d, err := w.Describe(t.Context(), id); err != nil || !d.Closed {
		t.Fatalf("%+v (%v)", d, err)
	}
	e := succeed()
	e.AtMs = epoch + 61_000
	if v := w.call(t, id, "1", e); v.Verdict != starter.VerdictLate || v.Outcome.Changed || v.Outcome.Reason != domain.ReasonTerminalConflict || v.Outcome.Version != 1 {
		t.Errorf("%+v", v)
	}
}

func TestCallbackLateResultIsKeptWithinTheGrace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{Tool: "late", TaskID: "a"}).TaskID
	w.clock.Add(61_000)
	if v := w.call(t, id, "1", succeed()); v.Verdict != starter.VerdictLate || !v.Outcome.Changed || v.Outcome.Reason != domain.ReasonLateResult {
		t.Errorf("%+v", v)
	}
	d, err := w.Describe(t.Context(), id)
	if err != nil || d.Task.Late == nil || d.Task.State != domain.StateExpired || !d.Closed {
		t.Errorf("%+v (%v)", d.Task, err)
	}
}

func TestCallbacksOfManyAtOnceAreEachAnsweredOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.call(t, id, "start", start())
	verdicts := make(map[starter.CallbackVerdict]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			v, err := w.Callback(t.Context(), id, domain.Callback{CallbackID: fmt.Sprint(i % 100), Event: domain.Event{Type: domain.EventHeartbeat, Stage: fmt.Sprint(i % 100)}})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			verdicts[v.Verdict]++
		})
	}
	wg.Wait()
	if verdicts[starter.VerdictAccepted] != 100 || verdicts[starter.VerdictDuplicate] != 100 {
		t.Errorf("%v", verdicts)
	}
}

func TestUpdatesOfATaskAreBoundedInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		before := w.engine.Calls("UpdateWorkflow")
		w.engine.Workers(false)
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { w.call(t, id, fmt.Sprint(i), domain.Event{Type: domain.EventHeartbeat, Stage: fmt.Sprint(i)}) })
		}
		synctest.Wait()
		if n := w.engine.Calls("UpdateWorkflow") - before; n != 8 {
			t.Errorf("%d updates in flight", n)
		}
		wg.Wait()
		if n := w.engine.Calls("SignalWorkflow"); n != 30 {
			t.Errorf("%d signals", n)
		}
	})
}

func TestSignal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.engine.Workers(false)
	if err := w.Signal(t.Context(), id, domain.Callback{CallbackID: "1", Event: succeed()}); err != nil {
		t.Fatal(err)
	}
	w.engine.Workers(true)
	d, err := w.Describe(t.Context(), id)
	if err != nil || d.Task.State != domain.StateSucceeded {
		t.Fatalf("%s (%v)", d.Task.State, err)
	}
	is(t, w.Signal(t.Context(), id, domain.Callback{CallbackID: "2", Event: start()}), starter.ErrEnded)
	is(t, w.Signal(t.Context(), "nobody", domain.Callback{CallbackID: "2", Event: start()}), starter.ErrUnknownTask)
	is(t, w.Signal(t.Context(), id, domain.Callback{CallbackID: "2"}), starter.ErrInvalid)
	is(t, w.Signal(t.Context(), id, domain.Callback{CallbackID: "", Event: start()}), starter.ErrInvalid)
	w.engine.Down(true)
	is(t, w.Signal(t.Context(), id, domain.Callback{CallbackID: "2", Event: start()}), starter.ErrUnavailable)
}

func TestVerdictsAreListed(t *testing.T) {
	t.Parallel()
	if all := starter.CallbackVerdicts(); len(all) != 8 || all[0] != starter.VerdictAccepted || all[7] != starter.VerdictUnknownTask {
		t.Errorf("%v", all)
	}
}
