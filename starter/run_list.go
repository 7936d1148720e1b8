package starter

import (
	"context"
	"slices"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// ListRunsRequest asks for a page of runs: open ones first, then those that ended last.
type ListRunsRequest struct {
	// State narrows the list down to one state. Of open runs it knows only that they are
	// open: any state that is no end stands for all of them.
	State run.State
	// Runtime narrows it down to the runs of one runtime. The engine's list cannot look
	// for it, so pages may become small.
	Runtime string
	// PageSize is 1 to 500. Default: 50.
	PageSize int
	// Cursor is the one of the page before. Default: the first page.
	Cursor string
}

// ListedRun is a run in a list.
type ListedRun struct {
	RunID string `json:"runId"`
	Title string `json:"title,omitempty"`
	// Runtime is empty for a run that follows a plan.
	Runtime string `json:"runtime,omitempty"`
	// State is how it ended; while it is open, WAITING_INPUT or empty: lists are told of
	// nothing else.
	State run.State `json:"state,omitempty"`
	// Open says that its workflow is open.
	Open        bool   `json:"open"`
	StartedAtMs int64  `json:"startedAtMs"`
	ClosedAtMs  int64  `json:"closedAtMs,omitempty"`
	WorkflowID  string `json:"workflowId"`
}

// RunListing is a page of a list.
type RunListing struct {
	Runs []ListedRun `json:"runs"`
	// Cursor is for the next page, empty when there is none.
	Cursor string `json:"cursor,omitempty"`
}

// ListRuns gives the runs of the tenant from the engine's list of workflows, those that
// do the work of calls included. That list lags behind by moments and is for people and
// searches; what must be right is asked by DescribeRun. A run that was retried stands in
// it once a page. A page may hold fewer runs than were asked for, or none, and still have
// a next one. Errors: invalid-request, not-set-up, unavailable.
func (c *Client) ListRuns(ctx context.Context, r ListRunsRequest) (RunListing, error) {
	query, err := c.runQuery(r.State)
	if err != nil {
		return RunListing{}, invalid(err)
	}
	if r.PageSize == 0 {
		r.PageSize = DefaultPageSize
	}
	if r.PageSize < 1 || r.PageSize > MaxPageSize {
		return RunListing{}, invalidf("pageSize", "must be 1 to %d, it is %d", MaxPageSize, r.PageSize)
	}
	token, ok := openCursor(r.Cursor, query)
	if !ok {
		return RunListing{}, invalidf("cursor", "must be the cursor of a page before, of the same list")
	}
	resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(r.PageSize), NextPageToken: token, Query: query,
	})
	if err != nil {
		return RunListing{}, engineError(ctx, "list runs", err)
	}
	out := RunListing{Runs: []ListedRun{}, Cursor: makeCursor(resp.GetNextPageToken(), query)}
	for _, e := range resp.GetExecutions() {
		l, ok := c.listedRun(e)
		if r.Runtime != "" && l.Runtime != r.Runtime {
			continue
		}
		if ok && !slices.ContainsFunc(out.Runs, func(o ListedRun) bool { return o.RunID == l.RunID }) {
			out.Runs = append(out.Runs, l)
		}
	}
	return out, nil
}

func (c *Client) runQuery(state run.State) (string, error) {
	parts := []string{
		equals("WorkflowType", protocol.WorkflowAgentRun),
		equals(protocol.AttrTenant.GetName(), c.o.Tenant),
		"ExecutionStatus != 'ContinuedAsNew'",
	}
	switch {
	case state == "":
	case !slices.Contains(run.States(), state):
		var names []string
		for _, s := range run.States() {
			names = append(names, string(s))
		}
		return "", domain.Invalid("state", "must be one of %s, not %q", strings.Join(names, ", "), oneLine(string(state), logNameLimit))
	case state.Terminal(), state == run.StateWaitingInput:
		parts = append(parts, equals(protocol.AttrState.GetName(), string(state)))
	default:
		parts = append(parts, equals("ExecutionStatus", "Running"))
	}
	return strings.Join(parts, " AND "), nil
}

func (c *Client) listedRun(e *workflow.WorkflowExecutionInfo) (ListedRun, bool) {
	_, runID, err := protocol.ParseRunWorkflowID(e.GetExecution().GetWorkflowId())
	if err != nil {
		return ListedRun{}, false
	}
	l := ListedRun{
		RunID: runID, Open: e.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, WorkflowID: e.GetExecution().GetWorkflowId(),
		StartedAtMs: msOf(e.GetStartTime().IsValid(), e.GetStartTime().AsTime()),
		ClosedAtMs:  msOf(e.GetCloseTime().IsValid(), e.GetCloseTime().AsTime()),
	}
	if p, ok := e.GetSearchAttributes().GetIndexedFields()[protocol.AttrState.GetName()]; ok {
		// One that cannot be read is left empty.
		_ = converter.GetDefaultDataConverter().FromPayload(p, &l.State)
		if l.Open && l.State != run.StateWaitingInput {
			l.State = ""
		}
	}
	if title, err := c.memoIn(e.GetMemo(), protocol.MemoTitle); err == nil {
		l.Title = title
	}
	if runtime, err := c.memoIn(e.GetMemo(), protocol.MemoRuntime); err == nil {
		l.Runtime = runtime
	}
	return l, true
}

// openRuns lists the ids of all open runs, each once, in order.
func (c *Client) openRuns(ctx context.Context) ([]string, error) {
	query, err := c.runQuery(run.StateRunning)
	if err != nil {
		return nil, invalid(err)
	}
	var ids []string
	var token []byte
	for {
		resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: reconcilePage, NextPageToken: token, Query: query})
		if err != nil {
			return nil, engineError(ctx, "list runs", err)
		}
		for _, e := range resp.GetExecutions() {
			if l, ok := c.listedRun(e); ok {
				ids = append(ids, l.RunID)
			}
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			slices.Sort(ids)
			return slices.Compact(ids), nil
		}
	}
}
