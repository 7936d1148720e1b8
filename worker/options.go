package worker

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// DefaultStopTimeout is how long a stopping worker waits for its activities.
const DefaultStopTimeout = 15 * time.Second

// Options is what a worker needs. The zero value of a field means its default.
type Options struct {
	// Temporal is the connection. Required.
	Temporal client.Client
	// Config declares the tools and targets. Required.
	Config *config.Config
	// Store holds results. Required.
	Store *store.Store
	// DataDir holds what exec keeps of its jobs on this host.
	// Default: that of Config.
	DataDir string
	// Host names this machine. Jobs of exec are looked at on the task queue of
	// their host, so it must stay the same over restarts and differ between
	// hosts. Default: the host's name.
	Host string
	// SupervisorArgv starts exec's supervisor, which outlives the worker.
	// Default: this program with the argument internal-supervise.
	SupervisorArgv []string
	// Executors are the program's own, by the name that tools give as their
	// executor. Default: none.
	Executors map[string]tool.Executor
	// Functions are the program's own for tools of the executor go, by their name.
	// Default: none.
	Functions map[string]gofunc.Func
	// Calls submits what does the work of the calls of runs: that of a client of package
	// starter. Default: none, runs start nothing.
	Calls activities.Calls
	// TaskQueue is where workflows run. Default: that of Config.
	TaskQueue string
	// StopTimeout is how long Stop waits for what runs. Default: 15 s.
	StopTimeout time.Duration
	// HTTP sends webhooks. Default: a client without proxy and redirects.
	HTTP *http.Client
	// Logger takes what the worker says. Default: slog.Default.
	Logger *slog.Logger
	// Getenv reads the environment. Default: os.Getenv.
	Getenv func(string) string
}

func (o Options) withDefaults() (Options, error) {
	if err := o.fill(); err != nil {
		return o, err
	}
	return o, o.validate()
}

// fill sets what was left out.
func (o *Options) fill() error {
	if o.Config != nil {
		if o.TaskQueue == "" {
			o.TaskQueue = o.Config.TaskQueue
		}
		if o.DataDir == "" {
			o.DataDir = o.Config.DataDir
		}
	}
	if o.TaskQueue == "" {
		o.TaskQueue = protocol.DefaultTaskQueue
	}
	if o.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return domain.Invalid("host", "must be given, the system does not say: %v", err)
		}
		o.Host = name
	}
	if len(o.SupervisorArgv) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return domain.Invalid("supervisorArgv", "must be given, the system does not say what runs: %v", err)
		}
		o.SupervisorArgv = []string{exe, SuperviseArgument}
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return nil
}

func (o Options) validate() error {
	switch {
	case o.Temporal == nil:
		return domain.Invalid("temporal", "must be given")
	case o.Config == nil:
		return domain.Invalid("config", "must be given")
	case o.Store == nil:
		return domain.Invalid("store", "must be given")
	case o.DataDir == "" || !filepath.IsAbs(o.DataDir):
		return domain.Invalid("dataDir", "must be an absolute path, not %q", o.DataDir)
	case strings.TrimSpace(o.Host) == "" || len(o.Host) > domain.MaxID:
		return domain.Invalid("host", "must be 1 to %d bytes", domain.MaxID)
	case o.StopTimeout < 0:
		return domain.Invalid("stopTimeout", "must be > 0, it is %s", o.StopTimeout)
	}
	return nil
}
