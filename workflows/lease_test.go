package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// errHostLost stands for the time-out by which the server says that no worker
// looks at the job's queue; the environment can't play that one.
var errHostLost = temporal.NewNonRetryableApplicationError("nobody could look", "HostLost", nil)

func ended(e domain.Event, attempt int) (protocol.ProbeResult, error) {
	e.Attempt = attempt
	return protocol.ProbeResult{Event: &e}, nil
}

// A lost job confirms a cancel, unless something of it may still run.
func TestLostJobAndACancel(t *testing.T) {
	t.Parallel()
	for name, mayRun := range map[string]bool{"it has stopped": false, "it may run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			asked := false
			w.probe = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				if !asked {
					return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("goes on", protocol.ErrTypeStillRunning, temporal.ApplicationErrorOptions{NextRetryDelay: 20 * time.Second})
				}
				return protocol.ProbeResult{Lost: true, MayRun: mayRun}, nil
			}
			e := newEnv(t, w)
			e.at(10*time.Second, func() {
				w.mu.Lock()
				asked = true
				w.mu.Unlock()
				e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann"})
			})
			e.run(executed())
			rec := e.record()
			require.Equal(t, domain.StateCancelled, rec.Task.State)
			require.Equal(t, !mayRun, *rec.Task.Confirmed)
		})
	}
}

// The host of a job falls silent. The task suspects, asks, and does what the
// answer says.
func TestHostLost(t *testing.T) {
	t.Parallel()
	const renewed, requeued, suspect = domain.EventLeaseRenewed, domain.EventRequeue, domain.EventSuspect
	for name, tc := range map[string]struct {
		// ask answers the question; by then the task is suspected lost.
		ask     func(r protocol.ProbeRequest) (protocol.ProbeResult, error)
		effects domain.Effects
		max     int
		history []domain.EventType
		state   domain.State
		code    string
	}{
		"still running: the lease is renewed": {
			ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Known: true}, nil
			},
			history: []domain.EventType{domain.EventStart, suspect, renewed, domain.EventSucceed}, state: domain.StateSucceeded,
		},
		"done meanwhile: the result is taken": {
			ask:     func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(succeed("h"), r.Attempt) },
			history: []domain.EventType{domain.EventStart, suspect, domain.EventSucceed}, state: domain.StateSucceeded,
		},
		"failed meanwhile: the error is taken": {
			ask:     func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(retryable(0), r.Attempt) },
			history: []domain.EventType{domain.EventStart, suspect, domain.EventFail, domain.EventStart, domain.EventSucceed}, state: domain.StateSucceeded,
		},
		"lost: back to the queue": {
			ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Lost: true}, nil
			},
			history: []domain.EventType{domain.EventStart, suspect, requeued, domain.EventStart, domain.EventSucceed}, state: domain.StateSucceeded, code: domain.CodeWorkerLost,
		},
		"not known: back to the queue": {
			ask:     func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, nil },
			history: []domain.EventType{domain.EventStart, suspect, requeued, domain.EventStart, domain.EventSucceed}, state: domain.StateSucceeded, code: domain.CodeWorkerLost,
		},
		"no answer: back to the queue": {
			ask:     func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, errHostLost },
			history: []domain.EventType{domain.EventStart, suspect, requeued, domain.EventStart, domain.EventSucceed}, state: domain.StateSucceeded, code: domain.CodeWorkerLost,
		},
		"lost in the last attempt: failed": {
			ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Lost: true}, nil
			},
			max: 1, history: []domain.EventType{domain.EventStart, suspect, requeued}, state: domain.StateFailed, code: domain.CodeWorkerLost,
		},
		"no answer of a tool that must not run twice: a person decides": {
			ask:     func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, errHostLost },
			effects: domain.EffectsUnsafe, history: []domain.EventType{domain.EventStart, suspect, requeued}, state: domain.StateFailed, code: domain.CodeOutcomeUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			w := &world{ask: tc.ask}
			w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
				if looks++; looks == 1 {
					return protocol.ProbeResult{}, errHostLost
				}
				return ended(succeed("h"), r.Attempt)
			}
			e := newEnv(t, w)
			e.run(executed(func(in *protocol.TaskInput) {
				in.Create.Policy.Effects = tc.effects
				if tc.max > 0 {
					in.Create.MaxAttempts = tc.max
				}
			}))
			rec := e.record()
			require.Equal(t, tc.history, eventTypes(rec.Task))
			require.Equal(t, tc.state, rec.Task.State)
			if tc.code != "" {
				require.Equal(t, tc.code, rec.Task.Error.Code)
			}
			moves := map[bool]string{true: "acme/t1/1", false: "acme/t1/2"}
			last := w.submits[len(w.submits)-1].SubmissionKey
			require.Equal(t, moves[len(w.submits) == 1 || tc.code == domain.CodeWorkerLost], last, "the key moves on after a definite failure only")
		})
	}
}

// While somebody is asked the task says so, and a sign of life answers as well
// as the outside does.
func TestSuspicionEndsWithASignOfLife(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]domain.Event{
		"a heartbeat": {Type: domain.EventHeartbeat, Attempt: 1},
		"progress":    attempt(1, progress(30)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.ask = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})
			}
			w.lease = func(context.Context, protocol.LeaseRequest) error {
				if len(w.leases) == 1 {
					return temporal.NewHeartbeatTimeoutError()
				}
				return activity.ErrResultPending
			}
			e := newEnv(t, w)
			var asked, after protocol.Description
			e.at(30*time.Second, func() {
				asked = e.describe()
				e.signal(callback("alive", sign))
			})
			e.at(5*time.Minute, func() { after = e.describe() })
			e.at(6*time.Minute, func() { e.signal(callback("end", attempt(1, succeed("h")))) })
			e.run(executed(func(in *protocol.TaskInput) { in.Create.Policy.LeaseMs = 600_000 }))
			require.Equal(t, domain.PhaseSuspectedLost, asked.Phase)
			require.Contains(t, asked.WaitsFor, "whether the work goes on")
			require.Equal(t, domain.PhaseRunning, after.Phase)
			require.Equal(t, 1, e.record().Task.Attempts)
			require.Len(t, w.leases, 2, "the lease is opened again")
		})
	}
}

// After a retryable failure the next attempt waits, longer each time, and says
// until when.
func TestRetryWait(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var at []time.Time
	w.submit = func(r protocol.SubmitRequest) (protocol.SubmitResult, error) {
		at = append(at, e.Now())
		return protocol.SubmitResult{Handle: protocol.Handle{Executor: "fake", ID: r.SubmissionKey}}, nil
	}
	var failedAt []time.Time
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) {
		failedAt = append(failedAt, e.Now())
		return ended(retryable(0), r.Attempt)
	}
	var waiting protocol.Description
	e.at(30*time.Second, func() { waiting = e.describe() })
	e.run(executed(func(in *protocol.TaskInput) {
		in.Create.MaxAttempts = 4
		in.Create.Policy.Backoff = domain.Backoff{InitialMs: 60_000, Factor: 3, MaxMs: 300_000, Jitter: 0.5}
	}))
	rec := e.record()
	require.Equal(t, domain.StateFailed, rec.Task.State)
	require.Equal(t, domain.PhaseRetryWait, waiting.Phase)
	require.Equal(t, domain.WakeRetry, waiting.WakeFor)
	require.Equal(t, waiting.Task.RetryAtMs, waiting.WakeAtMs)
	require.Len(t, at, 4)
	for i, most := range []time.Duration{time.Minute, 3 * time.Minute, 5 * time.Minute} {
		wait := at[i+1].Sub(failedAt[i])
		require.GreaterOrEqual(t, wait, most/2)
		require.LessOrEqual(t, wait, most)
	}
	require.Equal(t, waiting.Task.RetryAtMs, at[1].UnixMilli())
}

// A queued task whose retry wait is over the deadline does not live longer.
func TestRetryWaitEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(retryable(0), r.Attempt) }
	e := newEnv(t, w)
	e.run(executed(func(in *protocol.TaskInput) {
		in.Create.Policy.Backoff = domain.Backoff{InitialMs: 2 * time.Hour.Milliseconds(), MaxMs: 2 * time.Hour.Milliseconds()}
	}))
	rec := e.record()
	require.Equal(t, domain.StateExpired, rec.Task.State)
	require.Equal(t, startMs()+time.Hour.Milliseconds(), rec.Task.EndedAtMs)
	require.Len(t, w.submits, 1)
	require.Len(t, w.cancels, 1)
	require.Nil(t, w.cancels[0].Handle, "the job of attempt 1 has ended; whatever else has the key is stopped")
}

// Five ends look alike from far and stay five different ones. That a run stopped
// waiting is its own matter: the task goes on.
func TestEndsStayDifferent(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, tc := range map[string]struct {
		world func(*world)
		do    func(*env)
		want  string
	}{
		"the tool timed out":        {func(*world) {}, func(*env) {}, "expired"},
		"a person cancelled":        {func(*world) {}, func(e *env) { e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"}) }, "cancelled"},
		"the tool itself timed out": {probes(domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "TIMEOUT", Message: "too slow"}}), func(*env) {}, "failed TIMEOUT"},
		"the worker was lost": {func(w *world) {
			w.probe = func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Lost: true}, nil
			}
		}, func(*env) {}, "failed WORKER_LOST"},
		"the callback was lost": {probes(succeed("h")), func(*env) {}, "succeeded"},
	} {
		w := &world{}
		tc.world(w)
		e := newEnv(t, w)
		e.at(time.Minute, func() { tc.do(e) })
		e.run(executed(func(in *protocol.TaskInput) { in.Create.MaxAttempts = 1 }))
		rec := e.record()
		got := string(rec.Task.State)
		if rec.Task.Error != nil {
			got += " " + rec.Task.Error.Code
		}
		require.Equal(t, tc.want, got, name)
		require.Empty(t, seen[got], "%s and %s look the same", name, seen[got])
		seen[got] = name
	}
}

func probes(e domain.Event) func(*world) {
	return func(w *world) {
		w.probe = func(r protocol.ProbeRequest) (protocol.ProbeResult, error) { return ended(e, r.Attempt) }
	}
}
