package http_test

import (
	"errors"
	"fmt"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		// want is the id of the job; empty is none.
		want, err string
	}{
		"a job":                {`{"id":"7","state":"running"}`, "7", ""},
		"a number for an id":   {`{"id":7,"state":"running"}`, "7", ""},
		"a job with its key":   {`{"id":"7","key":"acme/task_1/1"}`, "7", ""},
		"a job without an id":  {`{"state":"running"}`, key, ""},
		"another key":          {`{"id":"7","key":"acme/task_10/1"}`, "", "another key"},
		"a list of one":        {`[{"id":"7"}]`, "7", ""},
		"jobs of one":          {`{"jobs":[{"id":"7"}],"next":null}`, "7", ""},
		"one of several":       {`[{"id":"6","key":"x"},{"id":"7","key":"acme/task_1/1"},{"id":"8"}]`, "7", ""},
		"an empty list":        {`[]`, "", ""},
		"no jobs":              {`{"jobs":[]}`, "", ""},
		"jobs of null":         {`{"jobs":null}`, "", ""},
		"an empty body":        {``, "", ""},
		"null":                 {`null`, "", ""},
		"an empty object":      {`{}`, "", ""},
		"two":                  {`[{"id":"7"},{"id":"8"}]`, "", "one of 2"},
		"two of the key":       {`[{"id":"7","key":"acme/task_1/1"},{"id":"8","key":"acme/task_1/1"}]`, "", "one of 2"},
		"only others":          {`[{"id":"7","key":"x"}]`, "", "another key"},
		"several pages":        {`{"jobs":[],"next":"/jobs?page=2"}`, "", "several pages"},
		"words":                {`"no"`, "", "neither a JSON object nor an array"},
		"a list of words":      {`["7"]`, "", "job 0 of the list is not a JSON object"},
		"html":                 {`<p>no`, "", "not JSON"},
		"half":                 {`[{"id":"7"}`, "", "not JSON"},
		"too large for memory": {`["` + strings.Repeat("x", 5<<20) + `"]`, "", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answers(t, 200, nil, tc.body)
			e := s.executor(s.polled)
			h, found, err := e.Find(t.Context(), key)
			switch {
			case tc.err != "":
				if err == nil || found || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("find: %v, %v, want %q", found, err, tc.err)
				}
			case err != nil || found != (tc.want != ""):
				t.Errorf("find: %v, %v", found, err)
			case h.ID != tc.want:
				t.Errorf("handle = %s", dump(h))
			}
			if got := s.requests()[0].URI; got != "/jobs?key=acme%2Ftask_1%2F1" {
				t.Errorf("asked %s", got)
			}
		})
	}
}

func TestEveryStatusOfFindListAndCancel(t *testing.T) {
	t.Parallel()
	word := func(found bool, err error) string {
		switch {
		case errors.Is(err, tool.ErrThrottled):
			return "throttled"
		case err != nil:
			return "error"
		case found:
			return "yes"
		}
		return "no"
	}
	finds := map[int]string{200: "yes", 202: "yes", 203: "yes", 204: "no", 404: "no", 410: "yes"}
	lists := map[int]string{200: "yes", 203: "yes", 204: "no"}
	cancels := map[int]string{404: "no", 409: "no", 410: "no"}
	for status := 200; status < 600; status++ {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answers(t, status, nil, `{"id":"7","key":"acme/task_1/1","state":"running"}`)
			e := s.executor(s.polled)
			want := func(known map[int]string) string {
				switch {
				case status == 425 || status == 429 || status == 503:
					return "throttled"
				case known[status] != "":
					return known[status]
				}
				return "error"
			}
			_, found, err := e.Find(t.Context(), key)
			if got := word(found, err); got != want(finds) {
				t.Errorf("find: %s, want %s: %v", got, want(finds), err)
			}
			listing, err := e.List(t.Context(), "")
			if got := word(len(listing.Jobs) > 0, err); got != want(lists) {
				t.Errorf("list: %s, want %s: %v", got, want(lists), err)
			}
			err = e.Cancel(t.Context(), handle("7"))
			expected := want(cancels)
			if status < 300 {
				expected = "no" // error
			}
			if got := word(false, err); got != expected {
				t.Errorf("cancel: %s, want %s: %v", got, expected, err)
			}
		})
	}
}

func TestFindWithoutAPlace(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, `{"id":"7"}`)
	if _, found, err := s.executor().Find(t.Context(), key); found || err != nil {
		t.Errorf("find: %v, %v", found, err)
	}
	if _, err := s.executor().List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "list.url") {
		t.Errorf("list: %v", err)
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("requests = %s", dump(got))
	}
}

// A job that was found is looked at by its id, where the answer says that it is, or by its key.
func TestWhereAFoundJobIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status string
		header map[string]string
		want   string
	}{
		"statusURL":        {"/look/{id}", map[string]string{"Content-Location": "/jobs/7"}, "/look/7"},
		"Content-Location": {"", map[string]string{"Content-Location": "/jobs/7"}, "/jobs/7"},
		"Location":         {"", map[string]string{"Location": "/jobs/7"}, "/jobs/7"},
		"elsewhere":        {"", map[string]string{"Location": "https://evil.example.com/7"}, "/find?k=acme%2Ftask_1%2F1"},
		"key":              {"", nil, "/find?k=acme%2Ftask_1%2F1"},
	} {
		s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
			if r.URL.Path == "/find" {
				reply(w, 200, tc.header, `[{"id":"7","state":"done","result":[1]}]`)
				return
			}
			reply(w, 200, nil, `{"id":"7","state":"done","result":[1]}`)
		})
		e := s.executor(func(c *http.Config) {
			c.FindURL = s.URL + "/find?k={key}"
			if tc.status != "" {
				c.StatusURL = s.URL + tc.status
			}
		})
		h, found, err := e.Find(t.Context(), key)
		if err != nil || !found {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		if obs := observe(t, e, restart(t, h)); obs.State != tool.StateSucceeded || string(obs.Result.Inline) != "[1]" {
			t.Errorf("%s: %s", name, dump(obs))
		}
		if got := s.requests()[1].URI; got != tc.want {
			t.Errorf("%s: looked at %s, want %s", name, got, tc.want)
		}
	}
}

// A key whose job is gone was used: a no would start it a second time.
func TestFindOfAForgottenJob(t *testing.T) {
	t.Parallel()
	s := answers(t, 410, nil, "")
	e := s.executor(func(c *http.Config) { c.FindURL = s.URL + "/find?k={key}" })
	h, found, err := e.Find(t.Context(), key)
	if err != nil || !found {
		t.Fatalf("find: %v, %v", found, err)
	}
	if obs := observe(t, e, restart(t, h)); obs.State != tool.StateLost || obs.Definite || obs.Error.Code != http.CodeForgotten {
		t.Errorf("observation = %s", dump(obs))
	}
}

func TestFindAfterTheJobIsForgotten(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"[]", "null", "{}", `{"jobs":[]}`} {
		s := answers(t, 200, nil, body)
		e := s.executor(func(c *http.Config) { c.FindURL = s.URL + "/find?k={key}" })
		obs := observe(t, e, handle("7"))
		if obs.State != tool.StateUnknown || obs.Error.Code != http.CodeUnknownJob {
			t.Errorf("%s: %s", body, dump(obs))
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Query().Get("page") {
		case "":
			reply(w, 200, nil, `{"jobs":[
				{"id":"1","key":"acme/a/1","state":"running","startedAt":1700000000000},
				{"id":"2","state":"running"},
				{"id":"3","key":"acme/b/1","state":"validating","startedAt":"2023-11-14T22:13:20Z"}
			],"next":"?page=2"}`)
		case "2":
			reply(w, 200, nil, `{"jobs":[{"key":"acme/c/2","state":"done"}],"next":""}`)
		}
	})
	e := s.executor(s.polled)
	type row struct {
		ID, Key string
		State   tool.State
		AtMs    int64
	}
	var got []row
	cursor, pages := "", 0
	for {
		page, err := e.List(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			got = append(got, row{j.Handle.ID, j.SubmissionKey, j.State, j.StartedAtMs})
		}
		if pages++; page.Next == "" || pages > 9 {
			break
		}
		cursor = page.Next
	}
	want := []row{
		{"1", "acme/a/1", tool.StateRunning, 1700000000000},
		{"3", "acme/b/1", tool.StateUnknown, 1700000000000},
		{"acme/c/2", "acme/c/2", tool.StateSucceeded, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 2 {
		t.Errorf("%d pages differ:\n%s", pages, diff)
	}
}

func TestListsThatLeadAstray(t *testing.T) {
	t.Parallel()
	foreign := answers(t, 200, nil, "[]")
	for name, tc := range map[string]struct{ body, err string }{
		"to another host": {`{"jobs":[],"next":"` + foreign.URL + `"}`, "another origin"},
		"to itself":       {`{"jobs":[],"next":"/jobs"}`, "the page itself"},
		"nowhere":         {`{"jobs":[],"next":"http://[::1"}`, "no URL"},
		"no jobs":         {`{"jobs":[1]}`, "job 0"},
	} {
		s := answers(t, 200, nil, tc.body)
		if _, err := s.executor(s.polled).List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := answers(t, 200, nil, "[]")
	if _, err := s.executor(s.polled).List(t.Context(), foreign.URL); err == nil {
		t.Error("a cursor of another origin was followed")
	}
	if got := foreign.requests(); len(got) != 0 {
		t.Errorf("the other service was asked: %s", dump(got))
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*service, *http.Config)
		want   string
	}{
		"statusURL":  {func(s *service, c *http.Config) { s.polled(c) }, "DELETE /jobs/7"},
		"cancelURL":  {func(s *service, c *http.Config) { c.CancelURL = s.URL + "/jobs/{id}/stop" }, "DELETE /jobs/7/stop"},
		"a POST":     {func(s *service, c *http.Config) { c.CancelURL, c.CancelMethod = s.URL+"/stop?job={id}", "POST" }, "POST /stop?job=7"},
		"no cancel":  {func(s *service, c *http.Config) { s.polled(c); c.NoCancel = true }, ""},
		"a Location": {func(*service, *http.Config) {}, "DELETE /at/7"},
	} {
		s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
			if r.URL.Path == "/jobs" {
				reply(w, 202, map[string]string{"Location": "/at/7"}, `{"id":"7"}`)
				return
			}
			reply(w, 202, nil, "")
		})
		e := s.executor(func(c *http.Config) { tc.change(s, c) })
		if err := e.Cancel(t.Context(), submit(t, e)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := ""
		if all := s.requests(); len(all) > 1 {
			got = all[1].Method + " " + all[1].URI
			if all[1].Header.Get("Idempotency-Key") != "" || all[1].Body != "" {
				t.Errorf("%s: sent %s", name, dump(all[1]))
			}
		}
		if got != tc.want {
			t.Errorf("%s: asked %q, want %q", name, got, tc.want)
		}
	}
}

// A DELETE of a search could meet more than the job.
func TestCancelDeletesNoSearch(t *testing.T) {
	t.Parallel()
	s := answers(t, 202, nil, `{"id":"7"}`)
	e := s.executor(func(c *http.Config) { c.FindURL = s.URL + "/jobs?key={key}" })
	if err := e.Cancel(t.Context(), submit(t, e)); err == nil || !strings.Contains(err.Error(), "there is no place to do it at") {
		t.Errorf("cancel: %v", err)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCancelOfAServiceThatCannot(t *testing.T) {
	t.Parallel()
	for _, status := range []int{405, 501} {
		s := answers(t, status, nil, "")
		if err := s.executor(s.polled).Cancel(t.Context(), handle("7")); err == nil || !strings.Contains(err.Error(), "cancel: {none: true}") {
			t.Errorf("%d: %v", status, err)
		}
	}
}
