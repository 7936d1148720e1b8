package activities_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// end is how a task of an engine stands; the zero value is an open one.
type end struct {
	status enums.WorkflowExecutionStatus
	record protocol.TaskRecord
	// agent is the record of one that is a run.
	agent protocol.RunRecord
	// failure is what reading the record gives.
	failure error
	runID   string
}

// engine knows tasks and runs by their id and no others.
type engine struct {
	mu       sync.Mutex
	tasks    map[string]end
	runs     map[string]end
	closedAt time.Time
	down     error
	// before is told of every description before it is given.
	before func(taskID string, n int)
	asked  map[string]int
}

func (e *engine) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, errors.New("a sweep starts nothing")
}

func (e *engine) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	known, name, err := e.named(id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked[name]++
	if e.before != nil {
		e.before(name, e.asked[name])
	}
	if e.down != nil {
		return nil, e.down
	}
	t, ok := known()[strings.TrimPrefix(name, "run ")]
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	d := &client.WorkflowExecutionDescription{}
	d.Status, d.WorkflowExecution.RunID = enums.WORKFLOW_EXECUTION_STATUS_RUNNING, t.runID
	if t.status != 0 {
		d.Status, d.WorkflowCloseTime = t.status, &e.closedAt
	}
	return d, nil
}

// named tells a task from a run: that of run r counts as "run r".
func (e *engine) named(workflowID string) (known func() map[string]end, name string, err error) {
	if _, runID, err := protocol.ParseRunWorkflowID(workflowID); err == nil {
		return func() map[string]end { return e.runs }, "run " + runID, nil
	}
	_, taskID, err := protocol.ParseTaskWorkflowID(workflowID)
	return func() map[string]end { return e.tasks }, taskID, err
}

// endedRun is the run of an end.
type endedRun struct {
	client.WorkflowRun
	end
}

func (e *engine) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, name, _ := e.named(id)
	return endedRun{end: known()[strings.TrimPrefix(name, "run ")]}
}

func (r endedRun) Get(_ context.Context, into any) error {
	if r.failure != nil {
		return r.failure
	}
	switch into := into.(type) {
	case *protocol.TaskRecord:
		*into = r.record
	case *protocol.RunRecord:
		*into = r.agent
	default:
		return errors.New("this is no record")
	}
	return nil
}

// shelf is a store of results.
type shelf struct {
	blobs []store.Info
	// listErr comes after so many blobs.
	listErr   error
	listAfter int
	deleteErr error
	deleted   []string
	temporary []time.Time
}

func (s *shelf) List(_ context.Context, tenant, _ string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for i, b := range slices.Clone(s.blobs) {
			if s.listErr != nil && i == s.listAfter {
				yield(store.Info{}, s.listErr)
				return
			}
			if strings.HasPrefix(b.Ref, "blob:"+tenant+"/") && !yield(b, nil) {
				return
			}
		}
	}
}

func (s *shelf) Delete(_ context.Context, ref string) error {
	if s.deleteErr != nil {
		return s.deleteErr
	}
	s.blobs = slices.DeleteFunc(s.blobs, func(b store.Info) bool { return b.Ref == ref })
	s.deleted = append(s.deleted, strings.Split(ref, "/")[2])
	return nil
}

func (s *shelf) SweepTemporary(_ context.Context, before time.Time) (int, error) {
	s.temporary = append(s.temporary, before)
	return 0, nil
}

// sweeping is a bench with an engine and a shelf around it.
func sweeping(t *testing.T, tasks map[string]end) (*bench, *engine, *shelf) {
	t.Helper()
	b := setup(t)
	e := &engine{tasks: tasks, closedAt: b.now.Add(-4 * time.Hour), asked: map[string]int{}}
	s := &shelf{}
	b.o.Tasks, b.o.Stored = e, s
	b.o.Lifetimes = activities.Lifetimes{Result: 3 * time.Hour, Shortest: time.Hour, Longest: 5 * time.Hour}
	return b, e, s
}

// lay puts a result of each task on the shelf, of that age.
func (b *bench) lay(s *shelf, age time.Duration, taskIDs ...string) {
	for _, id := range taskIDs {
		s.blobs = append(s.blobs, store.Info{Ref: store.RefFor("acme", id, strings.Repeat("a", 64)), Bytes: 10, ModTime: b.now.Add(-age)})
	}
}

func (b *bench) sweepBlobs(in protocol.SweepInput) (protocol.SweepReport, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.SweepInput) (protocol.SweepReport, error) {
		return a.SweepBlobs
	}, in)
}

func (b *bench) sweepJobs(in protocol.SweepInput) (protocol.SweepReport, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.SweepInput) (protocol.SweepReport, error) {
		return a.SweepJobs
	}, in)
}

var acme = protocol.SweepInput{Tenant: "acme"}

const (
	completed = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	failed    = enums.WORKFLOW_EXECUTION_STATUS_FAILED
	cancelled = enums.WORKFLOW_EXECUTION_STATUS_CANCELED
	killed    = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// over is a task that ended so long ago.
func (b *bench) over(state domain.State, ago, ttl time.Duration) end {
	rec := protocol.TaskRecord{Task: domain.Task{State: state, EndedAtMs: b.now.Add(-ago).UnixMilli(), ResultTTLMs: ttl.Milliseconds()}}
	switch state {
	case domain.StateFailed:
		return end{status: failed, runID: "r", failure: temporal.NewNonRetryableApplicationError("it", protocol.ErrTypeTaskFailed, nil, rec)}
	case domain.StateExpired:
		return end{status: failed, runID: "r", failure: temporal.NewNonRetryableApplicationError("it", protocol.ErrTypeTaskExpired, nil, rec)}
	case domain.StateCancelled:
		return end{status: cancelled, runID: "r", failure: temporal.NewCanceledError(rec)}
	default:
		return end{status: completed, runID: "r", record: rec}
	}
}

// Every way in which a task can stand, each with an old result.
func TestSweepBlobs(t *testing.T) {
	t.Parallel()
	b, e, s := sweeping(t, nil)
	e.tasks = map[string]end{
		"done-long-ago":      b.over(domain.StateSucceeded, 3*time.Hour, 0),
		"done-lately":        b.over(domain.StateSucceeded, 2*time.Hour, 0),
		"done-for-short":     b.over(domain.StateSucceeded, 2*time.Hour, 90*time.Minute),
		"done-for-long":      b.over(domain.StateSucceeded, 4*time.Hour, 5*time.Hour),
		"failed-long-ago":    b.over(domain.StateFailed, 4*time.Hour, 0),
		"expired-long-ago":   b.over(domain.StateExpired, 4*time.Hour, 0),
		"cancelled-long-ago": b.over(domain.StateCancelled, 4*time.Hour, 0),
		"open":               {runID: "r"},
		"continued":          {runID: "r", status: enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW},
		"paused":             {runID: "r", status: enums.WORKFLOW_EXECUTION_STATUS_PAUSED},
		"killed-lately":      {runID: "r", status: killed, failure: &temporal.TerminatedError{}},
		"unreadable":         {runID: "r", status: completed, failure: errors.New("the data is encrypted")},
		"never-ended":        {runID: "r", status: completed},
	}
	ids := append(slices.Collect(maps.Keys(e.tasks)), "gone")
	slices.Sort(ids)
	b.lay(s, 6*time.Hour, ids...)
	b.lay(s, 4*time.Hour, "gone-lately")
	b.lay(s, time.Minute, "young")
	s.blobs = append(s.blobs, store.Info{Ref: store.RefFor("umbrella", "gone", strings.Repeat("a", 64)), ModTime: b.now.Add(-100 * time.Hour)})
	due := []string{"cancelled-long-ago", "done-for-short", "done-long-ago", "expired-long-ago", "failed-long-ago", "gone"}

	look, err := b.sweepBlobs(protocol.SweepInput{Tenant: "acme", DryRun: true})
	want := protocol.SweepReport{Looked: 16, Gone: 1, Outlived: 5, Bytes: 60, Failed: 2, LastError: look.LastError, EndedAtMs: b.now.UnixMilli()}
	if diff := cmp.Diff(want, look); err != nil || diff != "" || len(s.deleted)+len(s.temporary) > 0 {
		t.Errorf("looking: %v, deleted %q: %s", err, s.deleted, diff)
	}
	b.heartbeat = nil
	got, err := b.sweepBlobs(acme)
	want.Deleted, want.LastError = 6, got.LastError
	if diff := cmp.Diff(want, got); err != nil || diff != "" || !strings.Contains(got.LastError, "encrypted") {
		t.Errorf("%v, %s: %s", err, got.LastError, diff)
	}
	if diff := cmp.Diff(due, s.deleted); diff != "" {
		t.Errorf("deleted: %s", diff)
	}
	if e.asked["young"] > 0 {
		t.Error("a result that cannot be due was looked up")
	}
	if len(s.temporary) != 1 || !s.temporary[0].Equal(b.now.Add(-time.Hour)) {
		t.Errorf("unfinished writes: %v", s.temporary)
	}
	// A workflow that was terminated lives from its close on, as long as any tool says.
	e.closedAt = b.now.Add(-5 * time.Hour)
	b.heartbeat = nil
	if got, err := b.sweepBlobs(acme); err != nil || got.Deleted != 1 || s.deleted[6] != "killed-lately" {
		t.Errorf("%+v, %v, deleted %q", got, err, s.deleted)
	}
}

// A task of several attempts has several results: one look-up is for all.
func TestSweepBlobsOfOneTask(t *testing.T) {
	t.Parallel()
	b, e, s := sweeping(t, nil)
	e.tasks = map[string]end{"a": {runID: "r"}}
	for _, hash := range []string{"a", "b", "c"} {
		s.blobs = append(s.blobs, store.Info{Ref: store.RefFor("acme", "a", strings.Repeat(hash, 64)), ModTime: b.now.Add(-9 * time.Hour)})
	}
	if got, err := b.sweepBlobs(acme); err != nil || got.Looked != 3 || got.Deleted != 0 || e.asked["a"] != 1 {
		t.Errorf("%+v, %v, asked %d times", got, err, e.asked["a"])
	}
}

// A try that is cut off, by an engine that is away or by a store that lists no
// further, has deleted only what is due, and the next try goes on where it was.
func TestSweepBlobsGoesOn(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct{ cut, mend func(*engine, *shelf) }{
		"the engine is away": {
			func(e *engine, _ *shelf) {
				e.before = func(taskID string, _ int) {
					if taskID == "c" {
						e.down = serviceerror.NewUnavailable("away")
					}
				}
			},
			func(e *engine, _ *shelf) { e.before, e.down = nil, nil },
		},
		"the namespace is gone": {
			func(e *engine, _ *shelf) {
				e.before = func(taskID string, _ int) {
					if taskID == "c" {
						e.down = serviceerror.NewNamespaceNotFound("default")
					}
				}
			},
			func(e *engine, _ *shelf) { e.before, e.down = nil, nil },
		},
		"the record is not given": {
			func(e *engine, _ *shelf) {
				e.tasks["c"] = end{status: completed, runID: "r", failure: serviceerror.NewUnavailable("away")}
			},
			func(e *engine, _ *shelf) { delete(e.tasks, "c") },
		},
		"the list breaks off": {
			func(_ *engine, s *shelf) { s.listErr, s.listAfter = errors.New("connection reset"), 3 },
			func(_ *engine, s *shelf) { s.listErr = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, e, s := sweeping(t, map[string]end{"b": {runID: "r"}})
			b.lay(s, 9*time.Hour, "a", "b", "c", "d")
			trouble.cut(e, s)
			if _, err := b.sweepBlobs(acme); err == nil || failure(t, err).NonRetryable() {
				t.Fatalf("%v", err)
			}
			if !slices.Equal(s.deleted, []string{"a"}) {
				t.Fatalf("deleted %q", s.deleted)
			}
			trouble.mend(e, s)
			got, err := b.sweepBlobs(acme)
			want := protocol.SweepReport{Looked: 4, Deleted: 3, Gone: 3, Bytes: 30, EndedAtMs: b.now.UnixMilli()}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
			if !slices.Equal(s.deleted, []string{"a", "c", "d"}) || e.asked["b"] != 1 {
				t.Errorf("deleted %q, asked for b %d times", s.deleted, e.asked["b"])
			}
		})
	}
}

// A store that does not delete fails nothing but the sweep of that result.
func TestSweepBlobsThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	b, _, s := sweeping(t, nil)
	b.lay(s, 9*time.Hour, "a", "b")
	s.deleteErr = errors.New("read-only")
	if got, err := b.sweepBlobs(acme); err != nil || got.Failed != 2 || got.Deleted != 0 || got.Gone != 0 || got.LastError != "read-only" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A task that appears, or is retried, between the look and the deletion keeps all.
func TestSweepBlobsOfATaskThatComesBack(t *testing.T) {
	t.Parallel()
	for name, was := range map[string]func(*bench) (end, bool){
		"retried":        func(b *bench) (end, bool) { return b.over(domain.StateFailed, 9*time.Hour, 0), true },
		"submitted anew": func(*bench) (end, bool) { return end{}, false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, e, s := sweeping(t, map[string]end{})
			if before, ok := was(b); ok {
				e.tasks["a"] = before
			}
			b.lay(s, 9*time.Hour, "a")
			e.before = func(taskID string, n int) {
				if n == 2 {
					e.tasks[taskID] = end{runID: "r2"}
				}
			}
			if got, err := b.sweepBlobs(acme); err != nil || got.Deleted != 0 || e.asked["a"] != 2 || len(s.deleted) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in     protocol.SweepInput
		change func(*activities.Options)
	}{
		"no tenant": {protocol.SweepInput{}, func(*activities.Options) {}},
		"all":       {protocol.SweepInput{Tenant: "../x"}, func(*activities.Options) {}},
		"no store":  {acme, func(o *activities.Options) { o.Stored = nil }},
		"no engine": {acme, func(o *activities.Options) { o.Tasks = nil }},
	} {
		b, _, s := sweeping(t, nil)
		b.lay(s, 9*time.Hour, "a")
		tc.change(&b.o)
		for _, sweep := range []func(protocol.SweepInput) (protocol.SweepReport, error){b.sweepBlobs, b.sweepJobs} {
			if _, err := sweep(tc.in); err == nil || !failure(t, err).NonRetryable() || len(s.deleted) > 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
