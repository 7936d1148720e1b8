package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) listCommand() *cobra.Command {
	var r starter.ListRequest
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "list tasks, open ones first, then those that ended last", Args: exactly(), Aliases: []string{"ls"},
		Long: `Lists tasks: open ones first, then those that ended last. The list comes from the
engine's index, which lags behind by moments; wakepoint task show is always right.`,
		RunE: needing([]string{"tool", "state", "run", "tool-call", "limit", "cursor"}, a.with(needs{}, func(ctx context.Context, s *session, _ []string) error {
			r.State = domain.State(state)
			return a.list(ctx, s, r)
		})),
	}
	fl := cmd.Flags()
	fl.StringVar(&r.Tool, "tool", "", "only tasks of this tool")
	fl.StringVar(&state, "state", "", "only tasks in this state; queued and running both mean: not ended")
	fl.StringVar(&r.Run, "run", "", "only tasks of this run")
	fl.StringVar(&r.ToolCall, "tool-call", "", "only tasks of this tool call")
	fl.IntVar(&r.PageSize, "limit", starter.DefaultPageSize, "tasks on the page")
	fl.StringVar(&r.Cursor, "cursor", "", "the cursor that ended the page before")
	return cmd
}

func (a *app) list(ctx context.Context, s *session, r starter.ListRequest) error {
	page, err := s.tasks.List(ctx, r)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(page)
	}
	if len(page.Tasks) == 0 {
		a.say("no task")
		return nil
	}
	rows := make([][]string, 0, len(page.Tasks))
	for _, t := range page.Tasks {
		state, took := string(t.State), ""
		switch {
		case t.Manual:
			state = "needs a person"
		case t.Open && state == "":
			state = "open"
		case state == "":
			state = "no record"
		}
		if t.ClosedAtMs > 0 {
			took = term.Duration(ms(t.ClosedAtMs - t.StartedAtMs))
		}
		rows = append(rows, []string{t.TaskID, t.Tool, state, a.ago(t.StartedAtMs), took, t.Title})
	}
	header := []string{"TASK", "TOOL", "STATE", "SUBMITTED", "TOOK", "TITLE"}
	if !slices.ContainsFunc(page.Tasks, func(t starter.Listed) bool { return t.Title != "" }) {
		header = header[:len(header)-1]
	}
	term.Table(a.out, header, rows)
	if page.Cursor != "" {
		a.say("hint: there are more: --cursor %s", page.Cursor)
	}
	return nil
}
