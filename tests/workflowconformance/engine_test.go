package workflowconformance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// engine lets the client talk to real workflows: each runs in a test environment
// of its own, whose clock stands still while the client thinks. What a server
// does beside running workflows is done here: ids that are taken, answers that
// are kept for update ids, closed workflows.
type engine struct {
	// The methods of a client that no conversation needs are not there.
	starter.Engine
	t *testing.T
	// nowMs is the clock of the operation that goes on.
	nowMs int64

	mu sync.Mutex
	// told is what runs were told since the last drain.
	told  []protocol.TaskFinished
	flows map[string]*flow
}

func newEngine(t *testing.T) *engine {
	return &engine{t: t, flows: map[string]*flow{}}
}

// flow is one workflow.
type flow struct {
	id   string
	memo map[string]any
	env  *testsuite.TestWorkflowEnvironment
	// steps are handed to the main loop of the environment, one at a time. The
	// loop waits for the next one, and so the clock does.
	steps chan func()
	// over is closed when nobody wants anything any more: an open task then
	// lives until its deadline.
	over chan struct{}
	// closed is closed when the workflow is.
	closed chan struct{}
	// settled answers the step before, once the workflow has done with it.
	settled func()
	// answers are kept by update id.
	answers map[string]converter.EncodedValue
	sent    int
}

func (e *engine) start(id, name string, memo map[string]any, in any) *flow {
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	f := &flow{
		id: id, memo: memo, env: s.NewTestWorkflowEnvironment(), steps: make(chan func()), over: make(chan struct{}), closed: make(chan struct{}),
		answers: map[string]converter.EncodedValue{},
	}
	f.env.SetStartTime(time.UnixMilli(e.nowMs))
	f.env.SetTestTimeout(time.Minute)
	f.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
	f.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: protocol.DefaultTaskQueue})
	f.env.RegisterWorkflowWithOptions(workflows.AsyncTask, workflow.RegisterOptions{Name: protocol.WorkflowAsyncTask})
	f.env.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: protocol.WorkflowDelivery})
	f.env.RegisterActivityWithOptions(e.notifyRun, activity.RegisterOptions{Name: protocol.ActivityNotifyRun})
	// The first step comes behind the start of the workflow itself.
	f.env.RegisterDelayedCallback(func() { f.env.RegisterDelayedCallback(f.step, 0) }, 0)
	e.flows[id] = f
	go func() {
		defer close(f.closed)
		f.env.ExecuteWorkflow(name, in)
	}()
	return f
}

func (e *engine) notifyRun(_ context.Context, r protocol.NotifyRequest) (protocol.NotifyResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, r.Finished)
	return protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, nil
}

// drain gives what was told since the last time, in the order of the outbox.
func (e *engine) drain() []protocol.TaskFinished {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.told
	e.told = nil
	slices.SortStableFunc(out, func(a, b protocol.TaskFinished) int {
		if a.Task.ID != b.Task.ID {
			return map[bool]int{true: -1, false: 1}[a.Task.ID < b.Task.ID]
		}
		return int(a.AtMs - b.AtMs)
	})
	return out
}

// finish lets every workflow come to its end.
func (e *engine) finish() {
	for _, f := range e.flows {
		close(f.over)
	}
	for _, f := range e.flows {
		<-f.closed
	}
}

// step runs in the main loop of the environment whenever the workflow has nothing
// left to do at this moment. A task that has ended is closing, and has no use for
// another step.
func (f *flow) step() {
	d, err := f.describe()
	switch {
	case err != nil:
		// The workflow function itself is entered by a later callback.
		f.env.RegisterDelayedCallback(f.step, 0)
		return
	case d.Task.State.Terminal():
		return
	}
	if f.settled != nil {
		f.settled()
		f.settled = nil
	}
	select {
	case do := <-f.steps:
		do()
		f.env.RegisterDelayedCallback(f.step, 0)
	case <-f.over:
	}
}

func (f *flow) describe() (protocol.Description, error) {
	var d protocol.Description
	v, err := f.env.QueryWorkflow(protocol.QueryDescribe)
	if err == nil {
		err = v.Get(&d)
	}
	return d, err
}

// do lets something happen to the open workflow and waits until the workflow has
// done with it. False means that the workflow had closed before.
func (f *flow) do(what func()) bool {
	done := make(chan struct{})
	select {
	case f.steps <- func() {
		what()
		f.settled = func() { close(done) }
	}:
	case <-f.closed:
		return false
	}
	select {
	case <-done:
	case <-f.closed:
	}
	return true
}

func (f *flow) isClosed() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

func (f *flow) status() enums.WorkflowExecutionStatus {
	switch err := f.env.GetWorkflowError(); {
	case !f.isClosed():
		return enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	case err == nil:
		return enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	case temporal.IsCanceledError(err):
		return enums.WORKFLOW_EXECUTION_STATUS_CANCELED
	default:
		return enums.WORKFLOW_EXECUTION_STATUS_FAILED
	}
}

var errNotFound = serviceerror.NewNotFound("workflow not found for ID")

func (e *engine) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, name any, args ...any) (client.WorkflowRun, error) {
	if _, taken := e.flows[o.ID]; taken {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "run")
	}
	f := e.start(o.ID, fmt.Sprint(name), o.Memo, args[0])
	<-f.closed
	return run{f: f}, nil
}

type run struct {
	client.WorkflowRun
	f *flow
}

func (r run) Get(_ context.Context, into any) error {
	if r.f == nil {
		return errNotFound
	}
	<-r.f.closed
	if err := r.f.env.GetWorkflowError(); err != nil {
		return err
	}
	return r.f.env.GetWorkflowResult(into)
}

func (e *engine) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	return run{f: e.flows[id]}
}

func (e *engine) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	f, ok := e.flows[id]
	if !ok {
		return nil, errNotFound
	}
	d := &client.WorkflowExecutionDescription{}
	d.WorkflowExecution.ID, d.WorkflowExecution.RunID, d.Status = id, "run", f.status()
	d.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	for k, v := range f.memo {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		if err != nil {
			return nil, err
		}
		d.Memo.Fields[k] = p
	}
	return d, nil
}

func (e *engine) QueryWorkflowWithOptions(_ context.Context, r *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	f, ok := e.flows[r.WorkflowID]
	if !ok {
		return nil, errNotFound
	}
	out := &client.QueryWorkflowWithOptionsResponse{}
	var err error
	if !f.do(func() { out.QueryResult, err = f.env.QueryWorkflow(r.QueryType, r.Args...) }) {
		out.QueryRejected = &querypb.QueryRejected{Status: f.status()}
	}
	return out, err
}

type updateHandle struct {
	client.WorkflowUpdateHandle
	v converter.EncodedValue
}

func (h updateHandle) Get(_ context.Context, into any) error { return h.v.Get(into) }

// UpdateWorkflow keeps the answers to what was let in, also beyond the end, and
// forgets what was refused.
func (e *engine) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	f, ok := e.flows[o.WorkflowID]
	if !ok {
		return nil, errNotFound
	}
	if v, ok := f.answers[o.UpdateID]; ok {
		return updateHandle{v: v}, nil
	}
	refused := errors.New("the workflow gave no answer")
	open := f.do(func() {
		// The environment keeps the ids of refused updates too.
		f.sent++
		f.env.UpdateWorkflow(o.UpdateName, fmt.Sprintf("%s (%d)", o.UpdateID, f.sent), &testsuite.TestUpdateCallback{
			OnAccept: func() {},
			OnReject: func(err error) { refused = crossed(err) },
			OnComplete: func(v any, err error) {
				if refused = crossed(err); err == nil {
					p, err := converter.GetDefaultDataConverter().ToPayloads(v)
					if err != nil {
						e.t.Error(err)
					}
					f.answers[o.UpdateID] = client.NewValue(p)
				}
			},
		}, o.Args...)
	})
	switch {
	case !open:
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	case refused != nil:
		return nil, refused
	}
	return updateHandle{v: f.answers[o.UpdateID]}, nil
}

// SignalWorkflow leaves a signal with an open workflow.
func (e *engine) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	f, ok := e.flows[id]
	if !ok || !f.do(func() { f.env.SignalWorkflow(name, arg) }) {
		return errNotFound
	}
	return nil
}

// crossed is an error as it arrives over the server.
func crossed(err error) error {
	if err == nil {
		return nil
	}
	c := temporal.GetDefaultFailureConverter()
	return c.FailureToError(c.ErrorToFailure(err))
}

// createTask starts a task as the conversations have it: strict, with times that
// are taken as they are said, worked on by the world.
func (e *engine) createTask(tenant string, c domain.Create) error {
	c.Tenant, c.Tool, c.RunID = tenant, "conversation", "reader"
	c.Policy = domain.Policy{Strict: true, TrustTimes: true, External: true}
	f := e.start(protocol.TaskWorkflowID(tenant, c.ID), protocol.WorkflowAsyncTask, nil, protocol.TaskInput{
		Create: c, Tool: protocol.ToolBinding{Executor: "external"},
	})
	if f.do(func() {}) {
		return nil
	}
	return f.env.GetWorkflowError()
}
