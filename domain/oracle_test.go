package domain_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// live plays a task against the oracle, as long as a Gen has something to say.
func live(g *domaintest.Gen, steps int, seen map[domain.Reason]int) error {
	p, err := domaintest.NewPair(g.Create())
	if err != nil {
		return err
	}
	var sent []domain.Callback
	for i := range steps {
		var reason domain.Reason
		if i%3 == 2 {
			c, now := g.Callback(p.Task, sent)
			sent = append(sent, c)
			door := p.Callback
			if i%2 == 1 {
				door = p.Update
			}
			_, out, cerr := door(c, now)
			reason, err = out.Reason, cerr
		} else {
			tr, aerr := p.Apply(g.Event(p.Task))
			reason, err = tr.Reason, aerr
		}
		var disagree *domaintest.Disagreement
		if errors.As(err, &disagree) {
			return fmt.Errorf("step %d: %w\ntask %+v", i, err, p.Task)
		}
		seen[reason]++
	}
	return nil
}

// TestOracleAgrees plays 200,000 steps.
func TestOracleAgrees(t *testing.T) {
	t.Parallel()
	const lives, steps = 4000, 50
	seen := map[domain.Reason]int{}
	for seed := range uint64(lives) {
		if err := live(domaintest.NewGen(seed), steps, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	// A comparison that never meets a rule says nothing about it.
	for _, r := range domain.Rules() {
		// A queued task has an attempt left, whatever happened to it, so that
		// reason has only made-up cases: see TestRules.
		if r.Reason != "" && r.Reason != domain.ReasonNotStartable && seen[r.Reason] < 40 {
			t.Errorf("%s came up %d times, too seldom to mean anything", r.Reason, seen[r.Reason])
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("a task that is started, reports and succeeds, and then some"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := live(domaintest.GenFrom(data), min(len(data)/6+1, 200), map[domain.Reason]int{}); err != nil {
			t.Fatal(err)
		}
	})
}
