package conform

import (
	"context"
	"errors"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// isUnknown reports whether an error says that a handle is not known.
func (c *bench) isUnknown(err error) bool { return errors.Is(err, tool.ErrUnknownHandle) }

// withContext gives f a check whose context is over when f returns.
func (c *bench) withContext(f func(short *bench)) {
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	short := *c
	short.T = shortened{c.T, ctx}
	f(&short)
}

// shortened is a T with a context of its own.
type shortened struct {
	T
	ctx context.Context //nolint:containedctx // it stands for the test's
}

func (s shortened) Context() context.Context { return s.ctx }

var observeChecks = []check{
	{Check{"observe-not-early", "a job is not called over, nor has it a result, before the outside has ended it", states}, needsLook, observeNotEarly},
	{Check{"observe-success", "a job that did its work is seen as succeeded, with the result that the outside gave and its right hash", states}, needsLook, observeSuccess},
	{Check{"observe-failure", "a job that ended without success is seen as failed, with a reason", states}, needsLook, observeFailure},
	{Check{"observe-results-apart", "every job has its own result", states}, needsLook, observeResultsApart},
	{Check{"observe-terminal-stays", "what was said of a job that is over stays, for every process and after a cancel", states}, needsLook, observeTerminalStays},
	{Check{"observe-changes-nothing", "looking starts no job and ends none", contract}, needsLook, observeChangesNothing},
	{Check{"observe-cannot", "an executor that does not promise to observe does not call a job over that runs", promises}, looks, observeCannot},
}

func looks(_ Subject, p tool.Promises) string {
	if p.Observe {
		return "it promises to observe"
	}
	return ""
}

func observeNotEarly(c *bench) {
	req, h := c.start(Plan{})
	c.during(func() {
		c.wantState(c.look(c.ex, req, h), "a job that the outside still runs", tool.StateRunning)
	})
}

func observeSuccess(c *bench) {
	req, h := c.start(Plan{})
	result := resultOf(req.SubmissionKey)
	c.s.Succeed(c, req.SubmissionKey, result)
	obs := c.settled(c.ex, req, h)
	c.wantState(obs, "a job that did its work", tool.StateSucceeded)
	c.wantResult(obs, result)
	if running := c.s.Running(c, req.SubmissionKey); running != 0 {
		c.breach("called succeeded, and %d of it still run", running)
	}
}

func observeFailure(c *bench) {
	req, h := c.start(Plan{})
	c.s.Fail(c, req.SubmissionKey)
	c.wantState(c.settled(c.ex, req, h), "a job that ended without success", tool.StateFailed)
}

func observeResultsApart(c *bench) {
	const jobs = 3
	var reqs []tool.Request
	var handles []tool.Handle
	for range jobs {
		req, h := c.start(Plan{})
		reqs, handles = append(reqs, req), append(handles, h)
	}
	for i := range reqs { // the last one first
		req := reqs[jobs-1-i]
		c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
	}
	for i, req := range reqs {
		obs := c.settled(c.ex, req, handles[i])
		c.wantState(obs, "a job that did its work", tool.StateSucceeded)
		c.wantResult(obs, resultOf(req.SubmissionKey))
	}
}

func observeTerminalStays(c *bench) {
	for _, e := range c.over(tool.Request{}, tool.Handle{}) {
		req, h := c.start(Plan{})
		c.endBy(e.name, req, h)
		first := c.settled(c.ex, req, h)
		c.wantState(first, "the job", e.state)
		executors := []tool.Executor{c.ex, c.another(), c.another()}
		for _, ex := range executors {
			_ = ex.Cancel(c.Context(), h) // see cancel-after-end
			obs := c.look(ex, req, h)
			c.wantState(obs, "a job that was seen to have "+e.name, e.state)
			if e.state == tool.StateSucceeded {
				c.wantResult(obs, resultOf(req.SubmissionKey))
			}
		}
	}
}

func observeChangesNothing(c *bench) {
	req, h := c.start(Plan{})
	second := c.another()
	c.during(func() {
		c.look(c.ex, req, h)
		c.look(second, req, h)
		c.wantStarted(req.SubmissionKey, 1)
		if c.s.Running(c, req.SubmissionKey) != 1 {
			c.breach("the job does not run any more after it was looked at")
		}
	})
}

func observeCannot(c *bench) {
	req, h := c.start(Plan{})
	c.during(func() {
		if obs, err := c.ex.Observe(c.Context(), h); err == nil {
			c.wantState(obs, "the running job "+req.SubmissionKey, tool.StateRunning, tool.StateUnknown)
		}
	})
}

var cancelChecks = []check{
	{Check{"cancel-obeyed", "a job that obeys is seen as cancelled, and nothing of it runs any more by then", contract}, either(needsLook, needsCancel), cancelObeyed},
	{Check{"cancel-ignored", "a cancel is only a request: a job that goes on is not called cancelled, and its success counts", contract}, either(needsLook, obeys), cancelIgnored},
	{Check{"cancel-forced", "a cancel that is promised to be forced ends a job that ignores it", promises}, either(needsLook, needsForce), cancelForced},
	{Check{"cancel-after-end", "cancelling a job that is over is no error and changes nothing", contract}, either(needsLook, needsCancel), cancelAfterEnd},
	{Check{"cancel-only-its-own", "a cancel ends no other job", contract}, needsCancel, cancelOnlyItsOwn},
}

func obeys(_ Subject, p tool.Promises) string {
	if p.Cancel == tool.CancelForced {
		return "it promises to force the end, see cancel-forced"
	}
	return ""
}

func needsForce(_ Subject, p tool.Promises) string {
	if p.Cancel != tool.CancelForced {
		return "it does not promise to force the end, see cancel-ignored"
	}
	return ""
}

func cancelObeyed(c *bench) {
	req, h := c.start(Plan{})
	c.cancel(c.ex, h)
	var obs tool.Observation
	c.within("a job that was asked to end is seen as cancelled", func() bool {
		obs = c.look(c.ex, req, h)
		return obs.State.Terminal()
	})
	c.confirmed(req, obs)
	c.stillStarted(req.SubmissionKey, 1)
}

// confirmed is a breach when a job is not called cancelled, or still runs.
func (c *bench) confirmed(req tool.Request, obs tool.Observation) {
	c.Helper()
	running := c.s.Running(c, req.SubmissionKey)
	c.wantState(obs, "a job that was asked to end", tool.StateCancelled)
	if running != 0 {
		c.breach("called cancelled, and %d of %s still run", running, req.SubmissionKey)
	}
}

func cancelIgnored(c *bench) {
	req, h := c.start(Plan{IgnoreCancel: true})
	_ = c.ex.Cancel(c.Context(), h) // may say that it cannot
	c.during(func() {
		obs := c.look(c.ex, req, h)
		if running := c.s.Running(c, req.SubmissionKey); running != 0 {
			c.wantState(obs, "a job that takes no notice of a cancel and still runs", tool.StateRunning)
		}
	})
	result := resultOf(req.SubmissionKey)
	c.s.Succeed(c, req.SubmissionKey, result)
	obs := c.settled(c.ex, req, h)
	c.wantState(obs, "a job that took no notice of a cancel and did its work", tool.StateSucceeded)
	c.wantResult(obs, result)
}

func cancelForced(c *bench) {
	req, h := c.start(Plan{IgnoreCancel: true})
	c.cancel(c.ex, h)
	var obs tool.Observation
	c.within("a job that ignores its cancel is ended by force", func() bool {
		obs = c.look(c.ex, req, h)
		return obs.State.Terminal()
	})
	c.confirmed(req, obs)
}

func cancelAfterEnd(c *bench) {
	for _, e := range c.over(tool.Request{}, tool.Handle{}) {
		req, h := c.start(Plan{})
		c.endBy(e.name, req, h)
		c.wantState(c.settled(c.ex, req, h), "the job", e.state)
		for _, ex := range []tool.Executor{c.ex, c.another()} {
			if err := ex.Cancel(c.Context(), h); err != nil {
				c.breach("cancel of a job that has %s: %v", e.name, err)
			}
			c.wantState(c.look(ex, req, h), "a job that was cancelled after it had "+e.name, e.state)
		}
	}
}

func cancelOnlyItsOwn(c *bench) {
	req, h := c.start(Plan{})
	other, _ := c.start(Plan{})
	c.cancel(c.ex, h)
	c.within("the cancelled job is gone", func() bool { return c.s.Running(c, req.SubmissionKey) == 0 })
	if c.s.Running(c, other.SubmissionKey) != 1 {
		c.breach("the cancel of %s has ended %s", req.SubmissionKey, other.SubmissionKey)
	}
}
