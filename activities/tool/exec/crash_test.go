package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/store"
)

func term(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatalf("terminate %d: %v", pid, err)
	}
}

// supervise starts a supervisor as a Submit would, and waits for its end.
func supervise(t *testing.T, cfg exec.Config, dir string) int {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), cfg.SupervisorArgv[0], append(slices.Clone(cfg.SupervisorArgv[1:]), dir)...)
	for name, value := range cfg.SetEnv {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin")
	out, err := cmd.CombinedOutput()
	var exit *osexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if len(out) > 0 {
		t.Logf("supervisor: %s", out)
	}
	return cmd.ProcessState.ExitCode()
}

// journalled is a tool that writes down its start and its end, with its pid.
const journalled = `echo "start:$$" >> "$JOURNAL"; ` + awaitGate + `echo "end:$$" >> "$JOURNAL"; echo done`

// wantOneRun checks from what the tool itself wrote that it ran once.
func wantOneRun(t *testing.T, b *bench) {
	t.Helper()
	notes := b.notes()
	if len(notes) != 2 {
		t.Fatalf("notes = %q, want one start and one end", notes)
	}
	started, ok1 := strings.CutPrefix(notes[0], "start:")
	ended, ok2 := strings.CutPrefix(notes[1], "end:")
	if !ok1 || !ok2 || started != ended {
		t.Errorf("notes = %q, want a start and an end of one process", notes)
	}
}

func TestConcurrentSubmitsStartOneProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(journalled)
	e := b.executor(cfg)
	var mu sync.Mutex
	handles := map[string]bool{}
	var wg sync.WaitGroup
	record := func(h tool.Handle, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("submit: %v", err)
		}
		handles[h.ID] = true
	}
	for i := range 6 {
		wg.Go(func() {
			if i%2 == 0 {
				record(e.Submit(t.Context(), request("k")))
			} else { // from another process
				record(b.worker(cfg, request("k"), ""))
			}
		})
	}
	wg.Wait()
	if len(handles) != 1 {
		t.Errorf("handles = %v, want one", handles)
	}
	b.openGate()
	b.result(settled(t, e, submit(t, e, request("k"))))
	wantOneRun(t, b)
}

// kill -9 of the worker at each point of Submit; another worker submits the same key.
func TestWorkerKilledDuringSubmit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		point string
		run   int  // the run that does the work
		found bool // whether Find knows of it before the second Submit
	}{
		{"submit after mkdir", 1, false},
		{"submit before rename", 1, false},
		{"submit before spawn", 2, false},
		{"submit after spawn", 0, false}, // the supervisor may or may not have taken charge
		{"submit after acknowledgment", 1, true},
	} {
		t.Run(tc.point, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(journalled)
			if h, err := b.worker(cfg, request("k"), tc.point); err == nil {
				t.Fatalf("the worker was not killed and gave %s", dump(h))
			}
			e := b.executor(cfg)
			if tc.run > 0 {
				if _, found, err := e.Find(t.Context(), "k"); found != tc.found || err != nil {
					t.Errorf("find = %v, %v; want %v", found, err, tc.found)
				}
			}
			h := submit(t, e, request("k"))
			if tc.run > 0 && !strings.HasSuffix(h.ID, fmt.Sprintf(".%d", tc.run)) {
				t.Errorf("handle = %s, want run %d", h.ID, tc.run)
			}
			b.openGate()
			if got := b.result(settled(t, e, h)); got != "done\n" {
				t.Errorf("result = %q", got)
			}
			wantOneRun(t, b)
		})
	}
}

// The worker dies right after it has started the supervisor, again and again, and each time
// another one submits at once: whichever supervisor wins, there is one run.
func TestWorkerKilledManyTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(journalled)
	for range 5 {
		_, _ = b.worker(cfg, request("k"), "submit after spawn")
	}
	e := b.executor(cfg)
	h := submit(t, e, request("k"))
	b.openGate()
	b.result(settled(t, e, h))
	wantOneRun(t, b)
}

// A supervisor that comes too late, when its run has been called off, does nothing.
func TestLateSupervisorDoesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(journalled)
	if _, err := b.worker(cfg, request("k"), "submit before spawn"); err == nil {
		t.Fatal("the worker was not killed")
	}
	e := b.executor(cfg)
	b.openGate()
	h := submit(t, e, request("k")) // calls run 1 off
	settled(t, e, h)
	for _, run := range []string{"run-1", "run-2"} {
		if code := supervise(t, cfg, filepath.Join(exec.KeyDir(e, "k"), run)); code != 0 {
			t.Errorf("%s: exit status %d", run, code)
		}
	}
	wantOneRun(t, b)
}

// The worker is killed while the tool runs: nothing happens to the tool, and the next worker reads
// on.
func TestToolSurvivesTheWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(`echo early; ` + journalled)
	h, err := b.worker(cfg, request("k"), "") // it has ended by now
	if err != nil {
		t.Fatal(err)
	}
	e := b.executor(cfg)
	b.awaitNote(b.startNote())
	if obs := observe(t, e, h); obs.State != tool.StateRunning {
		t.Fatalf("observation = %s, want running", dump(obs))
	}
	eventually(t, "the first line is in the log", func() bool {
		text, _, _ := readAll(t, e, h, tool.StreamStdout, 0)
		return text == "early\n"
	})
	b.openGate()
	if got := b.result(settled(t, e, h)); got != "early\ndone\n" {
		t.Errorf("result = %q", got)
	}
	wantOneRun(t, b)
}

// startNote waits for the first note and gives it.
func (b *bench) startNote() string {
	b.t.Helper()
	var first string
	eventually(b.t, "the tool notes its start", func() bool {
		if notes := b.notes(); len(notes) > 0 {
			first = notes[0]
		}
		return first != ""
	})
	return first
}

// kill -9 of the supervisor takes the tool down, and it is known to be lost.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(journalled)
	h := submit(t, e, request("k"))
	b.awaitNote(b.startNote())
	supervisor, toolPID := identity(t, e, h)
	kill(t, supervisor)
	awaitLoss(t, e, "k", toolPID)
	obs := settled(t, e, h)
	wantLost(t, obs, "killed")
	b.openGate()

	// Submitted again by the same attempt it stays lost: nobody has decided to repeat it.
	if again := submit(t, e, request("k")); !cmp.Equal(again, h) {
		t.Errorf("submit of the same attempt = %s, want the lost job", dump(again))
	}
	if found, ok, err := e.Find(t.Context(), "k"); !ok || err != nil || !cmp.Equal(found, h) {
		t.Errorf("find = %s, %v, %v; want the lost job", dump(found), ok, err)
	}
	next := request("k")
	next.Attempt = 2
	second := submit(t, e, next)
	if second.ID == h.ID {
		t.Fatal("the next attempt got the lost job")
	}
	obs = settled(t, e, second)
	if got := b.result(obs); got != "done\n" || obs.Attempt != 2 {
		t.Errorf("result = %q of attempt %d", got, obs.Attempt)
	}
	wantLost(t, observe(t, e, h), "killed") // the first run stays what it was
	notes := b.notes()
	if len(notes) != 3 || notes[0] == notes[1] || notes[2] != "end:"+strings.TrimPrefix(notes[1], "start:") {
		t.Errorf("notes = %q, want a start, and a whole run after it", notes)
	}
}

func wantLost(t *testing.T, obs tool.Observation, says string) {
	t.Helper()
	if obs.State != tool.StateLost || obs.Definite || obs.Error == nil || obs.Error.Code != exec.CodeWorkerLost || !obs.Error.Retryable || !strings.Contains(obs.Error.Message, says) {
		t.Fatalf("observation = %s, want lost, with %q", dump(obs), says)
	}
}

// The supervisor dies at each point of its own; whatever the next worker finds, the tool has run
// at most once, and it is known whether it may have.
func TestSupervisorKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		point string
		// starts is whether nothing of the tool can have run, so that Submit starts it again by
		// itself; lost is what is to be seen otherwise.
		startFails bool
		lost       bool
		mayHaveRun bool
	}{
		{point: "supervisor before lock", startFails: true},
		{point: "supervisor after lock", startFails: true},
		{point: "supervisor after identity", lost: true},
		{point: "supervisor before start", lost: true},
		{point: "supervisor after start", lost: true, mayHaveRun: true},
		{point: "supervisor after tool identity", lost: true, mayHaveRun: true},
		{point: "supervisor before status", lost: true, mayHaveRun: true},
		{point: "supervisor after status"},
	} {
		t.Run(tc.point, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.openGate()
			cfg := b.config(journalled)
			crashing := cfg
			crashing.SetEnv = map[string]string{crashAt: tc.point, "JOURNAL": b.journal, "GATE": b.gate}
			e := b.executor(cfg)
			h, err := b.executor(crashing).Submit(t.Context(), request("k"))
			if tc.startFails {
				f := wantNotStarted(t, err, exec.CodeStartFailed, true)
				if !strings.Contains(f.Message, "did not take charge") || !strings.Contains(err.Error(), "killed") {
					t.Errorf("error = %v", err)
				}
				b.result(settled(t, e, submit(t, e, request("k"))))
				wantOneRun(t, b)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			obs := settled(t, e, h)
			if !tc.lost {
				b.result(obs)
				wantOneRun(t, b)
				return
			}
			wantLost(t, obs, "killed")
			if pids := b.processes(); len(pids) != 0 {
				t.Errorf("called lost, and still running: %v", pids)
			}
			before := b.notes()
			if len(before) > 0 && !tc.mayHaveRun {
				t.Errorf("notes = %q before the start", before)
			}
			next := request("k")
			next.Attempt = 2
			b.result(settled(t, e, submit(t, e, next)))
			if after := b.notes()[len(before):]; len(after) != 2 {
				t.Errorf("the second run notes %q, want a start and an end", after)
			}
		})
	}
}

func TestCancelOfALostJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Nobody reads its stderr any more, and the shell would die of saying that its sleep was ended.
	e := b.script(`exec 2>/dev/null; sh -c 'trap "echo asked >> \"\$JOURNAL\"; exit" TERM; echo child >> "$JOURNAL"; while :; do sleep 0.02; done' & wait`)
	h := submit(t, e, request("k"))
	b.awaitNote("child")
	supervisor, toolPID := identity(t, e, h)
	kill(t, supervisor)
	awaitLoss(t, e, "k", toolPID)
	cancel(t, e, h)
	obs := settled(t, e, h)
	wantCancelled(t, b, obs)
	if age := time.Since(time.UnixMilli(obs.LastSeenAtMs)); age < 0 || age > time.Minute {
		t.Errorf("ended %v ago", age)
	}
	if got := b.notes(); !slices.Contains(got, "asked") {
		t.Errorf("notes = %q: the rest was not asked to end", got)
	}
}

// A run that nobody took charge of is called off by a look at it, when its time is over.
func TestRunThatNobodyTookChargeOf(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(journalled)
	if _, err := b.worker(cfg, request("k"), "submit before spawn"); err == nil {
		t.Fatal("the worker was not killed")
	}
	patient := b.executor(cfg)
	h := firstRun(patient, "k")
	if obs := observe(t, patient, h); obs.State != tool.StateRunning {
		t.Errorf("observation = %s, want running: a supervisor may be on its way", dump(obs))
	}
	cfg.AckTimeout = time.Nanosecond
	obs := observe(t, b.executor(cfg), h)
	wantFailure(t, obs, exec.CodeNotStarted, true)
	if again := observe(t, patient, h); !cmp.Equal(again, obs) {
		t.Errorf("a second look differs:\n%s", cmp.Diff(obs, again))
	}
	b.openGate()
	b.result(settled(t, patient, submit(t, patient, request("k"))))
	wantOneRun(t, b)
}

// While another Submit of the key is at work nothing is known of its outcome.
func TestSubmitThatWaitsInVain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(journalled)
	release, err := exec.HoldSubmitLock(e, "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Submit(ctx, request("k")); !errors.Is(err, tool.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("submit: %v, want an ambiguous error for the deadline", err)
	}
	release()
	b.openGate()
	b.result(settled(t, e, submit(t, e, request("k"))))
	wantOneRun(t, b)
}

// The store is out of order when the tool ends: that is no failure of the tool.
func TestResultWaitsForTheStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openGate()
	cfg := b.config(journalled)
	e := b.executor(cfg)
	h := submit(t, e, request("k"))
	eventually(t, "the tool has ended", func() bool { return len(b.notes()) == 2 })
	closed, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Store = closed
	broken, err := exec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is asked", func() bool {
		obs, err := broken.Observe(t.Context(), h)
		if err == nil && obs.State != tool.StateRunning {
			t.Fatalf("observation = %s without a store", dump(obs))
		}
		return err != nil
	})
	if got := b.result(settled(t, e, h)); got != "done\n" {
		t.Errorf("result = %q", got)
	}
}

// Workers are killed at chosen points and supervisors after a number of signs of life, in an order
// that a seed gives; each time the next attempt submits the same key. What the tool itself wrote
// shows that no two runs overlapped: its lines form blocks, one for each process.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	points := []string{"", "submit after mkdir", "submit before spawn", "submit after spawn", "submit after acknowledgment"}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			b := setup(t)
			cfg := b.config(`while [ ! -e "$GATE" ]; do echo "$$" >> "$JOURNAL"; sleep 0.01; done; echo done`)
			e := b.executor(cfg)
			req := request("k")
			for ; req.Attempt <= 6; req.Attempt++ {
				_, _ = b.worker(cfg, req, points[random.IntN(len(points))]) // killed or not
				h := submit(t, e, req)
				seen := len(b.notes())
				ticks := 1 + random.IntN(5)
				eventually(t, "the tool runs", func() bool { return len(b.notes()) >= seen+ticks })
				supervisor, _ := identity(t, e, h)
				kill(t, supervisor)
				// A next attempt comes of a loss that somebody has seen.
				wantLost(t, settled(t, e, h), "killed")
			}
			h := submit(t, e, req)
			b.openGate()
			if got := b.result(settled(t, e, h)); got != "done\n" {
				t.Errorf("result = %q", got)
			}
			blocks := slices.Compact(b.notes())
			pids := slices.Compact(slices.Sorted(slices.Values(blocks)))
			if len(blocks) != len(pids) {
				t.Errorf("runs overlapped: %q", blocks)
			}
			if len(pids) < 6 {
				t.Errorf("%d runs, want at least one for each kill", len(pids))
			}
		})
	}
}

// What can't be started is called off for good, with a definite error.
func TestSupervisorThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"no such program": {"/nonexistent/wakepoint", "internal-supervise"},
		"ends at once":    {"/bin/false"},
		"does nothing":    {"/bin/sleep", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			broken := b.config(journalled)
			broken.AckTimeout = 300 * time.Millisecond
			if name == "does nothing" {
				argv = []string{"/bin/sh", "-c", "exec sleep 1000"}
			}
			good := broken.SupervisorArgv
			broken.SupervisorArgv = argv
			_, err := b.executor(broken).Submit(t.Context(), request("k"))
			wantNotStarted(t, err, exec.CodeStartFailed, true)
			b.openGate()
			mended := broken
			mended.SupervisorArgv, mended.AckTimeout = good, 0
			e := b.executor(mended)
			if _, found, err := e.Find(t.Context(), "k"); found || err != nil {
				t.Errorf("find = %v, %v; nothing was started", found, err)
			}
			b.result(settled(t, e, submit(t, e, request("k"))))
			wantOneRun(t, b)
		})
	}
}
