package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// The clocks of the table, as distances from the deadline in ms.
var skewTimes = []struct {
	name string
	ms   int64
}{{"1 h before", -3_600_000}, {"1 ms before", -1}, {"exactly", 0}, {"1 ms after", 1}, {"1 h after", 3_600_000}}

// TestSkew lets a success arrive around the deadline with every claimed and
// received time, over both doors. The verdicts are printed to docs/skew.md.
func TestSkew(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("<!-- Printed from the code: go test ./domain -run TestSkew -update -->\n\n" + `# Clocks that disagree, around the deadline

A running task gets its result. The sender claims that it happened at one time; we receive it at another. Both are given by
their distance from the deadline.

- Over HTTP the time of receipt counts, and the sender's clock is kept for people only.
- Over a raw signal the sender's time counts, but never one in the future: it is clamped to the moment at which the task
  handles the signal.
- A callback that was received while no worker was there is handled before the deadline that passed meanwhile, at its own time.
  So it makes no difference for HTTP how late it is handled; a raw signal is then clamped to a later moment.
- In the last column the timer was handled before the signal came. Nothing can undo an expiry.

| claimed | received | HTTP | raw signal | HTTP, handled 2 h after the deadline | raw signal, handled 2 h after the deadline | raw signal, after the timer |
| --- | --- | --- | --- | --- | --- | --- |
`)
	for _, claimed := range skewTimes {
		for _, received := range skewTimes {
			timer := "(no timer yet)"
			if received.ms >= 0 {
				timer = skewed(t, "expire at=7200000", claimed.ms, received.ms, false, received.ms)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", claimed.name, received.name,
				skewed(t, "", claimed.ms, received.ms, true, received.ms), skewed(t, "", claimed.ms, received.ms, false, received.ms),
				skewed(t, "", claimed.ms, received.ms, true, 7_200_000), skewed(t, "", claimed.ms, received.ms, false, 7_200_000), timer)
		}
	}
	golden(t, "../docs/skew.md", b.String())
}

// skewed gives the verdict on a success; times are distances from a deadline
// two hours after the creation.
func skewed(t *testing.T, before string, claimed, received int64, http bool, handled int64) string {
	t.Helper()
	const deadline = 7_200_000
	p := lived(t, fmt.Sprintf("ttl=%d; start at=1; %s", int64(deadline), before))
	c := callback(t, "cb", "succeed ref=r hash=h")
	c.Event.AtMs = deadline + claimed
	if http {
		c.Event.AtMs, c.OccurredAtMs = deadline+received, deadline+claimed
	}
	tr, out, err := p.Callback(c, deadline+handled)
	if err != nil {
		t.Fatalf("claimed %d, received %d: %v", claimed, received, err)
	}
	if last := tr.Task.History[len(tr.Task.History)-1].Event; out.Reason == domain.ReasonSucceeded && http && last.OccurredAtMs != deadline+claimed {
		t.Errorf("the sender's clock is lost: %+v", last)
	}
	verdict := "`" + string(out.Reason) + "`"
	if out.Late {
		verdict += ", late"
	}
	return verdict
}
