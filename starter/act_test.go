package starter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	w := setup(t)
	queued := w.submit(t, starter.Submission{TaskID: "queued"}).TaskID
	out, err := w.Cancel(t.Context(), queued, protocol.Cancel{By: "ann", Reason: "no need"})
	if err != nil || out.Reason != domain.ReasonCancelled || out.State != domain.StateCancelled {
		t.Errorf("queued: %+v (%v)", out, err)
	}
	out, err = w.Cancel(t.Context(), queued, protocol.Cancel{})
	if err != nil || out.Changed || out.Reason != domain.ReasonTerminalConflict || out.State != domain.StateCancelled {
		t.Errorf("ended: %+v (%v)", out, err)
	}
	running := w.submit(t, starter.Submission{TaskID: "running"}).TaskID
	w.call(t, running, "1", start())
	w.clock.Add(7)
	out, err = w.Cancel(t.Context(), running, protocol.Cancel{By: "ann"})
	if err != nil || !out.Changed || out.Reason != domain.ReasonCancelRequested || out.State != domain.StateRunning {
		t.Errorf("running: %+v (%v)", out, err)
	}
	out, err = w.Cancel(t.Context(), running, protocol.Cancel{By: "bob"})
	if err != nil || out.Changed || !out.Duplicate || out.Reason != domain.ReasonDuplicateCancel {
		t.Errorf("again: %+v (%v)", out, err)
	}
	d, err := w.Describe(t.Context(), running)
	if err != nil || !cmp.Equal(d.Task.Cancel, &domain.CancelRequest{AtMs: epoch + 7, By: "ann"}) {
		t.Errorf("%+v (%v)", d.Task.Cancel, err)
	}
	w.call(t, running, "2", domain.Event{Type: domain.EventCancelled})
	if d, err := w.Describe(t.Context(), running); err != nil || d.Task.State != domain.StateCancelled || !*d.Task.Confirmed {
		t.Errorf("%+v (%v)", d.Task, err)
	}
}

func TestCancelWithoutAWorkerIsKeptByTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Workers(false)
		out, err := w.Cancel(t.Context(), id, protocol.Cancel{By: "ann"})
		if err != nil || out != (domain.Outcome{Reason: domain.ReasonCancelRequested}) {
			t.Errorf("%+v (%v)", out, err)
		}
		w.engine.Workers(true)
		if d, err := w.Describe(t.Context(), id); err != nil || d.Task.State != domain.StateCancelled {
			t.Errorf("%s (%v)", d.Task.State, err)
		}
		w.engine.Down(true)
		_, err = w.Cancel(t.Context(), id, protocol.Cancel{})
		is(t, err, starter.ErrUnavailable)
	})
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	ask := domain.Event{Type: domain.EventInputRequired, QuestionID: "q", Prompt: "which?"}
	say := func(answer string) domain.Outcome {
		t.Helper()
		out, err := w.Answer(t.Context(), id, protocol.Answer{QuestionID: "q", Answer: json.RawMessage(answer), By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w.call(t, id, "1", start())
	if out := say(`1`); out.Reason != domain.ReasonUnknownQuestion {
		t.Errorf("before: %+v", out)
	}
	w.call(t, id, "2", ask)
	if out := say(`{"x": 1}`); !out.Changed || out.Reason != domain.ReasonAnswered {
		t.Errorf("first: %+v", out)
	}
	if out := say(`{"x":1}`); out.Changed || !out.Duplicate || out.Reason != domain.ReasonDuplicateAnswer {
		t.Errorf("repeat: %+v", out)
	}
	if out := say(`2`); out.Changed || out.Reason != domain.ReasonAnswerConflict {
		t.Errorf("another: %+v", out)
	}
	// A second attempt asks again. The same answer must reach it.
	yes := true
	w.call(t, id, "3", domain.Event{Type: domain.EventFail, Retryable: &yes})
	w.call(t, id, "4", domain.Event{Type: domain.EventStart, Attempt: 2})
	ask.Attempt = 2
	w.call(t, id, "5", ask)
	if out := say(`{"x":1}`); !out.Changed || out.Reason != domain.ReasonAnswered {
		t.Errorf("second attempt: %+v", out)
	}
	w.call(t, id, "6", domain.Event{Type: domain.EventSucceed, Attempt: 2, Result: json.RawMessage(`1`)})
	if out := say(`{"x":1}`); out.Changed || out.Reason != domain.ReasonTerminalConflict || out.State != domain.StateSucceeded {
		t.Errorf("ended: %+v", out)
	}
}

// TestACallbackIDMayEqualAnAnswersID: the engine has one space of update ids for a
// workflow, whatever the name of the update.
func TestACallbackIDMayEqualAnAnswersID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.call(t, id, "1", start())
	w.call(t, id, "2", domain.Event{Type: domain.EventInputRequired, QuestionID: "q", Prompt: "?"})
	out, err := w.Answer(t.Context(), id, protocol.Answer{QuestionID: "q", Answer: json.RawMessage(`1`)})
	if err != nil || out.Reason != domain.ReasonAnswered {
		t.Fatalf("%+v (%v)", out, err)
	}
	for _, callbackID := range []string{"q", protocol.AnswerUpdateID("q", "x"), "ans/q", "cb/1"} {
		if v := w.call(t, id, callbackID, domain.Event{Type: domain.EventHeartbeat, Stage: callbackID}); v.Verdict != starter.VerdictAccepted {
			t.Errorf("%s: %+v", callbackID, v)
		}
	}
}

func TestAnswerAndPersonsAreChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	one := json.RawMessage(`1`)
	for field, a := range map[string]protocol.Answer{
		"questionId": {QuestionID: strings.Repeat("q", 201), Answer: one},
		"answer":     {QuestionID: "q", Answer: json.RawMessage(`"` + strings.Repeat("x", 17<<10) + `"`)},
		"by":         {QuestionID: "q", Answer: one, By: strings.Repeat("x", 257)},
	} {
		_, err := w.Answer(t.Context(), id, a)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, a := range map[string]protocol.Answer{
		"no question": {Answer: one}, "not UTF-8": {QuestionID: "\xff", Answer: one}, "no answer": {QuestionID: "q"},
		"no JSON": {QuestionID: "q", Answer: json.RawMessage(`{`)}, "by not UTF-8": {QuestionID: "q", Answer: one, By: "\xff"},
	} {
		if _, err := w.Answer(t.Context(), id, a); starter.CodeOf(err) != starter.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]protocol.Cancel{"long": {Reason: strings.Repeat("x", 5000)}, "not UTF-8": {Reason: "\xff"}} {
		if _, err := w.Cancel(t.Context(), id, c); starter.CodeOf(err) != starter.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.Answer(t.Context(), "nobody", protocol.Answer{QuestionID: "q", Answer: one})
	is(t, err, starter.ErrUnknownTask)
	_, err = w.Cancel(t.Context(), "nobody", protocol.Cancel{})
	is(t, err, starter.ErrUnknownTask)
	_, err = w.Attach(t.Context(), "nobody", protocol.Attach{Target: "ops"})
	is(t, err, starter.ErrUnknownTask)
	for _, bad := range []string{"", "a/b"} {
		if _, err := w.Cancel(t.Context(), bad, protocol.Cancel{}); starter.CodeOf(err) != starter.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWhatNeedsAWorkerSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.engine.Workers(false)
		_, err := w.Answer(t.Context(), id, protocol.Answer{QuestionID: "q", Answer: json.RawMessage(`1`)})
		if e := as(t, err, starter.ErrNoWorker); !strings.Contains(e.Hint, "wakepoint worker") {
			t.Errorf("hint is %q", e.Hint)
		}
		_, err = w.Attach(t.Context(), id, protocol.Attach{Target: "dev"})
		is(t, err, starter.ErrNoWorker)
	})
}

func TestAttach(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	a, err := w.Attach(t.Context(), id, protocol.Attach{Target: "dev"})
	if err != nil || a.Outcome.Reason != domain.ReasonAttached || a.Task != nil {
		t.Errorf("%+v (%v)", a, err)
	}
	a, err = w.Attach(t.Context(), id, protocol.Attach{Target: "dev"})
	if err != nil || a.Outcome.Reason != domain.ReasonDuplicateTarget || !a.Outcome.Duplicate {
		t.Errorf("again: %+v (%v)", a, err)
	}
	if d, err := w.Describe(t.Context(), id); err != nil || !cmp.Equal(d.Targets, []string{"ops", "dev"}) {
		t.Errorf("%v (%v)", d.Targets, err)
	}
	w.call(t, id, "1", succeed())
	a, err = w.Attach(t.Context(), id, protocol.Attach{Target: "dev"})
	if err != nil || a.Task == nil || a.Task.State != domain.StateSucceeded || a.Task.ResultHash == "" || len(a.Task.History) != 0 {
		t.Errorf("ended: %+v (%v)", a, err)
	}
	_, err = w.Attach(t.Context(), id, protocol.Attach{Target: "opps"})
	if e := as(t, err, starter.ErrInvalid); e.Field != "target" || !strings.Contains(e.Message, "did you mean ops?") {
		t.Errorf("%v", err)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		_, err := w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1})
		if e := as(t, err, starter.ErrNoLease); !strings.Contains(e.Message, "queued") && !strings.Contains(e.Message, "attempt 0") {
			t.Errorf("queued: %v", err)
		}
		w.call(t, id, "1", start())
		for range 3 {
			a, err := w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1, Details: json.RawMessage(`{"step":4}`)})
			if err != nil || a.CancelRequested {
				t.Errorf("%+v (%v)", a, err)
			}
		}
		_, err = w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 2})
		is(t, err, starter.ErrNoLease)
		if _, err := w.Cancel(t.Context(), id, protocol.Cancel{}); err != nil {
			t.Fatal(err)
		}
		if a, err := w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1}); err != nil || !a.CancelRequested {
			t.Errorf("%+v (%v)", a, err)
		}
		w.call(t, id, "2", domain.Event{Type: domain.EventCancelled})
		_, err = w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1})
		is(t, err, starter.ErrEnded)
	})
}

// TestHeartbeatWaitsThroughAGap: between two runs of a task there is no lease for a
// moment, which is no reason to stop working.
func TestHeartbeatWaitsThroughAGap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		go func() {
			after(350 * time.Millisecond)
			w.call(t, id, "1", start())
		}()
		if a, err := w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1}); err != nil || a.CancelRequested {
			t.Errorf("%+v (%v)", a, err)
		}
	})
}

func TestHeartbeatThatFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a", Tool: "approve"}).TaskID
		w.call(t, id, "1", start())
		_, err := w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1})
		if e := as(t, err, starter.ErrNoLease); !strings.Contains(e.Message, "approve has no lease") {
			t.Errorf("%v", err)
		}
		_, err = w.Heartbeat(t.Context(), "nobody", starter.Heartbeat{Attempt: 1})
		is(t, err, starter.ErrUnknownTask)
		for field, hb := range map[string]starter.Heartbeat{"attempt": {}, "details": {Attempt: 1, Details: json.RawMessage(`{`)}} {
			_, err = w.Heartbeat(t.Context(), id, hb)
			if e := as(t, err, starter.ErrInvalid); e.Field != field {
				t.Errorf("%v", err)
			}
		}
		_, err = w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1, Details: json.RawMessage(`"` + strings.Repeat("x", 17<<10) + `"`)})
		is(t, err, starter.ErrInvalid)
		w.engine.Down(true)
		_, err = w.Heartbeat(t.Context(), id, starter.Heartbeat{Attempt: 1})
		is(t, err, starter.ErrUnavailable)
	})
}
