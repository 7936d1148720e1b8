package run

import (
	"slices"

	"github.com/wakepoint/wakepoint/domain"
)

// Policy is what an installation decides about a run; zero means the default.
type Policy struct {
	// LeaseMs is how long a runtime may be silent within a step. Default: 60000.
	LeaseMs int64 `json:"leaseMs,omitempty"`
	// StepAttempts is how often one step is tried before the run fails.
	// Default: 10.
	StepAttempts int `json:"stepAttempts,omitempty"`
	// StepBackoff is the wait between two of them.
	StepBackoff domain.Backoff `json:"stepBackoff,omitzero"`
	// CancelGraceMs is how long a run that ends waits for the true ends of its calls.
	// Default: 120000.
	CancelGraceMs int64 `json:"cancelGraceMs,omitempty"`
	// RunDependents starts dependents also when a call that they need did not
	// succeed; by default they are skipped.
	RunDependents bool `json:"runDependents,omitempty"`
	// CheckEveryMs is how often a parked run asks for those that cannot tell it of
	// their end. Default: 60000.
	CheckEveryMs int64 `json:"checkEveryMs,omitempty"`
}

// WithDefaults fills in what was left out.
func (p Policy) WithDefaults() Policy {
	def(&p.LeaseMs, DefaultLeaseMs)
	def(&p.StepAttempts, DefaultStepAttempts)
	def(&p.CancelGraceMs, DefaultCancelGraceMs)
	def(&p.CheckEveryMs, DefaultCheckEveryMs)
	return p
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Key names a call within its run: models repeat ids over their steps.
type Key struct {
	Step int    `json:"step"`
	ID   string `json:"id"`
}

// Call is a tool call of a run.
type Call struct {
	Key
	ToolCall
	State CallState `json:"state"`
	// AskedAtMs is when it was committed.
	AskedAtMs int64 `json:"askedAtMs"`
	// TaskID is its task's, SubRunID that of the run that does its work.
	TaskID   string `json:"taskId,omitempty"`
	SubRunID string `json:"subRunId,omitempty"`
	// WaiterID is as whom the run waits for a task that others have started too.
	WaiterID string `json:"waiterId,omitempty"`
	// Title is for people.
	Title string `json:"title,omitempty"`
	// UntilMs is when a person's time to decide or to answer is over.
	UntilMs     int64     `json:"untilMs,omitempty"`
	Approval    *Approval `json:"approval,omitempty"`
	InputEdited bool      `json:"inputEdited,omitempty"`
	// Resolved says that the input refers to nothing any more: what looks like a reference
	// in it came from a result, or from a person.
	Resolved bool `json:"resolved,omitempty"`
	// Cancel is the wish that it be given up, CancelSent that its task was told.
	Cancel     *domain.CancelRequest `json:"cancelRequested,omitempty"`
	CancelSent bool                  `json:"cancelSent,omitempty"`
	// Starting says that its start is under way, so that it may have a task.
	Starting bool `json:"starting,omitempty"`
	// Asks says that the run that does its work asks a person something.
	Asks bool `json:"asks,omitempty"`
	// ExpiresAtMs is the task's deadline, if known.
	ExpiresAtMs int64 `json:"expiresAtMs,omitempty"`

	EndedAtMs   int64             `json:"endedAtMs,omitempty"`
	ResultRef   string            `json:"resultRef,omitempty"`
	ResultHash  string            `json:"resultHash,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	ResultBytes int64             `json:"resultBytes,omitempty"`
	Answer      []byte            `json:"answer,omitempty"`
	Error       *domain.TaskError `json:"error,omitempty"`
	// TakenAt is the step whose commit took the result; 0 while none has.
	TakenAt int `json:"takenAt,omitempty"`
}

// waiting tells whether the run waits for the call.
func (c Call) waiting() bool { return !c.Background && !c.State.Ended() }

// Detached is a task that the run waits for no longer and that goes on.
type Detached struct {
	Key
	Tool     string `json:"tool"`
	TaskID   string `json:"taskId,omitempty"`
	SubRunID string `json:"subRunId,omitempty"`
	WaiterID string `json:"waiterId,omitempty"`
	// Sent says that the task knows it.
	Sent bool `json:"sent,omitempty"`
}

// Step is the step that is due or under way.
type Step struct {
	Number int   `json:"number"`
	Cause  Cause `json:"cause"`
	DueMs  int64 `json:"dueMs"`
	// Attempt counts how often it was handed out.
	Attempt int    `json:"attempt,omitempty"`
	Token   string `json:"token,omitempty"`
	// Holder is who has it, while Held.
	Holder  string `json:"holder,omitempty"`
	Held    bool   `json:"held,omitempty"`
	LeaseMs int64  `json:"leaseMs,omitempty"`
	// ClaimedMs is when the newest attempt was handed out.
	ClaimedMs    int64 `json:"claimedMs,omitempty"`
	LeaseUntilMs int64 `json:"leaseUntilMs,omitempty"`
	// Failures counts the attempts that failed or were lost since the run was started or
	// retried.
	Failures int `json:"failures,omitempty"`
	// NotBeforeMs is when the next attempt may begin.
	NotBeforeMs int64 `json:"notBeforeMs,omitempty"`
	// Results and Inputs are what it is about; they stay the same from its first
	// attempt on.
	Results []Key             `json:"results,omitempty"`
	Inputs  []string          `json:"inputs,omitempty"`
	Error   *domain.TaskError `json:"error,omitempty"`
}

// Commit is what is remembered of one.
type Commit struct {
	Step    int     `json:"step"`
	Token   string  `json:"token"`
	Digest  string  `json:"digest"`
	Outcome Outcome `json:"outcome"`
}

// Output is something that a run said without ending.
type Output struct {
	Step    int    `json:"step"`
	AtMs    int64  `json:"atMs"`
	Content []byte `json:"content"`
}

// Ending says that a run is on its way to an end and waits for its calls to stop.
type Ending struct {
	State   State             `json:"state"`
	Error   *domain.TaskError `json:"error,omitempty"`
	UntilMs int64             `json:"untilMs"`
}

// Entry is one line of a run's history.
type Entry struct {
	Version    int64  `json:"version"`
	AtMs       int64  `json:"atMs"`
	Event      string `json:"event"`
	Reason     Reason `json:"reason"`
	State      State  `json:"state"`
	Step       int    `json:"step,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	By         string `json:"by,omitempty"`
	Text       string `json:"text,omitempty"`
}

// Parent is the run that a run does the work of a call for.
type Parent struct {
	RunID      string `json:"runId"`
	ToolCallID string `json:"toolCallId"`
	Step       int    `json:"step"`
	// Depth counts the runs above.
	Depth int `json:"depth"`
}

// MaxDepth is how many runs may be nested.
const MaxDepth = 8

// Run is the whole record of a run. It is a value: [Apply] returns a new one.
type Run struct {
	ID      string            `json:"id"`
	Tenant  string            `json:"tenant,omitempty"`
	Title   string            `json:"title,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Runtime string            `json:"runtime,omitempty"`
	Parent  *Parent           `json:"parent,omitempty"`
	// Traceparent is the W3C trace context of whoever started it.
	Traceparent string `json:"traceparent,omitempty"`

	State       State  `json:"state"`
	Version     int64  `json:"version"`
	CreatedAtMs int64  `json:"createdAtMs"`
	ExpiresAtMs int64  `json:"expiresAtMs"`
	EndedAtMs   int64  `json:"endedAtMs,omitempty"`
	Policy      Policy `json:"policy,omitzero"`
	// Limits are the limits; how far they are used up is derived.
	Limits Limits `json:"limits,omitzero"`

	// StepsDone counts committed steps: the next is StepsDone+1.
	StepsDone int      `json:"stepsDone"`
	Step      *Step    `json:"step,omitempty"`
	Commits   []Commit `json:"commits,omitempty"`
	CallsMade int      `json:"callsMade,omitempty"`
	Calls     []Call   `json:"calls,omitempty"`
	// Done are the newest calls whose results were committed.
	Done     []Call     `json:"done,omitempty"`
	Detached []Detached `json:"detached,omitempty"`

	Inputs   []Input  `json:"inputs,omitempty"`
	InputIDs []SeenID `json:"inputIds,omitempty"`

	Checkpoint       *Content `json:"checkpoint,omitempty"`
	CheckpointFormat string   `json:"checkpointFormat,omitempty"`
	// Superseded are checkpoints in the blob store that newer ones have taken the place
	// of, the oldest first, until they are deleted.
	Superseded     []string `json:"superseded,omitempty"`
	RuntimeVersion string   `json:"runtimeVersion,omitempty"`
	Wake           Wake     `json:"wake,omitempty"`
	WakeOnInput    bool     `json:"wakeOnInput,omitempty"`
	AwaitInput     bool     `json:"awaitInput,omitempty"`

	Outputs []Output          `json:"outputs,omitempty"`
	Usage   []Usage           `json:"usage,omitempty"`
	Final   *Content          `json:"final,omitempty"`
	Error   *domain.TaskError `json:"error,omitempty"`

	Paused  bool                  `json:"paused,omitempty"`
	Cancel  *domain.CancelRequest `json:"cancelRequested,omitempty"`
	Ending  *Ending               `json:"ending,omitempty"`
	Retries int                   `json:"retries,omitempty"`
	// Unconfirmed lists calls that had not said that they stopped when the run ended.
	Unconfirmed []Key   `json:"unconfirmed,omitempty"`
	History     []Entry `json:"history"`
}

// SeenID is an input that a step has taken.
type SeenID struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// Create is what a new run is made of.
type Create struct {
	ID          string            `json:"id"`
	Tenant      string            `json:"tenant,omitempty"`
	Title       string            `json:"title,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Runtime     string            `json:"runtime,omitempty"`
	Parent      *Parent           `json:"parent,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	NowMs       int64             `json:"nowMs"`
	TTLMs       int64             `json:"ttlMs"`
	Policy      Policy            `json:"policy,omitzero"`
	Limits      Limits            `json:"limits,omitzero"`
	// Input is the first one.
	Input *Input `json:"input,omitempty"`
	// RuntimeVersion is that of the runtime that shall take the steps.
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
}

// New makes a run whose first step is due, at version 0. Any refusal is a
// [domain.InvalidError].
func New(c Create) (Run, error) {
	if err := c.validate(); err != nil {
		return Run{}, err
	}
	l := c.Limits
	def(&l.MaxSteps, DefaultMaxSteps)
	def(&l.MaxCalls, DefaultMaxCalls)
	def(&l.MaxOpenCalls, DefaultMaxOpenCalls)
	r := Run{
		ID: c.ID, Tenant: c.Tenant, Title: c.Title, Labels: c.Labels, Runtime: c.Runtime, Parent: c.Parent, Traceparent: c.Traceparent,
		State: StateRunning, CreatedAtMs: c.NowMs, ExpiresAtMs: c.NowMs + c.TTLMs, Policy: c.Policy.WithDefaults(), Limits: l,
		RuntimeVersion: c.RuntimeVersion, Step: &Step{Number: 1, Cause: CauseStart, DueMs: c.NowMs}, History: []Entry{},
	}
	if c.Input != nil {
		in := *c.Input
		in.AtMs = c.NowMs
		r.Inputs = []Input{in}
	}
	return r, nil
}

func (c Create) validate() error {
	if err := domain.CheckID("runId", c.ID); err != nil {
		return err
	}
	switch {
	case c.NowMs < 0 || c.NowMs > longest:
		return domain.Invalid("nowMs", "must be a time, it is %d", c.NowMs)
	case c.TTLMs <= 0 || c.TTLMs > longest:
		return domain.Invalid("ttlMs", "must be > 0, it is %d", c.TTLMs)
	case c.Policy.LeaseMs < 0 || c.Policy.StepAttempts < 0 || c.Policy.CancelGraceMs < 0 || c.Policy.CheckEveryMs < 0:
		return domain.Invalid("policy", "must not be negative")
	case c.Parent != nil && c.Parent.Depth > MaxDepth:
		return domain.Invalid("parent", "must not be nested deeper than %d runs", MaxDepth)
	}
	if err := c.Limits.validate(); err != nil {
		return err
	}
	if c.Input != nil {
		return c.Input.validate()
	}
	return nil
}

func (l Limits) validate() error {
	switch {
	case l.MaxSteps < 0 || l.MaxCalls < 0 || l.MaxOpenCalls < 0 || l.MaxTokens < 0 || !(l.MaxCostUSD >= 0):
		return domain.Invalid("limits", "must be >= 0")
	case l.MaxOpenCalls > MaxOpen:
		return domain.Invalid("limits.maxOpenCalls", "must be at most %d, it is %d", MaxOpen, l.MaxOpenCalls)
	}
	return nil
}

// call finds a call.
func (r Run) call(k Key) int {
	return slices.IndexFunc(r.Calls, func(c Call) bool { return c.Key == k })
}

// Find gives a call that is open, or one of the last whose results were committed.
func (r Run) Find(k Key) (Call, bool) {
	for _, calls := range [][]Call{r.Calls, r.Done} {
		if i := slices.IndexFunc(calls, func(c Call) bool { return c.Key == k }); i >= 0 {
			return calls[i], true
		}
	}
	return Call{}, false
}

// openCalls counts those without a committed result.
func (r Run) openCalls() int {
	n := 0
	for _, c := range r.Calls {
		if c.TakenAt == 0 {
			n++
		}
	}
	return n
}

// Tokens is what the run has used, of all models.
func (r Run) Tokens() int64 {
	var n int64
	for _, u := range r.Usage {
		n += u.InputTokens + u.OutputTokens
	}
	return n
}

// CostUSD is what it has cost.
func (r Run) CostUSD() float64 {
	var n float64
	for _, u := range r.Usage {
		n += u.CostUSD
	}
	return n
}

// Used is the limits with how far they are used up. OpenCalls counts the calls that have
// no result yet.
func (r Run) Used() Limits {
	l := r.Limits
	l.DeadlineAtMs, l.Steps, l.Calls = r.ExpiresAtMs, r.StepsDone, r.CallsMade
	for _, c := range r.Calls {
		if !c.State.Ended() {
			l.OpenCalls++
		}
	}
	l.Tokens, l.CostUSD = r.Tokens(), r.CostUSD()
	return l
}

// account adds usage, by model.
func (r *Run) account(usage []Usage) {
	r.Usage = slices.Clone(r.Usage)
	for _, u := range usage {
		i := slices.IndexFunc(r.Usage, func(x Usage) bool { return x.Model == u.Model })
		if i < 0 {
			if len(r.Usage) < MaxUsages {
				r.Usage = append(r.Usage, u)
				continue
			}
			// A run that names a new model with every step is summed up all the same.
			i = len(r.Usage) - 1
		}
		x := &r.Usage[i]
		x.InputTokens += u.InputTokens
		x.OutputTokens += u.OutputTokens
		x.CachedInputTokens += u.CachedInputTokens
		x.CostUSD += u.CostUSD
	}
}

// clone copies what an event may change in place.
func (r Run) clone() Run {
	r.Calls = slices.Clone(r.Calls)
	r.Inputs = slices.Clone(r.Inputs)
	r.Detached = slices.Clone(r.Detached)
	if r.Step != nil {
		s := *r.Step
		r.Step = &s
	}
	return r
}

// Budget is what is left of the tokens and the cost of a run; nil for one without these
// limits. What is used up leaves the least that is a limit.
func Budget(r Run) *Limits {
	if r.Limits.MaxTokens == 0 && r.Limits.MaxCostUSD == 0 {
		return nil
	}
	const leastUSD = 1e-6
	var b Limits
	if most := r.Limits.MaxTokens; most > 0 {
		b.MaxTokens = max(most-r.Tokens(), 1)
	}
	if most := r.Limits.MaxCostUSD; most > 0 {
		b.MaxCostUSD = max(most-r.CostUSD(), leastUSD)
	}
	return &b
}
