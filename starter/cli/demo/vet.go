package demo

import (
	"context"
	"errors"
	"fmt"
	gofmt "go/format"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of the work, so that a demo on a huge tree ends while somebody
// watches.
const (
	maxVetPackages = 40
	vetRounds      = 12
	maxFindings    = 20
)

// VetResult is what `go vet` found.
type VetResult struct {
	// Packages were looked at; Left were not, because there are so many.
	Packages int `json:"packages"`
	Left     int `json:"left,omitempty"`
	// Findings are its lines, sorted, at most 20; More counts the others.
	Findings []string `json:"findings"`
	More     int      `json:"more,omitempty"`
}

// vet runs go vet on some packages at a time, so that there is progress to tell.
func vet(ctx context.Context, j *job) (any, error) {
	j.report(0, 1, "listing packages")
	packages, err := j.packages(ctx)
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(packages))
	for _, p := range packages {
		paths = append(paths, p.ImportPath)
	}
	r := VetResult{Packages: min(len(paths), maxVetPackages)}
	r.Left = len(paths) - r.Packages
	paths = paths[:r.Packages]
	size := max((len(paths)+vetRounds-1)/vetRounds, 1)
	done := 0
	var findings []string
	for part := range slices.Chunk(paths, size) {
		j.report(done, r.Packages, "go vet "+shortPath(part[0], packages[0].Module.Path))
		out, err := j.command(ctx, "go", append([]string{"vet"}, part...)...).CombinedOutput()
		found := vetLines(string(out), j.Dir)
		var exit *exec.ExitError
		switch {
		case err != nil && !errors.As(err, &exit):
			return nil, fmt.Errorf("go vet: %w", err)
		case err != nil && len(found) == 0:
			return nil, fmt.Errorf("go vet: %w: %s", err, firstLine(string(out)))
		case err != nil:
			findings = append(findings, found...)
		}
		done += len(part)
	}
	j.report(1, 1, "done")
	r.Findings, r.More = bounded(findings, maxFindings)
	return r, nil
}

// vetLines are the findings in the output of go vet, without the headings.
func vetLines(out, dir string) []string {
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(strings.ReplaceAll(line, dir+string(filepath.Separator), ""))
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go: downloading") {
			lines = append(lines, strings.TrimPrefix(line, "./"))
		}
	}
	return lines
}

// bounded sorts, drops repeats and cuts; it gives how many were cut off.
func bounded(lines []string, limit int) ([]string, int) {
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) <= limit {
		return append([]string{}, lines...), 0
	}
	return lines[:limit], len(lines) - limit
}

// FormatResult says which Go files are not as gofmt would write them.
type FormatResult struct {
	Files int `json:"files"`
	// Unformatted are paths, sorted, at most 20; More counts the others.
	Unformatted []string `json:"unformatted"`
	More        int      `json:"more,omitempty"`
}

// formatSteps is how many files go by between two words about progress.
const formatSteps = 20

func format(ctx context.Context, j *job) (any, error) {
	j.report(0, 1, "listing files")
	files, err := j.tracked(ctx)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".go") || inTestdata(f) })
	r := FormatResult{Files: len(files)}
	var wrong []string
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i%formatSteps == 0 {
			j.report(i, len(files), f)
		}
		src, err := os.ReadFile(filepath.Join(j.Dir, f))
		if err != nil {
			return nil, err
		}
		if want, err := gofmt.Source(src); err != nil {
			wrong = append(wrong, f+": does not parse")
		} else if string(want) != string(src) {
			wrong = append(wrong, f)
		}
	}
	j.report(1, 1, "done")
	r.Unformatted, r.More = bounded(wrong, maxFindings)
	return r, nil
}

// inTestdata tells whether the go command ignores a file: what lies there may
// be wrong on purpose.
func inTestdata(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return part == "testdata" || strings.HasPrefix(part, "_")
	})
}
