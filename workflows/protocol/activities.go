package protocol

import (
	"encoding/json"

	"github.com/wakepoint/wakepoint/domain"
)

// Job names the outside job that an activity is about.
type Job struct {
	Tenant  string `json:"tenant"`
	TaskID  string `json:"taskId"`
	Tool    string `json:"tool"`
	Attempt int    `json:"attempt"`
	// SubmissionKey is the outside job's own lock; it holds the tenant.
	SubmissionKey string `json:"submissionKey"`
	// Handle is nil while it is not known whether there is a job.
	Handle *Handle `json:"handle,omitempty"`
}

// SubmitRequest is the argument of [ActivitySubmit].
type SubmitRequest struct {
	Job
	Input        json.RawMessage `json:"input,omitempty"`
	DeadlineAtMs int64           `json:"deadlineAtMs"`
	// RepeatOf is the attempt for which a submission under the key was begun before,
	// so that a job may be there that nobody has heard of; 0 is none.
	RepeatOf int `json:"repeatOf,omitempty"`
	// RepeatHost is the host of that submission, and RepeatHandle that of its job, if
	// they are known.
	RepeatHost   string  `json:"repeatHost,omitempty"`
	RepeatHandle *Handle `json:"repeatHandle,omitempty"`
	// Decided says that a person decided to submit once more, whatever the effects.
	Decided bool `json:"decided,omitempty"`
	// Effects are the tool's; see [domain.Effects].
	Effects domain.Effects `json:"effects,omitempty"`
}

// RunRequest is the argument of [ActivityRun]. A Handle is that of a job that runs.
type RunRequest struct {
	SubmitRequest
	// Progress and Stage are what the task knows.
	Progress int    `json:"progress"`
	Stage    string `json:"stage,omitempty"`
	PollMs   int64  `json:"pollMs,omitempty"`
}

// RunNote is what a try of [ActivitySubmit] or [ActivityRun] leaves in its heartbeat
// details.
type RunNote struct {
	// Host is where the try ran.
	Host string `json:"host,omitempty"`
	// Begun says that the outside may have been reached.
	Begun bool `json:"begun,omitempty"`
	// Handle is the job's once it is known.
	Handle *Handle `json:"handle,omitempty"`
	// Error is why the outside gave no answer, for people, and Unanswered how many
	// tries had none.
	Error      string `json:"error,omitempty"`
	Unanswered int    `json:"unanswered,omitempty"`
}

// CompensateRequest is the argument of [ActivityCompensate].
type CompensateRequest struct {
	Job
	// Compensate is the tool that undoes.
	Compensate string `json:"compensate"`
	// CompensationID is the id of the task that it runs as.
	CompensationID string          `json:"compensationId"`
	Input          json.RawMessage `json:"input,omitempty"`
	Reason         string          `json:"reason,omitempty"`
}

// CompensateResult says how it ended.
type CompensateResult struct {
	State domain.State      `json:"state"`
	Error *domain.TaskError `json:"error,omitempty"`
}

// ListJobsRequest is the argument of [ActivityListJobs].
type ListJobsRequest struct {
	Tool   string `json:"tool"`
	Cursor string `json:"cursor,omitempty"`
}

// ListJobsResult is a page of jobs.
type ListJobsResult struct {
	// Supported is false for an executor that cannot list.
	Supported bool        `json:"supported"`
	Jobs      []ListedJob `json:"jobs,omitempty"`
	Next      string      `json:"next,omitempty"`
}

// ListedJob is an outside job in a list.
type ListedJob struct {
	Handle        Handle `json:"handle"`
	SubmissionKey string `json:"submissionKey"`
	State         string `json:"state"`
	StartedAtMs   int64  `json:"startedAtMs,omitempty"`
}

// SweepInput starts a [WorkflowSweep].
type SweepInput struct {
	Tenant string `json:"tenant"`
	// Host is whose jobs are swept; empty sweeps the store of results.
	Host string `json:"host,omitempty"`
	// TaskQueue is where the activity runs.
	TaskQueue string `json:"taskQueue"`
	// DryRun only says what would be deleted.
	DryRun bool `json:"dryRun,omitempty"`
}

// SweepReport says what was deleted, and what stayed and why.
type SweepReport struct {
	// Looked counts the results or jobs of the tenant that are there; what was
	// neither deleted nor failed may still be needed.
	Looked  int `json:"looked"`
	Deleted int `json:"deleted"`
	// Gone counts what was deleted because its task is gone, Outlived because its
	// lifetime is over; after a dry run, what would be.
	Gone     int   `json:"gone,omitempty"`
	Outlived int   `json:"outlived,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
	// Failed counts what could not be looked at or deleted; the next sweep tries
	// again.
	Failed    int    `json:"failed,omitempty"`
	LastError string `json:"lastError,omitempty"`
	// EndedAtMs is when it was over.
	EndedAtMs int64 `json:"endedAtMs,omitempty"`
}

// SubmitResult is its result.
type SubmitResult struct {
	Handle Handle `json:"handle"`
	Worker string `json:"worker,omitempty"`
}

// ProbeRequest is the argument of [ActivityProbe] and [ActivityAsk].
type ProbeRequest struct {
	Job
	// Progress and Stage are what the task knows.
	Progress int    `json:"progress"`
	Stage    string `json:"stage,omitempty"`
	PollMs   int64  `json:"pollMs,omitempty"`
}

// ProbeResult says how the outside job stands.
type ProbeResult struct {
	// Event is its end, if it has ended.
	Event *domain.Event `json:"event,omitempty"`
	// Known says that the outside knows the job and it goes on.
	Known bool `json:"known,omitempty"`
	// Lost says that the job is given up and left no end. It certainly runs no more,
	// unless MayRun is set.
	Lost   bool `json:"lost,omitempty"`
	MayRun bool `json:"mayRun,omitempty"`
	// Note says for people what was seen.
	Note string `json:"note,omitempty"`
	// NotFound says that no job is known under the key.
	NotFound bool `json:"notFound,omitempty"`
	// NotAsked says that there is nobody to ask: where the job is is not known, and the
	// executor cannot find one by its key.
	NotAsked bool `json:"notAsked,omitempty"`
}

// CancelRequest is the argument of [ActivityCancel].
type CancelRequest struct {
	Job
	Reason string `json:"reason,omitempty"`
}

// LeaseRequest is the argument of [ActivityLease].
type LeaseRequest struct {
	Job
}

// StoreRequest is the argument of [ActivityStore].
type StoreRequest struct {
	Tenant string `json:"tenant"`
	TaskID string `json:"taskId"`
	Blob   Blob   `json:"blob"`
}

// NotifyRequest is the argument of [ActivityNotifyRun].
type NotifyRequest struct {
	Tenant   string       `json:"tenant"`
	RunID    string       `json:"runId"`
	Finished TaskFinished `json:"finished"`
}

// NotifyResult says what became of it.
type NotifyResult struct {
	// Receipt is "signaled" or "run-closed".
	Receipt string `json:"receipt"`
}

// The receipts of [NotifyResult].
const (
	ReceiptSignaled  = "signaled"
	ReceiptRunClosed = "run-closed"
)

// LogsRequest is the argument of [ActivityLogs], which a client runs as a
// standalone activity on the task queue of the handle.
type LogsRequest struct {
	Job
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit,omitempty"`
}

// LogsResult is a piece of a log.
type LogsResult struct {
	Data    []byte `json:"data,omitempty"`
	Offset  int64  `json:"offset"`
	Skipped int64  `json:"skipped,omitempty"`
	Next    int64  `json:"next"`
	End     bool   `json:"end"`
}

// DeliveryKind is how a result is handed over.
type DeliveryKind string

// The kinds of deliveries.
const (
	// DeliveryPull hands the result to whoever asked: it is over at once.
	DeliveryPull DeliveryKind = "pull"
	// DeliveryWebhook sends to a target that the operator declared.
	DeliveryWebhook DeliveryKind = "webhook"
)

// DeliveryInput starts a [WorkflowDelivery].
type DeliveryInput struct {
	Tenant string       `json:"tenant"`
	Key    string       `json:"key"`
	Kind   DeliveryKind `json:"kind"`
	// Target names a declared target, for a webhook.
	Target string `json:"target,omitempty"`
	// Task is the record as it ended, without history.
	Task domain.Task `json:"task"`
	// Type is the type of the event, such as task.succeeded.
	Type string `json:"type,omitempty"`
	// Redelivers is the key of the dead letter that this one sends again.
	Redelivers string `json:"redelivers,omitempty"`
	// GiveUpAfterMs bounds all attempts together. Default: three days.
	GiveUpAfterMs int64 `json:"giveUpAfterMs,omitempty"`
}

// DeliveryRecord is what became of a delivery.
type DeliveryRecord struct {
	Key    string       `json:"key"`
	Kind   DeliveryKind `json:"kind"`
	Target string       `json:"target,omitempty"`
	TaskID string       `json:"taskId"`
	// State is "pending", "delivered" or "dead-letter".
	State string `json:"state"`
	// Answer is set on a pull delivery, and once a webhook has been delivered.
	Answer *domain.Delivered `json:"answer,omitempty"`
	// Rounds counts how often sending was begun by hand, plus one.
	Rounds int `json:"rounds,omitempty"`
	// Attempts counts the requests of the last round, once it was delivered.
	Attempts  int    `json:"attempts,omitempty"`
	LastError string `json:"lastError,omitempty"`
	EndedAtMs int64  `json:"endedAtMs,omitempty"`
}

// The states of a [DeliveryRecord].
const (
	DeliveryPending    = "pending"
	DeliveryDone       = "delivered"
	DeliveryDeadLetter = "dead-letter"
)

// Redeliver is the message of the update `redeliver`.
type Redeliver struct {
	By string `json:"by,omitempty"`
}

// SendRequest is the argument of [ActivitySend].
type SendRequest struct {
	Tenant string      `json:"tenant"`
	Key    string      `json:"key"`
	Target string      `json:"target"`
	Type   string      `json:"type"`
	Task   domain.Task `json:"task"`
}

// SendResult says how it was taken.
type SendResult struct {
	// Known says that the target, when asked, had it already.
	Known      bool  `json:"known,omitempty"`
	StatusCode int   `json:"statusCode,omitempty"`
	SentAtMs   int64 `json:"sentAtMs"`
	Attempts   int   `json:"attempts"`
}
