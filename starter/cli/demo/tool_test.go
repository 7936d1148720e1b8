package demo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/starter/cli/demo"
)

// tree writes a small Go module with one finding for every tool.
func tree(t *testing.T) string {
	t.Helper()
	// The go command gives paths without symbolic links.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod":             "module example.com/small\n\ngo 1.26\n",
		"main.go":            "package small\n\nimport \"fmt\"\n\n// Say says.\nfunc Say() { fmt.Printf(\"%d\\n\", \"x\") }\n",
		"sum/sum.go":         "package sum\n\n// Of adds.\nfunc Of(a, b int) int { return a + b }\n",
		"sum/sum_test.go":    "package sum\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) {})\n\tif Of(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n\nfunc TestWrong(t *testing.T) { t.Fatal(\"wrong\") }\n",
		"world/world.go":     "package world\n",
		"world/w_test.go":    "package world\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestRuns(t *testing.T) { _ = exec.Command(\"x\") }\n",
		"ugly.go":            "package small\nvar  Ugly =1\n",
		"testdata/broken.go": "not go at all",
		"README.md":          "# small\n\ntext\n",
		"logo.png":           "\x89PNG\x00\x01",
		".hidden/x.go":       "package hidden\n",
		"report.md":          "an old report\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var control = regexp.MustCompile(`^::wakepoint progress=(\d+) stage=("[^"]*")$`)

// run runs a tool as the executor does and reads its result.
func run[R any](t *testing.T, name, dir string) R {
	t.Helper()
	result := filepath.Join(t.TempDir(), "result")
	input, err := json.Marshal(demo.Input{Dir: dir, Exclude: []string{filepath.Join(dir, "report.md")}})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	env := append(os.Environ(), "WAKEPOINT_RESULT="+result, "GOFLAGS=-mod=mod", "GOWORK=off")
	if code := demo.RunTool(t.Context(), []string{name}, bytes.NewReader(input), &stdout, &stderr, env); code != 0 {
		t.Fatalf("%s ended with %d: %s", name, code, &stderr)
	}
	last := 0
	for line := range strings.Lines(stdout.String()) {
		m := control.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("%s wrote %q, which is no control line", name, line)
		}
		p, err := strconv.Atoi(m[1])
		if err != nil || p < last || p > 100 {
			t.Errorf("%s went from %d to %s percent", name, last, m[1])
		}
		last = p
	}
	if last != 100 {
		t.Errorf("%s stopped at %d percent", name, last)
	}
	b, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	var r R
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func differs(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the result differs (-want +got):\n%s", d)
	}
}

func TestVet(t *testing.T) {
	t.Parallel()
	got := run[demo.VetResult](t, demo.ToolVet, tree(t))
	differs(t, got, demo.VetResult{
		Packages: 3, Findings: []string{`main.go:6:26: fmt.Printf format %d has arg "x" of wrong type string`},
	})
}

func TestTestsOfPurePackages(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	// What is far-fetched or large is left out too.
	empty := func(pkg string) string {
		return "package " + pkg + "\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) {}\n"
	}
	for name, content := range map[string]string{
		"tests/all/all_test.go": empty("all"), "huge/huge_test.go": empty("huge") + strings.Repeat("// much more of it\n", 10_000),
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := run[demo.TestResult](t, demo.ToolTest, dir)
	for i := range got.Packages {
		got.Packages[i].Seconds = 0
	}
	differs(t, got, demo.TestResult{
		Packages: []demo.PackageTests{{Package: "sum", Passed: 1, Failed: 1, Skipped: 1}}, Failures: []string{"sum.TestWrong"},
	})
}

func TestTestsThatDoNotBuild(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	if err := os.WriteFile(filepath.Join(dir, "sum", "sum.go"), []byte("package sum\n\nfunc Of(a, b int) string { return a }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run[demo.TestResult](t, demo.ToolTest, dir)
	for i := range got.Packages {
		got.Packages[i].Seconds = 0 // what it took is not what this is about
	}
	differs(t, got, demo.TestResult{Packages: []demo.PackageTests{{Package: "sum", Broken: true}}, Failures: []string{}})
}

func TestFormat(t *testing.T) {
	t.Parallel()
	got := run[demo.FormatResult](t, demo.ToolFormat, tree(t))
	differs(t, got, demo.FormatResult{Files: 6, Unformatted: []string{"ugly.go"}})
}

func TestCount(t *testing.T) {
	t.Parallel()
	got := run[demo.CountResult](t, demo.ToolCount, tree(t))
	want := demo.CountResult{
		Files: 10, Lines: 31,
		Languages: []demo.Count{
			{Name: "Go", Files: 7, Lines: 27}, {Name: "Go modules", Files: 1, Lines: 2}, {Name: "Markdown", Files: 1, Lines: 2}, {Name: "not text", Files: 1},
		},
		Packages: []demo.PackageCount{
			{Dir: "sum", Files: 2, Lines: 13, Tests: 10}, {Dir: "world", Files: 2, Lines: 7, Tests: 6}, {Dir: ".", Files: 2, Lines: 6},
		},
	}
	differs(t, got, want)
}

// git runs git with nobody's settings.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	git(t, dir, "init", "-q")
	git(t, dir, "add", "sum", "README.md")
	git(t, dir, "commit", "-q", "-m", "one")
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# small\n\nother\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "-a", "-m", "two")
	got := run[demo.HistoryResult](t, demo.ToolHistory, dir)
	differs(t, got, demo.HistoryResult{
		Commits: 2, First: "2026-01-02", Last: "2026-01-02", Authors: []demo.Share{{Name: "Ada", Commits: 2}},
		Files: []demo.Share{{Name: "README.md", Commits: 2}, {Name: "sum/sum.go", Commits: 1}, {Name: "sum/sum_test.go", Commits: 1}}, Added: 22, Removed: 1,
	})
	// Only what git keeps is counted from now on.
	if count := run[demo.CountResult](t, demo.ToolCount, dir); count.Files != 3 {
		t.Errorf("counted %d files, git keeps 3", count.Files)
	}
}

func TestToolRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		input string
		want  string
	}{
		"no name":        {nil, `{}`, "error: name one tool\n"},
		"another name":   {[]string{"rm"}, `{}`, "error: there is no tool \"rm\"\n"},
		"no JSON":        {[]string{demo.ToolCount}, `x`, "error: read the input: invalid character 'x' looking for beginning of value\n"},
		"a relative dir": {[]string{demo.ToolCount}, `{"dir": "src"}`, "error: dir must be an absolute path, not \"src\"\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := demo.RunTool(t.Context(), c.args, strings.NewReader(c.input), &stdout, &stderr, os.Environ())
		if code != 1 || stderr.String() != c.want {
			t.Errorf("%s: %d, %q; want %q", name, code, &stderr, c.want)
		}
	}
	var stderr bytes.Buffer
	code := demo.RunTool(t.Context(), []string{demo.ToolTest}, strings.NewReader(`{"dir": "/nowhere/at/all"}`), &bytes.Buffer{}, &stderr, os.Environ())
	if code != 1 || !strings.Contains(stderr.String(), "no such file or directory") {
		t.Errorf("a tree that is not there: %d, %q", code, &stderr)
	}
}

func TestPlanSkipsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	found, err := demo.FindTree("", filepath.Join(dir, "sum"))
	if err != nil || found.Dir != dir || found.Module != "example.com/small" {
		t.Fatalf("FindTree = %+v, %v", found, err)
	}
	skipped := func(env []string) []string {
		var reasons []string
		for _, s := range demo.Plan(t.Context(), found, env) {
			reasons = append(reasons, s.Skip)
		}
		return reasons
	}
	none := "the tree is no git work tree, or git may not read it"
	if got := skipped(os.Environ()); !slices.Equal(got, []string{"", "", "", "", none}) {
		t.Errorf("skipped: %q", got)
	}
	git(t, dir, "init", "-q")
	if got := skipped(os.Environ()); got[4] != "there is no commit yet" {
		t.Errorf("skipped: %q", got)
	}
	git(t, dir, "add", "README.md")
	git(t, dir, "commit", "-q", "-m", "one")
	if got := skipped(os.Environ()); got[4] != "" {
		t.Errorf("skipped: %q", got)
	}
}

func TestFindTree(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for name, c := range map[string]struct {
		dir    string
		starts []string
		want   string
	}{
		"a folder without go.mod": {dir: empty, want: "there is no go.mod in " + empty},
		"nothing upward":          {starts: []string{empty, ""}, want: "there is no go.mod in or above " + empty},
	} {
		if _, err := demo.FindTree(c.dir, c.starts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	dir := tree(t)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("go 1.26\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := demo.FindTree(dir); err == nil || !strings.Contains(err.Error(), "names no module") {
		t.Errorf("a go.mod without module: %v", err)
	}
}
