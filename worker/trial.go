package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
)

// Trial runs one tool once, by the executor that a worker would use, without a task:
// nothing is retried after an end, nothing is kept. Make it with [NewTrial].
type Trial struct {
	o    Options
	tool config.Tool
	ex   tool.Executor
	// dir is a folder that is removed with the trial.
	dir string
	// open says that a job was started, or may have been, whose end was not seen.
	open bool
}

const (
	// trialPause is the wait after something that did not work, for as long as
	// nobody says otherwise.
	trialPause = time.Second
	// trialUnpromised is how long to wait for the end of a job that may not have been
	// asked for it.
	trialUnpromised = 2500 * time.Millisecond
	// trialTail is how much of standard error is kept of a failed job, in bytes.
	trialTail = 4 << 10
)

// NewTrial makes the executor of one tool. Of the options Config is needed, and
// Temporal for tools that run in Temporal ([NeedsTemporal]). DataDir and Store are
// by default temporary. A tool of the executor go needs a worker that has its function, and
// external ones have no executor: the error is invalid-request.
func NewTrial(ctx context.Context, o Options, name string) (*Trial, error) {
	if o.Config == nil {
		return nil, domain.Invalid("config", "must be given")
	}
	t, ok := o.Config.Tool(name)
	switch {
	case !ok:
		return nil, domain.Invalid("tool", "must be declared, %q is not", name)
	case t.Executor == config.ExecutorExternal:
		return nil, domain.Invalid("tool", "must have an executor, the work of %s begins outside", name)
	case NeedsTemporal(t) && o.Temporal == nil:
		return nil, domain.Invalid("temporal", "must be given for a tool of executor %s", t.Executor)
	}
	trial := &Trial{tool: t}
	if err := trial.prepare(ctx, &o); err != nil {
		return nil, errors.Join(err, trial.Close())
	}
	trial.o = o
	var err error
	if trial.ex, err = o.executor(t); err != nil {
		return nil, errors.Join(o.mistakes(t, err), trial.Close())
	}
	return trial, nil
}

// NeedsTemporal tells whether a tool's jobs run in Temporal by themselves.
func NeedsTemporal(t config.Tool) bool { return t.Activity != nil || t.Workflow != nil || t.Go != nil }

// prepare fills in what executors need and a trial has no use for afterwards.
func (t *Trial) prepare(ctx context.Context, o *Options) (err error) {
	if o.DataDir == "" && t.tool.Exec != nil {
		if t.dir, err = os.MkdirTemp("", "wakepoint-trial-"); err != nil {
			return err
		}
		o.DataDir = t.dir
	}
	if o.Store == nil {
		if o.Store, err = store.Open(ctx, "mem://"); err != nil {
			return err
		}
	}
	return o.fill()
}

// Close removes what is temporary, unless a job may still use it.
func (t *Trial) Close() error {
	if t.dir == "" || t.open {
		return nil
	}
	return os.RemoveAll(t.dir)
}

// Promises is what the executor holds to.
func (t *Trial) Promises() tool.Promises { return tool.PromisesOf(t.ex) }

// Step is what happens during a trial, for whoever watches.
type Step struct {
	// Note says in words what happened beside the looks at the job.
	Note string
	// Look is a look at the job; nil with a note.
	Look *tool.Observation
}

// Tried is how a trial ended.
type Tried struct {
	// State is the job's, or failed when none was started. A state that is not
	// terminal means that the end was not seen.
	State tool.State `json:"state"`
	// Job is the job's id for its executor.
	Job string `json:"job,omitempty"`
	// TookMs is the time from the submission to the end.
	TookMs      int64         `json:"tookMs"`
	Error       *tool.Failure `json:"error,omitempty"`
	ContentType string        `json:"contentType,omitempty"`
	Bytes       int64         `json:"bytes,omitempty"`
	// Truncated says that the tool wrote more than was kept.
	Truncated bool `json:"truncated,omitempty"`
	// Result is the content of the result.
	Result []byte `json:"-"`
	// Stderr is the end of what a job without success wrote there.
	Stderr []byte `json:"-"`
}

// Run submits one job and looks at it until its end, at most for the time given. When
// that is over, or ctx, the job is asked to end and waited for within the tool's
// cancel grace. The error is ctx's, or says why there is no answer to give; what is
// known of the job is in Tried all the same.
func (t *Trial) Run(ctx context.Context, input json.RawMessage, within time.Duration, watch func(Step)) (Tried, error) {
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no end within %s", config.FormatDuration(within)))
	defer cancel()
	id := "test-" + rand.Text()
	req := tool.Request{
		Tenant: t.o.Config.Tenant, TaskID: id, Attempt: 1, SubmissionKey: t.o.Config.Tenant + "/" + id + "/1", Tool: t.tool.Name, Input: input,
		// Beyond the time after which the job is asked to end, so that it is seen how it
		// takes that; should nobody be there to ask, it ends all the same.
		DeadlineAtMs: began.Add(within + t.grace()).UnixMilli(),
	}
	end := func(tried Tried, err error) (Tried, error) {
		tried.TookMs = time.Since(began).Milliseconds()
		return tried, err
	}
	h, err := t.submit(limited, req, watch)
	if f, ok := tool.DefiniteFailure(err); ok {
		return end(Tried{State: tool.StateFailed, Error: &f}, nil)
	}
	if err != nil {
		return end(Tried{State: tool.StateUnknown}, err)
	}
	t.open = true
	obs, err := t.observe(limited, h, watch)
	if err != nil && !errors.Is(err, errUnseen) {
		obs = t.stop(context.WithoutCancel(ctx), h, watch)
	}
	tried := Tried{State: obs.State, Job: h.ID, Error: obs.Error}
	if !obs.State.Terminal() {
		return end(tried, err)
	}
	t.open = false
	tried, taken := t.take(context.WithoutCancel(ctx), h, obs, tried)
	return end(tried, cmp.Or(err, taken))
}

// submit follows the rules of a worker: a refusal for now is waited out, and after a
// lost answer the job is looked for, and one of unsafe effects is submitted again only
// when that surely starts no second one.
func (t *Trial) submit(ctx context.Context, req tool.Request, watch func(Step)) (tool.Handle, error) {
	for {
		h, err := t.ex.Submit(ctx, req)
		var refused *tool.ThrottledError
		_, definite := tool.DefiniteFailure(err)
		wait := trialPause
		switch {
		case err == nil || definite:
			return h, err
		case errors.As(err, &refused):
			wait = max(wait, refused.After)
			watch(Step{Note: fmt.Sprintf("%v; again in %s", err, config.FormatDuration(wait.Round(time.Millisecond)))})
		default:
			t.open = true
			watch(Step{Note: fmt.Sprintf("no clear answer: %v; looking for the job", err)})
			look, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.grace())
			h, found, lost := t.ex.Find(look, req.SubmissionKey)
			cancel()
			if lost == nil && found {
				return h, nil
			}
			p := t.Promises()
			sure := p.SubmitOnce != tool.ScopeNone || p.Find == tool.FindSure && lost == nil
			if !sure && t.tool.Policy.Effects == domain.EffectsUnsafe {
				return h, fmt.Errorf("nobody knows whether the job was started: %w", errors.Join(err, lost))
			}
		}
		if !pause(ctx, wait) {
			return h, context.Cause(ctx)
		}
	}
}

// observe looks until the job has ended, or ctx, whose cause is the error then.
func (t *Trial) observe(ctx context.Context, h tool.Handle, watch func(Step)) (tool.Observation, error) {
	// What is not promised may work all the same, as when a service says where its job
	// can be looked at.
	promised := t.Promises().Observe
	for {
		obs, err := t.ex.Observe(ctx, h)
		wait := t.tool.Poll
		if !promised && ctx.Err() == nil && (err != nil || obs.State == tool.StateUnknown) {
			return tool.Observation{State: tool.StateUnknown}, errUnseen
		}
		var refused *tool.ThrottledError
		switch {
		case ctx.Err() != nil:
		case err == nil && obs.State.Terminal():
			return obs, nil
		case err == nil:
			watch(Step{Look: &obs})
			if obs.NextInMs > 0 {
				wait = time.Duration(obs.NextInMs) * time.Millisecond
			}
		case errors.As(err, &refused):
			wait = max(wait, refused.After)
			watch(Step{Note: err.Error()})
		default:
			watch(Step{Note: fmt.Sprintf("a look at the job failed: %v", err)})
			wait = max(wait, trialPause)
		}
		if !pause(ctx, wait) {
			return tool.Observation{State: tool.StateUnknown}, context.Cause(ctx)
		}
	}
}

// errUnseen is the end of a trial whose job nobody here can see.
var errUnseen = errors.New("the job was started, and only a callback tells its end, which is not received here")

// stop asks the job to end and waits for that, not for long when nobody promises it.
func (t *Trial) stop(ctx context.Context, h tool.Handle, watch func(Step)) tool.Observation {
	grace, note := t.grace(), "asking the job to end"
	if t.Promises().Cancel == tool.CancelNone {
		grace, note = min(grace, trialUnpromised), "asking the job to end, though nobody promises that it will"
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	watch(Step{Note: note})
	if err := t.ex.Cancel(ctx, h); err != nil {
		watch(Step{Note: fmt.Sprintf("it cannot be asked: %v", err)})
		return tool.Observation{State: tool.StateUnknown}
	}
	obs, err := t.observe(ctx, h, watch)
	if err != nil {
		watch(Step{Note: "it has not ended, and may go on"})
	}
	return obs
}

// grace is how long a job may take to end when it is asked to.
func (t *Trial) grace() time.Duration {
	return time.Duration(cmp.Or(t.tool.Policy.CancelGraceMs, domain.DefaultCancelGraceMs)) * time.Millisecond
}

// take gets the result, or the last words, and removes the job.
func (t *Trial) take(ctx context.Context, h tool.Handle, obs tool.Observation, tried Tried) (Tried, error) {
	ctx, cancel := context.WithTimeout(ctx, t.grace())
	defer cancel()
	var err error
	switch r := obs.Result; {
	case obs.State != tool.StateSucceeded:
		tried.Stderr = t.lastWords(ctx, h)
	case r == nil:
		err = errors.New("the executor says that the job succeeded, and gives no result")
	case r.Ref == "":
		tried.Result, tried.ContentType, tried.Truncated = r.Inline, cmp.Or(r.ContentType, "application/json"), r.Truncated
	default:
		tried.Result, err = t.o.Store.Get(ctx, r.Ref, r.Hash)
		tried.ContentType, tried.Truncated = r.ContentType, r.Truncated
	}
	tried.Bytes = int64(len(tried.Result))
	if remover, ok := t.ex.(tool.Remover); ok {
		err = errors.Join(err, remover.Remove(ctx, h))
	}
	return tried, err
}

// lastWords is the end of what a job wrote to standard error, if that can be read.
func (t *Trial) lastWords(ctx context.Context, h tool.Handle) []byte {
	logs, ok := t.ex.(tool.LogReader)
	if !ok {
		return nil
	}
	var tail []byte
	for offset := int64(0); ; {
		c, err := logs.Logs(ctx, h, tool.StreamStderr, offset, 0)
		if err != nil {
			return tail
		}
		tail = append(tail, c.Data...)
		tail = tail[max(0, len(tail)-trialTail):]
		if c.End || c.Next <= offset {
			return tail
		}
		offset = c.Next
	}
}

// pause waits, and tells whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Words says in words what an executor promises, for people, a line each.
func Words(p tool.Promises) []string {
	lines := []string{
		map[tool.Scope]string{
			tool.ScopeNone:   "a job that is submitted twice may be done twice",
			tool.ScopeHost:   "a job that is submitted twice on this host is done once",
			tool.ScopeAlways: "a job that is submitted twice is done once",
		}[p.SubmitOnce],
		map[tool.FindWord]string{
			tool.FindNone: "after a lost answer a job cannot be found",
			tool.FindHint: "after a lost answer a job can be found; one that is not found may be there all the same",
			tool.FindSure: "after a lost answer it is sure whether there is a job",
		}[p.Find],
		map[tool.CancelWord]string{
			tool.CancelNone:   "a job cannot be cancelled",
			tool.CancelAsked:  "a job is asked to end, and may go on",
			tool.CancelForced: "a job that is cancelled ends, by force if need be",
		}[p.Cancel],
		map[bool]string{true: "a job can be looked at", false: "a job cannot be looked at, only a callback tells its end"}[p.Observe],
		map[bool]string{true: "a job outlives its worker", false: "a job ends with its worker"}[p.Survives],
	}
	for _, more := range []struct {
		there bool
		line  string
	}{
		{p.Logs, "what a job writes can be read while it runs"},
		{p.List, "jobs can be listed"},
		{p.Remembers != "", "a job that is over is known " + p.Remembers},
	} {
		if more.there {
			lines = append(lines, more.line)
		}
	}
	return lines
}
