package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Runtime is where the steps of a runtime of mode push go, declared by the operator.
type Runtime struct {
	// URL takes the steps.
	URL string
	// Secret signs; empty leaves the request unsigned.
	Secret []byte
	// Timeout bounds one request. Default: that of the step.
	Timeout time.Duration
}

// maxStepAnswer bounds the answer of a runtime: a checkpoint as large as it may be, and
// all that stands beside it.
const maxStepAnswer = run.MaxCheckpoint + 4<<20

// PrepareStep gives a step as the JSON that its runtime is sent as an activity: the
// contents of results as far as they fit, the checkpoint byte for byte, or a reference
// to a large one. The bytes are the result, so that nobody writes them anew. It doesn't
// heartbeat.
func (a *Activities) PrepareStep(ctx context.Context, req protocol.PrepareStepRequest) ([]byte, error) {
	r, err := stepio.FillByReference(ctx, a.o.Contents, req.Tenant, req.Request, req.Checkpoint)
	if err != nil {
		return nil, contentError(err)
	}
	return run.EncodeRequest(r)
}

// contentError says whether it is worth trying again.
func contentError(err error) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return temporal.NewNonRetryableApplicationError(err.Error(), protocol.ErrTypeStepFailed, err)
	}
	return err
}

// StoreContent keeps the bytes of a run in the blob store, or makes sure that those are
// there which are named by a reference and belong to the run. The place is named by
// their hash, so a repeat writes the same again. It doesn't heartbeat.
func (a *Activities) StoreContent(ctx context.Context, req protocol.StoreContentRequest) (run.Content, error) {
	resp := run.StepResponse{Checkpoint: req.Content.Data}
	if len(req.Content.Data) == 0 {
		resp = run.StepResponse{CheckpointRef: &run.ContentRef{Ref: req.Content.Ref, Hash: req.Content.Hash, Bytes: req.Content.Bytes}}
	}
	_, c, _, err := stepio.Pack(ctx, a.o.Contents, req.Tenant, req.RunID, resp)
	var invalid *domain.InvalidError
	switch {
	case errors.As(err, &invalid):
		return run.Content{}, temporal.NewNonRetryableApplicationError(invalid.Error(), protocol.ErrTypeInvalid, err)
	case err != nil:
		return run.Content{}, err
	}
	return *c, nil
}

// ForgetContents deletes contents of a run from the blob store that it does not need any
// more. Nothing that is another's is deleted. Deleting twice is no error. It doesn't
// heartbeat.
func (a *Activities) ForgetContents(ctx context.Context, req protocol.ForgetContentsRequest) error {
	if a.o.Contents == nil {
		return nil
	}
	for _, ref := range req.Refs {
		if r, err := blobref.Parse(ref); err != nil || r.Tenant != req.Tenant || r.RunID != req.RunID {
			continue
		}
		if err := a.o.Contents.Delete(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// PushStep sends a step to its runtime's URL, signed as a webhook is (Standard
// Webhooks). 200 brings the answer, 202 means that the runtime will commit later. Any
// other answer fails the attempt; 4xx but for 408, 425 and 429 for good. The id of the
// message is the token of the step, so that a repeat can be told. It heartbeats.
func (a *Activities) PushStep(ctx context.Context, req protocol.PushStepRequest) (protocol.PushStepResult, error) {
	defer beat(ctx)()
	rt, ok := a.o.Runtimes[req.Runtime]
	if !ok {
		return protocol.PushStepResult{}, stepFailed(true, "no runtime %s of mode push is declared in the worker's wakepoint.yaml", req.Runtime)
	}
	if rt.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rt.Timeout)
		defer cancel()
	}
	step, err := stepio.Fill(ctx, a.o.Contents, req.Tenant, req.Request, req.Checkpoint)
	if err != nil {
		return protocol.PushStepResult{}, contentError(err)
	}
	body, err := run.EncodeRequest(step)
	if err != nil {
		return protocol.PushStepResult{}, err
	}
	r, err := newRequest(ctx, http.MethodPost, rt.URL, bytes.NewReader(body))
	if err != nil {
		return protocol.PushStepResult{}, stepFailed(true, "the url of runtime %s is no http or https URL", req.Runtime)
	}
	stamp := strconv.FormatInt(a.o.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "wakepoint")
	r.Header.Set("Webhook-Id", step.StepToken)
	r.Header.Set("Webhook-Timestamp", stamp)
	if step.Traceparent != "" {
		r.Header.Set("Traceparent", step.Traceparent)
	}
	if len(rt.Secret) > 0 {
		r.Header.Set("Webhook-Signature", sign(rt.Secret, step.StepToken, stamp, body))
	}
	resp, err := a.o.HTTP.Do(r)
	if err != nil {
		return protocol.PushStepResult{}, stepUnheard("the runtime could not be reached: %v", withoutURL(err))
	}
	defer drain(resp.Body)
	return a.stepAnswer(ctx, req, resp)
}

func stepFailed(final bool, format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), protocol.ErrTypeStepFailed, temporal.ApplicationErrorOptions{
		NonRetryable: final, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// stepUnheard is a request whose answer did not come: the runtime may be at work on it.
func stepUnheard(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), protocol.ErrTypeStepUnheard, temporal.ApplicationErrorOptions{
		Category: temporal.ApplicationErrorCategoryBenign,
	})
}

func (a *Activities) stepAnswer(ctx context.Context, req protocol.PushStepRequest, resp *http.Response) (protocol.PushStepResult, error) {
	switch code := resp.StatusCode; code {
	case http.StatusAccepted:
		return protocol.PushStepResult{Accepted: true}, nil
	case http.StatusOK:
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return protocol.PushStepResult{}, stepFailed(false, "the runtime answered %s", status(resp))
	default:
		return protocol.PushStepResult{}, stepFailed(code >= 400 && code < 500, "the runtime answered %s", status(resp))
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxStepAnswer+1))
	if err != nil {
		return protocol.PushStepResult{}, stepUnheard("the runtime's answer broke off: %v", err)
	}
	if len(b) > maxStepAnswer {
		return protocol.PushStepResult{}, stepFailed(false, "the runtime's answer has more than %d bytes", maxStepAnswer)
	}
	var answer run.StepResponse
	if err := json.Unmarshal(b, &answer); err != nil {
		return protocol.PushStepResult{}, stepFailed(false, "the runtime's answer is no step response: %v", err)
	}
	packed, checkpoint, final, err := stepio.Pack(ctx, a.o.Contents, req.Tenant, req.RunID, answer)
	if err != nil {
		return protocol.PushStepResult{}, stepFailed(false, "the runtime's answer: %v", err)
	}
	return protocol.PushStepResult{Commit: &protocol.Commit{
		Step: req.Request.Step, StepToken: req.Request.StepToken, Response: packed, Checkpoint: checkpoint, Final: final,
	}}, nil
}
