package demo_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter/cli/demo"
)

func TestConfigIsSound(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("wakepoint.yaml", demo.Config([]string{`/a "path"/wakepoint`, "internal-tool"}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range c.Tools {
		names = append(names, tool.Name)
		if want := []string{`/a "path"/wakepoint`, "internal-tool", tool.Name}; tool.Exec == nil || !slices.Equal(tool.Exec.Argv, want) {
			t.Errorf("%s runs %+v, want %q", tool.Name, tool.Exec, want)
		}
		if tool.Policy.Effects != domain.EffectsNone {
			t.Errorf("%s has effects %s", tool.Name, tool.Policy.Effects)
		}
		if tool.Name == demo.ToolReport {
			continue
		}
		input, err := json.Marshal(demo.Input{Dir: "/src", Exclude: []string{"/src/report.md"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := tool.ValidateInput(input); err != nil {
			t.Errorf("%s refuses its input: %v", tool.Name, err)
		}
		if err := tool.ValidateInput(json.RawMessage(`{"dir": ""}`)); err == nil {
			t.Errorf("%s takes an empty dir", tool.Name)
		}
	}
	want := []string{demo.ToolVet, demo.ToolTest, demo.ToolFormat, demo.ToolCount, demo.ToolHistory, demo.ToolReport}
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
}

// TestRunFileIsSound: what was left out is not called, and the report needs all the rest.
func TestRunFileIsSound(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("wakepoint.yaml", demo.Config([]string{"wakepoint", "internal-tool"}))
	if err != nil {
		t.Fatal(err)
	}
	steps := []demo.Step{{Tool: demo.ToolVet, Title: "go \"vet\""}, {Tool: demo.ToolTest, Skip: "no go"}, {Tool: demo.ToolCount}}
	b, err := demo.RunFile(demo.Tree{Dir: "/a \"tree\" <ö>", Module: "example.com/m"}, steps, []string{"/a/report.md"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.ParsePlan("run.yaml", b)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(c); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, call := range p.Calls {
		ids = append(ids, call.ToolCallID)
	}
	if want := []string{demo.ToolVet, demo.ToolCount, demo.ToolReport}; !slices.Equal(ids, want) || !slices.Equal(p.Calls[2].DependsOn, want[:2]) {
		t.Errorf("the calls are %q, the report needs %q", ids, p.Calls[2].DependsOn)
	}
	var in demo.Input
	if err := json.Unmarshal(p.Calls[0].Input, &in); err != nil || in.Dir != "/a \"tree\" <ö>" || !slices.Equal(in.Exclude, []string{"/a/report.md"}) {
		t.Errorf("go vet is told %s", p.Calls[0].Input)
	}
	var told demo.ReportInput
	if err := json.Unmarshal(p.Calls[2].Input, &told); err != nil || told.Module != "example.com/m" || len(told.Steps) != 3 || told.Steps[0].Title != "go \"vet\"" || told.Steps[1].Skip != "no go" {
		t.Errorf("the report is told %s", p.Calls[2].Input)
	}
}
