package e2e

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// hookService takes a job, finishes it and never calls back.
func hookService(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/jobs/1")
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /jobs/1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"1","state":"succeeded","result":{"done":true}}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// The five ends that look alike from afar, each produced on purpose, are told apart
// by the client, by `task show` and by the Temporal UI.
func TestFiveEnds(t *testing.T) {
	t.Parallel()
	s := harness.NewScript()
	yaml := `
tools:
  job: {executor: script, ttl: 2h, poll: 100ms, maxAttempts: 1}
  brief: {executor: script, ttl: 2s, poll: 100ms, maxAttempts: 1}
  hook:
    ttl: 2h
    poll: 100ms
    http: {url: "` + hookService(t) + `/jobs", allowHTTP: true, callback: true}
`
	b := newBed(within(t, 5*time.Minute), t, yaml, s)
	b.StartWorker()
	ends := []struct {
		id, tool string
		end      domain.EndKind
		state    domain.State
		cause    func(id string)
	}{
		{"left", "job", domain.EndWaitTimeout, domain.StateRunning, func(id string) {
			b.UntilState(id, domain.StateRunning)
			_, err := b.Client.Wait(b.Ctx, id, starter.WaitOptions{For: 50 * time.Millisecond, WaiterID: domain.WaiterSubmitter})
			require.ErrorIs(t, err, starter.ErrWaitTimeout)
		}},
		{"late", "brief", domain.EndTimedOut, domain.StateExpired, func(id string) { b.UntilClosed(id) }},
		{"stopped", "job", domain.EndCancelled, domain.StateCancelled, func(id string) {
			b.UntilState(id, domain.StateRunning)
			_, err := b.Client.Cancel(b.Ctx, id, protocol.Cancel{By: "ann", Reason: "wrong branch"})
			require.NoError(t, err)
			require.NoError(t, s.Await(b.Ctx, b.JobKey(id, 1), func(c harness.Counts) bool { return c.Cancelled }))
			s.Say(b.JobKey(id, 1), tool.Observation{State: tool.StateCancelled, Definite: true})
			b.UntilClosed(id)
		}},
		{"gone", "job", domain.EndWorkerLost, domain.StateFailed, func(id string) {
			s.Say(b.JobKey(id, 1), tool.Observation{State: tool.StateLost})
			b.UntilClosed(id)
		}},
		{"silent", "hook", domain.EndCallbackLost, domain.StateSucceeded, func(id string) { b.UntilClosed(id) }},
	}
	config := filepath.Join(t.TempDir(), "wakepoint.yaml")
	require.NoError(t, os.WriteFile(config, []byte("tenant: "+b.Config.Tenant+"\ntaskQueue: "+b.Config.TaskQueue+yaml), 0o600))
	seen := map[string]bool{}
	for _, e := range ends {
		b.Submit(e.tool, e.id)
		e.cause(e.id)
		d := b.Describe(e.id)
		require.Equal(t, e.state, d.Task.State, e.id)
		require.NotNil(t, d.End, e.id)
		require.Equal(t, e.end, d.End.Kind, e.id)
		require.False(t, seen[d.End.Text], "%s: %s", e.id, d.End.Text)
		seen[d.End.Text] = true

		var out, errs bytes.Buffer
		code := cli.Run(b.Ctx, []string{"task", "show", e.id, "--config", config, "--address", shared.Address()}, strings.NewReader(""), &out, &errs, os.Environ())
		require.Zero(t, code, errs.String())
		require.Contains(t, out.String(), string(e.end), e.id)
		require.Contains(t, currentDetails(b, e.id), "- **End:** "+string(e.end)+": ", e.id)
	}
	path, ok := harness.BrowserPath()
	if !ok {
		require.Empty(t, os.Getenv("CI"), "install chromium, or name one in %s", harness.BrowserEnv)
		return
	}
	br := harness.OpenBrowser(b.Ctx, t, path, 1480, 860)
	for _, e := range ends {
		run, err := b.Temporal.DescribeWorkflow(b.Ctx, b.WorkflowID(e.id), "")
		require.NoError(t, err)
		br.Visit(b.Ctx, shared.UIURL()+"/namespaces/default/workflows/"+url.PathEscape(b.WorkflowID(e.id))+"/"+run.WorkflowExecution.RunID+"/user-metadata")
		b.see(br, e.id, "End: "+string(e.end))
	}
}
