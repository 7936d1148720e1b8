package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// maxKey bounds a submission key, in bytes: it travels in a header and in a URL.
	maxKey = 512
	// maxInput bounds the input, in bytes, as the contract bounds any request.
	maxInput = 1 << 20
	// maxSaid is how much is read of an answer that refuses, in bytes.
	maxSaid = 64 << 10
)

// Submit POSTs the input under the key, once. What the answer says of the job is in statusRules;
// without an answer the job may have been started, unless there was no connection to begin with.
// Whether a second Submit of a key starts a second job is the service's to say; see
// [Executor.Promises] and [tool.Executor]. A result that came at once is in the handle, or stored
// before Submit returns.
func (e *Executor) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	if len(bytes.TrimSpace(req.Input)) == 0 {
		req.Input = json.RawMessage("{}")
	}
	if rule := brokenRule(req); rule != "" {
		return tool.Handle{}, &tool.NotStartedError{Failure: *failure(CodeInvalidRequest, rule, tool.ClassUser, false)}
	}
	if req.DeadlineAtMs > 0 && time.Now().UnixMilli() >= req.DeadlineAtMs {
		return tool.Handle{}, &tool.NotStartedError{Failure: *failure(CodeTimeout, "the deadline has passed already", tool.ClassUser, false)}
	}
	h, err := e.post(ctx, req)
	switch {
	case err == nil, errors.Is(err, tool.ErrThrottled), errors.Is(err, tool.ErrNotStarted):
		return h, err
	}
	return tool.Handle{}, &tool.AmbiguousError{Op: "submit", SubmissionKey: req.SubmissionKey, Cause: err}
}

func brokenRule(req tool.Request) string {
	outside := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f })
	}
	switch {
	case req.SubmissionKey == "" || len(req.SubmissionKey) > maxKey || outside(req.SubmissionKey):
		return fmt.Sprintf("submissionKey must have 1 to %d printable ASCII characters and no spaces: it travels in a header", maxKey)
	case req.Tenant == "" || outside(req.Tenant):
		return "tenant must not be empty, and of printable ASCII characters"
	case req.TaskID == "" || outside(req.TaskID):
		return "taskId must not be empty, and of printable ASCII characters"
	case req.Attempt < 1:
		return "attempt must be 1 or more"
	case req.DeadlineAtMs < 0:
		return "deadlineAtMs must not be negative"
	case len(req.Input) > maxInput:
		return fmt.Sprintf("input must have at most %d bytes", maxInput)
	case !json.Valid(req.Input):
		return "input must be JSON"
	}
	return ""
}

// post makes the request and reads the answer. An error that is not of a kind of its own is
// ambiguous.
func (e *Executor) post(ctx context.Context, req tool.Request) (tool.Handle, error) {
	a, err := e.send(ctx, nethttp.MethodPost, e.urls.submit, e.submitHeader(req), req.Input)
	if err != nil {
		return tool.Handle{}, err
	}
	defer a.close()
	d := handleData{SubmissionKey: req.SubmissionKey, Tenant: req.Tenant, TaskID: req.TaskID}
	rule := ruleFor(a.StatusCode, e.cfg.knowsKeys())
	switch rule.verdict {
	case verdictDone:
		return e.done(ctx, d, a)
	case verdictAccepted:
		j := job{}
		// A body that can't be read is no loss when there is a Location.
		if body, err := a.read(maxJob); err == nil {
			if read, err := e.reader.parseJob(body); err == nil {
				j = read
			}
		}
		return e.accepted(d, a, j)
	case verdictNotStarted:
		f := e.said(a, failure(rule.code, "the service answered "+a.status(), rule.class, rule.retryable))
		f.RetryAfterMs = max(f.RetryAfterMs, a.retryAfter().Milliseconds())
		return tool.Handle{}, &tool.NotStartedError{Failure: f}
	case verdictThrottled:
		return tool.Handle{}, e.refused(a)
	case verdictAmbiguous:
	}
	return tool.Handle{}, e.refused(a)
}

// submitHeader is what a service needs to know the job again and to call back.
func (e *Executor) submitHeader(req tool.Request) nethttp.Header {
	h := nethttp.Header{}
	h.Set("Content-Type", typeJSON)
	h.Set(e.cfg.KeyHeader, req.SubmissionKey)
	h.Set(headerTask, req.TaskID)
	h.Set(headerTenant, req.Tenant)
	h.Set(headerAttempt, strconv.Itoa(req.Attempt))
	if req.DeadlineAtMs > 0 {
		h.Set(headerDeadline, strconv.FormatInt(req.DeadlineAtMs, 10))
	}
	if e.cfg.CallbackInfo != "" {
		h.Set(headerCallback, strings.NewReplacer("{tenant}", escape(req.Tenant), "{task}", escape(req.TaskID)).Replace(e.cfg.CallbackInfo))
	}
	return h
}

// done reads the answer of a service that is done at once. It is a job all the same when it looks
// like one and there is a place to look at it: services answer a repeated POST with the job they
// have, and a job that runs must never be shown as a result.
func (e *Executor) done(ctx context.Context, d handleData, a *answer) (tool.Handle, error) {
	if a.StatusCode == nethttp.StatusNoContent || a.StatusCode == nethttp.StatusResetContent {
		d.Outcome = &outcome{Result: nullResult(), AtMs: a.at.UnixMilli()}
		return d.handle()
	}
	mayBeJob := e.urls.status != "" || e.urls.find != "" || e.cfg.Callback || a.Header.Get("Location") != ""
	limit := int64(maxInline)
	if mayBeJob {
		limit = maxJob
	}
	var res *tool.Result
	var fail *tool.Failure
	c, err := a.begin(limit, e.cfg.MaxResultBytes)
	switch {
	case errors.Is(err, errTooLarge):
		fail = e.tooLarge()
	case err != nil:
		return tool.Handle{}, fmt.Errorf("the service answered %s, and the body could not be read: %w", a.status(), err)
	default:
		if mayBeJob && c.whole {
			if j, err := e.reader.parseJob(c.head); err == nil && (j.state == tool.StateRunning || j.state != stateUnread && j.id != "") {
				return e.accepted(d, a, j)
			}
		}
		if res, fail, err = e.takeBody(ctx, d, c, a.Header.Get("Content-Type")); err != nil {
			return tool.Handle{}, fmt.Errorf("the service answered %s: %w", a.status(), err)
		}
	}
	d.Outcome = &outcome{Result: res, Failure: fail, AtMs: a.at.UnixMilli()}
	return d.handle()
}

// accepted makes the handle of a job. One that nobody can look at, and that will not call back, is
// as good as a lost answer.
func (e *Executor) accepted(d handleData, a *answer, j job) (tool.Handle, error) {
	var idErr error
	if j.id != "" {
		if idErr = checkID(j.id); idErr == nil {
			d.JobID = j.id
		}
	}
	location, locationErr := e.given(a, e.urls.submit, "Location")
	if e.urls.status == "" || d.JobID == "" {
		d.URL = location
	}
	u, _, err := e.place(d)
	if err != nil {
		return tool.Handle{}, err
	}
	if u == nil && !e.cfg.Callback {
		err := fmt.Errorf("the service answered %s with no place to look at the job: no Location, and neither status.url with an id nor find.url is declared", a.status())
		for _, why := range []error{locationErr, idErr} {
			if why != nil {
				err = fmt.Errorf("%w; %w", err, why)
			}
		}
		return tool.Handle{}, err
	}
	return d.handle()
}

// refused is an answer that is no success, as an error: [*tool.ThrottledError] when the service put
// us off.
func (e *Executor) refused(a *answer) error {
	f := e.said(a, failure("", "the service answered "+a.status(), "", false))
	err := errors.New(f.Message)
	if lookRuleFor(a.StatusCode).observe == readThrottled {
		return &tool.ThrottledError{After: a.retryAfter(), Cause: err}
	}
	return err
}

// said adds what the service says of its refusal: at the place of an error in a job, as a problem
// (RFC 9457), or as plain text. A page of HTML is left out.
func (e *Executor) said(a *answer, f *tool.Failure) tool.Failure {
	known := *f
	if known.Details == nil {
		known.Details = json.RawMessage(fmt.Sprintf(`{"status":%d}`, a.StatusCode))
	}
	if isRedirect(a.StatusCode) {
		known.Message += ": redirects are not followed"
	}
	r, err := a.body(maxSaid)
	if err != nil {
		return known
	}
	body, _ := io.ReadAll(r) // what there is, also when it breaks off
	text, ok := clean(body)
	if !ok {
		if strings.HasPrefix(mediaType(a.Header.Get("Content-Type")), "text/plain") {
			known.Message = cut(known.Message+": "+e.redact(strings.TrimSpace(string(body))), maxMessage)
		}
		return known
	}
	if doc, err := parseDocument(text); err == nil {
		if raw, found := doc.at(e.reader.failure); found && kind(raw) != 'n' {
			text = raw
		}
	}
	without := known
	without.Message = ""
	with := parseFailure(text, without, e.redact)
	if strings.HasPrefix(with.Code, numericCode) {
		with.Code = known.Code // the status once more
	}
	if with.Message == "" {
		with.Message = known.Message
	} else {
		with.Message = cut(known.Message+": "+with.Message, maxMessage)
	}
	return with
}
