package run_test

import (
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// shaped is a commit of a held first step, with one thing changed.
func shaped(t *testing.T, change func(e *run.Event)) error {
	t.Helper()
	p := lived(t, held)
	e := event(t, "commit at=9 step=1 token=t1 call=a:fetch call=b:fetch")
	change(&e)
	_, err := run.Apply(p.Run, e)
	return err
}

func long(n int) string { return strings.Repeat("x", n) }

func manyCalls(n int) []run.ToolCall {
	calls := make([]run.ToolCall, n)
	for i := range calls {
		calls[i] = run.ToolCall{ToolCallID: "c" + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)), Tool: "fetch"}
	}
	return calls
}

// TestShapeOfACommit: whatever is wrong with a commit, the error names the field.
func TestShapeOfACommit(t *testing.T) {
	t.Parallel()
	first := func(change func(c *run.ToolCall)) func(e *run.Event) {
		return func(e *run.Event) { change(&e.Response.ToolCalls[0]) }
	}
	failed := func(change func(f *domain.TaskError)) func(e *run.Event) {
		return func(e *run.Event) {
			f := &domain.TaskError{Message: "busy"}
			change(f)
			e.Response = &run.StepResponse{Error: f}
		}
	}
	usage := func(u run.Usage) func(e *run.Event) {
		return func(e *run.Event) { e.Response.Usage = []run.Usage{{Model: "m"}, u} }
	}
	checkpoint := func(c run.Content) func(e *run.Event) { return func(e *run.Event) { e.Checkpoint = &c } }
	inline := func(s string) run.Content { return *run.Inline([]byte(s), "") }
	for _, tc := range []struct {
		name, field string
		change      func(e *run.Event)
	}{
		{"as it should be", "", func(*run.Event) {}},
		{"nothing", "response", func(e *run.Event) { e.Response = nil }},
		{"step 0", "step", func(e *run.Event) { e.Step = 0 }},
		{"a blank token", "stepToken", func(e *run.Event) { e.Token = " " }},
		{"a long token", "stepToken", func(e *run.Event) { e.Token = long(run.MaxToken + 1) }},
		{"a checkpoint without anything", "checkpoint", checkpoint(run.Content{})},
		{"a checkpoint that is too large", "checkpoint", checkpoint(run.Content{Ref: "r", Hash: "h", Bytes: run.MaxCheckpoint + 1})},
		{"the largest checkpoint", "", checkpoint(run.Content{Ref: "r", Hash: "h", Bytes: run.MaxCheckpoint})},
		{"a checkpoint that belongs into the store", "checkpoint", checkpoint(inline(`"` + long(run.MaxInline) + `"`))},
		{"a checkpoint with a wrong hash", "checkpoint", checkpoint(run.Content{Data: []byte("1"), Hash: run.Hash([]byte("2")), Bytes: 1})},
		{"a checkpoint of another length", "checkpoint", checkpoint(run.Content{Data: []byte("1"), Hash: run.Hash([]byte("1")), Bytes: 2})},
		{"a checkpoint without a hash", "checkpoint", checkpoint(run.Content{Ref: "r", Bytes: 2})},
		{"a checkpoint of negative length", "checkpoint", checkpoint(run.Content{Ref: "r", Hash: "h", Bytes: -2})},
		{"a checkpoint with a long reference", "checkpoint", checkpoint(run.Content{Ref: long(domain.MaxRef + 1), Hash: "h"})},
		{"a checkpoint that is no JSON", "checkpoint", checkpoint(inline("{"))},
		{"an end that is too large", "final", func(e *run.Event) { e.Final = &run.Content{Ref: "r", Hash: "h", Bytes: run.MaxFinal + 1} }},
		{"an end that is no JSON", "final", func(e *run.Event) { e.Final = run.Inline([]byte("{"), "") }},
		{"an output that is no JSON", "output", func(e *run.Event) { e.Response.Output = raw("{") }},
		{"a large output", "output", func(e *run.Event) { e.Response.Output = raw(`"` + long(run.MaxOutput) + `"`) }},
		{"a long format", "checkpointFormat", func(e *run.Event) { e.Response.CheckpointFormat = long(run.MaxText + 1) }},
		{"a version that is no text", "runtimeVersion", func(e *run.Event) { e.Response.RuntimeVersion = "\xff" }},
		{"another wake", "wake", func(e *run.Event) { e.Response.Wake = "some" }},
		{"another await", "await", func(e *run.Event) { e.Response.Await = "godot" }},
		{"another onFinal", "onFinal", func(e *run.Event) { e.Response.OnFinal = "keep" }},
		{"onFinal without an end", "onFinal", func(e *run.Event) { e.Response.OnFinal = run.OnFinalDetach }},
		{"many cancels", "cancelCalls", func(e *run.Event) { e.Response.CancelCalls = make([]run.CancelCall, run.MaxOpen+run.MaxDone+1) }},
		{"a long reason to cancel", "cancelCalls[0].message", func(e *run.Event) {
			e.Response.CancelCalls = []run.CancelCall{{ToolCallID: "a", AskedAtStep: 1, Message: long(domain.MaxErrorText + 1)}}
		}},
		{"a cancel of the call that it asks for", "cancelCalls[0]", func(e *run.Event) { e.Response.CancelCalls = []run.CancelCall{{ToolCallID: "a", AskedAtStep: 1}} }},
		{"many models", "usage", func(e *run.Event) { e.Response.Usage = make([]run.Usage, run.MaxUsages+1) }},
		{"a long model", "usage[1].model", usage(run.Usage{Model: long(run.MaxText + 1)})},
		{"negative tokens", "usage[1]", usage(run.Usage{OutputTokens: -1})},
		{"endless tokens", "usage[1]", usage(run.Usage{CachedInputTokens: 1 << 60})},
		{"negative cost", "usage[1].costUsd", usage(run.Usage{CostUSD: -1})},
		{"an error as it should be", "", failed(func(*domain.TaskError) {})},
		{"an error with calls", "error", func(e *run.Event) { e.Response.Error = &domain.TaskError{Message: "busy"} }},
		{"an error with a checkpoint", "error", func(e *run.Event) {
			failed(func(*domain.TaskError) {})(e)
			e.Checkpoint = run.Inline([]byte("1"), "")
		}},
		{"a long error", "error.message", failed(func(f *domain.TaskError) { f.Message = long(domain.MaxErrorText + 1) })},
		{"a long code", "error.code", failed(func(f *domain.TaskError) { f.Code = long(run.MaxText + 1) })},
		{"a long class", "error.class", failed(func(f *domain.TaskError) { f.Class = domain.Class(long(run.MaxText + 1)) })},
		{"a long severity", "error.severity", failed(func(f *domain.TaskError) { f.Severity = domain.Severity(long(run.MaxText + 1)) })},
		{"large details", "error.details", failed(func(f *domain.TaskError) { f.Details = raw(`"` + long(domain.MaxDetails) + `"`) })},
		{"details that are no JSON", "error.details", failed(func(f *domain.TaskError) { f.Details = raw("{") })},
		{"as many calls as may be", "", func(e *run.Event) { e.Response.ToolCalls = manyCalls(run.MaxStepCalls) }},
		{"one call too many", "toolCalls", func(e *run.Event) { e.Response.ToolCalls = manyCalls(run.MaxStepCalls + 1) }},
		{"a call without an id", "toolCalls[0].toolCallId", first(func(c *run.ToolCall) { c.ToolCallID = "" })},
		{"a call with a long id", "toolCalls[0].toolCallId", first(func(c *run.ToolCall) { c.ToolCallID = long(domain.MaxCallbackID + 1) })},
		{"a repeated id", "toolCalls[1].toolCallId", first(func(c *run.ToolCall) { c.ToolCallID = "b" })},
		{"a call without a tool", "toolCalls[0].tool", first(func(c *run.ToolCall) { c.Tool = "\t" })},
		{"a long idempotency key", "toolCalls[0].idempotencyKey", first(func(c *run.ToolCall) { c.IdempotencyKey = long(domain.MaxRef + 1) })},
		{"a large input", "toolCalls[0].input", first(func(c *run.ToolCall) { c.Input = raw(`"` + long(run.MaxCallInput) + `"`) })},
		{"an input that is no JSON", "toolCalls[0].input", first(func(c *run.ToolCall) { c.Input = raw("{") })},
		{"negative patience", "toolCalls[0].waitMs", first(func(c *run.ToolCall) { c.WaitMs = -1 })},
		{"endless patience", "toolCalls[0].waitMs", first(func(c *run.ToolCall) { c.WaitMs = 1 << 60 })},
		{"patience with what is not waited for", "toolCalls[0].waitMs", first(func(c *run.ToolCall) { c.Background, c.WaitMs = true, 5 })},
		{"a negative time to live", "toolCalls[0].ttlMs", first(func(c *run.ToolCall) { c.TTLMs = -1 })},
		{"more needs than calls", "toolCalls[0].dependsOn", first(func(c *run.ToolCall) { c.DependsOn = make([]string, run.MaxStepCalls+1) })},
		{"an unknown need", "toolCalls[0].dependsOn", first(func(c *run.ToolCall) { c.DependsOn = []string{"z"} })},
		{"a cycle", "toolCalls", func(e *run.Event) {
			e.Response.ToolCalls[0].DependsOn, e.Response.ToolCalls[1].DependsOn = []string{"b"}, []string{"a"}
		}},
		{"a call that needs itself", "toolCalls", first(func(c *run.ToolCall) { c.DependsOn = []string{"a"} })},
		{"a reference to what it doesn't need is for its call to fail with", "", first(func(c *run.ToolCall) { c.Input = raw(`{"$from":"b"}`) })},
		{"so is a reference to nothing", "", first(func(c *run.ToolCall) { c.Input = raw(`{"$from":7}`) })},
		{"a reference to what it needs", "", first(func(c *run.ToolCall) { c.Input, c.DependsOn = raw(`{"x":{"$from":"b"}}`), []string{"b"} })},
		{"large inputs together", "toolCalls", func(e *run.Event) {
			e.Response.ToolCalls = manyCalls(3)
			for i := range e.Response.ToolCalls {
				e.Response.ToolCalls[i].Input = raw(`"` + long(run.MaxCallInput-2) + `"`)
			}
		}},
	} {
		if got := field(t, shaped(t, tc.change)); got != tc.field {
			t.Errorf("%s: the field is %q, not %q", tc.name, got, tc.field)
		}
	}
}

// TestShapeOfAnEnd: an end may not drop in silence what the run waits for.
func TestShapeOfAnEnd(t *testing.T) {
	t.Parallel()
	const life = "; claim token=t1; commit step=1 token=t1 call=a:fetch call=b:fetch,background wakeOnInput; call-started call=1/a; call-started call=1/b; input id=i text=x; claim token=t2"
	for _, tc := range []struct{ words, field string }{
		{"", "final"},
		{"cancel=1/a", ""},
		{"cancel=1/a:no onFinal=detach", ""},
		{"cancel=1/b", "final"},
		{"cancel=1/a cancel=1/z", "cancelCalls[1]"},
		{"cancel=1/a await", "await"},
		{"cancel=1/a call=c:fetch onFinal=detach", "toolCalls[0]"},
		{"cancel=1/a call=c:fetch,background", "toolCalls[0]"},
		{"cancel=1/a call=c:fetch,background onFinal=detach", ""},
		{"cancel=1/a call=c:fetch,background call=d:fetch,background,needs=c onFinal=detach", "toolCalls[1].dependsOn"},
	} {
		_, err := lived(t, life).Apply(event(t, `commit at=9 step=2 token=t2 final='"x"' `+tc.words))
		if got := field(t, err); got != tc.field {
			t.Errorf("%q: the field is %q, not %q", tc.words, got, tc.field)
		}
	}
}

// TestLimits: each limit has its own code, is announced before it strikes, and does not
// strike at what it allows.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ create, words, code string }{
		{"maxSteps=1", "await", run.CodeLimitSteps},
		{"maxSteps=2", "await", ""},
		{"maxSteps=1", `final='"x"'`, ""},
		{"maxCalls=1", "call=a:x call=b:x", run.CodeLimitCalls},
		{"maxCalls=2", "call=a:x call=b:x", ""},
		{"maxOpenCalls=1", "call=a:x call=b:x", run.CodeLimitOpenCalls},
		{"maxOpenCalls=2", "call=a:x call=b:x", ""},
		{"maxTokens=9", "await usage=m:5:5:0", run.CodeLimitTokens},
		{"maxTokens=10", "await usage=m:5:5:0", ""},
		{"maxCost=0.2", "await usage=m:5:5:0.25", run.CodeLimitCost},
		{"maxCost=0.25", "await usage=m:5:5:0.25", ""},
		{"maxCost=0.2", `final='"x"' usage=m:5:5:0.25`, ""},
	} {
		p := lived(t, tc.create+held)
		req, _ := p.Run.Request()
		if req.Limits.MaxSteps == 0 || req.Limits.DeadlineAtMs != 1000 {
			t.Errorf("%s: the runtime is told of %+v", tc.create, req.Limits)
		}
		tr := next(t, p, "commit at=9 step=1 token=t1 "+tc.words)
		code := ""
		if tr.Run.Error != nil {
			code = tr.Run.Error.Code
		}
		if code != tc.code || (code != "") != (tr.Outcome.Reason == run.ReasonLimit) || (code != "") != (tr.Run.State == run.StateFailed) {
			t.Errorf("%s, %s: %s, code %q", tc.create, tc.words, tr.Outcome.Reason, code)
		}
		if code != "" && (len(tr.Run.Calls) > 0 || tr.Run.StepsDone != 0 || strings.Contains(tc.words, "usage") != (tr.Run.Tokens() > 0)) {
			t.Errorf("%s, %s: it was done in part, or its usage is lost: %+v", tc.create, tc.words, tr.Run)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field  string
		change func(c *run.Create)
	}{
		{"", func(*run.Create) {}},
		{"runId", func(c *run.Create) { c.ID = " " }},
		{"nowMs", func(c *run.Create) { c.NowMs = -1 }},
		{"ttlMs", func(c *run.Create) { c.TTLMs = 0 }},
		{"ttlMs", func(c *run.Create) { c.TTLMs = 1 << 60 }},
		{"limits", func(c *run.Create) { c.Limits.MaxCalls = -1 }},
		{"limits.maxOpenCalls", func(c *run.Create) { c.Limits.MaxOpenCalls = run.MaxOpen + 1 }},
		{"policy", func(c *run.Create) { c.Policy.LeaseMs = -1 }},
		{"parent", func(c *run.Create) { c.Parent = &run.Parent{Depth: run.MaxDepth + 1} }},
		{"input.inputId", func(c *run.Create) { c.Input = &run.Input{Content: raw("1")} }},
		{"input.content", func(c *run.Create) { c.Input = &run.Input{InputID: "i"} }},
		{"input.content", func(c *run.Create) { c.Input = &run.Input{InputID: "i", Content: raw(`"` + long(run.MaxInput) + `"`)} }},
		{"input.source", func(c *run.Create) { c.Input = &run.Input{InputID: "i", Content: raw("1"), Source: "\x00"} }},
	} {
		c := run.Create{ID: "r", TTLMs: 5}
		tc.change(&c)
		r, err := run.New(c)
		if got := field(t, err); got != tc.field {
			t.Errorf("the field is %q, not %q", got, tc.field)
		}
		if err == nil && (r.State != run.StateRunning || r.Version != 0 || r.Step.Cause != run.CauseStart || r.Policy.LeaseMs != run.DefaultLeaseMs || r.Limits.MaxSteps != run.DefaultMaxSteps) {
			t.Errorf("a new run is %+v", r)
		}
	}
}
