package workflows

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// agentRun is an AgentRun in memory. All of it follows from the history; nothing is
// kept elsewhere.
type agentRun struct {
	// root is cancelled when somebody cancels the workflow in the Temporal UI.
	root workflow.Context
	// ctx is not: what the run has to do, it still does then.
	ctx workflow.Context
	in  protocol.RunInput
	log log.Logger

	r run.Run
	// unmatched are ends of tasks whose call is not known yet: its start is under way.
	unmatched []protocol.TaskFinished
	// asks are what sub-runs ask people.
	asks     []protocol.RunAsks
	rejected *protocol.Rejected
	delta    json.RawMessage

	finished workflow.ReceiveChannel
	subEnded workflow.ReceiveChannel
	subAsks  workflow.ReceiveChannel
	said     workflow.ReceiveChannel

	woken      bool
	cancelSeen bool
	// updatedAt is the length of the history at the last change by an update. Until it
	// grows, that update is not durable: its runtime or person may yet send another one.
	updatedAt int
	// stateShown is the state in the search attribute, askedParent what the parent was
	// told last that the run asks.
	stateShown  run.State
	askedParent string
	parentTold  bool
	// stepToken is that of the attempt that the job step is about.
	stepToken string
	// watchFrom is since when the run has waited for the same calls, or 0 to look at
	// once; watched are the calls that are being looked at.
	watchFrom int64
	watched   []run.Key
	// watchBegan is when the standing check that is open began, lookFirst that the run was
	// retried and has to look before it does anything about its calls.
	watchBegan int64
	lookFirst  bool
	// pauses are those of calls that could not be started, forgotten the contents that were
	// deleted not long ago.
	pauses    []pauseOf
	forgotten []forgotten

	timer alarm
	start job
	tell  job
	step  job
	watch job
	// tidy deletes old checkpoints.
	tidy job
}

// AgentRun is one durable run of an agent. It ends Completed with its record when the
// run succeeded, Canceled when it was cancelled and Failed when it failed or expired,
// with the record in the error's details.
func AgentRun(ctx workflow.Context, in protocol.RunInput) (*protocol.RunRecord, error) {
	r, err := newRun(ctx, in)
	if err != nil {
		return nil, asApplicationError(err)
	}
	if err := r.openDoors(); err != nil {
		return nil, err
	}
	r.show()
	for {
		r.drain()
		r.readCancellation()
		r.readClock()
		plan := run.Next(r.r, r.nowMs())
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
		// The condition is the whole of what can wake a run; it costs nothing while it
		// is false.
		if err := workflow.Await(r.ctx, r.somethingHappened); err != nil {
			return nil, err
		}
		r.woken = false
	}
}

func newRun(ctx workflow.Context, in protocol.RunInput) (*agentRun, error) {
	info := workflow.GetInfo(ctx)
	free, _ := workflow.NewDisconnectedContext(ctx)
	r := &agentRun{
		root: ctx, ctx: free, in: in, log: workflow.GetLogger(ctx),
		finished: workflow.GetSignalChannel(ctx, protocol.SignalTaskFinished),
		subEnded: workflow.GetSignalChannel(ctx, protocol.SignalRunFinished),
		subAsks:  workflow.GetSignalChannel(ctx, protocol.SignalRunAsks),
		said:     workflow.GetSignalChannel(ctx, protocol.SignalInput),
	}
	r.watchFrom = r.nowMs()
	if c := in.Carry; c != nil {
		r.r, r.unmatched, r.rejected, r.askedParent, r.asks = c.Run, c.Unmatched, c.Rejected, c.Asked, c.Asks
		r.stateShown = c.Shown
		if c.Retry == nil {
			return r, nil
		}
		// What ended while the run was closed could tell nobody.
		r.watchFrom, r.stateShown = 0, run.StateRunning
		// A retry that is refused ends as the run had ended: with an error instead, this
		// execution would hide the record of the one before.
		e := run.Event{Type: run.EventRetry, AtMs: info.WorkflowStartTime.UnixMilli(), TTLMs: c.Retry.TTLMs, Limits: c.Retry.Limits, By: c.Retry.By, Reason: c.Retry.Reason}
		_, _ = r.apply(e)
		r.lookFirst = !r.r.State.Terminal() && len(r.openCalls()) > 0
		return r, nil
	}
	create := in.Create
	// The time to live runs from the start, also when the first worker comes an hour
	// later.
	create.NowMs = info.WorkflowStartTime.UnixMilli()
	made, err := run.New(create)
	r.r, r.stateShown = made, made.State
	return r, err
}

func (r *agentRun) nowMs() int64 { return workflow.Now(r.ctx).UnixMilli() }

// wake makes the loop look again.
func (r *agentRun) wake() { r.woken = true }

func (r *agentRun) somethingHappened() bool {
	return r.woken || r.finished.Len() > 0 || r.subEnded.Len() > 0 || r.subAsks.Len() > 0 || r.said.Len() > 0 || (r.root.Err() != nil && !r.cancelSeen)
}

// faulty stands for [run.Apply] in tests that want to see that faults would be found.
var faulty func(run.Run, run.Event) (run.Transition, error)

// applyRun calls it by its name, so that workflowcheck follows it.
func applyRun(r run.Run, e run.Event) (run.Transition, error) {
	if faulty != nil {
		return faulty(r, e)
	}
	return run.Apply(r, e)
}

// apply lets an event happen. What it came to is in the transition; an error is that of
// bad input.
func (r *agentRun) apply(e run.Event) (run.Transition, error) {
	if e.AtMs == 0 {
		e.AtMs = r.nowMs()
	}
	if s := r.r.Step; s != nil {
		e.Jitter = domain.LotFor(r.r.ID, s.Number*1000+s.Failures)
	}
	tr, err := applyRun(r.r, e)
	if err != nil {
		return tr, err
	}
	if tr.Outcome.Changed || tr.Kept {
		r.r = tr.Run
		r.wake()
	}
	if tr.Outcome.Changed {
		r.show()
	}
	return tr, nil
}

// must applies an event of our own, which is never malformed.
func (r *agentRun) must(e run.Event) run.Transition {
	tr, err := r.apply(e)
	if err != nil {
		r.log.Error("an event of our own was refused", "event", e.Type, "error", err)
	}
	return tr
}

// drain applies the signals that have come. Each is read as raw JSON: what cannot be
// read the SDK would drop without anybody knowing.
func (r *agentRun) drain() {
	drainAs(r, r.finished, func(f protocol.TaskFinished) error { r.taskFinished(f); return nil })
	drainAs(r, r.subEnded, func(f protocol.RunFinished) error { r.subRunEnded(f); return nil })
	drainAs(r, r.subAsks, func(a protocol.RunAsks) error { r.subRunAsks(a); return nil })
	drainAs(r, r.said, func(s protocol.RunSaid) error {
		tr, err := r.apply(saidEvent(s))
		if err == nil && !tr.Outcome.Changed && !tr.Outcome.Duplicate {
			err = &run.RefusedError{Outcome: tr.Outcome}
		}
		return err
	})
}

// drainAs reads a channel of signals to its end.
func drainAs[T any](r *agentRun, ch workflow.ReceiveChannel, take func(T) error) {
	var raw json.RawMessage
	for ch.ReceiveAsync(&raw) {
		var m T
		err := json.Unmarshal(raw, &m)
		if err == nil {
			err = take(m)
		}
		if err != nil {
			// Nobody waits for the answer to a signal, so it is kept where people look.
			r.rejected = &protocol.Rejected{AtMs: r.nowMs(), Error: shortened(ch.Name() + ": " + err.Error())}
			r.log.Warn("signal refused", "signal", ch.Name(), "error", err)
		}
		raw = nil
	}
}

func (r *agentRun) readCancellation() {
	if r.root.Err() == nil || r.cancelSeen {
		return
	}
	r.cancelSeen = true
	r.must(run.Event{Type: run.EventCancel, By: "temporal", Reason: "the workflow was cancelled"})
}

// readClock lets happen what time alone brings, one after the other.
func (r *agentRun) readClock() {
	for {
		e, due := run.Due(r.r, r.nowMs())
		if !due || e.Type == run.EventWaitTimeout && r.lookFirst {
			return
		}
		if tr, err := r.apply(e); err != nil || !tr.Outcome.Changed {
			r.log.Error("what time brings was refused", "event", e.Type, "reason", tr.Outcome.Reason, "error", err)
			return
		}
	}
}

// begin opens a job and runs f, which waits for it, beside the loop.
func (r *agentRun) begin(j *job, f func(ctx workflow.Context)) {
	ctx, cancel := workflow.WithCancel(r.ctx)
	no := j.no + 1
	*j = job{open: true, no: no, cancel: cancel}
	workflow.Go(ctx, func(ctx workflow.Context) {
		f(ctx)
		if j.no == no {
			j.open = false
		}
		r.wake()
	})
}

// carryOut makes what is open agree with the plan.
func (r *agentRun) carryOut(p run.Plan) {
	start, later := r.startable(p.Start)
	if len(start) > 0 && !r.start.open {
		r.startCalls(start)
	}
	if r.start.open && !r.start.told && r.r.State.Terminal() && r.r.State != run.StateSucceeded {
		// The grace is over: a start that does not come to an end must not keep a run open
		// that has ended.
		r.start.told = true
		r.start.cancel()
	}
	r.arm(later, "next try of a start")
	if len(p.Cancel)+len(p.Detach) > 0 && !r.tell.open {
		r.tellCalls(p.Cancel, p.Detach)
	}
	if r.step.open && !r.step.told && !r.holdsStep() {
		// Nobody waits for its answer: it was answered by an update, or taken away.
		r.step.told = true
		r.step.cancel()
	}
	if (p.Offer || r.unwatched()) && !r.step.open {
		r.takeStep()
	}
	if len(p.Forget) > 0 && !r.tidy.open {
		r.forget(p.Forget)
	}
	r.keepWatch()
	r.arm(p.WakeAtMs, p.WakeFor)
	if at := r.watchAt(); at > 0 {
		r.arm(at, "standing check")
	}
}

// arm keeps one timer that rings no later than atMs; see [task.arm].
func (r *agentRun) arm(atMs int64, what string) {
	now := r.nowMs()
	if atMs == 0 || atMs <= now || (r.timer.atMs != 0 && r.timer.atMs <= atMs) {
		return
	}
	if r.timer.cancel != nil {
		r.timer.cancel()
	}
	ctx, cancel := workflow.WithCancel(r.ctx)
	r.timer = alarm{atMs: atMs, cancel: cancel}
	f := workflow.NewTimerWithOptions(ctx, time.Duration(atMs-now)*time.Millisecond, workflow.TimerOptions{Summary: what})
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := f.Get(ctx, nil); err != nil {
			return
		}
		r.timer = alarm{}
		r.wake()
	})
}

// durable says that whatever an update has changed is in history.
func (r *agentRun) durable() bool {
	return workflow.GetInfo(r.ctx).GetCurrentHistoryLength() > r.updatedAt
}

// find gives a call that has no committed result yet.
func (r *agentRun) find(k run.Key) (run.Call, bool) {
	i := slices.IndexFunc(r.r.Calls, func(c run.Call) bool { return c.Key == k })
	if i < 0 {
		return run.Call{}, false
	}
	return r.r.Calls[i], true
}
