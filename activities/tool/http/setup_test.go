package http_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
	"github.com/wakepoint/wakepoint/store"
)

var update = flag.Bool("update", false, "write the tables in docs/http.md anew")

// key is the submission key of most tests, in the form of Wakepoint's.
const key = "acme/task_1/1"

// secret is what no error may hold.
const secret = "s3cret-token-4711"

// asked is a request that the service got.
type asked struct {
	Method, URI, Body string
	Header            nethttp.Header
}

// service is an outside that answers as it is told, and keeps what it was asked.
type service struct {
	*httptest.Server
	t     *testing.T
	store *store.Store
	mu    sync.Mutex
	log   []asked
}

// serve starts a service.
func serve(t *testing.T, answer nethttp.HandlerFunc) *service {
	t.Helper()
	s := &service{t: t}
	var err error
	if s.store, err = store.Open(t.Context(), "mem://"); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.log = append(s.log, asked{r.Method, r.RequestURI, string(body), r.Header.Clone()})
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = s.store.Close() })
	return s
}

// answers makes a service that gives one answer to everything.
func answers(t *testing.T, status int, header map[string]string, body string) *service {
	t.Helper()
	return serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) { reply(w, status, header, body) })
}

func reply(w nethttp.ResponseWriter, status int, header map[string]string, body string) {
	for name, value := range header {
		w.Header().Set(name, value)
	}
	if _, ok := header["Content-Type"]; !ok {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	if status != nethttp.StatusNoContent && status != nethttp.StatusNotModified {
		_, _ = io.WriteString(w, body)
	}
}

// requests gives what was asked so far.
func (s *service) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.log...)
}

// config is the declaration of a tool of this service.
func (s *service) config() http.Config {
	return http.Config{
		Name: "render", URL: s.URL + "/jobs", Store: s.store, Timeout: 20 * time.Second,
		Headers: []http.Header{{Name: "Authorization", Value: "Bearer " + secret}},
	}
}

// executor makes an executor of the service, after changes to its declaration.
func (s *service) executor(changes ...func(*http.Config)) *http.Executor {
	s.t.Helper()
	cfg := s.config()
	for _, change := range changes {
		change(&cfg)
	}
	e, err := http.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// polled declares where jobs are looked at, found, cancelled and listed.
func (s *service) polled(c *http.Config) {
	c.StatusURL = s.URL + "/jobs/{id}"
	c.FindURL = s.URL + "/jobs?key={key}"
	c.ListURL = s.URL + "/jobs"
	c.Idempotent = true
}

func request(k string) tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "task_1", Attempt: 1, SubmissionKey: k, Tool: "render", Input: json.RawMessage(`{"scene":"a"}`)}
}

// handle is what a job of the service is addressed by after Submit.
func handle(id string) tool.Handle {
	data := fmt.Sprintf(`{"submissionKey":%q,"tenant":"acme","taskId":"task_1","jobId":%q}`, key, id)
	return tool.Handle{Executor: http.Kind, ID: id, Data: json.RawMessage(data)}
}

// restart is what a handle is after it went through history.
func restart(t *testing.T, h tool.Handle) tool.Handle {
	t.Helper()
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back tool.Handle
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func submit(t *testing.T, e tool.Executor) tool.Handle {
	t.Helper()
	h, err := e.Submit(t.Context(), request(key))
	if err != nil {
		t.Fatal(err)
	}
	return restart(t, h)
}

func observe(t *testing.T, e tool.Executor, h tool.Handle) tool.Observation {
	t.Helper()
	obs, err := e.Observe(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return obs
}

// dump prints a value for a message.
func dump(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(data)
}

// noSecret is an error when a text holds the secret or the address of the service.
func noSecret(t *testing.T, s *service, err error) {
	t.Helper()
	if err == nil {
		return
	}
	f, _ := tool.DefiniteFailure(err)
	for _, text := range []string{err.Error(), dump(f)} {
		if strings.Contains(text, secret) || strings.Contains(text, s.URL) {
			t.Errorf("an error holds a secret or a URL: %s", text)
		}
	}
}
