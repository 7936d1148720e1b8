package gofunc

import (
	"fmt"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// Kind is the executor kind in the handles of this package.
const Kind = config.ExecutorGo

// DefaultHeartbeat is how long the worker of a job may be silent before it is lost.
const DefaultHeartbeat = 30 * time.Second

// Type is the activity type of a function.
func Type(name string) string { return "wakepoint.go/" + name }

// Config declares one tool. The zero value of a field is its default.
type Config struct {
	// Client is connected to the namespace of our workers. Required.
	Client activity.Client

	// Name is the function's. Required.
	Name string

	// TaskQueue is where workers have the function, registered by [Activity]. Required.
	TaskQueue string

	// Heartbeat is how long the worker of a job may be silent before it is lost.
	// Default: DefaultHeartbeat.
	Heartbeat time.Duration

	// Store takes results that are too large to be handed over, or no JSON. Required.
	Store *store.Store
}

// Executor runs the jobs of one function; see [tool.Executor].
type Executor struct{ *activity.Executor }

var (
	_ tool.Executor = Executor{}
	_ tool.Promiser = Executor{}
	_ tool.Lister   = Executor{}
)

// New makes the executor of a function. That a worker has the function is not known here.
func New(c Config) (Executor, error) {
	if strings.TrimSpace(c.Name) == "" {
		return Executor{}, fmt.Errorf("%s: name must not be blank", Kind)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	e, err := activity.New(activity.Config{
		Name: c.Name, Client: c.Client, Kind: Kind, Store: c.Store, Arguments: arguments, Dies: true,
		Tool: config.ActivityTool{Type: Type(c.Name), TaskQueue: c.TaskQueue, Heartbeat: c.Heartbeat},
	})
	return Executor{e}, err
}

func arguments(req tool.Request) ([]any, error) {
	return []any{Call{
		Tenant: req.Tenant, TaskID: req.TaskID, Attempt: req.Attempt, SubmissionKey: req.SubmissionKey, Tool: req.Tool, Input: req.Input,
	}}, nil
}
