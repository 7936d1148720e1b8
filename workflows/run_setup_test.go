package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// runWorld is what the activities of a run's test do: fields that are nil do what is
// usual. Calls get a task each.
type runWorld struct {
	// mu lets one activity at a time do something.
	mu      sync.Mutex
	begin   func(protocol.CallStart) (protocol.CallBegun, error)
	watch   func(protocol.WatchCallsRequest) (protocol.CallsFound, error)
	inspect func(protocol.WatchCallsRequest) (protocol.CallsFound, error)
	push    func(protocol.PushStepRequest) (protocol.PushStepResult, error)
	step    func(run.StepRequest) (run.StepResponse, error)
	told    func(protocol.CancelTask)
	// starting sees each try to start calls, and whether it is a local activity.
	starting func(local bool) error
	begun    []protocol.CallStart
	// batches are the sizes of the requests to start calls, in bytes.
	batches  []int
	cancels  []protocol.CancelTask
	watches  []protocol.WatchCallsRequest
	inspects []protocol.WatchCallsRequest
	steps    []run.StepRequest
	parents  []protocol.NotifyParentRequest
	stored   []protocol.StoreContentRequest
}

// taskOf is the task of a call.
func taskOf(step int, id string) string { return protocol.CallTaskID("r1", step, id) }

// runEnv is a test environment with the run's workflow and a world.
type runEnv struct {
	*testsuite.TestWorkflowEnvironment
	t testing.TB
	w *runWorld
	// asked counts updates, so that each has an id of its own.
	asked int
}

func newRunEnv(t testing.TB, w *runWorld) *runEnv {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := &runEnv{TestWorkflowEnvironment: s.NewTestWorkflowEnvironment(), t: t, w: w}
	e.SetStartTime(start)
	e.SetTestTimeout(time.Minute)
	e.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
	e.RegisterWorkflowWithOptions(workflows.AgentRun, workflow.RegisterOptions{Name: protocol.WorkflowAgentRun})
	for name, f := range w.activities() {
		e.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	return e
}

func (w *runWorld) activities() map[string]any {
	return map[string]any{
		protocol.ActivityStartCalls: func(ctx context.Context, r protocol.StartCallsRequest) (protocol.StartCallsResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var out protocol.StartCallsResult
			if b, err := json.Marshal(r); err == nil {
				w.batches = append(w.batches, len(b))
			}
			if w.starting != nil {
				if err := w.starting(activity.GetInfo(ctx).IsLocalActivity); err != nil {
					return out, err
				}
			}
			for _, c := range r.Calls {
				w.begun = append(w.begun, c)
				b := protocol.CallBegun{Started: &run.Started{TaskID: protocol.CallTaskID(r.RunID, c.Step, c.ID)}}
				if w.begin != nil {
					var err error
					if b, err = w.begin(c); err != nil {
						return out, err
					}
				}
				b.Key = c.Key
				out.Calls = append(out.Calls, b)
			}
			return out, nil
		},
		protocol.ActivityCancelCalls: func(_ context.Context, r protocol.CancelCallsRequest) (protocol.CallsTold, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cancels = append(w.cancels, r.Calls...)
			for _, c := range r.Calls {
				if w.told != nil {
					w.told(c)
				}
			}
			return protocol.CallsTold{}, nil
		},
		protocol.ActivityWatchCalls: func(_ context.Context, r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watches = append(w.watches, r)
			if w.watch == nil {
				return protocol.CallsFound{}, errGoesOn
			}
			return w.watch(r)
		},
		protocol.ActivityInspectCalls: func(_ context.Context, r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.inspects = append(w.inspects, r)
			if w.inspect == nil {
				return protocol.CallsFound{}, nil
			}
			return w.inspect(r)
		},
		protocol.ActivityPrepareStep: func(_ context.Context, r protocol.PrepareStepRequest) ([]byte, error) {
			if r.Checkpoint != nil {
				r.Request.Checkpoint = r.Checkpoint.Data
			}
			return run.EncodeRequest(r.Request)
		},
		protocol.ActivityPushStep: func(_ context.Context, r protocol.PushStepRequest) (protocol.PushStepResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.push(r)
		},
		protocol.ActivityAgentStep: func(_ context.Context, r run.StepRequest) (run.StepResponse, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.steps = append(w.steps, r)
			return w.step(r)
		},
		protocol.ActivityStoreContent: func(_ context.Context, r protocol.StoreContentRequest) (run.Content, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stored = append(w.stored, r)
			return run.Content{Ref: "blob:acme/run/r1/" + r.Content.Hash, Hash: r.Content.Hash, Bytes: r.Content.Bytes}, nil
		},
		protocol.ActivityNotifyParent: func(_ context.Context, r protocol.NotifyParentRequest) (protocol.NotifyResult, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.parents = append(w.parents, r)
			return protocol.NotifyResult{Receipt: protocol.ReceiptSignaled}, nil
		},
	}
}

// pulls is a run whose runtime pulls, with a day to live.
func pulls(opts ...func(*protocol.RunInput)) protocol.RunInput {
	in := protocol.RunInput{
		Create:  run.Create{ID: "r1", Tenant: "acme", Title: "plan a trip", TTLMs: (24 * time.Hour).Milliseconds(), Input: inputOf("start", `"go"`)},
		Runtime: protocol.RuntimeBinding{Mode: protocol.ModePull, Name: "agent"},
	}
	for _, o := range opts {
		o(&in)
	}
	return in
}

func inputOf(id, content string) *run.Input {
	return &run.Input{InputID: id, Content: json.RawMessage(content), Source: "ann"}
}

func (e *runEnv) at(d time.Duration, f func()) { e.RegisterDelayedCallback(f, d) }

// runReply is what an update came to.
type runReply struct {
	out     run.Outcome
	claimed protocol.Claimed
	found   protocol.Recovered
	err     error
}

// refusal is the outcome in the details of a refused update.
func (r *runReply) refusal(t testing.TB) run.Outcome {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, r.err, &app)
	require.Equal(t, protocol.ErrTypeRunRefused, app.Type(), app.Error())
	var out run.Outcome
	require.NoError(t, app.Details(&out))
	return out
}

// problem is the detail of an update that was invalid.
func (r *runReply) problem(t testing.TB) protocol.Problem {
	t.Helper()
	return (&reply{err: r.err}).problem(t)
}

// update sends an update under an id of its own; then, if given, sees what it came to.
func (e *runEnv) update(name string, arg any, then ...func(*runReply)) *runReply {
	e.asked++
	return e.updateAs(fmt.Sprintf("u%d", e.asked), name, arg, then...)
}

func (e *runEnv) updateAs(id, name string, arg any, then ...func(*runReply)) *runReply {
	r := &runReply{}
	done := func() {
		for _, f := range then {
			f(r)
		}
	}
	e.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
		OnReject: func(err error) { r.err = err; done() },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			if r.err = err; err == nil {
				switch v := v.(type) {
				case run.Outcome:
					r.out = v
				case protocol.Claimed:
					r.claimed = v
				case protocol.Recovered:
					r.found = v
				}
			}
			done()
		},
	}, arg)
	return r
}

// commitOf is a commit as a client sends it.
func commitOf(step int, token string, resp run.StepResponse) protocol.Commit {
	c := protocol.Commit{Step: step, StepToken: token}
	if len(resp.Checkpoint) > 0 {
		c.Checkpoint = run.Inline(resp.Checkpoint, "application/json")
	}
	if len(resp.Final) > 0 {
		c.Final = run.Inline(resp.Final, "application/json")
	}
	resp.Checkpoint, resp.Final = nil, nil
	c.Response = resp
	return c
}

// take claims the step that is due and commits what f answers.
func (e *runEnv) take(f func(run.StepRequest) run.StepResponse) {
	e.update(protocol.UpdateClaim, protocol.Claim{Holder: "w1"}, func(r *runReply) {
		require.NoError(e.t, r.err)
		req := r.claimed.Request
		e.w.steps = append(e.w.steps, req)
		e.update(protocol.UpdateCommit, commitOf(req.Step, req.StepToken, f(req)), func(r *runReply) { require.NoError(e.t, r.err) })
	})
}

// finish tells the run that a task has ended.
func (e *runEnv) finish(taskID string, opts ...func(*domain.Task)) {
	t := domain.Task{ID: taskID, Tenant: "acme", RunID: "r1", State: domain.StateSucceeded, ResultRef: "blob:acme/task/" + taskID + "/h", ResultHash: "h", Version: 3, History: []domain.Entry{}}
	for _, o := range opts {
		o(&t)
	}
	e.SignalWorkflow(protocol.SignalTaskFinished, protocol.TaskFinished{Task: t})
}

func failedWith(code string) func(*domain.Task) {
	return func(t *domain.Task) {
		t.State, t.ResultRef, t.ResultHash = domain.StateFailed, "", ""
		t.Error = &domain.TaskError{Code: code, Message: "no"}
	}
}

func (e *runEnv) run(in protocol.RunInput) {
	e.t.Helper()
	e.ExecuteWorkflow(protocol.WorkflowAgentRun, in)
	require.True(e.t, e.IsWorkflowCompleted(), "the workflow must have ended")
}

// record is the final record of the run, however it was closed.
func (e *runEnv) record() run.Run {
	e.t.Helper()
	var rec protocol.RunRecord
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch err := e.GetWorkflowError(); {
	case err == nil:
		require.NoError(e.t, e.GetWorkflowResult(&rec))
	case errors.As(err, &app):
		require.NoError(e.t, app.Details(&rec), err.Error())
	case errors.As(err, &canceled):
		require.NoError(e.t, canceled.Details(&rec))
	default:
		require.NoError(e.t, err)
	}
	return rec.Run
}

// carried is the input with which the workflow continued as new.
func (e *runEnv) carried() protocol.RunInput {
	e.t.Helper()
	var can *workflow.ContinueAsNewError
	require.ErrorAs(e.t, e.GetWorkflowError(), &can)
	var in protocol.RunInput
	require.NoError(e.t, converter.GetDefaultDataConverter().FromPayloads(can.Input, &in))
	require.NotNil(e.t, in.Carry)
	return in
}

func (e *runEnv) describe() protocol.RunDescription {
	e.t.Helper()
	v, err := e.QueryWorkflow(protocol.QueryDescribe)
	require.NoError(e.t, err)
	var d protocol.RunDescription
	require.NoError(e.t, v.Get(&d))
	return d
}

func toolCall(id string, opts ...func(*run.ToolCall)) run.ToolCall {
	c := run.ToolCall{ToolCallID: id, Tool: "build", Input: json.RawMessage(`{"n":1}`)}
	for _, o := range opts {
		o(&c)
	}
	return c
}

func needs(ids ...string) func(*run.ToolCall) {
	return func(c *run.ToolCall) { c.DependsOn = ids }
}

func asks(calls ...run.ToolCall) run.StepResponse {
	return run.StepResponse{Checkpoint: json.RawMessage(`{"n": 1 }`), ToolCalls: calls}
}

func final(text string) run.StepResponse { return run.StepResponse{Final: json.RawMessage(text)} }

// states gives the states of results by id, in their order.
func states(req run.StepRequest) []string {
	var out []string
	for _, r := range req.Results {
		out = append(out, r.ToolCallID+" "+string(r.State))
	}
	return slices.Clip(out)
}

// failure is an error of a step.
func failure(code string, retryable bool) *domain.TaskError {
	return &domain.TaskError{Code: code, Message: "no", Retryable: retryable}
}
