package runtest

import (
	"encoding/json"
	"fmt"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// Gen makes runs and events that are worth trying: mostly plausible, often at a border,
// sometimes wrong. The same draws give the same sequence.
type Gen struct {
	// draw gives a number in 0..n-1.
	draw func(n int) int
	// now is the time of the last event, in ms.
	now  int64
	ids  int
	sent []run.Event // commits, to be repeated
}

// NewGen draws from a seed.
func NewGen(seed uint64) *Gen {
	return &Gen{draw: func(n int) int {
		// Splitmix64: the package keeps the domain's rule of no math/rand, and a
		// sequence of tests has to stay the same in every version of Go.
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return int((z ^ z>>31) >> 1 % uint64(n))
	}}
}

// GenFrom draws from bytes, as a fuzzer changes them; when they are used up it draws
// zeros.
func GenFrom(data []byte) *Gen {
	return &Gen{draw: func(n int) int {
		if len(data) == 0 || n <= 0 {
			return 0
		}
		b := int(data[0])
		data = data[1:]
		return b % n
	}}
}

func (g *Gen) one(in int) bool { return g.draw(in) == 0 }

func pick[T any](g *Gen, from ...T) T { return from[g.draw(len(from))] }

// Create draws what a run is made of.
func (g *Gen) Create() run.Create {
	c := run.Create{ID: "r", NowMs: int64(g.draw(3)), TTLMs: int64(pick(g, 100, 400, 1000, 1000))}
	c.Policy = run.Policy{
		LeaseMs: int64(pick(g, 0, 9, 30)), StepAttempts: pick(g, 0, 1, 2, 3), CancelGraceMs: int64(pick(g, 0, 5, 20)), RunDependents: g.one(3),
		StepBackoff: domain.Backoff{InitialMs: int64(pick(g, 1, 5, 20)), Jitter: pick(g, 0.0, 0.5)},
	}
	c.Limits = run.Limits{
		MaxSteps: pick(g, 0, 0, 3, 12), MaxCalls: pick(g, 0, 0, 6, 20), MaxOpenCalls: pick(g, 0, 0, 4, 7),
		MaxTokens: int64(pick(g, 0, 0, 40)), MaxCostUSD: pick(g, 0.0, 0, 3),
	}
	c.RuntimeVersion = pick(g, "", "", "v1")
	if !g.one(4) {
		c.Input = &run.Input{InputID: "first", Content: json.RawMessage(`"hello"`), Source: "user"}
	}
	return c
}

// anything is drawn from once in a while, whatever the run waits for.
var anything = append(run.EventTypes(), "nonsense")

// Event draws an event for a run as it stands.
func (g *Gen) Event(r run.Run) run.Event {
	g.now += int64(pick(g, 0, 0, 1, 1, 1, 2, 3))
	if g.one(120) {
		g.now += int64(pick(g, 20, 100, 1000))
	}
	var e run.Event
	due, brought := run.Due(r, g.now)
	switch {
	case brought && !g.one(4):
		return due
	case len(g.sent) > 0 && g.one(12):
		e = g.again(r)
	case g.one(16):
		e = g.fill(r, pick(g, anything...))
	default:
		e = g.fill(r, g.likely(r))
	}
	e.AtMs, e.Jitter = g.now, float64(g.draw(8))/8
	if g.one(80) {
		e.AtMs = pick(g, -1, max(g.now-5, 0))
	}
	return e
}

// again repeats a commit, now and then with another body.
func (g *Gen) again(r run.Run) run.Event {
	e := g.sent[len(g.sent)-1-g.draw(min(len(g.sent), 3))]
	switch g.draw(6) {
	case 0:
		e.Digest += "x"
	case 1:
		e.Token += "x"
	case 2:
		if r.Step != nil {
			e.Step, e.Token = r.Step.Number, r.Step.Token
		}
	}
	return e
}

// likely draws what a run as it stands waits for.
func (g *Gen) likely(r run.Run) run.EventType {
	if r.State.Terminal() {
		for _, c := range r.Calls {
			if c.Starting && g.one(2) {
				return pick(g, run.EventCallEnded, run.EventCallStarted, run.EventApprovalAsked)
			}
		}
		return pick(g, run.EventRetry, run.EventRetry, run.EventRetry, run.EventCallEnded, run.EventCallStarted, run.EventApprovalAsked, run.EventCommit, run.EventNoted)
	}
	if g.one(100) {
		return pick(g, run.EventCancel, run.EventExpire, run.EventPause, run.EventPause, run.EventPause, run.EventStepLost)
	}
	if r.Ending != nil && g.one(3) {
		return pick(g, run.EventCancel, run.EventExpire, run.EventHeartbeat, run.EventStepFailed, run.EventCommit, run.EventInput, run.EventPause, run.EventCancelTimeout)
	}
	if r.Paused && g.one(3) {
		return run.EventUnpause
	}
	if r.Step != nil && g.one(2) {
		if !r.Step.Held && !g.one(4) {
			return run.EventClaim
		}
		return pick(g, run.EventCommit, run.EventCommit, run.EventCommit, run.EventCommit, run.EventCommit, run.EventHeartbeat, run.EventStepFailed, run.EventStepLost, run.EventClaim)
	}
	if len(r.Calls) > 0 && !g.one(4) {
		return g.about(pick(g, r.Calls...))
	}
	return pick(g, run.EventInput, run.EventInput, run.EventCallEnded, run.EventNoted, run.EventPause)
}

// about draws what may happen to a call. Another call for which it fits may be drawn then.
func (g *Gen) about(c run.Call) run.EventType {
	switch {
	case c.Starting:
		return pick(g, run.EventCallStarted, run.EventCallStarted, run.EventApprovalAsked, run.EventCallEnded, run.EventWaitTimeout, run.EventWaitTimeout, run.EventCancelCall)
	case c.State == run.CallReady && (c.Tool == run.ToolAsk || c.Tool == run.ToolApprove):
		return pick(g, run.EventApprovalAsked, run.EventApprovalAsked, run.EventApprovalAsked, run.EventNoted)
	case c.State == run.CallReady:
		return pick(g, run.EventNoted, run.EventNoted, run.EventCallStarted, run.EventCallStarted, run.EventApprovalAsked, run.EventCallEnded)
	case c.State == run.CallApproval:
		return pick(g, run.EventApprove, run.EventApprove, run.EventApprove, run.EventApprove, run.EventCallTimeout)
	case c.State == run.CallAsking:
		return pick(g, run.EventAnswer, run.EventAnswer, run.EventAnswer, run.EventAnswer, run.EventCallTimeout)
	case c.Approval != nil && g.one(3):
		return run.EventApprove
	case c.Tool == run.ToolAsk && c.State == run.CallSucceeded:
		return run.EventAnswer
	case c.State == run.CallOpen:
		return pick(g, run.EventCallEnded, run.EventCallEnded, run.EventCallEnded, run.EventCallEnded, run.EventNoted, run.EventCancelCall, run.EventWaitTimeout)
	}
	return pick(g, run.EventCallEnded, run.EventNoted, run.EventInput)
}

// wanted tells for which calls an event of a type is worth trying.
func wanted(t run.EventType, c run.Call) bool {
	switch t {
	case run.EventCallStarted, run.EventApprovalAsked, run.EventNoted:
		return c.State == run.CallReady || c.Starting
	case run.EventCallEnded, run.EventCancelCall:
		return c.State == run.CallOpen || c.Starting
	case run.EventApprove:
		return c.State == run.CallApproval || c.Approval != nil
	case run.EventAnswer:
		return c.State == run.CallAsking || c.Tool == run.ToolAsk && c.State == run.CallSucceeded
	case run.EventCallTimeout:
		return c.UntilMs > 0
	case run.EventWaitTimeout:
		return c.WaitMs > 0 && !c.State.Ended()
	default:
		return true
	}
}

// call draws a call that an event may be about.
func (g *Gen) call(r run.Run, t run.EventType) run.Key {
	var fit, all []run.Key
	for _, c := range r.Calls {
		all = append(all, c.Key)
		if wanted(t, c) {
			fit = append(fit, c.Key)
		}
	}
	for _, d := range r.Detached {
		all = append(all, d.Key)
		if t == run.EventCallEnded || t == run.EventNoted {
			fit = append(fit, d.Key)
		}
	}
	switch {
	case len(fit) > 0 && !g.one(8):
		return pick(g, fit...)
	case len(all) > 0 && !g.one(8):
		return pick(g, all...)
	case len(r.Done) > 0 && g.one(2):
		return pick(g, r.Done...).Key
	}
	return run.Key{Step: max(r.StepsDone, 1), ID: pick(g, "a", "nobody")}
}

func (g *Gen) fill(r run.Run, t run.EventType) run.Event {
	e := run.Event{Type: t}
	e.Call = g.call(r, t)
	switch t {
	case run.EventClaim:
		g.ids++
		e.Token, e.Holder = fmt.Sprintf("t%d", g.ids), pick(g, "ann", "ann", "bob", "")
		e.LeaseMs, e.RuntimeVersion = int64(pick(g, 0, 0, 7, 40)), pick(g, "", "", "", "v1", "v2")
		e.Left = g.one(5)
		if g.one(30) {
			e.Token, e.LeaseMs = pick(g, " ", "t"), int64(pick(g, -1, 3))
		}
	case run.EventHeartbeat, run.EventStepFailed:
		e.Token = g.token(r)
		e.Error = g.fault()
	case run.EventCommit:
		return g.commit(r)
	case run.EventInput:
		g.ids++
		e.Input = &run.Input{InputID: pick(g, fmt.Sprintf("i%d", g.ids), fmt.Sprintf("i%d", g.draw(max(g.ids, 1))), "late-t1", "late-t2", ""), Content: json.RawMessage(pick(g, `"x"`, `"x"`, `{"y":1}`, `{`)), Source: "user"}
		if g.one(20) {
			e.Input = nil
		}
	case run.EventRetry:
		e.TTLMs = int64(pick(g, 0, 60, 300, 300, -1))
		if g.one(2) {
			e.Limits = &run.Limits{MaxSteps: r.Limits.MaxSteps + 3, MaxCalls: r.Limits.MaxCalls + 5, MaxOpenCalls: r.Limits.MaxOpenCalls, MaxTokens: r.Tokens() + 50, MaxCostUSD: r.CostUSD() + 5}
		}
	case run.EventCancel, run.EventCancelCall:
		e.By, e.Reason = pick(g, "", "ann"), pick(g, "", "enough")
	default:
		g.fillCall(&e, r)
	}
	return e
}

func (g *Gen) fillCall(e *run.Event, r run.Run) {
	switch e.Type {
	case run.EventCallStarted, run.EventApprovalAsked:
		g.ids++
		// Few tasks, so that calls share one.
		e.Started = pick(g, nil, &run.Started{TaskID: pick(g, "t1", "t2", fmt.Sprintf("t%d", g.ids))}, &run.Started{TaskID: fmt.Sprintf("t%d", g.ids)})
		if e.Type == run.EventApprovalAsked {
			e.Started = &run.Started{UntilMs: pick(g, 0, g.now+int64(g.draw(40)))}
		}
	case run.EventCallEnded:
		e.End = &run.End{State: pick(g, run.CallSucceeded, run.CallSucceeded, run.CallSucceeded, run.CallFailed, run.CallExpired, run.CallCancelled)}
		if e.End.State != run.CallSucceeded {
			e.End.Error = pick(g, nil, &domain.TaskError{Code: "IO", Message: "disk"})
		} else if g.one(3) {
			e.End.Answer, e.End.Usage = []byte(`{"n":1}`), []run.Usage{g.usage()}
		}
		if g.one(2) {
			e.End.TaskID = pick(g, "t1", "t2", fmt.Sprintf("t%d", g.ids))
		}
		if g.one(30) {
			e.End = pick(g, nil, &run.End{}, &run.End{State: run.CallOpen})
		}
	case run.EventNoted:
		e.Reason = pick(g, run.NotedStarting, run.NotedStarting, run.NotedStarting, run.NotedCancel, run.NotedDetach, run.NotedAsks, run.NotedAnswered, run.NotedInput)
		e.Answer = []byte(pick(g, `{"resolved":1}`, `{`))
		for _, c := range r.Calls {
			// What a workflow does: it tells that a task was told, and what a run below asks.
			if c.Key == e.Call && c.State == run.CallOpen && g.one(2) {
				e.Reason = pick(g, run.NotedAsks, run.NotedAnswered)
				if c.Cancel != nil {
					e.Reason = run.NotedCancel
				}
			}
		}
	case run.EventApprove:
		e.Decides = &run.Approval{Decision: pick(g, run.DecisionApprove, run.DecisionApprove, run.DecisionDeny, run.DecisionEdit, "maybe"), By: "ann"}
		if e.Decides.Decision == run.DecisionEdit || g.one(20) {
			e.Decides.Input = json.RawMessage(pick(g, `{"e":1}`, `{"e":1}`, `{"e":2}`, `{`))
		}
		if g.one(30) {
			e.Decides = nil
		}
	case run.EventAnswer:
		e.Answer = []byte(pick(g, `1`, `1`, `2`, `{`, ``))
	default:
	}
}

func (g *Gen) token(r run.Run) string {
	if r.Step != nil && !g.one(8) {
		return r.Step.Token
	}
	return pick(g, "", fmt.Sprintf("t%d", g.draw(g.ids+1)))
}

func (g *Gen) fault() *domain.TaskError {
	return pick(g, nil, &domain.TaskError{Code: "MODEL", Message: "busy", Retryable: true}, &domain.TaskError{Code: "MODEL", Message: "busy", Retryable: true}, &domain.TaskError{Code: "BROKEN", Message: "for good"})
}

func (g *Gen) usage() run.Usage {
	return run.Usage{Model: pick(g, "m1", "m2"), InputTokens: int64(g.draw(6)), OutputTokens: int64(g.draw(4)), CostUSD: float64(g.draw(3)) / 4}
}
