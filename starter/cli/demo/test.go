package demo

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// TestResult is what the tests of some packages came to.
type TestResult struct {
	// Packages are those that were tested, sorted.
	Packages []PackageTests `json:"packages"`
	// Failures name failed tests as package.Test, sorted, at most 20; More counts
	// the others.
	Failures []string `json:"failures"`
	More     int      `json:"more,omitempty"`
}

// PackageTests counts the tests of one package, without their sub-tests.
type PackageTests struct {
	Package string `json:"package"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	// Broken says that the package ended before its tests did, or was not built.
	Broken bool `json:"broken,omitempty"`
	// Seconds is how long they took.
	Seconds float64 `json:"seconds"`
}

// testEvent is one line of `go test -json`.
type testEvent struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
}

// testTimeout ends tests that hang.
const testTimeout = "180s"

// test lists the tests of a few packages, then runs them and follows their
// events: each test that ends is progress.
func test(ctx context.Context, j *job) (any, error) {
	j.report(0, 1, "listing packages")
	all, err := j.packages(ctx)
	if err != nil {
		return nil, err
	}
	chosen := testable(all)
	if len(chosen) == 0 {
		return TestResult{Packages: []PackageTests{}, Failures: []string{}}, nil
	}
	paths := make([]string, 0, len(chosen))
	for _, p := range chosen {
		paths = append(paths, p.ImportPath)
	}
	module := chosen[0].Module.Path
	total, err := j.countTests(ctx, paths, module)
	if err != nil {
		return nil, err
	}
	t := &tally{job: j, module: module, total: total, ended: len(paths), of: map[string]*PackageTests{}}
	args := append([]string{"test", "-json", "-count=1", "-short", "-vet=off", "-timeout", testTimeout}, paths...)
	err = j.lines(ctx, t.line, "go", args...)
	// A failed test is a result; no word of any package is a failure.
	if err != nil && len(t.of) == 0 {
		return nil, err
	}
	j.report(1, 1, "done")
	return t.result(), nil
}

// countTests lists the tests, which also builds them.
func (j *job) countTests(ctx context.Context, paths []string, module string) (int, error) {
	n := 0
	for i, p := range paths {
		j.report(i, 10*len(paths), "building the tests of "+shortPath(p, module))
		// A package that does not build shows so again when it is tested.
		err := j.lines(ctx, func(line []byte) {
			for _, kind := range []string{"Test", "Fuzz", "Example"} {
				if strings.HasPrefix(string(line), kind) {
					n++
				}
			}
		}, "go", "test", "-vet=off", "-list", "^(Test|Fuzz|Example)", p)
		if ctx.Err() != nil {
			return 0, err
		}
	}
	return n, nil
}

// tally counts the events of a run.
type tally struct {
	job    *job
	module string
	// total tests and ended packages make up the whole work; the first tenth of
	// the progress is the building.
	total, ended, done int
	of                 map[string]*PackageTests
	failures           []string
}

func (t *tally) line(line []byte) {
	var e testEvent
	if json.Unmarshal(line, &e) != nil || e.Package == "" || strings.Contains(e.Test, "/") {
		return
	}
	short := shortPath(e.Package, t.module)
	p := t.of[e.Package]
	if p == nil {
		p = &PackageTests{Package: short}
		t.of[e.Package] = p
	}
	switch {
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		return
	case e.Test == "":
		p.Seconds = e.Elapsed
		p.Broken = e.Action == "fail" && p.Failed == 0
	case e.Action == "pass":
		p.Passed++
	case e.Action == "skip":
		p.Skipped++
	default:
		p.Failed++
		t.failures = append(t.failures, short+"."+e.Test)
	}
	t.done++
	work := max(t.total+t.ended, t.done)
	t.job.report(work+9*t.done, 10*work, strings.TrimSpace(short+" "+e.Test))
}

func (t *tally) result() TestResult {
	r := TestResult{Packages: []PackageTests{}}
	for _, p := range t.of {
		r.Packages = append(r.Packages, *p)
	}
	slices.SortFunc(r.Packages, func(a, b PackageTests) int { return strings.Compare(a.Package, b.Package) })
	r.Failures, r.More = bounded(t.failures, maxFindings)
	return r
}
