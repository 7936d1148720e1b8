package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wakepoint/wakepoint/domain"
)

// Limits of what is declared.
const (
	maxName        = 64
	maxTitle       = 200
	maxDescription = 4 << 10
	maxVersion     = 64
	// maxQueue leaves room for what host queues add to a name.
	maxQueue    = 100
	maxAttempts = 1000
	// minPoll is the shortest time between two looks: the engine rounds shorter
	// retries up to about a second anyway.
	minPoll = 100 * time.Millisecond
	// maxPoll is the longest: an end should not be found out about a day later.
	maxPoll  = time.Hour
	minLease = time.Second
	// minOutput is what the executor needs to keep both ends of a stream.
	minOutput = 4 << 10
)

// rule takes over the rule of a domain error, whose field has another name here.
func (p *problems) rule(key string, err error) {
	var invalid *domain.InvalidError
	switch {
	case errors.As(err, &invalid):
		p.add(key, "%s", invalid.Rule)
	case err != nil:
		p.add(key, "%v", err)
	}
}

func (p *problems) atLeast(key string, v, low time.Duration) {
	if v < low {
		p.add(key, "must be at least %s, it is %s", FormatDuration(low), v)
	}
}

func (p *problems) name(key, name string) {
	switch {
	case name == "":
		p.add(key, "must not be empty")
	case len(name) > maxName:
		p.add(key, "must be at most %d characters, it has %d", maxName, len(name))
	case strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}):
		p.add(key, "must consist of letters, digits, dot, underscore and hyphen")
	}
}

func (p *problems) queue(key, queue string) {
	switch {
	case strings.TrimSpace(queue) != queue || queue == "":
		p.add(key, "must not be blank, nor begin or end with white space")
	case strings.ContainsFunc(queue, unicode.IsControl):
		p.add(key, "must not hold control characters")
	case len(queue) > maxQueue:
		p.add(key, "must be at most %d bytes, it has %d", maxQueue, len(queue))
	case strings.HasPrefix(queue, "/_sys/"), strings.HasPrefix(queue, "__temporal_"):
		p.add(key, "must not begin with /_sys/ or __temporal_, which belong to the engine")
	}
}

func (p *problems) text(key, s string, limit int) {
	if len(s) > limit {
		p.add(key, "must be at most %d bytes, it has %d", limit, len(s))
	}
	if strings.ContainsRune(s, 0) {
		p.add(key, "must not hold a zero byte")
	}
}

// blobs names no part of the URL: it may hold credentials.
func (p *problems) blobs(key, raw string) {
	if raw == "" {
		return
	}
	if u, err := url.Parse(raw); err != nil || u.Scheme == "" {
		p.add(key, "must be a URL such as file:///var/lib/wakepoint/blobs")
	}
}

func (r SecretRef) check(p *problems, key string) {
	switch {
	case r.Env != "" && r.File != "":
		p.add(key, "must name either env or file, not both")
	case r.Env != "" && !envName(r.Env):
		// The name is not quoted: it may be the secret itself, in the wrong place.
		p.add(key+".env", "must be the name of an environment variable")
	}
}

func envName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
}

func (c *Config) checkTargets(p *problems) {
	seen := make(map[string]bool)
	for i := range c.Targets {
		t := &c.Targets[i]
		key := join("targets", t.Name)
		p.name(key, t.Name)
		if seen[t.Name] {
			p.add(key, "is there twice")
		}
		seen[t.Name] = true
		if t.URL == "" {
			p.add(key+".url", "must be given")
		} else {
			p.url(key+".url", t.URL, t.AllowHTTP)
		}
		if t.AskURL != "" {
			p.url(key+".askURL", t.AskURL, t.AllowHTTP)
		}
		t.Secret.check(p, key+".secret")
		p.atLeast(key+".timeout", t.Timeout, 100*time.Millisecond)
		if t.Timeout > MaxTargetTimeout {
			p.add(key+".timeout", "must be at most %s, it is %s", FormatDuration(MaxTargetTimeout), FormatDuration(t.Timeout))
		}
	}
}

func (c *Config) checkTools(p *problems) {
	seen := make(map[string]bool)
	for i := range c.Tools {
		t := &c.Tools[i]
		key := join("tools", t.Name)
		p.name(key, t.Name)
		p.notBuiltIn(key, t.Name)
		if seen[t.Name] {
			p.add(key, "is there twice")
		}
		seen[t.Name] = true
		t.check(p, key, c)
	}
	c.checkCompensation(p)
}

func (t *Tool) check(p *problems, key string, c *Config) {
	p.text(key+".title", t.Title, maxTitle)
	p.text(key+".description", t.Description, maxDescription)
	p.text(key+".version", t.Version, maxVersion)
	t.checkExecutor(p, key)
	var err error
	if t.schema, err = compileSchema(t.InputSchema); err != nil {
		p.add(key+".inputSchema", "%v", err)
	}
	t.checkTimes(p, key, c)
	if t.MaxAttempts < 1 || t.MaxAttempts > maxAttempts {
		p.add(key+".maxAttempts", "must be 1 to %d, it is %d", maxAttempts, t.MaxAttempts)
	}
	if t.Priority < 0 || t.Priority > 5 {
		p.add(key+".priority", "must be 1 (first) to 5 (last), it is %d", t.Priority)
	}
	// What is the installation's own has been checked there.
	if t.TaskQueue != c.TaskQueue {
		p.queue(key+".taskQueue", t.TaskQueue)
	}
	t.checkPolicy(p, key)
	t.checkTargets(p, key, c)
	t.checkSections(p, key)
	t.checkLimits(p, key)
	t.checkApproval(p, key, c)
}

func (t *Tool) checkApproval(p *problems, key string, c *Config) {
	switch {
	case t.Approval != "" && t.Approval != ApprovalRequired:
		p.add(key+".approval", "must be required, not %s; leave the key out for none", quote(t.Approval))
	case t.Approval == "" && t.ApprovalTTL != 0:
		p.add(key+".approvalTTL", "is for tools with approval: required")
	case t.Approval == "":
	case t.ApprovalTTL > c.MaxTTL:
		p.add(key+".approvalTTL", "must be at most the installation's maxTTL, %s; it is %s", FormatDuration(c.MaxTTL), FormatDuration(t.ApprovalTTL))
	default:
		p.atLeast(key+".approvalTTL", t.ApprovalTTL, time.Second)
	}
}

func (t *Tool) checkTimes(p *problems, key string, c *Config) {
	if t.MaxTTL > c.MaxTTL {
		p.add(key+".maxTTL", "must be at most the installation's maxTTL, %s; it is %s", FormatDuration(c.MaxTTL), FormatDuration(t.MaxTTL))
	}
	if t.TTL > t.MaxTTL {
		p.add(key+".ttl", "must be at most maxTTL, %s; it is %s", FormatDuration(t.MaxTTL), FormatDuration(t.TTL))
	}
	p.atLeast(key+".ttl", t.TTL, time.Millisecond)
	p.atLeast(key+".maxTTL", t.MaxTTL, time.Millisecond)
	p.atLeast(key+".poll", t.Poll, minPoll)
	if t.Poll > maxPoll {
		p.add(key+".poll", "must be at most %s, it is %s", FormatDuration(maxPoll), FormatDuration(t.Poll))
	}
	p.atLeast(key+".hostLost", t.HostLost, time.Second)
	if t.ResultTTL != c.ResultTTL {
		p.atLeast(key+".resultTTL", t.ResultTTL, time.Minute)
	}
}

// policyKeys are the names that fields of domain.Policy have in the file.
var policyKeys = map[string]string{
	"policy.leaseMs": "lease", "policy.stallMs": "stall", "policy.cancelGraceMs": "cancelGrace", "policy.graceMs": "late.grace",
	"policy.latePolicy": "late.policy", "policy.effects": "effects", "policy.onUnknown": "onUnknown",
	"policy.backoff.initialMs": "backoff.initial", "policy.backoff.maxMs": "backoff.max",
	"policy.backoff.jitter": "backoff.jitter", "policy.backoff.factor": "backoff.factor",
}

// policy checks what the domain has a rule for, and the wait between attempts.
func (p *problems) policy(key string, policy domain.Policy) {
	var invalid *domain.InvalidError
	if err := policy.Validate(); errors.As(err, &invalid) {
		p.add(join(key, policyKeys[invalid.Field]), "%s", invalid.Rule)
	}
	if b := policy.Backoff; b.InitialMs > 0 && b.MaxMs > 0 && b.MaxMs < b.InitialMs {
		p.add(key+".backoff.max", "must be at least backoff.initial")
	}
}

func (t *Tool) checkPolicy(p *problems, key string) {
	p.policy(key, t.Policy)
	if t.Policy.LeaseMs != 0 && t.Policy.LeaseMs < minLease.Milliseconds() {
		p.add(key+".lease", "must be at least %s", FormatDuration(minLease))
	}
	if t.Policy.OnUnknown != "" && t.Policy.Effects != domain.EffectsUnsafe {
		p.add(key+".onUnknown", "is for tools with effects: unsafe; others are repeated after an ambiguous loss")
	}
	if w := t.Policy.Expected; w != nil && (w.HighMs < w.LowMs || w.HighMs == 0) {
		p.add(key+".expected", "must have a high that is at least low")
	}
}

func (t *Tool) checkTargets(p *problems, key string, c *Config) {
	var known []string
	for _, target := range c.Targets {
		known = append(known, target.Name)
	}
	for i, name := range t.Targets {
		at := fmt.Sprintf("%s.targets[%d]", key, i)
		switch {
		case slices.Contains(t.Targets[:i], name):
			p.add(at, "is there twice: %s", quote(name))
		case !slices.Contains(known, name):
			p.add(at, "must name a declared target, %s is none%s", quote(name), Suggest(name, known))
		}
	}
}

func (e *ExecTool) check(p *problems, key string) {
	switch {
	case len(e.Argv) == 0:
		p.add(key+".argv", "must be given: the command to run and its arguments")
	case strings.TrimSpace(e.Argv[0]) == "":
		p.add(key+".argv[0]", "must name the command, it is blank")
	}
	for i, arg := range e.Argv {
		p.text(fmt.Sprintf("%s.argv[%d]", key, i), arg, 64<<10)
	}
	for i, name := range e.Env {
		if !envName(name) {
			p.add(fmt.Sprintf("%s.env[%d]", key, i), "must be the name of an environment variable; values belong into set")
		}
	}
	seen := make(map[string]bool)
	for _, v := range e.Set {
		at := join(key+".set", v.Name)
		if !envName(v.Name) {
			p.add(at, "must be the name of an environment variable")
		}
		if seen[v.Name] {
			p.add(at, "is there twice")
		}
		seen[v.Name] = true
		if slices.Contains(e.Env, v.Name) {
			p.add(at, "is also listed in env; the tool can get it from one of them only")
		}
		p.text(at, v.Value, 64<<10)
	}
	e.checkLimits(p, key)
}

func (e *ExecTool) checkLimits(p *problems, key string) {
	switch e.OnOutputLimit {
	case "", OnOutputLimitTruncate, OnOutputLimitFail:
	default:
		p.add(key+".onOutputLimit", "must be truncate or fail, not %s", quote(e.OnOutputLimit))
	}
	for i, code := range e.RetryExitCodes {
		if code < 1 || code > 255 {
			p.add(fmt.Sprintf("%s.retryExitCodes[%d]", key, i), "must be 1 to 255, it is %d", code)
		}
	}
	if e.MaxOutputBytes != 0 && e.MaxOutputBytes < minOutput {
		p.add(key+".maxOutput", "must be at least %d bytes, it is %d", minOutput, e.MaxOutputBytes)
	}
	if e.MaxResultBytes < 0 {
		p.add(key+".maxResult", "must not be negative")
	}
	if e.KillGrace < 0 {
		p.add(key+".killGrace", "must not be negative")
	}
	if e.ResultContentType != "" && (!strings.Contains(e.ResultContentType, "/") || len(e.ResultContentType) > domain.MaxHash) {
		p.add(key+".resultContentType", "must be a media type such as text/plain of at most %d bytes", domain.MaxHash)
	}
}
