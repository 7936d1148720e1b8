package run_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/domain/run/runtest"
)

// met counts how often each reason was given, and each rule decided.
type met struct {
	reasons map[run.Reason]int
	rules   map[int]int
	ends    map[run.State]int
	steps   int
	// moves lists the events that led from one state to another.
	moves map[string][]run.EventType
}

func newMet() *met {
	return &met{reasons: map[run.Reason]int{}, rules: map[int]int{}, ends: map[run.State]int{}, moves: map[string][]run.EventType{}}
}

func (m *met) move(from, to run.State, by run.EventType) {
	if key := string(from) + " --> " + string(to); from != to && !slices.Contains(m.moves[key], by) {
		m.moves[key] = append(m.moves[key], by)
	}
}

// live plays a run against the oracle, as long as a Gen has something to say. Now and then
// the run is written and read, as a continue-as-new does.
func live(g *runtest.Gen, events int, seen *met) error {
	p, err := runtest.NewPair(g.Create())
	if err != nil {
		return err
	}
	for i := range events {
		e := g.Event(p.Run)
		seen.rules[run.Deciding(p.Run, e)]++
		before := p.Run.State
		tr, err := p.Apply(e)
		var disagree *runtest.Disagreement
		if errors.As(err, &disagree) {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if err == nil {
			seen.reasons[tr.Outcome.Reason]++
			seen.move(before, tr.Run.State, e.Type)
		}
		if i%16 == 7 {
			if err := p.Restart(); err != nil {
				return fmt.Errorf("restart after event %d: %w", i, err)
			}
		}
	}
	seen.ends[p.Run.State]++
	seen.steps += p.Run.StepsDone
	return nil
}

// TestOracleAgrees plays 99,000 events.
func TestOracleAgrees(t *testing.T) {
	t.Parallel()
	const lives, events = 900, 110
	seen := newMet()
	for seed := range uint64(lives) {
		if err := live(runtest.NewGen(seed), events, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	// A comparison that never meets a rule says nothing about it.
	for i, r := range run.Rules() {
		// A repeated commit is answered as it was; a hundred inputs are for TestRules.
		if r.Reason == run.ReasonDuplicateCommit && seen.rules[i] > 100 || strings.HasPrefix(r.When, "too much waits") || strings.HasPrefix(r.When, "who or why") {
			continue
		}
		if r.Reason != "" && seen.reasons[r.Reason] < 20 || seen.rules[i] < 1 {
			t.Errorf("%s came up %d times, by rule %d (%v, %s) %d times, too seldom to mean anything", r.Reason, seen.reasons[r.Reason], i+1, r.On, r.When, seen.rules[i])
		}
	}
	for _, s := range run.States() {
		if seen.ends[s] < 6 {
			t.Errorf("only %d lives came to stand at %s", seen.ends[s], s)
		}
	}
	for _, difference := range unlike(seen.moves) {
		t.Errorf("the chart is wrong: %s", difference)
	}
	if seen.steps < 3*lives {
		t.Errorf("only %d steps were committed", seen.steps)
	}
}

// noise gives n bytes that depend on the seed alone.
func noise(seed uint64, n int) []byte {
	var out []byte
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", seed, i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("a run that is started, steps and succeeds, and then some"))
	// Long enough for several steps, with calls of all kinds.
	for seed := range uint64(25) {
		f.Add(noise(seed, 1500))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := live(runtest.GenFrom(data), min(len(data)/8+1, 200), newMet()); err != nil {
			t.Fatal(err)
		}
	})
}
