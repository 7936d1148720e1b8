package run_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// greedy feeds a run the largest of everything that comes in, as long as it is let in.
type greedy struct {
	t    *testing.T
	r    run.Run
	unit string
	n    int
	now  int64
}

// text is as long as it may be.
func (g *greedy) text(limit int) string {
	g.n++
	id := fmt.Sprint(g.n, " ")
	return id + strings.Repeat(g.unit, (limit-len(id))/len(g.unit))
}

func (g *greedy) json(limit int) json.RawMessage {
	b, err := json.Marshal(g.unit)
	if err != nil {
		g.t.Fatal(err)
	}
	inner := string(b[1 : len(b)-1])
	return json.RawMessage(`"` + strings.Repeat(inner, (limit-2)/len(inner)) + `"`)
}

// give applies an event that may be refused for its size, and tells whether it was let in.
func (g *greedy) give(e run.Event) bool {
	g.t.Helper()
	g.now++
	e.AtMs = g.now
	if e.Type == run.EventCommit {
		e.Digest = run.Digest(*e.Response, e.Checkpoint, e.Final)
	}
	tr, err := run.Apply(g.r, e)
	if err != nil {
		return false
	}
	if !tr.Outcome.Changed && !tr.Kept {
		g.t.Fatalf("%s is %s", e.Type, tr.Outcome.Reason)
	}
	g.r = tr.Run
	return true
}

func (g *greedy) fault() *domain.TaskError {
	return &domain.TaskError{Code: g.text(run.MaxText), Message: g.text(domain.MaxErrorText), Details: g.json(domain.MaxDetails), Class: domain.ClassSystem}
}

func (g *greedy) started() *run.Started {
	return &run.Started{TaskID: fmt.Sprintf("task-of-the-call-%d-%s", g.n, strings.Repeat("t", 150)), WaiterID: strings.Repeat("w", 100), Title: g.text(1000), UntilMs: 1 << 40}
}

// step takes one step with as many calls as are let in, the largest first.
func (g *greedy) step(i int) {
	token := fmt.Sprint(i, strings.Repeat("t", run.MaxToken-8))
	if !g.give(run.Event{Type: run.EventClaim, Token: token, Holder: g.text(run.MaxText)}) {
		g.t.Fatal("no claim")
	}
	usage := []run.Usage{{Model: g.text(run.MaxText), InputTokens: 1 << 40, CostUSD: 0.123456789}}
	size, calls := run.MaxCallInput, min(run.MaxStepCalls, run.MaxOpen+len(g.r.Step.Results)-len(untaken(g.r)))
	for {
		resp := run.StepResponse{Wake: run.WakeAny, WakeOnInput: true, Await: run.AwaitInput, Usage: usage, CheckpointFormat: strings.Repeat("f", run.MaxText)}
		if size > 0 {
			resp.Output = g.json(run.MaxOutput)
		}
		for range calls {
			c := run.ToolCall{ToolCallID: g.text(domain.MaxCallbackID), Tool: g.text(run.MaxText), WaitMs: 1 << 30, IdempotencyKey: g.text(domain.MaxRef)}
			if size > 0 {
				c.Input = g.json(max(size, 64))
			} else {
				c.ToolCallID, c.Tool, c.IdempotencyKey = fmt.Sprint("c", g.n), "t", ""
			}
			for _, d := range resp.ToolCalls[:min(len(resp.ToolCalls), 3)] {
				c.DependsOn = append(c.DependsOn, d.ToolCallID)
			}
			if i%3 > 0 {
				c.DependsOn = nil
			}
			resp.ToolCalls = append(resp.ToolCalls, c)
		}
		e := run.Event{Type: run.EventCommit, Step: g.r.StepsDone + 1, Token: token, Response: &resp, Checkpoint: run.Inline(g.json(run.MaxInline), "application/json")}
		switch {
		case g.give(e):
			return
		case size > 64:
			size /= 4
		case size > 0:
			size = 0
		case calls > 0:
			calls /= 2
		default:
			g.t.Fatal("a step that asks for nothing is refused")
		}
	}
}

// untaken are the calls whose result no step has taken: they count to the limit.
func untaken(r run.Run) []run.Call {
	return slices.DeleteFunc(slices.Clone(r.Calls), func(c run.Call) bool { return c.TakenAt != 0 })
}

// people say and decide as much as they can.
func (g *greedy) people() {
	for i, c := range g.r.Calls {
		if c.State != run.CallReady {
			continue
		}
		ask := run.Event{Type: run.EventApprovalAsked, Call: c.Key, Started: g.started()}
		start := run.Event{Type: run.EventCallStarted, Call: c.Key, Started: g.started()}
		switch {
		case c.Approval != nil:
			g.give(start)
		case i%4 == 0:
			g.give(ask)
			g.give(run.Event{Type: run.EventApprove, Call: c.Key, Decides: &run.Approval{Decision: run.DecisionEdit, By: g.text(domain.MaxWorker), Message: g.text(domain.MaxErrorText), Input: g.json(run.MaxAnswer)}})
		case i%4 == 1:
			g.give(start)
			g.give(run.Event{Type: run.EventCancelCall, Call: c.Key, By: g.text(domain.MaxWorker), Reason: g.text(domain.MaxErrorText)})
		case i%4 == 2:
			g.give(run.Event{Type: run.EventNoted, Call: c.Key, Reason: run.NotedInput, Answer: g.json(run.MaxCallInput)})
			g.give(start)
		default:
			g.give(start)
		}
	}
	for limit := run.MaxInput; limit > 64; {
		in := &run.Input{InputID: g.text(domain.MaxCallbackID), Source: g.text(run.MaxText), Content: g.json(limit)}
		if !g.give(run.Event{Type: run.EventInput, Input: in}) {
			limit /= 4
		}
		if len(g.r.Inputs) >= run.MaxInputs-1 {
			break
		}
	}
}

// ends brings the ends of calls; none of them can be refused.
func (g *greedy) ends(most int) {
	for _, c := range g.r.Calls {
		if c.State != run.CallOpen || most == 0 {
			continue
		}
		most--
		g.must(run.Event{Type: run.EventCallEnded, Call: c.Key, End: &run.End{
			State: run.CallFailed, ResultRef: strings.Repeat("r", domain.MaxRef), ResultHash: strings.Repeat("h", domain.MaxHash), ContentType: strings.Repeat("c", 100),
			Answer: g.json(run.MaxInline), Error: g.fault(),
		}})
	}
}

func (g *greedy) must(e run.Event) {
	g.t.Helper()
	if !g.give(e) {
		g.t.Fatalf("%s was refused", e.Type)
	}
}

func (g *greedy) check(when string) int {
	g.t.Helper()
	const limit = 2 << 20 // Temporal refuses a larger payload.
	b, err := json.Marshal(g.r)
	if err != nil {
		g.t.Fatal(err)
	}
	if len(b) >= limit {
		g.t.Errorf("%q: %s the run has %d bytes", g.unit, when, len(b))
	}
	return len(b)
}

// TestSizeOfTheWorstRun: whatever is sent, a run can be carried over.
func TestSizeOfTheWorstRun(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "\x01"} {
		t.Run(fmt.Sprintf("%q", unit), func(t *testing.T) {
			t.Parallel()
			c := run.Create{ID: "r", TTLMs: 1 << 50, Limits: run.Limits{MaxOpenCalls: run.MaxOpen, MaxSteps: 1 << 20, MaxCalls: 1 << 20}, Policy: run.Policy{StepAttempts: 1000}}
			r, err := run.New(c)
			if err != nil {
				t.Fatal(err)
			}
			g := &greedy{t: t, r: r, unit: unit}
			largest := 0
			g.now = 1
			for i := range 6 {
				// When there is no room for an input there is something that can end.
				if g.r.Step == nil && !g.give(run.Event{Type: run.EventInput, Input: &run.Input{InputID: g.text(100), Content: raw("1")}}) {
					g.ends(100)
				}
				if i == 3 {
					// A step that fails loudly, and comes again.
					g.must(run.Event{Type: run.EventClaim, Token: "t", Holder: "h"})
					f := g.fault()
					f.Retryable = true
					g.must(run.Event{Type: run.EventStepFailed, Token: "t", Error: f})
					g.now += 1 << 30
				}
				g.step(i)
				g.people()
				if i%8 == 5 {
					// Patience ends, and the late ends pile up.
					for _, c := range g.r.Calls {
						if c.State == run.CallOpen {
							g.must(run.Event{Type: run.EventWaitTimeout, Call: c.Key})
						}
					}
					for _, d := range g.r.Detached {
						g.must(run.Event{Type: run.EventCallEnded, Call: d.Key, End: &run.End{State: run.CallFailed, ResultRef: strings.Repeat("r", domain.MaxRef), ResultHash: strings.Repeat("h", domain.MaxHash), Error: g.fault()}})
					}
				}
				g.ends(20 + i*3)
				largest = max(largest, g.check(fmt.Sprintf("after step %d", i+1)))
			}
			g.must(run.Event{Type: run.EventCancel, By: g.text(domain.MaxWorker), Reason: g.text(domain.MaxErrorText)})
			if g.r.Ending != nil {
				g.must(run.Event{Type: run.EventCancelTimeout})
			}
			g.check("at its end")
			t.Logf("at most %d bytes, %d calls made", largest, g.r.CallsMade)
			if largest < run.MaxOpenBytes || g.r.CallsMade < 200 {
				t.Errorf("the worst run has only %d bytes and %d calls", largest, g.r.CallsMade)
			}
		})
	}
}
