package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/worker"
)

// stackFlags are those of the commands that start an engine.
type stackFlags struct {
	engine, durability string
	port, uiPort       port
	noWorker           bool
	// logLevel of both children; empty leaves the engine at its own.
	logLevel string
}

// port is a flag: auto, 0 for any free one, or a number.
type port int

func (p *port) Set(s string) error {
	if s == dev.EngineAuto {
		*p = dev.PortDefault
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return errors.New("must be auto, 0 (any free one) or a port up to 65535")
	}
	*p = port(n)
	return nil
}

func (p *port) String() string {
	if *p == dev.PortDefault {
		return dev.EngineAuto
	}
	return strconv.Itoa(int(*p))
}

func (p *port) Type() string { return "port" }

func (a *app) devCommand() *cobra.Command {
	var f stackFlags
	cmd := &cobra.Command{
		Use: "dev", Short: "run an engine and a worker on this machine, until ctrl-c", Args: exactly(),
		Long: `Runs an engine and a worker as child processes, and starts them again when they die.
Everything is kept in the data folder: the next start goes on where this one ends,
however it ends. Other commands in the same folder find the engine by themselves.

One wakepoint dev at a time has a data folder.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dev(cmd.Context(), f) },
	}
	a.configFlags(cmd.Flags())
	a.stackFlags(cmd, &f, dev.PortDefault)
	cmd.Flags().StringVar(&a.namespace, "namespace", "default", "Temporal namespace")
	cmd.Flags().StringVar(&a.profile, "profile", "", "profile of Temporal's configuration file, with --engine HOST:PORT")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error, of engine and worker (default warn and error)")
	cmd.Flags().BoolVar(&f.noWorker, "no-worker", false, "only the engine, for workers of your own")
	return cmd
}

func (a *app) stackFlags(cmd *cobra.Command, f *stackFlags, usual port) {
	fl := cmd.Flags()
	f.port, f.uiPort = usual, usual
	fl.StringVar(&f.engine, "engine", dev.EngineAuto, "auto, the PATH of wakepoint-engine or temporal, or HOST:PORT of one that runs")
	fl.Var(&f.port, "port", "port of the engine: a number, 0 for any free one, auto for 7233 if that is free")
	fl.Var(&f.uiPort, "ui-port", "port of the Temporal UI: a number, 0 for any free one, auto for that of the engine and 1000")
	fl.StringVar(&f.durability, "durability", dev.DurabilityNormal, "normal or full: whether a power cut may take the last moments")
}

// durability says in words what a choice is worth.
var durability = map[string]string{
	dev.DurabilityNormal: "normal, a trade for speed: a crash loses nothing, a power cut may take the last moments (--durability full)",
	dev.DurabilityFull:   "full: neither a crash nor a power cut loses what was acknowledged",
}

func (a *app) dev(ctx context.Context, f stackFlags) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if !f.noWorker {
		if err := a.checkTools(ctx, cfg); err != nil {
			return err
		}
	}
	o, err := a.stackOptions(ctx, cfg, f)
	if err != nil {
		return err
	}
	o.Notify = a.tellEvent
	s, err := a.deps.start(ctx, o)
	if err != nil {
		return a.told(err)
	}
	// From here on a signal that comes twice must not end this process at once.
	_, release := a.deps.signals()
	defer release()
	if err := a.devReady(cfg, s.Info(), f); err != nil {
		return a.stopStack(ctx, s, err)
	}
	return a.told(a.stopStack(ctx, s, s.Wait(ctx)))
}

// checkTools finds what the worker would refuse, before anything is started.
func (a *app) checkTools(ctx context.Context, cfg *config.Config) error {
	err := worker.Check(ctx, worker.Options{Config: cfg, Getenv: a.env.get})
	if err != nil {
		return &failure{code: codeConfig, message: err.Error(), hint: hintTools(cfg), cause: err}
	}
	return nil
}

func hintTools(cfg *config.Config) string {
	return "mend the tools in " + cfg.File + "; see docs/config.md"
}

// told drops what a child wrote last from its error: people have read it as it
// was written.
func (a *app) told(err error) error {
	var child *dev.ExitError
	if a.json || !errors.As(err, &child) {
		return err
	}
	short := *child
	short.Tail = nil
	return &short
}

// stackOptions puts an engine and a worker of this program together.
func (a *app) stackOptions(ctx context.Context, cfg *config.Config, f stackFlags) (dev.Options, error) {
	if levels := []string{"", "debug", "info", "warn", "error"}; !slices.Contains(levels, f.logLevel) {
		return dev.Options{}, usage("", "--log-level must be debug, info, warn or error, not %q", f.logLevel)
	}
	if _, ok := durability[f.durability]; !ok {
		return dev.Options{}, usage("", "--durability must be normal or full, not %q", f.durability)
	}
	engine, err := a.search().Engine(ctx, f.engine)
	if err != nil {
		return dev.Options{}, err
	}
	self, err := a.deps.self()
	if err != nil {
		return dev.Options{}, err
	}
	a.address, a.local = engine.Address, engine.Kind != dev.KindOutside
	e, err := a.endpoint(cfg.DataDir)
	if err != nil {
		return dev.Options{}, err
	}
	at := func(address string) endpoint {
		e.options.HostPort = address
		return e
	}
	o := dev.Options{
		DataDir: cfg.DataDir, Engine: engine, Port: int(f.port), UIPort: int(f.uiPort), LogLevel: f.logLevel, Namespace: e.options.Namespace, Durability: f.durability, Config: cfg.File,
		Leash: []string{self, commandLeash}, Env: a.env,
		Dial: func(ctx context.Context, address string) error {
			c, err := at(address).dial(ctx, slog.New(slog.DiscardHandler))
			if err == nil {
				c.Close()
			}
			return err
		},
		Prepare: func(ctx context.Context, info dev.Info) error {
			c, err := at(info.Address).dial(ctx, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = starter.Setup(ctx, c, starter.SetupOptions{Namespace: info.Namespace})
			return err
		},
	}
	if !f.noWorker {
		o.Worker = func(info dev.Info, ready string) []string { return a.workerCommandLine(self, info, ready, f.logLevel) }
	}
	return o, nil
}

// workerCommandLine runs this program as the worker of a stack.
func (a *app) workerCommandLine(self string, info dev.Info, ready, level string) []string {
	argv := []string{
		self, "worker", "--address", info.Address, "--namespace", info.Namespace, "--data", info.DataDir, "--ready-file", ready, "--exit-with-stdin",
	}
	if level == "" {
		// While the engine is away a worker warns of every try to reach it, and the
		// engine is what one sees being started again.
		level = "error"
	}
	argv = append(argv, "--log-level", level)
	if info.Config != "" {
		argv = append(argv, "--config", info.Config)
	}
	switch {
	case a.local:
		argv = append(argv, "--local")
	case a.profile != "":
		argv = append(argv, "--profile", a.profile)
	}
	return argv
}

// devReady says where everything is.
func (a *app) devReady(cfg *config.Config, info dev.Info, f stackFlags) error {
	if a.json {
		return a.printJSON(info)
	}
	engine := info.Address
	if info.EngineVersion != "" {
		engine += ", " + info.EngineVersion
	}
	worker := toolsFrom(cfg)
	if f.noWorker {
		worker = "no worker"
	}
	term.Fields(a.out, []term.Field{
		{Name: "engine", Value: engine},
		{Name: "temporal ui", Value: info.UIURL},
		{Name: "namespace", Value: info.Namespace},
		{Name: "tools", Value: worker},
		{Name: "data", Value: info.DataDir},
		{Name: "durability", Value: durability[info.Durability]},
	})
	a.say("ready; stop with ctrl-c")
	if len(cfg.Tools) > 0 && !f.noWorker {
		a.say("hint: in another terminal: wakepoint task submit %s --wait", submission(tryFirst(cfg.Tools)))
	}
	return nil
}

// tellEvent says what happens to the children.
func (a *app) tellEvent(e dev.Event) {
	switch e.What {
	case dev.Said:
		a.say("%s: %s", e.Child, term.Clean(e.Line))
	case dev.Died:
		a.say("the %s (pid %d) ended: %s", e.Child, e.PID, strings.TrimPrefix(e.Err.Error(), "the "+e.Child+" ended: "))
	case dev.Waiting:
		a.say("the %s is started again in %s", e.Child, term.Duration(e.Pause))
	case dev.Ready:
		a.say("the %s works (pid %d)", e.Child, e.PID)
	case dev.Stopped:
		if e.Err != nil {
			a.say("the %s (pid %d): %v", e.Child, e.PID, e.Err)
		}
	case dev.Started:
	}
}

// again is how soon after the first ctrl-c another one is a second one: a terminal
// and a program in between may each pass on the same.
const again = time.Second

// stopStack stops the children in order; a second ctrl-c kills them. The error
// is the one before, else that of stopping.
func (a *app) stopStack(ctx context.Context, s stack, before error) error {
	signals, release := a.deps.signals()
	defer release()
	hurry, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// When nobody has asked for the end, the first ctrl-c is the second wish.
	var from time.Time
	if ctx.Err() != nil {
		a.say("stopping; ctrl-c again kills")
		from = a.deps.now().Add(again)
	}
	go func() {
		for {
			select {
			case sig := <-signals:
				// Those who stop services send SIGTERM as often as they like.
				if sig == os.Interrupt && !a.deps.now().Before(from) {
					cancel()
					return
				}
			case <-hurry.Done():
				return
			}
		}
	}()
	if err := s.Stop(hurry); before == nil {
		return err
	}
	return before
}

// listen catches the signals that ask for the end. While it does, none of them
// ends the process by itself.
func listen() (<-chan os.Signal, func()) {
	const more = 8
	ch := make(chan os.Signal, more)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return ch, func() { signal.Stop(ch) }
}
