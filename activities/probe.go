package activities

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const (
	// defaultPoll is the pause between two looks when nobody says another.
	defaultPoll = time.Second
	// maxPoll bounds what an executor may ask for, so that a job that was
	// forgotten for a day is not.
	maxPoll = time.Hour
	// unknownFor is how long the outside may not know the job before the task
	// is told: a list that is behind by seconds is no loss.
	unknownFor = 15 * time.Second
)

// seen is what a probe keeps from one look to the next, in its heartbeat
// details. Clients read it there too: it is newer than the task.
type seen struct {
	Progress     int    `json:"progress"`
	Stage        string `json:"stage,omitempty"`
	State        string `json:"state"`
	LastSeenAtMs int64  `json:"lastSeenAtMs,omitempty"`
	// UnknownSinceMs is when the outside first did not know the job.
	UnknownSinceMs int64 `json:"unknownSinceMs,omitempty"`
}

// Probe looks at an outside job. While it runs, Probe fails retryably with the
// delay until the next look: the server repeats it at no cost in history. A
// change goes to the task as a callback whose id follows from what was seen,
// so that seeing it twice is telling it once. It only reads, so it is safe to
// repeat.
func (a *Activities) Probe(ctx context.Context, req protocol.ProbeRequest) (protocol.ProbeResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	before := seen{Progress: req.Progress, Stage: req.Stage}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &before); err != nil {
			return protocol.ProbeResult{}, err
		}
	}
	stop := beat(ctx, before)
	defer stop()
	obs, err := ex.Observe(ctx, handleOf(req.Handle))
	if errors.Is(err, tool.ErrThrottled) {
		return protocol.ProbeResult{}, throttled(err, protocol.ErrTypeThrottled)
	}
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	if obs.State.Terminal() {
		return a.ended(ctx, req, obs)
	}
	next, err := a.look(ctx, req, obs, before)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	stop()
	activity.RecordHeartbeat(ctx, next)
	return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("the outside job goes on", protocol.ErrTypeStillRunning,
		temporal.ApplicationErrorOptions{NextRetryDelay: pause(req, obs), Category: temporal.ApplicationErrorCategoryBenign})
}

// look takes in what is seen of a job that goes on: a change is told to the task. A
// job that the outside has not known for a while gives an error that no retry mends.
func (a *Activities) look(ctx context.Context, req protocol.ProbeRequest, obs tool.Observation, before seen) (seen, error) {
	next := seen{Progress: before.Progress, Stage: before.Stage, State: string(obs.State), LastSeenAtMs: obs.LastSeenAtMs}
	if obs.State != tool.StateUnknown {
		return next, a.tellChange(ctx, req, obs, &next)
	}
	now := a.o.Now().UnixMilli()
	next.UnknownSinceMs = before.UnknownSinceMs
	if next.UnknownSinceMs == 0 {
		next.UnknownSinceMs = now
	}
	if now-next.UnknownSinceMs >= unknownFor.Milliseconds() {
		return next, temporal.NewNonRetryableApplicationError("the outside does not know the job any more", "OutsideUnknown", nil)
	}
	return next, nil
}

func pause(req protocol.ProbeRequest, obs tool.Observation) time.Duration {
	d := time.Duration(obs.NextInMs) * time.Millisecond
	if d <= 0 {
		d = time.Duration(req.PollMs) * time.Millisecond
	}
	if d <= 0 {
		d = defaultPoll
	}
	return min(d, maxPoll)
}

// tellChange signals the task when progress or stage have moved on.
func (a *Activities) tellChange(ctx context.Context, req protocol.ProbeRequest, obs tool.Observation, next *seen) error {
	stage := cut(obs.Stage, domain.MaxStage)
	moved := obs.Progress != nil && *obs.Progress > next.Progress
	if !moved && (stage == "" || stage == next.Stage) {
		return nil
	}
	e := domain.Event{Type: domain.EventHeartbeat, AtMs: a.o.Now().UnixMilli(), Attempt: req.Attempt, Stage: stage, Source: "probe"}
	if moved {
		p := float64(*obs.Progress)
		e.Type, e.Progress = domain.EventProgress, &p
		next.Progress = *obs.Progress
	}
	if stage != "" {
		next.Stage = stage
	}
	id := domain.ProbeCallbackID(req.Attempt, next.Progress, next.Stage)
	info := activity.GetInfo(ctx)
	return a.o.Signals.SignalWorkflow(ctx, info.WorkflowExecution.ID, "", protocol.SignalCallback,
		domain.Callback{CallbackID: id, DeliveryID: id, Event: e, Source: "probe"})
}

// Ask looks once and says how the job stands, also when it is not known
// whether there is one. It only reads, so it is safe to repeat.
func (a *Activities) Ask(ctx context.Context, req protocol.ProbeRequest) (protocol.ProbeResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	defer beat(ctx)()
	if req.Handle == nil && tool.PromisesOf(ex).Find == tool.FindNone {
		return protocol.ProbeResult{NotAsked: true, Note: "nobody can be asked for a job under key " + req.SubmissionKey}, nil
	}
	h, found, err := locate(ctx, ex, req.Job)
	if err != nil || !found {
		return protocol.ProbeResult{NotFound: err == nil, Note: "no job is known under the key"}, err
	}
	obs, err := ex.Observe(ctx, h)
	if err != nil {
		return protocol.ProbeResult{}, err
	}
	if obs.State.Terminal() {
		return a.ended(ctx, req, obs)
	}
	return protocol.ProbeResult{Known: obs.State == tool.StateRunning, Note: string(obs.State)}, nil
}

// ended turns the end of a job into an event of the task. The time is when the
// job ended, so that work that was done in time is not late because nobody
// looked.
func (a *Activities) ended(ctx context.Context, req protocol.ProbeRequest, obs tool.Observation) (protocol.ProbeResult, error) {
	e := domain.Event{AtMs: obs.LastSeenAtMs, Attempt: req.Attempt, Source: "probe", Worker: cut(obs.Worker, domain.MaxWorker)}
	switch obs.State {
	case tool.StateSucceeded:
		e.Type = domain.EventSucceed
		if err := a.takeResult(ctx, req, obs.Result, &e); err != nil {
			return protocol.ProbeResult{}, err
		}
	case tool.StateFailed:
		e.Type, e.Error = domain.EventFail, taskError(obs.Error)
		if obs.Error != nil {
			e.RetryAfterMs = max(obs.Error.RetryAfterMs, 0)
		}
	case tool.StateCancelled:
		e.Type = domain.EventCancelled
	case tool.StateLost, tool.StateRunning, tool.StateUnknown:
		res := protocol.ProbeResult{Lost: true, MayRun: obs.MayRun}
		if obs.Error != nil {
			res.Note = cut(obs.Error.Message, domain.MaxErrorText)
		}
		return res, nil
	}
	return protocol.ProbeResult{Event: &e}, nil
}

func (a *Activities) takeResult(ctx context.Context, req protocol.ProbeRequest, r *tool.Result, e *domain.Event) error {
	if r == nil {
		r = &tool.Result{Inline: []byte("null"), ContentType: "application/json"}
	}
	e.ResultRef, e.ResultHash, e.ContentType, e.Bytes = r.Ref, r.Hash, cut(r.ContentType, domain.MaxHash), r.Bytes
	if r.Ref != "" {
		return nil
	}
	ref, err := a.o.Blobs.PutBytes(ctx, store.Key{Tenant: req.Tenant, TaskID: req.TaskID}, r.Inline, r.ContentType)
	if err != nil {
		return err
	}
	e.ResultRef, e.ResultHash, e.ContentType, e.Bytes = ref.Ref, ref.Hash, cut(ref.ContentType, domain.MaxHash), ref.Bytes
	return nil
}

// cut shortens text to a limit of bytes without breaking a character.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
