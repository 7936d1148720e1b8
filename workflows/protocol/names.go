package protocol

import "go.temporal.io/sdk/temporal"

// The types of workflows.
const (
	// WorkflowAsyncTask is one durable task: [TaskInput] in, [TaskRecord] out.
	WorkflowAsyncTask = "AsyncTask"
	// WorkflowDelivery is one delivery: [DeliveryInput] in, [DeliveryRecord] out.
	WorkflowDelivery = "Delivery"
	// WorkflowAgentRun is one durable run of an agent: [RunInput] in, [RunRecord] out.
	WorkflowAgentRun = "AgentRun"
	// WorkflowSweep deletes what has outlived its task: [SweepInput] in,
	// [SweepReport] out.
	WorkflowSweep = "Sweep"
)

// Signals.
const (
	// SignalCallback tells a task what happened: a [Callback], answered by
	// nobody. It is durable without a worker.
	SignalCallback = "callback"
	// SignalTaskFinished tells a run that a task has ended: a [TaskFinished].
	SignalTaskFinished = "task-finished"
	// SignalSubmitted tells a task that its job holds a slot and was started: a
	// [JobStarted]. Only our own activities send it.
	SignalSubmitted = "submitted"
)

// Updates of a task, each answered with an [Outcome].
const (
	// UpdateCallback carries the same message as the signal.
	UpdateCallback = "callback"
	// UpdateCancel asks for the work to be given up: a [Cancel].
	UpdateCancel = "cancel"
	// UpdateAnswer answers a question of the task: an [Answer].
	UpdateAnswer = "answer"
	// UpdateAttach adds a target for the end of the task: an [Attach].
	UpdateAttach = "attach"
	// UpdateRetry retries a task that has ended and is still open: a [Retry].
	UpdateRetry = "retry"
	// UpdateDetach says that a waiter waits no longer; the work goes on: a [Detach].
	UpdateDetach = "detach"
	// UpdateResolve is a person's word on work of unknown outcome: a [Resolve].
	UpdateResolve = "resolve"
	// UpdateReconcile asks the outside at once how the work stands and takes what it
	// says: a [Reconcile], answered with a [Reconciled].
	UpdateReconcile = "reconcile"
)

// UpdateRedeliver makes an open delivery try again now: a [Redeliver].
const UpdateRedeliver = "redeliver"

// Queries of a task and of a delivery.
const (
	// QueryResume takes a [ResumeRequest] and gives a [Page].
	QueryResume = "resume"
	// QueryDescribe takes nothing and gives a [Description], or of a delivery
	// a [DeliveryRecord].
	QueryDescribe = "describe"
)

// Activities.
const (
	ActivitySubmit    = "SubmitTool"
	ActivityProbe     = "ProbeTool"
	ActivityAsk       = "AskTool"
	ActivityCancel    = "CancelTool"
	ActivityLease     = "HoldLease"
	ActivityStore     = "StoreInline"
	ActivityNotifyRun = "NotifyRun"
	ActivitySend      = "SendDelivery"
	ActivityLogs      = "ReadLogs"
	// ActivityRun submits a job and watches it to its end, holding one of its task
	// queue's slots.
	ActivityRun = "RunTool"
	// ActivityCompensate runs the tool that undoes what a job may have done.
	ActivityCompensate = "CompensateTool"
	// ActivityListJobs lists the jobs that the outside knows.
	ActivityListJobs = "ListJobs"
	// ActivitySweepBlobs and ActivitySweepJobs delete what has outlived its task.
	ActivitySweepBlobs = "SweepBlobs"
	ActivitySweepJobs  = "SweepJobs"
)

// Signals of a run, beside [SignalTaskFinished].
const (
	// SignalInput says something to a run: an [RunSaid]. It is durable without a worker.
	SignalInput = "input"
	// SignalRunFinished tells a run that a run has ended which did the work of one of
	// its calls: a [RunFinished].
	SignalRunFinished = "run-finished"
	// SignalRunAsks tells it what that run asks people: a [RunAsks].
	SignalRunAsks = "run-asks"
)

// Updates of a run, each answered with a [run.Outcome] where nothing else is said.
// [UpdateCancel] and [UpdateAnswer] are shared with tasks.
const (
	// UpdateClaim takes the step that is due: a [Claim], answered with a [Claimed].
	UpdateClaim = "claim"
	// UpdateCommit ends a step: a [Commit].
	UpdateCommit = "commit"
	// UpdateHeartbeat renews the lease of a step: a [StepHeartbeat].
	UpdateHeartbeat = "heartbeat"
	// UpdateApprove decides about a call: an [Approve].
	UpdateApprove = "approve"
	// UpdateInput says something to the run: a [RunSaid].
	UpdateInput = "input"
	// UpdateCancelCall gives up one call: a [CancelOneCall].
	UpdateCancelCall = "cancel-call"
	// UpdatePause and UpdateUnpause hold the steps and let them go on: a [Pause].
	UpdatePause   = "pause"
	UpdateUnpause = "unpause"
	// UpdateRecover compares what the run knows with how things stand and takes in what
	// it finds: a [Recover], answered with a [Recovered].
	UpdateRecover = "recover"
)

// Activities of runs.
const (
	ActivityStartCalls   = "StartCalls"
	ActivityCancelCalls  = "CancelCalls"
	ActivityWatchCalls   = "WatchCalls"
	ActivityInspectCalls = "InspectCalls"
	ActivityPrepareStep  = "PrepareStep"
	ActivityPushStep     = "PushStep"
	ActivityStoreContent = "StoreContent"
	ActivityNotifyParent = "NotifyParent"
	// ActivityForgetContents deletes contents of a run that it does not need any more.
	ActivityForgetContents = "ForgetContents"
)

// The types of errors that close a run; the details are its [RunRecord].
const (
	ErrTypeRunFailed  = "RunFailed"
	ErrTypeRunExpired = "RunExpired"
	// ErrTypeRunRefused is an update that would change nothing; the details are the
	// [run.Outcome] that says why.
	ErrTypeRunRefused = "run-refused"
	// ErrTypeTryAgain is an update that is refused for a moment; the same one is worth
	// repeating.
	ErrTypeTryAgain = "try-again"
	// ErrTypeStepFailed is a step of a runtime that gave no answer that could be taken.
	ErrTypeStepFailed = "StepFailed"
	// ErrTypeStepUnheard is one of which nothing was heard: the runtime may be at work.
	ErrTypeStepUnheard = "StepUnheard"
)

// DefaultTaskQueue is where workflows and most activities run.
const DefaultTaskQueue = "wakepoint"

// HostTaskQueue is where the activities run that must be on one host.
func HostTaskQueue(base, host string) string { return base + "-host-" + host }

// ToolTaskQueue is where the jobs of a tool with limits of its own are submitted.
func ToolTaskQueue(base, tool string) string { return base + "-tool-" + tool }

// The type strings of errors that cross the server. They are stable codes.
const (
	// ErrTypeInvalid is bad input; the details are a [Problem].
	ErrTypeInvalid = "invalid-request"
	// ErrTypeRefused is an update that would change nothing; the details are
	// the [Outcome] that says why.
	ErrTypeRefused = "refused"
	// ErrTypeTaskFailed closes a failed task; the details are its [TaskRecord].
	ErrTypeTaskFailed = "TaskFailed"
	// ErrTypeTaskExpired closes an expired task; the details are its [TaskRecord].
	ErrTypeTaskExpired = "TaskExpired"
	// ErrTypeDeadLetter closes a delivery that was given up; the details are
	// its [DeliveryRecord].
	ErrTypeDeadLetter = "DeadLetter"
	// ErrTypeNotStarted is a submission of which it is sure that nothing was
	// started; the details are a domain.TaskError.
	ErrTypeNotStarted = "NotStarted"
	// ErrTypeOutcomeUnknown is a submission of a tool with unsafe effects that may
	// have started a job, or not; the details are a domain.TaskError.
	ErrTypeOutcomeUnknown = "OutcomeUnknown"
	// ErrTypeThrottled is the other side's word that it refuses for now.
	ErrTypeThrottled = "Throttled"
	// ErrTypeThrottledRepeat is the same for the repetition of a submission of which it
	// is not known whether it started a job.
	ErrTypeThrottledRepeat = "ThrottledRepeat"
	// ErrTypeWorkerStops is the word of a worker that stops while it watches a job.
	ErrTypeWorkerStops = "WorkerStops"
	// ErrTypeStillRunning is a probe's word that it will look again.
	ErrTypeStillRunning = "StillRunning"
	// ErrTypeUnknownTool is a tool that the worker does not know.
	ErrTypeUnknownTool = "unknown-tool"
	// ErrTypeNotDelivered is one failed attempt of a delivery.
	ErrTypeNotDelivered = "NotDelivered"
)

// The search attributes, all of type Keyword. They are not encrypted.
var (
	AttrTenant   = temporal.NewSearchAttributeKeyKeyword("WakepointTenant")
	AttrRun      = temporal.NewSearchAttributeKeyKeyword("WakepointRun")
	AttrTool     = temporal.NewSearchAttributeKeyKeyword("WakepointTool")
	AttrToolCall = temporal.NewSearchAttributeKeyKeyword("WakepointToolCall")
	AttrState    = temporal.NewSearchAttributeKeyKeyword("WakepointState")
)

// StateManual is the value of [AttrState] while a person has to find out what became
// of the work. It is for lists; the task itself is running.
const StateManual = "manual"

// SearchAttributes lists the names of all of them.
func SearchAttributes() []string {
	return []string{AttrTenant.GetName(), AttrRun.GetName(), AttrTool.GetName(), AttrToolCall.GetName(), AttrState.GetName()}
}

// The keys of memos.
const (
	// MemoFingerprint identifies what a submission asked for.
	MemoFingerprint = "wakepointFingerprint"
	// MemoWaiter is the waiter id of the caller that started a task: the same caller
	// who asks again is the submitter and not somebody else.
	MemoWaiter = "wakepointWaiter"
	// MemoTitle is the title of a task, for lists: what the engine lists has no
	// summary.
	MemoTitle = "wakepointTitle"
	// MemoRuntime is the runtime of a run, for lists.
	MemoRuntime = "wakepointRuntime"
	// MemoTaskID is the task of a delivery.
	MemoTaskID = "wakepointTask"
)
