package starter

import (
	"context"
	"math/rand/v2"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// runNews wakes whoever waits for a run to change: by the engine's long poll of the
// history, which costs the run nothing, and at the latest after the longest pause of
// [Poll], in case the poll is away. Nothing is read before the first wait.
type runNews struct {
	c      *Client
	runID  string
	ctx    context.Context // ends the poll, which outlives single waits
	stop   context.CancelFunc
	change chan struct{}
}

func (c *Client) newsOf(ctx context.Context, runID string) *runNews {
	n := &runNews{c: c, runID: runID}
	n.ctx, n.stop = context.WithCancel(ctx)
	return n
}

// wait waits for news, at most for so long. The more often they came to nothing the
// longer it waits at least: what others ask of the run shows in its history too.
func (n *runNews) wait(ctx context.Context, most time.Duration, refusals int) error {
	if n.change == nil {
		n.change = make(chan struct{}, 1)
		go n.follow()
	}
	least := n.c.o.Poll.Min / 4
	if refusals > 0 {
		least = min(n.c.o.Poll.again(refusals-1, rand.Float64())/4, n.c.o.Poll.Max)
	}
	if least >= most {
		return pause(ctx, most)
	}
	if err := pause(ctx, least); err != nil {
		return err
	}
	timer := time.NewTimer(min(most-least, n.c.o.Poll.Max))
	defer timer.Stop()
	select {
	case <-n.change:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow reads the history as it grows, over continue-as-new, until it is stopped. What
// is there already is news as well: it may have come since the run was asked.
func (n *runNews) follow() {
	for failures := 0; n.ctx.Err() == nil; failures++ {
		events := n.c.engine.GetWorkflowHistory(n.ctx, n.c.runWorkflowID(n.runID), "", true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				break
			}
			if failures = 0; tells(e) {
				n.tell()
			}
		}
		n.tell()
		// The end of a history is that of a run of the workflow: it has closed, or
		// goes on in another one.
		_ = pause(n.ctx, n.c.o.Poll.again(failures, rand.Float64()))
	}
}

func (n *runNews) tell() {
	select {
	case n.change <- struct{}{}:
	default:
	}
}

// tells tells whether the run may have changed by an event: not by those of the engine's
// own book-keeping, which the question whether it has changed brings with it.
func tells(e *history.HistoryEvent) bool {
	switch e.GetEventType() { //nolint:exhaustive // the others tell
	case enums.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enums.EVENT_TYPE_WORKFLOW_TASK_STARTED, enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
		enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
		enums.EVENT_TYPE_TIMER_STARTED:
		return false
	}
	return true
}
