package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Cancel tells an outside job to stop; how it really ended is seen by the
// probe. Telling twice is harmless, and so is telling a job that is over or was
// never started. It doesn't heartbeat.
func (a *Activities) Cancel(ctx context.Context, req protocol.CancelRequest) error {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return err
	}
	h, found, err := locate(ctx, ex, req.Job)
	if err != nil || !found {
		return err
	}
	err = ex.Cancel(ctx, h)
	if errors.Is(err, tool.ErrCannotCancel) {
		// No repetition will mend it.
		return temporal.NewNonRetryableApplicationError(err.Error(), "CannotCancel", err)
	}
	return err
}
