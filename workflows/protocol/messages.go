package protocol

import (
	"encoding/json"
	"strconv"

	"github.com/wakepoint/wakepoint/domain"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The messages that are the domain's own.
type (
	// Callback is the message of the signal and the update `callback`.
	Callback = domain.Callback
	// Outcome answers every update of a task.
	Outcome = domain.Outcome
	// Page answers the query `resume`.
	Page = domain.Page
)

// ToolBinding is what a task needs to know of its tool, fixed at submission.
type ToolBinding struct {
	// Executor is the kind: "exec", "external".
	Executor string `json:"executor"`
	// TaskQueue is where the tool's activities run; empty is the workflow's.
	TaskQueue string `json:"taskQueue,omitempty"`
	// PollMs is how long to wait between two looks at the outside job. The
	// server keeps no shorter retry than about a second. Default: 1000.
	PollMs int64 `json:"pollMs,omitempty"`
	// SubmitQueue is where jobs are submitted, if the tool has a queue of its own for
	// its limits; empty is TaskQueue.
	SubmitQueue string `json:"submitQueue,omitempty"`
	// HoldSlot says that a job holds a slot of SubmitQueue for as long as it runs.
	HoldSlot bool `json:"holdSlot,omitempty"`
	// Compensate names the tool that undoes what a job of unknown outcome may have
	// done.
	Compensate string `json:"compensate,omitempty"`
	// HostLostMs is how long the host that runs a job may be gone before the
	// job is suspected lost. Default: 120000.
	HostLostMs int64 `json:"hostLostMs,omitempty"`
}

// TaskInput starts an [WorkflowAsyncTask].
type TaskInput struct {
	// Create is the task; its NowMs is 0, the time is the workflow's start.
	Create domain.Create `json:"create"`
	// Input is the tool's input, checked against its schema by the submitter.
	Input json.RawMessage `json:"input,omitempty"`
	Tool  ToolBinding     `json:"tool"`
	// Targets are told of the end, each by a delivery of its own.
	Targets []string `json:"targets,omitempty"`
	// Fingerprint is the one in the memo.
	Fingerprint string `json:"fingerprint,omitempty"`
	// ContinueAfterEvents continues as new after that many history events; 0
	// leaves it to the server's suggestion (4,096 events or 4 MiB).
	ContinueAfterEvents int `json:"continueAfterEvents,omitempty"`
	// Carry is set on a continue-as-new and on a manual retry.
	Carry *Carry `json:"carry,omitempty"`
	// Revision is [Revision] of whoever started the task; 0 was the first. What a
	// workflow does beyond the first revision it does only when told so, so that the
	// histories of older tasks still replay.
	Revision int `json:"revision,omitempty"`
}

// Revision is the newest revision of what a task does; see [TaskInput].
const Revision = 1

// Carry is what crosses to the next run of the same task.
type Carry struct {
	Task   domain.Task    `json:"task"`
	Ledger *domain.Ledger `json:"ledger,omitempty"`
	Outbox domain.Outbox  `json:"outbox,omitzero"`
	// Handle addresses the outside job, if there is one.
	Handle *Handle `json:"handle,omitempty"`
	// CancelSent is the attempt whose outside job was told to stop.
	CancelSent int `json:"cancelSent,omitempty"`
	// Unstored are inline results whose bytes are not in the store yet.
	Unstored []Blob `json:"unstored,omitempty"`
	// Targets told so far need not be told again: their ids are locks.
	Targets []string `json:"targets,omitempty"`
	// Rejected is the last signal that was invalid.
	Rejected *Rejected `json:"lastRejected,omitempty"`
	// Retry is the manual retry that this run begins with.
	Retry *Retry `json:"retry,omitempty"`
	// Begun is the last submission that was begun.
	Begun *Begun `json:"begun,omitempty"`
}

// Begun is a submission that was begun. Whether it started a job is not said: that
// is what has to be found out when it ends neither way.
type Begun struct {
	SubmissionKey string `json:"submissionKey"`
	Attempt       int    `json:"attempt"`
	// Host is where, and Handle that of its job, if they are known.
	Host   string  `json:"host,omitempty"`
	Handle *Handle `json:"handle,omitempty"`
}

// TaskRecord is all that is known of a task that has ended: the result of its
// workflow, or the details of the error that closed it.
type TaskRecord struct {
	Task    domain.Task    `json:"task"`
	Ledger  *domain.Ledger `json:"ledger,omitempty"`
	Handle  *Handle        `json:"handle,omitempty"`
	Targets []string       `json:"targets,omitempty"`
	// Begun is the last submission that was begun.
	Begun *Begun `json:"begun,omitempty"`
}

// Handle addresses an outside job. Only its executor reads ID and Data.
type Handle struct {
	Executor  string          `json:"executor"`
	TaskQueue string          `json:"taskQueue,omitempty"`
	ID        string          `json:"id"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// Blob is content on its way into the blob store.
type Blob struct {
	Ref         string `json:"ref"`
	Hash        string `json:"hash"`
	ContentType string `json:"contentType,omitempty"`
	// Content is in base64: as JSON within JSON its bytes would be another
	// writer's, and their hash would not be Hash any more.
	Content []byte `json:"content"`
}

// Cancel is the message of the update `cancel`.
type Cancel struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	AtMs   int64  `json:"atMs,omitempty"`
	// WaiterID is the waiter that cancels. While others wait too, it only detaches
	// that one. Empty is the operator, who cancels for all.
	WaiterID string `json:"waiterId,omitempty"`
}

// Answer is the message of the update `answer`.
type Answer struct {
	QuestionID string          `json:"questionId"`
	Answer     json.RawMessage `json:"answer"`
	By         string          `json:"by,omitempty"`
	AtMs       int64           `json:"atMs,omitempty"`
}

// Attach is the message of the update `attach`: a target, a waiter, or both.
type Attach struct {
	Target string `json:"target"`
	// Waiter is who waits for the task, beside those who do already.
	Waiter *domain.Waiter `json:"waiter,omitempty"`
	AtMs   int64          `json:"atMs,omitempty"`
}

// Detach is the message of the update `detach`.
type Detach struct {
	WaiterID string `json:"waiterId"`
	// Reason says why it waits no longer, such as [domain.DetachWaitTimeout].
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	AtMs   int64  `json:"atMs,omitempty"`
}

// Resolve is the message of the update `resolve`.
type Resolve struct {
	// Action is one of the domain's: succeeded, failed or repeat.
	Action string `json:"action"`
	// Result, or ResultRef and ResultHash, are the result of a succeeded one.
	Result      json.RawMessage   `json:"result,omitempty"`
	ResultRef   string            `json:"resultRef,omitempty"`
	ResultHash  string            `json:"resultHash,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Bytes       int64             `json:"bytes,omitempty"`
	Error       *domain.TaskError `json:"error,omitempty"`
	By          string            `json:"by,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	AtMs        int64             `json:"atMs,omitempty"`
}

// Reconcile is the message of the update `reconcile`.
type Reconcile struct {
	By string `json:"by,omitempty"`
}

// Reconciled answers it: what the task thought, what the outside said and what
// became of it.
type Reconciled struct {
	Before Standing `json:"before"`
	// Outside is what the outside said: running, ended, lost, unknown, no-answer,
	// or not-asked when there is nobody to ask or nothing to ask about.
	Outside string `json:"outside"`
	// Note says it for people.
	Note string `json:"note,omitempty"`
	// Did is the reason of the change that was made; empty when nothing changed.
	Did   domain.Reason `json:"did,omitempty"`
	After Standing      `json:"after"`
}

// Standing is how a task stands, in short.
type Standing struct {
	State   domain.State `json:"state"`
	Phase   domain.Phase `json:"phase"`
	Version int64        `json:"version"`
	Attempt int          `json:"attempt"`
}

// What [Reconciled.Outside] can be.
const (
	OutsideRunning  = "running"
	OutsideEnded    = "ended"
	OutsideLost     = "lost"
	OutsideUnknown  = "unknown"
	OutsideNoAnswer = "no-answer"
	OutsideNotAsked = "not-asked"
)

// JobStarted is the message of the signal `submitted`.
type JobStarted struct {
	Attempt int    `json:"attempt"`
	Handle  Handle `json:"handle"`
	Worker  string `json:"worker,omitempty"`
}

// Retry is the message of the update `retry`, and of a manual retry of a
// closed task.
type Retry struct {
	// TTLMs is the time to live from the retry on.
	TTLMs  int64  `json:"ttlMs"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// AtMs is when it was asked for.
	AtMs int64 `json:"atMs,omitempty"`
}

// ResumeRequest is the argument of the query `resume`.
type ResumeRequest struct {
	// Cursor is the version that the reader knows, 0 for none.
	Cursor int64 `json:"cursor"`
	// Retention is how far back events are given one by one. Default: 8.
	Retention int `json:"retention,omitempty"`
}

// Description answers the query `describe` of a task.
type Description struct {
	domain.View
	Handle  *Handle  `json:"handle,omitempty"`
	Targets []string `json:"targets,omitempty"`
	// WakeAtMs and WakeFor are the task's next timer.
	WakeAtMs int64       `json:"wakeAtMs,omitempty"`
	WakeFor  domain.Wake `json:"wakeFor,omitempty"`
	// LastRejected is the last signal that was invalid; nobody could be told.
	LastRejected *Rejected `json:"lastRejected,omitempty"`
	// Begun is the last submission that was begun.
	Begun *Begun `json:"begun,omitempty"`
	// ServerTimeMs is the time at which the phase was derived.
	ServerTimeMs int64 `json:"serverTimeMs"`
}

// Rejected is a signal that was invalid and changed nothing.
type Rejected struct {
	CallbackID string `json:"callbackId,omitempty"`
	AtMs       int64  `json:"atMs"`
	Error      string `json:"error"`
}

// TaskFinished is the message of the signal `task-finished`.
type TaskFinished struct {
	// Task has no history.
	Task domain.Task `json:"task"`
	// Kind is empty for the end of a task, or [KindLateResult].
	Kind string `json:"kind,omitempty"`
	// AtMs is the time of what caused it: of the late callback, when that made
	// the task expire. The task's own record then has the deadline.
	AtMs int64 `json:"atMs,omitempty"`
	// WaiterID and ToolCallID say as whom the run waits, when it did not submit the
	// task itself.
	WaiterID   string `json:"waiterId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

// KindLateResult marks news of a result that came after the deadline.
const KindLateResult = "task.late_result"

// Problem is the detail of an error of type [ErrTypeInvalid].
type Problem struct {
	Code  string `json:"code"`
	Field string `json:"field,omitempty"`
	Rule  string `json:"rule,omitempty"`
}
