package runs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// pulling is an installation with a runtime that pulls, and a run of it.
func pulling(ctx context.Context, t testing.TB, more string) (*harness.Installation, string) {
	t.Helper()
	in := harness.Install(t, shared, tenantOf(t), twoTools+more+"\nruntimes: {assistant: {pull: {}, checkEvery: 1s}}\n", nil).StartWorker()
	started, err := in.Client.StartRun(ctx, starter.RunStart{Runtime: "assistant", Input: raw(`"go"`)})
	require.NoError(t, err)
	return in, started.RunID
}

func next(ctx context.Context, t testing.TB, in *harness.Installation, runID string) run.StepRequest {
	t.Helper()
	req, err := in.Client.Next(ctx, runID, starter.NextOptions{Holder: "t", Wait: time.Minute})
	require.NoError(t, err)
	return req
}

// step takes the next step with an answer that must be taken.
func step(ctx context.Context, t testing.TB, in *harness.Installation, runID string, resp run.StepResponse) run.StepRequest {
	t.Helper()
	req := next(ctx, t, in, runID)
	_, err := in.Client.Commit(ctx, runID, req.Step, req.StepToken, resp)
	require.NoError(t, err)
	return req
}

func codeOf(t testing.TB, err error) starter.Code {
	t.Helper()
	var e *starter.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

// tasksOf counts the tasks of a run by the engine's index.
func tasksOf(ctx context.Context, t testing.TB, in *harness.Installation, runID string) int64 {
	t.Helper()
	res, err := in.Temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: "WorkflowType = 'AsyncTask' AND WakepointRun = '" + runID + "'",
	})
	require.NoError(t, err)
	return res.GetCount()
}

// What is refused names its rule, starts nothing, and leaves the step with its runtime.
func TestCommitsThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	req := next(ctx, t, in, id)
	call := func(id string, needs ...string) run.ToolCall {
		return run.ToolCall{ToolCallID: id, Tool: "review", DependsOn: needs}
	}
	huge := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 17<<20)...), '"')
	for _, c := range []struct {
		name  string
		resp  run.StepResponse
		code  starter.Code
		field string
	}{
		{"a repeated id", run.StepResponse{ToolCalls: []run.ToolCall{call("a"), call("a")}}, starter.CodeInvalid, "toolCalls[1].toolCallId"},
		{"an unknown dependency", run.StepResponse{ToolCalls: []run.ToolCall{call("a", "b")}}, starter.CodeInvalid, "toolCalls[0].dependsOn"},
		{"a cycle", run.StepResponse{ToolCalls: []run.ToolCall{call("a", "b"), call("b", "a")}}, starter.CodeInvalid, "toolCalls"},
		{"a checkpoint of 17 MiB", run.StepResponse{Checkpoint: huge, Final: raw(`1`)}, starter.CodeInvalid, "checkpoint"},
		{"final with a call", run.StepResponse{Final: raw(`1`), ToolCalls: []run.ToolCall{call("a")}}, starter.CodeInvalid, "toolCalls[0]"},
		{"nothing to wait for", run.StepResponse{}, starter.CodeNothingToWait, ""},
		{"a word that is none", run.StepResponse{Await: "Godot"}, starter.CodeInvalid, "await"},
	} {
		_, err := in.Client.Commit(ctx, id, req.Step, req.StepToken, c.resp)
		require.Equal(t, c.code, codeOf(t, err), c.name)
		var e *starter.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.field, e.Field, "%s: %s", c.name, e.Message)
	}
	_, err := in.Client.Commit(ctx, id, req.Step+1, req.StepToken, run.StepResponse{Final: raw(`1`)})
	require.Equal(t, starter.CodeStepAhead, codeOf(t, err))
	_, err = in.Client.Commit(ctx, id, req.Step, "step-1-1-of-somebody", run.StepResponse{Final: raw(`1`)})
	require.Equal(t, starter.CodeStaleToken, codeOf(t, err))

	_, err = in.Client.Commit(ctx, id, req.Step, req.StepToken, run.StepResponse{ToolCalls: []run.ToolCall{call("a")}, Wake: run.WakeAny, WakeOnInput: true})
	require.NoError(t, err, "the step was with its runtime all the time")
	_, err = in.Client.Say(ctx, id, saidBy("ann", "hurry", `"hurry"`))
	require.NoError(t, err)
	req = next(ctx, t, in, id)
	require.Len(t, req.Pending, 1)
	_, err = in.Client.Commit(ctx, id, req.Step, req.StepToken, run.StepResponse{Final: raw(`1`)})
	require.Equal(t, starter.CodeInvalid, codeOf(t, err), "final with an open call")
	// The index lags behind the engine by moments.
	harness.Until(t, time.Minute, "the task is in the index", func() bool { return tasksOf(ctx, t, in, id) > 0 })
	require.EqualValues(t, 1, tasksOf(ctx, t, in, id), "nothing that was refused was started")

	end := run.StepResponse{Final: raw(`1`), CancelCalls: []run.CancelCall{{ToolCallID: "a", AskedAtStep: 1}}}
	_, err = in.Client.Commit(ctx, id, req.Step, req.StepToken, end)
	require.NoError(t, err)
	ended(ctx, t, in, id)
	out, err := in.Client.Commit(ctx, id, req.Step, req.StepToken, end)
	require.NoError(t, err, "the same commit again has the same answer, also when the run is closed")
	require.Equal(t, run.ReasonFinished, out.Reason)
	_, err = in.Client.Commit(ctx, id, req.Step+1, req.StepToken, run.StepResponse{Final: raw(`2`)})
	require.Equal(t, starter.CodeEnded, codeOf(t, err), "a commit for a run that has ended")
}

// Of two commits at once one wins, and the other is told.
func TestTwoCommitsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	req := next(ctx, t, in, id)
	const rivals = 8
	errs := make([]error, rivals)
	var wait sync.WaitGroup
	for i := range rivals {
		wait.Go(func() {
			_, errs[i] = in.Client.Commit(ctx, id, req.Step, req.StepToken, run.StepResponse{Checkpoint: raw(`{"by": ` + string(rune('0'+i)) + `}`), Await: run.AwaitInput})
		})
	}
	wait.Wait()
	won := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, won, "two have won")
			won = i
			continue
		}
		require.Equal(t, starter.CodeCommitConflict, codeOf(t, err))
	}
	require.NotEqual(t, -1, won)
	d, err := in.Client.DescribeRun(ctx, id)
	require.NoError(t, err)
	require.Equal(t, `{"by": `+string(rune('0'+won))+`}`, string(d.Run.Checkpoint.Data))
	require.Equal(t, 1, d.Run.StepsDone)
}

// A step that was given to somebody else is not taken from the one who had it.
func TestAnOldStepToken(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	old := next(ctx, t, in, id)
	again := next(ctx, t, in, id)
	require.Equal(t, 2, again.Attempt, "the same holder asks again: it has lost the step")
	require.Equal(t, old.Inputs, again.Inputs)
	_, err := in.Client.Next(ctx, id, starter.NextOptions{Holder: "other"})
	require.Equal(t, starter.CodeStepHeld, codeOf(t, err))
	_, err = in.Client.Commit(ctx, id, old.Step, old.StepToken, run.StepResponse{Final: raw(`"old"`)})
	require.Equal(t, starter.CodeStaleToken, codeOf(t, err))
	_, err = in.Client.Commit(ctx, id, again.Step, again.StepToken, run.StepResponse{Final: raw(`"new"`)})
	require.NoError(t, err)
	require.Equal(t, `"new"`, string(ended(ctx, t, in, id).Final.Data))
}

// A checkpoint of 16 MiB comes back byte for byte.
func TestACheckpointOf16MiB(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	big := append(append([]byte(`{ "text": "`), bytes.Repeat([]byte("<x>"), (run.MaxCheckpoint-16)/3)...), []byte(`"}`)...)
	step(ctx, t, in, id, run.StepResponse{Checkpoint: big, Await: run.AwaitInput})
	_, err := in.Client.Say(ctx, id, saidBy("ann", "go-on", `"go on"`))
	require.NoError(t, err)
	req := step(ctx, t, in, id, run.StepResponse{Final: raw(`1`)})
	require.True(t, bytes.Equal(big, req.Checkpoint), "%d bytes of %d", len(req.Checkpoint), len(big))
	r := ended(ctx, t, in, id)
	require.Empty(t, r.Checkpoint.Data, "it lies in the blob store")
}

// A run with large checkpoints does not keep every one that it ever had.
func TestOldCheckpointsGo(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	in, id := pulling(ctx, t, "")
	const steps = 3 * run.MaxSuperseded
	for i := range steps {
		big := append(append([]byte(`"`), bytes.Repeat([]byte{byte('a' + i)}, run.MaxInline)...), '"')
		step(ctx, t, in, id, run.StepResponse{Checkpoint: big, Await: run.AwaitInput})
		_, err := in.Client.Say(ctx, id, saidBy("ann", fmt.Sprint("i", i), `1`))
		require.NoError(t, err)
	}
	req := next(ctx, t, in, id)
	require.Equal(t, byte('a'+steps-1), req.Checkpoint[1], "the newest is there")
	kept := 0
	for info, err := range in.Store.List(ctx, in.Config.Tenant, "") {
		require.NoError(t, err)
		if strings.Contains(info.Ref, "/run/"+id+"/") {
			kept++
		}
	}
	require.LessOrEqual(t, kept, run.MaxSuperseded+1)
	_, err := in.Client.Commit(ctx, id, req.Step, req.StepToken, run.StepResponse{Final: raw(`1`)})
	require.NoError(t, err)
	ended(ctx, t, in, id)
}
