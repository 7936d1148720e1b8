package run_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/domain/run/runtest"
)

// aged is a run that has committed n steps, each with an input, an output and a call.
func aged(t *testing.T, n int) run.Run {
	t.Helper()
	c, err := runtest.Create("ttl=1000000 maxSteps=100000 input=hello")
	if err != nil {
		t.Fatal(err)
	}
	r, err := run.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for _, line := range []string{
			"claim token=t#", "commit step=# token=t# call=a:fetch await output=# usage=model-#:1:1:1 checkpoint=#", "call-started call=#/a task=ta",
			"call-ended call=#/a state=succeeded ref=r#", "input id=i# text=x",
		} {
			tr, err := run.Apply(r, event(t, strings.ReplaceAll(line, "#", fmt.Sprint(i+1))))
			if err != nil || !tr.Outcome.Changed {
				t.Fatalf("%s: %+v (%v)", line, tr.Outcome, err)
			}
			r = tr.Run
		}
	}
	return r
}

// TestWhatIsForgotten: a run keeps the newest of everything, and what it has forgotten it
// refuses rather than doing it twice.
func TestWhatIsForgotten(t *testing.T) {
	t.Parallel()
	n := run.MaxInputIDs + 20
	r := aged(t, n)
	if len(r.Commits) != run.MaxCommits || len(r.InputIDs) != run.MaxInputIDs || len(r.Done) != run.MaxDone || len(r.History) != run.HistoryLimit || len(r.Outputs) != run.MaxOutputs || len(r.Usage) != run.MaxUsages {
		t.Errorf("%d commits, %d ids, %d calls, %d entries, %d outputs, %d models", len(r.Commits), len(r.InputIDs), len(r.Done), len(r.History), len(r.Outputs), len(r.Usage))
	}
	if used := r.Used(); used.Steps != n || used.Calls != n || used.Tokens != int64(2*n) || used.CostUSD != float64(n) || used.OpenCalls != 0 {
		t.Errorf("it has used %+v", used)
	}
	for _, tc := range []struct {
		line   string
		reason run.Reason
	}{
		{"commit step=1 token=t1 call=a:fetch await output=1 usage=model-1:1:1:1 checkpoint=1", run.ReasonStaleToken},
		{"commit step=# token=t# call=a:fetch await output=# usage=model-#:1:1:1 checkpoint=#", run.ReasonCommitted},
		{"input id=i# text=x", run.ReasonDuplicateInput},
		{"call-ended call=1/a state=succeeded", run.ReasonUnknownCall},
	} {
		tr, err := run.Apply(r, event(t, strings.ReplaceAll(tc.line, "#", fmt.Sprint(n))))
		if err != nil || tr.Outcome.Reason != tc.reason || tr.Run.Version != r.Version {
			t.Errorf("%s: %+v (%v)", tc.line, tr.Outcome, err)
		}
	}
	if _, known := r.Find(run.Key{Step: n - 1, ID: "a"}); !known {
		t.Error("the newest call is not shown")
	}
	if _, known := r.Find(run.Key{Step: 1, ID: "a"}); known {
		t.Error("the oldest call is still shown")
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	r := aged(t, 20)
	for _, tc := range []struct {
		cursor int64
		mode   domain.Mode
		events int
	}{
		{0, domain.ModeSnapshot, 0},
		{r.Version - run.HistoryLimit - 1, domain.ModeSnapshot, 0},
		{r.Version - run.HistoryLimit, domain.ModeDelta, run.HistoryLimit},
		{r.Version - 1, domain.ModeDelta, 1},
		{r.Version, domain.ModeCaughtUp, 0},
		{r.Version + 1, domain.ModeCaughtUp, 0},
	} {
		p, err := run.Resume(r, tc.cursor)
		if err != nil || p.Mode != tc.mode || len(p.Events) != tc.events || p.Run.Version != r.Version || len(p.Run.History) != 0 {
			t.Errorf("%d: %s, %d events (%v)", tc.cursor, p.Mode, len(p.Events), err)
		}
		if len(p.Events) > 0 && (p.Events[0].Version != tc.cursor+1 || p.Events[len(p.Events)-1].Version != r.Version) {
			t.Errorf("%d: the events begin at %d", tc.cursor, p.Events[0].Version)
		}
	}
	if _, err := run.Resume(r, -1); field(t, err) != "cursor" {
		t.Errorf("a negative cursor: %v", err)
	}
	if len(r.History) == 0 {
		t.Error("the history of the run itself is gone")
	}
}

// TestOutputs: the newest are kept, by number and by bytes.
func TestOutputs(t *testing.T) {
	t.Parallel()
	r := lived(t, "maxSteps=1000").Run
	for i := range 8 {
		for _, e := range []run.Event{event(t, fmt.Sprintf("claim token=t%d", i)), event(t, fmt.Sprintf("commit step=%d token=t%d await", i+1, i)), event(t, fmt.Sprintf("input id=i%d text=x", i))} {
			if e.Response != nil {
				e.Response.Output = raw(`"` + long(run.MaxOutput-2) + `"`)
			}
			tr, err := run.Apply(r, e)
			if err != nil {
				t.Fatal(err)
			}
			r = tr.Run
		}
	}
	if want := run.MaxOutputBytes / run.MaxOutput; len(r.Outputs) != want || r.Outputs[want-1].Step != 8 {
		t.Errorf("%d outputs are kept", len(r.Outputs))
	}
}

// TestPassedWaitHidesNothing: the wait before the next attempt, once over, was the next
// moment to wake for as long as nobody took the step, so that the deadline never came.
func TestPassedWaitHidesNothing(t *testing.T) {
	t.Parallel()
	r := lived(t, failing).Run
	if p := run.Next(r, 50); p.WakeAtMs != 102 || p.WakeFor != run.WakeForStep || p.Offer {
		t.Errorf("during the wait: %+v", p)
	}
	for _, now := range []int64{102, 500} {
		if p := run.Next(r, now); p.WakeAtMs != 1000 || p.WakeFor != run.WakeForDeadline || !p.Offer {
			t.Errorf("after it: %+v", p)
		}
	}
	if e, due := run.Due(r, 1000); !due || e.Type != run.EventExpire {
		t.Errorf("at the deadline: %+v", e)
	}
}

// TestDueIsInOrder: what came first happens first, whoever looks late.
func TestDueIsInOrder(t *testing.T) {
	t.Parallel()
	p := lived(t, held+"; commit step=1 token=t1 call=a:x,wait=200 call=b:x wakeOnInput; approval-asked call=1/b until=150; input id=i text=x; claim token=t2")
	var order []string
	for {
		e, due := run.Due(p.Run, 5000)
		if !due {
			break
		}
		order = append(order, string(e.Type))
		if tr, err := p.Apply(e); err != nil || !tr.Outcome.Changed {
			t.Fatalf("%s: %+v (%v)", e.Type, tr.Outcome, err)
		}
	}
	if got := strings.Join(order, " "); got != "step-lost call-timeout wait-timeout expire" {
		t.Errorf("in this order: %s", got)
	}
}

// TestInputIsKnownAgain: an input that was stored and read was another one than the same
// input sent anew by somebody who writes JSON in another way.
func TestInputIsKnownAgain(t *testing.T) {
	t.Parallel()
	p := lived(t, parked)
	say := func(content string) run.Reason {
		tr, err := p.Apply(run.Event{Type: run.EventInput, AtMs: 9, Input: &run.Input{InputID: "i", Content: raw(content)}})
		if err != nil {
			t.Fatal(err)
		}
		return tr.Outcome.Reason
	}
	if got := say(`{ "text" : "a<b" }`); got != run.ReasonInput {
		t.Fatal(got)
	}
	for _, restart := range []bool{false, true} {
		if restart {
			if err := p.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		if got := say(`{ "text" : "a<b" }`); got != run.ReasonDuplicateInput {
			t.Errorf("the same again, after a restart %v: %s", restart, got)
		}
	}
	if got := say(`{"text":"a<c"}`); got != run.ReasonInputConflict {
		t.Errorf("something else: %s", got)
	}
}

// TestAnswersThatFindNoRoom: what people send is refused, and an end, which cannot be,
// fails its call instead of making a run that cannot be stored.
func TestAnswersThatFindNoRoom(t *testing.T) {
	t.Parallel()
	p := lived(t, "maxOpenCalls=100"+held)
	e := event(t, "commit at=9 step=1 token=t1")
	e.Response.ToolCalls = manyCalls(100)
	for i := range e.Response.ToolCalls[:50] {
		e.Response.ToolCalls[i].Tool = run.ToolAsk
	}
	r := p.Run
	give := func(e run.Event) error {
		tr, err := run.Apply(r, e)
		if err == nil {
			r = tr.Run
		}
		return err
	}
	if err := give(e); err != nil {
		t.Fatal(err)
	}
	refused, failed := 0, 0
	for i, c := range e.Response.ToolCalls {
		k := run.Key{Step: 1, ID: c.ToolCallID}
		if i < 50 {
			answer := run.Event{Type: run.EventAnswer, Call: k, Answer: raw(`"` + long(run.MaxAnswer-2) + `"`)}
			if err := give(run.Event{Type: run.EventApprovalAsked, Call: k}); err != nil {
				t.Fatal(err)
			}
			if err := give(answer); err != nil {
				refused++
				if got := field(t, err); got != "answer" {
					t.Fatalf("the field is %q", got)
				}
				// A shorter one finds room.
				answer.Answer = raw("1")
				if err := give(answer); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if err := give(run.Event{Type: run.EventCallEnded, Call: k, End: &run.End{State: run.CallSucceeded, Answer: raw(`"` + long(run.MaxInline-2) + `"`)}}); err != nil {
			t.Fatal(err)
		}
		if c, _ := r.Find(k); c.State == run.CallFailed && c.Error.Code == run.CodeResultTooLarge {
			failed++
		}
	}
	if refused == 0 || failed == 0 || r.State != run.StateRunning {
		t.Errorf("%d refused, %d failed, %s", refused, failed, r.State)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "ä", "\x01", "\u2028"} {
		text := strings.Repeat(unit, 9000/len(unit))
		e := event(t, "call-ended call=1/a state=failed")
		e.End.Error = &domain.TaskError{Code: text, Message: text, Details: raw(`"` + long(run.MaxErrorDetails) + `"`)}
		tr, err := run.Apply(lived(t, opened).Run, e)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := tr.Run.Find(run.Key{Step: 1, ID: "a"})
		if f := c.Error; len(f.Message) > run.MaxErrorMessage || len(f.Code) > run.MaxText || f.Details != nil || !strings.HasPrefix(text, f.Message) || f.Message == "" || strings.ToValidUTF8(f.Message, "") != f.Message {
			t.Errorf("%q: the error is %d bytes, %d of code", unit, len(f.Message), len(f.Code))
		}
		if e.End.Error.Details == nil {
			t.Error("the event was changed")
		}
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	p := run.Policy{}.WithDefaults()
	if p.LeaseMs != run.DefaultLeaseMs || p.StepAttempts != run.DefaultStepAttempts || p.CancelGraceMs != run.DefaultCancelGraceMs || p.CheckEveryMs != run.DefaultCheckEveryMs {
		t.Errorf("%+v", p)
	}
	if p := (run.Policy{LeaseMs: 1, StepAttempts: 2, CancelGraceMs: 3, CheckEveryMs: 4}); p.WithDefaults() != p {
		t.Errorf("%+v", p.WithDefaults())
	}
	// A cost that is no number is no limit.
	if _, err := run.New(run.Create{ID: "r", TTLMs: 1, Limits: run.Limits{MaxCostUSD: math.NaN()}}); field(t, err) != "limits" {
		t.Error(err)
	}
	tr, err := run.Apply(lived(t, lost).Run, run.Event{Type: run.EventRetry, AtMs: 9, Limits: &run.Limits{MaxOpenCalls: run.MaxOpen + 1}})
	if field(t, err) != "limits.maxOpenCalls" {
		t.Errorf("a retry beyond what a run may have: %+v (%v)", tr.Outcome, err)
	}
}

// TestFullRun: when ends, which cannot be refused, have taken all the room, a person can
// still decide, and say something short.
func TestFullRun(t *testing.T) {
	t.Parallel()
	p := lived(t, "maxOpenCalls=100"+held)
	e := event(t, "commit at=9 step=1 token=t1 wakeOnInput")
	e.Response.ToolCalls = manyCalls(100)
	for i := range e.Response.ToolCalls {
		e.Response.ToolCalls[i].Input = raw(`"` + long(5<<10) + `"`)
	}
	r := p.Run
	give := func(e run.Event) error {
		tr, err := run.Apply(r, e)
		if err == nil {
			r = tr.Run
		}
		return err
	}
	events := []run.Event{e}
	first := run.Key{Step: 1, ID: e.Response.ToolCalls[0].ToolCallID}
	for _, c := range e.Response.ToolCalls[1:] {
		events = append(events, run.Event{Type: run.EventCallEnded, Call: run.Key{Step: 1, ID: c.ToolCallID}, End: &run.End{State: run.CallFailed, Error: &domain.TaskError{Message: long(4000)}}})
	}
	for _, e := range append(events, run.Event{Type: run.EventApprovalAsked, Call: first}) {
		if err := give(e); err != nil {
			t.Fatal(err)
		}
	}
	large := run.Event{Type: run.EventInput, Input: &run.Input{InputID: "i", Content: raw(`"` + long(2000) + `"`)}}
	if err := give(large); field(t, err) != "input.content" {
		t.Fatalf("the run is not full: %v", err)
	}
	large.Input.Content = raw(`"stop"`)
	for _, e := range []run.Event{large, {Type: run.EventApprove, Call: first, By: "ann", Decides: &run.Approval{Decision: run.DecisionDeny}}} {
		if err := give(e); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
}

// TestLastCallsAreBounded: the calls of a step that is final were let in at any size.
func TestLastCallsAreBounded(t *testing.T) {
	t.Parallel()
	p := lived(t, held)
	e := event(t, `commit at=9 step=1 token=t1 final='"done"' onFinal=detach`)
	e.Response.ToolCalls = manyCalls(3)
	for i := range e.Response.ToolCalls {
		e.Response.ToolCalls[i].Background = true
		e.Response.ToolCalls[i].Input = raw(`"` + long(run.MaxCallInput-2) + `"`)
	}
	if _, err := run.Apply(p.Run, e); field(t, err) != "toolCalls" {
		t.Errorf("three of the largest: %v", err)
	}
	e.Response.ToolCalls = e.Response.ToolCalls[:2]
	e.Response.ToolCalls[1].Input = raw("1")
	if _, err := run.Apply(p.Run, e); err != nil {
		t.Errorf("one of them: %v", err)
	}
}

// A run that keeps large checkpoints does not keep every one that it ever had: the newest
// of those that others have taken the place of stay, for whoever resets it.
func TestOldCheckpointsAreForgotten(t *testing.T) {
	t.Parallel()
	r, err := run.New(run.Create{ID: "r", TTLMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(e run.Event) {
		t.Helper()
		tr, err := run.Apply(r, e)
		if err != nil || !tr.Outcome.Changed && !tr.Kept {
			t.Fatalf("%s: %s, %v", e.Type, tr.Outcome.Reason, err)
		}
		r = tr.Run
	}
	stored := func(n int) *run.Content {
		ref := fmt.Sprintf("blob:acme/run/r/%d", n)
		return &run.Content{Ref: ref, Hash: run.Hash([]byte(ref)), Bytes: 1 << 20}
	}
	take := func(c *run.Content) {
		t.Helper()
		step := r.Step.Number
		apply(run.Event{Type: run.EventClaim, AtMs: 1, Token: "t"})
		apply(run.Event{Type: run.EventCommit, AtMs: 1, Step: step, Token: "t", Response: &run.StepResponse{Await: run.AwaitInput}, Checkpoint: c})
		apply(run.Event{Type: run.EventInput, AtMs: 1, Input: &run.Input{InputID: fmt.Sprint(step), Content: []byte(`1`)}})
	}
	for n := range run.MaxSuperseded {
		take(stored(n))
		if f := run.Next(r, 1).Forget; len(f) != 0 {
			t.Fatalf("after %d checkpoints %v are to be forgotten", n+1, f)
		}
	}
	// What comes back is no old one any more.
	take(stored(0))
	take(stored(100))
	take(stored(101))
	forget := run.Next(r, 1).Forget
	if len(forget) == 0 || slices.Contains(forget, r.Checkpoint.Ref) {
		t.Fatalf("to be forgotten: %v, the checkpoint is %s", forget, r.Checkpoint.Ref)
	}
	apply(run.Event{Type: run.EventNoted, AtMs: 1, Reason: run.NotedForgotten, Refs: forget})
	if len(r.Superseded) != run.KeptSuperseded || slices.Contains(r.Superseded, r.Checkpoint.Ref) {
		t.Fatalf("kept: %v", r.Superseded)
	}
	if f := run.Next(r, 1).Forget; len(f) != 0 {
		t.Fatalf("%v are to be forgotten again", f)
	}
}
