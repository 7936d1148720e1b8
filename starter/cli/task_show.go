package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) showCommand() *cobra.Command {
	history := false
	cmd := &cobra.Command{
		Use: "show TASK", Short: "show how a task stands, on one screen", Args: exactly("TASK"),
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			d, err := s.tasks.Describe(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				if !history {
					d = viewOf(d)
				}
				return a.printJSON(d)
			}
			term.Fields(a.out, a.fields(s, d))
			if !history {
				return nil
			}
			fmt.Fprintln(a.out)
			for _, h := range d.Task.History {
				fmt.Fprintln(a.out, a.eventLine("", h))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&history, "history", false, "also the events of the task, the newest 64")
	return cmd
}
