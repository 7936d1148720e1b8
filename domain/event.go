package domain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"
)

// Limits of what comes in. All are bytes. They keep a task's record far below
// the sizes at which Temporal refuses a payload (2 MiB), whatever is sent.
const (
	MaxErrorText    = 4 << 10
	MaxCursor       = 256
	MaxRef          = 2 << 10
	MaxHash         = 128
	MaxDetails      = 16 << 10
	MaxCallbackID   = 200
	MaxInlineResult = 64 << 10
	MaxBody         = 1 << 20
	MaxWorker       = 256
	MaxStage        = 256
	MaxPrompt       = 4 << 10
	MaxCode         = 64
	MaxQuestions    = 32
)

// MaxRetryAfterMs bounds how long another side can put off the next attempt: a
// day. The deadline of the task bounds it further.
const MaxRetryAfterMs = 24 * 60 * 60 * 1000

// Event is one thing that happened to a task. Which fields matter depends on
// its type; the others are empty.
type Event struct {
	Type EventType `json:"type"`
	// AtMs is when it happened as far as the task is concerned: the time of
	// receipt for what comes by HTTP, the sender's for a raw signal.
	AtMs int64 `json:"atMs"`
	// Attempt names the attempt that the event belongs to; 0 leaves it open.
	Attempt int    `json:"attempt,omitempty"`
	Worker  string `json:"worker,omitempty"`
	// Progress is in percent. It is kept as sent, because the rules look at
	// the state of the task before they look at this number.
	Progress *float64 `json:"progress,omitempty"`
	// Cursor is the sender's own mark, kept for it.
	Cursor     string `json:"cursor,omitempty"`
	Stage      string `json:"stage,omitempty"`
	ResultRef  string `json:"resultRef,omitempty"`
	ResultHash string `json:"resultHash,omitempty"`
	// ContentType and Bytes describe the result.
	ContentType string `json:"contentType,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	// Result is an inline result of at most [MaxInlineResult] bytes. It is
	// never recorded: [Inline] turns it into a reference first.
	Result json.RawMessage `json:"result,omitempty"`
	Error  *TaskError      `json:"error,omitempty"`
	// Retryable overrules the error's own word.
	Retryable *bool `json:"retryable,omitempty"`
	// Stopped marks a lost worker whose work surely runs no more. What it has
	// done before is as unknown as ever.
	Stopped bool `json:"stopped,omitempty"`
	// Begun says of a cancel and of the deadline that a submission was begun whose job
	// nobody has heard of: it may run all the same.
	Begun      bool            `json:"begun,omitempty"`
	QuestionID string          `json:"questionId,omitempty"`
	Prompt     string          `json:"prompt,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`
	Answer     json.RawMessage `json:"answer,omitempty"`
	By         string          `json:"by,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	// TTLMs is the new time to live of a manual retry.
	TTLMs int64 `json:"ttlMs,omitempty"`
	// RetryAfterMs is how long the other side wants to be left alone before the next
	// attempt. The wait is never shorter, up to [MaxRetryAfterMs]; up to a tenth is
	// added to it by lot.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	// Waiter is who begins to wait, WaiterID who cancels or waits no longer.
	Waiter   *Waiter `json:"waiter,omitempty"`
	WaiterID string  `json:"waiterId,omitempty"`
	// Action is what a person resolved: one of the Resolve constants.
	Action string `json:"action,omitempty"`
	// Compensation is the id of the task that undoes what may have been done.
	Compensation string `json:"compensation,omitempty"`
	// Source says which way the event came: a source name, "probe", "timer".
	Source string `json:"source,omitempty"`
	// OccurredAtMs is the sender's clock, for people; it decides nothing.
	OccurredAtMs int64 `json:"occurredAtMs,omitempty"`
	// Jitter in [0,1) spreads the retry wait. What it leads to is recorded as
	// RetryAtMs, so it is not itself part of the record.
	Jitter float64 `json:"-"`
	// RetryAtMs is set by [Apply] on what it records.
	RetryAtMs int64 `json:"retryAtMs,omitempty"`
}

// retryable is the sender's word on whether another attempt makes sense.
func (e Event) retryable() bool {
	if e.Retryable != nil {
		return *e.Retryable
	}
	return e.Error != nil && e.Error.Retryable
}

// Digest identifies what an event says, without when it was received: a
// repeat of a callback is received at another time and is still the same.
func (e Event) Digest() string {
	e.AtMs, e.OccurredAtMs, e.Source, e.RetryAtMs = 0, 0, "", 0
	b, err := json.Marshal(e)
	if err != nil {
		b, _ = json.Marshal(e.writable()) //nolint:errchkjson // that is what writable is for
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// writable puts broken raw JSON into quotes and drops a number that JSON doesn't
// have. Such an event is refused, but before that a repeat of its id is told
// from a conflict.
func (e Event) writable() Event {
	quote := func(raw json.RawMessage) json.RawMessage {
		if len(raw) == 0 || json.Valid(raw) {
			return raw
		}
		q, _ := json.Marshal(string(raw)) //nolint:errchkjson // a string can always be written
		return q
	}
	e.Result, e.Schema, e.Answer = quote(e.Result), quote(e.Schema), quote(e.Answer)
	if e.Error = e.Error.clone(); e.Error != nil {
		e.Error.Details = quote(e.Error.Details)
	}
	if e.Progress != nil && (math.IsNaN(*e.Progress) || math.IsInf(*e.Progress, 0)) {
		e.Progress = nil
	}
	return e
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// wholePercent reads a progress value: an integer in 0..100.
func wholePercent(p *float64) (int, bool) {
	if p == nil || math.IsNaN(*p) || *p != math.Trunc(*p) || *p < 0 || *p > 100 {
		return 0, false
	}
	return int(*p), true
}

func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return Invalid(field, "must be at most %d bytes, it has %d", limit, len(s))
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "must be valid UTF-8")
	}
	return nil
}

func checkJSON(field string, raw json.RawMessage, limit int) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > limit {
		return Invalid(field, "must be at most %d bytes of JSON, it has %d", limit, len(raw))
	}
	if !utf8.Valid(raw) {
		return Invalid(field, "must be valid UTF-8")
	}
	if !json.Valid(raw) {
		return Invalid(field, "must be valid JSON")
	}
	return nil
}

// Validate checks what holds for an event whatever the task: its type, its
// sizes and its encoding. The rules that depend on the task are in [Apply].
func (e Event) Validate() error {
	if !known(e.Type) {
		return Invalid("event.type", "must be one of the known event types, not %q", e.Type)
	}
	if e.AtMs < 0 {
		return Invalid("event.atMs", "must be >= 0, it is %d", e.AtMs)
	}
	if e.Attempt < 0 {
		return Invalid("event.attempt", "must be >= 1, or absent; it is %d", e.Attempt)
	}
	if e.RetryAfterMs < 0 {
		return Invalid("event.retryAfterMs", "must be >= 0, it is %d", e.RetryAfterMs)
	}
	if e.Bytes < 0 {
		return Invalid("event.bytes", "must be >= 0, it is %d", e.Bytes)
	}
	texts := []fieldText{
		{"event.worker", e.Worker, MaxWorker},
		{"event.cursor", e.Cursor, MaxCursor},
		{"event.stage", e.Stage, MaxStage},
		{"event.resultRef", e.ResultRef, MaxRef},
		{"event.resultHash", e.ResultHash, MaxHash},
		{"event.contentType", e.ContentType, MaxHash},
		{"event.questionId", e.QuestionID, MaxCallbackID},
		{"event.prompt", e.Prompt, MaxPrompt},
		{"event.by", e.By, MaxWorker},
		{"event.reason", e.Reason, MaxErrorText},
		{"event.source", e.Source, MaxWorker},
		{"event.action", e.Action, MaxCode},
		{"event.waiterId", e.WaiterID, MaxID},
		{"event.compensation", e.Compensation, MaxID},
	}
	if w := e.Waiter; w != nil {
		// The attach rule checks more; what is recorded must be small in any case.
		texts = append(texts, fieldText{"event.waiter.id", w.ID, MaxID}, fieldText{"event.waiter.runId", w.RunID, MaxID},
			fieldText{"event.waiter.toolCallId", w.ToolCallID, MaxCallbackID}, fieldText{"event.waiter.leftFor", w.LeftFor, MaxCallbackID})
	}
	for _, t := range texts {
		if err := checkText(t.field, t.text, t.limit); err != nil {
			return err
		}
	}
	for _, j := range []struct {
		field string
		raw   json.RawMessage
		limit int
	}{
		{"event.result", e.Result, MaxInlineResult},
		{"event.schema", e.Schema, MaxDetails},
		{"event.answer", e.Answer, MaxDetails},
	} {
		if err := checkJSON(j.field, j.raw, j.limit); err != nil {
			return err
		}
	}
	if len(e.Result) > 0 && (e.ResultRef != "" || e.ResultHash != "") {
		return Invalid("event.result", "must be absent when resultRef or resultHash is given")
	}
	return e.Error.validate()
}

// fieldText is a text and the bytes that it may have.
type fieldText struct {
	field string
	text  string
	limit int
}

func (e *TaskError) validate() error {
	if e == nil {
		return nil
	}
	if err := checkText("event.error.message", e.Message, MaxErrorText); err != nil {
		return err
	}
	if len(e.Code) > MaxCode || strings.ContainsFunc(e.Code, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	}) {
		return Invalid("event.error.code", "must be UPPER_SNAKE of at most %d bytes", MaxCode)
	}
	switch e.Severity {
	case "", SeverityInfo, SeverityWarning, SeverityError, SeverityCritical:
	default:
		return Invalid("event.error.severity", "must be info, warning, error or critical, not %q", e.Severity)
	}
	switch e.Class {
	case "", ClassUser, ClassSystem, ClassThirdParty:
	default:
		return Invalid("event.error.class", "must be user, system or third-party, not %q", e.Class)
	}
	return checkJSON("event.error.details", e.Details, MaxDetails)
}

func known(t EventType) bool {
	for _, k := range EventTypes() {
		if k == t {
			return true
		}
	}
	return false
}

// Inline replaces an inline result by its reference: the place is known before
// the bytes are there, because it is named by their hash. It gives the bytes
// to be stored at that place, or nil when the event carries none.
func Inline(e Event, refFor func(hash string) string) (Event, []byte, error) {
	if len(e.Result) == 0 {
		return e, nil, nil
	}
	if e.ResultRef != "" || e.ResultHash != "" {
		return e, nil, Invalid("event.result", "must be absent when resultRef or resultHash is given")
	}
	// Canonical spacing, so that the same result repeated through another
	// JSON writer is the same result.
	var buf bytes.Buffer
	if err := json.Compact(&buf, e.Result); err != nil {
		return e, nil, Invalid("event.result", "must be valid JSON")
	}
	sum := sha256.Sum256(buf.Bytes())
	e.ResultHash = hex.EncodeToString(sum[:])
	e.ResultRef = refFor(e.ResultHash)
	e.Bytes = int64(buf.Len())
	e.ContentType = "application/json"
	e.Result = nil
	return e, buf.Bytes(), nil
}
