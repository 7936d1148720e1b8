package starter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func taskError(code string) *domain.TaskError { return &domain.TaskError{Code: code, Message: "no"} }

func TestStartRun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	out, err := w.StartRun(t.Context(), starter.RunStart{
		RunID: "r1", Runtime: "agent", Title: "Ask *it*", Input: json.RawMessage(`{"q": 1}`), TTL: time.Hour, Limits: &run.Limits{MaxSteps: 3},
		Labels: map[string]string{"team": "a"}, Traceparent: "00-x", RuntimeVersion: "8",
	})
	want := starter.RunStarted{
		RunID: "r1", Status: "accepted", State: run.StateRunning, ExpiresAtMs: epoch + 3_600_000, WorkflowID: "acme/run/r1", WorkflowRunID: "run-1",
	}
	if diff := cmp.Diff(want, out); diff != "" || err != nil {
		t.Fatalf("%s (%v)", diff, err)
	}
	in := w.engine.StartedRun("acme/run/r1")
	c := in.Create
	if in.Runtime.Mode != protocol.ModePull || in.Runtime.Name != "agent" || in.Fingerprint == "" || c.NowMs != 0 || c.Runtime != "agent" ||
		c.Tenant != "acme" || c.RuntimeVersion != "8" || c.Limits.MaxSteps != 3 || c.Limits.MaxCalls != 10 || c.Input.InputID != "start" || c.Policy.LeaseMs != 60_000 {
		t.Errorf("%+v", in)
	}
	o, _ := w.engine.Started("acme/run/r1")
	if o.StaticSummary != "run of agent: Ask *it*" || o.Memo[protocol.MemoTitle] != "Ask *it*" || !strings.Contains(o.StaticDetails, `- **Label team:** a`) {
		t.Errorf("%q %v %q", o.StaticSummary, o.Memo, o.StaticDetails)
	}
	attrs := map[string]any{}
	for k, v := range o.TypedSearchAttributes.GetUntypedValues() {
		attrs[k.GetName()] = v
	}
	if diff := cmp.Diff(map[string]any{"WakepointTenant": "acme", "WakepointRun": "r1", "WakepointState": "RUNNING"}, attrs); diff != "" {
		t.Error(diff)
	}
}

func TestStartRunAgainIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	s := starter.RunStart{IdempotencyKey: "k", Runtime: "agent", Input: json.RawMessage(`{"a":1,"b":2}`)}
	first, err := w.StartRun(t.Context(), s)
	if err != nil || first.Existing || !strings.HasPrefix(first.RunID, domain.PrefixKeyed) {
		t.Fatalf("%+v (%v)", first, err)
	}
	s.Input = json.RawMessage(`{ "b": 2, "a": 1 }`)
	again, err := w.StartRun(t.Context(), s)
	if err != nil || !again.Existing || again.RunID != first.RunID || again.State != run.StateRunning || again.ExpiresAtMs != first.ExpiresAtMs {
		t.Errorf("%+v (%v)", again, err)
	}
	other := s
	other.Input = json.RawMessage(`{"a":2}`)
	_, err = w.StartRun(t.Context(), other)
	if e := as(t, err, starter.ErrIDInUse); !strings.Contains(e.Message, "idempotency key") {
		t.Error(e)
	}
	if sub := w.submit(t, starter.Submission{IdempotencyKey: "k"}); sub.TaskID == first.RunID {
		t.Error("a task and a run of the same key have the same id")
	}
	// A run that has ended is found too, and so is one without a worker.
	w.commit(t, first.RunID, run.StepResponse{Final: json.RawMessage("1")})
	if again, err = w.StartRun(t.Context(), s); err != nil || again.State != run.StateSucceeded {
		t.Errorf("%+v (%v)", again, err)
	}
	w.engine.LoseAnswers(1)
	lost, err := w.StartRun(t.Context(), starter.RunStart{Runtime: "agent"})
	if err != nil || !strings.HasPrefix(lost.RunID, domain.PrefixRun) || w.engine.Runs(runWorkflow(lost.RunID)) != 1 {
		t.Errorf("%+v (%v)", lost, err)
	}
}

func TestStartPlan(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	plan := []run.ToolCall{
		{ToolCallID: "a", Tool: "train", Input: json.RawMessage(`{"n":1}`)},
		{ToolCallID: "b", Tool: run.ToolAsk, Input: json.RawMessage(`{"prompt":"ok?"}`), DependsOn: []string{"a"}},
	}
	if _, err := w.StartRun(t.Context(), starter.RunStart{RunID: "p", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	in := w.engine.StartedRun("acme/run/p")
	if diff := cmp.Diff(protocol.RuntimeBinding{Mode: protocol.ModePlan}, in.Runtime); diff != "" || len(in.Plan) != 2 || in.Create.Runtime != "" {
		t.Errorf("%s %+v", diff, in)
	}
	_, err := w.StartRun(t.Context(), starter.RunStart{RunID: "p", Plan: plan[:1]})
	is(t, err, starter.ErrIDInUse)
	_, err = w.StartRun(t.Context(), starter.RunStart{Plan: []run.ToolCall{{ToolCallID: "a", Tool: "trian"}}})
	if e := as(t, err, starter.ErrUnknownTool); !strings.Contains(e.Message, "train") {
		t.Errorf("no suggestion: %v", e)
	}
	_, err = w.StartRun(t.Context(), starter.RunStart{Plan: []run.ToolCall{{ToolCallID: "a", Tool: "wakepoint.asks"}}})
	if e := as(t, err, starter.ErrUnknownTool); !strings.Contains(e.Message, run.ToolAsk) {
		t.Errorf("no suggestion: %v", e)
	}
}

func TestStartRunRefuses(t *testing.T) {
	t.Parallel()
	w := setupRuns(t)
	many := make([]run.ToolCall, 60)
	for i := range many {
		many[i] = run.ToolCall{ToolCallID: strings.Repeat("i", i+1), Tool: "train"}
	}
	for field, s := range map[string]starter.RunStart{
		"runtime":             {},
		"plan":                {Runtime: "agent", Plan: many[:1]},
		"plan[1].toolCallId":  {Plan: []run.ToolCall{many[0], many[0]}},
		"plan[0].input":       {Plan: []run.ToolCall{{ToolCallID: "a", Tool: "train", Input: json.RawMessage("{")}}},
		"runId":               {Runtime: "agent", RunID: "run_mine"},
		"idempotencyKey":      {Runtime: "agent", IdempotencyKey: " "},
		"title":               {Runtime: "agent", Title: strings.Repeat("x", starter.MaxTitle+1)},
		"ttlMs":               {Runtime: "agent", TTL: 11 * 24 * time.Hour},
		"limits.maxSteps":     {Runtime: "agent", Limits: &run.Limits{MaxSteps: 6}},
		"limits.maxOpenCalls": {Runtime: "other", Limits: &run.Limits{MaxOpenCalls: 51}},
		"limits.maxCostUsd":   {Runtime: "agent", Limits: &run.Limits{MaxCostUSD: -1}},
		"input.content":       {Runtime: "agent", Input: json.RawMessage("{")},
		"labels":              {Runtime: "agent", Labels: map[string]string{"a b": "c"}},
	} {
		_, err := w.StartRun(t.Context(), s)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	_, err := w.StartRun(t.Context(), starter.RunStart{Plan: many})
	if e := as(t, err, starter.ErrInvalid); e.Field != "plan" || !strings.Contains(e.Message, "maxOpenCalls") {
		t.Error(e)
	}
	_, err = w.StartRun(t.Context(), starter.RunStart{Runtime: "agnet"})
	if e := as(t, err, starter.ErrUnknownRuntime); !strings.Contains(e.Message, "agent") {
		t.Error(e)
	}
	if n := w.engine.Calls("ExecuteWorkflow"); n != 0 {
		t.Errorf("%d were started", n)
	}
	w.engine.Down(true)
	_, err = w.StartRun(t.Context(), starter.RunStart{Runtime: "agent"})
	is(t, err, starter.ErrUnavailable)
}
