package domain_test

import (
	"fmt"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// dumbResume answers from a history that was never cut.
func dumbResume(all []int64, version, cursor int64, retention int) (domain.Mode, []int64) {
	if retention == 0 {
		retention = 8
	}
	if retention > 64 {
		retention = 64
	}
	if version <= cursor {
		return "caught-up", nil
	}
	if version-cursor > int64(retention) {
		return "snapshot", nil
	}
	var events []int64
	for _, v := range all {
		if v > cursor {
			events = append(events, v)
		}
	}
	return "delta", events
}

// grown is a task with many versions, and what they are.
func grown(t *testing.T, versions int) (domain.Task, []int64) {
	t.Helper()
	now := task(t, "")
	var all []int64
	for i := range versions {
		e := domain.Event{Type: domain.EventHeartbeat, AtMs: 2, Stage: fmt.Sprint(i)}
		if i == 0 {
			e.Type = domain.EventStart
		}
		tr, err := domain.Apply(now, e)
		if err != nil {
			t.Fatal(err)
		}
		now = tr.Task
		all = append(all, int64(i+1))
	}
	return now, all
}

func checkResume(t *testing.T, now domain.Task, all []int64, cursor int64, retention int) {
	t.Helper()
	mode, want := dumbResume(all, now.Version, cursor, retention)
	p, err := domain.Resume(now, cursor, retention)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, e := range p.Events {
		got = append(got, e.Version)
	}
	if p.Mode != mode || fmt.Sprint(got) != fmt.Sprint(want) || p.Task.Version != now.Version || p.Events == nil {
		t.Errorf("version %d, cursor %d, retention %d: %s %v, not %s %v", now.Version, cursor, retention, p.Mode, got, mode, want)
	}
}

// TestResume tries every cursor against every retention that means something.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, versions := range []int{0, 1, 8, 9, 64, 65, 200} {
		now, all := grown(t, versions)
		for cursor := range int64(versions) + 3 {
			for _, retention := range []int{0, 1, 8, 63, 64, 65, 1000} {
				checkResume(t, now, all, cursor, retention)
			}
		}
	}
}

func TestResumeRefusesNegativeCursors(t *testing.T) {
	t.Parallel()
	for _, cursor := range []int64{-1, -1 << 63} {
		if _, err := domain.Resume(task(t, ""), cursor, 0); field(err) != "cursor" {
			t.Errorf("%d: %v", cursor, err)
		}
	}
	if p, err := domain.Resume(task(t, ""), 1<<63-1, 0); err != nil || p.Mode != domain.ModeCaughtUp {
		t.Errorf("a cursor beyond everything: %s (%v)", p.Mode, err)
	}
}

// TestResumeIsEnough: a reader who follows with any steps sees every version
// once, in order, or is told that it can't.
func TestResumeIsEnough(t *testing.T) {
	t.Parallel()
	for step := 1; step <= 12; step++ {
		cursor, seen := int64(0), int64(0)
		for versions := step; versions <= 120; versions += step {
			now, _ := grown(t, versions)
			p, err := domain.Resume(now, cursor, 0)
			if err != nil {
				t.Fatal(err)
			}
			if (p.Mode == domain.ModeSnapshot) != (step > domain.Retention) {
				t.Fatalf("steps of %d: %s", step, p.Mode)
			}
			for _, e := range p.Events {
				if seen++; e.Version != seen {
					t.Fatalf("steps of %d: version %d after %d", step, e.Version, seen-1)
				}
			}
			cursor, seen = p.Task.Version, p.Task.Version
		}
	}
}

func FuzzResume(f *testing.F) {
	f.Add(uint8(70), int64(3), 8)
	f.Add(uint8(0), int64(0), 0)
	f.Fuzz(func(t *testing.T, versions uint8, cursor int64, retention int) {
		if cursor < 0 || retention < 0 {
			return
		}
		now, all := grown(t, int(versions))
		checkResume(t, now, all, cursor, retention)
	})
}
