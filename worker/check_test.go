package worker_test

import (
	"os"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/worker"
)

// TestCheckNamesAllThatIsWrong: whoever mends a configuration wants to do it once.
func TestCheckNamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	check := func(text string) error {
		cfg, err := config.Parse(t.TempDir()+"/wakepoint.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = worker.Check(t.Context(), worker.Options{Config: cfg, Getenv: func(string) string { return "" }})
		if left, _ := os.ReadDir(cfg.Dir); len(left) > 0 {
			t.Errorf("checking left %v", left)
		}
		return err
	}
	err := check(`tools:
  gone: {exec: {argv: [no-such-program-anywhere]}}
  fine: {exec: {argv: ["true"]}}
  odd: {exec: {argv: ["true", "${nothing}"]}}
  shell: {exec: {argv: [sh, -c, "echo ${input.x}"]}}
  outside: {executor: external}
  ours: {executor: of-ours}
targets:
  fine: {url: 'https://x.example'}
  ops: {url: 'https://x.example', secret: {env: NONE}}
`)
	if err == nil {
		t.Fatal("nothing was found")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		`wakepoint.yaml:2:17: tools.gone.exec.argv: program "no-such-program-anywhere" was not found`,
		`wakepoint.yaml:4:31: tools.odd.exec.argv[1]: "${nothing}": `,
		`wakepoint.yaml:5:33: tools.shell.exec.argv[2]: `,
		"wakepoint.yaml:7:20: tools.ours.executor: must be ",
		"wakepoint.yaml:10:35: targets.ops.secret: environment variable NONE is not set",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("%q, want %q", line, want[i])
		}
	}
	if strings.Count(lines[0], "no-such-program-anywhere") != 1 {
		t.Errorf("it stutters: %s", lines[0])
	}
	if err := check("tools: {fine: {exec: {argv: [\"true\"]}}}\n"); err != nil {
		t.Error(err)
	}
}
