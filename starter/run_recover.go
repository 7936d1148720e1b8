package starter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// recoverWait is how long the recovery of one run may take: it asks the outside of every
// open call, and each has [reconcileWait].
const recoverWait = 3 * time.Minute

// RecoverRun compares what a run knows with how things stand: it asks the task of every
// open call, and through it the outside, and lets the run take in what it finds. The
// answer says for each call what was found and what was done. Running it twice changes
// nothing. A run that has ended has nothing to recover. Errors: invalid-request,
// unknown-run, terminated, no-worker, unavailable.
func (c *Client) RecoverRun(ctx context.Context, runID string, r protocol.Recover) (protocol.Recovered, error) {
	if err := checkPerson(r.By, ""); err != nil {
		return protocol.Recovered{}, err
	}
	var out protocol.Recovered
	m := message{name: protocol.UpdateRecover, updateID: once(), arg: r, wait: recoverWait}
	err := c.askRun(ctx, runID, m, &out, func(rec protocol.RunRecord) error {
		out = protocol.Recovered{State: rec.Run.State}
		return nil
	}, nil)
	if out.Calls == nil {
		out.Calls = []protocol.CallDrift{}
	}
	var e *Error
	if errors.As(err, &e) && e.Code == CodeInvalid && e.Field == "" {
		// It is not about the request: the run could not ask for its tasks.
		return out, fail(CodeUnavailable, "repeat the call", "run %s could not be recovered: %s", runID, e.Message).because(err)
	}
	return out, err
}

// RecoverAll recovers every open run of the tenant, eight at a time, and tells of each as
// it is done, one at a time. Open runs are found in the engine's list, which lags behind
// by moments. That one run cannot be recovered is told of it and stops no other. Errors:
// invalid-request, not-set-up, unavailable; none about one run.
func (c *Client) RecoverAll(ctx context.Context, r protocol.Recover, tell func(runID string, out protocol.Recovered, err error)) error {
	if err := checkPerson(r.By, ""); err != nil {
		return err
	}
	ids, err := c.openRuns(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	each(ctx, atATime, ids, func(id *string) {
		out, err := c.RecoverRun(ctx, *id, r)
		mu.Lock()
		defer mu.Unlock()
		tell(*id, out, err)
	})
	return engineError(ctx, "recover all runs", context.Cause(ctx))
}
