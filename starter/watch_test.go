package starter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// inBubble runs a test with a clock that moves when everybody waits.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(o *starter.Options) { o.Now = nil })
		w.engine.Now = func() int64 { return time.Now().UnixMilli() }
		f(t, w)
	})
}

// story is what a watch showed, a line for each version.
type story struct {
	lines []string
	err   error
}

func (w *world) watch(ctx context.Context, id string, cursor int64) *story {
	s := &story{}
	for ch, err := range w.Watch(ctx, id, cursor) {
		if err != nil {
			s.err = err
			continue
		}
		if len(ch.Page.Events) == 0 {
			s.lines = append(s.lines, fmt.Sprintf("%s %d %s", ch.Page.Mode, ch.Page.Task.Version, ch.Page.Task.State))
		}
		for _, e := range ch.Page.Events {
			s.lines = append(s.lines, fmt.Sprintf("%d %s", e.Version, e.Event.Type))
		}
	}
	return s
}

func TestWatchShowsEachVersionOnceAndEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		go func() {
			after(20 * time.Second)
			w.call(t, id, "1", start())
			for i := range 5 {
				after(10 * time.Second)
				w.call(t, id, fmt.Sprint("p", i), progress(float64(i+1)*10))
			}
			after(10 * time.Second)
			w.call(t, id, "2", succeed())
		}()
		began := time.Now()
		s := w.watch(t.Context(), id, 0)
		want := []string{"caught-up 0 queued", "1 start", "2 progress", "3 progress", "4 progress", "5 progress", "6 progress", "7 succeed"}
		if diff := cmp.Diff(want, s.lines); diff != "" || s.err != nil {
			t.Errorf("%s (%v)", diff, s.err)
		}
		if took := time.Since(began); took < 80*time.Second || took > 92*time.Second {
			t.Errorf("took %v", took)
		}
		// Slow while it waits, by the expected time while it runs.
		if n := w.engine.Calls("QueryWorkflowWithOptions"); n > 100 {
			t.Errorf("%d queries", n)
		}
	})
}

func TestWatchGoesOnFromACursor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		w.call(t, id, "1", progress(10))
		w.call(t, id, "2", progress(20))
		go func() {
			after(time.Minute)
			w.call(t, id, "3", succeed())
		}()
		if diff := cmp.Diff([]string{"3 progress", "4 succeed"}, w.watch(t.Context(), id, 2).lines); diff != "" {
			t.Error(diff)
		}
		if s := w.watch(t.Context(), id, 4); len(s.lines) != 0 || s.err != nil {
			t.Errorf("a reader who knows the end was shown %v (%v)", s.lines, s.err)
		}
		if s := w.watch(t.Context(), id, 0); len(s.lines) != 4 {
			t.Errorf("from the beginning: %v", s.lines)
		}
	})
}

func TestWatchFlagsASnapshotWhenItMissedTooMuch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		for i := range 80 {
			w.call(t, id, fmt.Sprint(i), progress(float64(i+1)))
		}
		go func() {
			after(time.Minute)
			w.call(t, id, "end", succeed())
		}()
		if diff := cmp.Diff([]string{"snapshot 81 running", "82 succeed"}, w.watch(t.Context(), id, 3).lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchSurvivesRestartsOfWorkerAndEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := setup(t, func(o *starter.Options) {
			o.Now, o.Logger = nil, slog.New(slog.NewTextHandler(&log, nil))
		})
		w.engine.Now = func() int64 { return time.Now().UnixMilli() }
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		go func() {
			after(10 * time.Second)
			w.engine.Workers(false)
			after(2 * time.Minute)
			w.engine.Down(true)
			after(2 * time.Minute)
			w.engine.Down(false)
			w.engine.Workers(true)
			w.call(t, id, "1", start())
			after(time.Minute)
			w.engine.Down(true)
			after(time.Minute)
			w.engine.Down(false)
			w.call(t, id, "2", succeed())
		}()
		s := w.watch(t.Context(), id, 0)
		if diff := cmp.Diff([]string{"caught-up 0 queued", "1 start", "2 succeed"}, s.lines); diff != "" || s.err != nil {
			t.Errorf("%s (%v)", diff, s.err)
		}
		if n := strings.Count(log.String(), "cannot be read"); n != 2 {
			t.Errorf("%d outages were told of:\n%s", n, log.String())
		}
	})
}

func TestWatchSeesTheDeadlineSoon(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{Tool: "approve", TTL: 10 * time.Minute}).TaskID
		began := time.Now()
		s := w.watch(t.Context(), id, 0)
		if diff := cmp.Diff([]string{"caught-up 0 queued", "1 expire"}, s.lines); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took > 10*time.Minute+time.Second {
			t.Errorf("the end was seen after %v", took)
		}
	})
}

func TestWatchEndsWithWhatWaitingDoesNotMend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		is(t, w.watch(t.Context(), "nobody", 0).err, starter.ErrUnknownTask)
		is(t, w.watch(t.Context(), "a", -1).err, starter.ErrInvalid)
		is(t, w.watch(t.Context(), "a/b", 0).err, starter.ErrInvalid)
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if s := w.watch(ctx, id, 0); !errors.Is(s.err, context.DeadlineExceeded) || len(s.lines) != 1 {
			t.Errorf("got %v (%v)", s.lines, s.err)
		}
		go func() {
			after(time.Minute)
			w.engine.Terminate(w.workflowID(id))
		}()
		is(t, w.watch(t.Context(), id, 0).err, starter.ErrTerminated)
	})
}

func TestWatchMayBeLeft(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		for ch, err := range w.Watch(t.Context(), id, 0) {
			if err != nil || ch.Description.WorkflowID != "acme/task/a" {
				t.Errorf("%+v (%v)", ch, err)
			}
			break
		}
	})
}

// TestWatchAfterAReset: a reset in the Temporal UI takes a task back to a past from
// which it goes another way. The reader is shown where it stands.
func TestWatchAfterAReset(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
		for i := range 3 {
			w.call(t, id, fmt.Sprint(i), progress(float64(i+1)))
		}
		go func() {
			after(time.Minute)
			o, in := w.engine.Started(w.workflowID(id))
			w.engine.Forget(w.workflowID(id))
			if _, err := w.engine.ExecuteWorkflow(t.Context(), o, protocol.WorkflowAsyncTask, in); err != nil {
				t.Error(err)
			}
			after(time.Minute)
			w.call(t, id, "x", domain.Event{Type: domain.EventFail})
		}()
		want := []string{"1 start", "2 progress", "3 progress", "4 progress", "snapshot 0 queued", "1 start", "2 fail"}
		if diff := cmp.Diff(want, w.watch(t.Context(), id, 0).lines); diff != "" {
			t.Error(diff)
		}
	})
}
