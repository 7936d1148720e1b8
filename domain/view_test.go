package domain_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
)

const resolveStep = "find out whether the work was done, then say so: wakepoint task resolve t --succeeded --result RESULT, --failed, or --repeat"

// TestView: what people see of a task, phase by phase.
func TestView(t *testing.T) {
	t.Parallel()
	seen := map[domain.Phase]bool{}
	for _, c := range []struct {
		life  string
		phase domain.Phase
		waits string
		next  string
	}{
		{"", domain.PhaseSubmitted, "a worker that runs the tool", ""},
		{"external", domain.PhaseSubmitted, "somebody outside to start it", ""},
		{"; start at=1", domain.PhaseRunning, "the tool to end", ""},
		{"; start at=1; cancel-requested at=2", domain.PhaseRunning, "the tool to end", ""},
		{"external; start at=1", domain.PhaseWaitingExternal, "a callback from outside", ""},
		{"; start at=1; input-required at=2 question=q prompt=p", domain.PhaseWaitingInput, "an answer to question q", ""},
		{"external; start at=1; input-required at=2 question=q prompt=p", domain.PhaseWaitingInput, "an answer to question q", ""},
		{"; start at=1; input-required at=2 question=q prompt=p; answer at=3 question=q answer=1", domain.PhaseRunning, "the tool to end", ""},
		{"; start at=1; fail at=2 retryable", domain.PhaseRetryWait, "the end of the retry wait", ""},
		{"; start at=1; suspect at=2", domain.PhaseSuspectedLost, "the outside to say whether the work goes on", ""},
		{"; start at=1; input-required at=2 question=q prompt=p; suspect at=3", domain.PhaseSuspectedLost, "the outside to say whether the work goes on", ""},
		{"; start at=1; succeed at=2 ref=r hash=h", domain.PhaseSucceeded, "", ""},
		{"; start at=1; fail at=2", domain.PhaseFailed, "", "read the error and the logs, then retry the task"},
		{"; start at=1; fail at=2 class=user", domain.PhaseFailed, "", "mend the input and submit a new task, or retry this one"},
		{"effects=unsafe; start at=1; requeue at=2", domain.PhaseFailed, "", "find out whether the work was done: if so take its result, if not retry the task; doing it twice may do harm"},
		{"; expire at=1000", domain.PhaseExpired, "", "retry the task with more time"},
		{"late=record; expire at=1000; succeed at=1001 ref=r hash=h", domain.PhaseExpired, "", "a result came after the deadline and was kept as lateResult; use it, or retry the task"},
		{"; cancel-requested at=2", domain.PhaseCancelled, "", ""},
		{"; start at=1; cancelled at=2", domain.PhaseCancelled, "", ""},
		{asked, domain.PhaseWaitingInput, "a person to find out whether the work was done", resolveStep},
		{"external " + asked, domain.PhaseWaitingInput, "a person to find out whether the work was done", resolveStep},
		{asked + "; input-required at=4 question=q prompt=p; requeue at=5", domain.PhaseWaitingInput, "a person to find out whether the work was done", resolveStep},
		{asked + "; heartbeat at=4", domain.PhaseRunning, "the tool to end", ""},
		{undoing, domain.PhaseWaitingExternal, "task undo_1 to undo what may have been done", ""},
		{stuck, domain.PhaseWaitingInput, "a person to find out whether the work was done", resolveStep},
		{asked + "; resolve at=4 action=repeat", domain.PhaseSubmitted, "a worker that runs the tool", ""},
		{asked + "; resolve at=4 action=failed", domain.PhaseFailed, "", "read the error and the logs, then retry the task"},
		{undoing + "; compensated at=4", domain.PhaseRetryWait, "the end of the retry wait", ""},
		{asked + "; expire at=1000", domain.PhaseExpired, "", "find out whether the work was done: if so take its result, if not retry the task; doing it twice may do harm"},
		{"effects=unsafe; expire at=1000 begun", domain.PhaseExpired, "", "find out whether the work was done: if so take its result, if not retry the task; doing it twice may do harm"},
		{"; expire at=1000 begun", domain.PhaseExpired, "", "retry the task with more time"},
		{"; start at=1; cancel-requested at=2; cancel-timeout at=3", domain.PhaseCancelled, "", "check outside whether the work has stopped, nobody confirmed it"},
	} {
		now := task(t, c.life)
		v := domain.Describe(now, 3)
		if v.Phase != c.phase || v.WaitsFor != c.waits || v.NextStep != c.next {
			t.Errorf("%s: %s, waits for %q, next step %q", c.life, v.Phase, v.WaitsFor, v.NextStep)
		}
		if domain.PhaseOf(now) != v.Phase || v.Task.Version != now.Version || v.LastHeartbeatAtMs != now.LastHeardAtMs {
			t.Errorf("%s: the view is of another task: %+v", c.life, v)
		}
		seen[v.Phase] = true
	}
	for _, p := range constantsOf(t, "Phase") {
		if !seen[domain.Phase(p)] {
			t.Errorf("no case is in the phase %s", p)
		}
	}
}

// TestWaitThatIsOver: an external task whose retry wait had passed was shown as
// waiting for that time for ever, and people thought that it hung.
func TestWaitThatIsOver(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1; fail at=2 retryable")
	now.Policy.External = true
	before := domain.Describe(now, now.RetryAtMs-1)
	if before.Phase != domain.PhaseRetryWait || before.WaitsFor != "the end of the retry wait" {
		t.Errorf("before: %s, %s", before.Phase, before.WaitsFor)
	}
	after := domain.Describe(now, now.RetryAtMs)
	if after.Phase != domain.PhaseSubmitted || after.WaitsFor != "somebody outside to start attempt 2" {
		t.Errorf("after: %s, %s", after.Phase, after.WaitsFor)
	}
}

// TestStalled: progress that stands still for the stall time, while running.
func TestStalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		life    string
		nowMs   int64
		stalled bool
	}{
		{"stall=100; start at=10", 109, false},
		{"stall=100; start at=10", 110, true},
		{"stall=100; start at=10; progress at=50 progress=5", 149, false},
		{"stall=100; start at=10; progress at=50 progress=5", 150, true},
		{"stall=100; start at=10; heartbeat at=100", 110, true},
		{"stall=100; start at=10; heartbeat at=100 stage=new", 199, false},
		{"; start at=10", 999, false},
		{"stall=100", 999, false},
		{"stall=100; start at=10; fail at=20", 999, false},
		{"stall=100 " + asked, 999, false},
		{"stall=100 " + asked + "; heartbeat at=5", 999, true},
	} {
		if got := domain.Describe(task(t, c.life), c.nowMs).Stalled; got != c.stalled {
			t.Errorf("%s at %d: stalled %v", c.life, c.nowMs, got)
		}
	}
}

// TestRemaining: an interval, from past runs and from the pace of this one.
func TestRemaining(t *testing.T) {
	t.Parallel()
	usual := &domain.Window{LowMs: 1000, HighMs: 3000}
	for _, c := range []struct {
		name, life string
		expected   *domain.Window
		nowMs      int64
		want       *domain.Window
	}{
		{"nothing is known", "; start at=0", nil, 100, nil},
		{"not running", "", usual, 100, nil},
		{"ended", "ttl=100000; start at=0; fail at=5", usual, 100, nil},
		{"the usual time", "ttl=100000; start at=0", usual, 100, &domain.Window{LowMs: 900, HighMs: 2900}},
		{"longer than usual", "ttl=100000; start at=0", usual, 2000, &domain.Window{LowMs: 0, HighMs: 1000}},
		{"longer than ever", "ttl=100000; start at=0", usual, 9000, &domain.Window{LowMs: 0, HighMs: 0}},
		{"its own pace", "ttl=100000; start at=0; progress at=500 progress=25", nil, 500, &domain.Window{LowMs: 1500, HighMs: 1500}},
		{"its own pace, a while later", "ttl=100000; start at=0; progress at=500 progress=25", nil, 900, &domain.Window{LowMs: 1100, HighMs: 1100}},
		{"its own pace was wrong", "ttl=100000; start at=0; progress at=500 progress=25", nil, 9000, nil},
		{"slower than usual", "ttl=100000; start at=0; progress at=1000 progress=10", usual, 1000, &domain.Window{LowMs: 0, HighMs: 9000}},
		{"faster than usual", "ttl=100000; start at=0; progress at=90 progress=90", usual, 90, &domain.Window{LowMs: 10, HighMs: 2910}},
	} {
		now := task(t, c.life)
		now.Policy.Expected = c.expected
		if diff := cmp.Diff(c.want, domain.Describe(now, c.nowMs).Remaining); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestOpenQuestion: the first that waits.
func TestOpenQuestion(t *testing.T) {
	t.Parallel()
	for life, want := range map[string]string{
		"; start at=1": "",
		"; start at=1; input-required at=2 question=a prompt=p":                                                                                  "a",
		"; start at=1; input-required at=2 question=a prompt=p; input-required at=2 question=b prompt=p":                                         "a",
		"; start at=1; input-required at=2 question=a prompt=p; input-required at=2 question=b prompt=p; answer at=3 question=a answer=1":        "b",
		"; start at=1; input-required at=2 question=a prompt=p; answer at=3 question=a answer=1":                                                 "",
		"; start at=0; input-required at=0 question=a prompt=p; answer at=0 question=a answer=1; input-required at=0 question=c prompt=and-then": "c",
	} {
		q, ok := task(t, life).OpenQuestion()
		if q.QuestionID != want || ok != (want != "") {
			t.Errorf("%s: %q", life, q.QuestionID)
		}
	}
}

// TestWithoutHistory: a run gets the record without its history, and the task
// keeps its own.
func TestWithoutHistory(t *testing.T) {
	t.Parallel()
	now := task(t, "; start at=1; succeed at=2 ref=r hash=h")
	short := now.WithoutHistory()
	if len(short.History) != 0 || short.History == nil || len(now.History) != 2 || short.ResultHash != "h" {
		t.Errorf("%+v, and of the task %+v", short, now.History)
	}
}

// TestStateTerminal: the four ends.
func TestStateTerminal(t *testing.T) {
	t.Parallel()
	ends := []domain.State{domain.StateSucceeded, domain.StateFailed, domain.StateExpired, domain.StateCancelled}
	for _, s := range append(domain.States(), "nonsense", "") {
		if s.Terminal() != slices.Contains(ends, s) {
			t.Errorf("%s: terminal %v", s, s.Terminal())
		}
	}
}
