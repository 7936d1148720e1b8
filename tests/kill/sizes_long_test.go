//go:build long

package kill

import "time"

// killsPerMoment is how often each target is killed at each moment.
const killsPerMoment = 5

func inThisRun(string, int) bool { return true }

// killedRuns is how many runs are under way while things are killed, and
// killsPerRunMoment how often at each moment.
const (
	killedRuns        = 30
	killsPerRunMoment = 8
	strikesOneOf      = 2
	runPatience       = 20 * time.Minute
)
