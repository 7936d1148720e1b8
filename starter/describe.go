package starter

import (
	"context"
	"encoding/json"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Description is a task as clients see it: what its workflow says, and what only
// the engine knows.
type Description struct {
	protocol.Description
	// Closed says that the workflow has closed: this is the task's record.
	Closed     bool   `json:"closed"`
	WorkflowID string `json:"workflowId"`
	// RunID is the run of the workflow, empty when it was not asked for.
	RunID string `json:"workflowRunId,omitempty"`
	// KeptUntilMs is until when at least the result of a task that has ended and the
	// logs of its jobs are kept, in milliseconds since the epoch.
	KeptUntilMs int64 `json:"keptUntilMs,omitempty"`
	// Pending are the activities that work for the task now.
	Pending []Pending `json:"pending,omitempty"`
}

// Pending is an activity as the engine sees it. What it reports and how often it
// was tried costs the workflow no history, so the workflow does not know it.
type Pending struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	State   string `json:"state"`
	Attempt int32  `json:"attempt"`
	// LastHeartbeatAtMs is when it was last heard of.
	LastHeartbeatAtMs int64 `json:"lastHeartbeatAtMs,omitempty"`
	// Heartbeat is what it said, when that is JSON.
	Heartbeat json.RawMessage `json:"heartbeat,omitempty"`
	// NextAttemptAtMs is when it is tried again.
	NextAttemptAtMs int64 `json:"nextAttemptAtMs,omitempty"`
	// LastFailure is why the try before did not succeed, if it should have.
	LastFailure string `json:"lastFailure,omitempty"`
	Worker      string `json:"worker,omitempty"`
}

func (c *Client) description(taskID string, s snapshot) Description {
	return Description{Description: s.desc, Closed: s.closed(), WorkflowID: c.workflowID(taskID), RunID: s.runID, KeptUntilMs: c.keptUntil(s.desc.Task)}
}

// Describe tells how a task stands. Of a closed task it is read without any
// worker. Errors: unknown-task, terminated, no-worker, unavailable.
func (c *Client) Describe(ctx context.Context, taskID string) (Description, error) {
	s, err := c.read(ctx, taskID)
	if err != nil {
		return Description{}, err
	}
	d := c.description(taskID, s)
	if s.closed() {
		return d, nil
	}
	seen, err := c.engine.DescribeWorkflow(ctx, d.WorkflowID, "")
	if err != nil {
		return Description{}, engineError(ctx, "describe task "+taskID, err)
	}
	d.RunID = seen.WorkflowExecution.RunID
	for _, p := range seen.RawResponse.GetPendingActivities() {
		d.Pending = append(d.Pending, c.pending(p))
		if submits(p) && d.Phase == domain.PhaseSubmitted && (p.GetLastFailure() != nil || p.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED) {
			// The workflow does not see what the engine repeats.
			d.WaitsFor = "an answer of the outside to its submission"
		}
		if p.GetActivityType().GetName() == protocol.ActivityLease {
			// The lease is renewed by the worker outside itself; a probe's
			// heartbeat only says that somebody looked.
			d.LastHeartbeatAtMs = max(d.LastHeartbeatAtMs, d.Pending[len(d.Pending)-1].LastHeartbeatAtMs)
		}
	}
	return d, nil
}

func submits(p *workflow.PendingActivityInfo) bool {
	name := p.GetActivityType().GetName()
	return name == protocol.ActivitySubmit || name == protocol.ActivityRun
}

func (c *Client) pending(p *workflow.PendingActivityInfo) Pending {
	out := Pending{
		ID: p.GetActivityId(), Type: p.GetActivityType().GetName(), State: pendingState(p.GetState()), Attempt: p.GetAttempt(),
		Worker: p.GetLastWorkerIdentity(),
	}
	// That a job goes on is a failure for the engine only.
	if f := p.GetLastFailure(); f.GetApplicationFailureInfo().GetType() != protocol.ErrTypeStillRunning {
		out.LastFailure = f.GetMessage()
	}
	if t := p.GetLastHeartbeatTime(); t.IsValid() {
		out.LastHeartbeatAtMs = t.AsTime().UnixMilli()
	}
	if t := p.GetNextAttemptScheduleTime(); t.IsValid() {
		out.NextAttemptAtMs = t.AsTime().UnixMilli()
	}
	if details := p.GetHeartbeatDetails().GetPayloads(); len(details) > 0 {
		var v json.RawMessage
		if err := c.o.DataConverter.FromPayload(details[0], &v); err == nil && json.Valid(v) {
			out.Heartbeat = v
		}
	}
	return out
}

func pendingState(s enums.PendingActivityState) string {
	switch s {
	case enums.PENDING_ACTIVITY_STATE_SCHEDULED:
		return "scheduled"
	case enums.PENDING_ACTIVITY_STATE_STARTED:
		return "started"
	case enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
		return "cancel-requested"
	case enums.PENDING_ACTIVITY_STATE_PAUSED:
		return "paused"
	case enums.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED:
		return "pause-requested"
	case enums.PENDING_ACTIVITY_STATE_UNSPECIFIED:
	}
	return "unknown"
}

// Resume tells a reader what happened after the version that he knows, 0 for
// none: see [domain.Resume]. Errors as of [Client.Describe].
func (c *Client) Resume(ctx context.Context, taskID string, cursor int64) (domain.Page, error) {
	if cursor < 0 {
		return domain.Page{}, invalidf("cursor", "must be an integer >= 0, it is %d", cursor)
	}
	s, err := c.read(ctx, taskID)
	if err != nil {
		return domain.Page{}, err
	}
	p, err := domain.Resume(s.desc.Task, cursor, 0)
	return p, invalid(err)
}
