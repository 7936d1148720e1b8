package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const stormTool = `
tools:
  storm:
    executor: external
    ttl: 6h
    maxTTL: 6h
    maxAttempts: 1000
    backoff: {initial: 1ms, max: 5ms}
`

// sent is one callback of the storm and what its sender was told.
type sent struct {
	cb       domain.Callback
	byUpdate bool
	verdict  starter.Verdict
	err      error
}

// plan draws a storm: half signals and half updates, a third of them repeats of
// earlier ones, now and then with another body.
func plan(size int, seed uint64) []*sent {
	draw := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a storm that can be had again
	all := make([]*sent, 0, size)
	distinct := 0
	for i := range size {
		s := &sent{byUpdate: i%2 == 0}
		if i%3 == 2 {
			s.cb = all[draw.IntN(i)].cb
			if draw.IntN(10) == 0 {
				s.cb.Event.Stage = "another body"
			}
		} else {
			s.cb = domain.Callback{CallbackID: fmt.Sprintf("cb-%d", distinct), Source: "storm", Event: drawEvent(draw, distinct, size)}
			distinct++
		}
		s.cb.DeliveryID = fmt.Sprintf("d-%d", i)
		all = append(all, s)
	}
	return all
}

// drawEvent draws what a lively tool sends: news mostly, some of it stale or
// for nobody, and now and then an attempt that fails and is begun again.
func drawEvent(draw *rand.Rand, n, size int) domain.Event {
	again := true
	switch k := draw.IntN(100); {
	case k < 55:
		return domain.Event{Type: domain.EventHeartbeat, Stage: fmt.Sprintf("stage %d", n)}
	case k < 80:
		return harness.Progress(float64(n*99/size), "")
	case k < 88:
		return domain.Event{Type: domain.EventHeartbeat}
	case k < 93:
		return harness.Start("w")
	case k < 95:
		return domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "FLAKY", Message: "again"}, Retryable: &again}
	default:
		return domain.Event{Type: domain.EventInputRequired, QuestionID: fmt.Sprintf("q%d", n%40), Prompt: "go on?"}
	}
}

// Thousands of callbacks by both doors while the task continues as new several
// times: each is answered once, no version is missing, and the end is what a
// second, dumb implementation makes of the same callbacks, read in the order of
// the histories.
func TestStorm(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, stormTakes), t, stormTool, nil)
	b.StartWorker()
	b.Client = b.NewClient(func(o *starter.Options) {
		o.ContinueAfterEvents = stormContinueAfter
		// The machine may be busy; that a callback is left as a signal is
		// another test's matter.
		o.UpdateTimeout = time.Minute
	})
	id := "t-storm"
	b.Submit("storm", id)
	b.Callback(id, "begin", harness.Start("w"))
	all := plan(stormSize, 1)
	began := time.Now()
	b.send(id, all, 16)
	took := time.Since(began)
	b.calm(id)
	b.UntilClosed(id)

	runs, err := harness.Runs(b.Ctx, b.Temporal, b.WorkflowID(id))
	require.NoError(t, err)
	events := 0
	for _, r := range runs {
		events += len(r)
	}
	t.Logf("%d callbacks in %v, %.0f a second; %d runs, %d events", len(all), took.Round(time.Millisecond), float64(len(all))/took.Seconds(), len(runs), events)
	require.Greater(t, len(runs), 3, "at least three times continued as new")

	rec := b.record(id)
	judge := newJudge(t, runs[0][0])
	for _, r := range runs {
		judge.run(r)
	}
	require.Empty(t, judge.oracle.Differences(rec.Task), "the oracle, fed in the order of history, comes to the same end")
	require.Equal(t, judge.oracle.Repeats, rec.Ledger.Repeats)
	require.Equal(t, judge.oracle.Conflicts, rec.Ledger.Conflicts)
	judge.answers(all)
	judge.remembered(rec.Ledger)
}

// send sends all callbacks, so many at a time.
func (b bed) send(taskID string, all []*sent, senders int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				s := all[i]
				if s.byUpdate {
					s.verdict, s.err = b.Client.Callback(b.Ctx, taskID, s.cb)
				} else {
					s.err = b.Client.Signal(b.Ctx, taskID, s.cb)
				}
			}
		})
	}
	wg.Wait()
}

// calm ends the task, which the storm may have left in a retry wait.
func (b bed) calm(taskID string) {
	b.T.Helper()
	d := b.Describe(taskID)
	if d.Task.State == domain.StateQueued {
		b.Callback(taskID, "calm", harness.Start("w"))
	}
	require.Equal(b.T, domain.ReasonSucceeded, b.Callback(taskID, "end", harness.Succeed("h")).Outcome.Reason)
}

// record is what the closed workflow of a task left.
func (b bed) record(taskID string) protocol.TaskRecord {
	b.T.Helper()
	var rec protocol.TaskRecord
	require.NoError(b.T, b.Temporal.GetWorkflow(b.Ctx, b.WorkflowID(taskID), "").Get(b.Ctx, &rec))
	return rec
}

// judge feeds an oracle with the callbacks of histories.
type judge struct {
	t      *testing.T
	oracle *domaintest.Oracle
	// verdicts by delivery, with the version after each.
	verdicts map[string]judged
	// news counts by callback id how often it was news.
	news map[string]int
}

type judged struct {
	domaintest.Verdict
	version int64
}

func newJudge(t *testing.T, started *historypb.HistoryEvent) *judge {
	t.Helper()
	create := inputOf(t, started).Create
	create.NowMs = started.GetEventTime().AsTime().UnixMilli()
	o, ok := domaintest.NewOracle(create)
	require.True(t, ok)
	return &judge{t: t, oracle: o, verdicts: make(map[string]judged), news: make(map[string]int)}
}

func inputOf(t *testing.T, started *historypb.HistoryEvent) protocol.TaskInput {
	t.Helper()
	var in protocol.TaskInput
	payloads := started.GetWorkflowExecutionStartedEventAttributes().GetInput()
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(payloads, &in))
	return in
}

// run judges one run: what it was given must be what the oracle has so far.
func (j *judge) run(events []*historypb.HistoryEvent) {
	j.t.Helper()
	if c := inputOf(j.t, events[0]).Carry; c != nil {
		require.Empty(j.t, j.oracle.Differences(c.Task), "what crosses a continue-as-new is all there is")
	}
	for _, e := range events {
		var cb domain.Callback
		payloads := e.GetWorkflowExecutionSignaledEventAttributes().GetInput()
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			payloads = e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetArgs()
		}
		if payloads == nil {
			continue
		}
		require.NoError(j.t, converter.GetDefaultDataConverter().FromPayloads(payloads, &cb))
		v, valid := j.oracle.Receive(cb, e.GetEventTime().AsTime().UnixMilli())
		if !valid {
			continue
		}
		if _, twice := j.verdicts[cb.DeliveryID]; twice {
			// The engine may hand an update that was answered together with a
			// continue-as-new to both runs: it must be the same answer.
			require.Equal(j.t, j.verdicts[cb.DeliveryID].Verdict, v)
			continue
		}
		j.verdicts[cb.DeliveryID] = judged{v, j.oracle.Version}
		if !v.Duplicate {
			j.news[cb.CallbackID]++
		}
	}
}

// answers compares what each sender was told with the oracle's word.
func (j *judge) answers(all []*sent) {
	j.t.Helper()
	told := 0
	for _, s := range all {
		v, happened := j.verdicts[s.cb.DeliveryID]
		out := s.verdict.Outcome
		switch {
		case !s.byUpdate:
			require.NoError(j.t, s.err)
			require.True(j.t, happened || s.cb.Event.Type == domain.EventInputRequired, "signal %s is in no history", s.cb.DeliveryID)
		case s.err != nil:
			require.ErrorIs(j.t, s.err, starter.ErrInvalid, "%s", s.cb.DeliveryID)
			require.False(j.t, happened)
		case happened:
			require.Equal(j.t, v.Reason, string(out.Reason), "%s", s.cb.DeliveryID)
			require.Equal(j.t, v.Changed, out.Changed, "%s", s.cb.DeliveryID)
			require.Equal(j.t, v.Duplicate, out.Duplicate, "%s", s.cb.DeliveryID)
			if v.Changed {
				require.Equal(j.t, v.version, out.Version, "%s", s.cb.DeliveryID)
				told++
			}
		default:
			// Turned away at no cost: nothing of it happened.
			require.False(j.t, out.Changed, "%s was told of a change that is in no history", s.cb.DeliveryID)
			require.NotEqual(j.t, starter.VerdictAccepted, s.verdict.Verdict, "%s", s.cb.DeliveryID)
		}
	}
	for id, n := range j.news {
		require.Equal(j.t, 1, n, "%s was news more than once", id)
	}
	require.Equal(j.t, j.oracle.Version, int64(len(j.oracle.History)), "versions without gaps")
	j.t.Logf("%d ids were news, %d senders were told of a change, %d versions, %d repeats and %d conflicts in history",
		len(j.news), told, j.oracle.Version, j.oracle.Repeats, j.oracle.Conflicts)
}

// remembered checks that the ledger came through every continue-as-new whole.
func (j *judge) remembered(l *domain.Ledger) {
	j.t.Helper()
	for id := range j.news {
		_, ok := l.Seen(id)
		require.True(j.t, ok, "%s was forgotten", id)
	}
}
