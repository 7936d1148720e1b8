package outside

import (
	"context"
	"time"
)

// settle is how long a no is doubted. A start that its caller gave up may be on its way
// through the engine for a moment longer, and appear after somebody has looked: without a
// second look a no would be sure only on an idle machine.
const settle = time.Second

// Settled says whether something is surely not there: it looks again a moment after a no.
// The error is that of a look, or the context's.
func Settled(ctx context.Context, gone func(context.Context) (bool, error)) (bool, error) {
	no, err := gone(ctx)
	if err != nil || !no {
		return no, err
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return gone(ctx)
}
