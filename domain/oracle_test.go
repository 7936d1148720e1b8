package domain_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// met counts how often each reason was given, and each rule decided.
type met struct {
	reasons map[domain.Reason]int
	rules   map[int]int
}

func newMet() met { return met{reasons: map[domain.Reason]int{}, rules: map[int]int{}} }

// live plays a task against the oracle, as long as a Gen has something to say.
func live(g *domaintest.Gen, steps int, seen met) error {
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
			e := g.Event(p.Task)
			for _, i := range domain.Deciding(p.Task, e) {
				seen.rules[i]++
			}
			tr, aerr := p.Apply(e)
			reason, err = tr.Reason, aerr
		}
		var disagree *domaintest.Disagreement
		if errors.As(err, &disagree) {
			return fmt.Errorf("step %d: %w\ntask %+v", i, err, p.Task)
		}
		seen.reasons[reason]++
	}
	return nil
}

// TestOracleAgrees plays 250,000 steps.
func TestOracleAgrees(t *testing.T) {
	t.Parallel()
	const lives, steps = 5000, 50
	seen := newMet()
	for seed := range uint64(lives) {
		if err := live(domaintest.NewGen(seed), steps, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	// A comparison that never meets a rule says nothing about it.
	for i, r := range domain.Rules() {
		// A queued task has an attempt left, whatever happened to it, so that
		// reason has only made-up cases: see TestRules.
		if r.Reason == domain.ReasonNotStartable {
			continue
		}
		if r.Reason != "" && seen.reasons[r.Reason] < 40 || seen.rules[i] < 3 {
			t.Errorf("%s came up %d times, by rule %d %d times, too seldom to mean anything", r.Reason, seen.reasons[r.Reason], i+1, seen.rules[i])
		}
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
	f.Add([]byte("a task that is started, reports and succeeds, and then some"))
	// Long enough to reach a person, an undoing and several waiters.
	for seed := range uint64(100) {
		f.Add(noise(seed, 900))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := live(domaintest.GenFrom(data), min(len(data)/6+1, 200), newMet()); err != nil {
			t.Fatal(err)
		}
	})
}
