package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var update = flag.Bool("update", false, "write the histories in docs/history.md anew")

// page is where the lists of events stand, each in a block after a comment
// `<!-- history: NAME -->`.
const page = "docs/history.md"

// historyTools take a target whose address is known only when the test runs.
func historyTools(url string) string {
	return `
targets:
  ops:
    url: ` + url + `
tools:
  review:
    executor: external
    ttl: 1h
  quick:
    executor: external
    ttl: 4s
  told:
    executor: external
    ttl: 1h
    targets: [ops]
  leased:
    executor: external
    ttl: 1h
    lease: 10m
  build:
    executor: script
    ttl: 1h
    poll: 100ms
`
}

// life is one entry of the page: what is done with a task, and whose history
// is shown afterwards.
type life struct {
	name string
	live func(b bed, s *harness.Script, id string) (workflowID string)
}

var lives = []life{
	{"shortest, by update", func(b bed, _ *harness.Script, id string) string {
		b.Park("review", id)
		b.Callback(id, "done", harness.Succeed("h"))
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
	{"shortest, by signal", func(b bed, _ *harness.Script, id string) string {
		b.Park("review", id)
		require.NoError(b.T, b.Client.Signal(b.Ctx, id, domain.Callback{CallbackID: "done", Event: harness.Succeed("h")}))
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
	{"three callbacks and a delivery", func(b bed, _ *harness.Script, id string) string {
		b.told(id)
		return b.WorkflowID(id)
	}},
	{"the delivery itself", func(b bed, _ *harness.Script, id string) string {
		return protocol.DeliveryWorkflowID(b.Config.Tenant, b.told(id))
	}},
	{"a delivery that is fetched", func(b bed, _ *harness.Script, id string) string {
		b.Park("review", id)
		b.three(id)
		_, err := b.Client.Deliver(b.Ctx, id, "key-"+id)
		require.NoError(b.T, err)
		return protocol.DeliveryWorkflowID(b.Config.Tenant, "key-"+id)
	}},
	{"expiry", func(b bed, _ *harness.Script, id string) string {
		b.Park("quick", id)
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
	{"an executor and its probe", func(b bed, s *harness.Script, id string) string {
		b.Submit("build", id)
		require.NoError(b.T, s.Await(b.Ctx, b.JobKey(id, 1), func(c harness.Counts) bool { return c.Looks >= 4 }))
		s.Say(b.JobKey(id, 1), harness.Stored("s3://results/h", "h"))
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
	{"a lease", func(b bed, _ *harness.Script, id string) string {
		b.Park("leased", id)
		b.Callback(id, "start", harness.Start("ann"))
		awaitPending(b, id, protocol.ActivityLease)
		_, err := b.Client.Heartbeat(b.Ctx, id, starter.Heartbeat{Attempt: 1})
		require.NoError(b.T, err)
		b.Callback(id, "done", harness.Succeed("h"))
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
	{"an inline result", func(b bed, _ *harness.Script, id string) string {
		b.Park("review", id)
		b.Callback(id, "done", domain.Event{Type: domain.EventSucceed, Result: []byte(`{"answer":42}`)})
		b.UntilClosed(id)
		return b.WorkflowID(id)
	}},
}

// The lists of events in docs/history.md are those of real histories: `go test
// ./tests/e2e -run TestHistoryPage -update` writes them anew.
func TestHistoryPage(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	script := harness.NewScript()
	b := newBed(within(t, 5*time.Minute), t, historyTools(target.URL), script)
	b.StartWorker()
	path := filepath.Join(harness.Root(), page)
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(was)
	for i, l := range lives {
		from, to := block(t, text, l.name)
		lines := undisturbed(b, script, l, i, strings.Split(strings.TrimSuffix(text[from:to], "\n"), "\n"))
		text = text[:from] + strings.Join(lines, "\n") + "\n" + text[to:]
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a page for everybody
		return
	}
	if diff := cmp.Diff(strings.Split(string(was), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Fatalf("%s differs from real histories; write it anew by -update, if that is meant:\n%s", page, diff)
	}
}

// undisturbed lives a life until its history is the one that is wanted, a few
// times at most, and gives the last one. On a busy machine a worker can be so
// late that things happen together which would have happened apart, or that the
// engine repeats a workflow task.
func undisturbed(b bed, s *harness.Script, l life, n int, want []string) []string {
	var lines []string
	for try := range 4 {
		id := l.live(b, s, fmt.Sprintf("life-%d-%d", n, try))
		events := mustHistory(b, id)
		lines = harness.Lines(events)
		if !harness.Hiccup(events) && (*update || slices.Equal(lines, want)) {
			break
		}
		b.T.Logf("%s: disturbed, once more", l.name)
	}
	return lines
}

// three is a start, a progress and an end.
func (b bed) three(taskID string) {
	b.T.Helper()
	b.Callback(taskID, "start", harness.Start("ann"))
	b.Callback(taskID, "half", harness.Progress(50, "reading"))
	b.Callback(taskID, "done", harness.Succeed("h"))
	b.UntilClosed(taskID)
}

// told lets a target be told of such a life, and gives the key of the delivery.
func (b bed) told(taskID string) string {
	b.T.Helper()
	b.Park("told", taskID)
	b.three(taskID)
	key := starter.DeliveryKey(b.Describe(taskID).Task, "ops")
	harness.Until(b.T, time.Minute, "the webhook is delivered", func() bool {
		rec, err := b.Client.DeliveryStatus(b.Ctx, key)
		return err == nil && rec.State == protocol.DeliveryDone
	})
	return key
}

func mustHistory(b bed, workflowID string) []*historypb.HistoryEvent {
	b.T.Helper()
	events, err := harness.History(b.Ctx, b.Temporal, workflowID, "")
	require.NoError(b.T, err)
	return events
}

// block finds the lines of a history on the page.
func block(t *testing.T, text, name string) (from, to int) {
	t.Helper()
	before := "<!-- history: " + name + " -->\n\n```text\n"
	require.Equal(t, 1, strings.Count(text, before), "one block of %q in %s", name, page)
	from = strings.Index(text, before) + len(before)
	return from, from + strings.Index(text[from:], "```\n")
}
