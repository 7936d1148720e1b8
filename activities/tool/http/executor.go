package http

import (
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/store"
)

// The codes of the failures of this executor. A service may give codes of its own.
const (
	CodeInvalidRequest = "INVALID_REQUEST"   // the request itself breaks a rule
	CodeTimeout        = "TIMEOUT"           // the deadline had passed before the start
	CodeInvalidInput   = "INVALID_INPUT"     // the service refused the input
	CodeUnauthorized   = "UNAUTHORIZED"      // the service refused the credentials
	CodeMisdeclared    = "MISDECLARED"       // what is declared does not fit the service
	CodeRefused        = "REFUSED"           // the service refused for another reason
	CodeJobFailed      = "JOB_FAILED"        // the job failed and gave no code
	CodeResultTooLarge = "RESULT_TOO_LARGE"  // the result is larger than allowed
	CodeResultUnusable = "RESULT_UNREADABLE" // the result lies where it is not fetched from
	CodeResultGone     = "RESULT_GONE"       // the job succeeded and its result is there no more
	CodeUnknownJob     = "UNKNOWN_JOB"       // the service does not know the job
	CodeForgotten      = "FORGOTTEN"         // the service says that the job is gone
	CodeUnknownState   = "UNKNOWN_STATE"     // the job's state is none of the declared words
	CodeNotObservable  = "NOT_OBSERVABLE"    // there is no place to look at the job
)

// Executor uses one declared service. It keeps nothing in memory: any number of processes may use
// the same service at once. It implements [tool.Executor], [tool.Promiser] and [tool.Lister].
type Executor struct {
	cfg     Config
	urls    urls
	reader  *reader
	secrets *strings.Replacer
	// submit makes the POSTs, each on a connection of its own: on a used one that breaks nobody
	// knows whether the service read the request or had closed before. look makes the rest.
	submit, look *nethttp.Client
}

var (
	_ tool.Executor = (*Executor)(nil)
	_ tool.Promiser = (*Executor)(nil)
	_ tool.Lister   = (*Executor)(nil)
)

// New checks the declaration of a tool, so that a wrong one stops the worker at its start. It does
// not ask the service.
func New(cfg Config) (*Executor, error) {
	cfg = cfg.withDefaults()
	fail := func(err error) (*Executor, error) { return nil, fmt.Errorf("http tool %q: %w", cfg.Name, err) }
	if err := cfg.validate(); err != nil {
		return fail(err)
	}
	u, err := cfg.parseURLs()
	if err != nil {
		return fail(err)
	}
	r, err := newReader(cfg.Fields, cfg.States)
	if err != nil {
		return fail(err)
	}
	e := &Executor{cfg: cfg, urls: u, reader: r, secrets: newRedactor(cfg.Headers)}
	r.redact = e.redact
	if cfg.Client != nil {
		e.submit = withoutRedirects(cfg.Client)
		e.look = e.submit
	} else {
		e.submit, e.look = withoutRedirects(newClient(false)), withoutRedirects(newClient(true))
	}
	return e, nil
}

// Promises follow from the declaration: they are what the operator says of the service, and as good
// as that. Without StatusURL the answer to the POST has to name a Location.
func (e *Executor) Promises() tool.Promises {
	c := e.cfg
	p := tool.Promises{
		Observe: c.StatusURL != "" || c.FindURL != "" || !c.Callback,
		List:    c.ListURL != "", Survives: true,
		Remembers: "as long as the service keeps a job",
	}
	if c.Idempotent {
		p.SubmitOnce = tool.ScopeAlways
	}
	switch {
	case c.FindSure:
		p.Find = tool.FindSure
	case c.FindURL != "":
		p.Find = tool.FindHint
	}
	if !c.NoCancel && (c.CancelURL != "" || p.Observe) {
		p.Cancel = tool.CancelAsked
	}
	return p
}

// handleData is Handle.Data.
type handleData struct {
	SubmissionKey string `json:"submissionKey"`
	// Tenant and TaskID say whose a result is that has to be stored.
	Tenant string `json:"tenant,omitempty"`
	TaskID string `json:"taskId,omitempty"`
	// JobID is the service's name for the job, empty when it gave none.
	JobID string `json:"jobId,omitempty"`
	// URL is where the service said that the job is.
	URL string `json:"url,omitempty"`
	// Outcome is set for a job that was done at once; there is nothing to look at.
	Outcome *outcome `json:"outcome,omitempty"`
}

// outcome is how a job ended that was done at once.
type outcome struct {
	Result  *tool.Result  `json:"result,omitempty"`
	Failure *tool.Failure `json:"failure,omitempty"`
	AtMs    int64         `json:"atMs"`
}

func (d handleData) handle() (tool.Handle, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return tool.Handle{}, err
	}
	id := d.JobID
	if id == "" {
		id = d.SubmissionKey
	}
	return tool.Handle{Executor: Kind, ID: id, Data: data}, nil
}

// owner says whose result it is. A key of Wakepoint's is <tenant>/<task>/<number>.
func (d handleData) owner() (store.Key, error) {
	if d.Tenant != "" && d.TaskID != "" {
		return store.Key{Tenant: d.Tenant, TaskID: d.TaskID}, nil
	}
	parts := strings.Split(d.SubmissionKey, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return store.Key{}, fmt.Errorf("submissionKey %q does not say whose result it is; it must be <tenant>/<task>/<number>", d.SubmissionKey)
	}
	return store.Key{Tenant: parts[0], TaskID: parts[1]}, nil
}

// resolve reads a handle.
func (e *Executor) resolve(h tool.Handle) (handleData, error) {
	if h.Executor != Kind {
		return handleData{}, fmt.Errorf("%w: executor %q is not %q", tool.ErrUnknownHandle, h.Executor, Kind)
	}
	var d handleData
	if err := json.Unmarshal(h.Data, &d); err != nil {
		return handleData{}, fmt.Errorf("%w: data: %w", tool.ErrUnknownHandle, err)
	}
	if d.SubmissionKey == "" {
		return handleData{}, fmt.Errorf("%w: data: submissionKey is missing", tool.ErrUnknownHandle)
	}
	return d, nil
}

// place is where a job is looked at; nil is nowhere. byKey says that it is FindURL, which may answer
// with a list and which is no place to DELETE.
func (e *Executor) place(d handleData) (u *url.URL, byKey bool, err error) {
	switch {
	case e.urls.status != "" && d.JobID != "":
		if err := checkID(d.JobID); err != nil {
			return nil, false, err
		}
		u, err = fill(e.urls.status, placeID, d.JobID)
	case d.URL != "":
		// Checked again: the declaration may have changed since.
		if u, err = resolve(e.urls.submit, d.URL, e.urls.origins); err != nil {
			err = fmt.Errorf("the job's URL %w", err)
		}
	case e.urls.find != "":
		byKey = true
		u, err = fill(e.urls.find, placeKey, d.SubmissionKey)
	}
	return u, byKey, err
}

// given reads where the service says that a job is, from the headers of an answer about it.
func (e *Executor) given(a *answer, base *url.URL, names ...string) (string, error) {
	for _, name := range names {
		if value := strings.Trim(a.Header.Get(name), " \t"); value != "" {
			u, err := resolve(base, value, e.urls.origins)
			if err != nil {
				return "", fmt.Errorf("the %s %w", name, err)
			}
			return u.String(), nil
		}
	}
	return "", nil
}

func failure(code, message, class string, retryable bool) *tool.Failure {
	return &tool.Failure{Code: code, Message: message, Severity: tool.SeverityError, Class: class, Retryable: retryable}
}
