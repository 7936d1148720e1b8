package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Equal calls that come at once start one workflow, later ones are attached to it,
// and after its end they get its result.
func TestEqualCallsAreOneWorkflow(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, `
tools:
  train: {executor: external, ttl: 1h, cache: {ttl: 1h}}
`, nil)
	b.StartWorker()
	var mu sync.Mutex
	var wg sync.WaitGroup
	waiters, fresh, id := map[string]bool{}, 0, ""
	for i := range 10 {
		wg.Go(func() {
			out, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: "train", Input: []byte(`{"n":1}`), RunID: fmt.Sprint("r", i)})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || id != "" && out.TaskID != id {
				t.Errorf("%+v (%v), not %s", out, err, id)
			}
			id = out.TaskID
			waiters[out.WaiterID] = true
			if !out.Existing {
				fresh++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, fresh)
	require.Len(t, waiters, 10)
	require.Len(t, b.Describe(id).Waiting, 10)
	for w := range waiters {
		if w != domain.WaiterSubmitter {
			o, err := b.Client.Cancel(b.Ctx, id, protocol.Cancel{WaiterID: w})
			require.NoError(t, err)
			require.Equal(t, domain.ReasonDetached, o.Reason)
		}
	}
	require.Equal(t, domain.StateQueued, b.Describe(id).Task.State)
	b.Callback(id, "end", domain.Event{Type: domain.EventSucceed, Result: []byte(`{"n":2}`)})
	b.UntilClosed(id)
	out, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: "train", Input: []byte(`{ "n": 1.0 }`), RunID: "late"})
	require.NoError(t, err)
	require.True(t, out.Cached)
	require.Equal(t, id, out.TaskID)
	require.Equal(t, domain.StateSucceeded, out.Task.State)
}

// The engine's list gives what a client learns the usual time of a tool from.
func TestUsualTimeComesFromTheEnginesList(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, "tools: {train: {executor: external, ttl: 1h, expected: {low: 1h, high: 2h}}}", nil)
	b.StartWorker()
	for i := range 5 {
		id := fmt.Sprint("t", i)
		b.Submit("train", id)
		b.Callback(id, "end", harness.Succeed("h"))
		b.UntilClosed(id)
	}
	harness.Until(t, time.Minute, "the list knows five", func() bool {
		page, err := b.Client.List(b.Ctx, starter.ListRequest{State: domain.StateSucceeded})
		return err == nil && len(page.Tasks) == 5
	})
	other := b.NewClient(func(o *starter.Options) { o.TaskQueue = b.Config.TaskQueue })
	_, err := other.Submit(b.Ctx, starter.Submission{Tool: "train", TaskID: "next"})
	require.NoError(t, err)
	w := b.Describe("next").Task.Policy.Expected
	require.NotNil(t, w)
	require.Positive(t, w.HighMs)
	require.Less(t, w.HighMs, time.Hour.Milliseconds())
}

// What waits for a person is found in the engine's list, and no more once it is
// resolved.
func TestManualIsListed(t *testing.T) {
	t.Parallel()
	s := harness.NewScript()
	b := newBed(within(t, 3*time.Minute), t, "tools: {pay: {executor: script, ttl: 1h, poll: 100ms, effects: unsafe, maxAttempts: 1}}", s)
	b.StartWorker()
	s.Say(b.JobKey("a", 1), tool.Observation{State: tool.StateLost, Error: &tool.Failure{Code: "KILLED", Message: "its host went away"}})
	b.Submit("pay", "a")
	listed := func() []starter.ManualTask {
		page, err := b.Client.Manual(b.Ctx, starter.ManualRequest{})
		require.NoError(t, err)
		return page.Tasks
	}
	harness.Until(t, time.Minute, "a person is asked", func() bool { return len(listed()) == 1 })
	m := listed()[0]
	require.Equal(t, "a", m.TaskID)
	require.Equal(t, b.JobKey("a", 1), m.SubmissionKey)
	require.NotEmpty(t, m.Tried)
	require.Len(t, m.Commands, 3)
	o, err := b.Client.Resolve(b.Ctx, "a", protocol.Resolve{Action: domain.ResolveSucceeded, Result: []byte(`{"paid":true}`), By: "ann"})
	require.NoError(t, err)
	require.Equal(t, domain.StateSucceeded, o.State)
	b.UntilClosed("a")
	harness.Until(t, time.Minute, "nobody is asked any more", func() bool { return len(listed()) == 0 })
}

// Reconciling twice in a row changes nothing, and takes an end that nobody told of.
func TestReconcileTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s := harness.NewScript()
	b := newBed(within(t, 3*time.Minute), t, "tools: {job: {executor: script, ttl: 1h, poll: 30m}, ext: {executor: external, ttl: 1h}}", s)
	b.StartWorker()
	b.Park("ext", "c")
	for _, id := range []string{"a", "b"} {
		b.Submit("job", id)
		b.UntilState(id, domain.StateRunning)
	}
	s.Say(b.JobKey("b", 1), harness.Stored("s3://results/h", "h"))
	var all []starter.ReconciledTask
	harness.Until(t, time.Minute, "three are listed", func() bool {
		var err error
		all, err = b.Client.ReconcileAll(b.Ctx, starter.ReconcileRequest{Tasks: []string{"a", "b", "c"}, By: "ann"})
		require.NoError(t, err)
		return len(all) == 3
	})
	for i, want := range []struct {
		outside string
		did     domain.Reason
	}{{protocol.OutsideRunning, ""}, {protocol.OutsideEnded, domain.ReasonSucceeded}, {protocol.OutsideNotAsked, ""}} {
		require.Nil(t, all[i].Error)
		require.Equal(t, want.outside, all[i].Outside, "%+v", all[i])
		require.Equal(t, want.did, all[i].Did)
		require.True(t, all[i].Settled())
	}
	again, err := b.Client.ReconcileAll(b.Ctx, starter.ReconcileRequest{Tasks: []string{"a", "b", "c"}})
	require.NoError(t, err)
	for i, r := range again {
		require.Empty(t, r.Did)
		require.Equal(t, all[i].After.Version, r.After.Version)
	}
}

// A job whose workflow was terminated goes on, and nobody waits for it. Its host is
// found by its worker.
func TestOrphansAreFoundAndStopped(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 4*time.Minute), t, "tools: {nap: {exec: {argv: [sleep, '600'], killGrace: 1s}, ttl: 1h, poll: 200ms}}", nil)
	b.StartWorker()
	for _, id := range []string{"kept", "cut"} {
		b.Submit("nap", id)
		b.UntilState(id, domain.StateRunning)
	}
	require.NoError(t, b.Temporal.TerminateWorkflow(b.Ctx, b.WorkflowID("cut"), "", "a test"))
	c := b.NewClient(func(o *starter.Options) { o.Namespace, o.TaskQueue = "default", b.Config.TaskQueue })
	look := func(cancel bool) starter.Orphaned {
		out, err := c.Orphans(b.Ctx, starter.OrphansRequest{Cancel: cancel, Reason: "a test"})
		require.NoError(t, err)
		return out
	}
	var out starter.Orphaned
	harness.Until(t, 2*time.Minute, "the engine has heard of the worker", func() bool {
		out = look(false)
		return len(out.Orphans) == 1
	})
	require.Empty(t, out.Unlisted)
	require.Equal(t, "cut", out.Orphans[0].TaskID)
	require.Equal(t, starter.OrphanTerminated, out.Orphans[0].Why)
	require.Equal(t, 2, out.Looked)
	out = look(true)
	require.Len(t, out.Orphans, 1)
	require.True(t, out.Orphans[0].Cancelled, "%+v", out.Orphans[0].Error)
	harness.Until(t, time.Minute, "the job has stopped", func() bool { return len(look(false).Orphans) == 0 })
	require.Equal(t, domain.StateRunning, b.Describe("kept").Task.State)
	_, err := b.Client.Cancel(b.Ctx, "kept", protocol.Cancel{})
	require.NoError(t, err)
	b.UntilClosed("kept")
}
