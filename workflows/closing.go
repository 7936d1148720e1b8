package workflows

import (
	"errors"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func itoa(n int) string { return strconv.Itoa(n) }

// settle carries out what has to be done before anybody may rely on the state:
// results are stored, then the run and the targets are told.
func (r *task) settle() {
	for len(r.unstored) > 0 {
		b := r.unstored[0]
		if err := r.store(b); err != nil {
			// Only a server that gives up its own activity leads here. The
			// content stays with the task and is stored at the next look.
			r.log.Error("a result could not be stored", "ref", b.Ref, "error", err)
			r.arm(r.nowMs()+storeAgain.Milliseconds(), "store again")
			return
		}
		r.unstored = r.unstored[1:]
	}
	for _, n := range r.outbox.Drain() {
		r.tell(n)
	}
	// Only ends are written, what a person has to look at, and the ways back: each
	// write costs an event and a visibility record.
	if state := r.stateToShow(); r.stateShown != state && (special(state) || special(r.stateShown)) {
		r.stateShown = state
		if err := workflow.UpsertTypedSearchAttributes(r.ctx, protocol.AttrState.ValueSet(string(state))); err != nil {
			r.log.Error("search attribute", "error", err)
		}
	}
}

// stateToShow is the state as lists show it.
func (r *task) stateToShow() domain.State {
	if r.t.AsksPerson() {
		return protocol.StateManual
	}
	return r.t.State
}

func special(s domain.State) bool { return s.Terminal() || s == protocol.StateManual }

// briefly runs an activity as a local one, which costs one event and no
// workflow task, and as a regular one if that does not work at once.
func (r *task) briefly(name string, arg, result any, fallback workflow.ActivityOptions) error {
	local := workflow.WithLocalActivityOptions(r.ctx, localOptions())
	if err := workflow.ExecuteLocalActivity(local, name, arg).Get(r.ctx, result); err == nil {
		return nil
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(r.ctx, fallback), name, arg).Get(r.ctx, result)
}

func (r *task) store(b protocol.Blob) error {
	return r.briefly(protocol.ActivityStore, protocol.StoreRequest{Tenant: r.t.Tenant, TaskID: r.t.ID, Blob: b}, nil, storeOptions())
}

// tell tells whoever waits. All are told the same, whatever happens to the task
// while it is being told: it can be retried meanwhile. Of an end that was undone
// before anybody was told of it nobody is.
func (r *task) tell(n domain.Notification) {
	t := r.t.WithoutHistory()
	if t.State != n.State {
		return
	}
	kind := ""
	if n.Reason == domain.ReasonLateResult {
		kind = protocol.KindLateResult
	}
	r.tellRuns(t, n, kind)
	r.tellTargets(t, n, kind)
}

// tellRuns signals the runs that wait for the task. A run that is gone is no error:
// nobody is left to be told.
func (r *task) tellRuns(t domain.Task, n domain.Notification, kind string) {
	for _, w := range t.Told() {
		if w.RunID == "" {
			continue
		}
		finished := protocol.TaskFinished{Task: t, Kind: kind, AtMs: n.AtMs}
		if w.ID != domain.WaiterSubmitter {
			finished.WaiterID, finished.ToolCallID = w.ID, w.ToolCallID
		}
		var res protocol.NotifyResult
		if err := r.briefly(protocol.ActivityNotifyRun, protocol.NotifyRequest{Tenant: t.Tenant, RunID: w.RunID, Finished: finished}, &res, notifyOptions()); err != nil {
			r.log.Error("the run could not be told", "run", w.RunID, "error", err)
			continue
		}
		if res.Receipt == protocol.ReceiptRunClosed {
			r.log.Info("the run has closed", "run", w.RunID)
		}
	}
}

// tellTargets starts a delivery for each target, abandoned: a slow receiver
// keeps no task open. The id of a delivery is its key, so that telling twice
// starts one.
func (r *task) tellTargets(t domain.Task, n domain.Notification, kind string) {
	if kind == "" {
		kind = "task." + string(n.State)
	}
	var started []workflow.ChildWorkflowFuture
	for _, target := range r.targets {
		key := t.ID + "/" + string(n.State) + "/" + strconv.FormatInt(n.Version, 10) + "/" + target
		ctx := workflow.WithChildOptions(r.ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            protocol.DeliveryWorkflowID(t.Tenant, key),
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			Memo:                  map[string]any{protocol.MemoTaskID: t.ID},
			StaticSummary:         kind + " to " + target,
			TypedSearchAttributes: temporal.NewSearchAttributes(protocol.AttrTenant.ValueSet(t.Tenant), protocol.AttrTool.ValueSet(t.Tool)),
		})
		started = append(started, workflow.ExecuteChildWorkflow(ctx, protocol.WorkflowDelivery, protocol.DeliveryInput{
			Tenant: t.Tenant, Key: key, Kind: protocol.DeliveryWebhook, Target: target, Task: t, Type: kind,
		}))
	}
	for _, f := range started {
		var already *temporal.ChildWorkflowExecutionAlreadyStartedError
		if err := f.GetChildWorkflowExecution().Get(r.ctx, nil); err != nil && !errors.As(err, &already) {
			r.log.Error("a delivery could not be started", "error", err)
		}
	}
}

// ended says that nothing is left to do for a task that is over.
func (r *task) ended() bool {
	submitting := r.submitting() && r.givenUp()
	return len(r.unstored) == 0 && len(r.outbox.Entries) == 0 && !r.stop.open && !submitting && r.signals.Len() == 0 && r.started.Len() == 0 && !r.woken
}

func (r *task) record() *protocol.TaskRecord {
	return &protocol.TaskRecord{Task: r.t, Ledger: r.ledger, Handle: r.handle, Targets: r.targets, Begun: r.begun}
}

// handlersFinished waits until every update is answered, because none may be left
// without an answer. Meanwhile anything may have happened to the task; false says that
// it has.
func (r *task) handlersFinished() (bool, error) {
	err := workflow.Await(r.ctx, func() bool { return workflow.AllHandlersFinished(r.ctx) })
	return !r.somethingHappened(), err
}

// close ends the workflow so that the Temporal UI shows what happened to the
// task, with its record where a client finds it without any worker.
func (r *task) close() (*protocol.TaskRecord, error) {
	switch r.t.State {
	case domain.StateFailed:
		return nil, temporal.NewNonRetryableApplicationError(r.t.Tool+" "+string(r.endKind())+": "+r.t.Error.Error(), protocol.ErrTypeTaskFailed, nil, *r.record())
	case domain.StateExpired:
		when := time.UnixMilli(r.t.ExpiresAtMs).UTC().Format(time.RFC3339)
		return nil, temporal.NewNonRetryableApplicationError(r.t.Tool+" "+string(r.endKind())+": it expired at its deadline, "+when, protocol.ErrTypeTaskExpired, nil, *r.record())
	case domain.StateCancelled:
		return nil, temporal.NewCanceledError(*r.record())
	default:
		return r.record(), nil
	}
}

// endKind says how the task ended, for the one line that the Temporal UI shows.
func (r *task) endKind() domain.EndKind {
	end, _ := domain.EndOf(r.t)
	return end.Kind
}

// shouldContinue says that the history has grown long enough.
func (r *task) shouldContinue() bool {
	if r.t.State.Terminal() {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	if r.in.ContinueAfterEvents > 0 && info.GetCurrentHistoryLength() >= r.in.ContinueAfterEvents {
		return true
	}
	return info.GetContinueAsNewSuggested()
}

// continueAsNew carries everything over to a new run of the same task: first
// no signal is left, then no handler, then the state is taken. Timers, leases
// and probes are opened again on the other side, because the plan says so.
func (r *task) continueAsNew() error {
	if _, err := r.handlersFinished(); err != nil {
		return err
	}
	r.drain()
	r.readStarted()
	// The next run is not cancelled.
	r.readCancellation()
	in := r.in
	in.Carry = &protocol.Carry{
		Task: r.t, Ledger: r.ledger, Outbox: r.outbox, Handle: r.handle,
		CancelSent: r.cancelSent, Unstored: r.unstored, Targets: r.targets, Rejected: r.rejected,
		Begun: r.begun,
	}
	if r.stop.open {
		// Its activity ends with this run, so it is done again in the next.
		in.Carry.CancelSent = 0
	}
	return workflow.NewContinueAsNewError(r.root, protocol.WorkflowAsyncTask, in)
}
