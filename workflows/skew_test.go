package workflows_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// signalBack ends the absence of the worker.
const signalBack = "the worker is back"

// awayTask is a task whose worker is not there until [signalBack]: meanwhile
// signals and the deadline come, and nobody looks.
func awayTask(ctx workflow.Context, in protocol.TaskInput) (*protocol.TaskRecord, error) {
	workflow.GetSignalChannel(ctx, signalBack).Receive(ctx, nil)
	return workflows.AsyncTask(ctx, in)
}

// skew is one callback around the deadline, all times as distances from it.
type skew struct {
	claimed, received, handled time.Duration
	// http means that the gateway put the time of receipt into the event.
	http bool
	// update is the door, otherwise it is the signal.
	update bool
}

// verdict plays the callback through the workflow.
func (s skew) verdict(t *testing.T) string {
	t.Helper()
	const life = 2 * time.Hour
	deadline := start.Add(life)
	created, err := domain.New(domain.Create{ID: "t1", Tenant: "acme", Tool: "x", NowMs: startMs(), TTLMs: life.Milliseconds(), MaxAttempts: 1, Policy: domain.Policy{External: true}})
	require.NoError(t, err)
	running, err := domain.Apply(created, domain.Event{Type: domain.EventStart, AtMs: startMs()})
	require.NoError(t, err)
	in := external()
	in.Carry = &protocol.Carry{Task: running.Task}

	c := callback("cb", succeed("h"))
	c.Event.AtMs = deadline.Add(s.claimed).UnixMilli()
	if s.http {
		c.Event.AtMs, c.OccurredAtMs = deadline.Add(s.received).UnixMilli(), c.Event.AtMs
	}
	e := newEnv(t, &world{})
	e.RegisterWorkflowWithOptions(awayTask, workflow.RegisterOptions{Name: "Away"})
	var r *reply
	if !s.update {
		e.at(life+s.received, func() { e.queue(c) })
	}
	e.at(life+s.handled, func() {
		if e.SignalWorkflowSkippingWorkflowTask(signalBack, nil); s.update {
			r = e.callbackUpdate(c)
			return
		}
		e.SignalWorkflow("only wakes", nil)
	})
	e.ExecuteWorkflow("Away", in)
	require.True(t, e.IsWorkflowCompleted())
	rec := e.record()
	if s.update {
		return verdictOf(r.answer(t).Reason, r.answer(t).Late)
	}
	a, seen := rec.Ledger.Seen("cb")
	require.True(t, seen, "the signal was lost")
	return verdictOf(a.Reason, a.Late)
}

func verdictOf(reason domain.Reason, late bool) string {
	v := "`" + string(reason) + "`"
	if late {
		v += ", late"
	}
	return v
}

var skewTimes = map[string]time.Duration{
	"1 h before": -time.Hour, "1 ms before": -time.Millisecond, "exactly": 0, "1 ms after": time.Millisecond, "1 h after": time.Hour,
}

// TestSkew plays every row of docs/skew.md, which is printed from the domain,
// through the workflow: over both doors, at once and by a worker that was away
// over the deadline.
func TestSkew(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/skew.md")
	require.NoError(t, err)
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 7 {
			continue
		}
		claimed, ok := skewTimes[cells[0]]
		if !ok {
			continue
		}
		received, ok := skewTimes[cells[1]]
		require.True(t, ok, cells[1])
		rows++
		t.Run(cells[0]+", received "+cells[1], func(t *testing.T) {
			t.Parallel()
			const later = 2 * time.Hour
			for _, s := range []struct {
				column int
				skew   skew
			}{
				{2, skew{claimed, received, received, true, true}},
				{2, skew{claimed, received, received, true, false}},
				{3, skew{claimed, received, received, false, false}},
				{3, skew{claimed, received, received, false, true}},
				{4, skew{claimed, received, later, true, true}},
				{4, skew{claimed, received, later, true, false}},
				{5, skew{claimed, received, later, false, false}},
				{5, skew{claimed, received, later, false, true}},
			} {
				require.Equal(t, cells[s.column], s.skew.verdict(t), "column %d, %+v", s.column+1, s.skew)
			}
		})
	}
	require.Equal(t, 25, rows)
}

// A callback that waits for the very step that the deadline brings is handled
// before the deadline.
func TestACallbackAndTheTimerInOneStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at   time.Duration
		want domain.State
	}{
		"one millisecond before": {time.Hour - time.Millisecond, domain.StateSucceeded},
		"an hour before":         {0, domain.StateSucceeded},
		"at the deadline itself": {time.Hour, domain.StateExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			c := callback("cb", succeed("h"))
			c.Event.AtMs = start.Add(tc.at).UnixMilli()
			e.at(time.Hour-time.Millisecond, func() { e.queue(c) })
			e.run(external())
			require.Equal(t, tc.want, e.record().Task.State)
		})
	}
}

// Nothing undoes an expiry: the last column, for as long as the workflow is open
// because it still tells the outside to stop. Afterwards the client answers from
// the record, see tests/workflowconformance.
func TestASuccessAfterTheTimer(t *testing.T) {
	t.Parallel()
	for name, claimed := range skewTimes {
		t.Run("claimed "+name, func(t *testing.T) {
			t.Parallel()
			w := &world{
				ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
					return protocol.ProbeResult{Known: true}, nil
				},
				cancel: func(protocol.CancelRequest) error { return errors.New("busy") },
			}
			e := newEnv(t, w)
			c := callback("update", attempt(1, succeed("h")))
			c.Event.AtMs = start.Add(time.Hour + claimed).UnixMilli()
			s := c
			s.CallbackID = "signal"
			var r *reply
			e.at(time.Hour+time.Second, func() {
				r = e.callbackUpdate(c)
				e.signal(s)
			})
			e.run(executed())
			require.Equal(t, "`terminal-conflict`, late", verdictOf(r.refusal(t).Reason, r.refusal(t).Late))
			a, seen := e.record().Ledger.Seen("signal")
			require.True(t, seen)
			require.Equal(t, "`terminal-conflict`, late", verdictOf(a.Reason, a.Late))
			require.Equal(t, domain.StateExpired, e.record().Task.State)
		})
	}
}
