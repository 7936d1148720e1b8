//go:build long

package typescript

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const taskQueue = "film-studio"

// tools are declared by the operator; the two names are all that ties them to the studio.
const tools = `
tools:
  transcode:
    executor: activity
    activity: {type: transcode, taskQueue: film-studio, heartbeat: 3s}
    poll: 200ms
    backoff: {initial: 100ms, max: 1s}
  transcode-once:
    executor: activity
    effects: unsafe
    activity: {type: transcode, taskQueue: film-studio, heartbeat: 3s}
    poll: 200ms
  premiere:
    executor: workflow
    workflow: {type: premiere, taskQueue: film-studio, progressQuery: howFar}
    poll: 200ms
`

var (
	engine *harness.Engine
	// studioDir is where the studio's worker is installed. Not in the source tree: packages of npm
	// bring Go files, which ./... would find.
	studioDir string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "wakepoint-typescript-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	studioDir = filepath.Join(dir, "studio")
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if engine, err = harness.StartEngine(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer engine.Stop()
	return m.Run()
}

// install makes the studio's worker of what its lock file pins.
func install() error {
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(studioDir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(studioDir, name), raw, 0o600); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(studioDir, "src"), os.DirFS("src")); err != nil {
		return err
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund"}, {"run", "build"}} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		npm := exec.CommandContext(ctx, "npm", args...)
		npm.Dir = studioDir
		out, err := npm.CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("npm %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// studio is the TypeScript worker.
type studio struct {
	t   testing.TB
	cmd *exec.Cmd
	// stderr is what it said, for a test that fails.
	stderr *bytes.Buffer
}

// open starts the worker and waits until it says that it is ready.
func open(t testing.TB) *studio {
	t.Helper()
	s := &studio{t, exec.Command("node", filepath.Join("lib", "worker.js")), &bytes.Buffer{}}
	s.cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+engine.Address(), "TASK_QUEUE="+taskQueue)
	s.cmd.Dir, s.cmd.Stderr = studioDir, s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the studio says %q: %v\n%s", line, err, s.stderr)
	}
	return s
}

// kill is kill -9.
func (s *studio) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	if s.t.Failed() {
		s.t.Logf("the studio said:\n%s", s.stderr)
	}
	s.cmd = nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bed is an installation with its worker running.
func bed(t *testing.T) harness.Bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	b := harness.NewBed(ctx, t, engine, tools, nil)
	b.StartWorker()
	return b
}

// submit starts a task with an input.
func submit(b harness.Bed, tool, taskID string, input any) {
	b.T.Helper()
	raw, err := json.Marshal(input)
	must(b.T, err)
	_, err = b.Client.Submit(b.Ctx, starter.Submission{Tool: tool, TaskID: taskID, Input: raw})
	must(b.T, err)
}

// result reads a task's result.
func result(b harness.Bed, taskID string) map[string]any {
	b.T.Helper()
	d := b.UntilClosed(taskID)
	if d.Task.State != domain.StateSucceeded {
		b.T.Fatalf("task %s is %s: %+v", taskID, d.Task.State, d.Task.Error)
	}
	raw, err := b.Store.Get(b.Ctx, d.Task.ResultRef, d.Task.ResultHash)
	must(b.T, err)
	var out map[string]any
	must(b.T, json.Unmarshal(raw, &out))
	return out
}

// cancel asks for a task to be given up.
func cancel(b harness.Bed, taskID string) {
	b.T.Helper()
	_, err := b.Client.Cancel(b.Ctx, taskID, protocol.Cancel{Reason: "changed our mind", By: "the director"})
	must(b.T, err)
}

type film map[string]any

// reel is a file that the studio writes to, and what stands in it.
func reel(t testing.TB) (path string, lines func() []string) {
	path = filepath.Join(t.TempDir(), "reel")
	return path, func() []string {
		raw, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		return strings.Fields(string(raw))
	}
}

func hasProgress(atLeast int, stage string) func(starter.Description) bool {
	return func(d starter.Description) bool {
		return d.Task.Progress >= atLeast && strings.HasPrefix(d.Task.Stage, stage)
	}
}

func TestTheStudio(t *testing.T) {
	s := open(t)

	t.Run("activity", func(t *testing.T) {
		b := bed(t)
		output, lines := reel(t)
		submit(b, "transcode", "reel-1", film{"film": "metropolis", "frames": 40, "msPerFrame": 100, "output": output})
		b.Until("reel-1", "the activity's own progress and stage", hasProgress(1, "frame "))
		want := map[string]any{"film": "metropolis", "frames": 40.0, "resumedAt": 0.0}
		if diff := cmp.Diff(want, result(b, "reel-1")); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if n := len(lines()); n != 40 {
			t.Errorf("%d frames were done", n)
		}
	})

	t.Run("activity that fails", func(t *testing.T) {
		b := bed(t)
		output, _ := reel(t)
		submit(b, "transcode", "reel-2", film{"film": "nosferatu.broken", "frames": 1, "msPerFrame": 1, "output": output})
		d := b.UntilClosed("reel-2")
		want := &domain.TaskError{
			Code: "UNREADABLE_FILM", Message: "nosferatu.broken cannot be read", Severity: domain.SeverityError, Class: domain.ClassThirdParty,
			Details: json.RawMessage(`{"film":"nosferatu.broken","reelsTried":3}`),
		}
		if diff := cmp.Diff(want, d.Task.Error); diff != "" || d.Task.State != domain.StateFailed || d.Task.Attempts != 1 {
			t.Errorf("%s after %d attempts (-want +got):\n%s", d.Task.State, d.Task.Attempts, diff)
		}
	})

	t.Run("activity that is cancelled", func(t *testing.T) {
		b := bed(t)
		output, lines := reel(t)
		submit(b, "transcode", "reel-3", film{"film": "faust", "frames": 100_000, "msPerFrame": 50, "output": output})
		b.Until("reel-3", "its stage", hasProgress(0, "frame "))
		cancel(b, "reel-3")
		if d := b.UntilClosed("reel-3"); d.Task.State != domain.StateCancelled {
			t.Errorf("it is %s: %+v", d.Task.State, d.Task.Error)
		}
		// Cancelled means that nothing of it runs any more: it adds none while another film is made.
		n := len(lines())
		other, _ := reel(t)
		submit(b, "transcode", "reel-3b", film{"film": "faust", "frames": 10, "msPerFrame": 50, "output": other})
		b.UntilClosed("reel-3b")
		if m := len(lines()); m != n {
			t.Errorf("%d frames were done after its end", m-n)
		}
	})

	t.Run("workflow", func(t *testing.T) {
		b := bed(t)
		ledger, _ := reel(t)
		submit(b, "premiere", "gala-1", film{"film": "metropolis", "cinemas": []string{"ufa", "capitol"}, "postersMs": 1500, "ledger": ledger})
		b.Until("gala-1", "the answer of its query", hasProgress(50, "posters for "))
		want := map[string]any{"film": "metropolis", "halls": []any{"ufa, hall 2", "capitol, hall 2"}}
		if diff := cmp.Diff(want, result(b, "gala-1")); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	})

	t.Run("workflow that fails", func(t *testing.T) {
		b := bed(t)
		ledger, _ := reel(t)
		submit(b, "premiere", "gala-2", film{"film": "metropolis", "cinemas": []string{"closed"}, "postersMs": 1, "ledger": ledger})
		d := b.UntilClosed("gala-2")
		if e := d.Task.Error; d.Task.State != domain.StateFailed || e.Code != "CINEMA_CLOSED" || e.Message != "it is closed on Mondays" || e.Retryable {
			t.Errorf("it is %s: %+v", d.Task.State, e)
		}
	})

	t.Run("workflow that is cancelled", func(t *testing.T) {
		b := bed(t)
		ledger, lines := reel(t)
		submit(b, "premiere", "gala-3", film{"film": "metropolis", "cinemas": []string{"ufa", "capitol"}, "postersMs": 600_000, "ledger": ledger})
		b.Until("gala-3", "the posters", hasProgress(50, "posters for ufa"))
		cancel(b, "gala-3")
		if d := b.UntilClosed("gala-3"); d.Task.State != domain.StateCancelled {
			t.Errorf("it is %s: %+v", d.Task.State, d.Task.Error)
		}
		if diff := cmp.Diff([]string{"given", "up:", "ufa,", "hall", "2"}, lines()); diff != "" {
			t.Errorf("what it did on its cancel (-want +got):\n%s", diff)
		}
	})

	t.Run("killed in the middle", func(t *testing.T) {
		b := bed(t)
		output, lines := reel(t)
		ledger, _ := reel(t)
		submit(b, "transcode", "reel-4", film{"film": "caligari", "frames": 60, "msPerFrame": 100, "output": output})
		submit(b, "premiere", "gala-4", film{"film": "caligari", "cinemas": []string{"ufa", "capitol"}, "postersMs": 3000, "ledger": ledger})
		once, onceLines := reel(t)
		submit(b, "transcode-once", "reel-5", film{"film": "caligari", "frames": 60, "msPerFrame": 100, "output": once})
		b.Until("reel-4", "the first frames", hasProgress(10, "frame "))
		b.Until("reel-5", "the first frames", hasProgress(5, "frame "))
		b.Until("gala-4", "the posters", hasProgress(50, "posters for "))
		s.kill()
		before, onceBefore := len(lines()), len(onceLines())
		s = open(t)
		got := result(b, "reel-4")
		resumed, _ := got["resumedAt"].(float64)
		if int(resumed) != before || before == 0 || got["frames"] != 60.0 {
			t.Errorf("it was killed at frame %d, result %v", before, got)
		}
		if d := b.Describe("reel-4"); d.Task.Attempts != 2 {
			t.Errorf("the activity took %d attempts", d.Task.Attempts)
		}
		if n := len(lines()); n != 60 {
			t.Errorf("%d frames were done", n)
		}
		// What must not be done twice waits for a person, although the studio is back.
		d := b.Until("reel-5", "a person is asked", func(d starter.Description) bool { return d.Task.Manual != nil })
		if n := len(onceLines()); n != onceBefore || d.Task.Attempts != 1 {
			t.Errorf("%d frames were done, %d of them by a second job; %d attempts", n, n-onceBefore, d.Task.Attempts)
		}
		_, err := b.Client.Resolve(b.Ctx, "reel-5", protocol.Resolve{Action: domain.ResolveRepeat, By: "the director", Reason: "the reel can be gone on with"})
		must(t, err)
		if got := result(b, "reel-5"); got["resumedAt"] != float64(onceBefore) {
			t.Errorf("after %d frames, the repeat's result is %v", onceBefore, got)
		}
		if got := result(b, "gala-4"); len(got["halls"].([]any)) != 2 {
			t.Errorf("the premiere's result is %v", got)
		}
		if d := b.Describe("gala-4"); d.Task.Attempts != 1 {
			t.Errorf("the workflow took %d attempts", d.Task.Attempts)
		}
	})
}
