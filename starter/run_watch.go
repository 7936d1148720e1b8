package starter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// RunChange is news of a run.
type RunChange struct {
	// Page holds the versions that the reader has not seen yet. Its mode is snapshot
	// when there were more than the run keeps: then Page.Run is all there is. It is
	// caught up when only Delta is new, and for a run at version 0.
	Page run.Page `json:"page"`
	// Delta is the newest hint of the runtime about the step that is out. Some are
	// lost; a new attempt of the step makes all of them void.
	Delta json.RawMessage `json:"delta,omitempty"`
	// Description is the run as it was then, without what its tasks say.
	Description RunDescription `json:"description"`
}

// WatchRun gives the versions of a run after the cursor as they come, each once, and ends
// after a terminal one; the hints of the runtime come in between. It looks at the run by
// adaptive polling, and it outlives restarts of worker and engine: while these are away
// it waits, and says so in the log only. What ends it early is given as the last error:
// an unknown or terminated run, or the end of ctx.
func (c *Client) WatchRun(ctx context.Context, runID string, cursor int64) iter.Seq2[RunChange, error] {
	return func(yield func(RunChange, error) bool) {
		if cursor < 0 {
			yield(RunChange{}, invalidf("cursor", "must be an integer >= 0, it is %d", cursor))
			return
		}
		w := runWatch{c: c, runID: runID, cursor: cursor, changed: time.Now()}
		for {
			ch, news, err := w.look(ctx)
			if err != nil {
				yield(RunChange{}, err)
				return
			}
			if news && !yield(ch, nil) || w.over {
				return
			}
			if err := pause(ctx, w.pause); err != nil {
				yield(RunChange{}, err)
				return
			}
		}
	}
}

// runWatch is where a reader of a run stands; see [watch].
type runWatch struct {
	c        *Client
	runID    string
	cursor   int64
	delta    json.RawMessage
	seen     bool
	over     bool
	changed  time.Time
	failures int
	pause    time.Duration
}

// look reads the run once. The error is one that waiting does not mend.
func (w *runWatch) look(ctx context.Context) (RunChange, bool, error) {
	s, err := w.c.readRun(ctx, w.runID)
	if err != nil {
		return RunChange{}, false, w.failed(ctx, err)
	}
	if w.failures > 0 {
		w.c.o.Logger.Info("the run can be read again", "run", w.runID, "failures", w.failures)
		w.failures = 0
	}
	r := s.desc.Run
	page, err := run.Resume(r, w.cursor)
	if err != nil {
		return RunChange{}, false, invalid(err)
	}
	if w.seen && r.Version < w.cursor {
		// The workflow was reset in Temporal: this is another past.
		page.Mode = domain.ModeSnapshot
	}
	hint := len(s.desc.Delta) > 0 && !bytes.Equal(s.desc.Delta, w.delta)
	news := page.Mode != domain.ModeCaughtUp || hint || !w.seen && w.cursor == 0
	if news {
		w.changed = time.Now()
	}
	if w.over = s.ended(); r.Version > w.cursor || w.seen {
		w.cursor = r.Version
	}
	w.seen, w.delta = w.seen || w.cursor == r.Version, s.desc.Delta
	w.pause = w.c.o.Poll.nextRun(s.desc.WakeAtMs-s.desc.ServerTimeMs, time.Since(w.changed), rand.Float64())
	ch := RunChange{Page: page, Description: w.c.runDescription(w.runID, s)}
	if hint {
		ch.Delta = s.desc.Delta
	}
	return ch, news, nil
}

// failed keeps on through what passes.
func (w *runWatch) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNoWorker) {
		return err
	}
	if w.failures == 0 {
		w.c.o.Logger.Warn("the run cannot be read, waiting", "run", w.runID, "error", err)
	}
	w.pause = w.c.o.Poll.again(w.failures, rand.Float64())
	w.failures++
	return nil
}

// nextRun is how long to wait before the next look at a run: the longer the quieter it
// is, and until just after what the run itself wakes for.
func (p Poll) nextRun(wakeInMs int64, quiet time.Duration, lot float64) time.Duration {
	wait := jittered(min(max(quiet/4, p.Min), p.Max), lot)
	if wake := time.Duration(wakeInMs) * time.Millisecond; wake > 0 && wake < wait {
		wait = max(wake, p.Min/2)
	}
	return wait
}

// WaitRun waits for the end of a run and gives how it stands. A patience of 0 lasts until
// the end of the run or of the context. When it is over before, the error has the code
// wait-timeout and the description is the newest: the run goes on, nothing was
// cancelled. Errors: wait-timeout, invalid-request, unknown-run, terminated.
func (c *Client) WaitRun(ctx context.Context, runID string, patience time.Duration) (RunDescription, error) {
	if patience < 0 {
		return RunDescription{}, invalidf("for", "must be > 0, or absent; it is %s", patience)
	}
	waiting := ctx
	if patience > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	var last RunDescription
	for ch, err := range c.WatchRun(waiting, runID, 0) {
		switch {
		case err == nil:
			last = ch.Description
		case over(ctx) == nil && over(waiting) != nil:
			stands := "goes on"
			if s := last.Run.State; s != "" {
				stands = RunStanding(s) + " and goes on"
			}
			return last, fail(CodeWaitTimeout, "ask again later, or cancel it: wakepoint run cancel "+runID,
				"the wait of %s is over; run %s %s", config.FormatDuration(patience), runID, stands)
		default:
			return last, err
		}
	}
	return last, nil
}
