package http_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

func progress(n int) *int { return &n }

// ignoring leaves out what every observation of a test has alike.
var ignoring = cmpopts.IgnoreFields(tool.Observation{}, "Worker", "LastSeenAtMs")

func inline(text string) *tool.Result {
	return &tool.Result{Inline: json.RawMessage(text), ContentType: "application/json", Bytes: int64(len(text))}
}

func TestJobsAsTheyAreSaid(t *testing.T) {
	t.Parallel()
	failed := func(f tool.Failure) tool.Observation {
		if f.Severity == "" {
			f.Severity = tool.SeverityError
		}
		if f.Class == "" {
			f.Class = tool.ClassThirdParty
		}
		return tool.Observation{State: tool.StateFailed, Definite: true, Error: &f}
	}
	running := tool.Observation{State: tool.StateRunning}
	for name, tc := range map[string]struct {
		body string
		want tool.Observation
	}{
		"running":            {`{"state":"running"}`, running},
		"in other letters":   {`{"state":" In_Progress "}`, running},
		"all there is":       {`{"state":"running","progress":40,"stage":"linking","more":1}`, tool.Observation{State: tool.StateRunning, Progress: progress(40), Stage: "linking"}},
		"progress 1000":      {`{"state":"running","progress":1000}`, tool.Observation{State: tool.StateRunning, Progress: progress(100)}},
		"progress -5":        {`{"state":"running","progress":-5}`, tool.Observation{State: tool.StateRunning, Progress: progress(0)}},
		"progress 99.9":      {`{"state":"running","progress":99.9}`, tool.Observation{State: tool.StateRunning, Progress: progress(99)}},
		"progress 1e999":     {`{"state":"running","progress":1e999}`, tool.Observation{State: tool.StateRunning, Progress: progress(100)}},
		"progress in words":  {`{"state":"running","progress":"half"}`, running},
		"progress null":      {`{"state":"running","progress":null}`, running},
		"a stage of words":   {`{"state":"running","stage":["a"]}`, running},
		"a long stage":       {`{"state":"running","stage":"` + strings.Repeat("é", 200) + `"}`, tool.Observation{State: tool.StateRunning, Stage: strings.Repeat("é", 100)}},
		"a stage cut within": {`{"state":"running","stage":"` + strings.Repeat("x", 195) + secret + `"}`, tool.Observation{State: tool.StateRunning, Stage: strings.Repeat("x", 195) + "[reda"}},
		"a telling stage":    {`{"state":"running","stage":"with ` + secret + `"}`, tool.Observation{State: tool.StateRunning, Stage: "with [redacted]"}},

		"succeeded":      {`{"state":"done","result":{"a": 1.0}}`, tool.Observation{State: tool.StateSucceeded, Definite: true, Result: inline(`{"a":1.0}`)}},
		"with nothing":   {`{"state":"done"}`, tool.Observation{State: tool.StateSucceeded, Definite: true, Result: inline(`null`)}},
		"with null":      {`{"state":"done","result":null}`, tool.Observation{State: tool.StateSucceeded, Definite: true, Result: inline(`null`)}},
		"with a text":    {`{"state":"done","result":"x","error":"ignored"}`, tool.Observation{State: tool.StateSucceeded, Definite: true, Result: inline(`"x"`)}},
		"result before":  {`{"state":"running","result":1}`, running},
		"cancelled":      {`{"state":"canceled","progress":3}`, tool.Observation{State: tool.StateCancelled, Definite: true, Progress: progress(3)}},
		"failed":         {`{"state":"failed"}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "the service says that the job failed, and not why", Retryable: true})},
		"failed, null":   {`{"state":"failed","error":null}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "the service says that the job failed, and not why", Retryable: true})},
		"failed, a text": {`{"state":"failed","error":"no camera"}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "no camera", Retryable: true})},
		"failed, a list": {`{"state":"failed","error":["no",1]}`, failed(tool.Failure{Code: "JOB_FAILED", Message: `["no",1]`, Retryable: true})},
		"failed, an object": {
			`{"state":"failed","error":{"code":"NO_CAMERA","message":"no camera","retryable":false,"class":"user","severity":"warning","details":{"b":1},"retryAfterMs":1500}}`,
			failed(tool.Failure{Code: "NO_CAMERA", Message: "no camera", Class: "user", Severity: "warning", Details: json.RawMessage(`{"b":1}`), RetryAfterMs: 1500}),
		},
		"failed by the user": {`{"state":"failed","error":{"class":"user","message":"m"}}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "m", Class: "user"})},
		"failed, nonsense": {
			`{"state":"failed","error":{"code":[],"message":{},"retryable":"maybe","class":"nobody","severity":7,"details":[1],"retryAfterMs":"x"}}`,
			failed(tool.Failure{Code: "JOB_FAILED", Message: "the service says that the job failed, and not why", Retryable: true}),
		},
		"failed, a number":   {`{"state":"failed","error":{"code":42,"message":"m","retryAfterMs":1e99}}`, failed(tool.Failure{Code: "CODE_42", Message: "m", Retryable: true, RetryAfterMs: (6 * time.Hour).Milliseconds()})},
		"failed, odd code":   {`{"state":"failed","error":{"code":" out-of.memory! ","message":"m"}}`, failed(tool.Failure{Code: "OUT_OF_MEMORY", Message: "m", Retryable: true})},
		"failed, long text":  {`{"state":"failed","error":"` + strings.Repeat("x", 5000) + `"}`, failed(tool.Failure{Code: "JOB_FAILED", Message: strings.Repeat("x", 4096), Retryable: true})},
		"failed, big detail": {`{"state":"failed","error":{"message":"m","details":{"a":"` + strings.Repeat("x", 17<<10) + `"}}}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "m", Retryable: true})},
		"failed, telling":    {`{"state":"failed","error":{"message":"Bearer ` + secret + `","details":{"sent":"` + secret + `"}}}`, failed(tool.Failure{Code: "JOB_FAILED", Message: "[redacted]", Details: json.RawMessage(`{"sent":"[redacted]"}`), Retryable: true})},

		"an unknown word": {`{"state":"validating"}`, tool.Observation{
			State: tool.StateUnknown,
			Error: &tool.Failure{Code: "UNKNOWN_STATE", Message: `the job's state "validating" is none of the declared words; add it to states`, Severity: "error", Class: "system"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answers(t, 200, nil, tc.body)
			e := s.executor(s.polled)
			obs := observe(t, e, handle("7"))
			if diff := cmp.Diff(tc.want, obs, ignoring); diff != "" {
				t.Errorf("observation differs (-want +got):\n%s", diff)
			}
			if got := s.requests(); len(got) != 1 || got[0].Method != "GET" || got[0].URI != "/jobs/7" || got[0].Header.Get("Authorization") != "Bearer "+secret || got[0].Header.Get("Idempotency-Key") != "" {
				t.Errorf("requests = %s", dump(got))
			}
			if want := strings.TrimPrefix(s.URL, "http://") + "/job 7"; obs.Worker != want {
				t.Errorf("worker = %q, want %q", obs.Worker, want)
			}
		})
	}
}

func TestJobsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ contentType, body, err string }{
		"empty":           {"application/json", "", "not JSON"},
		"html":            {"text/html", "<p>sign in", "not JSON"},
		"an array":        {"application/json", "[]", "not a JSON object"},
		"null":            {"application/json", "null", "not a JSON object"},
		"half":            {"application/json", `{"state":`, "not JSON"},
		"two":             {"application/json", `{"state":"done"}{}`, "not JSON"},
		"not UTF-8":       {"application/json", "{\"state\":\"\xff\"}", "not JSON in UTF-8"},
		"no state":        {"application/json", `{"status":"done"}`, `no state at "/state"`},
		"a state of null": {"application/json", `{"state":null}`, `no state at "/state"`},
		"a state object":  {"application/json", `{"state":{"is":"done"}}`, `no state at "/state"`},
		"too large":       {"application/json", `{"state":"done","x":"` + strings.Repeat("x", 5<<20) + `"}`, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answers(t, 200, map[string]string{"Content-Type": tc.contentType}, tc.body)
			_, err := s.executor(s.polled).Observe(t.Context(), handle("7"))
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("observe: %v, want %q", err, tc.err)
			}
			// The content type is no matter: services are careless with it.
			s = answers(t, 200, map[string]string{"Content-Type": "text/plain"}, `{"state":"running"}`)
			if obs := observe(t, s.executor(s.polled), handle("7")); obs.State != tool.StateRunning {
				t.Errorf("observation = %s", dump(obs))
			}
		})
	}
}

func TestEveryStatusOfALook(t *testing.T) {
	t.Parallel()
	for status := 200; status < 600; status++ {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := answers(t, status, nil, `{"id":"7","state":"done","error":"`+secret+`"}`)
			e := s.executor(s.polled)
			obs, err := e.Observe(t.Context(), handle("7"))
			got := string(obs.State)
			if errors.Is(err, tool.ErrThrottled) {
				got = "throttled"
			} else if err != nil {
				got = "error"
			}
			want := map[int]string{200: "succeeded", 202: "succeeded", 203: "succeeded", 404: "unknown", 410: "lost", 425: "throttled", 429: "throttled", 503: "throttled"}[status]
			if want == "" {
				want = "error"
			}
			if got != want {
				t.Errorf("observe: %s, want %s: %v", got, want, err)
			}
			if obs.Error != nil && obs.Definite {
				t.Errorf("a definite word without a job: %s", dump(obs))
			}
			noSecret(t, s, err)
		})
	}
}

// A status page that says 202 goes on, whatever else it says or does not say.
func TestAcceptedGoesOn(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"nothing": "", "half": "{", "no state": `{"progress":5}`, "running": `{"state":"running","progress":5}`, "html": "<p>"} {
		s := answers(t, 202, map[string]string{"Retry-After": "3"}, body)
		obs := observe(t, s.executor(s.polled), handle("7"))
		if obs.State != tool.StateRunning || obs.Definite || obs.NextInMs != 3000 {
			t.Errorf("%s: %s", name, dump(obs))
		}
	}
}

func TestRetryAfterOfALook(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, map[string]string{"Retry-After": "7"}, `{"state":"running"}`)
	if obs := observe(t, s.executor(s.polled), handle("7")); obs.NextInMs != 7000 {
		t.Errorf("observation = %s", dump(obs))
	}
	s = answers(t, 200, map[string]string{"Retry-After": "7"}, `{"state":"failed","error":"busy"}`)
	if obs := observe(t, s.executor(s.polled), handle("7")); obs.NextInMs != 0 || obs.Error.RetryAfterMs != 7000 {
		t.Errorf("observation = %s", dump(obs))
	}
}

// When work ended is what counts for a deadline, not when somebody looked.
func TestEndOfAJob(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		at   string
		want int64
	}{
		"milliseconds":  {"1700000000123", 1700000000123},
		"a date":        {`"2023-11-14T23:13:20.5+01:00"`, 1700000000500},
		"in the future": {fmt.Sprint(now.Add(time.Hour).UnixMilli()), now.UnixMilli()},
		"words":         {`"today"`, 0},
		"nothing":       {"null", 0},
		"negative":      {"-5", 0},
		"endless":       {"1e400", 0},
		"in a list":     {"[1]", 0},
	} {
		s := answers(t, 200, nil, `{"state":"cancelled","endedAt":`+tc.at+`}`)
		obs := observe(t, s.executor(s.polled), handle("7"))
		if obs.LastSeenAtMs < tc.want || obs.LastSeenAtMs > tc.want+time.Minute.Milliseconds() || tc.want == 0 && obs.LastSeenAtMs != 0 {
			t.Errorf("%s: last seen at %d, want %d", name, obs.LastSeenAtMs, tc.want)
		}
	}
	s := answers(t, 200, nil, `{"state":"running","endedAt":5}`)
	if obs := observe(t, s.executor(s.polled), handle("7")); obs.LastSeenAtMs < now.UnixMilli() {
		t.Errorf("a running job was seen at %d", obs.LastSeenAtMs)
	}
}

// A service with other words and another shape.
func TestDeclaredFieldsAndStates(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, `{"job":{"status":{"phase":"Prozessing","done/all":[10,55]},"a~b":"tiling"}}`)
	e := s.executor(s.polled, func(c *http.Config) {
		c.Fields = http.Fields{State: "/job/status/phase", Progress: "/job/status/done~1all/1", Stage: "/job/a~0b"}
		c.States = http.States{Running: []string{"prozessing"}}
	})
	want := tool.Observation{State: tool.StateRunning, Progress: progress(55), Stage: "tiling"}
	if diff := cmp.Diff(want, observe(t, e, handle("7")), ignoring); diff != "" {
		t.Errorf("observation differs:\n%s", diff)
	}
	s = answers(t, 200, nil, `{"finished":true,"out":[{"x":1}]}`)
	e = s.executor(s.polled, func(c *http.Config) {
		c.Fields = http.Fields{State: "/finished", Result: "/out/0/x"}
		c.States = http.States{Running: []string{"false"}, Succeeded: []string{"true"}}
	})
	if obs := observe(t, e, handle("7")); obs.State != tool.StateSucceeded || string(obs.Result.Inline) != "1" {
		t.Errorf("observation = %s", dump(obs))
	}
}

func TestLargeResultInAJob(t *testing.T) {
	t.Parallel()
	result := `["` + strings.Repeat("x", 100<<10) + `",  1]`
	s := answers(t, 200, nil, `{"state":"done","result":`+result+`}`)
	e := s.executor(s.polled)
	for _, h := range []tool.Handle{
		handle("7"),
		// As Find and List give it: the key says whose the result is.
		{Executor: http.Kind, ID: "7", Data: json.RawMessage(`{"submissionKey":"acme/task_1/1","jobId":"7"}`)},
	} {
		obs := observe(t, e, h)
		if obs.Result == nil || obs.Result.Inline != nil || obs.Result.ContentType != "application/json" {
			t.Fatalf("observation = %.300s", dump(obs))
		}
		got, err := s.store.Get(t.Context(), obs.Result.Ref, obs.Result.Hash)
		if err != nil || string(got) != result || obs.Result.Bytes != int64(len(result)) {
			t.Errorf("stored %d bytes, %v, want %d", len(got), err, len(result))
		}
		if !strings.HasPrefix(obs.Result.Ref, "blob:acme/task/task_1/") {
			t.Errorf("ref = %s", obs.Result.Ref)
		}
	}
	nobody := tool.Handle{Executor: http.Kind, ID: "7", Data: json.RawMessage(`{"submissionKey":"k","jobId":"7"}`)}
	if _, err := e.Observe(t.Context(), nobody); err == nil || !strings.Contains(err.Error(), "whose result") {
		t.Errorf("observe: %v", err)
	}
	small := s.executor(s.polled, func(c *http.Config) { c.MaxResultBytes = 1000 })
	if obs := observe(t, small, handle("7")); obs.State != tool.StateFailed || obs.Error.Code != http.CodeResultTooLarge || obs.Result != nil {
		t.Errorf("observation = %s", dump(obs))
	}
}

func TestResultBesideItsJob(t *testing.T) {
	t.Parallel()
	foreign := answers(t, 200, nil, "1")
	for name, tc := range map[string]struct {
		url         string
		status      int
		contentType string
		body        string
		state       tool.State
		want        string // the result, or the code of the failure, or what the error says
	}{
		"JSON":             {"7/result", 200, "application/json", `{"a":1}`, tool.StateSucceeded, `{"a":1}`},
		"text":             {"/jobs/7/result", 200, "text/plain", "hello", tool.StateSucceeded, "hello"},
		"large":            {"/jobs/7/result", 200, "video/mp4", strings.Repeat("\x00", 1<<20), tool.StateSucceeded, strings.Repeat("\x00", 1<<20)},
		"absolute":         {"{own}/jobs/7/result", 200, "application/json", "[]", tool.StateSucceeded, "[]"},
		"empty":            {"/jobs/7/result", 204, "", "", tool.StateSucceeded, "null"},
		"gone":             {"/jobs/7/result", 410, "", "", tool.StateFailed, http.CodeResultGone},
		"too large":        {"/jobs/7/result", 200, "video/mp4", strings.Repeat("\x00", 2<<20), tool.StateFailed, http.CodeResultTooLarge},
		"on another host":  {foreign.URL + "/r", 200, "", "", tool.StateFailed, http.CodeResultUnusable},
		"a local file":     {"file:///etc/passwd", 200, "", "", tool.StateFailed, http.CodeResultUnusable},
		"not there yet":    {"/jobs/7/result", 404, "", "", "", "404 Not Found"},
		"broken":           {"/jobs/7/result", 500, "", "", "", "500 Internal Server Error"},
		"JSON that is not": {"/jobs/7/result", 200, "application/json", "{", "", "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *service
			s = serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
				if !strings.HasSuffix(r.URL.Path, "/result") {
					reply(w, 200, nil, `{"state":"done","result":null,"resultURL":`+dump(strings.ReplaceAll(tc.url, "{own}", s.URL))+`}`)
					return
				}
				reply(w, tc.status, map[string]string{"Content-Type": tc.contentType}, tc.body)
			})
			e := s.executor(s.polled, func(c *http.Config) { c.MaxResultBytes = 1 << 20 })
			obs, err := e.Observe(t.Context(), handle("7"))
			switch {
			case tc.state == "":
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("observe: %v, want %q", err, tc.want)
				}
			case err != nil || obs.State != tc.state || !obs.Definite:
				t.Errorf("observation = %.300s, %v", dump(obs), err)
			case obs.State == tool.StateFailed:
				if obs.Error.Code != tc.want || obs.Result != nil {
					t.Errorf("observation = %s", dump(obs))
				}
			default:
				got := []byte(obs.Result.Inline)
				if obs.Result.Ref != "" {
					if got, err = s.store.Get(t.Context(), obs.Result.Ref, obs.Result.Hash); err != nil {
						t.Fatal(err)
					}
				}
				if string(got) != tc.want {
					t.Errorf("result = %.80q, want %.80q", got, tc.want)
				}
			}
		})
	}
	if got := foreign.requests(); len(got) != 0 {
		t.Errorf("the other service was asked: %s", dump(got))
	}
}

// Half a result is an error, and no result.
func TestResultThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if !strings.HasSuffix(r.URL.Path, "/result") {
			reply(w, 200, nil, `{"state":"done","resultURL":"/result"}`)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(200<<10))
		_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
	})
	if obs, err := s.executor(s.polled).Observe(t.Context(), handle("7")); err == nil {
		t.Errorf("observation = %s", dump(obs))
	}
}

func TestForeignHandles(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, `{"state":"running"}`)
	e := s.executor(s.polled)
	for name, h := range map[string]tool.Handle{
		"of another executor": {Executor: "exec", ID: "7", Data: json.RawMessage(`{"submissionKey":"k"}`)},
		"without data":        {Executor: http.Kind, ID: "7"},
		"with other data":     {Executor: http.Kind, ID: "7", Data: json.RawMessage(`[]`)},
		"without a key":       {Executor: http.Kind, ID: "7", Data: json.RawMessage(`{}`)},
	} {
		if _, err := e.Observe(t.Context(), h); !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("%s: observe: %v", name, err)
		}
		if err := e.Cancel(t.Context(), h); !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("%s: cancel: %v", name, err)
		}
	}
	dots := handle("..")
	if _, err := e.Observe(t.Context(), dots); err == nil {
		t.Error("an id of dots was put into a URL")
	}
	if err := e.Cancel(t.Context(), dots); err == nil {
		t.Error("an id of dots was put into a URL")
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("requests = %s", dump(got))
	}
}

// Only the callback tells how such a job ends.
func TestJobThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	s := answers(t, 202, nil, "")
	e := s.executor(func(c *http.Config) { c.Callback = true })
	h := submit(t, e)
	obs := observe(t, e, h)
	if obs.State != tool.StateUnknown || obs.Definite || obs.Error.Code != http.CodeNotObservable {
		t.Errorf("observation = %s", dump(obs))
	}
	if err := e.Cancel(t.Context(), h); err == nil {
		t.Error("a job without a place was cancelled")
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
