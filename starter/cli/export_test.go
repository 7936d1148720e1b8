package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// The parts that the tests of this package look at.
type (
	Stack    = stack
	Cluster  = cluster
	ExitCode = exitCode
)

var (
	ExitCodes    = exitCodes
	DoctorChecks = doctorChecks
)

// Code and Meaning open an exit code.
func (e exitCode) Code() int       { return e.code }
func (e exitCode) Meaning() string { return e.meaning }

// Parts are what a test puts in the place of the world.
type Parts struct {
	Tasks Tasks
	Runs  Runs
	// ConnectErr is what connecting gives.
	ConnectErr error
	Now        time.Time
	// Clock comes before Now.
	Clock func() time.Time
	// Signals are those that ask for the end. Nil are none.
	Signals   chan os.Signal
	Dir, Self string
	UIURL     string
	Start     func(ctx context.Context, o dev.Options) (Stack, error)
	// Cluster is the engine that doctor reaches, or ReachErr what comes of it; Free is
	// how much of a disk is free.
	Cluster  Cluster
	ReachErr error
	Free     func(dir string) (uint64, error)
	// Found takes what a real connection would have used.
	Found *Endpoint
}

// Endpoint is where a command would have found the engine and the tools.
type Endpoint struct {
	Address, Namespace, From, UIURL, Config, DataDir, Tenant string
	TLS, Supervised                                          bool
}

func (a *app) found() (Endpoint, error) {
	a.waits = true
	cfg, err := a.config()
	if err != nil {
		return Endpoint{}, err
	}
	e, err := a.endpoint(cfg.DataDir)
	return Endpoint{
		Address: e.options.HostPort, Namespace: e.options.Namespace, From: e.from, UIURL: e.uiURL, Config: cfg.File, DataDir: cfg.DataDir, Tenant: cfg.Tenant,
		TLS: e.options.ConnectionOptions.TLS != nil, Supervised: e.supervised,
	}, err
}

// RunWith is Run in a world of parts.
func RunWith(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string, p Parts) int {
	return runWith(ctx, args, stdin, stdout, stderr, env, deps{
		now: func() time.Time {
			if p.Clock != nil {
				return p.Clock()
			}
			return p.Now
		},
		signals: func() (<-chan os.Signal, func()) { return p.Signals, func() {} },
		connect: func(_ context.Context, a *app, _ needs) (*session, error) {
			if p.ConnectErr != nil {
				return nil, p.ConnectErr
			}
			if p.Found != nil {
				var err error
				if *p.Found, err = a.found(); err != nil {
					return nil, err
				}
			}
			return &session{tasks: p.Tasks, runs: p.Runs, namespace: "default", uiURL: p.UIURL, close: func() {}}, nil
		},
		dir:   func() (string, error) { return p.Dir, nil },
		self:  func() (string, error) { return p.Self, nil },
		zone:  time.UTC,
		start: p.Start,
		reach: func(_ context.Context, e endpoint) (cluster, error) {
			if p.ReachErr != nil {
				return nil, &failure{code: string(starter.CodeUnavailable), message: "no engine answers at " + e.options.HostPort, hint: "start one", cause: p.ReachErr}
			}
			return p.Cluster, nil
		},
		free: p.Free,
	})
}

// WorkerLogger is the logger of wakepoint worker.
func WorkerLogger(w io.Writer, level string) (*slog.Logger, error) {
	return (&app{err: w}).workerLogger(level)
}
