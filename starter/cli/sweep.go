package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) sweepCommand() *cobra.Command {
	var r starter.SweepRequest
	var wait duration
	cmd := &cobra.Command{
		Use: "sweep", Short: "delete results and logs that have outlived their task, now", Args: exactly(),
		Long: `Deletes the stored results of the tenant, and what hosts keep of its jobs, whose task
is gone or has ended longer ago than its results live. Workers do so by themselves, by
a schedule in Temporal; sweep.every of the configuration says how often. The exit code
is 8 when something could not be looked at.`,
		Example: `  wakepoint sweep --dry-run
  wakepoint sweep --host build-7`,
	}
	a.engineFlags(cmd.Flags())
	fl := cmd.Flags()
	fl.BoolVar(&r.DryRun, "dry-run", false, "delete nothing, say what would be deleted")
	fl.StringArrayVar(&r.Hosts, "host", nil, "a host that is swept beside those with workers (may be repeated)")
	fl.Var(&wait, "for", "how long to wait for the end (default 10m); it goes on after that")
	cmd.RunE = needing([]string{"host", "for"}, a.with(needs{}, func(ctx context.Context, s *session, _ []string) error {
		r.Wait = wait.Duration
		return a.sweep(ctx, s, r)
	}))
	return cmd
}

func (a *app) sweep(ctx context.Context, s *session, r starter.SweepRequest) error {
	all, err := s.tasks.Sweep(ctx, r)
	if err != nil {
		return err
	}
	for _, sw := range all {
		if sw.Error != nil || sw.Report.Failed > 0 {
			a.exit = ExitUnsettled
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"sweeps": all, "dryRun": r.DryRun})
	}
	deleted := "DELETED"
	if r.DryRun {
		deleted = "TO DELETE"
	}
	rows := make([][]string, 0, len(all))
	for _, sw := range all {
		rows = append(rows, sweptRow(sw))
	}
	term.Table(a.out, []string{"SWEPT", "LOOKED AT", deleted, "TASK GONE", "LIFETIME OVER", "SIZE", "FAILED"}, rows)
	for _, sw := range all {
		switch {
		case sw.Error != nil:
			a.say("%s: %s", sweptWhat(sw), term.Clean(join("; ", sw.Error.Message, sw.Error.Hint)))
		case sw.Report.Failed > 0:
			a.say("%s: %s failed and stay until the next sweep; the last: %s", sweptWhat(sw), fmt.Sprint(sw.Report.Failed), term.Clean(sw.Report.LastError))
		}
	}
	return nil
}

func sweptWhat(s starter.Swept) string {
	if s.Host == "" {
		return "results"
	}
	return "jobs on " + s.Host
}

func sweptRow(s starter.Swept) []string {
	r := s.Report
	if s.Error != nil {
		return []string{sweptWhat(s), "", "", "", "", "", string(s.Error.Code)}
	}
	size := ""
	if s.Host == "" {
		size = term.Bytes(r.Bytes)
	}
	n := func(i int) string { return fmt.Sprint(i) }
	return []string{sweptWhat(s), n(r.Looked), n(r.Gone + r.Outlived), n(r.Gone), n(r.Outlived), size, n(r.Failed)}
}
