package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// The progress of a tool that is in the middle of its work.
const (
	middleFrom = 1
	middleTo   = 80
)

// crash kills the worker of a demo once, when some tool is in the middle of its
// work.
type crash struct {
	stack stack
	say   func(format string, args ...any)
	// done is closed when another worker works; first, next and err are set then.
	done        chan struct{}
	began       bool
	first, next int
	err         error
}

// newCrash makes a crash; a change of a task sets it off.
func newCrash(s stack, say func(format string, args ...any)) *crash {
	return &crash{stack: s, say: say, done: make(chan struct{})}
}

// seen is told of every change of every task, one after the other.
func (c *crash) seen(name string, ch starter.Change) {
	t := ch.Description.Task
	if c.began || t.State != domain.StateRunning || t.Progress < middleFrom || t.Progress > middleTo {
		return
	}
	c.began = true
	at := fmt.Sprintf("%s was at %d%%", name, t.Progress)
	if c.first, c.err = c.stack.KillWorker(); c.err != nil {
		close(c.done)
		return
	}
	go c.await(at)
}

// await says what was done, and waits for the next worker, or for the end of the
// stack.
func (c *crash) await(at string) {
	defer close(c.done)
	c.say("worker process %d was killed with SIGKILL while %s; its tools run on", c.first, at)
	c.next, c.err = c.stack.AwaitWorker(context.Background(), c.first)
	if c.err == nil {
		c.say("worker process %d has taken over", c.next)
	}
}

// errNoCrash is that the tools were faster.
var errNoCrash = errors.New("the tools ended before the worker could be killed in the middle of their work")

// result waits for the crash to be over. A nil crash is none.
func (c *crash) result(ctx context.Context) error {
	switch {
	case c == nil:
		return nil
	case !c.began:
		return &failure{code: codeFailure, message: errNoCrash.Error(), hint: "name a larger source tree: wakepoint demo --crash DIR", cause: errNoCrash}
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pids are the worker that was killed and the next one, 0 without a crash.
func (c *crash) pids() (first, next int) {
	if c == nil {
		return 0, 0
	}
	return c.first, c.next
}
