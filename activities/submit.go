package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// submitSpare is left of a try for what follows the request.
const submitSpare = 2 * time.Second

// maxUnanswered is how often a submission is repeated within an attempt when it has
// no answer; with the pauses between the tries that takes about three minutes. A
// refusal for now does not count.
const maxUnanswered = 10

// CodeUnknownTool says that this worker has no executor for the tool.
const CodeUnknownTool = "UNKNOWN_TOOL"

// note is what a try to submit leaves to the next one, in its heartbeat details.
type note struct {
	protocol.RunNote
	seen
	// Told says that the task was told of the start.
	Told bool `json:"told,omitempty"`
	// Try is the server's try that left the note.
	Try int32 `json:"try,omitempty"`
}

// at reads a note in a try. It vouches for the try before only: one whose heartbeats
// did not arrive may have submitted, on any host.
func (n note) at(try int32) note {
	if try > n.Try+1 {
		n.Begun, n.Host = true, ""
	}
	return n
}

// noteOf reads what the try before left. A try that left nothing was killed before
// it could, or its word was lost; it counts as begun, somewhere.
func noteOf(ctx context.Context) (note, error) {
	var n note
	if activity.HasHeartbeatDetails(ctx) {
		err := activity.GetHeartbeatDetails(ctx, &n)
		return n.at(activity.GetInfo(ctx).Attempt), err
	}
	n.Begun = activity.GetInfo(ctx).Attempt > 1
	return n, nil
}

// Submit gets or creates the outside job of a submission key. Before it repeats a
// submission whose answer it does not know it looks for the job; one of a tool with
// unsafe effects it repeats only if that surely starts no second one, or a person
// decided so. An error of type NotStarted is definite, one of type OutcomeUnknown
// says that nobody can know; after any other the server repeats it. It heartbeats.
func (a *Activities) Submit(ctx context.Context, req protocol.SubmitRequest) (protocol.SubmitResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.SubmitResult{}, err
	}
	before, err := noteOf(ctx)
	if err != nil {
		return protocol.SubmitResult{}, err
	}
	h, _, err := a.submit(ctx, ex, req, before)
	if err != nil {
		return protocol.SubmitResult{}, err
	}
	return protocol.SubmitResult{Handle: handleTo(h), Worker: workerOf(ctx, ex, h)}, nil
}

// submit is one try. It gives the note that its own heartbeats carried.
func (a *Activities) submit(ctx context.Context, ex tool.Executor, req protocol.SubmitRequest, before note) (tool.Handle, note, error) {
	before.Try = activity.GetInfo(ctx).Attempt
	repeat, was := before.Begun || req.RepeatOf > 0, before
	// A person decided about what was unknown then; what has become unknown since is
	// for a person again.
	req.Decided = req.Decided && !before.Begun && req.RepeatOf != req.Attempt
	if !before.Begun {
		before.Host = req.RepeatHost
	}
	n := note{RunNote: protocol.RunNote{Host: a.o.Host, Begun: true, Error: before.Error, Unanswered: before.Unanswered}, Try: before.Try}
	if repeat && before.Host != a.o.Host {
		// A job may be on a host that this try knows nothing of, and the one after
		// it should know that.
		n.Host = before.Host
	}
	// The first heartbeat is sent at once: if this try dies, the next knows. A task that
	// ends meanwhile cancels the activity, but not the request: to break it off would be
	// to lose the answer, and with it the way to stop the job.
	unbroken, release := unbroken(ctx)
	defer release()
	activity.RecordHeartbeat(ctx, n)
	stop := beat(unbroken, n)
	defer stop()
	if repeat {
		h, found, err := a.adopt(ctx, ex, req, before)
		if err != nil {
			stop()
			activity.RecordHeartbeat(ctx, was)
		}
		if found || err != nil {
			return h, n, a.submitError(err, repeat)
		}
	}
	h, err := ex.Submit(unbroken, tool.Request{
		Tenant: req.Tenant, TaskID: req.TaskID, Attempt: req.Attempt, SubmissionKey: req.SubmissionKey,
		Tool: req.Tool, Input: req.Input, DeadlineAtMs: req.DeadlineAtMs,
	})
	if errors.Is(err, tool.ErrNotStarted) && repeat && !req.Decided && !a.surelyNone(ex, before) {
		return h, n, notThisTime(err)
	}
	if err != nil && !errors.Is(err, tool.ErrThrottled) && !errors.Is(err, tool.ErrNotStarted) {
		// The next try, or a person, wants to know why there was no answer.
		stop()
		n.Error = cut(err.Error(), domain.MaxErrorText/2)
		if n.Unanswered++; n.Unanswered >= maxUnanswered {
			return h, n, gaveUp(n)
		}
		activity.RecordHeartbeat(ctx, n)
	}
	if errors.Is(err, tool.ErrThrottled) {
		// Surely nothing was started, so the next try is no repeat of this one.
		stop()
		activity.RecordHeartbeat(ctx, was)
	}
	return h, n, a.submitError(err, repeat)
}

// adopt looks for the job of a submission whose answer is not known. Not found and
// no error means that it may be submitted again.
func (a *Activities) adopt(ctx context.Context, ex tool.Executor, req protocol.SubmitRequest, before note) (tool.Handle, bool, error) {
	h, found, err := a.lookFor(ctx, ex, req)
	if err != nil {
		return h, false, err
	}
	if found {
		again, err := a.mayRunAgain(ctx, ex, req, h, before.Begun)
		return h, !again, err
	}
	switch {
	case req.Effects != domain.EffectsUnsafe, req.Decided, tool.PromisesOf(ex).SubmitOnce == tool.ScopeAlways, a.surelyNone(ex, before):
		return tool.Handle{}, false, nil
	}
	why := "the submission had no answer"
	if before.Error != "" {
		why += " (" + before.Error + ")"
	}
	if tool.PromisesOf(ex).Find == tool.FindNone {
		why += ", and nobody can be asked for a job under key " + req.SubmissionKey
	} else {
		why += ", and the outside does not know a job under key " + req.SubmissionKey
	}
	cause := &domain.TaskError{
		Code: domain.CodeOutcomeUnknown, Class: domain.ClassSystem, Message: cut(why+"; it may have been started all the same", domain.MaxErrorText),
	}
	return tool.Handle{}, false, temporal.NewNonRetryableApplicationError(cause.Error(), protocol.ErrTypeOutcomeUnknown, nil, cause)
}

// lookFor looks for the job of an earlier submission: where it was, if that is known,
// else by its key.
func (a *Activities) lookFor(ctx context.Context, ex tool.Executor, req protocol.SubmitRequest) (tool.Handle, bool, error) {
	if req.RepeatHandle != nil {
		h := handleOf(req.RepeatHandle)
		obs, err := ex.Observe(ctx, h)
		switch {
		case errors.Is(err, tool.ErrUnknownHandle), errors.Is(err, tool.ErrWrongHost):
		case err != nil:
			return h, false, err
		case obs.State != tool.StateUnknown:
			return h, true, nil
		}
	}
	return ex.Find(ctx, req.SubmissionKey)
}

// unbroken is ctx without its cancellation, up to shortly before the time-out of the
// try.
func unbroken(ctx context.Context) (context.Context, context.CancelFunc) {
	free := context.WithoutCancel(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(free)
	}
	// Of a short try less is left.
	const share = 10
	return context.WithDeadline(free, deadline.Add(-min(submitSpare, time.Until(deadline)/share)))
}

// surelyNone says that an earlier submission of a key that is not found has started
// nothing, and never will.
func (a *Activities) surelyNone(ex tool.Executor, before note) bool {
	p := tool.PromisesOf(ex)
	return p.Find == tool.FindSure || p.SubmitOnce == tool.ScopeHost && before.Host == a.o.Host && a.o.Host != ""
}

// gaveUp ends the attempt of a submission that has no answer however often it is
// repeated: how often the work is tried is the tool's to say.
func gaveUp(n note) error {
	cause := &domain.TaskError{
		Code: domain.CodeOutcomeUnknown, Class: domain.ClassThirdParty,
		Message: cut(fmt.Sprintf("the submission had no answer %d times, at last: %s", n.Unanswered, n.Error), domain.MaxErrorText),
	}
	return temporal.NewNonRetryableApplicationError(cause.Error(), protocol.ErrTypeOutcomeUnknown, nil, cause)
}

// notThisTime is a submission that surely started nothing, after one of which that
// is not known: the key stays, whatever the effects.
func notThisTime(err error) error {
	cause := &domain.TaskError{Code: domain.CodeOutcomeUnknown, Class: domain.ClassSystem}
	cause.Message = "the answer to the submission was lost, and its repetition was refused"
	var not *tool.NotStartedError
	if errors.As(err, &not) {
		cause.Message = cut(cause.Message+": "+not.Failure.Code+": "+not.Failure.Message, domain.MaxErrorText)
	}
	return temporal.NewNonRetryableApplicationError(cause.Error(), protocol.ErrTypeOutcomeUnknown, err, cause)
}

// mayRunAgain tells whether the job that was found is of an earlier attempt and
// over without a result, so that the executor may start it once more.
func (a *Activities) mayRunAgain(ctx context.Context, ex tool.Executor, req protocol.SubmitRequest, h tool.Handle, ownTry bool) (bool, error) {
	obs, err := ex.Observe(ctx, h)
	if err != nil {
		return false, err
	}
	of := obs.Attempt
	if of == 0 && !ownTry {
		of = req.RepeatOf
	}
	over := obs.State.Terminal() && obs.State != tool.StateSucceeded
	return over && of != 0 && of < req.Attempt, nil
}

// submitError puts an executor's error into the words of the protocol.
func (a *Activities) submitError(err error, repeat bool) error {
	var not *tool.NotStartedError
	switch {
	case errors.As(err, &not):
		return notStarted(taskError(&not.Failure), err, not.Failure.RetryAfterMs)
	case errors.Is(err, tool.ErrThrottled) && repeat:
		return throttled(err, protocol.ErrTypeThrottledRepeat)
	case errors.Is(err, tool.ErrThrottled):
		return throttled(err, protocol.ErrTypeThrottled)
	}
	return err
}

// throttled says when to repeat a call that the outside refused for now.
func throttled(err error, kind string) error {
	var t *tool.ThrottledError
	after := time.Duration(0)
	if errors.As(err, &t) {
		after = min(t.After, domain.MaxRetryAfterMs*time.Millisecond)
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), kind,
		temporal.ApplicationErrorOptions{NextRetryDelay: after, Cause: err})
}

func notStarted(cause *domain.TaskError, err error, retryAfterMs int64) error {
	return temporal.NewNonRetryableApplicationError(cause.Error(), protocol.ErrTypeNotStarted, err, cause, retryAfterMs)
}

// executor finds the executor of a tool. A worker without it may be an old one
// that is being replaced, but a task that waits for that would never say so.
func (a *Activities) executor(name string) (tool.Executor, error) {
	ex, ok := a.o.Executors[name]
	if !ok {
		cause := &domain.TaskError{Code: CodeUnknownTool, Class: domain.ClassSystem, Message: "this worker has no executor for tool " + name + "; add it to the worker's wakepoint.yaml"}
		return nil, notStarted(cause, nil, 0)
	}
	return ex, nil
}

// workerOf says for people who works on a job. The probe tells it again.
func workerOf(ctx context.Context, ex tool.Executor, h tool.Handle) string {
	obs, err := ex.Observe(ctx, h)
	if err != nil {
		return ""
	}
	return cut(obs.Worker, domain.MaxWorker)
}

func handleOf(h *protocol.Handle) tool.Handle {
	return tool.Handle{Executor: h.Executor, TaskQueue: h.TaskQueue, ID: h.ID, Data: h.Data}
}

func handleTo(h tool.Handle) protocol.Handle {
	return protocol.Handle{Executor: h.Executor, TaskQueue: h.TaskQueue, ID: h.ID, Data: h.Data}
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
	// One by one, so that a word that is none takes no other with it.
	for _, field := range []struct {
		bad  domain.TaskError
		drop func()
	}{
		{domain.TaskError{Code: e.Code}, func() { e.Code = "FAILED" }},
		{domain.TaskError{Severity: e.Severity}, func() { e.Severity = "" }},
		{domain.TaskError{Class: e.Class}, func() { e.Class = "" }},
	} {
		if (domain.Event{Type: domain.EventFail, Error: &field.bad}).Validate() != nil {
			field.drop()
		}
	}
	return e
}
