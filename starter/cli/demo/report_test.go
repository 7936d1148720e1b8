package demo_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/starter/cli/demo"
)

var update = flag.Bool("update", false, "write the golden files anew")

// input is what the report is told; every duration is a multiple of the unit.
func input(t *testing.T, unit time.Duration) demo.ReportInput {
	t.Helper()
	sec := unit.Seconds()
	result := func(v any, took float64) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		// As a tool writes it.
		return fmt.Appendf(nil, `{"seconds":%g,%s`, took*sec, b[1:])
	}
	return demo.ReportInput{Module: "example.com/m", Steps: []demo.ReportStep{
		{
			Tool: demo.ToolVet, Title: "go vet",
			Result: result(demo.VetResult{Packages: 40, Left: 2, Findings: []string{"a.go:1:2: `x` is | wrong"}, More: 3}, 12),
		},
		{
			Tool: demo.ToolTest, Title: "go test",
			Result: result(demo.TestResult{
				Packages: []demo.PackageTests{{Package: "domain", Passed: 12, Seconds: 3 * sec}, {Package: "b", Broken: true, Seconds: sec}},
				Failures: []string{"b.TestX"},
			}, 100),
		},
		{Tool: demo.ToolFormat, Title: "gofmt", Result: json.RawMessage("null")},
		{
			Tool: demo.ToolCount, Title: "count",
			Result: result(demo.CountResult{
				Files: 1, Lines: 1, Languages: []demo.Count{{Name: "Go", Files: 1, Lines: 1}}, Packages: make([]demo.PackageCount, 17),
			}, 1),
		},
		{Tool: demo.ToolHistory, Title: "history", Skip: "git is not <b>installed"},
		{
			Tool: demo.ToolHistory, Title: "history",
			Result: result(demo.HistoryResult{
				Commits: 3000, Left: 7, First: "2026-01-02", Last: "2026-02-03", Authors: []demo.Share{{Name: "Ada | Eve", Commits: 3}},
				Files: []demo.Share{{Name: "a.go", Commits: 3}}, Added: 1, Removed: 2,
			}, 1.0/3),
		},
	}}
}

func report(t *testing.T, unit time.Duration) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := demo.Report(&b, input(t, unit)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestReportIsATool runs it as the executor does.
func TestReportIsATool(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(input(t, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "result")
	var stdout, stderr bytes.Buffer
	if code := demo.RunTool(t.Context(), []string{demo.ToolReport}, bytes.NewReader(b), &stdout, &stderr, []string{"WAKEPOINT_RESULT=" + path}); code != 0 {
		t.Fatalf("it ended with %d: %s", code, &stderr)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(report(t, time.Second)), string(got)); d != "" {
		t.Errorf("the result differs (-want +got):\n%s", d)
	}
	if stdout.String() != "::wakepoint progress=0 stage=\"writing\"\n::wakepoint progress=100 stage=\"done\"\n" {
		t.Errorf("it said %q", &stdout)
	}
	if code := demo.RunTool(t.Context(), []string{demo.ToolReport}, strings.NewReader("{"), &stdout, &stderr, nil); code != 1 {
		t.Errorf("without its input it ended with %d", code)
	}
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
	for _, o := range []demo.ReportStep{
		{Tool: demo.ToolVet, Result: []byte("[1]")},
		{Tool: "other", Result: []byte("{}")},
	} {
		err := demo.Report(&bytes.Buffer{}, demo.ReportInput{Steps: []demo.ReportStep{o}})
		if err == nil || !strings.Contains(err.Error(), "the result of "+o.Tool) {
			t.Errorf("%s: %v", o.Tool, err)
		}
	}
}
