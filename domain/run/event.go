package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/domain"
)

// EventType says what happened to a run.
type EventType string

// What a runtime does.
const (
	// EventClaim takes the step that is due.
	EventClaim EventType = "claim"
	// EventHeartbeat renews the lease of a step.
	EventHeartbeat EventType = "heartbeat"
	// EventCommit ends a step with what the runtime answered.
	EventCommit EventType = "commit"
	// EventStepFailed ends an attempt of a step that gave no answer that could be taken.
	EventStepFailed EventType = "step-failed"
)

// What happens to calls.
const (
	// EventCallStarted says that a call has its task.
	EventCallStarted EventType = "call-started"
	// EventApprovalAsked says that a call waits for a person first.
	EventApprovalAsked EventType = "approval-asked"
	// EventCallEnded brings the end of a call.
	EventCallEnded EventType = "call-ended"
	// EventNoted says that the wishes about a call have been passed on to its task.
	EventNoted EventType = "noted"
)

// What people do.
const (
	EventApprove    EventType = "approve"
	EventAnswer     EventType = "answer"
	EventInput      EventType = "input"
	EventCancelCall EventType = "cancel-call"
	EventCancel     EventType = "cancel"
	EventPause      EventType = "pause"
	EventUnpause    EventType = "unpause"
	EventRetry      EventType = "retry"
)

// What time brings; see [Due].
const (
	EventStepLost      EventType = "step-lost"
	EventCallTimeout   EventType = "call-timeout"
	EventWaitTimeout   EventType = "wait-timeout"
	EventCancelTimeout EventType = "cancel-timeout"
	EventExpire        EventType = "expire"
)

// EventTypes lists all of them.
func EventTypes() []EventType {
	return []EventType{
		EventClaim, EventHeartbeat, EventCommit, EventStepFailed, EventCallStarted, EventApprovalAsked, EventCallEnded, EventNoted,
		EventApprove, EventAnswer, EventInput, EventCancelCall, EventCancel, EventPause, EventUnpause, EventRetry,
		EventStepLost, EventCallTimeout, EventWaitTimeout, EventCancelTimeout, EventExpire,
	}
}

// Event is one thing that happens to a run. Which fields matter depends on its type.
type Event struct {
	Type EventType `json:"type"`
	AtMs int64     `json:"atMs"`

	// Step and Token name the attempt of a step that the event is about; for a claim
	// Token is the one to be given.
	Step  int    `json:"step,omitempty"`
	Token string `json:"token,omitempty"`
	// Holder is who claims. One who claims again what it holds has lost it.
	Holder string `json:"holder,omitempty"`
	// Left says of a claim that the run itself has left the attempt before behind: that is
	// no failure of the runtime.
	Left           bool   `json:"left,omitempty"`
	LeaseMs        int64  `json:"leaseMs,omitempty"`
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
	// Response is what was answered, without checkpoint and final answer, which are
	// Checkpoint and Final; Digest identifies the whole, see [Digest].
	Response   *StepResponse `json:"response,omitempty"`
	Checkpoint *Content      `json:"checkpoint,omitempty"`
	Final      *Content      `json:"final,omitempty"`
	Digest     string        `json:"digest,omitempty"`

	Call    Key       `json:"call,omitzero"`
	Started *Started  `json:"started,omitempty"`
	End     *End      `json:"end,omitempty"`
	Decides *Approval `json:"decides,omitempty"`
	Answer  []byte    `json:"answer,omitempty"`

	// Refs are the contents that were deleted.
	Refs []string `json:"refs,omitempty"`

	Input  *Input            `json:"input,omitempty"`
	Error  *domain.TaskError `json:"error,omitempty"`
	By     string            `json:"by,omitempty"`
	Reason string            `json:"reason,omitempty"`
	// TTLMs and Limits are what a retry gives the run anew.
	TTLMs  int64   `json:"ttlMs,omitempty"`
	Limits *Limits `json:"limits,omitempty"`
	// Jitter in [0,1) spreads the wait before the next attempt of a step.
	Jitter float64 `json:"-"`
}

// Started is what is known of a call once its work has been begun.
type Started struct {
	TaskID      string `json:"taskId,omitempty"`
	SubRunID    string `json:"subRunId,omitempty"`
	WaiterID    string `json:"waiterId,omitempty"`
	Title       string `json:"title,omitempty"`
	ExpiresAtMs int64  `json:"expiresAtMs,omitempty"`
	// UntilMs is when a person's time to decide is over.
	UntilMs int64 `json:"untilMs,omitempty"`
}

// End is how a call ended.
type End struct {
	State CallState `json:"state"`
	// TaskID or SubRunID, if given, is whose end it is. A call whose start is still under
	// way learns it from here: without it nobody could tell whose the result is.
	TaskID      string            `json:"taskId,omitempty"`
	SubRunID    string            `json:"subRunId,omitempty"`
	ResultRef   string            `json:"resultRef,omitempty"`
	ResultHash  string            `json:"resultHash,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Bytes       int64             `json:"bytes,omitempty"`
	Answer      []byte            `json:"answer,omitempty"`
	Error       *domain.TaskError `json:"error,omitempty"`
	// Usage is what a run used that did the work of the call.
	Usage []Usage `json:"usage,omitempty"`
}

// Outcome answers whoever sent an event.
type Outcome struct {
	Reason    Reason `json:"reason"`
	Changed   bool   `json:"changed"`
	Duplicate bool   `json:"duplicate,omitempty"`
	State     State  `json:"state"`
	Version   int64  `json:"version"`
	// Step is the step that is due or under way, or the last one.
	Step int `json:"step,omitempty"`
}

// RefusedError says that an event would change nothing, and why.
type RefusedError struct{ Outcome Outcome }

// Error gives the reason.
func (e *RefusedError) Error() string {
	return string(e.Outcome.Reason) + ": the run is " + string(e.Outcome.State)
}

// Digest identifies a commit: what a runtime answered, in full.
func Digest(resp StepResponse, checkpoint, final *Content) string {
	h := sha256.New()
	resp.Checkpoint, resp.CheckpointRef, resp.Final = nil, nil, nil
	b, err := json.Marshal(resp)
	if err != nil {
		// Only broken raw JSON leads here, which is refused before anything is done.
		b = []byte(err.Error())
	}
	h.Write(b)
	for _, c := range []*Content{checkpoint, final} {
		h.Write([]byte{0})
		if c != nil {
			h.Write([]byte(c.Hash))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Hash is the sha-256 of content.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Inline is content that is kept in the run itself.
func Inline(b []byte, contentType string) *Content {
	return &Content{Data: b, Hash: Hash(b), Bytes: int64(len(b)), ContentType: contentType}
}

func (in Input) digest() string {
	return Hash([]byte(in.Source + "\x00" + string(asStored(in.Content))))[:32]
}

// asStored gives JSON as it is written within JSON: a record that was stored and read
// is compared with what somebody sends anew.
func asStored(b json.RawMessage) []byte {
	if out, err := json.Marshal(b); err == nil {
		return out
	}
	return b
}

// longest is the longest time that is taken, in ms: sums with it stay exact, also in the
// JSON of other languages.
const longest = 1 << 53

func (in Input) validate() error {
	if err := checkText("input.inputId", in.InputID, domain.MaxCallbackID, true); err != nil {
		return err
	}
	if err := checkText("input.source", in.Source, MaxText, false); err != nil {
		return err
	}
	return checkJSON("input.content", in.Content, MaxInput)
}

func checkText(field, s string, limit int, needed bool) error {
	switch {
	case needed && strings.TrimSpace(s) == "":
		return domain.Invalid(field, "must not be blank")
	case len(s) > limit:
		return domain.Invalid(field, "must be at most %d bytes, it has %d", limit, len(s))
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return domain.Invalid(field, "must be valid UTF-8 without zero bytes")
	}
	return nil
}

func checkJSON(field string, b []byte, limit int) error {
	switch {
	case len(b) == 0:
		return domain.Invalid(field, "must be given")
	case len(b) > limit:
		return domain.Invalid(field, "must be at most %d bytes, it has %d", limit, len(b))
	case !utf8.Valid(b) || !json.Valid(b):
		return domain.Invalid(field, "must be valid JSON")
	}
	return nil
}
