package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// reconcileFlags are those of reconcile.
type reconcileFlags struct {
	all, orphans bool
	r            starter.ReconcileRequest
	o            starter.OrphansRequest
}

func (a *app) reconcileCommand() *cobra.Command {
	var f reconcileFlags
	cmd := &cobra.Command{
		Use: "reconcile [TASK...]", Short: "compare open tasks with the outside, and find jobs that nobody waits for", Args: cobra.ArbitraryArgs,
		Long: `Asks the outside of every open task at once how its work stands, and takes what it
says: a result that nobody called back for, a job that is gone. Twice in a row
changes nothing. The exit code is 8 when something could not be reconciled.

With --orphans it goes the other way: lists the jobs that the outside knows, of
executors that can list, and shows those whose task is unknown, has ended, or works
under another submission key. --cancel asks each of them to stop.`,
		Example: `  wakepoint reconcile --all
  wakepoint reconcile --tool train
  wakepoint reconcile --orphans --cancel`,
	}
	a.engineFlags(cmd.Flags())
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "every open task of the tenant")
	fl.StringVar(&f.r.Run, "run", "", "open tasks of this run")
	fl.StringVar(&f.r.Tool, "tool", "", "open tasks of this tool; with --orphans its jobs")
	fl.StringVar(&f.r.By, "by", "", "who asks, for the history (default $USER)")
	fl.BoolVar(&f.orphans, "orphans", false, "look for outside jobs that nobody waits for")
	fl.BoolVar(&f.o.Cancel, "cancel", false, "with --orphans: ask each of them to stop")
	fl.StringVar(&f.o.Reason, "reason", "", "with --orphans --cancel: why, for the other side")
	fl.StringArrayVar(&f.o.Hosts, "host", nil, "with --orphans: a host whose jobs are listed too (may be repeated)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "run", "tool", "host", "reason"); err != nil {
			return err
		}
		f.r.Tasks, f.r.By, f.o.Tool = args, a.person(f.r.By), f.r.Tool
		if err := f.check(cmd, args); err != nil {
			return err
		}
		return a.with(needs{}, func(ctx context.Context, s *session, _ []string) error {
			if f.orphans {
				return a.orphans(ctx, s, f.o)
			}
			return a.reconcile(ctx, s, f.r)
		})(cmd, args)
	}
	return cmd
}

func (f *reconcileFlags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	narrowed := f.r.Run != "" || f.r.Tool != ""
	switch {
	case f.orphans && (len(args) > 0 || f.r.Run != "" || f.all):
		return usage("narrow it down with --tool", "--orphans goes with neither tasks nor --run nor --all")
	case f.orphans:
		return nil
	case given("cancel") || given("host") || given("reason"):
		return usage("", "--cancel, --host and --reason go with --orphans")
	case len(args) > 0 && (narrowed || f.all):
		return usage("", "tasks go with neither --run nor --tool nor --all")
	case f.all && narrowed:
		return usage("", "--all goes with neither --run nor --tool")
	case len(args) == 0 && !narrowed && !f.all:
		return usage("name tasks, or give --run, --tool or --all", "nothing to reconcile is named")
	}
	return nil
}

func (a *app) reconcile(ctx context.Context, s *session, r starter.ReconcileRequest) error {
	tasks, err := s.tasks.ReconcileAll(ctx, r)
	if err != nil {
		return err
	}
	changed, unsettled := 0, 0
	rows := make([][]string, 0, len(tasks))
	for _, t := range tasks {
		rows = append(rows, reconciledRow(t))
		if t.Reconciled != nil && t.Did != "" {
			changed++
		}
		if !t.Settled() {
			unsettled++
		}
	}
	if unsettled > 0 {
		a.exit = ExitUnsettled
	}
	if a.json {
		if tasks == nil {
			tasks = []starter.ReconciledTask{}
		}
		return a.printJSON(map[string]any{"tasks": tasks, "changed": changed, "unsettled": unsettled})
	}
	if len(tasks) == 0 {
		a.say("no open task")
		return nil
	}
	term.Table(a.out, []string{"TASK", "TOOL", "WE THINK", "THE OUTSIDE SAYS", "DONE"}, rows)
	text := term.Count(len(tasks), "task") + fmt.Sprintf(", %d changed", changed)
	if unsettled > 0 {
		text += fmt.Sprintf(", %d could not be reconciled; try these again", unsettled)
	}
	a.say("%s", text)
	return nil
}

func reconciledRow(t starter.ReconciledTask) []string {
	if t.Reconciled == nil {
		return []string{t.TaskID, t.Tool, "", "", "not reconciled: " + join("; ", t.Error.Message, t.Error.Hint)}
	}
	done := "nothing"
	switch {
	case t.Did != "" && t.After.Phase != t.Before.Phase:
		done = string(t.Did) + ", now " + string(t.After.Phase)
	case t.Did != "":
		done = string(t.Did)
	case !t.Settled():
		done = "not reconciled"
	}
	says := t.Outside
	if t.Note != t.Outside {
		says = join(": ", t.Outside, t.Note)
	}
	return []string{t.TaskID, t.Tool, string(t.Before.Phase), says, done}
}

func (a *app) orphans(ctx context.Context, s *session, r starter.OrphansRequest) error {
	out, err := s.tasks.Orphans(ctx, r)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(out.Orphans))
	unsettled := len(out.Unlisted) > 0
	for _, o := range out.Orphans {
		done := ""
		switch {
		case o.Error != nil:
			done, unsettled = "not stopped: "+o.Error.Message, true
		case o.Cancelled:
			done = "asked to stop"
		}
		rows = append(rows, []string{o.SubmissionKey, o.Tool, o.State, a.ago(o.StartedAtMs), o.Why, o.Handle.ID, done})
	}
	if unsettled {
		a.exit = ExitUnsettled
	}
	if a.json {
		return a.printJSON(out)
	}
	if len(rows) > 0 {
		term.Table(a.out, []string{"JOB", "TOOL", "STATE", "STARTED", "WHY", "OUTSIDE ID", "DONE"}, rows)
	}
	a.say("%s nobody waits for, of %d that run", term.Count(len(rows), "job"), out.Looked)
	for _, name := range out.CannotList {
		a.say("note: the jobs of %s cannot be listed", name)
	}
	for _, u := range out.Unlisted {
		a.say("not known: %s", term.Clean(join("; ", u.Error.Message, u.Error.Hint)))
	}
	if len(rows) > 0 && !r.Cancel {
		a.say("hint: look at them, then stop them: wakepoint reconcile --orphans --cancel")
	}
	return nil
}
