package domaintest

import (
	"encoding/json"
	"fmt"

	"github.com/wakepoint/wakepoint/domain"
)

// Gen makes tasks, events and callbacks that are worth trying: mostly
// plausible, often at a border, sometimes wrong. The same draws give the same
// sequence.
type Gen struct {
	// draw gives a number in 0..n-1.
	draw func(n int) int
	// now is the time of the last event, in ms.
	now int64
	ids int
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

// GenFrom draws from bytes, as a fuzzer changes them; when they are used up it
// draws zeros.
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

// Create draws what a task is made of.
func (g *Gen) Create() domain.Create {
	c := domain.Create{
		ID: "t", NowMs: int64(g.draw(3)), TTLMs: int64(pick(g, 20, 60, 200)), MaxAttempts: pick(g, 1, 2, 3, 5),
	}
	c.Policy.Strict = g.one(3)
	c.Policy.LatePolicy = pick(g, domain.LatePolicy(""), domain.LateReject, domain.LateRecord, domain.LateRecord)
	c.Policy.GraceMs = int64(pick(g, 0, 10, 30))
	c.Policy.Effects = pick(g, domain.Effects(""), domain.EffectsIdempotent, domain.EffectsUnsafe, domain.EffectsUnsafe, domain.EffectsNone)
	c.Policy.OnUnknown = pick(g, domain.OnUnknown(""), domain.UnknownFail, domain.UnknownManual, domain.UnknownManual, domain.UnknownManual)
	c.Policy.ExpectsCallback, c.Policy.ShowsStall = g.one(2), g.one(2)
	c.Policy.StallMs = int64(pick(g, 0, 4))
	c.RunID, c.ToolCallID = pick(g, "", "run-1"), pick(g, "", "call 1")
	c.Policy.External = g.one(2)
	c.Policy.Backoff = domain.Backoff{InitialMs: int64(pick(g, 0, 1, 5)), Factor: pick(g, 0, 1, 3.5), MaxMs: int64(pick(g, 0, 20))}
	c.Policy.CancelGraceMs = int64(pick(g, 0, 7))
	c.Policy.LeaseMs = int64(pick(g, 0, 9))
	return c
}

// weighted is how often each type is drawn. What ends a task is rare, or no
// sequence would get far.
var weighted = []domain.EventType{
	domain.EventStart, domain.EventStart, domain.EventStart, domain.EventStart, domain.EventStart, domain.EventStart, domain.EventStart,
	domain.EventProgress, domain.EventProgress, domain.EventProgress, domain.EventProgress, domain.EventProgress,
	domain.EventHeartbeat, domain.EventHeartbeat, domain.EventFail, domain.EventFail, domain.EventSucceed,
	domain.EventInputRequired, domain.EventInputRequired, domain.EventInputRequired, domain.EventInputRequired,
	domain.EventAnswer, domain.EventAnswer, domain.EventAnswer, domain.EventAnswer, domain.EventAnswer, domain.EventAnswer, domain.EventCancelled,
	domain.EventCancelRequested, domain.EventCancelTimeout, domain.EventSuspect, domain.EventSuspect, domain.EventLeaseRenewed,
	domain.EventRequeue, domain.EventRequeue, domain.EventRetry, domain.EventRetry, domain.EventRetry, domain.EventExpire, "nonsense",
	domain.EventAttach, domain.EventAttach, domain.EventDetach, domain.EventResolve, domain.EventCompensated,
	domain.EventCancelRequested, domain.EventCancelRequested, domain.EventCancelTimeout,
}

// whileManual is drawn from, two times of three, while a person looks for the work.
var whileManual = []domain.EventType{
	domain.EventResolve, domain.EventResolve, domain.EventCompensated, domain.EventCompensated, domain.EventCompensated, domain.EventCompensated,
	domain.EventHeartbeat, domain.EventLeaseRenewed, domain.EventSuspect, domain.EventRequeue, domain.EventSucceed, domain.EventFail,
	domain.EventCancelRequested, domain.EventCancelTimeout, domain.EventRequeue,
}

// Event draws an event for a task as it stands.
func (g *Gen) Event(t domain.Task) domain.Event {
	e := domain.Event{Type: pick(g, weighted...), AtMs: g.time(t), Attempt: g.attempt(t), Jitter: float64(g.draw(8)) / 8}
	if t.Manual != nil && !g.one(3) {
		e.Type = pick(g, whileManual...)
		if t.Cancel != nil && g.one(2) {
			e.Type = pick(g, domain.EventResolve, domain.EventCompensated)
		}
	}
	if e.Type == domain.EventExpire && !g.one(4) {
		e.Type = domain.EventProgress
	}
	g.fill(&e, t)
	return e
}

func (g *Gen) time(t domain.Task) int64 {
	g.now += int64(pick(g, 0, 0, 0, 1, 1, 2))
	switch g.draw(90) {
	case 0:
		return -1
	case 1:
		return t.ExpiresAtMs - 1
	case 2:
		return t.ExpiresAtMs
	case 3:
		return t.ExpiresAtMs + int64(g.draw(40))
	case 4, 5, 6:
		return max(g.now-5, 0)
	}
	return g.now
}

func (g *Gen) attempt(t domain.Task) int {
	switch g.draw(24) {
	case 0:
		return t.Attempts + 1
	case 1:
		return max(t.Attempts-1, 0)
	case 2:
		return g.draw(6)
	}
	if t.Retries == 0 && g.one(2) {
		return 0
	}
	if t.State == domain.StateQueued {
		return t.Attempts + 1
	}
	return t.Attempts
}

// fill adds what events of the type carry, now and then something else too.
func (g *Gen) fill(e *domain.Event, t domain.Task) {
	stray := g.one(12)
	if e.Type == domain.EventProgress || stray {
		g.progress(e, t)
	}
	if e.Type == domain.EventSucceed || stray {
		e.ResultHash = pick(g, "h1", "h1", "h2", "h2", " ", "")
		e.ResultRef = pick(g, "r1", "r1", "r2", "r2", "\t", "")
	}
	if e.Type == domain.EventFail || e.Type == domain.EventRequeue || stray {
		e.Error = pick(g, nil, &domain.TaskError{Message: "boom"}, &domain.TaskError{Code: "IO", Message: "disk", Retryable: true}, &domain.TaskError{Code: domain.CodeTimeout, Message: "slow"})
		e.Retryable = pick(g, nil, yes(true), yes(true), yes(false))
		e.Stopped = g.one(2)
		e.RetryAfterMs = int64(pick(g, 0, 0, 3, 11, domain.MaxRetryAfterMs+1))
	}
	if e.Type == domain.EventCancelRequested || e.Type == domain.EventExpire || stray {
		e.Begun = g.one(2)
	}
	g.people(e, t, stray)
	if e.Type == domain.EventInputRequired || e.Type == domain.EventAnswer || stray {
		e.QuestionID = pick(g, "q1", "q1", "q1", "q2", "q2", "q2", fmt.Sprintf("q%d", g.draw(40)), " ")
		e.Prompt = pick(g, "why?", "why?", "why?", "")
		e.Answer = json.RawMessage(pick(g, "1", `{"a":1,"b":2}`, `{"a":1,"b":2}`, `{ "b":2, "a":1 }`, ""))
	}
	if e.Type == domain.EventAnswer && len(t.Questions) > 0 && !g.one(4) {
		e.QuestionID = t.Questions[g.draw(len(t.Questions))].QuestionID
	}
	if e.Type == domain.EventRetry {
		e.TTLMs = int64(pick(g, 50, 50, 90, 0, -1))
	}
	if g.one(6) {
		e.Stage = pick(g, "fetch", "build")
	}
}

// people adds who waits, and what a person or an undoing says.
func (g *Gen) people(e *domain.Event, t domain.Task, stray bool) {
	if e.Type == domain.EventAttach || stray {
		e.Waiter = pick(g, nil,
			&domain.Waiter{ID: "b", RunID: "run-2", ToolCallID: "call 2"}, &domain.Waiter{ID: "b"}, &domain.Waiter{ID: "c", RunID: "run-3"},
			&domain.Waiter{ID: "d", LeftAtMs: 3, LeftFor: "x"}, &domain.Waiter{ID: domain.WaiterSubmitter, RunID: "run-1"}, &domain.Waiter{ID: "d", RunID: "no id"},
			&domain.Waiter{ID: "no id"})
	}
	if e.Type == domain.EventDetach || e.Type == domain.EventCancelRequested || stray {
		e.WaiterID = pick(g, "", "", domain.WaiterSubmitter, domain.WaiterSubmitter, "b", "c", "nobody")
		e.Reason = pick(g, "", domain.DetachWaitTimeout, domain.DetachWaitTimeout, "dear")
	}
	if e.Type == domain.EventRequeue || stray {
		e.Compensation = pick(g, "", "undo-1", "undo-2")
	}
	if e.Type == domain.EventResolve {
		e.Action = pick(g, domain.ResolveSucceeded, domain.ResolveFailed, domain.ResolveRepeat, domain.ResolveRepeat, "guess")
		e.ResultRef, e.ResultHash = pick(g, "r1", "r1", ""), pick(g, "h1", "h1", "")
		e.Error = pick(g, nil, &domain.TaskError{Code: "REFUSED", Message: "no"})
		e.By = pick(g, "", "ann")
	}
	if e.Type == domain.EventCompensated {
		e.Compensation = pick(g, "", "undo-1", "undo-2")
		e.Error = pick(g, nil, nil, nil, &domain.TaskError{}, &domain.TaskError{Message: "stuck"}, &domain.TaskError{Message: "refused"})
		e.RetryAfterMs = int64(pick(g, 0, 9))
		if m := t.Manual; m != nil && !g.one(5) {
			e.Compensation = m.Compensation
		}
	}
	if g.one(5) {
		e.Source = pick(g, "probe", "timer", "ci")
	}
}

func yes(b bool) *bool { return &b }

func (g *Gen) progress(e *domain.Event, t domain.Task) {
	p := float64(t.Progress)
	switch g.draw(16) {
	case 0:
		p = pick(g, 0.5, -1, 101, 1e300)
	case 1:
		return
	case 2, 3:
	case 4:
		p = max(p-1, 0)
	case 5:
		p = float64(g.draw(101))
	default:
		p = min(p+float64(g.draw(8)), 100)
	}
	e.Progress = &p
}

// Callback draws a callback: now and then a repeat of the id of an earlier
// one, with the same body or another, by the same delivery or another.
func (g *Gen) Callback(t domain.Task, earlier []domain.Callback) (domain.Callback, int64) {
	e := g.Event(t)
	now := max(e.AtMs+int64(pick(g, 0, 0, 0, -3, 20)), 0)
	if len(earlier) > 0 && g.one(4) {
		c := pick(g, earlier...)
		switch g.draw(3) {
		case 0:
			c.Event = e
		case 1:
			c.DeliveryID += "'"
		}
		return c, now
	}
	g.ids++
	return domain.Callback{CallbackID: fmt.Sprintf("cb-%d", g.ids), DeliveryID: fmt.Sprintf("d-%d", g.draw(3)), Event: e}, now
}
