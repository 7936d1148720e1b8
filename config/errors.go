package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrConfig is the class of every mistake in a configuration; errors.Is finds it.
var ErrConfig = errors.New("invalid configuration")

// Error is one mistake in a configuration. It never quotes a secret: of what
// stands where a secret is named, and of environment variables, only the place
// is told.
type Error struct {
	// File is the name of the file; empty for a configuration built in Go.
	File string
	// Line and Column count from 1; 0 when there is no file, or when the mistake
	// has no place in it.
	Line   int
	Column int
	// Key is the path of the key, such as tools.vet.exec.argv[0]; empty for a
	// mistake in the file as such.
	Key string
	// Rule is what the key must be, or what is wrong, as words that follow it.
	Rule string
}

// Error is "file:line:column: key: rule", without the parts that are not known.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, max(e.Column, 1))
		}
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Rule)
	return b.String()
}

// Is makes every Error an [ErrConfig].
func (e *Error) Is(target error) bool { return target == ErrConfig }

// Errors are all mistakes of one configuration, in the order of the file.
type Errors []*Error

// Error gives a line for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// asError sorts what was found, and is nil when nothing was.
func (e Errors) asError() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// quote shows a value from the file in an error, shortened.
func quote(s string) string {
	const limit = 64
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
