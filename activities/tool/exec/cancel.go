package exec

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Cancel leaves a request that the supervisor finds within a tenth of a second: SIGTERM to the
// whole group, and SIGKILL when it is not gone within the grace. When the supervisor is gone, what
// is left of the run gets the same from here, once it is proven to belong to the run.
func (e *Executor) Cancel(ctx context.Context, h tool.Handle) error {
	j, data, err := e.resolve(h)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	fail := func(err error) error { return fmt.Errorf("cancel %q: %w", data.SubmissionKey, err) }
	v, err := e.look(j)
	switch {
	case err != nil:
		return fail(err)
	case v.phase == phaseAbsent:
		return fail(tool.ErrUnknownHandle)
	case v.phase == phaseOver:
		return nil
	}
	if err := writeFile(j.file(cancelFile), nil, true); err != nil {
		return fail(err)
	}
	if v.phase != phaseLost {
		return nil
	}
	left, err := e.endPolitely(ctx, v)
	if err != nil {
		return fail(err)
	}
	if len(left.doubtful) > 0 {
		return fail(errors.New("its supervisor is gone, and processes of its group are not proven to be its own; they are left alone"))
	}
	return nil
}

// endPolitely ends the remains of a lost run: SIGTERM, the grace, SIGKILL.
func (e *Executor) endPolitely(ctx context.Context, v view) (remains, error) {
	left, err := findRemains(v.identity, v.request.Token)
	if err != nil || len(left.ours) == 0 {
		return left, err
	}
	left.signal(syscall.SIGTERM)
	grace := time.NewTimer(e.cfg.KillGrace)
	defer grace.Stop()
	tick := time.NewTicker(groupTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return left, ctx.Err()
		case <-grace.C:
			return endRemains(v, syscall.SIGKILL)
		case <-tick.C:
			if left, err = findRemains(v.identity, v.request.Token); err != nil || len(left.ours) == 0 {
				return left, err
			}
		}
	}
}
