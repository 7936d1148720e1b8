// Package blobref holds the form of a reference to stored content. It needs nothing but the
// standard library and does no I/O, so a workflow can compute a reference before the content is
// stored and check one that it was given.
//
// A reference is content-addressed per task or run:
//
//	blob:<tenant>/task/<taskId>/<sha256 of the content, 64 lower-case hexadecimal digits>
//	blob:<tenant>/run/<runId>/<sha256>
package blobref

import (
	"errors"
	"fmt"
	"strings"
)

// Scheme is what every reference begins with.
const Scheme = "blob:"

// The longest parts of a reference, in bytes, as the contract has them for tenants and ids.
const (
	maxTenant = 32
	maxID     = 128
	hashLen   = 64
)

// ErrRef is what every [*RefError] is.
var ErrRef = errors.New("invalid blob reference")

// RefError says which rule a reference or one of its parts breaks.
type RefError struct {
	// Ref is the offending text, shortened.
	Ref string
	// Rule names the part and what it must be.
	Rule string
}

// Error names the reference and the rule.
func (e *RefError) Error() string { return fmt.Sprintf("%v %q: %s", ErrRef, e.Ref, e.Rule) }

// Is makes the error an [ErrRef].
func (e *RefError) Is(target error) bool { return target == ErrRef }

// Kind says what an object belongs to; it is the part of a reference after the tenant.
type Kind string

// The kinds.
const (
	// KindTask is the result of a task.
	KindTask Kind = "task"
	// KindRun is a checkpoint or a final answer of a run.
	KindRun Kind = "run"
)

// Kinds lists them in the order of their references.
func Kinds() []Kind { return []Kind{KindRun, KindTask} }

// Ref is a parsed reference. Exactly one of TaskID and RunID is set.
type Ref struct {
	Tenant string
	TaskID string
	RunID  string
	// Hash is the sha-256 of the content in lower-case hexadecimal.
	Hash string
}

// Owner is what the object belongs to. A task and a run may have the same id.
func (r Ref) Owner() (Kind, string) {
	if r.RunID != "" {
		return KindRun, r.RunID
	}
	return KindTask, r.TaskID
}

// String gives the reference back.
func (r Ref) String() string {
	kind, id := r.Owner()
	return compose(r.Tenant, kind, id, r.Hash)
}

// For composes the reference of a task's result. It checks nothing: [Parse] does.
func For(tenant, taskID, hash string) string { return compose(tenant, KindTask, taskID, hash) }

// ForRun composes the reference of a run's content. It checks nothing: [Parse] does.
func ForRun(tenant, runID, hash string) string { return compose(tenant, KindRun, runID, hash) }

func compose(tenant string, kind Kind, id, hash string) string {
	return Scheme + tenant + "/" + string(kind) + "/" + id + "/" + hash
}

// Parse takes a reference apart. The error is a [*RefError]. No reference it accepts can lead out
// of its tenant's folder: parts are of a closed alphabet without separators, and "." and ".." are
// refused.
func Parse(ref string) (Ref, error) {
	rest, ok := strings.CutPrefix(ref, Scheme)
	if !ok {
		return Ref{}, refError(ref, `must begin with "`+Scheme+`"`)
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 4 || parts[1] != string(KindTask) && parts[1] != string(KindRun) {
		return Ref{}, refError(ref, "must be "+Scheme+"<tenant>/task/<taskId>/<sha256> or "+Scheme+"<tenant>/run/<runId>/<sha256>")
	}
	kind, id := Kind(parts[1]), parts[2]
	if rule := brokenRule(parts[0], kind, id, parts[3]); rule != "" {
		return Ref{}, refError(ref, rule)
	}
	r := Ref{Tenant: parts[0], Hash: parts[3]}
	switch kind {
	case KindTask:
		r.TaskID = id
	case KindRun:
		r.RunID = id
	}
	return r, nil
}

// Check is Parse for the parts of a task's reference that are not yet one.
func Check(tenant, taskID, hash string) error {
	return Ref{Tenant: tenant, TaskID: taskID, Hash: hash}.Check()
}

// Check is Parse for parts that are not yet a reference.
func (r Ref) Check() error {
	if r.TaskID != "" && r.RunID != "" {
		return refError(r.String(), "must have a taskId or a runId, not both")
	}
	kind, id := r.Owner()
	if rule := brokenRule(r.Tenant, kind, id, r.Hash); rule != "" {
		return refError(r.String(), rule)
	}
	return nil
}

func brokenRule(tenant string, kind Kind, id, hash string) string {
	if rule := segmentRule("tenant", tenant, maxTenant); rule != "" {
		return rule
	}
	if rule := segmentRule(string(kind)+"Id", id, maxID); rule != "" {
		return rule
	}
	return hashRule(hash)
}

func segmentRule(name, s string, limit int) string {
	switch {
	case s == "":
		return name + " must not be empty"
	case len(s) > limit:
		return fmt.Sprintf("%s must have at most %d characters", name, limit)
	case s == "." || s == "..":
		return name + ` must not be "." or ".."`
	}
	for i := range len(s) {
		c := s[i]
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return name + " must consist of A-Z, a-z, 0-9, '.', '_' and '-'"
		}
	}
	return ""
}

func hashRule(s string) string {
	const rule = "hash must be a sha-256 of 64 lower-case hexadecimal digits"
	if len(s) != hashLen {
		return rule
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return rule
		}
	}
	return ""
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// refError shortens what it quotes: references come from outside and errors go into logs.
func refError(ref, rule string) error {
	const quoted = 256
	if len(ref) > quoted {
		ref = ref[:quoted] + "..."
	}
	return &RefError{Ref: ref, Rule: rule}
}
