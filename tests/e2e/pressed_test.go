package e2e

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// What the buttons of the Temporal UI do, by the calls that they make.

const pressedTools = `
tools:
  review:
    executor: external
    ttl: 1h
    cancelGrace: 1s
  build:
    executor: script
    ttl: 1h
    poll: 100ms
`

func (b bed) execution(taskID string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: b.WorkflowID(taskID)}
}

func (b bed) pressCancel(taskID string) {
	b.T.Helper()
	_, err := b.Temporal.WorkflowService().RequestCancelWorkflowExecution(b.Ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: b.execution(taskID), Reason: "pressed",
	})
	require.NoError(b.T, err)
}

func (b bed) pressTerminate(taskID string) {
	b.T.Helper()
	_, err := b.Temporal.WorkflowService().TerminateWorkflowExecution(b.Ctx, &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: b.execution(taskID), Reason: "pressed",
	})
	require.NoError(b.T, err)
}

// pressReset goes back to the end of a workflow task, by default with the
// signals and updates that came after it, as the UI does.
func (b bed) pressReset(taskID string, eventID int64, exclude ...enumspb.ResetReapplyExcludeType) (runID string) {
	b.T.Helper()
	resp, err := b.Temporal.WorkflowService().ResetWorkflowExecution(b.Ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: b.execution(taskID), Reason: "pressed", RequestId: taskID + "-reset",
		WorkflowTaskFinishEventId: eventID, ResetReapplyExcludeTypes: exclude,
	})
	require.NoError(b.T, err)
	return resp.GetRunId()
}

func (b bed) status(taskID string) enumspb.WorkflowExecutionStatus {
	b.T.Helper()
	d, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(taskID), "")
	require.NoError(b.T, err)
	return d.Status
}

func TestCancelPressedInTheUI(t *testing.T) {
	t.Parallel()
	script := harness.NewScript()
	b := newBed(within(t, 3*time.Minute), t, pressedTools, script)
	b.StartWorker()

	t.Run("queued", func(t *testing.T) {
		b := b.in(t)
		b.Park("review", "queued")
		b.pressCancel("queued")
		b.UntilClosed("queued")
		d := b.Describe("queued")
		require.Equal(t, domain.StateCancelled, d.Task.State)
		require.Equal(t, "temporal", d.Task.Cancel.By)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, b.status("queued"))
	})
	t.Run("running, the outside says that it has stopped", func(t *testing.T) {
		b := b.in(t)
		b.Submit("build", "obedient")
		key := b.JobKey("obedient", 1)
		b.UntilState("obedient", domain.StateRunning)
		b.pressCancel("obedient")
		require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Cancelled }))
		require.Equal(t, domain.StateRunning, b.Describe("obedient").Task.State, "a request is not an end")
		script.Say(key, tool.Observation{State: tool.StateCancelled, Definite: true})
		b.UntilClosed("obedient")
		require.True(t, *b.Describe("obedient").Task.Confirmed)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, b.status("obedient"))
	})
	t.Run("running, nobody answers within the grace", func(t *testing.T) {
		b := b.in(t)
		b.Submit("review", "silent")
		b.Callback("silent", "s", harness.Start("ann"))
		b.pressCancel("silent")
		b.UntilClosed("silent")
		d := b.Describe("silent")
		require.Equal(t, domain.StateCancelled, d.Task.State)
		require.False(t, *d.Task.Confirmed)
		require.Contains(t, d.NextStep, "check outside")
	})
	t.Run("running, the work is done first", func(t *testing.T) {
		b := b.in(t)
		b.Submit("build", "finished")
		key := b.JobKey("finished", 1)
		b.UntilState("finished", domain.StateRunning)
		b.pressCancel("finished")
		require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Cancelled }))
		script.Say(key, harness.Stored("s3://results/h", "h"))
		b.UntilClosed("finished")
		require.Equal(t, domain.StateSucceeded, b.Describe("finished").Task.State)
		require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, b.status("finished"), "what succeeded is not shown as cancelled")
	})
}

// Terminate leaves no record, and everybody who asks is told so by a code.
func TestTerminatePressedInTheUI(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, pressedTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("review", id)
	b.Callback(id, "s", harness.Start("ann"))
	b.pressTerminate(id)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, b.status(id))

	_, err := b.Client.Describe(b.Ctx, id)
	require.ErrorIs(t, err, starter.ErrTerminated)
	require.Equal(t, starter.CodeTerminated, starter.CodeOf(err))
	require.ErrorContains(t, err, "was terminated in Temporal and left no record")
	_, err = b.Client.Resume(b.Ctx, id, 0)
	require.ErrorIs(t, err, starter.ErrTerminated)
	_, err = b.Client.Result(b.Ctx, id)
	require.ErrorIs(t, err, starter.ErrTerminated)
	_, err = b.Client.Callback(b.Ctx, id, domain.Callback{CallbackID: "late", Event: harness.Succeed("h")})
	require.ErrorIs(t, err, starter.ErrTerminated)
	_, err = b.Client.Cancel(b.Ctx, id, protocol.Cancel{})
	require.ErrorIs(t, err, starter.ErrTerminated)
	_, err = b.Client.Retry(b.Ctx, id, starter.Retry{})
	require.ErrorIs(t, err, starter.ErrTerminated)
	_, err = b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
	require.ErrorIs(t, err, starter.ErrTerminated)
	for _, err := range b.Client.Watch(b.Ctx, id, 0) {
		require.ErrorIs(t, err, starter.ErrTerminated)
	}

	again, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: "review", TaskID: id})
	require.NoError(t, err)
	require.True(t, again.Existing, "the id stays taken: nothing is started a second time by a repeat")
}

// Pause stops the workflow and nothing else: what comes meanwhile is kept, and
// what came in time has happened in time.
func TestPausePressedInTheUI(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, awayTools, nil)
	b.StartWorker()
	id := "t-1"
	b.Submit("brief", id)
	b.Callback(id, "begin", harness.Start("ann"))
	deadline := b.Describe(id).Task.ExpiresAtMs
	_, err := b.Temporal.WorkflowService().PauseWorkflowExecution(b.Ctx, &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: b.WorkflowID(id), Reason: "pressed", RequestId: "pause",
	})
	require.NoError(t, err)
	_, err = b.Client.Describe(b.Ctx, id)
	require.ErrorIs(t, err, starter.ErrNoWorker)
	require.ErrorContains(t, err, "is paused in Temporal")
	v := b.Callback(id, "end", harness.Succeed("h"))
	require.Equal(t, starter.VerdictTaken, v.Verdict)
	require.Less(t, time.Now().UnixMilli(), deadline, "the machine is too slow for this test's deadline")
	harness.Until(t, time.Minute, "the deadline is over", func() bool { return time.Now().UnixMilli() > deadline+100 })
	_, err = b.Temporal.WorkflowService().UnpauseWorkflowExecution(b.Ctx, &workflowservice.UnpauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: b.WorkflowID(id), Reason: "pressed", RequestId: "unpause",
	})
	require.NoError(t, err)
	b.UntilClosed(id)
	require.Equal(t, domain.StateSucceeded, b.Describe(id).Task.State)
}

// Reset makes another past. A task that is reset comes to the same end with the
// callbacks that the server brings along, and tells nobody twice.
func TestResetPressedInTheUI(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
	t.Cleanup(target.Close)
	script := harness.NewScript()
	b := newBed(within(t, 4*time.Minute), t, historyTools(target.URL), script)
	b.StartWorker()

	t.Run("to the beginning, with what came since", func(t *testing.T) {
		b := b.in(t)
		b.told("whole")
		before := b.Describe("whole")
		require.EqualValues(t, 1, told.Load())
		run := b.pressReset("whole", firstTaskEnd)
		b.UntilClosed("whole")
		after := b.Describe("whole")
		require.Equal(t, run, after.RunID)
		require.Equal(t, before.Task, after.Task, "the same callbacks at the same times make the same task")
		require.EqualValues(t, 1, told.Load(), "the delivery's id is a lock")
	})
	t.Run("to before the last callback, without it", func(t *testing.T) {
		b := b.in(t)
		b.Park("review", "undone")
		b.three("undone")
		// The end of the workflow task that took the second callback.
		b.pressReset("undone", 13, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE)
		d := b.Describe("undone")
		require.False(t, d.Closed)
		require.Equal(t, domain.StateRunning, d.Task.State)
		require.Equal(t, []domain.EventType{domain.EventStart}, eventTypes(d.Task), "a reset goes to before what the workflow task did")
		v := b.Callback("undone", "done", harness.Succeed("other"))
		require.Equal(t, domain.ReasonSucceeded, v.Outcome.Reason, "the forgotten callback may come again")
	})
	t.Run("of a job that runs", func(t *testing.T) {
		b := b.in(t)
		b.Submit("build", "job")
		key := b.JobKey("job", 1)
		require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Looks > 2 }))
		b.pressReset("job", firstTaskEnd)
		require.NoError(t, script.Await(b.Ctx, key, func(c harness.Counts) bool { return c.Submits == 2 }))
		script.Say(key, harness.Stored("s3://results/h", "h"))
		b.UntilClosed("job")
		d := b.Describe("job")
		require.Equal(t, domain.StateSucceeded, d.Task.State)
		require.Equal(t, 1, d.Task.Attempts, "the same key is the same job: it ran once")
	})
}

// firstTaskEnd is the event by which the first workflow task of a workflow
// without early callbacks ends.
const firstTaskEnd = 4
