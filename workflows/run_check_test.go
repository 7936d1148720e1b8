package workflows_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// simCheck reads the log of a run of the property test and says what is wrong with it.
// It knows nothing of what the run believed: only what runtimes and people were handed
// and told.
type simCheck struct {
	s     *sim
	wrong []string

	// acks are the commits of the steps, the first one first.
	acks []simStep
	// out is the step that is out, first and newest are its hand-outs.
	first, newest *protocol.Claimed
	tokens        []string
	paused        bool
	said          []protocol.RunSaid
	// before counts what had been said when the step that is out was first handed out.
	before  int
	told    map[string]int
	calls   map[run.Key]run.ToolCall
	order   []run.Key
	results map[run.Key]run.Result
	inputs  map[string]int
	stopped map[run.Key]bool
}

// simStep is a step that was committed.
type simStep struct {
	req    run.StepRequest
	commit protocol.Commit
	digest string
}

func (s *sim) check() []string {
	c := &simCheck{
		s: s, told: map[string]int{}, calls: map[run.Key]run.ToolCall{}, results: map[run.Key]run.Result{}, inputs: map[string]int{}, stopped: map[run.Key]bool{},
	}
	c.wrong = append(slices.Clone(s.wrong), s.w.wrong...)
	for _, x := range s.log {
		switch {
		case x.handed != nil:
			c.handed(x.handed)
		case x.acked != nil:
			c.acked(x.acked)
		case x.said != nil:
			c.hears(*x.said)
		case x.told != "":
			c.told[x.told]++
		case x.stopped != nil:
			c.stopped[*x.stopped] = true
		case x.paused:
			c.paused = true
		case x.unpaused:
			c.paused = false
		}
	}
	c.ended()
	c.begun()
	return c.wrong
}

func (c *simCheck) bad(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *simCheck) hears(m protocol.RunSaid) {
	if !slices.ContainsFunc(c.said, func(x protocol.RunSaid) bool { return x.InputID == m.InputID }) {
		c.said = append(c.said, m)
	}
}

// handed looks at a step that a runtime was given.
func (c *simCheck) handed(h *protocol.Claimed) {
	req := h.Request
	at := fmt.Sprintf("step %d, attempt %d", req.Step, req.Attempt)
	switch {
	case req.Step != len(c.acks)+1:
		c.bad("%s was handed out after %d commits", at, len(c.acks))
	case c.paused:
		c.bad("%s was handed out while the run was paused", at)
	case slices.Contains(c.tokens, req.StepToken):
		c.bad("%s has a token that was there before", at)
	}
	c.tokens = append(c.tokens, req.StepToken)
	if n := len(c.acks); n > 0 && (h.Checkpoint == nil || string(h.Checkpoint.Data) != string(c.acks[n-1].commit.Checkpoint.Data)) {
		c.bad("%s has another checkpoint than was committed", at)
	}
	if c.newest != nil && c.newest.Request.Step == req.Step {
		if req.Attempt <= c.newest.Request.Attempt {
			c.bad("%s came after attempt %d", at, c.newest.Request.Attempt)
		}
		if !same(c.first.Request.Results, req.Results) || !same(c.first.Request.Inputs, req.Inputs) {
			c.bad("%s is about something else than attempt %d was", at, c.first.Request.Attempt)
		}
		c.newest = h
		return
	}
	c.first, c.newest, c.before = h, h, len(c.said)
	c.handedResults(at, req)
	c.handedInputs(at, req)
}

func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

func (c *simCheck) handedResults(at string, req run.StepRequest) {
	last := -1
	for _, res := range req.Results {
		k := run.Key{Step: res.AskedAtStep, ID: res.ToolCallID}
		call, asked := c.calls[k]
		if !asked {
			c.bad("%s has a result of %v, which no commit asked for", at, k)
			continue
		}
		if _, again := c.results[k]; again {
			c.bad("%s has the result of %v again", at, k)
		}
		place := slices.Index(c.order, k)
		if place <= last {
			c.bad("%s has the result of %v out of order", at, k)
		}
		last = place
		if res.Background != call.Background {
			c.bad("%s has the result of %v as background=%v", at, k, res.Background)
		}
		if problem := c.s.w.truth(k, call, res, c.stopped[k] || c.s.cancelled); problem != "" {
			c.bad("%s: %s", at, problem)
		}
	}
}

// handedInputs looks at the inputs of a step that is handed out for the first time:
// all that was said and that no step has taken.
func (c *simCheck) handedInputs(at string, req run.StepRequest) {
	var have []string
	for _, in := range req.Inputs {
		have = append(have, in.InputID)
		if c.inputs[in.InputID] > 0 {
			c.bad("%s has the input %s again", at, in.InputID)
		}
		if in.Source == run.SourceTask {
			continue
		}
		i := slices.IndexFunc(c.said, func(m protocol.RunSaid) bool { return m.InputID == in.InputID })
		if i < 0 || string(c.said[i].Content) != string(in.Content) {
			c.bad("%s has the input %s %s, which nobody said", at, in.InputID, in.Content)
		}
	}
	for _, m := range c.said {
		if c.inputs[m.InputID] == 0 && !slices.Contains(have, m.InputID) {
			c.bad("%s lacks the input %s", at, m.InputID)
		}
	}
}

// acked looks at a commit that was acknowledged.
func (c *simCheck) acked(a *simAck) {
	m := a.commit
	at := fmt.Sprintf("the commit of step %d with %s", m.Step, m.StepToken)
	digest := run.Digest(m.Response, m.Checkpoint, m.Final)
	if a.duplicate {
		if m.Step > len(c.acks) || c.acks[m.Step-1].digest != digest {
			c.bad("%s was acknowledged as a repeat, and is none", at)
		}
		return
	}
	switch {
	case m.Step != len(c.acks)+1:
		c.bad("%s was acknowledged after %d others", at, len(c.acks))
		return
	case c.newest == nil || c.newest.Request.Step != m.Step:
		c.bad("%s was acknowledged, nobody was handed that step", at)
		return
	case c.newest.Request.StepToken != m.StepToken:
		c.bad("%s was acknowledged, the newest token is %s", at, c.newest.Request.StepToken)
	}
	req := c.newest.Request
	// The answer may have been given to an earlier attempt; what it was about is what
	// the holder of this token was handed.
	for _, res := range req.Results {
		c.results[run.Key{Step: res.AskedAtStep, ID: res.ToolCallID}] = res
	}
	for _, in := range req.Inputs {
		c.inputs[in.InputID]++
	}
	for _, x := range m.Response.CancelCalls {
		c.stopped[run.Key{Step: x.AskedAtStep, ID: x.ToolCallID}] = true
	}
	for _, t := range m.Response.ToolCalls {
		k := run.Key{Step: m.Step, ID: t.ToolCallID}
		c.calls[k] = t
		c.order = append(c.order, k)
	}
	c.acks = append(c.acks, simStep{req: req, commit: m, digest: digest})
}

// ended looks at the run when it is over.
func (c *simCheck) ended() {
	rec := c.s.record
	if rec == nil {
		return
	}
	r := rec.Run
	final := len(c.acks) > 0 && c.acks[len(c.acks)-1].commit.Final != nil
	if final != (r.State == run.StateSucceeded) {
		c.bad("the run is %s, a final answer was acknowledged: %v", r.State, final)
		return
	}
	if r.StepsDone != len(c.acks) {
		c.bad("the run has %d steps, %d commits were acknowledged", r.StepsDone, len(c.acks))
	}
	if r.State != run.StateSucceeded {
		if !c.s.cancelled || r.State != run.StateCancelled {
			c.bad("the run ended %s: %v", r.State, r.Error)
		}
		return
	}
	last := c.acks[len(c.acks)-1]
	if string(r.Final.Data) != string(last.commit.Final.Data) {
		c.bad("the final answer is %s, committed was %s", r.Final.Data, last.commit.Final.Data)
	}
	for _, k := range c.order {
		if _, has := c.results[k]; !has && !c.calls[k].Background && !cancels(last.commit, k) {
			c.bad("call %v never had a result", k)
		}
	}
	// What had been said when the last step was handed out has been heard.
	for _, m := range c.said[:min(c.before, len(c.said))] {
		if c.inputs[m.InputID] != 1 {
			c.bad("the input %s was in %d steps", m.InputID, c.inputs[m.InputID])
		}
	}
	c.lateEnds()
}

func cancels(m protocol.Commit, k run.Key) bool {
	return slices.ContainsFunc(m.Response.CancelCalls, func(x run.CancelCall) bool { return x.AskedAtStep == k.Step && x.ToolCallID == k.ID })
}

// lateEnds looks for the ends of what the run had lost patience with.
func (c *simCheck) lateEnds() {
	heard := map[run.Key]int{}
	for _, a := range c.acks {
		for _, in := range a.req.Inputs {
			var late run.LateEnd
			if in.Source != run.SourceTask || json.Unmarshal(in.Content, &late) != nil {
				continue
			}
			k := run.Key{Step: late.AskedAtStep, ID: late.ToolCallID}
			heard[k]++
			if t := c.s.w.tasks[c.s.w.of[k]]; t == nil || t.end == nil || late.ResultRef != t.end.ResultRef {
				c.bad("the late end of %v is another one: %s", k, in.Content)
			}
		}
	}
	for _, k := range c.order {
		res, has := c.results[k]
		gaveUp := res.Error != nil && res.Error.Code == run.CodeWaitTimeout
		want := 0
		if gaveUp && c.toldBefore(c.s.w.of[k]) {
			want = 1
		}
		// It may come to a step before the result that says that nobody waits.
		mayCome := gaveUp || !has && c.calls[k].WaitMs > 0
		if heard[k] > 1 || heard[k] < want || heard[k] > 0 && !mayCome {
			c.bad("the end of %v came late to %d steps, %d of them", k, heard[k], want)
		}
	}
}

// toldBefore says that the run knew of the end of a task when its last step was first
// handed out.
func (c *simCheck) toldBefore(task string) bool {
	at := slices.IndexFunc(c.s.log, func(x simEntry) bool { return x.handed == c.first })
	return slices.ContainsFunc(c.s.log[:max(at, 0)], func(x simEntry) bool { return x.told == task && task != "" })
}

// begun looks at the work that was begun.
func (c *simCheck) begun() {
	for _, k := range sortedKeys(c.s.w.begun) {
		call, asked := c.calls[k]
		if !asked {
			c.bad("call %v was begun, no commit asked for it", k)
			continue
		}
		for _, d := range call.DependsOn {
			if !slices.Contains(c.s.w.hadEnded[k], d) {
				c.bad("call %v was begun before %s, which it depends on, had succeeded", k, d)
			}
		}
	}
}

func sortedKeys[V any](m map[run.Key]V) []run.Key {
	keys := make([]run.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b run.Key) int {
		if a.Step != b.Step {
			return a.Step - b.Step
		}
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	return keys
}
