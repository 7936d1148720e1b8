package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/worker"
)

// trialOptions declare the tool x of the executor fake.
func trialOptions(t *testing.T, ex tool.Executor, effects domain.Effects) worker.Options {
	t.Helper()
	cfg, err := config.New(config.Config{Dir: t.TempDir(), Tools: []config.Tool{
		{Name: "x", Executor: tooltest.Kind, Poll: time.Second, Policy: domain.Policy{Effects: effects, CancelGraceMs: 4500}},
		{Name: "outside", Executor: config.ExecutorExternal},
		{Name: "gone", Exec: &config.ExecTool{Argv: []string{"no-such-program-anywhere"}}},
		{Name: "plan", Go: &config.GoTool{Function: "plan"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return worker.Options{Config: cfg, Executors: map[string]tool.Executor{tooltest.Kind: ex}}
}

func TestTrial(t *testing.T) {
	t.Parallel()
	lost := &tool.AmbiguousError{Op: "submit", SubmissionKey: "k", Cause: errors.New("connection reset")}
	weak := tool.Promises{Find: tool.FindHint, Observe: true, Cancel: tool.CancelAsked}
	for name, tc := range map[string]struct {
		effects domain.Effects
		script  func(*tooltest.Executor)
		within  time.Duration
		want    worker.Tried
		result  string
		err     string
		started int
		// steps are what was told, shortened.
		steps []string
	}{
		"success": {
			script: func(e *tooltest.Executor) {
				e.Script(tooltest.AnyKey, tooltest.RunningAt(40, "half"), tooltest.Succeeded(`{"a":1}`))
			},
			want:   worker.Tried{State: tool.StateSucceeded, TookMs: 1000, ContentType: "application/json", Bytes: 7},
			result: `{"a":1}`, started: 1, steps: []string{"running 40 half"},
		},
		"failure": {
			script: func(e *tooltest.Executor) {
				e.Script(tooltest.AnyKey, tooltest.Failed("BROKEN", true))
				e.SetLog(tooltest.AnyKey, tool.StreamStderr, strings.Repeat("x", 5000)+"end")
			},
			want:    worker.Tried{State: tool.StateFailed, Error: tooltest.Failed("BROKEN", true).Error},
			started: 1,
		},
		"nothing started": {
			script: func(e *tooltest.Executor) {
				e.Fail(tooltest.Submit, tooltest.AnyKey, &tool.NotStartedError{Failure: tool.Failure{Code: "INVALID_INPUT"}})
			},
			want: worker.Tried{State: tool.StateFailed, Error: &tool.Failure{Code: "INVALID_INPUT"}},
		},
		"refused for now": {
			script: func(e *tooltest.Executor) {
				e.Fail(tooltest.Submit, tooltest.AnyKey, &tool.ThrottledError{After: 7 * time.Second})
				e.Fail(tooltest.Observe, tooltest.AnyKey, &tool.ThrottledError{After: 2 * time.Second}, errors.New("broken pipe"))
				e.Script(tooltest.AnyKey, tooltest.Succeeded(`1`))
			},
			want:   worker.Tried{State: tool.StateSucceeded, TookMs: 10_000, ContentType: "application/json", Bytes: 1},
			result: `1`, started: 1,
			steps: []string{"the outside refused for now, for 7s; again in 7s", "the outside refused for now, for 2s", "a look at the job failed: broken pipe"},
		},
		"a lost answer, found": {
			effects: domain.EffectsUnsafe,
			script: func(e *tooltest.Executor) {
				e.SetPromises(weak)
				e.LoseAnswer(tooltest.Submit, tooltest.AnyKey, lost)
				e.Script(tooltest.AnyKey, tooltest.Succeeded(`1`))
			},
			want:   worker.Tried{State: tool.StateSucceeded, ContentType: "application/json", Bytes: 1},
			result: `1`, started: 1, steps: []string{"no clear answer: "},
		},
		"a lost answer of something unsafe": {
			effects: domain.EffectsUnsafe,
			script: func(e *tooltest.Executor) {
				e.SetPromises(weak)
				e.Fail(tooltest.Submit, tooltest.AnyKey, lost)
			},
			want: worker.Tried{State: tool.StateUnknown}, err: "nobody knows whether the job was started", steps: []string{"no clear answer: "},
		},
		"a lost answer of something that may be repeated": {
			effects: domain.EffectsIdempotent,
			script: func(e *tooltest.Executor) {
				e.SetPromises(weak)
				e.Fail(tooltest.Submit, tooltest.AnyKey, lost)
				e.Script(tooltest.AnyKey, tooltest.Succeeded(`1`))
			},
			want:   worker.Tried{State: tool.StateSucceeded, TookMs: 1000, ContentType: "application/json", Bytes: 1},
			result: `1`, started: 1, steps: []string{"no clear answer: "},
		},
		"no end in time": {
			within: 3500 * time.Millisecond,
			script: func(*tooltest.Executor) {},
			want:   worker.Tried{State: tool.StateCancelled, TookMs: 3500}, err: "no end within 3s500ms", started: 1,
			steps: []string{"running", "running", "running", "running", "asking the job to end"},
		},
		"no end at all": {
			within: 1500 * time.Millisecond,
			script: func(e *tooltest.Executor) { e.OnCancel(tooltest.AnyKey, tooltest.Running()) },
			want:   worker.Tried{State: tool.StateUnknown, TookMs: 6000}, err: "no end within 1s500ms", started: 1,
			steps: []string{"running", "running", "asking the job to end", "running", "running", "running", "running", "running", "it has not ended"},
		},
		"no way to cancel": {
			within: 500 * time.Millisecond,
			script: func(e *tooltest.Executor) {
				e.SetPromises(tool.Promises{Observe: true})
				e.OnCancel(tooltest.AnyKey, tooltest.Running())
			},
			want: worker.Tried{State: tool.StateUnknown, TookMs: 3000}, err: "no end within 500ms", started: 1,
			steps: []string{"running", "asking the job to end, though nobody promises", "running", "running", "running", "it has not ended"},
		},
		"no words after a cancel": {
			within: 500 * time.Millisecond,
			script: func(e *tooltest.Executor) { e.Fail(tooltest.Cancel, tooltest.AnyKey, errors.New("broken pipe")) },
			want:   worker.Tried{State: tool.StateUnknown, TookMs: 500}, err: "no end within 500ms", started: 1,
			steps: []string{"running", "asking the job to end", "it cannot be asked: broken pipe"},
		},
		"no way to look": {
			script: func(e *tooltest.Executor) {
				e.SetPromises(tool.Promises{})
				e.Script(tooltest.AnyKey, tooltest.Unknown())
			},
			want: worker.Tried{State: tool.StateUnknown}, err: "only a callback tells its end", started: 1,
		},
		"a look that nobody promised": {
			script: func(e *tooltest.Executor) {
				e.SetPromises(tool.Promises{})
				e.Script(tooltest.AnyKey, tooltest.Running(), tooltest.Succeeded(`1`))
			},
			want:   worker.Tried{State: tool.StateSucceeded, TookMs: 1000, ContentType: "application/json", Bytes: 1},
			result: `1`, started: 1, steps: []string{"running"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ex := tooltest.New()
			tc.script(ex)
			o := trialOptions(t, ex, tc.effects)
			synctest.Test(t, func(t *testing.T) {
				trial, err := worker.NewTrial(t.Context(), o, "x")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = trial.Close() }()
				if tc.within == 0 {
					tc.within = time.Minute
				}
				var steps []string
				got, err := trial.Run(t.Context(), json.RawMessage(`{}`), tc.within, func(s worker.Step) { steps = append(steps, told(s)) })
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want %q", err, tc.err)
				}
				if string(got.Result) != tc.result || tc.want.State == tool.StateFailed && tc.started > 0 && (len(got.Stderr) != 4096 || !strings.HasSuffix(string(got.Stderr), "end")) {
					t.Errorf("result %q, %d bytes of standard error", got.Result, len(got.Stderr))
				}
				if (got.Job == "") != (tc.started == 0) || ex.Started(tooltest.AnyKey) != tc.started {
					t.Errorf("job %q, %d started", got.Job, ex.Started(tooltest.AnyKey))
				}
				got.Result, got.Stderr, got.Job = nil, nil, ""
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
				if len(steps) != len(tc.steps) {
					t.Fatalf("it told %q, want %q", steps, tc.steps)
				}
				for i, want := range tc.steps {
					if !strings.HasPrefix(steps[i], want) {
						t.Errorf("step %d is %q, want %q", i, steps[i], want)
					}
				}
			})
		})
	}
}

func told(s worker.Step) string {
	if s.Look == nil {
		return s.Note
	}
	text := string(s.Look.State)
	if s.Look.Progress != nil {
		text += fmt.Sprintf(" %d %s", *s.Look.Progress, s.Look.Stage)
	}
	return text
}

// Whoever interrupts a trial leaves no job behind that can be ended.
func TestInterruptedTrialCancelsItsJob(t *testing.T) {
	t.Parallel()
	ex := tooltest.New()
	o := trialOptions(t, ex, domain.EffectsUnsafe)
	synctest.Test(t, func(t *testing.T) {
		trial, err := worker.NewTrial(t.Context(), o, "x")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = trial.Close() }()
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("ctrl-c")
		time.AfterFunc(2500*time.Millisecond, func() { cancel(interrupted) })
		got, err := trial.Run(ctx, nil, time.Minute, func(worker.Step) {})
		if !errors.Is(err, interrupted) || got.State != tool.StateCancelled || ex.Count(tooltest.Cancel, tooltest.AnyKey) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestTrialThatCannotBe(t *testing.T) {
	t.Parallel()
	o := trialOptions(t, tooltest.New(), domain.EffectsNone)
	for name, want := range map[string]string{
		"nothing": "tool must be declared", "outside": "tool must have an executor", "plan": "temporal must be given", "gone": "tools.gone.exec.argv: program",
	} {
		if _, err := worker.NewTrial(t.Context(), o, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", name, err, want)
		}
	}
	o.Executors = nil
	if _, err := worker.NewTrial(t.Context(), o, "x"); !errors.Is(err, config.ErrConfig) {
		t.Errorf("an executor that is not there: %v", err)
	}
	if _, err := worker.NewTrial(t.Context(), worker.Options{}, "x"); err == nil {
		t.Error("no configuration")
	}
}

func TestWordsForEveryPromise(t *testing.T) {
	t.Parallel()
	for _, p := range []tool.Promises{{}, tooltest.Promises(), {SubmitOnce: tool.ScopeHost, Find: tool.FindHint, Cancel: tool.CancelForced}} {
		lines := worker.Words(p)
		if len(lines) < 5 {
			t.Errorf("%+v has %q", p, lines)
		}
		for _, line := range lines {
			if strings.TrimSpace(line) == "" {
				t.Errorf("%+v has an empty line: %q", p, lines)
			}
		}
	}
}
