package domain_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

func TestBackoffWait(t *testing.T) {
	t.Parallel()
	none := math.SmallestNonzeroFloat64 // No jitter: 0 would be the default.
	for _, c := range []struct {
		name    string
		backoff domain.Backoff
		attempt int
		lot     float64
		want    int64
	}{
		{"the default, the shortest", domain.Backoff{}, 1, 0, 800},
		{"the default, nearly the longest", domain.Backoff{}, 1, 0.999, 999},
		{"the default, in the middle", domain.Backoff{}, 1, 0.5, 900},
		{"the default doubles", domain.Backoff{}, 2, 0, 1600},
		{"and again", domain.Backoff{}, 4, 0, 6400},
		{"up to a minute", domain.Backoff{}, 30, 0, 48_000},
		{"and never beyond", domain.Backoff{}, 5000, 0.999999, 59_999},
		{"without jitter", domain.Backoff{Jitter: none}, 3, 0.7, 4000},
		{"nothing but jitter, the shortest", domain.Backoff{Jitter: 1}, 1, 0, 0},
		{"nothing but jitter, the longest", domain.Backoff{Jitter: 1}, 1, 0.999, 999},
		{"a constant wait", domain.Backoff{InitialMs: 250, Factor: 1, Jitter: none}, 9, 0, 250},
		{"a factor of three", domain.Backoff{InitialMs: 10, Factor: 3, Jitter: none}, 4, 0, 270},
		{"a maximum of its own", domain.Backoff{InitialMs: 10, Factor: 3, MaxMs: 100, Jitter: none}, 4, 0, 100},
		{"a maximum below the first wait", domain.Backoff{InitialMs: 500, MaxMs: 100, Jitter: none}, 1, 0, 100},
		{"no attempt yet", domain.Backoff{Jitter: none}, 0, 0, 1000},
	} {
		if got := c.backoff.Wait(c.attempt, c.lot); got != c.want {
			t.Errorf("%s: %d ms, not %d", c.name, got, c.want)
		}
	}
	// However many attempts: between nothing and the maximum, and never less
	// than before.
	for _, b := range []domain.Backoff{{}, {InitialMs: 1, Factor: 1.1, MaxMs: 86_400_000}, {InitialMs: 77, Factor: 10, MaxMs: 1000}} {
		last := int64(0)
		for attempt := range 2000 {
			w := b.Wait(attempt, 0)
			if w < last || w > max(b.MaxMs, 60_000) {
				t.Fatalf("%+v: after attempt %d a wait of %d, before %d", b, attempt, w, last)
			}
			last = w
		}
	}
}

// TestLotFor: the same lot in a replay, different ones for different tasks and
// attempts, spread evenly.
func TestLotFor(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprintf("%.6f", domain.LotFor("task_1", 1)); got != fmt.Sprintf("%.6f", domain.LotFor("task_1", 1)) {
		t.Errorf("two lots of one attempt, the first %s", got)
	}
	var tenths [10]int
	seen := map[float64]bool{}
	for i := range 10_000 {
		lot := domain.LotFor(fmt.Sprintf("task_%d", i%1000), i/1000)
		if lot < 0 || lot >= 1 || seen[lot] {
			t.Fatalf("lot %d is %v", i, lot)
		}
		seen[lot] = true
		tenths[int(lot*10)]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 {
			t.Errorf("%d of 10,000 lots are in tenth %d", n, i)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		policy domain.Policy
	}{
		{"", domain.Policy{}},
		{"", domain.Policy{LeaseMs: 1, StallMs: 1, CancelGraceMs: 1, GraceMs: 1, LatePolicy: domain.LateRecord, Effects: domain.EffectsNone}},
		{"", domain.Policy{LatePolicy: domain.LateReject, Effects: domain.EffectsIdempotent}},
		{"", domain.Policy{Effects: domain.EffectsUnsafe, Backoff: domain.Backoff{InitialMs: 1, Factor: 1, MaxMs: 1, Jitter: 1}}},
		{"", domain.Policy{OnUnknown: domain.UnknownFail, ExpectsCallback: true, ShowsStall: true}},
		{"", domain.Policy{OnUnknown: domain.UnknownManual}},
		{"policy.onUnknown", domain.Policy{OnUnknown: "hope"}},
		{"policy.leaseMs", domain.Policy{LeaseMs: -1}},
		{"policy.stallMs", domain.Policy{StallMs: -1}},
		{"policy.cancelGraceMs", domain.Policy{CancelGraceMs: -1}},
		{"policy.graceMs", domain.Policy{GraceMs: -1}},
		{"policy.backoff.initialMs", domain.Policy{Backoff: domain.Backoff{InitialMs: -1}}},
		{"policy.backoff.maxMs", domain.Policy{Backoff: domain.Backoff{MaxMs: -1}}},
		{"policy.backoff.jitter", domain.Policy{Backoff: domain.Backoff{Jitter: -0.1}}},
		{"policy.backoff.jitter", domain.Policy{Backoff: domain.Backoff{Jitter: 1.1}}},
		{"policy.backoff.jitter", domain.Policy{Backoff: domain.Backoff{Jitter: math.NaN()}}},
		{"policy.backoff.factor", domain.Policy{Backoff: domain.Backoff{Factor: 0.5}}},
		{"policy.backoff.factor", domain.Policy{Backoff: domain.Backoff{Factor: -1}}},
		{"policy.backoff.factor", domain.Policy{Backoff: domain.Backoff{Factor: math.Inf(1)}}},
		{"policy.backoff.factor", domain.Policy{Backoff: domain.Backoff{Factor: math.NaN()}}},
		{"policy.latePolicy", domain.Policy{LatePolicy: "perhaps"}},
		{"policy.effects", domain.Policy{Effects: "some"}},
	} {
		err := c.policy.Validate()
		if field(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%+v: %v", c.policy, err)
		}
	}
}
