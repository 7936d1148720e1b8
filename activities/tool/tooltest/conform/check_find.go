package conform

import (
	"context"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

var findChecks = []check{
	{Check{"find-never-submitted", "a key that was never submitted is not found, which is no error", contract}, nil, findNeverSubmitted},
	{Check{"find-running", "a job that runs is found by its key, by every process", contract}, needsFind, findRunning},
	{Check{"find-after-end", "a job that is over is found as long as the outside remembers it, and is not found as a new one", contract}, either(needsFind, needsLook), findAfterEnd},
	{Check{"find-cannot", "an executor that does not promise to find says no, and never gives a handle", promises}, finds, findCannot},
	{Check{"find-lost-answer", "a job whose submit answer was lost is found by another process", ambiguity}, either(needsFind, needsHook("LoseAnswer", hasLoseAnswer)), findLostAnswer},
	{Check{"find-lost-request", "when find surely says no after a lost request, nothing was started and nothing starts later", promises}, either(needsSure, needsHook("LoseRequest", hasLoseRequest)), findLostRequest},
	{Check{"find-sure", "when find surely says no, no submit that was begun before can still start a job", promises}, needsSure, findSure},
}

func finds(_ Subject, p tool.Promises) string {
	if p.Find != tool.FindNone {
		return "it promises to find"
	}
	return ""
}

func needsSure(_ Subject, p tool.Promises) string {
	if p.Find != tool.FindSure {
		return "find is not promised to be sure; its caller does not build on a no"
	}
	return ""
}

func hasLoseAnswer(s Subject) bool  { return s.LoseAnswer != nil }
func hasLoseRequest(s Subject) bool { return s.LoseRequest != nil }

func findNeverSubmitted(c *bench) {
	req := c.request(Plan{})
	h, found, err := c.ex.Find(c.Context(), req.SubmissionKey)
	if err != nil || found {
		c.breach("find of a key that nobody has submitted: %v, %s, %v", found, show(h), err)
	}
	c.stillStarted(req.SubmissionKey, 0)
}

func findRunning(c *bench) {
	req, h := c.start(Plan{})
	for _, ex := range []tool.Executor{c.ex, c.another()} {
		got, found := c.find(ex, req.SubmissionKey)
		if !found {
			c.breach("the running job %s is not found", req.SubmissionKey)
		}
		c.sameJob("find of a running job", h, got)
		if c.p.Observe {
			c.wantState(c.look(ex, req, got), "a running job that was found", tool.StateRunning)
		}
	}
	c.stillStarted(req.SubmissionKey, 1)
}

func findAfterEnd(c *bench) {
	req, h := c.start(Plan{})
	result := resultOf(req.SubmissionKey)
	c.s.Succeed(c, req.SubmissionKey, result)
	c.wantState(c.settled(c.ex, req, h), "a job that did its work", tool.StateSucceeded)
	ex := c.another()
	got, found := c.find(ex, req.SubmissionKey)
	if !found {
		c.breach("the job %s, which has ended and is not forgotten, is not found", req.SubmissionKey)
	}
	obs := c.settled(ex, req, got)
	c.wantState(obs, "a job that did its work and was found", tool.StateSucceeded)
	c.wantResult(obs, result)
}

func findCannot(c *bench) {
	req, _ := c.start(Plan{})
	if h, found, err := c.ex.Find(c.Context(), req.SubmissionKey); found || err != nil {
		c.breach("find, which is not promised, answers %v, %s, %v", found, show(h), err)
	}
}

func findLostAnswer(c *bench) {
	req := c.request(Plan{})
	_ = c.s.LoseAnswer(c, c.ex, req) // what it said is looked at by error-lost-answer
	c.awaitStarted(req.SubmissionKey, 1)
	ex := c.another()
	h, found := c.find(ex, req.SubmissionKey)
	if !found {
		c.breach("the job %s runs, and is not found after its answer was lost", req.SubmissionKey)
	}
	result := resultOf(req.SubmissionKey)
	if c.p.Observe {
		c.wantState(c.look(ex, req, h), "a running job that was found", tool.StateRunning)
		c.s.Succeed(c, req.SubmissionKey, result)
		obs := c.settled(ex, req, h)
		c.wantState(obs, "a found job that did its work", tool.StateSucceeded)
		c.wantResult(obs, result)
	}
	c.stillStarted(req.SubmissionKey, 1)
}

func findLostRequest(c *bench) {
	req := c.request(Plan{})
	_ = c.s.LoseRequest(c, c.ex, req)
	h, found, err := c.another().Find(c.Context(), req.SubmissionKey)
	if err != nil || found {
		c.breach("find after a lost request: %v, %s, %v", found, show(h), err)
	}
	c.stillStarted(req.SubmissionKey, 0)
	c.submit(c.ex, req)
	c.awaitStarted(req.SubmissionKey, 1)
}

// findSure gives submits up at moments from before they are sent to after they are answered, and
// holds a no that comes afterwards against what the outside did.
func findSure(c *bench) {
	const rounds = 12
	for i := range rounds {
		req := c.request(Plan{})
		ctx, stop := context.WithCancel(c.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.ex.Submit(ctx, req) })
		// The moments are powers of two from a tenth of a millisecond on.
		<-time.After(time.Duration(100<<i) * time.Microsecond / 2)
		stop()
		wg.Wait()
		_, found, err := c.another().Find(c.Context(), req.SubmissionKey)
		if err != nil {
			c.breach("find after a submit that was given up: %v", err)
		}
		if found {
			c.awaitStarted(req.SubmissionKey, 1)
			continue
		}
		c.stillStarted(req.SubmissionKey, 0)
	}
}
