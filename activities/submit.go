package activities

import (
	"context"
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// CodeUnknownTool says that this worker has no executor for the tool.
const CodeUnknownTool = "UNKNOWN_TOOL"

// Submit gets or creates the outside job of a submission key. It is safe to
// repeat because the key is the job's lock outside; after an ambiguous answer
// the server repeats it. An error of type NotStarted is definite: nothing was
// started, and the details say why. It heartbeats while it waits.
func (a *Activities) Submit(ctx context.Context, req protocol.SubmitRequest) (protocol.SubmitResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.SubmitResult{}, err
	}
	defer beat(ctx)()
	// A job that is there already is the answer to an earlier Submit that got
	// lost. Whether it may run again is the executor's to say, so a job that
	// can be found still goes through Submit.
	h, err := ex.Submit(ctx, tool.Request{
		Tenant: req.Tenant, TaskID: req.TaskID, Attempt: req.Attempt, SubmissionKey: req.SubmissionKey,
		Tool: req.Tool, Input: req.Input, DeadlineAtMs: req.DeadlineAtMs,
	})
	var not *tool.NotStartedError
	switch {
	case errors.As(err, &not):
		return protocol.SubmitResult{}, notStarted(taskError(&not.Failure), err)
	case err != nil:
		return protocol.SubmitResult{}, err
	}
	res := protocol.SubmitResult{Handle: protocol.Handle{Executor: h.Executor, TaskQueue: h.TaskQueue, ID: h.ID, Data: h.Data}}
	// For people only: who works on it. The probe tells it again.
	if obs, err := ex.Observe(ctx, h); err == nil {
		res.Worker = obs.Worker
	}
	return res, nil
}

func notStarted(cause *domain.TaskError, err error) error {
	return temporal.NewNonRetryableApplicationError(cause.Error(), protocol.ErrTypeNotStarted, err, cause)
}

// executor finds the executor of a tool. A worker without it may be an old one
// that is being replaced, but a task that waits for that would never say so.
func (a *Activities) executor(name string) (tool.Executor, error) {
	ex, ok := a.o.Executors[name]
	if !ok {
		cause := &domain.TaskError{Code: CodeUnknownTool, Class: domain.ClassSystem, Message: "this worker has no executor for tool " + name + "; add it to the worker's wakepoint.yaml"}
		return nil, notStarted(cause, nil)
	}
	return ex, nil
}

func handleOf(h *protocol.Handle) tool.Handle {
	return tool.Handle{Executor: h.Executor, TaskQueue: h.TaskQueue, ID: h.ID, Data: h.Data}
}

// locate gives the handle of a job, by its key when it is not known.
func locate(ctx context.Context, ex tool.Executor, j protocol.Job) (tool.Handle, bool, error) {
	if j.Handle != nil {
		return handleOf(j.Handle), true, nil
	}
	return ex.Find(ctx, j.SubmissionKey)
}

// taskError puts what an executor says into the domain's terms, within its
// limits: a tool that fails with a megabyte of text has still failed.
func taskError(f *tool.Failure) *domain.TaskError {
	if f == nil {
		return &domain.TaskError{Code: "FAILED", Message: "the tool failed and did not say why"}
	}
	e := &domain.TaskError{
		Code: f.Code, Message: cut(f.Message, domain.MaxErrorText), Severity: domain.Severity(f.Severity),
		Class: domain.Class(f.Class), Retryable: f.Retryable, Details: f.Details,
	}
	if len(e.Details) > domain.MaxDetails || !json.Valid(e.Details) {
		// JSON that is none could not even be written into the answer.
		e.Details = nil
	}
	return e
}
