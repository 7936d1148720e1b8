package starter_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The bug: what a key started on two hosts has one id, and the job of the second host
// was taken for that of the first: nobody was told of it, and nobody stopped it.
func TestOrphansOfOneKeyOnTwoHosts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, h := range []string{"h1", "h2"} {
		j := job("acme/nobody/1", "running", h)
		j.Handle.ID = "hash.1"
		w.engine.SetJobs("vet", protocol.HostTaskQueue("wakepoint", h), []protocol.ListedJob{j})
	}
	out, err := w.Orphans(t.Context(), starter.OrphansRequest{Tool: "vet", Hosts: []string{"h1", "h2"}, Cancel: true})
	if err != nil || len(out.Orphans) != 2 || out.Orphans[0].TaskQueue == out.Orphans[1].TaskQueue {
		t.Errorf("%+v (%v)", out.Orphans, err)
	}
	if stopped := w.engine.Stopped(); len(stopped) != 2 {
		t.Errorf("stopped: %+v", stopped)
	}
}

// silent is an engine that never says which workers poll.
type silent struct{ polled }

func (s silent) WorkflowService() workflowservice.WorkflowServiceClient { return s }

func (silent) ListWorkers(ctx context.Context, _ *workflowservice.ListWorkersRequest, _ ...grpc.CallOption) (*workflowservice.ListWorkersResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The bug: the client waited for the list of workers for ever.
func TestHostsAreNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		other := setup(t, func(o *starter.Options) { o.Temporal, o.Namespace, o.Now = silent{polled{Engine: w.engine}}, "ns", nil })
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out, err := other.Orphans(ctx, starter.OrphansRequest{Tool: "vet"})
		if took := time.Since(began); err != nil || len(out.Unlisted) != 1 || took > time.Minute {
			t.Errorf("%+v (%v) after %s", out, err, took)
		}
	})
}
