package workflows_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var propertySeed = flag.Uint64("property-seed", 0, "live only this seed of the property test of runs")

// Exactly once into the model: whatever happens to a run, each call that a step asked
// for has one result in one committed step, and each input is in one. See simCheck for
// all that is looked at.
func TestExactlyOnceIntoTheModel(t *testing.T) {
	t.Parallel()
	if *propertySeed != 0 {
		s := newSim(t, *propertySeed, simFault{})
		s.live()
		for _, line := range s.story() {
			t.Log(line)
		}
		if wrong := s.check(); len(wrong) > 0 {
			t.Fatalf("%s", strings.Join(wrong, "\n"))
		}
		return
	}
	const shards = 4
	for shard := range uint64(shards) {
		t.Run(fmt.Sprintf("%d of %d", shard+1, shards), func(t *testing.T) {
			t.Parallel()
			sum := simSums{}
			for seed := 1 + shard; seed <= propertySeeds; seed += shards {
				s := newSim(t, seed, simFault{})
				s.live()
				if wrong := s.check(); len(wrong) > 0 {
					t.Errorf("seed %d (go test ./workflows -run TestExactlyOnce -property-seed %d -v):\n%s", seed, seed, strings.Join(wrong, "\n"))
				}
				sum.add(s)
			}
			t.Logf("%+v", sum)
		})
	}
}

// simSums counts what the seeds were about, so that one sees whether they are about
// much.
type simSums struct{ Retries, Steps, Attempts, Calls, Begun, Executions, Inputs, Ticks, Late, Cancelled int }

func (x *simSums) add(s *sim) {
	x.Executions += s.life
	x.Retries += s.retries
	x.Ticks += s.ticks
	x.Begun += len(s.w.begun)
	for _, e := range s.log {
		switch {
		case e.handed != nil:
			x.Attempts++
		case e.acked != nil && !e.acked.duplicate:
			x.Steps++
			x.Calls += len(e.acked.commit.Response.ToolCalls)
		}
	}
	x.Inputs += len(s.inputs)
	if s.cancelled {
		x.Cancelled++
	}
	if s.record != nil {
		x.Late += strings.Count(fmt.Sprint(s.record.Run.InputIDs), "late-")
	}
}

// story tells what runtimes and people saw.
func (s *sim) story() []string {
	var out []string
	for _, x := range s.log {
		switch {
		case x.handed != nil:
			r := x.handed.Request
			line := fmt.Sprintf("handed step %d attempt %d (%s) %s: results", r.Step, r.Attempt, r.Cause, r.StepToken)
			for _, res := range r.Results {
				line += fmt.Sprintf(" %d/%s=%s", res.AskedAtStep, res.ToolCallID, res.State)
			}
			line += ", inputs"
			for _, in := range r.Inputs {
				line += " " + in.InputID
			}
			out = append(out, line)
		case x.acked != nil:
			m := x.acked.commit
			line := fmt.Sprintf("committed step %d %s, repeat %v: final %v, cancel %v, calls", m.Step, m.StepToken, x.acked.duplicate, m.Final != nil, m.Response.CancelCalls)
			for _, c := range m.Response.ToolCalls {
				line += fmt.Sprintf(" %s(%s after %v, background %v, wait %d, key %q)", c.ToolCallID, c.Tool, c.DependsOn, c.Background, c.WaitMs, c.IdempotencyKey)
			}
			out = append(out, line)
		case x.said != nil:
			out = append(out, "said "+x.said.InputID)
		case x.told != "":
			out = append(out, "told of "+x.told)
		case x.stopped != nil:
			out = append(out, fmt.Sprintf("cancelled %v", *x.stopped))
		case x.paused, x.unpaused:
			out = append(out, fmt.Sprintf("paused %v", x.paused))
		}
	}
	return out
}
