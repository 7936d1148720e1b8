//go:build !long

package e2e

import "time"

// How much is done where the amount is the point. `make long` does more.
const (
	fewPolls, manyPolls = 3, 12
	fewBeats, manyBeats = 10, 1_000
	waitingTakes        = 4 * time.Minute

	// A continue-as-new every so many events: at least three in the storm.
	stormSize, stormContinueAfter = 600, 200
	stormTakes                    = 5 * time.Minute
)
