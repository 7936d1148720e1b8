package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// Func takes one step: it reads the checkpoint, the results and the inputs and answers
// with what the agent does next. Its context ends when the step was given to somebody
// else, or the run has ended. An error fails the attempt, and the step comes again, unless
// the error is [Final].
type Func func(ctx context.Context, req run.StepRequest) (run.StepResponse, error)

// final is an error that no repeat helps.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final marks an error for which repeating the step makes no sense: the run fails at
// once.
func Final(err error) error { return final{err} }

// FailedError is an error of a step with a code of its own.
type FailedError struct{ Reason domain.TaskError }

// Error gives the reason.
func (e *FailedError) Error() string { return e.Reason.Error() }

// problem is an error as the answer of a step.
func problem(err error) *domain.TaskError {
	var failed *FailedError
	var f final
	out := &domain.TaskError{Code: run.CodeStepFailed, Message: err.Error(), Retryable: true}
	if errors.As(err, &failed) {
		reason := failed.Reason
		out = &reason
	}
	if errors.As(err, &f) {
		out.Retryable = false
	}
	if len(out.Message) > domain.MaxErrorText {
		const more = "…"
		out.Message = strings.ToValidUTF8(out.Message[:domain.MaxErrorText-len(more)], "") + more
	}
	return out
}

// call runs f and turns a panic into an error: one bad step must not end the process
// that takes the steps of other runs too.
func call(ctx context.Context, f Func, req run.StepRequest) (resp run.StepResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(ctx, req)
}

// answer runs f; an error becomes an answer too.
func answer(ctx context.Context, f Func, req run.StepRequest) run.StepResponse {
	resp, err := call(ctx, f, req)
	if err != nil {
		return run.StepResponse{Error: problem(err), Usage: resp.Usage}
	}
	return resp
}

// beating calls beat again and again while a step is worked on, until stop is called or
// beat says that the step is lost, which ends the context.
func beating(ctx context.Context, every time.Duration, beat func(context.Context) (lost bool)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if beat(ctx) {
					cancel(ErrLost)
					return
				}
			}
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(done)
		ended.Wait()
		cancel(nil)
	})
}

// ErrLost is why the context of a step ends that was given to somebody else.
var ErrLost = errors.New("the step was given to somebody else, or the run has ended")

// share of a lease after which a heartbeat is due: two may be lost.
const share = 3

// pulse is how often a step of a lease heartbeats.
func pulse(lease time.Duration) time.Duration {
	const (
		// The shortest lease that can be declared is a second.
		least = 100 * time.Millisecond
		// One that is not told lasts a minute by default.
		unknown = 20 * time.Second
	)
	if lease <= 0 {
		return unknown
	}
	return max(lease/share, least)
}

// hints collects what a function says while it works.
type hints struct {
	mu   sync.Mutex
	last json.RawMessage
}

type hintsKey struct{}

// Hint tells people who watch what the step is doing, such as a part of the answer. It is
// sent with the next heartbeat, the newest alone, and it is not kept. Anything that is no
// JSON is dropped.
func Hint(ctx context.Context, delta any) {
	h, ok := ctx.Value(hintsKey{}).(*hints)
	b, err := json.Marshal(delta)
	if !ok || err != nil || len(b) > run.MaxOutput {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = b
}

func (h *hints) take() json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.last
	h.last = nil
	return b
}
