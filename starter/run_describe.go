package starter

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// RunDescription is a run as clients see it: what its workflow says, and what only the
// engine and the tasks of its calls know.
type RunDescription struct {
	protocol.RunDescription
	// Closed says that the workflow has closed: this is the run's record.
	Closed     bool   `json:"closed"`
	WorkflowID string `json:"workflowId"`
	// WorkflowRunID is the run of the workflow, empty when it was not asked for.
	WorkflowRunID string `json:"workflowRunId,omitempty"`
	// NextStep says what a person can do about a run that has ended badly.
	NextStep string `json:"nextStep,omitempty"`
	// Calls are the open calls with what does their work, in the order of the run.
	Calls []CallDescription `json:"calls,omitempty"`
	// Pending are the activities that work for the run itself now.
	Pending []Pending `json:"pending,omitempty"`
}

// CallDescription is an open call of a run, and how its task stands, or the run that does
// its work.
type CallDescription struct {
	ToolCallID  string `json:"toolCallId"`
	AskedAtStep int    `json:"askedAtStep"`
	Tool        string `json:"tool"`
	Title       string `json:"title,omitempty"`
	Background  bool   `json:"background,omitempty"`
	// State is that of the call as the run knows it.
	State    run.CallState `json:"state"`
	TaskID   string        `json:"taskId,omitempty"`
	SubRunID string        `json:"subRunId,omitempty"`
	// Standing is the state of the task or of the run, Phase what it is doing.
	Standing string       `json:"standing,omitempty"`
	Phase    domain.Phase `json:"phase"`
	Stage    string       `json:"stage,omitempty"`
	Progress int          `json:"progress,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	// Handle is the job outside.
	Handle *protocol.Handle `json:"handle,omitempty"`
	// LastHeardAtMs is when the work was last heard of, NextProbeAtMs when it is asked
	// again at the latest, if that is known.
	LastHeardAtMs int64 `json:"lastHeardAtMs,omitempty"`
	NextProbeAtMs int64 `json:"nextProbeAtMs,omitempty"`
	ExpiresAtMs   int64 `json:"expiresAtMs,omitempty"`
	// UntilMs is when a person's time to decide or to answer is over.
	UntilMs int64 `json:"untilMs,omitempty"`
	// WaitsFor says whose move is next.
	WaitsFor string `json:"waitsFor,omitempty"`
	Stalled  bool   `json:"stalled,omitempty"`
	// Note says why no more is known.
	Note string `json:"note,omitempty"`
}

func (c *Client) runDescription(runID string, s runSnapshot) RunDescription {
	return RunDescription{
		RunDescription: s.desc, Closed: s.closed(), WorkflowID: c.runWorkflowID(runID), WorkflowRunID: s.workflowRunID, NextStep: run.NextStep(s.desc.Run),
	}
}

// DescribeRun tells how a run stands, and of each open call how its task does. Of a
// closed run it is read without any worker. A task that cannot be read has a note and is
// no error. Errors: unknown-run, terminated, no-worker, unavailable.
func (c *Client) DescribeRun(ctx context.Context, runID string) (RunDescription, error) {
	s, err := c.readRun(ctx, runID)
	if err != nil {
		return RunDescription{}, err
	}
	d := c.runDescription(runID, s)
	if s.closed() {
		return d, nil
	}
	seen, err := c.engine.DescribeWorkflow(ctx, d.WorkflowID, "")
	if err != nil {
		return RunDescription{}, engineError(ctx, "describe run "+runID, err)
	}
	d.WorkflowRunID = seen.WorkflowExecution.RunID
	for _, p := range seen.RawResponse.GetPendingActivities() {
		d.Pending = append(d.Pending, c.pending(p))
	}
	for _, call := range s.desc.Run.Calls {
		if !call.State.Ended() {
			d.Calls = append(d.Calls, describeCall(call))
		}
	}
	each(ctx, atATime, d.Calls, func(call *CallDescription) { c.describeWork(ctx, call) })
	return d, engineError(ctx, "describe run "+runID, context.Cause(ctx))
}

// describeCall is a call as the run knows it.
func describeCall(c run.Call) CallDescription {
	d := CallDescription{
		ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Tool: c.Tool, Title: c.Title, Background: c.Background, State: c.State,
		TaskID: c.TaskID, SubRunID: c.SubRunID, Phase: c.Phase(), ExpiresAtMs: c.ExpiresAtMs, UntilMs: c.UntilMs,
	}
	switch c.State {
	case run.CallBlocked:
		d.WaitsFor = "the calls that it depends on"
	case run.CallReady:
		d.WaitsFor = "a worker to start it"
	case run.CallApproval:
		d.WaitsFor = "a person to approve it"
	case run.CallAsking:
		d.WaitsFor = "a person to answer it"
	case run.CallOpen, run.CallSucceeded, run.CallFailed, run.CallExpired, run.CallCancelled, run.CallSkipped, run.CallDenied:
	}
	return d
}

// describeWork fills in what the work of a call says itself. It has the time of a query,
// so that one call whose worker is away does not hide the others.
func (c *Client) describeWork(ctx context.Context, d *CallDescription) {
	ctx, cancel := context.WithTimeout(ctx, c.o.QueryTimeout)
	defer cancel()
	switch {
	case d.SubRunID != "":
		c.describeSubRun(ctx, d)
	case d.TaskID != "":
		c.describeTask(ctx, d)
	}
}

func (c *Client) describeTask(ctx context.Context, d *CallDescription) {
	t, err := c.Describe(ctx, d.TaskID)
	if err != nil {
		d.Note = "the task cannot be read: " + asError(err).Message
		return
	}
	d.Standing, d.Phase, d.Stage, d.Progress, d.Attempt = string(t.Task.State), t.Phase, t.Task.Stage, t.Task.Progress, t.Task.Attempts
	d.Handle, d.LastHeardAtMs, d.WaitsFor, d.Stalled = t.Handle, t.LastHeartbeatAtMs, t.WaitsFor, t.Stalled
	d.ExpiresAtMs = cmp.Or(t.Task.ExpiresAtMs, d.ExpiresAtMs)
	for _, p := range t.Pending {
		if p.NextAttemptAtMs > 0 && (d.NextProbeAtMs == 0 || p.NextAttemptAtMs < d.NextProbeAtMs) {
			d.NextProbeAtMs = p.NextAttemptAtMs
		}
		d.LastHeardAtMs = max(d.LastHeardAtMs, p.LastHeartbeatAtMs)
	}
	if d.NextProbeAtMs == 0 && t.WakeAtMs > 0 && t.WakeAtMs != t.Task.ExpiresAtMs {
		d.NextProbeAtMs = t.WakeAtMs
	}
	if t.Task.State.Terminal() {
		d.Note = "the task has ended, and the run has not taken it in yet"
	}
}

func (c *Client) describeSubRun(ctx context.Context, d *CallDescription) {
	s, err := c.readRun(ctx, d.SubRunID)
	if err != nil {
		d.Note = "the run cannot be read: " + asError(err).Message
		return
	}
	r := s.desc.Run
	d.Standing, d.WaitsFor, d.ExpiresAtMs = string(r.State), s.desc.WaitsFor, cmp.Or(r.ExpiresAtMs, d.ExpiresAtMs)
	d.Stage = RunStanding(r.State)
	if r.Step != nil {
		d.Attempt = r.Step.Attempt
	}
	if r.State.Terminal() {
		d.Note = "the run has ended, and the run above has not taken it in yet"
	}
}

// ResumeRun tells a reader what happened to a run after the version that he knows, 0 for
// none: see [run.Resume]. Errors as of [Client.DescribeRun], and invalid-request.
func (c *Client) ResumeRun(ctx context.Context, runID string, cursor int64) (run.Page, error) {
	if cursor < 0 {
		return run.Page{}, invalidf("cursor", "must be an integer >= 0, it is %d", cursor)
	}
	s, err := c.readRun(ctx, runID)
	if err != nil {
		return run.Page{}, err
	}
	p, err := run.Resume(s.desc.Run, cursor)
	return p, invalid(err)
}

// RunAnswer is the final answer of a run.
type RunAnswer struct {
	RunID string `json:"runId"`
	// Content is JSON, byte for byte as the runtime gave it, and has been verified.
	Content     json.RawMessage `json:"content"`
	Hash        string          `json:"hash"`
	Bytes       int64           `json:"bytes"`
	ContentType string          `json:"contentType,omitempty"`
	// Ref is where it lies, empty if it lies in the run itself.
	Ref string `json:"ref,omitempty"`
}

// RunResult gives the final answer of a run that has succeeded. Errors: unknown-run,
// not-ended, not-succeeded, result-expired, result-corrupt, terminated, no-worker,
// unavailable.
func (c *Client) RunResult(ctx context.Context, runID string) (RunAnswer, error) {
	s, err := c.readRun(ctx, runID)
	if err != nil {
		return RunAnswer{}, err
	}
	r := s.desc.Run
	switch {
	case !s.ended():
		return RunAnswer{}, fail(CodeNotEnded, "wait for its end: wakepoint run watch "+runID, "run %s %s", runID, RunStanding(r.State))
	case r.State != run.StateSucceeded || r.Final.Empty():
		return RunAnswer{}, fail(CodeNotSucceeded, run.NextStep(r), "run %s %s", runID, RunStanding(r.State))
	}
	out := RunAnswer{RunID: runID, Hash: r.Final.Hash, Bytes: r.Final.Bytes, ContentType: r.Final.ContentType, Ref: r.Final.Ref}
	out.Content, err = stepio.Checkpoint(ctx, c.o.Store, r.Final)
	if err != nil {
		return RunAnswer{}, c.answerError(ctx, r, err)
	}
	return out, nil
}

// answerError says why a final answer cannot be read.
func (c *Client) answerError(ctx context.Context, r run.Run, err error) error {
	e := c.contentError(ctx, "answer of run "+r.ID, err)
	keptUntil := r.EndedAtMs + c.o.Config.ResultTTL.Milliseconds()
	if CodeOf(e) == CodeResultMissing && c.o.Now() >= keptUntil-clockSlack.Milliseconds() {
		return fail(CodeResultExpired, "start the run anew to get it anew", "the answer of run %s is no longer kept", r.ID).because(err)
	}
	return e
}
