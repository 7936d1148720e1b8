package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
)

// stubborn is a script part that takes no notice of SIGTERM.
const stubborn = `trap '' TERM; `

func cancel(t *testing.T, e *exec.Executor, h tool.Handle) {
	t.Helper()
	if err := e.Cancel(t.Context(), h); err != nil {
		t.Fatal(err)
	}
}

func wantCancelled(t *testing.T, b *bench, obs tool.Observation) {
	t.Helper()
	if obs.State != tool.StateCancelled || !obs.Definite || obs.Error != nil || obs.Result != nil {
		t.Errorf("observation = %s, want a definite cancellation", dump(obs))
	}
	if pids := b.processes(); len(pids) != 0 {
		t.Errorf("called cancelled, and still running: %v", pids)
	}
}

func TestCancelIsPolite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`trap 'echo cleaned >> "$JOURNAL"; exit 0' TERM; ` + note("ready") + `while :; do sleep 0.02; done`)
	h := submit(t, e, request("k"))
	b.awaitNote("ready")
	cancel(t, e, h)
	wantCancelled(t, b, settled(t, e, h))
	if got := b.notes(); !cmp.Equal(got, []string{"ready", "cleaned"}) {
		t.Errorf("notes = %q, want the tool to have cleaned up", got)
	}
	cancel(t, e, h) // of a job that is over
	if again := observe(t, e, h); again.State != tool.StateCancelled {
		t.Errorf("observation after a second cancel = %s", dump(again))
	}
}

// The whole group is stubborn, and the leader ends before its children. Called cancelled is only
// what is gone.
func TestCancelOfStubbornGrandchildren(t *testing.T) {
	t.Parallel()
	for name, leader := range map[string]string{
		"a stubborn leader":  stubborn,
		"a leader that ends": ``,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(`sh -c "trap '' TERM; sh -c \"trap '' TERM; echo ready >> '\$JOURNAL'; while :; do sleep 0.02; done\" & wait" & ` + leader + `while :; do sleep 0.02; done`)
			cfg.KillGrace = 300 * time.Millisecond
			e := b.executor(cfg)
			h := submit(t, e, request("k"))
			b.awaitNote("ready")
			cancel(t, e, h)
			seen := map[tool.State]bool{}
			eventually(t, "the job is over", func() bool {
				obs := observe(t, e, h)
				seen[obs.State] = true
				if obs.State == tool.StateCancelled {
					wantCancelled(t, b, obs)
				}
				return obs.State.Terminal()
			})
			if !seen[tool.StateCancelled] || !seen[tool.StateRunning] || len(seen) != 2 {
				t.Errorf("states seen: %v, want running and then cancelled", seen)
			}
		})
	}
}

// A stopped process handles no signal but the ones that can't be handled.
func TestCancelOfAStoppedTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`trap 'echo cleaned >> "$JOURNAL"; exit 1' TERM; ` + note("ready") + `kill -STOP $$; while :; do sleep 0.02; done`)
	h := submit(t, e, request("k"))
	b.awaitNote("ready")
	cancel(t, e, h)
	wantCancelled(t, b, settled(t, e, h))
	if got := b.notes(); !slices.Contains(got, "cleaned") {
		t.Errorf("notes = %q: the stopped tool was not continued", got)
	}
}

// If the work finishes first, it has succeeded. A tool that is asked to end shows it by its result
// file.
func TestSuccessWinsOverCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`trap 'echo finished > "$WAKEPOINT_RESULT"; exit 0' TERM; ` + note("ready") + `while :; do sleep 0.02; done`)
	h := submit(t, e, request("k"))
	b.awaitNote("ready")
	cancel(t, e, h)
	if got := b.result(settled(t, e, h)); got != "finished\n" {
		t.Errorf("result = %q", got)
	}
}

func TestCancelAfterTheEndChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`echo x`)
	h := submit(t, e, request("k"))
	before := settled(t, e, h)
	cancel(t, e, h)
	if after := observe(t, e, h); !cmp.Equal(before, after) {
		t.Errorf("observation changed:\n%s", cmp.Diff(before, after))
	}
}

func TestHandlesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(awaitGate)
	h := submit(t, e, request("k"))
	with := func(change func(*tool.Handle)) tool.Handle {
		changed := h
		change(&changed)
		return changed
	}
	hash, _, _ := strings.Cut(h.ID, ".")
	for name, tc := range map[string]struct {
		h    tool.Handle
		want error
	}{
		"another executor": {with(func(h *tool.Handle) { h.Executor = "http" }), tool.ErrUnknownHandle},
		"another host":     {with(func(h *tool.Handle) { h.Data = []byte(`{"host":"host-2","submissionKey":"k"}`) }), tool.ErrWrongHost},
		"no data":          {with(func(h *tool.Handle) { h.Data = nil }), tool.ErrUnknownHandle},
		"no run":           {with(func(h *tool.Handle) { h.ID = hash }), tool.ErrUnknownHandle},
		"run zero":         {with(func(h *tool.Handle) { h.ID = hash + ".0" }), tool.ErrUnknownHandle},
		"run with a sign":  {with(func(h *tool.Handle) { h.ID = hash + ".+1" }), tool.ErrUnknownHandle},
		"a path":           {with(func(h *tool.Handle) { h.ID = "../../etc.1" }), tool.ErrUnknownHandle},
		"a path as run":    {with(func(h *tool.Handle) { h.ID = hash + ".1/../.." }), tool.ErrUnknownHandle},
		"empty":            {tool.Handle{}, tool.ErrUnknownHandle},
	} {
		_, observeErr := e.Observe(t.Context(), tc.h)
		_, logsErr := e.Logs(t.Context(), tc.h, tool.StreamStdout, 0, 0)
		for verb, err := range map[string]error{"observe": observeErr, "logs": logsErr, "cancel": e.Cancel(t.Context(), tc.h), "remove": e.Remove(t.Context(), tc.h)} {
			if !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: error %v, want %v", name, verb, err, tc.want)
			}
		}
	}
	never := with(func(h *tool.Handle) { h.ID = hash + ".2" })
	if err := e.Cancel(t.Context(), never); !errors.Is(err, tool.ErrUnknownHandle) {
		t.Errorf("cancel of a run that never was: %v", err)
	}
	if obs := observe(t, e, h); obs.State != tool.StateRunning {
		t.Errorf("observation = %s, want it unharmed", dump(obs))
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a polite tool":   `trap 'echo asked >> "$JOURNAL"; exit 0' TERM; ` + note("ready") + `while :; do sleep 0.02; done`,
		"a stubborn tool": stubborn + note("ready") + `while :; do sleep 0.02; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(script)
			cfg.KillGrace = 200 * time.Millisecond
			e := b.executor(cfg)
			req := request("k")
			req.DeadlineAtMs = time.Now().Add(2 * time.Second).UnixMilli()
			obs := settled(t, e, submit(t, e, req))
			wantFailure(t, obs, exec.CodeTimeout, true)
			if obs.LastSeenAtMs < req.DeadlineAtMs {
				t.Errorf("ended at %d, before the deadline %d", obs.LastSeenAtMs, req.DeadlineAtMs)
			}
			if pids := b.processes(); len(pids) != 0 {
				t.Errorf("still running: %v", pids)
			}
		})
	}
}

// A task that expired, or whose cancel nobody confirmed, is retried under the key of a job that was
// ended meanwhile. The retry used to be given that job, and ended at once the way it had.
func TestRetryAfterAnEndThatNobodyWaitedFor(t *testing.T) {
	t.Parallel()
	const twice = `if [ -e "$JOURNAL.once" ]; then echo '{"done":2}' > "$WAKEPOINT_RESULT"; else touch "$JOURNAL.once"; echo ready >> "$JOURNAL"; while :; do sleep 0.02; done; fi`
	for name, end := range map[string]func(t *testing.T, e *exec.Executor, h tool.Handle){
		"by its deadline": func(*testing.T, *exec.Executor, tool.Handle) {},
		"by a cancel":     cancel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.script(twice)
			req := request("k")
			req.DeadlineAtMs = time.Now().Add(2 * time.Second).UnixMilli()
			h := submit(t, e, req)
			b.awaitNote("ready")
			end(t, e, h)
			before := settled(t, e, h)
			if again := submit(t, e, req); !cmp.Equal(again, h) {
				t.Errorf("the same attempt got %v, want its job %v", again, h)
			}
			req.Attempt, req.DeadlineAtMs = 2, time.Now().Add(time.Minute).UnixMilli()
			next := submit(t, e, req)
			obs := settled(t, e, next)
			if obs.State != tool.StateSucceeded || obs.Attempt != 2 {
				t.Fatalf("after %s attempt 2 is %s", before.State, dump(obs))
			}
			req.Attempt = 3
			if third := submit(t, e, req); !cmp.Equal(third, next) {
				t.Errorf("a job with a result was repeated: %v, want %v", third, next)
			}
		})
	}
}

func TestDeadlineBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("start"))
	req := request("k")
	req.DeadlineAtMs = time.Now().Add(-time.Second).UnixMilli()
	_, err := e.Submit(t.Context(), req)
	wantNotStarted(t, err, exec.CodeTimeout, false)
	if got := b.notes(); len(got) != 0 {
		t.Errorf("notes = %q, want none", got)
	}
}

// The host shuts down: everything gets SIGTERM, the supervisor too.
func TestSupervisorIsAskedToEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`trap 'echo asked >> "$JOURNAL"; exit 0' TERM; ` + note("ready") + `while :; do sleep 0.02; done`)
	h := submit(t, e, request("k"))
	b.awaitNote("ready")
	supervisor, _ := identity(t, e, h)
	term(t, supervisor)
	wantFailure(t, settled(t, e, h), exec.CodeInterrupted, true)
	if got := b.notes(); !slices.Contains(got, "asked") {
		t.Errorf("notes = %q: the tool was not asked to end", got)
	}
}

// A cancel that comes before the tool is there: the supervisor is held up by a lock that somebody
// else has, and finds the request when it gets it.
func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(note("start"))
	if _, err := b.worker(cfg, request("k"), "submit before spawn"); err == nil {
		t.Fatal("the worker was not killed")
	}
	e := b.executor(cfg)
	dir := filepath.Join(exec.KeyDir(e, "k"), "run-1")
	if err := os.WriteFile(filepath.Join(dir, "cancel"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := supervise(t, cfg, dir); code != 0 {
		t.Fatalf("supervisor: exit status %d", code)
	}
	h := firstRun(e, "k")
	wantCancelled(t, b, observe(t, e, h))
	if got := b.notes(); len(got) != 0 {
		t.Errorf("notes = %q, want none", got)
	}
	if again := submit(t, e, request("k")); again.ID != h.ID {
		t.Errorf("a cancelled key starts again as %s", again.ID)
	}
}
