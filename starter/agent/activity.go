package agent

import (
	"context"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// ActivityOptions is how a runtime of mode activity works.
type ActivityOptions struct {
	// Store is the installation's blob store: checkpoints above 64 KiB are there and not
	// in the message. Default: none, such a step fails.
	Store *store.Store
	// Tenant is whose runs they are. Default: that of the workflow's id.
	Tenant string
}

// Register offers f as the activity AgentStep on a Temporal worker, which polls the
// runtime's own task queue. It heartbeats when the run wants that (heartbeats: true in
// the declaration of the runtime).
func Register(r sdkworker.ActivityRegistry, f Func, o ActivityOptions) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in converter.RawValue) (converter.RawValue, error) {
		return o.step(ctx, f, in.Payload().GetData())
	}, activity.RegisterOptions{Name: protocol.ActivityAgentStep})
}

func (o ActivityOptions) step(ctx context.Context, f Func, in []byte) (converter.RawValue, error) {
	var none converter.RawValue
	var req run.StepRequest
	if err := json.Unmarshal(in, &req); err != nil {
		return none, temporal.NewNonRetryableApplicationError(fmt.Sprintf("the step cannot be read: %v", err), protocol.ErrTypeInvalid, err)
	}
	tenant, runID := o.Tenant, req.RunID
	if tenant == "" {
		var err error
		if tenant, _, err = protocol.ParseRunWorkflowID(activity.GetInfo(ctx).WorkflowExecution.ID); err != nil {
			return none, err
		}
	}
	if ref := req.CheckpointRef; ref != nil {
		data, err := stepio.Checkpoint(ctx, o.Store, &run.Content{Ref: ref.Ref, Hash: ref.Hash, Bytes: ref.Bytes})
		if err != nil {
			return none, err
		}
		req.Checkpoint, req.CheckpointRef = data, nil
	}
	resp, err := o.work(ctx, f, req)
	if err != nil {
		return none, err
	}
	if len(resp.Checkpoint) > run.MaxInline {
		c, err := stepio.Put(ctx, o.Store, tenant, runID, resp.Checkpoint)
		if err != nil {
			return none, err
		}
		resp.Checkpoint, resp.CheckpointRef = nil, &run.ContentRef{Ref: c.Ref, Hash: c.Hash, Bytes: c.Bytes}
	}
	b, err := run.EncodeResponse(resp)
	if err != nil {
		return none, err
	}
	return converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: b,
	}), nil
}

// work runs f with heartbeats, if the run wants them.
func (o ActivityOptions) work(ctx context.Context, f Func, req run.StepRequest) (run.StepResponse, error) {
	h := &hints{}
	ctx = context.WithValue(ctx, hintsKey{}, h)
	if lease := activity.GetInfo(ctx).HeartbeatTimeout; lease > 0 {
		var stop func()
		ctx, stop = beating(ctx, pulse(lease), func(ctx context.Context) bool {
			if d := h.take(); d != nil {
				activity.RecordHeartbeat(ctx, d)
			} else {
				activity.RecordHeartbeat(ctx)
			}
			return false
		})
		defer stop()
	}
	return answer(ctx, f, req), nil
}
