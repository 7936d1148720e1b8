package starter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// start begins the workflow of a task. Its id is the lock: whoever comes second is
// told so by the engine.
func (c *Client) start(ctx context.Context, r request) (runID string, err error) {
	options := c.startOptions(r.create, r.fingerprint)
	options.StaticDetails = details(r.create, r.tool.Description)
	options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	if r.waiter != nil {
		options.Memo[protocol.MemoWaiter] = r.waiter.ID
	}
	run, err := c.engine.ExecuteWorkflow(ctx, options, protocol.WorkflowAsyncTask, protocol.TaskInput{
		Create: r.create, Input: r.sub.Input, Tool: r.tool.Binding(), Targets: r.targets, Fingerprint: r.fingerprint,
		ContinueAfterEvents: c.o.ContinueAfterEvents, Revision: protocol.Revision,
	})
	if err != nil {
		return "", err
	}
	return run.GetRunID(), nil
}

// startOptions are those of a first run and of a retry alike.
func (c *Client) startOptions(create domain.Create, fingerprint string) client.StartWorkflowOptions {
	attributes := []temporal.SearchAttributeUpdate{
		protocol.AttrTenant.ValueSet(c.o.Tenant), protocol.AttrTool.ValueSet(create.Tool), protocol.AttrState.ValueSet(string(domain.StateQueued)),
	}
	if create.RunID != "" {
		attributes = append(attributes, protocol.AttrRun.ValueSet(create.RunID))
	}
	if create.ToolCallID != "" {
		attributes = append(attributes, protocol.AttrToolCall.ValueSet(create.ToolCallID))
	}
	memo := map[string]any{protocol.MemoFingerprint: fingerprint}
	if create.Title != "" {
		memo[protocol.MemoTitle] = create.Title
	}
	return client.StartWorkflowOptions{
		ID: c.workflowID(create.ID), TaskQueue: c.o.TaskQueue,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         c.o.EagerStart,
		StaticSummary:                            summary(create),
		Memo:                                     memo,
		TypedSearchAttributes:                    temporal.NewSearchAttributes(attributes...),
		// Tasks of one tenant don't starve those of another.
		Priority: temporal.Priority{PriorityKey: create.Priority, FairnessKey: c.o.Tenant, FairnessWeight: float32(c.o.Config.FairnessWeight)},
	}
}

// maxSummary is what the engine takes of a summary, in bytes, with room for its
// encoding.
const maxSummary = 180

func summary(create domain.Create) string {
	s := create.Tool
	if create.Title != "" {
		s += ": " + create.Title
	}
	return oneLine(s, maxSummary)
}

// details are markdown for the Temporal UI: what stays the same for the whole
// life of a task. The input is left out: it may hold what is not for everybody.
func details(create domain.Create, description string) string {
	const limit = 1000
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- **%s:** %s\n", name, markdown.Text(value))
		}
	}
	if description != "" {
		b.WriteString(markdown.Line(description, limit) + "\n\n")
	}
	line("Task", create.ID)
	line("Tool", create.Tool)
	line("Title", create.Title)
	line("Tenant", create.Tenant)
	line("Run", create.RunID)
	line("Tool call", create.ToolCallID)
	line("Attempts", fmt.Sprintf("at most %d", create.MaxAttempts))
	for _, name := range slices.Sorted(maps.Keys(create.Labels)) {
		line("Label "+markdown.Text(name), create.Labels[name])
	}
	return b.String()
}

// oneLine shortens a text to so many bytes and one line.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := s[:limit-len(mark)]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut + mark
}

var errNoMemo = errors.New("the memo has no such key")

// memo reads a text that was given at the start. The SDK writes memos with the
// default converter or with the client's, by its version.
func (c *Client) memo(d *client.WorkflowExecutionDescription, key string) (string, error) {
	return c.memoIn(d.Memo, key)
}

func (c *Client) memoIn(m *common.Memo, key string) (string, error) {
	payload, ok := m.GetFields()[key]
	if !ok {
		return "", errNoMemo
	}
	var s string
	err := c.o.DataConverter.FromPayload(payload, &s)
	if err != nil {
		if converter.GetDefaultDataConverter().FromPayload(payload, &s) == nil {
			return s, nil
		}
	}
	return s, err
}
