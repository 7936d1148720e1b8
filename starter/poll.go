package starter

import (
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Poll bounds how often a watch looks at a task.
type Poll struct {
	// Min is the shortest wait between two looks. Default: 250ms.
	Min time.Duration
	// Max is the longest. Default: 10s.
	Max time.Duration
}

// The defaults of [Poll].
const (
	shortestPoll = 250 * time.Millisecond
	longestPoll  = 10 * time.Second
)

func (p Poll) withDefaults() Poll {
	if p.Min == 0 {
		p.Min = shortestPoll
	}
	if p.Max == 0 {
		p.Max = max(longestPoll, p.Min)
	}
	return p
}

func (p Poll) validate() error {
	if p.Min < 0 {
		return domain.Invalid("Poll.Min", "must be > 0, it is %s", p.Min)
	}
	if p.Max < p.Min {
		return domain.Invalid("Poll.Max", "must be at least Poll.Min, %s; it is %s", p.Min, p.Max)
	}
	return nil
}

// next is how long to wait before the next look at a task. quiet is how long
// nothing has changed, as far as this reader knows; the lot is in [0,1).
//
// A queued task is looked at more slowly the longer it waits. Of a running one a
// tenth of the time that it will probably still take passes between two looks, so
// that these come faster towards the end; when it takes longer than expected, or
// nobody knows, the wait grows again with the silence. What happens at a time
// that is known (the deadline, the end of a retry wait) is looked at just after.
func (p Poll) next(d protocol.Description, quiet time.Duration, lot float64) time.Duration {
	wait := quiet / 4
	t := d.Task
	if t.State == domain.StateRunning && d.Remaining != nil {
		const share = 10
		low := time.Duration(d.Remaining.LowMs) * time.Millisecond
		high := time.Duration(d.Remaining.HighMs) * time.Millisecond
		switch {
		case low > 0:
			wait = low / share
		case high > 0:
			wait = min(quiet/4, high/share)
		}
	}
	wait = min(max(wait, p.Min), p.Max)
	wait = jittered(wait, lot)
	for _, atMs := range []int64{t.RetryAtMs, t.ExpiresAtMs} {
		if until := time.Duration(atMs-d.ServerTimeMs) * time.Millisecond; until > 0 && until < wait {
			wait = max(until, p.Min/2)
		}
	}
	return wait
}

// again is the wait after the given number of failed looks in a row.
func (p Poll) again(failures int, lot float64) time.Duration {
	const most = 20 // doublings, beyond any sensible maximum
	wait := p.Min << min(failures, most)
	return jittered(min(max(wait, p.Min), p.Max), lot)
}

// jittered spreads a wait by a fifth, so that many readers who began together
// don't stay together.
func jittered(wait time.Duration, lot float64) time.Duration {
	const spread = 0.2
	return time.Duration(float64(wait) * (1 - spread + 2*spread*lot))
}
