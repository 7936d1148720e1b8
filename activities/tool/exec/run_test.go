package exec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
)

func TestResults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script      string
		declared    string
		want        string
		contentType string
	}{
		"stdout":                  {script: `echo hello`, want: "hello\n", contentType: "text/plain; charset=utf-8"},
		"stdout, json":            {script: `echo '{"a": 1}'`, want: "{\"a\": 1}\n", contentType: "application/json"},
		"stdout, bytes":           {script: `printf '\377\000'`, want: "\xff\x00", contentType: "application/octet-stream"},
		"stdout, empty":           {script: `:`, want: "", contentType: "text/plain; charset=utf-8"},
		"without control lines":   {script: `echo a; echo '::wakepoint progress=10'; echo b`, want: "a\nb\n", contentType: "text/plain; charset=utf-8"},
		"the result file wins":    {script: `echo chatter; printf '[1,2]' > "$WAKEPOINT_RESULT"`, want: "[1,2]", contentType: "application/json"},
		"an empty result file":    {script: `echo chatter; : > "$WAKEPOINT_RESULT"`, want: "", contentType: "text/plain; charset=utf-8"},
		"a declared type":         {script: `echo a,b`, declared: "text/csv", want: "a,b\n", contentType: "text/csv"},
		"stdin is the input":      {script: `cat`, want: `{"name":"value"}`, contentType: "application/json"},
		"the input is a file too": {script: `cat "$WAKEPOINT_INPUT"`, want: `{"name":"value"}`, contentType: "application/json"},
		"stderr is no result":     {script: `echo oops >&2; echo fine`, want: "fine\n", contentType: "text/plain; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(tc.script)
			cfg.ResultContentType = tc.declared
			e := b.executor(cfg)
			h := submit(t, e, request("k"))
			obs := settled(t, e, h)
			if got := b.result(obs); got != tc.want {
				t.Errorf("result = %q, want %q", got, tc.want)
			}
			if obs.Result.ContentType != tc.contentType || obs.Result.Truncated {
				t.Errorf("result = %+v, want whole and %s", obs.Result, tc.contentType)
			}
			if again := observe(t, e, h); !cmp.Equal(obs, again) {
				t.Errorf("a second look differs:\n%s", cmp.Diff(obs, again))
			}
			// The blob may have been swept, or the store have lost it: the files still have it.
			if err := b.store.Delete(t.Context(), obs.Result.Ref); err != nil {
				t.Fatal(err)
			}
			if got := b.result(observe(t, e, h)); got != tc.want {
				t.Errorf("result after it was lost from the store = %q", got)
			}
		})
	}
}

func TestHandleAndObservation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("start") + awaitGate)
	req := request("k")
	req.Attempt = 3
	h := submit(t, e, req)
	if h.Executor != "exec" || h.TaskQueue != "host-1-queue" || !strings.HasSuffix(h.ID, ".1") {
		t.Errorf("handle = %s", dump(h))
	}
	b.awaitNote("start")
	_, pid := identity(t, e, h)
	obs := observe(t, e, h)
	if want := fmt.Sprintf("host-1/pid %d", pid); obs.State != tool.StateRunning || obs.Definite || obs.Attempt != 3 || obs.Worker != want || obs.LastSeenAtMs == 0 || obs.NextInMs == 0 || obs.Progress != nil {
		t.Errorf("observation = %s, want running as %s", dump(obs), want)
	}
	found, ok, err := e.Find(t.Context(), "k")
	if err != nil || !ok || !cmp.Equal(found, h) {
		t.Errorf("find = %s, %v, %v; want %s", dump(found), ok, err, dump(h))
	}
	b.openGate()
	settled(t, e, h)
	if found, ok, err := e.Find(t.Context(), "k"); err != nil || !ok || !cmp.Equal(found, h) {
		t.Errorf("find after the end = %s, %v, %v", dump(found), ok, err)
	}
	if _, ok, err := e.Find(t.Context(), "never"); ok || err != nil {
		t.Errorf("find of an unknown key = %v, %v", ok, err)
	}
}

func TestProgressAndStageWhileRunning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`
		echo '::wakepoint progress=40 stage="linking the kernel"'
		echo '::wakepoint progress=30'
		echo '::wakepoint progress=101 stage=wrong'
		` + awaitGate + `
		echo '::wakepoint {"progress": 90, "stage": "packing", "unknown": []}'
		echo '::wakepoint progress=50'`)
	h := submit(t, e, request("k"))
	var obs tool.Observation
	eventually(t, "the progress is seen", func() bool {
		obs = observe(t, e, h)
		return obs.Progress != nil
	})
	if *obs.Progress != 40 || obs.Stage != "linking the kernel" || obs.State != tool.StateRunning {
		t.Errorf("observation = %s, want 40, linking the kernel", dump(obs))
	}
	b.openGate()
	obs = settled(t, e, h)
	if *obs.Progress != 90 || obs.Stage != "packing" {
		t.Errorf("observation = %s, want 90, packing", dump(obs))
	}
	// What is no control line is output, so that its author sees it.
	if got := b.result(obs); got != "::wakepoint progress=101 stage=wrong\n" {
		t.Errorf("result = %q", got)
	}
}

// readAll reads a stream to what is its end now.
func readAll(t *testing.T, e *exec.Executor, h tool.Handle, stream string, limit int) (text string, skipped int64, end bool) {
	t.Helper()
	for offset := int64(0); ; {
		chunk, err := e.Logs(t.Context(), h, stream, offset, limit)
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Offset != offset+chunk.Skipped || chunk.Next != chunk.Offset+int64(len(chunk.Data)) {
			t.Fatalf("chunk from %d: offset %d, skipped %d, next %d, %d bytes", offset, chunk.Offset, chunk.Skipped, chunk.Next, len(chunk.Data))
		}
		text += string(chunk.Data)
		skipped += chunk.Skipped
		if chunk.End || len(chunk.Data) == 0 {
			return text, skipped, chunk.End
		}
		offset = chunk.Next
	}
}

func TestLogsWhileRunning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`echo out 1; echo err 1 >&2; printf 'half a line'; echo '::wakepoint'; ` + awaitGate + ` echo out 2; echo err 2 >&2`)
	h := submit(t, e, request("k"))
	const first = "out 1\nhalf a line::wakepoint\n"
	var text string
	var end bool
	eventually(t, "the first lines are seen", func() bool {
		text, _, end = readAll(t, e, h, tool.StreamStdout, 0)
		errText, _, _ := readAll(t, e, h, tool.StreamStderr, 0)
		return text == first && errText == "err 1\n"
	})
	if end {
		t.Error("the log of a running job has no end")
	}
	b.openGate()
	settled(t, e, h)
	for _, limit := range []int{0, 1, 7} {
		text, skipped, end := readAll(t, e, h, tool.StreamStdout, limit)
		if text != first+"out 2\n" || skipped != 0 || !end {
			t.Errorf("limit %d: stdout = %q, skipped %d, end %v", limit, text, skipped, end)
		}
	}
	if text, _, end := readAll(t, e, h, tool.StreamStderr, 0); text != "err 1\nerr 2\n" || !end {
		t.Errorf("stderr = %q, end %v", text, end)
	}
	if chunk, err := e.Logs(t.Context(), h, tool.StreamStdout, 1000, 0); err != nil || len(chunk.Data) != 0 || !chunk.End {
		t.Errorf("behind the end: %+v, %v", chunk, err)
	}
	for stream, offset := range map[string]int64{"stdin": 0, "../status": 0, tool.StreamStdout: -1} {
		if _, err := e.Logs(t.Context(), h, stream, offset, 0); err == nil {
			t.Errorf("logs of %q at %d: no error", stream, offset)
		}
	}
}

// lines is a script that writes n numbered lines of ten bytes.
func lines(n int) string {
	return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do printf '%%09d\n' $i; i=$((i+1)); done; `, n)
}

func TestOutputBeyondTheLimitKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(lines(2000) + awaitGate + ` echo the end; echo done >&2`)
	cfg.MaxOutputBytes = 4096
	e := b.executor(cfg)
	h := submit(t, e, request("k"))
	eventually(t, "the last line is in the log of the running job", func() bool {
		text, skipped, _ := readAll(t, e, h, tool.StreamStdout, 0)
		return skipped > 0 && strings.HasSuffix(text, "000001999\n")
	})
	b.openGate()
	obs := settled(t, e, h)
	got := b.result(obs)
	if !obs.Result.Truncated || !strings.HasPrefix(got, "000000000\n") || !strings.HasSuffix(got, "the end\n") || !strings.Contains(got, "bytes of output were not kept]\n") {
		t.Errorf("truncated %v, result = %.40q ... %q", obs.Result.Truncated, got, got[len(got)-20:])
	}
	const total = 2000*10 + len("the end\n")
	for _, limit := range []int{0, 100} {
		text, skipped, end := readAll(t, e, h, tool.StreamStdout, limit)
		if int(skipped)+len(text) != total || len(text) > 4096 || len(text) < 2048+3*512 || !end {
			t.Errorf("limit %d: %d bytes kept and %d skipped of %d, end %v", limit, len(text), skipped, total, end)
		}
	}
	if text, skipped, _ := readAll(t, e, h, tool.StreamStderr, 0); text != "done\n" || skipped != 0 {
		t.Errorf("stderr = %q, skipped %d: its limit is its own", text, skipped)
	}
	if size := diskUse(t, exec.RunDir(e, h.ID), "stdout.*"); size > 4096 {
		t.Errorf("stdout takes %d bytes on disk, want at most 4096", size)
	}
}

func diskUse(t *testing.T, dir, pattern string) (size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

func TestOutputExactlyAtTheLimitIsWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(`head -c 4096 /dev/zero | tr '\0' x`)
	cfg.MaxOutputBytes = 4096
	cfg.OnOutputLimit = exec.FailOnOutput
	e := b.executor(cfg)
	obs := settled(t, e, submit(t, e, request("k")))
	if got := b.result(obs); got != strings.Repeat("x", 4096) || obs.Result.Truncated {
		t.Errorf("result of %d bytes, truncated %v", len(got), obs.Result.Truncated)
	}
}

func TestOutputBeyondTheLimitFails(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"", " >&2"} {
		b := setup(t)
		cfg := b.config(`while :; do echo 0123456789` + stream + `; done`)
		cfg.MaxOutputBytes = 4096
		cfg.OnOutputLimit = exec.FailOnOutput
		e := b.executor(cfg)
		obs := settled(t, e, submit(t, e, request("k")))
		f := wantFailure(t, obs, exec.CodeOutputLimit, false)
		if !strings.Contains(f.Message, "4096 bytes") {
			t.Errorf("message %q does not name the limit", f.Message)
		}
	}
}

func TestResultLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		code   string
	}{
		"result file too large": {`head -c 101 /dev/zero > "$WAKEPOINT_RESULT"`, exec.CodeResultTooLarge},
		"stdout too large":      {`head -c 101 /dev/zero`, exec.CodeResultTooLarge},
		"a link elsewhere":      {`ln -s /etc/passwd "$WAKEPOINT_RESULT"`, exec.CodeResultUnusable},
		"a folder":              {`mkdir "$WAKEPOINT_RESULT"`, exec.CodeResultUnusable},
		"a pipe":                {`mkfifo "$WAKEPOINT_RESULT"`, exec.CodeResultUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(tc.script)
			cfg.MaxResultBytes = 100
			e := b.executor(cfg)
			wantFailure(t, settled(t, e, submit(t, e, request("k"))), tc.code, false)
		})
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script    string
		retry     []int
		code      string
		retryable bool
		says      string
		details   string
	}{
		"every code is retried":   {`exit 3`, nil, exec.CodeExitStatus, true, "exit status 3", `{"exitCode":3}`},
		"a code to be retried":    {`exit 75`, []int{75}, exec.CodeExitStatus, true, "exit status 75", `{"exitCode":75}`},
		"one not to be retried":   {`exit 3`, []int{75}, exec.CodeExitStatus, false, "exit status 3", `{"exitCode":3}`},
		"none to be retried":      {`exit 3`, []int{}, exec.CodeExitStatus, false, "exit status 3", `{"exitCode":3}`},
		"with the last of stderr": {`echo first >&2; echo disk on fire >&2; exit 1`, nil, exec.CodeExitStatus, true, "exit status 1: first\ndisk on fire", `{"exitCode":1}`},
		"a signal":                {`kill -SEGV $$`, []int{}, exec.CodeExitSignal, true, "signal 11", `{"signal":11}`},
		"a result is no excuse":   {`echo x > "$WAKEPOINT_RESULT"; exit 9`, nil, exec.CodeExitStatus, true, "exit status 9", `{"exitCode":9}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := b.config(tc.script)
			cfg.RetryExitCodes = tc.retry
			e := b.executor(cfg)
			f := wantFailure(t, settled(t, e, submit(t, e, request("k"))), tc.code, tc.retryable)
			if !strings.Contains(f.Message, tc.says) || string(f.Details) != tc.details {
				t.Errorf("failure = %s, want %q and details %s", dump(f), tc.says, tc.details)
			}
		})
	}
}

func TestLongStderrIsCutToItsLastLines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config("{ " + lines(3000) + "printf 'the \\377 cause\\n'; } >&2; exit 1")
	cfg.MaxOutputBytes = 8192
	e := b.executor(cfg)
	f := wantFailure(t, settled(t, e, submit(t, e, request("k"))), exec.CodeExitStatus, true)
	if len(f.Message) > 4096 || len(f.Message) < 3000 || !strings.HasSuffix(f.Message, "\n000002999\nthe ? cause") {
		t.Errorf("message of %d bytes ends with %q", len(f.Message), f.Message[len(f.Message)-40:])
	}
	if _, tail, _ := strings.Cut(f.Message, ": "); !strings.HasPrefix(tail, "00000") || len(strings.SplitN(tail, "\n", 2)[0]) != 9 {
		t.Errorf("stderr begins with half a line: %.40q", tail)
	}
}

func TestProgramThatDisappeared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	program := filepath.Join(b.dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := b.config("")
	cfg.Argv = []string{program}
	e := b.executor(cfg)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	f := wantFailure(t, settled(t, e, submit(t, e, request("k"))), exec.CodeStartFailed, true)
	if !strings.Contains(f.Message, "no such file") {
		t.Errorf("message = %q", f.Message)
	}
}

// A tool that leaves children behind is over when it is over, and so are they: a result that
// waited for them might wait for ever, and a next run would overlap with them.
func TestChildrenDoNotOutliveTheTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`(trap 'echo child-ended >> "$JOURNAL"; exit' TERM; echo child-ready >> "$JOURNAL"; while :; do sleep 0.02; done) & ` +
		`until grep -q child-ready "$JOURNAL" 2>/dev/null; do sleep 0.02; done; echo done`)
	obs := settled(t, e, submit(t, e, request("k")))
	if got := b.result(obs); got != "done\n" {
		t.Errorf("result = %q", got)
	}
	if pids := b.processes(); len(pids) != 0 {
		t.Errorf("still running: %v", pids)
	}
	if got := b.notes(); !cmp.Equal(got, []string{"child-ready", "child-ended"}) {
		t.Errorf("notes = %q", got)
	}
}

// A daemon that left the group and holds the pipes open does not hold the result up.
func TestEscapedDaemonDoesNotHoldTheResultUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`setsid sh -c 'echo daemon >> "$JOURNAL"; exec sleep 1000' & until grep -q daemon "$JOURNAL" 2>/dev/null; do sleep 0.02; done; echo done`)
	obs := settled(t, e, submit(t, e, request("k")))
	if got := b.result(obs); got != "done\n" {
		t.Errorf("result = %q", got)
	}
	if pids := b.processes(); len(pids) != 1 {
		t.Errorf("running: %v, want the daemon", pids)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(`echo x; echo '::wakepoint progress=1'`)
	settled(t, e, submit(t, e, request("k")))
	err := filepath.WalkDir(filepath.Join(b.dir, "data", "exec"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(awaitGate)
	h := submit(t, e, request("k"))
	if err := e.Remove(t.Context(), h); err == nil || !strings.Contains(err.Error(), tool.ErrStillRunning.Error()) {
		t.Errorf("remove of a running job: %v, want ErrStillRunning", err)
	}
	b.openGate()
	settled(t, e, h)
	for range 2 { // the second time there is nothing to remove
		if err := e.Remove(t.Context(), h); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(b.dir, "data", "exec", "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if obs := observe(t, e, h); obs.State != tool.StateUnknown || obs.Definite || obs.Error.Code != exec.CodeUnknownJob {
		t.Errorf("observation = %s, want unknown", dump(obs))
	}
	if again := submit(t, e, request("k")); again.ID != h.ID {
		t.Errorf("a removed key starts again as %s", again.ID)
	}
}

// A run whose files were deleted under it was called "not started", which is definite: the job could
// run a second time beside itself.
func TestMissingFilesAreNoProofOfNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(awaitGate)
	h := submit(t, e, request("k"))
	keys, err := filepath.Glob(filepath.Join(b.dir, "data", "exec", "*"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("folders of keys: %v, %v", keys, err)
	}
	runs, err := filepath.Glob(filepath.Join(keys[0], "run-*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("folders of runs: %v, %v", runs, err)
	}
	// Moved, not removed: its supervisor still writes there.
	if err := errors.Join(os.Rename(keys[0], filepath.Join(b.dir, "gone")), os.MkdirAll(runs[0], 0o700)); err != nil {
		t.Fatal(err)
	}
	defer b.openGate()
	if obs := observe(t, e, h); obs.State != tool.StateUnknown || obs.Definite {
		t.Errorf("observation = %s, want unknown", dump(obs))
	}
}
