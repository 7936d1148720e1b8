// Chat is an agent as a runtime of runs: a loop around any service that speaks OpenAI's
// chat completions. Its README tells how to use it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Main(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Getenv); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1) //nolint:forbidigo,gocritic // this is main, and the signals are the process's
	}
}

// options are the flags.
type options struct {
	config, runtime, runID, title, say, system, tools, listen, address string
	endpoint                                                           *Endpoint
}

func parse(args []string, stderr io.Writer, getenv func(string) string) (options, error) {
	o := options{endpoint: &Endpoint{}}
	f := flag.NewFlagSet("chat", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.config, "config", config.FileName, "the installation's `file`")
	f.StringVar(&o.runtime, "runtime", "assistant", "the declared runtime that this is; its section says how it gets its steps")
	f.StringVar(&o.say, "say", "", "start a run with this `text`, and end with it")
	f.StringVar(&o.title, "title", "", "the title of that run")
	f.StringVar(&o.runID, "run", "", "take part in the run with this `id`, and end with it")
	f.StringVar(&o.system, "system", "", "the first message of every conversation")
	f.StringVar(&o.tools, "tools", "", "offer these declared tools only, by `names` with commas")
	f.StringVar(&o.address, "address", "", "the engine's `host:port`; else TEMPORAL_ADDRESS, else that of the wakepoint dev of the installation")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8090", "the `address` to take steps at, when they are pushed")
	f.StringVar(&o.endpoint.BaseURL, "base-url", getenv("OPENAI_BASE_URL"), "the service, up to /chat/completions (OPENAI_BASE_URL)")
	f.StringVar(&o.endpoint.Model, "model", getenv("OPENAI_MODEL"), "the model's name there (OPENAI_MODEL)")
	key := f.String("key-env", "OPENAI_API_KEY", "the environment `variable` with the key")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.endpoint.Key = getenv(*key)
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("what to say stands behind -say, not alone: %q", f.Arg(0))
	case o.endpoint.BaseURL == "" || o.endpoint.Model == "":
		return o, errors.New("name the service and the model: -base-url and -model, or OPENAI_BASE_URL and OPENAI_MODEL")
	case o.say != "" && o.runID != "":
		return o, errors.New("-say starts a run, -run names one: give one of them")
	}
	return o, nil
}

// Main is the program. It ends with the run that it was told of; without one, which only
// steps that are pulled need, when ctx ends.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) error {
	o, err := parse(args, stderr, getenv)
	if err != nil {
		return err
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return err
	}
	rt, ok := cfg.Runtime(o.runtime)
	if !ok {
		return fmt.Errorf("%s declares no runtime %q", o.config, o.runtime)
	}
	p := program{options: o, cfg: cfg, runtime: rt, getenv: getenv, log: slog.New(slog.NewTextHandler(stderr, nil))}
	var names []string
	if o.tools != "" {
		names = strings.Split(o.tools, ",")
	}
	p.agent = &Agent{Model: p.endpoint, System: o.system}
	if p.agent.Tools, err = Tools(cfg.Tools, names); err != nil {
		return err
	}
	stop, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if o.say != "" {
		said, err := json.Marshal(o.say)
		if err != nil {
			return err
		}
		started, err := p.client.StartRun(ctx, starter.RunStart{Runtime: o.runtime, Title: o.title, Input: said})
		if err != nil {
			return err
		}
		p.runID = started.RunID
		p.log.Info("the run has started", "run", p.runID)
	}
	return p.work(ctx, stdout)
}

// program is what the ways in share.
type program struct {
	options
	cfg      *config.Config
	runtime  config.Runtime
	agent    *Agent
	getenv   func(string) string
	log      *slog.Logger
	temporal sdkclient.Client
	store    *store.Store
	client   *starter.Client
}

// connect finds the engine as every Temporal client does, by TEMPORAL_ADDRESS and its
// like, else that of the `wakepoint dev` of this folder.
func (p *program) connect(ctx context.Context) (stop func(), err error) {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, err
	}
	if p.address != "" {
		o.HostPort = p.address
	}
	if info, ok := dev.Find(p.cfg.DataDir); ok && o.HostPort == "" {
		o.HostPort, o.Namespace = info.Address, info.Namespace
	}
	o.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	if p.temporal, err = sdkclient.DialContext(ctx, o); err != nil {
		return nil, fmt.Errorf("no engine answers; start `wakepoint dev`, or name one with -address: %w", err)
	}
	if p.store, err = store.Open(ctx, p.cfg.BlobURL()); err != nil {
		p.temporal.Close()
		return nil, err
	}
	p.client, err = starter.New(starter.Options{Temporal: p.temporal, Config: p.cfg, Store: p.store, Logger: p.log})
	return func() {
		_ = p.store.Close()
		p.temporal.Close()
	}, err
}

// work takes steps, in the way that was declared.
func (p *program) work(ctx context.Context, stdout io.Writer) error {
	switch {
	case p.runtime.Pull != nil && p.runID == "":
		return errors.New("this runtime pulls the steps of one run: start one with -say, or name one with -run")
	case p.runtime.Pull != nil:
		if err := agent.Pull(ctx, p.client, p.runID, p.agent.Step, agent.PullOptions{RuntimeVersion: p.runtime.Version, Logger: p.log}); err != nil {
			return err
		}
	case p.runtime.Push != nil:
		stop, err := p.serve(ctx)
		if err != nil {
			return err
		}
		defer stop()
	default:
		w := sdkworker.New(p.temporal, p.runtime.Activity.TaskQueue, sdkworker.Options{})
		agent.Register(w, p.agent.Step, agent.ActivityOptions{Store: p.store})
		if err := w.Start(); err != nil {
			return err
		}
		defer w.Stop()
	}
	if p.runID == "" {
		<-ctx.Done()
		return nil
	}
	return p.end(ctx, stdout)
}

// serve takes steps that are pushed. One that takes long is answered with 202, and
// committed when it is done.
func (p *program) serve(ctx context.Context) (stop func(), err error) {
	o := agent.HandlerOptions{Commits: p.client, Within: p.runtime.Push.Timeout / 2, Logger: p.log}
	if ref := p.runtime.Push.Secret; !ref.IsZero() {
		secret, err := ref.Read(p.getenv)
		if err != nil {
			return nil, err
		}
		if secret, err = agent.Secret(string(secret)); err != nil {
			return nil, err
		}
		o.Secrets = [][]byte{secret}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.listen)
	if err != nil {
		return nil, err
	}
	const header = 10 * time.Second
	srv := &http.Server{Handler: agent.Handler(p.agent.Step, o), ReadHeaderTimeout: header}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("steps are taken no longer", "error", err)
		}
	}()
	p.log.Info("taking steps", "address", l.Addr().String())
	return func() { _ = srv.Close() }, nil
}

// end waits for the end of the run and prints its answer.
func (p *program) end(ctx context.Context, stdout io.Writer) error {
	d, err := p.client.WaitRun(ctx, p.runID, 0)
	if err != nil {
		return err
	}
	if d.Run.State != run.StateSucceeded {
		if d.Run.Error != nil {
			return fmt.Errorf("the run %s: %w", starter.RunStanding(d.Run.State), d.Run.Error)
		}
		return fmt.Errorf("the run %s", starter.RunStanding(d.Run.State))
	}
	answer, err := p.client.RunResult(ctx, p.runID)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, plain(answer.Content))
	return nil
}
