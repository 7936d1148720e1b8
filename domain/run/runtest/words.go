package runtest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
	"github.com/wakepoint/wakepoint/domain/run"
)

// reader turns words into fields and keeps the first thing that went wrong.
type reader struct{ err error }

func (r *reader) wrong(w domaintest.Word, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", w.Key, err)
	}
}

func (r *reader) number(w domaintest.Word) int64 {
	n, err := strconv.ParseInt(w.Value, 10, 64)
	r.wrong(w, err)
	return n
}

func (r *reader) fraction(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	r.wrong(domaintest.Word{Key: s}, err)
	return f
}

// key reads a call: the step that asked for it, a slash, its id.
func (r *reader) key(w domaintest.Word, s string) run.Key {
	step, id, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(step)
	if !ok {
		err = fmt.Errorf("a call is named step/id, not %q", s)
	}
	r.wrong(w, err)
	return run.Key{Step: n, ID: id}
}

// Create reads what a new run is made of, for example `ttl=1000 maxSteps=5 input=hello`.
// What is left out: id "r", born at 0, a second to live, three attempts of a step and 100
// ms between them, a lease of 50 ms and a grace of 30.
func Create(line string) (run.Create, error) {
	var r reader
	c := run.Create{ID: "r", TTLMs: 1000}
	c.Policy = run.Policy{LeaseMs: 50, StepAttempts: 3, CancelGraceMs: 30, StepBackoff: domain.Backoff{InitialMs: 100, Jitter: math.SmallestNonzeroFloat64}}
	for _, w := range domaintest.Words(line) {
		switch w.Key {
		case "ttl":
			c.TTLMs = r.number(w)
		case "lease":
			c.Policy.LeaseMs = r.number(w)
		case "attempts":
			c.Policy.StepAttempts = int(r.number(w))
		case "grace":
			c.Policy.CancelGraceMs = r.number(w)
		case "runDependents":
			c.Policy.RunDependents = true
		case "version":
			c.RuntimeVersion = w.Value
		case "input":
			c.Input = &run.Input{InputID: "first", Content: quoted(w.Value), Source: "user"}
		default:
			if !r.limit(&c.Limits, w) {
				r.wrong(w, fmt.Errorf("no such word"))
			}
		}
	}
	return c, r.err
}

func quoted(s string) json.RawMessage { return json.RawMessage(strconv.Quote(s)) }

func (r *reader) limit(l *run.Limits, w domaintest.Word) bool {
	switch w.Key {
	case "maxSteps":
		l.MaxSteps = int(r.number(w))
	case "maxCalls":
		l.MaxCalls = int(r.number(w))
	case "maxOpenCalls":
		l.MaxOpenCalls = int(r.number(w))
	case "maxTokens":
		l.MaxTokens = r.number(w)
	case "maxCost":
		l.MaxCostUSD = r.fraction(w.Value)
	default:
		return false
	}
	return true
}

// Event reads an event from words: its type, then for example
//
//	claim at=5 token=t1 holder=ann lease=50 version=v1
//	commit at=6 step=1 token=t1 call=a:fetch call='b:send,needs=a,input={"x":{"$from":"a"}}' wake=any
//	commit at=9 step=2 token=t2 cancel=1/b:why final='"done"' usage=model:10:5:0.25
//	call-ended at=7 call=1/a state=failed error=boom code=IO
//	approve at=8 call=1/b decision=edit input='{"x":2}' by=ann
//	input at=8 id=i1 text="go on" source=user
//
// Within a commit, options of a call stand between commas, its input last.
func Event(line string) (run.Event, error) {
	words := domaintest.Words(line)
	if len(words) == 0 {
		return run.Event{}, fmt.Errorf("an event begins with its type")
	}
	var r reader
	e := run.Event{Type: run.EventType(words[0].Key)}
	if e.Type == run.EventCommit {
		e.Response = &run.StepResponse{}
	}
	for _, w := range words[1:] {
		known := e.Type == run.EventCommit && r.commit(&e, w)
		if !known && !r.common(&e, w) && !r.ofCall(&e, w) && !r.fault(&e, w) {
			r.wrong(w, fmt.Errorf("no such word"))
		}
	}
	if e.Type == run.EventCommit {
		if e.Error != nil {
			e.Response.Error, e.Error = e.Error, nil
		}
		e.Digest = run.Digest(*e.Response, e.Checkpoint, e.Final)
	}
	return e, r.err
}

func (r *reader) common(e *run.Event, w domaintest.Word) bool {
	switch w.Key {
	case "at":
		e.AtMs = r.number(w)
	case "step":
		e.Step = int(r.number(w))
	case "token":
		e.Token = w.Value
	case "holder":
		e.Holder = w.Value
	case "lease":
		e.LeaseMs = r.number(w)
	case "version":
		e.RuntimeVersion = w.Value
	case "by":
		e.By = w.Value
	case "reason":
		e.Reason = w.Value
	case "jitter":
		e.Jitter = r.fraction(w.Value)
	case "ttl":
		e.TTLMs = r.number(w)
	case "id", "text", "source":
		r.input(e, w)
	default:
		if e.Type != run.EventRetry {
			return false
		}
		l := run.Limits{}
		if e.Limits != nil {
			l = *e.Limits
		}
		e.Limits = &l
		return r.limit(&l, w)
	}
	return true
}

func (r *reader) input(e *run.Event, w domaintest.Word) {
	in := run.Input{}
	if e.Input != nil {
		in = *e.Input
	}
	switch w.Key {
	case "id":
		in.InputID = w.Value
	case "text":
		in.Content = quoted(w.Value)
	case "source":
		in.Source = w.Value
	}
	e.Input = &in
}

// ofCall reads what happens to a call.
func (r *reader) ofCall(e *run.Event, w domaintest.Word) bool {
	var started run.Started
	if e.Started != nil {
		started = *e.Started
	}
	var end run.End
	if e.End != nil {
		end = *e.End
	}
	var decides run.Approval
	if e.Decides != nil {
		decides = *e.Decides
	}
	switch w.Key {
	case "call":
		e.Call = r.key(w, w.Value)
		return true
	case "answer":
		e.Answer = []byte(w.Value)
		return true
	case "task":
		started.TaskID = w.Value
	case "run":
		started.SubRunID = w.Value
	case "until":
		started.UntilMs = r.number(w)
	case "state":
		end.State = run.CallState(w.Value)
	case "ref":
		end.ResultRef = w.Value
	case "result":
		end.Answer = []byte(w.Value)
	case "usage":
		end.Usage = append(end.Usage, r.usage(w))
	case "decision":
		decides.Decision = w.Value
	case "input":
		decides.Input = json.RawMessage(w.Value)
	case "message":
		decides.Message = w.Value
	default:
		return false
	}
	switch w.Key {
	case "task", "run", "until":
		e.Started = &started
	case "state", "ref", "result", "usage":
		e.End = &end
	default:
		e.Decides = &decides
	}
	return true
}

// fault reads what a failure consists of. That of a call is its end's.
func (r *reader) fault(e *run.Event, w domaintest.Word) bool {
	to := &e.Error
	if e.Type == run.EventCallEnded {
		if e.End == nil {
			e.End = &run.End{}
		}
		to = &e.End.Error
	}
	fault := domain.TaskError{}
	if *to != nil {
		fault = **to
	}
	switch w.Key {
	case "error":
		fault.Message = w.Value
	case "code":
		fault.Code = w.Value
	case "retryable":
		fault.Retryable = true
	case "details":
		fault.Details = json.RawMessage(w.Value)
	default:
		return false
	}
	*to = &fault
	return true
}

func (r *reader) commit(e *run.Event, w domaintest.Word) bool {
	resp := e.Response
	switch w.Key {
	case "call":
		resp.ToolCalls = append(resp.ToolCalls, r.toolCall(w))
	case "cancel":
		k, message, _ := strings.Cut(w.Value, ":")
		key := r.key(w, k)
		resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: key.ID, AskedAtStep: key.Step, Message: message})
	case "wake":
		resp.Wake = run.Wake(w.Value)
	case "wakeOnInput":
		resp.WakeOnInput = true
	case "await":
		resp.Await = run.AwaitInput
		if w.Value != "" {
			resp.Await = w.Value
		}
	case "output":
		resp.Output = json.RawMessage(w.Value)
	case "final":
		e.Final = run.Inline([]byte(w.Value), "application/json")
	case "checkpoint":
		e.Checkpoint = run.Inline([]byte(w.Value), "application/json")
	case "format":
		resp.CheckpointFormat = w.Value
	case "version":
		resp.RuntimeVersion = w.Value
	case "onFinal":
		resp.OnFinal = w.Value
	case "usage":
		resp.Usage = append(resp.Usage, r.usage(w))
	default:
		return false
	}
	return true
}

func (r *reader) usage(w domaintest.Word) run.Usage {
	parts := strings.Split(w.Value, ":")
	if len(parts) != 4 {
		r.wrong(w, fmt.Errorf("must be model:in:out:cost, not %q", w.Value))
		return run.Usage{}
	}
	return run.Usage{Model: parts[0], InputTokens: int64(r.fraction(parts[1])), OutputTokens: int64(r.fraction(parts[2])), CostUSD: r.fraction(parts[3])}
}

func (r *reader) toolCall(w domaintest.Word) run.ToolCall {
	options, input, _ := strings.Cut(w.Value, ",input=")
	parts := strings.Split(options, ",")
	id, tool, _ := strings.Cut(parts[0], ":")
	c := run.ToolCall{ToolCallID: id, Tool: tool, Input: json.RawMessage(input)}
	if input == "" {
		c.Input = nil
	}
	for _, p := range parts[1:] {
		key, value, _ := strings.Cut(p, "=")
		option := domaintest.Word{Key: key, Value: value}
		switch key {
		case "needs":
			c.DependsOn = strings.Split(value, "+")
		case "background":
			c.Background = true
		case "wait":
			c.WaitMs = r.number(option)
		case "ttl":
			c.TTLMs = r.number(option)
		case "key":
			c.IdempotencyKey = value
		default:
			r.wrong(option, fmt.Errorf("no such option of a call"))
		}
	}
	return c
}
