package activities_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// receiver keeps the requests that came.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
}

func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got, r.bodies = append(r.got, req), append(r.bodies, string(body))
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// request is the nth one that came, and its body.
func (r *receiver) request(n int) (*http.Request, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[n], r.bodies[n]
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func answers(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

func delivery() protocol.SendRequest {
	return protocol.SendRequest{
		Tenant: "acme", Key: "t1/succeeded/2/ops", Target: "ops", Type: "task.succeeded",
		Task: domain.Task{ID: "t1", Tool: "build", RunID: "r1", ToolCallID: "c1", State: domain.StateSucceeded, Version: 2, ResultRef: "blob:x", ResultHash: "h"},
	}
}

func TestSendByStatus(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string {
		return time.UnixMilli(1_800_000_000_000).UTC().Add(d).Format(http.TimeFormat)
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		ok     bool
		gone   bool
		after  time.Duration
	}{
		"200":                           {answer: answers(200), ok: true},
		"202":                           {answer: answers(202), ok: true},
		"204":                           {answer: answers(204), ok: true},
		"301":                           {answer: answers(301, "Location", "/elsewhere")},
		"302":                           {answer: answers(302, "Location", "/elsewhere")},
		"307":                           {answer: answers(307, "Location", "/elsewhere")},
		"304":                           {answer: answers(304)},
		"400":                           {answer: answers(400)},
		"401":                           {answer: answers(401)},
		"404":                           {answer: answers(404)},
		"410 means never again":         {answer: answers(410), gone: true},
		"410 with a pause":              {answer: answers(410, "Retry-After", "5"), gone: true},
		"429":                           {answer: answers(429)},
		"429 in seconds":                {answer: answers(429, "Retry-After", "120"), after: 2 * time.Minute},
		"429 by a date":                 {answer: answers(429, "Retry-After", in(time.Hour)), after: time.Hour},
		"429 by a date that has passed": {answer: answers(429, "Retry-After", in(-time.Hour))},
		"429 in 0 seconds":              {answer: answers(429, "Retry-After", "0")},
		"429 in minus 5 seconds":        {answer: answers(429, "Retry-After", "-5")},
		"429 in a year":                 {answer: answers(429, "Retry-After", "31536000"), after: 6 * time.Hour},
		"429 in nonsense":               {answer: answers(429, "Retry-After", "soon")},
		"500":                           {answer: answers(500)},
		"503 in seconds":                {answer: answers(503, "Retry-After", "7"), after: 7 * time.Second},
		"599":                           {answer: answers(599)},
		"cut off":                       {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			r := receive(t, tc.answer)
			b.o.Targets["ops"] = activities.Target{URL: r.URL + "/hook"}
			res, err := b.send(delivery())
			if n := r.requests(); n != 1 {
				t.Errorf("%d requests: a redirect is followed, or a failure repeated here", n)
			}
			if tc.ok {
				if err != nil || res.SentAtMs != b.now.UnixMilli() || res.Attempts != 1 || res.Known || res.StatusCode/100 != 2 {
					t.Errorf("%+v, %v", res, err)
				}
				return
			}
			app := failure(t, err)
			if app.Type() != protocol.ErrTypeNotDelivered || app.NonRetryable() != tc.gone || app.NextRetryDelay() != tc.after {
				t.Errorf("%v: type %s, for good %v, next in %v", err, app.Type(), app.NonRetryable(), app.NextRetryDelay())
			}
		})
	}
}

func TestSendBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := receive(t, answers(200))
	b.o.Targets["ops"] = activities.Target{URL: r.URL + "/hook"}
	failed := delivery()
	failed.Task.State, failed.Type, failed.Task.ResultRef, failed.Task.ResultHash = domain.StateExpired, "task.expired", "", ""
	failed.Task.Error = &domain.TaskError{Code: "X", Message: "m"}
	failed.Task.Late = &domain.LateResult{ResultRef: "l", ResultHash: "h", AtMs: 9}
	for _, d := range []protocol.SendRequest{delivery(), failed} {
		if _, err := b.send(d); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`{"type":"task.succeeded","timestamp":"2027-01-15T08:00:00Z","data":{"taskId":"t1","tenant":"acme","tool":"build","runId":"r1","toolCallId":"c1","state":"succeeded","version":2,"resultRef":"blob:x","resultHash":"h"}}`,
		`{"type":"task.expired","timestamp":"2027-01-15T08:00:00Z","data":{"taskId":"t1","tenant":"acme","tool":"build","runId":"r1","toolCallId":"c1","state":"expired","version":2,"error":{"code":"X","message":"m"},"lateResult":{"resultRef":"l","resultHash":"h","atMs":9}}}`,
	}
	if diff := cmp.Diff(want, r.bodies); diff != "" {
		t.Error(diff)
	}
	got, _ := r.request(0)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": "t1/succeeded/2/ops", "Webhook-Timestamp": "1800000000", "Webhook-Signature": "", "User-Agent": "wakepoint",
	} {
		if h := got.Header.Get(name); h != want {
			t.Errorf("%s = %q, want %q", name, h, want)
		}
	}
	if got.Method != http.MethodPost || got.URL.Path != "/hook" {
		t.Errorf("%s %s", got.Method, got.URL)
	}
}

// verify is the receiver's side of Standard Webhooks, written from its text: the
// signed content is id, timestamp and body with dots between, the key is what
// follows whsec_ in base64, and the header lists signatures with their version.
func verify(secret string, r *http.Request, body string, now time.Time) error {
	keyText, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return errors.New("no secret of this kind")
	}
	key, err := base64.StdEncoding.DecodeString(keyText)
	if err != nil {
		return err
	}
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	seconds, err := json.Number(stamp).Int64()
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("too old, or from the future: " + stamp)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join([]string{id, stamp, body}, ".")))
	for _, signature := range strings.Split(r.Header.Get("webhook-signature"), " ") {
		version, text, _ := strings.Cut(signature, ",")
		mac, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil && hmac.Equal(mac, h.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature fits")
}

func TestSendIsSigned(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	b := setup(t)
	r := receive(t, answers(200))
	key, err := activities.WebhookSecret(secret + "\n")
	if err != nil {
		t.Fatal(err)
	}
	b.o.Targets["ops"] = activities.Target{URL: r.URL, Secret: key}
	if _, err := b.send(delivery()); err != nil {
		t.Fatal(err)
	}
	got, body := r.request(0)
	if err := verify(secret, got, body, b.now); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		secret, body string
		now          time.Time
	}{
		"another secret": {"whsec_AAAA", body, b.now}, "another body": {secret, body + " ", b.now}, "an old request": {secret, body, b.now.Add(time.Hour)},
	} {
		if verify(tc.secret, got, tc.body, tc.now) == nil {
			t.Errorf("%s fits", name)
		}
	}
}

func TestWebhookSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"whsec_AAEC": "\x00\x01\x02", " plain text \n": "plain text", "": ""} {
		if got, err := activities.WebhookSecret(text); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := activities.WebhookSecret("whsec_topsecret!"); err == nil || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("error = %v, want one that does not show the secret", err)
	}
}

// A target that can be asked is asked before each send: after a crash between
// sending and recording it knows the key.
func TestSendAsksFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer     http.HandlerFunc
		known, err bool
		posts      int
		after      time.Duration
	}{
		"it knows the key":       {answers(200), true, false, 0, 0},
		"it does not":            {answers(404), false, false, 1, 0},
		"it can't say":           {answers(503, "Retry-After", "9"), false, true, 0, 9 * time.Second},
		"it has another opinion": {answers(204), false, true, 0, 0},
		"it redirects":           {answers(302, "Location", "/yes"), false, true, 0, 0},
		"it hangs up":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			asked, hook := receive(t, tc.answer), receive(t, answers(200))
			b.o.Targets["ops"] = activities.Target{URL: hook.URL, AskURL: asked.URL + "/have?for=wakepoint"}
			d := delivery()
			d.Key = "k 1&id=other"
			res, err := b.send(d)
			if res.Known != tc.known || (err != nil) != tc.err || hook.requests() != tc.posts {
				t.Errorf("%+v, %v, %d posts", res, err, hook.requests())
			}
			if err != nil {
				if app := failure(t, err); app.NonRetryable() || app.NextRetryDelay() != tc.after {
					t.Errorf("%v, next in %v", err, app.NextRetryDelay())
				}
			}
			if got, _ := asked.request(0); got.Method != http.MethodGet || got.URL.Query().Get("id") != d.Key || len(got.URL.Query()["id"]) != 1 || got.URL.Query().Get("for") != "wakepoint" {
				t.Errorf("asked by %s %s", got.Method, got.URL)
			}
		})
	}
}

// A receiver that takes its time is given up, and tried again later.
func TestSendGivesUpASlowReceiver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := receive(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	b.o.Targets["ops"] = activities.Target{URL: r.URL, Timeout: 50 * time.Millisecond}
	_, err := b.send(delivery())
	if app := failure(t, err); app.NonRetryable() || !strings.Contains(said(err), "deadline exceeded") {
		t.Errorf("error = %v", err)
	}
}

// URLs of targets hold tokens, and errors are kept in history and shown.
func TestSendErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const token = "s3cr3t-t0ken"
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	words := receive(t, func(w http.ResponseWriter, req *http.Request) {
		// A receiver that repeats what it was sent, also in its status line.
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 503 "+req.URL.Query().Get("token")+"\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	})
	redirect := receive(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "/x?"+req.URL.RawQuery, http.StatusFound)
	})
	for name, target := range map[string]activities.Target{
		"nobody there":          {URL: down.URL + "/" + token + "?token=" + token},
		"nobody to ask":         {URL: words.URL, AskURL: down.URL + "/" + token + "?token=" + token},
		"a user with password":  {URL: strings.Replace(down.URL, "http://", "http://user:"+token+"@", 1)},
		"a talkative receiver":  {URL: words.URL + "?token=" + token},
		"a talkative answer":    {URL: words.URL, AskURL: words.URL + "?token=" + token},
		"a redirect":            {URL: redirect.URL + "?token=" + token},
		"no URL":                {URL: "http://[" + token},
		"no URL to ask":         {URL: words.URL, AskURL: "http://[" + token},
		"no scheme":             {URL: token + "://x"},
		"no scheme to ask":      {URL: words.URL, AskURL: token + "://x"},
		"a control character":   {URL: "http://x/\x7f" + token},
		"one in the ask's":      {URL: words.URL, AskURL: "http://x/\x7f" + token},
		"a secret that is used": {URL: down.URL, Secret: []byte(token)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.o.Targets["ops"] = target
			_, err := b.send(delivery())
			if err == nil {
				t.Fatal("it was sent")
			}
			if strings.Contains(said(err), token) {
				t.Errorf("the error shows it: %s", said(err))
			}
		})
	}
}

func TestSendToATargetThatIsNotDeclared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.send(delivery())
	if app := failure(t, err); !app.NonRetryable() || !strings.Contains(app.Message(), "no target ops is declared") {
		t.Errorf("error = %v", err)
	}
}

// A proxy in the worker's environment must not see what is sent.
func TestSendUsesNoProxy(t *testing.T) {
	proxy := receive(t, answers(200))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	b := setup(t)
	// Not a local address: those are never asked of a proxy.
	b.o.Targets["ops"] = activities.Target{URL: "http://receiver.invalid/hook", Timeout: 5 * time.Second}
	if _, err := b.send(delivery()); err == nil || proxy.requests() != 0 {
		t.Errorf("error = %v, the proxy got %d requests", err, proxy.requests())
	}
}
