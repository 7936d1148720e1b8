package conform

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/wakepoint/wakepoint/activities/tool"
)

var promiseChecks = []check{
	{Check{"promises-known", "what an executor promises is made of the known words, and every process of it promises the same", promises}, nil, promisesKnown},
	{Check{"abilities-fit", "it is a Lister when it promises to list, and a LogReader when it promises logs", promises}, nil, abilitiesFit},
}

func promisesKnown(c *bench) {
	p := c.p
	if !slices.Contains([]tool.Scope{tool.ScopeNone, tool.ScopeHost, tool.ScopeAlways}, p.SubmitOnce) ||
		!slices.Contains([]tool.FindWord{tool.FindNone, tool.FindHint, tool.FindSure}, p.Find) ||
		!slices.Contains([]tool.CancelWord{tool.CancelNone, tool.CancelAsked, tool.CancelForced}, p.Cancel) {
		c.breach("unknown words: %s", show(p))
	}
	if second := tool.PromisesOf(c.another()); second != p {
		c.breach("one process promises %s, another %s", show(p), show(second))
	}
}

func abilitiesFit(c *bench) {
	_, lists := c.ex.(tool.Lister)
	_, reads := c.ex.(tool.LogReader)
	if c.p.List && !lists || c.p.Logs && !reads {
		c.breach("it promises %s, and is a Lister: %v, a LogReader: %v", show(c.p), lists, reads)
	}
}

var submitChecks = []check{
	{Check{"submit-starts-one", "a submit that gave a handle has started one job", contract}, nil, submitStartsOne},
	{Check{"submit-repeated", "a second submit of a key that runs gives the same handle and starts nothing, whatever its attempt", contract}, needsLock, submitRepeated},
	{Check{"submit-concurrent", "submits of one key at the same time, by several processes, start one job between them", contract}, needsLock, submitConcurrent},
	{Check{"submit-other-process", "a process that replaces the first one gets the job that is there", contract}, needsLock, submitOtherProcess},
	{Check{"submit-after-success", "a key whose job has succeeded starts nothing any more, whatever the attempt", contract}, either(needsLock, needsLook), submitAfterSuccess},
	{Check{"submit-same-attempt", "a key whose job ended without success is not started again by the same attempt", contract}, either(needsLock, needsLook), submitSameAttempt},
	{Check{"submit-next-attempt", "a key whose job ended without success is started again by a higher attempt, under the same key and once", contract}, either(needsLock, needsLook, needsRestart), submitNextAttempt},
	{Check{"submit-never-restarts", "an executor that does not start a key again starts nothing for a higher attempt and says how the old job ended, or that surely nothing was started", contract}, either(needsLock, needsLook, restarts), submitNeverRestarts},
	{Check{"submit-keys-apart", "keys that are alike are different jobs", contract}, nil, submitKeysApart},
	{Check{"submit-context", "a job goes on when the context of its submit is over and the process is replaced", contract}, either(needsLook, survives), submitContext},
}

func restarts(s Subject, _ tool.Promises) string {
	if s.NoRestart == "" {
		return "it starts such a key again, see submit-next-attempt"
	}
	return ""
}

func survives(_ Subject, p tool.Promises) string {
	if !p.Survives {
		return "it does not promise that a job survives its worker"
	}
	return ""
}

func submitStartsOne(c *bench) {
	req := c.request(Plan{})
	c.wantStarted(req.SubmissionKey, 0)
	h := c.submit(c.ex, req)
	if h.Executor == "" || h.ID == "" {
		c.breach("the handle %s names no executor or no job", show(h))
	}
	c.awaitStarted(req.SubmissionKey, 1)
	c.stillStarted(req.SubmissionKey, 1)
}

func submitRepeated(c *bench) {
	req, h := c.start(Plan{})
	c.sameJob("the same submit again", h, c.submit(c.ex, req))
	c.sameJob("a submit of a higher attempt while the job runs", h, c.submit(c.ex, again(req, 2)))
	c.stillStarted(req.SubmissionKey, 1)
}

func submitConcurrent(c *bench) {
	req := c.request(Plan{})
	executors := []tool.Executor{c.ex, c.another()}
	const each = 4
	handles := make([]tool.Handle, each*len(executors))
	errs := make([]error, len(handles))
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() { handles[i], errs[i] = c.trySubmit(executors[i%len(executors)], req) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			c.breach("one of %d submits at the same time: %v", len(handles), err)
		}
		c.sameJob("one of several submits at the same time", handles[0], handles[i])
	}
	c.awaitStarted(req.SubmissionKey, 1)
	c.stillStarted(req.SubmissionKey, 1)
}

func submitOtherProcess(c *bench) {
	req, h := c.start(Plan{})
	c.sameJob("a submit by another process", h, c.submit(c.another(), req))
	c.stillStarted(req.SubmissionKey, 1)
}

func submitAfterSuccess(c *bench) {
	req, h := c.start(Plan{})
	result := resultOf(req.SubmissionKey)
	c.s.Succeed(c, req.SubmissionKey, result)
	c.wantState(c.settled(c.ex, req, h), "a job that did its work", tool.StateSucceeded)
	for _, attempt := range []int{1, 2} {
		second := c.submit(c.another(), again(req, attempt))
		obs := c.settled(c.ex, req, second)
		c.wantState(obs, "a job that did its work and was submitted again", tool.StateSucceeded)
		c.wantResult(obs, result)
	}
	c.stillStarted(req.SubmissionKey, 1)
}

func submitSameAttempt(c *bench) {
	for _, e := range c.over(tool.Request{}, tool.Handle{})[1:] { // but success
		req, h := c.start(Plan{})
		c.endBy(e.name, req, h)
		c.wantState(c.settled(c.ex, req, h), "the job", e.state)
		c.sameJob("the same attempt after the job has "+e.name, h, c.submit(c.another(), req))
		c.stillStarted(req.SubmissionKey, 1)
	}
}

func submitNextAttempt(c *bench) {
	for _, e := range c.over(tool.Request{}, tool.Handle{})[1:] {
		req, h := c.start(Plan{})
		c.endBy(e.name, req, h)
		c.wantState(c.settled(c.ex, req, h), "the job", e.state)
		next := again(c.planned(req, Plan{}), 2)
		second := c.submit(c.another(), next)
		c.awaitStarted(req.SubmissionKey, 2)
		c.sameJob("the second attempt, submitted twice", second, c.submit(c.ex, next))
		c.wantState(c.look(c.ex, next, second), "the job of the second attempt", tool.StateRunning)
		c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey))
		c.wantState(c.settled(c.ex, next, second), "the job of the second attempt", tool.StateSucceeded)
		c.stillStarted(req.SubmissionKey, 2)
	}
}

func submitNeverRestarts(c *bench) {
	for _, e := range c.over(tool.Request{}, tool.Handle{})[1:] {
		req, h := c.start(Plan{})
		c.endBy(e.name, req, h)
		c.wantState(c.settled(c.ex, req, h), "the job", e.state)
		second, err := c.trySubmit(c.another(), again(req, 2))
		if _, definite := tool.DefiniteFailure(err); err != nil && !definite {
			c.breach("submit of a higher attempt: %v", err)
		}
		if err == nil {
			c.wantState(c.settled(c.ex, req, second), "the job that a higher attempt was given", e.state)
		}
		c.stillStarted(req.SubmissionKey, 1)
	}
}

// endBy ends a running job in the way of that name.
func (c *bench) endBy(name string, req tool.Request, h tool.Handle) {
	c.Helper()
	for _, e := range c.over(req, h) {
		if e.name == name {
			e.end()
		}
	}
}

func submitKeysApart(c *bench) {
	base := c.request(Plan{})
	var all []tool.Handle
	for _, suffix := range []string{"", "1", ".1", "-1", "_"} {
		req := base
		req.TaskID += suffix
		req.SubmissionKey = "conform/" + req.TaskID + "/1"
		req = c.planned(req, Plan{})
		h := c.submit(c.ex, req)
		c.awaitStarted(req.SubmissionKey, 1)
		for _, other := range all {
			if reflect.DeepEqual(h, other) {
				c.breach("the keys of %s and of another task have the same handle %s", req.TaskID, show(h))
			}
		}
		all = append(all, h)
	}
}

func submitContext(c *bench) {
	req := c.request(Plan{})
	var h tool.Handle
	c.withContext(func(short *bench) { h = short.submit(short.ex, req) })
	c.awaitStarted(req.SubmissionKey, 1)
	second := c.another()
	c.during(func() {
		c.wantState(c.look(second, req, h), "a job whose worker is gone", tool.StateRunning)
		if c.s.Running(c, req.SubmissionKey) != 1 {
			c.breach("the outside runs %s no more", req.SubmissionKey)
		}
	})
}

var handleChecks = []check{
	{Check{"handle-survives", "a handle means the same job after it went through JSON and to another process, and is small, for it is kept in history", contract}, needsLook, handleSurvives},
	{Check{"handle-unknown", "a handle whose job the outside does not know is an error or unknown, and never says how the job ended", "tool.ErrUnknownHandle, tool.StateUnknown"}, nil, handleUnknown},
	{Check{"handle-foreign", "a handle of another executor is refused as tool.ErrUnknownHandle and touches nothing", "tool.ErrUnknownHandle"}, nil, handleForeign},
}

// maxHandle is how large a handle may be, in bytes of JSON: it is in the history of every task.
const maxHandle = 4 << 10

func handleSurvives(c *bench) {
	req, h := c.start(Plan{})
	kept, err := json.Marshal(h)
	if err != nil {
		c.breach("the handle is no JSON: %v", err)
	}
	if len(kept) > maxHandle {
		c.breach("the handle has %d bytes, at most %d", len(kept), maxHandle)
	}
	var back tool.Handle
	if err := json.Unmarshal(kept, &back); err != nil {
		c.breach("the handle %s cannot be read back: %v", kept, err)
	}
	c.wantState(c.look(c.another(), req, back), "a running job, by a handle from another process", tool.StateRunning)
	result := resultOf(req.SubmissionKey)
	c.s.Succeed(c, req.SubmissionKey, result)
	obs := c.settled(c.another(), req, back)
	c.wantState(obs, "a job that did its work, by a handle from another process", tool.StateSucceeded)
	c.wantResult(obs, result)
}

func handleUnknown(c *bench) {
	_, h := c.start(Plan{})
	for _, id := range []string{"", "no-such-job", h.ID + "0", "../../" + h.ID, "\x00", h.ID + "/../x"} {
		unknown := tool.Handle{Executor: h.Executor, TaskQueue: h.TaskQueue, ID: id}
		obs, err := c.ex.Observe(c.Context(), unknown)
		if err == nil && obs.State != tool.StateUnknown {
			c.breach("the handle %s, which was never given, is seen as %s", show(unknown), show(obs))
		}
		_ = c.ex.Cancel(c.Context(), unknown) // whatever it says, it says it
	}
}

func handleForeign(c *bench) {
	req, h := c.start(Plan{})
	foreign := h
	foreign.Executor = "somebody-elses"
	if _, err := c.ex.Observe(c.Context(), foreign); !c.isUnknown(err) {
		c.breach("observe of a handle of another executor: %v", err)
	}
	if err := c.ex.Cancel(c.Context(), foreign); !c.isUnknown(err) {
		c.breach("cancel of a handle of another executor: %v", err)
	}
	c.during(func() {
		if c.s.Running(c, req.SubmissionKey) != 1 {
			c.breach("a cancel by a handle of another executor has ended the job")
		}
	})
}
