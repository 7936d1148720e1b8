package http_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
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

func TestLocations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		location string
		body     string
		// want is the URI that is looked at, or what the error says.
		want, err string
	}{
		"relative":            {"jobs/7", "", "/jobs/7", ""},
		"absolute path":       {"/v2/jobs/7?full=1", "", "/v2/jobs/7?full=1", ""},
		"with a fragment":     {"/jobs/7#part", "", "/jobs/7", ""},
		"dots":                {"/a/../jobs/./7", "", "/jobs/7", ""},
		"absolute":            {"{own}/jobs/7", "", "/jobs/7", ""},
		"host in capitals":    {"HTTP://{host}/jobs/7", "", "/jobs/7", ""},
		"foreign host":        {"http://evil.example.com/jobs/7", "", "", "another origin"},
		"foreign port":        {"http://127.0.0.1:1/jobs/7", "", "", "another origin"},
		"other scheme":        {"https://{host}/jobs/7", "", "", "another origin"},
		"no scheme":           {"//evil.example.com/7", "", "", "another origin"},
		"a user":              {"http://me@{host}/jobs/7", "", "", "a user"},
		"no web":              {"file:///etc/passwd", "", "", "no URL with a host"},
		"mail":                {"mailto:a@example.com", "", "", "no URL with a host"},
		"backslashes":         {`\\evil.example.com\7`, "", "", "characters"},
		"garbage":             {"http://[::1", "", "", "no URL"},
		"an escape that isnt": {"/jobs/%zz", "", "", "no URL"},
		"too long":            {"/" + strings.Repeat("x", 3000), "", "", "2048"},
		"none":                {"", "", "", "no place to look"},
		"none, but an id":     {"", `{"id":"7"}`, "", "no place to look"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *service
			s = serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
				if r.Method == "GET" {
					reply(w, 200, nil, `{"state":"running"}`)
					return
				}
				location := strings.NewReplacer("{own}", s.URL, "{host}", r.Host).Replace(tc.location)
				reply(w, 202, map[string]string{"Location": location}, tc.body)
			})
			e := s.executor()
			h, err := e.Submit(t.Context(), request(key))
			if tc.err != "" {
				if !errors.Is(err, tool.ErrAmbiguous) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("submit: %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if obs := observe(t, e, restart(t, h)); obs.State != tool.StateRunning {
				t.Errorf("observation = %s", dump(obs))
			}
			if got := s.requests()[1].URI; got != tc.want {
				t.Errorf("looked at %s, want %s", got, tc.want)
			}
		})
	}
}

// A Location that is refused is no harm when there is another place to look.
func TestForeignLocationBesideADeclaredPlace(t *testing.T) {
	t.Parallel()
	foreign := answers(t, 200, nil, `{"state":"done"}`)
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Method == "GET" {
			reply(w, 200, nil, `{"id":7,"state":"running"}`)
			return
		}
		reply(w, 202, map[string]string{"Location": foreign.URL + "/jobs/7"}, `{"id":7}`)
	})
	for name, tc := range map[string]struct {
		change func(*http.Config)
		want   string
	}{
		"statusURL": {func(c *http.Config) { c.StatusURL = s.URL + "/look/{id}" }, "/look/7"},
		"findURL":   {func(c *http.Config) { c.FindURL = s.URL + "/find?k={key}" }, "/find?k=acme%2Ftask_1%2F1"},
	} {
		e := s.executor(tc.change)
		observe(t, e, submit(t, e))
		all := s.requests()
		if got := all[len(all)-1].URI; got != tc.want {
			t.Errorf("%s: looked at %s, want %s", name, got, tc.want)
		}
	}
	if got := foreign.requests(); len(got) != 0 {
		t.Errorf("the other service was asked: %s", dump(got))
	}
}

// The job's place is kept in history; a declaration that has changed since is what counts.
func TestHandleOfAnotherDeclaration(t *testing.T) {
	t.Parallel()
	old := answers(t, 202, map[string]string{"Location": "/jobs/7"}, "")
	h := submit(t, old.executor())
	now := answers(t, 200, nil, `{"state":"running"}`)
	if _, err := now.executor().Observe(t.Context(), h); err == nil || !strings.Contains(err.Error(), "another origin") {
		t.Errorf("observe: %v", err)
	}
	if got := old.requests(); len(got) != 1 {
		t.Errorf("the old service was asked: %s", dump(got))
	}
}

func TestIDsThatCannotBePutIntoAURL(t *testing.T) {
	t.Parallel()
	for _, id := range []string{".", "..", strings.Repeat("x", 513), "a\u0000b"} {
		s := answers(t, 202, nil, `{"id":`+dump(id)+`}`)
		e := s.executor(func(c *http.Config) { c.StatusURL = s.URL + "/jobs/{id}" })
		if _, err := e.Submit(t.Context(), request(key)); !errors.Is(err, tool.ErrAmbiguous) || !strings.Contains(err.Error(), "id") {
			t.Errorf("%.20q: %v", id, err)
		}
	}
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.Method == "GET" {
			reply(w, 200, nil, `{"state":"running"}`)
			return
		}
		reply(w, 202, nil, `{"id":"a/../b?c#d&ü"}`)
	})
	e := s.executor(func(c *http.Config) { c.StatusURL = s.URL + "/jobs/{id}?full=1" })
	observe(t, e, submit(t, e))
	if got, want := s.requests()[1].URI, "/jobs/a%2F..%2Fb%3Fc%23d%26%C3%BC?full=1"; got != want {
		t.Errorf("looked at %s, want %s", got, want)
	}
}

func TestDoneAtOnce(t *testing.T) {
	t.Parallel()
	big := `"` + strings.Repeat("x", 70<<10) + `"`
	for name, tc := range map[string]struct {
		status      int
		contentType string
		body        string
		// want is the inline result, or the stored content.
		inline, stored, wantType string
	}{
		"JSON":                    {200, "application/json", ` {"a": 1.50, "b":"<"} `, `{"a":1.50,"b":"\u003c"}`, "", "application/json"},
		"created":                 {201, "application/json; charset=utf-8", `[1]`, `[1]`, "", "application/json"},
		"a JSON of a kind":        {200, "application/vnd.render+json", `{"id":"7","state":"done"}`, `{"id":"7","state":"done"}`, "", "application/json"},
		"no content":              {204, "application/json", "", "null", "", "application/json"},
		"an empty body":           {200, "text/plain", "", "null", "", "application/json"},
		"a byte order mark":       {200, "application/json", "\xef\xbb\xbf{}", "{}", "", "application/json"},
		"no type, JSON":           {200, "", `{"a":1}`, `{"a":1}`, "", "application/json"},
		"no type, text":           {200, "", "hello", "", "hello", "text/plain; charset=utf-8"},
		"no type, bytes":          {200, "", "\x00\x01", "", "\x00\x01", "application/octet-stream"},
		"a type that is none":     {200, "nonsense", `{"a":1}`, `{"a":1}`, "", "application/json"},
		"text":                    {200, "text/csv; charset=utf-8", "a,b", "", "a,b", "text/csv; charset=utf-8"},
		"text that would be JSON": {200, "text/html", "1", "", "1", "text/html"},
		"a large JSON":            {200, "application/json", big, "", big, "application/json"},
		"a large text":            {200, "text/plain", strings.Repeat("é", 40<<10), "", strings.Repeat("é", 40<<10), "text/plain"},
		"JSON that grows":         {200, "application/json", `"` + strings.Repeat("<", 30<<10) + `"`, "", `"` + strings.Repeat("<", 30<<10) + `"`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				w.Header()["Content-Type"] = nil
				if tc.contentType != "" {
					w.Header().Set("Content-Type", tc.contentType)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			before := time.Now().UnixMilli()
			h := submit(t, s.executor())
			if n := len(s.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
			s.Close() // nothing but the handle and the store is needed from here
			e := s.executor()
			obs := observe(t, e, h)
			if obs.State != tool.StateSucceeded || !obs.Definite || obs.LastSeenAtMs < before || obs.Result == nil {
				t.Fatalf("observation = %s", dump(obs))
			}
			content := []byte(tc.stored)
			if tc.inline != "" {
				content = []byte(tc.inline)
				if !bytes.Equal(obs.Result.Inline, content) {
					t.Errorf("inline = %s", obs.Result.Inline)
				}
			} else if got, err := s.store.Get(t.Context(), obs.Result.Ref, obs.Result.Hash); err != nil || !bytes.Equal(got, content) {
				t.Errorf("stored = %.80q, %v", got, err)
			} else if !strings.HasPrefix(obs.Result.Ref, "blob:acme/task/task_1/") {
				t.Errorf("ref = %s", obs.Result.Ref)
			}
			if obs.Result.ContentType != tc.wantType || obs.Result.Bytes != int64(len(content)) {
				t.Errorf("result = %s", dump(obs.Result))
			}
			if err := e.Cancel(t.Context(), h); err != nil {
				t.Errorf("cancel: %v", err)
			}
			if diff := cmp.Diff(obs, observe(t, e, h)); diff != "" {
				t.Errorf("a second look differs:\n%s", diff)
			}
		})
	}
}

func TestResultTooLarge(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1001, 100 << 10, 5 << 20} {
		for _, contentType := range []string{"application/json", "text/plain"} {
			s := answers(t, 200, map[string]string{"Content-Type": contentType}, `"`+strings.Repeat("x", size-2)+`"`)
			for name, change := range map[string]func(*http.Config){"at once": func(*http.Config) {}, "maybe a job": s.polled} {
				limit := int64(1000)
				if size > 1<<20 {
					limit = 4 << 20
				}
				e := s.executor(change, func(c *http.Config) { c.MaxResultBytes = limit })
				obs := observe(t, e, submit(t, e))
				if obs.State != tool.StateFailed || !obs.Definite || obs.Result != nil || obs.Error.Code != http.CodeResultTooLarge || obs.Error.Retryable {
					t.Errorf("%d bytes of %s, %s: %.300s", size, contentType, name, dump(obs))
				}
			}
		}
	}
}

// A job that runs must never be shown as a result, also when the service answers with 200.
func TestDoneThatIsAJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body     string
		location string
		change   func(*service, *http.Config)
		job      bool
	}{
		"running, with statusURL":  {`{"id":"7","state":"running"}`, "", func(s *service, c *http.Config) { c.StatusURL = s.URL + "/jobs/{id}" }, true},
		"done, with statusURL":     {`{"id":"7","state":"done","result":1}`, "", func(s *service, c *http.Config) { c.StatusURL = s.URL + "/jobs/{id}" }, true},
		"running, with a Location": {`{"id":"7","state":"queued"}`, "/jobs/7", func(*service, *http.Config) {}, true},
		"running, without an id":   {`{"state":"queued"}`, "", func(s *service, c *http.Config) { c.FindURL = s.URL + "/jobs?k={key}" }, true},
		"running, with a callback": {`{"id":"7","state":"queued"}`, "", func(_ *service, c *http.Config) { c.Callback = true }, true},
		"over, without an id":      {`{"state":"done"}`, "", func(s *service, c *http.Config) { c.FindURL = s.URL + "/jobs?k={key}" }, false},
		"a word of its own":        {`{"id":"7","state":"Bavaria"}`, "/jobs/7", func(*service, *http.Config) {}, false},
		"no place to look":         {`{"id":"7","state":"running"}`, "", func(*service, *http.Config) {}, false},
		"no object":                {`["running"]`, "/jobs/7", func(*service, *http.Config) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
				if r.Method == "GET" {
					reply(w, 200, nil, `{"id":"7","state":"running"}`)
					return
				}
				reply(w, 201, map[string]string{"Location": tc.location}, tc.body)
			})
			e := s.executor(func(c *http.Config) { tc.change(s, c) })
			obs := observe(t, e, submit(t, e))
			if got := obs.State != tool.StateSucceeded; got != tc.job {
				t.Errorf("observation = %s", dump(obs))
			}
			if !tc.job && string(obs.Result.Inline) != tc.body {
				t.Errorf("result = %s", obs.Result.Inline)
			}
		})
	}
}

// A result that cannot be stored is a lost answer: the service acted, and we have nothing.
func TestStoreThatFailsIsAmbiguous(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, map[string]string{"Content-Type": "text/plain"}, "hello")
	e := s.executor()
	req := request(key)
	req.TaskID = "not~a~name" // which the store refuses
	if _, err := e.Submit(t.Context(), req); !errors.Is(err, tool.ErrAmbiguous) || !strings.Contains(err.Error(), "could not be stored") {
		t.Errorf("submit: %v", err)
	}
}
