package protocol

import (
	"encoding/json"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// The messages of runs. What a runtime says and is told is the domain's own: see
// package run.

// ActivityAgentStep is the activity that a Temporal worker offers to be a runtime:
// [run.StepRequest] in, [run.StepResponse] out.
const ActivityAgentStep = "AgentStep"

// RuntimeMode is how a runtime takes part.
type RuntimeMode string

// The modes.
const (
	// ModePull: the runtime asks for its steps.
	ModePull RuntimeMode = "pull"
	// ModePush: the run sends them to the runtime's URL.
	ModePush RuntimeMode = "push"
	// ModeActivity: the runtime is a Temporal worker with the activity
	// [ActivityAgentStep].
	ModeActivity RuntimeMode = "activity"
	// ModePlan: there is no runtime, the run carries out a plan that it was started with.
	ModePlan RuntimeMode = "plan"
)

// RuntimeBinding is what a run needs to know of its runtime, fixed at its start.
type RuntimeBinding struct {
	Mode RuntimeMode `json:"mode"`
	// Name is that of the declared runtime; empty for a plan.
	Name string `json:"name,omitempty"`
	// TaskQueue is the runtime's own, in mode activity.
	TaskQueue string `json:"taskQueue,omitempty"`
	// StepTimeoutMs bounds one attempt of a step in modes push and activity.
	// Default: 600000.
	StepTimeoutMs int64 `json:"stepTimeoutMs,omitempty"`
	// Heartbeats says that the runtime heartbeats its activity, so that its silence for
	// a lease means that it is lost.
	Heartbeats bool `json:"heartbeats,omitempty"`
}

// RunInput starts a [WorkflowAgentRun].
type RunInput struct {
	// Create is the run; its NowMs is 0, the time is the workflow's start.
	Create  run.Create     `json:"create"`
	Runtime RuntimeBinding `json:"runtime"`
	// Plan are the calls of a run of [ModePlan].
	Plan []run.ToolCall `json:"plan,omitempty"`
	// Fingerprint is the one in the memo.
	Fingerprint string `json:"fingerprint,omitempty"`
	// ContinueAfterEvents continues as new after that many history events; 0 leaves it
	// to the server's suggestion.
	ContinueAfterEvents int `json:"continueAfterEvents,omitempty"`
	// Carry is set on a continue-as-new and on a manual retry.
	Carry *RunCarry `json:"carry,omitempty"`
	// Revision is [RunRevision] of whoever started the run.
	Revision int `json:"revision,omitempty"`
}

// RunRevision is the newest revision of what a run does; see [TaskInput.Revision].
const RunRevision = 0

// RunCarry is what crosses to the next run of the workflow.
type RunCarry struct {
	Run run.Run `json:"run"`
	// Unmatched are ends of tasks whose call is not known yet.
	Unmatched []TaskFinished `json:"unmatched,omitempty"`
	Rejected  *Rejected      `json:"lastRejected,omitempty"`
	Retry     *RunRetry      `json:"retry,omitempty"`
	// Asks are what sub-runs ask people, Asked what the parent was told last of it.
	Asks  []RunAsks `json:"asks,omitempty"`
	Asked string    `json:"asked,omitempty"`
	// Shown is the state that lists show.
	Shown run.State `json:"shown,omitempty"`
}

// RunRecord is all that is known of a run that has ended: the result of its workflow,
// or the details of the error that closed it.
type RunRecord struct {
	Run     run.Run        `json:"run"`
	Runtime RuntimeBinding `json:"runtime"`
	Plan    []run.ToolCall `json:"plan,omitempty"`
}

// RunRetry retries a run that has failed or expired.
type RunRetry struct {
	TTLMs  int64       `json:"ttlMs,omitempty"`
	Limits *run.Limits `json:"limits,omitempty"`
	By     string      `json:"by,omitempty"`
	Reason string      `json:"reason,omitempty"`
	AtMs   int64       `json:"atMs,omitempty"`
}

// Claim is the message of the update `claim`.
type Claim struct {
	// Holder names the runtime's process; one that claims again what it holds has lost
	// it, and gets the next attempt at once.
	Holder  string `json:"holder,omitempty"`
	LeaseMs int64  `json:"leaseMs,omitempty"`
	// RuntimeVersion, if given, takes steps of runs of that version only.
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
}

// Claimed answers it. Contents that lie in the blob store are for the client to fetch.
type Claimed struct {
	Request    run.StepRequest `json:"request"`
	Checkpoint *run.Content    `json:"checkpoint,omitempty"`
}

// Commit is the message of the update `commit`.
type Commit struct {
	Step      int    `json:"step"`
	StepToken string `json:"stepToken"`
	// Response has neither checkpoint nor final answer: they are beside it.
	Response   run.StepResponse `json:"response"`
	Checkpoint *run.Content     `json:"checkpoint,omitempty"`
	Final      *run.Content     `json:"final,omitempty"`
	// Digest is [run.Digest] of the three.
	Digest string `json:"digest"`
}

// StepHeartbeat is the message of the update `heartbeat`.
type StepHeartbeat struct {
	StepToken string `json:"stepToken"`
	// Delta is a hint for people who watch. It is not kept.
	Delta json.RawMessage `json:"delta,omitempty"`
}

// CallID names a call of a run; AskedAtStep may be 0 for the newest of that id.
type CallID struct {
	ToolCallID  string `json:"toolCallId"`
	AskedAtStep int    `json:"askedAtStep,omitempty"`
}

// Approve is the message of the update `approve`.
type Approve struct {
	CallID
	Decision string          `json:"decision"`
	Input    json.RawMessage `json:"input,omitempty"`
	Message  string          `json:"message,omitempty"`
	By       string          `json:"by,omitempty"`
}

// AnswerCall is the message of the update `answer` of a run.
type AnswerCall struct {
	CallID
	Answer json.RawMessage `json:"answer"`
	By     string          `json:"by,omitempty"`
}

// CancelOneCall is the message of the update `cancel-call`.
type CancelOneCall struct {
	CallID
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// RunSaid is the message of the update and the signal `input`.
type RunSaid struct {
	InputID string          `json:"inputId"`
	Content json.RawMessage `json:"content"`
	Source  string          `json:"source,omitempty"`
}

// Pause is the message of the updates `pause` and `unpause`.
type Pause struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Recover is the message of the update `recover`.
type Recover struct {
	By string `json:"by,omitempty"`
	// DryRun only says what was found.
	DryRun bool `json:"dryRun,omitempty"`
}

// Recovered answers it.
type Recovered struct {
	State run.State   `json:"state"`
	Calls []CallDrift `json:"calls"`
	// Step says how the step stands, if one is due or out.
	Step string `json:"step,omitempty"`
	// Changed counts the calls about which the run learned something.
	Changed int `json:"changed"`
}

// CallDrift is what a recovery found about one call.
type CallDrift struct {
	run.Key
	Tool     string `json:"tool"`
	TaskID   string `json:"taskId,omitempty"`
	SubRunID string `json:"subRunId,omitempty"`
	// Knew is the state of the call in the run, Found how its task stands, Outside
	// what the work outside said when it was asked.
	Knew    run.CallState `json:"knew"`
	Found   string        `json:"found"`
	Outside string        `json:"outside,omitempty"`
	// Did is what was done; empty when all was as the run knew it.
	Did  string `json:"did,omitempty"`
	Note string `json:"note,omitempty"`
}

// What [CallDrift.Found] can be, beside the states of tasks and of runs.
const (
	FoundNoTask     = "no-task"
	FoundTerminated = "terminated"
	FoundNotBegun   = "not-begun"
	FoundNoAnswer   = "no-answer"
	// FoundAsks is a call that waits for a person's word.
	FoundAsks = "asks-a-person"
)

// RunFinished is the message of the signal `run-finished`.
type RunFinished struct {
	run.Key
	SubRunID string            `json:"subRunId"`
	State    run.State         `json:"state"`
	Final    *run.Content      `json:"final,omitempty"`
	Error    *domain.TaskError `json:"error,omitempty"`
	Usage    []run.Usage       `json:"usage,omitempty"`
}

// RunAsks is the message of the signal `run-asks`.
type RunAsks struct {
	run.Key
	SubRunID string `json:"subRunId"`
	// Asks are the questions that are open now, those of its own sub-runs included.
	Asks []Ask `json:"asks"`
}

// Ask is a question or an approval that waits for a person.
type Ask struct {
	RunID       string          `json:"runId"`
	ToolCallID  string          `json:"toolCallId"`
	AskedAtStep int             `json:"askedAtStep"`
	Tool        string          `json:"tool"`
	Kind        string          `json:"kind"`
	Prompt      string          `json:"prompt,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	UntilMs     int64           `json:"untilMs,omitempty"`
}

// The kinds of an [Ask].
const (
	AskQuestion = "question"
	AskApproval = "approval"
)

// RunDescription answers the query `describe` of a run.
type RunDescription struct {
	Run     run.Run        `json:"run"`
	Runtime RuntimeBinding `json:"runtime"`
	// Asks are what people are asked, by this run and by those that it waits for.
	Asks []Ask `json:"asks,omitempty"`
	// WaitsFor says whose move is next.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Delta is the newest hint of the runtime about the step that is out.
	Delta        json.RawMessage `json:"delta,omitempty"`
	WakeAtMs     int64           `json:"wakeAtMs,omitempty"`
	WakeFor      string          `json:"wakeFor,omitempty"`
	LastRejected *Rejected       `json:"lastRejected,omitempty"`
	ServerTimeMs int64           `json:"serverTimeMs"`
}

// StartCallsRequest is the argument of [ActivityStartCalls].
type StartCallsRequest struct {
	Tenant string `json:"tenant"`
	RunID  string `json:"runId"`
	// Runtime and Depth are for runs that are started as the work of a call.
	Runtime string `json:"runtime,omitempty"`
	Depth   int    `json:"depth,omitempty"`
	// Traceparent is the W3C trace context of the run.
	Traceparent string `json:"traceparent,omitempty"`
	// Budget is what is left of the run's tokens and cost, for runs that are started as the
	// work of a call; 0 is no limit.
	Budget *run.Limits `json:"budget,omitempty"`
	Calls  []CallStart `json:"calls"`
}

// CallStart is one call to begin.
type CallStart struct {
	run.Key
	Tool           string          `json:"tool"`
	Input          json.RawMessage `json:"input"`
	TTLMs          int64           `json:"ttlMs,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	// Approved says that a person was asked already.
	Approved bool `json:"approved,omitempty"`
	// Resolve says that the input may refer to results, and Needs are those.
	Resolve bool         `json:"resolve,omitempty"`
	Needs   []CallResult `json:"needs,omitempty"`
}

// CallResult is the result of a call that another one refers to.
type CallResult struct {
	ID          string        `json:"id"`
	TaskID      string        `json:"taskId,omitempty"`
	SubRunID    string        `json:"subRunId,omitempty"`
	State       run.CallState `json:"state"`
	Ref         string        `json:"ref,omitempty"`
	Hash        string        `json:"hash,omitempty"`
	ContentType string        `json:"contentType,omitempty"`
	Answer      []byte        `json:"answer,omitempty"`
}

// StartCallsResult is its result, in the order of the calls.
type StartCallsResult struct {
	Calls []CallBegun `json:"calls"`
}

// CallBegun says what became of one: it has a task or a run, or a person is asked, or
// it has ended already, or is to be begun again.
type CallBegun struct {
	run.Key
	Started *run.Started `json:"started,omitempty"`
	Asks    bool         `json:"asks,omitempty"`
	End     *run.End     `json:"end,omitempty"`
	// Input is the input with its references resolved, if it had any and is small.
	Input json.RawMessage `json:"input,omitempty"`
	// Again says that it was not begun for a reason that may pass, which Note tells: it is
	// to be begun again after a pause.
	Again bool   `json:"again,omitempty"`
	Note  string `json:"note,omitempty"`
}

// OpenCall is a call with its task, for the activities that look at it or tell it.
type OpenCall struct {
	run.Key
	Tool     string        `json:"tool"`
	State    run.CallState `json:"state"`
	TaskID   string        `json:"taskId,omitempty"`
	SubRunID string        `json:"subRunId,omitempty"`
	WaiterID string        `json:"waiterId,omitempty"`
}

// CancelCallsRequest is the argument of [ActivityCancelCalls].
type CancelCallsRequest struct {
	Tenant string       `json:"tenant"`
	RunID  string       `json:"runId"`
	Calls  []CancelTask `json:"calls"`
}

// CancelTask is a task to be told that it is given up, or with Detach only that the run
// waits for it no longer.
type CancelTask struct {
	OpenCall
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	Detach bool   `json:"detach,omitempty"`
}

// CallsTold is its result.
type CallsTold struct {
	// Left are the calls whose task goes on for others: the run was taken off, and the
	// call has ended for it.
	Left []run.Key `json:"left,omitempty"`
}

// WatchCallsRequest is the argument of [ActivityWatchCalls] and [ActivityInspectCalls].
type WatchCallsRequest struct {
	Tenant string     `json:"tenant"`
	RunID  string     `json:"runId"`
	Calls  []OpenCall `json:"calls"`
	// EveryMs is the pause between two looks.
	EveryMs int64 `json:"everyMs,omitempty"`
	// DryRun asks nobody to do anything.
	DryRun bool   `json:"dryRun,omitempty"`
	By     string `json:"by,omitempty"`
}

// CallsFound is their result.
type CallsFound struct {
	// Ends are those of calls that have ended without the run being told.
	Ends []CallFound `json:"ends,omitempty"`
	// Drift is what an inspection saw, call by call.
	Drift []CallDrift `json:"drift,omitempty"`
}

// CallFound is the end of a call.
type CallFound struct {
	run.Key
	// Task is the record of its task, if there is one.
	Task *domain.Task `json:"task,omitempty"`
	End  run.End      `json:"end"`
	// AtMs is when it ended.
	AtMs int64 `json:"atMs,omitempty"`
}

// PrepareStepRequest is the argument of [ActivityPrepareStep], and its result is one
// whose contents have been read as far as they may be inline.
type PrepareStepRequest struct {
	Tenant     string          `json:"tenant"`
	RunID      string          `json:"runId"`
	Request    run.StepRequest `json:"request"`
	Checkpoint *run.Content    `json:"checkpoint,omitempty"`
}

// PushStepRequest is the argument of [ActivityPushStep].
type PushStepRequest struct {
	PrepareStepRequest
	Runtime string `json:"runtime"`
}

// PushStepResult is its result.
type PushStepResult struct {
	// Accepted says that the runtime will commit later (202).
	Accepted bool `json:"accepted,omitempty"`
	// Commit is its answer (200).
	Commit *Commit `json:"commit,omitempty"`
}

// StoreContentRequest is the argument of [ActivityStoreContent]; its result is the
// [run.Content] that names the bytes.
type StoreContentRequest struct {
	Tenant  string      `json:"tenant"`
	RunID   string      `json:"runId"`
	Content run.Content `json:"content"`
}

// ForgetContentsRequest is the argument of [ActivityForgetContents].
type ForgetContentsRequest struct {
	Tenant string   `json:"tenant"`
	RunID  string   `json:"runId"`
	Refs   []string `json:"refs"`
}

// NotifyParentRequest is the argument of [ActivityNotifyParent]; its result is a
// [NotifyResult]. One of the two is set.
type NotifyParentRequest struct {
	Tenant   string       `json:"tenant"`
	RunID    string       `json:"runId"`
	Finished *RunFinished `json:"finished,omitempty"`
	Asks     *RunAsks     `json:"asks,omitempty"`
}

// Submission of a call, for whoever submits tasks on behalf of runs.

// SubmitCall asks for the task of a call.
type SubmitCall struct {
	Tool           string          `json:"tool"`
	Input          json.RawMessage `json:"input"`
	TaskID         string          `json:"taskId"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	RunID          string          `json:"runId"`
	ToolCallID     string          `json:"toolCallId"`
	WaiterID       string          `json:"waiterId"`
	TTLMs          int64           `json:"ttlMs,omitempty"`
}

// SubmittedCall answers it.
type SubmittedCall struct {
	TaskID      string `json:"taskId"`
	WaiterID    string `json:"waiterId,omitempty"`
	Title       string `json:"title,omitempty"`
	ExpiresAtMs int64  `json:"expiresAtMs,omitempty"`
	// Task is the record of a task that had ended already.
	Task *domain.Task `json:"task,omitempty"`
}

// SubmitRun asks for a run that does the work of a call.
type SubmitRun struct {
	RunID       string          `json:"runId"`
	Parent      run.Parent      `json:"parent"`
	Input       run.SubRunInput `json:"input"`
	Runtime     string          `json:"runtime,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	// Budget is what is left of the asking run's tokens and cost.
	Budget *run.Limits `json:"budget,omitempty"`
}

// Seen is how a task or a run stands in the engine, as far as can be seen without any
// worker.
type Seen struct {
	Status SeenStatus `json:"status"`
	// Task or Run is the record of one that has ended and left one.
	Task *domain.Task `json:"task,omitempty"`
	Run  *RunRecord   `json:"run,omitempty"`
	// AtMs is when it closed.
	AtMs int64 `json:"atMs,omitempty"`
}

// SeenStatus is what a [Seen] says.
type SeenStatus string

// What can be seen.
const (
	SeenOpen  SeenStatus = "open"
	SeenEnded SeenStatus = "ended"
	// SeenTerminated was ended from outside and left no record.
	SeenTerminated SeenStatus = "terminated"
	// SeenNone does not exist, or its retention is over.
	SeenNone SeenStatus = "none"
)

// CallRefused says that a call cannot be begun, for a reason that is an answer to
// whoever made it: the tool is unknown, the input is wrong.
type CallRefused struct {
	Reason domain.TaskError `json:"reason"`
}

// Error gives the reason.
func (e *CallRefused) Error() string { return e.Reason.Error() }
