package http

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/url"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Cancel asks the service to end the job. It carries no key: a service that keeps answers by key
// would give that of the POST. That the service does not know the job, or that it is over (404, 409,
// 410), is no error; how it ended is Observe's to tell. With [Config.NoCancel], and for a job that
// was done at once, it does nothing.
func (e *Executor) Cancel(ctx context.Context, h tool.Handle) error {
	d, err := e.resolve(h)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if e.cfg.NoCancel || d.Outcome != nil {
		return nil
	}
	if err := e.cancel(ctx, d); err != nil {
		return fmt.Errorf("cancel %q: %w", d.SubmissionKey, err)
	}
	return nil
}

func (e *Executor) cancel(ctx context.Context, d handleData) error {
	u, err := e.cancelPlace(d)
	if err != nil {
		return err
	}
	a, err := e.send(ctx, e.cfg.CancelMethod, u, nil, nil)
	if err != nil {
		return err
	}
	defer a.close()
	switch a.StatusCode {
	case nethttp.StatusMethodNotAllowed, nethttp.StatusNotImplemented:
		return fmt.Errorf("%w; a service that cannot cancel is declared with cancel: {none: true}", e.refused(a))
	}
	if lookRuleFor(a.StatusCode).cancel == readFine {
		return nil
	}
	return e.refused(a)
}

func (e *Executor) cancelPlace(d handleData) (*url.URL, error) {
	if e.urls.cancel != "" {
		if d.JobID == "" {
			return nil, fmt.Errorf("%w: the service gave it no id, so cancel.url cannot be filled", tool.ErrCannotCancel)
		}
		if err := checkID(d.JobID); err != nil {
			return nil, err
		}
		return fill(e.urls.cancel, placeID, d.JobID)
	}
	u, byKey, err := e.place(d)
	if err != nil {
		return nil, err
	}
	if u == nil || byKey {
		// A DELETE of a search could meet more than the job.
		return nil, fmt.Errorf("%w: there is no place to do it at, declare cancel.url or status.url; the service gave no Location", tool.ErrCannotCancel)
	}
	return u, nil
}
