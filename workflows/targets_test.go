package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// watchChildren collects the ids of the children that are started.
func (e *env) watchChildren(ids *[]string) {
	e.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		*ids = append(*ids, info.WorkflowExecution.ID)
	})
}

// children keeps the options with which children are started.
type children struct {
	interceptor.WorkerInterceptorBase
	seen []workflow.ChildWorkflowOptions
}

func (c *children) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, c}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	c *children
}

func (i *inbound) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i.c})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	c *children
}

func (o *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	o.c.seen = append(o.c.seen, workflow.GetChildWorkflowOptions(ctx))
	return o.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// The deliveries of a task are workflows of their own, named by what they
// deliver; the task closes without waiting for them.
func TestTargetsAreToldOnceByWorkflowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var sent []protocol.SendRequest
	var last time.Duration
	w.send = func(r protocol.SendRequest) (protocol.SendResult, error) {
		last = e.Now().Sub(start)
		sent = append(sent, r)
		if len(sent) <= 4 {
			return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: time.Hour})
		}
		return protocol.SendResult{StatusCode: 200, SentAtMs: 5, Attempts: 3}, nil
	}
	ids := map[string]protocol.DeliveryInput{}
	e.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in protocol.DeliveryInput
		require.NoError(t, args.Get(&in))
		ids[info.WorkflowExecution.ID] = in
		require.Equal(t, protocol.WorkflowDelivery, info.WorkflowType.Name)
	})
	var options children
	e.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&options}})
	e.at(time.Minute, func() { e.signal(callback("end", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) { in.Targets = []string{"ops", "mail"} }))
	require.NoError(t, e.GetWorkflowError())
	require.Len(t, ids, 2)
	for _, target := range []string{"ops", "mail"} {
		key := "t1/succeeded/2/" + target
		in, ok := ids[protocol.DeliveryWorkflowID("acme", key)]
		require.True(t, ok, target)
		require.Equal(t, key, in.Key)
		require.Equal(t, protocol.DeliveryWebhook, in.Kind)
		require.Equal(t, target, in.Target)
		require.Equal(t, "task.succeeded", in.Type)
		require.Equal(t, "h", in.Task.ResultHash)
		require.Empty(t, in.Task.History)
	}
	require.Len(t, options.seen, 2)
	for _, o := range options.seen {
		require.Equal(t, enumspb.PARENT_CLOSE_POLICY_ABANDON, o.ParentClosePolicy)
		require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, o.WorkflowIDReusePolicy)
		require.Equal(t, map[string]any{protocol.MemoTaskID: "t1"}, o.Memo, "a client that repeats the key finds its task here")
		require.Contains(t, o.StaticSummary, "task.succeeded to ")
	}
	require.Len(t, sent, 6)
	require.Greater(t, last, time.Hour, "long after the task had closed")
	for _, r := range sent {
		require.Equal(t, "t1/succeeded/2/"+r.Target, r.Key, "the same key at every attempt")
	}
}

// A child whose id is taken has been started before: the id is the lock.
func TestADeliveryThatIsThereIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := &world{send: func(protocol.SendRequest) (protocol.SendResult, error) {
		return protocol.SendResult{}, temporal.NewApplicationErrorWithOptions("503", protocol.ErrTypeNotDelivered, temporal.ApplicationErrorOptions{NextRetryDelay: time.Hour})
	}}
	e := newEnv(t, w)
	var ids []string
	e.watchChildren(&ids)
	e.at(time.Minute, func() { e.signal(callback("end", succeed("h"))) })
	// The same target twice can come from old records only; a second start is
	// answered as started already.
	e.run(external(func(in *protocol.TaskInput) { in.Targets = []string{"ops", "ops"} }))
	require.NoError(t, e.GetWorkflowError())
	require.Len(t, ids, 1)
}

func TestLateResultIsDeliveredUnderAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var ids []string
	e.watchChildren(&ids)
	e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
	e.at(time.Hour+time.Minute, func() { e.signal(callback("late", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Targets, in.Create.Policy.LatePolicy = []string{"ops"}, domain.LateRecord
	}))
	require.Equal(t, []string{
		protocol.DeliveryWorkflowID("acme", "t1/expired/2/ops"), protocol.DeliveryWorkflowID("acme", "t1/expired/3/ops"),
	}, ids)
}

func TestRunThatHasClosedKeepsNoTaskOpen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer protocol.NotifyResult
		err    error
		calls  int
	}{
		"signalled":        {answer: protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, calls: 1},
		"closed":           {answer: protocol.NotifyResult{Receipt: protocol.ReceiptRunClosed}, calls: 1},
		"doesn't take it":  {err: temporal.NewNonRetryableApplicationError("too many signals", "Invalid", nil), calls: 2},
		"can't be reached": {err: errors.New("unavailable"), calls: 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{notify: func(protocol.NotifyRequest) (protocol.NotifyResult, error) { return tc.answer, tc.err }}
			e := newEnv(t, w)
			e.at(time.Minute, func() { e.signal(callback("end", succeed("h"))) })
			e.run(external(func(in *protocol.TaskInput) { in.Create.RunID = "r1" }))
			require.NoError(t, e.GetWorkflowError())
			require.Len(t, w.notified, tc.calls, "one local activity, then a regular one with its retries")
			require.Equal(t, "r1", w.notified[0].RunID)
			require.LessOrEqual(t, e.Now().Sub(start), 11*time.Minute)
		})
	}
}

// Every write of a search attribute costs an event and a visibility record, so
// there is one, at the end.
func TestSearchAttributesAreWrittenAtTheEndOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   protocol.TaskInput
		do   func(*env)
		want []domain.State
	}{
		"succeeded": {external(), func(e *env) {
			e.at(1*time.Minute, func() { e.callbackUpdate(callback("s", started(1))) })
			e.at(2*time.Minute, func() { e.callbackUpdate(callback("p", progress(50))) })
			e.at(3*time.Minute, func() { e.signal(callback("f", retryable(1))) })
			e.at(4*time.Minute, func() { e.signal(callback("s2", started(2))) })
			e.at(5*time.Minute, func() { e.callbackUpdate(callback("e", attempt(2, succeed("h")))) })
		}, []domain.State{domain.StateSucceeded}},
		"expired":   {external(), func(*env) {}, []domain.State{domain.StateExpired}},
		"cancelled": {executed(), func(e *env) { e.at(time.Minute, e.CancelWorkflow) }, []domain.State{domain.StateCancelled}},
		"retried": {external(func(in *protocol.TaskInput) { in.Create.Policy.LatePolicy = domain.LateRecord }), func(e *env) {
			e.at(time.Hour+time.Minute, func() {
				e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds()})
			})
			e.at(time.Hour+2*time.Minute, func() { e.signal(callback("s", started(2))) })
			e.at(time.Hour+3*time.Minute, func() { e.signal(callback("e", attempt(2, succeed("h")))) })
		}, []domain.State{domain.StateExpired, domain.StateQueued, domain.StateSucceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			// A call that is not expected makes the workflow fail.
			for _, s := range tc.want {
				e.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(protocol.AttrState.ValueSet(string(s)))).Return(nil).Once()
			}
			tc.do(e)
			e.run(tc.in)
			require.True(t, e.AssertExpectations(t))
			last := strings.ToLower(string(tc.want[len(tc.want)-1]))
			require.Equal(t, last, string(e.record().Task.State))
		})
	}
}
