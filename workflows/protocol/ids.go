package protocol

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// The parts in the middle of workflow ids.
const (
	kindTask     = "task"
	kindDelivery = "delivery"
	kindRun      = "run"
	kindSweep    = "sweep"
)

// TaskWorkflowID is `<tenant>/task/<taskId>`.
func TaskWorkflowID(tenant, taskID string) string { return tenant + "/" + kindTask + "/" + taskID }

// ParseTaskWorkflowID takes a task's workflow id apart.
func ParseTaskWorkflowID(id string) (tenant, taskID string, err error) {
	return parseWorkflowID(id, kindTask)
}

// RunWorkflowID is `<tenant>/run/<runId>`.
func RunWorkflowID(tenant, runID string) string { return tenant + "/" + kindRun + "/" + runID }

// ParseRunWorkflowID takes a run's workflow id apart.
func ParseRunWorkflowID(id string) (tenant, runID string, err error) {
	return parseWorkflowID(id, kindRun)
}

// DeliveryWorkflowID is `<tenant>/delivery/<sha256 of the key>`, so that any
// key fits and its text stays out of ids, which are never encrypted.
func DeliveryWorkflowID(tenant, key string) string {
	sum := sha256.Sum256([]byte(key))
	return tenant + "/" + kindDelivery + "/" + hex.EncodeToString(sum[:])
}

// SweepScheduleID is the id of the schedule that sweeps: `<tenant>/sweep` for the
// store of results, `<tenant>/sweep/<host>` for the jobs of a host. The engine adds
// the time to it for the id of each workflow.
func SweepScheduleID(tenant, host string) string {
	if host == "" {
		return tenant + "/" + kindSweep
	}
	return tenant + "/" + kindSweep + "/" + host
}

func parseWorkflowID(id, kind string) (tenant, rest string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[1] != kind {
		return "", "", domain.Invalid("workflowId", "must be <tenant>/%s/<id>, not %q", kind, id)
	}
	if err := domain.CheckTenant(parts[0]); err != nil {
		return "", "", err
	}
	if err := domain.CheckID(kind+"Id", parts[2]); err != nil {
		return "", "", err
	}
	return parts[0], parts[2], nil
}

// The prefixes of update ids. Temporal has one space of update ids for a
// workflow, whatever the update's name: without them a callback id that equals
// the id of an answer would be answered with that answer's outcome.
const (
	prefixCallback = "cb/"
	prefixAnswer   = "ans/"
	prefixHashed   = "#"
)

// maxUpdateID is the longest part after the prefix that is used as it is.
const maxUpdateID = 160

// CallbackUpdateID is the update id of a callback.
func CallbackUpdateID(callbackID string) string { return prefixCallback + fit(callbackID) }

// AnswerUpdateID is the update id of an answer: one per question and attempt to
// answer it the same way, so that two people who differ are told apart.
func AnswerUpdateID(questionID, digest string) string {
	return prefixAnswer + fit(questionID+"/"+digest)
}

// fit hashes an id that is too long, or that looks like a hashed one.
func fit(id string) string {
	if len(id) <= maxUpdateID && !strings.HasPrefix(id, prefixHashed) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return prefixHashed + base64.RawURLEncoding.EncodeToString(sum[:])
}

// LeaseActivityID is the id of the activity that holds the lease of an
// attempt. A worker outside heartbeats it by this id.
func LeaseActivityID(attempt int) string { return "lease-" + itoa(attempt) }

// CallTaskID is the id of the task that does the work of a call of a run: it follows
// from the call, so that a start whose answer was lost finds its task again.
func CallTaskID(runID string, step int, toolCallID string) string {
	return domain.PrefixCall + callHash(runID, step, toolCallID)
}

// CallWaiterID is as whom a run waits for a task of a call that others share.
func CallWaiterID(runID string, step int, toolCallID string) string {
	return "call-" + callHash(runID, step, toolCallID)
}

// SubRunID is the id of the run that does the work of a call.
func SubRunID(runID string, step int, toolCallID string) string {
	return domain.PrefixSubRun + callHash(runID, step, toolCallID)
}

func callHash(runID string, step int, toolCallID string) string {
	// A run id holds no zero byte, so the parts cannot run together.
	sum := sha256.Sum256([]byte(runID + "\x00" + itoa(step) + "\x00" + toolCallID))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// StepToken is the token of an attempt of a step. It follows from the execution that
// hands it out, so that a run that was reset gives others than before.
func StepToken(executionID string, step, attempt int) string {
	sum := sha256.Sum256([]byte(executionID + "\x00" + itoa(step) + "\x00" + itoa(attempt)))
	return "step-" + itoa(step) + "-" + itoa(attempt) + "-" + hex.EncodeToString(sum[:8])
}
