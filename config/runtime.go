package config

import (
	"encoding/json"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The defaults of a [Runtime] and of [Runs].
const (
	DefaultLease       = run.DefaultLeaseMs * time.Millisecond
	DefaultStepTimeout = 10 * time.Minute
	// DefaultPushTimeout is as long as the default lease: by then the runtime has to be
	// heard of anyhow.
	DefaultPushTimeout  = time.Minute
	DefaultRunTTL       = 7 * day
	DefaultStepAttempts = run.DefaultStepAttempts
	DefaultCancelGrace  = run.DefaultCancelGraceMs * time.Millisecond
	DefaultCheckEvery   = run.DefaultCheckEveryMs * time.Millisecond
	DefaultApprovalTTL  = run.DefaultApprovalMs * time.Millisecond
)

// What becomes of a call that needs another which did not succeed.
const (
	// OnFailedSkip skips it.
	OnFailedSkip = "skip"
	// OnFailedRun starts it all the same.
	OnFailedRun = "run"
)

// Runtime is a declared agent runtime: it takes the steps of runs. Exactly one of Pull,
// Push and Activity says how it gets them.
type Runtime struct {
	// Name is how callers name it: 1 to 64 of A-Z a-z 0-9 . _ -.
	Name string
	// Title is for people. Default: Name.
	Title string
	// Description says what the agent does, for people and for models.
	Description string
	// Version is the operator's mark of the agent's own version, free text of at most 64
	// bytes. Runs begin with it, and a runtime may take the steps of its version only.
	// Default: empty, any.
	Version string

	// Pull is a runtime that asks for its steps.
	Pull *PullRuntime
	// Push is a runtime that is sent them.
	Push *PushRuntime
	// Activity is a Temporal worker with the activity [protocol.ActivityAgentStep].
	Activity *ActivityRuntime

	// Lease is how long the runtime may be silent within a step. Default: 1m.
	Lease time.Duration
	// StepTimeout bounds one attempt of a step. A runtime that pulls has none: its
	// steps are bounded by their lease. Default: 10m.
	StepTimeout time.Duration
	// StepAttempts is how often a step is tried before the run fails, 1 to 1000.
	// Default: 10.
	StepAttempts int
	// Backoff is the wait between two of them.
	Backoff domain.Backoff

	// TTL, CancelGrace, CheckEvery, OnFailedDependency and Limits are as in [Runs].
	TTL                time.Duration
	CancelGrace        time.Duration
	CheckEvery         time.Duration
	OnFailedDependency string
	Limits             run.Limits
}

// PullRuntime is a runtime that asks for its steps. Nothing has to be said about it.
type PullRuntime struct{}

// PushRuntime is a runtime that is sent its steps over HTTP.
type PushRuntime struct {
	// URL takes the steps by POST: https, or http to this host itself.
	URL string
	// Secret signs them. Default: none, they are not signed.
	Secret SecretRef
	// AllowHTTP allows plain http to other hosts. Default: false.
	AllowHTTP bool
	// Timeout bounds one request, at most StepTimeout. Default: 1m.
	Timeout time.Duration
}

// ActivityRuntime is a runtime that is a Temporal worker.
type ActivityRuntime struct {
	// TaskQueue is where it works. Required.
	TaskQueue string
	// Heartbeats says that its activity heartbeats, so that silence for a lease means
	// that it is lost. Default: false, only StepTimeout bounds it.
	Heartbeats bool
}

// Runs is what holds for runs without a runtime: those that follow a plan.
type Runs struct {
	// TTL is the time to live of a run that asks for none. Default: 7 days, at most
	// the installation's MaxTTL.
	TTL time.Duration
	// CancelGrace is how long a run that ends waits for the true ends of its calls.
	// Default: 2m.
	CancelGrace time.Duration
	// CheckEvery is how often a waiting run asks for those that cannot tell it of their
	// end, at least 1s. Default: 1m.
	CheckEvery time.Duration
	// OnFailedDependency is [OnFailedSkip] or [OnFailedRun]. Default: skip.
	OnFailedDependency string
	// Limits are the most that a run may use; only those that begin with Max count.
	// Defaults: 1000 steps, 5000 calls, 50 open calls, any number of tokens, any cost.
	Limits run.Limits
}

// Runtime finds a runtime by its name.
func (c *Config) Runtime(name string) (Runtime, bool) {
	for _, r := range c.Runtimes {
		if r.Name == name {
			return r, true
		}
	}
	return Runtime{}, false
}

// RunDefaults is a run that follows a plan as far as the installation decides: without
// id, tenant and time.
func (c *Config) RunDefaults() run.Create {
	r := c.Runs
	return run.Create{TTLMs: r.TTL.Milliseconds(), Policy: r.terms().policy(), Limits: r.Limits}
}

// Mode is how the runtime gets its steps; empty for one that came not through [New] and
// does not say it.
func (r Runtime) Mode() protocol.RuntimeMode {
	switch {
	case r.Pull != nil:
		return protocol.ModePull
	case r.Push != nil:
		return protocol.ModePush
	case r.Activity != nil:
		return protocol.ModeActivity
	}
	return ""
}

// Binding is what a run keeps of its runtime.
func (r Runtime) Binding() protocol.RuntimeBinding {
	b := protocol.RuntimeBinding{Mode: r.Mode(), Name: r.Name, StepTimeoutMs: r.StepTimeout.Milliseconds()}
	if r.Activity != nil {
		b.TaskQueue, b.Heartbeats = r.Activity.TaskQueue, r.Activity.Heartbeats
	}
	return b
}

// CreateDefaults is a run of this runtime as far as the runtime decides: without id,
// tenant and time.
func (r Runtime) CreateDefaults() run.Create {
	p := r.terms().policy()
	p.LeaseMs, p.StepAttempts, p.StepBackoff = r.Lease.Milliseconds(), r.StepAttempts, r.Backoff
	return run.Create{Runtime: r.Name, TTLMs: r.TTL.Milliseconds(), Policy: p, Limits: r.Limits, RuntimeVersion: r.Version}
}

// runtimeJSON is a runtime as it is listed. Where it is and how it is reached is left
// out: that is the operator's, and lists may be shown to callers.
type runtimeJSON struct {
	Name        string               `json:"name"`
	Title       string               `json:"title"`
	Description string               `json:"description,omitempty"`
	Version     string               `json:"version,omitempty"`
	Mode        protocol.RuntimeMode `json:"mode"`
	TTLMs       int64                `json:"ttlMs"`
	Policy      run.Policy           `json:"policy"`
	Limits      run.Limits           `json:"limits"`
}

// MarshalJSON gives what may be shown to callers.
func (r Runtime) MarshalJSON() ([]byte, error) {
	c := r.CreateDefaults()
	return json.Marshal(runtimeJSON{
		Name: r.Name, Title: r.Title, Description: r.Description, Version: r.Version, Mode: r.Mode(),
		TTLMs: c.TTLMs, Policy: c.Policy, Limits: c.Limits,
	})
}
