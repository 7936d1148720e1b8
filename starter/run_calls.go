package starter

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// RunCalls begins what does the work of the calls of runs, looks at it and tells it what
// the run wants, by the same rules as anybody's submission. It is for the activities of
// runs: what it gives are their messages. All is safe to repeat.
type RunCalls struct{ c *Client }

// Calls gives the way in for the calls of runs.
func (c *Client) Calls() *RunCalls { return &RunCalls{c} }

// Submit starts the task of a call, or finds the one that it has started. A tool with a
// cache, and a call with an idempotency key, may be answered with a task that others
// have started: then the run is one of those who wait. A [protocol.CallRefused] is the
// answer to the call; any other error is worth another try.
func (rc *RunCalls) Submit(ctx context.Context, call protocol.SubmitCall) (protocol.SubmittedCall, error) {
	c := rc.c
	s := Submission{
		Tool: call.Tool, Input: call.Input, IdempotencyKey: call.IdempotencyKey, RunID: call.RunID, ToolCallID: call.ToolCallID,
		TTL: time.Duration(call.TTLMs) * time.Millisecond,
	}
	if err := c.checkMillis(call.TTLMs); err != nil {
		return protocol.SubmittedCall{}, callRefused(err)
	}
	tool, _ := c.o.Config.Tool(call.Tool)
	shared := tool.Cache != nil || call.IdempotencyKey != ""
	if shared {
		s.WaiterID = call.WaiterID
	}
	r, err := c.check(s)
	if err == nil && !shared {
		err = invalid(domain.CheckID("taskId", call.TaskID))
		r.create.ID, r.generated, r.canonical = call.TaskID, false, ""
	}
	var out Submitted
	if err == nil {
		out, err = c.submit(ctx, r)
	}
	if err != nil {
		return protocol.SubmittedCall{}, callRefused(err)
	}
	done := protocol.SubmittedCall{TaskID: out.TaskID, Title: cmp.Or(r.tool.Title, r.tool.Name), ExpiresAtMs: out.ExpiresAtMs, Task: out.Task}
	if shared {
		done.WaiterID = out.WaiterID
	}
	return done, nil
}

// checkMillis refuses a time to live that no duration could hold: it would become
// another one. What is allowed is checked later, by the rules of anybody's submission.
func (c *Client) checkMillis(ms int64) error {
	if most := c.o.Config.MaxTTL; ms > most.Milliseconds() || ms < -most.Milliseconds() {
		return invalidf("ttlMs", "must be at most %s, it is %d ms", config.FormatDuration(most), ms)
	}
	return nil
}

// callRefused makes an answer to the call of what no repeat would mend. What an operator
// can mend is no such thing: credentials, a namespace that was not set up.
func callRefused(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	reason := domain.TaskError{Class: domain.ClassUser, Message: shorten(e.Message, domain.MaxErrorText)}
	switch e.Code {
	case CodeUnknownTool:
		reason.Code = run.CodeUnknownTool
	case CodeInvalid, CodeUnknownRuntime:
		reason.Code = run.CodeInvalidInput
	case CodeIDInUse, CodeConflict, CodeKeyReused:
		reason.Code = run.CodeNotStarted
	case CodeTerminated:
		// Its id is taken until the engine's retention ends.
		reason.Code, reason.Class, reason.Severity = run.CodeTaskTerminated, domain.ClassSystem, domain.SeverityCritical
	case CodeInternal:
		if brokenOff(e) {
			return err
		}
		reason.Code, reason.Class = run.CodeNotStarted, domain.ClassSystem
	default:
		// It may pass.
		return err
	}
	return &protocol.CallRefused{Reason: reason}
}

// brokenOff tells of what has no code of its own whether it is the engine or the way to
// it that broke, and not the request.
func brokenOff(err error) bool {
	var (
		internal *serviceerror.Internal
		network  net.Error
	)
	return errors.As(err, &internal) || errors.As(err, &network)
}

// shorten cuts text to a limit in bytes, between two characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit]
}

// Start starts the run that does the work of a call, or finds the one that it has
// started. It has the runtime that its input names, else that of the run that asks.
// Errors are as of [RunCalls.Submit].
func (rc *RunCalls) Start(ctx context.Context, s protocol.SubmitRun) (run.Started, error) {
	c := rc.c
	if err := c.checkMillis(s.Input.TTLMs); err != nil {
		return run.Started{}, callRefused(err)
	}
	start := RunStart{
		Runtime: cmp.Or(s.Input.Runtime, s.Runtime), Title: s.Input.Title, Input: s.Input.Input, TTL: time.Duration(s.Input.TTLMs) * time.Millisecond,
		Traceparent: s.Traceparent,
	}
	if string(start.Input) == "null" {
		start.Input = nil
	}
	if start.Runtime == "" {
		return run.Started{}, callRefused(invalidf("runtime", "must be given: the run that asks has none of its own"))
	}
	r, err := c.checkRun(start)
	if err == nil && s.Budget != nil {
		l := &r.in.Create.Limits
		l.MaxTokens, l.MaxCostUSD = lowest(l.MaxTokens, s.Budget.MaxTokens), lowest(l.MaxCostUSD, s.Budget.MaxCostUSD)
	}
	if err == nil {
		parent := s.Parent
		r.in.Create.ID, r.in.Create.Parent, r.generated = s.RunID, &parent, false
		// Once more, with its parent: runs may not be nested too deep.
		_, err = run.New(r.in.Create)
	}
	var out RunStarted
	if err == nil {
		out, err = c.beginRun(ctx, r)
	}
	if err != nil {
		return run.Started{}, callRefused(invalid(err))
	}
	return run.Started{SubRunID: out.RunID, Title: cmp.Or(s.Input.Title, start.Runtime), ExpiresAtMs: out.ExpiresAtMs}, nil
}

// Task says how a task stands in the engine. No worker is needed.
func (rc *RunCalls) Task(ctx context.Context, taskID string) (protocol.Seen, error) {
	rec := &protocol.TaskRecord{}
	seen, there, err := rc.c.seen(ctx, rc.c.aTask(taskID), rec, func(err error) (bool, error) { return protocol.RecordFrom(err, rec) })
	if there && rec.Task.State.Terminal() {
		t := rec.Task.WithoutHistory()
		seen.Task = &t
		seen.AtMs = cmp.Or(t.EndedAtMs, seen.AtMs)
	}
	return seen, err
}

// Run says how a run stands in the engine. No worker is needed.
func (rc *RunCalls) Run(ctx context.Context, runID string) (protocol.Seen, error) {
	rec := &protocol.RunRecord{}
	seen, there, err := rc.c.seen(ctx, rc.c.aRun(runID), rec, func(err error) (bool, error) { return protocol.RunRecordFrom(err, rec) })
	if there && rec.Run.State.Terminal() {
		seen.Run = rec
		seen.AtMs = cmp.Or(rec.Run.EndedAtMs, seen.AtMs)
	}
	return seen, err
}

// seen reads how a workflow stands, and its record if it has closed and left one.
func (c *Client) seen(ctx context.Context, of subject, rec any, from func(error) (bool, error)) (_ protocol.Seen, there bool, _ error) {
	d, err := c.closed(ctx, of, rec, from)
	out := protocol.Seen{Status: protocol.SeenEnded, AtMs: closeTime(d)}
	switch code := CodeOf(err); {
	case code == CodeUnknownTask, code == CodeUnknownRun:
		return protocol.Seen{Status: protocol.SeenNone}, false, nil
	case code == CodeTerminated:
		out.Status = protocol.SeenTerminated
		return out, false, nil
	case errors.Is(err, errReopened):
		return protocol.Seen{Status: protocol.SeenOpen}, false, nil
	case d != nil && (code == CodeInvalid || code == CodeInternal || unreadable(err)):
		// It failed before it was what it should have been, or its record is broken or
		// missing: there is nothing to be waited for, and no look will find more.
		if d.Status == enums.WORKFLOW_EXECUTION_STATUS_FAILED {
			out.Status = protocol.SeenTerminated
		}
		return out, false, nil
	case err != nil:
		return protocol.Seen{}, false, engineError(ctx, "look at "+of.name, err)
	}
	return out, true, nil
}

// unreadable tells whether data arrived and is not what it should be.
func unreadable(err error) bool {
	return errors.Is(err, converter.ErrUnableToDecode) || errors.Is(err, converter.ErrEncodingIsNotSupported) || errors.Is(err, converter.ErrMetadataIsNotSet)
}

func closeTime(d *client.WorkflowExecutionDescription) int64 {
	if d == nil || d.WorkflowCloseTime == nil {
		return 0
	}
	return d.WorkflowCloseTime.UnixMilli()
}

// Reconcile lets a task ask the outside how its work stands. Errors are as of
// [Client.Reconcile].
func (rc *RunCalls) Reconcile(ctx context.Context, taskID, by string) (protocol.Reconciled, error) {
	return rc.c.Reconcile(ctx, taskID, protocol.Reconcile{By: by})
}

// Cancel gives up a task. That it has ended, or is not there, is no error. True means
// that others wait for it: the run alone was taken off.
func (rc *RunCalls) Cancel(ctx context.Context, taskID string, req protocol.Cancel) (bool, error) {
	out, err := rc.c.Cancel(ctx, taskID, req)
	return out.Reason == domain.ReasonDetached || out.Reason == domain.ReasonDuplicateDetach, unlessGone(err)
}

// CancelRun gives up a run. That it has ended, or is not there, is no error.
func (rc *RunCalls) CancelRun(ctx context.Context, runID string, req protocol.Cancel) error {
	req.WaiterID = ""
	_, err := rc.c.CancelRun(ctx, runID, req)
	return unlessGone(err)
}

// Detach says that the run waits for a task no longer. That it has ended, or is not
// there, is no error.
func (rc *RunCalls) Detach(ctx context.Context, taskID string, d protocol.Detach) error {
	_, err := rc.c.Detach(ctx, taskID, d)
	return unlessGone(err)
}

// unlessGone drops the error that there is nothing left to be told.
func unlessGone(err error) error {
	if errors.Is(err, ErrUnknownTask) || errors.Is(err, ErrUnknownRun) || errors.Is(err, ErrTerminated) {
		return nil
	}
	return err
}

// lowest is the lower of two limits, of which 0 is none.
func lowest[T int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
