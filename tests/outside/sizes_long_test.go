//go:build long

package outside_test

import (
	"time"

	"github.com/wakepoint/wakepoint/tests/outside/service"
)

// The long run.
const (
	runTasks  = 1000
	runLanes  = 48
	minKills  = 30
	killPause = 8 * time.Second
	runWithin = 60 * time.Minute
)

// minFaults is all that the service can do wrong.
var minFaults = len(service.Faults())
