package demo

import (
	"bytes"
	"cmp"
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

// impure are imports of packages that may start programs, listen, or touch the
// world in other ways.
var impure = []string{"net", "net/http", "net/http/httptest", "os/exec", "os/signal", "plugin", "runtime/cgo", "syscall", "database/sql"}

// maxForeign is how many packages of other modules tests may need, so that they
// are built while somebody watches.
const maxForeign = 40

// needs lists what a package and its tests need: all that its tests import, and
// what these need in turn as far as they are in the tree.
func needs(p goPackage, tree map[string]goPackage) []string {
	all := slices.Concat(p.Deps, p.TestImports, p.XTestImports)
	for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
		all = append(all, tree[i].Deps...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// pure tells whether nothing of the tree that the package or its tests need
// touches the world, and how many packages of others they need.
func pure(p goPackage, tree map[string]goPackage) (ok bool, foreign int) {
	touches := func(imports []string) bool {
		return slices.ContainsFunc(imports, func(i string) bool { return slices.Contains(impure, i) })
	}
	if touches(slices.Concat(p.Imports, p.TestImports, p.XTestImports)) {
		return false, 0
	}
	for _, need := range needs(p, tree) {
		first, _, _ := strings.Cut(need, "/")
		switch ours, in := tree[need]; {
		case in && touches(ours.Imports):
			return false, 0
		case !in && strings.Contains(first, "."):
			foreign++
		}
	}
	return foreign <= maxForeign, foreign
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

// farFetched are names of folders whose tests look at more than their package:
// they put whole programs together, and take their time.
var farFetched = []string{"test", "tests", "e2e", "integration", "acceptance", "bench", "benchmarks"}

// apart tells whether a package lies in such a folder.
func (p goPackage) apart() bool {
	return slices.ContainsFunc(strings.Split(shortPath(p.ImportPath, p.Module.Path), "/"), func(part string) bool {
		return slices.Contains(farFetched, part)
	})
}

// maxTestBytes bounds the tests of a package, so that it is a small one.
const maxTestBytes = 128 << 10

// maxTestPackages bounds a run of the tests.
const maxTestPackages = 4

// testable chooses the packages whose tests are run: small ones that touch nothing
// and need least of others, then those with the largest tests.
func testable(all []goPackage) []goPackage {
	tree := make(map[string]goPackage, len(all))
	for _, p := range all {
		tree[p.ImportPath] = p
	}
	foreign := map[string]int{}
	var some []goPackage
	for _, p := range all {
		ok, n := pure(p, tree)
		if ok && !p.apart() && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 && p.testBytes() <= maxTestBytes {
			some, foreign[p.ImportPath] = append(some, p), n
		}
	}
	slices.SortStableFunc(some, func(a, b goPackage) int {
		return cmp.Or(cmp.Compare(foreign[a.ImportPath], foreign[b.ImportPath]), cmp.Compare(b.testBytes(), a.testBytes()), cmp.Compare(a.ImportPath, b.ImportPath))
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
