package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// recoveredRun is what a recovery found about one run, or why it could not.
type recoveredRun struct {
	RunID string `json:"runId"`
	*protocol.Recovered
	Error *starter.Error `json:"error,omitempty"`
}

// unsettled tells whether there is something that could not be looked at.
func (r recoveredRun) unsettled() bool {
	return r.Error != nil || slices.ContainsFunc(r.Calls, func(c protocol.CallDrift) bool { return !settled(c) })
}

// settled tells whether what does the work of a call could be asked.
func settled(c protocol.CallDrift) bool {
	return c.Found != protocol.FoundNoAnswer && c.Outside != protocol.OutsideNoAnswer
}

func (a *app) runRecoverCommand() *cobra.Command {
	var r protocol.Recover
	all := false
	cmd := &cobra.Command{
		Use: "recover [RUN]", Short: "compare a run with how things stand, and take what it missed", Args: atMost(1),
		Long: `Asks the task of every open call how it stands, and through it the outside, and lets
the run take what it finds: a result that nobody told it of, a task that is gone. Prints
for each call what the run knew, what was found and what was done. Twice in a row
changes nothing. The exit code is 8 when something could not be looked at.`,
		Example: `  wakepoint run recover RUN --dry-run
  wakepoint run recover --all`,
	}
	cmd.Flags().BoolVar(&all, "all", false, "every open run of the tenant")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only say what is found, and ask nobody to do anything")
	cmd.Flags().StringVar(&r.By, "by", "", "who asks, for the history (default $USER)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case all && len(args) > 0:
			return usage("", "a run and --all exclude each other")
		case !all && len(args) == 0:
			return usage("usage: "+cmd.UseLine()+", or give --all", "argument RUN is missing")
		}
		r.By = a.person(r.By)
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			if all {
				return a.recoverAll(ctx, s, r)
			}
			out, err := s.runs.RecoverRun(ctx, args[0], r)
			if err != nil {
				return err
			}
			return a.printRecovered([]recoveredRun{{RunID: args[0], Recovered: &out}}, false)
		})(cmd, args)
	}
	return cmd
}

func (a *app) recoverAll(ctx context.Context, s *session, r protocol.Recover) error {
	runs := []recoveredRun{}
	err := s.runs.RecoverAll(ctx, r, func(runID string, out protocol.Recovered, err error) {
		one := recoveredRun{RunID: runID, Recovered: &out}
		if err != nil {
			e := &starter.Error{Code: starter.CodeInternal, Message: err.Error()}
			errors.As(err, &e)
			one.Recovered, one.Error = nil, e
		}
		runs = append(runs, one)
	})
	slices.SortFunc(runs, func(x, y recoveredRun) int { return strings.Compare(x.RunID, y.RunID) })
	if err != nil {
		return err
	}
	return a.printRecovered(runs, true)
}

func (a *app) printRecovered(runs []recoveredRun, all bool) error {
	changed, unsettled, calls := 0, 0, 0
	var rows [][]string
	for _, r := range runs {
		if r.unsettled() {
			unsettled++
			a.exit = ExitUnsettled
		}
		if r.Recovered == nil {
			rows = append(rows, []string{r.RunID, "", "", "", "", "", "", "not recovered: " + join("; ", r.Error.Message, r.Error.Hint)})
			continue
		}
		changed, calls = changed+r.Changed, calls+len(r.Calls)
		for _, c := range r.Calls {
			rows = append(rows, append([]string{r.RunID}, driftRow(c)...))
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"runs": runs, "changed": changed, "unsettled": unsettled})
	}
	header := []string{"RUN", "CALL", "TOOL", "TASK", "KNEW", "FOUND", "OUTSIDE", "DID"}
	if !all {
		header = header[1:]
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	if len(rows) > 0 {
		term.Table(a.out, header, rows)
	}
	if !all {
		r := runs[0]
		a.say("%s, %d changed; the run %s", term.Count(calls, "open call"), changed, starter.RunStanding(r.State))
		if r.Step != "" {
			a.say("step: %s", term.Clean(r.Step))
		}
	} else {
		a.say("%s, %s, %d changed", term.Count(len(runs), "open run"), term.Count(calls, "open call"), changed)
	}
	if unsettled > 0 {
		a.say("not everything could be looked at; try again")
	}
	return nil
}

func driftRow(c protocol.CallDrift) []string {
	id := c.ID
	if c.Step > 0 {
		id = fmt.Sprintf("%s (step %d)", c.ID, c.Step)
	}
	did := c.Did
	if did == "" {
		did = "nothing"
		if !settled(c) {
			did = "not known"
		}
	}
	outside := c.Outside
	if c.Note != c.Outside {
		outside = join(": ", c.Outside, c.Note)
	}
	return []string{id, c.Tool, join("", c.TaskID, prefixed("run ", c.SubRunID)), string(c.Knew), c.Found, outside, did}
}

func (a *app) runListCommand() *cobra.Command {
	var r starter.ListRunsRequest
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "list runs, open ones first, then those that ended last", Args: exactly(), Aliases: []string{"ls"},
		Long: `Lists runs: open ones first, then those that ended last, those that do the work of
other runs' calls included. The list comes from the engine's index, which lags behind
by moments; wakepoint run show is always right.`,
		RunE: needing([]string{"state", "runtime", "limit", "cursor"}, a.with(needs{}, func(ctx context.Context, s *session, _ []string) error {
			r.State = run.State(strings.ToUpper(strings.ReplaceAll(state, "-", "_")))
			return a.runList(ctx, s, r)
		})),
	}
	fl := cmd.Flags()
	fl.StringVar(&state, "state", "", "only runs in this state; of open ones the list knows WAITING_INPUT, any other means: not ended")
	fl.StringVar(&r.Runtime, "runtime", "", "only runs of this runtime")
	fl.IntVar(&r.PageSize, "limit", starter.DefaultPageSize, "runs on the page")
	fl.StringVar(&r.Cursor, "cursor", "", "the cursor that ended the page before")
	return cmd
}

func (a *app) runList(ctx context.Context, s *session, r starter.ListRunsRequest) error {
	page, err := s.runs.ListRuns(ctx, r)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(page)
	}
	if len(page.Runs) == 0 && page.Cursor == "" {
		a.say("no run")
		return nil
	}
	rows := make([][]string, 0, len(page.Runs))
	titled := false
	for _, l := range page.Runs {
		state, took := string(l.State), ""
		switch {
		case l.State == "" && l.Open:
			state = "open"
		case l.State == "" || !l.Open && !l.State.Terminal():
			state = "no record"
		}
		if l.ClosedAtMs > 0 {
			took = term.Duration(ms(l.ClosedAtMs - l.StartedAtMs))
		}
		titled = titled || l.Title != ""
		runtime := l.Runtime
		if runtime == "" {
			runtime = "(plan)"
		}
		rows = append(rows, []string{l.RunID, runtime, state, a.ago(l.StartedAtMs), took, l.Title})
	}
	header := []string{"RUN", "RUNTIME", "STATE", "STARTED", "TOOK", "TITLE"}
	if !titled {
		header = header[:len(header)-1]
	}
	term.Table(a.out, header, rows)
	if page.Cursor != "" {
		a.say("hint: there are more: --cursor %s", page.Cursor)
	}
	return nil
}
