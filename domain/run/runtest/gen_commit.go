package runtest

import (
	"encoding/json"
	"fmt"

	"github.com/wakepoint/wakepoint/domain/run"
)

// commit draws an answer to the step that is out.
func (g *Gen) commit(r run.Run) run.Event {
	resp := run.StepResponse{}
	e := run.Event{Type: run.EventCommit, Step: r.StepsDone + 1, Token: g.token(r), Response: &resp}
	switch {
	case g.one(12):
		resp.Error = g.fault()
	case g.one(9):
		g.final(&e, r)
	default:
		g.goOn(&e, r)
	}
	if g.one(3) {
		resp.Usage = append(resp.Usage, g.usage())
	}
	switch g.draw(60) {
	case 0:
		e.Step += pick(g, -1, 1)
	case 1:
		e.Token = " "
	case 2:
		resp.Wake = "never"
	case 3:
		resp.Error, resp.Await = g.fault(), run.AwaitInput
	case 4:
		resp.OnFinal = pick(g, run.OnFinalDetach, "keep")
	case 5:
		resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: "nobody", AskedAtStep: 1})
	}
	e.Digest = run.Digest(resp, e.Checkpoint, e.Final)
	g.sent = append(g.sent, e)
	return e
}

// untaken lists calls whose results no step has had.
func untaken(r run.Run) []run.Call {
	var out []run.Call
	for _, c := range r.Calls {
		if c.TakenAt == 0 {
			out = append(out, c)
		}
	}
	return out
}

func (g *Gen) final(e *run.Event, r run.Run) {
	resp := e.Response
	e.Final = run.Inline([]byte(`"done"`), "application/json")
	resp.OnFinal = pick(g, "", run.OnFinalCancel, run.OnFinalDetach, run.OnFinalDetach)
	for _, c := range untaken(r) {
		if !c.Background && !g.one(12) {
			resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Message: pick(g, "", "no more")})
		}
	}
	if resp.OnFinal == run.OnFinalDetach && g.one(2) {
		resp.ToolCalls = []run.ToolCall{{ToolCallID: "last", Tool: "notify", Background: !g.one(6)}}
	}
}

func (g *Gen) goOn(e *run.Event, r run.Run) {
	resp := e.Response
	resp.Wake = pick(g, "", run.WakeAll, run.WakeAny, run.WakeAny)
	resp.WakeOnInput = g.one(4)
	if g.one(4) {
		resp.Await = run.AwaitInput
	}
	if g.one(4) {
		resp.Output = json.RawMessage(`"so far"`)
	}
	if !g.one(3) {
		e.Checkpoint = run.Inline(fmt.Appendf(nil, `{"c":%d}`, g.draw(9)), "application/json")
	}
	if open := untaken(r); len(open) > 0 && g.one(5) {
		c := pick(g, open...)
		resp.CancelCalls = []run.CancelCall{{ToolCallID: c.ToolCallID, AskedAtStep: c.Step, Message: pick(g, "", "changed my mind")}}
	}
	// The same ids in every step, as models do it.
	ids := []string{"a", "b", "c", "d"}
	for i := range g.draw(5) {
		c := run.ToolCall{ToolCallID: ids[i], Tool: pick(g, "fetch", "fetch", "fetch", run.ToolAsk, run.ToolApprove), Background: g.one(4)}
		if g.one(2) {
			c.Input = json.RawMessage(`{"n":1}`)
		}
		if !c.Background && g.one(3) {
			c.WaitMs = int64(1 + g.draw(20))
		}
		for _, id := range ids[:i] {
			if g.one(3) {
				c.DependsOn = append(c.DependsOn, id)
			}
		}
		resp.ToolCalls = append(resp.ToolCalls, c)
	}
	if len(resp.ToolCalls) > 1 && g.one(20) {
		g.spoil(resp.ToolCalls)
	}
}

// spoil breaks a graph.
func (g *Gen) spoil(calls []run.ToolCall) {
	last := len(calls) - 1
	switch g.draw(6) {
	case 0:
		calls[last].ToolCallID = calls[0].ToolCallID
	case 1:
		calls[0].DependsOn = []string{"nobody"}
	case 2:
		calls[0].DependsOn = []string{calls[last].ToolCallID}
		calls[last].DependsOn = []string{calls[0].ToolCallID}
	case 3:
		calls[0].DependsOn = []string{calls[0].ToolCallID}
	case 4:
		calls[0].WaitMs = -1
	case 5:
		calls[0].Background, calls[0].WaitMs = true, 5
	}
}
