package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	chat "github.com/wakepoint/wakepoint/examples/chat"
	"github.com/wakepoint/wakepoint/starter/agent"
)

// nameRule is OpenAI's for the names of functions.
var nameRule = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

var declared = `
tools:
  list.dir:
    description: Lists a folder.
    executor: external
    inputSchema: {type: object, properties: {path: {type: string}}, required: [path], additionalProperties: false}
  list_dir: {executor: external, title: Another}
  ` + longName + `: {executor: external}
  ` + longName2 + `: {executor: external}
`

var (
	longName  = "a." + strings.Repeat("b", 62)
	longName2 = "a_" + strings.Repeat("b", 62)
)

func toolsOf(t testing.TB, yaml string, names ...string) []chat.Tool {
	t.Helper()
	cfg, err := config.Parse("wakepoint.yaml", []byte(yaml))
	require.NoError(t, err)
	tools, err := chat.Tools(cfg.Tools, names)
	require.NoError(t, err)
	return tools
}

func newAgent(t testing.TB, s *service) *chat.Agent {
	return &chat.Agent{Model: s.endpoint(), Tools: toolsOf(t, declared), System: "You are brief."}
}

func said(text string) run.Input {
	b, _ := json.Marshal(text)
	return run.Input{InputID: text, Content: b}
}

func step(t testing.TB, a *chat.Agent, req run.StepRequest) run.StepResponse {
	t.Helper()
	resp, err := a.Step(t.Context(), req)
	require.NoError(t, err)
	return resp
}

// next is the step after an answer.
func next(n int, was run.StepResponse, results []run.Result, inputs ...run.Input) run.StepRequest {
	return run.StepRequest{Step: n, Checkpoint: was.Checkpoint, CheckpointFormat: was.CheckpointFormat, Results: results, Inputs: inputs}
}

func done(step int, id, result string) run.Result {
	return run.Result{ToolCallID: id, AskedAtStep: step, Tool: "list_dir", State: run.CallSucceeded, Result: json.RawMessage(result)}
}

func TestToolsHaveNamesThatModelsCanWrite(t *testing.T) {
	t.Parallel()
	tools := toolsOf(t, declared)
	var names []string
	for _, tool := range tools {
		require.Regexp(t, nameRule, tool.Function.Name)
		require.NotContains(t, names, tool.Function.Name)
		require.True(t, json.Valid(tool.Parameters))
		names = append(names, tool.Function.Name)
	}
	require.Equal(t, run.ToolAsk, tools[0].Name)
	require.Equal(t, "wakepoint_ask", tools[0].Function.Name)
	require.Len(t, names, 5)
	require.Len(t, toolsOf(t, declared, "list.dir"), 2)
	_, err := chat.Tools(nil, []string{"nothing"})
	require.ErrorContains(t, err, "nothing")
}

func TestTheInstallationOfTheExample(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load("wakepoint.yaml")
	require.NoError(t, err)
	tools, err := chat.Tools(cfg.Tools, nil)
	require.NoError(t, err)
	require.Len(t, tools, 3)
	_, ok := cfg.Runtime("assistant")
	require.True(t, ok)
}

func TestResultsComeInTheOrderOfTheCallsAndBeforeWhatWasSaid(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{text: "looking", calls: []chat.ToolCall{call("list_dir:0", "list_dir", `{"path": "a"}`), call("list_dir:1", "list_dir", "")}}, reply{text: "fine"})
	a := newAgent(t, s)
	one := step(t, a, run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}})
	require.Equal(t, `"looking"`, string(one.Output))
	require.Len(t, one.ToolCalls, 2)
	require.JSONEq(t, `{}`, string(one.ToolCalls[1].Input), "no arguments are an empty object")
	require.Equal(t, []run.Usage{{Model: model + "-2026", InputTokens: 100, OutputTokens: 10, CachedInputTokens: 40}}, one.Usage)

	// With one result of two the model is not asked: what came is kept.
	two := step(t, a, next(2, one, []run.Result{done(1, "list_dir:1", `{"n": 1}`)}, said("hurry")))
	require.Empty(t, two.ToolCalls)
	require.Empty(t, two.Final)
	three := step(t, a, next(3, two, []run.Result{done(1, "list_dir:0", `"text"`)}, said("really")))
	require.Equal(t, `"fine"`, string(three.Final))
	require.Equal(t, []string{
		"system: You are brief.", "user: go", `assistant: looking list_dir:0=list_dir{"path": "a"} list_dir:1=list_dir{}`,
		"tool list_dir:0: text", `tool list_dir:1: {"n": 1}`, "user: hurry", "user: really",
	}, s.last())
}

func TestWhatTheRunCannotJudgeGoesBackToTheModelAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(
		t,
		reply{calls: []chat.ToolCall{call("1", "list_dir", `{"path": `), call("2", "wakepoint.run", `{}`), call("3", "list_dir", `{"path": {"$from": "x"}}`)}},
		reply{calls: []chat.ToolCall{call("1", "list_dir", `{"path": "a"}`), call("2", "rm", `{}`), call("3", "wakepoint_ask", `{"prompt": "?"}`)}},
	)
	one := step(t, newAgent(t, s), run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}})
	require.Equal(t, []string{"list_dir", run.ToolAsk}, []string{one.ToolCalls[0].Tool, one.ToolCalls[1].Tool})
	require.EqualValues(t, 200, one.Usage[0].InputTokens, "both turns are counted")
	told := s.last()
	require.Equal(t, `tool 1: error: the arguments are no JSON: {"path":`, told[3])
	require.Contains(t, told[4], `tool 2: error: there is no tool "wakepoint.run"; there are wakepoint_ask, `, "what was not offered is not called")
	require.Contains(t, told[5], "tool 3: error: the arguments must not have a member $from")

	// The mistake of the second turn waits for the results of its other calls.
	s.script = []reply{{text: "bye"}}
	step(t, newAgent(t, s), next(2, one, []run.Result{done(1, "1", `1`), {ToolCallID: "3", AskedAtStep: 1, State: run.CallDenied, Approval: &run.Approval{Message: "no"}}}))
	require.Equal(t, "tool 1: 1", s.last()[7])
	require.Contains(t, s.last()[8], `tool 2: error: there is no tool "rm"`)
	require.Contains(t, s.last()[9], "a person has denied this call, it was not done: no")
}

func TestAnIDTwiceWithinATurn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", domain.MaxCallbackID+1)
	c := chat.Completion{}
	require.NoError(t, json.Unmarshal([]byte(`{"choices": [{"message": {"tool_calls": [
		{"id": "a", "function": {"name": "list_dir", "arguments": "{}"}}, {"id": "a", "function": {"name": "list_dir", "arguments": "{}"}},
		{"function": {"name": "list_dir", "arguments": "{}"}}, {"id": "`+long+`", "function": {"name": "list_dir", "arguments": "{}"}}
	]}}]}`), &c))
	a := &chat.Agent{Model: fixed{c}, Tools: toolsOf(t, declared)}
	one := step(t, a, run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}})
	var ids []string
	for _, call := range one.ToolCalls {
		require.NotContains(t, ids, call.ToolCallID)
		require.NotEmpty(t, call.ToolCallID)
		require.LessOrEqual(t, len(call.ToolCallID), domain.MaxCallbackID)
		ids = append(ids, call.ToolCallID)
	}
	require.Len(t, ids, 4)
}

// fixed is a model that always answers the same.
type fixed struct{ chat.Completion }

func (f fixed) Complete(context.Context, []chat.Message, []chat.Function) (chat.Completion, error) {
	return f.Completion, nil
}

func TestARunWithoutInputWaitsForOne(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{text: "hello"})
	a := newAgent(t, s)
	one := step(t, a, run.StepRequest{Step: 1})
	require.Equal(t, run.AwaitInput, one.Await)
	two := step(t, a, next(2, one, nil, said("hi")))
	require.Equal(t, `"hello"`, string(two.Final))
}

func TestNewsAndUnusualResults(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{calls: []chat.ToolCall{call("a", "list_dir", `{}`), call("b", "list_dir", `{}`), call("c", "list_dir", `{}`)}}, reply{text: "ok"})
	a := newAgent(t, s)
	one := step(t, a, run.StepRequest{Step: 4, Inputs: []run.Input{said("go")}})
	old := done(1, "a", `"old"`)
	edited := done(4, "a", `null`)
	edited.InputEdited, edited.Input, edited.Approval = true, json.RawMessage(`{"path":"b"}`), &run.Approval{Message: "careful"}
	step(t, a, next(5, one, []run.Result{
		old, edited,
		{ToolCallID: "b", AskedAtStep: 4, State: run.CallSucceeded, Truncated: true, Preview: "begin", Bytes: 9e6, ResultRef: "blob:1"},
		{ToolCallID: "c", AskedAtStep: 4, State: run.CallFailed, Error: &domain.TaskError{Code: "X", Message: "broke", Details: json.RawMessage(`{"at":1}`)}},
	}))
	require.Equal(t, []string{
		"tool a: A person has changed the arguments to {\"path\":\"b\"}.\nA person has approved this: careful\nnull",
		"tool b: begin\n[cut off: the result has 9000000 bytes and is kept as blob:1]",
		`tool c: error: failed: X: broke {"at":1}`,
		"user: News of the call a of list_dir: old",
	}, s.last()[3:])
}

func TestErrorsOfTheService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply     reply
		retryable bool
		says      string
	}{
		"busy":         {reply{status: http.StatusTooManyRequests}, true, "429"},
		"broken":       {reply{status: http.StatusBadGateway}, true, "Rate limit reached or the server had an error"},
		"bad request":  {reply{status: http.StatusBadRequest}, false, "400"},
		"unauthorized": {reply{status: http.StatusUnauthorized}, false, "401"},
		"redirect":     {reply{status: http.StatusTemporaryRedirect}, false, "307"},
		"cut off":      {reply{text: "and so", finish: "length"}, false, "cut off"},
		"filtered":     {reply{finish: "content_filter"}, false, "filtered"},
		"silent":       {reply{}, true, "said nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, err := newAgent(t, serve(t, c.reply)).Step(t.Context(), run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}})
			var failed *agent.FailedError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.retryable, failed.Reason.Retryable)
			require.Contains(t, failed.Reason.Message, c.says)
			require.Equal(t, c.reply.status == 0, len(resp.Usage) == 1, "what was used is counted, also in vain")
		})
	}
	t.Run("away", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		s.Close()
		_, err := newAgent(t, s).Step(t.Context(), run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}})
		var failed *agent.FailedError
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.Reason.Retryable)
		require.NotContains(t, failed.Reason.Message, key)
	})
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, reply{status: http.StatusTooManyRequests, retryAfter: "1"}, reply{text: "now"}, reply{status: http.StatusServiceUnavailable, retryAfter: time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)})
	a := newAgent(t, s)
	req := run.StepRequest{Step: 1, Inputs: []run.Input{said("go")}}
	_, err := a.Step(t.Context(), req)
	require.ErrorContains(t, err, "asked again in 1s")
	require.Equal(t, `"now"`, string(step(t, a, req).Final))
	require.GreaterOrEqual(t, s.at[1].Sub(s.at[0]), time.Second)
	// An hour is more than it is believed, and the step's end ends the waiting.
	_, err = a.Step(t.Context(), req)
	require.ErrorContains(t, err, "asked again in 10m0s")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the step was lost"))
	_, err = a.Step(ctx, req)
	require.ErrorContains(t, err, "the step was lost")
}

func TestACheckpointOfSomebodyElse(t *testing.T) {
	t.Parallel()
	a := newAgent(t, serve(t))
	for _, req := range []run.StepRequest{{Checkpoint: json.RawMessage(`{}`), CheckpointFormat: "other"}, {Checkpoint: json.RawMessage(`[]`), CheckpointFormat: "chat/1"}} {
		_, err := a.Step(t.Context(), req)
		require.ErrorContains(t, err, "the checkpoint")
	}
}
