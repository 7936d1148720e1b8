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
	// Lost says that the job certainly runs no more and left no end.
	Lost bool `json:"lost,omitempty"`
	// Note says for people what was seen.
	Note string `json:"note,omitempty"`
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
