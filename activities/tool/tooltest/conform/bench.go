package conform

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// bench is one check at work.
type bench struct {
	T
	s     Subject
	p     tool.Promises
	check Check
	// ex is the executor of the process that the check begins with.
	ex tool.Executor
	// keys are those of the check's jobs.
	keys []string
}

// tidy ends what the check has left running, so that the ones after it have the machine for
// themselves.
func (c *bench) tidy() {
	for _, key := range c.keys {
		if c.s.Running(c, key) > 0 {
			c.s.Succeed(c, key, resultOf(key))
		}
	}
}

// breach ends the check, with the rule that was broken.
func (c *bench) breach(format string, args ...any) {
	c.Helper()
	c.Fatalf("%s\n    the rule: %s\n    from: %s", fmt.Sprintf(format, args...), c.check.Rule, c.check.Source)
}

// another is the executor of a process that replaces the one before.
func (c *bench) another() tool.Executor { return c.s.New(c) }

// request makes a request with a key that nobody has used, for a job that follows a plan. Keys
// have the form that Wakepoint gives them: tenant, task and a number.
func (c *bench) request(p Plan) tool.Request {
	task := fmt.Sprintf("%s-%d-%s", c.check.Name, len(c.keys)+1, rand.Text()[:8])
	req := tool.Request{Tenant: "conform", TaskID: task, Attempt: 1, SubmissionKey: "conform/" + task + "/1", Tool: c.s.Tool}
	return c.planned(req, p)
}

// planned is a request whose next job follows a plan.
func (c *bench) planned(req tool.Request, p Plan) tool.Request {
	req.Input = c.s.Plan(c, req.SubmissionKey, p)
	if !slices.Contains(c.keys, req.SubmissionKey) {
		c.keys = append(c.keys, req.SubmissionKey)
	}
	return req
}

// again is the same request for a later attempt.
func again(req tool.Request, attempt int) tool.Request {
	req.Attempt = attempt
	return req
}

// submit submits, waiting as long as the outside says that it is busy.
func (c *bench) submit(ex tool.Executor, req tool.Request) tool.Handle {
	c.Helper()
	h, err := c.trySubmit(ex, req)
	if err != nil {
		c.breach("submit of %s: %v", req.SubmissionKey, err)
	}
	return h
}

// trySubmit is submit with the error given back; it may be called from any goroutine.
func (c *bench) trySubmit(ex tool.Executor, req tool.Request) (h tool.Handle, err error) {
	c.poll(func() bool {
		h, err = ex.Submit(c.Context(), req)
		return !errors.Is(err, tool.ErrThrottled)
	})
	return h, err
}

// start submits a fresh job that follows the plan.
func (c *bench) start(p Plan) (tool.Request, tool.Handle) {
	c.Helper()
	req := c.request(p)
	h := c.submit(c.ex, req)
	c.awaitStarted(req.SubmissionKey, 1)
	return req, h
}

// awaitStarted waits until the outside has started n jobs of a key: Submit may answer before the
// job is there, when its start is certain.
func (c *bench) awaitStarted(key string, n int) {
	c.Helper()
	c.within(fmt.Sprintf("the outside starts job %d of %s", n, key), func() bool { return c.s.Started(c, key) >= n })
	c.wantStarted(key, n)
}

// wantStarted is a breach when the outside has started another number of jobs.
func (c *bench) wantStarted(key string, n int) {
	c.Helper()
	if got := c.s.Started(c, key); got != n {
		c.breach("the outside has started %d jobs for the key %s, want %d", got, key, n)
	}
}

// stillStarted looks on for a while, for a job that is started late.
func (c *bench) stillStarted(key string, n int) {
	c.Helper()
	c.during(func() { c.wantStarted(key, n) })
}

// look observes and checks what every observation has to be. It repeats a look that failed.
func (c *bench) look(ex tool.Executor, req tool.Request, h tool.Handle) tool.Observation {
	c.Helper()
	var obs tool.Observation
	var err error
	c.poll(func() bool {
		obs, err = ex.Observe(c.Context(), h)
		return err == nil || errors.Is(err, tool.ErrUnknownHandle)
	})
	if err != nil {
		c.breach("observe of %s: %v", req.SubmissionKey, err)
	}
	if flaw := flawOf(obs); flaw != "" {
		c.breach("an observation of %s is not sound: %s: %s", req.SubmissionKey, flaw, show(obs))
	}
	return obs
}

// settled observes until the job is over.
func (c *bench) settled(ex tool.Executor, req tool.Request, h tool.Handle) tool.Observation {
	c.Helper()
	var obs tool.Observation
	if !c.poll(func() bool {
		obs = c.look(ex, req, h)
		return obs.State.Terminal()
	}) {
		c.breach("job %s has ended and is never seen to be over, last: %s", req.SubmissionKey, show(obs))
	}
	return obs
}

// wantState is a breach when a job is seen in another state.
func (c *bench) wantState(obs tool.Observation, what string, want ...tool.State) {
	c.Helper()
	for _, s := range want {
		if obs.State == s {
			return
		}
	}
	c.breach("%s is seen as %s, want %v", what, show(obs), want)
}

// sameJob is a breach when two handles do not mean the same job.
func (c *bench) sameJob(what string, a, b tool.Handle) {
	c.Helper()
	if a.Executor != b.Executor || a.ID != b.ID {
		c.breach("%s: the handle is %s, and was %s", what, show(b), show(a))
	}
}

// content reads a result and checks how it is addressed.
func (c *bench) content(r *tool.Result) json.RawMessage {
	c.Helper()
	if r.Ref == "" {
		return r.Inline
	}
	if c.s.Read == nil {
		c.Fatalf("subject: read must be given, for the result lies at %s", r.Ref)
	}
	data := c.s.Read(c, *r)
	if sum := sha256.Sum256(data); r.Hash != hex.EncodeToString(sum[:]) {
		c.breach("the hash of the result is %s, want %x", r.Hash, sum)
	}
	if r.Bytes != int64(len(data)) {
		c.breach("the result has %d bytes, the observation says %d", len(data), r.Bytes)
	}
	return data
}

// wantResult is a breach when a succeeded job has another result than the outside gave.
func (c *bench) wantResult(obs tool.Observation, want json.RawMessage) {
	c.Helper()
	if got := c.content(obs.Result); !sameJSON(got, want) {
		c.breach("the result is %s, the outside gave %s", got, want)
	}
}

// over are the ways in which a job of the suite ends.
func (c *bench) over(req tool.Request, h tool.Handle) []ending {
	ends := []ending{
		{"succeeded", tool.StateSucceeded, func() { c.s.Succeed(c, req.SubmissionKey, resultOf(req.SubmissionKey)) }},
		{"failed", tool.StateFailed, func() { c.s.Fail(c, req.SubmissionKey) }},
	}
	if c.p.Cancel != tool.CancelNone {
		ends = append(ends, ending{"cancelled", tool.StateCancelled, func() { c.cancel(c.ex, h) }})
	}
	return ends
}

type ending struct {
	name  string
	state tool.State
	end   func()
}

// cancel asks for the end of a job that is there.
func (c *bench) cancel(ex tool.Executor, h tool.Handle) {
	c.Helper()
	var err error
	if !c.poll(func() bool { err = ex.Cancel(c.Context(), h); return err == nil }) {
		c.breach("cancel of %s: %v", h.ID, err)
	}
}

// find looks a key up. A word that is only a hint may come late.
func (c *bench) find(ex tool.Executor, key string) (h tool.Handle, found bool) {
	c.Helper()
	var err error
	c.poll(func() bool {
		h, found, err = ex.Find(c.Context(), key)
		return err == nil && (found || c.p.Find == tool.FindSure)
	})
	if err != nil {
		c.breach("find of %s: %v", key, err)
	}
	return h, found
}

// within waits for something that has to happen.
func (c *bench) within(what string, holds func() bool) {
	c.Helper()
	if !c.poll(holds) {
		c.breach("waited %v in vain: %s", c.s.Patience, what)
	}
}

// poll asks until the answer is yes or the patience is over.
func (c *bench) poll(holds func() bool) bool {
	ctx, stop := context.WithTimeout(c.Context(), c.s.Patience)
	defer stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(c.s.Pause):
		}
	}
	return true
}

// during looks on for the quiet time, at least three times.
func (c *bench) during(look func()) {
	end := time.Now().Add(c.s.Quiet)
	for n := 0; n < 3 || time.Now().Before(end); n++ {
		look()
		<-time.After(c.s.Pause)
	}
}

// resultOf is a result that names the key it belongs to.
func resultOf(key string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"of":%q,"n":[1,2.5,true,null,"ü"]}`, key))
}

func sameJSON(a, b []byte) bool {
	decode := func(data []byte) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&v)
		return v, err
	}
	va, errA := decode(a)
	vb, errB := decode(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

var upperSnake = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// maxMessage is the contract's bound of an error's text, in bytes.
const maxMessage = 4 << 10

// flawOf says what is wrong with an observation whatever the job did.
func flawOf(obs tool.Observation) string {
	switch obs.State {
	case tool.StateRunning, tool.StateUnknown, tool.StateLost:
		if obs.Definite {
			return "definite, though more may come of it"
		}
	case tool.StateSucceeded, tool.StateFailed, tool.StateCancelled:
		if !obs.Definite {
			return "over, and not definite"
		}
	default:
		return "a state that is none"
	}
	switch {
	case obs.Progress != nil && (*obs.Progress < 0 || *obs.Progress > 100):
		return "a progress outside of 0 to 100"
	case (obs.State == tool.StateSucceeded) != (obs.Result != nil):
		return "a result is there exactly when the job has succeeded"
	case obs.Error == nil && (obs.State == tool.StateFailed || obs.State == tool.StateLost):
		return "no error says why"
	case obs.Error != nil && (!upperSnake.MatchString(obs.Error.Code) || len(obs.Error.Message) > maxMessage):
		return "its error has a code that is not UPPER_SNAKE, or a message above 4 KiB"
	}
	return ""
}

// show prints a value for an error.
func show(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(data)
}
