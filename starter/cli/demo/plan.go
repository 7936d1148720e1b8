package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Step is one call of the demo's run.
type Step struct {
	Tool  string
	Title string
	// Skip says why it is left out, if it is.
	Skip string
}

// ErrNoTree is that there is no Go source tree where one was looked for.
var ErrNoTree = errors.New("no Go source tree")

// Tree is the source tree that the demo works on.
type Tree struct {
	// Dir is its root, absolute.
	Dir string
	// Module is the path in its go.mod.
	Module string
}

// FindTree gives the tree whose root is dir, or, when dir is empty, the nearest
// one upward from any of the starting points. The error is [ErrNoTree].
func FindTree(dir string, starts ...string) (Tree, error) {
	if dir != "" {
		return treeAt(dir)
	}
	for _, start := range starts {
		for at := start; at != ""; at = filepath.Dir(at) {
			if t, err := treeAt(at); err == nil {
				return t, nil
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return Tree{}, fmt.Errorf("%w: there is no go.mod in or above %s", ErrNoTree, strings.Join(starts, " or "))
}

func treeAt(dir string) (Tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", ErrNoTree, err)
	}
	// Tools report paths as the kernel sees them.
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		dir = plain
	}
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return Tree{}, fmt.Errorf("%w: there is no go.mod in %s", ErrNoTree, dir)
	}
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", ErrNoTree, err)
	}
	for line := range bytes.Lines(b) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "module "); ok {
			return Tree{Dir: dir, Module: strings.Trim(strings.TrimSpace(name), `"`)}, nil
		}
	}
	return Tree{}, fmt.Errorf("%w: go.mod in %s names no module", ErrNoTree, dir)
}

// Plan lists the steps for a tree, in the order of the report. What the machine
// or the tree lacks is skipped, with the reason.
func Plan(ctx context.Context, tree Tree, env []string) []Step {
	steps := []Step{
		{Tool: ToolVet, Title: "go vet of every package"},
		{Tool: ToolTest, Title: "go test of a few packages that touch nothing"},
		{Tool: ToolFormat, Title: "gofmt of every Go file"},
		{Tool: ToolCount, Title: "count of the code"},
		{Tool: ToolHistory, Title: "summary of the git history"},
	}
	j := &job{Input: Input{Dir: tree.Dir}, env: env}
	noGo := ""
	if _, err := j.output(ctx, "go", "env", "GOVERSION"); err != nil {
		noGo = unusable("the go command", err)
	}
	steps[0].Skip, steps[1].Skip = noGo, noGo
	steps[4].Skip = j.noHistory(ctx)
	return steps
}

// RunFile is the file of a run that takes the steps: those that are not skipped, all at
// the same time, and a report that needs what all of them have found. Exclude are files
// that do not belong to the tree.
func RunFile(tree Tree, steps []Step, exclude []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Written by `wakepoint demo`: what its run does.\n")
	fmt.Fprintf(&b, "title: %s\nttl: 1h\ncalls:\n", strconv.Quote("demo on "+tree.Module))
	call := func(tool string, input any) error {
		// JSON is YAML too.
		text, err := json.Marshal(input)
		fmt.Fprintf(&b, "  %s:\n    tool: %s\n    input: %s\n", tool, tool, text)
		return err
	}
	report := ReportInput{Module: tree.Module}
	for _, s := range steps {
		r := ReportStep{Tool: s.Tool, Title: s.Title, Skip: s.Skip}
		if s.Skip == "" {
			if err := call(s.Tool, Input{Dir: tree.Dir, Exclude: exclude}); err != nil {
				return nil, err
			}
			r.Result = json.RawMessage(`{"$from":` + strconv.Quote(s.Tool) + `}`)
		}
		report.Steps = append(report.Steps, r)
	}
	err := call(ToolReport, report)
	return b.Bytes(), err
}

func unusable(what string, err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return what + " is not installed"
	}
	return what + " does not work here"
}

// noHistory says why there is no history to sum up, or nothing.
func (j *job) noHistory(ctx context.Context) string {
	out, err := j.output(ctx, "git", "rev-parse", "--is-inside-work-tree")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "git is not installed"
	case err != nil || strings.TrimSpace(string(out)) != "true":
		return "the tree is no git work tree, or git may not read it"
	}
	if out, err := j.output(ctx, "git", "rev-list", "--max-count=1", "HEAD", "--", "."); err != nil || len(bytes.TrimSpace(out)) == 0 {
		return "there is no commit yet"
	}
	return ""
}
