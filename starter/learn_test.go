package starter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// worked lets tasks of a tool succeed after so many seconds each.
func (w *world) worked(t *testing.T, tool string, seconds ...int) {
	t.Helper()
	for i, n := range seconds {
		id := fmt.Sprintf("%s-%d-%d", tool, i, w.clock.Load())
		w.submit(t, starter.Submission{Tool: tool, TaskID: id})
		w.clock.Add(int64(n) * 1000)
		w.call(t, id, "1", succeed())
	}
}

// another is a client that has learned nothing yet.
func (w *world) another(t *testing.T) *world {
	t.Helper()
	other := setup(t, func(o *starter.Options) { o.Temporal, o.Now = w.engine, w.clock.Load })
	other.engine, other.clock = w.engine, w.clock
	return other
}

func (w *world) expected(t *testing.T, tool string) (*domain.Window, int) {
	t.Helper()
	out := w.submit(t, starter.Submission{Tool: tool})
	_, in := w.engine.Started(out.WorkflowID)
	return in.Create.Policy.Expected, out.PollAfterSeconds
}

func TestUsualTimeIsLearned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.worked(t, "train", 10, 20, 30, 40)
	if got, _ := w.another(t).expected(t, "train"); !cmp.Equal(got, &domain.Window{LowMs: 40_000, HighMs: 120_000}) {
		t.Errorf("after four tasks: %+v, want what was declared", got)
	}
	if got, poll := w.another(t).expected(t, "approve"); got != nil || poll != 2 {
		t.Errorf("of a tool that nothing is known of: %+v, %d s", got, poll)
	}
	// What failed and what was cancelled says nothing of how long the work takes.
	w.ended(t, domain.StateFailed)
	w.ended(t, domain.StateCancelled)
	if got, _ := w.another(t).expected(t, "train"); got.LowMs != 40_000 {
		t.Errorf("after a failure: %+v", got)
	}
	w.worked(t, "train", 50, 60, 70, 80, 90, 100, 1000)
	got, poll := w.another(t).expected(t, "train")
	if !cmp.Equal(got, &domain.Window{LowMs: 20_000, HighMs: 100_000}) || poll != 5 {
		t.Errorf("after eleven: %+v, %d s", got, poll)
	}
	// A client looks once a minute.
	n := w.engine.Calls("ListWorkflow")
	other := w.another(t)
	for range 3 {
		other.expected(t, "train")
	}
	if got := w.engine.Calls("ListWorkflow") - n; got != 1 {
		t.Errorf("it looked %d times", got)
	}
}

func TestUsualTimeGrowsOldBehindTheSubmitter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		work := func(d time.Duration) {
			for i := range 5 {
				id := fmt.Sprintf("%s-%d", d, i)
				w.submit(t, starter.Submission{TaskID: id})
				after(d)
				w.call(t, id, "1", succeed())
			}
		}
		work(10 * time.Second)
		if got, _ := w.expected(t, "train"); got.LowMs != 40_000 {
			t.Errorf("within the first minute: %+v", got)
		}
		after(time.Minute)
		w.expected(t, "train") // begins to look
		after(time.Millisecond)
		if got, _ := w.expected(t, "train"); got.LowMs != 10_000 || got.HighMs != 10_000 {
			t.Errorf("a minute later: %+v", got)
		}
	})
}

// TestSubmittersDoNotWaitForASlowList: the list of the engine may hang, or be down.
func TestSubmittersDoNotWaitForASlowList(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		release := w.engine.HoldLists()
		began := time.Now()
		got, _ := w.expected(t, "train")
		if took := time.Since(began); took != 300*time.Millisecond || got.LowMs != 40_000 {
			t.Errorf("it took %s for %+v", took, got)
		}
		began = time.Now()
		w.expected(t, "train")
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("the second took %s", took)
		}
		after(10 * time.Second) // the look gives up
		began = time.Now()
		w.expected(t, "train")
		if took := time.Since(began); took != 0 {
			t.Errorf("after the look had failed it took %s", took)
		}
		release()
	})
}

// TestUsualTimeIsATime: tasks that took no time that can be measured, or that ended
// before they began by the clocks of an engine, say nothing.
func TestUsualTimeIsATime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.worked(t, "approve", 0, 0, 0, 0, -3, -3)
	if got, poll := w.another(t).expected(t, "approve"); got != nil || poll != 2 {
		t.Errorf("%+v, %d s", got, poll)
	}
	w.worked(t, "approve", 1, 1, 1, 1, 1)
	if got, _ := w.another(t).expected(t, "approve"); !cmp.Equal(got, &domain.Window{LowMs: 1000, HighMs: 1000}) {
		t.Errorf("%+v", got)
	}
}
