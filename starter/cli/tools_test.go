package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter/cli"
)

const someTools = `tools:
  nap:
    title: sleep a little
    effects: none
    ttl: 90s
    exec: {argv: [sleep, "1"]}
  approve:
    executor: external
    ttl: 7d
`

func TestTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), someTools)
	parts := cli.Parts{Now: now, Dir: dir}
	table := "TOOL     EXECUTOR  EFFECTS     TTL    ATTEMPTS  TITLE\nnap      exec      none        1m30s  3         sleep a little\napprove  external  idempotent  7d     3         approve\n"
	if got := runIn(t, setup(t), parts, "", "tools"); got.code != cli.ExitOK || got.stdout != table {
		t.Errorf("%v\nwant\n%s", got, table)
	}
	if got := runIn(t, setup(t), parts, "", "tools", "nap"); got.code != cli.ExitOK || !strings.Contains(got.stdout, "ttl         1m30s, at most 30d\n") {
		t.Errorf("%v", got)
	}
	if got := runIn(t, setup(t), parts, "", "tools", "nab"); got.code != cli.ExitUsage || !strings.Contains(got.stderr, `error: no tool "nab" is declared; did you mean nap?`) {
		t.Errorf("%v", got)
	}
	got := runIn(t, setup(t), parts, "", "tools", "--json")
	var body struct{ Tools []map[string]any }
	if err := json.Unmarshal([]byte(got.stdout), &body); err != nil || len(body.Tools) != 2 || body.Tools[0]["ttlMs"] != 90_000.0 {
		t.Errorf("%v: %v", err, got)
	}
	if strings.Contains(got.stdout, "sleep\"") {
		t.Error("the list of tools shows a command line")
	}
	empty := cli.Parts{Now: now, Dir: t.TempDir()}
	if got := runIn(t, setup(t), empty, "", "tools"); got.code != cli.ExitOK || got.stdout != "" || !strings.HasPrefix(got.stderr, "no tool is declared\nhint: ") {
		t.Errorf("%v", got)
	}
	if got := runIn(t, setup(t), empty, "", "tools", "--json"); got.stdout != "{\"tools\":[]}\n" {
		t.Errorf("%v", got)
	}
	if left, err := os.ReadDir(empty.Dir); err != nil || len(left) > 0 {
		t.Errorf("listing no tools left %v, %v", left, err)
	}
}

// TestHintsOfToolsCanBeTyped: what a hint shows has all that the tool asks for.
func TestHintsOfToolsCanBeTyped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), `tools:
  resize:
    inputSchema: {required: [dir, width], properties: {dir: {type: string}, width: {type: integer}}}
    exec: {argv: ["true"]}
`)
	parts := cli.Parts{Now: now, Dir: dir}
	got := runIn(t, setup(t), parts, "", "tools", "resize")
	if want := "hint: wakepoint task submit resize --arg dir=… --arg width:=… --wait\n"; got.code != cli.ExitOK || got.stderr != want {
		t.Errorf("%v\nwant %s", got, want)
	}
	if got := runIn(t, setup(t), parts, "", "tools", "--config", dir); got.code != cli.ExitUsage || !strings.HasPrefix(got.stderr, "error: read "+dir+": is a directory\n") {
		t.Errorf("a folder as the configuration: %v", got)
	}
	sample := cli.Parts{Now: now, Dir: "../.."}
	if got := runIn(t, setup(t), sample, "", "tools", "go-vet"); got.stderr != "hint: wakepoint task submit go-vet --wait\n" {
		t.Errorf("the tool of the README: %v", got)
	}
}

func TestCompletionOfTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), someTools)
	got := runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, "", "__complete", "task", "submit", "")
	if !strings.Contains(got.stdout, "nap\tsleep a little\napprove\tapprove\n") {
		t.Errorf("%v", got)
	}
}

// TestSampleConfiguration holds the file that newcomers meet first.
func TestSampleConfiguration(t *testing.T) {
	t.Parallel()
	c, err := config.Load("../../wakepoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]string{
		"go-vet": `{}`, "go-test": `{"package": "./domain", "count": 2}`, "countdown": `{"seconds": 3}`,
		"approve": `{"question": "ok?"}`, "label-images": `{}`,
	} {
		tool, ok := c.Tool(name)
		if !ok {
			t.Errorf("there is no tool %s", name)
			continue
		}
		if err := tool.ValidateInput(json.RawMessage(input)); err != nil {
			t.Errorf("%s refuses %s: %v", name, input, err)
		}
	}
	if len(c.Tools) != 5 {
		t.Errorf("there are %d tools, this test knows 5", len(c.Tools))
	}
	info, err := os.Stat("../../examples/countdown.sh")
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the script of countdown cannot be run: %v", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	parts := cli.Parts{Now: now, Dir: t.TempDir(), Self: filepath.Join(t.TempDir(), "wakepoint")}
	got := runIn(t, setup(t), parts, "", "version")
	if got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "wakepoint  dev\n") || !strings.HasSuffix(got.stdout, "engine     none found\n") {
		t.Errorf("%v", got)
	}
	engine := filepath.Join(filepath.Dir(parts.Self), "wakepoint-engine")
	write(t, engine, "#!/bin/sh\necho wakepoint-engine 1.2 of the test\n")
	if err := os.Chmod(engine, 0o700); err != nil {
		t.Fatal(err)
	}
	got = runIn(t, setup(t), parts, "", "version", "--json")
	var body struct {
		Version, Go string
		Engine      struct{ Kind, Version, Path string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &body); err != nil || body.Version != "dev" || body.Engine.Version != "wakepoint-engine 1.2 of the test" || body.Engine.Path != engine {
		t.Errorf("%v: %v", err, got)
	}
}
