package run_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

func TestEncodeRequestKeepsTheCheckpointByteForByte(t *testing.T) {
	t.Parallel()
	for name, checkpoint := range map[string]string{
		"spaces":       "{ \"b\" :  1,\n\t\"a\": [1 , 2] }",
		"escapes":      `{"a":"<b>&","c":"\u003c \/ é","e":"` + "\u2028" + `"}`,
		"numbers":      `{"n":1.0e+2,"big":123456789012345678901234567890}`,
		"repeated":     `{"a":1,"a":2}`,
		"white around": " \n{}\n",
		"a text":       `"checkpoint"`,
		"a number":     `0`,
	} {
		b, err := run.EncodeRequest(run.StepRequest{
			RunID: "r", Step: 2, Attempt: 1, StepToken: "t", Checkpoint: json.RawMessage(checkpoint),
			Results: []run.Result{}, Inputs: []run.Input{{InputID: "i", Content: json.RawMessage(`"<ö>"`)}}, Pending: []run.Pending{},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !json.Valid(b) || !strings.Contains(string(b), `,"checkpoint":`+checkpoint+"}") || !strings.Contains(string(b), `"<ö>"`) {
			t.Errorf("%s: %s", name, b)
		}
		var back run.StepRequest
		if err := json.Unmarshal(b, &back); err != nil || back.StepToken != "t" || string(back.Checkpoint) != strings.TrimSpace(checkpoint) {
			t.Errorf("%s comes back as %q (%v)", name, back.Checkpoint, err)
		}
	}
}

func TestEncodeRequestWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	req := run.StepRequest{RunID: "r", CheckpointRef: &run.ContentRef{Ref: "blob:x", Hash: "h"}, Results: []run.Result{}}
	b, err := run.EncodeRequest(req)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(plain), string(b)); diff != "" {
		t.Error(diff)
	}
	if _, err := run.EncodeRequest(run.StepRequest{Checkpoint: json.RawMessage("{")}); err == nil {
		t.Error("a broken checkpoint breaks the whole")
	}
	if _, err := run.EncodeRequest(run.StepRequest{Inputs: []run.Input{{Content: json.RawMessage("{")}}}); err == nil {
		t.Error("a broken input breaks the whole")
	}
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	call := func(id string, needs ...string) run.ToolCall {
		return run.ToolCall{ToolCallID: id, Tool: "train", DependsOn: needs}
	}
	big := call("big")
	big.Input = json.RawMessage(`"` + strings.Repeat("x", run.MaxCallInput-2) + `"`)
	bigger, biggest := big, big
	bigger.ToolCallID, biggest.ToolCallID = "bigger", "biggest"
	for name, tc := range map[string]struct {
		calls []run.ToolCall
		field string
	}{
		"sound":            {[]run.ToolCall{call("a"), call("b", "a")}, ""},
		"empty":            {nil, "plan"},
		"a repeated id":    {[]run.ToolCall{call("a"), call("a")}, "plan[1].toolCallId"},
		"a cycle":          {[]run.ToolCall{call("a", "b"), call("b", "a")}, "plan"},
		"unknown need":     {[]run.ToolCall{call("a", "z")}, "plan[0].dependsOn"},
		"too much of them": {[]run.ToolCall{big, bigger, biggest}, "plan"},
	} {
		err := run.CheckPlan(tc.calls)
		var invalid *domain.InvalidError
		if errors.As(err, &invalid) != (tc.field != "") || tc.field != "" && invalid.Field != tc.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A plan was measured as it is written, and a run measures it as it is stored: one full of
// escapes was taken at the start, and no step could commit it.
func TestCheckPlanMeasuresWhatARunMeasures(t *testing.T) {
	t.Parallel()
	plan := func(bytes int) []run.ToolCall {
		var calls []run.ToolCall
		for i := range 5 {
			calls = append(calls, run.ToolCall{ToolCallID: string(rune('a' + i)), Tool: "build", Input: json.RawMessage(`"` + strings.Repeat("<", bytes/5) + `"`)})
		}
		return calls
	}
	commits := func(calls []run.ToolCall) error {
		r, err := run.New(run.Create{ID: "r1", Tenant: "acme", NowMs: 1_800_000_000_000, TTLMs: 1 << 40, Runtime: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []run.Event{
			{Type: run.EventClaim, Token: "t1", Holder: "plan"}, {Type: run.EventCommit, Step: 1, Token: "t1", Response: &run.StepResponse{ToolCalls: calls}},
		} {
			e.AtMs = 1_800_000_000_001
			tr, err := run.Apply(r, e)
			if err != nil {
				return err
			}
			r = tr.Run
		}
		if len(r.Calls) != len(calls) {
			t.Fatalf("%d of %d calls", len(r.Calls), len(calls))
		}
		return nil
	}
	taken, refused := 0, 0
	for bytes := 80 << 10; bytes < 120<<10; bytes += 1 << 10 {
		err, want := run.CheckPlan(plan(bytes)), commits(plan(bytes))
		if (err == nil) != (want == nil) {
			t.Errorf("%d bytes: the plan %v, the commit %v", bytes, err, want)
		}
		var invalid *domain.InvalidError
		if errors.As(err, &invalid) {
			refused++
			if invalid.Field != "plan" {
				t.Errorf("%d bytes: %v", bytes, err)
			}
			continue
		}
		taken++
	}
	if taken == 0 || refused == 0 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
	var many []run.ToolCall
	for i := range run.MaxOpen {
		many = append(many, run.ToolCall{ToolCallID: "c" + strconv.Itoa(i), Tool: "build"})
	}
	if err, want := run.CheckPlan(many), commits(many[:run.DefaultMaxOpenCalls]); err != nil || want != nil {
		t.Errorf("as many calls as may be open: %v, %v", err, want)
	}
}

func TestCheckCommitIsWhatEveryRunRefuses(t *testing.T) {
	t.Parallel()
	sound := run.Event{Type: run.EventCommit, Step: 1, Token: "t", Response: &run.StepResponse{Await: run.AwaitInput}}
	if err := run.CheckCommit(sound); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*run.Event){
		"no response": func(e *run.Event) { e.Response = nil },
		"no token":    func(e *run.Event) { e.Token = " " },
		"step 0":      func(e *run.Event) { e.Step = 0 },
		"a bad word":  func(e *run.Event) { e.Response = &run.StepResponse{Wake: "some"} },
		"a bad graph": func(e *run.Event) { e.Response = &run.StepResponse{ToolCalls: []run.ToolCall{{ToolCallID: "a"}}} },
		"a large end": func(e *run.Event) { e.Final = &run.Content{Ref: "blob:x", Hash: "h", Bytes: run.MaxFinal + 1} },
	} {
		e := sound
		change(&e)
		var invalid *domain.InvalidError
		if err := run.CheckCommit(e); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
