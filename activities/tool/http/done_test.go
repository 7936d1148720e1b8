package http_test

import (
	"bytes"
	"errors"
	"io"
	nethttp "net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

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
