package http

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Observe GETs the job. It stores a large result and changes nothing else. It has no memory: of a
// service that changes its mind after an end it would tell the new word, and it is its caller who
// takes the first definite one and asks no more.
func (e *Executor) Observe(ctx context.Context, h tool.Handle) (tool.Observation, error) {
	d, err := e.resolve(h)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe: %w", err)
	}
	obs, err := e.observe(ctx, d)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe %q: %w", d.SubmissionKey, err)
	}
	obs.Worker = e.urls.submit.Host
	if d.JobID != "" {
		obs.Worker = cut(obs.Worker+"/job "+d.JobID, maxStage)
	}
	return obs, nil
}

func (e *Executor) observe(ctx context.Context, d handleData) (tool.Observation, error) {
	if o := d.Outcome; o != nil {
		obs := tool.Observation{State: tool.StateSucceeded, Definite: true, LastSeenAtMs: o.AtMs, Result: o.Result}
		if o.Failure != nil {
			obs.State, obs.Result, obs.Error = tool.StateFailed, nil, o.Failure
		}
		return obs, nil
	}
	u, byKey, err := e.place(d)
	if err != nil {
		return tool.Observation{}, err
	}
	if u == nil {
		return unknown(CodeNotObservable, "the service named no place to look at the job; its callback has to tell"), nil
	}
	a, err := e.send(ctx, nethttp.MethodGet, u, nil, nil)
	if err != nil {
		return tool.Observation{}, err
	}
	defer a.close()
	switch lookRuleFor(a.StatusCode).observe {
	case readBody, readGoing:
		return e.observed(ctx, d, a, u, byKey)
	case readUnknown:
		return unknown(CodeUnknownJob, "the service does not know the job (any more): it answered "+a.status()), nil
	case readGone:
		obs := tool.Observation{State: tool.StateLost}
		obs.Error = failure(CodeForgotten, "the service had the job and has forgotten how it ended: it answered "+a.status(), tool.ClassThirdParty, true)
		return obs, nil
	default:
		return tool.Observation{}, e.refused(a)
	}
}

func unknown(code, message string) tool.Observation {
	return tool.Observation{State: tool.StateUnknown, Error: failure(code, message, tool.ClassThirdParty, false)}
}

// observed reads a job out of an answer.
func (e *Executor) observed(ctx context.Context, d handleData, a *answer, u *url.URL, byKey bool) (tool.Observation, error) {
	body, err := a.read(maxJob)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("the job could not be read: %w", err)
	}
	going := lookRuleFor(a.StatusCode).observe == readGoing
	j, found, err := e.pick(d.SubmissionKey, body, byKey)
	switch {
	case going && (err != nil || !found || j.word == ""):
		j.state = tool.StateRunning
	case err != nil:
		return tool.Observation{}, fmt.Errorf("the job that the service answered with %w", err)
	case !found:
		return unknown(CodeUnknownJob, "the service knows no job of the key (any more)"), nil
	case j.word == "":
		return tool.Observation{}, fmt.Errorf("the job that the service answered with has no state at %q", e.cfg.Fields.State)
	}
	if byKey && d.JobID == "" {
		d.JobID = j.id
	}
	obs := tool.Observation{State: j.state, Progress: j.progress, Stage: j.stage, LastSeenAtMs: a.at.UnixMilli()}
	if obs.State.Terminal() {
		obs.Definite = true
		obs.LastSeenAtMs = min(j.endedAt, a.at.UnixMilli()) // 0 is not known
	}
	switch j.state {
	case tool.StateRunning:
		obs.NextInMs = a.retryAfter().Milliseconds()
	case tool.StateSucceeded:
		return e.succeeded(ctx, d, u, j, obs)
	case tool.StateFailed:
		f := *failure(CodeJobFailed, "the service says that the job failed, and not why", tool.ClassThirdParty, true)
		if j.failure != nil {
			f = parseFailure(j.failure, f, e.redact)
		}
		f.RetryAfterMs = max(f.RetryAfterMs, a.retryAfter().Milliseconds())
		obs.Error = &f
	case tool.StateCancelled:
	default:
		obs.State = tool.StateUnknown
		obs.Error = failure(CodeUnknownState, fmt.Sprintf("the job's state %q is none of the declared words; add it to states", j.word), tool.ClassSystem, false)
	}
	return obs, nil
}

// pick reads the job out of a body. Where the key is asked for it may be in a list.
func (e *Executor) pick(key string, body []byte, byKey bool) (job, bool, error) {
	if !byKey {
		j, err := e.reader.parseJob(body)
		return j, err == nil, err
	}
	if len(body) == 0 {
		return job{}, false, nil
	}
	jobs, next, err := e.reader.parseList(body)
	if err != nil {
		return job{}, false, err
	}
	if next != "" {
		return job{}, false, errors.New("is a list of several pages; find.url has to give the jobs of one key")
	}
	return pickByKey(key, jobs)
}

// pickByKey finds the one job of a key. Jobs that name the key come before those that name none;
// what cannot be told apart is an error, since a no would start the job again.
func pickByKey(key string, jobs []job) (job, bool, error) {
	if len(jobs) == 0 {
		return job{}, false, nil
	}
	var named, nameless []job
	for _, j := range jobs {
		switch j.key {
		case key:
			named = append(named, j)
		case "":
			nameless = append(nameless, j)
		}
	}
	if len(named) == 0 {
		named = nameless
	}
	switch len(named) {
	case 1:
		return named[0], true, nil
	case 0:
		return job{}, false, fmt.Errorf("carries another key than %q; see fields.key", key)
	}
	return job{}, false, fmt.Errorf("is one of %d for the key %q; find.url has to give one", len(named), key)
}

// succeeded adds the result: the one in the job, else the one where the job says it is.
func (e *Executor) succeeded(ctx context.Context, d handleData, u *url.URL, j job, obs tool.Observation) (tool.Observation, error) {
	var res *tool.Result
	var fail *tool.Failure
	var err error
	switch {
	case j.result != nil && (kind(j.result) != 'n' || j.resultURL == ""):
		res, fail, err = e.takeJSON(ctx, d, j.result)
	case j.resultURL != "":
		res, fail, err = e.fetch(ctx, d, u, j.resultURL)
	default:
		res = nullResult()
	}
	if err != nil {
		return tool.Observation{}, err
	}
	obs.Result = res
	if fail != nil {
		obs.State, obs.Result, obs.Error = tool.StateFailed, nil, fail
	}
	return obs, nil
}

// fetch GETs a result that lies beside its job.
func (e *Executor) fetch(ctx context.Context, d handleData, base *url.URL, raw string) (*tool.Result, *tool.Failure, error) {
	u, err := resolve(base, raw, e.urls.origins)
	if err != nil {
		return nil, failure(CodeResultUnusable, "the job succeeded, and the URL of its result "+err.Error(), tool.ClassThirdParty, false), nil
	}
	a, err := e.send(ctx, nethttp.MethodGet, u, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("the result: %w", err)
	}
	defer a.close()
	switch a.StatusCode {
	case nethttp.StatusOK, nethttp.StatusNonAuthoritativeInfo:
	case nethttp.StatusNoContent:
		return nullResult(), nil, nil
	case nethttp.StatusGone:
		return nil, failure(CodeResultGone, "the job succeeded, and its result is gone: the service answered "+a.status(), tool.ClassThirdParty, false), nil
	default:
		return nil, nil, fmt.Errorf("the result: %w", e.refused(a))
	}
	c, err := a.begin(maxInline, e.cfg.MaxResultBytes)
	if errors.Is(err, errTooLarge) {
		return nil, e.tooLarge(), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the result could not be read: %w", err)
	}
	return e.takeBody(ctx, d, c, a.Header.Get("Content-Type"))
}
