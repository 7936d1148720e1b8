package domain

import (
	"math"
	"slices"
)

// Kind says what a rule does to the task.
type Kind string

// The kinds of rules.
const (
	// Changes adds one version and one entry to the history.
	Changes Kind = "changes"
	// Notes keeps the time at which the outside was heard of, and no version:
	// ten thousand heartbeats of a month-long job are no news.
	Notes Kind = "notes"
	// Repeats changes nothing, because it has been done already.
	Repeats Kind = "repeats"
	// Refuses changes nothing, because the event does not fit the task.
	Refuses Kind = "refuses"
	// Rejects is an [InvalidError]: nothing changes, nothing is remembered.
	Rejects Kind = "rejects"
)

// Rule is one line of the task's state machine. For each event the first rule
// that fits decides.
type Rule struct {
	// On lists the event types; none means any.
	On []EventType
	// From lists the states; none means any.
	From []State
	// When is the rest of the condition, in words; empty means always.
	When string
	// To is the state that follows; empty means that the state stays.
	To     State
	Kind   Kind
	Reason Reason
	// Notify puts an entry into the outbox.
	Notify bool

	guard func(t Task, e Event) bool
	check func(t Task, e Event) error
	do    func(t *Task, e *Event)
}

var (
	ended = []State{StateSucceeded, StateFailed, StateExpired, StateCancelled}
	live  = []State{StateQueued, StateRunning}
)

func on(types ...EventType) []EventType { return types }
func from(states ...State) []State      { return states }

// The rules, most general first: time, ends, the deadline, the attempt fence,
// then each event. Documents, tests and Apply all read this one list.
var rules = concat(timeRules, endRules, deadlineRules, fenceRules, undoRules, workRules, resultRules, questionRules, waiterRules, cancelRules, manualRules, leaseRules)

// Rules gives a copy of the list.
func Rules() []Rule { return append([]Rule(nil), rules...) }

// repeats tells whether a reason means that something had been done already.
func repeats(reason Reason) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Reason == reason && r.Kind == Repeats })
}

func concat(lists ...[]Rule) []Rule {
	var all []Rule
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var timeRules = []Rule{{
	When: "the time is negative", Kind: Rejects,
	check: func(_ Task, e Event) error {
		if e.AtMs < 0 {
			return Invalid("event.atMs", "must be >= 0, it is %d", e.AtMs)
		}
		return nil
	},
}}

var endRules = []Rule{
	{
		On: on(EventSucceed), From: from(StateSucceeded), When: "the hash is the result's", Kind: Repeats, Reason: ReasonDuplicateResult,
		guard: func(t Task, e Event) bool { return e.ResultHash == t.ResultHash },
	},
	{On: on(EventExpire), From: from(StateExpired), Kind: Repeats, Reason: ReasonDuplicateExpire},
	{
		On: on(EventSucceed), From: from(StateExpired), When: "the hash is the kept late result's", Kind: Repeats, Reason: ReasonDuplicateResult,
		guard: func(t Task, e Event) bool { return t.Late != nil && t.Late.ResultHash == e.ResultHash },
	},
	{
		On: on(EventSucceed), From: from(StateExpired), When: "late results are recorded, the grace is not over, none is kept yet and the result is whole",
		Kind: Changes, Reason: ReasonLateResult, Notify: true,
		guard: keepsLate,
		do:    func(t *Task, e *Event) { t.keepLate(*e) },
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired, StateCancelled), When: "the new time to live is not positive, or without end", Kind: Rejects,
		check: func(_ Task, e Event) error {
			if e.TTLMs <= 0 {
				return Invalid("ttlMs", "must be > 0, it is %d", e.TTLMs)
			}
			if e.TTLMs > math.MaxInt64-e.AtMs {
				return Invalid("ttlMs", "must end within the range of times, it is %d", e.TTLMs)
			}
			return nil
		},
	},
	{
		On: on(EventRetry), From: from(StateFailed, StateExpired, StateCancelled), To: StateQueued, Kind: Changes, Reason: ReasonRetried,
		do: func(t *Task, e *Event) { t.retry(*e) },
	},
	{On: on(EventRetry), From: from(StateSucceeded), Kind: Refuses, Reason: ReasonNotRetryable},
	{From: ended, Kind: Refuses, Reason: ReasonTerminalConflict},
}

var deadlineRules = []Rule{{
	From: live, When: "the event is the deadline, or its time is not before the deadline", To: StateExpired, Kind: Changes, Reason: ReasonExpired, Notify: true,
	guard: func(t Task, e Event) bool { return e.Type == EventExpire || e.AtMs >= t.ExpiresAtMs },
	do: func(t *Task, e *Event) {
		t.end(t.ExpiresAtMs)
		// The record shows the deadline itself, whoever was late, so that the
		// same task replayed with other callers has the same history.
		*e = Event{Type: EventExpire, AtMs: t.ExpiresAtMs, Begun: e.Begun && e.Type == EventExpire}
		if e.Begun && t.Policy.Effects == EffectsUnsafe {
			t.Error = &TaskError{Code: CodeOutcomeUnknown, Class: ClassSystem, Message: "the deadline came while a submission had no answer; it may have started a job"}
		}
	},
}}

var fenceRules = []Rule{
	{
		On: on(EventStart), From: live, When: "it names another attempt than the one that begins (queued) or runs (running)", Kind: Refuses, Reason: ReasonStaleAttempt,
		guard: func(t Task, e Event) bool {
			want := t.Attempts
			if t.State == StateQueued {
				want++
			}
			return e.Attempt != want && (e.Attempt != 0 || t.Retries > 0)
		},
	},
	{
		On:   on(EventProgress, EventHeartbeat, EventSucceed, EventFail, EventInputRequired, EventCancelled),
		From: live, When: "it names another attempt than the current one, or none after a manual retry", Kind: Refuses, Reason: ReasonStaleAttempt,
		guard: staleAttempt,
	},
	{
		On:   on(EventCancelRequested, EventCancelTimeout, EventAnswer, EventSuspect, EventLeaseRenewed, EventRequeue, EventResolve, EventCompensated),
		From: live, When: "it names another attempt than the current one", Kind: Refuses, Reason: ReasonStaleAttempt,
		guard: func(t Task, e Event) bool { return e.Attempt != 0 && staleAttempt(t, e) },
	},
}

var workRules = []Rule{
	{On: on(EventStart), From: from(StateRunning), Kind: Repeats, Reason: ReasonAlreadyRunning},
	{
		On: on(EventStart), From: from(StateQueued), When: "no attempt is left", Kind: Refuses, Reason: ReasonNotStartable,
		guard: func(t Task, _ Event) bool { return t.Attempts >= t.MaxAttempts },
	},
	{
		On: on(EventStart), From: from(StateQueued), To: StateRunning, Kind: Changes, Reason: ReasonStarted,
		do: func(t *Task, e *Event) { t.start(*e) },
	},
	{
		On:   on(EventProgress, EventHeartbeat, EventSucceed, EventFail, EventInputRequired, EventCancelled, EventAnswer, EventSuspect, EventLeaseRenewed, EventRequeue),
		From: from(StateQueued), Kind: Refuses, Reason: ReasonNotRunning,
	},
	{
		On: on(EventProgress), From: from(StateRunning), When: "it is not an integer in 0..100", Kind: Rejects,
		check: func(_ Task, e Event) error {
			if _, ok := wholePercent(e.Progress); !ok {
				return Invalid("event.progress", "must be an integer in 0..100")
			}
			return nil
		},
	},
	{
		On: on(EventProgress), From: from(StateRunning), When: "it is lower than now", Kind: Refuses, Reason: ReasonStaleProgress,
		guard: func(t Task, e Event) bool { return *e.Progress < float64(t.Progress) },
	},
	{
		On: on(EventProgress, EventHeartbeat), From: from(StateRunning), When: "the stage is new and the progress is not", Kind: Changes, Reason: ReasonStage,
		guard: func(t Task, e Event) bool {
			return newStage(t, e) && (e.Type == EventHeartbeat || *e.Progress == float64(t.Progress))
		},
		do: func(t *Task, e *Event) { t.moved(*e) },
	},
	{
		On: on(EventProgress), From: from(StateRunning), When: "it is the same as now", Kind: Repeats, Reason: ReasonDuplicateProgress,
		guard: func(t Task, e Event) bool { return *e.Progress == float64(t.Progress) },
	},
	{
		On: on(EventProgress), From: from(StateRunning), Kind: Changes, Reason: ReasonProgress,
		do: func(t *Task, e *Event) {
			t.Progress, _ = wholePercent(e.Progress)
			t.moved(*e)
		},
	},
	{
		On: on(EventHeartbeat), From: from(StateRunning), When: "the worker was suspected lost, or a person looks for it", Kind: Changes, Reason: ReasonLeaseRenewed,
		guard: func(t Task, _ Event) bool { return t.SuspectedAtMs != 0 || t.AsksPerson() },
	},
	{On: on(EventHeartbeat), From: from(StateRunning), Kind: Notes, Reason: ReasonHeartbeat},
}

var resultRules = []Rule{
	{
		On: on(EventSucceed), From: from(StateRunning), When: "the reference or the hash is blank", Kind: Rejects,
		check: func(_ Task, e Event) error {
			if blank(e.ResultRef) {
				return Invalid("event.resultRef", "must not be blank")
			}
			if blank(e.ResultHash) {
				return Invalid("event.resultHash", "must not be blank")
			}
			return nil
		},
	},
	{
		On: on(EventSucceed), From: from(StateRunning), To: StateSucceeded, Kind: Changes, Reason: ReasonSucceeded, Notify: true,
		do: func(t *Task, e *Event) {
			t.Progress, t.ResultRef, t.ResultHash = 100, e.ResultRef, e.ResultHash
			t.ContentType, t.ResultBytes = e.ContentType, e.Bytes
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventFail), From: from(StateRunning), When: "it is retryable and a cancel was asked for", To: StateCancelled, Kind: Changes, Reason: ReasonCancelled, Notify: true,
		guard: func(t Task, e Event) bool { return t.Cancel != nil && e.retryable() },
		do: func(t *Task, e *Event) {
			t.failed(e)
			t.confirm(true)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventFail), From: from(StateRunning), When: "it is retryable and an attempt is left", To: StateQueued, Kind: Changes, Reason: ReasonRequeued,
		guard: func(t Task, e Event) bool { return e.retryable() && t.Attempts < t.MaxAttempts },
		do: func(t *Task, e *Event) {
			t.failed(e)
			t.requeue(e)
		},
	},
	{
		On: on(EventFail), From: from(StateRunning), To: StateFailed, Kind: Changes, Reason: ReasonFailed, Notify: true,
		do: func(t *Task, e *Event) {
			t.failed(e)
			t.end(e.AtMs)
		},
	},
}

var questionRules = []Rule{
	{
		On: on(EventInputRequired), From: from(StateRunning), When: "the id or the prompt is blank, or there are too many questions or too large ones", Kind: Rejects,
		check: func(t Task, e Event) error {
			switch {
			case blank(e.QuestionID):
				return Invalid("event.questionId", "must not be blank")
			case blank(e.Prompt):
				return Invalid("event.prompt", "must not be blank")
			case t.question(e.QuestionID) < 0 && len(t.Questions) >= MaxQuestions:
				return Invalid("event.questionId", "must be one of at most %d questions of an attempt", MaxQuestions)
			case t.question(e.QuestionID) < 0 && t.questionBytes()+sizeAsJSON(e.Prompt)+sizeAsJSON(string(e.Schema)) > QuestionBytes:
				return Invalid("event.schema", "must leave the questions of an attempt within %d bytes together", QuestionBytes)
			}
			return nil
		},
	},
	{
		On: on(EventInputRequired), From: from(StateRunning), When: "the question has been asked", Kind: Repeats, Reason: ReasonDuplicateQuestion,
		guard: func(t Task, e Event) bool { return t.question(e.QuestionID) >= 0 },
	},
	{
		On: on(EventInputRequired), From: from(StateRunning), Kind: Changes, Reason: ReasonInputRequired,
		do: func(t *Task, e *Event) {
			q := Question{QuestionID: e.QuestionID, Prompt: e.Prompt, Schema: e.Schema, AskedAtMs: e.AtMs}
			t.Questions = append(append([]Question(nil), t.Questions...), q)
		},
	},
	{
		On: on(EventAnswer), From: from(StateRunning), When: "the answer is missing", Kind: Rejects,
		check: func(_ Task, e Event) error {
			if len(e.Answer) == 0 {
				return Invalid("answer", "must not be absent")
			}
			return nil
		},
	},
	{
		On: on(EventAnswer), From: from(StateRunning), When: "nobody asked that question", Kind: Refuses, Reason: ReasonUnknownQuestion,
		guard: func(t Task, e Event) bool { return t.question(e.QuestionID) < 0 },
	},
	{
		On: on(EventAnswer), From: from(StateRunning), When: "it has the same answer", Kind: Repeats, Reason: ReasonDuplicateAnswer,
		guard: func(t Task, e Event) bool {
			q := t.Questions[t.question(e.QuestionID)]
			return q.AnsweredAtMs != 0 && sameJSON(q.Answer, e.Answer)
		},
	},
	{
		On: on(EventAnswer), From: from(StateRunning), When: "it has another answer", Kind: Refuses, Reason: ReasonAnswerConflict,
		guard: func(t Task, e Event) bool { return t.Questions[t.question(e.QuestionID)].AnsweredAtMs != 0 },
	},
	{
		On: on(EventAnswer), From: from(StateRunning), Kind: Changes, Reason: ReasonAnswered,
		do: func(t *Task, e *Event) {
			t.Questions = append([]Question(nil), t.Questions...)
			q := &t.Questions[t.question(e.QuestionID)]
			// A time of 0 would leave the question open.
			q.Answer, q.AnsweredBy, q.AnsweredAtMs = e.Answer, e.By, max(e.AtMs, 1)
		},
	},
}

var cancelRules = []Rule{
	{
		On: on(EventCancelRequested), From: live, When: "it names a waiter, and others wait too", Kind: Changes, Reason: ReasonDetached,
		guard: func(t Task, e Event) bool { return e.WaiterID != "" && t.wantedWithout(e.WaiterID) },
		do:    func(t *Task, e *Event) { t.leave(*e, "cancelled") },
	},
	{
		On: on(EventCancelRequested), From: from(StateQueued), To: StateCancelled, Kind: Changes, Reason: ReasonCancelled, Notify: true,
		do: func(t *Task, e *Event) {
			t.Cancel = &CancelRequest{AtMs: e.AtMs, Reason: e.Reason, By: e.By}
			if e.Begun {
				t.confirm(false)
			}
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventCancelRequested), From: from(StateRunning), When: "one was asked for before", Kind: Repeats, Reason: ReasonDuplicateCancel,
		guard: func(t Task, _ Event) bool { return t.Cancel != nil },
	},
	{
		On: on(EventCancelRequested), From: from(StateRunning), Kind: Changes, Reason: ReasonCancelRequested,
		do: func(t *Task, e *Event) { t.Cancel = &CancelRequest{AtMs: e.AtMs, Reason: e.Reason, By: e.By} },
	},
	{
		On: on(EventCancelled), From: from(StateRunning), To: StateCancelled, Kind: Changes, Reason: ReasonCancelled, Notify: true,
		do: func(t *Task, e *Event) {
			t.Submission++
			t.confirm(true)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventCancelTimeout), From: from(StateRunning), When: "a cancel was asked for", To: StateCancelled, Kind: Changes, Reason: ReasonCancelUnconfirmed, Notify: true,
		guard: func(t Task, _ Event) bool { return t.Cancel != nil },
		do: func(t *Task, e *Event) {
			t.confirm(false)
			t.end(e.AtMs)
		},
	},
	{On: on(EventCancelTimeout), From: live, Kind: Refuses, Reason: ReasonNotCancelling},
}

var leaseRules = []Rule{
	{
		On: on(EventSuspect), From: from(StateRunning), When: "it is suspected already", Kind: Repeats, Reason: ReasonAlreadySuspected,
		guard: func(t Task, _ Event) bool { return t.SuspectedAtMs != 0 },
	},
	{
		On: on(EventSuspect), From: from(StateRunning), When: "a person looks for it already", Kind: Repeats, Reason: ReasonAlreadyManual,
		guard: func(t Task, _ Event) bool { return t.Manual != nil },
	},
	{
		On: on(EventSuspect), From: from(StateRunning), Kind: Changes, Reason: ReasonSuspectedLost,
		do: func(t *Task, e *Event) { t.SuspectedAtMs = max(e.AtMs, 1) },
	},
	{
		On: on(EventLeaseRenewed), From: from(StateRunning), When: "it was suspected lost, or a person looks for it", Kind: Changes, Reason: ReasonLeaseRenewed,
		guard: func(t Task, _ Event) bool { return t.SuspectedAtMs != 0 || t.AsksPerson() },
		do: func(t *Task, e *Event) {
			t.SuspectedAtMs, t.LastHeardAtMs = 0, e.AtMs
			t.cameBack()
		},
	},
	{On: on(EventLeaseRenewed), From: from(StateRunning), Kind: Refuses, Reason: ReasonNotSuspected},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "what it may have done is being undone", Kind: Repeats, Reason: ReasonAlreadyManual,
		guard: func(t Task, _ Event) bool { return t.BeingUndone() },
	},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "a cancel was asked for", To: StateCancelled, Kind: Changes, Reason: ReasonCancelled, Notify: true,
		guard: func(t Task, _ Event) bool { return t.Cancel != nil },
		do: func(t *Task, e *Event) {
			t.confirm(e.Stopped)
			t.lost(e, CodeWorkerLost)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "a person looks for it already", Kind: Repeats, Reason: ReasonAlreadyManual,
		guard: func(t Task, _ Event) bool { return t.Manual != nil },
	},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "doing the work twice does harm and a person is to find out", Kind: Changes, Reason: ReasonManual,
		guard: func(t Task, _ Event) bool {
			return t.Policy.Effects == EffectsUnsafe && t.Policy.OnUnknown == UnknownManual
		},
		do: func(t *Task, e *Event) { t.toPerson(e) },
	},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "doing the work twice does harm", To: StateFailed, Kind: Changes, Reason: ReasonWorkerLost, Notify: true,
		guard: func(t Task, _ Event) bool { return t.Policy.Effects == EffectsUnsafe },
		do: func(t *Task, e *Event) {
			t.lost(e, CodeOutcomeUnknown)
			t.end(e.AtMs)
		},
	},
	{
		On: on(EventRequeue), From: from(StateRunning), When: "an attempt is left", To: StateQueued, Kind: Changes, Reason: ReasonRequeued,
		guard: func(t Task, _ Event) bool { return t.Attempts < t.MaxAttempts },
		do: func(t *Task, e *Event) {
			t.lost(e, CodeWorkerLost)
			t.requeue(e)
		},
	},
	{
		On: on(EventRequeue), From: from(StateRunning), To: StateFailed, Kind: Changes, Reason: ReasonWorkerLost, Notify: true,
		do: func(t *Task, e *Event) {
			t.lost(e, CodeWorkerLost)
			t.end(e.AtMs)
		},
	},
	{On: on(EventRetry), From: live, Kind: Refuses, Reason: ReasonNotEnded},
}
