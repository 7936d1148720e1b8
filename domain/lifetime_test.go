package domain_test

import (
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

func TestKeptUntil(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		task domain.Task
		want int64
	}{
		"it runs":          {domain.Task{State: domain.StateRunning}, 0},
		"no end is known":  {domain.Task{State: domain.StateFailed}, 0},
		"installation":     {domain.Task{State: domain.StateSucceeded, EndedAtMs: 1000}, 1500},
		"its own":          {domain.Task{State: domain.StateSucceeded, EndedAtMs: 1000, ResultTTLMs: 20}, 1020},
		"late result":      {domain.Task{State: domain.StateExpired, EndedAtMs: 1000, Late: &domain.LateResult{AtMs: 3000}}, 3500},
		"late, of its own": {domain.Task{State: domain.StateExpired, EndedAtMs: 1000, ResultTTLMs: 20, Late: &domain.LateResult{AtMs: 3000}}, 3020},
	} {
		if got := tc.task.KeptUntilMs(500); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
