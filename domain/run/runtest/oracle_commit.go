package runtest

import (
	"slices"
	"strings"

	"github.com/wakepoint/wakepoint/domain/run"
)

func (o *Oracle) commit(e run.Event) (Verdict, bool) {
	if e.Response == nil || e.Step < 1 || strings.TrimSpace(e.Token) == "" || o.broken(e) {
		return invalid()
	}
	r := e.Response
	if old, ok := o.commits[e.Step]; ok && old.token == e.Token {
		if old.digest != e.Digest {
			return o.refuse("commit-conflict")
		}
		again := old.said
		again.Duplicate = true
		return again, true
	}
	if e.Step <= o.Steps {
		return o.refuse("stale-token")
	}
	if o.End != "" {
		return o.refuse("run-closed")
	}
	if e.Step > o.Steps+1 {
		return o.refuse("step-ahead")
	}
	if o.Dying != "" {
		return o.refuse("run-ending")
	}
	if !o.Due {
		return o.refuse("no-step")
	}
	if !o.mine(e.Token) {
		return o.refuse("stale-token")
	}
	if r.Error != nil {
		if !o.Held {
			return o.repeat("step-retry")
		}
		o.use(r.Usage)
		return o.fail(e.AtMs, r.Error.Retryable, false, e.Jitter)
	}
	if o.misfits(e) {
		return invalid()
	}
	if e.Final == nil && r.Await == "" && len(r.ToolCalls) == 0 && len(o.Waiting) == len(o.AboutSaid) && len(o.untaken()) == 0 {
		return o.refuse("nothing-to-wait-for")
	}
	if e.Final == nil && o.tooMuch(r) {
		o.use(r.Usage)
		o.doom(e.AtMs, "FAILED", "limit")
		return o.change(e.AtMs, "limit")
	}
	return o.take(e)
}

// untaken lists the calls whose results are not yet in a step, nor in this one.
func (o *Oracle) untaken() []*job {
	var out []*job
	for _, j := range o.Jobs {
		if j.taken == 0 && !slices.Contains(o.About, j.key()) {
			out = append(out, j)
		}
	}
	return out
}

// broken tells whether a commit makes no sense by itself.
func (o *Oracle) broken(e run.Event) bool {
	r := e.Response
	if r.Wake != "" && r.Wake != "all" && r.Wake != "any" || r.Await != "" && r.Await != "input" || r.OnFinal != "" && r.OnFinal != "cancel" && r.OnFinal != "detach" {
		return true
	}
	if r.Error != nil {
		return e.Checkpoint != nil || e.Final != nil || len(r.ToolCalls)+len(r.CancelCalls)+len(r.Output) > 0 || r.Await != ""
	}
	for i, c := range r.ToolCalls {
		if c.ToolCallID == "" || c.Tool == "" || c.WaitMs < 0 || c.Background && c.WaitMs > 0 {
			return true
		}
		for k, d := range r.ToolCalls {
			if i != k && c.ToolCallID == d.ToolCallID {
				return true
			}
		}
		if o.reaches(r.ToolCalls, c.ToolCallID, c.DependsOn, 0) {
			return true
		}
	}
	return false
}

// reaches tells whether a way along the needs leads to id, or to nowhere.
func (o *Oracle) reaches(calls []run.ToolCall, id string, needs []string, depth int) bool {
	if depth > len(calls) {
		return true
	}
	for _, n := range needs {
		if n == id {
			return true
		}
		known := false
		for _, c := range calls {
			if c.ToolCallID == n {
				known = true
				if o.reaches(calls, id, c.DependsOn, depth+1) {
					return true
				}
			}
		}
		if !known {
			return true
		}
	}
	return false
}

// misfits tells whether a commit does not fit what is open.
func (o *Oracle) misfits(e run.Event) bool {
	r := e.Response
	var cancelled []string
	for _, c := range r.CancelCalls {
		j := o.find(run.Key{Step: c.AskedAtStep, ID: c.ToolCallID})
		if j == nil || j.taken != 0 {
			return true
		}
		cancelled = append(cancelled, j.key())
	}
	if e.Final == nil {
		return r.OnFinal != ""
	}
	if r.Await != "" {
		return true
	}
	for _, c := range r.ToolCalls {
		if !c.Background || r.OnFinal != "detach" || len(c.DependsOn) > 0 {
			return true
		}
	}
	for _, j := range o.untaken() {
		if !j.aside && !slices.Contains(cancelled, j.key()) {
			return true
		}
	}
	return false
}

func (o *Oracle) tooMuch(r *run.StepResponse) bool {
	l := o.create.Limits
	tokens, cost := o.Tokens, o.Cost
	for _, u := range r.Usage {
		tokens += u.InputTokens + u.OutputTokens
		cost += u.CostUSD
	}
	return o.Steps+1 >= orElse(l.MaxSteps, 1000) ||
		o.Made+len(r.ToolCalls) > orElse(l.MaxCalls, 5000) ||
		len(o.untaken())+len(r.ToolCalls) > orElse(l.MaxOpenCalls, 50) ||
		l.MaxTokens > 0 && tokens > l.MaxTokens ||
		l.MaxCostUSD > 0 && cost > l.MaxCostUSD
}

// take takes a step in.
func (o *Oracle) take(e run.Event) (Verdict, bool) {
	r := e.Response
	o.use(r.Usage)
	o.Steps++
	o.Due, o.Held = false, false
	for _, j := range o.Jobs {
		if slices.Contains(o.About, j.key()) {
			// What it was about is nobody's business any more.
			j.taken, j.input, j.decision = o.Steps, "", ""
		}
	}
	var still []saying
	for _, s := range o.Waiting {
		if !slices.Contains(o.AboutSaid, s.id) {
			still = append(still, s)
		}
	}
	o.Waiting = still
	for _, c := range r.CancelCalls {
		if j := o.find(run.Key{Step: c.AskedAtStep, ID: c.ToolCallID}); j != nil {
			j.drop(c.Message)
		}
	}
	for _, c := range r.ToolCalls {
		o.Jobs = append(o.Jobs, &job{
			step: o.Steps, id: c.ToolCallID, tool: c.Tool, input: orElse(string(c.Input), "{}"), needs: c.DependsOn,
			aside: c.Background, asked: e.AtMs, patience: c.WaitMs, where: "blocked",
		})
		o.Made++
	}
	o.Wake, o.WakeOnInput, o.Await = string(r.Wake), r.WakeOnInput, r.Await == "input"
	if e.Checkpoint != nil {
		o.Saved = e.Checkpoint.Hash
	}
	o.Runtime = orElse(r.RuntimeVersion, o.Runtime)
	if len(r.Output) > 0 {
		o.Outputs++
	}
	reason := "committed"
	if e.Final != nil {
		reason = "finished"
		o.dependents()
		for _, j := range o.Jobs {
			if j.aside && (r.OnFinal != "detach" || j.where != "ready" && j.where != "open") {
				j.drop("the run has ended")
			}
		}
		o.End = "SUCCEEDED"
	}
	said, _ := o.change(e.AtMs, reason)
	said.Step = e.Step
	o.commits[e.Step] = oldCommit{token: e.Token, digest: e.Digest, said: said}
	return said, true
}
