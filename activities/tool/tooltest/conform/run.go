package conform

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Check is one rule that the suite holds an executor to.
type Check struct {
	// Name is that of the sub-test.
	Name string
	// Rule says what has to hold, in a sentence.
	Rule string
	// Source is where the rule comes from.
	Source string
}

// check is a Check with what it does.
type check struct {
	Check
	// unless says why the check does not apply, nothing when it does.
	unless func(s Subject, p tool.Promises) string
	run    func(c *bench)
}

// The sources of the rules.
const (
	contract  = "CONTRACT section 6; tool.Executor"
	promises  = "CONTRACT section 6; tool.Promises"
	states    = "tool.State, tool.Observation"
	ambiguity = "CONTRACT section 6 (ambiguous and definite); tool.NotStartedError"
)

// all are the checks in the order in which they run.
func all() []check {
	var cs []check
	for _, group := range [][]check{promiseChecks, submitChecks, handleChecks, observeChecks, findChecks, cancelChecks, lossChecks, errorChecks, listChecks} {
		cs = append(cs, group...)
	}
	return cs
}

// Checks lists the checks in the order in which they run.
func Checks() []Check {
	var list []Check
	for _, c := range all() {
		list = append(list, c.Check)
	}
	return list
}

// Run holds a subject to every check that applies to it, each in a sub-test of its own, and logs
// the table of all checks.
func Run(t *testing.T, s Subject) {
	t.Helper()
	On(test{t}, s)
}

// On is [Run] for any kind of test.
func On(t T, s Subject) {
	t.Helper()
	if err := s.validate(); err != nil {
		t.Fatalf("%v", err)
	}
	s = s.withDefaults()
	ex := s.New(t)
	if ex == nil {
		t.Fatalf("subject: new gave no executor")
	}
	p := tool.PromisesOf(ex)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, c := range all() {
		if why := c.skipped(s, p); why != "" {
			fmt.Fprintf(w, "%s\tdoes not apply: %s\n", c.Name, why)
			continue
		}
		outcome := "holds"
		if !t.Run(c.Name, func(t T) {
			b := &bench{T: t, s: s, p: p, check: c.Check, ex: s.New(t)}
			defer b.tidy()
			c.run(b)
		}) {
			outcome = "BROKEN: " + c.Rule
		}
		fmt.Fprintf(w, "%s\t%s\n", c.Name, outcome)
	}
	_ = w.Flush() // into memory
	t.Logf("%T promises %+v; the checks:\n%s", ex, p, table.String())
}

func (c check) skipped(s Subject, p tool.Promises) string {
	if c.unless == nil {
		return ""
	}
	return c.unless(s, p)
}

// test is a *testing.T as a [T].
type test struct{ *testing.T }

// Run runs a sub-test.
func (t test) Run(name string, f func(T)) bool {
	return t.T.Run(name, func(t *testing.T) { f(test{t}) })
}

// The reasons for which a check does not apply.

func needsLook(_ Subject, p tool.Promises) string {
	if !p.Observe {
		return "it does not promise to observe; only a callback tells how a job ends"
	}
	return ""
}

func needsLock(_ Subject, p tool.Promises) string {
	if p.SubmitOnce == tool.ScopeNone {
		return "it does not promise that a second submit starts nothing; its caller asks find first, or a person"
	}
	return ""
}

func needsFind(_ Subject, p tool.Promises) string {
	if p.Find == tool.FindNone {
		return "it does not promise to find; its caller treats a lost answer as a job that may run"
	}
	return ""
}

func needsCancel(_ Subject, p tool.Promises) string {
	if p.Cancel == tool.CancelNone {
		return "it does not promise to cancel"
	}
	return ""
}

func needsRestart(s Subject, _ tool.Promises) string { return s.NoRestart }

func needsHook(name string, has func(s Subject) bool) func(Subject, tool.Promises) string {
	return func(s Subject, _ tool.Promises) string {
		if !has(s) {
			return "its outside cannot be made to (Subject." + name + " is not given)"
		}
		return ""
	}
}

// either gives the first reason of several.
func either(unless ...func(Subject, tool.Promises) string) func(Subject, tool.Promises) string {
	return func(s Subject, p tool.Promises) string {
		for _, f := range unless {
			if why := f(s, p); why != "" {
				return why
			}
		}
		return ""
	}
}
