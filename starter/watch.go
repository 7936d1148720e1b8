package starter

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/wakepoint/wakepoint/domain"
)

// Change is news of a task.
type Change struct {
	// Page holds the versions that the reader has not seen yet. Its mode is
	// snapshot when there were more than the task keeps: then Page.Task is all
	// there is. For a task at version 0 the first page is caught up and empty.
	Page domain.Page `json:"page"`
	// Description is the task as it was then, without pending activities.
	Description Description `json:"description"`
}

// Watch gives the versions of a task after the cursor as they come, each once,
// and ends after a terminal one. It looks at the task by adaptive polling, and it
// outlives restarts of worker and engine: while these are away it waits, and says
// so in the log only. What ends it early is given as the last error: an unknown
// or terminated task, or the end of ctx.
func (c *Client) Watch(ctx context.Context, taskID string, cursor int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if cursor < 0 {
			yield(Change{}, invalidf("cursor", "must be an integer >= 0, it is %d", cursor))
			return
		}
		w := watch{c: c, taskID: taskID, cursor: cursor, changed: time.Now()}
		for {
			ch, news, err := w.look(ctx)
			if err != nil {
				yield(Change{}, err)
				return
			}
			if news && !yield(ch, nil) || w.over {
				return
			}
			if err := pause(ctx, w.wait); err != nil {
				yield(Change{}, err)
				return
			}
		}
	}
}

// watch is where a reader stands.
type watch struct {
	c      *Client
	taskID string
	cursor int64
	// seen says that the cursor comes from the task itself.
	seen bool
	// over says that the last look saw the end.
	over bool
	// changed is when a look last brought news.
	changed  time.Time
	failures int
	wait     time.Duration
}

// look reads the task once. The error is one that waiting does not mend.
func (w *watch) look(ctx context.Context) (Change, bool, error) {
	s, err := w.c.read(ctx, w.taskID)
	if err != nil {
		return Change{}, false, w.failed(ctx, err)
	}
	if w.failures > 0 {
		w.c.o.Logger.Info("the task can be read again", "task", w.taskID, "failures", w.failures)
		w.failures = 0
	}
	t := s.desc.Task
	page, err := domain.Resume(t, w.cursor, domain.HistoryLimit)
	if err != nil {
		return Change{}, false, invalid(err)
	}
	if w.seen && t.Version < w.cursor {
		// The workflow was reset in Temporal: this is another past.
		page.Mode = domain.ModeSnapshot
	}
	news := page.Mode != domain.ModeCaughtUp || !w.seen && w.cursor == 0
	if news {
		w.changed = time.Now()
	}
	if w.over = s.ended(); t.Version > w.cursor || w.seen {
		w.cursor = t.Version
	}
	w.seen = w.seen || w.cursor == t.Version
	w.wait = w.c.o.Poll.next(s.desc, time.Since(w.changed), rand.Float64())
	return Change{Page: page, Description: w.c.description(w.taskID, s)}, news, nil
}

// failed keeps on through what passes.
func (w *watch) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNoWorker) {
		return err
	}
	if w.failures == 0 {
		w.c.o.Logger.Warn("the task cannot be read, waiting", "task", w.taskID, "error", err)
	}
	w.wait = w.c.o.Poll.again(w.failures, rand.Float64())
	w.failures++
	return nil
}
