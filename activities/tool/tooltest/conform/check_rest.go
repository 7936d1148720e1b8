package conform

import (
	"context"
	"errors"

	"github.com/wakepoint/wakepoint/activities/tool"
)

var lossChecks = []check{
	{Check{"lost-is-not-an-end", "a job that is gone without a word is lost or unknown: never succeeded, failed or cancelled", states}, either(needsLook, needsHook("Lose", hasLose)), lostIsNoEnd},
	{Check{"lost-restart", "a lost job is started again under the same key by a higher attempt only, and once", contract}, either(needsLook, needsLock, needsHook("Lose", hasLose), needsRestart), lostRestart},
	{Check{"forgotten-is-unknown", "a job that the outside has forgotten is unknown, or an error: not a definite end, and not running", states}, either(needsLook, needsHook("Forget", hasForget)), forgottenIsUnknown},
}

func hasLose(s Subject) bool   { return s.Lose != nil }
func hasForget(s Subject) bool { return s.Forget != nil }

func lostIsNoEnd(c *bench) {
	req, h := c.start(Plan{})
	c.s.Lose(c, req.SubmissionKey)
	c.within("a job that is gone is not seen to run", func() bool { return c.look(c.ex, req, h).State != tool.StateRunning })
	for _, ex := range []tool.Executor{c.ex, c.another()} {
		c.wantState(c.look(ex, req, h), "a job that is gone without a word", tool.StateLost, tool.StateUnknown)
	}
	c.stillStarted(req.SubmissionKey, 1)
}

func lostRestart(c *bench) {
	req, h := c.start(Plan{})
	c.s.Lose(c, req.SubmissionKey)
	c.within("a job that is gone is seen as lost", func() bool { return c.look(c.ex, req, h).State == tool.StateLost })
	c.sameJob("the same attempt after the loss", h, c.submit(c.another(), req))
	c.stillStarted(req.SubmissionKey, 1)
	next := again(c.planned(req, Plan{}), 2)
	second := c.submit(c.another(), next)
	c.awaitStarted(req.SubmissionKey, 2)
	c.sameJob("the higher attempt, submitted twice", second, c.submit(c.ex, next))
	c.wantState(c.look(c.ex, next, second), "the job of the higher attempt", tool.StateRunning)
	c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
	c.wantState(c.settled(c.ex, next, second), "the job of the higher attempt", tool.StateSucceeded)
	c.stillStarted(req.SubmissionKey, 2)
}

func forgottenIsUnknown(c *bench) {
	req, h := c.start(Plan{})
	c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
	c.wantState(c.settled(c.ex, req, h), "a job that did its work", tool.StateSucceeded)
	c.s.Forget(c, req.SubmissionKey)
	// What an executor keeps of the end on its own account may still be said.
	obs, err := c.another().Observe(c.Context(), h)
	if err == nil {
		c.wantState(obs, "a job that the outside has forgotten", tool.StateUnknown, tool.StateLost, tool.StateSucceeded)
	}
	c.stillStarted(req.SubmissionKey, 1)
}

var errorChecks = []check{
	{Check{"error-refused", "a submit that is surely refused says so by a tool.NotStartedError with a reason, and starts nothing", ambiguity}, needsHook("Refuse", hasRefuse), errorRefused},
	{Check{"error-lost-answer", "a submit whose answer was lost is not called definite or throttled, for its job runs", ambiguity}, needsHook("LoseAnswer", hasLoseAnswer), errorLostAnswer},
	{Check{"error-lost-request", "a submit whose request was lost can be repeated, and starts one job then", ambiguity}, either(needsLock, needsHook("LoseRequest", hasLoseRequest)), errorLostRequest},
	{Check{"error-repeat", "a submit is repeated after a lost answer without starting a second job", ambiguity}, either(needsLock, needsHook("LoseAnswer", hasLoseAnswer)), errorRepeat},
	{Check{"error-throttled", "a submit that the outside refuses for now is a tool.ThrottledError: it started nothing, and the same again starts one job", "tool.ThrottledError"}, needsHook("Throttle", hasThrottle), errorThrottled},
	{Check{"error-context", "a submit whose context is over says that nothing was started only when that is so", ambiguity}, nil, errorContext},
}

func hasRefuse(s Subject) bool { return s.Refuse != nil }

func hasThrottle(s Subject) bool { return s.Throttle != nil }

func errorThrottled(c *bench) {
	req := c.request(Plan{})
	c.s.Throttle(c, req.SubmissionKey)
	h, err := c.ex.Submit(c.Context(), req)
	if !errors.Is(err, tool.ErrThrottled) {
		c.breach("a submit that is refused for now: handle %s, error %v", show(h), err)
	}
	c.stillStarted(req.SubmissionKey, 0)
	c.submit(c.another(), req)
	c.awaitStarted(req.SubmissionKey, 1)
	c.stillStarted(req.SubmissionKey, 1)
}

func errorRefused(c *bench) {
	req := c.request(Plan{})
	req.Input = c.s.Refuse(c, req.SubmissionKey)
	h, err := c.trySubmit(c.ex, req)
	f, definite := tool.DefiniteFailure(err)
	if !definite {
		c.breach("a submit that is surely refused: handle %s, error %v", show(h), err)
	}
	if !upperSnake.MatchString(f.Code) || len(f.Message) > maxMessage {
		c.breach("its failure has a code that is not UPPER_SNAKE, or a message above 4 KiB: %s", show(f))
	}
	c.stillStarted(req.SubmissionKey, 0)
}

func errorLostAnswer(c *bench) {
	req := c.request(Plan{})
	err := c.s.LoseAnswer(c, c.ex, req)
	c.awaitStarted(req.SubmissionKey, 1)
	if _, definite := tool.DefiniteFailure(err); definite || errors.Is(err, tool.ErrThrottled) {
		c.breach("the job %s runs, and its submit says: %v", req.SubmissionKey, err)
	}
}

func errorLostRequest(c *bench) {
	req := c.request(Plan{})
	_ = c.s.LoseRequest(c, c.ex, req)
	c.stillStarted(req.SubmissionKey, 0)
	c.submit(c.another(), req)
	c.awaitStarted(req.SubmissionKey, 1)
	c.stillStarted(req.SubmissionKey, 1)
}

func errorRepeat(c *bench) {
	req := c.request(Plan{})
	_ = c.s.LoseAnswer(c, c.ex, req)
	c.awaitStarted(req.SubmissionKey, 1)
	h := c.submit(c.another(), req)
	c.sameJob("a second repetition", h, c.submit(c.ex, req))
	c.stillStarted(req.SubmissionKey, 1)
}

func errorContext(c *bench) {
	req := c.request(Plan{})
	ctx, stop := context.WithCancel(c.Context())
	stop()
	_, err := c.ex.Submit(ctx, req)
	_, definite := tool.DefiniteFailure(err)
	if definite || errors.Is(err, tool.ErrThrottled) {
		c.stillStarted(req.SubmissionKey, 0)
	}
	if err == nil {
		c.awaitStarted(req.SubmissionKey, 1)
	}
}

var listChecks = []check{
	{Check{"list-complete", "the list, page by page, holds every job that was started and that the outside knows, with its key and a handle of it", "tool.Lister"}, needsList, listComplete},
	{Check{"logs-read", "the logs of a job that is over are read to their end", "tool.LogReader"}, either(needsLogs, needsLook), logsRead},
}

func needsList(_ Subject, p tool.Promises) string {
	if !p.List {
		return "it does not promise to list"
	}
	return ""
}

func needsLogs(_ Subject, p tool.Promises) string {
	if !p.Logs {
		return "it does not promise logs"
	}
	return ""
}

// maxPages is more than a list of the suite can have.
const maxPages = 10_000

func listComplete(c *bench) {
	const jobs = 5
	want := map[string]tool.Handle{}
	var reqs []tool.Request
	for i := range jobs {
		req, h := c.start(Plan{})
		want[req.SubmissionKey], reqs = h, append(reqs, req)
		if i == 0 && c.p.Observe {
			c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
			c.settled(c.ex, req, h)
		}
	}
	lister, ok := c.another().(tool.Lister)
	if !ok {
		c.breach("it promises to list and is no tool.Lister")
	}
	missing := ""
	if !c.poll(func() bool {
		got := c.list(lister)
		missing = ""
		for _, req := range reqs {
			listed, ok := got[req.SubmissionKey]
			if !ok {
				missing = req.SubmissionKey
				continue
			}
			c.sameJob("the handle in the list", want[req.SubmissionKey], listed.Handle)
			if listed.State == tool.StateSucceeded && req.SubmissionKey != reqs[0].SubmissionKey {
				c.breach("the list calls the running job %s succeeded", req.SubmissionKey)
			}
		}
		return missing == ""
	}) {
		c.breach("the job %s was started and is not in the list", missing)
	}
}

// list reads all pages.
func (c *bench) list(lister tool.Lister) map[string]tool.Listed {
	c.Helper()
	got := map[string]tool.Listed{}
	cursor := ""
	for range maxPages {
		page, err := lister.List(c.Context(), cursor)
		if err != nil {
			c.breach("list from %q: %v", cursor, err)
		}
		for _, j := range page.Jobs {
			got[j.SubmissionKey] = j
		}
		if page.Next == "" {
			return got
		}
		if page.Next == cursor {
			c.breach("the page after %q is the same page", cursor)
		}
		cursor = page.Next
	}
	c.breach("the list does not end within %d pages", maxPages)
	return nil
}

func logsRead(c *bench) {
	req, h := c.start(Plan{})
	c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
	c.settled(c.ex, req, h)
	reader, ok := c.another().(tool.LogReader)
	if !ok {
		c.breach("it promises logs and is no tool.LogReader")
	}
	for _, stream := range []string{tool.StreamStdout, tool.StreamStderr} {
		offset, end := int64(0), false
		c.within("the log of a job that is over ends", func() bool {
			chunk, err := reader.Logs(c.Context(), h, stream, offset, 0)
			if err != nil {
				c.breach("logs of %s, %s from %d: %v", req.SubmissionKey, stream, offset, err)
			}
			if chunk.Next < offset {
				c.breach("the log goes back from %d to %d", offset, chunk.Next)
			}
			offset, end = chunk.Next, chunk.End
			return end
		})
	}
}
