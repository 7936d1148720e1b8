package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/domain"
	agent "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// scriptedCalls answers as its functions say.
type scriptedCalls struct {
	activities.Calls
	submit func(context.Context, protocol.SubmitCall) (protocol.SubmittedCall, error)
	task   func(id string) (protocol.Seen, error)
	cancel func(ctx context.Context, id string) (bool, error)
}

func (c scriptedCalls) Submit(ctx context.Context, s protocol.SubmitCall) (protocol.SubmittedCall, error) {
	return c.submit(ctx, s)
}

func (c scriptedCalls) Task(_ context.Context, id string) (protocol.Seen, error) { return c.task(id) }

func (c scriptedCalls) Cancel(ctx context.Context, id string, _ protocol.Cancel) (bool, error) {
	return c.cancel(ctx, id)
}

func startCalls(b *bench, calls ...protocol.CallStart) (protocol.StartCallsResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.StartCallsRequest) (protocol.StartCallsResult, error) {
		return a.StartCalls
	}, protocol.StartCallsRequest{RunID: "r", Tenant: "acme", Calls: calls})
}

func callStarts(ids ...string) []protocol.CallStart {
	var calls []protocol.CallStart
	for _, id := range ids {
		calls = append(calls, protocol.CallStart{Key: agent.Key{Step: 1, ID: id}, Tool: "build", Input: json.RawMessage(`{}`)})
	}
	return calls
}

// One call that could not be begun made the activity fail, for as long as that lasted: the
// run never heard of the tasks that had been begun for the others.
func TestStartCallsTellsWhatHasBegun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Calls = scriptedCalls{submit: func(_ context.Context, s protocol.SubmitCall) (protocol.SubmittedCall, error) {
		switch s.ToolCallID {
		case "a":
			return protocol.SubmittedCall{}, errors.New("away " + strings.Repeat("x", 1000))
		case "c":
			return protocol.SubmittedCall{}, &protocol.CallRefused{Reason: domain.TaskError{Code: agent.CodeUnknownTool, Message: "no such tool"}}
		}
		return protocol.SubmittedCall{TaskID: s.TaskID}, nil
	}}
	out, err := startCalls(b, callStarts("a", "b", "c")...)
	if err != nil || len(out.Calls) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	if c := out.Calls[0]; c.ID != "a" || !c.Again || !strings.HasPrefix(c.Note, "away") || len(c.Note) != agent.MaxText || c.Started != nil || c.End != nil {
		t.Errorf("%+v", c)
	}
	if c := out.Calls[1]; c.ID != "b" || c.Again || c.Started == nil {
		t.Errorf("%+v", c)
	}
	if c := out.Calls[2]; c.ID != "c" || c.Again || c.End == nil || c.End.Error.Code != agent.CodeUnknownTool {
		t.Errorf("%+v", c)
	}
}

// When none could be begun the engine repeats, and shows why.
func TestStartCallsFailsWithAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Calls = scriptedCalls{submit: func(_ context.Context, s protocol.SubmitCall) (protocol.SubmittedCall, error) {
		return protocol.SubmittedCall{}, fmt.Errorf("away for %s", s.ToolCallID)
	}}
	_, err := startCalls(b, callStarts("a", "b", "c", "d", "e", "f", "g")...)
	if app := failure(t, err); app.NonRetryable() || !strings.Contains(app.Error(), "call a of step 1: away for a") || !strings.Contains(app.Error(), "and 2 more") {
		t.Errorf("%v", err)
	}
	if out, err := startCalls(b); err != nil || len(out.Calls) != 0 {
		t.Errorf("nothing asked: %+v, %v", out, err)
	}
}

// A call that hung used up the time of the whole activity, and what had been begun for
// the others was not told.
func TestStartCallsBoundsACallThatHangs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Calls = scriptedCalls{submit: func(ctx context.Context, s protocol.SubmitCall) (protocol.SubmittedCall, error) {
		if s.ToolCallID == "a" {
			<-ctx.Done()
			return protocol.SubmittedCall{}, ctx.Err()
		}
		return protocol.SubmittedCall{TaskID: s.TaskID}, ctx.Err()
	}}
	out, err := run(b, func(a *activities.Activities) func(context.Context, protocol.StartCallsRequest) (protocol.StartCallsResult, error) {
		return func(ctx context.Context, req protocol.StartCallsRequest) (protocol.StartCallsResult, error) {
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			out, err := a.StartCalls(ctx, req)
			return out, errors.Join(err, ctx.Err())
		}
	}, protocol.StartCallsRequest{RunID: "r", Calls: callStarts("a", "b", "c")})
	if err != nil || !out.Calls[0].Again || out.Calls[1].Started == nil || out.Calls[2].Started == nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// Many calls that had ended badly, or got large inputs by their references, made an
// answer that the engine doesn't take: the activity failed for ever.
func TestStartCallsAnswersWithinTheEnginesLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	given := 0
	b.o.Calls = scriptedCalls{submit: func(_ context.Context, s protocol.SubmitCall) (protocol.SubmittedCall, error) {
		mu.Lock()
		defer mu.Unlock()
		given += len(s.Input)
		return protocol.SubmittedCall{TaskID: s.TaskID, Task: &domain.Task{ID: s.TaskID, State: domain.StateFailed, Error: &domain.TaskError{
			Code: "X", Message: strings.Repeat("x", domain.MaxBody), Details: json.RawMessage(`"` + strings.Repeat("x", domain.MaxDetails-2) + `"`),
		}}}, nil
	}}
	// As JSON it is six times as long.
	answer := json.RawMessage(`"` + strings.Repeat("<", 15<<10) + `"`)
	calls := callStarts(strings.Split(strings.Repeat("c", 50), "")...)
	for i := range calls {
		calls[i].ID = fmt.Sprintf("c%d", i)
		calls[i].Input, calls[i].Resolve = json.RawMessage(`{"$from":"n"}`), true
		calls[i].Needs = []protocol.CallResult{{ID: "n", State: agent.CallSucceeded, Answer: answer}}
	}
	out, err := startCalls(b, calls...)
	if err != nil || len(out.Calls) != len(calls) {
		t.Fatalf("%d of %d calls, %v", len(out.Calls), len(calls), err)
	}
	if given < len(calls)*len(answer) {
		t.Errorf("the tasks got %d bytes of input, want the resolved ones", given)
	}
	all, inputs := 0, 0
	for _, c := range out.Calls {
		all, inputs = all+size(t, c), inputs+size(t, c.Input)
		if e := c.End.Error; len(e.Message) > domain.MaxErrorText || len(e.Details) > agent.MaxErrorDetails {
			t.Errorf("an error of %d bytes, with details of %d", len(e.Message), len(e.Details))
		}
	}
	if all > 1<<20 || inputs > 256<<10+len(calls)*len("null") || inputs < 100<<10 {
		t.Errorf("%d bytes, of them %d of inputs", all, inputs)
	}
}

func size(t *testing.T, v any) int {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}
