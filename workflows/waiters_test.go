package workflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// updateOf takes any answer of an update.
func updateOf(t testing.TB) *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {}}
}

func shared(in *protocol.TaskInput) { in.Create.RunID, in.Create.ToolCallID = "run-1", "call-1" }

// All who wait are told, each as whom it waits.
func TestAllWhoWaitAreTold(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var answers []*reply
	attach := func(id, run string) {
		answers = append(answers, e.update(protocol.UpdateAttach, fmt.Sprint("a", len(answers)), protocol.Attach{Waiter: &domain.Waiter{ID: id, RunID: run, ToolCallID: "call-" + id}}))
	}
	e.at(time.Minute, func() {
		attach("two", "run-2")
		attach("two", "run-2")
		attach("three", "run-3")
		attach("", "run-4")
		answers = append(answers, e.update(protocol.UpdateDetach, "d", protocol.Detach{WaiterID: "three", Reason: "changed its mind"}))
		answers = append(answers, e.update(protocol.UpdateDetach, "d2", protocol.Detach{WaiterID: "two", Reason: domain.DetachWaitTimeout}))
		answers = append(answers, e.update(protocol.UpdateDetach, "d3", protocol.Detach{WaiterID: "nobody"}))
	})
	e.at(2*time.Minute, func() { e.signal(callback("c", succeed("h"))) })
	e.run(external(shared))
	var reasons []domain.Reason
	for i, a := range answers {
		if i == 3 {
			require.Equal(t, "waiter.id", a.problem(t).Field)
			continue
		}
		reasons = append(reasons, a.answer(t).Reason)
	}
	require.Equal(t, []domain.Reason{
		domain.ReasonAttached, domain.ReasonDuplicateWaiter, domain.ReasonAttached, domain.ReasonDetached, domain.ReasonDetached, domain.ReasonUnknownWaiter,
	}, reasons)
	told := map[string]string{}
	for _, n := range w.notified {
		told[n.RunID] = n.Finished.ToolCallID
	}
	require.Equal(t, map[string]string{"run-1": "", "run-2": "call-two"}, told, "who lost patience is told, who left is not")
}

// A cancel by one of several only detaches it; the last one's is a cancel.
func TestCancelByOneOfSeveral(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	var answers []*reply
	cancel := func(id, waiter string) {
		answers = append(answers, e.update(protocol.UpdateCancel, id, protocol.Cancel{By: waiter, WaiterID: waiter}))
	}
	e.at(time.Minute, func() {
		e.update(protocol.UpdateAttach, "a", protocol.Attach{Waiter: &domain.Waiter{ID: "two", RunID: "run-2"}})
		cancel("c1", domain.WaiterSubmitter)
		cancel("c2", domain.WaiterSubmitter)
	})
	e.at(2*time.Minute, func() { cancel("c3", "two") })
	e.at(3*time.Minute, func() { e.signal(callback("c", domain.Event{Type: domain.EventCancelled})) })
	e.run(external(shared, func(in *protocol.TaskInput) { in.Create.Policy.Strict = false }))
	require.Equal(t, domain.ReasonDetached, answers[0].answer(t).Reason)
	require.Equal(t, domain.ReasonDuplicateDetach, answers[1].answer(t).Reason)
	require.Equal(t, domain.ReasonCancelled, answers[2].answer(t).Reason, "it was still queued")
	rec := e.record()
	require.Equal(t, domain.StateCancelled, rec.Task.State)
	require.Len(t, w.notified, 1, "who left is not told")
	require.Equal(t, "run-2", w.notified[0].RunID)
}
