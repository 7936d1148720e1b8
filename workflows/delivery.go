package workflows

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// delivery is the run of a Delivery in memory.
type delivery struct {
	in  protocol.DeliveryInput
	rec protocol.DeliveryRecord
	// again makes the attempts begin anew.
	again workflow.CancelFunc
}

// Delivery hands over one result, once per key: its workflow id is the key. It
// ends Completed with its record, or Failed with the record in the details when
// a target could not be reached in time, which is the dead letter.
func Delivery(ctx workflow.Context, in protocol.DeliveryInput) (*protocol.DeliveryRecord, error) {
	d := &delivery{in: in, rec: protocol.DeliveryRecord{
		Key: in.Key, Kind: in.Kind, Target: in.Target, TaskID: in.Task.ID, State: protocol.DeliveryPending,
	}}
	if err := workflow.SetQueryHandlerWithOptions(ctx, protocol.QueryDescribe, func() (protocol.DeliveryRecord, error) { return d.rec, nil },
		workflow.QueryHandlerOptions{Description: "how the delivery stands"}); err != nil {
		return nil, err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, protocol.UpdateRedeliver, d.onRedeliver, workflow.UpdateHandlerOptions{
		Description: "tries again now",
	}); err != nil {
		return nil, err
	}
	if in.Kind == protocol.DeliveryPull {
		return d.pull(ctx)
	}
	return d.send(ctx)
}

func (d *delivery) pull(ctx workflow.Context) (*protocol.DeliveryRecord, error) {
	now := workflow.GetInfo(ctx).WorkflowStartTime.UnixMilli()
	answer, err := domain.Deliver(d.in.Task.ID, &d.in.Task, nil, d.in.Key, now)
	if err != nil {
		return nil, asApplicationError(err)
	}
	if !answer.OK {
		return nil, temporal.NewNonRetryableApplicationError(string(answer.Reason), protocol.ErrTypeRefused, nil, answer)
	}
	d.rec.State, d.rec.Answer, d.rec.EndedAtMs = protocol.DeliveryDone, &answer, now
	return &d.rec, nil
}

func (d *delivery) onRedeliver(workflow.Context, protocol.Redeliver) (protocol.DeliveryRecord, error) {
	if d.again != nil {
		d.again()
	}
	return d.rec, nil
}

func (d *delivery) send(ctx workflow.Context) (*protocol.DeliveryRecord, error) {
	giveUp := giveUpDelivery
	if d.in.GiveUpAfterMs > 0 {
		giveUp = time.Duration(d.in.GiveUpAfterMs) * time.Millisecond
	}
	until := workflow.GetInfo(ctx).WorkflowStartTime.Add(giveUp)
	req := protocol.SendRequest{Tenant: d.in.Tenant, Key: d.in.Key, Target: d.in.Target, Type: d.in.Type, Task: d.in.Task}
	var res protocol.SendResult
	var err error
	for {
		d.rec.Rounds++
		workflow.SetCurrentDetails(ctx, "Sending "+markdown.Code(d.in.Type)+" to **"+markdown.Text(d.in.Target)+"**, round "+itoa(d.rec.Rounds)+".")
		round, again := workflow.WithCancel(ctx)
		d.again = again
		opts := sendOptions(d.in.Target, max(until.Sub(workflow.Now(ctx)), sendTry))
		err = workflow.ExecuteActivity(workflow.WithActivityOptions(round, opts), protocol.ActivitySend, req).Get(round, &res)
		// A round that was cancelled by hand, not with the workflow, is
		// followed by another one at once.
		if !temporal.IsCanceledError(err) || ctx.Err() != nil {
			break
		}
	}
	d.again = nil
	d.rec.EndedAtMs = workflow.Now(ctx).UnixMilli()
	if err == nil {
		d.rec.State, d.rec.Attempts, d.rec.Answer = protocol.DeliveryDone, res.Attempts, d.receipt(res.SentAtMs)
		return &d.rec, nil
	}
	d.rec.State, d.rec.LastError = protocol.DeliveryDeadLetter, why(err)
	if ctx.Err() != nil {
		return nil, temporal.NewCanceledError(d.rec)
	}
	return nil, temporal.NewNonRetryableApplicationError("not delivered to "+d.in.Target+": "+d.rec.LastError, protocol.ErrTypeDeadLetter, nil, d.rec)
}

func (d *delivery) receipt(atMs int64) *domain.Delivered {
	return &domain.Delivered{OK: true, Reason: domain.ReasonDelivered, Receipt: &domain.Receipt{
		TaskID: d.in.Task.ID, ResultRef: d.in.Task.ResultRef, ResultHash: d.in.Task.ResultHash,
		IdempotencyKey: d.in.Key, DeliveredAtMs: atMs,
	}}
}

// why gives what the activity itself said, outermost first, without what the
// engine wraps around it.
func why(err error) string {
	var said []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		if app, ok := e.(*temporal.ApplicationError); ok { //nolint:errorlint // each link of the chain is looked at
			said = append(said, app.Message())
		}
	}
	if len(said) == 0 {
		return err.Error()
	}
	return strings.Join(said, ": ")
}
