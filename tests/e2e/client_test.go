package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// What the Go client does that only a real engine can show.

const clientTools = `
tools:
  review: {executor: external, ttl: 1h, maxAttempts: 1, title: Review, description: A person looks at it.}
  late: {executor: external, ttl: 1s, late: {policy: record, grace: 5m}}
  talk:
    exec:
      argv: [/bin/sh, -c, 'i=1; while [ $i -le 40 ]; do echo "line $i"; i=$((i+1)); sleep 0.05; done; echo oops >&2']
`

func TestClientFollowsALogWhileTheJobWrites(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, clientTools, nil)
	b.StartWorker()
	b.Submit("talk", "a")
	var out strings.Builder
	whileRunning := false
	b.UntilState("a", domain.StateRunning)
	for chunk, err := range b.Client.Logs(b.Ctx, "a", starter.LogRequest{Follow: true}) {
		require.NoError(t, err)
		require.Equal(t, 1, chunk.Attempt)
		whileRunning = whileRunning || b.Describe("a").Task.State == domain.StateRunning
		out.Write(chunk.Data)
	}
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	require.Equal(t, want.String(), out.String())
	require.True(t, whileRunning, "no piece came before the end")
	d := b.UntilClosed("a")
	require.Equal(t, domain.StateSucceeded, d.Task.State)

	var errs strings.Builder
	for chunk, err := range b.Client.Logs(b.Ctx, "a", starter.LogRequest{Stream: "stderr", Offset: 1, Limit: 3}) {
		require.NoError(t, err)
		errs.Write(chunk.Data)
	}
	require.Equal(t, "ops", errs.String())

	// The result is what was written, in pieces of any size.
	res, err := b.Client.Result(b.Ctx, "a")
	require.NoError(t, err)
	rd, err := res.Open(b.Ctx)
	require.NoError(t, err)
	all, err := io.ReadAll(rd)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	piece, total, err := res.Range(b.Ctx, 1, 5)
	require.NoError(t, err)
	require.Equal(t, string(all[1:6]), string(piece))
	require.EqualValues(t, len(all), total)

	b.StopWorker()
	for _, err := range b.Client.Logs(b.Ctx, "a", starter.LogRequest{}) {
		require.ErrorIs(t, err, starter.ErrNoWorker)
	}
}

func TestClientFindsTheSameSubmission(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, clientTools, nil)
	b.StartWorker()
	s := starter.Submission{Tool: "review", IdempotencyKey: "k", Input: []byte(`{"a":1,"b":2}`)}
	first, err := b.Client.Submit(b.Ctx, s)
	require.NoError(t, err)
	require.False(t, first.Existing)
	s.Input = []byte(`{"b": 2, "a": 1}`)
	again, err := b.Client.Submit(b.Ctx, s)
	require.NoError(t, err)
	require.True(t, again.Existing)
	require.Equal(t, first.TaskID, again.TaskID)
	require.Equal(t, first.RunID, again.RunID)
	require.Equal(t, first.ExpiresAtMs/60_000, again.ExpiresAtMs/60_000)
	other := s
	other.Input = []byte(`{"a":2}`)
	_, err = b.Client.Submit(b.Ctx, other)
	require.ErrorIs(t, err, starter.ErrIDInUse)

	b.Callback(first.TaskID, "1", harness.Fail("BROKEN", false))
	again, err = b.Client.Submit(b.Ctx, s)
	require.NoError(t, err)
	require.Equal(t, domain.StateFailed, again.State)
	_, err = b.Client.Retry(b.Ctx, first.TaskID, starter.Retry{By: "ann"})
	require.NoError(t, err)
	// The new run says the same of itself in the UI and to the next submission.
	again, err = b.Client.Submit(b.Ctx, s)
	require.NoError(t, err)
	require.True(t, again.Existing)
	d, err := b.Temporal.DescribeWorkflow(b.Ctx, first.WorkflowID, "")
	require.NoError(t, err)
	details, err := d.GetStaticDetails()
	require.NoError(t, err)
	require.Contains(t, details, "A person looks at it")
	summary, err := d.GetStaticSummary()
	require.NoError(t, err)
	require.Equal(t, "review", summary)
	_, err = b.Client.Submit(b.Ctx, other)
	require.ErrorIs(t, err, starter.ErrIDInUse)
}

func TestClientLists(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, clientTools, nil)
	b.StartWorker()
	for i := range 5 {
		_, err := b.Client.Submit(b.Ctx, starter.Submission{
			Tool: "review", TaskID: fmt.Sprint("t", i), RunID: fmt.Sprint("r", i%2), ToolCallID: `it's "one"`,
		})
		require.NoError(t, err)
	}
	b.Callback("t0", "1", harness.Succeed("h"))
	b.Callback("t1", "1", harness.Fail("BROKEN", false))
	b.UntilClosed("t1")
	_, err := b.Client.Retry(b.Ctx, "t1", starter.Retry{})
	require.NoError(t, err)
	list := func(r starter.ListRequest) map[string]starter.Listed {
		all := make(map[string]starter.Listed)
		for {
			page, err := b.Client.List(b.Ctx, r)
			require.NoError(t, err)
			for _, task := range page.Tasks {
				if _, ok := all[task.TaskID]; !ok {
					all[task.TaskID] = task
				}
			}
			if r.Cursor = page.Cursor; r.Cursor == "" {
				return all
			}
		}
	}
	// The engine's list lags behind by moments.
	harness.Until(t, 30*time.Second, "the list shows the ends", func() bool {
		return len(list(starter.ListRequest{State: domain.StateRunning})) == 4 && len(list(starter.ListRequest{State: domain.StateSucceeded})) == 1
	})
	all := list(starter.ListRequest{PageSize: 2})
	require.Len(t, all, 5)
	require.Equal(t, domain.StateSucceeded, all["t0"].State)
	require.False(t, all["t0"].Open)
	require.NotZero(t, all["t0"].ClosedAtMs)
	require.True(t, all["t1"].Open, "of a retried task the newest run is listed")
	require.Empty(t, all["t1"].State)
	require.Equal(t, "r1", all["t1"].Run)
	require.Len(t, list(starter.ListRequest{Run: "r0"}), 3)
	require.Len(t, list(starter.ListRequest{ToolCall: `it's "one"`}), 5)
	require.Empty(t, list(starter.ListRequest{ToolCall: `x' OR WorkflowType = 'AsyncTask`}))
	require.Empty(t, list(starter.ListRequest{Tool: "late"}))
}

func TestClientSetsANamespaceUpOnce(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	c, err := shared.Client("default")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	// A test run twice finds a fresh one each time.
	o := starter.SetupOptions{Namespace: fmt.Sprint("client-setup-", time.Now().UnixNano()), Retention: 48 * time.Hour}
	first, err := starter.Setup(ctx, c, o)
	require.NoError(t, err)
	require.True(t, first.NamespaceCreated)
	require.Equal(t, 48*time.Hour, first.Retention)
	require.ElementsMatch(t, protocol.SearchAttributes(), append(first.AttributesAdded, first.AttributesPresent...))
	o.Retention = 24 * time.Hour
	second, err := starter.Setup(ctx, c, o)
	require.NoError(t, err)
	require.Equal(t, starter.SetupReport{
		Namespace: o.Namespace, Retention: 48 * time.Hour, RetentionMs: 172_800_000,
		AttributesAdded: []string{}, AttributesPresent: protocol.SearchAttributes(),
	}, second)
}

func TestClientSaysThatNothingIsSetUp(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	b := newBed(ctx, t, clientTools, nil)
	c, err := client.NewLazyClient(client.Options{HostPort: shared.Address(), Namespace: "nowhere", Logger: harness.Quiet()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	lost := b.NewClient(func(o *starter.Options) { o.Temporal = c })
	_, err = lost.Submit(ctx, starter.Submission{Tool: "review"})
	require.ErrorIs(t, err, starter.ErrNotSetUp)
	_, err = lost.List(ctx, starter.ListRequest{})
	require.ErrorIs(t, err, starter.ErrNotSetUp)
	_, err = lost.Describe(ctx, "a")
	require.ErrorIs(t, err, starter.ErrNotSetUp)
}

func TestClientWatchesThroughARestartOfTheWorker(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 3*time.Minute), t, clientTools, nil)
	b.StartWorker()
	b.Park("review", "a")
	watcher := b.NewClient(func(o *starter.Options) { o.QueryTimeout = 500 * time.Millisecond })
	seen, ended := make(chan int64, 100), make(chan error, 1)
	go func() {
		defer close(seen)
		for change, err := range watcher.Watch(b.Ctx, "a", 0) {
			if err != nil {
				ended <- err
				return
			}
			for _, e := range change.Page.Events {
				seen <- e.Version
			}
		}
		ended <- nil
	}()
	b.Callback("a", "1", harness.Start("w"))
	require.EqualValues(t, 1, <-seen)
	b.StopWorker()
	b.Signal("a", "2", harness.Progress(10, ""))
	b.Signal("a", "3", harness.Progress(20, ""))
	// Nobody can read the task now, and the watch waits.
	select {
	case v := <-seen:
		t.Fatalf("version %d was seen without a worker", v)
	case <-time.After(2 * time.Second):
	}
	b.StartWorker()
	b.Callback("a", "4", harness.Succeed("h"))
	var versions []int64
	for v := range seen {
		versions = append(versions, v)
	}
	require.Equal(t, []int64{2, 3, 4}, versions)
	require.NoError(t, <-ended)
}

func TestClientKeepsALateResult(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, clientTools, nil)
	b.StartWorker()
	b.Park("late", "a")
	d := b.UntilState("a", domain.StateExpired)
	require.False(t, d.Closed, "it waits for a late result")
	v := b.Callback("a", "1", domain.Event{Type: domain.EventSucceed, Result: []byte(`"better late"`)})
	require.Equal(t, starter.VerdictLate, v.Verdict)
	require.Equal(t, domain.ReasonLateResult, v.Outcome.Reason)
	b.UntilClosed("a")
	_, err := b.Client.Result(b.Ctx, "a")
	require.ErrorIs(t, err, starter.ErrNotSucceeded)
	res, err := b.Client.LateResult(b.Ctx, "a")
	require.NoError(t, err)
	text, _, err := res.Range(b.Ctx, 0, 100)
	require.NoError(t, err)
	require.Equal(t, `"better late"`, string(text))
	require.NoError(t, b.Store.Delete(b.Ctx, res.Ref))
	_, err = b.Client.LateResult(b.Ctx, "a")
	require.ErrorIs(t, err, starter.ErrResultMissing)
}

// receiver takes webhooks once it is open.
type receiver struct {
	*httptest.Server
	open  atomic.Bool
	taken chan string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{taken: make(chan string, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.open.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.taken <- req.Header.Get("webhook-id")
	}))
	t.Cleanup(r.Close)
	return r
}

func TestClientAttachesAndRedelivers(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	b := newBed(within(t, 3*time.Minute), t, clientTools+"\ntargets: {hook: {url: "+hook.URL+"}}\n", nil)
	b.StartWorker()
	b.Park("review", "a")
	a, err := b.Client.Attach(b.Ctx, "a", protocol.Attach{Target: "hook"})
	require.NoError(t, err)
	require.Equal(t, domain.ReasonAttached, a.Outcome.Reason)
	b.Callback("a", "1", harness.Succeed("h"))
	d := b.UntilClosed("a")
	a, err = b.Client.Attach(b.Ctx, "a", protocol.Attach{Target: "hook"})
	require.NoError(t, err)
	require.Equal(t, "h", a.Task.ResultHash)

	// The delivery that the task has started is open while its receiver is not.
	key := starter.DeliveryKey(d.Task, "hook")
	rec, err := b.Client.DeliveryStatus(b.Ctx, key)
	require.NoError(t, err)
	require.Equal(t, protocol.DeliveryPending, rec.State)
	hook.open.Store(true)
	_, err = b.Client.Redeliver(b.Ctx, key, protocol.Redeliver{By: "ann"})
	require.NoError(t, err)
	require.Equal(t, key, <-hook.taken)
	harness.Until(t, 30*time.Second, "the delivery is over", func() bool {
		rec, err = b.Client.DeliveryStatus(b.Ctx, key)
		return err == nil && rec.State == protocol.DeliveryDone
	})
	_, err = b.Client.Redeliver(b.Ctx, key, protocol.Redeliver{})
	require.ErrorIs(t, err, starter.ErrConflict)
}

func TestClientSendsADeadLetterAgain(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	b := newBed(within(t, 3*time.Minute), t, clientTools+"\ntargets: {hook: {url: "+hook.URL+"}}\n", nil)
	b.StartWorker()
	key := b.deadLetter(b.Ctx, t)
	rec, err := b.Client.DeliveryStatus(b.Ctx, key)
	require.NoError(t, err)
	require.Equal(t, protocol.DeliveryDeadLetter, rec.State)
	require.NotEmpty(t, rec.LastError)
	hook.open.Store(true)
	for range 2 {
		rec, err = b.Client.Redeliver(b.Ctx, key, protocol.Redeliver{By: "ann"})
		require.NoError(t, err)
		require.Equal(t, key+"/again-2", rec.Key)
	}
	require.Equal(t, key+"/again-2", <-hook.taken)
	harness.Until(t, 30*time.Second, "the delivery is over", func() bool {
		rec, err = b.Client.DeliveryStatus(b.Ctx, key+"/again-2")
		return err == nil && rec.State == protocol.DeliveryDone
	})
	require.Empty(t, hook.taken, "it was sent once")
}

// deadLetter gives a delivery up, in a second instead of three days.
func (b bed) deadLetter(ctx context.Context, t *testing.T) string {
	t.Helper()
	const key = "a/succeeded/2/hook"
	run, err := b.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: protocol.DeliveryWorkflowID(b.Config.Tenant, key), TaskQueue: b.Config.TaskQueue, Memo: map[string]any{protocol.MemoTaskID: "a"},
	}, protocol.WorkflowDelivery, protocol.DeliveryInput{
		Tenant: b.Config.Tenant, Key: key, Kind: protocol.DeliveryWebhook, Target: "hook", Type: "task.succeeded", GiveUpAfterMs: 1000,
		Task: domain.Task{ID: "a", State: domain.StateSucceeded, Version: 2, ResultRef: "r", ResultHash: "h"},
	})
	require.NoError(t, err)
	require.Error(t, run.Get(ctx, nil))
	return key
}
