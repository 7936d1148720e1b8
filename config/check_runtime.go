package config

import (
	"cmp"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// How runtimes, and what holds for runs without one, are read, completed and checked.

// terms are what [Runtime] and [Runs] have in common: one place reads, completes and
// checks both.
type terms struct {
	ttl, cancelGrace, checkEvery *time.Duration
	onFailed                     *string
	limits                       *run.Limits
}

func (r *Runtime) terms() terms {
	return terms{&r.TTL, &r.CancelGrace, &r.CheckEvery, &r.OnFailedDependency, &r.Limits}
}

func (r *Runs) terms() terms {
	return terms{&r.TTL, &r.CancelGrace, &r.CheckEvery, &r.OnFailedDependency, &r.Limits}
}

func (t terms) policy() run.Policy {
	return run.Policy{
		CancelGraceMs: t.cancelGrace.Milliseconds(), CheckEveryMs: t.checkEvery.Milliseconds(), RunDependents: *t.onFailed == OnFailedRun,
	}
}

func (t terms) keys(d *decoder) []field {
	return []field{
		{"ttl", d.duration(t.ttl)},
		{"cancelGrace", d.duration(t.cancelGrace)},
		{"checkEvery", d.duration(t.checkEvery)},
		{"onFailedDependency", d.word(t.onFailed)},
		{"limits", d.limits(t.limits)},
	}
}

func (d *decoder) limits(l *run.Limits) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.mapping(n, path, []field{
			{"maxSteps", d.integer(&l.MaxSteps, 1)},
			{"maxCalls", d.integer(&l.MaxCalls, 1)},
			{"maxOpenCalls", d.integer(&l.MaxOpenCalls, 1)},
			{"maxTokens", d.integer64(&l.MaxTokens, 1)},
			{"maxCostUSD", d.positive(&l.MaxCostUSD)},
		}, true)
	}
}

func (t terms) withDefaults(c *Config) {
	def(t.ttl, min(DefaultRunTTL, c.MaxTTL))
	def(t.cancelGrace, DefaultCancelGrace)
	def(t.checkEvery, DefaultCheckEvery)
	def(t.onFailed, OnFailedSkip)
	def(&t.limits.MaxSteps, run.DefaultMaxSteps)
	def(&t.limits.MaxCalls, run.DefaultMaxCalls)
	def(&t.limits.MaxOpenCalls, min(run.DefaultMaxOpenCalls, t.limits.MaxCalls))
}

func (t terms) check(p *problems, key string, c *Config) {
	p.atLeast(key+".ttl", *t.ttl, time.Millisecond)
	if *t.ttl > c.MaxTTL {
		p.add(key+".ttl", "must be at most the installation's maxTTL, %s; it is %s", FormatDuration(c.MaxTTL), FormatDuration(*t.ttl))
	}
	p.atLeast(key+".cancelGrace", *t.cancelGrace, time.Millisecond)
	p.atLeast(key+".checkEvery", *t.checkEvery, time.Second)
	if *t.onFailed != OnFailedSkip && *t.onFailed != OnFailedRun {
		p.add(key+".onFailedDependency", "must be skip or run, not %s", quote(*t.onFailed))
	}
	l := t.limits
	for _, n := range []struct {
		name  string
		value int64
	}{{"maxSteps", int64(l.MaxSteps)}, {"maxCalls", int64(l.MaxCalls)}, {"maxOpenCalls", int64(l.MaxOpenCalls)}, {"maxTokens", l.MaxTokens}} {
		if n.value < 0 {
			p.add(key+".limits."+n.name, "must be >= 1, it is %d", n.value)
		}
	}
	if l.MaxOpenCalls > run.MaxOpen {
		p.add(key+".limits.maxOpenCalls", "must be at most %d, it is %d", run.MaxOpen, l.MaxOpenCalls)
	}
	// Written so that NaN is refused too.
	if !(l.MaxCostUSD >= 0) || math.IsInf(l.MaxCostUSD, 1) {
		p.add(key+".limits.maxCostUSD", "must be a finite number > 0, it is %v", l.MaxCostUSD)
	}
}

func (d *decoder) runtime(name string, n *yaml.Node, path string) Runtime {
	r := Runtime{Name: name}
	d.mapping(n, path, append([]field{
		{"title", d.text(&r.Title)},
		{"description", d.text(&r.Description)},
		{"version", d.word(&r.Version)},
		{"pull", section(&r.Pull, func(_ *PullRuntime, n *yaml.Node, path string) { d.mapping(n, path, nil, true) })},
		{"push", section(&r.Push, func(p *PushRuntime, n *yaml.Node, path string) {
			d.mapping(n, path, []field{
				{"url", d.word(&p.URL)}, {"secret", d.secret(&p.Secret)}, {"allowHTTP", d.boolean(&p.AllowHTTP)}, {"timeout", d.duration(&p.Timeout)},
			}, true)
		})},
		{"activity", section(&r.Activity, func(a *ActivityRuntime, n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"taskQueue", d.word(&a.TaskQueue)}, {"heartbeats", d.boolean(&a.Heartbeats)}}, true)
		})},
		{"lease", d.duration(&r.Lease)},
		{"stepTimeout", d.duration(&r.StepTimeout)},
		{"stepAttempts", d.integer(&r.StepAttempts, 1)},
		{"backoff", d.backoff(&r.Backoff)},
	}, r.terms().keys(d)...), true)
	return r
}

func (r *Runtime) withDefaults(c *Config) {
	def(&r.Title, r.Name)
	def(&r.Lease, DefaultLease)
	if r.Pull == nil {
		def(&r.StepTimeout, DefaultStepTimeout)
	}
	def(&r.StepAttempts, DefaultStepAttempts)
	if r.Push != nil {
		// A copy: the caller's stays as it is.
		push := *r.Push
		def(&push.Timeout, min(DefaultPushTimeout, cmp.Or(r.StepTimeout, DefaultStepTimeout)))
		if push.Secret.File != "" {
			push.Secret.File = c.path(push.Secret.File)
		}
		r.Push = &push
	}
	r.terms().withDefaults(c)
}

func (c *Config) checkRuntimes(p *problems) {
	c.Runs.terms().check(p, "runs", c)
	seen := make(map[string]bool)
	for i := range c.Runtimes {
		r := &c.Runtimes[i]
		key := join("runtimes", r.Name)
		p.name(key, r.Name)
		p.notBuiltIn(key, r.Name)
		if seen[r.Name] {
			p.add(key, "is there twice")
		}
		seen[r.Name] = true
		r.check(p, key, c)
	}
}

// notBuiltIn keeps names free that are not the operator's.
func (p *problems) notBuiltIn(key, name string) {
	if strings.HasPrefix(name, run.BuiltInPrefix) {
		p.add(key, "must not begin with %s, which is for what is built in", run.BuiltInPrefix)
	}
}

func (r *Runtime) check(p *problems, key string, c *Config) {
	p.text(key+".title", r.Title, maxTitle)
	p.text(key+".description", r.Description, maxDescription)
	p.text(key+".version", r.Version, maxVersion)
	r.checkSections(p, key)
	p.atLeast(key+".lease", r.Lease, minLease)
	if r.StepAttempts < 1 || r.StepAttempts > maxAttempts {
		p.add(key+".stepAttempts", "must be 1 to %d, it is %d", maxAttempts, r.StepAttempts)
	}
	p.policy(key, domain.Policy{Backoff: r.Backoff})
	r.terms().check(p, key, c)
}

func (r *Runtime) checkSections(p *problems, key string) {
	var given []string
	for _, s := range []struct {
		name  string
		given bool
	}{{"pull", r.Pull != nil}, {"push", r.Push != nil}, {"activity", r.Activity != nil}} {
		if s.given {
			given = append(given, s.name)
		}
	}
	switch {
	case len(given) == 0:
		p.add(key, "must have a section pull, push or activity: how the runtime gets its steps")
	case len(given) > 1:
		p.add(key, "must have one of the sections %s: a runtime gets its steps in one way", strings.Join(given, ", "))
	}
	if r.Pull == nil {
		p.atLeast(key+".stepTimeout", r.StepTimeout, time.Second)
	} else if r.StepTimeout != 0 && len(given) == 1 {
		p.add(key+".stepTimeout", "is for push and activity; a step that is pulled is bounded by its lease")
	}
	if push := r.Push; push != nil {
		if push.URL == "" {
			p.add(key+".push.url", "must be given: where steps are sent")
		} else {
			p.url(key+".push.url", push.URL, push.AllowHTTP)
		}
		push.Secret.check(p, key+".push.secret")
		p.atLeast(key+".push.timeout", push.Timeout, 100*time.Millisecond)
		if r.Pull == nil && push.Timeout > r.StepTimeout {
			p.add(key+".push.timeout", "must be at most stepTimeout, %s; it is %s", FormatDuration(r.StepTimeout), FormatDuration(push.Timeout))
		}
	}
	if a := r.Activity; a != nil {
		if a.TaskQueue == "" {
			p.add(key+".activity.taskQueue", "must be given: where the runtime works")
		} else {
			p.queue(key+".activity.taskQueue", a.TaskQueue)
		}
	}
}
