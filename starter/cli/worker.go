package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/worker"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// workerFlags are those of worker.
type workerFlags struct {
	host, readyFile, logLevel string
	exitWithStdin             bool
}

func (a *app) workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use: "worker", Short: "run a worker until ctrl-c", Args: exactly(),
		Long: `Runs a worker: it carries tasks out, and runs the tools of the executor exec on this
host. Tools outlive it: a worker that is killed loses nothing, the next one on the
same host and data folder goes on.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.worker(cmd.Context(), f) },
	}
	a.engineFlags(cmd.Flags())
	fl := cmd.Flags()
	fl.StringVar(&f.host, "host", "", "name of this host and data folder, the same over restarts (default the host's name)")
	fl.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	fl.StringVar(&f.readyFile, "ready-file", "", "write a JSON file with the pid once it works")
	fl.BoolVar(&f.exitWithStdin, "exit-with-stdin", false, "stop when standard input ends")
	fl.BoolVar(&a.local, "local", false, "")
	for _, name := range []string{"ready-file", "exit-with-stdin", "local"} {
		// Only a flag that does not exist gives an error.
		_ = fl.MarkHidden(name)
	}
	return cmd
}

// errStdinEnded is the end of whoever started the worker.
var errStdinEnded = errors.New("standard input has ended")

func (a *app) worker(ctx context.Context, f workerFlags) error {
	logger, err := a.workerLogger(f.logLevel)
	if err != nil {
		return err
	}
	if f.exitWithStdin {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			_, _ = io.Copy(io.Discard, a.in) // an error ends it as well
			cancel(errStdinEnded)
		}()
	}
	a.waits = true
	cfg, err := a.config()
	if err != nil {
		return err
	}
	e, err := a.endpoint(cfg.DataDir)
	if err != nil {
		return err
	}
	c, err := e.dial(ctx, logger)
	if err != nil {
		return err
	}
	defer c.Close()
	blobs, err := store.Open(ctx, cfg.BlobURL())
	if err != nil {
		return &failure{code: codeConfig, message: "open the store of results: " + err.Error(), cause: err}
	}
	defer func() { _ = blobs.Close() }()
	calls, err := a.calls(cfg, c, e.options.Namespace, blobs, logger)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Options{Temporal: c, Config: cfg, Store: blobs, Host: f.host, Logger: logger, Getenv: a.env.get, Calls: calls})
	if err != nil {
		return &failure{code: codeConfig, message: err.Error(), hint: hintTools(cfg), cause: err}
	}
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	if f.readyFile != "" {
		if err := dev.WriteFile(f.readyFile, map[string]int{"pid": os.Getpid()}); err != nil {
			return err
		}
	} else if err := a.workerStarted(cfg, e, w); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// calls is the client by which runs submit their calls: a call is subject to the rules
// of any submission.
func (a *app) calls(cfg *config.Config, temporal sdkclient.Client, namespace string, blobs *store.Store, logger *slog.Logger) (*starter.RunCalls, error) {
	secret, err := config.Secret(cfg, a.env.get)
	if err != nil {
		// Only calls with an idempotency key or a cache need it, and they say so.
		logger.Warn("the installation's secret cannot be had; calls of runs with an idempotency key are refused", "error", err)
		secret = nil
	}
	c, err := starter.New(starter.Options{Temporal: temporal, Config: cfg, Store: blobs, Secret: secret, Namespace: namespace, Logger: logger})
	if err != nil {
		return nil, err
	}
	return c.Calls(), nil
}

// workerStarted says what runs, when nobody supervises it.
func (a *app) workerStarted(cfg *config.Config, e endpoint, w *worker.Worker) error {
	if a.json {
		return a.printJSON(map[string]any{
			"address": e.options.HostPort, "namespace": e.options.Namespace, "taskQueues": w.TaskQueues(), "tools": len(cfg.Tools), "dataDir": cfg.DataDir,
		})
	}
	term.Fields(a.out, []term.Field{
		{Name: "engine", Value: e.options.HostPort + " (from " + e.from + ")"},
		{Name: "namespace", Value: e.options.Namespace},
		{Name: "task queues", Value: strings.Join(w.TaskQueues(), ", ")},
		{Name: "tools", Value: toolsFrom(cfg)},
		{Name: "data", Value: cfg.DataDir},
	})
	a.say("the worker runs; stop it with ctrl-c")
	return nil
}

func toolsFrom(cfg *config.Config) string {
	if cfg.File == "" {
		return "none, there is no " + config.FileName + " here"
	}
	return term.Count(len(cfg.Tools), "tool") + " from " + cfg.File
}

func (a *app) workerLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("", "--log-level must be debug, info, warn or error, not %q", level)
	}
	o := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(a.err, o)
	if a.json {
		h = slog.NewJSONHandler(a.err, o)
	}
	return slog.New(quietHandler{h}), nil
}

// quietHandler takes for details what the SDK logs as errors and are answers: a
// tool that was not started says so to its task.
type quietHandler struct{ slog.Handler }

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	answer := false
	r.Attrs(func(at slog.Attr) bool {
		err, _ := at.Value.Any().(error)
		var app *temporal.ApplicationError
		answer = errors.As(err, &app) && slices.Contains(answers, app.Type())
		return !answer
	})
	if answer && r.Level > slog.LevelDebug {
		if !h.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		r.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, r)
}

func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

// answers are the types of activities' errors that are answers.
var answers = []string{protocol.ErrTypeNotStarted, protocol.ErrTypeStillRunning, protocol.ErrTypeNotDelivered, string(starter.CodeNoLogs)}
