package exec_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
)

// page reads docs/exec.md.
func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "exec.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The tool in the documentation does what the documentation says.
func TestDocumentedTool(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(page(t))
	if block == nil {
		t.Fatal("docs/exec.md has no tool in it")
	}
	b := setup(t)
	program := filepath.Join(b.dir, "tool")
	if err := os.WriteFile(program, []byte(block[1]), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := b.config("")
	cfg.Argv = []string{program}
	e := b.executor(cfg)
	req := request("k")
	req.Input = []byte(`{"name": "world"}`)
	h := submit(t, e, req)
	obs := settled(t, e, h)
	if got := b.result(obs); got != `{"greeting": "hello, world"}` || obs.Result.ContentType != "application/json" {
		t.Errorf("result = %q, %s", got, obs.Result.ContentType)
	}
	if obs.Progress == nil || *obs.Progress != 50 || obs.Stage != "thinking it over" {
		t.Errorf("observation = %s", dump(obs))
	}
	stdout, _, _ := readAll(t, e, h, tool.StreamStdout, 0)
	stderr, _, _ := readAll(t, e, h, tool.StreamStderr, 0)
	if stdout != "greeting world\n" || stderr != "no second greeting\n" {
		t.Errorf("stdout = %q, stderr = %q", stdout, stderr)
	}
}

// The page names every code, every variable and every file of a run that the code knows.
func TestDocumentationIsComplete(t *testing.T) {
	t.Parallel()
	text := page(t)
	source, err := os.ReadFile("executor.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`Code\w+ += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("codes found: %q", names)
	}
	names = append(names, exec.DefaultEnv()...)

	b := setup(t)
	e := b.script(`echo '::wakepoint progress=1'; env | sed -n 's/^\(WAKEPOINT_[A-Z_]*\)=.*/\1/p' > "$WAKEPOINT_RESULT"`)
	h := submit(t, e, request("k"))
	names = append(names, strings.Fields(b.result(settled(t, e, h)))...)
	for _, dir := range []string{exec.RunDir(e, h.ID), exec.KeyDir(e, "k")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, strings.TrimSuffix(entry.Name(), "1")) // run-1 is run-<n>
		}
	}
	for _, name := range names {
		if !strings.Contains(text, name) {
			t.Errorf("docs/exec.md does not name %s", name)
		}
	}
}
