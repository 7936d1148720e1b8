package runs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// runtimeEnv makes this test's program a runtime of the scenario: it holds its
// settings as JSON.
const runtimeEnv = "WAKEPOINT_TEST_RUNTIME"

// settings are what a runtime is started with.
type settings struct {
	Mode      string `json:"mode"`
	Engine    string `json:"engine"`
	Tenant    string `json:"tenant"`
	TaskQueue string `json:"taskQueue"`
	Blobs     string `json:"blobs"`
	RunID     string `json:"runId"`
	// Listen is where steps are pushed to, Agents the queue of a Temporal worker.
	Listen string `json:"listen"`
	Agents string `json:"agents"`
	Secret string `json:"secret"`
	// Script and Log are files.
	Script string `json:"script"`
	Log    string `json:"log"`
}

// The ways in, and push with steps that are all committed later.
const (
	modePull     = "pull"
	modePush     = "push"
	modeLater    = "push-later"
	modeActivity = "activity"
)

// runtimeMain is the program of a runtime. It is there until it is killed.
func runtimeMain(text string) int {
	var s settings
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "the runtime has ended:", err)
	return 1
}

func (s settings) run(ctx context.Context) error {
	p := &player{}
	b, err := os.ReadFile(s.Script)
	if err == nil {
		err = json.Unmarshal(b, &p.script)
	}
	if err != nil {
		return err
	}
	if p.log, err = os.OpenFile(s.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	temporal, err := client.DialContext(ctx, client.Options{HostPort: s.Engine, Logger: harness.Quiet()})
	if err != nil {
		return err
	}
	blobs, err := store.Open(ctx, s.Blobs)
	if err != nil {
		return err
	}
	c, err := starter.New(starter.Options{Temporal: temporal, Tenant: s.Tenant, TaskQueue: s.TaskQueue, Store: blobs})
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch s.Mode {
	case modePull:
		fmt.Fprintln(os.Stdout, "ready")
		if err := agent.Pull(ctx, c, s.RunID, p.step, agent.PullOptions{Logger: logger}); err != nil {
			return err
		}
		return errors.New("the run has")
	case modePush, modeLater:
		o := agent.HandlerOptions{Secrets: [][]byte{[]byte(s.Secret)}, Logger: logger}
		if s.Mode == modeLater {
			o.Commits, o.Within = c, time.Nanosecond
		}
		l, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "ready")
		return http.Serve(l, agent.Handler(p.step, o)) //nolint:gosec // for one test on this host
	case modeActivity:
		w := sdkworker.New(temporal, s.Agents, sdkworker.Options{})
		agent.Register(w, p.step, agent.ActivityOptions{Store: blobs})
		if err := w.Start(); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "ready")
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return fmt.Errorf("there is no mode %q", s.Mode)
}

// process is a runtime that can be killed.
type process struct {
	t    testing.TB
	make func() *exec.Cmd
	cmd  *exec.Cmd
	said bytes.Buffer
	read chan struct{}
}

// playerProcess is this test's program as a runtime.
func playerProcess(t testing.TB, s settings) *process {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return &process{t: t, make: func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), runtimeEnv+"="+string(text))
		return cmd
	}}
}

// start starts it and waits until it says that it is ready.
func (p *process) start() {
	p.t.Helper()
	if p.cmd == nil {
		p.t.Cleanup(func() {
			p.kill()
			if p.t.Failed() {
				p.t.Logf("the runtime said:\n%s", p.said.String())
			}
		})
	}
	p.cmd = p.make()
	// A group of its own: a signal to the test run is not for it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil || first != "ready\n" {
		p.kill()
		p.t.Fatalf("the runtime says %q: %v\n%s", first, err, p.said.String())
	}
	p.read = make(chan struct{})
	go func(read chan struct{}) {
		defer close(read)
		_, _ = io.Copy(io.Discard, lines)
	}(p.read)
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill()
	if p.read != nil {
		<-p.read
	}
	_ = p.cmd.Wait()
}
