package protocol

import (
	"errors"

	"go.temporal.io/sdk/temporal"
)

// RecordFrom takes the record out of the error that closed a task's run: the reverse
// of how a task that failed, expired or was cancelled closes. False means that the
// run left no record, because it was terminated or never became a task; the error,
// that the record cannot be read. The record of a task that succeeded is the result
// of its run and no error.
func RecordFrom(closed error, rec *TaskRecord) (bool, error) {
	var (
		app      *temporal.ApplicationError
		canceled *temporal.CanceledError
	)
	switch {
	case errors.As(closed, &app):
		if app.Type() != ErrTypeTaskFailed && app.Type() != ErrTypeTaskExpired {
			return false, nil
		}
		return true, app.Details(rec)
	case errors.As(closed, &canceled):
		return true, canceled.Details(rec)
	}
	return false, nil
}
