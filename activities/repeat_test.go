package activities_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// promising is the fake with promises of a test's own. A blind one finds nothing.
type promising struct {
	*tooltest.Executor
	promises tool.Promises
	blind    bool
}

func (p *promising) Promises() tool.Promises { return p.promises }

func (p *promising) Find(ctx context.Context, key string) (tool.Handle, bool, error) {
	h, found, err := p.Executor.Find(ctx, key)
	return h, found && !p.blind, err
}

// unsafeSubmission is one that must not be made twice.
func unsafeSubmission() protocol.SubmitRequest {
	return protocol.SubmitRequest{Job: job(), Input: []byte(`{}`), Effects: domain.EffectsUnsafe}
}

// The answer to the first submission is lost, having acted or not. What the second
// try does depends on what the executor can promise and on the tool's effects.
func TestRepeatedSubmission(t *testing.T) {
	t.Parallel()
	here, elsewhere := "host-a", "host-b"
	for name, tc := range map[string]struct {
		promises tool.Promises
		blind    bool
		effects  domain.Effects
		decided  bool
		// second is the host of the second try.
		second string
		// want is the type of the second try's error, and how many submissions there
		// were.
		want    string
		submits int
	}{
		"found: taken, not submitted again":           {tool.Promises{Find: tool.FindHint}, false, domain.EffectsUnsafe, false, here, "", 1},
		"not found, harmless":                         {tool.Promises{}, true, domain.EffectsIdempotent, false, here, "", 2},
		"not found, changes nothing":                  {tool.Promises{}, true, domain.EffectsNone, false, here, "", 2},
		"not found, unsafe, no promise":               {tool.Promises{}, true, domain.EffectsUnsafe, false, here, protocol.ErrTypeOutcomeUnknown, 1},
		"not found, unsafe, only a hint":              {tool.Promises{Find: tool.FindHint}, true, domain.EffectsUnsafe, false, here, protocol.ErrTypeOutcomeUnknown, 1},
		"not found for sure":                          {tool.Promises{Find: tool.FindSure}, true, domain.EffectsUnsafe, false, here, "", 2},
		"the key is a lock":                           {tool.Promises{SubmitOnce: tool.ScopeAlways}, true, domain.EffectsUnsafe, false, elsewhere, "", 2},
		"the key is a lock on this host":              {tool.Promises{SubmitOnce: tool.ScopeHost}, true, domain.EffectsUnsafe, false, here, "", 2},
		"the key is a lock on the other host":         {tool.Promises{SubmitOnce: tool.ScopeHost}, true, domain.EffectsUnsafe, false, elsewhere, protocol.ErrTypeOutcomeUnknown, 1},
		"a person decided about an earlier one":       {tool.Promises{}, true, domain.EffectsUnsafe, true, here, protocol.ErrTypeOutcomeUnknown, 1},
		"found on another host that can be asked too": {tool.Promises{SubmitOnce: tool.ScopeHost}, false, domain.EffectsUnsafe, false, elsewhere, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ex := &promising{Executor: b.tool, promises: tc.promises, blind: tc.blind}
			b.o.Executors = map[string]tool.Executor{"build": ex}
			b.tool.LoseAnswer(tooltest.Submit, key, &tool.AmbiguousError{Op: "submit", SubmissionKey: key, Cause: io.EOF})
			req := unsafeSubmission()
			req.Effects = tc.effects
			b.o.Host = here
			if _, err := b.submit(req); err == nil {
				t.Fatal("the first answer is lost")
			}
			if b.heartbeat["begun"] != true || b.heartbeat["host"] != here {
				t.Fatalf("the first try leaves %v", b.heartbeat)
			}
			b.o.Host, req.Decided = tc.second, tc.decided
			_, err := b.submit(req)
			got := ""
			if err != nil {
				got = failure(t, err).Type()
			}
			if got != tc.want || b.tool.Count(tooltest.Submit, key) != tc.submits {
				t.Errorf("%v with %d submissions, want %q with %d", err, b.tool.Count(tooltest.Submit, key), tc.want, tc.submits)
			}
			if tc.want == "" {
				return
			}
			var cause domain.TaskError
			if app := failure(t, err); app.Details(&cause) != nil || !app.NonRetryable() || cause.Code != domain.CodeOutcomeUnknown {
				t.Errorf("%v: %+v", err, cause)
			}
			// A third try on the first host knows no more than the second.
			b.o.Host = elsewhere
			if _, err := b.submit(req); err == nil || failure(t, err).Type() != protocol.ErrTypeOutcomeUnknown {
				t.Errorf("a third try: %v", err)
			}
		})
	}
}

// A person's decision is for the attempt that it begins, once: when that one's answer
// is lost too, a person is asked again.
func TestDecidedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.o.Executors = map[string]tool.Executor{"build": &promising{Executor: b.tool, blind: true}}
	b.tool.LoseAnswer(tooltest.Submit, key, io.EOF)
	req := unsafeSubmission()
	req.Attempt, req.RepeatOf, req.Decided = 2, 1, true
	if _, err := b.submit(req); err == nil || failure(t, err).NonRetryable() || b.tool.Count(tooltest.Submit, key) != 1 {
		t.Fatalf("%v after %d submissions: a person decided to submit", err, b.tool.Count(tooltest.Submit, key))
	}
	for name, again := range map[string]func(){
		"by the server": func() {},
		"by the task":   func() { b.heartbeat, req.RepeatOf = nil, 2 },
	} {
		again()
		_, err := b.submit(req)
		if app := failure(t, err); app.Type() != protocol.ErrTypeOutcomeUnknown || b.tool.Count(tooltest.Submit, key) != 1 {
			t.Errorf("repeated %s: %v after %d submissions", name, err, b.tool.Count(tooltest.Submit, key))
		}
	}
}

// A try that surely submitted nothing uses up no decision: a refusal for now, and a
// look that failed.
func TestDecidedUntilSubmitted(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*tooltest.Executor){
		"refused for now": func(ex *tooltest.Executor) { ex.Fail(tooltest.Submit, key, &tool.ThrottledError{Cause: io.EOF}) },
		"cannot look":     func(ex *tooltest.Executor) { ex.Fail(tooltest.Find, key, io.EOF) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.o.Executors = map[string]tool.Executor{"build": &promising{Executor: b.tool, blind: true}}
			refuse(b.tool)
			req := unsafeSubmission()
			req.Attempt, req.RepeatOf, req.Decided = 2, 1, true
			if _, err := b.submit(req); err == nil || failure(t, err).NonRetryable() {
				t.Fatalf("%v, want an error that is repeated", err)
			}
			if _, err := b.submit(req); err != nil || b.tool.Started(key) != 1 {
				t.Errorf("%v, %d jobs: a person decided to submit", err, b.tool.Started(key))
			}
		})
	}
}

// A new attempt under an old key looks first: a job that runs, or has a result, is
// taken; one that is over without one is started again.
func TestRepeatOfAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first tool.Observation
		runs  int
	}{
		"it still runs":    {tooltest.Running(), 1},
		"it has a result":  {tooltest.Succeeded(`1`), 1},
		"it is lost":       {tooltest.Lost(), 2},
		"it failed":        {tooltest.Failed("X", true), 2},
		"it was cancelled": {tooltest.Cancelled(), 2},
		"nobody knows":     {tooltest.Unknown(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tool.Script(key, tc.first)
			if _, err := b.submit(protocol.SubmitRequest{Job: job()}); err != nil {
				t.Fatal(err)
			}
			b.heartbeat = nil
			again := protocol.SubmitRequest{Job: job(), RepeatOf: 1}
			again.Attempt = 2
			if _, err := b.submit(again); err != nil || b.tool.Started(key) != tc.runs {
				t.Errorf("%v, %d runs, want %d", err, b.tool.Started(key), tc.runs)
			}
		})
	}
}

// A look that fails decides nothing: neither that there is a job nor that there is
// none.
func TestRepeatThatCannotLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Fail(tooltest.Find, key, io.EOF)
	req := unsafeSubmission()
	req.RepeatOf = 1
	_, err := b.submit(req)
	if app := failure(t, err); app.NonRetryable() || b.tool.Count(tooltest.Submit, key) != 0 {
		t.Errorf("%v after %d submissions", err, b.tool.Count(tooltest.Submit, key))
	}
}

// A repetition that is refused says nothing of the submission before it: only when
// it is sure that that one started nothing may the key move on.
func TestRepetitionThatIsRefused(t *testing.T) {
	t.Parallel()
	refused := &tool.NotStartedError{Failure: tool.Failure{Code: "UNAUTHORIZED", Message: "who are you?"}}
	for name, tc := range map[string]struct {
		promises tool.Promises
		effects  domain.Effects
		decided  bool
		want     string
	}{
		"the key is a lock, unsafe":   {tool.Promises{SubmitOnce: tool.ScopeAlways}, domain.EffectsUnsafe, false, protocol.ErrTypeOutcomeUnknown},
		"no promise, harmless":        {tool.Promises{}, domain.EffectsIdempotent, false, protocol.ErrTypeOutcomeUnknown},
		"surely none before":          {tool.Promises{Find: tool.FindSure}, domain.EffectsUnsafe, false, protocol.ErrTypeNotStarted},
		"a lock of this host":         {tool.Promises{SubmitOnce: tool.ScopeHost}, domain.EffectsUnsafe, false, protocol.ErrTypeNotStarted},
		"a person decided to do this": {tool.Promises{}, domain.EffectsUnsafe, true, protocol.ErrTypeNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.o.Executors = map[string]tool.Executor{"build": &promising{Executor: b.tool, promises: tc.promises, blind: true}}
			b.o.Host = "host-a"
			b.tool.LoseAnswer(tooltest.Submit, key, io.EOF)
			b.tool.Fail(tooltest.Submit, key, refused)
			req := unsafeSubmission()
			req.Effects = tc.effects
			_, _ = b.submit(req)
			if req.Decided = tc.decided; tc.decided {
				b.heartbeat, req.Attempt, req.RepeatOf = nil, 2, 1
			}
			_, err := b.submit(req)
			if app := failure(t, err); app.Type() != tc.want || !app.NonRetryable() || !strings.Contains(said(err), "UNAUTHORIZED") {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

// A submission that never has an answer is not repeated without end.
func TestSubmissionWithoutAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		b.tool.Fail(tooltest.Submit, key, errors.New("hung up"))
	}
	tries := 0
	for {
		tries++
		_, err := b.submit(protocol.SubmitRequest{Job: job(), Effects: domain.EffectsIdempotent})
		if app := failure(t, err); app.NonRetryable() {
			if app.Type() != protocol.ErrTypeOutcomeUnknown || !strings.Contains(app.Message(), "no answer 10 times, at last: hung up") {
				t.Errorf("%v", err)
			}
			break
		}
	}
	if tries != 10 {
		t.Errorf("%d tries", tries)
	}
}

// Why there was no answer is what a person needs to know first.
func TestWhyThereWasNoAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		find tool.FindWord
		says string
	}{
		"it can be asked":     {tool.FindHint, "and the outside does not know a job under key " + key},
		"nobody can be asked": {tool.FindNone, "and nobody can be asked for a job under key " + key},
	} {
		b := setup(t)
		b.o.Executors = map[string]tool.Executor{"build": &promising{Executor: b.tool, promises: tool.Promises{Find: tc.find}, blind: true}}
		b.tool.LoseAnswer(tooltest.Submit, key, &tool.AmbiguousError{Op: "submit", SubmissionKey: key, Cause: errors.New("the bank hung up")})
		_, _ = b.submit(unsafeSubmission())
		_, err := b.submit(unsafeSubmission())
		var cause domain.TaskError
		if derr := failure(t, err).Details(&cause); derr != nil || !strings.Contains(cause.Message, "the bank hung up") || !strings.Contains(cause.Message, tc.says) {
			t.Errorf("%s: %v, %+v", name, derr, cause)
		}
	}
}

// A task that was retried looks where its job was, not only under its key.
func TestRepeatLooksWhereTheJobWas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obs     tool.Observation
		err     error
		submits int
	}{
		"it has a result":      {tooltest.Succeeded(`1`), nil, 1},
		"it still runs":        {tooltest.Running(), nil, 1},
		"it failed":            {tooltest.Failed("X", true), nil, 2},
		"it is not known":      {tooltest.Unknown(), nil, 2},
		"it is somewhere else": {tooltest.Running(), tool.ErrWrongHost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.o.Executors = map[string]tool.Executor{"build": &promising{Executor: b.tool, blind: true}}
			b.tool.Script(key, tooltest.Running(), tc.obs)
			first := b.started()
			b.heartbeat = nil
			if tc.err != nil {
				b.tool.Fail(tooltest.Observe, key, tc.err)
			}
			req := protocol.SubmitRequest{Job: job(), RepeatOf: 1, RepeatHandle: first.Handle}
			req.Attempt = 2
			if _, err := b.submit(req); err != nil || b.tool.Count(tooltest.Submit, key) != tc.submits {
				t.Errorf("%v, %d submissions, want %d", err, b.tool.Count(tooltest.Submit, key), tc.submits)
			}
		})
	}
}

// A task that ends while its submission is under way still learns of the job.
func TestSubmissionIsNotBrokenOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ex := &patient{Executor: b.tool, asked: make(chan struct{}), answer: make(chan struct{})}
	b.o.Executors = map[string]tool.Executor{"build": ex}
	a, err := activities.New(b.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-ex.asked
		cancel()
		close(ex.answer)
	}()
	var s testsuite.WorkflowTestSuite
	env := s.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(func(actx context.Context, r protocol.SubmitRequest) (protocol.SubmitResult, error) {
		broken, stop := context.WithCancel(actx)
		go func() {
			<-ctx.Done()
			stop()
		}()
		return a.Submit(broken, r)
	}, activity.RegisterOptions{Name: "it"})
	v, err := env.ExecuteActivity("it", protocol.SubmitRequest{Job: job()})
	var res protocol.SubmitResult
	if err != nil || v.Get(&res) != nil || res.Handle.ID == "" || ex.broken {
		t.Errorf("%+v, %v, broken off: %v", res, err, ex.broken)
	}
}

// patient answers a submission when the test says so.
type patient struct {
	*tooltest.Executor
	asked, answer chan struct{}
	broken        bool
}

func (p *patient) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	close(p.asked)
	<-p.answer
	p.broken = ctx.Err() != nil
	return p.Executor.Submit(ctx, req)
}

// A refusal for now is no beginning: the next try is no repeat, and comes when the
// other side said.
func TestThrottled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	busy := &tool.ThrottledError{After: 7 * time.Minute, Cause: io.EOF}
	b.tool.Fail(tooltest.Submit, key, busy, busy)
	for range 2 {
		_, err := b.submit(unsafeSubmission())
		app := failure(t, err)
		if app.NonRetryable() || app.Type() != protocol.ErrTypeThrottled || app.NextRetryDelay() != 7*time.Minute {
			t.Fatalf("%v, retry %v, after %v", err, !app.NonRetryable(), app.NextRetryDelay())
		}
		if b.heartbeat["begun"] == true {
			t.Fatal("the try counts as begun")
		}
	}
	if _, err := b.submit(unsafeSubmission()); err != nil || b.tool.Count(tooltest.Find, key) != 0 {
		t.Errorf("%v, looked %d times", err, b.tool.Count(tooltest.Find, key))
	}
	// But one that is refused after an answer was lost stays a repeat.
	other := setup(t)
	other.tool.LoseAnswer(tooltest.Submit, key, io.EOF)
	other.o.Executors = map[string]tool.Executor{"build": &promising{Executor: other.tool, promises: tool.Promises{SubmitOnce: tool.ScopeAlways}, blind: true}}
	_, _ = other.submit(unsafeSubmission())
	other.tool.Fail(tooltest.Submit, key, busy)
	_, err := other.submit(unsafeSubmission())
	if other.heartbeat["begun"] != true || failure(t, err).Type() != protocol.ErrTypeThrottledRepeat {
		t.Error("a refusal made an unknown submission known")
	}
}

// What the other side says about the next attempt reaches the task.
func TestRetryAfterReachesTheTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	failed := tooltest.Failed("BUSY", true)
	failed.Error.RetryAfterMs = 90_000
	b.tool.Script(key, failed)
	res, err := b.probe(protocol.ProbeRequest{Job: b.started()})
	if err != nil || res.Event.RetryAfterMs != 90_000 {
		t.Errorf("%+v, %v", res.Event, err)
	}
	b.tool.Fail(tooltest.Submit, key, &tool.NotStartedError{Failure: tool.Failure{Code: "FULL", Retryable: true, RetryAfterMs: 80_000}})
	b.heartbeat = nil
	_, err = b.submit(protocol.SubmitRequest{Job: job()})
	var cause domain.TaskError
	var after int64
	if derr := failure(t, err).Details(&cause, &after); derr != nil || after != 80_000 {
		t.Errorf("%v: %d, %v", err, after, derr)
	}
	started := b.started()
	b.tool.Fail(tooltest.Observe, key, &tool.ThrottledError{After: time.Hour})
	_, err = b.probe(protocol.ProbeRequest{Job: started})
	if app := failure(t, err); app.NextRetryDelay() != time.Hour {
		t.Errorf("%v, after %v", err, app.NextRetryDelay())
	}
}

func (b *bench) listJobs(r protocol.ListJobsRequest) (protocol.ListJobsResult, error) {
	b.t.Helper()
	return run(b, func(a *activities.Activities) func(context.Context, protocol.ListJobsRequest) (protocol.ListJobsResult, error) {
		return a.ListJobs
	}, r)
}

// lister lists what it is told to, a job a page.
type lister struct {
	*promising
	jobs []tool.Listed
}

func (l *lister) List(_ context.Context, cursor string) (tool.Listing, error) {
	if cursor == "" {
		return tool.Listing{Jobs: l.jobs[:1], Next: "2"}, nil
	}
	return tool.Listing{Jobs: l.jobs[1:]}, nil
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plain := &promising{Executor: b.tool}
	b.o.Executors = map[string]tool.Executor{"build": plain}
	if res, err := b.listJobs(protocol.ListJobsRequest{Tool: "build"}); err != nil || res.Supported {
		t.Errorf("%+v, %v: it promises no list", res, err)
	}
	plain.promises.List = true
	b.o.Executors["build"] = &lister{plain, []tool.Listed{{SubmissionKey: "a", State: tool.StateRunning}, {SubmissionKey: "b", State: tool.StateLost, StartedAtMs: 5}}}
	first, err := b.listJobs(protocol.ListJobsRequest{Tool: "build"})
	second, err2 := b.listJobs(protocol.ListJobsRequest{Tool: "build", Cursor: first.Next})
	if err != nil || err2 != nil || !first.Supported || first.Jobs[0].SubmissionKey != "a" || second.Jobs[0].StartedAtMs != 5 || second.Next != "" {
		t.Errorf("%+v, %+v, %v, %v", first, second, err, err2)
	}
}

// Nobody to ask is no answer, and no repetition cancels what cannot be cancelled.
func TestWhatAnExecutorCannotDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ex := &promising{Executor: b.tool}
	b.o.Executors = map[string]tool.Executor{"build": ex}
	res, err := b.ask(protocol.ProbeRequest{Job: job()})
	if err != nil || !res.NotAsked || b.tool.Count(tooltest.Find, key) != 0 || !strings.Contains(res.Note, "nobody can be asked") {
		t.Errorf("%+v, %v", res, err)
	}
	ex.promises.Find = tool.FindHint
	if res, err := b.ask(protocol.ProbeRequest{Job: job()}); err != nil || res.NotAsked || !res.NotFound {
		t.Errorf("%+v, %v", res, err)
	}
	started := b.started()
	b.tool.Fail(tooltest.Cancel, key, fmt.Errorf("%w: no place", tool.ErrCannotCancel), io.EOF)
	if app := failure(t, b.cancel(protocol.CancelRequest{Job: started})); !app.NonRetryable() || !strings.Contains(app.Message(), "no place") {
		t.Errorf("%v", app)
	}
	if app := failure(t, b.cancel(protocol.CancelRequest{Job: started})); app.NonRetryable() {
		t.Errorf("%v", app)
	}
}
