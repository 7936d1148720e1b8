package http_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

func TestSubmitSendsWhatAServiceNeeds(t *testing.T) {
	t.Parallel()
	s := answers(t, 202, map[string]string{"Location": "/jobs/7"}, `{"id":7}`)
	e := s.executor(func(c *http.Config) {
		c.Headers = append(c.Headers, http.Header{Name: "X-Tag", Value: "a"}, http.Header{Name: "x-tag", Value: "b"}, http.Header{Name: "Accept", Value: "text/csv"})
		c.CallbackInfo = "https://us.example.com/{tenant}/{task}"
	})
	req := request(key)
	req.DeadlineAtMs = time.Now().Add(time.Hour).UnixMilli()
	req.Attempt = 3
	if _, err := e.Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	got := s.requests()
	if len(got) != 1 || got[0].Method != "POST" || got[0].URI != "/jobs" || got[0].Body != `{"scene":"a"}` {
		t.Fatalf("requests = %s", dump(got))
	}
	for name, want := range map[string][]string{
		"Idempotency-Key":    {key},
		"Wakepoint-Task":     {"task_1"},
		"Wakepoint-Tenant":   {"acme"},
		"Wakepoint-Attempt":  {"3"},
		"Wakepoint-Deadline": {fmt.Sprint(req.DeadlineAtMs)},
		"Wakepoint-Callback": {"https://us.example.com/acme/task_1"},
		"Content-Type":       {"application/json"},
		"Content-Length":     {"13"},
		"Authorization":      {"Bearer " + secret},
		"X-Tag":              {"a", "b"},
		"Accept":             {"text/csv"},
		"User-Agent":         {"wakepoint"},
	} {
		if diff := cmp.Diff(want, got[0].Header[name]); diff != "" {
			t.Errorf("header %s differs:\n%s", name, diff)
		}
	}
}

func TestSubmitWithoutInputDeadlineAndKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	s := answers(t, 204, nil, "")
	e := s.executor(func(c *http.Config) { c.KeyHeader = "x-request-key" })
	req := request(key)
	req.Input = nil
	if _, err := e.Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	got := s.requests()[0]
	if got.Body != "{}" || got.Header.Get("X-Request-Key") != key {
		t.Errorf("request = %s", dump(got))
	}
	for _, name := range []string{"Idempotency-Key", "Wakepoint-Deadline", "Wakepoint-Callback"} {
		if _, ok := got.Header[name]; ok {
			t.Errorf("header %s is sent", name)
		}
	}
}

func TestInvalidRequestsAskNobody(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "1")
	e := s.executor()
	for name, tc := range map[string]struct {
		change func(*tool.Request)
		code   string
		rule   string
	}{
		"no key":              {func(r *tool.Request) { r.SubmissionKey = "" }, http.CodeInvalidRequest, "submissionKey"},
		"key with a space":    {func(r *tool.Request) { r.SubmissionKey = "a b" }, http.CodeInvalidRequest, "submissionKey"},
		"key with a new line": {func(r *tool.Request) { r.SubmissionKey = "a\r\nX: y" }, http.CodeInvalidRequest, "submissionKey"},
		"key beyond ASCII":    {func(r *tool.Request) { r.SubmissionKey = "ü" }, http.CodeInvalidRequest, "submissionKey"},
		"long key":            {func(r *tool.Request) { r.SubmissionKey = strings.Repeat("k", 513) }, http.CodeInvalidRequest, "submissionKey"},
		"no tenant":           {func(r *tool.Request) { r.Tenant = "" }, http.CodeInvalidRequest, "tenant"},
		"no task":             {func(r *tool.Request) { r.TaskID = "\n" }, http.CodeInvalidRequest, "taskId"},
		"attempt 0":           {func(r *tool.Request) { r.Attempt = 0 }, http.CodeInvalidRequest, "attempt"},
		"negative deadline":   {func(r *tool.Request) { r.DeadlineAtMs = -1 }, http.CodeInvalidRequest, "deadlineAtMs"},
		"input is no JSON":    {func(r *tool.Request) { r.Input = json.RawMessage("{") }, http.CodeInvalidRequest, "input"},
		"large input":         {func(r *tool.Request) { r.Input = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) }, http.CodeInvalidRequest, "input"},
		"deadline passed":     {func(r *tool.Request) { r.DeadlineAtMs = 1 }, http.CodeTimeout, "deadline"},
	} {
		req := request(key)
		tc.change(&req)
		_, err := e.Submit(t.Context(), req)
		if f, ok := tool.DefiniteFailure(err); !ok || f.Code != tc.code || !strings.Contains(f.Message, tc.rule) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("the service was asked: %s", dump(got))
	}
}

// verdictOf puts the answer of Submit into a word.
func verdictOf(err error) string {
	var f tool.Failure
	switch {
	case err == nil:
		return "a handle"
	case errors.Is(err, tool.ErrThrottled):
		return "throttled"
	case errors.Is(err, tool.ErrAmbiguous):
		return "ambiguous"
	}
	f, ok := tool.DefiniteFailure(err)
	if !ok {
		return err.Error()
	}
	word := fmt.Sprintf("not started, %s, %s", f.Code, f.Class)
	if f.Retryable {
		word += ", retryable"
	}
	return word
}

func TestEveryStatusOfAPost(t *testing.T) {
	t.Parallel()
	want := map[int]string{
		200: "a handle", 201: "a handle", 202: "a handle", 204: "a handle", 205: "a handle",
		301: "not started, MISDECLARED, system", 307: "not started, MISDECLARED, system", 308: "not started, MISDECLARED, system",
		400: "not started, INVALID_INPUT, user", 401: "not started, UNAUTHORIZED, system", 403: "not started, UNAUTHORIZED, system",
		404: "not started, MISDECLARED, system, retryable", 405: "not started, MISDECLARED, system", 407: "not started, UNAUTHORIZED, system",
		408: "ambiguous", 409: "ambiguous", 410: "not started, MISDECLARED, system", 413: "not started, INVALID_INPUT, user",
		415: "not started, MISDECLARED, system", 422: "not started, INVALID_INPUT, user",
		423: "not started, REFUSED, third-party, retryable", 424: "not started, REFUSED, third-party, retryable",
		425: "throttled", 429: "throttled", 503: "throttled",
	}
	for status := 200; status < 600; status++ {
		expected, ok := want[status]
		switch {
		case ok:
		case status >= 400 && status < 500:
			expected = "not started, REFUSED, third-party"
		default:
			expected = "ambiguous"
		}
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answers(t, status, map[string]string{"Location": "/jobs/1"}, `{"said":"`+secret+`"}`)
			e := s.executor(s.polled)
			_, err := e.Submit(t.Context(), request(key))
			if got := verdictOf(err); got != expected {
				t.Errorf("submit: %s, want %s: %v", got, expected, err)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("the service was asked %d times", n)
			}
			noSecret(t, s, err)
		})
	}
}

// A service that knows nothing of keys says with 409 something else than that the key is at work.
func TestConflictOfAServiceWithoutKeys(t *testing.T) {
	t.Parallel()
	s := answers(t, 409, nil, `{"error":"the scene is locked"}`)
	_, err := s.executor().Submit(t.Context(), request(key))
	if got := verdictOf(err); got != "not started, REFUSED, third-party" || !strings.Contains(err.Error(), "the scene is locked") {
		t.Errorf("submit: %v", err)
	}
	for name, change := range map[string]func(*http.Config){
		"idempotent": func(c *http.Config) { c.Idempotent = true },
		"finds":      func(c *http.Config) { c.FindURL = s.URL + "/?k={key}" },
	} {
		if _, err := s.executor(change).Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrAmbiguous) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAServiceSaysOfItsRefusal(t *testing.T) {
	t.Parallel()
	base := tool.Failure{Code: http.CodeInvalidInput, Severity: tool.SeverityError, Class: tool.ClassUser, Details: json.RawMessage(`{"status":422}`)}
	for name, tc := range map[string]struct {
		contentType, body string
		header            map[string]string
		want              func(*tool.Failure)
	}{
		"nothing":      {"application/json", "", nil, func(*tool.Failure) {}},
		"a string":     {"application/json", `{"error":"no camera"}`, nil, func(f *tool.Failure) { f.Message += ": no camera" }},
		"a problem":    {"application/problem+json", `{"type":"about:blank","title":"Bad scene","detail":"no camera","status":422}`, nil, func(f *tool.Failure) { f.Message += ": no camera" }},
		"a title":      {"application/problem+json", `{"title":"Bad scene"}`, nil, func(f *tool.Failure) { f.Message += ": Bad scene" }},
		"plain text":   {"text/plain; charset=utf-8", "no camera\n", nil, func(f *tool.Failure) { f.Message += ": no camera" }},
		"html":         {"text/html", "<h1>no camera</h1>", nil, func(*tool.Failure) {}},
		"status again": {"application/json", `{"code":422,"message":"no camera"}`, nil, func(f *tool.Failure) { f.Message += ": no camera" }},
		"a whole error": {
			"application/json", `{"error":{"code":"no-camera","message":"no camera","retryable":true,"class":"third-party","severity":"critical","details":{"at":1},"retryAfterMs":5000}}`, nil,
			func(f *tool.Failure) {
				*f = tool.Failure{Code: "NO_CAMERA", Message: f.Message + ": no camera", Severity: "critical", Class: "third-party", Retryable: true, Details: json.RawMessage(`{"at":1}`), RetryAfterMs: 5000}
			},
		},
		"retry after":   {"application/json", "{}", map[string]string{"Retry-After": "7"}, func(f *tool.Failure) { f.RetryAfterMs = 7000 }},
		"the secret":    {"application/json", `{"error":"bad header Authorization: Bearer ` + secret + `"}`, nil, func(f *tool.Failure) { f.Message += ": bad header Authorization: [redacted]" }},
		"half a secret": {"text/plain", "token " + secret + "!", nil, func(f *tool.Failure) { f.Message += ": token [redacted]!" }},
		"a long text": {"text/plain", strings.Repeat("é", 4000), nil, func(f *tool.Failure) {
			f.Message = (f.Message + ": " + strings.Repeat("é", 4000))[:4096]
			f.Message = strings.ToValidUTF8(f.Message, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := map[string]string{"Content-Type": tc.contentType}
			for k, v := range tc.header {
				header[k] = v
			}
			s := answers(t, 422, header, tc.body)
			_, err := s.executor().Submit(t.Context(), request(key))
			want := base
			want.Message = "the service answered 422 Unprocessable Entity"
			tc.want(&want)
			f, ok := tool.DefiniteFailure(err)
			if !ok {
				t.Fatalf("submit: %v", err)
			}
			if diff := cmp.Diff(want, f); diff != "" {
				t.Errorf("failure differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThrottled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		after  func(now time.Time) string
		want   time.Duration
	}{
		"429, seconds":   {429, func(time.Time) string { return "120" }, 2 * time.Minute},
		"503, seconds":   {503, func(time.Time) string { return "5" }, 5 * time.Second},
		"503, a date":    {503, func(now time.Time) string { return now.Add(90 * time.Second).Format(nethttp.TimeFormat) }, 90 * time.Second},
		"429, a past":    {429, func(now time.Time) string { return now.Add(-time.Hour).Format(nethttp.TimeFormat) }, 0},
		"429, nothing":   {429, func(time.Time) string { return "" }, 0},
		"503, garbage":   {503, func(time.Time) string { return "soon" }, 0},
		"429, next year": {429, func(time.Time) string { return "31536000" }, 6 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The service's clock is an hour ahead: its date is meant by that clock.
			now := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
			header := map[string]string{"Retry-After": tc.after(now), "Date": now.Format(nethttp.TimeFormat)}
			s := answers(t, tc.status, header, `{"error":"slow down"}`)
			e := s.executor(s.polled)
			for verb, call := range map[string]func() error{
				"submit":  func() error { _, err := e.Submit(t.Context(), request(key)); return err },
				"observe": func() error { _, err := e.Observe(t.Context(), handle("7")); return err },
				"find":    func() error { _, _, err := e.Find(t.Context(), key); return err },
				"list":    func() error { _, err := e.List(t.Context(), ""); return err },
				"cancel":  func() error { return e.Cancel(t.Context(), handle("7")) },
			} {
				err := call()
				var throttled *tool.ThrottledError
				if !errors.As(err, &throttled) || throttled.After != tc.want || !strings.Contains(err.Error(), "slow down") {
					t.Errorf("%s: %v, want a wait of %v", verb, err, tc.want)
				}
				noSecret(t, s, err)
			}
		})
	}
}

func TestNoConnectionIsNoStart(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "1")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"nobody listens": "http://" + address + "/jobs",
		"no TLS there":   strings.Replace(s.URL, "http://", "https://", 1) + "/jobs",
	} {
		e := s.executor(func(c *http.Config) { c.URL, c.StatusURL = url, url+"/{id}" })
		_, err := e.Submit(t.Context(), request(key))
		if !errors.Is(err, tool.ErrThrottled) || errors.Is(err, tool.ErrAmbiguous) {
			t.Errorf("%s: submit: %v", name, err)
		}
		if _, err := e.Observe(t.Context(), handle("7")); !errors.Is(err, tool.ErrThrottled) {
			t.Errorf("%s: observe: %v", name, err)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("requests = %s", dump(got))
	}
}

// rawService takes connections and does with them what it is told, below HTTP.
func rawService(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) (url string, count func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	requests := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				r := bufio.NewReader(c)
				for {
					req, err := nethttp.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					requests <- struct{}{}
					serve(c, r)
					if req.Header.Get("X-Keep") == "" {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), func() int { return len(requests) }
}

func TestBrokenAnswersAreAmbiguous(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, said := range map[string]string{
		"closed without a word":     "",
		"half a status line":        "HTTP/1.1 20",
		"no HTTP":                   "SSH-2.0-OpenSSH\r\n",
		"half a header":             head,
		"half a body":               head + "Content-Length: 100\r\n\r\n{\"a\":",
		"half a chunk":              head + "Transfer-Encoding: chunked\r\n\r\n20\r\n{\"a\":",
		"no last chunk":             head + "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n",
		"cut where no length tells": head + "Connection: close\r\n\r\n{\"a\":",
		"no JSON":                   head + "Content-Length: 4\r\n\r\nnope",
		"JSON beyond UTF-8":         head + "Content-Length: 3\r\n\r\n\"\xff\"",
		"an encoding not asked for": head + "Content-Encoding: br\r\nContent-Length: 3\r\n\r\n{} ",
		"half of a gzip":            head + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
		"an endless header":         head + "X-Long: " + strings.Repeat("x", 128<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, count := rawService(t, func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, said) })
			s := answers(t, 200, nil, "")
			e := s.executor(func(c *http.Config) { c.URL, c.Idempotent = url+"/jobs", true })
			_, err := e.Submit(t.Context(), request(key))
			if !errors.Is(err, tool.ErrAmbiguous) || errors.Is(err, tool.ErrThrottled) {
				t.Errorf("submit: %v", err)
			}
			if count() != 1 {
				t.Errorf("the POST was sent %d times", count())
			}
		})
	}
}

// Go's transport repeats a POST with an Idempotency-Key by itself when a used connection breaks,
// also after the service has read it.
func TestAPostIsNeverRepeatedByTheTransport(t *testing.T) {
	t.Parallel()
	answered := false
	url, count := rawService(t, func(c net.Conn, _ *bufio.Reader) {
		if !answered { // all on one connection, so on one goroutine
			answered = true
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			return
		}
		_ = c.Close()
	})
	s := answers(t, 200, nil, "")
	e := s.executor(func(c *http.Config) {
		c.URL = url
		c.Headers = append(c.Headers, http.Header{Name: "X-Keep", Value: "1"})
		c.Client = &nethttp.Client{Transport: &nethttp.Transport{}} // which keeps connections
	})
	if _, err := e.Submit(t.Context(), request(key)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrAmbiguous) {
		t.Errorf("submit: %v", err)
	}
	if count() != 2 {
		t.Errorf("the service read %d requests, want 2", count())
	}
}

// HTTP/2 tells in another way that there was a connection.
func TestBrokenAnswerOverHTTP2(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "")
	var posts atomic.Int32
	secure := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s", r.Proto)
		}
		posts.Add(1)
		panic(nethttp.ErrAbortHandler) // resets the stream
	}))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	change := func(c *http.Config) { c.URL, c.Idempotent = secure.URL, true }
	e := s.executor(change, func(c *http.Config) { c.Client = secure.Client() })
	for range 2 { // the second time on a used connection
		if _, err := e.Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrAmbiguous) {
			t.Errorf("submit: %v", err)
		}
	}
	// Without trust in the certificate nothing is sent.
	if _, err := s.executor(change).Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrThrottled) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("submit: %v", err)
	}
	if n := posts.Load(); n != 2 {
		t.Errorf("the service got %d POSTs, want 2", n)
	}
}

func TestSlowServiceIsAmbiguous(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	e := s.executor(s.polled, func(c *http.Config) { c.Timeout = 50 * time.Millisecond })
	_, err := e.Submit(t.Context(), request(key))
	if !errors.Is(err, tool.ErrAmbiguous) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("submit: %v", err)
	}
	if _, err := e.Observe(t.Context(), handle("7")); err == nil || errors.Is(err, tool.ErrThrottled) {
		t.Errorf("observe: %v", err)
	}
	noSecret(t, s, err)
}

func TestSlowBodyIsAmbiguous(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"a":`)
		_ = nethttp.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	e := s.executor(func(c *http.Config) { c.Timeout = 100 * time.Millisecond })
	if _, err := e.Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrAmbiguous) {
		t.Errorf("submit: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := answers(t, 200, nil, `{"state":"done","result":1}`)
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := answers(t, status, map[string]string{"Location": elsewhere.URL + "/jobs"}, "")
		e := s.executor(s.polled)
		_, err := e.Submit(t.Context(), request(key))
		if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("submit, %d: %v", status, err)
		}
		if _, err := e.Observe(t.Context(), handle("7")); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("observe, %d: %v", status, err)
		}
		if n := len(s.requests()); n != 2 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
	if got := elsewhere.requests(); len(got) != 0 {
		t.Errorf("the other service was asked: %s", dump(got))
	}
}

// A variable of the worker must not send inputs and secrets elsewhere.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	proxy := answers(t, 200, nil, `"from the proxy"`)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	s := answers(t, 200, nil, `"from the service"`)
	// A proxy is never used for this host itself, so another name of it is asked.
	e := s.executor(func(c *http.Config) {
		c.URL = strings.Replace(c.URL, "127.0.0.1", "service.invalid", 1)
		c.AllowHTTP = true
	})
	if _, err := e.Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrThrottled) {
		t.Errorf("submit: %v", err)
	}
	if got := proxy.requests(); len(got) != 0 {
		t.Errorf("the proxy was asked: %s", dump(got))
	}
}
