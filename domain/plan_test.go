package domain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
)

// TestNext: what has to be kept going, state by state.
func TestNext(t *testing.T) {
	t.Parallel()
	deadline := func(p domain.Plan) domain.Plan {
		p.WakeAtMs, p.WakeFor = 1000, domain.WakeDeadline
		return p
	}
	for _, c := range []struct {
		name, life string
		nowMs      int64
		want       domain.Plan
	}{
		{"queued", "", 0, deadline(domain.Plan{Submit: true})},
		{"queued, nobody here runs it", "external", 0, deadline(domain.Plan{})},
		{"in its retry wait", "; start at=1; fail at=10 retryable", 109, domain.Plan{WakeAtMs: 110, WakeFor: domain.WakeRetry}},
		{"at the end of the wait", "; start at=1; fail at=10 retryable", 110, deadline(domain.Plan{Submit: true})},
		{"the deadline comes before the end of the wait", "wait=5000; start at=1; fail at=10 retryable", 20, deadline(domain.Plan{})},
		{"after a manual retry", "ttl=500; start at=1; fail at=10; retry at=500 ttl=500", 500, deadline(domain.Plan{Submit: true})},
		{"running", "; start at=1", 5, deadline(domain.Plan{Probe: true})},
		{"running outside", "external; start at=1", 5, deadline(domain.Plan{})},
		{"running on a lease", "external lease=50; start at=1", 5, deadline(domain.Plan{Lease: true, LeaseMs: 50})},
		{"running on a lease, watched", "lease=50; start at=1", 5, deadline(domain.Plan{Probe: true, Lease: true, LeaseMs: 50})},
		{"suspected lost", "external lease=50; start at=1; suspect at=52", 52, deadline(domain.Plan{LeaseMs: 50, AskOutside: true})},
		{"found again", "external lease=50; start at=1; suspect at=52; lease-renewed at=53", 53, deadline(domain.Plan{Lease: true, LeaseMs: 50})},
		{"asked to cancel", "cancelGrace=100; start at=1; cancel-requested at=5", 5, domain.Plan{Probe: true, CancelOutside: true, WakeAtMs: 105, WakeFor: domain.WakeCancelGrace}},
		{"a moment before the grace is over", "cancelGrace=100; start at=1; cancel-requested at=5", 104, domain.Plan{Probe: true, CancelOutside: true, WakeAtMs: 105, WakeFor: domain.WakeCancelGrace}},
		{"the grace is over", "cancelGrace=100; start at=1; cancel-requested at=5", 105, deadline(domain.Plan{Probe: true, CancelOutside: true, AskOutside: true})},
		{"the grace by default, after the deadline", "; start at=1; cancel-requested at=5", 5, deadline(domain.Plan{Probe: true, CancelOutside: true})},
		{"the grace by default", "ttl=60000; start at=1; cancel-requested at=5", 5, domain.Plan{Probe: true, CancelOutside: true, WakeAtMs: 30_005, WakeFor: domain.WakeCancelGrace}},
		{"succeeded", "; start at=1; succeed at=5 ref=r hash=h", 5, domain.Plan{Close: true}},
		{"failed by its worker's word", "; start at=1; fail at=5", 5, domain.Plan{Close: true}},
		{"failed with an unknown outcome", "effects=unsafe; start at=1; requeue at=5", 5, domain.Plan{Close: true}},
		{"failed because its worker was lost", "max=1; start at=1; requeue at=5", 5, domain.Plan{Close: true, CancelOutside: true}},
		{"expired", "; start at=1; expire at=1000", 1000, domain.Plan{Close: true, CancelOutside: true}},
		{"expired before it began", "; expire at=1000", 1000, domain.Plan{Close: true}},
		{"expired, waiting for a late result", "late=record grace=50; start at=1; expire at=1000", 1049, domain.Plan{CancelOutside: true, WakeAtMs: 1050, WakeFor: domain.WakeLateGrace}},
		{"no late result came", "late=record grace=50; start at=1; expire at=1000", 1050, domain.Plan{Close: true, CancelOutside: true}},
		{"a late result came", "late=record grace=50; start at=1; expire at=1000; succeed at=1001 ref=r hash=h", 1001, domain.Plan{Close: true, CancelOutside: true}},
		{"the late grace by default", "late=record; expire at=1000", 1000, domain.Plan{WakeAtMs: 3_601_000, WakeFor: domain.WakeLateGrace}},
		{"cancelled while queued", "; cancel-requested at=5", 5, domain.Plan{Close: true}},
		{"cancelled and confirmed", "; start at=1; cancel-requested at=5; cancelled at=6", 6, domain.Plan{Close: true}},
		{"cancelled, unconfirmed", "; start at=1; cancel-requested at=5; cancel-timeout at=6", 6, domain.Plan{Close: true, CancelOutside: true}},
		{"a person looks for it", "lease=50 " + asked, 5, deadline(domain.Plan{LeaseMs: 50})},
		{"a person looks for it, cancelling", "cancelGrace=100 " + asked + "; cancel-requested at=5", 5, domain.Plan{CancelOutside: true, WakeAtMs: 105, WakeFor: domain.WakeCancelGrace}},
		{"a person looks for it, the grace is over", "cancelGrace=100 " + asked + "; cancel-requested at=5", 105, deadline(domain.Plan{CancelOutside: true, AskOutside: true})},
		{"a person looked for it, and it came back", "lease=50 " + asked + "; heartbeat at=6", 6, deadline(domain.Plan{Probe: true, Lease: true, LeaseMs: 50})},
		{"a person wants it again", asked + "; resolve at=6 action=repeat", 6, deadline(domain.Plan{Submit: true})},
		{"a person wants it again, and somebody outside is to start it", "external " + asked + "; resolve at=6 action=repeat", 6, deadline(domain.Plan{})},
		{"a person found it done", asked + "; resolve at=6 action=succeeded ref=r hash=h", 6, domain.Plan{Close: true}},
		{"a person found it not done", asked + "; resolve at=6 action=failed", 6, domain.Plan{Close: true}},
		{"a person wants it again, and it was to be cancelled", asked + "; cancel-requested at=5; resolve at=6 action=repeat", 6, domain.Plan{Close: true, CancelOutside: true}},
		{"nobody found out", asked + "; expire at=1000", 1000, domain.Plan{Close: true, CancelOutside: true}},
		{"being undone", "lease=50 " + undoing, 5, deadline(domain.Plan{LeaseMs: 50, Compensate: true})},
		{"being undone, cancelling", "cancelGrace=100 " + undoing + "; cancel-requested at=5", 5, deadline(domain.Plan{CancelOutside: true, Compensate: true})},
		{"being undone, the grace is over", "cancelGrace=100 " + undoing + "; cancel-requested at=5", 105, deadline(domain.Plan{CancelOutside: true, Compensate: true})},
		{"could not be undone", stuck, 5, deadline(domain.Plan{})},
		{"could not be undone, the grace is over", "cancelGrace=100 " + undoing + "; cancel-requested at=5; compensated at=200 error=stuck", 200, deadline(domain.Plan{CancelOutside: true, AskOutside: true})},
		{"undone", undoing + "; compensated at=5", 5, domain.Plan{WakeAtMs: 105, WakeFor: domain.WakeRetry}},
		{"shows that it stalls", "stall=50 showsStall; start at=10", 59, domain.Plan{Probe: true, WakeAtMs: 60, WakeFor: domain.WakeStall}},
		{"has stalled, and is shown so once", "stall=50 showsStall; start at=10", 60, deadline(domain.Plan{Probe: true})},
		{"shows that it stalls, later after progress", "stall=50 showsStall; start at=10; progress at=40 progress=1", 60, domain.Plan{Probe: true, WakeAtMs: 90, WakeFor: domain.WakeStall}},
		{"stalls after its deadline", "stall=5000 showsStall; start at=10", 11, deadline(domain.Plan{Probe: true})},
		{"stalls, and shows it when somebody asks", "stall=50; start at=10", 11, deadline(domain.Plan{Probe: true})},
		{"never stalls", "showsStall; start at=10", 11, deadline(domain.Plan{Probe: true})},
		{"stalls after the grace of a cancel", "stall=50 showsStall cancelGrace=20; start at=10; cancel-requested at=11", 12, domain.Plan{Probe: true, CancelOutside: true, WakeAtMs: 31, WakeFor: domain.WakeCancelGrace}},
		{"stalls before the grace of a cancel", "stall=50 showsStall cancelGrace=100; start at=10; cancel-requested at=11", 12, domain.Plan{Probe: true, CancelOutside: true, WakeAtMs: 60, WakeFor: domain.WakeStall}},
		{"stands still while a person looks for it", "stall=50 showsStall " + asked, 5, deadline(domain.Plan{})},
		{"stands still while queued", "stall=50 showsStall", 5, deadline(domain.Plan{Submit: true})},
	} {
		now := task(t, c.life)
		got := domain.Next(now, c.nowMs)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		// Open work follows from the task alone, so asking again changes nothing.
		if again := domain.Next(now, c.nowMs); again != got {
			t.Errorf("%s: another plan the second time", c.name)
		}
	}
	// No life leads there; a record from elsewhere must not be submitted for ever.
	used := task(t, "")
	used.Attempts = 2
	if p := domain.Next(used, 0); p.Submit {
		t.Error("an attempt too many is submitted")
	}
}

// TestDue: the deadline is all that time alone brings, and never twice.
func TestDue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		life  string
		nowMs int64
		due   bool
	}{
		{"", 999, false},
		{"", 1000, true},
		{"", 9999, true},
		{"; start at=1", 999, false},
		{"; start at=1", 1000, true},
		{"; start at=1; cancel-requested at=2", 999, false},
		{"; expire at=1000", 9999, false},
		{"; start at=1; succeed at=2 ref=r hash=h", 9999, false},
		{"; start at=1; fail at=2", 9999, false},
		{"; start at=1; fail at=2; retry at=3 ttl=5000", 5002, false},
		{"; start at=1; fail at=2; retry at=3 ttl=5000", 5003, true},
	} {
		now := task(t, c.life)
		e, ok := domain.Due(now, c.nowMs)
		if ok != c.due {
			t.Errorf("%q at %d: due %v", c.life, c.nowMs, ok)
		}
		if !ok {
			continue
		}
		if e.Type != domain.EventExpire || e.AtMs != now.ExpiresAtMs || e.Source != "timer" {
			t.Errorf("%q at %d: %+v is due", c.life, c.nowMs, e)
		}
		tr, err := domain.Apply(now, e)
		if err != nil || tr.Reason != domain.ReasonExpired || tr.Late {
			t.Errorf("%q at %d: the deadline is %s, late %v (%v)", c.life, c.nowMs, tr.Reason, tr.Late, err)
		}
		if _, ok := domain.Due(tr.Task, c.nowMs); ok {
			t.Errorf("%q at %d: due twice", c.life, c.nowMs)
		}
	}
}

// TestAsked: what the answer of the outside means.
func TestAsked(t *testing.T) {
	t.Parallel()
	const (
		running    = "; start at=1"
		suspected  = "; start at=1; suspect at=50"
		cancelling = "cancelGrace=100; start at=1; cancel-requested at=5"
	)
	for _, c := range []struct {
		name, life  string
		known, lost bool
		nowMs       int64
		event       domain.EventType // empty when nothing follows
		reason      domain.Reason
	}{
		{"nobody had doubts and it works", running, true, false, 60, "", ""},
		{"nobody had doubts and there is no answer", running, false, false, 60, "", ""},
		{"nobody had doubts and it is gone", running, false, true, 60, domain.EventRequeue, domain.ReasonRequeued},
		{"suspected, it works", suspected, true, false, 60, domain.EventLeaseRenewed, domain.ReasonLeaseRenewed},
		{"suspected, no answer", suspected, false, false, 60, domain.EventRequeue, domain.ReasonRequeued},
		{"suspected, it is gone", suspected, false, true, 60, domain.EventRequeue, domain.ReasonRequeued},
		{"cancelling, within the grace", cancelling, true, false, 104, "", ""},
		{"cancelling, the grace is over, it works", cancelling, true, false, 105, domain.EventCancelTimeout, domain.ReasonCancelUnconfirmed},
		{"cancelling, the grace is over, no answer", cancelling, false, false, 105, domain.EventCancelTimeout, domain.ReasonCancelUnconfirmed},
		{"cancelling, it is gone", cancelling, false, true, 60, domain.EventRequeue, domain.ReasonCancelled},
		{"cancelling and suspected, it works", cancelling + "; suspect at=50", true, false, 60, domain.EventLeaseRenewed, domain.ReasonLeaseRenewed},
		{"a person looks for it, it works", asked, true, false, 60, domain.EventLeaseRenewed, domain.ReasonLeaseRenewed},
		{"a person looks for it, no answer", asked, false, false, 60, "", ""},
		{"a person looks for it, it is gone", asked, false, true, 60, "", ""},
		{"a person looks for it, cancelling, within the grace", "cancelGrace=100 " + asked + "; cancel-requested at=5", false, true, 104, "", ""},
		{"a person looks for it, cancelling, no answer", "cancelGrace=100 " + asked + "; cancel-requested at=5", false, false, 105, domain.EventCancelTimeout, domain.ReasonCancelUnconfirmed},
		{"a person looks for it, cancelling, it is gone", "cancelGrace=100 " + asked + "; cancel-requested at=5", false, true, 105, domain.EventRequeue, domain.ReasonCancelled},
		{"a person looks for it, cancelling, it works", "cancelGrace=100 " + asked + "; cancel-requested at=5", true, false, 105, domain.EventLeaseRenewed, domain.ReasonLeaseRenewed},
		{"it came back, cancelling, it works", "cancelGrace=100 " + asked + "; cancel-requested at=5; heartbeat at=6", true, false, 105, domain.EventCancelTimeout, domain.ReasonCancelUnconfirmed},
		{"being undone, it works", undoing, true, false, 60, "", ""},
		{"being undone, it is gone", undoing, false, true, 60, "", ""},
		{"being undone, cancelling, no answer", "cancelGrace=100 " + undoing + "; cancel-requested at=5", false, false, 105, "", ""},
		{"being undone, cancelling, it is gone", "cancelGrace=100 " + undoing + "; cancel-requested at=5", false, true, 105, "", ""},
		{"could not be undone, it works", stuck, true, false, 60, domain.EventLeaseRenewed, domain.ReasonLeaseRenewed},
		{"unsafe, it is gone", "effects=unsafe unknown=manual; start at=1", false, true, 60, domain.EventRequeue, domain.ReasonManual},
		{"queued", "", false, true, 60, "", ""},
		{"ended", "; start at=1; fail at=2", false, true, 60, "", ""},
	} {
		now := task(t, c.life)
		e, ok := domain.Asked(now, c.known, c.lost, c.nowMs)
		if ok != (c.event != "") || e.Type != c.event {
			t.Errorf("%s: %s, %v", c.name, e.Type, ok)
			continue
		}
		if !ok {
			continue
		}
		tr, err := domain.Apply(now, e)
		if err != nil || tr.Reason != c.reason || !tr.Changed || e.AtMs != c.nowMs {
			t.Errorf("%s: %s at %d (%v)", c.name, tr.Reason, e.AtMs, err)
		}
		if e.Type == domain.EventRequeue && (e.Stopped != c.lost || e.Attempt != now.Attempts) {
			t.Errorf("%s: stopped %v, attempt %d", c.name, e.Stopped, e.Attempt)
		}
		if c.reason == domain.ReasonCancelled && (tr.Task.Confirmed == nil || !*tr.Task.Confirmed) {
			t.Errorf("%s: work that is gone has not stopped", c.name)
		}
	}
}

// TestSubmissionKey: it moves on after a definite end of the outside job only.
func TestSubmissionKey(t *testing.T) {
	t.Parallel()
	for life, want := range map[string]string{
		"id=job": "job/1",
		"id=job; start at=1; progress at=2 progress=5":                                     "job/1",
		"id=job; start at=1; fail at=2 retryable":                                          "job/2",
		"id=job max=3; start at=1; fail at=2 retryable; start at=200; fail at=3 retryable": "job/3",
		"id=job; start at=1; suspect at=2; requeue at=3":                                   "job/1",
		"id=job; start at=1; requeue at=3 stopped":                                         "job/1",
		"id=job; start at=1; expire at=1000; retry at=1001 ttl=9":                          "job/1",
		"id=job; start at=1; fail at=2; retry at=3 ttl=9":                                  "job/2",
		"id=job; start at=1; cancelled at=2; retry at=3 ttl=9":                             "job/2",
		"id=job; cancel-requested at=2; retry at=3 ttl=9":                                  "job/1",
		"id=job " + asked: "job/1",
		"id=job " + asked + "; resolve at=4 action=repeat": "job/1",
		"id=job " + asked + "; resolve at=4 action=failed": "job/2",
		"id=job " + asked + "; heartbeat at=4":             "job/1",
		"id=job " + undoing + "; compensated at=4":         "job/2",
		"id=job " + stuck: "job/1",
		"id=job " + stuck + "; resolve at=5 action=repeat": "job/1",
	} {
		if got := task(t, life).SubmissionKey(); got != want {
			t.Errorf("%s: %s, not %s", life, got, want)
		}
	}
}

// TestCompensationID: what undoes an attempt has one id, so that it runs once, and a
// caller cannot take it.
func TestCompensationID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, task := range []string{"t", "t#1", "t1", "task_1", strings.Repeat("x", domain.MaxID)} {
		for attempt := 1; attempt < 12; attempt++ {
			id := domain.CompensationID(task, attempt)
			if id != domain.CompensationID(task, attempt) || seen[id] || domain.CheckID("taskId", id) != nil || domain.CheckChosenID(id) == nil {
				t.Errorf("attempt %d of %s is undone by %s", attempt, task, id)
			}
			seen[id] = true
		}
	}
	// Computed by another program.
	if got := domain.CompensationID("task_1", 2); got != "undo_fcwadnabf26i267yrpcxzs26zulu4nwh" {
		t.Errorf("the ids have changed, so that what was undone would be undone again: %s", got)
	}
}

// TestProbeCallbackID: one change, one id; another change, another one.
func TestProbeCallbackID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for attempt := 1; attempt < 4; attempt++ {
		for progress := range 101 {
			for _, stage := range []string{"", "fetch", "build", strings.Repeat("long", 64)} {
				id := domain.ProbeCallbackID(attempt, progress, stage)
				if id != domain.ProbeCallbackID(attempt, progress, stage) || len(id) > domain.MaxCallbackID || seen[id] {
					t.Fatalf("attempt %d, progress %d, stage %q: %s", attempt, progress, stage, id)
				}
				seen[id] = true
			}
		}
	}
	if got := domain.ProbeCallbackID(1, 50, ""); got != "probe/1/50/e3b0c442" {
		t.Errorf("the ids have changed, which open tasks would notice: %s", got)
	}
}

// The deadline is looked at twice: the outside is asked before a task expires, and
// silence at the deadline is no suspicion.
func TestAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, life string
		at         int64
		ask, heard bool
	}{
		{"before it", "; start at=1", 999, false, true},
		{"at it", "; start at=1", 1000, true, false},
		{"after it", "; start at=1", 1001, true, false},
		{"nobody to ask", "external; start at=1", 1000, false, false},
		{"queued", "", 1000, false, false},
		{"ended", "; start at=1; expire at=1000", 1000, false, false},
	} {
		before := task(t, tc.life)
		if got := domain.AskFirst(before, tc.at); got != tc.ask {
			t.Errorf("%s: ask first %v", tc.name, got)
		}
		e, ok := domain.Silence(before, 1, "probe", tc.at)
		if ok != tc.heard {
			t.Errorf("%s: silence means something: %v", tc.name, ok)
		}
		if ok && (e.Type != domain.EventSuspect || e.AtMs != tc.at || e.Attempt != 1 || e.Source != "probe") {
			t.Errorf("%s: %+v", tc.name, e)
		}
	}
}

// A task that is given up leaves what was begun for it to nobody.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for life, want := range map[string]bool{
		"":             false,
		"; start at=1": false,
		"; start at=1; succeed at=2 ref=r hash=h":                  false,
		"; start at=1; fail at=2":                                  false,
		"; expire at=1000":                                         true,
		"; start at=1; expire at=1000":                             true,
		"; cancel-requested at=2":                                  true,
		"; cancel-requested at=2 begun":                            true,
		"; start at=1; cancelled at=2":                             false,
		"; start at=1; cancel-requested at=2; cancel-timeout at=3": true,
	} {
		if got := domain.GivenUp(task(t, life)); got != want {
			t.Errorf("%q: given up %v", life, got)
		}
	}
}
