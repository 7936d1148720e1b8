// Package walls holds the walls between the folders of this repository: who may import whom, and what the
// deterministic code may not touch. The linter holds the same walls while one writes; this package holds them in
// plain `go test`, for whoever builds without the linter, and over the whole import graph instead of one file at a time.
package walls

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the main module.
const Module = "github.com/wakepoint/wakepoint"

// Wall says what the packages of one folder may import of ours, and what they may not import of others.
type Wall struct {
	// Folder is the folder that the wall is about, relative to the module, with the folders below it.
	// Of several walls that cover a package the one with the longest Folder counts.
	Folder string
	// Allow are the folders of ours, each with those below it, that may be imported directly or through others.
	// The wall's own folder is always allowed.
	Allow []string
	// Indirect are folders of ours, each with those below it, that may be needed through others but not imported.
	Indirect []string
	// Except are folders that are not allowed though something in Allow, or Folder, covers them.
	Except []string
	// Deny are import paths of others, each with those below it, that may not be imported directly.
	// They are not followed through others: the standard library's fmt itself needs os.
	Deny []string
	// StdOnly forbids every package outside the standard library and outside our module, direct or not.
	StdOnly bool
}

// Walls is the table of ARCHITECTURE: a folder that is missing here may import everything.
var Walls = []Wall{
	{
		Folder: "domain", StdOnly: true,
		Deny: []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "sync", "syscall"},
	},
	{Folder: "workflows/protocol", Allow: []string{"domain"}},
	{
		Folder: "workflows", Allow: []string{"domain", "workflows/protocol"},
		Deny: []string{"crypto/rand", "go.temporal.io/sdk/client", "go.temporal.io/sdk/worker", "math/rand", "net", "os"},
	},
	{Folder: "store", Allow: []string{"domain"}, Deny: []string{"go.temporal.io"}},
	{Folder: "config", Allow: []string{"domain", "workflows/protocol"}},
	{Folder: "activities", Allow: []string{"config", "domain", "store", "workflows/protocol"}},
	{Folder: "worker", Allow: []string{"activities", "config", "domain", "store", "workflows"}},
	{
		Folder: "starter", Allow: []string{"config", "domain", "store", "workflows/protocol"},
		Except: []string{"starter/cli"},
	},
	{
		// The commands run the worker, so all that the worker needs is below them, but they name none of it themselves.
		Folder: "starter/cli", Allow: []string{"config", "domain", "starter", "store", "worker", "workflows/protocol"},
		Indirect: []string{"activities", "workflows"},
	},
}

// Elsewhere are import paths that no package of the main module may need, each with those below it: the server and
// its UI live in engine/, a module of its own, since server and SDK pin different versions of Temporal's API.
var Elsewhere = []string{Module + "/engine", "go.temporal.io/server", "github.com/temporalio/ui-server"}

// Package is one package of the import graph, as `go list -json` prints it.
type Package struct {
	// ImportPath is its import path.
	ImportPath string
	// Imports are its direct imports, Deps the direct and indirect ones. Both without those of its tests.
	Imports, Deps []string
}

// Check compares an import graph with the walls, and says for each breach which package imports what and why not.
// Packages outside our module are not looked at.
func Check(walls []Wall, graph []Package) []string {
	var breaches []string
	for _, pkg := range graph {
		folder, ours := folderOf(pkg.ImportPath)
		if !ours {
			continue
		}
		for _, dep := range pkg.Deps {
			if slices.ContainsFunc(Elsewhere, func(root string) bool { return below(dep, root) }) {
				breaches = append(breaches, fmt.Sprintf("%s needs %s, which belongs to engine/", folder, dep))
			}
		}
		if wall, ok := wallOf(walls, folder); ok {
			breaches = append(breaches, wall.check(folder, pkg)...)
		}
	}
	return breaches
}

// check compares one package with its wall.
func (w Wall) check(folder string, pkg Package) []string {
	var breaches []string
	for _, dep := range pkg.Deps {
		switch depFolder, ours := folderOf(dep); {
		case ours && !w.allows(folder, depFolder, slices.Contains(pkg.Imports, dep)):
			breaches = append(breaches, fmt.Sprintf("%s needs %s, which %s/ may not import", folder, depFolder, w.Folder))
		case !ours && w.StdOnly && !standard(dep):
			breaches = append(breaches, fmt.Sprintf("%s needs %s, which is not of the standard library", folder, dep))
		}
	}
	for _, imp := range pkg.Imports {
		for _, root := range w.Deny {
			if below(imp, root) {
				breaches = append(breaches, fmt.Sprintf("%s imports %s, which %s/ may not touch", folder, imp, w.Folder))
			}
		}
	}
	return breaches
}

// allows tells whether a package in folder `from` may need one in folder `to`, directly or through others.
func (w Wall) allows(from, to string, direct bool) bool {
	if from == to {
		return true
	}
	covers := func(root string) bool { return below(to, root) }
	if slices.ContainsFunc(w.Except, covers) {
		return false
	}
	return below(to, w.Folder) || slices.ContainsFunc(w.Allow, covers) ||
		!direct && slices.ContainsFunc(w.Indirect, covers)
}

// wallOf finds the wall with the longest folder that covers the given one.
func wallOf(walls []Wall, folder string) (Wall, bool) {
	var found Wall
	for _, wall := range walls {
		if below(folder, wall.Folder) && len(wall.Folder) > len(found.Folder) {
			found = wall
		}
	}
	return found, found.Folder != ""
}

// folderOf gives the folder of one of our packages; the module's root is ".".
func folderOf(importPath string) (string, bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// below tells whether a path is the root or lies below it.
func below(p, root string) bool {
	return p == root || strings.HasPrefix(p, root+"/")
}

// standard tells whether an import path is the standard library's: its first element has no dot. The library's own
// copies of other modules are listed below vendor/.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// clock are the names of package time that read the clock or wait for it. The types and the arithmetic are pure.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// Impure reads one Go file and says where it touches the clock, starts a goroutine or uses a channel. It answers a
// parse error as an error.
func Impure(name string, src []byte) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var found []string
	say := func(node ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(node.Pos()), what))
	}
	timeName := localName(file, "time")
	if timeName == "." {
		say(file.Name, "imports time by a dot, so its names cannot be told from ours")
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && timeName != "" && x.Name == timeName && slices.Contains(clock, n.Sel.Name) {
				say(n, "uses time."+n.Sel.Name)
			}
		case *ast.GoStmt:
			say(n, "starts a goroutine")
		case *ast.ChanType:
			say(n, "declares a channel")
		case *ast.SelectStmt:
			say(n, "selects over channels")
		}
		return true
	})
	return found, nil
}

// localName gives the name by which a file knows an import, or "" when it does not import it.
func localName(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}
