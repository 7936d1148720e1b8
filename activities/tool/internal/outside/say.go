package outside

import (
	"fmt"
	"strings"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// Remembers says how long a server knows a job that is over.
	Remembers = "until the retention of the Temporal namespace is over"
	// CancelReason is what a job is told when it is cancelled.
	CancelReason = "asked by Wakepoint"
	// RunningStage is the stage of a job that a worker has and that tells none.
	RunningStage = "running"
)

// WaitingStage is the stage of a job that no worker has taken yet.
func WaitingStage(taskQueue string) string {
	return "waiting for a worker of task queue " + taskQueue
}

// Unknown is the look at a job that the server does not know.
func Unknown(id string) tool.Observation {
	return tool.Observation{State: tool.StateUnknown, Error: &tool.Failure{
		Code: CodeUnknownJob, Message: fmt.Sprintf("the Temporal server does not know %q, or no more", id),
		Severity: tool.SeverityError, Class: tool.ClassSystem,
	}}
}

// Terminated is the failure of a job that somebody ended on the server. It is not repeated by
// itself: that would be against what was meant.
func Terminated(reason string) *tool.Failure {
	f := &tool.Failure{Code: CodeTerminated, Message: "terminated in Temporal", Severity: tool.SeverityError, Class: tool.ClassUser}
	if reason != "" {
		f.Message += ": " + reason
	}
	return f
}

// Quote makes a string of the server's list queries.
func Quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
