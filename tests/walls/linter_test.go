package walls_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/wakepoint/wakepoint/tests/walls"
)

// linterConfig is the part of .golangci.yml that holds walls.
type linterConfig struct {
	Linters struct {
		Enable   []string
		Settings struct {
			Depguard struct {
				Rules map[string]rule
			}
		}
	}
}

// rule is one list of depguard.
type rule struct {
	ListMode string `yaml:"list-mode"`
	Files    []string
	Allow    []string
	Deny     []struct{ Pkg, Desc string }
}

// The linter is what one sees while writing, so its table must not drift from the one that is tested.
func TestLinterHoldsTheSameWalls(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var conf linterConfig
	if err := yaml.Unmarshal(src, &conf); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(conf.Linters.Enable, "depguard") {
		t.Error("depguard is not enabled")
	}
	rules := conf.Linters.Settings.Depguard.Rules
	for _, wall := range walls.Walls {
		t.Run(wall.Folder, func(t *testing.T) {
			t.Parallel()
			allow, deny := listed(rules, wall.Folder)
			wantAllow := []string{walls.Module + "/" + wall.Folder}
			for _, folder := range wall.Allow {
				wantAllow = append(wantAllow, walls.Module+"/"+folder)
			}
			wantDeny := slices.Clone(wall.Deny)
			for _, folder := range wall.Except {
				wantDeny = append(wantDeny, walls.Module+"/"+folder)
			}
			if wall.StdOnly {
				wantAllow = append(wantAllow, "$gostd")
			} else {
				wantDeny = append(wantDeny, walls.Module)
			}
			if diff := cmp.Diff(topmost(wantAllow), topmost(allow)); diff != "" {
				t.Errorf("allowed by the table of walls (-) and by the linter (+):\n%s", diff)
			}
			slices.Sort(wantDeny)
			slices.Sort(deny)
			if diff := cmp.Diff(wantDeny, deny); diff != "" {
				t.Errorf("denied by the table of walls (-) and by the linter (+):\n%s", diff)
			}
		})
	}
}

// listed collects what the rules about a folder allow and deny.
func listed(rules map[string]rule, folder string) (allow, deny []string) {
	for _, r := range rules {
		if !slices.Contains(r.Files, "${config-path}/"+folder+"/**") {
			continue
		}
		allow = append(allow, r.Allow...)
		for _, d := range r.Deny {
			deny = append(deny, d.Pkg)
		}
	}
	return allow, deny
}

// topmost sorts paths and leaves out those that lie below another one.
func topmost(paths []string) []string {
	var top []string
	for _, p := range slices.Sorted(slices.Values(paths)) {
		if !slices.ContainsFunc(top, func(root string) bool { return p == root || strings.HasPrefix(p, root+"/") }) {
			top = append(top, p)
		}
	}
	return top
}
