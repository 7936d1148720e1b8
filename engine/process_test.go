package engine_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/engine"
)

func TestKilledEngineRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startChild(t, nil, nil, "--data-dir", dir, "--headless")
	runID := startWorkflow(t, first.client(t, "default"), "kept")
	first.kill(t)
	if _, err := os.Stat(first.readyFile); err != nil {
		t.Fatalf("a killed engine leaves its ready file: %v", err)
	}

	second := startChild(t, nil, nil, "--data-dir", dir, "--headless", "--ready-file", first.readyFile)
	if second.PID == first.PID {
		t.Error("the old ready file was taken for the new one")
	}
	checkWorkflow(t, second.client(t, "default"), "kept", runID)
	second.stop(t)
}

func TestSignalStopsCleanly(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			e := startChild(t, nil, nil)
			e.stopNow = func() {
				if err := e.process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			e.stop(t)
			if want := "stopping: " + s.String(); !strings.Contains(e.stdout.String(), want) {
				t.Errorf("%q is not in: %s", want, e.stdout)
			}
			// What the server logs for each call that the stop cuts off.
			if got := e.stderr.String(); strings.Contains(got, "context canceled") {
				t.Errorf("a clean stop says on stderr: %s", got)
			}
			if _, err := os.Stat(e.DataDir); !os.IsNotExist(err) {
				t.Errorf("the temporary folder is still there (%v)", err)
			}
		})
	}
}

// TestSecondSignalForces sends the second one while the first is being obeyed, which takes the server a second at least.
func TestSecondSignalForces(t *testing.T) {
	t.Parallel()
	e := startChild(t, nil, nil, "--headless", "--data-dir", t.TempDir())
	e.stopNow()
	eventually(t, "the stop to begin", func() bool { return strings.Contains(e.stdout.String(), "stopping: ") })
	e.stopNow()
	if code := e.wait(t); code != engine.ExitForced {
		t.Errorf("exit %d, want %d\nstderr: %s", code, engine.ExitForced, e.stderr)
	}
	if _, err := os.Stat(e.readyFile); !os.IsNotExist(err) {
		t.Errorf("the ready file is still there (%v)", err)
	}
}

// TestStopBeforeItIsUp asks for the stop at the very beginning.
func TestStopBeforeItIsUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var stdout, stderr output
	code := engine.Run(ctx, []string{"server", "start-dev", "--port", "0", "--data-dir", dir, "--ready-file", filepath.Join(dir, "ready.json")}, nil, &stdout, &stderr)
	if code != engine.ExitOK || stdout.String() != "stopping: context canceled\n" || stderr.String() != "" {
		t.Errorf("exit %d\nstdout: %s\nstderr: %s", code, &stdout, &stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "ready.json")); !os.IsNotExist(err) {
		t.Errorf("there is a ready file (%v)", err)
	}
	// What was begun is usable.
	startChild(t, nil, nil, "--data-dir", dir, "--headless").stop(t)
}

// TestParentsDeath closes stdin, as the kernel does when the parent that holds the other end dies.
func TestParentsDeath(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	e := startChild(t, read, nil, "--headless", "--exit-with-stdin")
	if _, err := io.WriteString(write, "what a parent writes does not matter\n"); err != nil {
		t.Fatal(err)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if code := e.wait(t); code != engine.ExitOK {
		t.Errorf("exit %d, want %d\nstderr: %s", code, engine.ExitOK, e.stderr)
	}
	if !strings.Contains(e.stdout.String(), "stopping: end of stdin") {
		t.Errorf("the cause is not in: %s", e.stdout)
	}
}

// TestTemporaryFolderOfKilledEngineIsSwept starts two engines on the same folder for temporary files after one was killed.
func TestTemporaryFolderOfKilledEngineIsSwept(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	env := []string{"TMPDIR=" + tmp}
	foreign := filepath.Join(tmp, "wakepoint-engine-being-made")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	killed := startChild(t, nil, env, "--headless")
	killed.kill(t)
	if _, err := os.Stat(killed.DataDir); err != nil {
		t.Fatalf("a killed engine leaves its folder: %v", err)
	}
	one := startChild(t, nil, env, "--headless")
	two := startChild(t, nil, env, "--headless")
	for _, dir := range []string{foreign, one.DataDir, two.DataDir} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("swept too much: %v", err)
		}
	}
	if _, err := os.Stat(killed.DataDir); !os.IsNotExist(err) {
		t.Errorf("the folder of the killed engine is still there (%v)", err)
	}
	one.stop(t)
	two.stop(t)
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{foreign}, left); diff != "" {
		t.Errorf("left in the folder for temporary files (-want +got):\n%s", diff)
	}
}

// TestStartDevServer starts the engine the way the Go SDK starts `temporal server start-dev`.
func TestStartDevServer(t *testing.T) {
	t.Parallel()
	var stdout, stderr output
	file := filepath.Join(t.TempDir(), "dev.db")
	ctx := t.Context()
	server, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: executable(t),
		DBFilename:   file,
		EnableUI:     true,
		UIPort:       "0",
		LogLevel:     "warn",
		LogFormat:    "pretty",
		// The SDK takes names and types from here; an attribute without a value would be left out.
		SearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("K").ValueSet("a"), temporal.NewSearchAttributeKeyInt64("I").ValueSet(1),
			temporal.NewSearchAttributeKeyString("S").ValueSet("a"), temporal.NewSearchAttributeKeyBool("B").ValueSet(true),
			temporal.NewSearchAttributeKeyFloat64("D").ValueSet(1), temporal.NewSearchAttributeKeyTime("T").ValueSet(time.Unix(0, 0)),
			temporal.NewSearchAttributeKeyKeywordList("L").ValueSet([]string{"a"}),
		),
		ExtraArgs: []string{"--dynamic-config-value", "limit.maxIDLength=100"},
		Stdout:    &stdout, Stderr: &stderr,
	})
	if err != nil {
		t.Fatalf("%v\nstdout: %s\nstderr: %s", err, &stdout, &stderr)
	}
	// The client is there as soon as the frontend answers; everything else has to be as well.
	runID := startWorkflow(t, server.Client(), "w")
	e := &running{Ready: engine.Ready{FrontendAddress: server.FrontendHostPort()}}
	_, attributes := describe(t, e, "default")
	want := append([]string{"B=Bool", "D=Double", "I=Int", "K=Keyword", "L=KeywordList", "S=Text", "T=Datetime"}, ownAsKeywords()...)
	if diff := cmp.Diff(want, attributes); diff != "" {
		t.Errorf("search attributes (-want +got):\n%s", diff)
	}
	checkWorkflow(t, server.Client(), "w", runID)
	server.Client().Close()
	if err := server.Stop(); err != nil {
		t.Errorf("stop: %v\nstdout: %s\nstderr: %s", err, &stdout, &stderr)
	}
	for _, path := range []string{file, file + ".visibility"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
