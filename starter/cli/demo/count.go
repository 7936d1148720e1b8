package demo

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// CountResult is how much there is of what.
type CountResult struct {
	Files int `json:"files"`
	Lines int `json:"lines"`
	// Languages are sorted by lines, most first.
	Languages []Count `json:"languages"`
	// Packages are the folders with Go code, sorted by lines, most first.
	Packages []PackageCount `json:"packages"`
}

// Count is the size of one language.
type Count struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	// Lines that are not blank.
	Lines int `json:"lines"`
}

// PackageCount is the size of the Go code in one folder.
type PackageCount struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	// Lines that are not blank, and those of them in tests.
	Lines int `json:"lines"`
	Tests int `json:"tests"`
}

// languages by the ending or the name of a file.
var languages = map[string]string{
	".go": "Go", ".md": "Markdown", ".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".jsonl": "JSON", ".sh": "Shell", ".bash": "Shell",
	".py": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".html": "HTML", ".css": "CSS",
	".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".rs": "Rust", ".java": "Java", ".sql": "SQL", ".proto": "Protocol Buffers",
	".toml": "TOML", ".s": "Assembly", ".txt": "Text", ".mod": "Go modules", ".sum": "Go modules", ".tmpl": "Templates", ".xml": "XML",
	"makefile": "Make", ".mk": "Make", "dockerfile": "Docker",
}

// The names of what has no language of its own.
const (
	other  = "other text"
	binary = "not text"
)

// sniff is how much of a file decides whether it is text, in bytes.
const sniff = 8000

func languageOf(file string, content []byte) string {
	if bytes.IndexByte(content[:min(len(content), sniff)], 0) >= 0 {
		return binary
	}
	name := strings.ToLower(path.Base(file))
	for _, key := range []string{path.Ext(name), name} {
		if l, ok := languages[key]; ok {
			return l
		}
	}
	return other
}

// linesOf counts the lines that are not blank.
func linesOf(content []byte) int {
	n := 0
	for line := range bytes.Lines(content) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// countSteps is how many files go by between two words about progress.
const countSteps = 50

func count(ctx context.Context, j *job) (any, error) {
	j.report(0, 1, "listing files")
	files, err := j.tracked(ctx)
	if err != nil {
		return nil, err
	}
	r := CountResult{Files: len(files)}
	byLanguage, byDir := map[string]*Count{}, map[string]*PackageCount{}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i%countSteps == 0 {
			j.report(i, len(files), f)
		}
		content, err := os.ReadFile(filepath.Join(j.Dir, f))
		if err != nil {
			return nil, err
		}
		name, lines := languageOf(f, content), 0
		if name != binary {
			lines = linesOf(content)
		}
		r.Lines += lines
		l := at(byLanguage, name)
		l.Name, l.Files, l.Lines = name, l.Files+1, l.Lines+lines
		if name != "Go" || inTestdata(f) {
			continue
		}
		p := at(byDir, path.Dir(f))
		p.Dir, p.Files, p.Lines = path.Dir(f), p.Files+1, p.Lines+lines
		if strings.HasSuffix(f, "_test.go") {
			p.Tests += lines
		}
	}
	j.report(1, 1, "done")
	r.Languages = sorted(byLanguage, func(c Count) (int, string) { return c.Lines, c.Name })
	r.Packages = sorted(byDir, func(c PackageCount) (int, string) { return c.Lines, c.Dir })
	return r, nil
}

// at gives the value of a key, made if it is not there.
func at[T any](m map[string]*T, key string) *T {
	if m[key] == nil {
		m[key] = new(T)
	}
	return m[key]
}

// sorted gives the values, the largest first, the same size by name.
func sorted[T any](m map[string]*T, of func(T) (int, string)) []T {
	all := make([]T, 0, len(m))
	for _, v := range m {
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b T) int {
		sizeA, nameA := of(a)
		sizeB, nameB := of(b)
		if sizeA != sizeB {
			return sizeB - sizeA
		}
		return strings.Compare(nameA, nameB)
	})
	return all
}
