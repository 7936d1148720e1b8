package exec

import "time"

// forever is no limit.
const forever = time.Duration(1<<63 - 1)

// poll asks until the answer is yes, at once and then at intervals, and reports whether it was yes
// within the limit. Files, locks of other processes and processes that are not our children
// announce nothing that could be waited for.
func poll(interval, limit time.Duration, done func() bool) bool {
	if done() {
		return true
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case <-tick.C:
			if done() {
				return true
			}
		case <-timeout.C:
			return done()
		}
	}
}
