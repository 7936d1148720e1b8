package cli

import (
	"context"
	"io"
	"iter"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Tasks is what the commands need of the Go client: [starter.Client] has it all,
// but for the form of results.
type Tasks interface {
	Submit(ctx context.Context, s starter.Submission) (starter.Submitted, error)
	Describe(ctx context.Context, taskID string) (starter.Description, error)
	Watch(ctx context.Context, taskID string, cursor int64) iter.Seq2[starter.Change, error]
	// Result says what the result of a task is, and reads it.
	Result(ctx context.Context, taskID string, late bool) (starter.Result, Reader, error)
	Logs(ctx context.Context, taskID string, req starter.LogRequest) iter.Seq2[starter.LogChunk, error]
	Cancel(ctx context.Context, taskID string, c protocol.Cancel) (domain.Outcome, error)
	Retry(ctx context.Context, taskID string, r starter.Retry) (starter.Retried, error)
	Callback(ctx context.Context, taskID string, cb domain.Callback) (starter.Verdict, error)
	Signal(ctx context.Context, taskID string, cb domain.Callback) error
	Heartbeat(ctx context.Context, taskID string, hb starter.Heartbeat) (starter.HeartbeatAnswer, error)
	Answer(ctx context.Context, taskID string, a protocol.Answer) (domain.Outcome, error)
	Attach(ctx context.Context, taskID string, a protocol.Attach) (starter.Attached, error)
	Detach(ctx context.Context, taskID string, d protocol.Detach) (domain.Outcome, error)
	Resolve(ctx context.Context, taskID string, r protocol.Resolve) (domain.Outcome, error)
	Manual(ctx context.Context, r starter.ManualRequest) (starter.ManualListing, error)
	ReconcileAll(ctx context.Context, r starter.ReconcileRequest) ([]starter.ReconciledTask, error)
	Orphans(ctx context.Context, r starter.OrphansRequest) (starter.Orphaned, error)
	Sweep(ctx context.Context, r starter.SweepRequest) ([]starter.Swept, error)
	Deliver(ctx context.Context, taskID, key string) (domain.Delivered, error)
	DeliveryStatus(ctx context.Context, key string) (protocol.DeliveryRecord, error)
	Redeliver(ctx context.Context, key string, r protocol.Redeliver) (protocol.DeliveryRecord, error)
	List(ctx context.Context, r starter.ListRequest) (starter.Listing, error)
}

// Reader reads a result.
type Reader interface {
	Range(ctx context.Context, offset, length int64) (data []byte, total int64, err error)
	Open(ctx context.Context) (io.ReadCloser, error)
}

// client is the Go client as [Tasks].
type client struct{ *starter.Client }

func (c client) Result(ctx context.Context, taskID string, late bool) (starter.Result, Reader, error) {
	find := c.Client.Result
	if late {
		find = c.LateResult
	}
	r, err := find(ctx, taskID)
	if err != nil {
		return starter.Result{}, nil, err
	}
	return *r, r, nil
}
