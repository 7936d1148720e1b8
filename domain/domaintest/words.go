package domaintest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// Word is one part of a line: a bare word, or a key and its value.
type Word struct{ Key, Value string }

// Words splits a line at blanks. A value in double quotes may hold blanks, in
// single quotes also double quotes (for JSON).
func Words(line string) []Word {
	var out []Word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var quote rune
		end := strings.IndexFunc(line, func(r rune) bool {
			switch {
			case quote == 0 && (r == '"' || r == '\''):
				quote = r
			case r == quote:
				quote = 0
			}
			return quote == 0 && r == ' '
		})
		if end < 0 {
			end = len(line)
		}
		key, value, _ := strings.Cut(line[:end], "=")
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		out = append(out, Word{key, value})
		line = line[end:]
	}
	return out
}

// reader turns values into fields and keeps the first thing that went wrong.
type reader struct{ err error }

func (r *reader) number(w Word) int64 {
	n, err := strconv.ParseInt(w.Value, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", w.Key, err)
	}
	return n
}

func (r *reader) fraction(w Word) float64 {
	f, err := strconv.ParseFloat(w.Value, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", w.Key, err)
	}
	return f
}

func (r *reader) unknown(w Word) {
	if r.err == nil {
		r.err = fmt.Errorf("no word %q", w.Key)
	}
}

// Event reads an event from words: its type, then for example
// `at=20 attempt=1 progress=30 stage=build`.
func Event(line string) (domain.Event, error) {
	words := Words(line)
	if len(words) == 0 {
		return domain.Event{}, fmt.Errorf("an event begins with its type")
	}
	var r reader
	e := domain.Event{Type: domain.EventType(words[0].Key)}
	for _, w := range words[1:] {
		if !r.text(&e, w) && !r.value(&e, w) && !r.waiter(&e, w) && !r.fault(&e, w) {
			r.unknown(w)
		}
	}
	return e, r.err
}

func (r *reader) text(e *domain.Event, w Word) bool {
	to, ok := map[string]*string{
		"worker": &e.Worker, "cursor": &e.Cursor, "stage": &e.Stage, "ref": &e.ResultRef, "hash": &e.ResultHash,
		"contentType": &e.ContentType, "question": &e.QuestionID, "prompt": &e.Prompt, "by": &e.By, "reason": &e.Reason, "source": &e.Source,
		"action": &e.Action, "waiterId": &e.WaiterID, "compensation": &e.Compensation,
	}[w.Key]
	if ok {
		*to = w.Value
	}
	return ok
}

func (r *reader) value(e *domain.Event, w Word) bool {
	switch w.Key {
	case "at":
		e.AtMs = r.number(w)
	case "attempt":
		e.Attempt = int(r.number(w))
	case "progress":
		f := r.fraction(w)
		e.Progress = &f
	case "bytes":
		e.Bytes = r.number(w)
	case "ttl":
		e.TTLMs = r.number(w)
	case "retryAfter":
		e.RetryAfterMs = r.number(w)
	case "occurred":
		e.OccurredAtMs = r.number(w)
	case "jitter":
		e.Jitter = r.fraction(w)
	case "stopped":
		e.Stopped = true
	case "begun":
		e.Begun = true
	case "result":
		e.Result = json.RawMessage(w.Value)
	case "schema":
		e.Schema = json.RawMessage(w.Value)
	case "answer":
		e.Answer = json.RawMessage(w.Value)
	default:
		return false
	}
	return true
}

// waiter reads who begins to wait.
func (r *reader) waiter(e *domain.Event, w Word) bool {
	waiter := domain.Waiter{}
	if e.Waiter != nil {
		waiter = *e.Waiter
	}
	switch w.Key {
	case "waiter":
		waiter.ID = w.Value
	case "run":
		waiter.RunID = w.Value
	case "call":
		waiter.ToolCallID = w.Value
	default:
		return false
	}
	e.Waiter = &waiter
	return true
}

// fault reads what a failure consists of.
func (r *reader) fault(e *domain.Event, w Word) bool {
	if w.Key == "retryable" {
		yes := w.Value != "false"
		e.Retryable = &yes
		return true
	}
	fault := domain.TaskError{}
	if e.Error != nil {
		fault = *e.Error
	}
	switch w.Key {
	case "error":
		fault.Message = w.Value
	case "code":
		fault.Code = w.Value
	case "class":
		fault.Class = domain.Class(w.Value)
	case "severity":
		fault.Severity = domain.Severity(w.Value)
	case "details":
		fault.Details = json.RawMessage(w.Value)
	default:
		return false
	}
	e.Error = &fault
	return true
}

// Create reads what a new task is made of, for example
// `ttl=1000 max=2 strict late=record`. What is left out: id "t", born at 0, a
// second to live, two attempts, and a wait of exactly 100 ms between them.
func Create(line string) (domain.Create, error) {
	var r reader
	c := domain.Create{ID: "t", TTLMs: 1000, MaxAttempts: 2}
	c.Policy.Backoff = domain.Backoff{InitialMs: 100, Jitter: math.SmallestNonzeroFloat64}
	for _, w := range Words(line) {
		if !r.creation(&c, w) && !r.policy(&c.Policy, w) {
			r.unknown(w)
		}
	}
	return c, r.err
}

func (r *reader) creation(c *domain.Create, w Word) bool {
	switch w.Key {
	case "id":
		c.ID = w.Value
	case "now":
		c.NowMs = r.number(w)
	case "ttl":
		c.TTLMs = r.number(w)
	case "max":
		c.MaxAttempts = int(r.number(w))
	case "run":
		c.RunID = w.Value
	case "call":
		c.ToolCallID = w.Value
	default:
		return false
	}
	return true
}

func (r *reader) policy(p *domain.Policy, w Word) bool {
	switch w.Key {
	case "strict":
		p.Strict = true
	case "external":
		p.External = true
	case "late":
		p.LatePolicy = domain.LatePolicy(w.Value)
	case "grace":
		p.GraceMs = r.number(w)
	case "effects":
		p.Effects = domain.Effects(w.Value)
	case "unknown":
		p.OnUnknown = domain.OnUnknown(w.Value)
	case "expectsCallback":
		p.ExpectsCallback = true
	case "showsStall":
		p.ShowsStall = true
	case "lease":
		p.LeaseMs = r.number(w)
	case "stall":
		p.StallMs = r.number(w)
	case "cancelGrace":
		p.CancelGraceMs = r.number(w)
	case "wait":
		p.Backoff.InitialMs = r.number(w)
	default:
		return false
	}
	return true
}
