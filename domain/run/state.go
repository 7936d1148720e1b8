package run

// State is where a run stands. The last four are ends.
type State string

// The states of a run.
const (
	// StateRunning has a step due or under way. The runtime moves it on by its
	// commit. If the process dies here the step comes again, with the same results
	// and inputs and the next attempt.
	StateRunning State = "RUNNING"
	// StateWaitingTool waits for tool calls, and costs nothing meanwhile. The ends of
	// tasks move it on. If the process dies here nothing is lost: ends arrive as
	// signals, and a standing check asks for those that cannot tell.
	StateWaitingTool State = "WAITING_TOOL"
	// StateWaitingInput waits for a person: for an approval, an answer or the next
	// input. That person moves it on.
	StateWaitingInput State = "WAITING_INPUT"
	// StatePaused lets tasks go on but takes no step until somebody unpauses it.
	StatePaused State = "PAUSED"
	// StateSucceeded has its final answer. Nothing moves it on.
	StateSucceeded State = "SUCCEEDED"
	// StateFailed gave up: its steps kept failing, or a limit struck. The checkpoint is
	// kept, and an operator may retry it.
	StateFailed State = "FAILED"
	// StateCancelled was given up on request.
	StateCancelled State = "CANCELLED"
	// StateExpired reached its deadline. An operator may retry it with more time.
	StateExpired State = "EXPIRED"
)

// States lists every state, in the order in which documents show them.
func States() []State {
	return []State{StateRunning, StateWaitingTool, StateWaitingInput, StatePaused, StateSucceeded, StateFailed, StateCancelled, StateExpired}
}

// Terminal tells whether s is an end.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateExpired:
		return true
	case StateRunning, StateWaitingTool, StateWaitingInput, StatePaused:
		return false
	default:
		return false
	}
}

// CallState is where a tool call of a run stands.
type CallState string

// The states of a call. The last six are ends, and the states of results.
const (
	// CallBlocked waits for the calls that it depends on.
	CallBlocked CallState = "blocked"
	// CallReady is to be started: its task may be there already or not, the start is
	// repeated until somebody says so.
	CallReady CallState = "ready"
	// CallApproval waits for a person who approves it.
	CallApproval CallState = "approval"
	// CallAsking is a question that waits for its answer.
	CallAsking CallState = "asking"
	// CallOpen has a task.
	CallOpen CallState = "open"

	CallSucceeded CallState = "succeeded"
	CallFailed    CallState = "failed"
	CallExpired   CallState = "expired"
	CallCancelled CallState = "cancelled"
	// CallSkipped never started, because a call that it depends on did not succeed.
	CallSkipped CallState = "skipped"
	// CallDenied was refused by a person.
	CallDenied CallState = "denied"
)

// CallStates lists all of them.
func CallStates() []CallState {
	return []CallState{CallBlocked, CallReady, CallApproval, CallAsking, CallOpen, CallSucceeded, CallFailed, CallExpired, CallCancelled, CallSkipped, CallDenied}
}

// Ended tells whether s is the state of a result.
func (s CallState) Ended() bool {
	switch s {
	case CallSucceeded, CallFailed, CallExpired, CallCancelled, CallSkipped, CallDenied:
		return true
	case CallBlocked, CallReady, CallApproval, CallAsking, CallOpen:
		return false
	default:
		return false
	}
}

// Cause says why a step is taken.
type Cause string

// The causes of steps.
const (
	CauseStart   Cause = "start"
	CauseResults Cause = "results"
	CauseInput   Cause = "input"
	// CauseRecover is a step that a person's retry of the run brought back.
	CauseRecover Cause = "recover"
)

// Wake says when a parked run takes its next step.
type Wake string

// When a run wakes.
const (
	// WakeAll steps when every call that is waited for has ended. The default.
	WakeAll Wake = "all"
	// WakeAny steps with each call that ends.
	WakeAny Wake = "any"
)

// Reason is what an event came to.
type Reason string

// The reasons. They are stable codes.
const (
	ReasonClaimed         Reason = "claimed"
	ReasonNoStep          Reason = "no-step"
	ReasonStepHeld        Reason = "step-held"
	ReasonWrongRuntime    Reason = "wrong-runtime"
	ReasonRenewed         Reason = "lease-renewed"
	ReasonStaleToken      Reason = "stale-token"
	ReasonCommitted       Reason = "committed"
	ReasonFinished        Reason = "finished"
	ReasonDuplicateCommit Reason = "duplicate-commit"
	ReasonCommitConflict  Reason = "commit-conflict"
	ReasonStepAhead       Reason = "step-ahead"
	ReasonNothingToWait   Reason = "nothing-to-wait-for"
	ReasonRunClosed       Reason = "run-closed"
	ReasonRunEnding       Reason = "run-ending"
	ReasonStepRetry       Reason = "step-retry"
	ReasonStepGivenUp     Reason = "step-given-up"
	ReasonStepLost        Reason = "step-lost"
	ReasonLimit           Reason = "limit"
	ReasonCallStarted     Reason = "call-started"
	ReasonCallEnded       Reason = "call-ended"
	ReasonDuplicateResult Reason = "duplicate-result"
	ReasonUnknownCall     Reason = "unknown-call"
	ReasonAsksApproval    Reason = "approval-asked"
	ReasonApproved        Reason = "approved"
	ReasonEdited          Reason = "edited"
	ReasonDenied          Reason = "denied"
	ReasonAnswered        Reason = "answered"
	ReasonDuplicateAnswer Reason = "duplicate-answer"
	ReasonAnswerConflict  Reason = "answer-conflict"
	ReasonNotAsked        Reason = "not-asked"
	ReasonTimedOut        Reason = "timed-out"
	ReasonWaitTimeout     Reason = "wait-timeout"
	ReasonInput           Reason = "input"
	ReasonDuplicateInput  Reason = "duplicate-input"
	ReasonInputConflict   Reason = "input-conflict"
	ReasonCancelRequested Reason = "cancel-requested"
	ReasonDuplicateCancel Reason = "duplicate-cancel"
	ReasonCancelTimeout   Reason = "cancel-timeout"
	ReasonPaused          Reason = "paused"
	ReasonUnpaused        Reason = "unpaused"
	ReasonUnchanged       Reason = "unchanged"
	ReasonExpired         Reason = "expired"
	ReasonRetried         Reason = "retried"
	ReasonNotRetriable    Reason = "not-retriable"
	ReasonAsksBelow       Reason = "asks-below"
	ReasonNoted           Reason = "noted"
)

// The codes of errors that a run gives to a call, to a step or to itself.
const (
	CodeUnknownTool      = "UNKNOWN_TOOL"
	CodeInvalidInput     = "INVALID_INPUT"
	CodeNotStarted       = "NOT_STARTED"
	CodeWaitTimeout      = "WAIT_TIMEOUT"
	CodeDependency       = "DEPENDENCY_FAILED"
	CodeDenied           = "DENIED"
	CodeApprovalTimeout  = "APPROVAL_TIMEOUT"
	CodeAnswerTimeout    = "ANSWER_TIMEOUT"
	CodeCancelled        = "CANCELLED"
	CodeTaskTerminated   = "TASK_TERMINATED"
	CodeResultTooLarge   = "RESULT_TOO_LARGE"
	CodeTaskGone         = "TASK_GONE"
	CodeStepFailed       = "STEP_FAILED"
	CodeStepLost         = "STEP_LOST"
	CodeInvalidResponse  = "INVALID_RESPONSE"
	CodeLimitSteps       = "LIMIT_STEPS"
	CodeLimitCalls       = "LIMIT_CALLS"
	CodeLimitOpenCalls   = "LIMIT_OPEN_CALLS"
	CodeLimitTokens      = "LIMIT_TOKENS"
	CodeLimitCost        = "LIMIT_COST"
	CodeDeadlineExceeded = "DEADLINE_EXCEEDED"
)

// The tools that every installation has.
const (
	// ToolAsk asks a person a question: input [AskInput], result the answer.
	ToolAsk = "wakepoint.ask"
	// ToolApprove asks a person to approve something: input [ApproveInput], result an
	// [Approval].
	ToolApprove = "wakepoint.approve"
	// ToolRun starts another run and waits for it: input [SubRunInput], result its
	// final answer.
	ToolRun = "wakepoint.run"
	// BuiltInPrefix begins the names of them all; no declared tool has it.
	BuiltInPrefix = "wakepoint."
)
