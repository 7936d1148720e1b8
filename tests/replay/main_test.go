package replay

import (
	"flag"
	"os"
	"testing"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/tests/harness"
)

var record = flag.Bool("record", false, "write the histories of the lives that have none in testdata")

// engine is where histories are made.
var engine *harness.Engine

func TestMain(m *testing.M) { os.Exit(main(m)) }

func main(m *testing.M) int {
	// Without a cache a worker forgets a workflow after each workflow task and
	// replays it from its beginning for the next one. It is for the process, and
	// must come before the first worker.
	sdkworker.SetStickyWorkflowCacheSize(0)
	return harness.Main(m, &engine)
}
