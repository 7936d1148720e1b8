package replay

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"

	historypb "go.temporal.io/api/history/v1"
)

// runLife is something that happens to one run.
type runLife struct {
	name string
	live func(b runBed)
	want run.State
	// continued says that it continues as new.
	continued bool
	// below names the run that does the work of its call.
	below func(b runBed) string
}

// runLives lists what is recorded of runs, each in a file of its own like those of
// tasks.
func runLives() []runLife {
	return []runLife{
		{name: "run-pull", want: run.StateSucceeded, live: liveRunPull},
		{name: "run-people", want: run.StateSucceeded, live: liveRunPeople},
		{name: "run-plan", want: run.StateSucceeded, live: liveRunPlan},
		{name: "run-activity", want: run.StateSucceeded, live: liveRunActivity},
		{name: "run-push", want: run.StateSucceeded, live: liveRunPush},
		{name: "run-lost-step", want: run.StateSucceeded, live: liveRunLostStep},
		{name: "run-impatient", want: run.StateSucceeded, live: liveRunImpatient},
		{name: "run-terminated-task", want: run.StateSucceeded, live: liveRunTerminatedTask},
		{name: "run-of-a-run", want: run.StateSucceeded, live: liveRunOfARun, below: runBelow},
		{name: "run-failed-and-retried", want: run.StateSucceeded, live: liveRunRetried},
		{name: "run-limit", want: run.StateFailed, live: liveRunLimit},
		{name: "run-expired", want: run.StateExpired, live: liveRunExpired},
		{name: "run-cancelled", want: run.StateCancelled, live: liveRunCancelled},
		{name: "run-cancelled-in-the-ui", want: run.StateCancelled, live: liveRunCancelledInTheUI},
		{name: "run-continued", want: run.StateSucceeded, live: liveRunContinued, continued: true},
	}
}

const runTools = `
tools:
  review: {executor: external, ttl: 1h}
  deploy: {executor: external, ttl: 1h, approval: required}
runs: {checkEvery: 1h}
runtimes:
  puller: {pull: {}, checkEvery: 1h, lease: 1m}
  watcher: {pull: {}, checkEvery: 1s}
  hasty: {pull: {}, lease: 1s, checkEvery: 1h}
  worker: {activity: {taskQueue: QUEUE, heartbeats: true}, checkEvery: 1h, backoff: {initial: 1ms, max: 1ms}}
  server: {push: {url: "URL"}, checkEvery: 1h}
`

// runBed is one run of a life, and what it needs.
type runBed struct {
	harness.Bed
	id    string
	queue string
	// agent takes the steps of runtimes that do not pull.
	agent *agentOf
}

// agentOf is an agent whose steps a life sets.
type agentOf struct {
	steps func(run.StepRequest) (run.StepResponse, error)
}

func (a *agentOf) step(_ context.Context, req run.StepRequest) (run.StepResponse, error) {
	return a.steps(req)
}

// TestRecordRuns lives every life of a run on the real engine, with the workflow cache
// off, and replays what came of it; see TestRecord.
func TestRecordRuns(t *testing.T) {
	t.Parallel()
	for _, l := range runLives() {
		recorded, err := filepath.Glob(filepath.Join(testdata, l.name+"-[0-9]*.json"))
		require.NoError(t, err)
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			a := &agentOf{}
			url := httptest.NewServer(agent.Handler(a.step, agent.HandlerOptions{}))
			t.Cleanup(url.Close)
			queue := "agents-" + l.name
			b := runBed{Bed: harness.NewBed(ctx, t, engine, fill(runTools, "QUEUE", queue, "URL", url.URL), harness.NewScript()), id: "r-" + l.name, queue: queue, agent: a}
			b.StartWorker()
			l.live(b)
			d, err := b.Client.WaitRun(ctx, b.id, 0)
			require.NoError(t, err)
			require.Equal(t, l.want, d.Run.State, "%+v", d.Run.Error)
			runs, err := harness.Runs(ctx, b.Temporal, protocol.RunWorkflowID(b.Config.Tenant, b.id))
			require.NoError(t, err)
			require.Equal(t, l.continued, len(runs) > 2, "%d executions", len(runs))
			if l.below != nil {
				more, err := harness.Runs(ctx, b.Temporal, protocol.RunWorkflowID(b.Config.Tenant, l.below(b)))
				require.NoError(t, err)
				runs = append(runs, more...)
			}
			for i, events := range runs {
				h := &historypb.History{Events: events}
				require.False(t, sticky(h), "the cache is off, so no workflow task may rely on it")
				require.NoError(t, replay(h))
				if *record && len(recorded) == 0 {
					write(t, l.name+"-"+itoa(i+1)+".json", h)
				}
			}
		})
	}
}

func (b runBed) start(s starter.RunStart) {
	b.T.Helper()
	s.RunID = b.id
	_, err := b.Client.StartRun(b.Ctx, s)
	require.NoError(b.T, err)
}

func (b runBed) next(id string) run.StepRequest {
	b.T.Helper()
	req, err := b.Client.Next(b.Ctx, id, starter.NextOptions{Holder: "h", Wait: patience})
	require.NoError(b.T, err)
	return req
}

func (b runBed) commit(id string, resp run.StepResponse) run.StepRequest {
	b.T.Helper()
	req := b.next(id)
	_, err := b.Client.Commit(b.Ctx, id, req.Step, req.StepToken, resp)
	require.NoError(b.T, err)
	return req
}

// open waits for the task of a call, and gives its id.
func (b runBed) open(step int, id string) string {
	b.T.Helper()
	b.until(b.id, func(r run.Run) bool {
		c, ok := r.Find(run.Key{Step: step, ID: id})
		return ok && c.State == run.CallOpen
	})
	return protocol.CallTaskID(b.id, step, id)
}

func (b runBed) until(id string, holds func(run.Run) bool) {
	b.T.Helper()
	for ch, err := range b.Client.WatchRun(b.Ctx, id, 0) {
		require.NoError(b.T, err)
		if holds(ch.Description.Run) {
			return
		}
	}
	b.T.Fatal("the run has ended")
}

// done ends the task of a call.
func (b runBed) done(step int, id string) {
	b.T.Helper()
	b.Callback(b.open(step, id), "done", domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`{"ok":true}`)})
}

func review(id string, opts ...func(*run.ToolCall)) run.ToolCall {
	c := run.ToolCall{ToolCallID: id, Tool: "review"}
	for _, o := range opts {
		o(&c)
	}
	return c
}

func endsWith(text string) run.StepResponse { return run.StepResponse{Final: json.RawMessage(text)} }

func calls(c ...run.ToolCall) run.StepResponse {
	return run.StepResponse{Checkpoint: json.RawMessage(`{"n":1}`), ToolCalls: c}
}

// liveRunPull is a graph under wake any, a background call, an input meanwhile, a
// mistake of the model, usage and an output.
func liveRunPull(b runBed) {
	b.start(starter.RunStart{Runtime: "puller", Input: json.RawMessage(`"go"`), Title: "a trip"})
	resp := calls(review("a"), review("b", func(c *run.ToolCall) { c.DependsOn = []string{"a"} }), review("c", func(c *run.ToolCall) { c.Background = true }), run.ToolCall{ToolCallID: "x", Tool: "none"})
	resp.Wake, resp.Output, resp.Usage = run.WakeAny, json.RawMessage(`"working"`), []run.Usage{{Model: "m", InputTokens: 1, OutputTokens: 2}}
	b.commit(b.id, resp)
	b.commit(b.id, run.StepResponse{Wake: run.WakeAny})
	_, err := b.Client.Say(b.Ctx, b.id, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`"hurry"`), Source: "ann"})
	require.NoError(b.T, err)
	b.done(1, "a")
	b.commit(b.id, run.StepResponse{Wake: run.WakeAny})
	_, err = b.Client.Pause(b.Ctx, b.id, protocol.Pause{By: "ann"})
	require.NoError(b.T, err)
	b.done(1, "b")
	_, err = b.Client.Unpause(b.Ctx, b.id, protocol.Pause{By: "ann"})
	require.NoError(b.T, err)
	b.commit(b.id, endsWith(`"done"`))
}

// liveRunPeople is an approval with an edit, a denial, a question, a call that a person
// gives up, and a recovery.
func liveRunPeople(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(run.ToolCall{ToolCallID: "d", Tool: "deploy"}, run.ToolCall{ToolCallID: "n", Tool: "deploy"},
		run.ToolCall{ToolCallID: "q", Tool: run.ToolAsk, Input: json.RawMessage(`{"prompt":"sure?"}`)}, review("r")))
	b.open(1, "r")
	b.until(b.id, func(r run.Run) bool { return r.State == run.StateWaitingInput })
	for _, a := range []protocol.Approve{
		{CallID: protocol.CallID{ToolCallID: "d"}, Decision: run.DecisionEdit, Input: json.RawMessage(`{"to":"staging"}`), By: "ann"},
		{CallID: protocol.CallID{ToolCallID: "n"}, Decision: run.DecisionDeny, By: "ann"},
	} {
		_, err := b.Client.Approve(b.Ctx, b.id, a)
		require.NoError(b.T, err)
	}
	_, err := b.Client.AnswerRun(b.Ctx, b.id, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "q"}, Answer: json.RawMessage(`"yes"`)})
	require.NoError(b.T, err)
	_, err = b.Client.CancelCall(b.Ctx, b.id, protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: "r"}, By: "ann"})
	require.NoError(b.T, err)
	b.open(1, "d")
	_, err = b.Client.RecoverRun(b.Ctx, b.id, protocol.Recover{By: "ann"})
	require.NoError(b.T, err)
	b.done(1, "d")
	b.commit(b.id, endsWith(`1`))
}

func liveRunPlan(b runBed) {
	b.start(starter.RunStart{Plan: []run.ToolCall{review("a"), review("b"), review("c", func(c *run.ToolCall) {
		c.DependsOn, c.Input = []string{"a", "b"}, json.RawMessage(`{"a":{"$from":"a","pointer":"/ok"}}`)
	})}})
	b.done(1, "a")
	b.done(1, "b")
	b.done(1, "c")
}

func twoSteps(req run.StepRequest) (run.StepResponse, error) {
	if req.Step == 1 {
		return calls(review("a")), nil
	}
	return endsWith(`"done"`), nil
}

// liveRunActivity has an attempt that fails, and a checkpoint that goes to the store.
func liveRunActivity(b runBed) {
	b.agent.steps = func(req run.StepRequest) (run.StepResponse, error) {
		if req.Step == 1 && req.Attempt == 1 {
			return run.StepResponse{}, errAgain
		}
		return twoSteps(req)
	}
	w := sdkworker.New(b.Temporal, b.queue, sdkworker.Options{})
	agent.Register(w, b.agent.step, agent.ActivityOptions{})
	require.NoError(b.T, w.Start())
	b.T.(*testing.T).Cleanup(w.Stop) //nolint:forcetypeassert // a test
	b.start(starter.RunStart{Runtime: "worker"})
	b.done(1, "a")
}

func liveRunPush(b runBed) {
	b.agent.steps = twoSteps
	b.start(starter.RunStart{Runtime: "server"})
	b.done(1, "a")
}

// liveRunLostStep is a step whose runtime is silent, and heartbeats of the next one.
func liveRunLostStep(b runBed) {
	b.start(starter.RunStart{Runtime: "hasty"})
	b.next(b.id)
	b.until(b.id, func(r run.Run) bool { return r.Step != nil && r.Step.Failures == 1 })
	req := b.next(b.id)
	_, err := b.Client.StepHeartbeat(b.Ctx, b.id, req.StepToken, json.RawMessage(`"thinking"`))
	require.NoError(b.T, err)
	_, err = b.Client.Commit(b.Ctx, b.id, req.Step, req.StepToken, endsWith(`1`))
	require.NoError(b.T, err)
}

// liveRunImpatient loses its patience with a call, whose late end is an input.
func liveRunImpatient(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(review("a", func(c *run.ToolCall) { c.WaitMs = 1000 })))
	b.open(1, "a")
	b.commit(b.id, run.StepResponse{Await: run.AwaitInput})
	b.Callback(protocol.CallTaskID(b.id, 1, "a"), "done", domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`1`)})
	b.commit(b.id, endsWith(`1`))
}

func liveRunTerminatedTask(b runBed) {
	b.start(starter.RunStart{Runtime: "watcher"})
	b.commit(b.id, calls(review("a")))
	require.NoError(b.T, b.Temporal.TerminateWorkflow(b.Ctx, b.WorkflowID(b.open(1, "a")), "", "by hand"))
	b.commit(b.id, endsWith(`1`))
}

func liveRunOfARun(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(run.ToolCall{ToolCallID: "s", Tool: run.ToolRun, Input: json.RawMessage(`{"input":"think"}`)}))
	b.open(1, "s")
	sub := protocol.SubRunID(b.id, 1, "s")
	b.commit(sub, calls(run.ToolCall{ToolCallID: "q", Tool: run.ToolAsk, Input: json.RawMessage(`{"prompt":"sure?"}`)}))
	b.until(b.id, func(r run.Run) bool { return r.State == run.StateWaitingInput })
	_, err := b.Client.AnswerRun(b.Ctx, sub, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "q"}, Answer: json.RawMessage(`"yes"`)})
	require.NoError(b.T, err)
	b.commit(sub, endsWith(`"thought"`))
	b.commit(b.id, endsWith(`1`))
}

func runBelow(b runBed) string { return protocol.SubRunID(b.id, 1, "s") }

func liveRunRetried(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(review("a")))
	b.done(1, "a")
	req := b.next(b.id)
	_, err := b.Client.Commit(b.Ctx, b.id, req.Step, req.StepToken, run.StepResponse{Error: &domain.TaskError{Message: "no model"}})
	require.NoError(b.T, err)
	_, err = b.Client.WaitRun(b.Ctx, b.id, 0)
	require.NoError(b.T, err)
	_, err = b.Client.RetryRun(b.Ctx, b.id, starter.RunRetry{By: "ann"})
	require.NoError(b.T, err)
	b.commit(b.id, endsWith(`1`))
}

func liveRunLimit(b runBed) {
	b.start(starter.RunStart{Runtime: "puller", Limits: &run.Limits{MaxTokens: 10}})
	resp := calls(review("a"))
	resp.Wake, resp.WakeOnInput = run.WakeAny, true
	b.commit(b.id, resp)
	b.open(1, "a")
	_, err := b.Client.Say(b.Ctx, b.id, protocol.RunSaid{InputID: "i", Content: json.RawMessage(`1`)})
	require.NoError(b.T, err)
	b.commit(b.id, run.StepResponse{Usage: []run.Usage{{Model: "m", InputTokens: 11}}})
}

func liveRunExpired(b runBed) {
	b.start(starter.RunStart{Runtime: "puller", TTL: 4 * time.Second})
	b.commit(b.id, calls(review("a")))
}

func liveRunCancelled(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(review("a")))
	b.open(1, "a")
	_, err := b.Client.CancelRun(b.Ctx, b.id, protocol.Cancel{By: "ann", Reason: "enough"})
	require.NoError(b.T, err)
}

func liveRunCancelledInTheUI(b runBed) {
	b.start(starter.RunStart{Runtime: "puller"})
	b.commit(b.id, calls(review("a")))
	b.open(1, "a")
	require.NoError(b.T, b.Temporal.CancelWorkflow(b.Ctx, protocol.RunWorkflowID(b.Config.Tenant, b.id), ""))
}

// liveRunContinued goes over the border with calls open and with a step held.
func liveRunContinued(b runBed) {
	c, err := starter.New(starter.Options{Temporal: b.Temporal, Config: b.Config, Store: b.Store, ContinueAfterEvents: 12})
	require.NoError(b.T, err)
	_, err = c.StartRun(b.Ctx, starter.RunStart{RunID: b.id, Runtime: "puller"})
	require.NoError(b.T, err)
	for step := 1; step <= 3; step++ {
		b.commit(b.id, calls(review("a"), review("b")))
		b.done(step, "a")
		b.done(step, "b")
	}
	b.commit(b.id, endsWith(`1`))
}

var errAgain = errors.New("the model did not answer")

func itoa(n int) string { return strconv.Itoa(n) }

// fill replaces names in a text.
func fill(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
