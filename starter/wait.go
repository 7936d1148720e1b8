package starter

import (
	"context"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// WaitOptions say how long a caller has patience.
type WaitOptions struct {
	// For is how long to wait. Default: 0, until the end of the task or of the
	// context.
	For time.Duration
	// WaiterID is the caller among those who wait, from [Submitted]. When its
	// patience is over it is detached, so that the task knows; its run is still told
	// of the late end. Default: empty, nobody is detached.
	WaiterID string
}

// Wait waits for the end of a task and gives how it stands. When the caller's own
// patience is over before, the error has the code wait-timeout and the description
// is the newest: the task goes on, nothing was cancelled. Worker and engine may be
// away meanwhile, see [Client.Watch]. Errors: wait-timeout, invalid-request,
// unknown-task, terminated.
func (c *Client) Wait(ctx context.Context, taskID string, o WaitOptions) (Description, error) {
	if o.For < 0 {
		return Description{}, invalidf("for", "must be > 0, or absent; it is %s", o.For)
	}
	if o.WaiterID != "" {
		if err := domain.CheckID("waiterId", o.WaiterID); err != nil {
			return Description{}, invalid(err)
		}
	}
	patience := ctx
	if o.For > 0 {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	var last Description
	for ch, err := range c.Watch(patience, taskID, 0) {
		switch {
		case err == nil:
			last = ch.Description
		case over(ctx) == nil && over(patience) != nil:
			return last, c.impatient(ctx, taskID, last, o)
		default:
			return last, err
		}
	}
	return last, nil
}

// impatient is the end of a caller's patience. That the task cannot be told of it
// changes nothing for the caller; the cause says so.
func (c *Client) impatient(ctx context.Context, taskID string, last Description, o WaitOptions) error {
	stands := "goes on"
	if s := last.Task.State; s != "" {
		stands = Standing(s) + " and goes on"
	}
	e := fail(CodeWaitTimeout, "ask again later, or cancel it: wakepoint task cancel "+taskID,
		"the wait of %s is over; task %s %s", config.FormatDuration(o.For), taskID, stands)
	if o.WaiterID == "" {
		return e
	}
	if _, err := c.Detach(ctx, taskID, protocol.Detach{WaiterID: o.WaiterID, Reason: domain.DetachWaitTimeout}); err != nil {
		return e.because(err)
	}
	return e
}
