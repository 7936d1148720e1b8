package activities

import (
	"context"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Calls submits what does the work of the calls of runs, looks at it and tells it what
// the run wants. Package starter has one: a call of a run goes through the same rules as
// anybody's submission. All are safe to repeat. An error that is a
// [protocol.CallRefused] is the answer to the call; any other one is tried again.
type Calls interface {
	// Submit starts the task of a call, or finds the one that it has started.
	Submit(ctx context.Context, call protocol.SubmitCall) (protocol.SubmittedCall, error)
	// Start starts the run that does the work of a call.
	Start(ctx context.Context, r protocol.SubmitRun) (run.Started, error)
	// Task and Run say how one stands; neither needs a worker.
	Task(ctx context.Context, taskID string) (protocol.Seen, error)
	Run(ctx context.Context, runID string) (protocol.Seen, error)
	// Reconcile lets a task ask the outside how its work stands.
	Reconcile(ctx context.Context, taskID, by string) (protocol.Reconciled, error)
	// Cancel and CancelRun give up a task or a run. That it has ended is no error. Of a
	// task that others wait for too the work goes on, and left says that the run alone
	// was taken off: nobody will tell it of the end.
	Cancel(ctx context.Context, taskID string, c protocol.Cancel) (left bool, err error)
	CancelRun(ctx context.Context, runID string, c protocol.Cancel) error
	// Detach says that the run waits for a task no longer.
	Detach(ctx context.Context, taskID string, d protocol.Detach) error
}
