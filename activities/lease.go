package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Lease opens the lease of a worker outside and ends without a result: from now
// on the worker heartbeats the activity by its id, which costs no history, and
// the server times its silence. It has no effect that a repeat could double.
func (a *Activities) Lease(context.Context, protocol.LeaseRequest) error {
	return activity.ErrResultPending
}
