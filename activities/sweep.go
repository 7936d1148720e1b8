package activities

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Stored is the store of results as a sweep needs it; [store.Store] is one.
type Stored interface {
	List(ctx context.Context, tenant, taskID string) iter.Seq2[store.Info, error]
	Delete(ctx context.Context, ref string) error
	SweepTemporary(ctx context.Context, before time.Time) (int, error)
}

// maxGroup bounds how many blobs of one task or run are in memory at a time.
const maxGroup = 1000

// SweepBlobs deletes the results of tasks and the contents of runs of a tenant whose task
// or run is gone or whose lifetime is over, and what crashes in the middle of storing
// left behind. It heartbeats where it is, so that the next try goes on from there; it is
// safe to repeat, because what it deleted is not listed any more. An engine that gives
// no answer ends the try: nothing is deleted of which it is not known what became of its
// task or run.
func (a *Activities) SweepBlobs(ctx context.Context, req protocol.SweepInput) (protocol.SweepReport, error) {
	s, err := a.sweeper(ctx, req)
	if err != nil {
		return protocol.SweepReport{}, err
	}
	defer s.beat(ctx)()
	if err := s.blobs(ctx); err != nil {
		return protocol.SweepReport{}, err
	}
	if !req.DryRun {
		if _, err := a.o.Stored.SweepTemporary(ctx, a.o.Now().Add(-safetyAge)); err != nil {
			s.failed(err)
		}
	}
	return s.report(ctx)
}

// sweeper is one sweep.
type sweeper struct {
	a   *Activities
	req protocol.SweepInput

	mu sync.Mutex
	at sweepMark
}

// sweepMark is where a sweep stands, in its heartbeat details.
type sweepMark struct {
	// Cursor is the last reference that was seen to, or the page of the list of jobs
	// of Tool.
	Cursor string               `json:"cursor,omitempty"`
	Tool   string               `json:"tool,omitempty"`
	Report protocol.SweepReport `json:"report"`
}

func (a *Activities) sweeper(ctx context.Context, req protocol.SweepInput) (*sweeper, error) {
	if err := domain.CheckTenant(req.Tenant); err != nil {
		// Without a tenant the store lists everybody's.
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), protocol.ErrTypeInvalid, err)
	}
	if a.o.Stored == nil || a.o.Tasks == nil {
		return nil, temporal.NewNonRetryableApplicationError("this worker sweeps nothing", protocol.ErrTypeInvalid, nil)
	}
	s := &sweeper{a: a, req: req}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &s.at); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// beat heartbeats where the sweep is until it is stopped: one page of a list may take
// longer than the heartbeat time-out.
func (s *sweeper) beat(ctx context.Context) (stop func()) {
	return beatBy(ctx, func() []any { return []any{s.mark()} })
}

func (s *sweeper) mark() sweepMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// set changes where the sweep stands.
func (s *sweeper) set(change func(at *sweepMark)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.at)
}

func (s *sweeper) failed(err error) {
	s.set(func(at *sweepMark) {
		at.Report.Failed++
		at.Report.LastError = cut(err.Error(), domain.MaxErrorText)
	})
}

// count takes down what is due, and whether it was deleted.
func (s *sweeper) count(why due, bytes int64) {
	s.set(func(at *sweepMark) {
		switch why {
		case dueGone:
			at.Report.Gone++
		case dueOutlived:
			at.Report.Outlived++
		case dueNot:
			return
		}
		at.Report.Bytes += bytes
		if !s.req.DryRun {
			at.Report.Deleted++
		}
	})
}

func (s *sweeper) report(ctx context.Context) (protocol.SweepReport, error) {
	r := s.mark().Report
	r.EndedAtMs = s.a.o.Now().UnixMilli()
	return r, ctx.Err()
}

// blobs goes through what is stored, that of one task or run together. Stores list it
// so; one that does not only costs more look-ups.
func (s *sweeper) blobs(ctx context.Context) error {
	var group []store.Info
	var of owner
	done := s.mark().Cursor
	for info, err := range s.a.o.Stored.List(ctx, s.req.Tenant, "") {
		if err != nil {
			return err
		}
		ref, err := blobref.Parse(info.Ref)
		if err != nil || ref.Tenant != s.req.Tenant {
			continue // none of ours
		}
		if info.Ref <= done {
			// Of an earlier try. What a store lists in another order is left to the
			// next sweep.
			continue
		}
		kind, id := ref.Owner()
		if o := (owner{kind, id}); o != of || len(group) == maxGroup {
			if err := s.group(ctx, of, group); err != nil {
				return err
			}
			group, of = group[:0], o
		}
		group = append(group, info)
	}
	return s.group(ctx, of, group)
}

// group decides about blobs of one task or run.
func (s *sweeper) group(ctx context.Context, of owner, all []store.Info) error {
	if len(all) == 0 {
		return nil
	}
	var old []store.Info
	now := s.a.o.Now()
	for _, b := range all {
		if !s.a.o.Lifetimes.young(b.ModTime, now) {
			old = append(old, b)
		}
	}
	if len(old) > 0 {
		if err := s.old(ctx, of, old, now); err != nil {
			return err
		}
	}
	s.set(func(at *sweepMark) {
		at.Report.Looked += len(all)
		at.Cursor = all[len(all)-1].Ref
	})
	activity.RecordHeartbeat(ctx, s.mark())
	return nil
}

// old decides about blobs that may be due.
func (s *sweeper) old(ctx context.Context, of owner, old []store.Info, now time.Time) error {
	f, err := s.a.fateOf(ctx, s.req.Tenant, of)
	if err != nil {
		return s.unclear(ctx, err)
	}
	for _, b := range old {
		why := f.blob(of, s.a.o.Lifetimes, b.ModTime, now)
		if why == dueNot {
			continue
		}
		if !s.req.DryRun {
			if sure, err := s.a.unchanged(ctx, s.req.Tenant, of, f); err != nil || !sure {
				return err
			}
			if err := s.a.o.Stored.Delete(ctx, b.Ref); err != nil {
				s.failed(err)
				continue
			}
		}
		s.count(why, b.Bytes)
	}
	return nil
}

// unclear passes on that the engine gave no answer. A record that cannot be read is
// another matter: it will not be readable at the next try either.
func (s *sweeper) unclear(ctx context.Context, err error) error {
	var unreadable *unreadableError
	if ctx.Err() == nil && errors.As(err, &unreadable) {
		s.failed(err)
		return nil
	}
	return err
}

// unreadableError is a closed workflow whose record cannot be read.
type unreadableError struct {
	owner owner
	err   error
}

func (e *unreadableError) Error() string {
	return "read the record of " + e.owner.String() + ": " + e.err.Error()
}

func (e *unreadableError) Unwrap() error { return e.err }

// fateOf asks the engine what became of a task or a run. An error says that this is not
// known.
func (a *Activities) fateOf(ctx context.Context, tenant string, o owner) (fate, error) {
	d, err := a.o.Tasks.DescribeWorkflow(ctx, o.workflowID(tenant), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return fate{gone: true}, nil
	case err != nil:
		return fate{}, err
	}
	f := fate{runID: d.WorkflowExecution.RunID}
	switch d.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, enums.WORKFLOW_EXECUTION_STATUS_FAILED, enums.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
	default:
		return f, nil // open, or of a state that is younger than this program
	}
	if d.WorkflowCloseTime == nil {
		return f, nil
	}
	read := a.ofTaskRecord
	if o.kind == blobref.KindRun {
		read = a.ofRunRecord
	}
	end, found, err := read(ctx, a.o.Tasks.GetWorkflow(ctx, o.workflowID(tenant), f.runID))
	switch {
	case err != nil && noAnswer(ctx, err):
		return fate{}, err
	case err != nil:
		return fate{}, &unreadableError{o, err}
	case !found:
		// It left no record, because it was terminated.
		f.closed, f.until = true, d.WorkflowCloseTime.Add(a.o.Lifetimes.unrecorded(o))
		return f, nil
	case end.untilMs == 0:
		return fate{}, &unreadableError{o, errors.New("it has not ended")}
	}
	f.closed, f.until, f.retryable = true, time.UnixMilli(end.untilMs), end.retryable
	return f, nil
}

// ending is what a record says about the end of a task or a run.
type ending struct {
	// untilMs is when the lifetime of what it left is over; 0 if it has not ended.
	untilMs   int64
	retryable bool
}

func (a *Activities) ofTaskRecord(ctx context.Context, w client.WorkflowRun) (ending, bool, error) {
	var rec protocol.TaskRecord
	found, err := recordOf(ctx, w, &rec, protocol.RecordFrom)
	return ending{rec.Task.KeptUntilMs(a.o.Lifetimes.Result.Milliseconds()), rec.Task.State != domain.StateSucceeded}, found, err
}

func (a *Activities) ofRunRecord(ctx context.Context, w client.WorkflowRun) (ending, bool, error) {
	var rec protocol.RunRecord
	found, err := recordOf(ctx, w, &rec, protocol.RunRecordFrom)
	e := ending{retryable: rec.Run.State == run.StateFailed || rec.Run.State == run.StateExpired}
	if rec.Run.EndedAtMs > 0 {
		e.untilMs = rec.Run.EndedAtMs + a.o.Lifetimes.Result.Milliseconds()
	}
	return e, found, err
}

// recordOf reads the record of a closed workflow. False means that it left none.
func recordOf[T any](ctx context.Context, w client.WorkflowRun, rec *T, from func(error, *T) (bool, error)) (bool, error) {
	err := w.Get(ctx, rec)
	switch {
	case err == nil:
		return true, nil
	case noAnswer(ctx, err) || !endOfRun(err):
		return false, err
	}
	return from(err, rec)
}

// endOfRun tells how a run closed from a failure to find out.
func endOfRun(err error) bool {
	var (
		app      *temporal.ApplicationError
		canceled *temporal.CanceledError
		killed   *temporal.TerminatedError
		late     *temporal.TimeoutError
	)
	return errors.As(err, &app) || errors.As(err, &canceled) || errors.As(err, &killed) || errors.As(err, &late)
}

// noAnswer tells an engine that could not be asked from an answer that is no record.
func noAnswer(ctx context.Context, err error) bool {
	var engine serviceerror.ServiceError
	return ctx.Err() != nil || errors.As(err, &engine) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// unchanged asks once more right before something is deleted: a task or a run that was
// retried or submitted anew meanwhile may need it.
func (a *Activities) unchanged(ctx context.Context, tenant string, o owner, before fate) (bool, error) {
	d, err := a.o.Tasks.DescribeWorkflow(ctx, o.workflowID(tenant), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		// Its retention has ended just now, if it was there before.
		return true, nil
	case err != nil:
		return false, err
	}
	return before.closed && d.WorkflowExecution.RunID == before.runID, nil
}
