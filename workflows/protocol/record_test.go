package protocol_test

import (
	"errors"
	"fmt"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestRecordFrom(t *testing.T) {
	t.Parallel()
	rec := protocol.TaskRecord{Task: domain.Task{ID: "t1"}}
	failed := func(kind string, details ...any) error {
		return fmt.Errorf("the run: %w", temporal.NewNonRetryableApplicationError("it", kind, nil, details...))
	}
	for name, tc := range map[string]struct {
		err    error
		found  bool
		broken bool
	}{
		"failed":           {failed(protocol.ErrTypeTaskFailed, rec), true, false},
		"expired":          {failed(protocol.ErrTypeTaskExpired, rec), true, false},
		"cancelled":        {temporal.NewCanceledError(rec), true, false},
		"without details":  {failed(protocol.ErrTypeTaskFailed), true, true},
		"never a task":     {failed(protocol.ErrTypeInvalid, protocol.Problem{Field: "x"}), false, false},
		"another failure":  {errors.New("deadline exceeded"), false, false},
		"it has not ended": {nil, false, false},
	} {
		var got protocol.TaskRecord
		found, err := protocol.RecordFrom(tc.err, &got)
		if found != tc.found || (err != nil) != tc.broken {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if found && !tc.broken && got.Task.ID != "t1" {
			t.Errorf("%s: the record is %+v", name, got)
		}
	}
}

func TestRunRecordFrom(t *testing.T) {
	t.Parallel()
	rec := protocol.RunRecord{Run: run.Run{ID: "r1"}, Runtime: protocol.RuntimeBinding{Mode: protocol.ModePull, Name: "desk"}}
	failed := func(kind string, details ...any) error {
		return fmt.Errorf("the run: %w", temporal.NewNonRetryableApplicationError("it", kind, nil, details...))
	}
	for name, tc := range map[string]struct {
		err    error
		found  bool
		broken bool
	}{
		"failed":           {failed(protocol.ErrTypeRunFailed, rec), true, false},
		"expired":          {failed(protocol.ErrTypeRunExpired, rec), true, false},
		"cancelled":        {temporal.NewCanceledError(rec), true, false},
		"without details":  {failed(protocol.ErrTypeRunExpired), true, true},
		"of a task":        {failed(protocol.ErrTypeTaskFailed, protocol.TaskRecord{}), false, false},
		"never a run":      {failed(protocol.ErrTypeInvalid, protocol.Problem{Field: "x"}), false, false},
		"terminated":       {&temporal.TerminatedError{}, false, false},
		"it has not ended": {nil, false, false},
	} {
		var got protocol.RunRecord
		found, err := protocol.RunRecordFrom(tc.err, &got)
		if found != tc.found || (err != nil) != tc.broken {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if found && !tc.broken && (got.Run.ID != "r1" || got.Runtime.Name != "desk") {
			t.Errorf("%s: the record is %+v", name, got)
		}
	}
}
