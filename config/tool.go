package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The kinds of executors that Wakepoint brings. Any other name is a Go executor
// that the program registers with its worker.
const (
	ExecutorExec     = "exec"
	ExecutorExternal = "external"
)

// The defaults of a [Tool].
const (
	DefaultTTL         = time.Hour
	DefaultMaxAttempts = 3
	DefaultPoll        = time.Second
	// DefaultCallbackPoll is how often a job is looked at whose service calls back:
	// looking is only a safety net then.
	DefaultCallbackPoll = 30 * time.Second
	DefaultHostLost     = 2 * time.Minute
)

// Tool is one declared tool.
type Tool struct {
	// Name is how callers name it: 1 to 64 of A-Z a-z 0-9 . _ -.
	Name string
	// Title is for people. Default: Name.
	Title string
	// Description says what the tool does, for people and for models.
	Description string
	// Version is the operator's own mark, free text of at most 64 bytes.
	Version string
	// Executor is [ExecutorExec], [ExecutorHTTP], [ExecutorActivity],
	// [ExecutorWorkflow], [ExecutorGo], [ExecutorExternal] or the name of a Go
	// executor that is registered with the worker. Default: that of Exec, HTTP,
	// Activity, Workflow and Go which is set.
	Executor string
	// InputSchema is a JSON Schema of draft 2020-12 for the input. A $ref may only
	// point into the schema itself. Default: empty, any JSON.
	InputSchema json.RawMessage
	// TTL is the time to live of a task that asks for none. Default: 1h, at most
	// MaxTTL.
	TTL time.Duration
	// MaxTTL is the longest time to live that a task may ask for. Default: that of
	// the installation, and never more.
	MaxTTL time.Duration
	// MaxAttempts is how often the work is tried, 1 or more. Default: 3.
	MaxAttempts int
	// ResultTTL is how long a result is kept. Default: that of the installation.
	ResultTTL time.Duration
	// Policy is what the rules of a task need to know. External is set from
	// Executor, ExpectsCallback from HTTP.
	Policy domain.Policy
	// TaskQueue is where the tool's activities run. Default: that of the
	// installation.
	TaskQueue string
	// Poll is how long to wait between two looks at a job. Default: 1s, or 30s for a
	// service that calls back.
	Poll time.Duration
	// HostLost is how long the host of a job may be gone before the job is
	// suspected lost. Default: 2m.
	HostLost time.Duration
	// Priority is 1 (first) to 5 (last). Default: 0, which the engine takes as 3.
	Priority int
	// Targets are told of the end of every task of this tool.
	Targets []string
	// Exec is how the executor exec runs the tool; nil for any other executor.
	Exec *ExecTool
	// HTTP, Activity, Workflow and Go are how the executors of these names run the
	// tool; at most one of them and Exec is not nil.
	HTTP     *HTTPTool
	Activity *ActivityTool
	Workflow *WorkflowTool
	Go       *GoTool
	// MaxConcurrent is how many jobs of the tool one worker runs at a time.
	// Default: 0, no limit.
	MaxConcurrent int
	// Rate bounds how many jobs are submitted in a time, by all workers together.
	// Default: no limit.
	Rate Rate
	// Cache says that equal calls share a task. Default: nil, they do not.
	Cache *Cache
	// Compensate names the tool that undoes what a job of unknown outcome may have
	// done. Only with effects: unsafe. Default: empty, a person decides.
	Compensate string
	// Approval is [ApprovalRequired] if a run that calls the tool has to wait until a
	// person approves, denies or edits the input. Default: empty, nobody is asked.
	Approval string
	// ApprovalTTL is how long the person has. Only with Approval. Default: 7 days, at
	// most the installation's MaxTTL.
	ApprovalTTL time.Duration

	schema *schema
}

// ApprovalRequired is the one value of [Tool].Approval.
const ApprovalRequired = "required"

// The ways to meet the limit of a tool's output.
const (
	// OnOutputLimitTruncate keeps the first bytes and lets the tool go on.
	OnOutputLimitTruncate = "truncate"
	// OnOutputLimitFail ends the tool and fails the attempt.
	OnOutputLimitFail = "fail"
)

// ExecTool is a command. It is run without a shell.
type ExecTool struct {
	// Argv is the command and its arguments. A command with a slash is relative to
	// the folder of the configuration, one without is looked up in PATH.
	Argv []string
	// Dir is the working folder, absolute. Default: empty, a folder of the job's own.
	Dir string
	// Env names the environment variables of the worker that the tool gets; empty
	// but not nil means none. Default: nil, the executor's list.
	Env []string
	// Set are further environment variables, in the order of the file.
	Set []EnvVar
	// MaxOutputBytes bounds what is kept of each output stream. Default: 0, the
	// executor's.
	MaxOutputBytes int64
	// MaxResultBytes bounds the result. Default: 0, the executor's.
	MaxResultBytes int64
	// OnOutputLimit says what happens at MaxOutputBytes. Default: empty, the
	// executor's.
	OnOutputLimit string
	// KillGrace is the time between SIGTERM and SIGKILL. Default: 0, the executor's.
	KillGrace time.Duration
	// RetryExitCodes are the exit codes after which another attempt makes sense;
	// empty but not nil means none. Default: nil, the executor's.
	RetryExitCodes []int
	// ResultContentType is the media type of the result. Default: empty, the
	// executor's.
	ResultContentType string
}

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Binding is what a task keeps of its tool.
func (t Tool) Binding() protocol.ToolBinding {
	return protocol.ToolBinding{
		Executor: t.Executor, TaskQueue: t.TaskQueue, PollMs: t.Poll.Milliseconds(), HostLostMs: t.HostLost.Milliseconds(),
		SubmitQueue: t.SubmitQueue(), HoldSlot: t.MaxConcurrent > 0, Compensate: t.Compensate,
	}
}

// SubmitQueue is the task queue where jobs of a tool with limits are submitted, and
// nothing else is done; empty for a tool without limits.
func (t Tool) SubmitQueue() string {
	if t.MaxConcurrent == 0 && t.Rate.PerSecond() == 0 {
		return ""
	}
	return protocol.ToolTaskQueue(t.TaskQueue, t.Name)
}

// CreateDefaults is a task of this tool as far as the tool decides: without id,
// tenant and time.
func (t Tool) CreateDefaults() domain.Create {
	return domain.Create{
		Tool: t.Name, TTLMs: t.TTL.Milliseconds(), MaxAttempts: t.MaxAttempts, Priority: t.Priority,
		ResultTTLMs: t.ResultTTL.Milliseconds(), Policy: t.Policy,
	}
}

// ValidateInput checks an input against the tool's schema. Absent input counts as
// an empty object. The error is a [domain.InvalidError] whose field leads to the
// part of the input that broke a rule.
func (t Tool) ValidateInput(raw json.RawMessage) error {
	s := t.schema
	if s == nil && len(t.InputSchema) > 0 {
		// A tool that did not come through [New].
		var err error
		if s, err = compileSchema(t.InputSchema); err != nil {
			return domain.Invalid("tool", "must have a usable schema: %v", err)
		}
	}
	return s.validate(raw)
}

// toolJSON is a tool as `wakepoint tools --json` prints it. How the executor runs it
// is left out, commands, URLs and headers above all: that is the operator's, and what
// lists tools may be shown to callers.
type toolJSON struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description,omitempty"`
	Version     string          `json:"version,omitempty"`
	Executor    string          `json:"executor"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	TTLMs       int64           `json:"ttlMs"`
	MaxTTLMs    int64           `json:"maxTtlMs"`
	MaxAttempts int             `json:"maxAttempts"`
	ResultTTLMs int64           `json:"resultTtlMs"`
	Priority    int             `json:"priority,omitempty"`
	Effects     domain.Effects  `json:"effects"`
	Policy      domain.Policy   `json:"policy"`
	TaskQueue   string          `json:"taskQueue"`
	PollMs      int64           `json:"pollMs"`
	HostLostMs  int64           `json:"hostLostMs"`
	Targets     []string        `json:"targets,omitempty"`
	// Rate has the form of the file, such as 10/s.
	MaxConcurrent int    `json:"maxConcurrent,omitempty"`
	Rate          string `json:"rate,omitempty"`
	CacheTTLMs    int64  `json:"cacheTtlMs,omitempty"`
	Compensate    string `json:"compensate,omitempty"`
	Approval      string `json:"approval,omitempty"`
	ApprovalTTLMs int64  `json:"approvalTtlMs,omitempty"`
}

// MarshalJSON gives what may be shown to callers: all but how the executor runs it.
func (t Tool) MarshalJSON() ([]byte, error) {
	var cached time.Duration
	if t.Cache != nil {
		cached = t.Cache.TTL
	}
	return json.Marshal(toolJSON{
		Name: t.Name, Title: t.Title, Description: t.Description, Version: t.Version, Executor: t.Executor, InputSchema: t.InputSchema,
		TTLMs: t.TTL.Milliseconds(), MaxTTLMs: t.MaxTTL.Milliseconds(), MaxAttempts: t.MaxAttempts, ResultTTLMs: t.ResultTTL.Milliseconds(),
		Priority: t.Priority, Effects: t.Policy.Effects, Policy: t.Policy, TaskQueue: t.TaskQueue,
		PollMs: t.Poll.Milliseconds(), HostLostMs: t.HostLost.Milliseconds(), Targets: t.Targets,
		MaxConcurrent: t.MaxConcurrent, Rate: t.Rate.String(), CacheTTLMs: cached.Milliseconds(), Compensate: t.Compensate,
		Approval: t.Approval, ApprovalTTLMs: t.ApprovalTTL.Milliseconds(),
	})
}

func (t *Tool) withDefaults(c *Config) {
	def(&t.Title, t.Name)
	t.sectionDefaults(c)
	def(&t.MaxTTL, c.MaxTTL)
	def(&t.TTL, min(DefaultTTL, t.MaxTTL))
	def(&t.MaxAttempts, DefaultMaxAttempts)
	def(&t.ResultTTL, c.ResultTTL)
	def(&t.TaskQueue, c.TaskQueue)
	if t.HTTP != nil && t.HTTP.Callback {
		def(&t.Poll, DefaultCallbackPoll)
	}
	def(&t.Poll, DefaultPoll)
	def(&t.HostLost, DefaultHostLost)
	def(&t.Policy.Effects, domain.EffectsIdempotent)
	if t.Policy.Effects == domain.EffectsUnsafe {
		def(&t.Policy.OnUnknown, domain.UnknownManual)
	}
	def(&t.Policy.LatePolicy, domain.LateReject)
	if t.Approval == ApprovalRequired {
		def(&t.ApprovalTTL, min(DefaultApprovalTTL, c.MaxTTL))
	}
	t.Policy.External = t.Executor == ExecutorExternal
	t.Policy.ExpectsCallback = t.HTTP != nil && t.HTTP.Callback
}

// sectionDefaults fills in what the sections of executors left out. They are copied:
// the caller's stay as they are.
func (t *Tool) sectionDefaults(c *Config) {
	for _, s := range t.sections() {
		if s.given {
			def(&t.Executor, s.executor)
		}
	}
	if t.Exec != nil {
		e := *t.Exec
		e.withDefaults(c)
		t.Exec = &e
	}
	if t.HTTP != nil {
		h := *t.HTTP
		h.withDefaults(c)
		t.HTTP = &h
	}
	if t.Activity != nil {
		a := *t.Activity
		def(&a.Args, ArgsOne)
		t.Activity = &a
	}
	if t.Workflow != nil {
		w := *t.Workflow
		def(&w.Args, ArgsOne)
		t.Workflow = &w
	}
	if t.Go != nil {
		g := *t.Go
		def(&g.Heartbeat, DefaultGoHeartbeat)
		t.Go = &g
	}
}

func (e *ExecTool) withDefaults(c *Config) {
	if e.Dir != "" {
		e.Dir = c.path(e.Dir)
	}
	if len(e.Argv) > 0 && strings.ContainsRune(e.Argv[0], filepath.Separator) {
		e.Argv = append([]string{c.path(e.Argv[0])}, e.Argv[1:]...)
	}
}
