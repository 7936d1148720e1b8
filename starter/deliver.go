package starter

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Deliver hands the result of a task over under an idempotency key, which is
// unique in the tenant for as long as the engine's retention lasts. The key is
// looked up before the task: used for this task it gives the same receipt, used
// for another one it gives none. What was not delivered says so in its reason;
// see [domain.Deliver]. Errors: invalid-request, unknown-task, no-worker (the
// delivery is kept, the same key asks again), unavailable.
func (c *Client) Deliver(ctx context.Context, taskID, key string) (domain.Delivered, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return domain.Delivered{}, invalid(err)
	}
	if err := domain.CheckDelivery(key, c.o.Now()); err != nil {
		return domain.Delivered{}, invalid(err)
	}
	op := "deliver task " + taskID
	for lap := 0; ; lap++ {
		d, found, err := c.delivered(ctx, taskID, key)
		if err != nil || found {
			return d, engineError(ctx, op, err)
		}
		s, err := c.read(ctx, taskID)
		if err != nil {
			return domain.Delivered{}, err
		}
		t := s.desc.Task.WithoutHistory()
		answer, err := domain.Deliver(taskID, &t, nil, key, c.o.Now())
		if err != nil || !answer.OK {
			return answer, invalid(err)
		}
		err = c.startDelivery(ctx, protocol.DeliveryInput{Tenant: c.o.Tenant, Key: key, Kind: protocol.DeliveryPull, Task: t})
		switch {
		case err == nil:
			return c.receipt(ctx, key, false)
		case !temporal.IsWorkflowExecutionAlreadyStartedError(err) || lap == maxLaps:
			return domain.Delivered{}, engineError(ctx, op, err)
		}
	}
}

// delivered answers from a delivery that is there already.
func (c *Client) delivered(ctx context.Context, taskID, key string) (domain.Delivered, bool, error) {
	d, err := c.engine.DescribeWorkflow(ctx, protocol.DeliveryWorkflowID(c.o.Tenant, key), "")
	switch {
	case err != nil && notFound(err):
		return domain.Delivered{}, false, nil
	case err != nil:
		return domain.Delivered{}, false, err
	}
	of, err := c.memo(d, protocol.MemoTaskID)
	if err != nil {
		return domain.Delivered{}, false, fail(CodeInternal, "look at the workflow in the Temporal UI", "the memo of the delivery cannot be read").because(err)
	}
	if of != taskID {
		return domain.Delivered{Duplicate: true, Reason: domain.ReasonKeyReused}, true, nil
	}
	answer, err := c.receipt(ctx, key, true)
	return answer, true, err
}

// receipt waits for the end of a pull delivery, which is over at once when there
// is a worker.
func (c *Client) receipt(ctx context.Context, key string, repeat bool) (domain.Delivered, error) {
	wait, cancel := context.WithTimeout(ctx, c.o.QueryTimeout)
	defer cancel()
	rec, err := c.deliveryEnd(wait, key)
	switch {
	case over(ctx) == nil && timedOut(err):
		return domain.Delivered{}, fail(CodeNoWorker, hintWorker+"; then ask again with the same key", "no worker has made out the receipt yet").because(err)
	case err != nil:
		return domain.Delivered{}, engineError(ctx, "deliver", err)
	case rec.Answer == nil:
		return domain.Delivered{}, fail(CodeConflict, "use another key", "the key belongs to a delivery to target %s that is %s", rec.Target, rec.State)
	}
	if !repeat {
		return *rec.Answer, nil
	}
	return domain.Delivered{OK: true, Duplicate: true, Reason: domain.ReasonDuplicateDelivery, Receipt: rec.Answer.Receipt}, nil
}

// deliveryEnd waits until a delivery is over.
func (c *Client) deliveryEnd(ctx context.Context, key string) (protocol.DeliveryRecord, error) {
	var rec protocol.DeliveryRecord
	err := c.engine.GetWorkflow(ctx, protocol.DeliveryWorkflowID(c.o.Tenant, key), "").Get(ctx, &rec)
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	var killed *temporal.TerminatedError
	switch {
	case err == nil || ctx.Err() != nil:
		return rec, err
	case errors.As(err, &app) && app.Type() == protocol.ErrTypeDeadLetter:
		return rec, app.Details(&rec)
	case errors.As(err, &canceled) && canceled.HasDetails():
		return rec, canceled.Details(&rec)
	case errors.As(err, &killed):
		return rec, fail(CodeTerminated, "deliver under another key", "the delivery was terminated in Temporal")
	}
	return rec, err
}

func (c *Client) startDelivery(ctx context.Context, in protocol.DeliveryInput) error {
	what := "hand over the result of " + in.Task.ID
	if in.Target != "" {
		what = in.Type + " to " + in.Target
	}
	_, err := c.engine.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: protocol.DeliveryWorkflowID(c.o.Tenant, in.Key), TaskQueue: c.o.TaskQueue,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         c.o.EagerStart,
		StaticSummary:                            oneLine(what, maxSummary),
		Memo:                                     map[string]any{protocol.MemoTaskID: in.Task.ID},
		TypedSearchAttributes:                    temporal.NewSearchAttributes(protocol.AttrTenant.ValueSet(c.o.Tenant), protocol.AttrTool.ValueSet(in.Task.Tool)),
		Priority:                                 temporal.Priority{FairnessKey: c.o.Tenant, FairnessWeight: float32(c.o.Config.FairnessWeight)},
	}, protocol.WorkflowDelivery, in)
	return err
}

// DeliveryKey is the key of the delivery by which a task tells a target of its end.
func DeliveryKey(t domain.Task, target string) string {
	return t.ID + "/" + string(t.State) + "/" + strconv.FormatInt(t.Version, 10) + "/" + target
}

// DeliveryStatus tells how a delivery stands: of one that is over without any
// worker. Errors: invalid-request, unknown-delivery, no-worker, unavailable.
func (c *Client) DeliveryStatus(ctx context.Context, key string) (protocol.DeliveryRecord, error) {
	if err := domain.CheckDelivery(key, c.o.Now()); err != nil {
		return protocol.DeliveryRecord{}, invalid(err)
	}
	rec, _, err := c.deliveryStatus(ctx, key)
	return rec, engineError(ctx, "look at the delivery", err)
}

func (c *Client) deliveryStatus(ctx context.Context, key string) (rec protocol.DeliveryRecord, open bool, err error) {
	wait, cancel := context.WithTimeout(ctx, c.o.QueryTimeout)
	defer cancel()
	resp, err := c.engine.QueryWorkflowWithOptions(wait, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: protocol.DeliveryWorkflowID(c.o.Tenant, key), QueryType: protocol.QueryDescribe, QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err != nil && notFound(err):
		return rec, false, fail(CodeUnknownKey, "check the key and the tenant", "nothing was delivered under that key").because(err)
	case over(ctx) == nil && timedOut(err):
		return rec, false, fail(CodeNoWorker, hintWorker, "no worker answers for the delivery").because(err)
	case err != nil:
		return rec, false, err
	case resp.QueryRejected == nil:
		err = resp.QueryResult.Get(&rec)
		return rec, true, err
	}
	rec, err = c.deliveryEnd(ctx, key)
	return rec, false, err
}

// Redeliver makes a webhook delivery try again: an open one now, a dead letter as
// a new delivery whose key names the old one. The record that is answered has the
// key to ask for from then on. Errors: invalid-request, unknown-delivery, conflict
// (it has been delivered), no-worker, unavailable.
func (c *Client) Redeliver(ctx context.Context, key string, r protocol.Redeliver) (protocol.DeliveryRecord, error) {
	if err := domain.CheckDelivery(key, c.o.Now()); err != nil {
		return protocol.DeliveryRecord{}, invalid(err)
	}
	if err := checkPerson(r.By, ""); err != nil {
		return protocol.DeliveryRecord{}, err
	}
	rec, open, err := c.deliveryStatus(ctx, key)
	if err == nil && open {
		err = c.update(ctx, message{
			workflowID: protocol.DeliveryWorkflowID(c.o.Tenant, key), name: protocol.UpdateRedeliver, updateID: once(), arg: r,
		}, &rec)
		switch {
		case errors.Is(err, errClosed):
			// It ended meanwhile.
			rec, open, err = c.deliveryStatus(ctx, key)
		case errors.Is(err, errNoAnswer):
			err = fail(CodeNoWorker, hintWorker, "no worker answers for the delivery")
		}
	}
	if err != nil || open {
		return rec, engineError(ctx, "redeliver", err)
	}
	rec, err = c.sendAgain(ctx, rec)
	return rec, engineError(ctx, "redeliver", err)
}

// sendAgain starts the delivery of a dead letter anew. Its key follows from the
// old one, so that two people who do it at once send once.
func (c *Client) sendAgain(ctx context.Context, rec protocol.DeliveryRecord) (protocol.DeliveryRecord, error) {
	if rec.State != protocol.DeliveryDeadLetter {
		return rec, fail(CodeConflict, "only what could not be delivered is sent again", "the delivery is %s", rec.State)
	}
	var in protocol.DeliveryInput
	if err := c.inputOf(ctx, protocol.DeliveryWorkflowID(c.o.Tenant, rec.Key), "", &in); err != nil {
		return rec, err
	}
	in.Redelivers, in.Key = rec.Key, againKey(rec.Key)
	if err := c.startDelivery(ctx, in); err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return rec, err
	}
	return protocol.DeliveryRecord{Key: in.Key, Kind: in.Kind, Target: in.Target, TaskID: in.Task.ID, State: protocol.DeliveryPending}, nil
}

// againKey counts: key, key/again-2, key/again-3.
func againKey(key string) string {
	const mark = "/again-"
	if i := strings.LastIndex(key, mark); i >= 0 {
		if n, err := strconv.Atoi(key[i+len(mark):]); err == nil && n > 1 {
			return key[:i] + mark + strconv.Itoa(n+1)
		}
	}
	return key + mark + "2"
}
