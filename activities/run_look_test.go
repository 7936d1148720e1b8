package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/domain"
	agent "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func watchCalls(b *bench, ids ...string) (protocol.CallsFound, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		return a.WatchCalls
	}, protocol.WatchCallsRequest{Calls: openCalls(ids...)})
}

// openCalls gives calls each with the task of its own name.
func openCalls(ids ...string) []protocol.OpenCall {
	var calls []protocol.OpenCall
	for _, id := range ids {
		calls = append(calls, protocol.OpenCall{Key: agent.Key{Step: 1, ID: id}, TaskID: id, State: agent.CallOpen})
	}
	return calls
}

func numbered(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("c%d", i))
	}
	return ids
}

// One task that could not be read made each look fail, and the run did not hear of the
// others that had ended.
func TestWatchCallsFindsBesideWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended := true
	b.o.Calls = scriptedCalls{task: func(id string) (protocol.Seen, error) {
		switch {
		case id == "bad":
			return protocol.Seen{}, errors.New("no answer")
		case ended:
			return protocol.Seen{Status: protocol.SeenTerminated}, nil
		}
		return protocol.Seen{Status: protocol.SeenOpen}, nil
	}}
	got, err := watchCalls(b, "a", "bad", "c")
	if err != nil || len(got.Ends) != 2 || got.Ends[0].ID != "a" || got.Ends[1].ID != "c" {
		t.Errorf("%+v, %v", got, err)
	}
	ended = false
	_, err = watchCalls(b, "a", "bad", "c")
	if app := failure(t, err); app.Type() == protocol.ErrTypeStillRunning || !strings.Contains(app.Error(), "call bad of step 1: no answer") {
		t.Errorf("the look at one failed: %v", err)
	}
	_, err = watchCalls(b, "a", "c")
	if app := failure(t, err); app.Type() != protocol.ErrTypeStillRunning {
		t.Errorf("nothing has ended: %v", err)
	}
}

// largeTask is the record of a task that failed, as large as one may be.
func largeTask(id string) *domain.Task {
	return &domain.Task{
		ID: id, State: domain.StateFailed, Labels: map[string]string{"l": strings.Repeat("x", 1000)},
		Questions: []domain.Question{{QuestionID: "q", Prompt: strings.Repeat("x", domain.MaxPrompt)}},
		Error: &domain.TaskError{
			Code: "X", Message: strings.Repeat("<", domain.MaxErrorText), Details: json.RawMessage(`"` + strings.Repeat("x", domain.MaxDetails-2) + `"`),
		},
	}
}

// What one look found of many calls was larger than the engine takes: the activity
// failed, and the next one found the same.
func TestWhatIsFoundFits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	taken := map[string]bool{}
	b.o.Calls = scriptedCalls{task: func(id string) (protocol.Seen, error) {
		mu.Lock()
		defer mu.Unlock()
		if taken[id] {
			return protocol.Seen{Status: protocol.SeenOpen}, nil
		}
		return protocol.Seen{Status: protocol.SeenEnded, Task: largeTask(id), AtMs: 7}, nil
	}}
	ids := numbered(100)
	looks := 0
	for ; len(taken) < len(ids); looks++ {
		got, err := watchCalls(b, ids...)
		if err != nil || len(got.Ends) == 0 {
			t.Fatalf("%d of %d ends found: %v", len(taken), len(ids), err)
		}
		p, err := converter.GetDefaultDataConverter().ToPayloads(got)
		if err != nil || p.Size() > 1<<20+1<<10 {
			t.Fatalf("%d bytes, %v", p.Size(), err)
		}
		for _, f := range got.Ends {
			taken[f.ID] = true
			if f.Task == nil || f.End.State != "" || f.AtMs != 7 || f.Task.Questions != nil || f.Task.Labels != nil || len(f.Task.Error.Details) > agent.MaxErrorDetails {
				t.Fatalf("%+v", f)
			}
			if end := agent.EndOfTask(*f.Task); end.State != agent.CallFailed || end.Error.Code != "X" || !strings.HasPrefix(end.Error.Message, "<<<") {
				t.Fatalf("%+v", end)
			}
		}
	}
	if looks < 2 || looks > 5 {
		t.Errorf("%d looks for %d ends", looks, len(ids))
	}
}

// What a run reads of a record is there with the record alone.
func TestWhatIsFoundSaysTheSameAsTheRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tasks := map[string]domain.Task{
		"ok":   {ID: "ok", State: domain.StateSucceeded, ResultRef: "blob:r", ResultHash: "h", ContentType: "text/plain", ResultBytes: 5, EndedAtMs: 3},
		"stop": {ID: "stop", State: domain.StateCancelled, Cancel: &domain.CancelRequest{Reason: "enough", By: "ann"}},
		"late": {ID: "late", State: domain.StateExpired},
		"bad":  {ID: "bad", State: domain.StateFailed, Error: &domain.TaskError{Code: "X", Message: "m", Details: json.RawMessage(`{"a":1}`)}},
	}
	b.o.Calls = scriptedCalls{task: func(id string) (protocol.Seen, error) {
		t := tasks[id]
		return protocol.Seen{Status: protocol.SeenEnded, Task: &t}, nil
	}}
	got, err := watchCalls(b, "ok", "stop", "late", "bad")
	if err != nil || len(got.Ends) != len(tasks) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, f := range got.Ends {
		if got, want := mustJSON(t, agent.EndOfTask(*f.Task)), mustJSON(t, agent.EndOfTask(tasks[f.ID])); got != want {
			t.Errorf("%s: %s, want %s", f.ID, got, want)
		}
	}
}

// An inspection tells of all calls, and says so of those whose end found no room.
func TestInspectCallsTellsAllThatDrifted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Calls = scriptedCalls{task: func(id string) (protocol.Seen, error) {
		return protocol.Seen{Status: protocol.SeenEnded, Task: largeTask(id)}, nil
	}}
	ids := numbered(100)
	got, err := run(b, func(a *activities.Activities) func(context.Context, protocol.WatchCallsRequest) (protocol.CallsFound, error) {
		return a.InspectCalls
	}, protocol.WatchCallsRequest{Calls: openCalls(ids...)})
	if err != nil || len(got.Drift) != len(ids) || len(got.Ends) == 0 || len(got.Ends) == len(ids) || size(t, got) > 3<<19 {
		t.Fatalf("%d bytes, %d ends, %d calls, %v", size(t, got), len(got.Ends), len(got.Drift), err)
	}
	for i, d := range got.Drift {
		taken := d.Did != ""
		if d.Found != string(agent.CallFailed) || taken != (i < len(got.Ends)) || taken == strings.Contains(d.Note, "next look") {
			t.Fatalf("call %d of which %d were taken: %+v", i, len(got.Ends), d)
		}
	}
}

// Tasks were told one after the other: one whose worker was slow kept all others from
// being told until the time was over, again and again.
func TestCancelCallsTellsOthersMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := numbered(20)
	var told atomic.Int32
	others := make(chan struct{})
	b.o.Calls = scriptedCalls{cancel: func(ctx context.Context, id string) (bool, error) {
		if id == ids[0] || id == ids[8] {
			// It answers when all others have been told, and not before.
			select {
			case <-others:
				return false, errors.New("slow " + id)
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		if told.Add(1) == int32(len(ids)-2) {
			close(others)
		}
		return id == "c3", nil
	}}
	var out protocol.CallsTold
	err := do(b, func(a *activities.Activities) func(context.Context, protocol.CancelCallsRequest) error {
		return func(ctx context.Context, req protocol.CancelCallsRequest) (err error) {
			out, err = a.CancelCalls(ctx, req)
			return err
		}
	}, protocol.CancelCallsRequest{Calls: cancelTasks(ids...)})
	if app := failure(t, err); !strings.Contains(app.Error(), "slow c0") || !strings.Contains(app.Error(), "slow c8") {
		t.Errorf("%v", err)
	}
	if int(told.Load()) != len(ids)-2 || len(out.Left) != 1 || out.Left[0].ID != "c3" {
		t.Errorf("%d told, %+v", told.Load(), out)
	}
}

func cancelTasks(ids ...string) []protocol.CancelTask {
	var calls []protocol.CancelTask
	for _, c := range openCalls(ids...) {
		calls = append(calls, protocol.CancelTask{OpenCall: c})
	}
	return calls
}
