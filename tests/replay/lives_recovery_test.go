package replay

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// recoveryTools are those of the lives in which something is unknown, shared or
// limited.
const recoveryTools = `
  pay: {executor: script, ttl: 1h, poll: 100ms, effects: unsafe, maxAttempts: 1}
  charge: {executor: script, ttl: 1h, poll: 100ms, effects: unsafe, compensate: refund, maxAttempts: 2, backoff: {initial: 1s, max: 1s}}
  refund: {executor: script, ttl: 1h, poll: 100ms}
  limited: {executor: script, ttl: 1h, poll: 100ms, maxConcurrent: 2, backoff: {initial: 1s, max: 1s}}
  slow: {executor: external, ttl: 1h, stall: 1s}
`

func recoveryLives() []life {
	return []life{
		{name: "manual-resolved", want: domain.StateSucceeded, live: liveManualResolved},
		{name: "manual-repeated", want: domain.StateSucceeded, live: liveManualRepeated},
		{name: "manual-comes-back", want: domain.StateSucceeded, live: liveManualComesBack},
		{name: "compensated", want: domain.StateSucceeded, live: liveCompensated, also: compensation},
		{name: "slot", want: domain.StateSucceeded, live: liveSlot},
		{name: "slot-continue-as-new", want: domain.StateSucceeded, live: liveSlotContinueAsNew},
		{name: "shared", want: domain.StateSucceeded, live: liveShared},
		{name: "reconciled", want: domain.StateSucceeded, live: liveReconciled},
		{name: "stalled", want: domain.StateSucceeded, live: liveStalled},
	}
}

var lostJob = tool.Observation{State: tool.StateLost, Error: &tool.Failure{Code: "KILLED", Message: "its host went away"}}

func untilManual(b harness.Bed, id string) {
	b.T.Helper()
	b.Until(id, "a person is asked", func(d starter.Description) bool { return d.Task.Manual != nil })
}

// liveManualResolved is work of unknown outcome of which a person knows the result.
func liveManualResolved(b harness.Bed, s *harness.Script, id string) {
	s.Say(b.JobKey(id, 1), lostJob)
	b.Submit("pay", id)
	untilManual(b, id)
	_, err := b.Client.Resolve(b.Ctx, id, protocol.Resolve{Action: domain.ResolveSucceeded, Result: []byte(`{"paid":true}`), By: "ann"})
	require.NoError(b.T, err)
}

// liveManualRepeated is done again because a person says so, under the same key.
func liveManualRepeated(b harness.Bed, s *harness.Script, id string) {
	s.Say(b.JobKey(id, 1), lostJob)
	b.Submit("pay", id)
	untilManual(b, id)
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
	_, err := b.Client.Resolve(b.Ctx, id, protocol.Resolve{Action: domain.ResolveRepeat, By: "ann"})
	require.NoError(b.T, err)
}

// liveManualComesBack is heard of again before a person has looked.
func liveManualComesBack(b harness.Bed, s *harness.Script, id string) {
	s.Say(b.JobKey(id, 1), lostJob)
	b.Submit("pay", id)
	untilManual(b, id)
	s.Say(b.JobKey(id, 1), tool.Observation{State: tool.StateRunning})
	b.Callback(id, "alive", harness.Attempt(1, harness.Progress(30, "after all")))
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
}

// liveCompensated is undone by a task of its own and done again under a new key.
func liveCompensated(b harness.Bed, s *harness.Script, id string) {
	s.Say(b.JobKey(id, 1), lostJob)
	b.Submit("charge", id)
	untilManual(b, id)
	undo := domain.CompensationID(id, 1)
	require.NoError(b.T, s.Await(b.Ctx, b.JobKey(undo, 1), func(c harness.Counts) bool { return c.Submits > 0 }))
	s.Say(b.JobKey(undo, 1), harness.Result(`{"refunded":true}`))
	b.Until(id, "attempt 2", func(d starter.Description) bool { return d.Task.Attempts == 2 })
	s.Say(b.JobKey(id, 2), harness.Stored("s3://results/h", "h"))
}

func compensation(b harness.Bed, id string) []string {
	return []string{protocol.TaskWorkflowID(b.Config.Tenant, domain.CompensationID(id, 1))}
}

// liveSlot holds a slot, fails once and holds it again.
func liveSlot(b harness.Bed, s *harness.Script, id string) {
	b.Submit("limited", id)
	b.UntilState(id, domain.StateRunning)
	percent := 50
	s.Say(b.JobKey(id, 1), tool.Observation{State: tool.StateRunning, Progress: &percent, Stage: "half"})
	b.Until(id, "half", func(d starter.Description) bool { return d.Task.Progress == percent })
	s.Say(b.JobKey(id, 1), tool.Observation{
		State: tool.StateFailed, Definite: true, Error: &tool.Failure{Code: "FLAKY", Message: "once", Retryable: true},
	})
	b.Until(id, "attempt 2", func(d starter.Description) bool { return d.Task.Attempts == 2 })
	s.Say(b.JobKey(id, 2), harness.Stored("s3://results/h", "h"))
}

// liveSlotContinueAsNew keeps its job over a continue-as-new and holds a slot again.
func liveSlotContinueAsNew(b harness.Bed, s *harness.Script, id string) {
	b.Client = b.NewClient(func(o *starter.Options) { o.ContinueAfterEvents = 20 })
	b.Submit("limited", id)
	b.UntilState(id, domain.StateRunning)
	for i := range 6 {
		b.Callback(id, fmt.Sprint("p", i), harness.Attempt(1, harness.Progress(float64(i*5+5), "")))
	}
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
}

// liveShared is waited for by three, of whom one leaves and one cancels.
func liveShared(b harness.Bed, _ *harness.Script, id string) {
	_, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: "review", TaskID: id, RunID: "run-1", ToolCallID: "call-1"})
	require.NoError(b.T, err)
	b.Describe(id)
	for _, name := range []string{"two", "three"} {
		_, err := b.Client.Attach(b.Ctx, id, protocol.Attach{Waiter: &domain.Waiter{ID: name, RunID: "run-" + name}})
		require.NoError(b.T, err)
	}
	_, err = b.Client.Detach(b.Ctx, id, protocol.Detach{WaiterID: "three", Reason: domain.DetachWaitTimeout})
	require.NoError(b.T, err)
	_, err = b.Client.Cancel(b.Ctx, id, protocol.Cancel{WaiterID: domain.WaiterSubmitter, By: "run-1"})
	require.NoError(b.T, err)
	b.Callback(id, "end", harness.Succeed("h"))
}

// liveReconciled is asked about by a person, while it runs and when it is over.
func liveReconciled(b harness.Bed, s *harness.Script, id string) {
	b.Submit("build", id)
	b.UntilState(id, domain.StateRunning)
	out, err := b.Client.Reconcile(b.Ctx, id, protocol.Reconcile{By: "ann"})
	require.NoError(b.T, err)
	require.Equal(b.T, protocol.OutsideRunning, out.Outside)
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
	_, err = b.Client.Reconcile(b.Ctx, id, protocol.Reconcile{By: "ann"})
	require.NoError(b.T, err)
}

// liveStalled stands still for longer than its stall time.
func liveStalled(b harness.Bed, _ *harness.Script, id string) {
	b.Park("slow", id)
	b.Callback(id, "begin", harness.Start("ann"))
	harness.Until(b.T, patience, "the work stands still", func() bool { return b.Describe(id).Stalled })
	b.Callback(id, "end", harness.Succeed("h"))
}
