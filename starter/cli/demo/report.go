package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// DurationPattern finds every duration in a report. With all of them replaced by
// the same text, two reports on the same tree are the same, byte by byte.
const DurationPattern = `\b\d+(\.\d+)?(ms|s|m)\b`

var durations = regexp.MustCompile(DurationPattern)

// Mask replaces every duration of a report.
func Mask(report []byte) []byte { return durations.ReplaceAll(report, []byte("DURATION")) }

// ReportInput is what the tool report is told.
type ReportInput struct {
	// Module is the path of the tree's module.
	Module string       `json:"module"`
	Steps  []ReportStep `json:"steps"`
}

// ReportStep is a step, and what came of it.
type ReportStep struct {
	Tool  string `json:"tool"`
	Title string `json:"title"`
	// Skip says why it was left out, if it was.
	Skip string `json:"skip,omitempty"`
	// Result is what the tool wrote; null, or nothing, if it did not succeed.
	Result json.RawMessage `json:"result,omitempty"`
}

func (s ReportStep) succeeded() bool { return len(s.Result) > 0 && string(s.Result) != "null" }

// took is how long the tool says that it worked.
func (s ReportStep) took() (time.Duration, error) {
	var r struct {
		Seconds float64 `json:"seconds"`
	}
	err := json.Unmarshal(s.Result, &r)
	return time.Duration(r.Seconds * float64(time.Second)), err
}

// runReport is the tool report.
func runReport(stdin io.Reader, stdout io.Writer, env []string) error {
	j := &job{out: stdout, env: env}
	var in ReportInput
	if err := json.NewDecoder(stdin).Decode(&in); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	j.report(0, 1, "writing")
	var b bytes.Buffer
	if err := Report(&b, in); err != nil {
		return err
	}
	j.report(1, 1, "done")
	return writeResult(b.Bytes(), stdout, env)
}

// Report writes what was found, as Markdown. It holds nothing that differs
// between two runs on the same tree but durations: no ids, no times of day, no
// addresses, nothing of how often something was tried.
func Report(w io.Writer, in ReportInput) error {
	p := &page{}
	p.line("# wakepoint demo")
	p.line("")
	p.line("What the tools of a durable run found in the source tree of module %s. Durations differ from run to run; the rest follows from the tree.", code(in.Module))
	p.line("")
	p.row("call", "what it does", "outcome", "took")
	p.row("---", "---", "---", "---:")
	for _, s := range in.Steps {
		switch {
		case s.Skip != "":
			p.row(s.Tool, s.Title, "skipped: "+s.Skip, "")
		case !s.succeeded():
			p.row(s.Tool, s.Title, "did not succeed", "")
		default:
			took, err := s.took()
			if err != nil {
				return fmt.Errorf("the result of %s: %w", s.Tool, err)
			}
			p.row(s.Tool, s.Title, "succeeded", term.Seconds(took))
		}
	}
	for _, s := range in.Steps {
		p.line("")
		p.line("## %s", s.Tool)
		p.line("")
		switch {
		case s.Skip != "":
			p.line("Skipped: %s.", text(s.Skip))
		case !s.succeeded():
			p.line("It did not succeed; why stands in the run.")
		default:
			if err := p.section(s); err != nil {
				return fmt.Errorf("the result of %s: %w", s.Tool, err)
			}
		}
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// page is the Markdown as it grows.
type page struct{ b strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// row writes a row of a table. The columns are not padded: their width would
// follow the durations.
func (p *page) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(term.Clean(c), "|", `\|`)
	}
	p.line("| %s |", strings.Join(cells, " | "))
}

// text is a line of somebody else's words.
func text(s string) string {
	return strings.NewReplacer("<", "&lt;", "`", "'").Replace(term.Clean(s))
}

// code is a name in the type of code.
func code(s string) string { return "`" + strings.ReplaceAll(term.Clean(s), "`", "'") + "`" }

func (p *page) section(o ReportStep) error {
	switch o.Tool {
	case ToolVet:
		return section(o, p.vet)
	case ToolTest:
		return section(o, p.test)
	case ToolFormat:
		return section(o, p.format)
	case ToolCount:
		return section(o, p.count)
	case ToolHistory:
		return section(o, p.history)
	}
	return fmt.Errorf("there is no tool %q", o.Tool)
}

func section[R any](o ReportStep, write func(R)) error {
	var r R
	if err := json.Unmarshal(o.Result, &r); err != nil {
		return err
	}
	write(r)
	return nil
}

// list writes names, and how many were left out.
func (p *page) list(names []string, more int) {
	if len(names) == 0 {
		return
	}
	p.line("")
	for _, n := range names {
		p.line("- %s", code(n))
	}
	if more > 0 {
		p.line("- and %d more", more)
	}
}

func (p *page) vet(r VetResult) {
	left := ""
	if r.Left > 0 {
		left = fmt.Sprintf(" (the first of %d)", r.Packages+r.Left)
	}
	p.line("%s looked at%s, %s.", term.Count(r.Packages, "package"), left, findings(len(r.Findings)+r.More))
	p.list(r.Findings, r.More)
}

func findings(n int) string {
	if n == 0 {
		return "nothing found"
	}
	return term.Count(n, "finding")
}

func (p *page) format(r FormatResult) {
	p.line("%s looked at, %d not as gofmt writes them.", term.Count(r.Files, "Go file"), len(r.Unformatted)+r.More)
	p.list(r.Unformatted, r.More)
}

func (p *page) test(r TestResult) {
	if len(r.Packages) == 0 {
		p.line("No package has tests that touch nothing.")
		return
	}
	p.row("package", "passed", "failed", "skipped", "took")
	p.row("---", "---:", "---:", "---:", "---:")
	for _, t := range r.Packages {
		name := code(t.Package)
		if t.Broken {
			name += " (did not run to its end)"
		}
		took := time.Duration(t.Seconds * float64(time.Second))
		p.row(name, fmt.Sprint(t.Passed), fmt.Sprint(t.Failed), fmt.Sprint(t.Skipped), term.Seconds(took))
	}
	p.list(r.Failures, r.More)
}

// maxRows bounds the tables of a report.
const maxRows = 15

func (p *page) count(r CountResult) {
	p.line("%s, %s not blank.", term.Count(r.Files, "file"), term.Count(r.Lines, "line"))
	p.line("")
	p.row("language", "files", "lines")
	p.row("---", "---:", "---:")
	for _, l := range r.Languages {
		p.row(l.Name, fmt.Sprint(l.Files), fmt.Sprint(l.Lines))
	}
	if len(r.Packages) == 0 {
		return
	}
	p.line("")
	p.row("Go package", "files", "lines", "of them tests")
	p.row("---", "---:", "---:", "---:")
	for _, c := range r.Packages[:min(len(r.Packages), maxRows)] {
		p.row(code(c.Dir), fmt.Sprint(c.Files), fmt.Sprint(c.Lines), fmt.Sprint(c.Tests))
	}
	if rest := len(r.Packages) - maxRows; rest > 0 {
		p.row(fmt.Sprintf("and %d more", rest), "", "", "")
	}
}

func (p *page) history(r HistoryResult) {
	p.line("%s from %s to %s, %s added and %d removed.", term.Count(r.Commits, "commit"), r.First, r.Last, term.Count(r.Added, "line"), r.Removed)
	switch {
	case r.Shallow:
		p.line("The clone is shallow: older commits are not there.")
	case r.Left > 0:
		p.line("%s older ones were not looked at.", fmt.Sprint(r.Left))
	}
	for _, t := range []struct {
		name   string
		shares []Share
	}{{"author", r.Authors}, {"file", r.Files}} {
		p.line("")
		p.row(t.name, "commits")
		p.row("---", "---:")
		for _, s := range t.shares {
			p.row(code(s.Name), fmt.Sprint(s.Commits))
		}
	}
}
