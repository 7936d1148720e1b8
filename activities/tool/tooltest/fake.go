// Package tooltest holds an executor that follows a script, for tests of what calls executors. It
// keeps the contract of [tool.Executor] (get-or-create by key, jobs without a result repeated for a
// higher attempt only), starts no process and reads no clock.
package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Kind is the executor kind in the handles of the fake.
const Kind = "fake"

// AnyKey stands for every submission key without a setting of its own.
const AnyKey = ""

// Verb is a call of the executor.
type Verb string

// The verbs of an executor.
const (
	Submit  Verb = "submit"
	Observe Verb = "observe"
	Cancel  Verb = "cancel"
	Find    Verb = "find"
	Logs    Verb = "logs"
	List    Verb = "list"
)

// Call is one call that was made.
type Call struct {
	Verb Verb
	// Key is the submission key, Run the run of the job that the handle named, 0 for Submit and
	// Find.
	Key string
	Run int
	// Request is set for Submit.
	Request *tool.Request
	// Err is what the call answered.
	Err error
}

// Executor is the fake. The zero value is not usable; see [New]. All methods may be called from any
// goroutine, and settings may change while calls are made.
type Executor struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced with each call
	settings map[string]*settings
	jobs     map[string][]*run
	calls    []Call
	promises tool.Promises
}

var (
	_ tool.Executor  = (*Executor)(nil)
	_ tool.LogReader = (*Executor)(nil)
	_ tool.Promiser  = (*Executor)(nil)
	_ tool.Lister    = (*Executor)(nil)
)

// settings is what was said of a key.
type settings struct {
	scripts  [][]tool.Observation
	onCancel []tool.Observation
	errors   map[Verb][]scriptedError
	logs     map[string]string
}

type scriptedError struct {
	err error
	// acts: the call has its effect before it fails.
	acts bool
}

// run is one run of a job.
type run struct {
	attempt   int
	rest      []tool.Observation
	forgotten bool
}

// New makes a fake whose jobs run for ever, until a script says otherwise.
func New() *Executor {
	return &Executor{changed: make(chan struct{}), settings: map[string]*settings{}, jobs: map[string][]*run{}, promises: Promises()}
}

// Script says what the looks at a job give, one after the other; the last is given for ever. The
// first Script of a key is for its first run, the next for the run after that one is lost, and so
// on; further runs follow the last.
func (e *Executor) Script(key string, looks ...tool.Observation) {
	e.set(key, func(s *settings) { s.scripts = append(s.scripts, slices.Clone(looks)) })
}

// OnCancel says what the looks at a job give after it was asked to cancel.
// Default: a definite cancellation.
func (e *Executor) OnCancel(key string, looks ...tool.Observation) {
	e.set(key, func(s *settings) { s.onCancel = slices.Clone(looks) })
}

// Fail makes the next calls of a verb fail, one for each error, without any effect.
func (e *Executor) Fail(verb Verb, key string, errs ...error) { e.fail(verb, key, false, errs) }

// LoseAnswer makes the next calls of a verb have their effect and then fail, one for each error: the
// request arrived, the answer did not.
func (e *Executor) LoseAnswer(verb Verb, key string, errs ...error) { e.fail(verb, key, true, errs) }

func (e *Executor) fail(verb Verb, key string, acts bool, errs []error) {
	e.set(key, func(s *settings) {
		for _, err := range errs {
			s.errors[verb] = append(s.errors[verb], scriptedError{err, acts})
		}
	})
}

// SetLog says what a stream of a key's jobs holds. It ends when the job is over.
func (e *Executor) SetLog(key, stream, text string) {
	e.set(key, func(s *settings) { s.logs[stream] = text })
}

func (e *Executor) set(key string, change func(*settings)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.settings[key]
	if !ok {
		s = &settings{errors: map[Verb][]scriptedError{}, logs: map[string]string{}}
		e.settings[key] = s
	}
	change(s)
}

// Calls gives all calls so far, in order.
func (e *Executor) Calls() []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

// Count says how many calls of a verb there were for a key, or for all with [AnyKey].
func (e *Executor) Count(verb Verb, key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count(verb, key)
}

func (e *Executor) count(verb Verb, key string) int {
	n := 0
	for _, c := range e.calls {
		if c.Verb == verb && (key == AnyKey || c.Key == key) {
			n++
		}
	}
	return n
}

// Started says how many runs of a key were started, or of all keys with [AnyKey].
func (e *Executor) Started(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for k, runs := range e.jobs {
		if key == AnyKey || k == key {
			n += len(runs)
		}
	}
	return n
}

// Await waits until there were n calls of a verb for a key, or for all with [AnyKey].
func (e *Executor) Await(ctx context.Context, verb Verb, key string, n int) error {
	for {
		e.mu.Lock()
		got, changed := e.count(verb, key), e.changed
		e.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d calls of %s for %q: %w", got, n, verb, key, ctx.Err())
		}
	}
}

// Submit implements [tool.Executor].
func (e *Executor) Submit(_ context.Context, req tool.Request) (tool.Handle, error) {
	var h tool.Handle
	err := e.call(Call{Verb: Submit, Key: req.SubmissionKey, Request: &req}, func() error {
		h = e.getOrCreate(req)
		return nil
	})
	if err != nil {
		return tool.Handle{}, err
	}
	return h, nil
}

func (e *Executor) getOrCreate(req tool.Request) tool.Handle {
	key := req.SubmissionKey
	runs := e.jobs[key]
	if n := len(runs); n == 0 || runs[n-1].forgotten || req.Attempt > runs[n-1].attempt && over(runs[n-1].rest[0].State) {
		runs = append(runs, &run{attempt: req.Attempt, rest: e.script(key, n)})
		e.jobs[key] = runs
	}
	return handle(key, len(runs))
}

// over says of a run that it left nothing for a later attempt.
func over(s tool.State) bool { return s.Terminal() && s != tool.StateSucceeded }

// script is for the run after n others.
func (e *Executor) script(key string, n int) []tool.Observation {
	for _, k := range []string{key, AnyKey} {
		if s := e.settings[k]; s != nil && len(s.scripts) > 0 {
			if looks := s.scripts[min(n, len(s.scripts)-1)]; len(looks) > 0 {
				return looks
			}
		}
	}
	return []tool.Observation{Running()}
}

// Observe implements [tool.Executor].
func (e *Executor) Observe(_ context.Context, h tool.Handle) (tool.Observation, error) {
	var obs tool.Observation
	err := e.callJob(Observe, h, func(_ string, r *run) error {
		obs = r.rest[0]
		if obs.Attempt == 0 {
			obs.Attempt = r.attempt
		}
		if len(r.rest) > 1 {
			r.rest = r.rest[1:]
		}
		return nil
	})
	if err != nil {
		return tool.Observation{}, err
	}
	return obs, nil
}

// Cancel implements [tool.Executor].
func (e *Executor) Cancel(_ context.Context, h tool.Handle) error {
	return e.callJob(Cancel, h, func(key string, r *run) error {
		if r.rest[0].State.Terminal() {
			return nil
		}
		r.rest = []tool.Observation{Cancelled()}
		for _, k := range []string{AnyKey, key} { // the key's own setting stands
			if s := e.settings[k]; s != nil && len(s.onCancel) > 0 {
				r.rest = s.onCancel
			}
		}
		return nil
	})
}

// Find implements [tool.Executor].
func (e *Executor) Find(_ context.Context, submissionKey string) (tool.Handle, bool, error) {
	var h tool.Handle
	found := false
	err := e.call(Call{Verb: Find, Key: submissionKey}, func() error {
		n := len(e.jobs[submissionKey])
		if found = n > 0 && !e.jobs[submissionKey][n-1].forgotten; found {
			h = handle(submissionKey, n)
		}
		return nil
	})
	if err != nil {
		return tool.Handle{}, false, err
	}
	return h, found, nil
}

// Logs implements [tool.LogReader].
func (e *Executor) Logs(_ context.Context, h tool.Handle, stream string, offset int64, limit int) (tool.LogChunk, error) {
	var chunk tool.LogChunk
	err := e.callJob(Logs, h, func(key string, r *run) error {
		text := ""
		for _, k := range []string{AnyKey, key} { // the key's own setting stands
			if s := e.settings[k]; s != nil && s.logs[stream] != "" {
				text = s.logs[stream]
			}
		}
		if offset < 0 || offset > int64(len(text)) {
			return fmt.Errorf("offset %d is outside of the log", offset)
		}
		text = text[offset:]
		if limit > 0 && len(text) > limit {
			text = text[:limit]
		}
		next := offset + int64(len(text))
		chunk = tool.LogChunk{Data: []byte(text), Offset: offset, Next: next, End: len(text) == 0 && r.rest[0].State.Terminal()}
		return nil
	})
	return chunk, err
}

// callJob is call for the verbs that take a handle.
func (e *Executor) callJob(verb Verb, h tool.Handle, act func(key string, r *run) error) error {
	key, n, ok := parseHandle(h)
	if !ok {
		return fmt.Errorf("%s: %w: %q", verb, tool.ErrUnknownHandle, h.ID)
	}
	return e.call(Call{Verb: verb, Key: key, Run: n}, func() error {
		runs := e.jobs[key]
		if n > len(runs) {
			return fmt.Errorf("%s: %w: %q", verb, tool.ErrUnknownHandle, h.ID)
		}
		return act(key, runs[n-1])
	})
}

// call does what was scripted for a call, writes it down and wakes who waits for it.
func (e *Executor) call(c Call, act func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	scripted, fails := e.nextError(c.Verb, c.Key)
	if !fails || scripted.acts {
		c.Err = act()
	}
	if fails {
		c.Err = scripted.err
	}
	e.calls = append(e.calls, c)
	close(e.changed)
	e.changed = make(chan struct{})
	return c.Err
}

func (e *Executor) nextError(verb Verb, key string) (scriptedError, bool) {
	for _, k := range []string{key, AnyKey} {
		if s := e.settings[k]; s != nil && len(s.errors[verb]) > 0 {
			next := s.errors[verb][0]
			s.errors[verb] = s.errors[verb][1:]
			return next, true
		}
	}
	return scriptedError{}, false
}

func handle(key string, n int) tool.Handle {
	return tool.Handle{Executor: Kind, ID: key + "#" + strconv.Itoa(n)}
}

func parseHandle(h tool.Handle) (key string, n int, ok bool) {
	i := strings.LastIndexByte(h.ID, '#')
	if h.Executor != Kind || i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(h.ID[i+1:])
	return h.ID[:i], n, err == nil && n > 0
}

// Running is a look at a job that runs.
func Running() tool.Observation { return tool.Observation{State: tool.StateRunning} }

// RunningAt is a look at a job that has come so far, 0 to 100.
func RunningAt(progress int, stage string) tool.Observation {
	return tool.Observation{State: tool.StateRunning, Progress: &progress, Stage: stage}
}

// Succeeded is a look at a job that ended well, with a small result.
func Succeeded(result string) tool.Observation {
	return tool.Observation{State: tool.StateSucceeded, Definite: true, Result: &tool.Result{Inline: json.RawMessage(result), ContentType: "application/json", Bytes: int64(len(result))}}
}

// Failed is a look at a job that surely failed.
func Failed(code string, retryable bool) tool.Observation {
	return tool.Observation{State: tool.StateFailed, Definite: true, Error: &tool.Failure{
		Code: code, Message: "scripted failure", Severity: tool.SeverityError, Class: tool.ClassThirdParty, Retryable: retryable,
	}}
}

// Cancelled is a look at a job that ended because it was asked to.
func Cancelled() tool.Observation {
	return tool.Observation{State: tool.StateCancelled, Definite: true}
}

// Lost is a look at a job that surely runs no more, with nothing known of how it ended.
func Lost() tool.Observation {
	return tool.Observation{State: tool.StateLost, Error: &tool.Failure{
		Code: "WORKER_LOST", Message: "scripted loss", Severity: tool.SeverityError, Class: tool.ClassSystem, Retryable: true,
	}}
}

// Unknown is a look that learned nothing.
func Unknown() tool.Observation { return tool.Observation{State: tool.StateUnknown} }
