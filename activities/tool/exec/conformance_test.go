package exec_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
)

// toldTool is a tool that runs until a file in its folder tells it to end. What it started it
// writes down itself, before anything else, but after it has seen to its signals.
const toldTool = `if [ -e "$1/stubborn" ]; then trap '' TERM; fi; echo x >> "$1/started"; ` +
	`while [ ! -e "$1/end" ]; do sleep 0.05; done; ` +
	`if [ ! -e "$1/result" ]; then echo broken >&2; exit 3; fi; cp "$1/result" "$WAKEPOINT_RESULT"`

// toldJobs are the folders of the jobs of a conformance run.
type toldJobs struct{ dir string }

func (j toldJobs) folder(key string) string {
	return filepath.Join(j.dir, strings.ReplaceAll(key, "/", "_"))
}

func (j toldJobs) write(t conform.T, key, name string, data []byte) {
	if err := os.WriteFile(filepath.Join(j.folder(key), name), data, 0o600); err != nil {
		t.Fatalf("%v", err)
	}
}

func (j toldJobs) plan(t conform.T, key string, p conform.Plan) json.RawMessage {
	if err := os.MkdirAll(j.folder(key), 0o700); err != nil {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"end", "result", "stubborn"} { // of an attempt before
		if err := os.Remove(filepath.Join(j.folder(key), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v", err)
		}
	}
	if p.IgnoreCancel {
		j.write(t, key, "stubborn", nil)
	}
	input, err := json.Marshal(map[string]string{"folder": j.folder(key)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return input
}

func (j toldJobs) started(t conform.T, key string) int {
	data, err := os.ReadFile(filepath.Join(j.folder(key), "started"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
	return strings.Count(string(data), "x")
}

// running counts the runs of a key that have living processes.
func running(t *testing.T, key string) int {
	tokens := map[string]bool{}
	for _, pid := range processesWith(t, "WAKEPOINT_SUBMISSION_KEY="+key+"\x00") {
		environ, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "environ"))
		_, token, found := strings.Cut(string(environ), "WAKEPOINT_RUN_TOKEN=")
		if err == nil && found {
			token, _, _ = strings.Cut(token, "\x00")
			tokens[token] = true
		}
	}
	return len(tokens)
}

func itoa(n int) string { return dump(n) }

// The executor holds to what every executor holds to. What is particular to it is in the other
// tests.
func TestConformance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	jobs := toldJobs{dir: filepath.Join(b.dir, "jobs")}
	cfg := b.config(toldTool, "${input.folder}")
	cfg.KillGrace = 300 * time.Millisecond
	e := b.executor(cfg)
	// lost submits in a process that is killed at a point.
	lost := func(point string) func(conform.T, tool.Executor, tool.Request) error {
		return func(ct conform.T, _ tool.Executor, req tool.Request) error {
			if _, err := b.worker(cfg, req, point); err == nil {
				ct.Fatalf("the submitting process was not killed")
			}
			return nil
		}
	}
	conform.Run(t, conform.Subject{
		Tool:    "script",
		New:     func(conform.T) tool.Executor { return b.executor(cfg) },
		Plan:    jobs.plan,
		Started: jobs.started,
		Running: func(_ conform.T, key string) int { return running(t, key) },
		Succeed: func(ct conform.T, key string, result json.RawMessage) {
			jobs.write(ct, key, "result", result)
			jobs.write(ct, key, "end", nil)
		},
		Fail: func(ct conform.T, key string) { jobs.write(ct, key, "end", nil) },
		Read: func(ct conform.T, r tool.Result) []byte {
			data, err := b.store.Get(ct.Context(), r.Ref, r.Hash)
			if err != nil {
				ct.Fatalf("%v", err)
			}
			return data
		},
		Lose: func(_ conform.T, key string) {
			supervisor, toolPID := identity(t, e, firstRun(e, key))
			kill(t, supervisor)
			awaitLoss(t, e, key, toolPID)
		},
		Forget: func(ct conform.T, key string) {
			// The supervisor holds its lock for a moment after it has written the end down.
			eventually(t, "the files are removed", func() bool {
				err := e.Remove(ct.Context(), firstRun(e, key))
				if err != nil && !errors.Is(err, tool.ErrStillRunning) {
					ct.Fatalf("%v", err)
				}
				return err == nil
			})
		},
		LoseAnswer:  lost("submit after acknowledgment"),
		LoseRequest: lost("submit before spawn"),
		Refuse:      func(conform.T, string) json.RawMessage { return json.RawMessage(`{"file":"the name is wrong"}`) },
	})
}

// A list goes on where its page ended, past what is not a job of this tool.
func TestListGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`echo x`)
	other := b.config(`echo x`)
	other.Name = "other"
	submit(t, b.executor(other), request("of another tool"))
	h := submit(t, e, request("k"))
	settled(t, e, h)
	if err := os.MkdirAll(filepath.Join(b.dir, "data", "exec", "not-a-key"), 0o700); err != nil {
		t.Fatal(err)
	}
	page, err := e.List(t.Context(), "")
	if err != nil || len(page.Jobs) != 1 || page.Next != "" {
		t.Fatalf("list = %s, %v", dump(page), err)
	}
	got := page.Jobs[0]
	if got.Handle.ID != h.ID || got.SubmissionKey != "k" || got.State != tool.StateSucceeded || got.StartedAtMs == 0 {
		t.Errorf("listed = %s", dump(got))
	}
	hash := filepath.Base(exec.KeyDir(e, "k"))
	if after, err := e.List(t.Context(), hash); err != nil || len(after.Jobs) != 0 {
		t.Errorf("list after the last = %s, %v", dump(after), err)
	}
}
