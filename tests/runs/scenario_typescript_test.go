//go:build long

package runs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// TestTheScenarioInTypeScript is the scenario with the example for a runtime in TypeScript,
// built from its lock file as a user builds it. It needs Node.js 20 and npm.
func TestTheScenarioInTypeScript(t *testing.T) {
	t.Parallel()
	example := filepath.Join(harness.Root(), "examples", "typescript-agent")
	// Not in the source tree, and what a user has built there is not taken along.
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(example, "src"))))
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "script.json"} {
		b, err := os.ReadFile(filepath.Join(example, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund"}, {"run", "build"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		npm := exec.CommandContext(ctx, "npm", args...)
		npm.Dir = dir
		out, err := npm.CombinedOutput()
		cancel()
		require.NoError(t, err, "npm %s:\n%s", args[0], out)
	}
	_, err := config.Load(filepath.Join(example, "wakepoint.yaml"))
	require.NoError(t, err)
	t.Run("played", func(t *testing.T) {
		eachTime(t, "typescript", func(t *testing.T, tenant string, disturbed bool) {
			t.Helper()
			queue := "agents-" + tenant
			s := newStage(t, tenant, "activity: {taskQueue: "+queue+", heartbeats: true}", disturbed)
			s.process = &process{t: t, make: func() *exec.Cmd {
				cmd := exec.Command("node", filepath.Join("lib", "worker.js"))
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+shared.Address(), "TASK_QUEUE="+queue, "SCRIPT="+s.script, "STEP_LOG="+s.log)
				return cmd
			}}
			s.check(s.play(disturbed), disturbed)
		})
	})
}
