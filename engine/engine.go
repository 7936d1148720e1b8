// Package engine is the embedded engine of Wakepoint: a real Temporal server on SQLite, with the
// Temporal UI, in one process. It takes the flags of `temporal server start-dev`, so whatever can
// start that command (the test suite of the Go SDK, for one) can start this one instead.
//
// The package has one entry, [Run]; everything else is reached over gRPC and HTTP, like any other
// Temporal server. It lives in a Go module of its own because the server and the SDK that Wakepoint
// uses each need another version of the Temporal API module.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/server/common/headers"
)

// Version is the version of Wakepoint the engine was built for. The build sets it with
// -ldflags "-X github.com/wakepoint/wakepoint/engine.Version=v1.2.3".
var Version = "dev"

// Exit codes of [Run]. They are part of the contract with whoever starts the engine as a child.
const (
	// ExitOK means that the engine was stopped cleanly, or that help or the version was printed.
	ExitOK = 0
	// ExitError means that the engine could not start, or broke while running.
	ExitError = 1
	// ExitUsage means that the command line is wrong; nothing was started or written.
	ExitUsage = 2
	// ExitInUse means that another engine holds the data; nothing was started or written.
	ExitInUse = 3
	// ExitForced means that a second signal cut the clean stop short. Nothing acknowledged is lost.
	ExitForced = 130
)

// Run executes one command line (without the program's name) and returns the exit code.
//
// It blocks until the engine has stopped: by ctx, by SIGINT or SIGTERM, or, with --exit-with-stdin,
// by the end of stdin. Results go to stdout, logs and errors to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd, rest, err := parseCommand(args)
	if err == nil {
		switch cmd {
		case commandHelp:
			fmt.Fprint(stdout, rootHelp)
			return ExitOK
		case commandVersion:
			fmt.Fprintln(stdout, versionLine())
			return ExitOK
		case commandStartDev:
			err = startDev(ctx, rest, stdin, stdout, stderr)
		}
	}
	return report(err, stderr)
}

// report prints what went wrong, a line for the error and one for the way out, and returns the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "error: %v\n", err)
	var usage *usageError
	var inUse *InUseError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "hint: %s\n", usage.hint)
		return ExitUsage
	case errors.As(err, &inUse):
		fmt.Fprintln(stderr, "hint: connect to that engine, stop it, or choose another --data-dir")
		return ExitInUse
	case errors.Is(err, errForced):
		return ExitForced
	}
	var hinted *hintedError
	if errors.As(err, &hinted) {
		fmt.Fprintf(stderr, "hint: %s\n", hinted.hint)
	}
	return ExitError
}

// hintedError is an error of the surroundings (files, ports) together with what to do about it.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

func versionLine() string {
	return fmt.Sprintf("wakepoint-engine %s (temporal server %s, temporal ui %s, %s)",
		Version, headers.ServerVersion, uiversion.UIVersion, runtime.Version())
}
