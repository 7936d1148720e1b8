// Package e2e shows Wakepoint on the real engine.
package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// shared is the engine of all tests that don't kill theirs.
var shared *harness.Engine

func TestMain(m *testing.M) {
	// The worker of these tests starts exec's supervisor by this program.
	if len(os.Args) > 1 && os.Args[1] == "internal-supervise" {
		os.Exit(exec.SupervisorMain(os.Args[2:]))
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
