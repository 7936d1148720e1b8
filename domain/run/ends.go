package run

import "github.com/wakepoint/wakepoint/domain"

// EndOfTask is the end of a task as that of the call that it did the work of.
func EndOfTask(t domain.Task) End {
	end := End{ResultRef: t.ResultRef, ResultHash: t.ResultHash, ContentType: t.ContentType, Bytes: t.ResultBytes, Error: t.Error}
	switch t.State {
	case domain.StateSucceeded:
		// An error of an earlier attempt is the task's own business.
		end.State, end.Error = CallSucceeded, nil
	case domain.StateExpired:
		end.State = CallExpired
		if end.Error == nil {
			end.Error = &domain.TaskError{Code: domain.CodeExpired, Message: "the task did not end before its deadline"}
		}
	case domain.StateCancelled:
		end.State = CallCancelled
		end.Error = &domain.TaskError{Code: CodeCancelled, Message: "the task was cancelled"}
		if t.Cancel != nil && t.Cancel.Reason != "" {
			end.Error.Message = t.Cancel.Reason
		}
	case domain.StateFailed, domain.StateQueued, domain.StateRunning:
		end.State = CallFailed
	}
	return end
}

// EndOfRun is the end of a run as that of the call that it did the work of.
func EndOfRun(state State, final *Content, err *domain.TaskError, usage []Usage) End {
	end := End{Error: err, Usage: usage}
	if final != nil {
		end.ResultRef, end.ResultHash, end.ContentType, end.Bytes, end.Answer = final.Ref, final.Hash, "application/json", final.Bytes, final.Data
	}
	switch state {
	case StateSucceeded:
		end.State, end.Error = CallSucceeded, nil
	case StateExpired:
		end.State = CallExpired
	case StateCancelled:
		end.State = CallCancelled
	case StateFailed, StateRunning, StateWaitingTool, StateWaitingInput, StatePaused:
		end.State = CallFailed
	}
	return end
}
