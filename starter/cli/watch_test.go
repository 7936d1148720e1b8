package cli_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
)

// terminal is a writer that says it is a terminal, and keeps what was drawn.
type terminal struct {
	mu            sync.Mutex
	b             bytes.Buffer
	columns, rows int
	// wrote is told of every write.
	wrote func(all string)
}

func (t *terminal) TerminalSize() (int, int, bool) { return t.columns, t.rows, true }

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.b.Write(p)
	if t.wrote != nil {
		t.wrote(t.b.String())
	}
	return n, err
}

func TestWatchSeveralTellsEachOnce(t *testing.T) {
	t.Parallel()
	got := run(t, setup(t), "", "task", "watch", "done", "failed", "nothing")
	if got.code != cli.ExitTaskEnded {
		t.Errorf("exit %d", got.code)
	}
	var of [2][]string
	for line := range strings.Lines(got.stdout) {
		i := 0
		if strings.HasPrefix(line, "failed ") {
			i = 1
		}
		of[i] = append(of[i], strings.TrimSpace(line))
	}
	for i, want := range [][]string{
		{"done 03:04:05 v0 now queued", "done 03:04:06 v1 start, by worker host-1/pid 7", "done 03:04:07 v2 progress, 50%, image 5 of 10", "done 03:04:08 v3 succeed, result of 2.0 KiB"},
		{"failed 03:04:05 v0 now queued", "failed 03:04:06 v1 start, by worker host-1/pid 7", "failed 03:04:07 v2 fail, NO_SPACE: the disk is full"},
	} {
		if !slices.Equal(of[i], want) {
			t.Errorf("told %q, want %q", of[i], want)
		}
	}
	want := "nothing: unknown-task: there is no task nothing\nerror: 2 of 3 tasks did not succeed: failed, nothing\nhint: wakepoint task show failed\n"
	if got.stderr != want {
		t.Errorf("said %q, want %q", got.stderr, want)
	}
}

// TestWatchTellsOfStagesAndEmptyResults: a stage that changes comes as a heartbeat,
// and a result may have no bytes.
func TestWatchTellsOfStagesAndEmptyResults(t *testing.T) {
	t.Parallel()
	f := setup(t)
	empty := succeeded
	empty.Bytes = 0
	events := []domain.Event{started, {Type: domain.EventHeartbeat, Stage: "unpacking"}, empty}
	f.changes["done"] = history(t, "done", events...)
	f.tasks["done"] = describe(newTask(t, "done", domain.Policy{}, events...))
	got := run(t, f, "", "task", "watch", "done")
	want := "done 03:04:05 v0 now queued\ndone 03:04:06 v1 start, by worker host-1/pid 7\ndone 03:04:07 v2 stage unpacking\ndone 03:04:08 v3 succeed, result of 0 B\n"
	if got.code != cli.ExitOK || got.stdout != want {
		t.Errorf("%v\nwant\n%s", got, want)
	}
	if got := run(t, f, "", "task", "show", "done"); !strings.Contains(got.stdout, "0 B, application/json, sha256 abc\n") {
		t.Errorf("%v", got)
	}
}

func TestWatchDrawsBarsOnATerminal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	out := &terminal{columns: 80, rows: 24}
	var stderr bytes.Buffer
	code := cli.RunWith(t.Context(), []string{"task", "watch", "done", "failed"}, strings.NewReader(""), out, &stderr, nil, cli.Parts{Tasks: f, Now: now})
	if code != cli.ExitTaskEnded {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	frames := strings.Split(out.b.String(), "\x1b[J")
	last := frames[len(frames)-2]
	for _, want := range []string{
		"done    SUCCEEDED  ██████████████████████████ 100%  in 3.0s\x1b[K\n",
		"failed  FAILED     ░░░░░░░░░░░░░░░░░░░░░░░░░░   0%  NO_SPACE: the disk is full\x1b[K\n",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("the last picture is %q, want %q in it", last, want)
		}
	}
}

func TestWatchWithoutBars(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		env  []string
	}{
		"a terminal that cannot": {[]string{"task", "watch", "done"}, []string{"TERM=dumb"}},
		"json":                   {[]string{"task", "watch", "done", "--json"}, nil},
	} {
		out := &terminal{columns: 80, rows: 24}
		code := cli.RunWith(t.Context(), c.args, strings.NewReader(""), out, &bytes.Buffer{}, c.env, cli.Parts{Tasks: setup(t), Now: now})
		if code != cli.ExitOK || strings.Contains(out.b.String(), "\x1b") || strings.Count(out.b.String(), "\n") != 4 {
			t.Errorf("%s: exit %d, wrote %q", name, code, out.b.String())
		}
	}
}

// TestInterruptedWatchSaysThatTheTaskGoesOn ends the watching by what Ctrl-C
// does, once the task has been seen.
func TestInterruptedWatchSaysThatTheTaskGoesOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"one":     {[]string{"running"}, "error: interrupted; the task goes on\nhint: wakepoint task watch running\n"},
		"several": {[]string{"running", "other"}, "error: interrupted; 2 tasks go on\nhint: wakepoint task watch running other\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.changes["other"], f.hang["other"] = f.changes["running"], true
			ctx, cancel := context.WithCancelCause(t.Context())
			seen := 0
			out := &terminal{columns: 80, rows: 24}
			out.wrote = func(all string) {
				if seen = strings.Count(all, "v2 progress"); seen == len(c.args) {
					cancel(errors.New("ctrl-c"))
				}
			}
			var stderr bytes.Buffer
			code := cli.RunWith(ctx, append([]string{"task", "watch"}, c.args...), strings.NewReader(""), out, &stderr, []string{"TERM=dumb"}, cli.Parts{Tasks: f, Now: now})
			if code != cli.ExitInterrupted || stderr.String() != c.want {
				t.Errorf("exit %d, said %q; want %q", code, &stderr, c.want)
			}
			for _, call := range f.calls {
				if strings.HasPrefix(call, "cancel") {
					t.Errorf("watching did %s", call)
				}
			}
		})
	}
}

func TestWatchFromACursor(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.changes["done"] = nil
	got := run(t, f, "", "task", "watch", "done", "--cursor", "3")
	if got.code != cli.ExitOK || !slices.Equal(got.calls, []string{`watch "done" 3`}) {
		t.Errorf("%v, calls %q", got, got.calls)
	}
}

// TestPatienceOfAWatch: the end of the watcher's time is no end of the task.
func TestPatienceOfAWatch(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"task watch running --for 50ms":                     "error: the wait of 50ms is over; the task goes on\nhint: wakepoint task watch running\n",
		"task watch running done --for 50ms":                "error: the wait of 50ms is over; the task goes on\nhint: wakepoint task watch running done\n",
		"task submit resize --id running --wait --for 50ms": "error: the wait of 50ms is over; the task goes on\nhint: wakepoint task watch running\n",
	} {
		got := run(t, setup(t), "", strings.Fields(line)...)
		if got.code != cli.ExitWaitTimeout || !strings.HasSuffix(got.stderr, want) {
			t.Errorf("%s: %v", line, got)
		}
	}
	if got := run(t, setup(t), "", "task", "watch", "done", "--for", "1h"); got.code != cli.ExitOK {
		t.Errorf("a task that ends in time: %v", got)
	}
}

// TestPatienceOfACallerIsToldToTheTask: the bug was that only the client's own Wait
// told it, and the command line never, though docs/sharing.md says so of both.
func TestPatienceOfACallerIsToldToTheTask(t *testing.T) {
	t.Parallel()
	const told = `detach "running" {"waiterId":"ann","reason":"wait-timeout"}`
	for waiter, want := range map[string]bool{"ann": true, "": false} {
		f := setup(t)
		f.submitted = starter.Submitted{TaskID: "running", State: domain.StateRunning, WaiterID: waiter}
		got := run(t, f, "", "task", "submit", "resize", "--wait", "--for", "50ms")
		if got.code != cli.ExitWaitTimeout || slices.Contains(got.calls, told) != want {
			t.Errorf("waiter %q: %v, calls %q", waiter, got, got.calls)
		}
	}
}
