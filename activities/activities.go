package activities

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
)

// Signaler sends signals to workflows; a Temporal client is one.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
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
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Activities{o: o}, nil
}
