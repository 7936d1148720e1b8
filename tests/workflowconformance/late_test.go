package workflowconformance_test

import (
	"fmt"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// The last column of docs/skew.md: the deadline has passed, the workflow has
// closed, and the client answers from its record, whatever time a success claims.
func TestASuccessAfterTheTaskHasClosed(t *testing.T) {
	t.Parallel()
	const deadline = 7_200_000
	e := newEngine(t)
	defer e.finish()
	if err := e.createTask(tenant, domain.Create{ID: "t1", TTLMs: deadline, MaxAttempts: 1}); err != nil {
		t.Fatal(err)
	}
	f := e.flows["acme/task/t1"]
	close(f.over)
	<-f.closed
	f.over = make(chan struct{})
	for _, claimed := range []int64{-3_600_000, -1, 0, 1, 3_600_000} {
		for _, received := range []int64{0, 1, 3_600_000} {
			e.nowMs = deadline + received
			for _, trust := range []bool{true, false} {
				// Trusted is what a raw signal would carry, not trusted the time of
				// receipt, as over HTTP.
				c, err := starter.New(starter.Options{Temporal: e, Tenant: tenant, TrustTimes: trust, Now: func() int64 { return e.nowMs }})
				if err != nil {
					t.Fatal(err)
				}
				v, err := c.Callback(t.Context(), "t1", domain.Callback{
					CallbackID: fmt.Sprint("cb ", claimed, received), Event: domain.Event{Type: domain.EventSucceed, AtMs: deadline + claimed, ResultRef: "r", ResultHash: "h"},
				})
				if err != nil {
					t.Fatal(err)
				}
				if o := v.Outcome; o.Reason != domain.ReasonTerminalConflict || !o.Late || o.Changed || v.Verdict != starter.VerdictLate {
					t.Errorf("claimed %d, received %d, trusted %v: %+v", claimed, received, trust, v)
				}
			}
		}
	}
}
