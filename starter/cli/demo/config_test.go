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
	want := []string{demo.ToolVet, demo.ToolTest, demo.ToolFormat, demo.ToolCount, demo.ToolHistory}
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
}
