package starter

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The sizes of a page of [Client.List].
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// ListRequest asks for a page of tasks: open ones first, then those that ended last.
type ListRequest struct {
	// Tool, Run and ToolCall narrow the list down.
	Tool     string
	Run      string
	ToolCall string
	// State narrows it down to one state. The list knows ends only: queued and
	// running both stand for every task that is open.
	State domain.State
	// PageSize is 1 to 500. Default: 50.
	PageSize int
	// Cursor is the one of the page before. Default: the first page.
	Cursor string
}

// Listed is a task in a list.
type Listed struct {
	TaskID string `json:"taskId"`
	Tool   string `json:"tool"`
	Title  string `json:"title,omitempty"`
	// State is how it ended, empty while it is open.
	State domain.State `json:"state,omitempty"`
	// Open says that its workflow is open.
	Open bool `json:"open"`
	// Manual says that it waits for a person.
	Manual      bool   `json:"manual,omitempty"`
	Run         string `json:"runId,omitempty"`
	ToolCall    string `json:"toolCallId,omitempty"`
	StartedAtMs int64  `json:"startedAtMs"`
	ClosedAtMs  int64  `json:"closedAtMs,omitempty"`
	WorkflowID  string `json:"workflowId"`
}

// Listing is a page of a list.
type Listing struct {
	Tasks []Listed `json:"tasks"`
	// Cursor is for the next page, empty when there is none.
	Cursor string `json:"cursor,omitempty"`
}

// List gives the tasks of the tenant from the engine's list of workflows. That list
// lags behind by moments and is for people and searches; what must be right is
// asked by Describe. A task that was retried stands in it once a page, with its
// newest run. A page may hold fewer tasks than were asked for, or none, and still
// have a next one. Errors: invalid-request, not-set-up, unavailable.
func (c *Client) List(ctx context.Context, r ListRequest) (Listing, error) {
	query, err := c.listQuery(r)
	if err != nil {
		return Listing{}, invalid(err)
	}
	if r.PageSize == 0 {
		r.PageSize = DefaultPageSize
	}
	if r.PageSize < 1 || r.PageSize > MaxPageSize {
		return Listing{}, invalidf("pageSize", "must be 1 to %d, it is %d", MaxPageSize, r.PageSize)
	}
	token, ok := openCursor(r.Cursor, query)
	if !ok {
		return Listing{}, invalidf("cursor", "must be the cursor of a page before, of the same list")
	}
	resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(r.PageSize), NextPageToken: token, Query: query,
	})
	if err != nil {
		return Listing{}, engineError(ctx, "list tasks", err)
	}
	out := Listing{Tasks: []Listed{}, Cursor: makeCursor(resp.GetNextPageToken(), query)}
	for _, e := range resp.GetExecutions() {
		t, ok := c.listed(e)
		seen := slices.ContainsFunc(out.Tasks, func(o Listed) bool { return o.TaskID == t.TaskID })
		if ok && !seen && (r.ToolCall == "" || t.ToolCall == r.ToolCall) {
			out.Tasks = append(out.Tasks, t)
		}
	}
	return out, nil
}

// makeCursor makes a cursor of the engine's token for the next page. It carries a
// checksum of the token and the list: what is no token makes an engine fail as if
// it were ill, several times, so that only our own cursors may reach it.
func makeCursor(token []byte, query string) string {
	if len(token) == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(cursorSum(token, query), token...))
}

// openCursor gives the token in a cursor, none for the first page, and false for
// what is no cursor of this list.
func openCursor(cursor, query string) ([]byte, bool) {
	if cursor == "" {
		return nil, true
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) <= crc32.Size {
		return nil, false
	}
	sum, token := b[:crc32.Size], b[crc32.Size:]
	return token, bytes.Equal(sum, cursorSum(token, query))
}

func cursorSum(token []byte, query string) []byte {
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(query)), crc32.IEEETable, token)
	return binary.BigEndian.AppendUint32(nil, sum)
}

func (c *Client) listQuery(r ListRequest) (string, error) {
	parts := []string{
		equals("WorkflowType", protocol.WorkflowAsyncTask),
		equals(protocol.AttrTenant.GetName(), c.o.Tenant),
		"ExecutionStatus != 'ContinuedAsNew'",
	}
	for _, f := range []struct{ field, name, value string }{
		{"tool", protocol.AttrTool.GetName(), r.Tool},
		{"runId", protocol.AttrRun.GetName(), r.Run},
	} {
		if f.value == "" {
			continue
		}
		if err := domain.CheckID(f.field, f.value); err != nil {
			return "", err
		}
		parts = append(parts, equals(f.name, f.value))
	}
	if err := checkText("toolCallId", r.ToolCall, domain.MaxCallbackID); err != nil {
		return "", err
	}
	if r.ToolCall != "" && searchable(r.ToolCall) {
		parts = append(parts, equals(protocol.AttrToolCall.GetName(), r.ToolCall))
	}
	switch {
	case r.State == "":
	case !slices.Contains(domain.States(), r.State):
		return "", domain.Invalid("state", "must be one of %s, not %q", strings.Join(stateNames(), ", "), oneLine(string(r.State), logNameLimit))
	case r.State.Terminal():
		parts = append(parts, equals(protocol.AttrState.GetName(), string(r.State)))
	default:
		parts = append(parts, equals("ExecutionStatus", "Running"))
	}
	return strings.Join(parts, " AND "), nil
}

func stateNames() []string {
	var names []string
	for _, s := range domain.States() {
		names = append(names, string(s))
	}
	return names
}

// searchable tells whether the engine's list can look for a value. By default it
// takes an escaped character for two, so that what needs escaping is never found;
// such values, which models make up, are picked out here.
func searchable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r == '\'' || r == '"' || r == '\\' || r < ' ' })
}

// equals is a clause of the engine's list filter. The value needs no escaping.
func equals(name, value string) string { return fmt.Sprintf("%s = '%s'", name, value) }

func (c *Client) listed(e *workflow.WorkflowExecutionInfo) (Listed, bool) {
	_, taskID, err := protocol.ParseTaskWorkflowID(e.GetExecution().GetWorkflowId())
	if err != nil {
		return Listed{}, false
	}
	attribute := func(name string) string {
		var s string
		if p, ok := e.GetSearchAttributes().GetIndexedFields()[name]; ok {
			// Search attributes are never encrypted, so the default converter reads
			// them; one that it cannot read is left empty.
			_ = converter.GetDefaultDataConverter().FromPayload(p, &s)
		}
		return s
	}
	t := Listed{
		TaskID: taskID, Tool: attribute(protocol.AttrTool.GetName()), Run: attribute(protocol.AttrRun.GetName()),
		ToolCall: attribute(protocol.AttrToolCall.GetName()), Open: e.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
		StartedAtMs: msOf(e.GetStartTime().IsValid(), e.GetStartTime().AsTime()), WorkflowID: e.GetExecution().GetWorkflowId(),
		ClosedAtMs: msOf(e.GetCloseTime().IsValid(), e.GetCloseTime().AsTime()),
	}
	if title, err := c.memoIn(e.GetMemo(), protocol.MemoTitle); err == nil {
		t.Title = title
	}
	switch s := domain.State(attribute(protocol.AttrState.GetName())); {
	case s == protocol.StateManual:
		// It is no state: such a task is running, until it ends.
		t.Manual = t.Open
	case !t.Open || s.Terminal():
		t.State = s
	}
	return t, true
}

func msOf(valid bool, t time.Time) int64 {
	if !valid {
		return 0
	}
	return t.UnixMilli()
}
