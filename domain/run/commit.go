package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/wakepoint/wakepoint/domain"
)

// Normal gives a response without what says nothing: null stands for absent.
func Normal(resp StepResponse) StepResponse {
	for _, f := range []*json.RawMessage{&resp.Checkpoint, &resp.Output, &resp.Final} {
		if string(*f) == "null" {
			*f = nil
		}
	}
	return resp
}

// checkCommit checks the shape of a commit, without looking at the run.
func checkCommit(_ Run, e Event) error {
	resp := e.Response
	switch {
	case resp == nil:
		return domain.Invalid("response", "must be given")
	case e.Step < 1:
		return domain.Invalid("step", "must be >= 1, it is %d", e.Step)
	}
	if err := checkText("stepToken", e.Token, MaxToken, true); err != nil {
		return err
	}
	if err := checkContent("checkpoint", e.Checkpoint, MaxCheckpoint); err != nil {
		return err
	}
	if err := checkContent("final", e.Final, MaxFinal); err != nil {
		return err
	}
	if len(resp.Output) > 0 {
		if err := checkJSON("output", resp.Output, MaxOutput); err != nil {
			return err
		}
	}
	for _, f := range []struct{ name, text string }{{"checkpointFormat", resp.CheckpointFormat}, {"runtimeVersion", resp.RuntimeVersion}} {
		if err := checkText(f.name, f.text, MaxText, false); err != nil {
			return err
		}
	}
	if err := checkWords(*resp); err != nil {
		return err
	}
	if err := checkUsage(resp.Usage); err != nil {
		return err
	}
	if resp.Error != nil {
		return checkStepError(e)
	}
	return checkCalls(resp.ToolCalls)
}

func checkContent(field string, c *Content, limit int64) error {
	switch {
	case c == nil:
		return nil
	case c.Bytes > limit:
		return domain.Invalid(field, "must be at most %d bytes, it has %d", limit, c.Bytes)
	case len(c.Data) > MaxInline:
		return domain.Invalid(field, "must be in the blob store when it has more than %d bytes, it has %d", MaxInline, len(c.Data))
	case c.Bytes < 0, c.Empty():
		return domain.Invalid(field, "must have bytes, or a reference")
	case len(c.Ref) > domain.MaxRef || len(c.Hash) > domain.MaxHash || c.Hash == "":
		return domain.Invalid(field, "must have a reference of at most %d bytes and the sha-256 of its bytes", domain.MaxRef)
	case len(c.Data) > 0 && (int64(len(c.Data)) != c.Bytes || Hash(c.Data) != c.Hash):
		return domain.Invalid(field, "must have the length and the sha-256 that stand beside it")
	case len(c.Data) > 0 && !json.Valid(c.Data):
		return domain.Invalid(field, "must be valid JSON")
	}
	return nil
}

func checkWords(resp StepResponse) error {
	switch {
	case resp.Wake != "" && resp.Wake != WakeAll && resp.Wake != WakeAny:
		return domain.Invalid("wake", "must be all or any, not %q", resp.Wake)
	case resp.Await != "" && resp.Await != AwaitInput:
		return domain.Invalid("await", "must be input, or absent; it is %q", resp.Await)
	case resp.OnFinal != "" && resp.OnFinal != OnFinalCancel && resp.OnFinal != OnFinalDetach:
		return domain.Invalid("onFinal", "must be cancel or detach, not %q", resp.OnFinal)
	case len(resp.CancelCalls) > MaxOpen+MaxDone:
		return domain.Invalid("cancelCalls", "must be at most %d, there are %d", MaxOpen+MaxDone, len(resp.CancelCalls))
	}
	for i, c := range resp.CancelCalls {
		if err := checkText("cancelCalls["+strconv.Itoa(i)+"].message", c.Message, domain.MaxErrorText, false); err != nil {
			return err
		}
	}
	return nil
}

func checkUsage(usage []Usage) error {
	if len(usage) > MaxUsages {
		return domain.Invalid("usage", "must be at most %d, there are %d", MaxUsages, len(usage))
	}
	const most = 1 << 50
	for i, u := range usage {
		at := "usage[" + strconv.Itoa(i) + "]"
		if err := checkText(at+".model", u.Model, MaxText, false); err != nil {
			return err
		}
		for _, n := range []int64{u.InputTokens, u.OutputTokens, u.CachedInputTokens} {
			if n < 0 || n > most {
				return domain.Invalid(at, "must have counts of tokens that are >= 0, there is %d", n)
			}
		}
		if !(u.CostUSD >= 0 && u.CostUSD < most) {
			return domain.Invalid(at+".costUsd", "must be >= 0, it is %v", u.CostUSD)
		}
	}
	return nil
}

func checkStepError(e Event) error {
	resp := *e.Response
	for _, f := range []struct {
		name, text string
		limit      int
	}{
		{"error.message", resp.Error.Message, domain.MaxErrorText},
		{"error.code", resp.Error.Code, MaxText},
		{"error.class", string(resp.Error.Class), MaxText},
		{"error.severity", string(resp.Error.Severity), MaxText},
	} {
		if err := checkText(f.name, f.text, f.limit, false); err != nil {
			return err
		}
	}
	if len(resp.Error.Details) > 0 {
		if err := checkJSON("error.details", resp.Error.Details, domain.MaxDetails); err != nil {
			return err
		}
	}
	if e.Checkpoint != nil || e.Final != nil || len(resp.ToolCalls) > 0 || len(resp.CancelCalls) > 0 || len(resp.Output) > 0 || resp.Await != "" {
		return domain.Invalid("error", "must stand alone, but for usage: a step that failed does nothing else")
	}
	return nil
}

// checkAgainst checks a commit against what the run has open.
func checkAgainst(r Run, e Event) error {
	resp := *e.Response
	cancelled := make([]Key, 0, len(resp.CancelCalls))
	for i, c := range resp.CancelCalls {
		k := Key{Step: c.AskedAtStep, ID: c.ToolCallID}
		at := r.call(k)
		if at < 0 || r.Calls[at].TakenAt != 0 {
			return domain.Invalid("cancelCalls["+strconv.Itoa(i)+"]", "must name a call without a committed result, %q of step %d is none", c.ToolCallID, c.AskedAtStep)
		}
		cancelled = append(cancelled, k)
	}
	if e.Final != nil {
		if err := r.checkFinal(resp, cancelled); err != nil {
			return err
		}
	} else if resp.OnFinal != "" {
		return domain.Invalid("onFinal", "must come with final")
	}
	bytes := 0
	for _, c := range r.Calls {
		if c.TakenAt == 0 {
			bytes += len(c.Input)
		}
	}
	for _, c := range resp.ToolCalls {
		bytes += len(c.Input)
	}
	if n := len(r.Calls) - len(r.Step.Results) + len(resp.ToolCalls); n > MaxKept {
		return domain.Invalid("toolCalls", "must be at most %d together with the calls that are open and those that they need, it would be %d", MaxKept, n)
	}
	if bytes > MaxCallInputs {
		return domain.Invalid("toolCalls", "must have inputs of at most %d bytes together with those of all open calls, it would be %d", MaxCallInputs, bytes)
	}
	return nil
}

// checkFinal refuses an end that would drop what the run waits for without a word.
func (r Run) checkFinal(resp StepResponse, cancelled []Key) error {
	if resp.Await != "" {
		return domain.Invalid("await", "must not come with final")
	}
	for i, c := range resp.ToolCalls {
		if !c.Background || resp.OnFinal != OnFinalDetach {
			return domain.Invalid("toolCalls["+strconv.Itoa(i)+"]", "must not come with final, unless it is a background call and onFinal is detach")
		}
		if len(c.DependsOn) > 0 {
			return domain.Invalid("toolCalls["+strconv.Itoa(i)+"].dependsOn", "must be absent in a step that is final: nobody would start it later")
		}
	}
	for _, c := range r.Calls {
		taken := r.Step != nil && slices.Contains(r.Step.Results, c.Key) || c.TakenAt != 0
		if !taken && !c.Background && !slices.Contains(cancelled, c.Key) {
			return domain.Invalid("final", "must cancel in cancelCalls what is still waited for: call %q of step %d (%s)", c.ToolCallID, c.Step, c.State)
		}
	}
	return nil
}

// nothingToWaitFor tells whether a run would park for ever.
func nothingToWaitFor(r Run, e Event) bool {
	resp := e.Response
	if e.Final != nil || resp.Await != "" || len(resp.ToolCalls) > 0 || len(r.Inputs) > len(r.Step.Inputs) {
		return false
	}
	return !slices.ContainsFunc(r.Calls, func(c Call) bool { return c.TakenAt == 0 && !slices.Contains(r.Step.Results, c.Key) })
}

// limitHit gives the limit that a commit without final would break.
func limitHit(r Run, e Event) *domain.TaskError {
	if e.Final != nil {
		return nil
	}
	n, l := len(e.Response.ToolCalls), r.Limits
	open := r.openCalls() - len(r.Step.Results) + n
	var tokens int64
	var cost float64
	for _, u := range e.Response.Usage {
		tokens += u.InputTokens + u.OutputTokens
		cost += u.CostUSD
	}
	limit := func(code, what string, limit, is any) *domain.TaskError {
		return &domain.TaskError{Code: code, Class: domain.ClassUser, Message: fmt.Sprintf("the run may have at most %v %s, this step would make it %v", limit, what, is)}
	}
	switch {
	case r.StepsDone+1 >= l.MaxSteps:
		return limit(CodeLimitSteps, "steps, and the last of them must be final", l.MaxSteps, r.StepsDone+2)
	case r.CallsMade+n > l.MaxCalls:
		return limit(CodeLimitCalls, "tool calls", l.MaxCalls, r.CallsMade+n)
	case open > l.MaxOpenCalls:
		return limit(CodeLimitOpenCalls, "open tool calls", l.MaxOpenCalls, open)
	case l.MaxTokens > 0 && r.Tokens()+tokens > l.MaxTokens:
		return limit(CodeLimitTokens, "tokens", l.MaxTokens, r.Tokens()+tokens)
	case l.MaxCostUSD > 0 && r.CostUSD()+cost > l.MaxCostUSD:
		return limit(CodeLimitCost, "US dollars of cost", l.MaxCostUSD, r.CostUSD()+cost)
	}
	return nil
}

// commit takes a step in: what it was about is consumed, what it asks for begins.
func (r *Run) commit(e *Event) {
	resp, step := *e.Response, r.Step
	r.account(resp.Usage)
	r.StepsDone, r.Step = step.Number, nil
	if e.Checkpoint != nil {
		r.supersede(e.Checkpoint)
	}
	if resp.CheckpointFormat != "" {
		r.CheckpointFormat = resp.CheckpointFormat
	}
	if resp.RuntimeVersion != "" {
		r.RuntimeVersion = resp.RuntimeVersion
	}
	for i := range r.Calls {
		if slices.Contains(step.Results, r.Calls[i].Key) {
			r.Calls[i].TakenAt = step.Number
		}
	}
	r.takeInputs(step.Inputs)
	for _, c := range resp.CancelCalls {
		if i := r.call(Key{Step: c.AskedAtStep, ID: c.ToolCallID}); i >= 0 {
			r.Calls[i].giveUp(e.AtMs, "runtime", c.Message)
		}
	}
	for _, c := range resp.ToolCalls {
		if len(c.Input) == 0 {
			c.Input = json.RawMessage("{}")
		}
		r.Calls = append(r.Calls, Call{Key: Key{Step: step.Number, ID: c.ToolCallID}, ToolCall: c, State: CallBlocked, AskedAtMs: e.AtMs})
	}
	r.CallsMade += len(resp.ToolCalls)
	r.Wake, r.WakeOnInput, r.AwaitInput = resp.Wake, resp.WakeOnInput, resp.Await == AwaitInput
	if len(resp.Output) > 0 {
		r.say(Output{Step: step.Number, AtMs: e.AtMs, Content: resp.Output})
	}
	if e.Final != nil {
		r.conclude(e, resp.OnFinal)
	}
}

// conclude ends the run well.
func (r *Run) conclude(e *Event, onFinal string) {
	r.release(e.AtMs)
	for i := range r.Calls {
		c := &r.Calls[i]
		// Nobody releases or decides about a call of a run that has ended.
		begins := c.State == CallReady || c.State == CallOpen
		if c.Background && (onFinal != OnFinalDetach || !begins) {
			c.giveUp(e.AtMs, "runtime", "the run has ended")
		}
	}
	r.Final, r.State, r.EndedAtMs = e.Final, StateSucceeded, e.AtMs
}

func (r *Run) takeInputs(ids []string) {
	for _, id := range ids {
		i := slices.IndexFunc(r.Inputs, func(in Input) bool { return in.InputID == id })
		seen := SeenID{ID: id, Digest: r.Inputs[i].digest()}
		r.InputIDs = newest(append(slices.Clone(r.InputIDs[max(len(r.InputIDs)-MaxInputIDs+1, 0):]), seen))
		r.Inputs = slices.Delete(r.Inputs, i, i+1)
	}
}

// say keeps an output, and of the older ones what there is room for.
func (r *Run) say(o Output) {
	all := append(slices.Clone(r.Outputs), o)
	total := 0
	for i := len(all) - 1; i >= 0; i-- {
		total += len(all[i].Content)
		if total > MaxOutputBytes || len(all)-i > MaxOutputs {
			all = all[i+1:]
			break
		}
	}
	r.Outputs = all
}

// supersede makes content the checkpoint. The one before stays in the store for a while:
// whoever resets the run in the Temporal UI to a moment not long ago needs it.
func (r *Run) supersede(c *Content) {
	old := r.Checkpoint
	r.Checkpoint = c
	keep := slices.DeleteFunc(slices.Clone(r.Superseded), func(ref string) bool {
		// The same content has the same place.
		return ref == c.Ref || old != nil && ref == old.Ref
	})
	if old != nil && old.Ref != "" && old.Ref != c.Ref {
		keep = append(keep, old.Ref)
	}
	r.Superseded = keep
}
