package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (a *app) cancelCommand() *cobra.Command {
	var c protocol.Cancel
	cmd := &cobra.Command{
		Use: "cancel TASK", Short: "ask for the work of a task to be given up", Args: exactly("TASK"),
		Long: `Asks for the work to be given up. A queued task is cancelled at once, a running one
when its tool has stopped; work that ends first wins. Watch the task for its end.

Of a task that several wait for, --waiter gives up for one of them only: while
somebody else waits, the work goes on.`,
		RunE: needing([]string{"waiter"}, a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			c.By = a.person(c.By)
			o, err := s.tasks.Cancel(ctx, args[0], c)
			if err != nil {
				return err
			}
			said := "cancel requested"
			switch {
			case o.State == domain.StateCancelled:
				said = "cancelled"
			case o.Reason == domain.ReasonDetached || o.Reason == domain.ReasonDuplicateDetach:
				said = "others wait for the task too, so only " + c.WaiterID + " was taken off"
			}
			return a.printOutcome(args[0], o, said)
		})),
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why, for the history")
	cmd.Flags().StringVar(&c.By, "by", "", "who asks, for the history (default $USER)")
	cmd.Flags().StringVar(&c.WaiterID, "waiter", "", "only for this one of those who wait")
	return cmd
}

func (a *app) retryCommand() *cobra.Command {
	var r starter.Retry
	var ttl duration
	cmd := &cobra.Command{
		Use: "retry TASK", Short: "try a task that failed, expired or was cancelled once more", Args: exactly("TASK"),
		RunE: needing([]string{"ttl"}, a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			r.By, r.TTL = a.person(r.By), ttl.Duration
			out, err := s.tasks.Retry(ctx, args[0], r)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			if out.Existing {
				a.say("somebody else's retry is under way, none was added")
			} else {
				a.say("retried, until %s", a.moment(out.ExpiresAtMs))
			}
			if out.Note != "" {
				a.say("note: %s", out.Note)
			}
			a.say("hint: wakepoint task watch %s", args[0])
			return nil
		})),
	}
	cmd.Flags().Var(&ttl, "ttl", "time to live from now on, such as 30s, 5m or 3d (default the tool's)")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the history")
	cmd.Flags().StringVar(&r.By, "by", "", "who asks, for the history (default $USER)")
	return cmd
}

func (a *app) answerCommand() *cobra.Command {
	var ans protocol.Answer
	var text, raw string
	cmd := &cobra.Command{
		Use: "answer TASK QUESTION", Short: "answer a question of a task", Args: exactly("TASK", "QUESTION"),
		Long: `Answers a question that a task asks; wakepoint task show lists them. A question
takes one answer.`,
	}
	cmd.Flags().StringVar(&text, "text", "", "answer in words")
	cmd.Flags().StringVar(&raw, "answer", "", "answer as JSON, @FILE, or - for standard input")
	cmd.Flags().StringVar(&ans.By, "by", "", "who answers, for the history (default $USER)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		ans.QuestionID, ans.By = args[1], a.person(ans.By)
		switch given := cmd.Flags().Changed; {
		case given("text") == given("answer"):
			return usage("", "give one of --text and --answer")
		case given("text"):
			ans.Answer, err = json.Marshal(text)
		default:
			ans.Answer, err = a.jsonContent("--answer", raw, domain.MaxDetails)
		}
		if err != nil {
			return err
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			o, err := s.tasks.Answer(ctx, args[0], ans)
			if err != nil {
				return err
			}
			return a.printAnswer(args[0], ans.QuestionID, o, "answered")
		})(cmd, args)
	}
	return cmd
}

func (a *app) heartbeatCommand() *cobra.Command {
	var hb starter.Heartbeat
	var details string
	cmd := &cobra.Command{
		Use: "heartbeat TASK", Short: "renew the lease of a task that is worked on outside", Args: exactly("TASK"),
		Long: `Says that the worker outside is alive. The answer says whether the task is to be
cancelled: then stop, and send the event cancelled.`,
	}
	cmd.Flags().IntVar(&hb.Attempt, "attempt", 1, "attempt that is worked on")
	cmd.Flags().StringVar(&details, "details", "", "anything for people to see, as JSON, @FILE, or - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if cmd.Flags().Changed("details") {
			if hb.Details, err = a.jsonContent("--details", details, domain.MaxDetails); err != nil {
				return err
			}
		}
		return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			out, err := s.tasks.Heartbeat(ctx, args[0], hb)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			if out.CancelRequested {
				a.say("cancel requested: stop, then `wakepoint task callback %s --type cancelled`", args[0])
			} else {
				a.say("lease renewed")
			}
			return nil
		})(cmd, args)
	}
	return cmd
}
