package runtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wakepoint/wakepoint/domain/run"
)

func keyText(k run.Key) string { return fmt.Sprintf("%d/%s", k.Step, k.ID) }

func keys(list []run.Key) string {
	var out []string
	for _, k := range list {
		out = append(out, keyText(k))
	}
	return strings.Join(out, " ")
}

func codeOf(c run.Call) string {
	if c.Error == nil {
		return ""
	}
	return c.Error.Code
}

// differences holds a run against the oracle: what it is, what is to be done for it,
// what its runtime is asked, and what time brings.
func (o *Oracle) differences(r run.Run, now int64) []string {
	var out []string
	same := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			out = append(out, fmt.Sprintf("%s: oracle %s, domain %s", what, w, g))
		}
	}
	same("state", o.State(), r.State)
	same("version", o.Version, r.Version)
	same("steps done", o.Steps, r.StepsDone)
	same("paused", o.Paused, r.Paused)
	same("on its way to an end", o.Dying != "", r.Ending != nil)
	same("unconfirmed", strings.Join(o.Unconfirmed, " "), keys(r.Unconfirmed))
	same("tokens and cost", fmt.Sprint(o.Tokens, o.Cost), fmt.Sprint(r.Tokens(), r.CostUSD()))
	same("runtime", o.Runtime, r.RuntimeVersion)
	saved := ""
	if r.Checkpoint != nil {
		saved = r.Checkpoint.Hash
	}
	same("checkpoint", o.Saved, saved)
	same("outputs", min(o.Outputs, run.MaxOutputs), len(r.Outputs))
	same("calls", o.calls(), calls(r))
	var left []string
	for _, l := range o.Left {
		left = append(left, fmt.Sprint(l.key, l.task, l.sent))
	}
	var detached []string
	for _, d := range r.Detached {
		detached = append(detached, fmt.Sprint(keyText(d.Key), d.TaskID, d.Sent))
	}
	same("detached", left, detached)
	var said, inputs []string
	for _, s := range o.Waiting {
		said = append(said, s.id)
	}
	for _, in := range r.Inputs {
		inputs = append(inputs, in.InputID)
	}
	same("inputs", said, inputs)
	same("step", o.stepText(), stepText(r))
	same("plan", o.plan(now), planText(run.Next(r, now)))
	same("due", o.brings(now), dueText(run.Due(r, now)))
	return out
}

func (o *Oracle) calls() string {
	var b strings.Builder
	for _, j := range o.Jobs {
		if !j.gone {
			fmt.Fprintf(&b, "\n    %s %s %s code=%s taken=%d starting=%v givenUp=%v task=%s input=%s edited=%v", j.key(), j.tool, j.where, j.code, j.taken, j.starting, j.givenUp, j.task, j.input, j.edited)
		}
	}
	return b.String()
}

func calls(r run.Run) string {
	var b strings.Builder
	for _, c := range r.Calls {
		fmt.Fprintf(&b, "\n    %s %s %s code=%s taken=%d starting=%v givenUp=%v task=%s input=%s edited=%v", keyText(c.Key), c.Tool, c.State, codeOf(c), c.TakenAt, c.Starting, c.Cancel != nil, c.TaskID, c.Input, c.InputEdited)
	}
	return b.String()
}

// stepText tells what the runtime is asked, result by result.
func (o *Oracle) stepText() string {
	if !o.Due {
		return "none"
	}
	var results, pending []string
	for _, j := range o.Jobs {
		if slices.Contains(o.About, j.key()) {
			results = append(results, fmt.Sprintf("%s:%s:%s:%v:%v:%s", j.key(), j.where, j.code, j.aside, j.edited, j.decision))
		} else if j.taken == 0 {
			pending = append(pending, fmt.Sprintf("%s:%v", j.key(), j.aside))
		}
	}
	return fmt.Sprintf("%d %s try %d of %d failures held %v by %s until %d (%d) not before %d token %s results %v inputs %v pending %v",
		o.Steps+1, o.Cause, o.Tries, o.Fails, o.Held, o.Holder, o.LeaseUntil, o.Lease, o.NotBefore, o.Token, results, o.AboutSaid, pending)
}

func stepText(r run.Run) string {
	if r.Step == nil {
		return "none"
	}
	req, _ := r.Request()
	s := r.Step
	var results, pending, inputs []string
	for _, c := range req.Results {
		code, decision := "", ""
		if c.Error != nil {
			code = c.Error.Code
		}
		if c.Approval != nil {
			decision = c.Approval.Decision
		}
		results = append(results, fmt.Sprintf("%s:%s:%s:%v:%v:%s", keyText(run.Key{Step: c.AskedAtStep, ID: c.ToolCallID}), c.State, code, c.Background, c.InputEdited, decision))
	}
	for _, c := range req.Pending {
		pending = append(pending, fmt.Sprintf("%s:%v", keyText(run.Key{Step: c.AskedAtStep, ID: c.ToolCallID}), c.Background))
	}
	for _, in := range req.Inputs {
		inputs = append(inputs, in.InputID)
	}
	return fmt.Sprintf("%d %s try %d of %d failures held %v by %s until %d (%d) not before %d token %s results %v inputs %v pending %v",
		req.Step, req.Cause, req.Attempt, s.Failures, s.Held, s.Holder, s.LeaseUntilMs, req.LeaseMs, s.NotBeforeMs, req.StepToken, results, inputs, pending)
}

// plan is what is to be done now, in words.
func (o *Oracle) plan(now int64) string {
	var start, cancel, detach []string
	starting := false
	for _, j := range o.Jobs {
		if !j.gone && j.starting {
			starting = true
		}
		if j.where == "ready" && !j.starting && !j.givenUp && o.Dying == "" && (o.End == "" || o.End == "SUCCEEDED") {
			start = append(start, j.key())
		}
		if j.where == "open" && j.givenUp && !j.told {
			cancel = append(cancel, j.key())
		}
	}
	for _, l := range o.Left {
		if !l.sent {
			detach = append(detach, l.key)
		}
	}
	offer := o.State() == "RUNNING" && !o.Held && o.NotBefore <= now
	closing := o.End != "" && len(start)+len(cancel)+len(detach) == 0 && !starting
	wake := int64(0)
	at := func(t int64) {
		if wake == 0 || t < wake {
			wake = t
		}
	}
	for _, b := range o.ahead() {
		at(b.at)
	}
	if o.State() == "RUNNING" && !o.Held && o.NotBefore > now {
		at(o.NotBefore)
	}
	return planWords(start, cancel, detach, offer, closing, wake)
}

func planWords(start, cancel, detach []string, offer, closing bool, wake int64) string {
	return fmt.Sprintf("start %v cancel %v detach %v offer %v close %v wake %d", start, cancel, detach, offer, closing, wake)
}

func planText(p run.Plan) string {
	var lists [3][]string
	for i, list := range [][]run.Key{p.Start, p.Cancel, p.Detach} {
		for _, k := range list {
			lists[i] = append(lists[i], keyText(k))
		}
	}
	return planWords(lists[0], lists[1], lists[2], p.Offer, p.Close, p.WakeAtMs)
}

type brought struct {
	at   int64
	what string
}

// ahead lists what time alone will bring.
func (o *Oracle) ahead() []brought {
	if o.End != "" {
		return nil
	}
	if o.Dying != "" {
		return []brought{{o.DyingUntil, "cancel-timeout 0/"}}
	}
	all := []brought{{o.Deadline, "expire 0/"}}
	if o.Held {
		all = append(all, brought{o.LeaseUntil, "step-lost 0/"})
	}
	for _, j := range o.Jobs {
		if j.ended() {
			continue
		}
		if j.until > 0 {
			all = append(all, brought{j.until, "call-timeout " + j.key()})
		}
		if j.patience > 0 {
			all = append(all, brought{j.asked + j.patience, "wait-timeout " + j.key()})
		}
	}
	return all
}

// brings gives what time has brought by now, the earliest first.
func (o *Oracle) brings(now int64) string {
	best := brought{at: now + 1}
	for _, b := range o.ahead() {
		if b.at < best.at {
			best = b
		}
	}
	return best.what
}

func dueText(e run.Event, due bool) string {
	if !due {
		return ""
	}
	return string(e.Type) + " " + keyText(e.Call)
}
