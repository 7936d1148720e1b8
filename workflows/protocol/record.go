package protocol

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
)

// RecordFrom takes the record out of the error that closed a task's run: the reverse
// of how a task that failed, expired or was cancelled closes. False means that the
// run left no record, because it was terminated or never became a task; the error,
// that the record cannot be read. The record of a task that succeeded is the result
// of its run and no error.
func RecordFrom(closed error, rec *TaskRecord) (bool, error) {
	return recordFrom(closed, rec, ErrTypeTaskFailed, ErrTypeTaskExpired)
}

// RunRecordFrom is [RecordFrom] for the error that closed a run. The record of a run that
// succeeded is the result of its workflow and no error.
func RunRecordFrom(closed error, rec *RunRecord) (bool, error) {
	return recordFrom(closed, rec, ErrTypeRunFailed, ErrTypeRunExpired)
}

// recordFrom takes a record out of an error of one of the types, or of a cancellation.
func recordFrom(closed error, rec any, types ...string) (bool, error) {
	var (
		app      *temporal.ApplicationError
		canceled *temporal.CanceledError
	)
	switch {
	case errors.As(closed, &app):
		if !slices.Contains(types, app.Type()) {
			return false, nil
		}
		return true, app.Details(rec)
	case errors.As(closed, &canceled):
		return true, canceled.Details(rec)
	}
	return false, nil
}
