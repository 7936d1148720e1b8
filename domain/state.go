package domain

// State is where a task stands. The last four are terminal: nothing but a
// manual retry or a recorded late result changes a task in them.
type State string

// The states of a task.
const (
	// StateQueued waits to be started, for the first time or again after a
	// retryable failure. The executor, or whoever works on an external tool,
	// moves it on. If the process dies here, the submission is repeated under
	// the same key.
	StateQueued State = "queued"
	// StateRunning is being worked on. Callbacks, probes or the deadline move
	// it on. If the process dies here the work outside goes on, and its end is
	// found by callback or probe.
	StateRunning State = "running"
	// StateSucceeded has a result. Nothing moves it on.
	StateSucceeded State = "succeeded"
	// StateFailed has an error and no attempt left. An operator may retry it.
	StateFailed State = "failed"
	// StateExpired reached its deadline without a result. An operator may
	// retry it.
	StateExpired State = "expired"
	// StateCancelled was given up on request. An operator may retry it.
	StateCancelled State = "cancelled"
)

// States lists every state, in the order in which documents show them.
func States() []State {
	return []State{StateQueued, StateRunning, StateSucceeded, StateFailed, StateExpired, StateCancelled}
}

// Terminal tells whether s is an end.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateExpired, StateCancelled:
		return true
	case StateQueued, StateRunning:
		return false
	default:
		return false
	}
}

// EventType says what happened to a task.
type EventType string

// The events that may come through the doors (see [EventType.Door]).
const (
	// EventStart says that a worker has begun an attempt.
	EventStart EventType = "start"
	// EventProgress reports how far the work is, in percent.
	EventProgress EventType = "progress"
	// EventHeartbeat says that the worker is alive; it may name a stage.
	EventHeartbeat EventType = "heartbeat"
	// EventSucceed brings the result.
	EventSucceed EventType = "succeed"
	// EventFail ends an attempt with an error.
	EventFail EventType = "fail"
	// EventInputRequired asks a person or a runtime a question.
	EventInputRequired EventType = "input-required"
	// EventCancelled says that the work outside has stopped for good.
	EventCancelled EventType = "cancelled"
)

// The events that only Wakepoint itself makes.
const (
	// EventExpire is the deadline. It comes from the timer alone.
	EventExpire EventType = "expire"
	// EventCancelRequested asks for the work to be given up.
	EventCancelRequested EventType = "cancel-requested"
	// EventCancelTimeout says that nobody confirmed a cancel within its grace.
	EventCancelTimeout EventType = "cancel-timeout"
	// EventAnswer answers a question of the task.
	EventAnswer EventType = "answer"
	// EventSuspect says that the lease ran out in silence.
	EventSuspect EventType = "suspect"
	// EventLeaseRenewed says that the outside, when asked, was still working.
	EventLeaseRenewed EventType = "lease-renewed"
	// EventRequeue puts a running task back because its worker is lost.
	EventRequeue EventType = "requeue"
	// EventRetry is an operator's manual retry of a task that has ended.
	EventRetry EventType = "retry"
	// EventResolve is a person's word on work of unknown outcome.
	EventResolve EventType = "resolve"
	// EventCompensated says that what may have been done was undone.
	EventCompensated EventType = "compensated"
	// EventAttach says that one more waits for the task.
	EventAttach EventType = "attach"
	// EventDetach says that one waits no longer; the work goes on.
	EventDetach EventType = "detach"
)

// EventTypes lists every event type, those of the doors first.
func EventTypes() []EventType {
	return []EventType{
		EventStart, EventProgress, EventHeartbeat, EventSucceed, EventFail, EventInputRequired, EventCancelled,
		EventExpire, EventCancelRequested, EventCancelTimeout, EventAnswer, EventSuspect, EventLeaseRenewed, EventRequeue, EventRetry,
		EventResolve, EventCompensated, EventAttach, EventDetach,
	}
}

// Door tells whether an event of this type may be sent from outside, by signal
// or update. Everything else is refused there: an expiry that anybody could
// send would be no deadline.
func (e EventType) Door() bool {
	switch e {
	case EventStart, EventProgress, EventHeartbeat, EventSucceed, EventFail, EventInputRequired, EventCancelled:
		return true
	default:
		return false
	}
}

// Reason says what an event came to. The set is closed; the table of rules in
// docs/states.md is printed from the code.
type Reason string

// The reasons of a transition.
const (
	ReasonStarted           Reason = "started"
	ReasonAlreadyRunning    Reason = "already-running"
	ReasonNotStartable      Reason = "not-startable"
	ReasonNotRunning        Reason = "not-running"
	ReasonProgress          Reason = "progress"
	ReasonStaleProgress     Reason = "stale-progress"
	ReasonDuplicateProgress Reason = "duplicate-progress"
	ReasonHeartbeat         Reason = "heartbeat"
	ReasonStage             Reason = "stage"
	ReasonSucceeded         Reason = "succeeded"
	ReasonRequeued          Reason = "requeued"
	ReasonFailed            Reason = "failed"
	ReasonExpired           Reason = "expired"
	ReasonTerminalConflict  Reason = "terminal-conflict"
	ReasonDuplicateCallback Reason = "duplicate-callback"
	ReasonDuplicateResult   Reason = "duplicate-result"
	ReasonDuplicateExpire   Reason = "duplicate-expire"
	ReasonStaleAttempt      Reason = "stale-attempt"
	ReasonInputRequired     Reason = "input-required"
	ReasonDuplicateQuestion Reason = "duplicate-question"
	ReasonAnswered          Reason = "answered"
	ReasonDuplicateAnswer   Reason = "duplicate-answer"
	ReasonAnswerConflict    Reason = "answer-conflict"
	ReasonUnknownQuestion   Reason = "unknown-question"
	ReasonCancelRequested   Reason = "cancel-requested"
	ReasonDuplicateCancel   Reason = "duplicate-cancel"
	ReasonCancelled         Reason = "cancelled"
	ReasonCancelUnconfirmed Reason = "cancel-unconfirmed"
	ReasonNotCancelling     Reason = "not-cancelling"
	ReasonSuspectedLost     Reason = "suspected-lost"
	ReasonAlreadySuspected  Reason = "already-suspected"
	ReasonLeaseRenewed      Reason = "lease-renewed"
	ReasonNotSuspected      Reason = "not-suspected"
	ReasonWorkerLost        Reason = "worker-lost"
	ReasonRetried           Reason = "retried"
	ReasonNotRetryable      Reason = "not-retryable"
	ReasonNotEnded          Reason = "not-ended"
	ReasonLateResult        Reason = "late-result"
	ReasonManual            Reason = "manual"
	ReasonAlreadyManual     Reason = "already-manual"
	ReasonNotManual         Reason = "not-manual"
	ReasonResolved          Reason = "resolved"
	ReasonCompensated       Reason = "compensated"
	ReasonNotCompensated    Reason = "not-compensated"
	ReasonBeingUndone       Reason = "being-undone"
)

// The reasons of attaching and detaching.
const (
	ReasonAttached        Reason = "attached"
	ReasonDuplicateTarget Reason = "duplicate-target"
	ReasonDuplicateWaiter Reason = "duplicate-waiter"
	ReasonDetached        Reason = "detached"
	ReasonDuplicateDetach Reason = "duplicate-detach"
	ReasonUnknownWaiter   Reason = "unknown-waiter"
)

// The reasons of a delivery.
const (
	ReasonDelivered         Reason = "delivered"
	ReasonDuplicateDelivery Reason = "duplicate-delivery"
	ReasonKeyReused         Reason = "key-reused-for-other-task"
	ReasonNotSucceeded      Reason = "not-succeeded"
)
