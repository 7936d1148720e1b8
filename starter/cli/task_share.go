package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (a *app) attachCommand() *cobra.Command {
	var w domain.Waiter
	cmd := &cobra.Command{
		Use: "attach TASK [TARGET]", Short: "have a declared target, or one more who waits, told of the end of a task", Args: between("TASK", "TARGET"),
		Long: `Adds a declared target, or with --waiter somebody to those who wait for a task, or
both. When the task has ended they are told at once.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&w.ID, "waiter", "", "name of who waits")
	fl.StringVar(&w.RunID, "run", "", "run of that waiter, which is told of the end")
	fl.StringVar(&w.ToolCallID, "tool-call", "", "that run's id for its call")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "waiter", "run", "tool-call"); err != nil {
			return err
		}
		var m protocol.Attach
		if len(args) > 1 {
			m.Target = args[1]
		}
		switch {
		case w.ID != "":
			m.Waiter = &w
		case w.RunID != "" || w.ToolCallID != "":
			return usage("name the waiter: --waiter NAME", "--run and --tool-call need --waiter")
		case m.Target == "":
			return usage("usage: "+cmd.UseLine(), "give a target, or --waiter")
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			out, err := s.tasks.Attach(ctx, args[0], m)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			if out.Task != nil {
				a.say("the task %s already; that was told at once", starter.Standing(out.Task.State))
				return nil
			}
			return a.printOutcome(args[0], out.Outcome, "attached")
		})(cmd, args)
	}
	return cmd
}

func (a *app) detachCommand() *cobra.Command {
	var d protocol.Detach
	cmd := &cobra.Command{
		Use: "detach TASK WAITER", Short: "take one off those who wait for a task", Args: exactly("TASK", "WAITER"),
		Long: `Takes one off those who wait for a task; wakepoint task show lists them. The work
goes on, also when nobody is left: to stop it, cancel it.`,
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			d.WaiterID, d.By = args[1], a.person(d.By)
			o, err := s.tasks.Detach(ctx, args[0], d)
			if err != nil {
				return err
			}
			return a.printOutcome(args[0], o, "detached")
		}),
	}
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why, for the history")
	cmd.Flags().StringVar(&d.By, "by", "", "who asks, for the history (default $USER)")
	return cmd
}
