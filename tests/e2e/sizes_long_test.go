//go:build long

package e2e

import "time"

// How much is done where the amount is the point.
const (
	fewPolls, manyPolls = 10, 200
	fewBeats, manyBeats = 10, 10_000
	waitingTakes        = 20 * time.Minute

	// A continue-as-new every so many events: at least three in the storm.
	stormSize, stormContinueAfter = 5_000, 1_500
	stormTakes                    = 20 * time.Minute
)
