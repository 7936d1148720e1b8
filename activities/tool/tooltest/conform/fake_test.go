package conform_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
)

// The fake stands for executors in many tests, so it has to behave like one.
func TestFakeConforms(t *testing.T) {
	t.Parallel()
	fake := tooltest.New()
	conform.Run(t, subject(fake, func() tool.Executor { return fake }))
}

// A fake that promises nothing passes too: the suite asks for no more than what is promised.
func TestNothingPromised(t *testing.T) {
	t.Parallel()
	fake := tooltest.New()
	fake.SetPromises(tool.Promises{})
	conform.Run(t, subject(fake, func() tool.Executor { return modest{fake} }))
}

// modest knows of nothing but submit.
type modest struct{ *tooltest.Executor }

func (modest) Find(context.Context, string) (tool.Handle, bool, error) {
	return tool.Handle{}, false, nil
}

func (modest) Observe(_ context.Context, h tool.Handle) (tool.Observation, error) {
	if h.Executor != tooltest.Kind {
		return tool.Observation{}, tool.ErrUnknownHandle
	}
	return tooltest.Unknown(), nil
}

// subject is the fake as the outside of an executor that is made of it.
func subject(fake *tooltest.Executor, build func() tool.Executor) conform.Subject {
	ambiguous := func(req tool.Request) error {
		return &tool.AmbiguousError{Op: "submit", SubmissionKey: req.SubmissionKey, Cause: errors.New("scripted")}
	}
	return conform.Subject{
		Quiet: 20 * time.Millisecond,
		Pause: 2 * time.Millisecond,
		New:   func(conform.T) tool.Executor { return build() },
		Plan: func(_ conform.T, key string, p conform.Plan) json.RawMessage {
			after := tooltest.Cancelled()
			if p.IgnoreCancel {
				after = tooltest.Running()
			}
			fake.OnCancel(key, after)
			return json.RawMessage(`{}`)
		},
		Started: func(_ conform.T, key string) int { return fake.Started(key) },
		Running: func(_ conform.T, key string) int { return fake.Active(key) },
		Succeed: func(_ conform.T, key string, result json.RawMessage) {
			fake.Say(key, tooltest.Succeeded(string(result)))
		},
		Fail:   func(_ conform.T, key string) { fake.Say(key, tooltest.Failed("BROKEN", true)) },
		Lose:   func(_ conform.T, key string) { fake.Say(key, tooltest.Lost()) },
		Forget: func(_ conform.T, key string) { fake.Forget(key) },
		LoseAnswer: func(t conform.T, ex tool.Executor, req tool.Request) error {
			fake.LoseAnswer(tooltest.Submit, req.SubmissionKey, ambiguous(req))
			_, err := ex.Submit(t.Context(), req)
			return err
		},
		LoseRequest: func(t conform.T, ex tool.Executor, req tool.Request) error {
			fake.Fail(tooltest.Submit, req.SubmissionKey, ambiguous(req))
			_, err := ex.Submit(t.Context(), req)
			return err
		},
		Throttle: func(_ conform.T, key string) {
			fake.Fail(tooltest.Submit, key, &tool.ThrottledError{After: time.Millisecond})
		},
		Refuse: func(_ conform.T, key string) json.RawMessage {
			fake.Fail(tooltest.Submit, key, &tool.NotStartedError{Failure: tool.Failure{Code: "REFUSED", Message: "scripted"}})
			return json.RawMessage(`{}`)
		},
	}
}
