package starter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// FirstInput is the input id of what a run was started with.
const FirstInput = "start"

// RunStart asks for one run of an agent. Runtime or Plan is required, and not both.
type RunStart struct {
	// RunID is the caller's own id for the run. Default: one is made.
	RunID string `json:"runId,omitempty"`
	// IdempotencyKey makes the same run of every start that carries it, for as long as
	// the engine's retention lasts. Not together with RunID. Keys of runs and of tasks
	// do not meet.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	// Runtime is the name of a declared runtime, which takes the steps.
	Runtime string `json:"runtime,omitempty"`
	// Plan is a graph of calls that the run carries out by itself.
	Plan []run.ToolCall `json:"plan,omitempty"`
	// Title is for people.
	Title string `json:"title,omitempty"`
	// Input is the first thing that is said to the run, under the id [FirstInput]; JSON
	// of at most [run.MaxInput] bytes. Default: nothing is said.
	Input json.RawMessage `json:"input,omitempty"`
	// TTL is the time to live. Default: the runtime's, or that of the installation for
	// plans; at most the installation's maximum.
	TTL time.Duration `json:"-"`
	// Limits may be lower than the declared ones; a zero leaves those as they are.
	Limits *run.Limits `json:"limits,omitempty"`
	// Labels are for people and lists of their own.
	Labels map[string]string `json:"labels,omitempty"`
	// Traceparent is the W3C trace context of the caller.
	Traceparent string `json:"traceparent,omitempty"`
	// RuntimeVersion lets only a runtime of that version take the steps. Default: the
	// declared one.
	RuntimeVersion string `json:"runtimeVersion,omitempty"`
}

// RunStarted answers a start.
type RunStarted struct {
	RunID string `json:"runId"`
	// Status is [StatusAccepted].
	Status string `json:"status"`
	// State is where the run stands; empty for one that existed when nobody could tell
	// soon.
	State run.State `json:"state,omitempty"`
	// Existing says that the same start had come before.
	Existing    bool   `json:"existing"`
	ExpiresAtMs int64  `json:"expiresAtMs,omitempty"`
	WorkflowID  string `json:"workflowId"`
	// WorkflowRunID is the run of the workflow.
	WorkflowRunID string `json:"workflowRunId,omitempty"`
}

// runRequest is a start that was found to be sound.
type runRequest struct {
	in protocol.RunInput
	// generated says that nobody else can know the id, keyed that it comes from a key.
	generated, keyed bool
}

// StartRun starts a run, or finds the one that the same start has begun. After an error
// of code unavailable it may have been started: with a RunID or an IdempotencyKey the
// call is safe to repeat, without one a second run would come of it. Errors:
// invalid-request, unknown-runtime, unknown-tool (of a plan), id-in-use, not-set-up,
// unavailable.
func (c *Client) StartRun(ctx context.Context, s RunStart) (RunStarted, error) {
	r, err := c.checkRun(s)
	if err != nil {
		return RunStarted{}, invalid(err)
	}
	return c.beginRun(ctx, r)
}

// checkRun makes a request of a start, or says what is wrong with it.
func (c *Client) checkRun(s RunStart) (runRequest, error) {
	r := runRequest{in: protocol.RunInput{Plan: s.Plan, ContinueAfterEvents: c.o.ContinueAfterEvents, Revision: protocol.RunRevision}}
	if err := c.bindRun(s, &r.in); err != nil {
		return r, err
	}
	for _, check := range []func() error{
		func() error { return c.checkRunID(s) },
		func() error { return checkText("title", s.Title, MaxTitle) },
		func() error { return checkText("traceparent", s.Traceparent, run.MaxText) },
		func() error { return checkText("runtimeVersion", s.RuntimeVersion, run.MaxText) },
		func() error { return checkLabels(s.Labels) },
		func() error { return c.checkRunTTL(s.TTL) },
		func() error { return lower(&r.in.Create.Limits, s.Limits) },
		func() error { return c.checkPlan(s.Plan, r.in.Create.Limits) },
	} {
		if err := check(); err != nil {
			return r, err
		}
	}
	create := &r.in.Create
	create.ID, create.Tenant, create.Title, create.Labels, create.Traceparent = c.runID(s), c.o.Tenant, s.Title, s.Labels, s.Traceparent
	r.generated, r.keyed = s.RunID == "" && s.IdempotencyKey == "", s.IdempotencyKey != ""
	if s.TTL > 0 {
		create.TTLMs = s.TTL.Milliseconds()
	}
	if s.RuntimeVersion != "" {
		create.RuntimeVersion = s.RuntimeVersion
	}
	if len(s.Input) > 0 {
		create.Input = &run.Input{InputID: FirstInput, Content: s.Input}
	}
	// Whatever else is wrong would end the run in its first moment.
	if _, err := run.New(*create); err != nil {
		return r, err
	}
	plan, err := json.Marshal(s.Plan)
	if err != nil {
		return r, domain.Invalid("plan", "must be sound JSON: %s", err.Error())
	}
	r.in.Fingerprint, err = domain.Fingerprint("run "+s.Runtime, s.Input, string(plan))
	return r, err
}

// bindRun finds who takes the steps, and what was declared for that.
func (c *Client) bindRun(s RunStart, in *protocol.RunInput) error {
	switch {
	case s.Runtime != "" && len(s.Plan) > 0:
		return domain.Invalid("plan", "must be absent when runtime is given")
	case s.Runtime == "" && len(s.Plan) == 0:
		return domain.Invalid("runtime", "must be given, or a plan")
	case s.Runtime == "":
		in.Create, in.Runtime = c.o.Config.RunDefaults(), protocol.RuntimeBinding{Mode: protocol.ModePlan}
		return nil
	}
	rt, ok := c.o.Config.Runtime(s.Runtime)
	if !ok {
		return c.unknownRuntime(s.Runtime)
	}
	in.Create, in.Runtime = rt.CreateDefaults(), rt.Binding()
	return nil
}

func (c *Client) unknownRuntime(name string) *Error {
	var known []string
	for _, r := range c.o.Config.Runtimes {
		known = append(known, r.Name)
	}
	name = oneLine(name, logNameLimit)
	return fail(CodeUnknownRuntime, "declare it in "+config.FileName+", or ask for one that is", "no runtime %q is declared%s", name, config.Suggest(name, known))
}

func (c *Client) checkRunID(s RunStart) error {
	switch {
	case s.RunID != "" && s.IdempotencyKey != "":
		return domain.Invalid("runId", "must be absent when idempotencyKey is given")
	case s.RunID != "":
		return domain.CheckChosenRunID(s.RunID)
	}
	return c.checkID(Submission{IdempotencyKey: s.IdempotencyKey})
}

func (c *Client) checkRunTTL(ttl time.Duration) error {
	switch most := c.o.Config.MaxTTL; {
	case ttl < 0 || ttl > 0 && ttl < time.Millisecond:
		return domain.Invalid("ttlMs", "must be > 0, it is %s", ttl)
	case ttl > most:
		return domain.Invalid("ttlMs", "must be at most %s, it is %s", config.FormatDuration(most), ttl)
	}
	return nil
}

// lower takes what was asked for into limits that were declared.
func lower(limits, asked *run.Limits) error {
	if asked == nil {
		return nil
	}
	for _, f := range []struct {
		name      string
		to, asked *int
	}{
		{"maxSteps", &limits.MaxSteps, &asked.MaxSteps},
		{"maxCalls", &limits.MaxCalls, &asked.MaxCalls},
		{"maxOpenCalls", &limits.MaxOpenCalls, &asked.MaxOpenCalls},
	} {
		if err := lowerOne(f.name, f.to, *f.asked); err != nil {
			return err
		}
	}
	if err := lowerOne("maxTokens", &limits.MaxTokens, asked.MaxTokens); err != nil {
		return err
	}
	return lowerOne("maxCostUsd", &limits.MaxCostUSD, asked.MaxCostUSD)
}

func lowerOne[T int | int64 | float64](name string, to *T, asked T) error {
	switch {
	case asked < 0 || asked != asked: // which is NaN
		return domain.Invalid("limits."+name, "must be >= 0, it is %v", asked)
	case asked > *to && *to > 0:
		return domain.Invalid("limits."+name, "must be at most the %v that is declared, it is %v", *to, asked)
	case asked > 0:
		*to = asked
	}
	return nil
}

// checkPlan refuses at once what a runtime would be told by a result: nobody is there
// who could mend it.
func (c *Client) checkPlan(plan []run.ToolCall, limits run.Limits) error {
	if len(plan) == 0 {
		return nil
	}
	if err := run.CheckPlan(plan); err != nil {
		return err
	}
	for _, call := range plan {
		if err := c.checkPlanned(call.Tool); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		name string
		most int
	}{{"maxCalls", limits.MaxCalls}, {"maxOpenCalls", limits.MaxOpenCalls}} {
		if l.most > 0 && len(plan) > l.most {
			return domain.Invalid("plan", "must have at most the %d calls that limits.%s allows, it has %d", l.most, l.name, len(plan))
		}
	}
	return nil
}

// checkPlanned finds the tool of a call of a plan.
func (c *Client) checkPlanned(tool string) error {
	builtIn := []string{run.ToolAsk, run.ToolApprove, run.ToolRun}
	if _, ok := c.o.Config.Tool(tool); ok || slices.Contains(builtIn, tool) {
		return nil
	}
	if strings.HasPrefix(tool, run.BuiltInPrefix) {
		name := oneLine(tool, logNameLimit)
		return fail(CodeUnknownTool, "ask for one of "+strings.Join(builtIn, ", "), "there is no built-in tool %q%s", name, config.Suggest(name, builtIn))
	}
	return c.unknownTool(tool)
}

func (c *Client) runID(s RunStart) string {
	switch {
	case s.RunID != "":
		return s.RunID
	case s.IdempotencyKey != "":
		// No key of a task holds a zero byte, so that none gives the same id.
		return domain.KeyedID(c.o.Secret, c.o.Tenant, "run\x00"+s.IdempotencyKey)
	}
	return domain.PrefixRun + uuid.Must(uuid.NewV7()).String()
}

// beginRun starts the workflow of a run, or answers for the one that is there.
func (c *Client) beginRun(ctx context.Context, r runRequest) (RunStarted, error) {
	const tries = 3
	id := r.in.Create.ID
	op := "start run " + id
	for try := 1; ; try++ {
		options := c.runOptions(r.in.Create, r.in.Fingerprint)
		options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
		started, err := c.engine.ExecuteWorkflow(ctx, options, protocol.WorkflowAgentRun, r.in)
		switch {
		case err == nil:
			return c.runStarted(r, started.GetRunID()), nil
		case temporal.IsWorkflowExecutionAlreadyStartedError(err) && r.generated:
			// An id that was made here can only have been started here, by a try whose
			// answer was lost.
			return c.runStarted(r, ""), nil
		case temporal.IsWorkflowExecutionAlreadyStartedError(err):
			out, err := c.existingRun(ctx, r)
			if !errors.Is(err, ErrUnknownRun) || try == tries {
				return out, err
			}
			// Its retention has just ended, so the id is free.
		case ctx.Err() != nil || !transient(err) || try == tries:
			return RunStarted{}, engineError(ctx, op, err)
		}
		if err := pause(ctx, again); err != nil {
			return RunStarted{}, err
		}
	}
}

func (c *Client) runStarted(r runRequest, workflowRunID string) RunStarted {
	return RunStarted{
		RunID: r.in.Create.ID, Status: StatusAccepted, State: run.StateRunning, ExpiresAtMs: c.o.Now() + r.in.Create.TTLMs,
		WorkflowID: c.runWorkflowID(r.in.Create.ID), WorkflowRunID: workflowRunID,
	}
}

// existingRun answers for a run that is there already.
func (c *Client) existingRun(ctx context.Context, r runRequest) (RunStarted, error) {
	id := r.in.Create.ID
	d, err := c.engine.DescribeWorkflow(ctx, c.runWorkflowID(id), "")
	switch {
	case err != nil && notFound(err):
		return RunStarted{}, unknownRun(id).because(err)
	case err != nil:
		return RunStarted{}, engineError(ctx, "start run "+id, err)
	}
	was, err := c.memo(d, protocol.MemoFingerprint)
	if err != nil {
		return RunStarted{}, fail(CodeInternal, "look at the workflow in the Temporal UI", "the memo of run %s cannot be read", id).because(err)
	}
	if was != r.in.Fingerprint {
		what, hint := "id "+id, "choose another id, or send the same runtime, plan and input"
		if r.keyed {
			what, hint = "idempotency key", "use another key, or send the same runtime, plan and input"
		}
		return RunStarted{}, fail(CodeIDInUse, hint, "the %s belongs to another run", what)
	}
	out := RunStarted{RunID: id, Status: StatusAccepted, Existing: true, WorkflowID: c.runWorkflowID(id), WorkflowRunID: d.WorkflowExecution.RunID}
	const soon = 2 * time.Second
	quick, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if s, err := c.readRun(quick, id); err == nil {
		out.State, out.ExpiresAtMs = s.desc.Run.State, s.desc.Run.ExpiresAtMs
	}
	return out, nil
}

// runOptions are those of a first run and of a retry alike.
func (c *Client) runOptions(create run.Create, fingerprint string) client.StartWorkflowOptions {
	memo := map[string]any{protocol.MemoFingerprint: fingerprint}
	if create.Title != "" {
		memo[protocol.MemoTitle] = create.Title
	}
	if create.Runtime != "" {
		memo[protocol.MemoRuntime] = create.Runtime
	}
	return client.StartWorkflowOptions{
		ID: c.runWorkflowID(create.ID), TaskQueue: c.o.TaskQueue,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         c.o.EagerStart,
		StaticSummary:                            runSummary(create),
		StaticDetails:                            runDetails(create),
		Memo:                                     memo,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			protocol.AttrTenant.ValueSet(c.o.Tenant), protocol.AttrRun.ValueSet(create.ID), protocol.AttrState.ValueSet(string(run.StateRunning)),
		),
		Priority: temporal.Priority{FairnessKey: c.o.Tenant, FairnessWeight: float32(c.o.Config.FairnessWeight)},
	}
}

// whoRuns is the runtime of a run for people.
func whoRuns(create run.Create) string {
	if create.Runtime == "" {
		return "plan"
	}
	return create.Runtime
}

func runSummary(create run.Create) string {
	s := "run of " + whoRuns(create)
	if create.Title != "" {
		s += ": " + create.Title
	}
	return oneLine(s, maxSummary)
}

// runDetails are markdown for the Temporal UI; see [details].
func runDetails(create run.Create) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- **%s:** %s\n", name, markdown.Text(value))
		}
	}
	line("Run", create.ID)
	line("Runtime", whoRuns(create))
	line("Version", create.RuntimeVersion)
	line("Title", create.Title)
	line("Tenant", create.Tenant)
	if p := create.Parent; p != nil {
		line("Asked for by run", p.RunID)
		line("Tool call", p.ToolCallID)
	}
	for _, name := range slices.Sorted(maps.Keys(create.Labels)) {
		line("Label "+markdown.Text(name), create.Labels[name])
	}
	return b.String()
}
