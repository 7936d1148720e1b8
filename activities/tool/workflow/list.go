package workflow

import (
	"context"
	"encoding/base64"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

// pageSize is how many workflows a page looks at.
const pageSize = 200

// List lists the jobs of the tool from the server's visibility, which lags behind by a moment. See
// [tool.Lister].
func (e *Executor) List(ctx context.Context, cursor string) (tool.Listing, error) {
	token, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return tool.Listing{}, fmt.Errorf("list: cursor %q must be one of this list", cursor)
	}
	found, err := e.cfg.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: pageSize, NextPageToken: token,
		Query: fmt.Sprintf("WorkflowType = %s AND TaskQueue = %s", outside.Quote(e.cfg.Tool.Type), outside.Quote(e.cfg.Tool.TaskQueue)),
	})
	if err != nil {
		return tool.Listing{}, fmt.Errorf("list: %w", err)
	}
	page := tool.Listing{Next: base64.RawURLEncoding.EncodeToString(found.GetNextPageToken())}
	for _, w := range found.GetExecutions() {
		job, ok, err := e.listed(ctx, w)
		if err != nil {
			return tool.Listing{}, fmt.Errorf("list: %w", err)
		}
		if ok {
			page.Jobs = append(page.Jobs, job)
		}
	}
	return page, nil
}

// listed is a workflow of the list, if it is one of ours. The memo is read as the client's
// converter reads it, which the list does not do.
func (e *Executor) listed(ctx context.Context, w *workflowpb.WorkflowExecutionInfo) (tool.Listed, bool, error) {
	id := w.GetExecution().GetWorkflowId()
	_, ours := outside.Key(id)
	if _, noted := w.GetMemo().GetFields()[memoKey]; !ours || !noted || w.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
		return tool.Listed{}, false, nil
	}
	desc, err := e.describe(ctx, id, w.GetExecution().GetRunId())
	if outside.Gone(err) {
		return tool.Listed{}, false, nil // forgotten meanwhile
	}
	if err != nil {
		return tool.Listed{}, false, err
	}
	rec, err := recordOf(desc)
	if err != nil || rec.Tool != e.cfg.Name || outside.ID(rec.SubmissionKey) != id {
		return tool.Listed{}, false, err
	}
	h, err := outside.Handle(Kind, rec, firstRun(desc))
	return tool.Listed{
		Handle: h, SubmissionKey: rec.SubmissionKey, State: listState(desc.Status), StartedAtMs: desc.WorkflowStartTime.UnixMilli(),
	}, err == nil, err
}

// listState is how a job stands, as far as its status tells.
func listState(s enumspb.WorkflowExecutionStatus) tool.State {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return tool.StateSucceeded
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return tool.StateCancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return tool.StateFailed
	default:
		return tool.StateRunning
	}
}
