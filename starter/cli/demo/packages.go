package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage is what `go list -json` says of a package, as far as it matters.
type goPackage struct {
	ImportPath   string
	Dir          string
	Module       struct{ Path string }
	Imports      []string
	Deps         []string
	TestGoFiles  []string
	XTestGoFiles []string
	TestImports  []string
	XTestImports []string
}

// packages lists the packages of the tree, sorted by path.
func (j *job) packages(ctx context.Context) ([]goPackage, error) {
	out, err := j.output(ctx, "go", "list", "-e",
		"-json=ImportPath,Dir,Module,Imports,Deps,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read what go list says: %w", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no Go package below %s", j.Dir)
	}
	slices.SortFunc(all, func(a, b goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return all, nil
}

// impure are imports of packages whose tests may start programs, listen, or
// touch the world in other ways.
var impure = []string{"net", "net/http", "net/http/httptest", "os/exec", "os/signal", "plugin", "runtime/cgo", "syscall", "database/sql"}

// pure tells whether neither the package nor its tests touch the world.
func (p goPackage) pure() bool {
	for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
		if slices.ContainsFunc(imports, func(i string) bool { return slices.Contains(impure, i) }) {
			return false
		}
	}
	return true
}

// foreign counts the packages of other modules that it needs.
func (p goPackage) foreign() int {
	needs := map[string]bool{}
	for _, imports := range [][]string{p.Deps, p.TestImports, p.XTestImports} {
		for _, i := range imports {
			first, _, _ := strings.Cut(i, "/")
			ours := i == p.Module.Path || strings.HasPrefix(i, p.Module.Path+"/")
			if strings.Contains(first, ".") && !ours {
				needs[i] = true
			}
		}
	}
	return len(needs)
}

// testBytes is how large its tests are.
func (p goPackage) testBytes() int64 {
	var n int64
	for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if info, err := os.Stat(filepath.Join(p.Dir, f)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// maxTestPackages bounds a run of the tests.
const maxTestPackages = 4

// testable chooses the packages whose tests are run: those that touch nothing
// and need least of others, then those with the largest tests.
func testable(all []goPackage) []goPackage {
	var some []goPackage
	for _, p := range all {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 && p.pure() {
			some = append(some, p)
		}
	}
	slices.SortStableFunc(some, func(a, b goPackage) int {
		if d := a.foreign() - b.foreign(); d != 0 {
			return d
		}
		if d := b.testBytes() - a.testBytes(); d != 0 {
			return int(d)
		}
		return strings.Compare(a.ImportPath, b.ImportPath)
	})
	some = some[:min(len(some), maxTestPackages)]
	slices.SortFunc(some, func(a, b goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return some
}

// shortPath is an import path without its module's.
func shortPath(path, module string) string {
	if short, ok := strings.CutPrefix(path, module+"/"); ok {
		return short
	}
	if path == module {
		return "."
	}
	return path
}
