package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/store"
)

const (
	// dialTimeout bounds the first contact with an engine.
	dialTimeout = 5 * time.Second
	// restartTimeout bounds it when a stack runs here: an engine that was killed
	// is started again, which takes seconds.
	restartTimeout = 20 * time.Second
	// startTimeout bounds the wait for a stack that is starting.
	startTimeout = 20 * time.Second
	// dialPause lies between two tries.
	dialPause = 200 * time.Millisecond
)

// defaultAddress is where Temporal listens by default. An address, not a name:
// a local name may lead to an interface on which nobody listens.
const defaultAddress = "127.0.0.1:7233"

// endpoint is where the engine is, and how it was found.
type endpoint struct {
	options sdkclient.Options
	// from says where the address comes from, for people.
	from  string
	uiURL string
	// supervised says that somebody starts the engine again when it dies.
	supervised bool
}

// endpoint finds the engine: the flag, the environment or a profile that was
// named, the stack that runs in the data folder, the default profile, the
// default address.
func (a *app) endpoint(dataDir string) (endpoint, error) {
	if a.local {
		return endpoint{options: sdkclient.Options{HostPort: a.address, Namespace: a.namespace}, from: "--address", uiURL: a.env.get(envUI)}.finished(), nil
	}
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{ConfigFileProfile: a.profile, EnvLookup: a.env})
	if err != nil {
		return endpoint{}, &failure{
			code: codeConfig, message: "read the connection's profile: " + err.Error(), hint: "see `wakepoint help connection`", cause: err,
		}
	}
	e := endpoint{from: "the default", uiURL: a.env.get(envUI)}
	named := a.profile != "" || a.env.get("TEMPORAL_PROFILE") != "" || a.env.get("TEMPORAL_ADDRESS") != ""
	var info dev.Info
	running := false
	if a.address == "" && (!named || profile.Address == "") {
		if info, running, err = a.stackIn(dataDir, profile.Address); err != nil {
			return endpoint{}, err
		}
	}
	switch {
	case a.address != "":
		profile.Address, e.from = a.address, "--address"
	case named && profile.Address != "":
		e.from = "the environment or the profile"
	case running:
		profile.Address, e.from, e.supervised = info.Address, "the wakepoint dev in "+info.DataDir, info.Engine != dev.KindOutside
		if e.uiURL == "" {
			e.uiURL = info.UIURL
		}
		if profile.Namespace == "" || a.env.get("TEMPORAL_NAMESPACE") == "" {
			profile.Namespace = info.Namespace
		}
		// A local engine knows neither keys nor certificates.
		profile.TLS, profile.APIKey = nil, ""
	case profile.Address != "":
		e.from = "the default profile"
	default:
		profile.Address = defaultAddress
	}
	if a.namespace != "" {
		profile.Namespace = a.namespace
	}
	if e.options, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{}); err != nil {
		return endpoint{}, &failure{code: codeConfig, message: "read the connection's profile: " + err.Error(), cause: err}
	}
	return e.finished(), nil
}

// stackIn is the stack that runs in the data folder, which is waited for while it
// starts. With no other address at hand a folder whose engine is down is refused:
// at the default address somebody else's may listen.
func (a *app) stackIn(dataDir, address string) (dev.Info, bool, error) {
	dir, err := a.data(dataDir)
	if err != nil || dir == "" {
		return dev.Info{}, false, err
	}
	ctx, cancel := context.WithTimeout(a.context(), startTimeout)
	defer cancel()
	info, o := dev.Await(ctx, dir)
	switch {
	case a.context().Err() != nil:
		return info, false, context.Cause(a.context())
	case o == dev.Starting:
		return info, false, failf(string(starter.CodeUnavailable), "wait for it, or name an engine with --address",
			"the wakepoint dev in %s has not started its engine within %s", dir, startTimeout)
	case o == dev.Dormant && address == "":
		return info, false, failf(string(starter.CodeUnavailable), "start it: wakepoint dev; or name an engine with --address",
			"the engine of the data folder %s is not running", dir)
	}
	return info, o == dev.Running, nil
}

// finished fills in what nobody chose.
func (e endpoint) finished() endpoint {
	if e.options.Namespace == "" {
		e.options.Namespace = sdkclient.DefaultNamespace
	}
	if host, _, err := net.SplitHostPort(e.options.HostPort); err == nil && net.ParseIP(host).IsLoopback() {
		// Compressing requests costs more than it saves when they stay in the machine.
		e.options.ConnectionOptions.GrpcCompression = &sdkclient.GrpcCompressionNone{}
	}
	return e
}

// dial opens the connection, or says where it tried.
func (e endpoint) dial(ctx context.Context, logger *slog.Logger) (sdkclient.Client, error) {
	e.options.Logger = sdklog.NewStructuredLogger(logger)
	c, err := e.try(ctx)
	for giveUp := time.Now().Add(restartTimeout); err != nil && e.supervised && ctx.Err() == nil && time.Now().Before(giveUp); c, err = e.try(ctx) {
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
		}
	}
	if err == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &failure{
		code: string(starter.CodeUnavailable), message: "no engine answers at " + e.options.HostPort + " (from " + e.from + ")",
		hint: "start one with `wakepoint dev`, or name one with --address or TEMPORAL_ADDRESS", cause: err,
	}
}

func (e endpoint) try(ctx context.Context) (sdkclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return sdkclient.DialContext(ctx, e.options)
}

// config reads the configuration: the file of the flag or of the environment,
// else wakepoint.yaml in the current folder, else the one with which a stack runs
// in the data folder. Without any of them there are no tools.
func (a *app) config() (*config.Config, error) {
	file, dataDir, err := a.findConfig()
	if err != nil {
		return nil, err
	}
	cfg, err := a.load(file)
	if err != nil {
		return nil, err
	}
	if dataDir == "" {
		dataDir = cfg.DataDir
	}
	if cfg.DataDir, err = a.data(dataDir); err != nil {
		return nil, err
	}
	if a.tenant != "" {
		cfg.Tenant = a.tenant
	}
	return cfg, nil
}

func (a *app) load(file string) (*config.Config, error) {
	if file == "" {
		wd, err := a.deps.dir()
		if err != nil {
			return nil, err
		}
		return config.New(config.Config{Dir: wd})
	}
	cfg, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{code: codeConfig, message: "there is no file " + file, hint: "name the configuration with --config", cause: err}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, &failure{code: codeConfig, message: "read " + file + ": " + path.Err.Error(), hint: "name the configuration with --config", cause: err}
	}
	return cfg, err
}

// findConfig gives the file to read, "" for none, and the data folder in which it
// is in use, if it was found there.
func (a *app) findConfig() (file, dataDir string, err error) {
	wd, err := a.deps.dir()
	if err != nil {
		return "", "", err
	}
	for _, file := range []string{a.configFile, a.env.get(envConfig)} {
		if file == "" {
			continue
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(wd, file)
		}
		return file, "", nil
	}
	info, running, err := a.running(config.DefaultDataDir)
	if err != nil {
		return "", "", err
	}
	// A folder that was named leads to what runs there, not to what lies here.
	if running && info.Config != "" && (a.dataDir != "" || a.env.get(envData) != "") {
		return info.Config, info.DataDir, nil
	}
	here := filepath.Join(wd, config.FileName)
	if _, err := os.Stat(here); err == nil {
		return here, "", nil
	}
	if running {
		return info.Config, info.DataDir, nil
	}
	return "", "", nil
}

// needs is what a command needs beside the engine. What it does not need is not
// opened: it would be made where nobody wants it.
type needs struct {
	// secret is that of the installation, for idempotency keys.
	secret bool
	// tool is the one that is submitted: if it has a cache, it needs the secret too.
	tool string
	// results is the store of results.
	results bool
}

// connect is the way to a real engine.
func connect(ctx context.Context, a *app, need needs) (*session, error) {
	a.waits = true
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	e, err := a.endpoint(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	temporal, err := e.dial(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s, err := a.open(ctx, cfg, temporal, e.options.Namespace, need)
	if err != nil {
		temporal.Close()
		return nil, err
	}
	s.namespace, s.uiURL = e.options.Namespace, e.uiURL
	return s, nil
}

// open makes a client of a connection.
func (a *app) open(ctx context.Context, cfg *config.Config, temporal sdkclient.Client, namespace string, need needs) (*session, error) {
	o := starter.Options{Temporal: temporal, Config: cfg, Logger: a.logger(), Namespace: namespace}
	var err error
	if t, ok := cfg.Tool(need.tool); need.secret || ok && t.Cache != nil {
		if o.Secret, err = config.Secret(cfg, a.env.get); err != nil {
			return nil, err
		}
	}
	end := temporal.Close
	if need.results {
		if o.Store, err = store.Open(ctx, cfg.BlobURL()); err != nil {
			return nil, &failure{code: codeConfig, message: "open the store of results: " + err.Error(), cause: err}
		}
		end = func() {
			_ = o.Store.Close()
			temporal.Close()
		}
	}
	c, err := starter.New(o)
	if err != nil {
		return nil, err
	}
	return &session{tasks: client{c}, runs: c, close: end}, nil
}

// link is the page of a workflow in the Temporal UI, "" if its address is not known.
func (s *session) link(workflowID, runID string) string {
	if s.uiURL == "" {
		return ""
	}
	link := strings.TrimRight(s.uiURL, "/") + "/namespaces/" + url.PathEscape(s.namespace) + "/workflows/" + url.PathEscape(workflowID)
	if runID != "" {
		link += "/" + url.PathEscape(runID) + "/history"
	}
	return link
}
