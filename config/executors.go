package config

import (
	"slices"
	"time"
)

// The kinds of executors that Wakepoint brings beside [ExecutorExec] and
// [ExecutorExternal].
const (
	ExecutorHTTP     = "http"
	ExecutorActivity = "activity"
	ExecutorWorkflow = "workflow"
	ExecutorGo       = "go"
)

// HTTPTool is a service that is asked over HTTP: POST with the submission key, then
// 200 with the result, or 202 with the Location of a job that is looked at by GET.
type HTTPTool struct {
	// URL takes the POST. Required; https, or http with AllowHTTP.
	URL string
	// AllowHTTP allows URLs of scheme http. Default: false.
	AllowHTTP bool
	// Headers are sent with every request, in the order of the file.
	Headers []Header
	// KeyHeader carries the submission key. Default: Idempotency-Key.
	KeyHeader string
	// Idempotent says that the service acts once for a key, however often it is
	// sent. Default: false.
	Idempotent bool
	// Timeout bounds one request. Default: 30s.
	Timeout time.Duration
	// FindURL finds a job by its key, with {key} for the key in URL encoding: 200
	// with the job, or 404. Default: empty, a job is never found.
	FindURL string
	// FindSure says that a 404 of FindURL is certain: no request that was sent
	// before can still start a job. Default: false.
	FindSure bool
	// StatusURL is where a job is looked at, with {id} for the job's id. Default:
	// empty, the Location of the 202, else FindURL.
	StatusURL string
	// CancelURL and CancelMethod ask a job to end, with {id} for its id. Default:
	// DELETE of where the job is looked at, unless that is FindURL.
	CancelURL    string
	CancelMethod string
	// NoCancel says that the service cannot cancel. Default: false.
	NoCancel bool
	// ListURL lists the jobs of the service. Default: empty, it cannot list.
	ListURL string
	// Callback says that the service sends a callback at the end: looking is only a
	// safety net, and an end that was found by looking counts as a lost callback.
	// Default: false.
	Callback bool
	// Fields say where in a job's JSON its parts are, as JSON pointers (RFC 6901).
	Fields HTTPFields
	// States say which words of the service mean which state.
	States HTTPStates
	// MaxResultBytes bounds the result. Default: 0, the executor's.
	MaxResultBytes int64
}

// Header is a header of a request: a value, or a secret that is read when the worker
// starts.
type Header struct {
	Name   string
	Value  string
	Secret SecretRef
	// Prefix stands before the secret, such as "Bearer ".
	Prefix string
}

// HTTPFields are JSON pointers into a job's JSON. An empty one takes the default.
type HTTPFields struct {
	// Default: /id.
	ID string
	// Default: /state.
	State string
	// Default: /progress.
	Progress string
	// Default: /stage.
	Stage string
	// Default: /result.
	Result string
	// ResultURL is where the result is when it is not in the job. Default: /resultURL.
	ResultURL string
	// Default: /error.
	Error string
	// StartedAt and EndedAt are times, in milliseconds since the epoch or by RFC 3339.
	// Defaults: /startedAt and /endedAt.
	StartedAt string
	EndedAt   string
	// Key is the submission key in a list. Default: /key.
	Key string
	// Jobs are the jobs in a list, Next the URL of the next page. Defaults: /jobs
	// and /next.
	Jobs string
	Next string
}

// HTTPStates are the words of a service. Words are compared without regard to
// case. An empty list takes the default.
type HTTPStates struct {
	// Default: running, queued, pending, in_progress.
	Running []string
	// Default: succeeded, success, completed, done.
	Succeeded []string
	// Default: failed, error.
	Failed []string
	// Default: cancelled, canceled.
	Cancelled []string
}

// ActivityTool is an activity that exists on somebody's Temporal worker.
type ActivityTool struct {
	// Type is the activity's type. Required.
	Type string
	// TaskQueue is where it runs. Required.
	TaskQueue string
	// StartToClose bounds one run of it. Default: 0, until the task's deadline.
	StartToClose time.Duration
	// Heartbeat is its heartbeat time-out. Default: 0, it need not heartbeat.
	Heartbeat time.Duration
	// Args says how the input is passed: [ArgsOne] or [ArgsSpread]. Default: one.
	Args string
}

// WorkflowTool is a workflow that exists on somebody's Temporal worker.
type WorkflowTool struct {
	// Type is the workflow's type. Required.
	Type string
	// TaskQueue is where it runs. Required.
	TaskQueue string
	// ProgressQuery is a query that gives {progress, stage}. Default: empty, none.
	ProgressQuery string
	// Args says how the input is passed: [ArgsOne] or [ArgsSpread]. Default: one.
	Args string
}

// How an input becomes arguments.
const (
	// ArgsOne passes the input as the one argument.
	ArgsOne = "one"
	// ArgsSpread passes the elements of an input that is an array.
	ArgsSpread = "spread"
)

// GoTool is a function that a program with our worker in it registers.
type GoTool struct {
	// Function is its name. Required.
	Function string
	// Heartbeat is how long its worker may be silent before it is lost. The worker
	// heartbeats for it. Default: 30s.
	Heartbeat time.Duration
}

// Rate is how many jobs may be submitted in a time.
type Rate struct {
	// Limit is how many, Per the time. Zero values mean no limit.
	Limit float64
	Per   time.Duration
}

// PerSecond is the rate for a second; 0 is no limit.
func (r Rate) PerSecond() float64 {
	if r.Limit == 0 || r.Per == 0 {
		return 0
	}
	return r.Limit / r.Per.Seconds()
}

// Cache says that equal calls of a tool share a task.
type Cache struct {
	// TTL is how long a result serves equal calls: at most so long, at least none.
	// Required, at most the tool's ResultTTL.
	TTL time.Duration
}

// The defaults of the sections, and the limit of a request: the engine gives a minute
// to one try to submit.
const (
	DefaultKeyHeader    = "Idempotency-Key"
	DefaultCancelMethod = "DELETE"
	DefaultHTTPTimeout  = 30 * time.Second
	MaxHTTPTimeout      = 50 * time.Second
	DefaultGoHeartbeat  = 30 * time.Second
)

// sectionOf is the section of an executor, and whether a tool has it.
type sectionOf struct {
	executor string
	given    bool
}

func (t *Tool) sections() []sectionOf {
	return []sectionOf{
		{ExecutorExec, t.Exec != nil},
		{ExecutorHTTP, t.HTTP != nil},
		{ExecutorActivity, t.Activity != nil},
		{ExecutorWorkflow, t.Workflow != nil},
		{ExecutorGo, t.Go != nil},
	}
}

func (h *HTTPTool) withDefaults(c *Config) {
	def(&h.KeyHeader, DefaultKeyHeader)
	def(&h.Timeout, DefaultHTTPTimeout)
	if !h.NoCancel {
		def(&h.CancelMethod, DefaultCancelMethod)
	}
	h.Headers = slices.Clone(h.Headers)
	for i := range h.Headers {
		if file := &h.Headers[i].Secret.File; *file != "" {
			*file = c.path(*file)
		}
	}
	for _, f := range h.Fields.all() {
		def(f.value, f.byDefault)
	}
	for _, s := range h.States.all() {
		if len(*s.words) == 0 {
			*s.words = s.byDefault
		}
	}
}

// httpField is a pointer of [HTTPFields] with its key and its default.
type httpField struct {
	name      string
	value     *string
	byDefault string
}

func (f *HTTPFields) all() []httpField {
	return []httpField{
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

// httpState is a list of [HTTPStates] with its key and its default.
type httpState struct {
	name      string
	words     *[]string
	byDefault []string
}

func (s *HTTPStates) all() []httpState {
	return []httpState{
		{"running", &s.Running, []string{"running", "queued", "pending", "in_progress"}},
		{"succeeded", &s.Succeeded, []string{"succeeded", "success", "completed", "done"}},
		{"failed", &s.Failed, []string{"failed", "error"}},
		{"cancelled", &s.Cancelled, []string{"cancelled", "canceled"}},
	}
}
