package replay

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/worker"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func replay(h *historypb.History) error { return replayWith(h, worker.RegisterWorkflows) }

func replayWith(h *historypb.History, register func(sdkworker.WorkflowRegistry)) error {
	r, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{})
	if err != nil {
		return err
	}
	register(r)
	return r.ReplayWorkflowHistory(harness.Quiet(), h)
}

func recorded(t *testing.T) map[string]*historypb.History {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testdata, "*.json"))
	require.NoError(t, err)
	all := make(map[string]*historypb.History)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
		require.NoError(t, err, "%s", file)
		require.NoError(t, f.Close())
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = h
	}
	return all
}

// Histories that were recorded when the code was another still replay.
func TestReplay(t *testing.T) {
	t.Parallel()
	all := recorded(t)
	for _, l := range lives() {
		require.Contains(t, all, l.name+"-1", "every life is recorded: make record-histories")
	}
	for _, l := range runLives() {
		require.Contains(t, all, l.name+"-1", "every life is recorded: make record-histories")
	}
	for name, h := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, replay(h))
		})
	}
}

// The recorded histories have all that a workflow of ours ever commands, so
// that a change of any of it is noticed.
func TestHistoriesHaveEverything(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, h := range recorded(t) {
		for _, line := range harness.Lines(h.GetEvents()) {
			seen[strings.Join(strings.Fields(line)[1:], " ")] = true
		}
	}
	for _, want := range []string{
		"TimerStarted deadline", "TimerFired deadline", "TimerStarted retry wait", "TimerFired retry wait",
		"TimerStarted cancel grace", "TimerStarted late result grace", "TimerCanceled deadline",
		"ActivityTaskScheduled SubmitTool: submit attempt 1", "ActivityTaskScheduled SubmitTool: submit attempt 2",
		"ActivityTaskCompleted ProbeTool: watch the outside job", "ActivityTaskScheduled AskTool: ask the outside how it stands",
		"ActivityTaskCompleted CancelTool: ask the outside to stop",
		"ActivityTaskScheduled HoldLease: lease of the worker outside", "ActivityTaskTimedOut HoldLease: lease of the worker outside",
		"ActivityTaskCancelRequested HoldLease: lease of the worker outside", "ActivityTaskCompleted SendDelivery: send to ops",
		"ActivityTaskFailed SendDelivery: send to gone",
		"MarkerRecorded LocalActivity: StoreInline", "MarkerRecorded LocalActivity: NotifyRun",
		"StartChildWorkflowExecutionInitiated Delivery", "WorkflowExecutionSignaled callback",
		"WorkflowExecutionUpdateAccepted callback", "WorkflowExecutionUpdateAccepted answer", "WorkflowExecutionUpdateAccepted attach",
		"WorkflowExecutionUpdateAccepted cancel",
		"UpsertWorkflowSearchAttributes WakepointState: succeeded", "UpsertWorkflowSearchAttributes WakepointState: failed",
		"UpsertWorkflowSearchAttributes WakepointState: expired", "UpsertWorkflowSearchAttributes WakepointState: cancelled",
		"WorkflowExecutionCancelRequested", "WorkflowExecutionContinuedAsNew", "WorkflowExecutionCompleted", "WorkflowExecutionCanceled",
		"TimerStarted stall time", "TimerFired stall time", "ActivityTaskScheduled RunTool: run attempt 1", "ActivityTaskScheduled RunTool: run attempt 2",
		"ActivityTaskScheduled RunTool: wait for a slot and hold it for the outside job", "WorkflowExecutionSignaled submitted",
		"ActivityTaskCompleted CompensateTool: undo by refund", "UpsertWorkflowSearchAttributes WakepointState: manual",
		"WorkflowExecutionUpdateAccepted detach", "WorkflowExecutionUpdateAccepted resolve", "WorkflowExecutionUpdateAccepted reconcile",
		"ActivityTaskCompleted SweepBlobs: sweep the results", "ActivityTaskCompleted SweepJobs: sweep the jobs of the host",
		"WorkflowExecutionUpdateAccepted claim", "WorkflowExecutionUpdateAccepted commit", "WorkflowExecutionUpdateAccepted heartbeat",
		"WorkflowExecutionUpdateAccepted approve", "WorkflowExecutionUpdateAccepted input", "WorkflowExecutionUpdateAccepted cancel-call",
		"WorkflowExecutionUpdateAccepted pause", "WorkflowExecutionUpdateAccepted unpause", "WorkflowExecutionUpdateAccepted recover",
		"WorkflowExecutionSignaled task-finished", "WorkflowExecutionSignaled run-finished", "WorkflowExecutionSignaled run-asks",
		"ActivityTaskCompleted StartCalls: start 1 calls", "MarkerRecorded LocalActivity: StartCalls", "MarkerRecorded LocalActivity: CancelCalls",
		"ActivityTaskCompleted CancelCalls: tell tasks what the run wants", "ActivityTaskCompleted WatchCalls: standing check",
		"ActivityTaskCompleted InspectCalls: recover", "MarkerRecorded LocalActivity: PrepareStep", "ActivityTaskCompleted AgentStep: step 1, attempt 2",
		"ActivityTaskCompleted PushStep: step 1, attempt 1, to server", "MarkerRecorded LocalActivity: NotifyParent", "TimerStarted patience with a call",
		"TimerFired lease of the step", "UpsertWorkflowSearchAttributes WakepointState: WAITING_INPUT", "UpsertWorkflowSearchAttributes WakepointState: SUCCEEDED",
		"WorkflowExecutionFailed RunFailed", "WorkflowExecutionFailed RunExpired",
		"WorkflowExecutionFailed TaskFailed", "WorkflowExecutionFailed TaskExpired", "WorkflowExecutionFailed DeadLetter",
	} {
		require.True(t, seen[want], "no recorded history has %q, among %q", want, slices.Sorted(maps.Keys(seen)))
	}
}

// nonDeterminism is Temporal's code for a workflow whose code does not fit its
// history.
const nonDeterminism = "TMPRL1100"

// A workflow that has been changed without a version fails on every history.
// Without this, a replay that checks nothing would look like one that succeeds.
func TestBrokenWorkflowsDoNotReplay(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(workflow.Context){
		"an activity more": func(ctx workflow.Context) {
			workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute}), "Extra")
		},
		"a child more": func(ctx workflow.Context) { workflow.ExecuteChildWorkflow(ctx, "Extra") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for file, h := range recorded(t) {
				err := replayWith(h, func(r sdkworker.WorkflowRegistry) {
					r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in protocol.TaskInput) (*protocol.TaskRecord, error) {
						first(ctx)
						return workflows.AsyncTask(ctx, in)
					}, workflow.RegisterOptions{Name: protocol.WorkflowAsyncTask})
					r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in protocol.DeliveryInput) (*protocol.DeliveryRecord, error) {
						first(ctx)
						return workflows.Delivery(ctx, in)
					}, workflow.RegisterOptions{Name: protocol.WorkflowDelivery})
					r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in protocol.RunInput) (*protocol.RunRecord, error) {
						first(ctx)
						return workflows.AgentRun(ctx, in)
					}, workflow.RegisterOptions{Name: protocol.WorkflowAgentRun})
					r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in protocol.SweepInput) (*protocol.SweepReport, error) {
						first(ctx)
						return workflows.Sweep(ctx, in)
					}, workflow.RegisterOptions{Name: protocol.WorkflowSweep})
				})
				require.ErrorContains(t, err, nonDeterminism, "%s", file)
			}
		})
	}
}

// A history that ends in another way than the workflow would is noticed, too.
func TestForgedHistoriesDoNotReplay(t *testing.T) {
	t.Parallel()
	forged := 0
	for file, h := range recorded(t) {
		for _, e := range h.GetEvents() {
			a := e.GetActivityTaskScheduledEventAttributes()
			if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED && a.GetActivityType().GetName() == protocol.ActivityProbe {
				a.ActivityType.Name = protocol.ActivityAsk
				forged++
				require.ErrorContains(t, replay(h), nonDeterminism, "%s", file)
				break
			}
		}
	}
	require.Positive(t, forged)
}
