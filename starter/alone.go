package starter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// lonely is an activity that a client runs on its own, without a workflow.
type lonely struct {
	activity string
	// id is the middle of its id, queue where it must run.
	id, queue string
	// try bounds one run of it, wait all of them together with the wait for a worker.
	try, wait time.Duration
	summary   string
	arg       any
}

// alone runs an activity and waits for what it gives. errNoAnswer is that nobody
// took it up, or not in time; any other error is the activity's own or the engine's.
func (c *Client) alone(ctx context.Context, l lonely, out any) error {
	wait, cancel := context.WithTimeout(ctx, l.wait+time.Second)
	defer cancel()
	h, err := c.engine.ExecuteActivity(wait, client.StartActivityOptions{
		ID: c.o.Tenant + "/" + l.id + "/" + uuid.NewString(), TaskQueue: l.queue,
		StartToCloseTimeout: l.try, ScheduleToCloseTimeout: l.wait, Summary: l.summary,
	}, l.activity, l.arg)
	if err == nil {
		err = h.Get(wait, out)
	}
	var late *temporal.TimeoutError
	if err != nil && (errors.As(err, &late) || over(ctx) == nil && timedOut(err)) {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return err
}
