package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// program builds the program wakepoint once, as it is now: one that lies in bin/
// may be older than what is tested.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "wakepoint-bin-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "wakepoint")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/wakepoint")
	cmd.Dir = harness.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// wakepoint is a command of the built program, in a folder of its own.
func wakepoint(ctx context.Context, t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := harness.EnginePath()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), dev.EnvEngine+"="+engine, "TEMPORAL_CONFIG_FILE="+filepath.Join(dir, "none.toml"))
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// output runs a command to its end and gives what it wrote to standard output.
func output(ctx context.Context, t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := wakepoint(ctx, t, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("wakepoint %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// slowTree writes a Go module with enough packages, and tests that take long
// enough, for a worker to be killed in the middle of the work on it.
func slowTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":    "module example.com/slow\n\ngo 1.26\n",
		"README.md": "# slow\n",
		"bad.go":    "package slow\n\nimport \"fmt\"\n\n// Say has a finding for go vet.\nfunc Say() { fmt.Printf(\"%d\\n\", \"x\") }\n",
	}
	for i := range 14 {
		files[fmt.Sprintf("p%02d/p.go", i)] = fmt.Sprintf("package p%02d\n\n// Sum is slow on purpose.\nfunc Sum(n int) (s int) {\n\tfor i := range n {\n\t\ts += i %% 7\n\t}\n\treturn s\n}\n", i)
		files[fmt.Sprintf("p%02d/p_test.go", i)] = fmt.Sprintf("package p%02d\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tfor range 20 {\n\t\tSum(10_000_000)\n\t}\n}\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n", i)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "all of it"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// leftovers lists the processes whose command line or folder names dir.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("this test looks for processes in /proc: %v", err)
	}
	var left []string
	for _, path := range lines {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		wd, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
		if text := strings.ReplaceAll(string(b), "\x00", " "); strings.Contains(text, dir) || strings.HasPrefix(wd, dir) {
			left = append(left, text)
		}
	}
	return left
}

// TestDemoReportIsTheSameWithACrash runs the demo and the demo that kills its
// worker in the middle of the work, and compares their reports.
func TestDemoReportIsTheSameWithACrash(t *testing.T) {
	t.Parallel()
	ctx := within(t, 10*time.Minute)
	tree := slowTree(t)
	type outcome struct {
		KilledWorker, NextWorker int
		Tasks                    []struct{ Tool, State, Skipped string }
	}
	demonstrate := func(args ...string) (outcome, []byte) {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		text := output(ctx, t, dir, append([]string{"demo", tree, "--json", "--data", data}, args...)...)
		var o outcome
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, task := range o.Tasks {
			if task.State != "succeeded" {
				t.Errorf("%s is %s %s", task.Tool, task.State, task.Skipped)
			}
		}
		report, err := os.ReadFile(filepath.Join(dir, "wakepoint-demo-report.md"))
		if err != nil {
			t.Fatal(err)
		}
		if left := leftovers(t, data); len(left) > 0 {
			t.Errorf("left running: %q", left)
		}
		return o, report
	}
	_, calm := demonstrate()
	o, crashed := demonstrate("--crash")
	if o.KilledWorker == 0 || o.NextWorker == 0 || o.KilledWorker == o.NextWorker {
		t.Errorf("worker %d was killed, %d took over", o.KilledWorker, o.NextWorker)
	}
	if bytes.Equal(calm, crashed) {
		t.Error("not even the durations differ, so this test compares the same report with itself")
	}
	if d := cmp.Diff(string(demo.Mask(calm)), string(demo.Mask(crashed))); d != "" {
		t.Errorf("the masked reports differ (-calm +crashed):\n%s", d)
	}
	for _, want := range []string{"15 packages looked at, 1 finding.", "| `p00` | 1 | 0 | 1 |", "31 files", "1 commit from "} {
		if !bytes.Contains(calm, []byte(want)) {
			t.Errorf("the report lacks %q:\n%s", want, calm)
		}
	}
}

const countdown = `tools:
  countdown:
    effects: none
    exec:
      argv: [sh, count.sh]
      dir: .
`

// script counts down, and writes who it is for each run, so that two runs of one
// task would be seen.
const script = `echo "$$" >>runs
for i in 1 2 3 4 5 6 7 8; do
	echo "::wakepoint progress=$((i * 10)) stage=\"$i of 8\""
	sleep 1
done
echo '{"counted": 8}' >"$WAKEPOINT_RESULT"
`

// TestDevKilledLosesNothing kills `wakepoint dev` by SIGKILL while a tool runs,
// starts it again on the same folder, and takes the result.
func TestDevKilledLosesNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t, 10*time.Minute)
	dir := t.TempDir()
	for name, content := range map[string]string{"wakepoint.yaml": countdown, "count.sh": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := startDev(ctx, t, dir)
	id := strings.TrimSpace(output(ctx, t, dir, "task", "submit", "countdown"))
	awaitProgress(ctx, t, dir, id)
	second := wakepoint(ctx, t, dir, "dev", "--port", "0")
	var refused *exec.ExitError
	if out, err := second.CombinedOutput(); !errors.As(err, &refused) || refused.ExitCode() != 6 || !bytes.Contains(out, []byte(fmt.Sprintf("in use by process %d", first.Process.Pid))) {
		t.Errorf("a second wakepoint dev: %v\n%s", err, out)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	again := startDev(ctx, t, dir)
	output(ctx, t, dir, "task", "watch", id)
	if got := output(ctx, t, dir, "task", "result", id); got != "{\"counted\": 8}\n" {
		t.Errorf("the result is %q", got)
	}
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil || strings.Count(string(runs), "\n") != 1 {
		t.Errorf("the tool noted the runs %q, %v; want one", runs, err)
	}
	if err := again.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err != nil {
		t.Errorf("wakepoint dev ended with %v after ctrl-c", err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}

// startDev starts `wakepoint dev` and waits until it says that it is ready.
func startDev(ctx context.Context, t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := wakepoint(ctx, t, dir, append([]string{"dev", "--port", "0", "--ui-port", "0", "--json"}, args...)...)
	// A Ctrl-C on the tests' terminal is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var info dev.Info
	if err := json.NewDecoder(stdout).Decode(&info); err != nil || info.PID != cmd.Process.Pid {
		t.Fatalf("wakepoint dev said %+v, %v\n%s", info, err, &stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return cmd
}

// awaitProgress waits until the tool of a task has reported progress.
func awaitProgress(ctx context.Context, t *testing.T, dir, id string) {
	t.Helper()
	cmd := wakepoint(ctx, t, dir, "task", "watch", id, "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for dec := json.NewDecoder(stdout); ; {
		var line struct {
			Description struct {
				Task struct {
					State    string
					Progress int
				}
			}
		}
		if err := dec.Decode(&line); err != nil {
			t.Fatalf("task %s was never seen to make progress: %v", id, err)
		}
		if task := line.Description.Task; task.State == "running" && task.Progress > 0 {
			return
		}
	}
}
