package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// beatEvery is how often an activity that talks to the outside says that it is
// alive; it is well below the heartbeat time-out in the workflows' options.
const beatEvery = 3 * time.Second

// beat heartbeats until it is stopped, so that the server gives the work to
// another worker within seconds when this one is killed, and does not wait for
// the time-out of the whole try. The details are repeated, because the last
// heartbeat's are what the next try reads. After stop none is sent any more.
func beat(ctx context.Context, details ...any) (stop func()) {
	return beatBy(ctx, func() []any { return details })
}

// beatBy is beat with details that move on.
func beatBy(ctx context.Context, details func() []any) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx, details()...)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		ended.Wait()
	})
}
