package domaintest

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/domain"
)

// memory is what the oracle keeps of a callback: all of it.
type memory struct {
	body     string
	delivery string
	verdict  Verdict
}

// body is everything a callback says, as text; two callbacks with one body are
// the same callback. When it came and which way is not part of it.
func body(e domain.Event) string {
	e.AtMs, e.OccurredAtMs, e.RetryAtMs, e.Source = 0, 0, 0, ""
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Sprintf("unreadable: %+v", e)
	}
	return string(raw)
}

// Receive answers one callback at nowMs and remembers it; false means that it
// is invalid.
func (o *Oracle) Receive(c domain.Callback, nowMs int64) (Verdict, bool) {
	if blankText(c.CallbackID) || len(c.CallbackID) > 200 || !utf8.ValidString(c.CallbackID) {
		return invalid()
	}
	before, seen := o.seen[c.CallbackID]
	if seen {
		v := Verdict{Reason: "duplicate-callback", Duplicate: true}
		if before.body != body(c.Event) {
			v.Conflict = true
			o.Conflicts++
			return v, true
		}
		if c.DeliveryID != "" && c.DeliveryID == before.delivery {
			// The very same delivery by another way: its own first answer.
			return before.verdict, true
		}
		o.Repeats++
		return v, true
	}
	// Sizes and encodings are no matter of judgement, so the oracle has no
	// opinion of its own on them.
	if !outside(c.Event.Type) || c.Event.Validate() != nil {
		return invalid()
	}
	e := c.Event
	if e.AtMs == 0 || e.AtMs > nowMs {
		e.AtMs = nowMs
	}
	e.Jitter = domain.LotFor(o.ID, o.Attempts)
	v, ok := o.Apply(e)
	if !ok {
		return invalid()
	}
	o.seen[c.CallbackID] = memory{body: body(c.Event), delivery: c.DeliveryID, verdict: v}
	o.order = append(o.order, c.CallbackID)
	if len(o.order) > 8192 {
		delete(o.seen, o.order[0])
		o.order = o.order[1:]
	}
	return v, true
}

// Refuses tells whether the validator of an update turns a valid callback away,
// and with which verdict: by default all that would change nothing, except a
// heartbeat, which is news although no change; when strict, nothing.
func (o *Oracle) Refuses(c domain.Callback, nowMs int64) (Verdict, bool) {
	if o.Strict {
		return Verdict{}, false
	}
	trial := o.Clone()
	version := trial.Version
	v, ok := trial.Receive(c, nowMs)
	if !ok || trial.Version != version || v.Reason == "heartbeat" && !o.remembers(c) {
		return Verdict{}, false
	}
	return v, true
}

func (o *Oracle) remembers(c domain.Callback) bool {
	_, seen := o.seen[c.CallbackID]
	return seen
}

// Clone copies the oracle with all that it remembers.
func (o *Oracle) Clone() *Oracle {
	c := *o
	c.History = append([]Line(nil), o.History...)
	c.Notified = append([]string(nil), o.Notified...)
	c.Asked = append([]string(nil), o.Asked...)
	c.order = append([]string(nil), o.order...)
	c.Guests = append([]Guest(nil), o.Guests...)
	c.Answers = map[string]string{}
	for k, v := range o.Answers {
		c.Answers[k] = v
	}
	c.seen = map[string]memory{}
	for k, v := range o.seen {
		c.seen[k] = v
	}
	return &c
}

// Differences lists where a task disagrees with the oracle; none means that
// both are the same.
func (o *Oracle) Differences(t domain.Task) []string {
	var out []string
	check := func(field string, want, got any) {
		if want != got {
			out = append(out, fmt.Sprintf("%s: oracle %v, domain %v", field, want, got))
		}
	}
	check("id", o.ID, t.ID)
	check("state", o.State, string(t.State))
	check("version", o.Version, t.Version)
	check("expiresAtMs", o.ExpiresAtMs, t.ExpiresAtMs)
	check("attempts", o.Attempts, t.Attempts)
	check("maxAttempts", o.MaxAttempts, t.MaxAttempts)
	check("progress", o.Progress, t.Progress)
	check("resultRef", o.ResultRef, t.ResultRef)
	check("resultHash", o.ResultHash, t.ResultHash)
	check("submission", o.Submission, t.Submission)
	check("retries", o.Retries, t.Retries)
	check("retryAtMs", o.RetryAtMs, t.RetryAtMs)
	check("cancel asked", o.CancelAsked, t.Cancel != nil)
	check("suspected", o.Suspected, t.SuspectedAtMs != 0)
	code, text := "", ""
	if t.Error != nil {
		code, text = t.Error.Code, t.Error.Message
	}
	check("error code", o.ErrorCode, code)
	check("error text", o.ErrorText, text)
	confirmed := ""
	if t.Confirmed != nil {
		confirmed = map[bool]string{true: "yes", false: "no"}[*t.Confirmed]
	}
	check("confirmed", o.Confirmed, confirmed)
	late := ""
	if t.Late != nil {
		late = t.Late.ResultHash
	}
	check("late result", o.LateHash, late)
	o.comparePeople(t, check)
	if !t.State.Terminal() {
		check("stage", o.Stage, t.Stage)
		o.compareQuestions(t, check)
	}
	newest := o.History[max(len(o.History)-domain.HistoryLimit, 0):]
	check("length of the history", len(newest), len(t.History))
	for i := range min(len(newest), len(t.History)) {
		h := t.History[i]
		check("history", newest[i], Line{Version: h.Version, Type: string(h.Event.Type), AtMs: h.Event.AtMs})
	}
	return out
}

func (o *Oracle) compareQuestions(t domain.Task, check func(string, any, any)) {
	var asked []string
	for _, q := range t.Questions {
		asked = append(asked, q.QuestionID)
		answer := ""
		if q.AnsweredAtMs != 0 {
			answer = string(q.Answer)
		}
		check("answer to "+q.QuestionID, o.Answers[q.QuestionID], answer)
	}
	check("questions", strings.Join(o.Asked, " "), strings.Join(asked, " "))
}
