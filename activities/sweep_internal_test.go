package activities

import (
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store/blobref"
)

// now is when the sweeps of these tests look.
var now = time.UnixMilli(1_800_000_000_000)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	l := Lifetimes{Result: 3 * time.Hour, Shortest: time.Minute, Longest: 5 * time.Hour}
	gone, open := fate{gone: true}, fate{runID: "r"}
	closed := func(until time.Time) fate { return fate{closed: true, runID: "r", until: until} }
	retryable := func(until time.Time) fate { return fate{closed: true, runID: "r", until: until, retryable: true} }
	for name, tc := range map[string]struct {
		fate   fate
		madeAt time.Time
		// result is of a stored result; done, failed and unknown of a job of that state. A
		// content of a run goes as a job goes that did its work.
		result, done, failed, unknown due
	}{
		"task gone":                     {gone, ago(6 * time.Hour), dueGone, dueGone, dueGone, dueGone},
		"task gone, to the moment":      {gone, ago(5 * time.Hour), dueGone, dueGone, dueGone, dueGone},
		"task gone, but it is young":    {gone, ago(4 * time.Hour), dueNot, dueNot, dueNot, dueNot},
		"task gone, its age is unknown": {gone, time.Time{}, dueNot, dueNot, dueNot, dueNot},
		"task open":                     {open, ago(1000 * time.Hour), dueNot, dueNot, dueNot, dueNot},
		"closed, lives":                 {closed(now.Add(1)), ago(1000 * time.Hour), dueNot, dueNot, dueNot, dueNot},
		"closed, outlived":              {closed(now), ago(2 * time.Minute), dueOutlived, dueOutlived, dueOutlived, dueOutlived},
		"closed, its age is unknown":    {closed(now), time.Time{}, dueOutlived, dueOutlived, dueOutlived, dueOutlived},
		"could be retried, lives":       {retryable(now.Add(1)), ago(1000 * time.Hour), dueNot, dueNot, dueNot, dueNot},
		"could be retried, outlived":    {retryable(now), ago(1000 * time.Hour), dueOutlived, dueNot, dueOutlived, dueNot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.fate.result(l, tc.madeAt, now); got != tc.result {
				t.Errorf("a result: %q, want %q", got, tc.result)
			}
			if got := tc.fate.blob(ofTask("t"), l, tc.madeAt, now); got != tc.result {
				t.Errorf("a result in the store: %q, want %q", got, tc.result)
			}
			if got := tc.fate.blob(owner{blobref.KindRun, "r"}, l, tc.madeAt, now); got != tc.done {
				t.Errorf("a content of a run: %q, want %q", got, tc.done)
			}
			for s, want := range map[tool.State]due{
				tool.StateSucceeded: tc.done, tool.StateFailed: tc.failed, tool.StateCancelled: tc.failed, tool.StateUnknown: tc.unknown,
				tool.StateLost: tc.unknown, tool.StateRunning: dueNot,
			} {
				if got := tc.fate.job(l, s, tc.madeAt, now); got != want {
					t.Errorf("a job that is %s: %q, want %q", s, got, want)
				}
			}
		})
	}
}

// However short results live, something may have been stored for a task that is
// about to appear.
func TestSafetyAge(t *testing.T) {
	t.Parallel()
	l := Lifetimes{Result: time.Minute}.withDefaults()
	if l.gone(ago(59*time.Minute), now) || !l.gone(ago(time.Hour), now) {
		t.Error("the safety age is not an hour")
	}
	if !l.young(ago(59*time.Second), now) || l.young(ago(time.Minute), now) {
		t.Error("what is younger than the shortest lifetime is looked up")
	}
}

func TestLifetimesOf(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("wakepoint.yaml", []byte(`
resultTTL: 2h
tools:
  a: {executor: external, resultTTL: 30m}
  b: {executor: external}
  c: {executor: external, resultTTL: 9h}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := LifetimesOf(cfg), (Lifetimes{2 * time.Hour, 30 * time.Minute, 9 * time.Hour}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := (Lifetimes{}).withDefaults(), (Lifetimes{config.DefaultResultTTL, config.DefaultResultTTL, config.DefaultResultTTL}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
