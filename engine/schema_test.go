package engine_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/engine"
)

// TestForeignFilesAreRefused checks that files the engine can't run on are named, and not touched.
func TestForeignFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		make func(t *testing.T, path string)
		want string
	}{
		"text": {"main.db", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "main.db is not a readable SQLite database"},
		"empty": {"main.db", func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "main.db was not made by wakepoint-engine"},
		"somebody else's": {"main.db", func(t *testing.T, path string) {
			execute(t, path, "CREATE TABLE namespaces (id INT)")
		}, "main.db was not made by wakepoint-engine"},
		"older": {"main.db", func(t *testing.T, path string) {
			execute(t, path, fmt.Sprintf("PRAGMA application_id=%d", engine.ApplicationID), "PRAGMA user_version=10")
		}, "main.db has schema version 0.10, this engine (temporal server 1.32.1) needs 0.11"},
		"newer list": {"visibility.db", func(t *testing.T, path string) {
			execute(t, path, fmt.Sprintf("PRAGMA application_id=%d", engine.ApplicationID), "PRAGMA user_version=1000")
		}, "visibility.db has schema version 1.0, this engine (temporal server 1.32.1) needs 0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			tc.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := refused("server", "start-dev", "--port", "0", "--data-dir", dir)
			if code != engine.ExitError || stdout != "" || !strings.Contains(stderr, tc.want) || !strings.Contains(stderr, "hint: start it with the engine that made it") {
				t.Errorf("exit %d, stdout %q, stderr: %s", code, stdout, stderr)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestListIsRemade takes the list away: it can be made anew, the workflows are elsewhere.
func TestListIsRemade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startChild(t, nil, nil, "--data-dir", dir, "--headless")
	runID := startWorkflow(t, first.client(t, "default"), "kept")
	first.stop(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(dir, "visibility.db"+suffix)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	second := startChild(t, nil, nil, "--data-dir", dir, "--headless")
	if want := "visibility.db was missing and starts empty"; !strings.Contains(second.stderr.String(), want) {
		t.Errorf("%q is not in: %s", want, second.stderr)
	}
	c := second.client(t, "default")
	d, err := c.DescribeWorkflowExecution(t.Context(), "kept", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.GetWorkflowExecutionInfo().GetExecution().GetRunId(); got != runID {
		t.Errorf("run %s, want %s", got, runID)
	}
	startWorkflow(t, c, "new") // and the list takes new ones
}

// TestLeftoversOfAnInterruptedStart are what a process that died while making its files leaves.
func TestLeftoversOfAnInterruptedStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"main.db.new", "main.db.new-journal", "main.db-wal", "main.db-shm", "visibility.db.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half a file"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := startEngine(t, "--data-dir", dir, "--headless")
	startWorkflow(t, e.client(t, "default"), "works")
	for _, name := range []string{"main.db.new", "visibility.db.new"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"temporary": {nil, "durability  off: nothing outlives this process"},
		"full":      {[]string{"--data-dir", t.TempDir()}, "durability  full: what was acknowledged survives a crash of the process and a power cut"},
		"normal":    {[]string{"--data-dir", t.TempDir(), "--synchronous", "normal"}, "durability  normal: what was acknowledged survives a crash of the process; a power cut may"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEngine(t, append(tc.args, "--headless")...)
			if !strings.Contains(e.stdout.String(), tc.want) || !strings.Contains(tc.want, "  "+e.Synchronous+": ") {
				t.Errorf("%q is not in: %s (ready file: %s)", tc.want, e.stdout, e.Synchronous)
			}
		})
	}
}

func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}
