package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// maxResolved is how large an input may become by its references to be kept in the run;
// a larger one goes to the task alone.
const maxResolved = 16 << 10

// maxInputs is how large the inputs in one answer may be together: an answer above the
// engine's 2 MiB would be lost, and with it what was begun.
const maxInputs = 256 << 10

// StartCalls begins the work of calls of a run: each gets its task or its run, or a
// person is asked first, or it has ended already because the model got something wrong.
// The ids follow from the calls, so a repeat finds what it has begun before. A call whose
// start failed in a way that may pass is told as one to be begun again, so that the run
// knows of the others; if all failed so, the error is the activity's. It doesn't
// heartbeat.
func (a *Activities) StartCalls(ctx context.Context, req protocol.StartCallsRequest) (protocol.StartCallsResult, error) {
	out := protocol.StartCallsResult{Calls: make([]protocol.CallBegun, 0, len(req.Calls))}
	var failed []error
	inputs := 0
	for i, c := range req.Calls {
		begun, err := a.startInTime(ctx, req, c, len(req.Calls)-i)
		var refused *protocol.CallRefused
		var invalid *domain.InvalidError
		switch {
		case errors.As(err, &refused):
			begun = protocol.CallBegun{End: &run.End{State: run.CallFailed, Error: &refused.Reason}}
		case errors.As(err, &invalid):
			begun = protocol.CallBegun{End: invalidInput("%s", invalid.Error())}
		case err != nil:
			begun = protocol.CallBegun{Again: true, Note: cut(err.Error(), run.MaxText)}
			failed = append(failed, ofCall(c.Key, err))
		}
		begun.Key = c.Key
		if n := jsonSize(begun.Input); inputs+n <= maxInputs {
			inputs += n
		} else {
			// The task has it.
			begun.Input = nil
		}
		if begun.End != nil {
			begun.End.Error = clipped(begun.End.Error)
		}
		out.Calls = append(out.Calls, begun)
	}
	if len(failed) > 0 && len(failed) == len(req.Calls) {
		return protocol.StartCallsResult{}, some(failed)
	}
	return out, nil
}

// startInTime begins a call within its share of the time that is left, and leaves one
// share: one call that hangs must not take from the others what they have begun.
func (a *Activities) startInTime(ctx context.Context, req protocol.StartCallsRequest, c protocol.CallStart, left int) (protocol.CallBegun, error) {
	if until, bounded := ctx.Deadline(); bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Until(until)/time.Duration(left+1))
		defer stop()
	}
	return a.startCall(ctx, req, c)
}

// clipped is an error as far as a run keeps it: one activity may bring the ends of many
// calls.
func clipped(e *domain.TaskError) *domain.TaskError {
	if e == nil {
		return nil
	}
	c := *e
	c.Message = cut(c.Message, domain.MaxErrorText)
	if jsonSize(c.Details) > run.MaxErrorDetails {
		c.Details = nil
	}
	return &c
}

// jsonSize is how large a value is in the answer of an activity. What cannot be written
// is larger than any limit.
func jsonSize(v any) int {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return 0
	}
	b, err := json.Marshal(v)
	if err != nil {
		return math.MaxInt32
	}
	return len(b)
}

// some is the error of several calls. It names a few: the engine keeps what it has room
// for.
func some(errs []error) error {
	const few = 5
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - few; more > 0 {
		errs = append(errs[:few], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

func invalidInput(format string, args ...any) *run.End {
	return &run.End{State: run.CallFailed, Error: &domain.TaskError{
		Code: run.CodeInvalidInput, Class: domain.ClassUser, Message: cut(fmt.Sprintf(format, args...), domain.MaxErrorText),
	}}
}

func (a *Activities) startCall(ctx context.Context, req protocol.StartCallsRequest, c protocol.CallStart) (protocol.CallBegun, error) {
	input, err := a.resolve(ctx, req.Tenant, c)
	if err != nil {
		return protocol.CallBegun{}, err
	}
	out := protocol.CallBegun{}
	if len(c.Needs) > 0 && len(input) <= maxResolved {
		out.Input = input
	}
	c.Input = input
	switch {
	case c.Tool == run.ToolAsk || c.Tool == run.ToolApprove:
		out.Started, out.End = a.ask(c)
		out.Asks = out.End == nil
		return out, nil
	case a.o.Calls == nil:
		return out, &protocol.CallRefused{Reason: domain.TaskError{Code: run.CodeNotStarted, Class: domain.ClassSystem, Message: "this worker starts no tasks for runs"}}
	case c.Tool == run.ToolRun:
		out.Started, err = a.startSubRun(ctx, req, c)
		return out, err
	}
	if !c.Approved && a.o.Tools != nil {
		t, known := a.o.Tools(c.Tool)
		if known && t.Approval != "" {
			// What would be refused anyway is no question for a person.
			if err := t.ValidateInput(input); err != nil {
				return out, err
			}
			out.Asks, out.Started = true, &run.Started{Title: cut(t.Title, run.MaxText), UntilMs: a.o.Now().Add(t.ApprovalTTL).UnixMilli()}
			return out, nil
		}
	}
	return a.submitCall(ctx, req, c, out)
}

func (a *Activities) submitCall(ctx context.Context, req protocol.StartCallsRequest, c protocol.CallStart, out protocol.CallBegun) (protocol.CallBegun, error) {
	sub, err := a.o.Calls.Submit(ctx, protocol.SubmitCall{
		Tool: c.Tool, Input: c.Input, TaskID: protocol.CallTaskID(req.RunID, c.Step, c.ID), IdempotencyKey: c.IdempotencyKey,
		RunID: req.RunID, ToolCallID: c.ID, WaiterID: protocol.CallWaiterID(req.RunID, c.Step, c.ID), TTLMs: c.TTLMs,
	})
	if err != nil {
		return out, err
	}
	out.Started = &run.Started{TaskID: sub.TaskID, WaiterID: sub.WaiterID, Title: sub.Title, ExpiresAtMs: sub.ExpiresAtMs}
	if sub.Task != nil {
		end := run.EndOfTask(*sub.Task)
		out.End = &end
	}
	return out, nil
}

// ask checks a question to a person.
func (a *Activities) ask(c protocol.CallStart) (*run.Started, *run.End) {
	var in struct {
		Prompt    string          `json:"prompt"`
		Schema    json.RawMessage `json:"schema"`
		Arguments json.RawMessage `json:"arguments"`
	}
	dec := json.NewDecoder(bytes.NewReader(c.Input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, invalidInput("the input of %s must be an object with a prompt: %s", c.Tool, plainJSON(err))
	}
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return nil, invalidInput("prompt must not be blank")
	case len(in.Prompt) > domain.MaxPrompt:
		return nil, invalidInput("prompt must be at most %d bytes, it has %d", domain.MaxPrompt, len(in.Prompt))
	case len(c.Input) > maxResolved:
		return nil, invalidInput("the input of %s must be at most %d bytes, it has %d", c.Tool, maxResolved, len(c.Input))
	case c.Tool == run.ToolAsk && len(in.Arguments) > 0:
		return nil, invalidInput("arguments must be absent in a question")
	case c.Tool == run.ToolApprove && len(in.Schema) > 0:
		return nil, invalidInput("schema must be absent where something is to be approved")
	}
	if len(in.Schema) > 0 {
		// The answer counts once, so a question that nothing can answer is none.
		if err := config.CheckSchema(in.Schema); err != nil {
			return nil, invalidInput("schema: %v", err)
		}
	}
	ttl := c.TTLMs
	if ttl == 0 {
		ttl = run.DefaultApprovalMs
	}
	return &run.Started{Title: cut(in.Prompt, run.MaxText), UntilMs: a.o.Now().UnixMilli() + ttl}, nil
}

func (a *Activities) startSubRun(ctx context.Context, req protocol.StartCallsRequest, c protocol.CallStart) (*run.Started, error) {
	var in run.SubRunInput
	dec := json.NewDecoder(bytes.NewReader(c.Input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, &protocol.CallRefused{Reason: *invalidInput("the input of %s must be an object with runtime, title, input and ttlMs: %s", c.Tool, plainJSON(err)).Error}
	}
	if in.TTLMs == 0 {
		in.TTLMs = c.TTLMs
	}
	started, err := a.o.Calls.Start(ctx, protocol.SubmitRun{
		RunID: protocol.SubRunID(req.RunID, c.Step, c.ID), Parent: run.Parent{RunID: req.RunID, ToolCallID: c.ID, Step: c.Step, Depth: req.Depth + 1},
		Input: in, Runtime: req.Runtime, Traceparent: req.Traceparent, Budget: req.Budget,
	})
	return &started, err
}

// resolve replaces the references of an input by the results that they name.
func (a *Activities) resolve(ctx context.Context, tenant string, c protocol.CallStart) (json.RawMessage, error) {
	if !c.Resolve {
		return c.Input, nil
	}
	var broken error
	input, err := run.Resolve(c.Input, func(ref run.Reference) (json.RawMessage, error) {
		for _, n := range c.Needs {
			if n.ID != ref.From {
				continue
			}
			v, err := a.resultOf(ctx, tenant, n)
			if err != nil {
				broken = err
				return nil, err
			}
			return run.Point(v, ref.Pointer)
		}
		return nil, fmt.Errorf("call %s is not in dependsOn", ref.From)
	})
	switch {
	case broken != nil:
		return nil, broken
	case err != nil:
		return nil, &protocol.CallRefused{Reason: *invalidInput("the input refers to a result: %v", err).Error}
	case len(input) > domain.MaxBody:
		return nil, &protocol.CallRefused{Reason: *invalidInput("the input must be at most %d bytes, with its references resolved it has %d", domain.MaxBody, len(input)).Error}
	}
	return input, nil
}

// resultOf reads the result of a call as JSON; a text is a string. One that did not
// succeed is null: its dependent starts only where the run wants that.
func (a *Activities) resultOf(ctx context.Context, tenant string, n protocol.CallResult) (json.RawMessage, error) {
	refused := func(format string, args ...any) error {
		return &protocol.CallRefused{Reason: *invalidInput("the result of call "+n.ID+" "+format, args...).Error}
	}
	switch {
	case n.State != run.CallSucceeded:
		return json.RawMessage("null"), nil
	case len(n.Answer) > 0:
		return n.Answer, nil
	case a.o.Contents == nil:
		return nil, refused("cannot be read: this worker has no store")
	case !stepio.Own(n.Ref, tenant, n.TaskID):
		return nil, refused("does not lie in the blob store")
	}
	b, total, err := a.o.Contents.Range(ctx, n.Ref, n.Hash, 0, domain.MaxBody)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrRef):
		return nil, refused("cannot be read: %v", err)
	case err != nil:
		return nil, err
	case total > int64(len(b)):
		return nil, refused("is too large to be an input, it has %d bytes", total)
	}
	v, ok := stepio.Inline(b)
	if !ok {
		return nil, refused("is neither JSON nor text")
	}
	return v, nil
}

// plainJSON says what is wrong with JSON to somebody who knows nothing of Go.
func plainJSON(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return "it is a " + wrong.Value
		}
		return wrong.Field + " must be of another type, it is a " + wrong.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
