package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wakepoint/wakepoint/starter/cli"
)

// service is a service that renders: at once, or as a job that never ends by itself.
type service struct {
	*httptest.Server
	cancelled atomic.Bool
	looked    chan struct{}
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{looked: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /now", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || !strings.HasPrefix(r.Header.Get("Idempotency-Key"), "default/test-") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rendered":%s}`, b)
	})
	mux.HandleFunc("POST /text", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, "a poem")
	})
	mux.HandleFunc("POST /never", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"error":"no such scene"}`)
	})
	mux.HandleFunc("POST /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/jobs/7")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"id":"7","state":"running"}`)
	})
	mux.HandleFunc("GET /jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if s.cancelled.Load() {
			fmt.Fprint(w, `{"id":"7","state":"cancelled"}`)
			return
		}
		fmt.Fprint(w, `{"id":"7","state":"running","progress":40,"stage":"half\u001b[2J"}`)
		s.looked <- struct{}{}
	})
	mux.HandleFunc("DELETE /jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		s.cancelled.Store(true)
		w.WriteHeader(http.StatusAccepted)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// tryParts declare tools of the service.
func tryParts(t *testing.T, s *service) cli.Parts {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), strings.ReplaceAll(`tools:
  now: {http: {url: "BASE/now"}, inputSchema: {required: [scene]}}
  text: {http: {url: "BASE/text"}}
  never: {http: {url: "BASE/never"}}
  job: {effects: unsafe, rate: 1/s, poll: 100ms, http: {url: "BASE/jobs", callback: true}}
  outside: {executor: external}
  ours: {executor: ours}
  gone: {exec: {argv: [no-such-program-anywhere]}}
  count: {activity: {type: Count, taskQueue: ts}}
`, "BASE", s.URL))
	return cli.Parts{Now: now, Dir: dir, Self: "/bin/wakepoint"}
}

// masked stands for how long something was, and what is random.
var masked = regexp.MustCompile(`\d+\.\ds|"tookMs":\d+|default/test-[A-Z0-9]+`)

func TestToolsTest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	parts := tryParts(t, s)
	var b strings.Builder
	for _, line := range []string{
		"tools test now --arg scene=sea", "tools test now --arg scene=sea --json", "tools test text", "tools test text --json", "tools test never", "tools test never --json",
		"tools test now", "tools test now --input {", "tools test now --input {} --arg a=b", "tools test now --timeout 0", "tools test",
		"tools test outside", "tools test ours", "tools test gone", "tools test nwo", "tools test count --address 127.0.0.1:1",
	} {
		got := runIn(t, setup(t), parts, "", strings.Fields(line)...)
		text := masked.ReplaceAllString(strings.ReplaceAll(got.String(), parts.Dir, "DIR"), "MASKED")
		b.WriteString("$ wakepoint " + line + "\n" + text + "\n")
	}
	golden(t, "tools-test", b.String())
}

// TestToolsTestEndsItsJob: a job that has not ended in time, or whose watcher goes, is
// asked to end, and what came of that is told.
func TestToolsTestEndsItsJob(t *testing.T) {
	t.Parallel()
	s := newService(t)
	got := runIn(t, setup(t), tryParts(t, s), "", "tools", "test", "job", "--timeout", "500ms")
	if got.code != cli.ExitTaskEnded || !s.cancelled.Load() || !strings.HasSuffix(got.stderr, "asking the job to end, though nobody promises that it will\nerror: tool job: no end within 500ms; the job has ended: cancelled\n") {
		t.Errorf("%v", got)
	}
	for _, want := range []string{
		"note: callbacks of the service are not received here; the job is looked at, if that is possible\n", "note: its effects are declared unsafe, and this does its work\n",
		"note: maxConcurrent and rate do not hold here\n", "running, 40%, half [2J, ",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("it said\n%swithout %q", got.stderr, want)
		}
	}

	s = newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.looked
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	code := cli.RunWith(ctx, []string{"tools", "test", "job", "--json"}, strings.NewReader(""), &stdout, &stderr, []string{"USER=ada"}, tryParts(t, s))
	var body struct{ State, Job, Problem string }
	if err := json.Unmarshal(stdout.Bytes(), &body); err != nil || code != cli.ExitInterrupted || body.State != "cancelled" || body.Job == "" || body.Problem == "" || stderr.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
}
