package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// ErrTypeNoLogs is the type of the error for a job whose executor keeps no logs.
const ErrTypeNoLogs = "no-logs"

// Logs reads a piece of a job's log. Clients run it as an activity of its own,
// on the task queue of the job's host. It only reads, so it is safe to repeat.
func (a *Activities) Logs(ctx context.Context, req protocol.LogsRequest) (protocol.LogsResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.LogsResult{}, err
	}
	lr, ok := ex.(tool.LogReader)
	if !ok {
		return protocol.LogsResult{}, temporal.NewNonRetryableApplicationError("the executor of tool "+req.Tool+" keeps no logs", ErrTypeNoLogs, nil)
	}
	h, found, err := locate(ctx, ex, req.Job)
	if err != nil {
		return protocol.LogsResult{}, err
	}
	if !found {
		return protocol.LogsResult{}, temporal.NewNonRetryableApplicationError("no job is known under the key "+req.SubmissionKey, ErrTypeNoLogs, nil)
	}
	chunk, err := lr.Logs(ctx, h, req.Stream, req.Offset, req.Limit)
	if errors.Is(err, tool.ErrStream) || errors.Is(err, tool.ErrUnknownHandle) {
		return protocol.LogsResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrTypeNoLogs, err)
	}
	return protocol.LogsResult{Data: chunk.Data, Offset: chunk.Offset, Skipped: chunk.Skipped, Next: chunk.Next, End: chunk.End}, err
}
