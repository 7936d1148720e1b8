// Package workflow uses workflows that exist on somebody's Temporal worker as tools, by their type
// and task queue. The id of a job's workflow is made of the submission key and is its lock. See
// docs/temporal-tools.md.
package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// Kind is the executor kind in the handles of this package.
const Kind = config.ExecutorWorkflow

// Client is what is needed of a Temporal client; [client.Client] is one.
type Client interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	QueryWorkflow(ctx context.Context, workflowID, runID, queryType string, args ...any) (converter.EncodedValue, error)
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Config declares one tool.
type Config struct {
	// Name is the declared name of the tool. Required.
	Name string

	// Client is connected to the namespace of the workflow's workers. Required.
	Client Client

	// Tool is the workflow. Type and TaskQueue are required.
	Tool config.WorkflowTool

	// Store takes results that are too large to be handed over, or no JSON. Required.
	Store *store.Store
}

func (c Config) withDefaults() Config {
	if c.Tool.Args == "" {
		c.Tool.Args = config.ArgsOne
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

// New makes an executor. It asks nothing of the server.
func New(c Config) (*Executor, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s %q: %w", Kind, c.Name, err)
	}
	return &Executor{c}, nil
}

// Promises is what holds for any workflow; see [tool.Promiser].
func (e *Executor) Promises() tool.Promises {
	return tool.Promises{
		SubmitOnce: tool.ScopeAlways, Find: tool.FindSure, Cancel: tool.CancelAsked, Observe: true, List: true, Survives: true,
		Remembers: outside.Remembers,
	}
}
