// Package runs shows runs of agents on the real engine.
package runs

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// shared is the engine of all tests that don't kill theirs.
var shared *harness.Engine

func TestMain(m *testing.M) {
	// The worker of these tests starts exec's supervisor by this program.
	if len(os.Args) > 1 && os.Args[1] == "internal-supervise" {
		os.Exit(exec.SupervisorMain(os.Args[2:]))
	}
	if s := os.Getenv(runtimeEnv); s != "" {
		os.Exit(runtimeMain(s))
	}
	os.Exit(harness.Main(m, &shared))
}

var notID = regexp.MustCompile(`[^a-z0-9]+`)

// tenantOf makes a tenant of the test's name.
func tenantOf(t testing.TB) string {
	s := strings.Trim(notID.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	if len(s) > 30 {
		s = s[:30]
	}
	return strings.Trim(s, "-")
}

// within bounds what a test does with the engine.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// until follows a run until it is as wanted.
func until(ctx context.Context, t testing.TB, in *harness.Installation, runID string, holds func(run.Run) bool) run.Run {
	t.Helper()
	var last run.Run
	for ch, err := range in.Client.WatchRun(ctx, runID, 0) {
		require.NoError(t, err, "the run is %s: %+v", last.State, last.Calls)
		if last = ch.Description.Run; holds(last) {
			return last
		}
	}
	t.Fatalf("the run has ended %s: %+v", last.State, last.Error)
	return last
}

// callIs waits for the state of a call.
func callIs(step int, id string, s run.CallState) func(run.Run) bool {
	return func(r run.Run) bool {
		c, ok := r.Find(run.Key{Step: step, ID: id})
		return ok && c.State == s
	}
}

func stateIs(s run.State) func(run.Run) bool {
	return func(r run.Run) bool { return r.State == s }
}

// succeed ends an external task with a result.
func succeed(ctx context.Context, t testing.TB, in *harness.Installation, taskID, result string) {
	t.Helper()
	_, err := in.Client.Callback(ctx, taskID, domain.Callback{CallbackID: "done", Event: domain.Event{Type: domain.EventSucceed, Result: raw(result)}})
	require.NoError(t, err)
}

func unmarshal(b []byte, into any) error { return json.Unmarshal(b, into) }
