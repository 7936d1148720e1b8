package conform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdkclient "go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/activities/tool/http"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
	"github.com/wakepoint/wakepoint/activities/tool/workflow"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "executors.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// row is an executor's line in the table of docs/executors.md.
func row(name string, p tool.Promises) string {
	word := func(s string) string {
		if s == "" {
			return "no"
		}
		return s
	}
	yes := map[bool]string{true: "yes", false: "no"}
	cells := []string{
		name, word(string(p.SubmitOnce)), word(string(p.Find)), word(string(p.Cancel)), yes[p.Observe], yes[p.List], yes[p.Logs], yes[p.Survives], p.Remembers,
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// The table of what executors promise is what they promise.
func TestDocumentedPromises(t *testing.T) {
	t.Parallel()
	blobs, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	text := page(t)
	want := func(name string, ex tool.Executor) {
		t.Helper()
		if line := row(name, tool.PromisesOf(ex)); !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("docs/executors.md lacks the line\n%s", line)
		}
	}
	ex, err := exec.New(exec.Config{Name: "x", Argv: []string{"/bin/sh"}, DataDir: t.TempDir(), Store: blobs, SupervisorArgv: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	want("`exec`", ex)
	temporal, err := sdkclient.NewLazyClient(sdkclient.Options{HostPort: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(temporal.Close)
	act, err := activity.New(activity.Config{Name: "x", Client: temporal, Tool: config.ActivityTool{Type: "T", TaskQueue: "q"}, Store: blobs})
	if err != nil {
		t.Fatal(err)
	}
	want("`activity`", act)
	wf, err := workflow.New(workflow.Config{Name: "x", Client: temporal, Tool: config.WorkflowTool{Type: "T", TaskQueue: "q"}, Store: blobs})
	if err != nil {
		t.Fatal(err)
	}
	want("`workflow`", wf)
	function, err := gofunc.New(gofunc.Config{Client: temporal, Name: "f", TaskQueue: "q", Store: blobs})
	if err != nil {
		t.Fatal(err)
	}
	want("`go`", function)
	const base = "https://service.example/jobs"
	for name, declare := range map[string]func(*http.Config){
		"only `url`":        func(*http.Config) {},
		"with `idempotent`": func(c *http.Config) { c.Idempotent = true },
		"with `find`":       func(c *http.Config) { c.FindURL = base + "?key={key}" },
		"with `find: {sure: true}`": func(c *http.Config) {
			c.FindURL, c.FindSure = base+"?key={key}", true
		},
		"with `cancel: {none: true}`":          func(c *http.Config) { c.NoCancel = true },
		"with `callback` and no place to look": func(c *http.Config) { c.Callback = true },
		"with `idempotent`, `find`, `list`": func(c *http.Config) {
			c.Idempotent, c.FindURL, c.ListURL = true, base+"?key={key}", base
		},
	} {
		cfg := http.Config{Name: "x", URL: base, Store: blobs}
		declare(&cfg)
		ex, err := http.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		want("`http`, "+name, ex)
	}
}

// The page lists every check with its rule.
func TestDocumentedChecks(t *testing.T) {
	t.Parallel()
	text := page(t)
	for _, c := range conform.Checks() {
		if line := fmt.Sprintf("| `%s` | %s |", c.Name, c.Rule); !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("docs/executors.md lacks the line\n%s", line)
		}
	}
}
