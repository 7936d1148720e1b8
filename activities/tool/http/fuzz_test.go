package http_test

import (
	nethttp "net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool/http"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		" 5 ":                            5 * time.Second,
		"007":                            7 * time.Second,
		"-5":                             0,
		"+5":                             0,
		"1.5":                            0,
		"1e3":                            0,
		"5s":                             0,
		"99999999":                       6 * time.Hour,
		"99999999999999999999999999":     6 * time.Hour,
		"٥":                              0, // a digit, of another script
		"Mon, 30 Nov 2026 12:01:00 GMT":  time.Minute,
		"Monday, 30-Nov-26 12:01:00 GMT": time.Minute, // RFC 850
		"Mon Nov 30 12:01:00 2026":       time.Minute, // asctime
		"Mon, 30 Nov 2026 11:00:00 GMT":  0,
		"Tue, 30 Nov 2027 12:00:00 GMT":  6 * time.Hour,
		"Mon, 30 Nov 2026 25:00:00 GMT":  0,
		"tomorrow":                       0,
	} {
		if got := http.ParseRetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// RFC 6901, section 5, as far as pointers to parts go.
func TestPointers(t *testing.T) {
	t.Parallel()
	const doc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"o":{"p":[{"q":null}]}}`
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4",
		`/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8", "/o/p/0/q": "null",
	} {
		if got, ok, err := http.ParsePointer(pointer, []byte(doc)); got != want || !ok || err != nil {
			t.Errorf("%q: %s, %v, %v, want %s", pointer, got, ok, err, want)
		}
	}
	for _, pointer := range []string{"/bar", "/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/+1", "/foo/x", "/foo/0/x", "/o/p/0/q/r", "/a/b", "/foo/99999999999999999999"} {
		if got, ok, err := http.ParsePointer(pointer, []byte(doc)); ok || err != nil {
			t.Errorf("%q: %s, %v", pointer, got, err)
		}
	}
	for _, pointer := range []string{"", "foo", "/~", "/~2", "/a~"} {
		if _, _, err := http.ParsePointer(pointer, []byte(doc)); err == nil {
			t.Errorf("%q is taken for a pointer", pointer)
		}
	}
	// Not a slash: ~01 is an escaped tilde and a digit.
	if got, ok, _ := http.ParsePointer("/~01", []byte(`{"~1":1,"/":2}`)); got != "1" || !ok {
		t.Errorf("/~01: %s, %v", got, ok)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "5", "-1", "99999999999999999999", "Mon, 30 Nov 2026 12:01:00 GMT", "Mon, 30 Nov 9999 23:59:59 GMT", "soon"} {
		f.Add(seed, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, value string, now int64) {
		if got := http.ParseRetryAfter(value, time.Unix(now, 0)); got < 0 || got > 6*time.Hour {
			t.Errorf("%q: %v", value, got)
		}
	})
}

// Wherever a service sends us, it is an origin that was declared.
func FuzzLocation(f *testing.F) {
	for _, seed := range []string{
		"", "7", "/jobs/7", "//evil.example.com/", "https://service.example.com:443/x", "https://service.example.com@evil.example.com/", `\\evil.example.com`,
		"https://service.example.com.evil.example.com/", "javascript:1", "HTTPS://SERVICE.example.com/%2e%2e/", "?x", "#y", "https:///x", "https:x", "http://service.example.com/",
	} {
		f.Add(seed)
	}
	base, err := url.Parse("https://service.example.com/v1/jobs?tenant=a")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := http.ResolveURL(base, raw, []string{http.OriginOf(base)})
		if err != nil {
			return
		}
		if u.User != nil || u.Fragment != "" || u.Scheme != "https" || !strings.EqualFold(u.Hostname(), "service.example.com") || u.Port() != "" && u.Port() != "443" {
			t.Errorf("%q leads to %s", raw, u)
		}
		// It is kept as text and read again.
		again, err := http.ResolveURL(base, u.String(), []string{http.OriginOf(base)})
		if err != nil || again.String() != u.String() {
			t.Errorf("%q: %s is read again as %v, %v", raw, u, again, err)
		}
		if _, err := nethttp.NewRequest(nethttp.MethodGet, u.String(), nil); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

// A value stays within its place in a URL.
func FuzzFill(f *testing.F) {
	for _, seed := range []string{"7", "acme/task/1", "a?b#c&d=e", "%2F", "ü", "\x00", "a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		u, err := http.FillURL("https://service.example.com/jobs/{id}/log?of={id}", "{id}", value)
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if parts := strings.Split(u.EscapedPath(), "/"); len(parts) != 4 || parts[1] != "jobs" || parts[3] != "log" || u.Host != "service.example.com" || u.Fragment != "" {
			t.Errorf("%q: %s", value, u)
		}
		if q := u.Query(); len(q) != 1 || q.Get("of") != value {
			t.Errorf("%q: query %v", value, q)
		}
	})
}

func FuzzJobJSON(f *testing.F) {
	for _, seed := range []string{
		`{"id":"7","state":"done","progress":1e400,"stage":"x","result":{},"startedAt":1,"endedAt":"2023-11-14T22:13:20Z"}`,
		`{"id":7,"state":true,"error":{"code":7,"message":"m 7","details":{"a":7},"retryAfterMs":-1,"retryable":true}}`,
		`{"error":"x"}`, `{"error":["7"]}`, `{"error":{"code":"__a--b__","message":" "}}`, `{"jobs":[{"id":1},{"error":7}],"next":"?2"}`, `[[{}]]`, `null`, "\xef\xbb\xbf{}", `{"endedAt":-1e18}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if flaw := http.ReadJSON(body); flaw != "" {
			t.Errorf("%q: %s", body, flaw)
		}
	})
}
