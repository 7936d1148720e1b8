package run_test

import (
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// The end of a task without a state was none: the call stayed open, and each look found
// the same again.
func TestEveryEndHasAState(t *testing.T) {
	t.Parallel()
	for _, state := range append(domain.States(), "", "FROZEN") {
		end := run.EndOfTask(domain.Task{ID: "t", State: state})
		checkEnd(t, "task "+string(state), end, state == domain.StateSucceeded)
		if state == "" && end.Error.Code != run.CodeTaskGone {
			t.Errorf("%+v", end.Error)
		}
	}
	for _, state := range append(run.States(), "", "FROZEN") {
		end := run.EndOfRun(state, nil, nil, nil)
		checkEnd(t, "run "+string(state), end, state == run.StateSucceeded)
	}
	own := &domain.TaskError{Code: "X", Message: "m"}
	if end := run.EndOfTask(domain.Task{State: domain.StateFailed, Error: own}); end.Error != own {
		t.Errorf("%+v", end.Error)
	}
	if end := run.EndOfRun(run.StateFailed, nil, own, nil); end.Error != own {
		t.Errorf("%+v", end.Error)
	}
}

func checkEnd(t *testing.T, what string, end run.End, well bool) {
	t.Helper()
	if !end.State.Ended() || (end.State == run.CallSucceeded) != well {
		t.Errorf("%s: %q", what, end.State)
	}
	if end.State == run.CallFailed && (end.Error == nil || end.Error.Code == "" || end.Error.Message == "") {
		t.Errorf("%s failed without a reason: %+v", what, end.Error)
	}
}
