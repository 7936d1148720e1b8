package starter

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Limits of what a submission may say about itself, in bytes but for the labels.
const (
	MaxTitle      = 200
	MaxLabels     = 32
	MaxLabelName  = 64
	MaxLabelValue = 256
	MaxTargets    = 16
)

// Submission asks for one task.
type Submission struct {
	// Tool is the name of a declared tool. Required.
	Tool string `json:"tool"`
	// Input is checked against the tool's schema. Default: {}.
	Input json.RawMessage `json:"input,omitempty"`
	// TaskID is the caller's own id for the task. Default: one is made.
	TaskID string `json:"taskId,omitempty"`
	// IdempotencyKey makes the same task of every submission that carries it, for
	// as long as the engine's retention lasts. Not together with TaskID.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	// Title is for people.
	Title string `json:"title,omitempty"`
	// RunID names the run that asks and is told of the end.
	RunID string `json:"runId,omitempty"`
	// ToolCallID is the run's own id for its call.
	ToolCallID string `json:"toolCallId,omitempty"`
	// TTL is the time to live. Default: the tool's, and at most its maximum.
	TTL time.Duration `json:"-"`
	// MaxAttempts may be fewer than the tool's. Default: the tool's.
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Priority is 1 (first) to 5 (last). Default: the tool's.
	Priority int `json:"priority,omitempty"`
	// Labels are for people and lists of their own.
	Labels map[string]string `json:"labels,omitempty"`
	// Targets are told of the end, beside those of the tool.
	Targets []string `json:"targets,omitempty"`
	// NoCache starts a task of its own, also when the tool has a cache and an equal
	// call was made before. A TaskID or an IdempotencyKey does the same: whoever
	// names a task means that one.
	NoCache bool `json:"noCache,omitempty"`
	// WaiterID is the caller's own name among those who wait for a task that several
	// share: 1 to 128 of A-Z a-z 0-9 . _ -. The same caller sends the same one again.
	// Default: one that follows from RunID and ToolCallID; without a RunID none, the
	// caller is not counted.
	WaiterID string `json:"waiterId,omitempty"`
}

// StatusAccepted is the one status of a [Submitted]. Accepted is not done.
const StatusAccepted = "accepted"

// Submitted answers a submission.
type Submitted struct {
	TaskID string `json:"taskId"`
	// Status is [StatusAccepted].
	Status string `json:"status"`
	// State is where the task stands; for one that existed it may already have
	// ended.
	State domain.State `json:"state"`
	// Existing says that the same submission had come before, or an equal call of a
	// tool with a cache.
	Existing bool `json:"existing"`
	// Cached says that the task was found by what it was asked for.
	Cached bool `json:"cached,omitempty"`
	// Attached says that this caller, its run or its targets, were added to a task
	// that somebody else had started, or told at once of one that has ended.
	Attached bool `json:"attached,omitempty"`
	// WaiterID is the caller's name among those who wait: it goes with a cancel or a
	// detach of this caller alone. Empty for one who is not counted.
	WaiterID string `json:"waiterId,omitempty"`
	// Task is the record, without history, of a task that had ended already.
	Task *domain.Task `json:"task,omitempty"`
	// PollAfterSeconds is when it is worth asking for the first time.
	PollAfterSeconds int `json:"pollAfterSeconds"`
	// SupportsCancel says that a request to cancel reaches the work.
	SupportsCancel bool   `json:"supportsCancel"`
	ExpiresAtMs    int64  `json:"expiresAtMs,omitempty"`
	WorkflowID     string `json:"workflowId"`
	RunID          string `json:"workflowRunId,omitempty"`
}

// request is a submission that was found to be sound.
type request struct {
	sub         Submission
	tool        config.Tool
	create      domain.Create
	targets     []string
	fingerprint string
	// generated says that nobody else can know the id.
	generated bool
	// canonical is the input of a call that may be answered from the cache.
	canonical string
	// waiter is who asks, if it is counted.
	waiter *domain.Waiter
	// expected is how long the work usually takes.
	expected *domain.Window
}

// Submit starts a task, or finds the one that the same submission has started. A
// tool with a cache also answers with the task of an equal call, see
// docs/sharing.md. After an error of code unavailable it may have been started:
// with a TaskID or an IdempotencyKey the call is safe to repeat, without one a
// second task would come of it. After no-worker the task is there, its id is in
// the answer, and only this caller could not be noted: repeating is safe. Errors:
// invalid-request, unknown-tool, id-in-use, not-set-up, no-worker, unavailable.
func (c *Client) Submit(ctx context.Context, s Submission) (Submitted, error) {
	r, err := c.check(s)
	if err != nil {
		return Submitted{}, err
	}
	return c.submit(ctx, r)
}

// submit starts the task of a sound request.
func (c *Client) submit(ctx context.Context, r request) (Submitted, error) {
	if r.expected = c.windows.of(ctx, c, r.tool); r.expected != nil {
		r.create.Policy.Expected = r.expected
	}
	if r.canonical != "" {
		return c.submitCached(ctx, r)
	}
	const tries = 3
	for try := 1; ; try++ {
		out, started, err := c.launch(ctx, r)
		if started || err != nil {
			return out, err
		}
		// An id that was made here can only have been started here, by a try whose
		// answer was lost.
		if r.generated {
			return c.submitted(r, domain.StateQueued, "", false), nil
		}
		sub, err := c.existing(ctx, r)
		if !errors.Is(err, ErrUnknownTask) || try == tries {
			return sub, err
		}
		// Its retention has just ended, so the id is free.
		if err := pause(ctx, again); err != nil {
			return Submitted{}, err
		}
	}
}

// launch starts the workflow of a task; false means that its id is taken.
func (c *Client) launch(ctx context.Context, r request) (Submitted, bool, error) {
	const tries = 3
	for try := 1; ; try++ {
		run, err := c.start(ctx, r)
		switch {
		case err == nil:
			return c.submitted(r, domain.StateQueued, run, false), true, nil
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			return Submitted{}, false, nil
		case ctx.Err() != nil || !transient(err) || try == tries:
			return Submitted{}, false, engineError(ctx, "submit task "+r.create.ID, err)
		}
		if err := pause(ctx, again); err != nil {
			return Submitted{}, false, err
		}
	}
}

// existing answers for a task that is there already.
func (c *Client) existing(ctx context.Context, r request) (Submitted, error) {
	d, err := c.engine.DescribeWorkflow(ctx, c.workflowID(r.create.ID), "")
	switch {
	case err != nil && notFound(err):
		return Submitted{}, unknownTask(r.create.ID).because(err)
	case err != nil:
		return Submitted{}, engineError(ctx, "submit task "+r.create.ID, err)
	}
	was, err := c.memo(d, protocol.MemoFingerprint)
	if err != nil {
		return Submitted{}, fail(CodeInternal, "look at the workflow in the Temporal UI", "the memo of task %s cannot be read", r.create.ID).because(err)
	}
	if was != r.fingerprint {
		what, hint := "id "+r.create.ID, "choose another id, or send the same tool and input"
		if r.sub.IdempotencyKey != "" {
			what, hint = "idempotency key", "use another key, or send the same tool and input"
		}
		return Submitted{}, fail(CodeIDInUse, hint, "the %s belongs to another submission", what)
	}
	return c.join(ctx, r, c.found(ctx, r.create.ID, d))
}

func (c *Client) submitted(r request, state domain.State, runID string, existing bool) Submitted {
	out := Submitted{
		TaskID: r.create.ID, Status: StatusAccepted, State: state, Existing: existing, PollAfterSeconds: pollAfter(r.expected),
		SupportsCancel: !r.tool.Policy.External || r.tool.Policy.LeaseMs > 0, WorkflowID: c.workflowID(r.create.ID), RunID: runID,
	}
	if !existing {
		out.ExpiresAtMs = c.o.Now() + r.create.TTLMs
		if r.waiter != nil {
			out.WaiterID = domain.WaiterSubmitter
		}
	}
	return out
}

// pollAfter is a quarter of the time that the work usually takes at least.
func pollAfter(expected *domain.Window) int {
	const unknown, most, share = 2, 60, 4
	if expected == nil {
		return unknown
	}
	return int(min(max(expected.LowMs/1000/share, 1), most))
}

// check makes a request of a submission, or says what is wrong with it.
func (c *Client) check(s Submission) (request, error) {
	r := request{sub: s}
	tool, ok := c.o.Config.Tool(s.Tool)
	if !ok {
		return r, c.unknownTool(s.Tool)
	}
	r.tool = tool
	if len(s.Input) == 0 {
		s.Input = json.RawMessage("{}")
	}
	for _, check := range []func() error{
		func() error { return checkInput(s.Input, tool) },
		func() error { return c.checkID(s) },
		func() error { return checkTexts(s) },
		func() error { return checkLabels(s.Labels) },
		func() error { return c.checkTargets(s.Targets) },
		func() error { return checkNumbers(s, tool) },
	} {
		if err := check(); err != nil {
			return r, invalid(err)
		}
	}
	r.sub.Input = s.Input
	r.create = c.createOf(s, tool)
	r.generated = s.TaskID == "" && s.IdempotencyKey == ""
	r.targets, r.waiter = union(tool.Targets, s.Targets), waiterOf(s)
	var err error
	if r.fingerprint, err = domain.Fingerprint(tool.Name, s.Input); err != nil {
		return r, invalid(err)
	}
	if tool.Cache != nil && r.generated && !s.NoCache {
		if err := c.checkCache(&r); err != nil {
			return r, invalid(err)
		}
	}
	// The rules of a new task are the domain's: what it would refuse must not
	// become a workflow that fails.
	probe := r.create
	probe.NowMs = c.o.Now()
	if _, err := domain.New(probe); err != nil {
		return r, invalid(err)
	}
	return r, nil
}

func (c *Client) unknownTool(name string) error {
	if strings.TrimSpace(name) == "" {
		return invalidf("tool", "must not be blank")
	}
	const quoted = 100
	if len(name) > quoted || !utf8.ValidString(name) {
		return fail(CodeUnknownTool, "", "no tool of that name is declared")
	}
	known := make([]string, len(c.o.Config.Tools))
	for i, t := range c.o.Config.Tools {
		known[i] = t.Name
	}
	return fail(CodeUnknownTool, "declare it in "+config.FileName+", or ask for one that is", "no tool %q is declared%s", name, config.Suggest(name, known))
}

func checkInput(input json.RawMessage, tool config.Tool) error {
	switch {
	case len(input) > domain.MaxBody:
		return domain.Invalid("input", "must be at most %d bytes, it has %d", domain.MaxBody, len(input))
	case !utf8.Valid(input):
		return domain.Invalid("input", "must be valid UTF-8")
	case !json.Valid(input):
		return domain.Invalid("input", "must be valid JSON")
	}
	return tool.ValidateInput(input)
}

func (c *Client) checkID(s Submission) error {
	switch {
	case s.TaskID != "" && s.IdempotencyKey != "":
		return domain.Invalid("taskId", "must be absent when idempotencyKey is given")
	case s.TaskID != "":
		return domain.CheckChosenID(s.TaskID)
	case s.IdempotencyKey == "":
		return nil
	case strings.TrimSpace(s.IdempotencyKey) == "":
		return domain.Invalid("idempotencyKey", "must not be blank")
	case len(c.o.Secret) == 0:
		return domain.Invalid("idempotencyKey", "must be absent: this client was given no secret of the installation")
	}
	return checkText("idempotencyKey", s.IdempotencyKey, domain.MaxRef)
}

func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return domain.Invalid(field, "must be at most %d bytes, it has %d", limit, len(s))
	case !utf8.ValidString(s):
		return domain.Invalid(field, "must be valid UTF-8")
	case strings.ContainsRune(s, 0):
		return domain.Invalid(field, "must not hold a zero byte")
	}
	return nil
}

func checkTexts(s Submission) error {
	if s.RunID != "" {
		if err := domain.CheckID("runId", s.RunID); err != nil {
			return err
		}
	}
	if s.WaiterID != "" {
		if err := domain.CheckID("waiterId", s.WaiterID); err != nil {
			return err
		}
	}
	if s.WaiterID == domain.WaiterSubmitter {
		return domain.Invalid("waiterId", "must not be %q, which every first caller is", domain.WaiterSubmitter)
	}
	if s.ToolCallID != "" && strings.TrimSpace(s.ToolCallID) == "" {
		return domain.Invalid("toolCallId", "must not be blank")
	}
	if err := checkText("toolCallId", s.ToolCallID, domain.MaxCallbackID); err != nil {
		return err
	}
	return checkText("title", s.Title, MaxTitle)
}

func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return domain.Invalid("labels", "must be at most %d, there are %d", MaxLabels, len(labels))
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := domain.CheckID("labels", name); err != nil {
			return err
		}
		if len(name) > MaxLabelName {
			return domain.Invalid("labels", "must have names of at most %d bytes", MaxLabelName)
		}
		if err := checkText("labels."+name, labels[name], MaxLabelValue); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) checkTargets(targets []string) error {
	if len(targets) > MaxTargets {
		return domain.Invalid("targets", "must be at most %d, there are %d", MaxTargets, len(targets))
	}
	for _, t := range targets {
		if err := c.checkTarget("targets", t); err != nil {
			return err
		}
	}
	return nil
}

func checkNumbers(s Submission, tool config.Tool) error {
	switch {
	case s.TTL < 0 || s.TTL > 0 && s.TTL < time.Millisecond:
		return domain.Invalid("ttlMs", "must be > 0, it is %s", s.TTL)
	case s.TTL > tool.MaxTTL:
		return domain.Invalid("ttlMs", "must be at most the %s that tool %s allows, it is %s", config.FormatDuration(tool.MaxTTL), tool.Name, s.TTL)
	case s.MaxAttempts < 0:
		return domain.Invalid("maxAttempts", "must be >= 1, it is %d", s.MaxAttempts)
	case s.MaxAttempts > tool.MaxAttempts:
		return domain.Invalid("maxAttempts", "must be at most the %d that tool %s allows, it is %d", tool.MaxAttempts, tool.Name, s.MaxAttempts)
	case s.Priority < 0 || s.Priority > 5:
		return domain.Invalid("priority", "must be 1 (first) to 5 (last), or absent; it is %d", s.Priority)
	}
	return nil
}

func (c *Client) createOf(s Submission, tool config.Tool) domain.Create {
	out := tool.CreateDefaults()
	out.ID, out.Tenant = c.taskID(s), c.o.Tenant
	out.Title, out.RunID, out.ToolCallID, out.IdempotencyKey, out.Labels = s.Title, s.RunID, s.ToolCallID, s.IdempotencyKey, s.Labels
	if s.TTL > 0 {
		out.TTLMs = s.TTL.Milliseconds()
	}
	if s.MaxAttempts > 0 {
		out.MaxAttempts = s.MaxAttempts
	}
	if s.Priority > 0 {
		out.Priority = s.Priority
	}
	return out
}

func (c *Client) taskID(s Submission) string {
	switch {
	case s.TaskID != "":
		return s.TaskID
	case s.IdempotencyKey != "":
		return domain.KeyedID(c.o.Secret, c.o.Tenant, s.IdempotencyKey)
	}
	return domain.PrefixGenerated + uuid.Must(uuid.NewV7()).String()
}

// union keeps the order and drops repeats.
func union(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		for _, s := range l {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}
