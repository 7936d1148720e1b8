// Package tool is the border between a task and whatever does its work: the four verbs every
// executor of tools has, what it says about a job, and the errors that tell "nothing was started"
// from "something may have been".
//
// The package knows neither the engine nor the domain. The activities call an [Executor] and map
// its answers; an executor is plain Go and can be tested without a server.
package tool

import (
	"context"
	"encoding/json"
)

// Executor starts, looks at, stops and finds the outside jobs of one tool.
//
// All four verbs are safe to repeat. An implementation keeps no state in memory that it needs:
// the process may be replaced between any two calls, and the next one may come from another
// process, on the same task queue when the handle names one.
type Executor interface {
	// Submit gets or creates the job of req.SubmissionKey. A second Submit of a key that is
	// running or has ended answers with the handle of that job and starts nothing.
	//
	// A key whose job is lost (see [StateLost]), or has ended without success, is started again
	// under the same key, but only by a request with a higher Attempt, that is, after somebody has
	// decided to repeat it: a task that expires does not wait for the end of its job, so its
	// retry comes under the key of a job that was ended meanwhile.
	//
	// The error is a [*NotStartedError] when it is sure that nothing was started. Any other
	// error is ambiguous: the key must stay, and Find runs before the next Submit.
	Submit(ctx context.Context, req Request) (Handle, error)

	// Observe says how the job is. It changes nothing outside, except that an executor may
	// finish what a crash left half done (store a result, end the remains of a lost job).
	// An error means that it could not look, and says nothing about the job.
	Observe(ctx context.Context, h Handle) (Observation, error)

	// Cancel asks the job to end and does not wait until it has: Observe tells. Cancelling a job
	// that is over is no error.
	Cancel(ctx context.Context, h Handle) error

	// Find looks a job up by its key, after a lost answer or a restart. False means that no job
	// of this key is known to have been started; it is no permission to use another key.
	Find(ctx context.Context, submissionKey string) (Handle, bool, error)
}

// LogReader is the optional ability of an executor whose jobs write logs that can be read while
// they run.
type LogReader interface {
	// Logs reads at most limit bytes of a stream ([StreamStdout], [StreamStderr]) from offset, a
	// byte position in what the tool wrote. limit <= 0 means the executor's default.
	Logs(ctx context.Context, h Handle, stream string, offset int64, limit int) (LogChunk, error)
}

// Remover is the optional ability of an executor that keeps files of a job after its end. A sweep
// calls it when the task's lifetime is over.
type Remover interface {
	// Remove deletes what is kept of the job. Removing a job that is not there is no error,
	// removing one that runs is [ErrStillRunning].
	Remove(ctx context.Context, h Handle) error
}

// The streams of [LogReader].
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// Request is what an executor is told about the job to start.
type Request struct {
	// Tenant and TaskID name the task; both are path-safe ([A-Za-z0-9._-]).
	Tenant string `json:"tenant"`
	TaskID string `json:"taskId"`
	// Attempt is the attempt of the task that this job serves, 1 or more. What the job sends back
	// carries it, so that a late word of an older attempt can be told apart.
	Attempt int `json:"attempt"`
	// SubmissionKey identifies the job outside. It must be unique in the installation (so it
	// contains the tenant) and changes only after a definite failure.
	SubmissionKey string `json:"submissionKey"`
	// Tool is the declared name of the tool.
	Tool string `json:"tool"`
	// Input is the JSON the tool is called with, already checked against the tool's schema.
	Input json.RawMessage `json:"input,omitempty"`
	// DeadlineAtMs is when the job has to be over, in milliseconds since the epoch. Zero means
	// that the executor sets no limit of its own.
	DeadlineAtMs int64 `json:"deadlineAtMs,omitempty"`
}

// Handle is how a job is addressed after Submit. It is stored in history, so it is small, and it
// is opaque to everybody but the executor that made it.
type Handle struct {
	// Executor is the kind of executor: "exec", "http", and so on.
	Executor string `json:"executor"`
	// TaskQueue is where Observe, Cancel, Find and Logs of this job must run. Empty means
	// anywhere.
	TaskQueue string `json:"taskQueue,omitempty"`
	// ID names the job within the executor.
	ID string `json:"id"`
	// Data is whatever else the executor needs to know again.
	Data json.RawMessage `json:"data,omitempty"`
}

// State is what the outside says about a job.
type State string

const (
	// StateRunning means that the job is known to be there and not over. It includes a job that is on its
	// way to start and one that is being cancelled.
	StateRunning State = "running"
	// StateSucceeded means that the job is over and its result is in Observation.Result.
	StateSucceeded State = "succeeded"
	// StateFailed means that the job is over, or never started, for the reason in Observation.Error.
	StateFailed State = "failed"
	// StateCancelled means that the job ended because it was asked to, and nothing of it runs any more.
	StateCancelled State = "cancelled"
	// StateLost means that the job is given up and left no word of how it ended. It may have done its work,
	// part of it, or nothing. Nothing of it runs any more, unless Observation.MayRun says so. Repeating it
	// keeps the key and follows the tool's effects.
	StateLost State = "lost"
	// StateUnknown means that the outside does not know the job, or cannot say whether it runs.
	StateUnknown State = "unknown"
)

// Terminal reports whether the job will not change any more by itself. [StateUnknown] is not
// terminal: a later look may know more.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateLost:
		return true
	case StateRunning, StateUnknown:
		return false
	}
	return false
}

// Observation is one look at a job.
type Observation struct {
	State State `json:"state"`
	// Progress is 0 to 100, nil when the job has not said any.
	Progress *int `json:"progress,omitempty"`
	// Stage is free text of the job about what it is doing.
	Stage string `json:"stage,omitempty"`
	// Worker says for people where the job runs, for example "host-7/pid 4711".
	Worker string `json:"worker,omitempty"`
	// Attempt is the attempt of the task that the observed job was started for, 0 when the
	// executor does not know.
	Attempt int `json:"attempt,omitempty"`
	// LastSeenAtMs is the last time the job was known to be alive, in milliseconds since the
	// epoch; for a job that is over, when it ended. Zero means never or not known.
	LastSeenAtMs int64 `json:"lastSeenAtMs,omitempty"`
	// NextInMs is when it is worth looking again, in milliseconds. Zero leaves it to the caller.
	NextInMs int64 `json:"nextInMs,omitempty"`
	// Result is set when State is succeeded.
	Result *Result `json:"result,omitempty"`
	// Error is set when State is failed or lost, and may be set when it is unknown.
	Error *Failure `json:"error,omitempty"`
	// MayRun says of a lost job that something of it may still run where nobody can look, so that a cancel is
	// not confirmed by its loss.
	MayRun bool `json:"mayRun,omitempty"`
	// Definite says that the outcome is certain: the job is over (or never started) and what is
	// said here is all there will be. Only after a definite failure may the submission key change.
	// It is false for running, lost and unknown.
	Definite bool `json:"definite"`
}

// Result is where the outcome of a job lies.
type Result struct {
	// Ref and Hash address the content in the blob store; Hash is sha-256 in hexadecimal.
	Ref  string `json:"ref,omitempty"`
	Hash string `json:"hash,omitempty"`
	// ContentType is a media type, Bytes the size of the content.
	ContentType string `json:"contentType,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"`
	// Inline is a small JSON result that was not stored; Ref and Hash are then empty and the
	// caller stores it.
	Inline json.RawMessage `json:"inline,omitempty"`
	// Truncated says that the tool wrote more than was kept.
	Truncated bool `json:"truncated,omitempty"`
}

// LogChunk is a piece of a log.
type LogChunk struct {
	Data []byte `json:"data,omitempty"`
	// Offset is where Data begins. It is greater than the offset asked for when the bytes between
	// were not kept; Skipped is how many these are.
	Offset  int64 `json:"offset"`
	Skipped int64 `json:"skipped,omitempty"`
	// Next is the offset to ask for next.
	Next int64 `json:"next"`
	// End says that the stream is complete and was read to its end.
	End bool `json:"end"`
}
