package http

import (
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/store"
)

// Kind is the executor kind in the handles of this package.
const Kind = "http"

// Config declares one tool and the service behind it. The zero value of a field is its default.
type Config struct {
	// Name is the declared name of the tool, for errors. Required.
	Name string

	// URL takes the POST: https, or http to this host itself, or http with AllowHTTP. Required.
	URL string

	// AllowHTTP allows URLs of scheme http to other hosts.
	// Default: false.
	AllowHTTP bool

	// Headers are sent with every request, in this order. Their values are taken for secrets: no
	// error repeats them, and they are sent to no origin but those of the URLs declared here.
	// Default: none.
	Headers []Header

	// KeyHeader carries the submission key of a POST.
	// Default: Idempotency-Key.
	KeyHeader string

	// Idempotent says that the service acts once for a key, however often it is sent.
	// Default: false.
	Idempotent bool

	// Timeout bounds one request, from the connection to the end of the answer.
	// Default: 30 s.
	Timeout time.Duration

	// FindURL finds a job by its key, with {key} for the key in URL encoding.
	// Default: none, a job is never found.
	FindURL string

	// FindSure says that a no of FindURL is certain: no request that was sent before can still
	// start a job.
	// Default: false.
	FindSure bool

	// StatusURL is where a job is looked at, with {id} for the job's id in URL encoding.
	// Default: the Location of the answer to the POST, else FindURL.
	StatusURL string

	// CancelURL asks a job to end, with {id} for its id in URL encoding.
	// Default: where the job is looked at, unless that is FindURL.
	CancelURL string

	// CancelMethod is DELETE, POST, PUT or PATCH.
	// Default: DELETE.
	CancelMethod string

	// NoCancel says that the service cannot cancel: Cancel does nothing, and says so in
	// [Executor.Promises].
	// Default: false.
	NoCancel bool

	// ListURL lists the jobs of the service.
	// Default: none, it cannot list.
	ListURL string

	// Callback says that the service sends a callback at the end, so that a job which cannot be
	// looked at is no mistake.
	// Default: false.
	Callback bool

	// CallbackInfo is sent with a POST in the header Wakepoint-Callback, as the place that takes
	// the callbacks; {tenant} and {task} in it stand for the task in URL encoding.
	// Default: none.
	CallbackInfo string

	// Fields say where in a job's JSON its parts are.
	Fields Fields

	// States say which words of the service mean which state.
	States States

	// MaxResultBytes is how large a result may be, in bytes. A larger one fails the job.
	// Default: 64 MiB.
	MaxResultBytes int64

	// Store takes the results above 64 KiB and those that are not JSON. Required.
	Store *store.Store

	// Client makes the requests; its redirects are turned off. It must not repeat a request by
	// itself, and its proxy is its owner's choice.
	// Default: one without a proxy, with a connection of its own for each POST.
	Client *nethttp.Client
}

// Header is a header of every request.
type Header struct {
	Name  string
	Value string
}

// Fields are JSON pointers (RFC 6901) into a job's JSON. An empty one takes the default.
type Fields struct {
	// ID is the job's id, a string or a number. Default: /id.
	ID string
	// State is the word for the job's state, a string, a number or a boolean. Default: /state.
	State string
	// Progress is a number from 0 to 100. Default: /progress.
	Progress string
	// Stage is what the job is doing, a string. Default: /stage.
	Stage string
	// Result is the result of a job that succeeded, any JSON. Default: /result.
	Result string
	// ResultURL is where the result is when it is not in the job. Default: /resultURL.
	ResultURL string
	// Error says why a job failed, a string or an object. Default: /error.
	Error string
	// StartedAt and EndedAt are times, as milliseconds since the epoch or RFC 3339.
	// Defaults: /startedAt and /endedAt.
	StartedAt, EndedAt string
	// Key is the submission key of a job in a list. Default: /key.
	Key string
	// Jobs are the jobs in a list, Next the URL of the next page. A list may also be an array
	// itself. Defaults: /jobs and /next.
	Jobs, Next string
}

// States are the words of a service. Case and spaces around a word do not matter. An empty list
// takes the default; a word must not have two meanings.
type States struct {
	// Default: running, queued, pending, in_progress.
	Running []string
	// Default: succeeded, success, completed, done.
	Succeeded []string
	// Default: failed, error.
	Failed []string
	// Default: cancelled, canceled.
	Cancelled []string
}

// The headers that are ours to set.
const (
	defaultKeyHeader = "Idempotency-Key"
	headerPrefix     = "Wakepoint-"
	headerTask       = "Wakepoint-Task"
	headerTenant     = "Wakepoint-Tenant"
	headerAttempt    = "Wakepoint-Attempt"
	headerDeadline   = "Wakepoint-Deadline"
	headerCallback   = "Wakepoint-Callback"
)

// reservedHeaders belong to the connection or to the body that is sent (RFC 9110, section 7 and 8).
var reservedHeaders = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func orDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.KeyHeader, defaultKeyHeader)
	if !c.NoCancel {
		orDefault(&c.CancelMethod, nethttp.MethodDelete)
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxResultBytes == 0 {
		c.MaxResultBytes = 64 << 20
	}
	c.Headers = slices.Clone(c.Headers)
	for _, f := range c.Fields.all() {
		orDefault(f.value, f.byDefault)
	}
	words := func(list *[]string, byDefault ...string) {
		if len(*list) == 0 {
			*list = byDefault
		}
	}
	words(&c.States.Running, "running", "queued", "pending", "in_progress")
	words(&c.States.Succeeded, "succeeded", "success", "completed", "done")
	words(&c.States.Failed, "failed", "error")
	words(&c.States.Cancelled, "cancelled", "canceled")
	return c
}

// field is a pointer of [Fields] with its name and its default.
type field struct {
	name      string
	value     *string
	byDefault string
}

func (f *Fields) all() []field {
	return []field{
		{"id", &f.ID, "/id"},
		{"state", &f.State, "/state"},
		{"progress", &f.Progress, "/progress"},
		{"stage", &f.Stage, "/stage"},
		{"result", &f.Result, "/result"},
		{"resultURL", &f.ResultURL, "/resultURL"},
		{"error", &f.Error, "/error"},
		{"startedAt", &f.StartedAt, "/startedAt"},
		{"endedAt", &f.EndedAt, "/endedAt"},
		{"key", &f.Key, "/key"},
		{"jobs", &f.Jobs, "/jobs"},
		{"next", &f.Next, "/next"},
	}
}

// validate names the field and the rule, and quotes neither a URL nor the value of a header.
func (c Config) validate() error {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return errors.New("name must not be blank")
	case c.Timeout < 0:
		return fmt.Errorf("timeout %v must not be negative", c.Timeout)
	case c.MaxResultBytes < 0:
		return fmt.Errorf("maxResultBytes %d must not be negative", c.MaxResultBytes)
	case c.Store == nil:
		return errors.New("store must be set")
	case c.FindSure && c.FindURL == "":
		return errors.New("findSure needs findURL: it says what the answer of that is worth")
	case c.NoCancel && c.CancelURL != "":
		return errors.New("noCancel contradicts cancelURL")
	case c.NoCancel && c.CancelMethod != "":
		return errors.New("noCancel contradicts cancelMethod")
	case !c.NoCancel && !slices.Contains([]string{nethttp.MethodDelete, nethttp.MethodPost, nethttp.MethodPut, nethttp.MethodPatch}, c.CancelMethod):
		return fmt.Errorf("cancelMethod %q must be DELETE, POST, PUT or PATCH", c.CancelMethod)
	case len(c.CallbackInfo) > maxURL || !isHeaderValue(c.CallbackInfo):
		return fmt.Errorf("callbackInfo must have at most %d bytes and no control characters", maxURL)
	}
	return c.validateHeaders()
}

func (c Config) validateHeaders() error {
	if !isToken(c.KeyHeader) || ownHeader(c.KeyHeader) || strings.EqualFold(c.KeyHeader, "Authorization") {
		return fmt.Errorf("keyHeader %q must be the name of a header that can carry the key", c.KeyHeader)
	}
	for i, h := range c.Headers {
		switch {
		case !isToken(h.Name):
			return fmt.Errorf("headers[%d] must have the name of a header (RFC 9110, section 5.6.2)", i)
		case ownHeader(h.Name) || strings.EqualFold(h.Name, c.KeyHeader):
			return fmt.Errorf("headers[%d] %s is set by the executor", i, h.Name)
		case !isHeaderValue(h.Value):
			return fmt.Errorf("headers[%d] %s must have a value without control characters", i, h.Name)
		}
	}
	return nil
}

func ownHeader(name string) bool {
	return len(name) >= len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix) ||
		slices.ContainsFunc(reservedHeaders, func(s string) bool { return strings.EqualFold(s, name) })
}

// isToken follows RFC 9110, section 5.6.2.
func isToken(s string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for i := range len(s) {
		c := s[i]
		if !isAlphanumeric(c) && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isHeaderValue follows RFC 9110, section 5.5.
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// urls are the declared URLs, taken apart.
type urls struct {
	submit                     *url.URL
	find, status, cancel, list string
	origins                    []string
}

// parseURLs checks every URL of the declaration.
func (c Config) parseURLs() (urls, error) {
	u := urls{find: c.FindURL, status: c.StatusURL, cancel: c.CancelURL, list: c.ListURL}
	for _, d := range []struct{ field, raw, placeholder string }{
		{"url", c.URL, ""},
		{"findURL", c.FindURL, placeKey},
		{"statusURL", c.StatusURL, placeID},
		{"cancelURL", c.CancelURL, placeID},
		{"listURL", c.ListURL, ""},
	} {
		if d.raw == "" && d.field != "url" {
			continue
		}
		parsed, err := parseDeclared(d.raw, d.placeholder, c.AllowHTTP)
		if err != nil {
			return urls{}, fmt.Errorf("%s %w", d.field, err)
		}
		if d.field == "url" {
			u.submit = parsed
		}
		if o := originOf(parsed); !slices.Contains(u.origins, o) {
			u.origins = append(u.origins, o)
		}
	}
	return u, nil
}
