package starter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/wakepoint/wakepoint/domain"
)

// Code names a kind of failure. The set is closed, see [Codes].
type Code string

// The codes of an [Error].
const (
	CodeInvalid        Code = domain.CodeInvalid
	CodeUnknownTool    Code = "unknown-tool"
	CodeUnknownTask    Code = "unknown-task"
	CodeUnknownKey     Code = "unknown-delivery"
	CodeUnknownRun     Code = "unknown-run"
	CodeUnknownRuntime Code = "unknown-runtime"
	CodeIDInUse        Code = "id-in-use"
	CodeNotRetryable   Code = "not-retryable"
	CodeNotEnded       Code = "not-ended"
	CodeEnded          Code = "ended"
	CodeNotSucceeded   Code = "not-succeeded"
	CodeKeyReused      Code = "key-reused-for-other-task"
	CodeConflict       Code = "conflict"
	CodeNoStep         Code = "no-step"
	CodeStepHeld       Code = "step-held"
	CodeWrongRuntime   Code = "wrong-runtime"
	CodeStaleToken     Code = "stale-token"
	CodeCommitConflict Code = "commit-conflict"
	CodeStepAhead      Code = "step-ahead"
	CodeNothingToWait  Code = "nothing-to-wait-for"
	CodeRunEnding      Code = "run-ending"
	CodeNoLease        Code = "no-lease"
	CodeNoLogs         Code = "no-logs"
	CodeResultExpired  Code = "result-expired"
	CodeResultMissing  Code = "result-missing"
	CodeResultCorrupt  Code = "result-corrupt"
	CodeResultOutside  Code = "result-outside"
	CodeTerminated     Code = "terminated"
	CodeWaitTimeout    Code = "wait-timeout"
	CodeNoWorker       Code = "no-worker"
	CodeUnavailable    Code = "unavailable"
	CodeNotSetUp       Code = "not-set-up"
	CodeDenied         Code = "denied"
	CodeInternal       Code = "internal"
)

// CodeInfo says what a code means and whether the same call can succeed later.
type CodeInfo struct {
	Code    Code
	Meaning string
	// Repeat says that the same call, unchanged, is worth repeating.
	Repeat bool
}

// Codes is the closed table of codes, in the order of the documents.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeInvalid, "the request breaks a rule; the error names the field and the rule", false},
		{CodeUnknownTool, "no tool of that name is declared", false},
		{CodeUnknownTask, "no task has that id, or its retention is over", false},
		{CodeUnknownKey, "nothing was delivered under that key, or its retention is over", false},
		{CodeUnknownRun, "no run has that id, or its retention is over", false},
		{CodeUnknownRuntime, "no runtime of that name is declared", false},
		{CodeIDInUse, "the id or the idempotency key belongs to a submission that asks for something else", false},
		{CodeNotRetryable, "there is nothing to retry: the task succeeded, or the run succeeded or was cancelled", false},
		{CodeNotEnded, "the task or the run has not ended yet", true},
		{CodeEnded, "the task or the run has ended and takes nothing more", false},
		{CodeNotSucceeded, "the task or the run has no result, because it did not succeed", false},
		{CodeKeyReused, "the delivery key was used for another task", false},
		{CodeConflict, "the request contradicts what is there", false},
		{CodeNoStep, "the run has no step to be taken now", true},
		{CodeStepHeld, "another runtime holds the step, and its lease has not run out", true},
		{CodeWrongRuntime, "the run belongs to another version of the runtime", false},
		{CodeStaleToken, "the step token is not that of the newest attempt, or the step was committed by another one", false},
		{CodeCommitConflict, "the step was committed with another answer", false},
		{CodeStepAhead, "an earlier step has not been committed", false},
		{CodeNothingToWait, "the commit asks for nothing, and nothing is open: the run would wait for ever", false},
		{CodeRunEnding, "the run is on its way to its end and takes no step any more", false},
		{CodeNoLease, "the task holds no lease for that attempt", false},
		{CodeNoLogs, "the task has no logs that can be read", false},
		{CodeResultExpired, "the result has been deleted, its lifetime is over", false},
		{CodeResultMissing, "the store of results lacks the result, though its lifetime is not over", false},
		{CodeResultCorrupt, "the stored result is not what the task recorded", false},
		{CodeResultOutside, "the result lies outside of the blob store; its reference is all there is", false},
		{CodeTerminated, "the workflow was terminated or timed out in Temporal and left no record", false},
		{CodeWaitTimeout, "the caller's own patience is over; the task or the run goes on", true},
		{CodeNoWorker, "no worker answered in time", true},
		{CodeUnavailable, "the engine cannot be reached or is overloaded", true},
		{CodeNotSetUp, "the engine lacks the namespace or the search attributes", false},
		{CodeDenied, "the engine refused the credentials", false},
		{CodeInternal, "something broke that is not the caller's fault", false},
	}
}

// Error is every failure of this package. Compare with the sentinels:
// errors.Is(err, starter.ErrUnknownTask).
type Error struct {
	Code Code `json:"code"`
	// Message says what happened, Hint what can be done about it.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Field is the JSON name of the field that is wrong, with [CodeInvalid].
	Field string `json:"field,omitempty"`
	// Err is the cause. It is for logs: it may name what callers should not see.
	Err error `json:"-"`
}

// The sentinels of the codes.
var (
	ErrInvalid        = &Error{Code: CodeInvalid}
	ErrUnknownTool    = &Error{Code: CodeUnknownTool}
	ErrUnknownTask    = &Error{Code: CodeUnknownTask}
	ErrUnknownKey     = &Error{Code: CodeUnknownKey}
	ErrUnknownRun     = &Error{Code: CodeUnknownRun}
	ErrUnknownRuntime = &Error{Code: CodeUnknownRuntime}
	ErrIDInUse        = &Error{Code: CodeIDInUse}
	ErrNotRetryable   = &Error{Code: CodeNotRetryable}
	ErrNotEnded       = &Error{Code: CodeNotEnded}
	ErrEnded          = &Error{Code: CodeEnded}
	ErrNotSucceeded   = &Error{Code: CodeNotSucceeded}
	ErrKeyReused      = &Error{Code: CodeKeyReused}
	ErrConflict       = &Error{Code: CodeConflict}
	ErrNoStep         = &Error{Code: CodeNoStep}
	ErrStepHeld       = &Error{Code: CodeStepHeld}
	ErrWrongRuntime   = &Error{Code: CodeWrongRuntime}
	ErrStaleToken     = &Error{Code: CodeStaleToken}
	ErrCommitConflict = &Error{Code: CodeCommitConflict}
	ErrStepAhead      = &Error{Code: CodeStepAhead}
	ErrNothingToWait  = &Error{Code: CodeNothingToWait}
	ErrRunEnding      = &Error{Code: CodeRunEnding}
	ErrNoLease        = &Error{Code: CodeNoLease}
	ErrNoLogs         = &Error{Code: CodeNoLogs}
	ErrResultExpired  = &Error{Code: CodeResultExpired}
	ErrResultMissing  = &Error{Code: CodeResultMissing}
	ErrResultCorrupt  = &Error{Code: CodeResultCorrupt}
	ErrResultOutside  = &Error{Code: CodeResultOutside}
	ErrTerminated     = &Error{Code: CodeTerminated}
	ErrWaitTimeout    = &Error{Code: CodeWaitTimeout}
	ErrNoWorker       = &Error{Code: CodeNoWorker}
	ErrUnavailable    = &Error{Code: CodeUnavailable}
	ErrNotSetUp       = &Error{Code: CodeNotSetUp}
	ErrDenied         = &Error{Code: CodeDenied}
	ErrInternal       = &Error{Code: CodeInternal}
)

// Error gives code and message.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors of the same code equal.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// CodeOf is the code of an error of this package, or "" for any other, such as
// the end of the caller's own context.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func fail(code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}

// Standing says in words how a task stands: "is running", "has succeeded".
func Standing(s domain.State) string {
	switch s {
	case domain.StateSucceeded, domain.StateFailed, domain.StateExpired:
		return "has " + string(s)
	case domain.StateCancelled:
		return "was cancelled"
	case domain.StateQueued, domain.StateRunning:
	}
	return "is " + string(s)
}

// invalid takes over a refusal of the domain.
func invalid(err error) error {
	var i *domain.InvalidError
	if errors.As(err, &i) {
		return &Error{Code: CodeInvalid, Field: i.Field, Message: i.Field + " " + i.Rule, Err: err}
	}
	return err
}

func invalidf(field, format string, args ...any) error {
	return invalid(domain.Invalid(field, format, args...))
}

func unknownTask(taskID string) *Error {
	return fail(CodeUnknownTask, "check the id and the tenant; tasks are forgotten when the engine's retention ends", "there is no task %s", taskID)
}

// engineError gives what the engine says one of our codes. What the caller's own
// context ended stays the context's error.
func engineError(ctx context.Context, op string, err error) error {
	var ours *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return err
	case over(ctx) != nil:
		return fmt.Errorf("%s: %w", op, over(ctx))
	}
	e := classify(err)
	e.Message = op + ": " + e.Message
	return e.because(err)
}

// over is the end of a context. A call sometimes notices the deadline before the
// context itself does.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

const (
	hintSetup  = "run: wakepoint setup"
	hintEngine = "check that the engine runs and its address, then repeat"
	hintWorker = "start a worker: wakepoint worker (or wakepoint dev)"
)

func classify(err error) *Error {
	var (
		namespace  *serviceerror.NamespaceNotFound
		denied     *serviceerror.PermissionDenied
		argument   *serviceerror.InvalidArgument
		notReady   *serviceerror.WorkflowNotReady
		pre        *serviceerror.FailedPrecondition
		notAllowed *serviceerror.Unimplemented
	)
	switch {
	case errors.As(err, &namespace):
		return fail(CodeNotSetUp, hintSetup, "the namespace does not exist")
	case errors.As(err, &argument) && strings.Contains(strings.ToLower(argument.Message), "search attribute"):
		return fail(CodeNotSetUp, hintSetup, "the namespace lacks our search attributes")
	case errors.As(err, &denied):
		return fail(CodeDenied, "check the credentials for the engine", "permission denied")
	case errors.As(err, &notReady):
		return fail(CodeUnavailable, "the worker fails on this workflow: read its log", "the workflow is not ready")
	case errors.As(err, &pre) && noPoller(pre):
		return fail(CodeNoWorker, hintWorker, "no worker is polling")
	case errors.As(err, &notAllowed):
		return fail(CodeInternal, "use a newer engine", "the engine does not know this call")
	case transient(err):
		return fail(CodeUnavailable, hintEngine, "the engine gave no answer")
	}
	return fail(CodeInternal, "", "the engine refused")
}

// noPoller recognises the engine's quick refusal when nobody polled a queue of
// late. It has no type of its own.
func noPoller(err *serviceerror.FailedPrecondition) bool {
	return strings.Contains(err.Message, "poller")
}

// transient tells whether the same call may work later. What it did is unknown.
func transient(err error) bool {
	var (
		unavailable *serviceerror.Unavailable
		exhausted   *serviceerror.ResourceExhausted
		deadline    *serviceerror.DeadlineExceeded
		cancelled   *serviceerror.Canceled
		aborted     *serviceerror.Aborted
	)
	return errors.As(err, &unavailable) || errors.As(err, &exhausted) || errors.As(err, &deadline) || errors.As(err, &cancelled) ||
		errors.As(err, &aborted) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// timedOut tells whether nobody answered in time. The engine gives up a little
// earlier than it was told to.
func timedOut(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &deadline) || errors.Is(err, context.DeadlineExceeded)
}

func notFound(err error) bool {
	var nf *serviceerror.NotFound
	return errors.As(err, &nf)
}
