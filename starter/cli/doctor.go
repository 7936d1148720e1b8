package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// The checks of doctor, in the order of causes: what comes later may follow from
// what comes before. docs/doctor.md tells of each; a test compares the two.
const (
	checkConfiguration = "configuration"
	checkData          = "data"
	checkDisk          = "disk"
	checkSecrets       = "secrets"
	checkTools         = "tools"
	checkBlobs         = "blobs"
	checkEngine        = "engine"
	checkNamespace     = "namespace"
	checkRetention     = "retention"
	checkAttributes    = "attributes"
	checkStandalone    = "standalone"
	checkClock         = "clock"
	checkQueues        = "queues"
	checkServices      = "services"
	checkTargets       = "targets"
)

// doctorChecks lists all of them.
func doctorChecks() []string {
	return []string{
		checkConfiguration, checkData, checkDisk, checkSecrets, checkTools, checkBlobs,
		checkEngine, checkNamespace, checkRetention, checkAttributes, checkStandalone, checkClock, checkQueues, checkServices, checkTargets,
	}
}

// The verdicts of a finding, the worst first.
const (
	findingProblem = "problem"
	findingWarning = "warning"
	findingOK      = "ok"
)

// finding is what doctor found out about one thing.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	// What is found, Do what there is to do about it.
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// examination is one run of doctor.
type examination struct {
	a *app
	// cfg is nil when the configuration cannot be read.
	cfg *config.Config
	// dataDir is where the data folder is, or would be.
	dataDir string
	// host is the name that a worker has here.
	host string

	findings []finding
	// unchecked are checks that make no sense after what was found.
	unchecked []unchecked
}

type unchecked struct {
	Check   string `json:"check"`
	Because string `json:"because"`
}

// doctorJSON is what `wakepoint doctor --json` prints.
type doctorJSON struct {
	OK        bool        `json:"ok"`
	Problems  int         `json:"problems"`
	Warnings  int         `json:"warnings"`
	Findings  []finding   `json:"findings"`
	Unchecked []unchecked `json:"unchecked"`
}

func (x *examination) ok(check, format string, args ...any) {
	x.findings = append(x.findings, finding{Check: check, Status: findingOK, What: fmt.Sprintf(format, args...)})
}

func (x *examination) warn(check, do, format string, args ...any) {
	x.findings = append(x.findings, finding{Check: check, Status: findingWarning, Do: do, What: fmt.Sprintf(format, args...)})
}

func (x *examination) problem(check, do, format string, args ...any) {
	x.findings = append(x.findings, finding{Check: check, Status: findingProblem, Do: do, What: fmt.Sprintf(format, args...)})
}

// skip says that checks were left out because of what another found.
func (x *examination) skip(because string, checks ...string) {
	for _, check := range checks {
		x.unchecked = append(x.unchecked, unchecked{check, because})
	}
}

// count is how many findings have the verdict.
func (x *examination) count(status string) int {
	n := 0
	for _, f := range x.findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

func (a *app) doctorCommand() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use: "doctor", Short: "find out why something does not work", Args: exactly(),
		Long: `Looks at everything that tasks need, from the configuration to the workers, and says
of each thing whether it is right and what to do if it is not. Problems come first,
and the first of them is the one to begin with: the others may follow from it.

It submits no task and changes nothing; a file in the data folder and one in the store
of results are written and removed again. Exit code 1 means that there is a problem.`,
		RunE: needing([]string{"host"}, func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), host) }),
	}
	a.engineFlags(cmd.Flags())
	cmd.Flags().StringVar(&host, "host", "", "name of this host, as given to wakepoint worker (default the host's name)")
	return cmd
}

func (a *app) doctor(ctx context.Context, host string) error {
	a.waits = true
	x := &examination{a: a, host: host}
	x.configuration(ctx)
	x.here(ctx)
	x.engine(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if x.count(findingProblem) > 0 {
		a.exit = ExitFailure
	}
	return x.report()
}

// report prints the findings, the worst first, those of one verdict in the order of
// causes.
func (x *examination) report() error {
	severity := []string{findingProblem, findingWarning, findingOK}
	causes := doctorChecks()
	slices.SortStableFunc(x.findings, func(a, b finding) int {
		if d := slices.Index(severity, a.Status) - slices.Index(severity, b.Status); d != 0 {
			return d
		}
		return slices.Index(causes, a.Check) - slices.Index(causes, b.Check)
	})
	problems, warnings := x.count(findingProblem), x.count(findingWarning)
	if x.a.json {
		return x.a.printJSON(doctorJSON{problems == 0, problems, warnings, x.findings, append([]unchecked{}, x.unchecked...)})
	}
	for _, f := range x.findings {
		x.print(f.Status, f.Check, f.What)
		if f.Do != "" {
			x.print("", "", "do: "+f.Do)
		}
	}
	for i, u := range x.unchecked {
		if i > 0 && x.unchecked[i-1].Because == u.Because {
			continue
		}
		var left []string
		for _, same := range x.unchecked {
			if same.Because == u.Because {
				left = append(left, same.Check)
			}
		}
		x.print("-", "", "not looked at, because "+u.Because+": "+strings.Join(left, ", "))
	}
	switch {
	case problems > 0:
		x.a.say("%s and %s; begin with the first", term.Count(problems, "problem"), term.Count(warnings, "warning"))
	case warnings > 0:
		x.a.say("%s, no problem", term.Count(warnings, "warning"))
	default:
		x.a.say("all is well")
	}
	return nil
}

// print writes a finding in three columns, the last one as long as it is.
func (x *examination) print(status, check, text string) {
	const statusWidth, checkWidth = len(findingProblem), len(checkConfiguration)
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			status, check = "", ""
		}
		fmt.Fprintln(x.a.out, term.Pad(status, statusWidth)+"  "+term.Pad(check, checkWidth)+"  "+term.Clean(line))
	}
}
