package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	sdkclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/wakepoint/wakepoint/engine"
)

// TestMain lets the test binary stand in for the program: started with one of its commands, it is the engine.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "server" || os.Args[1] == "version") {
		os.Exit(engine.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what takes well under a second on a machine with nothing else to do.
const patience = 2 * time.Minute

// output is a buffer that a running engine writes and a test reads.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// eventually waits until cond is true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// running is an engine that a test started, in this process or in a child.
type running struct {
	engine.Ready
	readyFile string
	stdout    *output
	stderr    *output
	// exited yields the exit code once.
	exited chan int
	// stopNow asks for a clean stop.
	stopNow func()
	process *os.Process // nil in this process
}

// startEngine runs the engine in this process, on free ports. For a restart on the same files use startChild: the
// server keeps its connections to them until its process ends.
func startEngine(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // the cleanup stops the engine, and checks how it ends
	r := &running{
		readyFile: filepath.Join(t.TempDir(), "ready.json"),
		stdout:    &output{}, stderr: &output{}, exited: make(chan int, 1), stopNow: cancel,
	}
	go func() {
		r.exited <- engine.Run(ctx, r.args(args), nil, r.stdout, r.stderr)
	}()
	r.awaitReady(t)
	return r
}

// startChild runs the engine in a process of its own. stdin may be nil; env is added to this process's.
func startChild(t *testing.T, stdin io.Reader, env []string, args ...string) *running {
	t.Helper()
	r := &running{
		readyFile: filepath.Join(t.TempDir(), "ready.json"),
		stdout:    &output{}, stderr: &output{}, exited: make(chan int, 1),
	}
	cmd := exec.Command(executable(t), r.args(args)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, r.stdout, r.stderr
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.process = cmd.Process
	r.stopNow = func() { _ = cmd.Process.Signal(syscall.SIGTERM) }
	go func() {
		_ = cmd.Wait() // the code says it
		r.exited <- cmd.ProcessState.ExitCode()
	}()
	r.awaitReady(t)
	return r
}

// args are the flags of every engine of a test, with more after them. A ready file among them replaces the usual one.
func (r *running) args(more []string) []string {
	if i := slices.Index(more, "--ready-file"); i >= 0 {
		r.readyFile = more[i+1]
	}
	return append([]string{"server", "start-dev", "--port", "0", "--ready-file", r.readyFile}, more...)
}

func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { r.stop(t) })
	eventually(t, "the ready file", func() bool {
		select {
		case code := <-r.exited:
			r.exited <- code
			t.Fatalf("the engine ended with %d before it was ready\nstdout: %s\nstderr: %s", code, r.stdout, r.stderr)
		default:
		}
		data, err := os.ReadFile(r.readyFile)
		if err != nil {
			return false
		}
		if err := json.Unmarshal(data, &r.Ready); err != nil {
			t.Fatalf("ready file: %v\n%s", err, data)
		}
		return r.process == nil || r.PID == r.process.Pid // else it is of an engine that was killed
	})
}

// wait returns the exit code.
func (r *running) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-r.exited:
		r.exited <- code // for whoever asks next
		return code
	case <-time.After(patience):
		t.Fatalf("the engine did not end in %s\nstderr: %s", patience, r.stderr)
		return -1
	}
}

// stop ends the engine cleanly and checks that it says so; it may be called again.
func (r *running) stop(t *testing.T) {
	t.Helper()
	select {
	case code := <-r.exited:
		r.exited <- code
		return
	default:
	}
	r.stopNow()
	if code := r.wait(t); code != engine.ExitOK {
		t.Errorf("clean stop ended with %d\nstderr: %s", code, r.stderr)
	}
	if _, err := os.Stat(r.readyFile); !os.IsNotExist(err) {
		t.Errorf("the ready file is still there after a clean stop (%v)", err)
	}
}

// kill ends a child as a crash would.
func (r *running) kill(t *testing.T) {
	t.Helper()
	if err := r.process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.wait(t)
}

// client dials the engine.
func (r *running) client(t *testing.T, namespace string) sdkclient.Client {
	t.Helper()
	c, err := sdkclient.Dial(sdkclient.Options{HostPort: r.FrontendAddress, Namespace: namespace, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func quiet() sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// refused runs a command line that has to fail, and returns the exit code and what was said.
func refused(args ...string) (code int, stdout, stderr string) {
	var out, errs output
	code = engine.Run(context.Background(), args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
