// Package harness starts real engines and workers for tests, and kills them.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// EngineEnv names the engine's program in the environment.
const EngineEnv = "WAKEPOINT_ENGINE"

// startWithin is how long an engine may take to answer: it needs half a second
// on an idle machine, and tests are not run on one.
const startWithin = 90 * time.Second

// Root is the folder of the main module.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// EnginePath is the engine's program. Tests that need it fail when it is not
// there: `make build` builds it.
func EnginePath() (string, error) {
	path := os.Getenv(EngineEnv)
	if path == "" {
		path = filepath.Join(Root(), "bin", "wakepoint-engine")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the engine is missing, run `make build` or set %s: %w", EngineEnv, err)
	}
	return path, nil
}

// Engine is a running engine on files of its own.
type Engine struct {
	DataDir string
	// Args are further flags of the engine.
	Args []string

	mu     sync.Mutex
	port   int
	uiPort int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	done   chan struct{}
	ready  Ready
}

// Ready is the engine's ready file.
type Ready struct {
	PID             int    `json:"pid"`
	FrontendAddress string `json:"frontendAddress"`
	UIURL           string `json:"uiUrl"`
}

// StartEngine starts an engine on the files in dataDir and waits until it answers.
func StartEngine(dataDir string, args ...string) (*Engine, error) {
	e := &Engine{DataDir: dataDir, Args: args}
	return e, e.Start()
}

// Start starts the engine, again on the same address after a kill.
func (e *Engine) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	path, err := EnginePath()
	if err != nil {
		return err
	}
	// The ports stay the same over restarts, as clients expect of a server.
	if e.port == 0 {
		ports, err := FreePorts(2)
		if err != nil {
			return err
		}
		e.port, e.uiPort = ports[0], ports[1]
	}
	readyFile := filepath.Join(e.DataDir, "ready.json")
	_ = os.Remove(readyFile)
	args := append([]string{
		"server", "start-dev", "--data-dir", e.DataDir, "--port", strconv.Itoa(e.port), "--ui-port", strconv.Itoa(e.uiPort),
		"--synchronous", "normal", "--ready-file", readyFile, "--exit-with-stdin", "--log-level", "error",
	}, e.Args...)
	e.stderr.Reset()
	e.cmd = exec.Command(path, args...)
	e.cmd.Stderr = &e.stderr
	// A group of its own, so that a signal to the test run does not take the
	// engine away from under tests that still clean up.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(e.cmd, e.done)
	return e.waitReady(readyFile)
}

func (e *Engine) waitReady(file string) error {
	deadline := time.NewTimer(startWithin)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-e.done:
			return fmt.Errorf("the engine ended: %s", e.stderr.String())
		case <-deadline.C:
			return fmt.Errorf("the engine did not answer within %v", startWithin)
		case <-tick.C:
			b, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			return json.Unmarshal(b, &e.ready)
		}
	}
}

// Address is the frontend's.
func (e *Engine) Address() string { return e.ready.FrontendAddress }

// UIURL is where the Temporal UI answers.
func (e *Engine) UIURL() string { return e.ready.UIURL }

// PID is the engine's process.
func (e *Engine) PID() int { return e.cmd.Process.Pid }

// Kill ends the engine with SIGKILL and waits until it is gone.
func (e *Engine) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.cmd.Process.Kill()
	<-e.done
}

// Stop ends the engine cleanly.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.stdin.Close()
	select {
	case <-e.done:
	case <-time.After(30 * time.Second):
		_ = e.cmd.Process.Kill()
		<-e.done
	}
}

// Client connects to the engine; it is made before the engine answers again
// and then works.
func (e *Engine) Client(namespace string) (client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	return client.DialContext(ctx, client.Options{
		// A recorded history must not tell whose machine it is from.
		HostPort: e.Address(), Namespace: namespace, Logger: Quiet(), Identity: "test",
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	})
}

// Quiet is a logger of the SDK that says errors only, and only when asked to by
// the environment variable WAKEPOINT_TEST_LOG: kills make a lot of noise.
func Quiet() log.Logger {
	level := slog.Level(100)
	if os.Getenv("WAKEPOINT_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
}

// FreePorts gives ports that nobody listens on, all different.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
