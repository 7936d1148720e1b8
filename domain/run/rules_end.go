package run

import (
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

var endingRules = []Rule{
	{On: on(EventPause, EventUnpause, EventCancel, EventExpire, EventCancelTimeout, EventCallTimeout, EventWaitTimeout, EventStepLost), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventPause, EventUnpause), When: "it is so already, or the run is on its way to an end", Kind: domain.Repeats, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return r.Paused == (e.Type == EventPause) || r.Ending != nil },
	},
	{
		On: on(EventPause), From: live, To: "PAUSED: tasks go on, a step that is out may commit", Kind: domain.Changes, Reason: ReasonPaused,
		do: func(r *Run, _ *Event) { r.Paused = true },
	},
	{
		On: on(EventUnpause), From: live, To: "what is due goes on", Kind: domain.Changes, Reason: ReasonUnpaused,
		do: func(r *Run, _ *Event) { r.Paused = false },
	},
	{
		On: on(EventCancel), When: "it was asked for", Kind: domain.Repeats, Reason: ReasonDuplicateCancel,
		guard: func(r Run, _ Event) bool { return r.Cancel != nil },
	},
	{
		On: on(EventCancel), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending,
	},
	{
		On: on(EventCancel), To: "calls are asked to stop; CANCELLED when all have ended", Kind: domain.Changes, Reason: ReasonCancelRequested,
		do: func(r *Run, e *Event) {
			r.Cancel = &domain.CancelRequest{AtMs: e.AtMs, By: e.By, Reason: e.Reason}
			r.dropStep()
			r.begin(e.AtMs, StateCancelled, cancelledError(r.Cancel), e.By, e.Reason)
		},
	},
	{
		On: on(EventExpire), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending,
	},
	{
		On: on(EventExpire), To: "calls are asked to stop; EXPIRED when all have ended", Kind: domain.Changes, Reason: ReasonExpired,
		do: func(r *Run, e *Event) {
			r.dropStep()
			r.begin(e.AtMs, StateExpired, &domain.TaskError{Code: CodeDeadlineExceeded, Message: "the run did not end before its deadline"}, "timer", "the run's deadline has passed")
		},
	},
	{
		On: on(EventCancelTimeout), When: "the run is not on its way to an end", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return r.Ending == nil },
	},
	{
		On: on(EventCancelTimeout), To: "the end, though some calls have not said that they stopped", Kind: domain.Changes, Reason: ReasonCancelTimeout,
		do: func(r *Run, e *Event) { r.finish(e.AtMs) },
	},
	{
		On: on(EventCallTimeout), When: "nobody is asked", Kind: domain.Refuses, Reason: ReasonNotAsked,
		guard: func(r Run, e Event) bool { return !knownCall(r, e) || !callIn(CallApproval, CallAsking)(r, e) },
	},
	{
		On: on(EventCallTimeout), To: "the call is expired", Kind: domain.Changes, Reason: ReasonTimedOut,
		do: func(r *Run, e *Event) {
			c := r.the(e)
			code, what := CodeApprovalTimeout, "decided"
			if c.State == CallAsking {
				code, what = CodeAnswerTimeout, "answered"
			}
			c.end(e.AtMs, End{State: CallExpired, Error: &domain.TaskError{Code: code, Class: domain.ClassUser, Message: "nobody " + what + " in time"}})
		},
	},
	{
		On: on(EventWaitTimeout), When: "the call has ended", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, e Event) bool { return !knownCall(r, e) || callEnded(r, e) },
	},
	{
		On: on(EventWaitTimeout), To: "the call failed with WAIT_TIMEOUT, its task goes on", Kind: domain.Changes, Reason: ReasonWaitTimeout,
		do: func(r *Run, e *Event) {
			c := r.the(e)
			starting := c.Starting
			if c.State == CallOpen {
				r.detach(*c)
			}
			c.end(e.AtMs, End{State: CallFailed, Error: &domain.TaskError{Code: CodeWaitTimeout, Message: "it had not ended when the run stopped waiting for it; its work may go on"}})
			c.Starting = starting
		},
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired), When: "the new time to live is not positive, though the deadline has passed, or a limit is not one", Kind: domain.Rejects,
		check: func(r Run, e Event) error {
			if e.TTLMs < 0 || e.TTLMs > longest || e.TTLMs == 0 && r.ExpiresAtMs <= e.AtMs {
				return domain.Invalid("ttlMs", "must be > 0, it is %d", e.TTLMs)
			}
			if e.Limits != nil {
				return e.Limits.validate()
			}
			return nil
		},
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired), To: "RUNNING: the step comes again", Kind: domain.Changes, Reason: ReasonRetried,
		do: func(r *Run, e *Event) { r.retry(*e) },
	},
	{On: on(EventRetry), Kind: domain.Refuses, Reason: ReasonNotRetriable},
}

// dropStep takes the step back from whoever has it. It is remembered: a retry brings it
// again.
func (r *Run) dropStep() {
	if r.Step != nil {
		r.Step.Held, r.Step.LeaseUntilMs = false, 0
	}
}

func (r *Run) retry(e Event) {
	r.Retries++
	r.State, r.Error, r.EndedAtMs, r.Ending, r.Cancel, r.Paused, r.Unconfirmed = StateRunning, nil, 0, nil, nil, false, nil
	if e.TTLMs > 0 {
		r.ExpiresAtMs = e.AtMs + e.TTLMs
	}
	if l := e.Limits; l != nil {
		for _, f := range []struct{ to, of *int }{{&r.Limits.MaxSteps, &l.MaxSteps}, {&r.Limits.MaxCalls, &l.MaxCalls}, {&r.Limits.MaxOpenCalls, &l.MaxOpenCalls}} {
			*f.to = max(*f.to, *f.of)
		}
		r.Limits.MaxTokens, r.Limits.MaxCostUSD = max(r.Limits.MaxTokens, l.MaxTokens), max(r.Limits.MaxCostUSD, l.MaxCostUSD)
	}
	for i := range r.Calls {
		// What a run below asked meanwhile was told to nobody.
		r.Calls[i].Asks = false
	}
	if r.Step == nil {
		if _, due := r.due(); due || slices.ContainsFunc(r.Calls, func(c Call) bool { return !c.State.Ended() }) || r.AwaitInput {
			return
		}
		r.Step = &Step{Number: r.StepsDone + 1, DueMs: e.AtMs}
	}
	r.Step.Cause, r.Step.Failures, r.Step.NotBeforeMs, r.Step.Error = CauseRecover, 0, 0, nil
}
