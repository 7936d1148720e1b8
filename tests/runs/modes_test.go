package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// twoTools are one that a program does, and one that the world does.
const twoTools = `
tools:
  double:
    inputSchema: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}
    ttl: 1m
    exec: {argv: [sh, -c, 'cat >/dev/null; sleep 0.1; echo "{\"doubled\": true}"'], resultContentType: application/json}
  review: {executor: external, ttl: 1h}
`

// scripted is an agent without a model: it asks for two calls, then for one that needs
// the review, then it is done.
type scripted struct {
	t  testing.TB
	mu sync.Mutex
	// steps are the requests that it was handed.
	steps []run.StepRequest
}

func (s *scripted) step(_ context.Context, req run.StepRequest) (run.StepResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, req)
	switch req.Step {
	case 1:
		return run.StepResponse{
			Checkpoint: raw(`{"at":  1, "big": 12345678901234567890, "text": "<&>"}`),
			ToolCalls: []run.ToolCall{
				{ToolCallID: "call_1", Tool: "double", Input: raw(`{"n": 2}`)},
				{ToolCallID: "call_2", Tool: "review", Input: raw(`{"pr": 7}`)},
			},
			Usage: []run.Usage{{Model: "m", InputTokens: 10, OutputTokens: 5}},
		}, nil
	case 2:
		return run.StepResponse{
			Output:    raw(`"half way"`),
			ToolCalls: []run.ToolCall{{ToolCallID: "call_1", Tool: "nothing"}, {ToolCallID: "call_2", Tool: "double", Input: raw(`{"n": "two"}`)}},
		}, nil
	}
	return run.StepResponse{Final: raw(fmt.Sprintf(`{"step": %d}`, req.Step))}, nil
}

// check looks at what the agent was told.
func (s *scripted) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.t
	require.Len(t, s.steps, 3)
	require.Equal(t, run.CauseStart, s.steps[0].Cause)
	require.Equal(t, `"go"`, string(s.steps[0].Inputs[0].Content))
	two := s.steps[1]
	require.Equal(t, `{"at":  1, "big": 12345678901234567890, "text": "<&>"}`, string(two.Checkpoint), "byte for byte") //nolint:testifylint // JSONEq does not see the bytes
	require.Len(t, two.Results, 2)
	require.Equal(t, run.CallSucceeded, two.Results[0].State, "%+v", two.Results[0].Error)
	require.JSONEq(t, `{"doubled": true}`, string(two.Results[0].Result))
	require.JSONEq(t, `{"ok": true}`, string(two.Results[1].Result))
	require.EqualValues(t, 15, two.Limits.Tokens)
	three := s.steps[2]
	require.Equal(t, run.CodeUnknownTool, three.Results[0].Error.Code)
	require.Equal(t, run.CodeInvalidInput, three.Results[1].Error.Code)
	require.JSONEq(t, `{"n": "two"}`, string(three.Results[1].Input))
}

// reviewed answers the review of a run.
func reviewed(ctx context.Context, t testing.TB, in *harness.Installation, runID string) {
	t.Helper()
	until(ctx, t, in, runID, callIs(1, "call_2", run.CallOpen))
	succeed(ctx, t, in, protocol.CallTaskID(runID, 1, "call_2"), `{"ok": true}`)
}

func ended(ctx context.Context, t testing.TB, in *harness.Installation, runID string) run.Run {
	t.Helper()
	d, err := in.Client.WaitRun(ctx, runID, 0)
	require.NoError(t, err)
	require.Equal(t, run.StateSucceeded, d.Run.State, "%+v", d.Run.Error)
	return d.Run
}

func TestPull(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in := harness.Install(t, shared, tenantOf(t), twoTools+"runtimes: {assistant: {pull: {}}}\n", nil).StartWorker()
	started, err := in.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant", Input: raw(`"go"`), Title: "a trip"})
	require.NoError(t, err)
	a := &scripted{t: t}
	pulled := make(chan error, 1)
	go func() { pulled <- agent.Pull(ctx, in.Client, started.RunID, a.step, agent.PullOptions{}) }()
	reviewed(ctx, t, in, started.RunID)
	r := ended(ctx, t, in, started.RunID)
	require.NoError(t, <-pulled)
	a.check()
	require.JSONEq(t, `{"step": 3}`, string(r.Final.Data))
	require.Equal(t, `"half way"`, string(r.Outputs[0].Content))
}

func TestActivity(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	tenant := tenantOf(t)
	in := harness.Install(t, shared, tenant, twoTools+"runtimes: {assistant: {activity: {taskQueue: agents-"+tenant+", heartbeats: true}}}\n", nil).StartWorker()
	a := &scripted{t: t}
	w := sdkworker.New(in.Temporal, "agents-"+tenant, sdkworker.Options{})
	agent.Register(w, a.step, agent.ActivityOptions{Store: in.Store})
	require.NoError(t, w.Start())
	defer w.Stop()
	started, err := in.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant", Input: raw(`"go"`)})
	require.NoError(t, err)
	reviewed(ctx, t, in, started.RunID)
	ended(ctx, t, in, started.RunID)
	a.check()
}

func TestPush(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]bool{"200": false, "202": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 2*time.Minute)
			a := &scripted{t: t}
			o := agent.HandlerOptions{Secrets: [][]byte{[]byte("a secret of the runtime's")}}
			lazy := &lazily{Steps: nil}
			if later {
				o.Commits, o.Within = lazy, time.Nanosecond
			}
			srv := httptest.NewServer(agent.Handler(a.step, o))
			defer srv.Close()
			in := harness.Install(t, shared, tenantOf(t), twoTools+"runtimes: {assistant: {push: {url: '"+srv.URL+"', secret: {env: PUSH_SECRET}}}}\n", nil)
			in.Options.Getenv = func(name string) string {
				if name == "PUSH_SECRET" {
					return "a secret of the runtime's"
				}
				return ""
			}
			lazy.Steps = in.Client
			in.StartWorker()
			started, err := in.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant", Input: raw(`"go"`)})
			require.NoError(t, err)
			reviewed(ctx, t, in, started.RunID)
			ended(ctx, t, in, started.RunID)
			a.check()
		})
	}
}

// lazily is a client that is there later than the handler.
type lazily struct{ agent.Steps }

func TestPlan(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in := harness.Install(t, shared, tenantOf(t), twoTools+`
  tell:
    executor: external
    ttl: 1h
    inputSchema: {type: object, properties: {was: {type: boolean}, all: {type: object}}, required: [was, all], additionalProperties: false}
`, nil).StartWorker()
	started, err := in.Client.StartRun(ctx, starter.RunStart{Plan: []run.ToolCall{
		{ToolCallID: "a", Tool: "double", Input: raw(`{"n": 2}`)},
		{ToolCallID: "b", Tool: "tell", DependsOn: []string{"a"}, Input: raw(`{"was": {"$from": "a", "pointer": "/doubled"}, "all": {"$from": "a"}}`)},
	}})
	require.NoError(t, err)
	until(ctx, t, in, started.RunID, callIs(1, "b", run.CallOpen))
	succeed(ctx, t, in, protocol.CallTaskID(started.RunID, 1, "b"), `1`)
	r := ended(ctx, t, in, started.RunID)
	var res run.PlanResult
	require.NoError(t, json.Unmarshal(r.Final.Data, &res))
	require.Len(t, res.Calls, 2)
	require.Equal(t, run.CallSucceeded, res.Calls[1].State)
}
