//go:build long

package kill

// killsPerMoment is how often each target is killed at each moment.
const killsPerMoment = 5

func inThisRun(string, int) bool { return true }
