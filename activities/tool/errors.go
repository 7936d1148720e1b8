package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The sentinels of this package, for errors.Is.
var (
	// ErrNotStarted is what every [*NotStartedError] is.
	ErrNotStarted = errors.New("job was not started")
	// ErrAmbiguous is what every [*AmbiguousError] is.
	ErrAmbiguous = errors.New("job may have been started")
	// ErrThrottled is what every [*ThrottledError] is.
	ErrThrottled = errors.New("the outside refused for now")
	// ErrUnknownHandle: the handle is not one of this executor, or its job is not known here.
	ErrUnknownHandle = errors.New("unknown handle")
	// ErrWrongHost: the job belongs to another host, where this process cannot look.
	ErrWrongHost = errors.New("handle belongs to another host")
	// ErrStillRunning: the job must be over for what was asked.
	ErrStillRunning = errors.New("job is still running")
	// ErrCannotCancel: there is no way to ask this job to end, and no repetition will
	// find one.
	ErrCannotCancel = errors.New("the job cannot be cancelled")
	// ErrStream: a log stream that the executor does not have.
	ErrStream = errors.New("unknown log stream")
)

// Severity and class of a [Failure], as the contract names them.
const (
	SeverityInfo     = "info"
	SeverityWarning  = "warning"
	SeverityError    = "error"
	SeverityCritical = "critical"

	ClassUser       = "user"
	ClassSystem     = "system"
	ClassThirdParty = "third-party"
)

// Failure is why a job failed, in the terms of the contract. It is a value to report, not a Go
// error.
type Failure struct {
	// Code is UPPER_SNAKE and stable; Message is for people, at most 4 KiB.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Severity is one of the Severity constants, Class one of the Class constants.
	Severity string `json:"severity,omitempty"`
	Class    string `json:"class,omitempty"`
	// Retryable says whether another attempt may end differently.
	Retryable bool `json:"retryable"`
	// Details is a JSON object of at most 16 KiB.
	Details json.RawMessage `json:"details,omitempty"`
	// RetryAfterMs is how long the other side wants to be left alone before another attempt, in
	// milliseconds; 0 leaves it to the tool's backoff.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}

// ThrottledError says that the outside refused a call for now (HTTP 429 or 503, a connection that
// was not made) and that the call surely had no effect. The same call may be repeated, whatever the
// tool's effects, and costs no attempt.
type ThrottledError struct {
	// After is how long the outside wants to be left alone; 0 leaves it to the caller.
	After time.Duration
	Cause error
}

// Error tells the wait and the cause.
func (e *ThrottledError) Error() string {
	s := ErrThrottled.Error()
	if e.After > 0 {
		s += fmt.Sprintf(", for %v", e.After)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is makes the error an [ErrThrottled].
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Unwrap gives the cause.
func (e *ThrottledError) Unwrap() error { return e.Cause }

// NotStartedError says that Submit started nothing and that nothing of it can start later, so the
// next attempt may use a new key.
type NotStartedError struct {
	Failure Failure
	// Cause may be nil.
	Cause error
}

// Error names the code and the cause.
func (e *NotStartedError) Error() string {
	s := fmt.Sprintf("%v: %s: %s", ErrNotStarted, e.Failure.Code, e.Failure.Message)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is makes the error an [ErrNotStarted].
func (e *NotStartedError) Is(target error) bool { return target == ErrNotStarted }

// Unwrap gives the cause.
func (e *NotStartedError) Unwrap() error { return e.Cause }

// AmbiguousError says that a verb got no answer that would tell whether it had its effect.
type AmbiguousError struct {
	// Op is the verb, SubmissionKey the job.
	Op            string
	SubmissionKey string
	Cause         error
}

// Error names the verb, the key and the cause.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s of %q: %v: %v", e.Op, e.SubmissionKey, ErrAmbiguous, e.Cause)
}

// Is makes the error an [ErrAmbiguous].
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// Unwrap gives the cause.
func (e *AmbiguousError) Unwrap() error { return e.Cause }

// DefiniteFailure gives the failure of an error of Submit that surely started nothing. For any
// other error it is false, and the caller has to treat the job as possibly started.
func DefiniteFailure(err error) (Failure, bool) {
	var ns *NotStartedError
	if errors.As(err, &ns) {
		return ns.Failure, true
	}
	return Failure{}, false
}
