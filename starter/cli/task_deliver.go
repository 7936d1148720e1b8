package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (a *app) deliverCommand() *cobra.Command {
	key := ""
	cmd := &cobra.Command{
		Use: "deliver TASK --key KEY", Short: "take the receipt for the result of a task, once per key", Args: exactly("TASK"),
		Long: `Hands the result over under a key and gives the receipt. The same key for the same
task gives the same receipt; for another task it is refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return usage("the key is yours: it names the delivery", "flag --key is missing")
			}
			return a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
				return a.deliver(ctx, s, args[0], key)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key of the delivery")
	return cmd
}

func (a *app) deliver(ctx context.Context, s *session, taskID, key string) error {
	d, err := s.tasks.Deliver(ctx, taskID, key)
	if err != nil {
		return err
	}
	switch {
	case d.OK:
	case d.Reason == domain.ReasonKeyReused:
		return failf(string(starter.CodeKeyReused), "use a key of its own for each task", "the key was used for another task")
	case d.Reason == domain.ReasonNotSucceeded:
		return noResult(ctx, s, taskID)
	default:
		return failf(string(starter.CodeConflict), "", "not delivered: %s", refusal(d.Reason, "", ""))
	}
	if a.json {
		return a.printJSON(d)
	}
	r := d.Receipt
	if r == nil {
		return failf(string(starter.CodeInternal), "", "the delivery has no receipt")
	}
	term.Fields(a.out, []term.Field{
		{Name: "task", Value: r.TaskID},
		{Name: "key", Value: r.IdempotencyKey},
		{Name: "result", Value: r.ResultRef},
		{Name: "sha256", Value: r.ResultHash},
		{Name: "delivered", Value: a.moment(r.DeliveredAtMs)},
	})
	if d.Duplicate {
		a.say("note: delivered before, this is the same receipt")
	}
	return nil
}

// noResult says whether a task has no result yet, or never will.
func noResult(ctx context.Context, s *session, taskID string) error {
	d, err := s.tasks.Describe(ctx, taskID)
	switch state := d.Task.State; {
	case err != nil:
		return err
	case state == domain.StateSucceeded: // since
		return failf(string(starter.CodeNotEnded), "ask again with the same key", "task %s had no result yet", taskID)
	case !state.Terminal():
		return failf(string(starter.CodeNotEnded), "wait for its end: wakepoint task watch "+taskID, "task %s %s and has no result yet", taskID, starter.Standing(state))
	default:
		return failf(string(starter.CodeNotSucceeded), "look at the task: wakepoint task show "+taskID, "task %s %s and has no result to deliver", taskID, starter.Standing(state))
	}
}

func (a *app) deliveryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delivery KEY", Short: "show how a delivery stands", Args: exactly("KEY"),
		Long: `Shows a delivery by its key: one of wakepoint task deliver, or that of a task to a
target, TASK/STATE/VERSION/TARGET.`,
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			r, err := s.tasks.DeliveryStatus(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printDelivery(r)
		}),
	}
}

func (a *app) redeliverCommand() *cobra.Command {
	var r protocol.Redeliver
	cmd := &cobra.Command{
		Use: "redeliver KEY", Short: "try a delivery to a target again, now", Args: exactly("KEY"),
		RunE: a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			r.By = a.person(r.By)
			rec, err := s.tasks.Redeliver(ctx, args[0], r)
			if err != nil {
				return err
			}
			return a.printDelivery(rec)
		}),
	}
	cmd.Flags().StringVar(&r.By, "by", "", "who asks, for the history (default $USER)")
	return cmd
}

func (a *app) printDelivery(r protocol.DeliveryRecord) error {
	if a.json {
		return a.printJSON(r)
	}
	term.Fields(a.out, []term.Field{
		{Name: "key", Value: r.Key},
		{Name: "task", Value: r.TaskID},
		{Name: "kind", Value: string(r.Kind)},
		{Name: "target", Value: r.Target},
		{Name: "state", Value: r.State},
		{Name: "last error", Value: r.LastError},
		{Name: "ended", Value: a.moment(r.EndedAtMs)},
	})
	return nil
}
