package domaintest_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
	"github.com/wakepoint/wakepoint/tests/conformance/book"
)

// TestOracleKnowsTheReference plays the recorded conversations to oracles, so
// that what the domain is held against has itself been held against something.
func TestOracleKnowsTheReference(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../tests/conformance/testdata/async_book.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	conversations, err := book.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, c := range conversations {
		tasks, seen := map[string]*domaintest.Oracle{}, map[string]bool{}
		for i, op := range c.Ops {
			switch op.Op {
			case "create":
				var create domain.Create
				if json.Unmarshal(op.Input, &create) != nil {
					continue
				}
				create.Policy.Strict = true
				if o, ok := domaintest.NewOracle(create); ok {
					tasks[create.ID] = o
				}
			case "apply":
				if o := tasks[op.TaskID]; o != nil {
					checkApply(t, c.Name, i, o, op, seen)
					answers++
				}
			}
		}
	}
	if answers < 2500 {
		t.Errorf("only %d answers were compared", answers)
	}
}

func checkApply(t *testing.T, name string, i int, o *domaintest.Oracle, op book.Op, seen map[string]bool) {
	t.Helper()
	var want struct {
		OK *struct {
			Task struct {
				State                        string
				Version                      int64
				Progress, Attempts           int
				ResultRef, ResultHash, Error string
				History                      []struct {
					Version int64
					Event   struct {
						Type string
						AtMs int64
					}
				}
			}
			Changed, Duplicate, Notify, DuplicateCallback bool
			Reason                                        string
		}
	}
	var e domain.Event
	if err := json.Unmarshal(op.Want, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(op.Event, &e); err != nil {
		t.Fatal(err)
	}
	v, ok := domaintest.Verdict{Reason: "duplicate-callback", Duplicate: true}, true
	if !seen[op.CallbackID] || op.CallbackID == "" {
		v, ok = o.Apply(e)
		seen[op.CallbackID] = seen[op.CallbackID] || ok
	}
	if ok != (want.OK != nil) {
		t.Fatalf("%s, op %d: valid %v, want %s", name, i, ok, op.Want)
	}
	if !ok {
		return
	}
	w := want.OK
	if v.Reason != w.Reason || v.Changed != w.Changed || v.Duplicate != w.Duplicate || v.Notify != w.Notify {
		t.Fatalf("%s, op %d: %+v, want %s", name, i, v, op.Want)
	}
	if o.State != w.Task.State || o.Version != w.Task.Version || o.Progress != w.Task.Progress || o.Attempts != w.Task.Attempts ||
		o.ResultRef != w.Task.ResultRef || o.ResultHash != w.Task.ResultHash || o.ErrorText != w.Task.Error || len(o.History) != len(w.Task.History) {
		t.Fatalf("%s, op %d: %+v, want %s", name, i, o, op.Want)
	}
	for k, h := range w.Task.History {
		if got := o.History[k]; got.Version != h.Version || got.Type != h.Event.Type || got.AtMs != h.Event.AtMs {
			t.Fatalf("%s, op %d: history %+v, want %s", name, i, o.History, op.Want)
		}
	}
}

// TestWords: the language of the tests says what it seems to say.
func TestWords(t *testing.T) {
	t.Parallel()
	e, err := domaintest.Event(`fail at=5 attempt=2 retryable error="out of room" code=IO details='{"a": "b c"}' progress=0.5`)
	if err != nil || e.Type != domain.EventFail || e.AtMs != 5 || e.Attempt != 2 || !*e.Retryable || e.Error.Code != "IO" || e.Error.Message != "out of room" || string(e.Error.Details) != `{"a": "b c"}` || *e.Progress != 0.5 {
		t.Errorf("%+v, %+v (%v)", e, e.Error, err)
	}
	e, err = domaintest.Event(`attach at=5 waiter=b run=run-2 call="call 2" waiterId=c action=repeat compensation=undo_1 retryAfter=7`)
	if err != nil || *e.Waiter != (domain.Waiter{ID: "b", RunID: "run-2", ToolCallID: "call 2"}) || e.WaiterID != "c" || e.Action != "repeat" || e.Compensation != "undo_1" || e.RetryAfterMs != 7 {
		t.Errorf("%+v, %+v (%v)", e, e.Waiter, err)
	}
	for _, bad := range []string{"", "start at=soon", "start somehow=5", "progress progress=half"} {
		if e, err := domaintest.Event(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, e)
		}
	}
	c, err := domaintest.Create("id=x now=5 ttl=7 max=3 strict external late=record grace=9 effects=unsafe lease=1 stall=2 cancelGrace=3 wait=4 unknown=manual expectsCallback showsStall run=r call=c")
	want := domain.Policy{
		Strict: true, External: true, LatePolicy: domain.LateRecord, GraceMs: 9, Effects: domain.EffectsUnsafe, LeaseMs: 1, StallMs: 2,
		OnUnknown: domain.UnknownManual, ExpectsCallback: true, ShowsStall: true,
		CancelGraceMs: 3, Backoff: domain.Backoff{InitialMs: 4, Jitter: c.Policy.Backoff.Jitter},
	}
	if err != nil || c.ID != "x" || c.NowMs != 5 || c.TTLMs != 7 || c.MaxAttempts != 3 || c.RunID != "r" || c.ToolCallID != "c" || c.Policy != want {
		t.Errorf("%+v (%v)", c, err)
	}
	if _, err := domaintest.Create("colour=red"); err == nil {
		t.Error("a task can be red")
	}
}
