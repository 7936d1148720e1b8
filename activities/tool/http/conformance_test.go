package http_test

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
	"github.com/wakepoint/wakepoint/store"
	outside "github.com/wakepoint/wakepoint/tests/outside/service"
)

// conformPlans are what the jobs of a conformance run are going to do, by their keys.
type conformPlans struct {
	mu sync.Mutex
	of map[string]outside.Plan
}

func (p *conformPlans) set(key string, change func(*outside.Plan)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan := p.of[key]
	plan.Told = true
	change(&plan)
	p.of[key] = plan
}

func (p *conformPlans) get(s outside.Submission) outside.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan := p.of[s.Key]
	plan.Told = true
	return plan
}

// The executor holds to what every executor holds to, whatever its service can do. The service is
// the one that misbehaves on command.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode    outside.Mode
		declare func(c *http.Config, base string)
	}{
		"idempotent, found and listed": {outside.Safe, func(c *http.Config, base string) {
			c.Idempotent, c.FindURL, c.StatusURL, c.ListURL = true, base+"/find?key={key}", base+"/jobs/{id}", base+"/jobs"
		}},
		"idempotent, only by its location": {outside.Safe, func(c *http.Config, _ string) { c.Idempotent = true }},
		"not idempotent, surely found": {outside.Unsafe, func(c *http.Config, base string) {
			c.FindURL, c.FindSure, c.StatusURL = base+"/find?key={key}", true, base+"/jobs/{id}"
		}},
		"not idempotent, looked at by its key": {outside.Unsafe, func(c *http.Config, base string) {
			c.FindURL, c.CancelURL = base+"/find?key={key}", base+"/jobs/{id}"
		}},
		"nothing but a post":    {outside.Unsafe, func(*http.Config, string) {}},
		"no cancel":             {outside.Safe, func(c *http.Config, _ string) { c.Idempotent, c.NoCancel = true, true }},
		"only a callback tells": {outside.Unsafe, func(c *http.Config, _ string) { c.Callback = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform.Run(t, httpSubject(t, tc.mode, tc.declare))
		})
	}
}

// httpSubject is an executor of a service of its own.
func httpSubject(t *testing.T, m outside.Mode, declare func(c *http.Config, base string)) conform.Subject {
	t.Helper()
	planned := &conformPlans{of: map[string]outside.Plan{}}
	s, err := outside.New(outside.Options{LogFile: filepath.Join(t.TempDir(), "log"), Plan: planned.get})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	base := server.URL + "/" + string(m)
	cfg := http.Config{Name: "conform", URL: base + "/jobs", Store: blobs, Timeout: 5 * time.Second}
	declare(&cfg, base)
	// spoilt submits with a fault at the first POST of the key.
	spoilt := func(f outside.Fault) func(conform.T, tool.Executor, tool.Request) error {
		return func(ct conform.T, ex tool.Executor, req tool.Request) error {
			planned.set(req.SubmissionKey, func(p *outside.Plan) { p.Posts = []outside.Fault{f} })
			_, err := ex.Submit(ct.Context(), req)
			return err
		}
	}
	return conform.Subject{
		New: func(ct conform.T) tool.Executor {
			ex, err := http.New(cfg)
			if err != nil {
				ct.Fatalf("%v", err)
			}
			return ex
		},
		Plan: func(_ conform.T, key string, p conform.Plan) json.RawMessage {
			planned.set(key, func(plan *outside.Plan) { plan.Stubborn = p.IgnoreCancel })
			return json.RawMessage(`{}`)
		},
		Started:     func(_ conform.T, key string) int { return s.Started(m, key) },
		Running:     func(_ conform.T, key string) int { return s.Running(m, key) },
		Succeed:     func(_ conform.T, key string, result json.RawMessage) { s.Succeed(m, key, result) },
		Fail:        func(_ conform.T, key string) { s.Fail(m, key) },
		Forget:      func(_ conform.T, key string) { s.ForgetJobs(m, key) },
		LoseAnswer:  spoilt(outside.DropAfter),
		LoseRequest: spoilt(outside.DropBefore),
		Throttle: func(_ conform.T, key string) {
			planned.set(key, func(p *outside.Plan) { p.Posts = []outside.Fault{outside.Throttle} })
		},
		Refuse:    func(conform.T, string) json.RawMessage { return json.RawMessage(`{"refuse":true}`) },
		NoRestart: "the service answers a known key with the job that it has, or knows no keys",
		Read: func(ct conform.T, r tool.Result) []byte {
			data, err := blobs.Get(ct.Context(), r.Ref, r.Hash)
			if err != nil {
				ct.Fatalf("%v", err)
			}
			return data
		},
	}
}
