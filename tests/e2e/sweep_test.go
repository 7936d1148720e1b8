package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// swept runs a sweep of the results and of the jobs of the bed's host.
func (b bed) swept(dryRun bool) (results, jobs protocol.SweepReport) {
	b.T.Helper()
	all, err := b.Client.Sweep(b.Ctx, starter.SweepRequest{Hosts: []string{b.Options.Host}, DryRun: dryRun})
	require.NoError(b.T, err)
	require.Len(b.T, all, 2)
	for _, s := range all {
		require.Nil(b.T, s.Error, "%+v", s)
		require.Zero(b.T, s.Report.Failed, "%+v", s)
	}
	require.Empty(b.T, all[0].Host)
	require.Equal(b.T, b.Options.Host, all[1].Host)
	return all[0].Report, all[1].Report
}

// done runs a task to its end with a result in the store, and gives where that lies.
func (b bed) done(tool, id string) *starter.Result {
	b.T.Helper()
	b.Submit(tool, id)
	if tool != "build" {
		b.Callback(id, "end", domain.Event{Type: domain.EventSucceed, Result: []byte(`"of ` + id + `"`)})
	}
	b.UntilClosed(id)
	r, err := b.Client.Result(b.Ctx, id)
	require.NoError(b.T, err)
	return r
}

// age makes a stored result older than it is.
func (b bed) age(r *starter.Result, by time.Duration) {
	b.T.Helper()
	at := time.Now().Add(-by)
	require.NoError(b.T, os.Chtimes(filepath.Join(b.Config.Dir, "blobs", b.Config.Tenant, "task", r.TaskID, r.Hash), at, at))
}

// TestResultsAndLogsAreSwept: a result and a log go when their lifetime is over, a
// result whose task is gone some time later, and what an open task has stays.
func TestResultsAndLogsAreSwept(t *testing.T) {
	t.Parallel()
	e, err := harness.StartEngine(t.TempDir(), "--retention", "45s")
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	b := bed{harness.NewBed(within(t, 5*time.Minute), t, e, `
resultTTL: 1h
tools:
  brief: {executor: external}
  long: {executor: external, ttl: 1h}
  build: {exec: {argv: [echo, built]}, poll: 100ms}
`, nil)}
	const short = 3 * time.Second // a file may not say less than a minute
	for i, tool := range b.Config.Tools {
		if tool.Name != "long" {
			b.Config.Tools[i].ResultTTL = short
		}
	}
	b.StartWorker()
	open := starter.Result{TaskID: "open"}
	b.Submit("long", open.TaskID)
	put, err := b.Store.PutBytes(b.Ctx, store.Key{Tenant: b.Config.Tenant, TaskID: open.TaskID}, []byte("half of it"), "text/plain")
	require.NoError(t, err)
	open.Ref, open.Hash = put.Ref, put.Hash
	long, brief := b.done("long", "long"), b.done("brief", "brief")
	b.done("build", "build")
	require.Equal(t, short.Milliseconds(), brief.KeptUntilMs-b.Describe("brief").Task.EndedAtMs)
	require.NotEmpty(t, b.log("build"))

	// Not from the ends on: a result is stored some time after the end of its job.
	over := time.Now().Add(short).UnixMilli()
	harness.Until(t, time.Minute, "the lifetime is over", func() bool { return time.Now().UnixMilli() > over })
	b.age(&open, 2*time.Hour)
	for _, dryRun := range []bool{true, true, false} {
		results, jobs := b.swept(dryRun)
		deleted := map[bool]int{false: 1}[dryRun]
		require.Equal(t, []int{4, 0, 2, 2 * deleted}, []int{results.Looked, results.Gone, results.Outlived, results.Deleted}, "%+v", results)
		require.Equal(t, []int{1, 0, 1, deleted}, []int{jobs.Looked, jobs.Gone, jobs.Outlived, jobs.Deleted}, "%+v", jobs)
	}
	for _, id := range []string{"brief", "build"} {
		_, err := b.Client.Result(b.Ctx, id)
		require.ErrorIs(t, err, starter.ErrResultExpired)
	}
	require.Empty(t, b.log("build"))
	_, err = b.Client.Result(b.Ctx, "long")
	require.NoError(t, err)
	results, jobs := b.swept(false)
	require.Equal(t, []int{2, 0, 0, 0}, []int{results.Looked, results.Deleted, jobs.Looked, jobs.Deleted}, "a second sweep found %+v and %+v", results, jobs)

	harness.Until(t, 3*time.Minute, "the retention is over", func() bool {
		_, err := b.Client.Describe(b.Ctx, "long")
		return errors.Is(err, starter.ErrUnknownTask)
	})
	results, _ = b.swept(false)
	require.Zero(t, results.Deleted, "a result is kept for as long as if its task had just ended")
	b.age(long, 2*time.Hour)
	results, _ = b.swept(false)
	require.Equal(t, []int{2, 1, 1}, []int{results.Looked, results.Gone, results.Deleted}, "%+v", results)
	_, err = b.Store.Stat(b.Ctx, long.Ref)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = b.Store.Stat(b.Ctx, open.Ref)
	require.NoError(t, err, "what an open task has stays")
}

// log is what can be read of a task's log.
func (b bed) log(id string) string {
	b.T.Helper()
	var text string
	for chunk, err := range b.Client.Logs(b.Ctx, id, starter.LogRequest{}) {
		if errors.Is(err, starter.ErrNoLogs) {
			return ""
		}
		require.NoError(b.T, err)
		text += string(chunk.Data)
	}
	return text
}

// TestSweepsAreScheduled: a worker makes the schedules of its tenant and host, a
// later one brings them to another interval and leaves what a person did to them.
func TestSweepsAreScheduled(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, "sweep: {every: 3h}\ntools:\n  build: {exec: {argv: [echo, built]}}\n", nil)
	schedules := b.Temporal.ScheduleClient()
	every := func(host string) time.Duration {
		d, err := schedules.GetHandle(b.Ctx, protocol.SweepScheduleID(b.Config.Tenant, host)).Describe(b.Ctx)
		if err != nil || len(d.Schedule.Spec.Intervals) != 1 {
			return 0
		}
		return d.Schedule.Spec.Intervals[0].Every
	}
	b.StartWorker()
	for _, host := range []string{"", b.Options.Host} {
		harness.Until(t, time.Minute, "the schedule of "+host, func() bool { return every(host) == 3*time.Hour })
	}
	h := schedules.GetHandle(b.Ctx, protocol.SweepScheduleID(b.Config.Tenant, b.Options.Host))
	require.NoError(t, h.Trigger(b.Ctx, client.ScheduleTriggerOptions{}))
	var ran client.ScheduleActionResult
	harness.Until(t, time.Minute, "the sweep has begun", func() bool {
		d, err := h.Describe(b.Ctx)
		if err != nil || len(d.Info.RecentActions) == 0 {
			return false
		}
		ran = d.Info.RecentActions[0]
		return ran.StartWorkflowResult != nil
	})
	var report protocol.SweepReport
	require.NoError(t, b.Temporal.GetWorkflow(b.Ctx, ran.StartWorkflowResult.WorkflowID, "").Get(b.Ctx, &report))
	require.NotZero(t, report.EndedAtMs)

	require.NoError(t, h.Pause(b.Ctx, client.SchedulePauseOptions{Note: "not now"}))
	b.StopWorker()
	b.Config.SweepEvery = 5 * time.Hour
	b.StartWorker()
	for _, host := range []string{"", b.Options.Host} {
		harness.Until(t, time.Minute, "another interval for "+host, func() bool { return every(host) == 5*time.Hour })
	}
	d, err := h.Describe(b.Ctx)
	require.NoError(t, err)
	require.True(t, d.Schedule.State.Paused)
	require.Equal(t, "not now", d.Schedule.State.Note)
	require.Equal(t, enums.SCHEDULE_OVERLAP_POLICY_SKIP, d.Schedule.Policy.Overlap)
}
