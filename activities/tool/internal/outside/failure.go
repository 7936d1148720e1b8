package outside

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// The codes of failures that these executors find themselves.
const (
	CodeInvalidRequest = "INVALID_REQUEST"       // the request itself breaks a rule
	CodeInvalidInput   = "INVALID_INPUT"         // the input can't be made into arguments
	CodeKeyReused      = "KEY_REUSED"            // the key was used for another task, tool or input
	CodeTimeout        = "TIMEOUT"               // the deadline, or a time-out of the tool, passed
	CodeNotPickedUp    = "NOT_PICKED_UP"         // no worker took the job until its deadline
	CodeRefused        = "REFUSED_BY_ENGINE"     // the server refused the start for good
	CodeTerminated     = "TERMINATED"            // somebody ended the job on the server
	CodeWorkerLost     = "WORKER_LOST"           // the job's worker stopped or fell silent
	CodeUnknownJob     = "UNKNOWN_JOB"           // the server does not know the job, or no more
	CodeSuperseded     = "SUPERSEDED"            // the job was started again for a later attempt
	CodeNoStandalone   = "STANDALONE_ACTIVITIES" // the server has no standalone activities
	CodePanic          = "PANIC"                 // the code of the job panicked
)

const (
	// TypeFailure is the type of an error whose first detail is a [tool.Failure].
	TypeFailure = "wakepoint.Failure"
	// TypeWorkerStopped is the type of an error that says that the worker stopped in the middle.
	TypeWorkerStopped = "wakepoint.WorkerStopped"
	// coreWorkerShutdown is what SDKs on Temporal's shared core (TypeScript, Python, .NET, Ruby)
	// report of an activity that they cut short because the worker stops.
	coreWorkerShutdown = "WorkerShutdown"

	maxCode    = 64
	maxDetails = 16 << 10
)

// NotStarted is the error of a Submit that started nothing.
func NotStarted(code, message, class string, cause error) error {
	return &tool.NotStartedError{
		Failure: tool.Failure{Code: code, Message: message, Severity: tool.SeverityError, Class: class},
		Cause:   cause,
	}
}

// StartError tells what the server's answer to a start means. Only what the server refuses for the
// request's own sake is definite. That it is too busy is not: the client has repeated the request
// by itself, and an earlier try may have had its effect. The id keeps a repeat harmless.
func StartError(key string, err error) error {
	if _, ok := tool.DefiniteFailure(err); ok {
		return err
	}
	var (
		invalid   *serviceerror.InvalidArgument
		namespace *serviceerror.NamespaceNotFound
		denied    *serviceerror.PermissionDenied
	)
	if errors.As(err, &invalid) || errors.As(err, &namespace) || errors.As(err, &denied) {
		return NotStarted(CodeRefused, err.Error(), tool.ClassSystem, err)
	}
	return &tool.AmbiguousError{Op: "submit", SubmissionKey: key, Cause: err}
}

// Gone reports whether the server says that there is no such job.
func Gone(err error) bool {
	var not *serviceerror.NotFound
	return errors.As(err, &not)
}

// Interrupted reports whether a job ended because its worker stopped, which says nothing about how
// far the work had come.
func Interrupted(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && (app.Type() == coreWorkerShutdown || app.Type() == TypeWorkerStopped)
}

// TimedOut gives the time-out that a job ended with.
func TimedOut(err error) (*temporal.TimeoutError, bool) {
	var late *temporal.TimeoutError
	return late, errors.As(err, &late)
}

// Failure tells in our terms why a job failed. Its code is the type of the error in
// UPPER_SNAKE, or fallback for a type that says nothing.
func Failure(err error, fallback string) *tool.Failure {
	f := &tool.Failure{Code: fallback, Severity: tool.SeverityError, Class: tool.ClassThirdParty, Retryable: true}
	if err == nil {
		f.Message = "it failed and did not say why"
		return f
	}
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		f.Message = err.Error()
		var panicked *temporal.PanicError
		if errors.As(err, &panicked) {
			f.Code, f.Message = CodePanic, panicked.Error()
		} else if late, ok := TimedOut(err); ok {
			f.Code, f.Message = CodeTimeout, late.Error()
		}
		return f
	}
	var typed tool.Failure
	if app.Type() == TypeFailure && app.Details(&typed) == nil && typed.Code != "" {
		typed.Code, typed.Retryable = code(typed.Code, fallback), !app.NonRetryable()
		typed.Severity, typed.Class = cmp.Or(typed.Severity, f.Severity), cmp.Or(typed.Class, f.Class)
		return &typed
	}
	f.Code, f.Message, f.Retryable = code(app.Type(), fallback), app.Message(), !app.NonRetryable()
	if f.Message == "" {
		f.Message = app.Error()
	}
	f.RetryAfterMs = app.NextRetryDelay().Milliseconds()
	f.Details = details(app)
	return f
}

// details are those of the error if they are small JSON: an object as it is, anything else in one.
func details(app *temporal.ApplicationError) json.RawMessage {
	var first json.RawMessage
	if !app.HasDetails() || app.Details(&first) != nil || !json.Valid(first) {
		return nil
	}
	if first[0] != '{' {
		wrapped, err := json.Marshal(map[string]json.RawMessage{"details": first})
		if err != nil {
			return nil
		}
		first = wrapped
	}
	if len(first) > maxDetails {
		return nil
	}
	return first
}

// nothingTypes are types that languages give to errors that were given none.
func nothingTypes() []string {
	return []string{"", "Error", "Exception", "errorString", "wrapError", "wrapErrors", "joinError", "fmtError"}
}

// code makes UPPER_SNAKE of a type: PaymentDeclined and payment-declined are PAYMENT_DECLINED.
func code(typ, fallback string) string {
	if slices.Contains(nothingTypes(), typ) {
		return fallback
	}
	var b strings.Builder
	rs := []rune(typ)
	for i, r := range rs {
		letter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !letter {
			r = '_'
		}
		// A word begins at a capital after a small letter, and at the last capital of several.
		begins := letter && unicode.IsUpper(r) && i > 0 &&
			(unicode.IsLower(rs[i-1]) || unicode.IsDigit(rs[i-1]) || unicode.IsUpper(rs[i-1]) && i+1 < len(rs) && unicode.IsLower(rs[i+1]))
		if begins || !letter {
			if s := b.String(); s != "" && !strings.HasSuffix(s, "_") {
				b.WriteByte('_')
			}
		}
		if letter {
			b.WriteRune(unicode.ToUpper(r))
		}
	}
	s := strings.Trim(b.String(), "_")
	if len(s) > maxCode {
		s = strings.TrimRight(s[:maxCode], "_")
	}
	if s == "" {
		return fallback
	}
	return s
}
