//go:build !long

package outside_test

import "time"

// The run in CI: small enough for two slow cores, large enough that every rule is met.
const (
	runTasks = 40
	runLanes = 20
	// minFaults is how many sorts of misbehaviour have to have happened, minKills how many workers
	// have to have been killed, for a run to count.
	minFaults = 12
	minKills  = 3
	// killPause is the longest time between two kills.
	killPause = 6 * time.Second
	runWithin = 5 * time.Minute
)
