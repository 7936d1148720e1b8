package harness

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	historypb "go.temporal.io/api/history/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Bed is an installation together with what tests do to it over and over. Every
// method ends the test when something goes wrong.
type Bed struct {
	*Installation
	T   testing.TB
	Ctx context.Context //nolint:containedctx // one test, one deadline
}

// beds counts, so that a test run twice has another tenant each time.
var beds atomic.Int64

// NewBed installs on an engine, for a tenant named after the test.
func NewBed(ctx context.Context, t testing.TB, e *Engine, yaml string, s *Script) Bed {
	t.Helper()
	if s == nil {
		s = NewScript()
	}
	return Bed{Installation: Install(t, e, tenantOf(t), yaml, s.Executors()), T: t, Ctx: ctx}
}

var notID = regexp.MustCompile(`[^a-z0-9]+`)

func tenantOf(t testing.TB) string {
	const room = 28 // of 32, for the number
	s := notID.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	s = strings.Trim(s[:min(len(s), room)], "-")
	return fmt.Sprintf("%s-%d", s, beds.Add(1))
}

// WorkflowID is the id of a task's workflow.
func (b Bed) WorkflowID(taskID string) string {
	return protocol.TaskWorkflowID(b.Config.Tenant, taskID)
}

// JobKey is the submission key of a task's nth outside job, 1 for the first.
func (b Bed) JobKey(taskID string, n int) string {
	return fmt.Sprintf("%s/%s/%d", b.Config.Tenant, taskID, n)
}

// Submit starts a task.
func (b Bed) Submit(tool, taskID string) {
	b.T.Helper()
	_, err := b.Client.Submit(b.Ctx, starter.Submission{Tool: tool, TaskID: taskID})
	must(b.T, err)
}

// Park starts a task and waits until its first workflow task is over, so that
// what comes next finds it waiting.
func (b Bed) Park(tool, taskID string) {
	b.T.Helper()
	b.Submit(tool, taskID)
	b.Describe(taskID)
}

// Describe tells how a task stands.
func (b Bed) Describe(taskID string) starter.Description {
	b.T.Helper()
	d, err := b.Client.Describe(b.Ctx, taskID)
	must(b.T, err)
	return d
}

// Until waits until a task is as wanted.
func (b Bed) Until(taskID, what string, holds func(starter.Description) bool) starter.Description {
	b.T.Helper()
	for change, err := range b.Client.Watch(b.Ctx, taskID, 0) {
		if err != nil {
			b.T.Fatalf("waiting for %s: %v", what, err)
		}
		if holds(change.Description) {
			return change.Description
		}
	}
	b.T.Fatalf("task %s ended as %s before %s", taskID, b.Describe(taskID).Task.State, what)
	return starter.Description{}
}

// UntilState waits until a task is in a state.
func (b Bed) UntilState(taskID string, s domain.State) starter.Description {
	b.T.Helper()
	return b.Until(taskID, "state "+string(s), func(d starter.Description) bool { return d.Task.State == s })
}

// UntilClosed waits until the workflow of a task has closed.
func (b Bed) UntilClosed(taskID string) starter.Description {
	b.T.Helper()
	var d starter.Description
	Until(b.T, 3*time.Minute, "task "+taskID+" is closed", func() bool {
		d = b.Describe(taskID)
		return d.Closed
	})
	return d
}

// Callback brings an event by the door that answers.
func (b Bed) Callback(taskID, callbackID string, e domain.Event) starter.Verdict {
	b.T.Helper()
	v, err := b.Client.Callback(b.Ctx, taskID, domain.Callback{CallbackID: callbackID, Event: e})
	must(b.T, err)
	return v
}

// Signal brings an event by the door that does not answer.
func (b Bed) Signal(taskID, callbackID string, e domain.Event) {
	b.T.Helper()
	must(b.T, b.Client.Signal(b.Ctx, taskID, domain.Callback{CallbackID: callbackID, Event: e}))
}

// History is that of a task's current run.
func (b Bed) History(taskID string) []*historypb.HistoryEvent {
	b.T.Helper()
	events, err := History(b.Ctx, b.Temporal, b.WorkflowID(taskID), "")
	must(b.T, err)
	return events
}

// NewClient is another way in to the same tenant.
func (b Bed) NewClient(change func(*starter.Options)) *starter.Client {
	b.T.Helper()
	o := starter.Options{Temporal: b.Temporal, Config: b.Config, Store: b.Store}
	change(&o)
	c, err := starter.New(o)
	must(b.T, err)
	return c
}

// Start is the event of an attempt that begins.
func Start(worker string) domain.Event { return domain.Event{Type: domain.EventStart, Worker: worker} }

// Progress is the event of a progress, with a stage or without.
func Progress(percent float64, stage string) domain.Event {
	return domain.Event{Type: domain.EventProgress, Progress: &percent, Stage: stage}
}

// Succeed is the event of a result that lies somewhere else.
func Succeed(hash string) domain.Event {
	return domain.Event{Type: domain.EventSucceed, ResultRef: "s3://results/" + hash, ResultHash: hash}
}

// Fail is the event of a failure.
func Fail(code string, retryable bool) domain.Event {
	return domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: code, Message: "it did not work"}, Retryable: &retryable}
}

// Attempt makes an event name its attempt.
func Attempt(n int, e domain.Event) domain.Event {
	e.Attempt = n
	return e
}
