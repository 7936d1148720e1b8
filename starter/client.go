package starter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Engine is what is needed of a Temporal client; [client.Client] has it.
type Engine interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enums.HistoryEventFilterType) client.HistoryEventIterator
	QueryWorkflowWithOptions(ctx context.Context, request *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error)
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	RecordActivityHeartbeatByID(ctx context.Context, namespace, workflowID, runID, activityID string, details ...any) error
	ExecuteActivity(ctx context.Context, options client.StartActivityOptions, activity any, args ...any) (client.ActivityHandle, error)
}

// Options are the parts of a [Client].
type Options struct {
	// Temporal is the connection. Required.
	Temporal Engine
	// Config declares the tools. Default: none, so that nothing can be submitted.
	Config *config.Config
	// Tenant is whose tasks these are. Default: that of Config.
	Tenant string
	// TaskQueue is where workflows run. Default: that of Config.
	TaskQueue string
	// Store holds the results. Default: none, so that they cannot be opened.
	Store *store.Store
	// Secret makes task ids from idempotency keys, see [config.Secret]. Default:
	// none, so that such keys are refused.
	Secret []byte
	// DataConverter is the one of Temporal. It is needed again to read memos and
	// the input of a run. Default: the SDK's default.
	DataConverter converter.DataConverter
	// Now is the clock in milliseconds. Default: the system's.
	Now func() int64
	// Namespace is that of Temporal, for the few calls that need its name: with it
	// and a client.Client the hosts of jobs are found by the workers that poll.
	// Default: none, hosts are known from what tasks say.
	Namespace string
	// MaxUpdatesInFlight is how many updates one task gets at a time from this
	// client. An engine with default settings allows 10, and passing them stalls
	// far more than the caller. Default: 8.
	MaxUpdatesInFlight int
	// UpdateTimeout is how long an update may wait for a worker. Default: 5s.
	UpdateTimeout time.Duration
	// QueryTimeout is how long a query may wait for a worker. Default: 10s.
	QueryTimeout time.Duration
	// TrustTimes leaves the times of callbacks as the caller gave them, 0 and
	// those in the future included, so that recorded conversations can be played.
	// Default: false, a missing time is the time of receipt and none is later.
	TrustTimes bool
	// EagerStart hands the first step of a task to a worker in this process that
	// shares Temporal, if there is one. Default: false.
	EagerStart bool
	// ContinueAfterEvents makes tasks continue as new after so many events.
	// Default: 0, when the engine suggests it.
	ContinueAfterEvents int
	// Poll bounds the polling of Watch.
	Poll Poll
	// Logger hears of what the caller is not told, such as an engine that is away
	// while a watch waits for it. Default: nobody.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Config == nil {
		c, err := config.Default()
		if err != nil {
			return o, err
		}
		o.Config = c
	}
	if o.Tenant == "" {
		o.Tenant = o.Config.Tenant
	}
	if o.TaskQueue == "" {
		o.TaskQueue = o.Config.TaskQueue
	}
	if o.DataConverter == nil {
		o.DataConverter = converter.GetDefaultDataConverter()
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.MaxUpdatesInFlight == 0 {
		o.MaxUpdatesInFlight = 8
	}
	if o.UpdateTimeout == 0 {
		o.UpdateTimeout = 5 * time.Second
	}
	if o.QueryTimeout == 0 {
		o.QueryTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Poll = o.Poll.withDefaults()
	return o, nil
}

func (o Options) validate() error {
	switch {
	case o.Temporal == nil:
		return domain.Invalid("Temporal", "must be given")
	case o.MaxUpdatesInFlight < 0:
		return domain.Invalid("MaxUpdatesInFlight", "must be > 0, it is %d", o.MaxUpdatesInFlight)
	case o.UpdateTimeout < 0:
		return domain.Invalid("UpdateTimeout", "must be > 0, it is %s", o.UpdateTimeout)
	case o.QueryTimeout < 0:
		return domain.Invalid("QueryTimeout", "must be > 0, it is %s", o.QueryTimeout)
	case o.ContinueAfterEvents < 0:
		return domain.Invalid("ContinueAfterEvents", "must be >= 0, it is %d", o.ContinueAfterEvents)
	case len(o.Secret) > 0 && len(o.Secret) < config.MinSecret:
		return domain.Invalid("Secret", "must have at least %d bytes, it has %d", config.MinSecret, len(o.Secret))
	}
	if err := o.Poll.validate(); err != nil {
		return err
	}
	return domain.CheckTenant(o.Tenant)
}

// Client is the way in for one tenant. It is safe for concurrent use.
type Client struct {
	o      Options
	engine Engine
	gates  gates
	reads  sharer[snapshot]
	// runReads are those of runs.
	runReads sharer[runSnapshot]
	// windows are how long the work of each tool usually takes.
	windows *windows
}

// New makes a client. It does not talk to the engine.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("starter: %w", err)
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("starter: %w", err)
	}
	return &Client{o: o, engine: o.Temporal, gates: newGates(o.MaxUpdatesInFlight), reads: newSharer[snapshot](), runReads: newSharer[runSnapshot](), windows: newWindows()}, nil
}

// Tools lists the declared tools in the order of the configuration.
func (c *Client) Tools() []config.Tool { return slices.Clone(c.o.Config.Tools) }

// Tenant is whose tasks this client works with.
func (c *Client) Tenant() string { return c.o.Tenant }

func (c *Client) workflowID(taskID string) string {
	return protocol.TaskWorkflowID(c.o.Tenant, taskID)
}

// pause waits, or gives the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
