package activities

import (
	"context"
	"fmt"

	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Store puts the bytes of an inline result to the place that the task already
// refers to. The place is named by their hash, so a repeat writes the same
// again. It doesn't heartbeat; it runs as a local activity first.
func (a *Activities) Store(ctx context.Context, req protocol.StoreRequest) error {
	ref, err := a.o.Blobs.PutBytes(ctx, store.Key{Tenant: req.Tenant, TaskID: req.TaskID}, req.Blob.Content, req.Blob.ContentType)
	if err != nil {
		return err
	}
	if ref.Ref != req.Blob.Ref {
		return fmt.Errorf("stored at %s what the task refers to as %s", ref.Ref, req.Blob.Ref)
	}
	return nil
}
