package replay

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// tools are those of every life. The targets answer as their names say.
func tools(url string) string {
	return `
targets:
  ops: {url: ` + url + `/ok}
  gone: {url: ` + url + `/gone}
tools:
  review: {executor: external, ttl: 1h, maxAttempts: 2, cancelGrace: 1s, backoff: {initial: 1ms, max: 1ms}}
  quick: {executor: external, ttl: 4s, maxAttempts: 1}
  late: {executor: external, ttl: 4s, late: {policy: record, grace: 1h}}
  leased: {executor: external, ttl: 1h, lease: 1s, maxAttempts: 2, backoff: {initial: 1ms, max: 1ms}}
  told: {executor: external, ttl: 1h, targets: [ops, gone]}
  build: {executor: script, ttl: 1h, poll: 100ms, cancelGrace: 1s, maxAttempts: 2, backoff: {initial: 1s, max: 1s}}
  quick-build: {executor: script, ttl: 6s, poll: 100ms}
  leased-build: {executor: script, ttl: 1h, poll: 100ms, lease: 1s}
` + recoveryTools[1:]
}

func receiver(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// life is something that happens to one task, for whose history it is there.
type life struct {
	name string
	live func(b harness.Bed, s *harness.Script, id string)
	want domain.State
	// also names further workflows whose histories belong to it.
	also func(b harness.Bed, id string) []string
}

// lives lists what is recorded. A name is a file in testdata, so that a new
// kind of life gets a new name.
func lives() []life {
	return append(recoveryLives(), []life{
		{name: "success", want: domain.StateSucceeded, live: liveSuccess},
		{name: "external", want: domain.StateSucceeded, live: liveExternal},
		{name: "signals", want: domain.StateSucceeded, live: liveSignals},
		{name: "retry", want: domain.StateSucceeded, live: liveRetry},
		{name: "failed", want: domain.StateFailed, live: liveFailed},
		{name: "manual-retry", want: domain.StateSucceeded, live: liveManualRetry},
		{name: "expiry", want: domain.StateExpired, live: liveExpiry},
		{name: "expiry-of-a-job", want: domain.StateExpired, live: liveExpiryOfAJob},
		{name: "late-result", want: domain.StateExpired, live: liveLateResult},
		{name: "cancel", want: domain.StateCancelled, live: liveCancel},
		{name: "cancel-in-the-ui", want: domain.StateCancelled, live: liveCancelInTheUI},
		{name: "cancel-of-a-job", want: domain.StateCancelled, live: liveCancelOfAJob},
		{name: "lease-lost", want: domain.StateSucceeded, live: liveLeaseLost},
		{name: "lease-renewed", want: domain.StateSucceeded, live: liveLeaseRenewed},
		{name: "continue-as-new", want: domain.StateSucceeded, live: liveContinueAsNew},
		{name: "delivery", want: domain.StateSucceeded, live: liveDelivery, also: deliveries},
		{name: "sweep", want: domain.StateSucceeded, live: liveSweep, also: sweeps},
	}...)
}

// patience is how long anything may take.
const patience = time.Minute

// liveSuccess is a job that reports progress and a stage, and ends with a
// result that is stored. A run that is gone is told.
func liveSuccess(b harness.Bed, s *harness.Script, id string) {
	key := b.JobKey(id, 1)
	_, err := b.Client.Submit(b.Ctx, starter.Submission{
		Tool: "build", TaskID: id, Title: "the whole", RunID: "run-1", ToolCallID: "call-1", Labels: map[string]string{"branch": "main"},
	})
	require.NoError(b.T, err)
	b.UntilState(id, domain.StateRunning)
	percent := 40
	s.Say(key, tool.Observation{State: tool.StateRunning, Progress: &percent, Stage: "compile"})
	b.Until(id, "40 %", func(d starter.Description) bool { return d.Task.Progress == percent })
	s.Say(key, tool.Observation{State: tool.StateRunning, Progress: &percent, Stage: "link"})
	b.Until(id, "a new stage", func(d starter.Description) bool { return d.Task.Stage == "link" })
	s.Say(key, harness.Result(`{"built":true}`))
}

// liveExternal is a conversation by updates: what is accepted, repeated and
// refused, a question and its answer, a target more, an inline result.
func liveExternal(b harness.Bed, _ *harness.Script, id string) {
	b.Park("review", id)
	b.Callback(id, "begin", harness.Start("ann"))
	b.Callback(id, "half", harness.Progress(50, "reading"))
	require.Equal(b.T, starter.VerdictDuplicate, b.Callback(id, "half", harness.Progress(50, "reading")).Verdict)
	require.Equal(b.T, starter.VerdictStale, b.Callback(id, "back", harness.Progress(10, "")).Verdict)
	b.Callback(id, "beat", domain.Event{Type: domain.EventHeartbeat})
	b.Callback(id, "ask", domain.Event{Type: domain.EventInputRequired, QuestionID: "q1", Prompt: "merge it?"})
	_, err := b.Client.Answer(b.Ctx, id, protocol.Answer{QuestionID: "q1", Answer: []byte(`"yes"`), By: "olga"})
	require.NoError(b.T, err)
	_, err = b.Client.Attach(b.Ctx, id, protocol.Attach{Target: "ops"})
	require.NoError(b.T, err)
	b.Callback(id, "end", domain.Event{Type: domain.EventSucceed, Result: []byte(`{"answer": 42}`)})
}

// liveSignals is a conversation by signals, an invalid one among them, with
// several in one workflow task.
func liveSignals(b harness.Bed, _ *harness.Script, id string) {
	b.Park("review", id)
	b.StopWorker()
	b.Signal(id, "begin", harness.Start("ann"))
	b.Signal(id, "half", harness.Progress(50, ""))
	b.Signal(id, "half", harness.Progress(50, ""))
	b.Signal(id, "half", harness.Progress(60, ""))
	bad := map[string]any{"callbackId": 7}
	require.NoError(b.T, b.Temporal.SignalWorkflow(b.Ctx, b.WorkflowID(id), "", protocol.SignalCallback, bad))
	b.StartWorker()
	b.Until(id, "half", func(d starter.Description) bool { return d.Task.Progress == 50 })
	b.Signal(id, "end", harness.Succeed("h"))
}

// liveRetry is a job that fails once and is begun again after a wait.
func liveRetry(b harness.Bed, s *harness.Script, id string) {
	b.Submit("build", id)
	b.UntilState(id, domain.StateRunning)
	s.Say(b.JobKey(id, 1), tool.Observation{
		State: tool.StateFailed, Definite: true, Error: &tool.Failure{Code: "FLAKY", Message: "once", Retryable: true},
	})
	b.Until(id, "attempt 2", func(d starter.Description) bool { return d.Task.Attempts == 2 })
	s.Say(b.JobKey(id, 2), harness.Stored("s3://results/h", "h"))
}

func liveFailed(b harness.Bed, _ *harness.Script, id string) {
	b.Park("review", id)
	b.Callback(id, "end", harness.Fail("BROKEN", false))
}

// liveManualRetry ends with the second workflow of a task that had failed.
func liveManualRetry(b harness.Bed, _ *harness.Script, id string) {
	liveFailed(b, nil, id)
	b.UntilClosed(id)
	_, err := b.Client.Retry(b.Ctx, id, starter.Retry{By: "olga", Reason: "mended"})
	require.NoError(b.T, err)
	b.Callback(id, "begin-2", harness.Attempt(2, harness.Start("bob")))
	b.Callback(id, "end-2", harness.Attempt(2, harness.Succeed("h")))
}

func liveExpiry(b harness.Bed, _ *harness.Script, id string) { b.Park("quick", id) }

// liveExpiryOfAJob asks the outside at the deadline, and tells it to stop.
func liveExpiryOfAJob(b harness.Bed, _ *harness.Script, id string) { b.Submit("quick-build", id) }

func liveLateResult(b harness.Bed, _ *harness.Script, id string) {
	b.Park("late", id)
	b.Callback(id, "begin", harness.Start("ann"))
	b.UntilState(id, domain.StateExpired)
	b.Callback(id, "end", harness.Succeed("h"))
}

// liveCancel is confirmed by the worker outside.
func liveCancel(b harness.Bed, _ *harness.Script, id string) {
	b.Park("leased", id)
	b.Callback(id, "begin", harness.Start("ann"))
	_, err := b.Client.Cancel(b.Ctx, id, protocol.Cancel{By: "olga", Reason: "not needed"})
	require.NoError(b.T, err)
	b.Callback(id, "stopped", domain.Event{Type: domain.EventCancelled})
}

// liveCancelInTheUI is a cancel of the workflow that nobody confirms.
func liveCancelInTheUI(b harness.Bed, _ *harness.Script, id string) {
	b.Park("review", id)
	b.Callback(id, "begin", harness.Start("ann"))
	require.NoError(b.T, b.Temporal.CancelWorkflow(b.Ctx, b.WorkflowID(id), ""))
}

// liveCancelOfAJob tells the job, which says that it has stopped.
func liveCancelOfAJob(b harness.Bed, s *harness.Script, id string) {
	b.Submit("build", id)
	b.UntilState(id, domain.StateRunning)
	_, err := b.Client.Cancel(b.Ctx, id, protocol.Cancel{By: "olga"})
	require.NoError(b.T, err)
	require.NoError(b.T, s.Await(b.Ctx, b.JobKey(id, 1), func(c harness.Counts) bool { return c.Cancelled }))
	s.Say(b.JobKey(id, 1), tool.Observation{State: tool.StateCancelled, Definite: true})
}

// liveLeaseLost goes back to the queue and on to another worker.
func liveLeaseLost(b harness.Bed, _ *harness.Script, id string) {
	b.Park("leased", id)
	b.Callback(id, "begin", harness.Start("ann"))
	b.Until(id, "the requeue", func(d starter.Description) bool { return d.Task.State == domain.StateQueued && d.Task.Attempts == 1 })
	b.Callback(id, "begin-2", harness.Attempt(2, harness.Start("bob")))
	b.Callback(id, "end-2", harness.Attempt(2, harness.Succeed("h")))
}

// liveLeaseRenewed is asked after, and still works.
func liveLeaseRenewed(b harness.Bed, s *harness.Script, id string) {
	b.Submit("leased-build", id)
	b.Until(id, "the renewal", func(d starter.Description) bool {
		for _, h := range d.Task.History {
			if h.Event.Type == domain.EventLeaseRenewed {
				return true
			}
		}
		return false
	})
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
}

// liveContinueAsNew continues as new several times, with a job, by both doors.
func liveContinueAsNew(b harness.Bed, s *harness.Script, id string) {
	b.Client = b.NewClient(func(o *starter.Options) { o.ContinueAfterEvents = 20 })
	b.Submit("build", id)
	b.UntilState(id, domain.StateRunning)
	for i := range 12 {
		e := harness.Attempt(1, harness.Progress(float64(i*5+5), ""))
		name := string(rune('a' + i))
		if i%2 == 0 {
			b.Callback(id, name, e)
		} else {
			b.Signal(id, name, e)
		}
	}
	b.Until(id, "all of it", func(d starter.Description) bool { return d.Task.Progress == 60 })
	s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
}

// liveDelivery tells two targets, one of which takes nothing any more, and is
// fetched as well.
func liveDelivery(b harness.Bed, _ *harness.Script, id string) {
	b.Park("told", id)
	b.Callback(id, "end", harness.Succeed("h"))
	d := b.UntilClosed(id)
	for target, want := range map[string]string{"ops": protocol.DeliveryDone, "gone": protocol.DeliveryDeadLetter} {
		harness.Until(b.T, time.Minute, target+" is served or given up", func() bool {
			rec, err := b.Client.DeliveryStatus(b.Ctx, starter.DeliveryKey(d.Task, target))
			return err == nil && rec.State == want
		})
	}
	_, err := b.Client.Deliver(b.Ctx, id, "fetched")
	require.NoError(b.T, err)
}

func deliveries(b harness.Bed, id string) []string {
	t := b.Describe(id).Task
	var ids []string
	for _, key := range []string{starter.DeliveryKey(t, "ops"), starter.DeliveryKey(t, "gone"), "fetched"} {
		ids = append(ids, protocol.DeliveryWorkflowID(b.Config.Tenant, key))
	}
	return ids
}
