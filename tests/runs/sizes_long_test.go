//go:build long

package runs

import "time"

// parkedRuns is how many runs are parked while no worker is there; parkedWakeWithin is
// how soon all have committed once more when one comes.
const (
	parkedRuns       = 2000
	parkedWakeWithin = 10 * time.Minute
	parkedWithin     = 40 * time.Minute
	// randomRuns is how many random runs are played, randomWithin how long they may take.
	randomRuns   = 100
	randomWithin = 15 * time.Minute
)
