package starter_test

import (
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// describe is a task at time 1,000,000 with an hour to live.
func describe(state domain.State, change func(*protocol.Description)) protocol.Description {
	d := protocol.Description{ServerTimeMs: 1_000_000}
	d.Task.State, d.Task.ExpiresAtMs = state, 1_000_000+3_600_000
	change(&d)
	return d
}

func TestPollAdapts(t *testing.T) {
	t.Parallel()
	p := starter.Poll{Min: 250 * time.Millisecond, Max: 10 * time.Second}
	remaining := func(low, high int64) func(*protocol.Description) {
		return func(d *protocol.Description) { d.Remaining = &domain.Window{LowMs: low, HighMs: high} }
	}
	none := func(*protocol.Description) {}
	for name, tc := range map[string]struct {
		state  domain.State
		change func(*protocol.Description)
		quiet  time.Duration
		want   time.Duration
	}{
		"queued, just now":               {domain.StateQueued, none, 0, 250 * time.Millisecond},
		"queued for a while":             {domain.StateQueued, none, 8 * time.Second, 2 * time.Second},
		"queued for long":                {domain.StateQueued, none, time.Hour, 10 * time.Second},
		"running, nobody knows":          {domain.StateRunning, none, 4 * time.Second, time.Second},
		"running, far from the end":      {domain.StateRunning, remaining(600_000, 900_000), 0, 10 * time.Second},
		"running, a minute to go":        {domain.StateRunning, remaining(60_000, 90_000), time.Hour, 6 * time.Second},
		"running, five seconds to go":    {domain.StateRunning, remaining(5_000, 90_000), time.Hour, 500 * time.Millisecond},
		"running, near the end":          {domain.StateRunning, remaining(500, 90_000), time.Hour, 250 * time.Millisecond},
		"running, may end any time":      {domain.StateRunning, remaining(0, 20_000), time.Minute, 2 * time.Second},
		"running, just moved":            {domain.StateRunning, remaining(0, 20_000), time.Second, 250 * time.Millisecond},
		"running, longer than ever":      {domain.StateRunning, remaining(0, 0), 20 * time.Second, 5 * time.Second},
		"queued again, its turn is soon": {domain.StateQueued, func(d *protocol.Description) { d.Task.RetryAtMs = 1_003_000 }, time.Hour, 3 * time.Second},
		"queued again, its turn was":     {domain.StateQueued, func(d *protocol.Description) { d.Task.RetryAtMs = 900_000 }, time.Hour, 10 * time.Second},
		"queued again, now":              {domain.StateQueued, func(d *protocol.Description) { d.Task.RetryAtMs = 1_000_001 }, time.Hour, 125 * time.Millisecond},
		"the deadline is soon":           {domain.StateRunning, func(d *protocol.Description) { d.Task.ExpiresAtMs = 1_002_000 }, time.Hour, 2 * time.Second},
		"the deadline is over":           {domain.StateRunning, func(d *protocol.Description) { d.Task.ExpiresAtMs = 999_000 }, time.Hour, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := describe(tc.state, tc.change)
			if got := p.Next(d, tc.quiet, 0.5); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
			low, high := p.Next(d, tc.quiet, 0), p.Next(d, tc.quiet, 0.999)
			if low < tc.want*4/5-time.Millisecond || high > tc.want*6/5+time.Millisecond || low > high {
				t.Errorf("spread from %v to %v around %v", low, high, tc.want)
			}
		})
	}
}

func TestPollComesFasterTowardsTheEnd(t *testing.T) {
	t.Parallel()
	p := starter.Poll{Min: 100 * time.Millisecond, Max: 30 * time.Second}
	last := time.Hour
	for left := int64(600_000); left > 0; left -= 5_000 {
		d := describe(domain.StateRunning, func(d *protocol.Description) { d.Remaining = &domain.Window{LowMs: left, HighMs: 2 * left} })
		wait := p.Next(d, time.Hour, 0.5)
		if wait > last {
			t.Fatalf("%dms before the end it waits %v, longer than %v before", left, wait, last)
		}
		last = wait
	}
	if last != 500*time.Millisecond {
		t.Errorf("ends at %v", last)
	}
}

func TestPollAgainBacksOff(t *testing.T) {
	t.Parallel()
	p := starter.Poll{Min: 250 * time.Millisecond, Max: 10 * time.Second}
	for failures, want := range map[int]time.Duration{0: 250 * time.Millisecond, 1: 500 * time.Millisecond, 4: 4 * time.Second, 6: 10 * time.Second, 1000: 10 * time.Second} {
		if got := p.Again(failures, 0.5); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}
