package e2e

import (
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const uiRunTools = `
tools:
  train: {description: Trains the ranking model on the cluster., executor: external, ttl: 12h}
  report: {description: Writes the report., executor: external, ttl: 1h}
  deploy: {description: Puts the model into production., executor: external, ttl: 1h, approval: required}
runtimes: {assistant: {pull: {}}}
`

// The page of a run in the Temporal UI: what it waits for, its graph, and a click away
// its tasks. With -update the picture in docs/img is taken anew.
func TestARunInTheTemporalUI(t *testing.T) {
	t.Parallel()
	path, ok := harness.BrowserPath()
	if !ok {
		// Only a checkout without a browser comes here; CI installs one first.
		require.Empty(t, os.Getenv("CI"), "install chromium, or name one in %s", harness.BrowserEnv)
		t.Logf("no browser (chromium, or %s), so the page is not looked at; the tests of workflows look at what is behind it", harness.BrowserEnv)
		return
	}
	b := newBed(within(t, 10*time.Minute), t, uiRunTools, nil)
	b.StartWorker()
	id := "nightly-0412"
	_, err := b.Client.StartRun(b.Ctx, starter.RunStart{RunID: id, Runtime: "assistant", Title: "ranking model, nightly", Input: []byte(`"train it and put it into production"`)})
	require.NoError(t, err)
	req, err := b.Client.Next(b.Ctx, id, starter.NextOptions{Holder: "laptop", Wait: time.Minute})
	require.NoError(t, err)
	_, err = b.Client.Commit(b.Ctx, id, req.Step, req.StepToken, run.StepResponse{
		Output: []byte(`"I train the model first."`), Usage: []run.Usage{{Model: "m", InputTokens: 812, OutputTokens: 64, CostUSD: 0.0123}},
		ToolCalls: []run.ToolCall{
			{ToolCallID: "call_1", Tool: "train"},
			{ToolCallID: "call_2", Tool: "report", DependsOn: []string{"call_1"}},
			{ToolCallID: "call_3", Tool: "deploy"},
		},
	})
	require.NoError(t, err)
	task := protocol.CallTaskID(id, 1, "call_1")
	for ch, err := range b.Client.WatchRun(b.Ctx, id, 0) {
		require.NoError(t, err)
		if c, ok := ch.Description.Run.Find(run.Key{Step: 1, ID: "call_3"}); ok && c.State == run.CallApproval {
			break
		}
	}
	br := harness.OpenBrowser(b.Ctx, t, path, 1480, 1000)
	workflowID := protocol.RunWorkflowID(b.Config.Tenant, id)
	br.Visit(b.Ctx, shared.UIURL()+"/namespaces/default/workflows?query="+url.QueryEscape("WakepointRun = '"+id+"' AND WorkflowType = 'AgentRun'"))
	b.see(br, "list", workflowID)
	br.Click(b.Ctx, `a[href*="/`+url.PathEscape(workflowID)+`"]`)
	br.Click(b.Ctx, `a[href*="/user-metadata"]`)
	b.see(br, "run", "WAITING_INPUT", "ranking model, nightly", "Waits for: a person: deploy (call_3); and tools: train (call_1), report (call_2)",
		"Asks a person: approval call_3", "Said at step 1: I train the model first.", "876 tokens, 0.0123 USD", "blocked", task[:16])
	b.picture(br, "run.png")
	// The details are in a frame of their own, whose links open a new tab.
	var href string
	br.Eval(b.Ctx, `[...document.querySelectorAll("iframe")].map(f => f.contentDocument?.querySelector("a")?.href).find(h => h) ?? ""`, &href)
	require.Equal(t, shared.UIURL()+"/namespaces/default/workflows/"+url.PathEscape(protocol.TaskWorkflowID(b.Config.Tenant, task)), href)
	br.Visit(b.Ctx, href)
	b.see(br, "task", "AsyncTask", task)
}
