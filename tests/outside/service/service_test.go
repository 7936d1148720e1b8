package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/tests/outside/service"
)

// rig is a server with a client that repeats nothing.
type rig struct {
	t    *testing.T
	s    *service.Server
	http *httptest.Server
	log  string
	mu   sync.Mutex
	got  []service.Callback
}

func newRig(t *testing.T, plan service.Plan) *rig {
	t.Helper()
	r := &rig{t: t, log: filepath.Join(t.TempDir(), "log")}
	s, err := service.New(service.Options{
		LogFile: r.log, Hang: 200 * time.Millisecond, Transit: 20 * time.Millisecond, Plan: func(service.Submission) service.Plan { return plan },
		Callback: func(_ context.Context, c service.Callback) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got = append(r.got, c)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.s, r.http = s, httptest.NewServer(s)
	t.Cleanup(func() {
		r.http.CloseClientConnections()
		r.http.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// reply is an answer, or the lack of one.
type reply struct {
	Status   int
	Location string
	Body     map[string]any
	Retry    string
}

func (r *rig) do(method, path, key string) reply {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 100*time.Millisecond+5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.http.URL+path, bytes.NewBufferString(`{}`))
	if err != nil {
		r.t.Fatal(err)
	}
	req.GetBody = nil
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Wakepoint-Task", "t")
	req.Header.Set("Wakepoint-Attempt", "1")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return reply{}
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}
	}
	out := reply{Status: resp.StatusCode, Location: resp.Header.Get("Location"), Retry: resp.Header.Get("Retry-After")}
	if err := json.Unmarshal(data, &out.Body); err != nil {
		r.t.Fatalf("%s %s: %q: %v", method, path, data, err)
	}
	return out
}

func (r *rig) entries(what string) []service.Entry {
	r.t.Helper()
	all, err := service.ReadLog(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e service.Entry) bool { return e.What != what })
}

func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			r.t.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestFaultsOfAPost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault          service.Fault
		status         int
		started, after int // by the first POST, and by a second one
	}{
		{service.DropBefore, 0, 0, 1},
		{service.DropAfter, 0, 1, 2},
		{service.HangBefore, 202, 1, 2},
		{service.HangAfter, 0, 1, 2},
		{service.Throttle, 429, 0, 1},
		{service.Unavailable, 503, 0, 1},
		{service.BadGateway, 502, 1, 2},
		{service.TwoAnswers, 202, 1, 2},
		{service.Refuse, 423, 0, 1},
		{"", 202, 1, 2},
	} {
		for _, m := range []service.Mode{service.Safe, service.Unsafe} {
			t.Run(fmt.Sprintf("%s %s", m, tc.fault), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, service.Plan{Told: true, Posts: []service.Fault{tc.fault}})
				got := r.do("POST", "/"+string(m)+"/jobs", "k")
				if got.Status != tc.status || r.s.Started(m, "k") != tc.started {
					t.Errorf("answer %+v, started %d; want status %d, started %d", got, r.s.Started(m, "k"), tc.status, tc.started)
				}
				if throttled := tc.status == 429 || tc.status == 503; throttled != (got.Retry == "1") {
					t.Errorf("Retry-After = %q", got.Retry)
				}
				want := tc.after
				if m == service.Safe {
					want = 1 // the key is known
				}
				again := r.do("POST", "/"+string(m)+"/jobs", "k")
				if again.Status != 202 || again.Location == "" || r.s.Started(m, "k") != want {
					t.Errorf("a second POST: %+v, started %d, want %d", again, r.s.Started(m, "k"), want)
				}
				if log := r.entries(service.LogStarted); len(log) != want {
					t.Errorf("the log has %d starts, want %d: %+v", len(log), want, log)
				}
				wantDisturbed := 1
				if tc.fault == "" {
					wantDisturbed = 0
				}
				if n := len(r.entries(service.LogDisturbed)); n != wantDisturbed {
					t.Errorf("the log has %d disturbances, want %d", n, wantDisturbed)
				}
			})
		}
	}
}

func TestProxyRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, service.Plan{Told: true, Posts: []service.Fault{service.ProxyRetry}})
	if got := r.do("POST", "/safe/jobs", "k"); got.Status != 202 || r.s.Started(service.Safe, "k") != 1 {
		t.Errorf("answer %+v, started %d", got, r.s.Started(service.Safe, "k"))
	}
}

// A POST that came before find said no acts no more, or the no would not have been sure.
func TestFindIsSure(t *testing.T) {
	t.Parallel()
	r := newRig(t, service.Plan{Told: true, Posts: []service.Fault{service.HangBefore}})
	answered := make(chan reply, 1)
	go func() { answered <- r.do("POST", "/unsafe/jobs", "k") }()
	r.until("the POST hangs", func() bool { return len(r.entries(service.LogDisturbed)) == 1 })
	if got := r.do("GET", "/unsafe/find?key=k", ""); got.Status != 404 {
		t.Errorf("find = %+v", got)
	}
	if got := <-answered; got.Status != 409 || r.s.Started(service.Unsafe, "k") != 0 {
		t.Errorf("the POST from before: %+v, started %d", got, r.s.Started(service.Unsafe, "k"))
	}
	if got := r.do("POST", "/unsafe/jobs", "k"); got.Status != 202 || r.s.Started(service.Unsafe, "k") != 1 {
		t.Errorf("a POST afterwards: %+v, started %d", got, r.s.Started(service.Unsafe, "k"))
	}
	if got := r.do("GET", "/unsafe/find?key=k", ""); got.Status != 200 || got.Body["state"] != "running" {
		t.Errorf("find = %+v", got)
	}
}

func TestLooks(t *testing.T) {
	t.Parallel()
	r := newRig(t, service.Plan{Told: true, MindChanges: true, Looks: []service.Fault{service.LookThrottle, service.LookDrop, service.LookError, service.LookHang}})
	at := r.do("POST", "/safe/jobs", "k").Location
	var statuses []int
	for range 5 {
		statuses = append(statuses, r.do("GET", at, "").Status)
	}
	if want := []int{429, 0, 500, 0, 200}; !cmp.Equal(statuses, want) {
		t.Errorf("looks = %v, want %v", statuses, want)
	}
	r.s.Succeed(service.Safe, "k", json.RawMessage(`"done"`))
	var states []any
	for range 3 {
		states = append(states, r.do("GET", at, "").Body["state"])
	}
	if want := []any{"succeeded", "running", "succeeded"}; !cmp.Equal(states, want) {
		t.Errorf("states = %v, want %v", states, want)
	}
	if ends := r.entries(service.LogEnded); len(ends) != 1 || ends[0].State != "succeeded" {
		t.Errorf("the log has these ends: %+v", ends)
	}
}

// A service that has forgotten a job still knows its key, where it knows keys.
func TestForgets(t *testing.T) {
	t.Parallel()
	r := newRig(t, service.Plan{Lasts: time.Millisecond, Forgets: time.Millisecond})
	at := r.do("POST", "/safe/jobs", "k").Location
	r.until("it is forgotten", func() bool { return r.do("GET", at, "").Status == 404 })
	again := r.do("POST", "/safe/jobs", "k")
	if again.Status != 200 || again.Body["done"] != "job-1" || r.s.Started(service.Safe, "k") != 1 {
		t.Errorf("a POST of the same key: %+v, started %d", again, r.s.Started(service.Safe, "k"))
	}
	if got := r.do("GET", "/safe/find?key=k", ""); got.Status != 404 {
		t.Errorf("find = %+v", got)
	}
	// A sure find would be none if it said no of a job that is only forgotten.
	at = r.do("POST", "/unsafe/jobs", "k").Location
	r.until("it is forgotten", func() bool { return r.do("GET", at, "").Status == 404 })
	if got := r.do("GET", "/unsafe/find?key=k", ""); got.Status != 410 {
		t.Errorf("the sure find = %+v", got)
	}
	if len(r.entries(service.LogForgot)) != 2 {
		t.Error("the log does not tell that it was forgotten")
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, stubborn := range []bool{false, true} {
		r := newRig(t, service.Plan{Told: true, Stubborn: stubborn})
		at := r.do("POST", "/unsafe/jobs", "k").Location
		r.do("DELETE", at, "")
		if running := r.s.Running(service.Unsafe, "k"); (running == 1) != stubborn {
			t.Errorf("stubborn %v: %d run after the cancel", stubborn, running)
		}
		r.s.Fail(service.Unsafe, "k")
		want := map[bool]string{false: "cancelled", true: "failed"}[stubborn]
		if got := r.do("GET", at, ""); got.Body["state"] != want {
			t.Errorf("stubborn %v: %+v, want %s", stubborn, got, want)
		}
		if ends := r.entries(service.LogEnded); len(ends) != 1 || ends[0].State != want || !ends[0].Cancelled {
			t.Errorf("stubborn %v: ends %+v", stubborn, ends)
		}
	}
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	for kind, want := range map[service.Fault][]string{
		service.CallbackNone:     nil,
		service.CallbackPlain:    {"job-1-end succeeded"},
		service.CallbackEarly:    {"job-1-end succeeded"},
		service.CallbackLate:     {"job-1-end succeeded"},
		service.CallbackTwice:    {"job-1-end succeeded", "job-1-end succeeded", "job-1-end-again succeeded"},
		service.CallbackDisorder: {"job-1-end succeeded", "job-1-at-60 running", "job-1-at-30 running"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			lasts := 5 * time.Millisecond
			if kind == service.CallbackEarly {
				lasts = 0
			}
			r := newRig(t, service.Plan{Lasts: lasts, Callback: kind, CallbackDelay: 50 * time.Millisecond})
			r.do("POST", "/safe/jobs", "k")
			words := func() (words []string) {
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, c := range r.got {
					words = append(words, c.ID+" "+c.State)
				}
				return words
			}
			if early := words(); kind == service.CallbackEarly && len(early) != 1 {
				t.Errorf("before the answer: %v", early)
			}
			r.until("the job is over and told of", func() bool { return r.s.Open() == 0 && len(words()) >= len(want) })
			if got := words(); !cmp.Equal(got, want) {
				t.Errorf("callbacks = %v, want %v", got, want)
			}
		})
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, service.Plan{Told: true})
	for i := range 7 {
		r.do("POST", "/unsafe/jobs", fmt.Sprint("k", i))
	}
	var keys []any
	pages := 0
	for at := "/unsafe/jobs"; at != ""; pages++ {
		page := r.do("GET", at, "")
		for _, j := range page.Body["jobs"].([]any) {
			keys = append(keys, j.(map[string]any)["key"])
		}
		at, _ = page.Body["next"].(string)
	}
	if pages != 3 || len(keys) != 7 || keys[6] != "k6" {
		t.Errorf("%d pages with %v", pages, keys)
	}
	if got := r.do("GET", "/safe/jobs", ""); len(got.Body["jobs"].([]any)) != 0 {
		t.Errorf("the other service lists %+v", got)
	}
}

// The same seed gives the same misbehaviour, and all sorts of it.
func TestSeeded(t *testing.T) {
	t.Parallel()
	seen := map[service.Fault]int{}
	plan, same, other := service.Seeded(1, service.DefaultMix()), service.Seeded(1, service.DefaultMix()), service.Seeded(2, service.DefaultMix())
	differ := 0
	for i := range 500 {
		sub := service.Submission{Mode: service.Safe, Key: fmt.Sprint("key-", i)}
		p := plan(sub)
		if diff := cmp.Diff(p, same(sub)); diff != "" {
			t.Fatalf("the same seed differs:\n%s", diff)
		}
		if !cmp.Equal(p, other(sub)) {
			differ++
		}
		for _, f := range slices.Concat(p.Posts, p.Looks, []service.Fault{p.Callback}) {
			seen[f]++
		}
		if p.Forgets > 0 {
			seen[service.Forget]++
		}
		if p.MindChanges {
			seen[service.MindChange]++
		}
	}
	if differ < 400 {
		t.Errorf("another seed gives the same plan for %d keys of 500", 500-differ)
	}
	for _, f := range service.Faults() {
		if seen[f] == 0 {
			t.Errorf("%s never happens", f)
		}
	}
}
