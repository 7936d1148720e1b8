package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The standing check looks seldom, and more seldom the longer it waits.
const (
	watchEvery  = time.Minute
	watchAtMost = 10 * time.Minute
	// asksAtOnce is how many tasks are asked or told at a time.
	asksAtOnce = 8
	// maxFound is how large the ends that one look finds may be as JSON: half of what the
	// engine takes, for what stands beside them. The next look finds the others.
	maxFound = 1 << 20
)

// eachCall does something for each of a number of calls, some at a time. One that hangs
// has a quarter of the time and one place of several, and a repeat begins elsewhere, so
// that it doesn't keep the others from their turn.
func eachCall(ctx context.Context, n int, do func(ctx context.Context, i int)) {
	share := time.Duration(0)
	if until, bounded := ctx.Deadline(); bounded {
		share = time.Until(until) / 4
	}
	first := int(activity.GetInfo(ctx).Attempt) * asksAtOnce
	var wait sync.WaitGroup
	slots := make(chan struct{}, asksAtOnce)
	for k := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			one, stop := ctx, context.CancelFunc(func() {})
			if share > 0 {
				one, stop = context.WithTimeout(ctx, share)
			}
			defer stop()
			do(one, (first+k)%n)
		})
	}
	wait.Wait()
}

// CancelCalls tells tasks and runs what a run wants of them: to stop, or only that it
// waits no longer. All are told; the error is that of those that could not be, and all
// are told again. It doesn't heartbeat.
func (a *Activities) CancelCalls(ctx context.Context, req protocol.CancelCallsRequest) (protocol.CallsTold, error) {
	var told protocol.CallsTold
	if a.o.Calls == nil {
		return told, errNoCalls()
	}
	left, errs := make([]bool, len(req.Calls)), make([]error, len(req.Calls))
	eachCall(ctx, len(req.Calls), func(ctx context.Context, i int) {
		left[i], errs[i] = a.cancelCall(ctx, req.Calls[i])
	})
	for i, c := range req.Calls {
		if left[i] {
			told.Left = append(told.Left, c.Key)
		}
		errs[i] = ofCall(c.Key, errs[i])
	}
	return told, some(errs)
}

// ofCall names the call that an error is about.
func ofCall(k run.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("call %s of step %d: %w", k.ID, k.Step, err)
}

func errNoCalls() error {
	return temporal.NewNonRetryableApplicationError("this worker starts no tasks for runs", protocol.ErrTypeInvalid, nil)
}

func (a *Activities) cancelCall(ctx context.Context, c protocol.CancelTask) (left bool, err error) {
	switch {
	case c.SubRunID != "" && c.Detach:
		// A run that nobody waits for goes on; there is nothing to tell it.
		return false, nil
	case c.SubRunID != "":
		return false, a.o.Calls.CancelRun(ctx, c.SubRunID, protocol.Cancel{Reason: c.Reason, By: c.By})
	case c.TaskID == "":
		return false, nil
	case c.Detach:
		return false, a.o.Calls.Detach(ctx, c.TaskID, protocol.Detach{WaiterID: waiterOf(c.WaiterID), Reason: c.Reason})
	}
	// With the waiter's name only its own wish counts: a task that others share goes on.
	return a.o.Calls.Cancel(ctx, c.TaskID, protocol.Cancel{Reason: c.Reason, By: c.By, WaiterID: waiterOf(c.WaiterID)})
}

func waiterOf(id string) string {
	if id == "" {
		return domain.WaiterSubmitter
	}
	return id
}

// WatchCalls is the standing check of a run on what it waits for: it waits by failing
// with the delay until the next look, which costs no history, and ends when something
// has ended that the run may not have been told of. One that cannot be looked at hides
// nothing of the others; it is the error when nothing has ended. It doesn't heartbeat.
func (a *Activities) WatchCalls(ctx context.Context, req protocol.WatchCallsRequest) (protocol.CallsFound, error) {
	if a.o.Calls == nil {
		return protocol.CallsFound{}, errNoCalls()
	}
	ends, errs := make([]*protocol.CallFound, len(req.Calls)), make([]error, len(req.Calls))
	eachCall(ctx, len(req.Calls), func(ctx context.Context, i int) {
		c := req.Calls[i]
		seen, err := a.seen(ctx, c)
		if err != nil {
			errs[i] = ofCall(c.Key, err)
			return
		}
		if f, over := foundOf(c, seen); over {
			ends[i] = &f
		}
	})
	found := protocol.CallsFound{Ends: fitting(ends)}
	if len(found.Ends) > 0 {
		return found, nil
	}
	if err := some(errs); err != nil {
		return found, err
	}
	every := watchEvery
	if req.EveryMs > 0 {
		every = time.Duration(req.EveryMs) * time.Millisecond
	}
	age := time.Since(activity.GetInfo(ctx).ScheduledTime)
	return found, temporal.NewApplicationErrorWithOptions("all that the run waits for goes on", protocol.ErrTypeStillRunning,
		temporal.ApplicationErrorOptions{
			NextRetryDelay: min(max(age/10, every), max(watchAtMost, every)), Category: temporal.ApplicationErrorCategoryBenign,
		})
}

func (a *Activities) seen(ctx context.Context, c protocol.OpenCall) (protocol.Seen, error) {
	if c.SubRunID != "" {
		seen, err := a.o.Calls.Run(ctx, c.SubRunID)
		if err == nil && seen.Run != nil {
			rec := *seen.Run
			rec.Run.Final, err = a.small(ctx, rec.Run.Tenant, rec.Run.ID, rec.Run.Final)
			seen.Run = &rec
		}
		return seen, err
	}
	return a.o.Calls.Task(ctx, c.TaskID)
}

// foundOf is the end of a call as it is seen from outside; false means that it goes on.
func foundOf(c protocol.OpenCall, seen protocol.Seen) (protocol.CallFound, bool) {
	f := protocol.CallFound{Key: c.Key, AtMs: seen.AtMs}
	what := "task " + c.TaskID
	if c.SubRunID != "" {
		what = "run " + c.SubRunID
	}
	switch {
	case seen.Status == protocol.SeenOpen:
		return f, false
	case seen.Status == protocol.SeenTerminated:
		f.End = lost(run.CodeTaskTerminated, what+" was terminated from outside; what became of its work is not known")
	case seen.Status == protocol.SeenNone:
		f.End = lost(run.CodeTaskGone, what+" does not exist, or is not kept any more")
	case seen.Task != nil:
		f.Task, f.End = taskOf(*seen.Task), run.EndOfTask(*seen.Task)
	case seen.Run != nil:
		// Its final answer is small: see seen.
		f.End = run.EndOfRun(seen.Run.Run.State, seen.Run.Run.Final, seen.Run.Run.Error, seen.Run.Run.Usage)
	default:
		f.End = lost(run.CodeTaskGone, what+" has ended and left no record that can be read")
	}
	f.End.Error = clipped(f.End.Error)
	return f, true
}

// taskOf is what a run reads of the record of a task: who it is, and what
// [run.EndOfTask] makes an end of.
func taskOf(t domain.Task) *domain.Task {
	return &domain.Task{
		ID: t.ID, State: t.State, ResultRef: t.ResultRef, ResultHash: t.ResultHash, ContentType: t.ContentType, ResultBytes: t.ResultBytes,
		Error: clipped(t.Error), Cancel: t.Cancel, EndedAtMs: t.EndedAtMs,
	}
}

// fitting takes the ends that find room in one answer, at least one; the others stay. A
// run makes the end of a task from its record, so that the end need not stand beside it.
func fitting(ends []*protocol.CallFound) []protocol.CallFound {
	var fit []protocol.CallFound
	room := maxFound
	for i, e := range ends {
		if e == nil {
			continue
		}
		f := *e
		if f.Task != nil {
			f.End = run.End{}
		}
		if room -= jsonSize(f); room < 0 && len(fit) > 0 {
			return fit
		}
		fit = append(fit, f)
		ends[i] = nil
	}
	return fit
}

func lost(code, message string) run.End {
	return run.End{State: run.CallFailed, Error: &domain.TaskError{Code: code, Class: domain.ClassSystem, Severity: domain.SeverityCritical, Message: message}}
}

// InspectCalls compares what a run knows of its open calls with how things stand: it
// asks each task, and through it the outside. What it finds is told call by call; what
// has ended is for the run to take. Asking twice changes nothing. It heartbeats.
func (a *Activities) InspectCalls(ctx context.Context, req protocol.WatchCallsRequest) (protocol.CallsFound, error) {
	if a.o.Calls == nil {
		return protocol.CallsFound{}, errNoCalls()
	}
	defer beat(ctx)()
	found := protocol.CallsFound{Drift: make([]protocol.CallDrift, len(req.Calls))}
	ends := make([]*protocol.CallFound, len(req.Calls))
	eachCall(ctx, len(req.Calls), func(ctx context.Context, i int) {
		found.Drift[i], ends[i] = a.inspect(ctx, req, req.Calls[i])
	})
	found.Ends = fitting(ends)
	for i, left := range ends {
		if left != nil && found.Drift[i].Did == didTake {
			found.Drift[i].Did, found.Drift[i].Note = "", "it has ended; the next look takes its end"
		}
	}
	return found, ctx.Err()
}

func (a *Activities) inspect(ctx context.Context, req protocol.WatchCallsRequest, c protocol.OpenCall) (protocol.CallDrift, *protocol.CallFound) {
	d := protocol.CallDrift{Key: c.Key, Tool: c.Tool, TaskID: c.TaskID, SubRunID: c.SubRunID, Knew: c.State}
	if c.TaskID == "" && c.SubRunID == "" {
		d.Found = protocol.FoundNotBegun
		if c.State == run.CallApproval || c.State == run.CallAsking {
			d.Found = protocol.FoundAsks
		}
		return d, nil
	}
	seen, err := a.seen(ctx, c)
	if err != nil {
		d.Found, d.Note = protocol.FoundNoAnswer, cut(err.Error(), run.MaxText)
		return d, nil
	}
	if f, over := foundOf(c, seen); over {
		return a.foundEnded(req, d, f, seen), &f
	}
	// Its task knows more, and it is asked only when something may be done.
	d.Found = "open"
	if c.SubRunID != "" || req.DryRun {
		return d, nil
	}
	rec, err := a.o.Calls.Reconcile(ctx, c.TaskID, req.By)
	if err != nil {
		d.Note = cut(err.Error(), run.MaxText)
		return d, nil
	}
	d.Found, d.Outside, d.Did, d.Note = string(rec.After.State), rec.Outside, string(rec.Did), cut(rec.Note, run.MaxText)
	if !rec.After.State.Terminal() {
		return d, nil
	}
	// It has just ended; its signal is under way, and what is read here says the same.
	if seen, err = a.seen(ctx, c); err != nil {
		return d, nil
	}
	if f, over := foundOf(c, seen); over {
		d.Did = didTake
		return d, &f
	}
	d.Did = "its task is about to tell"
	return d, nil
}

// didTake says of a call that has ended that the run takes its end.
const didTake = "result taken"

func (a *Activities) foundEnded(req protocol.WatchCallsRequest, d protocol.CallDrift, f protocol.CallFound, seen protocol.Seen) protocol.CallDrift {
	d.Found = string(f.End.State)
	switch seen.Status {
	case protocol.SeenTerminated:
		d.Found = protocol.FoundTerminated
	case protocol.SeenNone:
		d.Found = protocol.FoundNoTask
	case protocol.SeenOpen, protocol.SeenEnded:
	}
	d.Did = didTake
	if req.DryRun {
		d.Did = ""
	}
	if f.End.Error != nil {
		d.Note = cut(f.End.Error.Error(), run.MaxText)
	}
	return d
}

// NotifyParent tells the run above what a run asks people, or how it ended. One that is
// closed or gone is an answer: there is nobody to retry for. A repeat is harmless.
func (a *Activities) NotifyParent(ctx context.Context, req protocol.NotifyParentRequest) (protocol.NotifyResult, error) {
	name, arg := protocol.SignalRunAsks, any(req.Asks)
	if req.Finished != nil {
		final, err := a.small(ctx, req.Tenant, req.Finished.SubRunID, req.Finished.Final)
		if err != nil {
			return protocol.NotifyResult{}, err
		}
		req.Finished.Final = final
		name, arg = protocol.SignalRunFinished, any(req.Finished)
	}
	err := a.o.Signals.SignalWorkflow(ctx, protocol.RunWorkflowID(req.Tenant, req.RunID), "", name, arg)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return protocol.NotifyResult{Receipt: protocol.ReceiptRunClosed}, nil
	case err != nil:
		return protocol.NotifyResult{}, err
	}
	return protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, nil
}

// small moves the final answer of a run that does the work of a call into the blob
// store, unless it is small: the run above may have many such calls.
func (a *Activities) small(ctx context.Context, tenant, runID string, c *run.Content) (*run.Content, error) {
	if c == nil || len(c.Data) <= run.MaxAnswer {
		return c, nil
	}
	if a.o.Contents == nil {
		return nil, stepio.ErrNoStore
	}
	ref, err := a.o.Contents.PutBytes(ctx, stepio.RunKey(tenant, runID), c.Data, "application/json")
	if err != nil {
		return nil, err
	}
	return &run.Content{Ref: ref.Ref, Hash: ref.Hash, Bytes: ref.Bytes, ContentType: "application/json"}, nil
}
