package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func finished(state domain.State) domain.Task {
	t := domain.Task{ID: "t1", Tenant: "acme", Tool: "review", State: state, Version: 2, History: []domain.Entry{}}
	if state == domain.StateSucceeded {
		t.ResultRef, t.ResultHash = "ref/h", "h"
	}
	return t
}

func webhook() protocol.DeliveryInput {
	return protocol.DeliveryInput{Tenant: "acme", Key: "k1", Kind: protocol.DeliveryWebhook, Target: "ops", Type: "task.succeeded", Task: finished(domain.StateSucceeded)}
}

// deliver runs a delivery and gives its record, however it ended.
func (e *env) deliver(in protocol.DeliveryInput) (protocol.DeliveryRecord, error) {
	e.t.Helper()
	e.ExecuteWorkflow(protocol.WorkflowDelivery, in)
	require.True(e.t, e.IsWorkflowCompleted())
	var rec protocol.DeliveryRecord
	err := e.GetWorkflowError()
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch {
	case err == nil:
		require.NoError(e.t, e.GetWorkflowResult(&rec))
	case errors.As(err, &app) && app.Type() == protocol.ErrTypeDeadLetter:
		require.NoError(e.t, app.Details(&rec))
	case errors.As(err, &canceled):
		require.NoError(e.t, canceled.Details(&rec))
	}
	return rec, err
}

func TestPullDelivery(t *testing.T) {
	t.Parallel()
	t.Run("completes at once with its receipt", func(t *testing.T) {
		t.Parallel()
		w := &world{send: func(protocol.SendRequest) (protocol.SendResult, error) {
			return protocol.SendResult{}, errors.New("nothing is sent")
		}}
		e := newEnv(t, w)
		rec, err := e.deliver(protocol.DeliveryInput{Tenant: "acme", Key: "k1", Kind: protocol.DeliveryPull, Task: finished(domain.StateSucceeded)})
		require.NoError(t, err)
		require.Equal(t, protocol.DeliveryRecord{
			Key: "k1", Kind: protocol.DeliveryPull, TaskID: "t1", State: protocol.DeliveryDone, EndedAtMs: startMs(),
			Answer: &domain.Delivered{OK: true, Reason: domain.ReasonDelivered, Receipt: &domain.Receipt{
				TaskID: "t1", ResultRef: "ref/h", ResultHash: "h", IdempotencyKey: "k1", DeliveredAtMs: startMs(),
			}},
		}, rec)
	})
	t.Run("of a task without a result is refused", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		_, err := e.deliver(protocol.DeliveryInput{Tenant: "acme", Key: "k1", Kind: protocol.DeliveryPull, Task: finished(domain.StateFailed)})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, protocol.ErrTypeRefused, app.Type())
		var answer domain.Delivered
		require.NoError(t, app.Details(&answer))
		require.Equal(t, domain.ReasonNotSucceeded, answer.Reason)
	})
	t.Run("under a blank key is invalid", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{})
		_, err := e.deliver(protocol.DeliveryInput{Tenant: "acme", Key: " ", Kind: protocol.DeliveryPull, Task: finished(domain.StateSucceeded)})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, protocol.ErrTypeInvalid, app.Type())
	})
}

func TestWebhookIsRepeatedWithBackoff(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var at []time.Duration
	w.send = func(r protocol.SendRequest) (protocol.SendResult, error) {
		require.Equal(t, "k1", r.Key)
		if at = append(at, e.Now().Sub(start)); len(at) < 6 {
			return protocol.SendResult{}, temporal.NewApplicationError("503", protocol.ErrTypeNotDelivered)
		}
		return protocol.SendResult{StatusCode: 204, SentAtMs: 77, Attempts: 6}, nil
	}
	var pending protocol.DeliveryRecord
	e.at(20*time.Second, func() {
		v, err := e.QueryWorkflow(protocol.QueryDescribe)
		require.NoError(t, err)
		require.NoError(t, v.Get(&pending))
	})
	rec, err := e.deliver(webhook())
	require.NoError(t, err)
	require.Equal(t, protocol.DeliveryPending, pending.State)
	require.Equal(t, 1, pending.Rounds)
	require.Equal(t, protocol.DeliveryDone, rec.State)
	require.Equal(t, 6, rec.Attempts)
	require.EqualValues(t, 77, rec.Answer.Receipt.DeliveredAtMs)
	require.Len(t, at, 6)
	for i := 2; i < len(at); i++ {
		before, this := at[i-1]-at[i-2], at[i]-at[i-1]
		require.InDelta(t, 2.5, float64(this)/float64(before), 0.1, "each wait is two and a half times the one before")
	}
	require.Equal(t, 5*time.Second, at[1])
}

// A receiver that asks for a pause gets it.
func TestWebhookHonoursThePauseOfItsReceiver(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var at []time.Duration
	w.send = func(protocol.SendRequest) (protocol.SendResult, error) {
		if at = append(at, e.Now().Sub(start)); len(at) == 1 {
			return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("429", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: time.Hour})
		}
		return protocol.SendResult{StatusCode: 200}, nil
	}
	_, err := e.deliver(webhook())
	require.NoError(t, err)
	require.Equal(t, []time.Duration{0, time.Hour}, at)
}

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	down := func(delay time.Duration) func(protocol.SendRequest) (protocol.SendResult, error) {
		return func(protocol.SendRequest) (protocol.SendResult, error) {
			return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("the target answered 503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: delay})
		}
	}
	t.Run("after three days", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{send: down(9 * time.Hour)})
		rec, err := e.deliver(webhook())
		require.Error(t, err)
		require.Equal(t, protocol.DeliveryDeadLetter, rec.State)
		require.Equal(t, "the target answered 503", rec.LastError)
		require.Nil(t, rec.Answer)
		lasted := e.Now().Sub(start)
		require.Greater(t, lasted, 62*time.Hour)
		require.LessOrEqual(t, lasted, 72*time.Hour)
		require.Equal(t, e.Now().UnixMilli(), rec.EndedAtMs)
	})
	t.Run("sooner if so asked", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, &world{send: down(time.Minute)})
		in := webhook()
		in.GiveUpAfterMs = (5 * time.Minute).Milliseconds()
		rec, err := e.deliver(in)
		require.Error(t, err)
		require.Equal(t, protocol.DeliveryDeadLetter, rec.State)
		require.LessOrEqual(t, e.Now().Sub(start), 5*time.Minute)
	})
	t.Run("at once when the receiver is gone", func(t *testing.T) {
		t.Parallel()
		sent := 0
		e := newEnv(t, &world{send: func(protocol.SendRequest) (protocol.SendResult, error) {
			sent++
			return protocol.SendResult{}, temporal.NewNonRetryableApplicationError("the target can't be reached", protocol.ErrTypeNotDelivered, errors.New("no route"))
		}})
		rec, err := e.deliver(webhook())
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, "not delivered to ops: the target can't be reached: no route", app.Message())
		require.Equal(t, 1, sent)
		require.Equal(t, protocol.DeliveryDeadLetter, rec.State)
	})
}

// Redelivery by hand begins a new round of the same key at once.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var at []time.Duration
	up := false
	w.send = func(r protocol.SendRequest) (protocol.SendResult, error) {
		require.Equal(t, "k1", r.Key)
		if at = append(at, e.Now().Sub(start)); !up {
			return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: 6 * time.Hour})
		}
		return protocol.SendResult{StatusCode: 200, Attempts: 1}, nil
	}
	var answer protocol.DeliveryRecord
	redeliver := func(id string) {
		e.UpdateWorkflow(protocol.UpdateRedeliver, id, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) },
			OnComplete: func(v any, err error) {
				require.NoError(t, err)
				answer = v.(protocol.DeliveryRecord)
			},
		}, protocol.Redeliver{By: "ann"})
	}
	e.at(time.Hour, func() { redeliver("1") })
	e.at(2*time.Hour, func() {
		up = true
		redeliver("2")
	})
	rec, err := e.deliver(webhook())
	require.NoError(t, err)
	require.Equal(t, []time.Duration{0, time.Hour, 2 * time.Hour}, at)
	require.Equal(t, protocol.DeliveryPending, answer.State)
	require.Equal(t, protocol.DeliveryDone, rec.State)
	require.Equal(t, 3, rec.Rounds)
}

// However often somebody tries by hand, three days are three days.
func TestRedeliverDoesNotProlong(t *testing.T) {
	t.Parallel()
	w := &world{send: func(protocol.SendRequest) (protocol.SendResult, error) {
		return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Hour})
	}}
	e := newEnv(t, w)
	e.at(70*time.Hour, func() {
		e.UpdateWorkflow(protocol.UpdateRedeliver, "1", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) }, OnComplete: func(any, error) {},
		}, protocol.Redeliver{})
	})
	rec, err := e.deliver(webhook())
	require.Error(t, err)
	require.Equal(t, 2, rec.Rounds)
	require.Equal(t, protocol.DeliveryDeadLetter, rec.State)
	require.LessOrEqual(t, e.Now().Sub(start), 72*time.Hour)
}

func TestCancelledDelivery(t *testing.T) {
	t.Parallel()
	w := &world{send: func(protocol.SendRequest) (protocol.SendResult, error) {
		return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: 6 * time.Hour})
	}}
	e := newEnv(t, w)
	e.at(time.Hour, e.CancelWorkflow)
	rec, err := e.deliver(webhook())
	require.True(t, temporal.IsCanceledError(err))
	require.Equal(t, protocol.DeliveryDeadLetter, rec.State, "it can be delivered again by hand")
	require.Equal(t, time.Hour, e.Now().Sub(start))
}
