//go:build !long

package runs

import "time"

// parkedRuns is how many runs are parked while no worker is there; parkedWakeWithin is
// how soon all have committed once more when one comes.
const (
	parkedRuns       = 40
	parkedWakeWithin = time.Minute
	parkedWithin     = 4 * time.Minute
	// randomRuns is how many random runs are played, randomWithin how long they may take.
	randomRuns   = 16
	randomWithin = 4 * time.Minute
)
