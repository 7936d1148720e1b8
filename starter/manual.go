package starter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Resolve is a person's word on work of unknown outcome: that it was done, with
// this result; that it was not and shall not be; or that it is to be done again.
// The outcome says what it came to, also when that is nothing: not-manual,
// terminal-conflict. Errors: invalid-request, unknown-task, no-worker, unavailable.
func (c *Client) Resolve(ctx context.Context, taskID string, r protocol.Resolve) (domain.Outcome, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := checkResolve(r); err != nil {
		return domain.Outcome{}, invalid(err)
	}
	if err := c.checkStored(ctx, r); err != nil {
		return domain.Outcome{}, err
	}
	if err := checkPerson(r.By, r.Reason); err != nil {
		return domain.Outcome{}, err
	}
	if r.AtMs == 0 {
		r.AtMs = c.o.Now()
	}
	m := message{name: protocol.UpdateResolve, updateID: once(), arg: r}
	return c.ask(ctx, taskID, m, func(t domain.Task) (domain.Outcome, error) {
		return domain.Outcome{Reason: domain.ReasonTerminalConflict, State: t.State, Version: t.Version}, nil
	}, func() (domain.Outcome, error) { return domain.Outcome{}, c.noWorker(taskID, hintWorker) })
}

// checkStored makes sure that a reference into our own store leads somewhere: a
// person's word is final, and a result that nobody can fetch is none.
func (c *Client) checkStored(ctx context.Context, r protocol.Resolve) error {
	if !strings.HasPrefix(r.ResultRef, blobref.Scheme) {
		return nil
	}
	ref, err := blobref.Parse(r.ResultRef)
	switch {
	case err != nil:
		return invalidf("resultRef", "must be a reference of the blob store: %v", err)
	case ref.Tenant != c.o.Tenant:
		return invalidf("resultRef", "must be one of tenant %s, or lie outside the blob store", c.o.Tenant)
	case ref.Hash != r.ResultHash:
		return invalidf("resultHash", "must be the one in resultRef")
	case c.o.Store == nil:
		return nil
	}
	_, err = c.o.Store.Stat(ctx, r.ResultRef)
	if errors.Is(err, store.ErrNotFound) {
		return invalidf("resultRef", "must be in the blob store, nothing is stored there")
	}
	if err != nil {
		return fail(CodeUnavailable, "repeat the call", "the blob store does not answer for resultRef").because(err)
	}
	return nil
}

func checkResolve(r protocol.Resolve) error {
	inline, elsewhere := len(r.Result) > 0, r.ResultRef != "" || r.ResultHash != ""
	switch {
	case r.Action != domain.ResolveSucceeded && r.Action != domain.ResolveFailed && r.Action != domain.ResolveRepeat:
		return domain.Invalid("action", "must be %s, %s or %s, not %q", domain.ResolveSucceeded, domain.ResolveFailed, domain.ResolveRepeat, oneLine(r.Action, logNameLimit))
	case r.Action == domain.ResolveSucceeded && inline == elsewhere:
		return domain.Invalid("result", "must be given for work that was done, or resultRef and resultHash, not both")
	case r.Action != domain.ResolveSucceeded && (inline || elsewhere):
		return domain.Invalid("result", "must be absent unless the work was done")
	case r.Action != domain.ResolveFailed && r.Error != nil:
		return domain.Invalid("error", "must be absent unless the work was not done")
	case inline && (!utf8.Valid(r.Result) || !json.Valid(r.Result)):
		return domain.Invalid("result", "must be valid JSON")
	case len(r.Result) > domain.MaxInlineResult:
		return domain.Invalid("result", "must be at most %d bytes, it has %d; store it and give resultRef", domain.MaxInlineResult, len(r.Result))
	}
	// What the rules of any event say of these fields is the domain's.
	return domain.Event{Type: domain.EventResolve, ResultRef: r.ResultRef, ResultHash: r.ResultHash, ContentType: r.ContentType, Bytes: r.Bytes, Error: r.Error}.Validate()
}

// ManualRequest asks for a page of what waits for a person.
type ManualRequest struct {
	// Tool narrows the list down.
	Tool string
	// PageSize is 1 to 500. Default: 50.
	PageSize int
	// Cursor is the one of the page before. Default: the first page.
	Cursor string
}

// ManualTask is one task that waits for a person.
type ManualTask struct {
	TaskID string `json:"taskId"`
	Tool   string `json:"tool"`
	Title  string `json:"title,omitempty"`
	// SinceMs is when it went to a person, Why what is not known.
	SinceMs     int64  `json:"sinceMs,omitempty"`
	Why         string `json:"why,omitempty"`
	ExpiresAtMs int64  `json:"expiresAtMs,omitempty"`
	// Tried is what was done before, oldest first.
	Tried []Tried `json:"tried,omitempty"`
	// Compensation is the task that undoes, or did not manage to.
	Compensation       string `json:"compensation,omitempty"`
	CompensationFailed string `json:"compensationFailed,omitempty"`
	// SubmissionKey is the name of the job outside, Handle its address if that is
	// known.
	SubmissionKey string           `json:"submissionKey,omitempty"`
	Handle        *protocol.Handle `json:"handle,omitempty"`
	// Commands are those that resolve it, in the words of the command line; none
	// while something is being undone.
	Commands []string `json:"commands,omitempty"`
	// Error says why no more is known of it.
	Error *Error `json:"error,omitempty"`
}

// Tried is one thing that was tried.
type Tried struct {
	AtMs    int64  `json:"atMs"`
	Attempt int    `json:"attempt,omitempty"`
	Text    string `json:"text"`
}

// ManualListing is a page of them.
type ManualListing struct {
	Tasks  []ManualTask `json:"tasks"`
	Cursor string       `json:"cursor,omitempty"`
}

// Manual lists the tasks that wait for a person, newest first. The list comes from
// the engine's index, which lags behind by moments; each task is then asked itself,
// and one that waits for nobody any more is left out. One that cannot be asked has
// its error. Errors: invalid-request, not-set-up, unavailable.
func (c *Client) Manual(ctx context.Context, r ManualRequest) (ManualListing, error) {
	query, err := c.listQuery(ListRequest{Tool: r.Tool, State: domain.StateRunning})
	if err != nil {
		return ManualListing{}, invalid(err)
	}
	query += " AND " + equals(protocol.AttrState.GetName(), string(protocol.StateManual))
	if r.PageSize == 0 {
		r.PageSize = DefaultPageSize
	}
	if r.PageSize < 1 || r.PageSize > MaxPageSize {
		return ManualListing{}, invalidf("pageSize", "must be 1 to %d, it is %d", MaxPageSize, r.PageSize)
	}
	token, ok := openCursor(r.Cursor, query)
	if !ok {
		return ManualListing{}, invalidf("cursor", "must be the cursor of a page before, of the same list")
	}
	resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: int32(r.PageSize), NextPageToken: token, Query: query})
	if err != nil {
		return ManualListing{}, engineError(ctx, "list what waits for a person", err)
	}
	var all []ManualTask
	for _, e := range resp.GetExecutions() {
		if t, ok := c.listed(e); ok {
			all = append(all, ManualTask{TaskID: t.TaskID, Tool: t.Tool})
		}
	}
	if err := c.checkNamed(r.Tool, len(all)); err != nil {
		return ManualListing{}, err
	}
	each(ctx, atATime, all, func(m *ManualTask) { c.manual(ctx, m) })
	out := ManualListing{Tasks: []ManualTask{}, Cursor: makeCursor(resp.GetNextPageToken(), query)}
	for _, m := range all {
		if m.SinceMs != 0 || m.Error != nil {
			out.Tasks = append(out.Tasks, m)
		}
	}
	return out, context.Cause(ctx)
}

// manual fills in what the task itself says.
func (c *Client) manual(ctx context.Context, m *ManualTask) {
	s, err := c.read(ctx, m.TaskID)
	if err != nil {
		m.Error = asError(err)
		return
	}
	t := s.desc.Task
	if t.Manual == nil {
		return
	}
	m.Title, m.SinceMs, m.Why, m.ExpiresAtMs = t.Title, t.Manual.SinceMs, t.Manual.Why, t.ExpiresAtMs
	m.Compensation, m.CompensationFailed = t.Manual.Compensation, t.Manual.CompensationFailed
	m.SubmissionKey, m.Handle = c.o.Tenant+"/"+t.SubmissionKey(), s.desc.Handle
	m.Tried = triedOf(t)
	if t.AsksPerson() {
		m.Commands = ResolveCommands(t)
	}
}

// ResolveCommands are the commands that resolve a task, one for each thing that a
// person can have found out.
func ResolveCommands(t domain.Task) []string {
	resolve := "wakepoint task resolve " + t.ID
	return []string{
		resolve + " --succeeded --result JSON",
		resolve + " --failed --error TEXT",
		resolve + " --repeat",
	}
}

// triedOf tells from the history what was tried before a person was asked: the
// attempts, the questions to the outside, and what these brought.
func triedOf(t domain.Task) []Tried {
	var all []Tried
	attempt := 0
	for _, h := range t.History {
		if h.Event.Type == domain.EventStart {
			attempt = max(attempt+1, h.Event.Attempt)
		}
		if h.Event.Attempt > 0 {
			attempt = h.Event.Attempt
		}
		if text := triedText(h.Event); text != "" {
			all = append(all, Tried{AtMs: h.Event.AtMs, Attempt: attempt, Text: text})
		}
	}
	return all
}

func triedText(e domain.Event) string {
	why := func(text string) string {
		if e.Error != nil {
			text += ": " + e.Error.Error()
		}
		return text
	}
	switch e.Type { //nolint:exhaustive // the others try nothing
	case domain.EventStart:
		if e.Worker != "" {
			return "started by " + e.Worker
		}
		return "started"
	case domain.EventFail:
		return why("the attempt failed")
	case domain.EventSuspect:
		return "nothing was heard of the work; the outside was asked"
	case domain.EventLeaseRenewed:
		return "the outside said that the work goes on"
	case domain.EventRequeue:
		if e.Stopped {
			return why("the work surely runs no more, how far it came is not known")
		}
		return why("the outside could not say what became of the work")
	case domain.EventCompensated:
		if e.Error != nil {
			return why(fmt.Sprintf("task %s could not undo it", e.Compensation))
		}
		return fmt.Sprintf("task %s undid it", e.Compensation)
	case domain.EventResolve:
		return "a person said: " + e.Action
	case domain.EventRetry:
		return "a person asked for another attempt"
	}
	return ""
}
