package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// The exit codes. They are documented in docs/cli.md and by the command
// `wakepoint help exit-codes`, both of which a test compares with this table.
const (
	// ExitOK is success.
	ExitOK = 0
	// ExitFailure is any failure without a code of its own.
	ExitFailure = 1
	// ExitUsage is a command line, an input or a configuration that is wrong.
	ExitUsage = 2
	// ExitUnknown is a task, a run, a call or a delivery that does not exist.
	ExitUnknown = 3
	// ExitTaskEnded is a task or a run that ended otherwise than hoped for.
	ExitTaskEnded = 4
	// ExitUnreachable is an engine or a worker that gives no answer.
	ExitUnreachable = 5
	// ExitConflict is a request that contradicts what is there.
	ExitConflict = 6
	// ExitWaitTimeout is a wait that was over before its task or run.
	ExitWaitTimeout = 7
	// ExitUnsettled is something that could not be reconciled.
	ExitUnsettled = 8
	// ExitInterrupted is the end by Ctrl-C.
	ExitInterrupted = 130
)

type exitCode struct {
	code    int
	meaning string
}

func exitCodes() []exitCode {
	return []exitCode{
		{ExitOK, "success"},
		{ExitFailure, "failure of any other kind"},
		{ExitUsage, "the command line, the input or the configuration is wrong; nothing was done"},
		{ExitUnknown, "there is no such task, run, call or delivery"},
		{ExitTaskEnded, "the task, run or tool failed, expired or was cancelled (submit --wait, start --wait, watch, result, demo, tools test)"},
		{ExitUnreachable, "the engine or the worker cannot be found, reached or used"},
		{ExitConflict, "the request contradicts what is there: an id in use, a task or run that has ended, a stale step, a folder in use"},
		{ExitWaitTimeout, "the wait of --for is over; the task or run goes on (run next: there is no step now)"},
		{ExitUnsettled, "reconcile, run recover, sweep: something could not be reconciled or looked at; its line says why"},
		{ExitInterrupted, "interrupted by ctrl-c"},
	}
}

// The codes of failures that are the commands' own; those of requests are the
// client's, see [starter.Codes].
const (
	codeUsage        = "usage"
	codeConfig       = "invalid-configuration"
	codeInUse        = "in-use"
	codeNoEngine     = "no-engine"
	codeChild        = "child-ended"
	codeInterrupted  = "interrupted"
	codeTaskEnded    = "task-not-succeeded"
	codeRunEnded     = "run-not-succeeded"
	codeUnknownCall  = "unknown-call"
	codeFailure      = "failure"
	codeNoSourceTree = "no-source-tree"
)

// exitOf gives the exit code of each code. A code that is missing here is a
// failure; a test holds the table against [starter.Codes].
var exitOf = map[string]int{
	codeUsage: ExitUsage, codeConfig: ExitUsage, codeNoSourceTree: ExitUsage, codeInUse: ExitConflict, codeNoEngine: ExitUnreachable,
	codeChild: ExitUnreachable, codeInterrupted: ExitInterrupted, codeTaskEnded: ExitTaskEnded, codeRunEnded: ExitTaskEnded, codeUnknownCall: ExitUnknown, codeFailure: ExitFailure,

	string(starter.CodeInvalid): ExitUsage, string(starter.CodeUnknownTool): ExitUsage,
	string(starter.CodeUnknownRuntime): ExitUsage, string(starter.CodeUnknownRun): ExitUnknown,
	string(starter.CodeNoStep): ExitConflict, string(starter.CodeStepHeld): ExitConflict, string(starter.CodeWrongRuntime): ExitConflict,
	string(starter.CodeStaleToken): ExitConflict, string(starter.CodeCommitConflict): ExitConflict, string(starter.CodeStepAhead): ExitConflict,
	string(starter.CodeNothingToWait): ExitConflict, string(starter.CodeRunEnding): ExitConflict,
	string(starter.CodeUnknownTask): ExitUnknown, string(starter.CodeUnknownKey): ExitUnknown,
	string(starter.CodeNotSucceeded): ExitTaskEnded, string(starter.CodeTerminated): ExitTaskEnded,
	string(starter.CodeNoWorker): ExitUnreachable, string(starter.CodeUnavailable): ExitUnreachable,
	string(starter.CodeNotSetUp): ExitUnreachable, string(starter.CodeDenied): ExitUnreachable,
	string(starter.CodeIDInUse): ExitConflict, string(starter.CodeNotRetryable): ExitConflict, string(starter.CodeNotEnded): ExitConflict,
	string(starter.CodeEnded): ExitConflict, string(starter.CodeKeyReused): ExitConflict, string(starter.CodeConflict): ExitConflict,
	string(starter.CodeNoLease): ExitConflict, string(starter.CodeWaitTimeout): ExitWaitTimeout,
	string(starter.CodeNoLogs): ExitConflict, string(starter.CodeResultExpired): ExitFailure, string(starter.CodeResultMissing): ExitFailure,
	string(starter.CodeResultCorrupt): ExitFailure,
	string(starter.CodeResultOutside): ExitFailure, string(starter.CodeInternal): ExitFailure,
}

// failure is what a command ends with: words for people, a code for programs.
type failure struct {
	code, message, hint, field string
	// tail is what a child wrote last.
	tail  []string
	cause error
	// exits is the exit code where it is not that of the code.
	exits int
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.cause }

func failf(code, hint, format string, args ...any) *failure {
	return &failure{code: code, hint: hint, message: fmt.Sprintf(format, args...)}
}

// usage is a mistake in the command line.
func usage(hint, format string, args ...any) error { return failf(codeUsage, hint, format, args...) }

// failureOf gives any error words, a hint and a code.
func failureOf(ctx context.Context, err error) *failure {
	var (
		own     *failure
		client  *starter.Error
		invalid *domain.InvalidError
		inUse   *dev.InUseError
		child   *dev.ExitError
		broken  config.Errors
	)
	switch {
	case errors.As(err, &own):
		return own
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))):
		return failf(codeInterrupted, "", "interrupted")
	case errors.As(err, &client):
		return &failure{code: string(client.Code), message: client.Message, hint: hintFor(client), field: client.Field, cause: err}
	case errors.As(err, &invalid):
		return &failure{code: domain.CodeInvalid, message: invalid.Field + " " + invalid.Rule, field: invalid.Field, cause: err}
	case errors.As(err, &broken):
		return &failure{code: codeConfig, message: broken.Error(), hint: "mend the file; docs/config.md lists its keys", cause: err}
	case errors.As(err, &inUse):
		return &failure{code: codeInUse, message: inUse.Error(), hint: "use what runs there already, or another folder: --data DIR", cause: err}
	case errors.As(err, &child) && child.Name == "worker" && child.Code == ExitUsage:
		// The worker is this program too, and means by it what we do.
		return &failure{code: codeConfig, message: child.Error(), tail: child.Tail, cause: err}
	case errors.As(err, &child):
		return &failure{code: codeChild, message: child.Error(), tail: child.Tail, cause: err}
	case errors.Is(err, dev.ErrNoEngine):
		return &failure{code: codeNoEngine, message: err.Error(), hint: "build it with `make build`, or name one: --engine PATH or --engine HOST:PORT", cause: err}
	case errors.Is(err, dev.ErrNotReached):
		return &failure{code: string(starter.CodeUnavailable), message: err.Error(), hint: "check the address and that the engine runs", cause: err}
	case errors.Is(err, dev.ErrFolderLost):
		return &failure{code: codeFailure, message: err.Error(), hint: "put it back if you can, then start again: wakepoint dev", cause: err}
	case errors.Is(err, demo.ErrNoTree):
		return &failure{code: codeNoSourceTree, message: err.Error(), hint: "name the root of a Go module: wakepoint demo DIR", cause: err}
	case errors.Is(err, config.ErrSecret):
		return &failure{code: codeConfig, message: err.Error(), cause: err}
	}
	return &failure{code: codeFailure, message: err.Error(), cause: err}
}

// hintFor gives the client's hint, or one that names the command that helps.
func hintFor(e *starter.Error) string {
	if e.Hint != "" {
		return e.Hint
	}
	switch e.Code { //nolint:exhaustive // only these have a command that helps
	case starter.CodeUnknownTool:
		return "list the tools: wakepoint tools"
	case starter.CodeUnknownTask:
		return "list the tasks: wakepoint task list"
	case starter.CodeUnknownRuntime:
		return "list the runtimes: wakepoint runtimes"
	case starter.CodeUnknownRun:
		return "list the runs: wakepoint run list"
	}
	return ""
}

// exit is the exit code of a failure.
func (f *failure) exit() int {
	if f.exits != 0 {
		return f.exits
	}
	if code, ok := exitOf[f.code]; ok {
		return code
	}
	return ExitFailure
}

// print writes a failure for people or for programs.
func (f *failure) print(w io.Writer, asJSON bool) {
	if asJSON {
		type body struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
			Field   string `json:"field,omitempty"`
		}
		b, err := json.Marshal(map[string]body{"error": {Code: f.code, Message: f.text(), Hint: f.hint, Field: f.field}})
		if err == nil {
			fmt.Fprintln(w, string(b))
			return
		}
	}
	for i, line := range strings.Split(f.text(), "\n") {
		if i == 0 {
			line = "error: " + line
		}
		fmt.Fprintln(w, line)
	}
	if f.hint != "" {
		fmt.Fprintln(w, "hint: "+term.Clean(f.hint))
	}
}

// text is the message with what a child wrote last, each line on its own.
func (f *failure) text() string {
	lines := strings.Split(f.message, "\n")
	for i, line := range lines {
		lines[i] = term.Clean(line)
	}
	for _, line := range f.tail {
		lines = append(lines, "  "+term.Clean(line))
	}
	return strings.Join(lines, "\n")
}
