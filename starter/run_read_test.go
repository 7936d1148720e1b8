package starter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestDescribeRunTellsOfItsTasks(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.asks(t, id, "open", "gone", "ready", "sub")
	begun := func(callID string, s run.Started) {
		w.applyRun(t, id, run.Event{Type: run.EventCallStarted, Call: run.Key{Step: 1, ID: callID}, Started: &s})
	}
	w.submit(t, starter.Submission{TaskID: "t1"})
	w.call(t, "t1", "1", start())
	w.call(t, "t1", "2", domain.Event{Type: domain.EventProgress, Progress: new(40.0), Stage: "half"})
	w.engine.SetHandle(w.workflowID("t1"), &protocol.Handle{Executor: "exec", ID: "h"})
	begun("open", run.Started{TaskID: "t1"})
	begun("gone", run.Started{TaskID: "nowhere"})
	w.startRun(t, "below")
	begun("sub", run.Started{SubRunID: "below"})
	d, err := w.DescribeRun(t.Context(), id)
	if err != nil || d.Closed || d.Run.State != run.StateWaitingTool || d.WorkflowRunID == "" || d.WaitsFor == "" || len(d.Calls) != 4 {
		t.Fatalf("%+v (%v)", d, err)
	}
	open := d.Calls[0]
	if open.State != run.CallOpen || open.Standing != "running" || open.Phase != domain.PhaseWaitingExternal || open.Stage != "half" || open.Progress != 40 ||
		open.Handle == nil || open.LastHeardAtMs != epoch || open.ExpiresAtMs != epoch+3_600_000 || open.WaitsFor == "" || open.Note != "" {
		t.Errorf("%+v", open)
	}
	if gone := d.Calls[1]; !strings.Contains(gone.Note, "there is no task nowhere") || gone.Standing != "" {
		t.Errorf("%+v", gone)
	}
	if ready := d.Calls[2]; ready.WaitsFor != "a worker to start it" || ready.Phase != domain.PhaseSubmitted {
		t.Errorf("%+v", ready)
	}
	if sub := d.Calls[3]; sub.Standing != "RUNNING" || sub.WaitsFor != "a runtime to take step 1" {
		t.Errorf("%+v", sub)
	}
	_, err = w.DescribeRun(t.Context(), "nobody")
	is(t, err, starter.ErrUnknownRun)
}

func TestClosedRunsAreReadWithoutAWorker(t *testing.T) {
	t.Parallel()
	for _, state := range []run.State{run.StateSucceeded, run.StateFailed, run.StateCancelled, run.StateExpired} {
		w := setupRuns(t)
		id := w.endedRun(t, state)
		w.engine.Workers(false)
		d, err := w.DescribeRun(t.Context(), id)
		if err != nil || d.Run.State != state || d.Runtime.Name != "agent" || d.WorkflowRunID == "" {
			t.Errorf("%+v (%v)", d, err)
		}
		if wantStep := state == run.StateFailed || state == run.StateExpired; (d.NextStep != "") != wantStep {
			t.Errorf("%s: %q", state, d.NextStep)
		}
		_, err = w.RunResult(t.Context(), id)
		if state == run.StateSucceeded {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		is(t, err, starter.ErrNotSucceeded)
	}
}

func TestRunResult(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	_, err := w.RunResult(t.Context(), w.startRun(t, "open"))
	is(t, err, starter.ErrNotEnded)
	got, err := w.RunResult(t.Context(), w.endedRun(t, run.StateSucceeded))
	want := starter.RunAnswer{RunID: "ended-succeeded", Content: json.RawMessage(`{ "ok" : true }`), Hash: run.Hash([]byte(`{ "ok" : true }`)), Bytes: 15, ContentType: "application/json"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s (%v)", diff, err)
	}
	big := w.startRun(t, "big")
	w.commit(t, big, run.StepResponse{Final: json.RawMessage(`"` + strings.Repeat("x", run.MaxInline) + `"`)})
	got, err = w.RunResult(t.Context(), big)
	if err != nil || len(got.Content) != run.MaxInline+2 {
		t.Fatalf("%d bytes (%v)", len(got.Content), err)
	}
	if err := w.store.Delete(t.Context(), got.Ref); err != nil {
		t.Fatal(err)
	}
	_, err = w.RunResult(t.Context(), big)
	is(t, err, starter.ErrResultMissing)
	w.clock.Add(w.config.ResultTTL.Milliseconds())
	_, err = w.RunResult(t.Context(), big)
	is(t, err, starter.ErrResultExpired)
}

func TestResumeRun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	id := w.startRun(t, "r")
	w.commit(t, id, run.StepResponse{Await: run.AwaitInput, Output: json.RawMessage(`"hm"`)})
	p, err := w.ResumeRun(t.Context(), id, 1)
	if err != nil || p.Mode != domain.ModeDelta || len(p.Events) != 1 || p.Events[0].Reason != run.ReasonCommitted || len(p.Outputs) != 1 {
		t.Errorf("%+v (%v)", p, err)
	}
	if p, err = w.ResumeRun(t.Context(), id, p.Run.Version); err != nil || p.Mode != domain.ModeCaughtUp {
		t.Errorf("%+v (%v)", p, err)
	}
	_, err = w.ResumeRun(t.Context(), id, -1)
	is(t, err, starter.ErrInvalid)
}

func TestWatchRun(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		go func() {
			after(20 * time.Second)
			w.engine.Workers(false)
			after(20 * time.Second)
			w.engine.Down(true)
			after(20 * time.Second)
			w.engine.Down(false)
			w.engine.Workers(true)
			req := w.next(t, id)
			after(20 * time.Second)
			_, _ = w.StepHeartbeat(t.Context(), id, req.StepToken, json.RawMessage(`"a hint"`))
			after(20 * time.Second)
			_, _ = w.Commit(t.Context(), id, 1, req.StepToken, run.StepResponse{Final: json.RawMessage("1")})
		}()
		var lines []string
		for ch, err := range w.WatchRun(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprint(ch.Page.Mode, " ", ch.Page.Run.Version)
			for _, e := range ch.Page.Events {
				line += " " + string(e.Reason)
			}
			lines = append(lines, line+string(ch.Delta))
		}
		want := []string{"caught-up 0", "delta 1 claimed", `caught-up 1"a hint"`, "delta 2 finished"}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchRunEndsEarly(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	for id, want := range map[string]*starter.Error{"nobody": starter.ErrUnknownRun, "no/body": starter.ErrInvalid} {
		for _, err := range w.WatchRun(t.Context(), id, 0) {
			is(t, err, want)
		}
	}
	for _, err := range w.WatchRun(t.Context(), "r", -1) {
		is(t, err, starter.ErrInvalid)
	}
}

func TestWaitRun(t *testing.T) {
	t.Parallel()
	runsInBubble(t, func(t *testing.T, w *world) {
		id := w.startRun(t, "r")
		d, err := w.WaitRun(t.Context(), id, time.Minute)
		if is(t, err, starter.ErrWaitTimeout); d.Run.State != run.StateRunning {
			t.Errorf("%+v", d.Run.State)
		}
		go func() {
			after(time.Minute)
			_, _ = w.CancelRun(t.Context(), id, protocol.Cancel{})
		}()
		if d, err = w.WaitRun(t.Context(), id, 0); err != nil || d.Run.State != run.StateCancelled {
			t.Errorf("%s (%v)", d.Run.State, err)
		}
		_, err = w.WaitRun(t.Context(), id, -1)
		is(t, err, starter.ErrInvalid)
	})
}

func TestListRuns(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	for i := range 4 {
		w.startRun(t, fmt.Sprint("r", i))
		w.clock.Add(1000)
	}
	w.submit(t, starter.Submission{TaskID: "t", RunID: "r0"})
	w.endedRun(t, run.StateFailed)
	ids := func(r starter.ListRunsRequest) string {
		t.Helper()
		var all []string
		for {
			page, err := w.ListRuns(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.Runs {
				if l.Open == (l.State == run.StateFailed) || l.StartedAtMs == 0 || l.WorkflowID != runWorkflow(l.RunID) {
					t.Errorf("%+v", l)
				}
				all = append(all, l.RunID)
			}
			if r.Cursor = page.Cursor; r.Cursor == "" {
				return strings.Join(all, " ")
			}
		}
	}
	for want, r := range map[string]starter.ListRunsRequest{
		"ended-failed r3 r2 r1 r0": {PageSize: 2}, "r3 r2 r1 r0": {State: run.StateWaitingTool}, "ended-failed": {State: run.StateFailed}, "": {State: run.StateExpired},
		"of a runtime": {State: run.StateWaitingTool, Runtime: "agent", PageSize: 2},
	} {
		if r.Runtime != "" {
			// A page may hold fewer than were asked for, and those of another runtime none.
			page, err := w.ListRuns(t.Context(), r)
			other, otherErr := w.ListRuns(t.Context(), starter.ListRunsRequest{Runtime: "other"})
			if err != nil || otherErr != nil || len(page.Runs) != 2 || page.Runs[0].Runtime != "agent" || len(other.Runs) != 0 {
				t.Errorf("of a runtime: %+v (%v), of another: %+v (%v)", page, err, other, otherErr)
			}
			continue
		}
		if got := ids(r); got != want {
			t.Errorf("%+v: %q", r, got)
		}
	}
	for _, r := range []starter.ListRunsRequest{{State: "x"}, {PageSize: 501}, {Cursor: "x"}} {
		_, err := w.ListRuns(t.Context(), r)
		is(t, err, starter.ErrInvalid)
	}
}

func TestRetryRun(t *testing.T) {
	t.Parallel()
	for _, state := range []run.State{run.StateFailed, run.StateExpired} {
		w := setupRuns(t)
		id := w.endedRun(t, state)
		before, err := w.DescribeRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.clock.Add(1000)
		out, err := w.RetryRun(t.Context(), id, starter.RunRetry{TTL: time.Minute, Limits: &run.Limits{MaxSteps: 9}, By: "ann", Reason: "again"})
		want := starter.RunRetried{RunID: id, State: run.StateRunning, Version: before.Run.Version + 1, ExpiresAtMs: w.clock.Load() + 60_000}
		if diff := cmp.Diff(want, out); diff != "" || err != nil {
			t.Fatalf("%s (%v)", diff, err)
		}
		in := w.engine.StartedRun(runWorkflow(id))
		if in.Carry == nil || in.Carry.Retry.By != "ann" || in.Create.ID != id || in.Runtime.Name != "agent" || in.Fingerprint == "" {
			t.Errorf("%+v", in)
		}
		if req := w.next(t, id); req.Cause != run.CauseRecover || req.Limits.MaxSteps != 9 {
			t.Errorf("%+v", req)
		}
		if again, err := w.RetryRun(t.Context(), id, starter.RunRetry{}); err != nil || !again.Existing {
			t.Errorf("%+v (%v)", again, err)
		}
	}
}

func TestRetryRunRefuses(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	ctx := t.Context()
	_, err := w.RetryRun(ctx, w.endedRun(t, run.StateSucceeded), starter.RunRetry{})
	is(t, err, starter.ErrNotRetryable)
	_, err = w.RetryRun(ctx, w.endedRun(t, run.StateCancelled), starter.RunRetry{})
	is(t, err, starter.ErrNotRetryable)
	_, err = w.RetryRun(ctx, w.startRun(t, "open"), starter.RunRetry{})
	is(t, err, starter.ErrNotEnded)
	failed := w.endedRun(t, run.StateFailed)
	for _, r := range []starter.RunRetry{{TTL: -1}, {TTL: 11 * 24 * time.Hour}, {Limits: &run.Limits{MaxSteps: -1}}, {Limits: &run.Limits{MaxOpenCalls: 101}}, {By: "\xff"}} {
		_, err = w.RetryRun(ctx, failed, r)
		is(t, err, starter.ErrInvalid)
	}
	_, err = w.RetryRun(ctx, "nobody", starter.RunRetry{})
	is(t, err, starter.ErrUnknownRun)
}

func TestRecoverRuns(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	for i := range 3 {
		w.startRun(t, fmt.Sprint("r", i))
	}
	w.engine.SetFound(runWorkflow("r1"), protocol.Recovered{Calls: []protocol.CallDrift{{Tool: "train", Found: "succeeded", Did: "took the result"}}, Changed: 1})
	w.endedRun(t, run.StateSucceeded)
	got := map[string]int{}
	if err := w.RecoverAll(t.Context(), protocol.Recover{By: "ann"}, func(id string, out protocol.Recovered, err error) {
		if err != nil || out.Calls == nil {
			t.Errorf("%s: %+v (%v)", id, out, err)
		}
		got[id] = out.Changed
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"r0": 0, "r1": 1, "r2": 0}, got); diff != "" {
		t.Error(diff)
	}
	out, err := w.RecoverRun(t.Context(), "ended-succeeded", protocol.Recover{})
	if err != nil || out.State != run.StateSucceeded || len(out.Calls) != 0 {
		t.Errorf("%+v (%v)", out, err)
	}
	_, err = w.RecoverRun(t.Context(), "nobody", protocol.Recover{})
	is(t, err, starter.ErrUnknownRun)
	if err := w.RecoverAll(cancelled(t), protocol.Recover{}, func(string, protocol.Recovered, error) { t.Error("told") }); err == nil {
		t.Error("no error of the context")
	}
}

func TestRunStanding(t *testing.T) {
	t.Parallel()
	var all []string
	for _, s := range run.States() {
		words := starter.RunStanding(s)
		if slices.Contains(all, words) || strings.Contains(words, string(s)) {
			t.Errorf("%s: %q", s, words)
		}
		all = append(all, words)
	}
	if errors.Is(nil, starter.ErrEnded) || starter.RunStanding("NEW") != "is NEW" {
		t.Error("a new state has no words")
	}
}
