package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// EncodeRequest gives the JSON of a step with the bytes of its checkpoint as they are.
// [json.Marshal] would write the checkpoint anew: without its spaces and with other
// escapes, so that a runtime that hashes or signs what it keeps would not know it again.
// The checkpoint is the last member; surrounding white space is part of it.
func EncodeRequest(req StepRequest) ([]byte, error) {
	checkpoint := req.Checkpoint
	if len(checkpoint) > 0 && !json.Valid(checkpoint) {
		return nil, errors.New("encode step: the checkpoint is no JSON")
	}
	req.Checkpoint = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(req); err != nil {
		return nil, fmt.Errorf("encode step: %w", err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(checkpoint) == 0 {
		return out, nil
	}
	const name = `,"checkpoint":`
	spliced := make([]byte, 0, len(out)+len(name)+len(checkpoint))
	spliced = append(spliced, out[:len(out)-1]...)
	spliced = append(spliced, name...)
	spliced = append(spliced, checkpoint...)
	return append(spliced, '}'), nil
}

// CheckCommit checks the shape of a commit without looking at the run: what it refuses,
// [Apply] refuses of every run. The event has [EventCommit] or no type.
func CheckCommit(e Event) error {
	if err := checkCommit(Run{}, e); err != nil {
		return err
	}
	return checkInputs(e.Response.ToolCalls)
}

// CheckPlan checks the calls of a plan by the rules of a commit's graph. What it lets
// pass, the first step of a run can commit.
func CheckPlan(calls []ToolCall) error {
	if len(calls) == 0 {
		return domain.Invalid("plan", "must have at least one call")
	}
	for i, c := range calls {
		if c.Background {
			return domain.Invalid("plan["+strconv.Itoa(i)+"].background", "must be absent: a plan ends with its calls")
		}
	}
	err := checkCalls(calls)
	if err == nil {
		err = checkReferences(calls)
	}
	if err == nil {
		err = checkInputs(calls)
	}
	if err == nil {
		err = tryPlan(calls)
	}
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) {
		return domain.Invalid(strings.Replace(invalid.Field, "toolCalls", "plan", 1), "%s", invalid.Rule)
	}
	return err
}

// tryPlan commits a plan to a run of nobody. Only that measures what a run will: its
// calls as they are stored, where escapes make text up to six times as long.
func tryPlan(calls []ToolCall) error {
	const now, token = 1 << 42, "plan"
	r, err := New(Create{ID: "plan", NowMs: now, TTLMs: 1, Limits: Limits{MaxSteps: 2, MaxCalls: len(calls), MaxOpenCalls: min(len(calls), MaxOpen)}})
	if err != nil {
		return err
	}
	for _, e := range []Event{
		{Type: EventClaim, Token: token},
		{Type: EventCommit, Step: 1, Token: token, Response: &StepResponse{ToolCalls: calls}},
	} {
		e.AtMs = now
		tr, err := Apply(r, e)
		if err != nil {
			return err
		}
		r = tr.Run
	}
	return nil
}

// CheckInput checks something that is to be said to a run, without looking at the run.
func CheckInput(in Input) error { return in.validate() }

// checkInputs refuses at once what is too much for a run with nothing open.
func checkInputs(calls []ToolCall) error {
	total := 0
	for i, c := range calls {
		total += len(c.Input)
		if len(c.Input) > 0 && !json.Valid(c.Input) {
			return domain.Invalid("toolCalls["+strconv.Itoa(i)+"].input", "must be valid JSON")
		}
	}
	if total > MaxCallInputs {
		return domain.Invalid("toolCalls", "must have inputs of at most %d bytes together, they have %d", MaxCallInputs, total)
	}
	return nil
}
