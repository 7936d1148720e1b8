package cli

import (
	"context"
	"io"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// The parts that the tests of this package look at.
type (
	Stack    = stack
	ExitCode = exitCode
)

var ExitCodes = exitCodes

// Code and Meaning open an exit code.
func (e exitCode) Code() int       { return e.code }
func (e exitCode) Meaning() string { return e.meaning }

// Parts are what a test puts in the place of the world.
type Parts struct {
	Tasks Tasks
	// ConnectErr is what connecting gives.
	ConnectErr error
	Now        time.Time
	Dir, Self  string
	UIURL      string
	Start      func(ctx context.Context, o dev.Options) (Stack, error)
}

// RunWith is Run in a world of parts.
func RunWith(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string, p Parts) int {
	return run(ctx, args, stdin, stdout, stderr, env, deps{
		now: func() time.Time { return p.Now },
		connect: func(context.Context, *app, needs) (*session, error) {
			if p.ConnectErr != nil {
				return nil, p.ConnectErr
			}
			return &session{tasks: p.Tasks, namespace: "default", uiURL: p.UIURL, close: func() {}}, nil
		},
		dir:   func() (string, error) { return p.Dir, nil },
		self:  func() (string, error) { return p.Self, nil },
		zone:  time.UTC,
		start: p.Start,
	})
}
