package run

import (
	"encoding/json"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// CodePlanFailed is the code of a run whose plan did not succeed as a whole.
const CodePlanFailed = "PLAN_FAILED"

// PlanResult is the final answer of a run that follows a plan.
type PlanResult struct {
	Calls []PlanCall `json:"calls"`
}

// PlanCall says how one call of a plan ended.
type PlanCall struct {
	ToolCallID  string    `json:"toolCallId"`
	Tool        string    `json:"tool"`
	TaskID      string    `json:"taskId,omitempty"`
	State       CallState `json:"state"`
	ResultRef   string    `json:"resultRef,omitempty"`
	ResultHash  string    `json:"resultHash,omitempty"`
	ContentType string    `json:"contentType,omitempty"`
	Bytes       int64     `json:"bytes,omitempty"`
}

// PlanEnd sums up a plan whose calls have all ended: the final answer, or the error that
// says which did not succeed. A retry of the run would find the same ends.
func PlanEnd(req StepRequest) (json.RawMessage, *domain.TaskError) {
	out := PlanResult{Calls: []PlanCall{}}
	var failed []string
	for _, res := range req.Results {
		out.Calls = append(out.Calls, PlanCall{
			ToolCallID: res.ToolCallID, Tool: res.Tool, TaskID: res.TaskID, State: res.State,
			ResultRef: res.ResultRef, ResultHash: res.ResultHash, ContentType: res.ContentType, Bytes: res.Bytes,
		})
		if res.State != CallSucceeded {
			failed = append(failed, res.ToolCallID+" "+string(res.State))
		}
	}
	if len(failed) > 0 {
		details, err := json.Marshal(out)
		if err != nil || len(details) > domain.MaxDetails {
			details = nil
		}
		return nil, &domain.TaskError{Code: CodePlanFailed, Class: domain.ClassUser, Message: "not all calls of the plan succeeded: " + cut(strings.Join(failed, ", ")), Details: details}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, &domain.TaskError{Code: CodePlanFailed, Message: err.Error()}
	}
	return b, nil
}
