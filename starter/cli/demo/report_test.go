package demo_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/starter/cli/demo"
)

var update = flag.Bool("update", false, "write the golden files anew")

func outcomes(t *testing.T, unit time.Duration) []demo.Outcome {
	t.Helper()
	result := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sec := unit.Seconds()
	return []demo.Outcome{
		{
			Step: demo.Step{Tool: demo.ToolVet, Title: "go vet"}, State: "succeeded", Took: 12 * unit,
			Result: result(demo.VetResult{Packages: 40, Left: 2, Findings: []string{"a.go:1:2: `x` is | wrong"}, More: 3}),
		},
		{
			Step: demo.Step{Tool: demo.ToolTest, Title: "go test"}, State: "succeeded", Took: 100 * unit,
			Result: result(demo.TestResult{
				Packages: []demo.PackageTests{{Package: "domain", Passed: 12, Seconds: 3 * sec}, {Package: "b", Broken: true, Seconds: sec}},
				Failures: []string{"b.TestX"},
			}),
		},
		{Step: demo.Step{Tool: demo.ToolFormat, Title: "gofmt"}, State: "failed", Took: unit, Error: "WORKER_LOST: <b>the worker\nis gone"},
		{
			Step: demo.Step{Tool: demo.ToolCount, Title: "count"}, State: "succeeded", Took: unit,
			Result: result(demo.CountResult{
				Files: 1, Lines: 1, Languages: []demo.Count{{Name: "Go", Files: 1, Lines: 1}}, Packages: make([]demo.PackageCount, 17),
			}),
		},
		{Step: demo.Step{Tool: demo.ToolHistory, Title: "history", Skip: "git is not installed"}},
		{
			Step: demo.Step{Tool: demo.ToolHistory, Title: "history"}, State: "succeeded", Took: unit / 3,
			Result: result(demo.HistoryResult{
				Commits: 3000, Left: 7, First: "2026-01-02", Last: "2026-02-03", Authors: []demo.Share{{Name: "Ada | Eve", Commits: 3}},
				Files: []demo.Share{{Name: "a.go", Commits: 3}}, Added: 1, Removed: 2,
			}),
		},
	}
}

func report(t *testing.T, unit time.Duration) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := demo.Report(&b, demo.Tree{Dir: "/src", Module: "example.com/m"}, outcomes(t, unit)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReport(t *testing.T) {
	t.Parallel()
	got := report(t, time.Second)
	path := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("the report differs from %s (-want +got):\n%s", path, d)
	}
}

func TestReportsDifferInDurationsOnly(t *testing.T) {
	t.Parallel()
	first, second := report(t, time.Second), report(t, 1234*time.Millisecond)
	if bytes.Equal(first, second) {
		t.Fatal("the reports have no durations, so this test shows nothing")
	}
	if d := cmp.Diff(string(demo.Mask(first)), string(demo.Mask(second))); d != "" {
		t.Errorf("the masked reports differ:\n%s", d)
	}
	if bytes.Contains(demo.Mask(first), []byte("12.0s")) {
		t.Error("a duration was left")
	}
}

func TestReportRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, o := range []demo.Outcome{
		{Step: demo.Step{Tool: demo.ToolVet}, Result: []byte("[1]")},
		{Step: demo.Step{Tool: "other"}, Result: []byte("{}")},
	} {
		err := demo.Report(&bytes.Buffer{}, demo.Tree{}, []demo.Outcome{o})
		if err == nil || !strings.Contains(err.Error(), "the result of "+o.Tool) {
			t.Errorf("%s: %v", o.Tool, err)
		}
	}
}
