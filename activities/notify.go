package activities

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// NotifyRun signals the end of a task to the run that asked for it. The run
// drops what it has, so a repeat is harmless. A run that is closed or gone is
// an answer, not an error: there is nobody to retry for.
func (a *Activities) NotifyRun(ctx context.Context, req protocol.NotifyRequest) (protocol.NotifyResult, error) {
	err := a.o.Signals.SignalWorkflow(ctx, protocol.RunWorkflowID(req.Tenant, req.RunID), "", protocol.SignalTaskFinished, req.Finished)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return protocol.NotifyResult{Receipt: protocol.ReceiptRunClosed}, nil
	case err != nil:
		return protocol.NotifyResult{}, err
	}
	return protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, nil
}
