package runs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func saidBy(source, id, content string) protocol.RunSaid {
	return protocol.RunSaid{InputID: id, Content: raw(content), Source: source}
}

// A task that was terminated in the Temporal UI can tell nobody; the run finds out by
// itself.
func TestATaskThatWasTerminated(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "a", Tool: "review"}}})
	until(ctx, t, in, id, callIs(1, "a", run.CallOpen))
	taskID := protocol.CallTaskID(id, 1, "a")
	require.NoError(t, in.Temporal.TerminateWorkflow(ctx, protocol.TaskWorkflowID(in.Config.Tenant, taskID), "", "by hand"))
	req := step(ctx, t, in, id, run.StepResponse{Final: raw(`1`)})
	require.Equal(t, run.CallFailed, req.Results[0].State)
	require.Equal(t, run.CodeTaskTerminated, req.Results[0].Error.Code)
	ended(ctx, t, in, id)
}

// A result for a run that has closed leaves a receipt, and nobody tries again.
func TestAResultForARunThatHasClosed(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "a", Tool: "review", Background: true}, {ToolCallID: "b", Tool: "double", Input: raw(`{"n": 1}`)}}})
	step(ctx, t, in, id, run.StepResponse{Final: raw(`1`), OnFinal: run.OnFinalDetach})
	ended(ctx, t, in, id)
	taskID := protocol.CallTaskID(id, 1, "a")
	succeed(ctx, t, in, taskID, `1`)
	d, err := in.Client.Wait(ctx, taskID, starter.WaitOptions{})
	require.NoError(t, err)
	require.Equal(t, domain.StateSucceeded, d.Task.State)
	receipts := receiptsOf(ctx, t, in, taskID)
	require.Equal(t, []string{protocol.ReceiptRunClosed}, receipts)
}

// receiptsOf reads from a task's history what became of telling its run.
func receiptsOf(ctx context.Context, t testing.TB, in *harness.Installation, taskID string) []string {
	t.Helper()
	var receipts []string
	events, err := harness.History(ctx, in.Temporal, protocol.TaskWorkflowID(in.Config.Tenant, taskID), "")
	require.NoError(t, err)
	for _, e := range events {
		m := e.GetMarkerRecordedEventAttributes()
		if m.GetMarkerName() != "LocalActivity" {
			continue
		}
		for _, p := range m.GetDetails()["result"].GetPayloads() {
			var res protocol.NotifyResult
			if unmarshal(p.GetData(), &res) == nil && res.Receipt != "" {
				receipts = append(receipts, res.Receipt)
			}
		}
	}
	return receipts
}

const carefulTools = `
  deploy:
    executor: external
    ttl: 1h
    approval: required
    inputSchema: {type: object, properties: {to: {type: string}}, required: [to]}
`

// A person approves, edits and denies; a question is answered; the model is told who.
func TestPeople(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, carefulTools)
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{
		{ToolCallID: "a", Tool: "deploy", Input: raw(`{"to": "prod"}`)},
		{ToolCallID: "b", Tool: "deploy", Input: raw(`{"to": "prod"}`)},
		{ToolCallID: "c", Tool: run.ToolAsk, Input: raw(`{"prompt": "which region?", "schema": {"enum": ["eu", "us"]}}`)},
		{ToolCallID: "d", Tool: run.ToolApprove, Input: raw(`{"prompt": "spend 5?", "arguments": {"usd": 5}}`)},
	}})
	until(ctx, t, in, id, func(r run.Run) bool {
		return callIs(1, "a", run.CallApproval)(r) && callIs(1, "b", run.CallApproval)(r) && callIs(1, "c", run.CallAsking)(r) && callIs(1, "d", run.CallApproval)(r)
	})
	d, err := in.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	require.Equal(t, run.StateWaitingInput, d.Run.State)
	require.Len(t, d.Asks, 4)
	require.Equal(t, "which region?", d.Asks[2].Prompt)
	require.EqualValues(t, 0, tasksOf(ctx, t, in, id))

	approve := func(call, decision, input, message string) run.Reason {
		out, err := in.Client.Approve(ctx, id, protocol.Approve{CallID: protocol.CallID{ToolCallID: call}, Decision: decision, Input: raw(input), Message: message, By: "ann"})
		if err != nil {
			return run.Reason(codeOf(t, err))
		}
		return out.Reason
	}
	require.Equal(t, run.ReasonEdited, approve("a", run.DecisionEdit, `{"to": "staging"}`, "not on friday"))
	require.Equal(t, run.ReasonDenied, approve("b", run.DecisionDeny, ``, "never"))
	require.Equal(t, run.ReasonApproved, approve("d", run.DecisionApprove, ``, ""))
	_, err = in.Client.AnswerRun(ctx, id, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "c"}, Answer: raw(`"moon"`), By: "ben"})
	require.Equal(t, starter.CodeInvalid, codeOf(t, err), "the schema of the question")
	_, err = in.Client.AnswerRun(ctx, id, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "c"}, Answer: raw(`"eu"`), By: "ben"})
	require.NoError(t, err)
	until(ctx, t, in, id, callIs(1, "a", run.CallOpen))
	succeed(ctx, t, in, protocol.CallTaskID(id, 1, "a"), `"deployed"`)
	req := step(ctx, t, in, id, run.StepResponse{Final: raw(`1`)})
	require.Len(t, req.Results, 4)
	a, b, c, dd := req.Results[0], req.Results[1], req.Results[2], req.Results[3]
	require.JSONEq(t, `{"to": "staging"}`, string(a.Input))
	require.True(t, a.InputEdited)
	require.Equal(t, "ann", a.Approval.By)
	require.Equal(t, run.CallDenied, b.State)
	require.Equal(t, "never", b.Error.Message)
	require.JSONEq(t, `"eu"`, string(c.Result))
	require.Equal(t, run.CallSucceeded, dd.State)
	require.Contains(t, string(dd.Result), `"decision":"approve"`)
	ended(ctx, t, in, id)
}

// A run is a tool of a run: what it asks is shown above, what it uses counts above, and
// cancelling goes down.
func TestARunOfARun(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{
		{ToolCallID: "sub", Tool: run.ToolRun, Input: raw(`{"title": "below", "input": "think"}`)},
		{ToolCallID: "other", Tool: run.ToolRun, Input: raw(`{"input": "wait"}`)},
	}})
	sub, other := protocol.SubRunID(id, 1, "sub"), protocol.SubRunID(id, 1, "other")
	until(ctx, t, in, id, func(r run.Run) bool {
		return callIs(1, "sub", run.CallOpen)(r) && callIs(1, "other", run.CallOpen)(r)
	})
	first := step(ctx, t, in, sub, run.StepResponse{
		ToolCalls: []run.ToolCall{{ToolCallID: "q", Tool: run.ToolAsk, Input: raw(`{"prompt": "sure?"}`)}},
		Usage:     []run.Usage{{Model: "m", InputTokens: 100, OutputTokens: 1}},
	})
	require.JSONEq(t, `"think"`, string(first.Inputs[0].Content))
	until(ctx, t, in, id, stateIs(run.StateWaitingInput))
	d, err := in.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	require.Len(t, d.Asks, 1)
	require.Equal(t, sub, d.Asks[0].RunID)
	_, err = in.Client.AnswerRun(ctx, sub, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "q"}, Answer: raw(`"yes"`)})
	require.NoError(t, err)
	step(ctx, t, in, sub, run.StepResponse{Final: raw(`{"thought": 1}`)})
	until(ctx, t, in, id, callIs(1, "sub", run.CallSucceeded))
	_, err = in.Client.CancelCall(ctx, id, protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: "other"}, Message: "enough", By: "ann"})
	require.NoError(t, err)
	req := step(ctx, t, in, id, run.StepResponse{Final: raw(`1`)})
	require.JSONEq(t, `{"thought": 1}`, string(req.Results[0].Result))
	require.Equal(t, run.CallCancelled, req.Results[1].State)
	require.Equal(t, "enough", req.Results[1].Error.Message)
	require.EqualValues(t, 101, req.Limits.Tokens)
	below, err := in.Client.DescribeRun(ctx, other)
	require.NoError(t, err)
	require.Equal(t, run.StateCancelled, below.Run.State)
	ended(ctx, t, in, id)
}

// What a run does not know is found by its recovery, and twice changes nothing.
func TestRecover(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in := harness.Install(t, shared, tenantOf(t), twoTools+"runtimes: {assistant: {pull: {}, checkEvery: 1h}}\n", nil).StartWorker()
	started, err := in.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant"})
	require.NoError(t, err)
	id := started.RunID
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "a", Tool: "review"}, {ToolCallID: "b", Tool: "review"}}})
	until(ctx, t, in, id, func(r run.Run) bool { return callIs(1, "a", run.CallOpen)(r) && callIs(1, "b", run.CallOpen)(r) })
	require.NoError(t, in.Temporal.TerminateWorkflow(ctx, protocol.TaskWorkflowID(in.Config.Tenant, protocol.CallTaskID(id, 1, "a")), "", "by hand"))
	dry, err := in.Client.RecoverRun(ctx, id, protocol.Recover{By: "ann", DryRun: true})
	require.NoError(t, err)
	require.Equal(t, protocol.FoundTerminated, dry.Calls[0].Found)
	require.Zero(t, dry.Changed)
	rec, err := in.Client.RecoverRun(ctx, id, protocol.Recover{By: "ann"})
	require.NoError(t, err)
	require.Equal(t, 1, rec.Changed)
	require.Equal(t, "result taken", rec.Calls[0].Did)
	require.Equal(t, string(domain.StateQueued), rec.Calls[1].Found)
	d, err := in.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	again, err := in.Client.RecoverRun(ctx, id, protocol.Recover{By: "ann"})
	require.NoError(t, err)
	require.Zero(t, again.Changed)
	same, err := in.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	require.Equal(t, d.Run.Version, same.Run.Version)
}

// What a model writes into an input that only looks like a reference is data, and a
// reference that leads nowhere is for the model to read. A model that wrote one of its own
// had its whole step refused.
func TestReferencesOfAModel(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, `
  note: {executor: external, ttl: 1h, inputSchema: {type: object, properties: {"$from": {type: string}}, required: ["$from"], additionalProperties: false}}
`)
	step(ctx, t, in, id, run.StepResponse{ToolCalls: []run.ToolCall{
		{ToolCallID: "data", Tool: "note", Input: raw(`{"$from":"ann"}`)},
		{ToolCallID: "a", Tool: "double", Input: raw(`{"n":1}`)},
		{ToolCallID: "stranger", Tool: "double", DependsOn: []string{"a"}, Input: raw(`{"n":{"$from":"data"}}`)},
		{ToolCallID: "nowhere", Tool: "double", DependsOn: []string{"a"}, Input: raw(`{"n":{"$from":"a","pointer":"/no/such"}}`)},
		{ToolCallID: "broken", Tool: "double", DependsOn: []string{"a"}, Input: raw(`{"n":{"$from":7}}`)},
	}})
	until(ctx, t, in, id, callIs(1, "data", run.CallOpen))
	succeed(ctx, t, in, protocol.CallTaskID(id, 1, "data"), `1`)
	req := step(ctx, t, in, id, run.StepResponse{Final: raw(`1`)})
	require.Equal(t, run.CallSucceeded, req.Results[0].State)
	for i, want := range []string{"call data is not in dependsOn", "nothing at /no/such", "the id of a call"} {
		res := req.Results[i+2]
		require.Equal(t, run.CallFailed, res.State)
		require.Equal(t, run.CodeInvalidInput, res.Error.Code)
		require.Contains(t, res.Error.Message, want)
	}
	ended(ctx, t, in, id)
}
