package runtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// guarded is a run whose slices have room behind their end, filled with marks: whoever
// appends in place, instead of copying first, overwrites a mark.
type guarded struct {
	run run.Run
	// before is a copy that shares nothing with the run, if deep.
	before run.Run
	deep   bool
}

const mark = "room behind the end"

// roomy copies a list into one with room for two more, of which the first is the mark.
func roomy[T any](list []T, behind T) []T {
	if len(list) == 0 {
		return list
	}
	out := make([]T, len(list), len(list)+2)
	copy(out, list)
	out[:cap(out)][len(out)] = behind
	return out
}

func behind[T any](list []T) (T, bool) {
	var none T
	if len(list) == 0 {
		return none, false
	}
	return list[:cap(list)][len(list)], true
}

// guard prepares a run. A deep one also finds changes behind pointers; it is slow, so a
// long sequence takes it now and then.
func guard(r run.Run, deep bool) guarded {
	r.Calls = roomy(r.Calls, run.Call{Title: mark})
	r.Done = roomy(r.Done, run.Call{Title: mark})
	r.Detached = roomy(r.Detached, run.Detached{Tool: mark})
	r.Inputs = roomy(r.Inputs, run.Input{Source: mark})
	r.InputIDs = roomy(r.InputIDs, run.SeenID{ID: mark})
	r.Commits = roomy(r.Commits, run.Commit{Token: mark})
	r.Outputs = roomy(r.Outputs, run.Output{Content: []byte(mark)})
	r.Usage = roomy(r.Usage, run.Usage{Model: mark})
	r.Unconfirmed = roomy(r.Unconfirmed, run.Key{ID: mark})
	r.History = roomy(r.History, run.Entry{Text: mark})
	g := guarded{run: r, deep: deep}
	if deep {
		g.before = deepCopy(reflect.ValueOf(r)).Interface().(run.Run)
	}
	return g
}

// written lists the lists that were appended to in place.
func (g guarded) written() []string {
	r := g.run
	var out []string
	check := func(name, got string, some bool) {
		if some && got != mark {
			out = append(out, "the argument's "+name+" were appended to in place")
		}
	}
	call, ok := behind(r.Calls)
	check("calls", call.Title, ok)
	done, ok := behind(r.Done)
	check("done calls", done.Title, ok)
	detached, ok := behind(r.Detached)
	check("detached tasks", detached.Tool, ok)
	input, ok := behind(r.Inputs)
	check("inputs", input.Source, ok)
	id, ok := behind(r.InputIDs)
	check("ids of inputs", id.ID, ok)
	commit, ok := behind(r.Commits)
	check("commits", commit.Token, ok)
	output, ok := behind(r.Outputs)
	check("outputs", string(output.Content), ok)
	usage, ok := behind(r.Usage)
	check("models", usage.Model, ok)
	key, ok := behind(r.Unconfirmed)
	check("unconfirmed calls", key.ID, ok)
	entry, ok := behind(r.History)
	check("entries", entry.Text, ok)
	return out
}

// deepCopy copies what v points to as well. All fields of a run are exported.
func deepCopy(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(deepCopy(v.Field(i)))
		}
		return c
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(deepCopy(v.Elem()))
		return c
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
		return c
	default:
		return v
	}
}

// broken lists the invariants of the contract that an application of e broke.
func (g guarded) broken(e run.Event, tr run.Transition, err error) []string {
	out := g.written()
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if g.deep && !reflect.DeepEqual(g.run, g.before) {
		say("the argument was changed:\n    %+v\n    %+v", g.before, g.run)
	}
	if err != nil {
		if !errors.Is(err, domain.ErrInvalid) {
			say("an error that is no InvalidError: %v", err)
		}
		return out
	}
	r, n, o := g.run, tr.Run, tr.Outcome
	added := n.Version - r.Version
	again := o.Duplicate && o.Changed
	switch {
	case (!o.Changed || again) && added != 0:
		say("no change, and yet %d versions more", added)
	case o.Changed && !again && added != 1:
		say("a change with %d versions", added)
	case (!o.Changed || again) && !tr.Kept && !reflect.DeepEqual(r, n):
		say("no change, and yet the run differs:\n    %+v\n    %+v", r, n)
	case tr.Kept && n.State != r.State:
		say("%s became %s without a version", r.State, n.State)
	}
	if r.State.Terminal() && n.State != r.State && o.Reason != run.ReasonRetried {
		say("%s became %s by %s", r.State, n.State, o.Reason)
	}
	if len(n.History) > run.HistoryLimit {
		say("%d entries", len(n.History))
	}
	for i, h := range n.History {
		if want := n.Version - int64(len(n.History)-1-i); h.Version != want {
			say("entry %d has version %d, not %d", i, h.Version, want)
		}
	}
	return append(out, stuck(n, max(e.AtMs, 0))...)
}

// stuck lists what would leave a run in a corner from which nobody moves it.
func stuck(n run.Run, nowMs int64) []string {
	p := run.Next(n, nowMs)
	open := slices.ContainsFunc(n.Calls, func(c run.Call) bool { return !c.State.Ended() || c.TakenAt == 0 })
	switch ended := n.State.Terminal(); {
	case !ended && (p.WakeAtMs == 0 || p.Close):
		return []string{fmt.Sprintf("an open run that wakes for nothing: %+v", p)}
	case ended && n.Ending != nil:
		return []string{"an ended run that is still on its way to an end"}
	case (n.State == run.StateFailed || n.State == run.StateExpired) && n.Error == nil:
		return []string{"a run that ended badly without a word"}
	case n.State == run.StateWaitingTool && n.Ending == nil && !open && len(n.Inputs) == 0 && !n.AwaitInput:
		return []string{"a run that waits for nothing"}
	case n.State == run.StateSucceeded && n.Final == nil:
		return []string{"an end without an answer"}
	}
	return nil
}

// ledger keeps what steps were given, so that nothing is given twice, or never.
type ledger struct {
	// asked are all calls in order, taken the results that were committed, and inputs
	// those that were.
	asked  []run.Key
	needs  map[run.Key][]string
	states map[run.Key]run.CallState
	taken  map[run.Key]int
	inputs map[string]int
	// out is what the step that is out was about when it was first handed out.
	out     string
	outStep int
}

// book takes an event down.
func (l *ledger) book(before run.Run, tr run.Transition, e run.Event) []string {
	if l.taken == nil {
		l.needs, l.states = map[run.Key][]string{}, map[run.Key]run.CallState{}
		l.taken, l.inputs = map[run.Key]int{}, map[string]int{}
	}
	var out []string
	n := tr.Run
	for _, c := range n.Calls {
		if old, known := l.states[c.Key]; known && old != c.State && old.Ended() {
			out = append(out, fmt.Sprintf("the result of %s was %s and became %s", keyText(c.Key), old, c.State))
		}
		l.states[c.Key] = c.State
	}
	for _, c := range n.Done {
		l.states[c.Key] = c.State
	}
	if fresh := tr.Outcome.Changed && !tr.Outcome.Duplicate; fresh && (tr.Outcome.Reason == run.ReasonCommitted || tr.Outcome.Reason == run.ReasonFinished) {
		out = append(out, l.committed(before, n, e)...)
	}
	out = append(out, l.sameStep(n)...)
	out = append(out, l.starts(n, e)...)
	return append(out, l.accounted(n)...)
}

// committed books what a step was about. It is committed once, whatever happens.
func (l *ledger) committed(before, after run.Run, e run.Event) []string {
	var out []string
	if after.StepsDone != before.StepsDone+1 || e.Step != after.StepsDone {
		out = append(out, fmt.Sprintf("step %d was committed after step %d", e.Step, before.StepsDone))
	}
	req, _ := before.Request()
	last := -1
	for _, res := range req.Results {
		k := run.Key{Step: res.AskedAtStep, ID: res.ToolCallID}
		if at, twice := l.taken[k]; twice {
			out = append(out, fmt.Sprintf("the result of %s was given to steps %d and %d", keyText(k), at, e.Step))
		}
		l.taken[k] = e.Step
		place := slices.Index(l.asked, k)
		if place <= last {
			out = append(out, fmt.Sprintf("the result of %s is not in the order of the calls", keyText(k)))
		}
		last = place
		if !res.State.Ended() {
			out = append(out, fmt.Sprintf("the result of %s is %s", keyText(k), res.State))
		}
	}
	for _, in := range req.Inputs {
		if at, twice := l.inputs[in.InputID]; twice {
			out = append(out, fmt.Sprintf("input %s was given to steps %d and %d", in.InputID, at, e.Step))
		}
		l.inputs[in.InputID] = e.Step
	}
	for _, c := range e.Response.ToolCalls {
		k := run.Key{Step: e.Step, ID: c.ToolCallID}
		l.asked = append(l.asked, k)
		l.needs[k] = c.DependsOn
	}
	return out
}

// sameStep holds every attempt of a step against the first.
func (l *ledger) sameStep(n run.Run) []string {
	if n.Step == nil || n.Step.Attempt == 0 {
		return nil
	}
	req, _ := n.Request()
	about := ""
	for _, r := range req.Results {
		about += fmt.Sprintf("%d/%s %s %s %s of %s\n", r.AskedAtStep, r.ToolCallID, r.State, r.Result, r.ResultRef, r.Input)
	}
	for _, in := range req.Inputs {
		about += fmt.Sprintf("%s %s\n", in.InputID, in.Content)
	}
	if l.outStep == req.Step && l.out != about {
		return []string{fmt.Sprintf("step %d was about\n%s, and is about\n%s", req.Step, l.out, about)}
	}
	l.out, l.outStep = about, req.Step
	return nil
}

// starts looks whether a call is started before it may be.
func (l *ledger) starts(n run.Run, e run.Event) []string {
	var out []string
	for _, k := range run.Next(n, max(e.AtMs, 0)).Start {
		for _, id := range l.needs[k] {
			s := l.states[run.Key{Step: k.Step, ID: id}]
			if s != run.CallSucceeded && (!n.Policy.RunDependents || !s.Ended()) {
				out = append(out, fmt.Sprintf("%s starts while %s, which it needs, is %s", keyText(k), id, s))
			}
			if _, known := n.Find(run.Key{Step: k.Step, ID: id}); !known {
				out = append(out, fmt.Sprintf("%s starts without the result of %s, which it needs", keyText(k), id))
			}
		}
	}
	return out
}

// accounted looks for each call whose result no step has.
func (l *ledger) accounted(n run.Run) []string {
	var out []string
	for _, k := range l.asked {
		_, taken := l.taken[k]
		i := slices.IndexFunc(n.Calls, func(c run.Call) bool { return c.Key == k })
		switch {
		case !taken && i < 0:
			out = append(out, "nobody knows of "+keyText(k)+" any more, and no step has its result")
		case taken, !n.State.Terminal():
		case n.State == run.StateSucceeded:
			c := n.Calls[i]
			if goes := c.Background && (c.State == run.CallReady || c.State == run.CallOpen); !c.State.Ended() && c.Cancel == nil && !goes {
				out = append(out, fmt.Sprintf("the run has succeeded, and %s is %s for ever", keyText(k), c.State))
			}
		case n.State == run.StateCancelled || n.State == run.StateExpired:
			// One that was not confirmed may end later.
			if c := n.Calls[i]; !c.State.Ended() && !slices.Contains(n.Unconfirmed, k) {
				out = append(out, fmt.Sprintf("the run is %s, and %s is %s and not among the unconfirmed", n.State, keyText(k), c.State))
			}
		}
	}
	return out
}
