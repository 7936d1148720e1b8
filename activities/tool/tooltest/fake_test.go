package tooltest_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
)

func request(key string, attempt int) tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "t", Attempt: attempt, SubmissionKey: key, Tool: "x"}
}

func submit(t *testing.T, e *tooltest.Executor, key string, attempt int) tool.Handle {
	t.Helper()
	h, err := e.Submit(t.Context(), request(key, attempt))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func states(t *testing.T, e *tooltest.Executor, h tool.Handle, n int) (states []tool.State) {
	t.Helper()
	for range n {
		obs, err := e.Observe(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, obs.State)
	}
	return states
}

func TestScript(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	e.Script("k", tooltest.Running(), tooltest.RunningAt(40, "x"), tooltest.Succeeded(`{"a":1}`))
	h := submit(t, e, "k", 1)
	if again := submit(t, e, "k", 1); !cmp.Equal(again, h) || e.Started("k") != 1 || e.Count(tooltest.Submit, "k") != 2 {
		t.Errorf("handles %v and %v, started %d times in %d submits", h, again, e.Started("k"), e.Count(tooltest.Submit, "k"))
	}
	want := []tool.State{tool.StateRunning, tool.StateRunning, tool.StateSucceeded, tool.StateSucceeded}
	if got := states(t, e, h, 4); !cmp.Equal(got, want) {
		t.Errorf("states = %v, want %v", got, want)
	}
	if err := e.Cancel(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got := states(t, e, h, 1); got[0] != tool.StateSucceeded {
		t.Errorf("cancelled after its end it is %s", got[0])
	}
	if _, found, err := e.Find(t.Context(), "other"); found || err != nil {
		t.Errorf("find = %v, %v", found, err)
	}
	if found, ok, err := e.Find(t.Context(), "k"); !ok || err != nil || !cmp.Equal(found, h) {
		t.Errorf("find = %v, %v, %v", found, ok, err)
	}
}

func TestWithoutAScriptJobsRunUntilCancelled(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	h := submit(t, e, "k", 1)
	if got := states(t, e, h, 2); got[1] != tool.StateRunning {
		t.Errorf("states = %v", got)
	}
	if err := e.Cancel(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got := states(t, e, h, 1); got[0] != tool.StateCancelled {
		t.Errorf("state after cancel = %s", got[0])
	}
}

func TestOnCancel(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	e.OnCancel(tooltest.AnyKey, tooltest.Running())
	e.OnCancel("k", tooltest.Running(), tooltest.Succeeded(`1`))
	h := submit(t, e, "k", 1)
	if err := e.Cancel(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got, want := states(t, e, h, 2), []tool.State{tool.StateRunning, tool.StateSucceeded}; !cmp.Equal(got, want) {
		t.Errorf("states = %v, want %v", got, want)
	}
}

func TestLostJobsAreRepeatedForAHigherAttempt(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	e.Script(tooltest.AnyKey, tooltest.Lost())
	e.Script(tooltest.AnyKey, tooltest.Succeeded(`2`))
	first := submit(t, e, "k", 1)
	if again := submit(t, e, "k", 1); !cmp.Equal(again, first) {
		t.Errorf("the same attempt got %v", again)
	}
	second := submit(t, e, "k", 2)
	if cmp.Equal(second, first) || e.Started("k") != 2 || e.Started(tooltest.AnyKey) != 2 {
		t.Errorf("the next attempt got %v, started %d", second, e.Started("k"))
	}
	if got := states(t, e, first, 1); got[0] != tool.StateLost {
		t.Errorf("first run = %s", got[0])
	}
	obs, err := e.Observe(t.Context(), second)
	if err != nil || obs.State != tool.StateSucceeded || obs.Attempt != 2 {
		t.Errorf("second run = %+v, %v", obs, err)
	}
}

func TestEndedJobsAreRepeatedForAHigherAttemptUnlessTheySucceeded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end    tool.Observation
		starts int
	}{
		"failed":    {tooltest.Failed("X", true), 2},
		"cancelled": {tooltest.Cancelled(), 2},
		"succeeded": {tooltest.Succeeded(`1`), 1},
		"running":   {tooltest.Running(), 1},
		"unknown":   {tooltest.Unknown(), 1},
	} {
		e := tooltest.New()
		e.Script("k", tc.end)
		first := submit(t, e, "k", 1)
		if again := submit(t, e, "k", 1); !cmp.Equal(again, first) {
			t.Errorf("%s: the same attempt got %v", name, again)
		}
		submit(t, e, "k", 2)
		if got := e.Started("k"); got != tc.starts {
			t.Errorf("%s: started %d times, want %d", name, got, tc.starts)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	e.Fail(tooltest.Submit, "k", &tool.NotStartedError{})
	e.LoseAnswer(tooltest.Submit, "k", io.ErrUnexpectedEOF)
	if _, err := e.Submit(t.Context(), request("k", 1)); !errors.Is(err, tool.ErrNotStarted) || e.Started("k") != 0 {
		t.Errorf("first submit: %v, started %d", err, e.Started("k"))
	}
	if _, err := e.Submit(t.Context(), request("k", 1)); !errors.Is(err, io.ErrUnexpectedEOF) || e.Started("k") != 1 {
		t.Errorf("second submit: %v, started %d", err, e.Started("k"))
	}
	h := submit(t, e, "k", 1)
	e.Fail(tooltest.Observe, tooltest.AnyKey, io.EOF)
	if _, err := e.Observe(t.Context(), h); !errors.Is(err, io.EOF) {
		t.Errorf("observe: %v", err)
	}
	states(t, e, h, 1)
	for _, strange := range []tool.Handle{{}, {Executor: "exec", ID: "k#1"}, {Executor: tooltest.Kind, ID: "k#9"}, {Executor: tooltest.Kind, ID: "k"}} {
		if _, err := e.Observe(t.Context(), strange); !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("observe of %v: %v", strange, err)
		}
	}
	var verbs []tooltest.Verb
	for _, c := range e.Calls() {
		verbs = append(verbs, c.Verb)
	}
	if want := []tooltest.Verb{"submit", "submit", "submit", "observe", "observe", "observe"}; !cmp.Equal(verbs, want) {
		t.Errorf("calls = %v, want %v", verbs, want)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	e.SetLog("k", tool.StreamStdout, "hello")
	e.Script("k", tooltest.Succeeded(`1`))
	h := submit(t, e, "k", 1)
	text, end := "", false
	for offset := int64(0); !end; {
		chunk, err := e.Logs(t.Context(), h, tool.StreamStdout, offset, 2)
		if err != nil {
			t.Fatal(err)
		}
		text += string(chunk.Data)
		offset, end = chunk.Next, chunk.End
	}
	if text != "hello" {
		t.Errorf("log = %q", text)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	e := tooltest.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := e.Submit(t.Context(), request("k", 1)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := e.Await(t.Context(), tooltest.Submit, "k", 8); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if e.Started("k") != 1 {
		t.Errorf("started %d", e.Started("k"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := e.Await(ctx, tooltest.Cancel, tooltest.AnyKey, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await of what never comes: %v", err)
	}
}
