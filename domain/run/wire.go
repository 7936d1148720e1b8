package run

import (
	"encoding/json"

	"github.com/wakepoint/wakepoint/domain"
)

// The step protocol: what a runtime is asked and what it answers. The same JSON goes
// over all ways in; see docs/runs.md.

// Content is bytes that are kept as they are: inline up to [MaxInline], else in the
// blob store.
type Content struct {
	// Data is in base64 between our own programs: as JSON within JSON its bytes would
	// be another writer's.
	Data []byte `json:"data,omitempty"`
	// Ref, Hash (sha-256, hexadecimal) and Bytes describe them.
	Ref         string `json:"ref,omitempty"`
	Hash        string `json:"hash,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	ContentType string `json:"contentType,omitempty"`
}

// Empty tells whether there is none.
func (c *Content) Empty() bool { return c == nil || len(c.Data) == 0 && c.Ref == "" }

// ContentRef names bytes in the blob store.
type ContentRef struct {
	Ref   string `json:"ref"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes,omitempty"`
}

// StepRequest asks a runtime for a step.
type StepRequest struct {
	RunID string `json:"runId"`
	// Step counts from 1. Each is committed once.
	Step int `json:"step"`
	// Attempt counts from 1 within the step.
	Attempt int `json:"attempt"`
	// StepToken goes with the commit: a token of an earlier attempt is refused.
	StepToken string `json:"stepToken"`
	// LeaseMs is how long the runtime may be silent.
	LeaseMs int64 `json:"leaseMs"`
	Cause   Cause `json:"cause"`
	// Checkpoint is what the last commit left, byte for byte; a large one is named by
	// CheckpointRef instead.
	Checkpoint       json.RawMessage `json:"checkpoint,omitempty"`
	CheckpointRef    *ContentRef     `json:"checkpointRef,omitempty"`
	CheckpointFormat string          `json:"checkpointFormat,omitempty"`
	RuntimeVersion   string          `json:"runtimeVersion,omitempty"`
	Results          []Result        `json:"results"`
	Inputs           []Input         `json:"inputs"`
	Pending          []Pending       `json:"pending"`
	Limits           Limits          `json:"limits"`
	// Traceparent is the W3C trace context of the run.
	Traceparent string `json:"traceparent,omitempty"`
}

// Result is the one result of a call.
type Result struct {
	ToolCallID  string          `json:"toolCallId"`
	AskedAtStep int             `json:"askedAtStep"`
	Tool        string          `json:"tool"`
	TaskID      string          `json:"taskId,omitempty"`
	State       CallState       `json:"state"`
	Input       json.RawMessage `json:"input,omitempty"`
	InputEdited bool            `json:"inputEdited,omitempty"`
	Approval    *Approval       `json:"approval,omitempty"`
	ResultRef   string          `json:"resultRef,omitempty"`
	ResultHash  string          `json:"resultHash,omitempty"`
	ContentType string          `json:"contentType,omitempty"`
	Bytes       int64           `json:"bytes,omitempty"`
	// Result is the content, if it is JSON or text of at most [MaxInlineResult] bytes;
	// text that is no JSON is a JSON string. Else Preview is its beginning, and
	// Truncated is set.
	Result    json.RawMessage   `json:"result,omitempty"`
	Truncated bool              `json:"truncated,omitempty"`
	Preview   string            `json:"preview,omitempty"`
	Error     *domain.TaskError `json:"error,omitempty"`
	// Background marks the result of a call that was not waited for.
	Background bool `json:"background,omitempty"`
}

// Input is something that was said to the run.
type Input struct {
	InputID string          `json:"inputId"`
	Content json.RawMessage `json:"content"`
	Source  string          `json:"source,omitempty"`
	AtMs    int64           `json:"atMs"`
}

// Pending is a call without its result.
type Pending struct {
	ToolCallID  string `json:"toolCallId"`
	AskedAtStep int    `json:"askedAtStep"`
	Tool        string `json:"tool"`
	TaskID      string `json:"taskId,omitempty"`
	// Phase is that of the call as the run knows it.
	Phase      domain.Phase `json:"phase"`
	Stage      string       `json:"stage,omitempty"`
	Progress   int          `json:"progress,omitempty"`
	Background bool         `json:"background,omitempty"`
}

// Limits are those of a run and how far they are used up; 0 is no limit.
type Limits struct {
	MaxSteps     int     `json:"maxSteps,omitempty"`
	MaxCalls     int     `json:"maxCalls,omitempty"`
	MaxOpenCalls int     `json:"maxOpenCalls,omitempty"`
	MaxTokens    int64   `json:"maxTokens,omitempty"`
	MaxCostUSD   float64 `json:"maxCostUsd,omitempty"`
	// DeadlineAtMs is when the run expires.
	DeadlineAtMs int64   `json:"deadlineAtMs,omitempty"`
	Steps        int     `json:"steps,omitempty"`
	Calls        int     `json:"calls,omitempty"`
	OpenCalls    int     `json:"openCalls,omitempty"`
	Tokens       int64   `json:"tokens,omitempty"`
	CostUSD      float64 `json:"costUsd,omitempty"`
}

// StepResponse is what a runtime answers.
type StepResponse struct {
	Checkpoint       json.RawMessage `json:"checkpoint,omitempty"`
	CheckpointRef    *ContentRef     `json:"checkpointRef,omitempty"`
	CheckpointFormat string          `json:"checkpointFormat,omitempty"`
	RuntimeVersion   string          `json:"runtimeVersion,omitempty"`
	ToolCalls        []ToolCall      `json:"toolCalls,omitempty"`
	CancelCalls      []CancelCall    `json:"cancelCalls,omitempty"`
	// Wake is when the next step comes. Default: all.
	Wake Wake `json:"wake,omitempty"`
	// WakeOnInput lets an input wake the run though calls are open.
	WakeOnInput bool `json:"wakeOnInput,omitempty"`
	// Await "input" parks the run until somebody says something.
	Await string `json:"await,omitempty"`
	// Output speaks to people without ending the run.
	Output json.RawMessage `json:"output,omitempty"`
	// Final ends the run.
	Final json.RawMessage `json:"final,omitempty"`
	// OnFinal says what becomes of background calls: cancel (the default) or detach.
	OnFinal string `json:"onFinal,omitempty"`
	// Error says that the step failed. Nothing else may be set.
	Error *domain.TaskError `json:"error,omitempty"`
	Usage []Usage           `json:"usage,omitempty"`
}

// The words of a [StepResponse].
const (
	AwaitInput    = "input"
	OnFinalCancel = "cancel"
	OnFinalDetach = "detach"
)

// ToolCall is a call that a step asks for.
type ToolCall struct {
	// ToolCallID is the model's own; unique within its step.
	ToolCallID string `json:"toolCallId"`
	Tool       string `json:"tool"`
	// Input of a call with DependsOn may refer to the results of those calls: {"$from":
	// "<toolCallId>", "pointer": "/json/pointer"} is replaced by the result, or by what the
	// pointer (RFC 6901) finds in it. Without DependsOn it is taken as it is.
	Input     json.RawMessage `json:"input,omitempty"`
	DependsOn []string        `json:"dependsOn,omitempty"`
	// Background calls are not waited for.
	Background bool `json:"background,omitempty"`
	// WaitMs ends the waiting for the call, not the call.
	WaitMs int64 `json:"waitMs,omitempty"`
	// TTLMs is the task's time to live. Default: the tool's.
	TTLMs          int64  `json:"ttlMs,omitempty"`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// CancelCall cancels one call.
type CancelCall struct {
	ToolCallID  string `json:"toolCallId"`
	AskedAtStep int    `json:"askedAtStep"`
	Message     string `json:"message,omitempty"`
}

// Usage is what a step used of one model.
type Usage struct {
	Model             string  `json:"model"`
	InputTokens       int64   `json:"inputTokens"`
	OutputTokens      int64   `json:"outputTokens"`
	CachedInputTokens int64   `json:"cachedInputTokens,omitempty"`
	CostUSD           float64 `json:"costUsd,omitempty"`
}

// Approval is a person's decision about a call.
type Approval struct {
	Decision string `json:"decision"`
	By       string `json:"by,omitempty"`
	AtMs     int64  `json:"atMs"`
	Message  string `json:"message,omitempty"`
	// Input is what the person made of the arguments, for a decision to edit.
	Input json.RawMessage `json:"input,omitempty"`
}

// The decisions of an [Approval].
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
	DecisionEdit    = "edit"
)

// AskInput is the input of [ToolAsk].
type AskInput struct {
	Prompt string `json:"prompt"`
	// Schema is a JSON Schema that forms may be made of.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ApproveInput is the input of [ToolApprove].
type ApproveInput struct {
	Prompt string `json:"prompt"`
	// Arguments are what is to be approved; a decision to edit replaces them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// SubRunInput is the input of [ToolRun].
type SubRunInput struct {
	// Runtime is a declared one. Default: that of the asking run.
	Runtime string          `json:"runtime,omitempty"`
	Title   string          `json:"title,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	TTLMs   int64           `json:"ttlMs,omitempty"`
}
