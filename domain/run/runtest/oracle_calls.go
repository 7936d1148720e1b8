package runtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wakepoint/wakepoint/domain/run"
)

// squeezed is JSON without what says nothing.
func squeezed(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return out.String()
}

func (o *Oracle) call(e run.Event) (Verdict, bool) {
	j := o.find(e.Call)
	key := fmt.Sprintf("%d/%s", e.Call.Step, e.Call.ID)
	switch e.Type {
	case run.EventNoted:
		asked := j != nil && j.asks
		o.noted(e, j, key)
		if j != nil && !run.State(o.State()).Terminal() && j.where == "open" && j.asks != asked {
			return o.change(e.AtMs, "asks-below")
		}
		return o.note(e.AtMs, "noted")
	case run.EventCallEnded:
		return o.callEnded(e, j, key)
	default:
	}
	if j == nil {
		return o.refuse("unknown-call")
	}
	if e.Type == run.EventCallStarted {
		return o.callStarted(e, j)
	}
	if j.ended() {
		j.starting = false
		return o.note(e.AtMs, "noted")
	}
	if j.where == "blocked" {
		return o.refuse("unchanged")
	}
	if j.where == "approval" || j.where == "asking" || j.where == "open" || j.decision != "" {
		return o.repeat("unchanged")
	}
	if o.End != "" || j.givenUp {
		j.finish("cancelled", "CANCELLED")
		return o.change(e.AtMs, "call-ended")
	}
	j.where, j.starting = "approval", false
	if j.tool == "wakepoint.ask" {
		j.where = "asking"
	}
	if e.Started != nil {
		j.until, j.task = e.Started.UntilMs, e.Started.TaskID
	}
	return o.change(e.AtMs, "approval-asked")
}

func (o *Oracle) callStarted(e run.Event, j *job) (Verdict, bool) {
	if j.ended() {
		was := j.starting
		j.starting = false
		if e.Started != nil && j.task == "" && was && j.code == "WAIT_TIMEOUT" {
			o.Left = append(o.Left, left{key: j.key(), task: e.Started.TaskID})
		}
		return o.note(e.AtMs, "noted")
	}
	if j.where == "blocked" || j.where == "approval" || j.where == "asking" {
		return o.refuse("unchanged")
	}
	if j.where == "open" {
		return o.repeat("unchanged")
	}
	j.where, j.starting = "open", false
	if e.Started != nil {
		j.task, j.until = e.Started.TaskID, e.Started.UntilMs
	}
	return o.change(e.AtMs, "call-started")
}

func (o *Oracle) noted(e run.Event, j *job, key string) {
	if j != nil {
		switch e.Reason {
		case "starting":
			j.starting = j.where == "ready"
		case "cancel-sent":
			j.told = true
		case "asks":
			j.asks = true
		case "answered":
			j.asks = false
		case "input":
			if json.Valid(e.Answer) && j.taken == 0 && (!o.Due || !slices.Contains(o.About, key)) {
				j.input = string(e.Answer)
			}
		}
	}
	if i := o.leftAt(key); i >= 0 && e.Reason == "detach-sent" {
		o.Left[i].sent = true
	}
}

func (o *Oracle) callEnded(e run.Event, j *job, key string) (Verdict, bool) {
	if e.End == nil || !(&job{where: string(e.End.State)}).ended() {
		return invalid()
	}
	i := o.leftAt(key)
	if o.End == "" && (i >= 0 || j != nil && j.starting && j.where == "failed" && j.code == "WAIT_TIMEOUT") {
		task := ""
		if i >= 0 {
			task = o.Left[i].task
			o.Left = slices.Delete(o.Left, i, i+1)
		} else {
			j.starting = false
			task = e.End.TaskID
		}
		o.use(e.End.Usage)
		if len(o.Waiting) < run.MaxInputs {
			name := orElse(task, strings.Replace(key, "/", "-", 1))
			id := "late-" + name
			for n := 2; o.Known[id] != ""; n++ {
				id = fmt.Sprintf("late-%s-%d", name, n)
			}
			o.hear(id, "task|late")
		}
		return o.change(e.AtMs, "input")
	}
	if j == nil {
		return o.refuse("unknown-call")
	}
	if j.ended() && j.starting {
		j.starting = false
		return o.note(e.AtMs, "noted")
	}
	if j.ended() {
		return o.repeat("duplicate-result")
	}
	code := ""
	if e.End.Error != nil {
		code = e.End.Error.Code
	}
	if e.End.State == "cancelled" && j.givenUp && j.giveUp != "" {
		code = "CANCELLED"
	}
	if j.task == "" {
		j.task = e.End.TaskID
	}
	j.finish(string(e.End.State), code)
	j.answer = string(e.End.Answer)
	o.use(e.End.Usage)
	return o.change(e.AtMs, "call-ended")
}

func (o *Oracle) use(usage []run.Usage) {
	for _, u := range usage {
		o.Tokens += u.InputTokens + u.OutputTokens
		o.Cost += u.CostUSD
	}
}

func (o *Oracle) person(e run.Event) (Verdict, bool) {
	j := o.find(e.Call)
	if j == nil {
		return o.refuse("unknown-call")
	}
	if e.Type == run.EventApprove {
		return o.approve(e, j)
	}
	if o.End != "" {
		return o.refuse("run-closed")
	}
	if e.Type == run.EventCancelCall {
		if j.ended() || j.givenUp {
			return o.repeat("duplicate-cancel")
		}
		j.drop(e.Reason)
		return o.change(e.AtMs, "cancel-requested")
	}
	if !json.Valid(e.Answer) {
		return invalid()
	}
	if j.tool == "wakepoint.ask" && j.where == "succeeded" {
		if j.answer == string(e.Answer) {
			return o.repeat("duplicate-answer")
		}
		return o.refuse("answer-conflict")
	}
	if j.where != "asking" {
		return o.refuse("not-asked")
	}
	j.finish("succeeded", "")
	j.answer = string(e.Answer)
	return o.change(e.AtMs, "answered")
}

func (o *Oracle) approve(e run.Event, j *job) (Verdict, bool) {
	d := e.Decides
	if d == nil {
		return invalid()
	}
	edits := d.Decision == "edit"
	if !edits && d.Decision != "approve" && d.Decision != "deny" || edits != (len(d.Input) > 0) || edits && !json.Valid(d.Input) {
		return invalid()
	}
	if j.decision != "" {
		if j.decision == d.Decision && j.edit == squeezed(d.Input) {
			return o.repeat("duplicate-answer")
		}
		return o.refuse("answer-conflict")
	}
	if o.End != "" {
		return o.refuse("run-closed")
	}
	if j.where != "approval" {
		return o.refuse("not-asked")
	}
	j.decision, j.edit, j.until = d.Decision, squeezed(d.Input), 0
	if d.Decision == "deny" {
		j.finish("denied", "DENIED")
		return o.change(e.AtMs, "denied")
	}
	if j.tool == "wakepoint.approve" {
		j.finish("succeeded", "")
		j.answer = "the decision"
	} else {
		j.where = "ready"
		if edits {
			j.input, j.edited = string(d.Input), true
		}
	}
	if edits {
		return o.change(e.AtMs, "edited")
	}
	return o.change(e.AtMs, "approved")
}

func (o *Oracle) input(e run.Event) (Verdict, bool) {
	in := e.Input
	if in == nil || in.InputID == "" || !json.Valid(in.Content) {
		return invalid()
	}
	text := in.Source + "|" + squeezed(in.Content)
	if known := o.Known[in.InputID]; known != "" {
		if known == text {
			return o.repeat("duplicate-input")
		}
		return o.refuse("input-conflict")
	}
	if o.End != "" {
		return o.refuse("run-closed")
	}
	if o.Dying != "" {
		return o.refuse("run-ending")
	}
	if len(o.Waiting) >= run.MaxInputs {
		return invalid()
	}
	o.hear(in.InputID, text)
	return o.change(e.AtMs, "input")
}

func (o *Oracle) end(e run.Event) (Verdict, bool) {
	if o.End != "" {
		return o.refuse("run-closed")
	}
	switch e.Type {
	case run.EventPause, run.EventUnpause:
		if o.Paused == (e.Type == run.EventPause) || o.Dying != "" {
			return o.repeat("unchanged")
		}
		o.Paused = !o.Paused
		if o.Paused {
			return o.change(e.AtMs, "paused")
		}
		return o.change(e.AtMs, "unpaused")
	case run.EventCancelTimeout:
		if o.Dying == "" {
			return o.refuse("unchanged")
		}
		o.die()
		return o.change(e.AtMs, "cancel-timeout")
	case run.EventCancel:
		if o.CancelSaid {
			return o.repeat("duplicate-cancel")
		}
	default:
	}
	if o.Dying != "" {
		return o.refuse("run-ending")
	}
	if e.Type == run.EventCancel {
		o.CancelSaid = true
		o.doom(e.AtMs, "CANCELLED", e.Reason)
		return o.change(e.AtMs, "cancel-requested")
	}
	o.doom(e.AtMs, "EXPIRED", "the deadline")
	return o.change(e.AtMs, "expired")
}

func (o *Oracle) impatient(e run.Event) (Verdict, bool) {
	if o.End != "" {
		return o.refuse("run-closed")
	}
	j := o.find(e.Call)
	if e.Type == run.EventCallTimeout {
		if j == nil || j.where != "approval" && j.where != "asking" {
			return o.refuse("not-asked")
		}
		if j.where == "approval" {
			j.finish("expired", "APPROVAL_TIMEOUT")
		} else {
			j.finish("expired", "ANSWER_TIMEOUT")
		}
		return o.change(e.AtMs, "timed-out")
	}
	if j == nil || j.ended() {
		return o.refuse("unchanged")
	}
	if j.where == "open" {
		o.Left = append(o.Left, left{key: j.key(), task: j.task})
	}
	starting := j.starting
	j.finish("failed", "WAIT_TIMEOUT")
	j.starting = starting
	return o.change(e.AtMs, "wait-timeout")
}

func (o *Oracle) retry(e run.Event) (Verdict, bool) {
	if o.End != "FAILED" && o.End != "EXPIRED" {
		return o.refuse("not-retriable")
	}
	if e.TTLMs < 0 || e.TTLMs == 0 && o.Deadline <= e.AtMs {
		return invalid()
	}
	o.End, o.CancelSaid, o.Paused, o.Unconfirmed, o.Spoke = "", false, false, nil, false
	for _, j := range o.Jobs {
		j.asks = false
	}
	if e.TTLMs > 0 {
		o.Deadline = e.AtMs + e.TTLMs
	}
	if l := e.Limits; l != nil {
		c := &o.create.Limits
		c.MaxSteps = max(l.MaxSteps, orElse(c.MaxSteps, 1000))
		c.MaxCalls = max(l.MaxCalls, orElse(c.MaxCalls, 5000))
		c.MaxOpenCalls = max(l.MaxOpenCalls, orElse(c.MaxOpenCalls, 50))
		c.MaxTokens, c.MaxCostUSD = max(l.MaxTokens, c.MaxTokens), max(l.MaxCostUSD, c.MaxCostUSD)
	}
	if !o.Due {
		// It ended while it was parked. What it waited for, it waits for again.
		o.dependents()
		parked := o.Await
		for _, j := range o.Jobs {
			parked = parked || !j.ended() || j.taken == 0
		}
		if parked || len(o.Waiting) > 0 {
			return o.change(e.AtMs, "retried")
		}
		o.begin("recover")
	}
	o.Cause, o.Fails, o.NotBefore = "recover", 0, 0
	return o.change(e.AtMs, "retried")
}
