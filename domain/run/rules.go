package run

import (
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

// Rule is one line of the run's state machine. For each event the first rule that fits
// decides.
type Rule struct {
	// On lists the event types; none means any.
	On []EventType
	// From lists the states; none means any.
	From []State
	// When is the rest of the condition, in words; empty means always.
	When string
	// To says what follows, in words.
	To     string
	Kind   domain.Kind
	Reason Reason

	guard  func(r Run, e Event) bool
	check  func(r Run, e Event) error
	do     func(r *Run, e *Event)
	answer func(r Run, e Event) Outcome
}

var (
	ended = []State{StateSucceeded, StateFailed, StateCancelled, StateExpired}
	live  = []State{StateRunning, StateWaitingTool, StateWaitingInput, StatePaused}
)

func on(types ...EventType) []EventType { return types }
func from(states ...State) []State      { return states }

// The rules: what comes from people who end or hold a run, steps, calls, what people
// say. Documents, tests and Apply all read this one list.
var rules = slices.Concat(whoRules, stepRules, commitRules, callRules, personRules, inputRules, endingRules)

// Rules gives a copy of the list.
func Rules() []Rule { return slices.Clone(rules) }

// holds tells whether an event names the attempt of a step that is out.
func holds(r Run, e Event) bool {
	return r.Step != nil && r.Step.Attempt > 0 && r.Step.Token == e.Token && e.Token != ""
}

func ending(r Run, _ Event) bool { return r.Ending != nil }

var stepRules = []Rule{
	{
		On: on(EventClaim), When: "the token or the holder is malformed", Kind: domain.Rejects,
		check: func(_ Run, e Event) error {
			if e.LeaseMs < 0 || e.LeaseMs > longest {
				return domain.Invalid("leaseMs", "must be >= 0, and a time; it is %d", e.LeaseMs)
			}
			if err := checkText("runtimeVersion", e.RuntimeVersion, MaxText, false); err != nil {
				return err
			}
			if err := checkText("stepToken", e.Token, MaxToken, true); err != nil {
				return err
			}
			return checkText("holder", e.Holder, MaxText, false)
		},
	},
	{On: on(EventClaim, EventHeartbeat, EventStepFailed), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventClaim), When: "no step is due, its wait is not over, the run is paused or on its way to an end", Kind: domain.Refuses, Reason: ReasonNoStep,
		guard: func(r Run, e Event) bool {
			return r.Step == nil || r.Paused || r.Ending != nil || r.Step.NotBeforeMs > e.AtMs && !r.Step.Held || takesTooSoon(r, e)
		},
	},
	{
		On: on(EventClaim), When: "it is a runtime of another version than the run's", Kind: domain.Refuses, Reason: ReasonWrongRuntime,
		guard: func(r Run, e Event) bool {
			return e.RuntimeVersion != "" && r.RuntimeVersion != "" && e.RuntimeVersion != r.RuntimeVersion
		},
	},
	{
		On: on(EventClaim), When: "somebody else holds the step and its lease has not run out", Kind: domain.Refuses, Reason: ReasonStepHeld,
		guard: func(r Run, e Event) bool {
			s := r.Step
			return s.Held && s.LeaseUntilMs > e.AtMs && (e.Holder == "" || e.Holder != s.Holder)
		},
	},
	{
		On: on(EventClaim), When: "the attempt before it was lost, and no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, e Event) bool { return r.Step.Held && !e.Left && givesUp(r, lostError(r)) },
		do: func(r *Run, e *Event) {
			err := lostError(*r)
			if r.Step.LeaseUntilMs > e.AtMs {
				err.Message = "the runtime " + r.Step.Holder + " took the step again and again and did not commit it"
			}
			r.stepFails(*e, err, true)
		},
	},
	{
		On: on(EventClaim), To: "the runtime has the step, with a token of its own", Kind: domain.Changes, Reason: ReasonClaimed,
		do: func(r *Run, e *Event) { r.claim(*e) },
	},
	{
		On: on(EventHeartbeat, EventStepFailed), When: "the token is not that of the newest attempt", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return !holds(r, e) },
	},
	{On: on(EventHeartbeat, EventStepFailed), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending},
	{
		On: on(EventHeartbeat), When: "that attempt has said that it failed", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, _ Event) bool {
			return !r.Step.Held && r.Step.Error != nil && r.Step.Error.Code != CodeStepLost
		},
	},
	{
		On: on(EventHeartbeat), Kind: domain.Notes, Reason: ReasonRenewed, To: "the lease begins anew",
		do: func(r *Run, e *Event) {
			if e.LeaseMs > 0 {
				r.Step.LeaseMs = e.LeaseMs
			}
			r.Step.Held, r.Step.LeaseUntilMs = true, e.AtMs+r.Step.LeaseMs
		},
	},
	{
		On: on(EventStepFailed), When: "that attempt has failed, or was lost", Kind: domain.Repeats, Reason: ReasonStepRetry,
		guard: func(r Run, _ Event) bool { return !r.Step.Held },
	},
	{
		On: on(EventStepFailed), When: "the error is final, or no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, e Event) bool { return givesUp(r, e.Error) }, do: func(r *Run, e *Event) { r.stepFails(*e, e.Error, true) },
	},
	{
		On: on(EventStepFailed), To: "the same step comes again, after a wait", Kind: domain.Changes, Reason: ReasonStepRetry,
		do: func(r *Run, e *Event) { r.stepFails(*e, e.Error, false) },
	},
	{
		On: on(EventStepLost), When: "nobody holds a step", Kind: domain.Refuses, Reason: ReasonUnchanged,
		guard: func(r Run, _ Event) bool { return r.Step == nil || !r.Step.Held },
	},
	{
		On: on(EventStepLost), When: "no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, _ Event) bool { return givesUp(r, lostError(r)) }, do: func(r *Run, e *Event) { r.stepFails(*e, lostError(*r), true) },
	},
	{
		On: on(EventStepLost), To: "the same step comes again", Kind: domain.Changes, Reason: ReasonStepLost,
		do: func(r *Run, e *Event) { r.stepFails(*e, lostError(*r), false) },
	},
}

func lostError(r Run) *domain.TaskError {
	return &domain.TaskError{Code: CodeStepLost, Retryable: true, Class: domain.ClassSystem, Message: "the runtime " + r.Step.Holder + " was silent for longer than its lease"}
}

func givesUp(r Run, err *domain.TaskError) bool {
	return err != nil && !err.Retryable || r.Step.Failures+1 >= r.Policy.StepAttempts
}

// takesTooSoon tells whether a runtime takes its own step again faster than a step that
// failed comes again. The first time is for a process that was restarted; one that keeps
// dying, or two that go by one name, must not use up the attempts within a moment.
func takesTooSoon(r Run, e Event) bool {
	s := r.Step
	again := s.Held && !e.Left && s.LeaseUntilMs > e.AtMs && e.Holder != "" && e.Holder == s.Holder
	return again && s.Failures > 0 && e.AtMs < s.ClaimedMs+r.Policy.StepBackoff.Wait(s.Failures, 0)
}

// claim hands the step out. What it is about stays the same from the first time on.
func (r *Run) claim(e Event) {
	s := r.Step
	if s.Attempt == 0 {
		due := r.resultsDue()
		for _, c := range r.Calls {
			if c.State.Ended() && c.TakenAt == 0 && (due || c.Background) {
				s.Results = append(s.Results, c.Key)
			}
		}
		for _, in := range r.Inputs {
			s.Inputs = append(s.Inputs, in.InputID)
		}
	}
	lease := e.LeaseMs
	if lease == 0 {
		lease = r.Policy.LeaseMs
	}
	if s.Held && !e.Left {
		// Whoever claims what is held has lost it, or somebody else has: a runtime that
		// always dies on the same step must not go on for ever.
		s.Failures++
	}
	s.Attempt++
	s.Token, s.Holder, s.Held = e.Token, e.Holder, true
	s.LeaseMs, s.LeaseUntilMs, s.NotBeforeMs, s.ClaimedMs = lease, e.AtMs+lease, 0, e.AtMs
}

// stepFails ends an attempt of the step. Its token still holds until the next attempt
// is handed out: a runtime that was only slow has done the work.
func (r *Run) stepFails(e Event, err *domain.TaskError, giveUp bool) {
	s := r.Step
	if err == nil {
		err = &domain.TaskError{Code: CodeStepFailed, Retryable: true, Message: "the runtime gave no reason"}
	}
	if len(err.Details) > domain.MaxDetails {
		e := *err
		e.Details = nil
		err = &e
	}
	s.Held, s.LeaseUntilMs, s.Error = false, 0, err
	s.Failures++
	if giveUp {
		r.State, r.Error, r.EndedAtMs = StateFailed, err, e.AtMs
		return
	}
	if e.Type != EventStepLost {
		s.NotBeforeMs = e.AtMs + r.Policy.StepBackoff.Wait(s.Failures, e.Jitter)
	}
}

var commitRules = []Rule{
	{On: on(EventCommit), When: "it is malformed, or its graph is broken", Kind: domain.Rejects, check: checkCommit},
	{
		On: on(EventCommit), When: "it is the commit that ended the step", Kind: domain.Repeats, Reason: ReasonDuplicateCommit,
		guard: func(r Run, e Event) bool {
			c, ok := r.commitOf(e.Step)
			return ok && c.Token == e.Token && c.Digest == e.Digest
		},
		answer: func(r Run, e Event) Outcome {
			c, _ := r.commitOf(e.Step)
			out := c.Outcome
			out.Duplicate = true
			return out
		},
	},
	{
		On: on(EventCommit), When: "the step was committed under that token with another answer", Kind: domain.Refuses, Reason: ReasonCommitConflict,
		guard: func(r Run, e Event) bool {
			c, ok := r.commitOf(e.Step)
			return ok && c.Token == e.Token
		},
	},
	{
		On: on(EventCommit), When: "the step was committed by another attempt, or too long ago", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return e.Step <= r.StepsDone },
	},
	{On: on(EventCommit), From: ended, Kind: domain.Refuses, Reason: ReasonRunClosed},
	{
		On: on(EventCommit), When: "an earlier step has not been committed", Kind: domain.Refuses, Reason: ReasonStepAhead,
		guard: func(r Run, e Event) bool { return e.Step > r.StepsDone+1 },
	},
	{On: on(EventCommit), When: "the run is on its way to an end", Kind: domain.Refuses, Reason: ReasonRunEnding, guard: ending},
	{
		On: on(EventCommit), When: "no step is due", Kind: domain.Refuses, Reason: ReasonNoStep,
		guard: func(r Run, _ Event) bool { return r.Step == nil },
	},
	{
		On: on(EventCommit), When: "the token is not that of the newest attempt", Kind: domain.Refuses, Reason: ReasonStaleToken,
		guard: func(r Run, e Event) bool { return !holds(r, e) },
	},
	{
		On: on(EventCommit), When: "it is an error, and that attempt has failed, or was lost", Kind: domain.Repeats, Reason: ReasonStepRetry,
		guard: func(r Run, e Event) bool { return e.Response.Error != nil && !r.Step.Held },
	},
	{
		On: on(EventCommit), When: "it is an error that is final, or no attempt is left", To: "FAILED, the checkpoint is kept", Kind: domain.Changes, Reason: ReasonStepGivenUp,
		guard: func(r Run, e Event) bool { return e.Response.Error != nil && givesUp(r, e.Response.Error) },
		do:    func(r *Run, e *Event) { r.account(e.Response.Usage); r.stepFails(*e, e.Response.Error, true) },
	},
	{
		On: on(EventCommit), When: "it is an error", To: "the same step comes again, after a wait", Kind: domain.Changes, Reason: ReasonStepRetry,
		guard: func(_ Run, e Event) bool { return e.Response.Error != nil },
		do:    func(r *Run, e *Event) { r.account(e.Response.Usage); r.stepFails(*e, e.Response.Error, false) },
	},
	{On: on(EventCommit), When: "it does not fit what is open", Kind: domain.Rejects, check: checkAgainst},
	{On: on(EventCommit), When: "it asks for nothing, and nothing is open", Kind: domain.Refuses, Reason: ReasonNothingToWait, guard: nothingToWaitFor},
	{
		On: on(EventCommit), When: "it is not final and would pass a limit", To: "nothing of it is done, open calls are given up, then FAILED", Kind: domain.Changes, Reason: ReasonLimit,
		guard: func(r Run, e Event) bool { return limitHit(r, e) != nil },
		do: func(r *Run, e *Event) {
			err := limitHit(*r, *e)
			r.account(e.Response.Usage)
			r.dropStep()
			r.Step.Error = err
			r.begin(e.AtMs, StateFailed, err, "limit", err.Message)
		},
	},
	{
		On: on(EventCommit), When: "it is final", To: "SUCCEEDED", Kind: domain.Changes, Reason: ReasonFinished,
		guard: func(_ Run, e Event) bool { return e.Final != nil }, do: (*Run).commit,
	},
	{On: on(EventCommit), To: "results and inputs are consumed, calls begin", Kind: domain.Changes, Reason: ReasonCommitted, do: (*Run).commit},
}

func (r Run) commitOf(step int) (Commit, bool) {
	i := slices.IndexFunc(r.Commits, func(c Commit) bool { return c.Step == step })
	if i < 0 {
		return Commit{}, false
	}
	return r.Commits[i], true
}
