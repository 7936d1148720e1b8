package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// task is the run of an AsyncTask in memory. All of it follows from the
// history; nothing is kept elsewhere.
type task struct {
	// root is cancelled when somebody cancels the workflow in the Temporal UI.
	root workflow.Context
	// ctx is not: what the task has to do, it still does then.
	ctx workflow.Context
	in  protocol.TaskInput
	log log.Logger

	t        domain.Task
	ledger   *domain.Ledger
	outbox   domain.Outbox
	handle   *protocol.Handle
	unstored []protocol.Blob
	targets  []string
	rejected *protocol.Rejected

	signals workflow.ReceiveChannel
	// woken says that something happened since the loop last looked.
	woken bool
	// cancelSeen says that the workflow's own cancellation has been read.
	cancelSeen bool
	// askedAtDeadline says that the outside was asked before the task expires.
	askedAtDeadline bool
	// cancelSent is the attempt whose outside job was told to stop.
	cancelSent int
	stateShown domain.State

	timer  alarm
	submit job
	probe  job
	lease  job
	ask    job
	stop   job
}

// AsyncTask is one durable task. It ends Completed with its record when the
// task succeeded, Canceled when it was cancelled and Failed when it failed or
// expired, with the record in the error's details.
func AsyncTask(ctx workflow.Context, in protocol.TaskInput) (*protocol.TaskRecord, error) {
	r, err := newTask(ctx, in)
	if err != nil {
		return nil, asApplicationError(err)
	}
	if err := r.openDoors(); err != nil {
		return nil, err
	}
	for {
		r.drain()
		r.readCancellation()
		r.readClock()
		plan := domain.Next(r.t, r.nowMs())
		r.carryOut(plan)
		r.settle()
		if plan.Close && r.ended() {
			return r.close()
		}
		if r.shouldContinue() {
			return nil, r.continueAsNew()
		}
		// The condition is the whole of what can wake a task; it costs nothing
		// while it is false.
		if err := workflow.Await(r.ctx, r.somethingHappened); err != nil {
			return nil, err
		}
		r.woken = false
	}
}

func newTask(ctx workflow.Context, in protocol.TaskInput) (*task, error) {
	info := workflow.GetInfo(ctx)
	free, _ := workflow.NewDisconnectedContext(ctx)
	r := &task{
		root: ctx, ctx: free, in: in, log: workflow.GetLogger(ctx), ledger: &domain.Ledger{}, targets: in.Targets,
		signals: workflow.GetSignalChannel(ctx, protocol.SignalCallback),
	}
	if c := in.Carry; c != nil {
		r.t, r.outbox, r.handle, r.unstored, r.cancelSent = c.Task, c.Outbox, c.Handle, c.Unstored, c.CancelSent
		if c.Ledger != nil {
			r.ledger = c.Ledger
		}
		if c.Targets != nil {
			r.targets = c.Targets
		}
		if c.Retry != nil {
			r.cancelSent = 0
			if _, err := r.apply(retryEvent(*c.Retry, info.WorkflowStartTime.UnixMilli())); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	create := in.Create
	if create.NowMs == 0 || !create.Policy.TrustTimes {
		// The time to live runs from the submission, also when the first
		// worker comes an hour later.
		create.NowMs = info.WorkflowStartTime.UnixMilli()
	}
	t, err := domain.New(create)
	r.t, r.stateShown = t, t.State
	return r, err
}

func (r *task) nowMs() int64 { return workflow.Now(r.ctx).UnixMilli() }

// wake makes the loop look again.
func (r *task) wake() { r.woken = true }

func (r *task) somethingHappened() bool {
	return r.woken || r.signals.Len() > 0 || (r.root.Err() != nil && !r.cancelSeen)
}

// apply lets an event of our own happen.
func (r *task) apply(e domain.Event) (domain.Transition, error) {
	tr, err := domain.Apply(r.t, e)
	if err != nil {
		r.log.Error("an event of our own was refused", "event", e.Type, "error", err)
		return tr, err
	}
	r.take(tr)
	return tr, nil
}

// take makes the outcome of an event the task's new state.
func (r *task) take(tr domain.Transition) {
	r.t = tr.Task
	if tr.Notification != nil {
		r.outbox.Add(*tr.Notification)
	}
	if tr.Changed {
		r.wake()
		r.show()
	}
}

// drain applies the signals that have come, each at its own time.
func (r *task) drain() {
	var c domain.Callback
	for r.signals.ReceiveAsync(&c) {
		if _, err := r.receive(c); err != nil {
			// Nobody waits for the answer to a signal, so it is kept where
			// people look.
			r.rejected = &protocol.Rejected{CallbackID: c.CallbackID, AtMs: r.nowMs(), Error: err.Error()}
			r.log.Warn("callback signal refused", "callbackId", c.CallbackID, "error", err)
		}
		c = domain.Callback{}
	}
}

func (r *task) readCancellation() {
	if r.root.Err() == nil || r.cancelSeen {
		return
	}
	r.cancelSeen = true
	_, _ = r.apply(domain.Event{Type: domain.EventCancelRequested, AtMs: r.nowMs(), By: "temporal", Reason: "the workflow was cancelled"})
}

// readClock lets happen what time alone brings. A task with a job outside asks
// about it first: it may have ended in time while nobody was there to see it.
func (r *task) readClock() {
	e, due := domain.Due(r.t, r.nowMs())
	if !due || r.ask.open {
		return
	}
	if r.handle != nil && r.t.State == domain.StateRunning && !r.askedAtDeadline {
		r.askedAtDeadline = true
		r.askOutside(askAtDeadline)
		return
	}
	_, _ = r.apply(e)
}

// alarm is the one timer of a task.
type alarm struct {
	atMs   int64
	cancel workflow.CancelFunc
}

// arm keeps one timer that rings no later than atMs. A timer that is set too
// early is left to ring: that costs less than replacing it.
func (r *task) arm(atMs int64, what domain.Wake) {
	// A time that has come is for the loop, or for what the loop waits for: a
	// timer for it would ring again and again.
	if atMs <= r.nowMs() || (r.timer.atMs != 0 && r.timer.atMs <= atMs) {
		return
	}
	if r.timer.cancel != nil {
		r.timer.cancel()
	}
	ctx, cancel := workflow.WithCancel(r.ctx)
	r.timer = alarm{atMs: atMs, cancel: cancel}
	d := time.Duration(atMs-r.nowMs()) * time.Millisecond
	f := workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: string(what)})
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := f.Get(ctx, nil); err != nil {
			return
		}
		r.timer = alarm{}
		r.wake()
	})
}

func asApplicationError(err error) error {
	var invalid *domain.InvalidError
	var refused *domain.RefusedError
	switch {
	case errors.As(err, &invalid):
		return invalidError(invalid)
	case errors.As(err, &refused):
		return refusedError(refused)
	}
	return err
}
