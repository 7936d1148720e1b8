package run

import "github.com/wakepoint/wakepoint/domain"

// EndOfTask is the end of a task as that of the call that it did the work of.
func EndOfTask(t domain.Task) End {
	end := End{TaskID: t.ID, ResultRef: t.ResultRef, ResultHash: t.ResultHash, ContentType: t.ContentType, Bytes: t.ResultBytes, Error: t.Error}
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
	case domain.StateFailed:
		end.State, end.Error = CallFailed, said(end.Error, "the task failed and did not say why")
	case domain.StateQueued, domain.StateRunning:
		end.State, end.Error = CallFailed, said(end.Error, "the record of the task is that of one that goes on")
	default:
		return gone("the task has ended and left no record that can be read")
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
	case StateFailed:
		end.State, end.Error = CallFailed, said(end.Error, "the run failed and did not say why")
	case StateRunning, StateWaitingTool, StateWaitingInput, StatePaused:
		end.State, end.Error = CallFailed, said(end.Error, "the record of the run is that of one that goes on")
	default:
		return gone("the run has ended and left no record that can be read")
	}
	return end
}

// said is the error of an end that failed. Whoever reads it finds a reason in any case.
func said(e *domain.TaskError, otherwise string) *domain.TaskError {
	if e == nil || e.Code == "" && e.Message == "" {
		return &domain.TaskError{Code: CodeTaskGone, Class: domain.ClassSystem, Message: otherwise}
	}
	return e
}

// gone is the end of what left nothing that says how it ended. An end without a state
// would leave its call open for ever.
func gone(message string) End {
	return End{State: CallFailed, Error: &domain.TaskError{Code: CodeTaskGone, Class: domain.ClassSystem, Severity: domain.SeverityCritical, Message: message}}
}
