package e2e

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

const uiTools = `
tools:
  train:
    description: Trains the ranking model on the cluster. Takes hours.
    executor: external
    ttl: 12h
    lease: 5m
  build:
    description: Builds and signs a release.
    executor: script
    ttl: 2h
    poll: 100ms
`

// uiBed has a task that waits, and one that has ended. Without a tenant it
// belongs to one named after the test.
func uiBed(t *testing.T, tenant string) (b bed, waits, ended string) {
	t.Helper()
	s := harness.NewScript()
	b = newBed(within(t, 10*time.Minute), t, uiTools, s)
	if tenant != "" {
		b.Installation = harness.Install(t, shared, tenant, uiTools, s.Executors())
	}
	b.StartWorker()
	waits, ended = "train-0412", "release-1.4"
	_, err := b.Client.Submit(b.Ctx, starter.Submission{
		Tool: "train", TaskID: waits, Title: "ranking model, nightly", RunID: "run-87", ToolCallID: "call-2", Labels: map[string]string{"team": "search"},
	})
	require.NoError(t, err)
	b.Callback(waits, "begin", harness.Start("gpu-7/slot 2"))
	b.Callback(waits, "p62", harness.Progress(62, "epoch 5/8"))
	awaitPending(b, waits, protocol.ActivityLease)
	_, err = b.Client.Heartbeat(b.Ctx, waits, starter.Heartbeat{Attempt: 1, Details: []byte(`{"loss":0.031}`)})
	require.NoError(t, err)

	s.Say(b.JobKey(ended, 1), tool.Observation{State: tool.StateRunning, Worker: "builder-3"})
	_, err = b.Client.Submit(b.Ctx, starter.Submission{Tool: "build", TaskID: ended, Title: "release 1.4"})
	require.NoError(t, err)
	b.UntilState(ended, domain.StateRunning)
	s.Say(b.JobKey(ended, 1), harness.Result(`{"archives":4}`))
	b.UntilClosed(ended)
	return b, waits, ended
}

// What the UI shows of a task comes from the engine by its API: the summary and
// the details of the start, the current details by a query that a worker
// answers, the search attributes.
func TestTemporalUIIsTold(t *testing.T) {
	t.Parallel()
	b, waits, ended := uiBed(t, "")
	for _, tc := range []struct {
		task, summary, details, current string
		state                           domain.State
	}{
		{waits, "train: ranking model, nightly", "- **Run:** run\\-87\n", "### WAITING_EXTERNAL\n", domain.StateQueued},
		{ended, "build: release 1.4", "Builds and signs a release\\.\n", "### SUCCEEDED\n", domain.StateSucceeded},
	} {
		d, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(tc.task), "")
		require.NoError(t, err)
		summary, err := d.GetStaticSummary()
		require.NoError(t, err)
		require.Equal(t, tc.summary, summary)
		details, err := d.GetStaticDetails()
		require.NoError(t, err)
		require.Contains(t, details, tc.details)
		state, ok := d.TypedSearchAttributes.GetKeyword(protocol.AttrState)
		require.True(t, ok)
		require.Equal(t, string(tc.state), state)
		require.Contains(t, currentDetails(b, tc.task), tc.current)
	}
}

// currentDetails asks a worker, as the UI does.
func currentDetails(b bed, taskID string) string {
	b.T.Helper()
	v, err := b.Temporal.QueryWorkflow(b.Ctx, b.WorkflowID(taskID), "", "__temporal_workflow_metadata")
	require.NoError(b.T, err)
	var meta sdkpb.WorkflowMetadata
	require.NoError(b.T, v.Get(&meta))
	return meta.GetCurrentDetails()
}

// A task that continues as new looks like the same task.
func TestTemporalUIAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	b := newBed(within(t, 2*time.Minute), t, uiTools, nil)
	b.StartWorker()
	b.Client = b.NewClient(func(o *starter.Options) { o.ContinueAfterEvents = 10 })
	id := "train-1"
	_, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: "train", TaskID: id, Title: "nightly", Priority: 2, RunID: "run-1", Labels: map[string]string{"team": "search"}})
	require.NoError(t, err)
	first, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(id), "")
	require.NoError(t, err)
	b.Callback(id, "begin", harness.Start("ann"))
	for i := range 4 {
		b.Callback(id, string(rune('a'+i)), harness.Progress(float64(10+i), ""))
	}
	runs, err := harness.Runs(b.Ctx, b.Temporal, b.WorkflowID(id))
	require.NoError(t, err)
	require.Greater(t, len(runs), 1, "it has continued as new")
	now, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(id), "")
	require.NoError(t, err)
	for _, a := range []temporal.SearchAttributeKeyKeyword{protocol.AttrTenant, protocol.AttrTool, protocol.AttrRun, protocol.AttrState} {
		before, _ := first.TypedSearchAttributes.GetKeyword(a)
		after, ok := now.TypedSearchAttributes.GetKeyword(a)
		require.True(t, ok, a.GetName())
		require.Equal(t, before, after)
	}
	require.Equal(t, first.Memo.GetFields()[protocol.MemoFingerprint].GetData(), now.Memo.GetFields()[protocol.MemoFingerprint].GetData())
	require.Equal(t, int32(2), now.RawResponse.GetWorkflowExecutionInfo().GetPriority().GetPriorityKey())
	require.Equal(t, b.Config.Tenant, now.RawResponse.GetWorkflowExecutionInfo().GetPriority().GetFairnessKey())
	// The engine leaves summary and details with the first run, so that the
	// current details say what stood there.
	details := currentDetails(b, id)
	for _, want := range []string{"- **Tool:** train\n", "- **Title:** nightly\n", "- **Run:** run\\-1\n", "- **Label team:** search\n"} {
		require.Contains(t, details, want)
	}
}

// The pages of the UI as a browser shows them. With -update the pictures in
// docs/img are taken anew.
func TestTemporalUIInABrowser(t *testing.T) {
	t.Parallel()
	path, ok := harness.BrowserPath()
	if !ok {
		// Only a checkout without a browser comes here; CI installs one first.
		require.Empty(t, os.Getenv("CI"), "install chromium, or name one in %s", harness.BrowserEnv)
		t.Logf("no browser (chromium, or %s), so the pages are not looked at; TestTemporalUIIsTold looks at what is behind them", harness.BrowserEnv)
		return
	}
	tenant := ""
	if *update {
		tenant = "acme" // for the pictures
	}
	b, waits, ended := uiBed(t, tenant)
	br := harness.OpenBrowser(b.Ctx, t, path, 1480, 860)
	// The list is searched by the attributes. Everything after it is a click
	// away: to load the UI itself is what takes long on a busy machine.
	br.Visit(b.Ctx, shared.UIURL()+"/namespaces/default/workflows?query="+
		url.QueryEscape("WakepointTenant = '"+b.Config.Tenant+"' AND WorkflowType = 'AsyncTask'"))
	b.see(br, "list", b.WorkflowID(waits), "RUNNING", b.WorkflowID(ended), "COMPLETED")
	b.picture(br, "list.png")

	open := func(page string) { br.Click(b.Ctx, `a[href*="/`+page+`"]`) }
	open(url.PathEscape(b.WorkflowID(waits)))
	open("user-metadata")
	b.see(br, "waiting", "RUNNING", "train: ranking model, nightly",
		"Trains the ranking model on the cluster. Takes hours.", "Run: run-87", "Label team: search",
		"WAITING_EXTERNAL", "Progress: 62 %", "Stage: epoch 5/8", "Attempt: 1 of 3", "Worker: gpu-7/slot 2", "Waits for: a callback from outside", "Version: 2")
	b.picture(br, "waiting.png")
	open("search-attributes")
	b.see(br, "waiting, attributes", `"WakepointRun": "run-87"`, `"WakepointState": "queued"`, `"WakepointTenant": "`+b.Config.Tenant+`"`,
		`"WakepointTool": "train"`, `"WakepointToolCall": "call-2"`)
	open("pending-activities")
	b.see(br, "waiting, activities", "HoldLease", "lease-1", `"loss": 0.031`)
	b.picture(br, "pending.png")

	br.Eval(b.Ctx, "history.go(-4)", nil)
	open(url.PathEscape(b.WorkflowID(ended)))
	open("user-metadata")
	b.see(br, "ended", "COMPLETED", "build: release 1.4", "Builds and signs a release.",
		"SUCCEEDED", "Progress: 100 %", "Worker: builder-3", "Result: "+b.Describe(ended).Task.ResultRef, "Version: 2")
	b.picture(br, "finished.png")
	open("search-attributes")
	b.see(br, "ended, attributes", `"WakepointState": "succeeded"`, `"WakepointTool": "build"`)
}

// uiTakes is how long a page may take to show all that it should: a second or
// two on an idle machine.
const uiTakes = 3 * time.Minute

// see waits until all texts are on the page.
func (b bed) see(br *harness.Browser, page string, texts ...string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, uiTakes)
	defer cancel()
	began := time.Now()
	br.See(ctx, texts...)
	b.T.Logf("%s: seen after %v", page, time.Since(began).Round(time.Millisecond))
}

func (b bed) picture(br *harness.Browser, name string) {
	b.T.Helper()
	png := br.Picture(b.Ctx)
	file := filepath.Join(harness.Root(), "docs", "img", name)
	if !*update {
		require.FileExists(b.T, file)
		return
	}
	require.NoError(b.T, os.MkdirAll(filepath.Dir(file), 0o755)) //nolint:gosec // for everybody
	require.NoError(b.T, os.WriteFile(file, png, 0o644))         //nolint:gosec // for everybody
}

// Text of others is shown as it is by the UI's own renderer: nothing of it
// becomes markup, and nothing is made prettier but quotes.
func TestTheUIShowsTextAsItIs(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	for _, text := range []string{
		"gpu-7/slot 2", "step 3/12", "1/2", "go test --race --- ok...", `say "hi", it's 'ok' (c) (tm)`, "$5 and $6", "$$x$$",
		"**bold** _it_ ~~gone~~ `code`", "[click](https://example.com) ![x](https://example.com/x.png)", "https://example.com/?a=1&b=2",
		"<b>bold</b> <script>alert(1)</script>", "&lt;b&gt; &amp; &copy; &#169;", `\*x\* \\ end \`, "# not a heading", "| a | b |", "a: b", "x^2^ {#id} (r)", "grün 水 ≤ 5",
		"name@example.com", "<name@example.com>", "==mark==", "[^1]", "- item", "1. item", "a -- b", "\"quoted\"",
	} {
		for kind, show := range map[string]func(string) string{"text": markdown.Text, "code": markdown.Code} {
			want := text
			if kind == "code" {
				want = strings.ReplaceAll(text, "`", "'")
			}
			require.Equal(t, "Name: "+want, rendered(ctx, t, "- **Name:** "+show(text)+"\n"), "%s %q", kind, show(text))
		}
	}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// rendered is the text of what the UI makes of markdown.
func rendered(ctx context.Context, t *testing.T, source string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, shared.UIURL()+"/render?content="+url.QueryEscape(source), nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	_, page, ok := strings.Cut(string(body), "<main>")
	require.True(t, ok, "%s", body)
	page, _, _ = strings.Cut(page, "</main>")
	for _, element := range tag.FindAllString(page, -1) {
		require.Contains(t, []string{"<ul>", "<li>", "<strong>", "<code>", "</ul>", "</li>", "</strong>", "</code>"}, element, "%s", page)
	}
	straight := strings.NewReplacer("“", `"`, "”", `"`, "‘", "'", "’", "'")
	return straight.Replace(strings.TrimSpace(html.UnescapeString(tag.ReplaceAllString(page, ""))))
}
