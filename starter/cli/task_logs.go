package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) logsCommand() *cobra.Command {
	var r starter.LogRequest
	cmd := &cobra.Command{
		Use: "logs TASK", Short: "write what the tool of a task has written", Args: exactly("TASK"),
		Long: `Writes the log of the current attempt, or of the last one. It is read on the host
that runs the tool, while it runs or afterwards.`,
		RunE: needing([]string{"limit"}, a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			return a.logs(ctx, s, args[0], r)
		})),
	}
	fl := cmd.Flags()
	fl.BoolVarP(&r.Follow, "follow", "f", false, "go on until the task has ended")
	fl.StringVar(&r.Stream, "stream", "stdout", "stdout or stderr")
	fl.Int64Var(&r.Offset, "offset", 0, "first byte")
	fl.Int64Var(&r.Limit, "limit", 0, "how many bytes at most (default all)")
	return cmd
}

func (a *app) logs(ctx context.Context, s *session, taskID string, r starter.LogRequest) error {
	attempt := 0
	for chunk, err := range s.tasks.Logs(ctx, taskID, r) {
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(chunk); err != nil {
				return err
			}
			continue
		}
		if attempt != 0 && chunk.Attempt != attempt {
			a.say("note: attempt %d begins", chunk.Attempt)
		}
		attempt = chunk.Attempt
		if chunk.Skipped > 0 {
			a.say("note: %s were not kept", term.Bytes(chunk.Skipped))
		}
		if _, err := a.out.Write(chunk.Data); err != nil {
			return err
		}
	}
	return nil
}
