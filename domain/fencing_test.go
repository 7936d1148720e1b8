package domain_test

import (
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// received gives a callback to the signal door and its answer.
func received(t *testing.T, p *domaintest.Pair, c domain.Callback) domain.Outcome {
	t.Helper()
	_, out, err := p.Callback(c, max(c.Event.AtMs, 1))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLateFailOfAttempt1DuringAttempt2(t *testing.T) {
	t.Parallel()
	p := lived(t, "max=3; start at=1 attempt=1; requeue at=10 attempt=1; start at=200 attempt=2")
	before := p.Task
	if out := received(t, p, callback(t, "f1", "fail at=201 attempt=1 error=boom")); out.Reason != domain.ReasonStaleAttempt || out.Changed {
		t.Errorf("the late fail is %+v", out)
	}
	if p.Task.State != domain.StateRunning || p.Task.Version != before.Version || p.Task.Error.Code != domain.CodeWorkerLost {
		t.Errorf("it has touched the task: %+v", p.Task)
	}
	if out := received(t, p, callback(t, "s2", "succeed at=202 attempt=2 ref=r hash=h")); out.Reason != domain.ReasonSucceeded {
		t.Errorf("attempt 2 ends with %+v", out)
	}
}

func TestRefusedCallbackRepeatedAfterManualRetry(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]string{
		"failed":            "; start at=1 attempt=1; fail at=2 attempt=1",
		"expired":           "; start at=1 attempt=1; expire at=1000",
		"cancelled":         "; start at=1 attempt=1; cancelled at=2",
		"cancelled, queued": "; cancel-requested at=2",
		"expired, queued":   "; expire at=1000",
	} {
		for _, event := range []string{"succeed at=1001 attempt=1 ref=r hash=h", "succeed at=1001 ref=r hash=h"} {
			p := lived(t, life)
			c := callback(t, "c1", event)
			// Refused by the validator, so that nobody remembers it.
			if domain.Admit(p.Task, p.Ledger, c, c.Event.Digest(), 1001) == nil {
				t.Fatalf("%s: %s is let in", name, event)
			}
			apply(t, p, "retry at=2000 ttl=1000")
			for _, then := range []string{"", "start at=2001 attempt=2"} {
				if then != "" {
					apply(t, p, then)
				}
				tr, _, err := domain.Judge(p.Task, p.Ledger, c, c.Event.Digest(), 2002)
				if err != nil || tr.Changed {
					t.Errorf("%s: %s, repeated after the retry, is %s (%v)", name, event, tr.Reason, err)
				}
			}
		}
	}
}

func TestTwoOperatorsRetryAtOnce(t *testing.T) {
	t.Parallel()
	p := lived(t, "; start at=1 attempt=1; fail at=2")
	if tr := apply(t, p, "retry at=3 ttl=500 by=ann"); tr.Reason != domain.ReasonRetried {
		t.Errorf("the first is %s", tr.Reason)
	}
	if tr := apply(t, p, "retry at=3 ttl=900 by=bob"); tr.Reason != domain.ReasonNotEnded || tr.Changed {
		t.Errorf("the second is %s", tr.Reason)
	}
	if p.Task.MaxAttempts != 3 || p.Task.ExpiresAtMs != 503 || p.Task.Retries != 1 {
		t.Errorf("%d attempts, deadline %d, %d retries", p.Task.MaxAttempts, p.Task.ExpiresAtMs, p.Task.Retries)
	}
}

func TestCallbackIDEqualToAnswerID(t *testing.T) {
	t.Parallel()
	p := lived(t, "; start at=1; input-required at=2 question=same prompt=why?")
	if out := received(t, p, callback(t, "same", "progress at=3 progress=10")); out.Reason != domain.ReasonProgress {
		t.Errorf("the callback is %+v", out)
	}
	if tr := apply(t, p, "answer at=4 question=same answer=1"); tr.Reason != domain.ReasonAnswered {
		t.Errorf("the answer is %s", tr.Reason)
	}
	again := callback(t, "same", "progress at=5 progress=10")
	again.DeliveryID = "another"
	if out := received(t, p, again); out.Reason != domain.ReasonDuplicateCallback || out.Conflict {
		t.Errorf("the repeated callback is %+v", out)
	}
	if tr := apply(t, p, "answer at=6 question=same answer=1"); tr.Reason != domain.ReasonDuplicateAnswer {
		t.Errorf("the repeated answer is %s", tr.Reason)
	}
}

func TestUpdateThatFellBackToASignal(t *testing.T) {
	t.Parallel()
	p := lived(t, "; start at=1")
	c := callback(t, "c1", "succeed at=2 ref=r hash=h")
	_, first, err := p.Update(c, 2)
	if err != nil || first.Reason != domain.ReasonSucceeded {
		t.Fatalf("%+v (%v)", first, err)
	}
	if out := received(t, p, c); out != first {
		t.Errorf("as a signal it is %+v, as an update it was %+v", out, first)
	}
	if out := first.For(c); out != first {
		t.Errorf("the client reads its own answer as %+v", out)
	}
}
