//go:build !long

package kill

import "time"

// killsPerMoment is how often each target is killed at each moment.
const killsPerMoment = 1

// inThisRun picks one target for each moment, another one for each, so that the
// short run kills everything once; `make long` kills all of them at all moments.
func inThisRun(moment string, target int) bool {
	order := map[string]int{"submit": 0, "exec": 1, "delivery": 2, "continue": 3, "slot": 2}
	return order[moment] == target
}

// killedRuns is how many runs are under way while things are killed, and
// killsPerRunMoment how often at each moment.
const (
	killedRuns        = 4
	killsPerRunMoment = 1
	strikesOneOf      = 1
	runPatience       = 5 * time.Minute
)
