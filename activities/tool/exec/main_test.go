package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/store"
)

// The test binary is also the supervisor, and the worker process that is killed.
const (
	superviseCommand = "internal-supervise"
	submitCommand    = "internal-submit"
	// crashAt names the point at which a process kills itself.
	crashAt = "CRASH_AT"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		exec.SetCrash(func(point string) {
			if point == os.Getenv(crashAt) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the signal is on its way
			}
		})
		switch os.Args[1] {
		case superviseCommand:
			os.Exit(exec.SupervisorMain(os.Args[2:]))
		case submitCommand:
			os.Exit(submitMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// submission is what a worker process of its own is to submit.
type submission struct {
	Config  exec.Config // without Store
	BlobDir string
	Request tool.Request
}

// submitMain is a worker that submits one request and prints the handle.
func submitMain(arg string) int {
	var s submission
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	url, err := store.FileURL(s.BlobDir)
	if err == nil {
		s.Config.Store, err = store.Open(context.Background(), url)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	e, err := exec.New(s.Config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	h, err := e.Submit(context.Background(), s.Request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(h)
	return 0
}

// bench is a place to run tools in.
type bench struct {
	t       *testing.T
	dir     string
	blobDir string
	store   *store.Store
	// journal is a file in which a tool writes down what it did itself.
	journal string
	// gate is a file for which the tools of some tests wait.
	gate string
}

func setup(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, blobDir: filepath.Join(dir, "blobs"), journal: filepath.Join(dir, "journal"), gate: filepath.Join(dir, "gate")}
	url, err := store.FileURL(b.blobDir)
	if err != nil {
		t.Fatal(err)
	}
	if b.store, err = store.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.endAll()
		b.wantQuietSupervisors()
		_ = b.store.Close()
	})
	return b
}

// endAll ends whatever a failed test left running: every process of the bench has its journal in
// its environment.
func (b *bench) endAll() {
	entry := "JOURNAL=" + b.journal
	eventually(b.t, "the test's processes are gone", func() bool {
		left := processesWith(b.t, entry)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
}

// wantQuietSupervisors: a supervisor speaks only when something is wrong with it, or when the race
// detector speaks through it.
func (b *bench) wantQuietSupervisors() {
	logs, err := filepath.Glob(filepath.Join(b.dir, "data", "exec", "*", "run-*", "supervisor.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, log := range logs {
		if said, err := os.ReadFile(log); err != nil || len(said) > 0 {
			b.t.Errorf("a supervisor said %q, %v", said, err)
		}
	}
}

// processes are the living processes of the tools of this bench. Supervisors, which live on for
// a moment after they have written the end down, have no token.
func (b *bench) processes() []int {
	return processesWith(b.t, "JOURNAL="+b.journal, "WAKEPOINT_RUN_TOKEN=")
}

// processesWith are the living processes with these entries, or beginnings of entries, in their
// environment.
func processesWith(t *testing.T, entries ...string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		lacks := func(entry string) bool { return !strings.Contains("\x00"+string(environ), "\x00"+entry) }
		if err != nil || slices.ContainsFunc(entries, lacks) {
			continue // a zombie's environment is empty
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// config runs a script with /bin/sh; $JOURNAL and $GATE are in its environment.
func (b *bench) config(script string, args ...string) exec.Config {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return exec.Config{
		Name:           "script",
		Argv:           append([]string{"/bin/sh", "-c", script, "script"}, args...),
		SetEnv:         map[string]string{"JOURNAL": b.journal, "GATE": b.gate},
		DataDir:        filepath.Join(b.dir, "data"),
		Host:           "host-1",
		TaskQueue:      "host-1-queue",
		KillGrace:      10 * time.Second,
		SupervisorArgv: []string{self, superviseCommand},
	}
}

func (b *bench) executor(cfg exec.Config) *exec.Executor {
	b.t.Helper()
	cfg.Store = b.store
	e, err := exec.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *bench) script(script string, args ...string) *exec.Executor {
	b.t.Helper()
	return b.executor(b.config(script, args...))
}

// openGate lets the tools that wait for it go on. awaitGate is what they do.
func (b *bench) openGate() {
	b.t.Helper()
	if err := os.WriteFile(b.gate, nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

const awaitGate = `while [ ! -e "$GATE" ]; do sleep 0.02; done; `

// note is a line that a tool writes into the journal.
func note(line string) string { return `echo "` + line + `" >> "$JOURNAL"; ` }

// notes are the lines of the journal.
func (b *bench) notes() []string {
	b.t.Helper()
	data, err := os.ReadFile(b.journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func (b *bench) awaitNote(want string) {
	b.t.Helper()
	eventually(b.t, "the tool notes "+want, func() bool {
		for _, n := range b.notes() {
			if n == want {
				return true
			}
		}
		return false
	})
}

func request(key string) tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "task_1", Attempt: 1, SubmissionKey: key, Tool: "script", Input: json.RawMessage(`{"name":"value"}`)}
}

// firstRun is the handle that a Submit which was killed would have given.
func firstRun(e *exec.Executor, key string) tool.Handle {
	return tool.Handle{Executor: "exec", ID: filepath.Base(exec.KeyDir(e, key)) + ".1", Data: json.RawMessage(`{"host":"host-1","submissionKey":"` + key + `"}`)}
}

func submit(t *testing.T, e *exec.Executor, req tool.Request) tool.Handle {
	t.Helper()
	h, err := e.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func observe(t *testing.T, e *exec.Executor, h tool.Handle) tool.Observation {
	t.Helper()
	obs, err := e.Observe(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return obs
}

// settled observes until the job is over.
func settled(t *testing.T, e *exec.Executor, h tool.Handle) tool.Observation {
	t.Helper()
	var obs tool.Observation
	eventually(t, "the job is over", func() bool {
		obs = observe(t, e, h)
		return obs.State.Terminal()
	})
	return obs
}

// result is the content of a succeeded job.
func (b *bench) result(obs tool.Observation) string {
	b.t.Helper()
	if obs.State != tool.StateSucceeded || obs.Result == nil || !obs.Definite {
		b.t.Fatalf("observation = %s, want a definite success", dump(obs))
	}
	data, err := b.store.Get(b.t.Context(), obs.Result.Ref, obs.Result.Hash)
	if err != nil {
		b.t.Fatal(err)
	}
	if int64(len(data)) != obs.Result.Bytes {
		b.t.Errorf("result has %d bytes, observation says %d", len(data), obs.Result.Bytes)
	}
	return string(data)
}

func wantFailure(t *testing.T, obs tool.Observation, code string, retryable bool) *tool.Failure {
	t.Helper()
	if obs.State != tool.StateFailed || !obs.Definite || obs.Error == nil || obs.Error.Code != code || obs.Error.Retryable != retryable {
		t.Fatalf("observation = %s, want a definite failure %s, retryable %v", dump(obs), code, retryable)
	}
	return obs.Error
}

func wantNotStarted(t *testing.T, err error, code string, retryable bool) tool.Failure {
	t.Helper()
	f, definite := tool.DefiniteFailure(err)
	if !definite || f.Code != code || f.Retryable != retryable {
		t.Fatalf("error = %v, want a definite %s, retryable %v", err, code, retryable)
	}
	return f
}

func dump(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// eventually polls until a condition holds. The time is generous, for slow machines; a condition
// that holds costs next to nothing.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(60 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// identity reads the pids of a run.
func identity(t *testing.T, e *exec.Executor, h tool.Handle) (supervisor, toolPID int) {
	t.Helper()
	var id struct {
		Supervisor, Tool struct{ PID int }
	}
	eventually(t, "the tool's identity is written", func() bool {
		data, err := os.ReadFile(filepath.Join(exec.RunDir(e, h.ID), "identity.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &id); err != nil {
			t.Fatal(err)
		}
		return id.Tool.PID != 0
	})
	return id.Supervisor.PID, id.Tool.PID
}

// awaitLoss waits until a killed supervisor and its tool are gone. The tool may be so before the
// last thread of the supervisor, and the lock with it.
func awaitLoss(t *testing.T, e *exec.Executor, key string, toolPID int) {
	t.Helper()
	eventually(t, "the supervisor and the tool are dead", func() bool {
		held, err := exec.LockHeld(e, key)
		if err != nil {
			t.Fatal(err)
		}
		return !held && dead(toolPID)
	})
}

// dead reports whether a process is gone or a zombie.
func dead(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	state := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))[0]
	return state == "Z" || state == "X"
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// worker submits in a process of its own, which is killed at a point, or not if that is empty.
func (b *bench) worker(cfg exec.Config, req tool.Request, point string) (tool.Handle, error) {
	b.t.Helper()
	cfg.Store = nil
	arg, err := json.Marshal(submission{Config: cfg, BlobDir: b.blobDir, Request: req})
	if err != nil {
		b.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := osexec.CommandContext(b.t.Context(), self, submitCommand, string(arg))
	cmd.Env = append(os.Environ(), crashAt+"="+point)
	out, err := cmd.Output()
	if err != nil {
		var exit *osexec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return tool.Handle{}, err
	}
	var h tool.Handle
	if err := json.Unmarshal(out, &h); err != nil {
		b.t.Fatalf("handle %q: %v", out, err)
	}
	return h, nil
}
