package walls

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// MapRanges reads the files of one package, by name, and says where a map is ranged over: its order is another one in
// every replay. workflowcheck looks for that too, but it does not follow calls by function values, and the rules of
// domain are such values. The go command of the given folder is asked for the types of what is imported. A package that
// does not compile is an error.
func MapRanges(ctx context.Context, dir string, files map[string][]byte) ([]string, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	exports, err := exportsOf(ctx, dir, parsed)
	if err != nil {
		return nil, err
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := conf.Check("domain", fset, parsed, info); err != nil {
		return nil, fmt.Errorf("check types: %w", err)
	}
	var found []string
	for _, file := range parsed {
		ast.Inspect(file, func(node ast.Node) bool {
			loop, ok := node.(*ast.RangeStmt)
			if !ok {
				return true
			}
			_, overMap := info.TypeOf(loop.X).Underlying().(*types.Map)
			if overMap || fromMaps(info, loop.X) {
				found = append(found, fmt.Sprintf("%s: ranges over a map", fset.Position(loop.Pos())))
			}
			return true
		})
	}
	return found, nil
}

// exportsOf finds the compiled types of all that the files import, by import path: the build cache has them.
func exportsOf(ctx context.Context, dir string, files []*ast.File) (map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-f={{.ImportPath}}\t{{.Export}}", "--"}
	for _, file := range files {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("import %s: %w", spec.Path.Value, err)
			}
			args = append(args, path)
		}
	}
	exports := map[string]string{}
	if args[len(args)-1] == "--" {
		return exports, nil // no import at all
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w\n%s", err, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return exports, nil
}

// fromMaps tells whether an expression is what a function of package maps gives: an iterator in the map's order.
func fromMaps(info *types.Info, x ast.Expr) bool {
	call, ok := ast.Unparen(x).(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	object := info.Uses[selector.Sel]
	return object != nil && object.Pkg() != nil && object.Pkg().Path() == "maps"
}
