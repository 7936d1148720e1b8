// Package startertest has an engine for tests of whatever uses the client: it
// keeps workflows in memory and plays AsyncTask, AgentRun and Delivery by the rules of
// domain, so that a test talks to real tasks without a server. Workers and the
// engine itself can be taken away, and answers lost on their way.
//
// It plays what a client can see. Histories, timers that fire by themselves and
// executors belong to tests on the real engine; here time passes when somebody
// looks, and what an executor would do the test does itself.
package startertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Engine is an engine in memory. The zero value is not ready: use [New]. It is
// safe for concurrent use.
type Engine struct {
	// Now is the clock in milliseconds. Set it before use. Default: the system's.
	Now func() int64

	mu    sync.Mutex
	flows map[string][]*flow
	// changed is closed and replaced at every change.
	changed chan struct{}
	// away and down take the workers and the engine away.
	away, down bool
	// lost is how many answers to starts and updates get lost.
	lost  int
	calls map[string]int
	// held is closed to let queries go on that Hold keeps back, heldLists lists.
	held, heldLists chan struct{}
	logs            map[string][]byte
	runs            int
	// outside is what the outside says of a task, by workflow id.
	outside map[string]Outside
	// failing is why the submissions of a task fail, by workflow id: the engine repeats
	// them, and the workflow does not know.
	failing map[string]*failurepb.Failure
	// jobs are those of each tool, by tool and task queue.
	jobs map[string][]protocol.ListedJob
	// stopped are the jobs that were asked to stop.
	stopped []protocol.Job
}

// Outside is what the outside says when a task asks it.
type Outside struct {
	// Says is one of the protocol's Outside constants.
	Says string
	Note string
	// Event is what follows from it, if anything.
	Event *domain.Event
}

// New makes an engine with a worker.
func New() *Engine {
	return &Engine{
		Now:   func() int64 { return time.Now().UnixMilli() },
		flows: make(map[string][]*flow), changed: make(chan struct{}), calls: make(map[string]int), logs: make(map[string][]byte),
		outside: make(map[string]Outside), jobs: make(map[string][]protocol.ListedJob),
	}
}

// Workers takes the workers away, or brings them back: then everything that
// waited for them happens.
func (e *Engine) Workers(there bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = !there
	if there {
		for _, runs := range e.flows {
			e.settle(runs[len(runs)-1])
		}
	}
	e.notify()
}

// Down takes the engine itself away, or brings it back.
func (e *Engine) Down(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
	e.notify()
}

// LoseAnswers lets the next n starts and updates happen and their answers get lost.
func (e *Engine) LoseAnswers(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = n
}

// Hold keeps queries back, which have been counted by then, until the function
// that it gives is called.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(chan struct{})
	e.held = held
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held = nil
		close(held)
	}
}

// HoldLists keeps lists of workflows back until the function that it gives is
// called, or until their callers give up.
func (e *Engine) HoldLists() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(chan struct{})
	e.heldLists = held
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heldLists = nil
		close(held)
	}
}

// Calls is how often a call was made, by its name in the SDK: "UpdateWorkflow".
func (e *Engine) Calls(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[name]
}

// Terminate is the button of the Temporal UI.
func (e *Engine) Terminate(workflowID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.last(workflowID); f != nil && f.open() {
		f.end(enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil, e.Now())
		e.notify()
	}
}

// Forget is the end of the retention of a workflow.
func (e *Engine) Forget(workflowID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.flows, workflowID)
	e.notify()
}

// Runs is how many runs a workflow id has had.
func (e *Engine) Runs(workflowID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.flows[workflowID])
}

// Started gives the options and the input of the newest run of a task.
func (e *Engine) Started(workflowID string) (client.StartWorkflowOptions, protocol.TaskInput) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.last(workflowID)
	if f == nil {
		return client.StartWorkflowOptions{}, protocol.TaskInput{}
	}
	return f.options, f.in
}

// Apply lets an event happen to an open task as its executor would.
func (e *Engine) Apply(workflowID string, ev domain.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.last(workflowID)
	if f == nil || !f.open() || f.typ != protocol.WorkflowAsyncTask {
		return fmt.Errorf("no open task %s", workflowID)
	}
	if ev.AtMs == 0 {
		ev.AtMs = e.Now()
	}
	tr, err := domain.Apply(f.task, ev)
	if err != nil {
		return err
	}
	f.task = tr.Task
	e.settle(f)
	e.notify()
	return nil
}

// SetHandle gives an open task its outside job.
func (e *Engine) SetHandle(workflowID string, h *protocol.Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last(workflowID).handle = h
}

// SetOutside says what the outside will say when the task is reconciled.
func (e *Engine) SetOutside(workflowID string, word Outside) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outside[workflowID] = word
}

// SetJobs says which jobs of a tool the worker of a task queue lists. Nil is an
// executor that cannot list, an empty list one that has none.
func (e *Engine) SetJobs(tool, queue string, jobs []protocol.ListedJob) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs[tool+"@"+queue] = jobs
}

// Stopped gives the jobs that were asked to stop by activities of their own.
func (e *Engine) Stopped() []protocol.Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.stopped)
}

// OpenRun makes a workflow that takes news of tasks, as the run of an agent does.
func (e *Engine) OpenRun(workflowID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs++
	e.flows[workflowID] = append(e.flows[workflowID], &flow{
		id: workflowID, runID: fmt.Sprintf("run-%d", e.runs), typ: typeRun, begun: true, startedAtMs: e.Now(),
		status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING, updates: make(map[string]answer),
	})
}

// typeRun is the type of the workflows of [Engine.OpenRun].
const typeRun = "AgentRun"

// Finished gives the news of tasks that a run has taken.
func (e *Engine) Finished(workflowID string) []protocol.TaskFinished {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.last(workflowID); f != nil {
		return slices.Clone(f.finished)
	}
	return nil
}

// SetLog says what a job has written to a stream so far.
func (e *Engine) SetLog(handleID, stream string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logs[handleID+"/"+stream] = data
}

// DeadLetter gives an open delivery up.
func (e *Engine) DeadLetter(key, tenant, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.last(protocol.DeliveryWorkflowID(tenant, key))
	f.record.State, f.record.LastError = protocol.DeliveryDeadLetter, reason
	f.end(enums.WORKFLOW_EXECUTION_STATUS_FAILED, crossed(temporal.NewNonRetryableApplicationError(reason, protocol.ErrTypeDeadLetter, nil, f.record)), e.Now())
	e.notify()
}

// flow is one run of a workflow.
type flow struct {
	id, runID, typ string
	options        client.StartWorkflowOptions
	input          *commonpb.Payloads
	startedAtMs    int64
	closedAtMs     int64
	status         enums.WorkflowExecutionStatus
	// result or failure is how it closed.
	result  *commonpb.Payloads
	failure error
	updates map[string]answer
	// signals wait for a worker.
	signals []domain.Callback
	// cancelled is the cancel request of the engine itself.
	cancelled bool

	in      protocol.TaskInput
	begun   bool
	task    domain.Task
	ledger  *domain.Ledger
	handle  *protocol.Handle
	targets []string

	delivery protocol.DeliveryInput
	record   protocol.DeliveryRecord

	// finished is what a run was told.
	finished []protocol.TaskFinished
	// agent is set for a run of an agent that was started by a client.
	agent *agentRun
}

type answer struct {
	value *commonpb.Payloads
	err   error
}

func (f *flow) open() bool { return f.status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING }

func (f *flow) end(status enums.WorkflowExecutionStatus, failure error, nowMs int64) {
	f.status, f.failure, f.closedAtMs = status, failure, nowMs
}

func (e *Engine) last(id string) *flow {
	runs := e.flows[id]
	if len(runs) == 0 {
		return nil
	}
	return runs[len(runs)-1]
}

func (e *Engine) run(id, runID string) *flow {
	if runID == "" {
		return e.last(id)
	}
	for _, f := range e.flows[id] {
		if f.runID == runID {
			return f
		}
	}
	return nil
}

func (e *Engine) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// call counts a call and refuses it while the engine is down. The SDK repeats
// what is unavailable until the context ends; that is played here as well.
func (e *Engine) call(ctx context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[name]++
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e.down {
		return serviceerror.NewUnavailable("connection refused")
	}
	return nil
}

// await waits until ready, which is called with the lock held, says so.
func (e *Engine) await(ctx context.Context, ready func() bool) error {
	for {
		e.mu.Lock()
		ok, changed := ready(), e.changed
		e.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// payloads encodes like the SDK does.
func payloads(v ...any) *commonpb.Payloads {
	p, err := converter.GetDefaultDataConverter().ToPayloads(v...)
	if err != nil {
		panic(fmt.Sprintf("startertest: %v", err))
	}
	return p
}

// crossed is an error after it has crossed the server.
func crossed(err error) error {
	c := temporal.GetDefaultFailureConverter()
	return c.FailureToError(c.ErrorToFailure(err))
}

func asApplicationError(err error) error {
	var invalid *domain.InvalidError
	var refused *domain.RefusedError
	switch {
	case errors.As(err, &invalid):
		return crossed(temporal.NewNonRetryableApplicationError(err.Error(), protocol.ErrTypeInvalid, nil,
			protocol.Problem{Code: domain.CodeInvalid, Field: invalid.Field, Rule: invalid.Rule}))
	case errors.As(err, &refused):
		return crossed(temporal.NewNonRetryableApplicationError(err.Error(), protocol.ErrTypeRefused, nil, refused.Outcome))
	}
	return err
}
