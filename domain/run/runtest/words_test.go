package runtest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/domain/run/runtest"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]run.Event{
		"claim at=5 token=t1 holder=ann lease=50 version=v1": {Type: run.EventClaim, AtMs: 5, Token: "t1", Holder: "ann", LeaseMs: 50, RuntimeVersion: "v1"},
		"call-ended call=2/a state=failed error=boom code=IO ref=r": {
			Type: run.EventCallEnded, Call: run.Key{Step: 2, ID: "a"}, End: &run.End{State: run.CallFailed, ResultRef: "r", Error: &domain.TaskError{Code: "IO", Message: "boom"}},
		},
		`approve call=1/a decision=edit input='{"x":1}' by=ann`: {Type: run.EventApprove, Call: run.Key{Step: 1, ID: "a"}, By: "ann", Decides: &run.Approval{Decision: run.DecisionEdit, Input: []byte(`{"x":1}`)}},
		`input id=i text="go on" source=user`:                   {Type: run.EventInput, Input: &run.Input{InputID: "i", Content: []byte(`"go on"`), Source: "user"}},
		"retry ttl=5 maxSteps=7 maxCost=0.5":                    {Type: run.EventRetry, TTLMs: 5, Limits: &run.Limits{MaxSteps: 7, MaxCostUSD: 0.5}},
		"step-failed token=t error=busy retryable":              {Type: run.EventStepFailed, Token: "t", Error: &domain.TaskError{Message: "busy", Retryable: true}},
	} {
		got, err := runtest.Event(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s (%v):\n%s", line, err, diff)
		}
	}
	e, err := runtest.Event(`commit step=1 token=t call='a:fetch,needs=b+c,wait=5,key=k,input={"x":[1,2]}' cancel=1/z:why wake=any await output=1 onFinal=detach usage=m:1:2:0.5 checkpoint=1`)
	want := run.StepResponse{
		ToolCalls:   []run.ToolCall{{ToolCallID: "a", Tool: "fetch", DependsOn: []string{"b", "c"}, WaitMs: 5, IdempotencyKey: "k", Input: []byte(`{"x":[1,2]}`)}},
		CancelCalls: []run.CancelCall{{ToolCallID: "z", AskedAtStep: 1, Message: "why"}},
		Wake:        run.WakeAny, Await: run.AwaitInput, Output: []byte("1"), OnFinal: run.OnFinalDetach,
		Usage: []run.Usage{{Model: "m", InputTokens: 1, OutputTokens: 2, CostUSD: 0.5}},
	}
	if diff := cmp.Diff(want, *e.Response); diff != "" || err != nil || string(e.Checkpoint.Data) != "1" || e.Digest != run.Digest(*e.Response, e.Checkpoint, nil) {
		t.Errorf("%+v (%v)\n%s", e, err, diff)
	}
	for _, bad := range []string{"", "claim at=soon", "claim colour=red", "call-ended call=a", "commit call=a:x,colour=red", "commit usage=m"} {
		if e, err := runtest.Event(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, e)
		}
	}
	if c, err := runtest.Create("colour=red"); err == nil {
		t.Errorf("a run can be red: %+v", c)
	}
}

// TestPairDisagrees makes sure that a difference is seen.
func TestPairDisagrees(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p *runtest.Pair){
		"another version":      func(p *runtest.Pair) { p.Oracle.Version++ },
		"another holder":       func(p *runtest.Pair) { p.Oracle.Held = true },
		"another deadline":     func(p *runtest.Pair) { p.Oracle.Deadline-- },
		"an input that is not": func(p *runtest.Pair) { p.Run.Inputs = append(p.Run.Inputs, run.Input{InputID: "i"}) },
	} {
		c, err := runtest.Create("input=hello")
		if err != nil {
			t.Fatal(err)
		}
		p, err := runtest.NewPair(c)
		if err != nil {
			t.Fatal(err)
		}
		spoil(p)
		e, err := runtest.Event("pause at=1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Apply(e); err == nil {
			t.Errorf("%s: nobody saw it", name)
		}
	}
}
