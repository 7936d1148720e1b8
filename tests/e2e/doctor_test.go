package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// command runs a command of this program in this process.
func command(ctx context.Context, dir string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	env := append(os.Environ(), "TEMPORAL_CONFIG_FILE="+filepath.Join(dir, "none.toml"))
	code = cli.Run(ctx, args, strings.NewReader(""), &out, &err, env)
	return code, out.String(), err.String()
}

// TestDoctor looks at a real engine and a real worker.
func TestDoctor(t *testing.T) {
	t.Parallel()
	const tools = "tools:\n  nap: {exec: {argv: [sleep, \"0.1\"]}, rate: 7/s}\n"
	in := harness.Install(t, shared, tenantOf(t), tools, nil).StartWorker()
	ctx := within(t, time.Minute)
	file := filepath.Join(t.TempDir(), "wakepoint.yaml")
	text := "tenant: " + in.Config.Tenant + "\ntaskQueue: " + in.Config.TaskQueue + "\n" + tools
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"doctor", "--json", "--config", file, "--address", shared.Address(), "--host", in.Options.Host}
	type finding struct{ Check, Status, What string }
	var body struct {
		OK        bool
		Findings  []finding
		Unchecked []any
	}
	examine := func(more ...string) int {
		t.Helper()
		code, stdout, stderr := command(ctx, filepath.Dir(file), append(args, more...)...)
		body.Findings = nil
		if err := json.Unmarshal([]byte(stdout), &body); err != nil {
			t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
		}
		return code
	}
	of := func(check string) (all []finding) {
		for _, f := range body.Findings {
			if f.Check == check {
				all = append(all, f)
			}
		}
		return all
	}

	// A worker is seen once its first polls have come in.
	harness.Until(t, time.Minute, "all is well", func() bool { return examine() == cli.ExitOK })
	for _, f := range body.Findings {
		if f.Status != "ok" && f.Check != "disk" {
			t.Errorf("%+v", f)
		}
	}
	if len(of("queues")) != 4 || len(of("standalone")) != 1 || len(body.Unchecked) != 0 {
		t.Errorf("%+v", body)
	}
	// Engine and doctor share a clock here, so the measure has to be as good as it says.
	m := regexp.MustCompile(`^the engine's clock is (\S+) (?:ahead of|behind) this host's, give or take (\S+)$`).FindStringSubmatch(of("clock")[0].What)
	if m == nil {
		t.Fatalf("%+v", of("clock"))
	}
	off, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	around, err := time.ParseDuration(m[2])
	if err != nil {
		t.Fatal(err)
	}
	if off > around+time.Millisecond {
		t.Errorf("the clock is said to be off: %+v", of("clock"))
	}

	if code := examine("--namespace", "nowhere"); code != cli.ExitFailure || body.OK || body.Findings[0].Check != "namespace" || len(body.Unchecked) == 0 {
		t.Errorf("exit %d: %+v", code, body)
	}
}

// TestToolsTest runs a command without an engine, by a real supervisor.
func TestToolsTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "wakepoint.yaml")
	const tools = `tools:
  hello: {exec: {argv: [echo, "hello ${input.name}"]}, poll: 100ms}
  broken: {exec: {argv: [ls, /nowhere/at/all]}, poll: 100ms}
  nap: {exec: {argv: [sleep, "600"]}, poll: 100ms}
`
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, time.Minute)
	code, stdout, stderr := command(ctx, dir, "tools", "test", "hello", "--arg", "name=you", "--config", file)
	if code != cli.ExitOK || stdout != "hello you\n" || !strings.Contains(stderr, "a job that is submitted twice on this host is done once") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = command(ctx, dir, "tools", "test", "broken", "--config", file)
	if code != cli.ExitTaskEnded || stdout != "" || !strings.Contains(stderr, "error: tool broken: failed after ") || !strings.Contains(stderr, "\n  ls: ") && !strings.Contains(stderr, "/ls: ") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = command(ctx, dir, "tools", "test", "nap", "--timeout", "8s", "--config", file)
	if code != cli.ExitTaskEnded || !strings.HasSuffix(stderr, "the job has ended: cancelled\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
}
