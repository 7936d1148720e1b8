package activities_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	agent "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// overRun is a run that ended so long ago.
func (b *bench) overRun(state agent.State, ago time.Duration) end {
	rec := protocol.RunRecord{Run: agent.Run{State: state, EndedAtMs: b.now.Add(-ago).UnixMilli()}}
	switch state {
	case agent.StateFailed:
		return end{status: failed, runID: "r", failure: temporal.NewNonRetryableApplicationError("it", protocol.ErrTypeRunFailed, nil, rec)}
	case agent.StateExpired:
		return end{status: failed, runID: "r", failure: temporal.NewNonRetryableApplicationError("it", protocol.ErrTypeRunExpired, nil, rec)}
	case agent.StateCancelled:
		return end{status: cancelled, runID: "r", failure: temporal.NewCanceledError(rec)}
	default:
		return end{status: completed, runID: "r", agent: rec}
	}
}

// layRuns puts a content of each run on the shelf, that old.
func (b *bench) layRuns(s *shelf, age time.Duration, ids ...string) {
	for _, id := range ids {
		s.blobs = append(s.blobs, store.Info{Ref: blobref.ForRun("acme", id, strings.Repeat("a", 64)), Bytes: 10, ModTime: b.now.Add(-age)})
	}
}

// Every way in which a run can stand, each with old content. The lifetime is the
// installation's, whatever the tools say.
func TestSweepBlobsOfRuns(t *testing.T) {
	t.Parallel()
	b, e, s := sweeping(t, nil)
	e.runs = map[string]end{
		"done-long-ago":      b.overRun(agent.StateSucceeded, 3*time.Hour),
		"done-lately":        b.overRun(agent.StateSucceeded, 3*time.Hour-time.Minute),
		"cancelled-long-ago": b.overRun(agent.StateCancelled, 4*time.Hour),
		"failed-long-ago":    b.overRun(agent.StateFailed, 400*time.Hour),
		"expired-long-ago":   b.overRun(agent.StateExpired, 400*time.Hour),
		"open":               {runID: "r"},
		"continued":          {runID: "r", status: enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW},
		"killed-long-ago":    {runID: "r", status: killed, failure: &temporal.TerminatedError{}},
		"unreadable":         {runID: "r", status: completed, failure: errors.New("the data is encrypted")},
		"never-ended":        {runID: "r", status: completed},
		"of-a-task":          {runID: "r", status: failed, failure: b.over(domain.StateFailed, 4*time.Hour, 0).failure},
	}
	e.closedAt = b.now.Add(-3 * time.Hour)
	ids := append(slices.Collect(maps.Keys(e.runs)), "gone")
	slices.Sort(ids)
	b.layRuns(s, 6*time.Hour, ids...)
	b.layRuns(s, 4*time.Hour, "gone-lately")
	b.layRuns(s, time.Minute, "young")
	want := protocol.SweepReport{Looked: 14, Deleted: 5, Gone: 1, Outlived: 4, Bytes: 50, Failed: 2, EndedAtMs: b.now.UnixMilli()}

	got, err := b.sweepBlobs(acme)
	want.LastError = got.LastError
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if !strings.Contains(got.LastError, "record of run unreadable: the data is encrypted") {
		t.Errorf("the last error is %s", got.LastError)
	}
	if diff := cmp.Diff([]string{"cancelled-long-ago", "done-long-ago", "gone", "killed-long-ago", "of-a-task"}, s.deleted); diff != "" {
		t.Errorf("deleted: %s", diff)
	}
	if e.asked["run young"] > 0 {
		t.Error("content that cannot be due was looked up")
	}
}

// A task and a run of the same id are two: the fate of one says nothing of the other.
func TestSweepTellsRunsFromTasks(t *testing.T) {
	t.Parallel()
	b, e, s := sweeping(t, map[string]end{"a": {runID: "r"}})
	e.runs = map[string]end{"a": b.overRun(agent.StateSucceeded, 9*time.Hour), "b": {runID: "r"}}
	b.layRuns(s, 9*time.Hour, "a", "b")
	b.lay(s, 9*time.Hour, "a", "b")
	got, err := b.sweepBlobs(acme)
	if err != nil || got.Looked != 4 || got.Outlived != 1 || got.Gone != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	var left []string
	for _, info := range s.blobs {
		ref, err := blobref.Parse(info.Ref)
		if err != nil {
			t.Fatal(err)
		}
		kind, id := ref.Owner()
		left = append(left, string(kind)+" "+id)
	}
	if diff := cmp.Diff([]string{"run b", "task a"}, left); diff != "" {
		t.Errorf("left: %s", diff)
	}
}

// A run that is started anew between the look and the deletion keeps all.
func TestSweepBlobsOfARunThatComesBack(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"started anew": true, "its retention was over": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, e, s := sweeping(t, nil)
			e.runs = map[string]end{}
			if known {
				e.runs["a"] = b.overRun(agent.StateCancelled, 9*time.Hour)
			}
			b.layRuns(s, 9*time.Hour, "a")
			e.before = func(id string, n int) {
				if n == 2 {
					e.runs["a"] = end{runID: "r2"}
				}
			}
			if got, err := b.sweepBlobs(acme); err != nil || got.Deleted != 0 || e.asked["run a"] != 2 || len(s.deleted) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
