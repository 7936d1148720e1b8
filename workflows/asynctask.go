package workflows

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
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
	// started tells of jobs that hold a slot and were started.
	started workflow.ReceiveChannel
	// woken says that something happened since the loop last looked.
	woken bool
	// cancelSeen says that the workflow's own cancellation has been read.
	cancelSeen bool
	// askedAtDeadline says that the outside was asked before the task expires.
	askedAtDeadline bool
	// begun is the last submission that was begun.
	begun *protocol.Begun
	// slot is that of the job, for a tool with a limit.
	slot slot
	// answer is what the outside said when it was asked last.
	answer protocol.Reconciled
	// stallShown says that people see that the work stands still.
	stallShown bool
	// cancelSent is the attempt whose outside job was told to stop.
	cancelSent int
	// stray says that a job may run that nobody has heard of: its submission
	// ended without a clear answer, or its answer came after the task's end.
	stray      bool
	stateShown domain.State

	timer  alarm
	submit job
	probe  job
	lease  job
	ask    job
	stop   job
	undo   job
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
	// A task that nothing has happened to yet is looked at as well.
	r.show()
	for {
		r.drain()
		r.readStarted()
		r.readCancellation()
		r.readClock()
		plan := domain.Next(r.t, r.nowMs())
		r.carryOut(plan)
		r.settle()
		if plan.Close && r.ended() {
			if still, err := r.handlersFinished(); err != nil {
				return nil, err
			} else if still {
				return r.close()
			}
			r.woken = false
			continue
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
		signals: workflow.GetSignalChannel(ctx, protocol.SignalCallback), started: workflow.GetSignalChannel(ctx, protocol.SignalSubmitted),
	}
	if c := in.Carry; c != nil {
		r.t, r.outbox, r.handle, r.unstored, r.cancelSent, r.rejected = c.Task, c.Outbox, c.Handle, c.Unstored, c.CancelSent, c.Rejected
		r.begun = c.Begun
		r.stray = r.begunUnheard()
		if c.Retry == nil && r.t.AsksPerson() {
			// Of a retry the start has shown the state.
			r.stateShown = protocol.StateManual
		}
		if c.Ledger != nil {
			r.ledger = c.Ledger
		}
		if c.Targets != nil {
			r.targets = c.Targets
		}
		if c.Retry != nil {
			r.cancelSent = 0
			// A retry that is refused ends as the task had ended: with an error
			// instead, this run would hide the record of the one before.
			_, _ = r.apply(retryEvent(*c.Retry, info.WorkflowStartTime.UnixMilli()))
		}
		return r, nil
	}
	create := in.Create
	if create.NowMs == 0 || !create.Policy.TrustTimes {
		// The time to live runs from the submission, also when the first
		// worker comes an hour later.
		create.NowMs = info.WorkflowStartTime.UnixMilli()
	}
	create.Policy.ShowsStall = in.Revision >= 1
	t, err := domain.New(create)
	r.t, r.stateShown = t, t.State
	return r, err
}

func (r *task) nowMs() int64 { return workflow.Now(r.ctx).UnixMilli() }

// wake makes the loop look again.
func (r *task) wake() { r.woken = true }

func (r *task) somethingHappened() bool {
	return r.woken || r.signals.Len() > 0 || r.started.Len() > 0 || (r.root.Err() != nil && !r.cancelSeen)
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
	before := r.t
	r.t = tr.Task
	// One event can begin an attempt and end it.
	if r.t.State == domain.StateQueued && (before.State != domain.StateQueued || before.Attempts != r.t.Attempts) {
		r.newAttempt()
	}
	for _, n := range []*domain.Notification{tr.Notification, tr.LateNotification} {
		if n != nil {
			r.outbox.Add(*n)
		}
	}
	if tr.Changed {
		r.wake()
		r.show()
	}
}

// drain applies the signals that have come, each at its own time. They are read
// as raw JSON: what is no callback the SDK would drop without anybody knowing.
func (r *task) drain() {
	var raw json.RawMessage
	for r.signals.ReceiveAsync(&raw) {
		c, err := r.readCallback(raw)
		if err == nil {
			_, err = r.receive(c)
		}
		if err != nil {
			// Nobody waits for the answer to a signal, so it is kept where
			// people look.
			r.rejected = &protocol.Rejected{CallbackID: shortened(c.CallbackID), AtMs: r.nowMs(), Error: shortened(err.Error())}
			r.log.Warn("callback signal refused", "callbackId", c.CallbackID, "error", err)
		}
		raw = nil
	}
}

// shortened is text that is kept for people; whoever signals may send any.
func shortened(s string) string { return markdown.Shorten(s, markdown.MaxText) }

func (r *task) readCancellation() {
	if r.root.Err() == nil || r.cancelSeen {
		return
	}
	r.cancelSeen = true
	_, _ = r.apply(r.cancelEvent(protocol.Cancel{AtMs: r.nowMs(), By: "temporal", Reason: "the workflow was cancelled"}))
}

// readClock lets happen what time alone brings. A task with a job outside asks
// about it first: it may have ended in time while nobody was there to see it.
func (r *task) readClock() {
	e, due := domain.Due(r.t, r.nowMs())
	if !due || r.ask.open {
		r.showStall()
		return
	}
	if domain.AskFirst(r.t, r.nowMs()) && r.handle != nil && !r.askedAtDeadline {
		r.askedAtDeadline = true
		r.askOutside(askAtDeadline, silenceCounts)
		return
	}
	e.Begun = r.begunUnheard()
	_, _ = r.apply(e)
}

// readStarted takes in that a job was started that holds a slot.
func (r *task) readStarted() {
	var s protocol.JobStarted
	for r.started.ReceiveAsync(&s) {
		r.submitted(s.Attempt, protocol.SubmitResult{Handle: s.Handle, Worker: s.Worker})
		r.slot.held = r.submit.open && r.submit.attempt == s.Attempt
		r.wake()
		s = protocol.JobStarted{}
	}
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
