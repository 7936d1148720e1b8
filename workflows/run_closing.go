package workflows

import (
	"encoding/json"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// settle tells whoever waits for the run, and shows in lists what matters there: ends,
// and that a person is asked. Each write costs an event and a visibility record.
func (r *agentRun) settle() {
	if p := r.r.Parent; p != nil {
		r.tellParent(*p)
	}
	state := r.r.State
	if special := func(s run.State) bool { return s.Terminal() || s == run.StateWaitingInput }; r.stateShown != state && (special(state) || special(r.stateShown)) {
		r.stateShown = state
		if err := workflow.UpsertTypedSearchAttributes(r.ctx, protocol.AttrState.ValueSet(string(state))); err != nil {
			r.log.Error("search attribute", "error", err)
		}
	}
}

// tellParent tells the run above what this one asks people, and how it ended. A parent
// that has closed is no error: nobody is left to be told.
func (r *agentRun) tellParent(p run.Parent) {
	key := run.Key{Step: p.Step, ID: p.ToolCallID}
	asks := r.openAsks()
	if r.r.State.Terminal() {
		asks = nil
	}
	said := asked(asks)
	req := protocol.NotifyParentRequest{Tenant: r.r.Tenant, RunID: p.RunID}
	switch {
	case r.r.State.Terminal() && !r.parentTold && !r.tell.open:
		req.Finished = &protocol.RunFinished{Key: key, SubRunID: r.r.ID, State: r.r.State, Final: r.r.Final, Error: r.r.Error, Usage: r.r.Usage}
		r.parentTold = true
	case said != r.askedParent && !r.tell.open && !r.r.State.Terminal():
		req.Asks = &protocol.RunAsks{Key: key, SubRunID: r.r.ID, Asks: asks}
		r.askedParent = said
	default:
		return
	}
	r.begin(&r.tell, func(ctx workflow.Context) {
		if err := r.soon(ctx, r.durable(), protocol.ActivityNotifyParent, req, nil, notifyOptions()); err != nil {
			// It looks by itself at what it waits for.
			r.log.Error("the run above could not be told", "run", p.RunID, "error", err)
		}
	})
}

// asked tells one set of questions from another.
func asked(asks []protocol.Ask) string {
	if len(asks) == 0 {
		return ""
	}
	b, err := json.Marshal(asks)
	if err != nil {
		return ""
	}
	return run.Hash(b)[:16]
}

// ended says that nothing is left to do for a run that is over.
func (r *agentRun) ended() bool {
	told := r.r.Parent == nil || r.parentTold
	return told && !r.start.open && !r.tell.open && !r.woken && r.finished.Len() == 0 && r.subEnded.Len() == 0 && r.said.Len() == 0
}

func (r *agentRun) record() *protocol.RunRecord {
	return &protocol.RunRecord{Run: r.r, Runtime: r.in.Runtime, Plan: r.in.Plan}
}

// handlersFinished waits until every update is answered; false says that something
// happened meanwhile.
func (r *agentRun) handlersFinished() (bool, error) {
	err := workflow.Await(r.ctx, func() bool { return workflow.AllHandlersFinished(r.ctx) })
	return !r.somethingHappened(), err
}

// close ends the workflow so that the Temporal UI shows what happened to the run, with
// its record where a client finds it without any worker.
func (r *agentRun) close() (*protocol.RunRecord, error) {
	name := r.r.Title
	if name == "" {
		name = "the run"
	}
	switch r.r.State {
	case run.StateFailed:
		return nil, temporal.NewNonRetryableApplicationError(name+" failed: "+r.r.Error.Error(), protocol.ErrTypeRunFailed, nil, *r.record())
	case run.StateExpired:
		when := time.UnixMilli(r.r.ExpiresAtMs).UTC().Format(time.RFC3339)
		return nil, temporal.NewNonRetryableApplicationError(name+" expired at its deadline, "+when, protocol.ErrTypeRunExpired, nil, *r.record())
	case run.StateCancelled:
		return nil, temporal.NewCanceledError(*r.record())
	default:
		return r.record(), nil
	}
}

// patience is how many history events an open step may go on for when it is time to
// continue as new: its activity would not cross over. The engine ends a workflow at
// 51,200 events.
const patience = 20_000

// shouldContinue says that the history has grown long enough.
func (r *agentRun) shouldContinue() bool {
	if r.r.State.Terminal() || r.start.open || r.tell.open {
		return false
	}
	info := workflow.GetInfo(r.ctx)
	length := info.GetCurrentHistoryLength()
	if r.step.open && length < patience {
		return false
	}
	if r.in.ContinueAfterEvents > 0 && length >= r.in.ContinueAfterEvents {
		return true
	}
	return info.GetContinueAsNewSuggested()
}

// continueAsNew carries everything over to a new execution: first no handler is left,
// then no signal, then the state is taken. Timers, steps and the standing check are
// opened again on the other side, because the plan says so.
func (r *agentRun) continueAsNew() error {
	if _, err := r.handlersFinished(); err != nil {
		return err
	}
	r.drain()
	r.readCancellation()
	in := r.in
	in.Carry = &protocol.RunCarry{Run: r.r, Unmatched: r.unmatched, Rejected: r.rejected, Asks: r.subAsksOpen(), Asked: r.askedParent, Shown: r.stateShown}
	return workflow.NewContinueAsNewError(r.root, protocol.WorkflowAgentRun, in)
}

// jsonPayload is JSON as it is, byte for byte.
func jsonPayload(b []byte) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: b}
}
