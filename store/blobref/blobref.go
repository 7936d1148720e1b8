// Package blobref holds the form of a reference to a stored result. It needs nothing but the
// standard library and does no I/O, so a workflow can compute a reference before the content is
// stored and check one that it was given.
//
// A reference is content-addressed per task:
//
//	blob:<tenant>/task/<taskId>/<sha256 of the content, 64 lower-case hexadecimal digits>
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
	maxTaskID = 128
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

// Ref is a parsed reference.
type Ref struct {
	Tenant string
	TaskID string
	// Hash is the sha-256 of the content in lower-case hexadecimal.
	Hash string
}

// String gives the reference back.
func (r Ref) String() string { return For(r.Tenant, r.TaskID, r.Hash) }

// For composes a reference. It checks nothing: [Parse] does.
func For(tenant, taskID, hash string) string {
	return Scheme + tenant + "/task/" + taskID + "/" + hash
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
	if len(parts) != 4 || parts[1] != "task" {
		return Ref{}, refError(ref, "must be "+Scheme+"<tenant>/task/<taskId>/<sha256>")
	}
	r := Ref{Tenant: parts[0], TaskID: parts[2], Hash: parts[3]}
	if rule := r.brokenRule(); rule != "" {
		return Ref{}, refError(ref, rule)
	}
	return r, nil
}

// Check is Parse for parts that are not yet a reference.
func Check(tenant, taskID, hash string) error {
	r := Ref{Tenant: tenant, TaskID: taskID, Hash: hash}
	if rule := r.brokenRule(); rule != "" {
		return refError(r.String(), rule)
	}
	return nil
}

func (r Ref) brokenRule() string {
	if rule := segmentRule("tenant", r.Tenant, maxTenant); rule != "" {
		return rule
	}
	if rule := segmentRule("taskId", r.TaskID, maxTaskID); rule != "" {
		return rule
	}
	return hashRule(r.Hash)
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
