package domain

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrInvalid is the class of every refusal of bad input; errors.Is finds it.
// Whatever is refused so has changed nothing, consumed nothing and is not
// remembered.
var ErrInvalid = errors.New("invalid request")

// CodeInvalid is the stable code of [ErrInvalid] on every surface.
const CodeInvalid = "invalid-request"

// InvalidError says which field of a request broke which rule.
type InvalidError struct {
	// Field is the JSON name of the field, with dots for nesting.
	Field string `json:"field"`
	// Rule is what the field must be, as words that follow the field's name.
	Rule string `json:"rule"`
}

// Error names the field and the rule.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s %s", CodeInvalid, e.Field, e.Rule) }

// Is makes every InvalidError an [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalid makes an [InvalidError].
func Invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Rule: fmt.Sprintf(format, args...)}
}

// Severity says how bad a failure is for the people who run the tool.
type Severity string

// The severities.
const (
	SeverityInfo     Severity = "info"
	SeverityWarning  Severity = "warning"
	SeverityError    Severity = "error"
	SeverityCritical Severity = "critical"
)

// Class says on whose side a failure lies.
type Class string

// The classes.
const (
	ClassUser       Class = "user"
	ClassSystem     Class = "system"
	ClassThirdParty Class = "third-party"
)

// The codes of errors that Wakepoint itself gives to a task.
const (
	CodeWorkerLost     = "WORKER_LOST"
	CodeOutcomeUnknown = "OUTCOME_UNKNOWN"
	CodeSubmitFailed   = "SUBMIT_FAILED"
	CodeExpired        = "DEADLINE_EXCEEDED"
	CodeCancelled      = "CANCELLED"
	// CodeCompensated: what an attempt may have done was undone.
	CodeCompensated = "COMPENSATED"
	// CodeNotDone: a person found out that the work was not done.
	CodeNotDone = "NOT_DONE"
	// CodeTimeout: the tool itself took longer than it may.
	CodeTimeout = "TIMEOUT"
)

// TaskError is why an attempt failed. A plain JSON string is accepted in its
// place and becomes the message.
type TaskError struct {
	// Code is UPPER_SNAKE, for programs.
	Code string `json:"code,omitempty"`
	// Message is for people, at most [MaxErrorText] bytes.
	Message string `json:"message"`
	// Severity is one of the severities. Default: error.
	Severity Severity `json:"severity,omitempty"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable,omitempty"`
	// Class says whose fault it is.
	Class Class `json:"class,omitempty"`
	// Details is any JSON, at most [MaxDetails] bytes.
	Details json.RawMessage `json:"details,omitempty"`
}

// UnmarshalJSON accepts an object or a plain string.
func (e *TaskError) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*e = TaskError{}
		return json.Unmarshal(b, &e.Message)
	}
	type plain TaskError
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*e = TaskError(p)
	return nil
}

// Error gives the code and the message.
func (e *TaskError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

func (e *TaskError) clone() *TaskError {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}
