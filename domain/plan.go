package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
)

// Wake says what the one timer of a task is for.
type Wake string

// What a timer can be for.
const (
	WakeNone        Wake = ""
	WakeDeadline    Wake = "deadline"
	WakeRetry       Wake = "retry wait"
	WakeCancelGrace Wake = "cancel grace"
	WakeLateGrace   Wake = "late result grace"
	WakeStall       Wake = "stall time"
)

// Plan is what has to be kept going on behalf of a task. It follows from the
// task alone, so that after a restart the same plan comes out.
type Plan struct {
	// WakeAtMs is when to look at the task again at the latest; 0 is never.
	WakeAtMs int64
	// WakeFor says what for.
	WakeFor Wake
	// Submit says that attempt Attempts+1 is to be submitted now.
	Submit bool
	// Probe says that the outside job is to be watched.
	Probe bool
	// Lease says that a worker outside renews a lease of LeaseMs.
	Lease   bool
	LeaseMs int64
	// AskOutside says that the outside is to be asked once, directly: the
	// lease ran out, or a cancel was not confirmed within its grace.
	AskOutside bool
	// CancelOutside says that the outside is to be told to stop.
	CancelOutside bool
	// Compensate says that what an attempt may have done is to be undone, by a task
	// of its own.
	Compensate bool
	// Close says that nothing can happen to the task any more.
	Close bool
}

// Next gives the plan for a task at nowMs.
func Next(t Task, nowMs int64) Plan {
	if t.State.Terminal() {
		return nextEnded(t, nowMs)
	}
	p := Plan{WakeAtMs: t.ExpiresAtMs, WakeFor: WakeDeadline}
	if t.State == StateQueued {
		if t.Policy.External || t.Attempts >= t.MaxAttempts {
			return p
		}
		if t.RetryAtMs > nowMs {
			p.earlier(t.RetryAtMs, WakeRetry)
			return p
		}
		p.Submit = true
		return p
	}
	// While a person looks for the work, nobody else does: what there was to be asked
	// has been asked.
	p.Probe = !t.Policy.External && t.Manual == nil
	p.Lease = t.Policy.LeaseMs > 0 && t.SuspectedAtMs == 0 && t.Manual == nil
	p.LeaseMs = t.Policy.LeaseMs
	p.AskOutside = t.SuspectedAtMs != 0
	p.Compensate = t.BeingUndone()
	if stalls := t.LastProgressAtMs + t.Policy.StallMs; t.Policy.ShowsStall && t.Policy.StallMs > 0 && t.Manual == nil && nowMs < stalls {
		p.earlier(stalls, WakeStall)
	}
	if t.Cancel != nil {
		p.CancelOutside = true
		graceEnds := t.Cancel.AtMs + t.Policy.cancelGrace()
		switch {
		case p.Compensate:
			// Undoing ends by itself, and tells more than the outside could.
		case nowMs >= graceEnds:
			p.AskOutside = true
		default:
			p.earlier(graceEnds, WakeCancelGrace)
		}
	}
	return p
}

func nextEnded(t Task, nowMs int64) Plan {
	// A task that ended under the hands of its worker tells it to stop; one
	// that ended by the worker's own word has nobody left to tell. A job that may
	// do harm and was lost sight of is left to the person whom the task goes to.
	byOutside := t.State == StateSucceeded || t.State == StateFailed && (t.Error == nil || t.Error.Code != CodeWorkerLost) ||
		t.State == StateCancelled && t.Confirmed != nil && *t.Confirmed
	p := Plan{CancelOutside: !byOutside && t.Attempts > 0, Close: true}
	if t.State == StateExpired && t.Policy.LatePolicy == LateRecord && t.Late == nil {
		if graceEnds := t.EndedAtMs + t.Policy.grace(); nowMs < graceEnds {
			p.Close = false
			p.WakeAtMs, p.WakeFor = graceEnds, WakeLateGrace
		}
	}
	return p
}

func (p *Plan) earlier(atMs int64, what Wake) {
	if atMs < p.WakeAtMs {
		p.WakeAtMs, p.WakeFor = atMs, what
	}
}

// Due gives the event that time alone brings at nowMs, if there is one.
func Due(t Task, nowMs int64) (Event, bool) {
	if !t.State.Terminal() && nowMs >= t.ExpiresAtMs {
		return Event{Type: EventExpire, AtMs: t.ExpiresAtMs, Source: "timer"}, true
	}
	return Event{}, false
}

// GivenUp says that a task ended without the outside having had a part in it: what
// was begun for it may go on, and nobody waits for that any more.
func GivenUp(t Task) bool {
	return t.State == StateExpired || t.State == StateCancelled && (t.Confirmed == nil || !*t.Confirmed)
}

// AskFirst says that the outside is to be asked, once, before a task expires: its job
// may have ended in time while nobody was there to see it.
func AskFirst(t Task, nowMs int64) bool {
	return t.State == StateRunning && !t.Policy.External && nowMs >= t.ExpiresAtMs
}

// Silence says what it means that nothing was heard of an attempt: it is suspected
// lost. At the deadline it means nothing: the outside is asked then anyway, and its
// answer counts.
func Silence(t Task, attempt int, source string, nowMs int64) (Event, bool) {
	if nowMs >= t.ExpiresAtMs {
		return Event{}, false
	}
	return Event{Type: EventSuspect, AtMs: nowMs, Attempt: attempt, Source: source}, true
}

// SubmissionKey names the outside job of a task: the task and a counter that
// moves on only after a definite end of the job before. Whoever submits twice
// under one key gets the same job.
func (t Task) SubmissionKey() string {
	return t.ID + "/" + strconv.Itoa(t.Submission+1)
}

// Asked says what the answer of the outside, asked directly, means for a task:
// it was suspected lost, or did not confirm a cancel. An observation that the
// work has ended comes as an event of its own; known says that the outside
// still works, lost that it certainly does not.
func Asked(t Task, known, lost bool, nowMs int64) (Event, bool) {
	graceOver := t.Cancel != nil && nowMs >= t.Cancel.AtMs+t.Policy.cancelGrace()
	switch {
	case t.State != StateRunning, t.BeingUndone():
		return Event{}, false
	case t.Manual != nil && known:
		return Event{Type: EventLeaseRenewed, AtMs: nowMs, Attempt: t.Attempts, Source: "probe"}, true
	case t.Manual != nil && !graceOver:
		// What is unknown stays unknown.
		return Event{}, false
	case lost:
		return Event{Type: EventRequeue, AtMs: nowMs, Attempt: t.Attempts, Stopped: true, Source: "probe", Jitter: LotFor(t.ID, t.Attempts)}, true
	case graceOver:
		return Event{Type: EventCancelTimeout, AtMs: nowMs, Source: "timer"}, true
	case t.SuspectedAtMs != 0 && known:
		return Event{Type: EventLeaseRenewed, AtMs: nowMs, Attempt: t.Attempts, Source: "probe"}, true
	case t.SuspectedAtMs != 0:
		return Event{Type: EventRequeue, AtMs: nowMs, Attempt: t.Attempts, Source: "probe", Jitter: LotFor(t.ID, t.Attempts)}, true
	}
	return Event{}, false
}

// CompensationID is the id of the task that undoes what an attempt may have done.
// The same attempt is undone once.
func CompensationID(taskID string, attempt int) string {
	sum := sha256.Sum256([]byte(taskID + "#" + strconv.Itoa(attempt)))
	return PrefixCompensation + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// ProbeCallbackID names the callback by which a probe reports a change: the
// same change seen twice is the same callback.
func ProbeCallbackID(attempt, progress int, stage string) string {
	return fmt.Sprintf("probe/%d/%d/%s", attempt, progress, shortHash(stage))
}
