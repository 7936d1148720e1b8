package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter/agent"
)

// Model completes chats; an [Endpoint] does.
type Model interface {
	Complete(ctx context.Context, messages []Message, tools []Function) (Completion, error)
}

// Agent is a chat with a model that calls tools, as the runtime of a run. It keeps
// nothing: one serves any number of runs at a time, over any way in.
type Agent struct {
	Model Model
	// Tools are those that the model is offered, and no other is called.
	Tools []Tool
	// System is the first message. Default: none.
	System string
}

// maxTurns is how often the model may err within one step, before the step fails: its
// mistakes that never reach the run cost tokens too.
const maxTurns = 8

// Step takes one step: it tells the model the results and then the inputs, asks for its
// next message, and answers with the calls that stand in it, or with its last word.
func (a *Agent) Step(ctx context.Context, req run.StepRequest) (run.StepResponse, error) {
	c, err := read(req, a.System)
	if err != nil {
		return run.StepResponse{}, agent.Final(err)
	}
	c.take(req)
	if !c.complete() {
		// The model must not hear of some results only. What is there is kept, and the
		// run parks again.
		return c.answer(run.StepResponse{})
	}
	var used []run.Usage
	for range maxTurns {
		if !c.turn() {
			return c.answer(run.StepResponse{Await: run.AwaitInput})
		}
		resp, err := a.ask(ctx, &c, req.Step, &used)
		switch {
		case err != nil:
			return run.StepResponse{Usage: used}, err
		case len(resp.ToolCalls) > 0 || len(resp.Final) > 0:
			resp.Usage = used
			return c.answer(resp)
		}
	}
	return run.StepResponse{Usage: used}, unavailable("the model called nothing that can be called %d times on end", maxTurns)
}

// answer adds the conversation to a response.
func (c *conversation) answer(resp run.StepResponse) (run.StepResponse, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return resp, fmt.Errorf("write the checkpoint: %w", err)
	}
	resp.Checkpoint, resp.CheckpointFormat = b, formatName
	return resp, nil
}

// ask asks the model for one message. A response with neither calls nor a final answer
// means that the model made mistakes only, and has to be told.
func (a *Agent) ask(ctx context.Context, c *conversation, step int, used *[]run.Usage) (run.StepResponse, error) {
	functions := make([]Function, len(a.Tools))
	for i, t := range a.Tools {
		functions[i] = t.Function
	}
	got, err := a.Model.Complete(ctx, c.Messages, functions)
	if err != nil {
		return run.StepResponse{}, err
	}
	account(used, got)
	choice := got.Choices[0]
	m := choice.Message
	m.Role = "assistant"
	text := ""
	if m.Content != nil {
		text = *m.Content
	}
	if len(m.ToolCalls) == 0 {
		switch {
		case choice.FinishReason == finishLength:
			return run.StepResponse{}, refusal("MODEL_CUT_OFF", "the model's answer was cut off at its limit of tokens")
		case choice.FinishReason == finishContentFilter:
			return run.StepResponse{}, refusal("MODEL_REFUSED", "the model's service filtered its answer")
		case text == "":
			return run.StepResponse{}, unavailable("the model said nothing and called nothing (%s)", choice.FinishReason)
		}
		c.Messages = append(c.Messages, m)
		final, err := json.Marshal(text)
		return run.StepResponse{Final: final}, err
	}
	var resp run.StepResponse
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		a.call(c, &m.ToolCalls[i], &resp)
	}
	c.AskedAt = step
	c.Messages = append(c.Messages, m)
	if text != "" && len(resp.ToolCalls) > 0 {
		resp.Output, err = json.Marshal(cut(text, run.MaxOutput/8)) // one byte may become six as JSON
	}
	return resp, err
}

// call makes a call of the run out of one of the model, or tells the model what is wrong
// with it. What the run can judge itself, such as input against the schema, it is left to.
func (a *Agent) call(c *conversation, t *ToolCall, resp *run.StepResponse) {
	t.Type = "function"
	if t.ID == "" {
		t.ID = "call_" + strconv.Itoa(len(c.Asked))
	}
	mistake := func(format string, args ...any) {
		text := "error: " + fmt.Sprintf(format, args...)
		c.Asked = append(c.Asked, asked{ID: t.ID, Text: &text})
	}
	given := strings.TrimSpace(t.Function.Arguments)
	if given == "" {
		given = "{}" // what some models mean by nothing
	}
	if !json.Valid([]byte(given)) {
		// Some services read the arguments of the past again, and fail over them.
		mistake("the arguments are no JSON: %s", cut(given, domain.MaxErrorText))
		t.Function.Arguments = "{}"
		return
	}
	t.Function.Arguments = given
	i := slices.IndexFunc(a.Tools, func(tool Tool) bool { return tool.Function.Name == t.Function.Name })
	if i < 0 {
		var known []string
		for _, tool := range a.Tools {
			known = append(known, tool.Function.Name)
		}
		mistake("there is no tool %q; there are %s", t.Function.Name, strings.Join(known, ", "))
		return
	}
	// A run takes {"$from": …} for a reference to the result of another call, which no
	// model was told of.
	if refs, err := run.References(json.RawMessage(given)); err != nil || len(refs) > 0 {
		mistake("the arguments must not have a member $from")
		return
	}
	switch {
	case len(given) > run.MaxCallInput:
		mistake("the arguments have more than %d bytes", run.MaxCallInput)
		return
	case inputs(resp.ToolCalls)+len(given) > run.MaxCallInputs:
		mistake("the arguments of all calls have more than %d bytes", run.MaxCallInputs)
		return
	case len(resp.ToolCalls) == run.MaxStepCalls:
		mistake("these are more than %d calls at a time", run.MaxStepCalls)
		return
	}
	id := callID(t.ID, resp.ToolCalls)
	c.Asked = append(c.Asked, asked{ID: t.ID, Call: id})
	resp.ToolCalls = append(resp.ToolCalls, run.ToolCall{ToolCallID: id, Tool: a.Tools[i].Name, Input: json.RawMessage(given)})
}

func inputs(calls []run.ToolCall) int {
	n := 0
	for _, c := range calls {
		n += len(c.Input)
	}
	return n
}

// callID is the model's id, if no other call of the step has it and it is not too long.
func callID(id string, calls []run.ToolCall) string {
	out := id
	for n := 2; len(out) > domain.MaxCallbackID || slices.ContainsFunc(calls, func(c run.ToolCall) bool { return c.ToolCallID == out }); n++ {
		out = id[:min(len(id), 100)] + "#" + strconv.Itoa(n)
	}
	return out
}

// account adds what an answer cost.
func account(used *[]run.Usage, got Completion) {
	u := run.Usage{
		Model: cut(got.Model, run.MaxText/2), InputTokens: got.Usage.PromptTokens, OutputTokens: got.Usage.CompletionTokens,
		CachedInputTokens: got.Usage.Details.CachedTokens,
	}
	for i := range *used {
		if x := &(*used)[i]; x.Model == u.Model {
			x.InputTokens += u.InputTokens
			x.OutputTokens += u.OutputTokens
			x.CachedInputTokens += u.CachedInputTokens
			return
		}
	}
	*used = append(*used, u)
}
