package kill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// moment is when a kill hurts a run most.
type moment string

const (
	afterCommit  moment = "between a commit and the start of its tasks"
	afterEnd     moment = "between the end of a task and its signal"
	whenContinue moment = "in a continue-as-new"
	beforeCommit moment = "between the upload of a checkpoint and its commit"
)

func moments() []moment { return []moment{afterCommit, afterEnd, whenContinue, beforeCommit} }

const runTools = `
tools:
  job:
    ttl: 30m
    maxAttempts: 3
    exec: {argv: [/bin/sh, -c, 'sleep 0.2; printf "\"done\"" > "$WAKEPOINT_RESULT"']}
  review: {executor: external, ttl: 30m}
runtimes:
  agent: {pull: {}, checkEvery: 2s, lease: 20s, stepAttempts: 1000}
`

// continueAfter makes each run continue as new a few times.
const continueAfter = 45

// striker kills at the moments that it is told of, as often as it has been given.
type striker struct {
	s    *stack
	mu   sync.Mutex
	rng  *rand.Rand
	left map[moment]int
	hit  map[string]int
}

// at is a moment at which a kill would hurt. It is taken now and then, so that the
// kills spread over the runs.
func (k *striker) at(m moment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left[m] == 0 || k.rng.IntN(strikesOneOf) != 0 {
		return
	}
	k.left[m]--
	what := targets()[k.rng.IntN(len(targets()))]
	k.hit[string(m)+", "+string(what)]++
	// What was killed a moment ago may not be back yet.
	harness.Until(k.s.t, patience, "the engine is there again", func() bool {
		return slices.ContainsFunc(k.s.family(), func(pid int) bool { return role(cmdline(pid)) == engine })
	})
	k.s.kill(what)
}

// struck is a client of a runtime around which things are killed.
type struck struct {
	*starter.Client
	k *striker
	// log is the runtime's own: the steps whose commit was acknowledged.
	mu  sync.Mutex
	log []committed
	// said is the last error that the runtime was told.
	said string
}

type committed struct {
	req  run.StepRequest
	resp run.StepResponse
}

func (c *struck) Next(ctx context.Context, runID string, o starter.NextOptions) (run.StepRequest, error) {
	req, err := c.Client.Next(ctx, runID, o)
	if err != nil {
		c.mu.Lock()
		c.said = fmt.Sprintf("next: %v (%#v)", err, errors.Unwrap(err))
		c.mu.Unlock()
		return req, err
	}
	d, err := c.k.s.temporal.DescribeWorkflow(ctx, protocol.RunWorkflowID(c.Tenant(), runID), "")
	if err == nil && d.HistoryLength > continueAfter-12 {
		c.k.at(whenContinue)
	}
	return req, nil
}

func (c *struck) Commit(ctx context.Context, runID string, step int, token string, resp run.StepResponse) (run.Outcome, error) {
	if len(resp.Checkpoint) > run.MaxInline {
		if _, _, _, err := stepio.Pack(ctx, c.k.s.store, c.Tenant(), runID, resp); err != nil {
			return run.Outcome{}, err
		}
		c.k.at(beforeCommit)
	}
	out, err := c.Client.Commit(ctx, runID, step, token, resp)
	if err == nil {
		c.k.at(afterCommit)
	} else {
		c.mu.Lock()
		c.said = fmt.Sprintf("commit: %v (%#v)", err, errors.Unwrap(err))
		c.mu.Unlock()
	}
	return out, err
}

// callsPerStep is how many calls each of the two asking steps makes.
const callsPerStep = 5

// steps is the agent: two turns of five calls with the same ids, then the end, which
// says what came back.
func (c *struck) step(_ context.Context, req run.StepRequest) (run.StepResponse, error) {
	resp := c.answer(req)
	c.mu.Lock()
	defer c.mu.Unlock()
	// The newest attempt is the one that was committed: older ones cannot be.
	c.log = append(c.log, committed{req, resp})
	return resp, nil
}

func (c *struck) answer(req run.StepRequest) run.StepResponse {
	var said []string
	if len(req.Checkpoint) > 0 {
		var cp struct{ Said []string }
		if err := json.Unmarshal(req.Checkpoint, &cp); err != nil {
			return run.StepResponse{Error: &domain.TaskError{Message: err.Error()}}
		}
		said = cp.Said
	}
	for _, r := range req.Results {
		said = append(said, fmt.Sprintf("%d/%s %s %s", r.AskedAtStep, r.ToolCallID, r.State, r.Result))
	}
	if req.Step == 3 {
		b, _ := json.Marshal(said) //nolint:errchkjson // strings
		return run.StepResponse{Final: b}
	}
	cp, _ := json.Marshal(map[string]any{"Said": said, "Pad": strings.Repeat("x", run.MaxInline)}) //nolint:errchkjson // strings
	resp := run.StepResponse{Checkpoint: cp}
	for i := range callsPerStep {
		call := run.ToolCall{ToolCallID: fmt.Sprintf("call_%d", i), Tool: "job"}
		switch {
		case i == 3:
			call.DependsOn = []string{"call_0", "call_2"}
		case i%2 == 1:
			call.Tool = "review"
		}
		resp.ToolCalls = append(resp.ToolCalls, call)
	}
	return resp
}

// undisturbed is the final answer of a run around which nothing is killed.
func undisturbed() string {
	var said []string
	for step := 1; step <= 2; step++ {
		for i := range callsPerStep {
			result := `"done"`
			if i == 1 {
				result = `{"ok":true}`
			}
			said = append(said, fmt.Sprintf("%d/call_%d succeeded %s", step, i, result))
		}
	}
	b, _ := json.Marshal(said) //nolint:errchkjson // strings
	return string(b)
}

// Whatever is killed, a run ends as if nothing had happened: seeded kills of workers and
// of the engine at the moments at which that hurts.
func TestRunsAreKilled(t *testing.T) {
	s := newStack(t, runTools)
	rng := rand.New(rand.NewPCG(seed(t), 4))
	k := &striker{s: s, rng: rng, left: map[moment]int{}, hit: map[string]int{}}
	for _, m := range moments() {
		k.left[m] = killsPerRunMoment
	}
	cfg, err := config.Load(s.dir + "/wakepoint.yaml")
	require.NoError(t, err)
	c, err := starter.New(starter.Options{
		Temporal: s.temporal, Config: cfg, Store: s.store, Secret: []byte("a secret of the tests, for ids"), ContinueAfterEvents: continueAfter,
	})
	require.NoError(t, err)
	var wait sync.WaitGroup
	clients := make([]*struck, killedRuns)
	ids := make([]string, killedRuns)
	for i := range killedRuns {
		clients[i], ids[i] = &struck{Client: c, k: k}, fmt.Sprintf("killed-%d", i)
		wait.Go(func() { s.live(clients[i], ids[i]) })
	}
	wait.Wait()
	continued := 0
	for i, id := range ids {
		d := persist(s, "describe", func(ctx context.Context) (starter.RunDescription, error) { return c.DescribeRun(ctx, id) })
		require.Equal(t, run.StateSucceeded, d.Run.State, "run %s: %+v; the runtime was told %s; step %+v of %d, %+v", id, d.Run.Error, clients[i].said, d.Run.Step, d.Run.StepsDone, d.Run.History)
		require.Equal(t, undisturbed(), string(d.Run.Final.Data), "run %s", id)
		clients[i].check(t, d.Run)
		if s.continued(protocol.RunWorkflowID(c.Tenant(), id)) {
			continued++
		}
	}
	require.NotZero(t, continued, "no run continued as new")
	kills := 0
	for what, n := range k.hit {
		kills += n
		t.Logf("%d times: %s", n, what)
	}
	for _, m := range moments() {
		require.Zero(t, k.left[m], "kills left %s", m)
	}
	t.Logf("%d runs of %d calls, %d of them continued as new, %d kills", killedRuns, 2*callsPerStep, continued, kills)
}

// continued tells whether a workflow has continued as new.
func (s *stack) continued(workflowID string) bool {
	d := persist(s, "describe", func(ctx context.Context) (*client.WorkflowExecutionDescription, error) {
		return s.temporal.DescribeWorkflow(ctx, workflowID, "")
	})
	info := d.RawResponse.GetWorkflowExecutionInfo()
	return info.GetFirstRunId() != info.GetExecution().GetRunId()
}

// live starts a run, is its runtime and the world that reviews.
func (s *stack) live(c *struck, id string) {
	persist(s, "start", func(ctx context.Context) (starter.RunStarted, error) {
		return c.StartRun(ctx, starter.RunStart{RunID: id, Runtime: "agent", Input: json.RawMessage(`"go"`)})
	})
	var world sync.WaitGroup
	for step := 1; step <= 2; step++ {
		world.Go(func() { s.review(c, protocol.CallTaskID(id, step, "call_1")) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), runPatience)
	defer cancel()
	if err := agent.Pull(ctx, c, id, c.step, agent.PullOptions{Holder: "runtime-" + id, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		s.t.Errorf("run %s: %v", id, err)
	}
	world.Wait()
}

// review waits for a task and ends it.
func (s *stack) review(c *struck, taskID string) {
	deadline := time.Now().Add(runPatience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, err := c.Callback(ctx, taskID, domain.Callback{CallbackID: "reviewed", Event: domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`{"ok":true}`)}})
		cancel()
		if err == nil {
			c.k.at(afterEnd)
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("task %s was never there: %v", taskID, err)
			return
		}
		<-time.After(200 * time.Millisecond) // the task is begun by the run; there is nothing to wait on before it is
	}
}

// check looks at the runtime's own log: each call has one result, in one committed step,
// which is the newest attempt of each step.
func (c *struck) check(t *testing.T, r run.Run) {
	t.Helper()
	newest := map[int]committed{}
	for _, l := range c.log {
		newest[l.req.Step] = l
	}
	require.Len(t, newest, r.StepsDone)
	asked, given := map[run.Key]int{}, map[run.Key]int{}
	for step, l := range newest {
		for _, call := range l.resp.ToolCalls {
			asked[run.Key{Step: step, ID: call.ToolCallID}]++
		}
		for _, res := range l.req.Results {
			given[run.Key{Step: res.AskedAtStep, ID: res.ToolCallID}]++
		}
	}
	require.Equal(t, asked, given)
	for k, n := range given {
		require.Equal(t, 1, n, "results of %+v", k)
	}
}
