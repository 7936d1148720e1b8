package http_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
)

func TestWrongDeclarations(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "")
	for name, tc := range map[string]struct {
		change func(*http.Config)
		want   string
	}{
		"no name":               {func(c *http.Config) { c.Name = " " }, "name must not be blank"},
		"no url":                {func(c *http.Config) { c.URL = "" }, "url must be given"},
		"no web":                {func(c *http.Config) { c.URL = "ftp://x.example.com" }, "url must be an https:// URL with a host"},
		"no host":               {func(c *http.Config) { c.URL = "https:///x" }, "url must be an https:// URL with a host"},
		"no URL":                {func(c *http.Config) { c.URL = "https://[" + secret }, "url must be a URL"},
		"plain":                 {func(c *http.Config) { c.URL = "http://x.example.com" }, "url must be https"},
		"a user":                {func(c *http.Config) { c.URL = "https://u:" + secret + "@x.example.com" }, "url must not hold a user"},
		"a fragment":            {func(c *http.Config) { c.URL = "https://x.example.com/#" + secret }, "url must not have a fragment"},
		"a placeholder":         {func(c *http.Config) { c.URL = "https://x.example.com/{id}" }, "url must have no placeholder but none"},
		"find without a key":    {func(c *http.Config) { c.FindURL = "https://x.example.com/" }, "findURL must hold {key}"},
		"find by an id":         {func(c *http.Config) { c.FindURL = "https://x.example.com/{key}/{id}" }, "findURL must have no placeholder but {key}"},
		"status without an id":  {func(c *http.Config) { c.StatusURL = "https://x.example.com/" }, "statusURL must hold {id}"},
		"a host from outside":   {func(c *http.Config) { c.StatusURL = "https://{id}.example.com/" }, "statusURL must not have {id} in its host"},
		"a host by a query":     {func(c *http.Config) { c.StatusURL = "https://{id}?x" }, "statusURL must not have {id} in its host"},
		"cancel without an id":  {func(c *http.Config) { c.CancelURL = "https://x.example.com/" }, "cancelURL must hold {id}"},
		"a list by a key":       {func(c *http.Config) { c.ListURL = "https://x.example.com/{key}" }, "listURL must have no placeholder"},
		"sure of nothing":       {func(c *http.Config) { c.FindSure = true }, "findSure needs findURL"},
		"cancel and not":        {func(c *http.Config) { c.NoCancel, c.CancelURL = true, "https://x.example.com/{id}" }, "noCancel contradicts cancelURL"},
		"cancel method and not": {func(c *http.Config) { c.NoCancel, c.CancelMethod = true, "POST" }, "noCancel contradicts cancelMethod"},
		"cancel by GET":         {func(c *http.Config) { c.CancelMethod = "GET" }, `cancelMethod "GET" must be`},
		"negative time":         {func(c *http.Config) { c.Timeout = -1 }, "timeout -1ns must not be negative"},
		"negative size":         {func(c *http.Config) { c.MaxResultBytes = -1 }, "maxResultBytes -1 must not be negative"},
		"no store":              {func(c *http.Config) { c.Store = nil }, "store must be set"},
		"key header":            {func(c *http.Config) { c.KeyHeader = "a b" }, `keyHeader "a b" must be`},
		"key in Host":           {func(c *http.Config) { c.KeyHeader = "host" }, `keyHeader "host" must be`},
		"header without a name": {func(c *http.Config) { c.Headers = []http.Header{{Value: secret}} }, "headers[0] must have the name of a header"},
		"header of ours":        {func(c *http.Config) { c.Headers = []http.Header{{Name: "wakepoint-task", Value: secret}} }, "headers[0] wakepoint-task is set by the executor"},
		"header of the wire":    {func(c *http.Config) { c.Headers = []http.Header{{Name: "content-length", Value: secret}} }, "headers[0] content-length is set"},
		"header of the key":     {func(c *http.Config) { c.Headers = []http.Header{{Name: "idempotency-key", Value: secret}} }, "headers[0] idempotency-key is set"},
		"header of two lines":   {func(c *http.Config) { c.Headers = []http.Header{{Name: "X-A", Value: secret + "\r\nX-B: 1"}} }, "headers[0] X-A must have a value without control characters"},
		"callback of two lines": {func(c *http.Config) { c.CallbackInfo = "a\nb" }, "callbackInfo must"},
		"no pointer":            {func(c *http.Config) { c.Fields.Progress = "progress" }, `fields.progress "progress" must be a JSON pointer`},
		"a broken pointer":      {func(c *http.Config) { c.Fields.Next = "/a~2" }, `fields.next "/a~2" must have ~0`},
		"a blank word":          {func(c *http.Config) { c.States.Failed = []string{" "} }, "states.failed must not have a blank word"},
		"a word of two minds":   {func(c *http.Config) { c.States.Failed = []string{"Done"} }, `states.failed has the word "Done", which means succeeded already`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := s.config()
			tc.change(&cfg)
			_, err := http.New(cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("new: %v, want %q", err, tc.want)
			} else {
				noSecret(t, s, err)
			}
		})
	}
}

func TestRightDeclarations(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "")
	for name, change := range map[string]func(*http.Config){
		"https":                   func(c *http.Config) { c.URL = "https://x.example.com" },
		"http, allowed":           func(c *http.Config) { c.URL, c.AllowHTTP = "http://x.example.com", true },
		"http to this host":       func(c *http.Config) { c.URL = "http://localhost:1/" },
		"http to this host, IPv6": func(c *http.Config) { c.URL = "http://[::1]:1/" },
		"the method without URL":  func(c *http.Config) { c.CancelMethod = "POST" },
		"a word twice":            func(c *http.Config) { c.States.Failed = []string{"broken", "BROKEN"} },
	} {
		cfg := s.config()
		change(&cfg)
		if _, err := http.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// New keeps no slice of its caller's.
func TestNewCopies(t *testing.T) {
	t.Parallel()
	s := answers(t, 204, nil, "")
	cfg := s.config()
	e, err := http.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Headers[0].Value = "changed"
	submit(t, e)
	if got := s.requests()[0].Header.Get("Authorization"); got != "Bearer "+secret {
		t.Errorf("sent %q", got)
	}
}

func TestPromises(t *testing.T) {
	t.Parallel()
	s := answers(t, 200, nil, "")
	const remembers = "as long as the service keeps a job"
	for name, tc := range map[string]struct {
		change func(*http.Config)
		want   tool.Promises
	}{
		"as little as can be declared": {func(*http.Config) {}, tool.Promises{Observe: true, Cancel: tool.CancelAsked}},
		"idempotent":                   {func(c *http.Config) { c.Idempotent = true }, tool.Promises{SubmitOnce: tool.ScopeAlways, Observe: true, Cancel: tool.CancelAsked}},
		"finds":                        {func(c *http.Config) { c.FindURL = s.URL + "/{key}" }, tool.Promises{Find: tool.FindHint, Observe: true, Cancel: tool.CancelAsked}},
		"finds for sure":               {func(c *http.Config) { c.FindURL, c.FindSure = s.URL+"/{key}", true }, tool.Promises{Find: tool.FindSure, Observe: true, Cancel: tool.CancelAsked}},
		"cannot cancel":                {func(c *http.Config) { c.NoCancel = true }, tool.Promises{Observe: true}},
		"lists":                        {func(c *http.Config) { c.ListURL = s.URL }, tool.Promises{Observe: true, Cancel: tool.CancelAsked, List: true}},
		"calls back":                   {func(c *http.Config) { c.Callback = true }, tool.Promises{}},
		"calls back, can be asked":     {func(c *http.Config) { c.Callback, c.StatusURL = true, s.URL+"/{id}" }, tool.Promises{Observe: true, Cancel: tool.CancelAsked}},
		"calls back, can be cancelled": {func(c *http.Config) { c.Callback, c.CancelURL = true, s.URL+"/{id}" }, tool.Promises{Cancel: tool.CancelAsked}},
	} {
		tc.want.Survives, tc.want.Remembers = true, remembers
		if diff := cmp.Diff(tc.want, tool.PromisesOf(s.executor(tc.change))); diff != "" {
			t.Errorf("%s: promises differ:\n%s", name, diff)
		}
	}
}

func TestDefaultOfTheTime(t *testing.T) {
	t.Parallel()
	if got := http.Timeout(http.Config{}); got != 30*time.Second {
		t.Errorf("timeout = %v", got)
	}
}
