package conform_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
)

// recorder is a T that writes down what failed.
type recorder struct {
	ctx  context.Context //nolint:containedctx // it stands for the test's
	mu   sync.Mutex
	logs []string
	errs []string
	subs map[string]*recorder
}

func newRecorder(ctx context.Context) *recorder {
	return &recorder{ctx: ctx, subs: map[string]*recorder{}}
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Run(name string, f func(conform.T)) bool {
	sub := newRecorder(r.ctx)
	r.subs[name] = sub
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(sub)
	}()
	<-done
	return len(sub.errs) == 0
}

// failed are the names of the checks that failed.
func (r *recorder) failed() []string {
	var names []string
	for name, sub := range r.subs {
		if len(sub.errs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// faulty is an executor that is right but for what a test puts in the place of a verb.
type faulty struct {
	*tooltest.Executor
	submit  func(tool.Request) (tool.Handle, error)
	observe func(tool.Handle) (tool.Observation, error)
	cancel  func(tool.Handle) error
	find    func(string) (tool.Handle, bool, error)
	list    func(string) (tool.Listing, error)
	// mine are the handles that this process has given.
	mine sync.Map
}

func (f *faulty) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	if f.submit != nil {
		return f.submit(req)
	}
	return f.Executor.Submit(ctx, req)
}

func (f *faulty) Observe(ctx context.Context, h tool.Handle) (tool.Observation, error) {
	if f.observe != nil {
		return f.observe(h)
	}
	return f.Executor.Observe(ctx, h)
}

func (f *faulty) Cancel(ctx context.Context, h tool.Handle) error {
	if f.cancel != nil {
		return f.cancel(h)
	}
	return f.Executor.Cancel(ctx, h)
}

func (f *faulty) Find(ctx context.Context, key string) (tool.Handle, bool, error) {
	if f.find != nil {
		return f.find(key)
	}
	return f.Executor.Find(ctx, key)
}

func (f *faulty) List(ctx context.Context, cursor string) (tool.Listing, error) {
	if f.list != nil {
		return f.list(cursor)
	}
	return f.Executor.List(ctx, cursor)
}

// see changes what a look gives.
func (f *faulty) see(change func(h tool.Handle, obs *tool.Observation)) {
	f.observe = func(h tool.Handle) (tool.Observation, error) {
		obs, err := f.Executor.Observe(context.Background(), h)
		if err == nil {
			change(h, &obs)
		}
		return obs, err
	}
}

// fault is one way to be wrong.
type fault struct {
	name string
	// check is the one that has to fail; others may fail beside it.
	check string
	// build breaks a process's executor. Of all processes of a subject it gets the same shared map.
	build func(f *faulty, shared *sync.Map)
	// promises changes what is promised.
	promises func(p *tool.Promises)
}

func faults() []fault {
	ctx := context.Background()
	succeeded := func(obs *tool.Observation) { *obs = tooltest.Succeeded(`1`) }
	return []fault{
		{"find is promised, and is not there", "find-running", func(f *faulty, _ *sync.Map) {
			f.find = func(string) (tool.Handle, bool, error) { return tool.Handle{}, false, nil }
		}, nil},
		{"find knows only what runs", "find-after-end", func(f *faulty, _ *sync.Map) {
			f.find = func(key string) (tool.Handle, bool, error) {
				if f.Active(key) == 0 {
					return tool.Handle{}, false, nil
				}
				return f.Executor.Find(ctx, key)
			}
		}, nil},
		{"find makes a handle of any key", "find-never-submitted", func(f *faulty, _ *sync.Map) {
			f.find = func(key string) (tool.Handle, bool, error) {
				return tool.Handle{Executor: tooltest.Kind, ID: key + "#1"}, true, nil
			}
		}, nil},
		{"find is not promised, and gives handles", "find-cannot", func(*faulty, *sync.Map) {}, func(p *tool.Promises) { p.Find = tool.FindNone }},
		{"find is called sure, and lags behind", "find-lost-answer", func(f *faulty, seen *sync.Map) {
			f.find = func(key string) (tool.Handle, bool, error) {
				if _, again := seen.LoadOrStore(key, true); !again {
					return tool.Handle{}, false, nil
				}
				return f.Executor.Find(ctx, key)
			}
		}, nil},
		{"success is told early", "observe-not-early", func(f *faulty, _ *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) { succeeded(obs) })
		}, nil},
		{"what is accepted is called a success", "observe-failure", func(f *faulty, _ *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) {
				if obs.State == tool.StateFailed {
					succeeded(obs)
				}
			})
		}, nil},
		{"a cancel is confirmed at once, and the job goes on", "cancel-ignored", func(f *faulty, cancelled *sync.Map) {
			f.cancel = func(h tool.Handle) error { cancelled.Store(h.ID, true); return f.Executor.Cancel(ctx, h) }
			f.see(func(h tool.Handle, obs *tool.Observation) {
				if _, ok := cancelled.Load(h.ID); ok {
					*obs = tooltest.Cancelled()
				}
			})
		}, nil},
		{"a cancel does nothing", "cancel-only-its-own", func(f *faulty, _ *sync.Map) {
			f.cancel = func(h tool.Handle) error { return refuseForeign(h) }
		}, nil},
		{"force is promised, and is not used", "cancel-forced", func(*faulty, *sync.Map) {}, func(p *tool.Promises) { p.Cancel = tool.CancelForced }},
		{"cancelling what is over is an error", "cancel-after-end", func(f *faulty, _ *sync.Map) {
			f.cancel = func(h tool.Handle) error {
				if obs, err := f.Executor.Observe(ctx, h); err == nil && obs.State.Terminal() {
					return errors.New("409 conflict")
				}
				return f.Executor.Cancel(ctx, h)
			}
		}, nil},
		{"every submit starts a job", "submit-repeated", func(f *faulty, submits *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				if _, again := submits.LoadOrStore(req.SubmissionKey, true); again {
					f.Forget(req.SubmissionKey)
				}
				return f.Executor.Submit(ctx, req)
			}
		}, nil},
		{"the key is a lock within one process only", "submit-other-process", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				if _, mine := f.mine.Load(req.SubmissionKey); !mine && f.Started(req.SubmissionKey) > 0 {
					f.Forget(req.SubmissionKey)
				}
				f.mine.Store(req.SubmissionKey, true)
				return f.Executor.Submit(ctx, req)
			}
		}, nil},
		{"a job that ended is started again by anybody", "submit-same-attempt", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				if f.Started(req.SubmissionKey) > 0 && f.Active(req.SubmissionKey) == 0 {
					f.Forget(req.SubmissionKey)
				}
				return f.Executor.Submit(ctx, req)
			}
		}, nil},
		{"a job that failed is never started again", "submit-next-attempt", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				req.Attempt = 1
				return f.Executor.Submit(ctx, req)
			}
		}, nil},
		{"keys are cut short", "submit-keys-apart", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				h, err := f.Executor.Submit(ctx, req)
				h.ID = "job"
				return h, err
			}
		}, nil},
		{"a handle is forgotten over a restart", "handle-survives", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				h, err := f.Executor.Submit(ctx, req)
				f.mine.Store(h.ID, true)
				return h, err
			}
			f.observe = func(h tool.Handle) (tool.Observation, error) {
				if _, mine := f.mine.Load(h.ID); !mine {
					return tool.Observation{}, fmt.Errorf("%w: not of this process", tool.ErrUnknownHandle)
				}
				return f.Executor.Observe(ctx, h)
			}
		}, nil},
		{"handles of others are taken for its own", "handle-foreign", func(f *faulty, _ *sync.Map) {
			f.cancel = func(h tool.Handle) error { h.Executor = tooltest.Kind; return f.Executor.Cancel(ctx, h) }
		}, nil},
		{"what is not known is called failed", "handle-unknown", func(f *faulty, _ *sync.Map) {
			f.observe = func(h tool.Handle) (tool.Observation, error) {
				obs, err := f.Executor.Observe(ctx, h)
				if errors.Is(err, tool.ErrUnknownHandle) && h.Executor == tooltest.Kind {
					return tooltest.Failed("NOT_FOUND", true), nil
				}
				return obs, err
			}
		}, nil},
		{"a definite error comes after the start", "error-lost-answer", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				h, err := f.Executor.Submit(ctx, req)
				if errors.Is(err, tool.ErrAmbiguous) {
					err = &tool.NotStartedError{Failure: tool.Failure{Code: "NO_ANSWER", Message: "time-out"}, Cause: err}
				}
				return h, err
			}
		}, nil},
		{"a refusal is called ambiguous", "error-refused", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				h, err := f.Executor.Submit(ctx, req)
				if errors.Is(err, tool.ErrNotStarted) {
					err = errors.New("400 bad request")
				}
				return h, err
			}
		}, nil},
		{"what is refused for now is called refused for good", "error-throttled", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				h, err := f.Executor.Submit(ctx, req)
				if errors.Is(err, tool.ErrThrottled) {
					err = &tool.NotStartedError{Failure: tool.Failure{Code: "BUSY", Message: "429"}, Cause: errors.New("429")}
				}
				return h, err
			}
		}, nil},
		{"the result is that of another key", "observe-results-apart", func(f *faulty, last *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) {
				if obs.State == tool.StateSucceeded {
					first, _ := last.LoadOrStore("result", obs.Result)
					obs.Result = first.(*tool.Result)
				}
			})
		}, nil},
		{"a terminal state changes", "observe-terminal-stays", func(f *faulty, seen *sync.Map) {
			f.see(func(h tool.Handle, obs *tool.Observation) {
				if !obs.State.Terminal() {
					return
				}
				if _, again := seen.LoadOrStore(h.ID, true); again {
					*obs = tooltest.Running()
				}
			})
		}, nil},
		{"a lost job is called failed for good", "lost-is-not-an-end", func(f *faulty, _ *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) {
				if obs.State == tool.StateLost {
					*obs = tooltest.Failed("GONE", true)
				}
			})
		}, nil},
		{"a lost job is started again by itself", "lost-restart", func(f *faulty, _ *sync.Map) {
			f.submit = func(req tool.Request) (tool.Handle, error) {
				if h, found, err := f.Executor.Find(ctx, req.SubmissionKey); err == nil && found {
					if obs, err := f.Executor.Observe(ctx, h); err == nil && obs.State == tool.StateLost {
						req.Attempt++
					}
				}
				return f.Executor.Submit(ctx, req)
			}
		}, nil},
		{"what is forgotten is called failed", "forgotten-is-unknown", func(f *faulty, _ *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) {
				if obs.State == tool.StateUnknown {
					*obs = tooltest.Failed("NOT_FOUND", false)
				}
			})
		}, nil},
		{"half of the jobs are listed", "list-complete", func(f *faulty, _ *sync.Map) {
			f.list = func(cursor string) (tool.Listing, error) {
				page, err := f.Executor.List(ctx, cursor)
				page.Jobs = page.Jobs[:len(page.Jobs)/2]
				return page, err
			}
		}, nil},
		{"only the first page is listed", "list-complete", func(f *faulty, _ *sync.Map) {
			f.list = func(cursor string) (tool.Listing, error) {
				page, err := f.Executor.List(ctx, cursor)
				page.Next = ""
				return page, err
			}
		}, nil},
		{"it promises a word that is none", "promises-known", func(*faulty, *sync.Map) {}, func(p *tool.Promises) { p.Find = "mostly" }},
		{"success is told early by what promises no look", "observe-cannot", func(f *faulty, _ *sync.Map) {
			f.see(func(_ tool.Handle, obs *tool.Observation) { succeeded(obs) })
		}, func(p *tool.Promises) { p.Observe = false }},
	}
}

func refuseForeign(h tool.Handle) error {
	if h.Executor != tooltest.Kind {
		return tool.ErrUnknownHandle
	}
	return nil
}

// The suite is worth what it finds: every executor that is wrong on purpose fails the check that is
// there for it, with the rule in the message.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, tc := range faults() {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			fake := tooltest.New()
			if tc.promises != nil {
				p := tooltest.Promises()
				tc.promises(&p)
				fake.SetPromises(p)
			}
			shared := &sync.Map{}
			s := subject(fake, func() tool.Executor {
				f := &faulty{Executor: fake}
				tc.build(f, shared)
				return f
			})
			s.Patience = 60 * time.Millisecond
			r := newRecorder(t.Context())
			conform.On(r, s)
			failed := r.failed()
			if !slices.Contains(failed, tc.check) {
				t.Fatalf("failed checks: %v, want %s among them", failed, tc.check)
			}
			said := strings.Join(r.subs[tc.check].errs, "\n")
			if !strings.Contains(said, "the rule: ") || !strings.Contains(said, "from: ") {
				t.Errorf("the failure does not tell the rule: %s", said)
			}
			if table := strings.Join(r.logs, "\n"); !strings.Contains(table, "BROKEN") {
				t.Errorf("the table does not tell what is broken:\n%s", table)
			}
		})
	}
}

// A right executor fails nothing under the recorder, so what fails above fails for its fault.
func TestNoFaultNoFailure(t *testing.T) {
	t.Parallel()
	fake := tooltest.New()
	r := newRecorder(t.Context())
	conform.On(r, subject(fake, func() tool.Executor { return &faulty{Executor: fake} }))
	if failed := r.failed(); len(failed) > 0 {
		t.Errorf("failed checks: %v", failed)
	}
	table := strings.Join(r.logs, "\n")
	for _, c := range conform.Checks() {
		if !strings.Contains(table, c.Name) {
			t.Errorf("%s is missing in the table", c.Name)
		}
		if c.Rule == "" || c.Source == "" {
			t.Errorf("%s has no rule or no source", c.Name)
		}
	}
}

// A subject that lacks something is refused before anything runs.
func TestSubjectIsChecked(t *testing.T) {
	t.Parallel()
	r := newRecorder(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conform.On(r, conform.Subject{})
	}()
	<-done
	if len(r.errs) != 1 || !strings.Contains(r.errs[0], "new must be given") || len(r.subs) != 0 {
		t.Errorf("errors %v, sub-tests %v", r.errs, r.failed())
	}
}
