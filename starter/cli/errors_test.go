package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// TestEveryCodeHasItsExitCode holds the table of exit codes against the closed
// table of the client's codes.
func TestEveryCodeHasItsExitCode(t *testing.T) {
	t.Parallel()
	want := map[starter.Code]int{
		starter.CodeInvalid: 2, starter.CodeUnknownTool: 2, starter.CodeUnknownTask: 3, starter.CodeUnknownKey: 3,
		starter.CodeUnknownRuntime: 2, starter.CodeUnknownRun: 3,
		starter.CodeNoStep: 6, starter.CodeStepHeld: 6, starter.CodeWrongRuntime: 6, starter.CodeStaleToken: 6, starter.CodeCommitConflict: 6,
		starter.CodeStepAhead: 6, starter.CodeNothingToWait: 6, starter.CodeRunEnding: 6,
		starter.CodeNotSucceeded: 4, starter.CodeTerminated: 4,
		starter.CodeNoWorker: 5, starter.CodeUnavailable: 5, starter.CodeNotSetUp: 5, starter.CodeDenied: 5,
		starter.CodeIDInUse: 6, starter.CodeNotRetryable: 6, starter.CodeNotEnded: 6, starter.CodeEnded: 6, starter.CodeKeyReused: 6,
		starter.CodeConflict: 6, starter.CodeNoLease: 6, starter.CodeWaitTimeout: 7,
		starter.CodeNoLogs: 6, starter.CodeResultExpired: 1, starter.CodeResultMissing: 1, starter.CodeResultCorrupt: 1, starter.CodeResultOutside: 1, starter.CodeInternal: 1,
	}
	for _, info := range starter.Codes() {
		code, ok := want[info.Code]
		if !ok {
			t.Errorf("the code %s has no exit code: give it one in exitOf, and here", info.Code)
			continue
		}
		f := setup(t)
		f.err = fmt.Errorf("wrapped: %w", &starter.Error{Code: info.Code, Message: "words", Hint: "do this"})
		got := run(t, f, "", "task", "show", "running", "--json")
		var body struct {
			Error struct{ Code, Message, Hint string }
		}
		if err := json.Unmarshal([]byte(got.stderr), &body); err != nil {
			t.Fatalf("%s: %v: %q", info.Code, err, got.stderr)
		}
		if got.code != code || body.Error.Code != string(info.Code) || body.Error.Message != "words" || body.Error.Hint != "do this" || got.stdout != "" {
			t.Errorf("%s: %v, want exit %d", info.Code, got, code)
		}
	}
}

func TestErrorsOfTheParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
		want string
	}{
		"domain":        {domain.Invalid("title", "must be short"), 2, "error: title must be short\n"},
		"configuration": {config.Errors{{File: "w.yaml", Line: 3, Column: 5, Key: "tools.x", Rule: "is wrong"}, {File: "w.yaml", Line: 4, Rule: "too"}}, 2, "error: w.yaml:3:5: tools.x: is wrong\nw.yaml:4:1: too\nhint: mend the file; docs/config.md lists its keys\n"},
		"secret":        {fmt.Errorf("%w: too short", config.ErrSecret), 2, "error: secret: too short\n"},
		"in use":        {&dev.InUseError{DataDir: "/d", PID: 7}, 6, "error: the data folder /d is in use by process 7\nhint: use what runs there already, or another folder: --data DIR\n"},
		"no engine":     {fmt.Errorf("%w: none", dev.ErrNoEngine), 5, "error: no engine: none\nhint: build it with `make build`, or name one: --engine PATH or --engine HOST:PORT\n"},
		"not reached":   {fmt.Errorf("%w at x", dev.ErrNotReached), 5, "error: the engine does not answer at x\nhint: check the address and that the engine runs\n"},
		"a child":       {&dev.ExitError{Name: "engine", How: "exit status 1", Code: 1, Tail: []string{"error: the disk\x1b[31m", "is full"}}, 5, "error: the engine ended: exit status 1\n  error: the disk [31m\n  is full\n"},
		"lost":          {fmt.Errorf("%w: /d", dev.ErrFolderLost), 1, "error: the data folder was removed or replaced while it was in use: /d\nhint: put it back if you can, then start again: wakepoint dev\n"},
		"no tree":       {fmt.Errorf("%w: none", demo.ErrNoTree), 2, "error: no Go source tree: none\nhint: name the root of a Go module: wakepoint demo DIR\n"},
		"anything":      {errors.New("broken\x1b[2J pipe"), 1, "error: broken [2J pipe\n"},
	} {
		got := runIn(t, setup(t), cli.Parts{Now: now, Dir: t.TempDir(), ConnectErr: c.err}, "", "task", "show", "running")
		if got.code != c.code || got.stderr != c.want {
			t.Errorf("%s: %v\nwant exit %d, %q", name, got, c.code, c.want)
		}
	}
}

func TestInterruptedCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := setup(t)
	f.err = fmt.Errorf("describe: %w", context.Canceled)
	var stderr strings.Builder
	code := cli.RunWith(ctx, []string{"task", "show", "running"}, strings.NewReader(""), &strings.Builder{}, &stderr, nil, cli.Parts{Tasks: f, Now: now})
	if code != cli.ExitInterrupted || stderr.String() != "error: interrupted\n" {
		t.Errorf("exit %d, %q", code, &stderr)
	}
}

// TestExitCodesAreDocumented compares the table in docs/cli.md with the code's.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cli.ExitCodes() {
		row := fmt.Sprintf("| %d | %s |", e.Code(), e.Meaning())
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/cli.md lacks the row %s", row)
		}
	}
}

// TestWorkerDoesNotShoutAnswers: that a tool was not started is told to its task,
// and is no error of the worker.
func TestWorkerDoesNotShoutAnswers(t *testing.T) {
	t.Parallel()
	refused := temporal.NewNonRetryableApplicationError("no such file", protocol.ErrTypeNotStarted, nil)
	for level, want := range map[string]string{"warn": "level=ERROR msg=\"Activity error.\" Error=broken\n", "debug": "level=DEBUG msg=\"Activity error.\" Error=\"no such file"} {
		var b strings.Builder
		log, err := cli.WorkerLogger(&b, level)
		if err != nil {
			t.Fatal(err)
		}
		log = log.With("worker", 1)
		log.Error("Activity error.", "Error", error(refused))
		log.Error("Activity error.", "Error", errors.New("broken"))
		if lines := strings.Count(b.String(), "\n"); lines != map[string]int{"warn": 1, "debug": 2}[level] || !strings.Contains(strings.ReplaceAll(b.String(), "worker=1 ", ""), want) {
			t.Errorf("%s: it wrote %s", level, b.String())
		}
	}
}
