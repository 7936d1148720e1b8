package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	got, err := config.ParsePlan("run.yaml", []byte(`
title: nightly
ttl: 2h
labels: {team: core}
limits: {maxCalls: 10, maxOpenCalls: 3}
calls:
  vet: {tool: go-vet}
  test:
    tool: go-test
    input: {package: ./...}
    wait: 5m
    ttl: 10m
    key: nightly-test
    dependsOn: [vet]
  report:
    tool: report
    dependsOn: [test]
    input: {vet: {$from: vet}, all: [{$from: test, pointer: /passed}, {$from: test}]}
  last: {tool: report, input: null, dependsOn: [report]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []run.ToolCall{
		{ToolCallID: "vet", Tool: "go-vet"},
		{ToolCallID: "test", Tool: "go-test", Input: []byte(`{"package":"./..."}`), DependsOn: []string{"vet"}, WaitMs: 300_000, TTLMs: 600_000, IdempotencyKey: "nightly-test"},
		{ToolCallID: "report", Tool: "report", Input: []byte(`{"vet":{"$from":"vet"},"all":[{"$from":"test","pointer":"/passed"},{"$from":"test"}]}`), DependsOn: []string{"test", "vet"}},
		{ToolCallID: "last", Tool: "report", DependsOn: []string{"report"}},
	}
	if d := cmp.Diff(want, got.Calls); d != "" {
		t.Errorf("the calls (-want +got):\n%s", d)
	}
	if got.Title != "nightly" || got.TTL != 2*time.Hour || got.Labels["team"] != "core" || got.Limits.MaxCalls != 10 || got.Limits.MaxOpenCalls != 3 {
		t.Errorf("got %+v", got)
	}
	if err := run.CheckPlan(got.Calls); err != nil {
		t.Error(err)
	}
}

func TestPlanMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":                 {"", "run.yaml: calls: must have at least one call"},
		"no calls":              {"calls: {}", "run.yaml:1:1: calls: must have at least one call"},
		"unknown key":           {"titel: x\ncalls: {a: {tool: t}}", "run.yaml:1:1: titel: is not a known key; did you mean title?"},
		"unknown key of a call": {"calls:\n  a: {tool: t, depends: [b]}", "run.yaml:2:16: calls.a.depends: is not a known key; did you mean dependsOn?"},
		"a runtime":             {"runtime: assistant\ncalls: {a: {tool: t}}", "run.yaml:1:1: runtime: is not a known key; known are title, ttl, labels, limits, calls"},
		"no tool":               {"calls:\n  a: {input: 1}", "run.yaml:2:3: calls.a.tool: must be given"},
		"a list":                {"calls: [a]", "run.yaml:1:1: calls: must be a mapping, not a list"},
		"twice":                 {"calls:\n  a: {tool: t}\n  a: {tool: t}", "run.yaml:3:3: calls.a: is there twice, first in line 2"},
		"unknown dependency":    {"calls:\n  vet: {tool: t}\n  a: {tool: t, dependsOn: [vte]}", `run.yaml:3:28: calls.a.dependsOn[0]: must be a call of this plan, "vte" is none; did you mean vet?`},
		"unknown reference":     {"calls:\n  vet: {tool: t}\n  a: {tool: t, input: {x: [{$from: nothing}]}}", `run.yaml:3:36: calls.a.input.x[0].$from: must be a call of this plan, "nothing" is none; known are vet`},
		"itself":                {"calls:\n  a: {tool: t, input: {$from: a}}", "run.yaml:2:31: calls.a.input.$from: must be another call than the call itself"},
		"needed twice":          {"calls:\n  a: {tool: t}\n  b: {tool: t, dependsOn: [a, a]}", "run.yaml:3:31: calls.b.dependsOn[1]: is there twice"},
		"a cycle":               {"calls:\n  a: {tool: t, dependsOn: [b]}\n  b: {tool: t, input: {$from: a}}", "run.yaml:2:16: calls.a.dependsOn: must not depend on one another in a cycle: a -> b -> a"},
		"a bad reference":       {"calls:\n  a: {tool: t}\n  b: {tool: t, input: {x: {$from: a, at: 1}}}", `run.yaml:3:24: calls.b.input.x: must have nothing beside $from and pointer in a reference, there is "at"`},
		"a bad pointer":         {"calls:\n  a: {tool: t}\n  b: {tool: t, input: {$from: a, pointer: x}}", "run.yaml:3:16: calls.b.input: must have a JSON pointer (RFC 6901) as each pointer of a reference"},
		"no text":               {"calls:\n  a: {tool: t}\n  b: {tool: t, input: {$from: [a]}}", "run.yaml:3:16: calls.b.input: must have the id of a call as the text of each $from"},
		"a bad wait":            {"calls:\n  a: {tool: t, wait: 5}", `run.yaml:2:22: calls.a.wait: must be a duration such as 30s, 5m, 72h or 3d, not "5"`},
		"a long tool":           {"calls:\n  a: {tool: " + strings.Repeat("x", 201) + "}", "run.yaml:2:13: calls.a.tool: must be at most 200 bytes, it has 201"},
		"a broken file":         {"calls: {", "run.yaml:1:1: is no valid YAML: did not find expected node content"},
		"two":                   {"titel: x\ncalls:\n  a: {tool: t, wat: 1}", "run.yaml:1:1: titel: is not a known key; did you mean title?\nrun.yaml:3:16: calls.a.wat: is not a known key; did you mean wait?"},
	} {
		_, err := config.ParsePlan("run.yaml", []byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

const planTools = `
tools:
  go-vet: {exec: {argv: [go]}, inputSchema: {type: object, additionalProperties: false}}
  go-test:
    exec: {argv: [go]}
    inputSchema: {type: object, required: [package], properties: {package: {type: string}}}
`

func TestPlanIsHeldAgainstAnInstallation(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("wakepoint.yaml", []byte(planTools))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"sound":          {"calls:\n  a: {tool: go-vet}\n  b: {tool: go-test, input: {package: x}}\n  c: {tool: wakepoint.ask, input: {prompt: x}}", ""},
		"an input later": {"calls:\n  a: {tool: go-vet}\n  b: {tool: go-test, input: {pkg: {$from: a}}}", ""},
		"unknown tool":   {"calls:\n  a: {tool: go-vett}", `run.yaml:2:13: calls.a.tool: must be a declared tool, "go-vett" is none; did you mean go-vet?`},
		"unknown built-in": {
			"calls:\n  a: {tool: wakepoint.nothing}",
			`run.yaml:2:13: calls.a.tool: must be a declared tool, "wakepoint.nothing" is none; known are wakepoint.ask, wakepoint.approve, wakepoint.run, go-vet, go-test`,
		},
		"no input":    {"calls:\n  a: {tool: go-test}", "run.yaml:2:3: calls.a.input: must match the tool's schema: missing property 'package'"},
		"wrong input": {"calls:\n  a: {tool: go-test, input: {package: 1}}", "run.yaml:2:39: calls.a.input.package: must match the tool's schema: got number, want string"},
	} {
		p, err := config.ParsePlan("run.yaml", []byte(tc.text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := ""
		if err := p.Check(c); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

func TestLoadPlan(t *testing.T) {
	t.Parallel()
	if _, err := config.LoadPlan(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	// The example of the repository belongs to the tools of the repository.
	c, err := config.Load("../wakepoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.LoadPlan("../examples/run.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(c); err != nil {
		t.Error(err)
	}
}

// TestDocsExamplesOfRunsAreSound reads the examples of docs/runs.md.
func TestDocsExamplesOfRunsAreSound(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/runs.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples []string
	for _, rest := range strings.Split(string(b), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(rest, "```")
		examples = append(examples, example)
	}
	if len(examples) != 2 {
		t.Fatalf("docs/runs.md has %d examples", len(examples))
	}
	p, err := config.ParsePlan("run.yaml", []byte(examples[0]))
	if err != nil || len(p.Calls) != 3 || !slices.Equal(p.Calls[2].DependsOn, []string{"vet", "test"}) {
		t.Errorf("the file: %+v (%v)", p, err)
	}
	c, err := config.Parse("wakepoint.yaml", []byte(examples[1]))
	if err != nil || len(c.Runtimes) != 3 {
		t.Errorf("the runtimes: %v", err)
	}
}

// TestDocsNameEveryKeyOfAPlan compares the keys of the parser with docs/runs.md.
func TestDocsNameEveryKeyOfAPlan(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/runs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(b), "\n## A run file\n")
	if !ok {
		t.Fatal("docs/runs.md has no section about the file")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	for _, text := range []string{"QQQ: 1\ncalls: {a: {tool: t}}", "calls: {a: {tool: t, QQQ: 1}}", "limits: {QQQ: 1}\ncalls: {a: {tool: t}}"} {
		_, err := config.ParsePlan("run.yaml", []byte(text))
		m := regexp.MustCompile(`QQQ: is not a known key; known are (.*)`).FindStringSubmatch(err.Error())
		if m == nil {
			t.Fatalf("%q gives %v", text, err)
		}
		for key := range slices.Values(strings.Split(m[1], ", ")) {
			if !strings.Contains(page, "`"+key+"`") {
				t.Errorf("docs/runs.md does not name %s", key)
			}
		}
	}
}
