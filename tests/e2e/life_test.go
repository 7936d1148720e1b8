package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

const reviewTool = `
tools:
  review:
    executor: external
    ttl: 1h
`

func TestLifeOfAnExternalTask(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	in := harness.Install(t, shared, tenantOf(t), reviewTool, nil).StartWorker()
	sub, err := in.Client.Submit(ctx, starter.Submission{Tool: "review", Input: []byte(`{"pr": 7}`), IdempotencyKey: "pr-7"})
	require.NoError(t, err)
	require.Equal(t, "accepted", sub.Status)
	again, err := in.Client.Submit(ctx, starter.Submission{Tool: "review", Input: []byte(`{"pr":7}`), IdempotencyKey: "pr-7"})
	require.NoError(t, err)
	require.Equal(t, sub.TaskID, again.TaskID)
	require.True(t, again.Existing)

	p := 40.0
	v, err := in.Client.Callback(ctx, sub.TaskID, domain.Callback{CallbackID: "c1", Event: domain.Event{Type: domain.EventProgress, Progress: &p}})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonProgress, v.Outcome.Reason)
	d, err := in.Client.Describe(ctx, sub.TaskID)
	require.NoError(t, err)
	require.Equal(t, domain.PhaseWaitingExternal, d.Phase)

	v, err = in.Client.Callback(ctx, sub.TaskID, domain.Callback{CallbackID: "c2", Event: domain.Event{Type: domain.EventSucceed, Result: []byte(`{"ok":true}`)}})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonSucceeded, v.Outcome.Reason)

	rec, err := in.Client.Deliver(ctx, sub.TaskID, "key-1")
	require.NoError(t, err)
	require.Equal(t, domain.ReasonDelivered, rec.Reason)
	rec, err = in.Client.Deliver(ctx, sub.TaskID, "key-1")
	require.NoError(t, err)
	require.Equal(t, domain.ReasonDuplicateDelivery, rec.Reason)
	res, err := in.Client.Result(ctx, sub.TaskID)
	require.NoError(t, err)
	b, err := in.Store.Get(ctx, res.Ref, res.Hash)
	require.NoError(t, err)
	require.JSONEq(t, `{"ok":true}`, string(b))
}
