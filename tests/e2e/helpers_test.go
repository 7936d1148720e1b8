package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// bed is an installation together with what tests do to it over and over.
type bed struct {
	*harness.Installation
	t   testing.TB
	ctx context.Context //nolint:containedctx // one test, one deadline
}

// beds counts, so that a test run twice has another tenant each time.
var beds atomic.Int64

func newBed(ctx context.Context, t testing.TB, yaml string, s *harness.Script) bed {
	t.Helper()
	if s == nil {
		s = harness.NewScript()
	}
	tenant := tenantOf(t)
	tenant = fmt.Sprintf("%s-%d", strings.TrimRight(tenant[:min(len(tenant), 28)], "-"), beds.Add(1))
	return bed{Installation: harness.Install(t, shared, tenant, yaml, s.Executors()), t: t, ctx: ctx}
}

// in is the same bed for a subtest.
func (b bed) in(t testing.TB) bed {
	b.t = t
	return b
}

func (b bed) workflowID(taskID string) string {
	return protocol.TaskWorkflowID(b.Config.Tenant, taskID)
}

// jobKey is the submission key of a task's nth outside job.
func (b bed) jobKey(taskID string) string { return b.Config.Tenant + "/" + taskID + "/1" }

func (b bed) submit(tool, taskID string) string {
	b.t.Helper()
	sub, err := b.Client.Submit(b.ctx, starter.Submission{Tool: tool, TaskID: taskID})
	require.NoError(b.t, err)
	return sub.TaskID
}

func (b bed) describe(taskID string) starter.Description {
	b.t.Helper()
	d, err := b.Client.Describe(b.ctx, taskID)
	require.NoError(b.t, err)
	return d
}

// until waits until a task is as wanted.
func (b bed) until(taskID, what string, holds func(starter.Description) bool) starter.Description {
	b.t.Helper()
	for change, err := range b.Client.Watch(b.ctx, taskID, 0) {
		require.NoError(b.t, err, "waiting for %s", what)
		if holds(change.Description) {
			return change.Description
		}
	}
	b.t.Fatalf("task %s ended as %s before %s", taskID, b.describe(taskID).Task.State, what)
	return starter.Description{}
}

func (b bed) untilState(taskID string, s domain.State) starter.Description {
	b.t.Helper()
	return b.until(taskID, "state "+string(s), func(d starter.Description) bool { return d.Task.State == s })
}

// callback brings an event by the door that answers.
func (b bed) callback(taskID, id string, e domain.Event) starter.Verdict {
	b.t.Helper()
	v, err := b.Client.Callback(b.ctx, taskID, domain.Callback{CallbackID: id, Event: e})
	require.NoError(b.t, err)
	return v
}

func (b bed) history(taskID string) []*historypb.HistoryEvent {
	b.t.Helper()
	return harness.MustHistory(b.ctx, b.t, b.Temporal, b.workflowID(taskID))
}

// exactly is a history to the last byte.
func exactly(t testing.TB, events []*historypb.HistoryEvent) string {
	t.Helper()
	out, err := protojson.Marshal(&historypb.History{Events: events})
	require.NoError(t, err)
	return string(out)
}

func start(worker string) domain.Event { return domain.Event{Type: domain.EventStart, Worker: worker} }

func progress(p float64, stage string) domain.Event {
	return domain.Event{Type: domain.EventProgress, Progress: &p, Stage: stage}
}

func succeed(hash string) domain.Event {
	return domain.Event{Type: domain.EventSucceed, ResultRef: "s3://results/" + hash, ResultHash: hash}
}
