package http_test

import (
	"errors"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

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
