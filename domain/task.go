package domain

import (
	"encoding/json"
	"math"
)

// What a task keeps. Together with a full ledger (480 KiB) and the answers to
// [MaxQuestions] questions (512 KiB) its record stays below the 2 MiB at which
// Temporal refuses a payload: a task that grew beyond could neither continue
// as new nor close.
const (
	// HistoryLimit is how many of its newest events a task keeps.
	HistoryLimit = 64
	// HistoryBytes is how many bytes of JSON they have together, roughly, except
	// that the newest is always kept.
	HistoryBytes = 256 << 10
	// QuestionBytes is how many bytes of JSON the questions of an attempt have
	// together, roughly, without their answers.
	QuestionBytes = 256 << 10
)

// Entry is one recorded event and the version that it led to.
type Entry struct {
	Version int64 `json:"version"`
	Event   Event `json:"event"`
}

// CancelRequest is somebody's wish that the work be given up.
type CancelRequest struct {
	AtMs   int64  `json:"atMs"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// Question is what a task asks, and the one answer that it takes.
type Question struct {
	QuestionID   string          `json:"questionId"`
	Prompt       string          `json:"prompt,omitempty"`
	Schema       json.RawMessage `json:"schema,omitempty"`
	AskedAtMs    int64           `json:"askedAtMs"`
	Answer       json.RawMessage `json:"answer,omitempty"`
	AnsweredBy   string          `json:"answeredBy,omitempty"`
	AnsweredAtMs int64           `json:"answeredAtMs,omitempty"`
}

// LateResult is a result that came after the deadline and was kept.
type LateResult struct {
	ResultRef  string `json:"resultRef"`
	ResultHash string `json:"resultHash"`
	AtMs       int64  `json:"atMs"`
}

// Waiter is somebody who waits for a task. A task that is shared by cache or
// idempotency key has several.
type Waiter struct {
	// ID is the waiter's own name, unique within the task: 1 to 128 of A-Z a-z 0-9
	// . _ -.
	ID string `json:"id"`
	// RunID is the run that is told of the end, ToolCallID its own id for the call.
	RunID      string `json:"runId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	// AtMs is when it began to wait.
	AtMs int64 `json:"atMs,omitempty"`
	// LeftAtMs is when it stopped waiting before the end, LeftFor why.
	LeftAtMs int64  `json:"leftAtMs,omitempty"`
	LeftFor  string `json:"leftFor,omitempty"`
}

// MaxWaiters is how many may wait for one task, those who left included.
const MaxWaiters = 64

// WaiterSubmitter is the id of whoever submitted the task.
const WaiterSubmitter = "submitter"

// DetachWaitTimeout is why a waiter leaves whose own patience is over.
const DetachWaitTimeout = "wait-timeout"

// Manual says that a person has to find out what became of the work.
type Manual struct {
	// SinceMs is when the task went to a person.
	SinceMs int64 `json:"sinceMs"`
	// Why says what is not known.
	Why string `json:"why"`
	// Compensation is the id of the task that undoes what may have been done, if
	// one runs; the person is needed only if it fails.
	Compensation string `json:"compensation,omitempty"`
	// CompensationFailed says how it ended, if not well.
	CompensationFailed string `json:"compensationFailed,omitempty"`
}

// The actions of [EventResolve].
const (
	// ResolveSucceeded says that the work was done, with this result.
	ResolveSucceeded = "succeeded"
	// ResolveFailed says that it was not done and shall not be.
	ResolveFailed = "failed"
	// ResolveRepeat says that it was not done, or may be done twice: do it again.
	ResolveRepeat = "repeat"
)

// Task is the whole record of a task. The first ten fields are the core; the
// rest is what the product adds. A Task is a value: [Apply] returns a new one.
type Task struct {
	ID          string     `json:"id"`
	State       State      `json:"state"`
	ExpiresAtMs int64      `json:"expiresAtMs"`
	Attempts    int        `json:"attempts"`
	MaxAttempts int        `json:"maxAttempts"`
	Progress    int        `json:"progress"`
	Version     int64      `json:"version"`
	ResultRef   string     `json:"resultRef,omitempty"`
	ResultHash  string     `json:"resultHash,omitempty"`
	Error       *TaskError `json:"error,omitempty"`
	History     []Entry    `json:"history"`

	Tenant         string            `json:"tenant,omitempty"`
	RunID          string            `json:"runId,omitempty"`
	ToolCallID     string            `json:"toolCallId,omitempty"`
	Tool           string            `json:"tool,omitempty"`
	Title          string            `json:"title,omitempty"`
	IdempotencyKey string            `json:"idempotencyKey,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	CreatedAtMs    int64             `json:"createdAtMs"`
	Labels         map[string]string `json:"labels,omitempty"`
	Policy         Policy            `json:"policy,omitzero"`

	ContentType string `json:"contentType,omitempty"`
	ResultBytes int64  `json:"resultBytes,omitempty"`
	// ResultTTLMs is how long the result is kept after the end; 0 leaves it to
	// the installation.
	ResultTTLMs int64 `json:"resultTtlMs,omitempty"`
	// Worker is who works on the current attempt.
	Worker string `json:"worker,omitempty"`
	Stage  string `json:"stage,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	// StartedAtMs is when the current attempt began.
	StartedAtMs int64 `json:"startedAtMs,omitempty"`
	// LastHeardAtMs is when the outside was last heard of by an event.
	LastHeardAtMs int64 `json:"lastHeardAtMs,omitempty"`
	// LastProgressAtMs is when progress or stage last changed.
	LastProgressAtMs int64 `json:"lastProgressAtMs,omitempty"`
	// EndedAtMs is when the task became terminal: the deadline itself for an
	// expired one.
	EndedAtMs int64 `json:"endedAtMs,omitempty"`
	// RetryAtMs is when the next attempt may begin, while one is waited for.
	RetryAtMs int64 `json:"retryAtMs,omitempty"`
	// Submission counts the definite ends of outside jobs. It is half of the
	// submission key; after anything ambiguous it stays.
	Submission int            `json:"submission,omitempty"`
	Cancel     *CancelRequest `json:"cancelRequested,omitempty"`
	// Confirmed is false on a cancelled task whose outside never answered.
	Confirmed *bool      `json:"confirmed,omitempty"`
	Questions []Question `json:"questions,omitempty"`
	// SuspectedAtMs is when the lease ran out, while the outside is asked.
	SuspectedAtMs int64 `json:"suspectedAtMs,omitempty"`
	// Retries counts manual retries. From the first one on, callbacks must
	// name their attempt (see the attempt fence in docs/concepts.md).
	Retries int         `json:"retries,omitempty"`
	Late    *LateResult `json:"lateResult,omitempty"`
	// Waiters are those who wait beside the submitter, and the submitter once it has
	// left; see [Task.Waiting].
	Waiters []Waiter `json:"waiters,omitempty"`
	// Manual is set while a person has to find out what became of the work, and on a
	// task that expired while what it may have done was being undone.
	Manual *Manual `json:"manual,omitempty"`
	// DecidedFor is the attempt that a person decided to begin, knowing that the
	// outcome of the one before is unknown, whatever the effects of the tool.
	DecidedFor int `json:"decidedFor,omitempty"`
	// EndedBy is the source of the event that ended the task: "probe", "timer",
	// "lease", the name of a callback's source or "callback" if it has none, or a
	// person. Empty while it is open, and when nobody is named.
	EndedBy string `json:"endedBy,omitempty"`
}

// Create is what a new task is made of.
type Create struct {
	ID          string `json:"id"`
	NowMs       int64  `json:"nowMs"`
	TTLMs       int64  `json:"ttlMs"`
	MaxAttempts int    `json:"maxAttempts"`

	Tenant         string            `json:"tenant,omitempty"`
	RunID          string            `json:"runId,omitempty"`
	ToolCallID     string            `json:"toolCallId,omitempty"`
	Tool           string            `json:"tool,omitempty"`
	Title          string            `json:"title,omitempty"`
	IdempotencyKey string            `json:"idempotencyKey,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	ResultTTLMs    int64             `json:"resultTtlMs,omitempty"`
	Policy         Policy            `json:"policy,omitzero"`
}

// New makes a queued task at version 0. Any refusal is an [InvalidError].
func New(c Create) (Task, error) {
	switch {
	case blank(c.ID):
		return Task{}, Invalid("id", "must not be blank")
	case c.NowMs < 0:
		return Task{}, Invalid("nowMs", "must be >= 0, it is %d", c.NowMs)
	case c.TTLMs <= 0:
		return Task{}, Invalid("ttlMs", "must be > 0, it is %d", c.TTLMs)
	case c.TTLMs > math.MaxInt64-c.NowMs:
		return Task{}, Invalid("ttlMs", "must end within the range of times, it is %d", c.TTLMs)
	case c.MaxAttempts < 1:
		return Task{}, Invalid("maxAttempts", "must be >= 1, it is %d", c.MaxAttempts)
	case c.Priority < 0 || c.Priority > 5:
		return Task{}, Invalid("priority", "must be 1 (first) to 5 (last), or absent; it is %d", c.Priority)
	}
	if err := c.Policy.Validate(); err != nil {
		return Task{}, err
	}
	return Task{
		ID: c.ID, State: StateQueued, ExpiresAtMs: c.NowMs + c.TTLMs, MaxAttempts: c.MaxAttempts, History: []Entry{},
		Tenant: c.Tenant, RunID: c.RunID, ToolCallID: c.ToolCallID, Tool: c.Tool, Title: c.Title,
		IdempotencyKey: c.IdempotencyKey, Priority: c.Priority, CreatedAtMs: c.NowMs, Labels: c.Labels,
		ResultTTLMs: c.ResultTTLMs, Policy: c.Policy,
	}, nil
}

// OpenQuestion is the first question that waits for its answer, if any.
func (t Task) OpenQuestion() (Question, bool) {
	for _, q := range t.Questions {
		if q.AnsweredAtMs == 0 {
			return q, true
		}
	}
	return Question{}, false
}

func (t Task) question(id string) int {
	for i, q := range t.Questions {
		if q.QuestionID == id {
			return i
		}
	}
	return -1
}

// record adds one version and one entry; it copies what it changes.
func (t *Task) record(e Event) {
	t.Version++
	keep := t.History
	if len(keep) >= HistoryLimit {
		keep = keep[len(keep)-HistoryLimit+1:]
	}
	h := make([]Entry, 0, len(keep)+1)
	h = append(h, keep...)
	t.History = newest(append(h, Entry{Version: t.Version, Event: e}))
}

// newest drops what is too much from the old end.
func newest(h []Entry) []Entry {
	sizes, total := make([]int, len(h)), 0
	for i := range h {
		sizes[i] = h[i].Event.size()
		total += sizes[i]
	}
	for i := 0; total > HistoryBytes && len(h) > 1; i++ {
		total -= sizes[i]
		h = h[1:]
	}
	return h
}

// size is about how many bytes an event has as JSON.
func (e Event) size() int {
	n := 256
	for _, s := range []string{e.Worker, e.Cursor, e.Stage, e.ResultRef, e.ResultHash, e.ContentType, e.QuestionID, e.Prompt, e.By, e.Reason, e.Source, e.Action, e.WaiterID, e.Compensation} {
		n += sizeAsJSON(s)
	}
	if e.Error != nil {
		n += sizeAsJSON(e.Error.Message) + sizeAsJSON(string(e.Error.Details))
	}
	if w := e.Waiter; w != nil {
		n += sizeAsJSON(w.ID) + sizeAsJSON(w.RunID) + sizeAsJSON(w.ToolCallID) + sizeAsJSON(w.LeftFor)
	}
	return n + sizeAsJSON(string(e.Schema)) + sizeAsJSON(string(e.Answer))
}

// sizeAsJSON counts what is escaped as six bytes, as for a control character.
func sizeAsJSON(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20, c == '<', c == '>', c == '&', c == '"', c == '\\':
			n += 5
		}
	}
	return n
}

// questionBytes is about how many bytes the questions have as JSON.
func (t Task) questionBytes() int {
	n := 0
	for _, q := range t.Questions {
		n += sizeAsJSON(q.Prompt) + sizeAsJSON(string(q.Schema))
	}
	return n
}

// WithoutHistory is the record as a run gets it.
func (t Task) WithoutHistory() Task {
	t.History = []Entry{}
	return t
}
