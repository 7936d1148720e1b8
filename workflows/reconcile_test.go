package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// reconcile sends the update; its answer is filled in later.
func (e *env) reconcile(id string) *protocol.Reconciled {
	out := &protocol.Reconciled{}
	e.UpdateWorkflow(protocol.UpdateReconcile, id, &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { e.t.Error(err) },
		OnComplete: func(v any, err error) {
			if err != nil {
				e.t.Error(err)
				return
			}
			*out = v.(protocol.Reconciled)
		},
	}, protocol.Reconcile{By: "ann"})
	return out
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ask     func(protocol.ProbeRequest) (protocol.ProbeResult, error)
		in      protocol.TaskInput
		outside string
		did     domain.Reason
		after   domain.State
	}{
		"it runs": {
			func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Known: true}, nil
			},
			executed(), protocol.OutsideRunning, "", domain.StateRunning,
		},
		"it is over": {
			func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) },
			executed(), protocol.OutsideEnded, domain.ReasonSucceeded, domain.StateSucceeded,
		},
		"it is lost": {lost, executed(), protocol.OutsideLost, domain.ReasonRequeued, domain.StateQueued},
		"it is lost and unsafe": {
			lost, unsafeWork(), protocol.OutsideLost, domain.ReasonManual, domain.StateRunning,
		},
		"nobody knows": {
			func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{NotFound: true}, nil
			},
			executed(), protocol.OutsideUnknown, "", domain.StateRunning,
		},
		"no answer": {
			func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{}, temporal.NewNonRetryableApplicationError("down", "Down", errors.New("x"))
			},
			executed(), protocol.OutsideNoAnswer, "", domain.StateRunning,
		},
		"nobody to ask": {nil, external(), protocol.OutsideNotAsked, "", domain.StateQueued},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{ask: tc.ask})
			var first, second *protocol.Reconciled
			e.at(time.Minute, func() { first = e.reconcile("r1") })
			e.at(time.Minute+500*time.Millisecond, func() {
				if !tc.after.Terminal() {
					second = e.reconcile("r2")
				}
			})
			e.at(2*time.Minute, func() { e.CancelWorkflow() })
			e.run(tc.in)
			require.Equal(t, tc.outside, first.Outside)
			require.Equal(t, tc.did, first.Did)
			require.Equal(t, tc.after, first.After.State)
			if second != nil {
				require.Equal(t, first.After, second.After, "twice in a row changes nothing")
				require.Empty(t, second.Did)
			}
		})
	}
}

// A task that waits for a person takes an answer that is an answer, and no other.
func TestReconcileOfWhatIsUnknown(t *testing.T) {
	t.Parallel()
	asked := 0
	w := &world{probe: lost}
	w.ask = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if asked++; asked == 1 {
			return protocol.ProbeResult{}, nil
		}
		return ended(succeed("h"), r.Attempt)
	}
	e := newEnv(t, w)
	var first, second *protocol.Reconciled
	e.at(time.Minute, func() { first = e.reconcile("r1") })
	e.at(2*time.Minute, func() { second = e.reconcile("r2") })
	e.run(unsafeWork())
	require.Equal(t, protocol.OutsideUnknown, first.Outside)
	require.Equal(t, first.Before, first.After)
	require.Equal(t, domain.ReasonSucceeded, second.Did)
	require.Equal(t, domain.StateSucceeded, e.record().Task.State)
}

// While the answer to a reconciliation keeps an ended task from closing, the task can
// be retried: then it does not close.
func TestReconcileHoldsUpTheClosing(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	asked := make(chan struct{})
	w.ask = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		<-asked
		return protocol.ProbeResult{Known: true}, nil
	}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		if r.Attempt == 2 {
			return ended(succeed("h"), 2)
		}
		return protocol.ProbeResult{}, errGoesOn
	}
	var retried *reply
	e.at(time.Minute, func() {
		e.reconcile("r")
		e.signal(callback("c", domain.Event{Type: domain.EventFail, Attempt: 1, Error: &domain.TaskError{Message: "no"}}))
		e.at(0, func() {
			retried = e.update(protocol.UpdateRetry, "again", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
			close(asked)
		})
	})
	e.run(executed())
	require.Equal(t, domain.ReasonRetried, retried.answer(t).Reason)
	rec := e.record()
	require.Equal(t, domain.StateSucceeded, rec.Task.State)
	require.Equal(t, 2, rec.Task.Attempts)
}

// What happens while the answer to a reconciliation holds up a continue-as-new is not
// lost to the next run.
func TestReconcileHoldsUpAContinueAsNew(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	asked := make(chan struct{})
	w.ask = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		<-asked
		return protocol.ProbeResult{Known: true}, nil
	}
	e.at(time.Minute, func() {
		e.SetContinueAsNewSuggested(true)
		e.reconcile("r")
		e.signal(callback("c", domain.Event{Type: domain.EventHeartbeat, Attempt: 1, Stage: "on"}))
		e.at(0, func() {
			e.CancelWorkflow()
			close(asked)
		})
	})
	e.run(executed())
	require.NotNil(t, e.carried().Carry.Task.Cancel)
}

// A job that is suspected while somebody reconciles is asked about for as long as any
// other: the short wait of the one does not decide about the other.
func TestSuspicionDuringAReconcile(t *testing.T) {
	t.Parallel()
	looks, asked := 0, 0
	w := &world{}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		switch looks++; looks {
		case 1:
			return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("goes on", protocol.ErrTypeStillRunning, temporal.ApplicationErrorOptions{NextRetryDelay: 70 * time.Second})
		case 2:
			return protocol.ProbeResult{}, errHostLost
		}
		return ended(succeed("h"), r.Attempt)
	}
	w.ask = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
		switch asked++; asked {
		case 1:
			return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("slow", "Slow", temporal.ApplicationErrorOptions{NextRetryDelay: 15 * time.Second})
		case 2:
			return protocol.ProbeResult{}, errHostLost
		}
		return protocol.ProbeResult{Known: true}, nil
	}
	e := newEnv(t, w)
	var out *protocol.Reconciled
	e.at(time.Minute, func() { out = e.reconcile("r") })
	e.run(executed())
	require.Equal(t, protocol.OutsideNoAnswer, out.Outside)
	require.Equal(t, []domain.EventType{domain.EventStart, domain.EventSuspect, domain.EventLeaseRenewed, domain.EventSucceed}, eventTypes(e.record().Task))
}
