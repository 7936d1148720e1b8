package harness

import (
	"context"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// History reads all events of one run, of the current one for an empty run id.
func History(ctx context.Context, c client.Client, workflowID, runID string) ([]*historypb.HistoryEvent, error) {
	it := c.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var events []*historypb.HistoryEvent
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", workflowID, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Runs reads the histories of all runs of a workflow that led to each other by
// continue-as-new, the oldest first. The last one is the current run.
func Runs(ctx context.Context, c client.Client, workflowID string) ([][]*historypb.HistoryEvent, error) {
	var runs [][]*historypb.HistoryEvent
	for runID := ""; ; {
		events, err := History(ctx, c, workflowID, runID)
		if err != nil {
			return nil, err
		}
		runs = append([][]*historypb.HistoryEvent{events}, runs...)
		runID = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if runID == "" {
			return runs, nil
		}
	}
}

// Hiccup tells whether the engine itself had to repeat a workflow task: on a
// busy machine a worker may be too slow to take it. Such a history has events
// that say nothing about the task.
func Hiccup(events []*historypb.HistoryEvent) bool {
	for _, e := range events {
		switch e.GetEventType() { //nolint:exhaustive // only these two are repeats
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			return true
		}
	}
	return false
}

// Lines prints events as people would tell them, one line each: the number, the
// type, and what tells it from others of its type. Nothing in them depends on
// when or where the workflow ran.
func Lines(events []*historypb.HistoryEvent) []string {
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = strings.TrimRight(fmt.Sprintf("%3d  %-42s %s", e.GetEventId(), e.GetEventType(), about(e, events)), " ")
	}
	return lines
}

// about is what an event is about.
func about(e *historypb.HistoryEvent, all []*historypb.HistoryEvent) string {
	// An event that closes something is about what opened it.
	opener := func(id int64) string { return about(all[id-1], nil) }
	switch a := e.GetAttributes().(type) {
	case *historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes:
		return a.WorkflowExecutionStartedEventAttributes.GetWorkflowType().GetName()
	case *historypb.HistoryEvent_TimerStartedEventAttributes:
		return summaryOf(e)
	case *historypb.HistoryEvent_TimerFiredEventAttributes:
		return opener(a.TimerFiredEventAttributes.GetStartedEventId())
	case *historypb.HistoryEvent_TimerCanceledEventAttributes:
		return opener(a.TimerCanceledEventAttributes.GetStartedEventId())
	case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
		return a.ActivityTaskScheduledEventAttributes.GetActivityType().GetName() + note(summaryOf(e))
	case *historypb.HistoryEvent_ActivityTaskStartedEventAttributes:
		return opener(a.ActivityTaskStartedEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
		return opener(a.ActivityTaskCompletedEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_ActivityTaskFailedEventAttributes:
		return opener(a.ActivityTaskFailedEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes:
		return opener(a.ActivityTaskTimedOutEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_ActivityTaskCancelRequestedEventAttributes:
		return opener(a.ActivityTaskCancelRequestedEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_ActivityTaskCanceledEventAttributes:
		return opener(a.ActivityTaskCanceledEventAttributes.GetScheduledEventId())
	case *historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes:
		return a.WorkflowExecutionSignaledEventAttributes.GetSignalName()
	case *historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes:
		return a.WorkflowExecutionUpdateAcceptedEventAttributes.GetAcceptedRequest().GetInput().GetName()
	case *historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes:
		return opener(a.WorkflowExecutionUpdateCompletedEventAttributes.GetAcceptedEventId())
	case *historypb.HistoryEvent_MarkerRecordedEventAttributes:
		return a.MarkerRecordedEventAttributes.GetMarkerName() + note(localActivity(a.MarkerRecordedEventAttributes))
	case *historypb.HistoryEvent_UpsertWorkflowSearchAttributesEventAttributes:
		return attributes(a.UpsertWorkflowSearchAttributesEventAttributes)
	case *historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes:
		return a.StartChildWorkflowExecutionInitiatedEventAttributes.GetWorkflowType().GetName()
	case *historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes:
		return a.ChildWorkflowExecutionStartedEventAttributes.GetWorkflowType().GetName()
	case *historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes:
		return a.WorkflowExecutionFailedEventAttributes.GetFailure().GetApplicationFailureInfo().GetType()
	}
	return ""
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func summaryOf(e *historypb.HistoryEvent) string {
	var s string
	if p := e.GetUserMetadata().GetSummary(); p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &s)
	}
	return s
}

// localActivity is the type of the activity that a marker stands for.
func localActivity(m *historypb.MarkerRecordedEventAttributes) string {
	var data struct{ ActivityType string }
	for _, p := range m.GetDetails()["data"].GetPayloads() {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &data)
	}
	return data.ActivityType
}

func attributes(a *historypb.UpsertWorkflowSearchAttributesEventAttributes) string {
	var s string
	if p, ok := a.GetSearchAttributes().GetIndexedFields()["WakepointState"]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &s)
		return "WakepointState: " + s
	}
	return ""
}
