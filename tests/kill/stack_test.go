// Package kill kills what runs, at the moments at which that hurts, and checks
// that every task ends as if nothing had happened.
package kill

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// target is what is killed.
type target string

const (
	// everything is `wakepoint dev` with its engine and its worker, at once.
	everything target = "everything"
	// supervisor is `wakepoint dev` alone; its children end with it.
	supervisor target = "supervisor"
	engine     target = "engine"
	worker     target = "worker"
)

func targets() []target { return []target{everything, engine, worker, supervisor} }

// patience is how long anything may take; the machines of tests are slow, and a
// sticky task queue alone is waited for 5 s, a workflow task 10 s.
const patience = 3 * time.Minute

// stack is a `wakepoint dev` on a data folder of its own.
type stack struct {
	t            testing.TB
	dir          string
	port, uiPort int
	cmd          *exec.Cmd
	out          bytes.Buffer
	temporal     client.Client
	client       *starter.Client
	store        *store.Store
}

// newStack starts a stack with the tools and targets of the YAML.
func newStack(t testing.TB, yaml string) *stack {
	t.Helper()
	dir := t.TempDir()
	ports, err := harness.FreePorts(2)
	require.NoError(t, err)
	s := &stack{t: t, dir: dir, port: ports[0], uiPort: ports[1]}
	file := filepath.Join(dir, "wakepoint.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	cfg, err := config.Load(file)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, ".wakepoint"), cfg.DataDir)
	s.start()
	t.Cleanup(s.stop)
	s.store, err = store.Open(t.Context(), cfg.BlobURL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.store.Close() })
	s.temporal, err = client.Dial(client.Options{
		HostPort: "127.0.0.1:" + strconv.Itoa(s.port), Logger: harness.Quiet(),
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	})
	require.NoError(t, err)
	t.Cleanup(s.temporal.Close)
	s.client, err = starter.New(starter.Options{
		Temporal: s.temporal, Config: cfg, Store: s.store, Secret: []byte("a secret of the tests, for ids"), ContinueAfterEvents: 80,
	})
	require.NoError(t, err)
	return s
}

// start starts `wakepoint dev` and waits until its engine answers.
func (s *stack) start() {
	s.t.Helper()
	bin := filepath.Join(harness.Root(), "bin", "wakepoint")
	_, err := os.Stat(bin)
	require.NoError(s.t, err, "the program is missing, run `make build`")
	path, err := harness.EnginePath()
	require.NoError(s.t, err)
	s.cmd = exec.Command(bin, "dev", "--config", filepath.Join(s.dir, "wakepoint.yaml"), "--engine", path,
		"--port", strconv.Itoa(s.port), "--ui-port", strconv.Itoa(s.uiPort))
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	require.NoError(s.t, s.cmd.Start())
	exited := make(chan struct{})
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(exited) }(s.cmd)
	harness.Until(s.t, patience, "wakepoint dev is up", func() bool {
		select {
		case <-exited:
			s.t.Fatalf("wakepoint dev ended:\n%s", s.out.String())
		default:
		}
		info, ok := dev.Find(filepath.Join(s.dir, ".wakepoint"))
		return ok && info.PID == s.cmd.Process.Pid
	})
}

// stop ends the stack cleanly, and by force if it doesn't.
func (s *stack) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	deadline := time.Now().Add(time.Minute)
	for alive(s.cmd.Process.Pid) && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
	}
	for _, p := range s.family() {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// A zombie has ended; its parent has only not looked yet.
	rest := string(b[bytes.LastIndexByte(b, ')')+1:])
	return !strings.HasPrefix(strings.TrimSpace(rest), "Z")
}

// family lists the processes of the stack: those that name its data folder, but
// not the supervisors of tools, which are meant to outlive it.
func (s *stack) family() []int {
	entries, err := os.ReadDir("/proc")
	require.NoError(s.t, err)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if cmd := cmdline(pid); strings.Contains(cmd, s.dir) && role(cmd) != "" && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func cmdline(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(b), "\x00", " ")
}

func role(cmd string) target {
	switch {
	case strings.Contains(cmd, "internal-supervise"):
		return ""
	case strings.Contains(cmd, "wakepoint-engine server"):
		return engine
	case strings.Contains(cmd, "wakepoint dev"):
		return supervisor
	case strings.Contains(cmd, "wakepoint worker"):
		return worker
	}
	return ""
}

// kill kills with SIGKILL, waits until it is gone and brings the stack up again:
// what dev does not bring back by itself, the test starts again.
func (s *stack) kill(what target) {
	s.t.Helper()
	var killed []int
	for _, pid := range s.family() {
		if what == everything || role(cmdline(pid)) == what {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed = append(killed, pid)
		}
	}
	if what != worker {
		// A worker is being replaced when the one before has just been killed.
		require.NotEmpty(s.t, killed, "there was nothing to kill as %s", what)
	}
	harness.Until(s.t, patience, "the killed are gone", func() bool {
		for _, pid := range killed {
			if alive(pid) {
				return false
			}
		}
		return true
	})
	if what == everything || what == supervisor {
		harness.Until(s.t, patience, "nothing of the stack is left", func() bool { return len(s.family()) == 0 })
		s.start()
	}
}

// persist repeats a call until it works: what a careful client does while
// things are down. Every call of the tests is safe to repeat.
func persist[T any](s *stack, what string, call func(ctx context.Context) (T, error)) T {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		v, err := call(ctx)
		cancel()
		if err == nil {
			return v
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v\n%s", what, err, s.out.String())
		}
		<-time.After(100 * time.Millisecond)
	}
}
