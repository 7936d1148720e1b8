package walls_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/tests/walls"
)

// root is the module's folder as seen from this package's.
const root = "../.."

func TestImportsOfThisModule(t *testing.T) {
	t.Parallel()
	graph := list(t)
	if len(graph) == 0 {
		t.Fatal("go list found no package")
	}
	for _, breach := range walls.Check(walls.Walls, graph) {
		t.Error(breach)
	}
	// A wall around a folder that is gone, or was renamed, would hold nothing back.
	for _, wall := range walls.Walls {
		if _, err := os.Stat(filepath.Join(root, wall.Folder)); err != nil {
			t.Errorf("wall around %s/: %v", wall.Folder, err)
		}
	}
}

func TestDomainIsPure(t *testing.T) {
	t.Parallel()
	files := 0
	rules := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(root, "domain"), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Dir(path) == filepath.Join(root, "domain") {
			rules[path] = src
		}
		found, err := walls.Impure(path, src)
		for _, line := range found {
			t.Error(line)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("domain/ has no Go files")
	}
	ranges, err := walls.MapRanges(t.Context(), root, rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range ranges {
		t.Error(line)
	}
}

// Each sample breaks, or just keeps, one rule of the real table, so the checker is known to be able to fail.
func TestCheckFindsBreaches(t *testing.T) {
	t.Parallel()
	const m = walls.Module
	tests := map[string]struct {
		pkg  walls.Package
		want []string
	}{
		"domain may use the standard library": {
			pkg: walls.Package{ImportPath: m + "/domain", Imports: []string{"time"}, Deps: []string{"time", "os", "vendor/golang.org/x/text/unicode/norm"}},
		},
		"domain may not import a third party": {
			pkg:  walls.Package{ImportPath: m + "/domain", Imports: []string{"go.temporal.io/sdk/workflow"}, Deps: []string{"go.temporal.io/sdk/workflow"}},
			want: []string{"domain needs go.temporal.io/sdk/workflow, which is not of the standard library"},
		},
		"domain may not import ours": {
			pkg:  walls.Package{ImportPath: m + "/domain/ledger", Deps: []string{m + "/domain", m + "/workflows/protocol"}},
			want: []string{"domain/ledger needs workflows/protocol, which domain/ may not import"},
		},
		"domain may not name a context or a child of net": {
			pkg: walls.Package{ImportPath: m + "/domain", Imports: []string{"context", "net/http", "contextual"}},
			want: []string{
				"domain imports context, which domain/ may not touch",
				"domain imports net/http, which domain/ may not touch",
			},
		},
		"protocol is below workflows and has its own wall": {
			pkg:  walls.Package{ImportPath: m + "/workflows/protocol", Deps: []string{m + "/domain", m + "/workflows"}},
			want: []string{"workflows/protocol needs workflows, which workflows/protocol/ may not import"},
		},
		"workflows may not need activities, even through others": {
			pkg:  walls.Package{ImportPath: m + "/workflows", Imports: []string{m + "/domain"}, Deps: []string{m + "/domain", m + "/activities/tool"}},
			want: []string{"workflows needs activities/tool, which workflows/ may not import"},
		},
		"workflows may not hold a client": {
			pkg:  walls.Package{ImportPath: m + "/workflows", Imports: []string{"go.temporal.io/sdk/client", "go.temporal.io/sdk/workflow"}},
			want: []string{"workflows imports go.temporal.io/sdk/client, which workflows/ may not touch"},
		},
		"store works without Temporal": {
			pkg:  walls.Package{ImportPath: m + "/store", Imports: []string{"go.temporal.io/api/common/v1"}},
			want: []string{"store imports go.temporal.io/api/common/v1, which store/ may not touch"},
		},
		"config may not need the store": {
			pkg:  walls.Package{ImportPath: m + "/config", Deps: []string{m + "/workflows/protocol", m + "/store"}},
			want: []string{"config needs store, which config/ may not import"},
		},
		"activities may need the protocol, not the workflows": {
			pkg:  walls.Package{ImportPath: m + "/activities", Deps: []string{m + "/activities/tool", m + "/workflows/protocol", m + "/workflows"}},
			want: []string{"activities needs workflows, which activities/ may not import"},
		},
		"worker is not a way in": {
			pkg:  walls.Package{ImportPath: m + "/worker", Deps: []string{m + "/activities", m + "/workflows", m + "/starter"}},
			want: []string{"worker needs starter, which worker/ may not import"},
		},
		"starter may not need activities, even through the commands": {
			pkg: walls.Package{ImportPath: m + "/starter/gateway", Deps: []string{m + "/starter", m + "/starter/cli", m + "/activities"}},
			want: []string{
				"starter/gateway needs starter/cli, which starter/ may not import",
				"starter/gateway needs activities, which starter/ may not import",
			},
		},
		"the commands run the worker": {
			pkg: walls.Package{ImportPath: m + "/starter/cli", Deps: []string{m + "/starter", m + "/worker", m + "/activities", m + "/workflows"}},
		},
		"the commands name none of the parts of the worker": {
			pkg:  walls.Package{ImportPath: m + "/starter/cli", Imports: []string{m + "/worker", m + "/activities/tool"}, Deps: []string{m + "/activities/tool", m + "/worker"}},
			want: []string{"starter/cli needs activities/tool, which starter/cli/ may not import"},
		},
		"the commands may not need the tests": {
			pkg:  walls.Package{ImportPath: m + "/starter/cli", Deps: []string{m + "/tests/walls"}},
			want: []string{"starter/cli needs tests/walls, which starter/cli/ may not import"},
		},
		"nobody may need the server": {
			pkg:  walls.Package{ImportPath: m + "/cmd/wakepoint", Deps: []string{m + "/starter/cli", "go.temporal.io/server/temporal"}},
			want: []string{"cmd/wakepoint needs go.temporal.io/server/temporal, which belongs to engine/"},
		},
		"what is not ours is not looked at": {
			pkg: walls.Package{ImportPath: "example.org/domain", Imports: []string{"os"}, Deps: []string{m + "/activities"}},
		},
		"a name that only begins alike has no wall": {
			pkg: walls.Package{ImportPath: m + "/domainlike", Imports: []string{"os"}, Deps: []string{m + "/worker"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := walls.Check(walls.Walls, []walls.Package{tc.pkg})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImpureFindsTheClock(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		src  string
		want []string
	}{
		"arithmetic is pure": {
			src: "package p\nimport \"time\"\nfunc f(d time.Duration) time.Time { return time.UnixMilli(d.Milliseconds()) }",
		},
		"now": {
			src:  "package p\nimport \"time\"\nvar t = time.Now()",
			want: []string{"p.go:3:9: uses time.Now"},
		},
		"now as a value under another name": {
			src:  "package p\nimport clock \"time\"\nvar now = clock.Now",
			want: []string{"p.go:3:11: uses time.Now"},
		},
		"by a dot": {
			src:  "package p\nimport . \"time\"\nvar t = Now()",
			want: []string{"p.go:1:9: imports time by a dot, so its names cannot be told from ours"},
		},
		"another package's now": {
			src: "package p\nimport \"example.org/time\"\nvar t = time.Now()",
		},
		"goroutine and channels": {
			src: "package p\nfunc f(c chan int) {\n\tgo f(nil)\n\tselect {}\n}",
			want: []string{
				"p.go:2:10: declares a channel",
				"p.go:3:2: starts a goroutine",
				"p.go:4:2: selects over channels",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := walls.Impure("p.go", []byte(tc.src))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := walls.Impure("p.go", []byte("package")); err == nil {
		t.Error("a file that does not parse must be an error")
	}
}

func TestMapRangesFindsThem(t *testing.T) {
	t.Parallel()
	src := `package p

import (
	"maps"
	"slices"
)

type byName map[string]int

var rules = []func(byName) int{
	func(m byName) (n int) {
		for _, v := range m {
			n += v
		}
		for k := range maps.Keys(m) {
			n += len(k)
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			n += m[k]
		}
		for i := range n {
			n += i
		}
		return n
	},
}
`
	got, err := walls.MapRanges(t.Context(), root, map[string][]byte{"p.go": []byte(src)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"p.go:12:3: ranges over a map", "p.go:15:3: ranges over a map"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for name, src := range map[string]string{"does not parse": "package", "does not compile": "package p\nvar x = y"} {
		if got, err := walls.MapRanges(t.Context(), root, map[string][]byte{"p.go": []byte(src)}); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

// list asks the go command for the packages of the main module with their imports.
func list(t *testing.T) []walls.Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var graph []walls.Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg walls.Package
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read what go list printed: %v", err)
		}
		graph = append(graph, pkg)
	}
	slices.SortFunc(graph, func(a, b walls.Package) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return graph
}
