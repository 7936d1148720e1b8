package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/tests/harness"
)

const shellTools = `tools:
  countdown:
    effects: none
    inputSchema: {type: object, properties: {seconds: {type: integer}}, required: [seconds]}
    exec: {argv: [sh, -c, 'echo "{\"counted\": $1}" >"$WAKEPOINT_RESULT"', count, "${input.seconds}"]}
runtimes:
  assistant: {pull: {}}
`

// TestARuntimeInTheShell runs the script of docs/runtimes.md as it stands there. It is
// killed while it has a step, and the next one takes that step at once.
func TestARuntimeInTheShell(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "runtimes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, ok := strings.Cut(string(page), "```sh\n")
	if !ok {
		t.Fatal("docs/runtimes.md has no script")
	}
	script, _, _ = strings.Cut(script, "```")
	dir := t.TempDir()
	for name, content := range map[string]string{"wakepoint.yaml": shellTools, "runtime.sh": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startDev(ctx, t, dir)
	id := strings.TrimSpace(output(ctx, t, dir, "run", "start", "assistant", "--input", `"count"`))
	// A runtime of the same name that has died with the step.
	output(ctx, t, dir, "run", "next", id, "--wait", "1m", "--holder", "shell")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	runtime := exec.CommandContext(ctx, "sh", "runtime.sh", id)
	runtime.Dir = dir
	runtime.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"), dev.EnvEngine+"=none", "TEMPORAL_CONFIG_FILE="+filepath.Join(dir, "none.toml"))
	if out, err := runtime.CombinedOutput(); err != nil {
		t.Fatalf("the script: %v\n%s", err, out)
	}
	if got := output(ctx, t, dir, "run", "result", id); got != `"counted"` {
		t.Errorf("the answer is %q", got)
	}
	// What was done is told; nothing was done twice.
	show := output(ctx, t, dir, "run", "show", id, "--history")
	if strings.Count(show, ": claimed") != 3 || !strings.Contains(show, "call c1, succeeded") || !strings.Contains(show, "SUCCEEDED (version ") {
		t.Errorf("the run is\n%s", show)
	}
}

// TestARunThatFollowsAFile runs a file as docs/runs.md has them, by the program.
func TestARunThatFollowsAFile(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	dir := t.TempDir()
	plan := "title: two\ncalls:\n  one: {tool: countdown, input: {seconds: 1}}\n  two: {tool: countdown, input: {seconds: {$from: one, pointer: /counted}}}\n"
	for name, content := range map[string]string{"wakepoint.yaml": shellTools, "run.yaml": plan} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startDev(ctx, t, dir)
	id := strings.TrimSpace(output(ctx, t, dir, "run", "start", "-f", "run.yaml", "--wait"))
	answer := output(ctx, t, dir, "run", "result", id)
	if strings.Count(answer, `"state":"succeeded"`) != 2 || !strings.HasPrefix(answer, `{"calls":[{"toolCallId":"one","tool":"countdown","taskId":"call_`) {
		t.Errorf("the answer is %s", answer)
	}
	if list := output(ctx, t, dir, "run", "list"); !strings.Contains(list, id) || !strings.Contains(list, "(plan)") {
		t.Errorf("the list is\n%s", list)
	}
}

// TestTheExampleOfARunFile runs examples/run.yaml by the repository's own tools.
func TestTheExampleOfARunFile(t *testing.T) {
	t.Parallel()
	ctx := within(t, 10*time.Minute)
	dir := t.TempDir()
	root := harness.Root()
	here := []string{"--config", filepath.Join(root, "wakepoint.yaml"), "--data", filepath.Join(dir, "data")}
	startDev(ctx, t, dir, here...)
	id := strings.TrimSpace(output(ctx, t, dir, append([]string{"run", "start", "-f", filepath.Join(root, "examples", "run.yaml"), "--wait"}, here...)...))
	answer := output(ctx, t, dir, append([]string{"run", "result", id}, here...)...)
	if strings.Count(answer, `"state":"succeeded"`) != 4 {
		t.Errorf("the answer is %s", answer)
	}
}
