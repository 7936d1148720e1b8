package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
)

func TestStepsOfARun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	req := w.next(t, id)
	if req.Step != 1 || req.Attempt != 1 || req.Cause != run.CauseStart || len(req.Inputs) != 1 || string(req.Inputs[0].Content) != `{"q":1}` || req.Checkpoint != nil {
		t.Fatalf("%+v", req)
	}
	checkpoint := `{ "x" : "` + strings.Repeat("<é>\\u003c", run.MaxInline/8) + `" }`
	out, err := w.Commit(t.Context(), id, req.Step, req.StepToken, run.StepResponse{
		Checkpoint: json.RawMessage(checkpoint), ToolCalls: []run.ToolCall{{ToolCallID: "c", Tool: "train", Input: json.RawMessage(`{ "n": 1 }`)}},
	})
	if err != nil || out.Reason != run.ReasonCommitted || out.State != run.StateWaitingTool {
		t.Fatalf("%+v (%v)", out, err)
	}
	key := run.Key{Step: 1, ID: "c"}
	w.applyRun(t, id, run.Event{Type: run.EventCallStarted, Call: key, Started: &run.Started{TaskID: "call_1"}})
	ref := putResult(t, w, "call_1", "done, <ok>")
	w.applyRun(t, id, run.Event{Type: run.EventCallEnded, Call: key, End: &run.End{State: run.CallSucceeded, ResultRef: ref.Ref, ResultHash: ref.Hash, ContentType: "text/plain"}})
	req = w.next(t, id)
	if string(req.Checkpoint) != checkpoint || len(req.Results) != 1 || string(req.Results[0].Result) != `"done, <ok>"` || req.Results[0].State != run.CallSucceeded {
		t.Fatalf("%d bytes of checkpoint, %+v", len(req.Checkpoint), req.Results)
	}
	if _, err := w.StepHeartbeat(t.Context(), id, req.StepToken, json.RawMessage(`{"token":"x"}`)); err != nil {
		t.Error(err)
	}
	if _, err := w.Commit(t.Context(), id, req.Step, req.StepToken, run.StepResponse{Final: json.RawMessage(`{ "a" : 1 }`)}); err != nil {
		t.Fatal(err)
	}
	answer, err := w.RunResult(t.Context(), id)
	if err != nil || string(answer.Content) != `{ "a" : 1 }` {
		t.Errorf("%s (%v)", answer.Content, err)
	}
	_, err = w.Next(t.Context(), id, starter.NextOptions{Wait: time.Hour})
	if e := as(t, err, starter.ErrEnded); e.Hint == "" {
		t.Error(e)
	}
}

func putResult(t testing.TB, w *world, taskID, text string) store.Ref {
	t.Helper()
	ref, err := w.store.PutBytes(t.Context(), store.Key{Tenant: "acme", TaskID: taskID}, []byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestTheSameCommitAgain(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	req := w.next(t, id)
	resp := run.StepResponse{Await: run.AwaitInput, Checkpoint: json.RawMessage(`{ "a": [] }`), Usage: []run.Usage{{Model: "m", InputTokens: 1}}}
	w.engine.LoseAnswers(1)
	first, err := w.Commit(t.Context(), id, 1, req.StepToken, resp)
	if err != nil || first.Reason != run.ReasonCommitted {
		t.Fatalf("%+v (%v)", first, err)
	}
	again, err := w.Commit(t.Context(), id, 1, req.StepToken, resp)
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("%s (%v)", diff, err)
	}
	other := resp
	other.Checkpoint = json.RawMessage(`{ "b": [] }`)
	out, err := w.Commit(t.Context(), id, 1, req.StepToken, other)
	var refused *run.RefusedError
	if is(t, err, starter.ErrCommitConflict); out.Reason != run.ReasonCommitConflict || !errors.As(err, &refused) || refused.Outcome != out {
		t.Errorf("%+v (%v)", out, err)
	}
	_, err = w.Commit(t.Context(), id, 1, "old", resp)
	is(t, err, starter.ErrStaleToken)
	_, err = w.Commit(t.Context(), id, 2, "t", resp)
	is(t, err, starter.ErrNoStep)
	_, err = w.Commit(t.Context(), id, 3, "t", resp)
	is(t, err, starter.ErrStepAhead)
}

func TestRepeatedCommitOfAClosedRun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	req := w.next(t, id)
	resp := run.StepResponse{Final: json.RawMessage(`"` + strings.Repeat("x", run.MaxInline) + `"`)}
	first, err := w.Commit(t.Context(), id, 1, req.StepToken, resp)
	if err != nil || first.Reason != run.ReasonFinished {
		t.Fatalf("%+v (%v)", first, err)
	}
	// The engine itself has forgotten the update.
	w.engine.ForgetUpdates(runWorkflow(id))
	again, err := w.Commit(t.Context(), id, 1, req.StepToken, resp)
	first.Duplicate = true
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("%s (%v)", diff, err)
	}
	_, err = w.Commit(t.Context(), id, 1, req.StepToken, run.StepResponse{Final: json.RawMessage(`1`)})
	is(t, err, starter.ErrCommitConflict)
	_, err = w.Commit(t.Context(), id, 2, req.StepToken, run.StepResponse{Final: json.RawMessage(`1`)})
	is(t, err, starter.ErrEnded)
	_, err = w.StepHeartbeat(t.Context(), id, req.StepToken, nil)
	is(t, err, starter.ErrEnded)
	if answer, err := w.RunResult(t.Context(), id); err != nil || string(answer.Content) != string(resp.Final) || answer.Ref == "" {
		t.Errorf("%d bytes (%v)", len(answer.Content), err)
	}
}

func TestTwoCommitsAtOnce(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	req := w.next(t, id)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = w.Commit(t.Context(), id, 1, req.StepToken, run.StepResponse{Await: run.AwaitInput, Output: json.RawMessage(strings.Repeat("1", i+1))})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		is(t, err, starter.ErrCommitConflict)
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func TestCommitRefusesBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	req := w.next(t, id)
	calls := w.engine.Calls("UpdateWorkflow")
	for field, resp := range map[string]run.StepResponse{
		"checkpoint":              {Checkpoint: make(json.RawMessage, run.MaxCheckpoint+1), Await: "input"},
		"final":                   {Final: json.RawMessage("{")},
		"toolCalls[0].toolCallId": {ToolCalls: []run.ToolCall{{Tool: "train"}}},
		"toolCalls[0].input":      {ToolCalls: []run.ToolCall{{ToolCallID: "a", Tool: "train", Input: json.RawMessage("{")}}},
		"await":                   {Await: "rain"},
		"output":                  {Output: json.RawMessage("{"), Await: "input"},
		"checkpointRef":           {CheckpointRef: &run.ContentRef{Ref: "blob:acme/task/run.other/" + run.Hash(nil)}, Await: "input"},
		"error":                   {Error: taskError("X"), ToolCalls: []run.ToolCall{{ToolCallID: "a", Tool: "train"}}},
	} {
		_, err := w.Commit(t.Context(), id, 1, req.StepToken, resp)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	if n := w.engine.Calls("UpdateWorkflow") - calls; n != 0 {
		t.Errorf("%d updates were sent", n)
	}
	// What only the run can see it refuses itself.
	_, err := w.Commit(t.Context(), id, 1, req.StepToken, run.StepResponse{CancelCalls: []run.CancelCall{{ToolCallID: "x", AskedAtStep: 1}}})
	if e := as(t, err, starter.ErrInvalid); e.Field != "cancelCalls[0]" {
		t.Error(e)
	}
	_, err = w.Commit(t.Context(), id, 1, req.StepToken, run.StepResponse{})
	is(t, err, starter.ErrNothingToWait)
	if out := w.commit(t, id, run.StepResponse{Await: run.AwaitInput}); out.Step != 1 {
		t.Errorf("%+v", out)
	}
}

func TestNextWithoutWaiting(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	_, err := w.Next(t.Context(), id, starter.NextOptions{RuntimeVersion: "6"})
	is(t, err, starter.ErrWrongRuntime)
	first := w.next(t, id)
	_, err = w.Next(t.Context(), id, starter.NextOptions{})
	is(t, err, starter.ErrStepHeld)
	_, err = w.Next(t.Context(), id, starter.NextOptions{Holder: "you"})
	is(t, err, starter.ErrStepHeld)
	// Who holds it has lost it.
	second := w.next(t, id)
	if second.Attempt != 2 || second.StepToken == first.StepToken {
		t.Errorf("%+v", second)
	}
	_, err = w.StepHeartbeat(t.Context(), id, first.StepToken, nil)
	is(t, err, starter.ErrStaleToken)
	if _, err = w.Commit(t.Context(), id, second.Step, second.StepToken, run.StepResponse{Await: run.AwaitInput}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Next(t.Context(), id, starter.NextOptions{})
	is(t, err, starter.ErrNoStep)
	_, err = w.Next(t.Context(), "nobody", starter.NextOptions{})
	is(t, err, starter.ErrUnknownRun)
	for _, o := range []starter.NextOptions{{Lease: -1}, {Wait: -1}, {Lease: 11 * 24 * time.Hour}, {Holder: "\xff"}, {RuntimeVersion: strings.Repeat("v", run.MaxText+1)}} {
		_, err = w.Next(t.Context(), id, o)
		is(t, err, starter.ErrInvalid)
	}
}

func TestNextWaitsForTheRunToChange(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		w.asks(t, id, "c")
		begun := time.Now()
		go func() {
			after(50 * time.Second)
			w.applyRun(t, id, run.Event{Type: run.EventCallEnded, Call: run.Key{Step: 1, ID: "c"}, End: &run.End{State: run.CallFailed, Error: taskError("X")}})
		}()
		req, err := w.Next(t.Context(), id, starter.NextOptions{Wait: time.Minute})
		if took := time.Since(begun); err != nil || req.Step != 2 || took < 50*time.Second || took > 51*time.Second {
			t.Errorf("%+v after %s (%v)", req, took, err)
		}
		if n := w.engine.Calls("UpdateWorkflow"); n > 20 {
			t.Errorf("%d updates while nothing changed", n)
		}
	})
}

func TestNextWaitsUntilTheLeaseOfAnotherIsOver(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		if _, err := w.Next(t.Context(), id, starter.NextOptions{Holder: "lost", Lease: 20 * time.Second}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		req, err := w.Next(t.Context(), id, starter.NextOptions{Wait: time.Hour})
		if took := time.Since(begun); err != nil || req.Attempt != 2 || took > 31*time.Second {
			t.Errorf("%+v after %s (%v)", req, took, err)
		}
	})
}

func TestNextGivesUp(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		w.asks(t, id, "c")
		begun := time.Now()
		_, err := w.Next(t.Context(), id, starter.NextOptions{Wait: time.Minute})
		if is(t, err, starter.ErrNoStep); time.Since(begun) != time.Minute {
			t.Errorf("after %s", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = w.Next(ctx, id, starter.NextOptions{Wait: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		w.engine.Workers(false)
		_, err = w.Next(t.Context(), id, starter.NextOptions{})
		is(t, err, starter.ErrNoWorker)
	})
}

// A claim of which it is not known whether it was applied must not be followed by
// another one, which would find the step held by the first.
func TestNextRepeatsAClaimOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		w.engine.LoseAnswers(1)
		if req, err := w.Next(t.Context(), id, starter.NextOptions{}); err != nil || req.Attempt != 1 {
			t.Fatalf("%+v (%v)", req, err)
		}
		id = w.startRun(t, "r2")
		w.engine.Workers(false)
		go func() {
			after(30 * time.Second)
			w.engine.Workers(true)
		}()
		if req, err := w.Next(t.Context(), id, starter.NextOptions{Wait: time.Minute}); err != nil || req.Attempt != 1 {
			t.Errorf("%+v (%v)", req, err)
		}
	})
}

func TestNextTellsOfAnEndWhileItWaits(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		w.asks(t, id, "c")
		go func() {
			after(10 * time.Second)
			w.engine.Terminate(runWorkflow(id))
		}()
		_, err := w.Next(t.Context(), id, starter.NextOptions{Wait: time.Hour})
		is(t, err, starter.ErrTerminated)
	})
}

func TestNextWithoutTheStore(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.commit(t, id, run.StepResponse{Checkpoint: json.RawMessage(`"` + strings.Repeat("x", run.MaxInline) + `"`), Await: run.AwaitInput})
	if _, err := w.Say(t.Context(), id, said("1", `1`)); err != nil {
		t.Fatal(err)
	}
	bare, err := starter.New(starter.Options{Temporal: w.engine, Config: w.config, Now: w.clock.Load})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bare.Next(t.Context(), id, starter.NextOptions{Holder: "me"})
	is(t, err, starter.ErrInternal)
	if err := w.store.Delete(t.Context(), w.checkpointRef(t, id)); err != nil {
		t.Fatal(err)
	}
	_, err = w.Next(t.Context(), id, starter.NextOptions{Holder: "me"})
	is(t, err, starter.ErrResultMissing)
}

func (w *world) checkpointRef(t testing.TB, id string) string {
	t.Helper()
	d, err := w.DescribeRun(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d.Run.Checkpoint.Ref
}

// outage makes the objects of a tenant unreadable, and not absent, until the function
// that it gives is called.
func outage(t testing.TB, root string) (over func()) {
	t.Helper()
	folder := filepath.Join(root, "acme")
	if err := errors.Join(os.Rename(folder, folder+".away"), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(folder), os.Rename(folder+".away", folder)); err != nil {
			t.Error(err)
		}
	}
}

// away has a run whose checkpoint lies in a store that is away, and f with it.
func away(t *testing.T, f func(t *testing.T, w *world, id string, over func())) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		at, err := store.FileURL(root)
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		w := setupRuns(t, func(o *starter.Options) { o.Now, o.Store = nil, st })
		w.engine.Now = func() int64 { return time.Now().UnixMilli() }
		id := w.startRun(t, "r")
		w.commit(t, id, run.StepResponse{Checkpoint: json.RawMessage(`"` + strings.Repeat("x", run.MaxInline) + `"`), Await: run.AwaitInput})
		if _, err := w.Say(t.Context(), id, said("1", `1`)); err != nil {
			t.Fatal(err)
		}
		f(t, w, id, outage(t, root))
	})
}

// A store that was away for seconds failed a run: each time that its runtime asked again
// was an attempt, and after ten the step had failed.
func TestAStoreThatIsAwayCostsNoAttempts(t *testing.T) {
	t.Parallel()
	away(t, func(t *testing.T, w *world, id string, over func()) {
		const lease = run.DefaultLeaseMs * time.Millisecond
		time.AfterFunc(lease/2, over)
		req, err := w.Next(t.Context(), id, starter.NextOptions{Holder: "me"})
		if err != nil || req.Attempt != 1 || len(req.Checkpoint) != run.MaxInline+2 {
			t.Fatalf("attempt %d with %d bytes of checkpoint (%v)", req.Attempt, len(req.Checkpoint), err)
		}
		// The lease counts from now.
		after(lease * 3 / 4)
		_, err = w.Next(t.Context(), id, starter.NextOptions{Holder: "other"})
		is(t, err, starter.ErrStepHeld)
		if _, err := w.Commit(t.Context(), id, req.Step, req.StepToken, run.StepResponse{Final: json.RawMessage(`1`)}); err != nil {
			t.Error(err)
		}
	})
}

// It is waited for while the step is held, and as long as anybody is there.
func TestAStoreThatStaysAway(t *testing.T) {
	t.Parallel()
	away(t, func(t *testing.T, w *world, id string, over func()) {
		start := time.Now()
		_, err := w.Next(t.Context(), id, starter.NextOptions{Holder: "me", Lease: 20 * time.Second})
		is(t, err, starter.ErrUnavailable)
		if waited := time.Since(start); waited < 10*time.Second || waited > 15*time.Second {
			t.Errorf("waited for %s of a lease of 20s", waited)
		}
		gone, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		start = time.Now()
		_, err = w.Next(gone, id, starter.NextOptions{Holder: "me"})
		if waited := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || waited != 3*time.Second {
			t.Errorf("%v after %s", err, waited)
		}
		over()
		if req := w.next(t, id); req.Attempt != 3 {
			t.Errorf("attempt %d", req.Attempt)
		}
	})
}
