package workflows_test

import (
	"slices"
	"testing"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// applying is a fault in the rules of a run.
func applying(f func(r run.Run, e run.Event) (run.Transition, error)) simFault {
	return simFault{apply: func() func(run.Run, run.Event) (run.Transition, error) { return f }}
}

// crossing is a fault in what crosses a continue-as-new.
func crossing(f func(c *protocol.RunCarry)) simFault {
	return simFault{border: func(_ *sim, c *protocol.RunCarry) { f(c) }}
}

// propertyFaults are runs that get something wrong. The property test has to find each.
var propertyFaults = map[string]simFault{
	"a commit needs no token": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCommit && r.Step != nil && r.Step.Number == e.Step && r.Step.Token != "" {
			e.Token = r.Step.Token
		}
		return run.Apply(r, e)
	}),
	"a commit is not bound to its step": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCommit && r.Step != nil && r.Step.Held && e.Step < r.Step.Number {
			e.Step, e.Token = r.Step.Number, r.Step.Token
		}
		return run.Apply(r, e)
	}),
	"results are consumed when they are handed out": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonClaimed && tr.Run.Step.Attempt > 1 {
			tr.Run.Step.Results = nil
		}
		return tr, err
	}),
	"inputs are consumed when they are handed out": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonClaimed && tr.Run.Step.Attempt > 1 {
			tr.Run.Step.Inputs = nil
		}
		return tr, err
	}),
	"a step is about what is there each time it is handed out": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err != nil || tr.Outcome.Reason != run.ReasonClaimed || tr.Run.Step.Attempt == 1 {
			return tr, err
		}
		tr.Run.Step.Inputs = nil
		for _, in := range tr.Run.Inputs {
			tr.Run.Step.Inputs = append(tr.Run.Step.Inputs, in.InputID)
		}
		return tr, err
	}),
	"consumed results come again": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonCommitted && len(r.Step.Results) > 0 && len(e.Response.ToolCalls) > 0 {
			again, _ := r.Find(r.Step.Results[0])
			tr.Run.Calls = slices.Insert(slices.Clone(tr.Run.Calls), 0, again)
		}
		return tr, err
	}),
	"taken inputs are forgotten": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		r.InputIDs = nil
		return run.Apply(r, e)
	}),
	"a call is known by its id alone": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if i := slices.IndexFunc(r.Calls, func(c run.Call) bool { return c.ID == e.Call.ID && c.State == run.CallOpen }); e.Type == run.EventCallEnded && i >= 0 {
			e.Call = r.Calls[i].Key
		}
		return run.Apply(r, e)
	}),
	"an end does not say whose it is": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCallEnded && e.End != nil {
			end := *e.End
			end.TaskID, end.SubRunID = "", ""
			e.End = &end
		}
		return run.Apply(r, e)
	}),
	"calls do not wait for what they need": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCommit && e.Response != nil {
			resp := *e.Response
			resp.ToolCalls = slices.Clone(resp.ToolCalls)
			for i := range resp.ToolCalls {
				resp.ToolCalls[i].DependsOn, resp.ToolCalls[i].Input = nil, nil
			}
			e.Response = &resp
		}
		return run.Apply(r, e)
	}),
	"results come in another order": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonCallEnded {
			slices.Reverse(tr.Run.Calls)
		}
		return tr, err
	}),
	"of two commits both are told that they won": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonCommitConflict {
			tr.Outcome.Reason, tr.Outcome.Duplicate = run.ReasonCommitted, true
		}
		return tr, err
	}),
	"a paused run takes steps": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventClaim {
			paused := r.Paused
			r.Paused = false
			tr, err := run.Apply(r, e)
			if err == nil {
				tr.Run.Paused = paused
			}
			return tr, err
		}
		return run.Apply(r, e)
	}),
	"the late end of a call is dropped": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		tr, err := run.Apply(r, e)
		if err == nil && tr.Outcome.Reason == run.ReasonWaitTimeout {
			tr.Run.Detached = nil
		}
		return tr, err
	}),
	"a cancelled call never ends": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCallEnded && e.End.State == run.CallCancelled {
			return run.Transition{Run: r, Outcome: run.Outcome{Reason: run.ReasonUnchanged}}, nil
		}
		return run.Apply(r, e)
	}),
	"the checkpoint of a step is lost": applying(func(r run.Run, e run.Event) (run.Transition, error) {
		if e.Type == run.EventCommit && e.Step == 3 {
			e.Checkpoint = nil
		}
		return run.Apply(r, e)
	}),
	"a signal is lost at a continue-as-new": {border: func(s *sim, _ *protocol.RunCarry) {
		for i, x := range s.waiting {
			if slices.Contains(s.unread, x) {
				s.waiting = slices.Delete(s.waiting, i, i+1)
				s.log = append(s.log, x.log)
				return
			}
		}
	}},
	"inputs do not cross": crossing(func(c *protocol.RunCarry) { c.Run.Inputs = nil }),
	"ended calls do not cross": crossing(func(c *protocol.RunCarry) {
		c.Run.Calls = slices.DeleteFunc(c.Run.Calls, func(x run.Call) bool { return x.State.Ended() })
	}),
	"the newest call does not cross": crossing(func(c *protocol.RunCarry) {
		if n := len(c.Run.Calls); n > 0 {
			c.Run.Calls = c.Run.Calls[:n-1]
		}
	}),
	"commits are forgotten at a continue-as-new": crossing(func(c *protocol.RunCarry) { c.Run.StepsDone, c.Run.Commits = max(c.Run.StepsDone-1, 0), nil }),
	"a step that is held is free on the other side": crossing(func(c *protocol.RunCarry) {
		if c.Run.Step != nil {
			c.Run.Step.Attempt = 0
			c.Run.Step.Held = false
		}
	}),
	"a retry forgets what its step was about": crossing(func(c *protocol.RunCarry) {
		if c.Retry != nil && c.Run.Step != nil && c.Run.Step.Attempt > 0 {
			c.Run.Step.Results, c.Run.Step.Inputs = nil, nil
		}
	}),
	"a retry loses what has ended": crossing(func(c *protocol.RunCarry) {
		if c.Retry != nil {
			c.Run.Calls = slices.DeleteFunc(c.Run.Calls, func(x run.Call) bool { return x.State.Ended() })
		}
	}),
	"what is detached does not cross": crossing(func(c *protocol.RunCarry) { c.Run.Detached = nil }),
}

// faultSeeds is within how many seeds a fault has to be found.
const faultSeeds = 100

// The property test is worth what it finds.
func TestThePropertyTestFindsFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range propertyFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.name = name
			for seed := uint64(1); seed <= faultSeeds; seed++ {
				s := newSim(t, seed, fault)
				s.live()
				if wrong := s.check(); len(wrong) > 0 {
					t.Logf("found with seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", faultSeeds)
		})
	}
}
