package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Why an activity is repeated stands with the engine only. That a job goes on is no
// failure to people.
func TestDescribeSaysWhySomethingIsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{Tool: "vet", TaskID: "a"}).TaskID
	w.engine.FailSubmissions("acme/task/a", "the service hung up", "AmbiguousError")
	d, err := w.Describe(t.Context(), id)
	if err != nil || len(d.Pending) != 1 || d.Pending[0].LastFailure != "the service hung up" || d.WaitsFor != "an answer of the outside to its submission" {
		t.Errorf("%+v, waits for %q, %v", d.Pending, d.WaitsFor, err)
	}
	w.engine.FailSubmissions("acme/task/a", "the outside job goes on", protocol.ErrTypeStillRunning)
	if d, err := w.Describe(t.Context(), id); err != nil || d.Pending[0].LastFailure != "" {
		t.Errorf("%+v, %v", d.Pending, err)
	}
}

func TestDescribeMergesWhatTheEngineKnows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.call(t, id, "1", start())
	w.clock.Add(5000)
	d, err := w.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := []starter.Pending{{
		ID: "lease-1", Type: "HoldLease", State: "started", Attempt: 1, LastHeartbeatAtMs: epoch + 5000, Heartbeat: json.RawMessage(`"alive"`),
	}}
	if diff := cmp.Diff(want, d.Pending); diff != "" {
		t.Error(diff)
	}
	if d.Closed || d.Phase != domain.PhaseWaitingExternal || d.LastHeartbeatAtMs != epoch+5000 || d.RunID != "run-1" || d.WorkflowID != "acme/task/a" {
		t.Errorf("%+v", d)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]any
	if err := json.Unmarshal(b, &flat); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"task", "phase", "pending", "workflowId", "workflowRunId", "closed", "serverTimeMs"} {
		if _, ok := flat[key]; !ok {
			t.Errorf("no %s in %s", key, b)
		}
	}
}

func TestClosedTasksAreReadWithoutAWorker(t *testing.T) {
	t.Parallel()
	for _, state := range []domain.State{domain.StateSucceeded, domain.StateFailed, domain.StateExpired, domain.StateCancelled} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			id := w.ended(t, state)
			w.engine.Workers(false)
			d, err := w.Describe(t.Context(), id)
			if err != nil || !d.Closed || d.Task.State != state || d.RunID != "run-1" || !cmp.Equal(d.Targets, []string{"ops"}) {
				t.Errorf("%+v (%v)", d, err)
			}
			p, err := w.Resume(t.Context(), id, 0)
			if err != nil || p.Mode != domain.ModeDelta || len(p.Events) != int(d.Task.Version) {
				t.Errorf("%+v (%v)", p, err)
			}
			if (state == domain.StateFailed) != (d.NextStep == "read the error and the logs, then retry the task") {
				t.Errorf("next step is %q", d.NextStep)
			}
		})
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	for i := range 10 {
		w.call(t, id, "p"+strings.Repeat("x", i), progress(float64(i+1)))
	}
	for _, tc := range []struct {
		cursor int64
		mode   domain.Mode
		events int
	}{{11, domain.ModeCaughtUp, 0}, {99, domain.ModeCaughtUp, 0}, {10, domain.ModeDelta, 1}, {3, domain.ModeDelta, 8}, {2, domain.ModeSnapshot, 0}, {0, domain.ModeSnapshot, 0}} {
		p, err := w.Resume(t.Context(), id, tc.cursor)
		if err != nil || p.Mode != tc.mode || len(p.Events) != tc.events || p.Task.Version != 11 {
			t.Errorf("cursor %d: %s with %d events at version %d (%v)", tc.cursor, p.Mode, len(p.Events), p.Task.Version, err)
		}
	}
	_, err := w.Resume(t.Context(), id, -1)
	if e := as(t, err, starter.ErrInvalid); e.Field != "cursor" {
		t.Errorf("got %v", err)
	}
}

func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.QueryTimeout = 20 * time.Millisecond })
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	reads := map[string]func(ctx context.Context, id string) error{
		"describe": func(ctx context.Context, id string) error { _, err := w.Describe(ctx, id); return err },
		"resume":   func(ctx context.Context, id string) error { _, err := w.Resume(ctx, id, 0); return err },
		"result":   func(ctx context.Context, id string) error { _, err := w.Result(ctx, id); return err },
		"retry":    func(ctx context.Context, id string) error { _, err := w.Retry(ctx, id, starter.Retry{}); return err },
		"deliver":  func(ctx context.Context, id string) error { _, err := w.Deliver(ctx, id, "k"); return err },
		"logs": func(ctx context.Context, id string) error {
			for _, err := range w.Logs(ctx, id, starter.LogRequest{}) {
				return err
			}
			return nil
		},
	}
	all := func(name string, id string, want *starter.Error) {
		t.Helper()
		for op, read := range reads {
			if err := read(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %v", name, op, err)
			}
		}
	}
	all("unknown", "nobody", starter.ErrUnknownTask)
	all("bad id", "a/b", starter.ErrInvalid)
	w.engine.Workers(false)
	all("no worker", id, starter.ErrNoWorker)
	w.engine.Down(true)
	all("engine down", id, starter.ErrUnavailable)
	w.engine.Down(false)
	for op, read := range reads {
		if err := read(cancelled(t), id); !errors.Is(err, context.Canceled) || starter.CodeOf(err) != "" {
			t.Errorf("cancelled, %s: got %v", op, err)
		}
	}
	w.engine.Terminate(w.workflowID(id))
	all("terminated", id, starter.ErrTerminated)
	w.engine.Forget(w.workflowID(id))
	all("retention over", id, starter.ErrUnknownTask)
}

func TestReadersShareTheNextQueryNotTheOneInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		release := w.engine.Hold()
		versions := make([]int64, 30)
		var wg sync.WaitGroup
		read := func(i int) {
			wg.Go(func() {
				d, err := w.Resume(t.Context(), id, 0)
				if err != nil {
					t.Error(err)
				}
				versions[i] = d.Task.Version
			})
		}
		read(0)
		synctest.Wait()
		// The first query is in flight. What is written now it may not know.
		w.call(t, id, "1", progress(10))
		for i := 1; i < len(versions); i++ {
			read(i)
		}
		synctest.Wait()
		if n := w.engine.Calls("QueryWorkflowWithOptions"); n != 1 {
			t.Errorf("%d queries in flight", n)
		}
		release()
		wg.Wait()
		if n := w.engine.Calls("QueryWorkflowWithOptions"); n != 2 {
			t.Errorf("%d queries for %d readers", n, len(versions))
		}
		for i, v := range versions[1:] {
			if v != 2 {
				t.Errorf("reader %d came after version 2 and got %d", i+1, v)
			}
		}
	})
}

func TestSharerGivesUpWithItsReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := starter.NewSharer()
		var ends int
		blocking := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			ends++
			return "", ctx.Err()
		}
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{first, second} {
			wg.Go(func() {
				if _, err := s.Do(ctx, "k", blocking); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
			synctest.Wait()
		}
		// The second waits for a turn that nobody else wants: leaving, he takes it away.
		leaveSecond()
		synctest.Wait()
		leaveFirst()
		wg.Wait()
		synctest.Wait()
		if ends != 1 || s.Keys() != 0 {
			t.Errorf("%d reads ended, %d keys left", ends, s.Keys())
		}
		got, err := s.Do(t.Context(), "k", func(context.Context) (string, error) { return "fresh", nil })
		if got != "fresh" || err != nil {
			t.Errorf("got %q (%v)", got, err)
		}
	})
}

func TestSharerKeepsKeysApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := starter.NewSharer()
		go func() {
			_, _ = s.Do(t.Context(), "slow", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
		}()
		synctest.Wait()
		got, err := s.Do(t.Context(), "quick", func(context.Context) (string, error) { return "x", nil })
		if got != "x" || err != nil {
			t.Errorf("got %q (%v)", got, err)
		}
	})
}

func TestGatesLetSoManyInAndAreTakenAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := starter.NewGates(2)
		leave := make([]func(), 2)
		for i := range leave {
			var err error
			if leave[i], err = g.Enter(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := g.Enter(ctx, "k")
			gaveUp <- err
		}()
		entered := make(chan func(), 1)
		go func() {
			l, _ := g.Enter(t.Context(), "k")
			entered <- l
		}()
		other, err := g.Enter(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		other()
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		select {
		case <-entered:
			t.Error("a third one is inside")
		default:
		}
		leave[0]()
		last := <-entered
		leave[1]()
		last()
		if g.Open() != 0 {
			t.Errorf("%d gates left", g.Open())
		}
	})
}

func TestRecordOfAWorkflowThatRefusedItsInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// Somebody with a plain Temporal client started it.
	o, in := w.engine.Started(w.submit(t, starter.Submission{TaskID: "a"}).WorkflowID)
	o.ID, in.Create.MaxAttempts, in.Create.ID = "acme/task/b", 0, "b"
	if _, err := w.engine.ExecuteWorkflow(t.Context(), o, protocol.WorkflowAsyncTask, in); err != nil {
		t.Fatal(err)
	}
	_, err := w.Describe(t.Context(), "b")
	if e := as(t, err, starter.ErrInvalid); e.Field != "maxAttempts" {
		t.Errorf("got %v", err)
	}
}
