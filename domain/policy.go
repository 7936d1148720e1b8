package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
)

// LatePolicy says what becomes of a result that comes after the deadline.
type LatePolicy string

// The late policies.
const (
	// LateReject answers `terminal-conflict` with late set. The default.
	LateReject LatePolicy = "reject"
	// LateRecord keeps the first late result beside the expired task.
	LateRecord LatePolicy = "record"
)

// Effects says what happens when a tool's work is done twice.
type Effects string

// The effects a tool can declare.
const (
	// EffectsNone means that the work changes nothing outside.
	EffectsNone Effects = "none"
	// EffectsIdempotent means that the same submission key acts once.
	EffectsIdempotent Effects = "idempotent"
	// EffectsUnsafe means that a second run does harm: after anything
	// ambiguous the task goes to a person instead of being repeated.
	EffectsUnsafe Effects = "unsafe"
)

// OnUnknown says what becomes of a task whose tool has unsafe effects when it
// cannot be found out whether the work was done.
type OnUnknown string

// What becomes of work of unknown outcome.
const (
	// UnknownFail fails the task with code OUTCOME_UNKNOWN. The default.
	UnknownFail OnUnknown = "fail"
	// UnknownManual keeps the task open and waits for a person, until the deadline:
	// a caller that is told of a failure too early asks again, and so repeats what
	// must not be repeated.
	UnknownManual OnUnknown = "manual"
)

// Backoff is how long a task waits between two attempts: exponential, with
// jitter and a maximum.
type Backoff struct {
	// InitialMs is the wait after the first failed attempt. Default: 1000.
	InitialMs int64 `json:"initialMs,omitempty"`
	// Factor multiplies the wait after each further attempt. Default: 2.
	Factor float64 `json:"factor,omitempty"`
	// MaxMs bounds the wait. Default: 60000.
	MaxMs int64 `json:"maxMs,omitempty"`
	// Jitter is the share of the wait that is drawn by lot, 0..1. Default: 0.2.
	Jitter float64 `json:"jitter,omitempty"`
}

// Wait is the pause after the given attempt (1 for the first), in ms. The lot
// is in [0,1): 0 gives the shortest wait.
func (b Backoff) Wait(attempt int, lot float64) int64 {
	if b.InitialMs == 0 {
		b.InitialMs = 1000
	}
	if b.Factor == 0 {
		b.Factor = 2
	}
	if b.MaxMs == 0 {
		b.MaxMs = 60_000
	}
	if b.Jitter == 0 {
		b.Jitter = 0.2
	}
	w := float64(b.InitialMs) * math.Pow(b.Factor, float64(max(attempt-1, 0)))
	w = min(w, float64(b.MaxMs))
	return int64(w*(1-b.Jitter) + w*b.Jitter*lot)
}

// LotFor draws the jitter of an attempt from the task's id, so that tasks that
// fail together don't retry together, and a replay draws the same lot.
func LotFor(taskID string, attempt int) float64 {
	sum := sha256.Sum256([]byte(taskID + "#" + strconv.Itoa(attempt)))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

// Window is how long the work of a tool usually takes: an interval from past
// runs or from its declaration, never a promise.
type Window struct {
	LowMs  int64 `json:"lowMs"`
	HighMs int64 `json:"highMs"`
}

// Policy is what the operator declared for the tool, as far as the task's own
// rules need it. It is fixed when the task is created.
type Policy struct {
	// Strict keeps the core's rules where the product is kinder: a callback to
	// a task that was never started is `not-running`, and refusals are
	// remembered. Default: false.
	Strict bool `json:"strict,omitempty"`
	// TrustTimes takes the time of an event as sent, also when it lies in the
	// future or is 0, so that recorded conversations can be played against a
	// clock that stands still. Default: false.
	TrustTimes bool `json:"trustTimes,omitempty"`
	// Backoff is the wait between attempts.
	Backoff Backoff `json:"backoff,omitzero"`
	// LeaseMs is how long a worker may be silent. Default: 0, no lease.
	LeaseMs int64 `json:"leaseMs,omitempty"`
	// StallMs is how long progress may stand still before the task is shown as
	// stalled. Default: 0, never.
	StallMs int64 `json:"stallMs,omitempty"`
	// CancelGraceMs is how long the outside has to confirm a cancel.
	// Default: 30000.
	CancelGraceMs int64 `json:"cancelGraceMs,omitempty"`
	// LatePolicy says what becomes of late results. Default: reject.
	LatePolicy LatePolicy `json:"latePolicy,omitempty"`
	// GraceMs is how long an expired task waits for a late result when the
	// policy is record. Default: 3600000.
	GraceMs int64 `json:"graceMs,omitempty"`
	// Effects decides what happens after an ambiguous loss. Default: idempotent.
	Effects Effects `json:"effects,omitempty"`
	// OnUnknown says what follows an ambiguous loss of unsafe work. Default: fail.
	OnUnknown OnUnknown `json:"onUnknown,omitempty"`
	// ExpectsCallback says that the other side calls back at the end: an end that was
	// found by looking means that its callback was lost. Default: false.
	ExpectsCallback bool `json:"expectsCallback,omitempty"`
	// ShowsStall makes a task look at itself when it has stood still for StallMs, so
	// that the Temporal UI shows it. Default: false, shown when somebody asks.
	ShowsStall bool `json:"showsStall,omitempty"`
	// External marks a tool without an executor: the world calls us.
	External bool `json:"external,omitempty"`
	// Expected is the usual time the work takes, if known.
	Expected *Window `json:"expected,omitempty"`
}

// The defaults of [Policy], in ms.
const (
	DefaultCancelGraceMs = 30_000
	DefaultGraceMs       = 3_600_000
)

func (p Policy) cancelGrace() int64 {
	if p.CancelGraceMs > 0 {
		return p.CancelGraceMs
	}
	return DefaultCancelGraceMs
}

func (p Policy) grace() int64 {
	if p.GraceMs > 0 {
		return p.GraceMs
	}
	return DefaultGraceMs
}

// Validate checks that every number makes sense.
func (p Policy) Validate() error {
	for _, f := range []struct {
		field string
		ms    int64
	}{
		{"policy.leaseMs", p.LeaseMs},
		{"policy.stallMs", p.StallMs},
		{"policy.cancelGraceMs", p.CancelGraceMs},
		{"policy.graceMs", p.GraceMs},
		{"policy.backoff.initialMs", p.Backoff.InitialMs},
		{"policy.backoff.maxMs", p.Backoff.MaxMs},
	} {
		if f.ms < 0 {
			return Invalid(f.field, "must be >= 0, it is %d", f.ms)
		}
	}
	if math.IsNaN(p.Backoff.Jitter) || p.Backoff.Jitter < 0 || p.Backoff.Jitter > 1 {
		return Invalid("policy.backoff.jitter", "must be in 0..1, it is %g", p.Backoff.Jitter)
	}
	if p.Backoff.Factor != 0 && (p.Backoff.Factor < 1 || math.IsInf(p.Backoff.Factor, 0) || math.IsNaN(p.Backoff.Factor)) {
		return Invalid("policy.backoff.factor", "must be a finite number >= 1, it is %g", p.Backoff.Factor)
	}
	switch p.LatePolicy {
	case "", LateReject, LateRecord:
	default:
		return Invalid("policy.latePolicy", "must be reject or record, not %q", p.LatePolicy)
	}
	switch p.Effects {
	case "", EffectsNone, EffectsIdempotent, EffectsUnsafe:
	default:
		return Invalid("policy.effects", "must be none, idempotent or unsafe, not %q", p.Effects)
	}
	switch p.OnUnknown {
	case "", UnknownFail, UnknownManual:
	default:
		return Invalid("policy.onUnknown", "must be fail or manual, not %q", p.OnUnknown)
	}
	return nil
}
