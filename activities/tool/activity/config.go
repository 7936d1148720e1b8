// Package activity uses activities that exist on somebody's Temporal worker as tools, by their
// type and task queue. A job is a standalone activity: the activity alone, without a workflow
// around it, whose id is made of the submission key and is its lock. See docs/temporal-tools.md.
package activity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// Kind is the executor kind in the handles of this package.
const Kind = config.ExecutorActivity

// Client is what is needed of a Temporal client; [client.Client] is one.
type Client interface {
	ExecuteActivity(ctx context.Context, options client.StartActivityOptions, activity any, args ...any) (client.ActivityHandle, error)
	GetActivityHandle(options client.GetActivityHandleOptions) client.ActivityHandle
	ListActivities(ctx context.Context, options client.ListActivitiesOptions) (client.ListActivitiesResult, error)
}

// Config declares one tool. The zero value of a field is its default.
type Config struct {
	// Name is the declared name of the tool. Required.
	Name string

	// Client is connected to the namespace of the activity's workers. Required.
	Client Client

	// Tool is the activity. Type and TaskQueue are required.
	Tool config.ActivityTool

	// Store takes results that are too large to be handed over, or no JSON. Required.
	Store *store.Store

	// Kind is the executor kind in handles, for executors that are made of this one.
	// Default: Kind.
	Kind string

	// Arguments makes the activity's arguments, with a [tool.NotStartedError] when that can't be
	// done.
	// Default: what Tool.Args says.
	Arguments func(tool.Request) ([]any, error)

	// Dies says that a job ends with the worker that submitted it, because both are one program.
	// Default: false.
	Dies bool
}

func (c Config) withDefaults() Config {
	if c.Kind == "" {
		c.Kind = Kind
	}
	if c.Tool.Args == "" {
		c.Tool.Args = config.ArgsOne
	}
	if c.Arguments == nil {
		spread := c.Tool.Args == config.ArgsSpread
		c.Arguments = func(req tool.Request) ([]any, error) { return outside.Args(spread, req.Input) }
	}
	return c
}

func (c Config) validate() error {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return errors.New("name must not be blank")
	case c.Client == nil:
		return errors.New("client must be set")
	case c.Store == nil:
		return errors.New("store must be set")
	case strings.TrimSpace(c.Tool.Type) == "":
		return errors.New("type must not be blank")
	case strings.TrimSpace(c.Tool.TaskQueue) == "":
		return errors.New("taskQueue must not be blank")
	case c.Tool.StartToClose < 0:
		return fmt.Errorf("startToClose %v must not be negative", c.Tool.StartToClose)
	case c.Tool.Heartbeat < 0:
		return fmt.Errorf("heartbeat %v must not be negative", c.Tool.Heartbeat)
	case c.Tool.Args != config.ArgsOne && c.Tool.Args != config.ArgsSpread:
		return fmt.Errorf("args %q must be %q or %q", c.Tool.Args, config.ArgsOne, config.ArgsSpread)
	}
	return nil
}

// Executor runs the jobs of one tool; see [tool.Executor]. It keeps nothing in memory.
type Executor struct{ cfg Config }

var (
	_ tool.Executor = (*Executor)(nil)
	_ tool.Promiser = (*Executor)(nil)
	_ tool.Lister   = (*Executor)(nil)
)

// New makes an executor. It asks nothing of the server: whether that has standalone activities
// is seen at the first Submit.
func New(c Config) (*Executor, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s %q: %w", c.Kind, c.Name, err)
	}
	return &Executor{c}, nil
}

// Promises is what holds for any activity; see [tool.Promiser].
func (e *Executor) Promises() tool.Promises {
	return tool.Promises{
		SubmitOnce: tool.ScopeAlways, Find: tool.FindSure, Cancel: tool.CancelAsked, Observe: true, List: true, Survives: !e.cfg.Dies,
		Remembers: outside.Remembers,
	}
}
