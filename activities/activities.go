package activities

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Signaler sends signals to workflows; a Temporal client is one.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Tasks starts and reads workflows; a Temporal client is one.
type Tasks interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
}

// Blobs stores results; [store.Store] is one.
type Blobs interface {
	PutBytes(ctx context.Context, key store.Key, data []byte, contentType string) (store.Ref, error)
}

// Options is what the activities need.
type Options struct {
	// Executors gives the executor of each tool, by the tool's name. Tools that
	// the world calls have none.
	Executors map[string]tool.Executor
	// Blobs stores inline results. Required.
	Blobs Blobs
	// Signals tells tasks and runs. Required.
	Signals Signaler
	// Targets are where deliveries go, by name.
	Targets map[string]Target
	// Host names this machine, for executors whose jobs belong to one.
	Host string
	// Tools gives the declared tools, and Tasks starts and reads tasks, both for what
	// undoes the work of others. Without them nothing is undone.
	Tools func(name string) (config.Tool, bool)
	Tasks Tasks
	// Calls submits what does the work of the calls of runs. Without it runs start
	// nothing.
	Calls Calls
	// Contents holds the contents of runs and the results that they are given.
	Contents *store.Store
	// Runtimes are where the steps of runtimes of mode push go, by name.
	Runtimes map[string]Runtime
	// Stored is the store of results as sweeps see it. Without it, or without Tasks,
	// nothing is swept.
	Stored Stored
	// Lifetimes are how long results are kept.
	Lifetimes Lifetimes
	// TaskQueue is where tasks run. Default: [protocol.DefaultTaskQueue].
	TaskQueue string
	// HTTP sends webhooks. Default: a client without proxy and redirects.
	HTTP *http.Client
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger takes what is not an error of an activity. Default: slog.Default.
	Logger *slog.Logger
}

// Activities are Wakepoint's activities. Make them with [New].
type Activities struct{ o Options }

// New checks the options, so that a wrong configuration stops the worker at its
// start and not a task in the middle.
func New(o Options) (*Activities, error) {
	switch {
	case o.Blobs == nil:
		return nil, domain.Invalid("blobs", "must be given")
	case o.Signals == nil:
		return nil, domain.Invalid("signals", "must be given")
	}
	if o.HTTP == nil {
		o.HTTP = webhookClient()
	}
	if o.TaskQueue == "" {
		o.TaskQueue = protocol.DefaultTaskQueue
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Lifetimes = o.Lifetimes.withDefaults()
	return &Activities{o: o}, nil
}
