package dev

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// Backoff is the pause before a child that died is started again: it doubles
// from First to Last, and begins anew with a child that answered for Steady.
type Backoff struct {
	// First pause. Default: 200 ms.
	First time.Duration
	// Last is the longest pause. Default: 10 s.
	Last time.Duration
	// Steady is how long a child has to have lived for its death to be the first
	// again. Default: 30 s.
	Steady time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.First == 0 {
		b.First = 200 * time.Millisecond
	}
	if b.Last == 0 {
		b.Last = 10 * time.Second
	}
	if b.Steady == 0 {
		b.Steady = 30 * time.Second
	}
	return b
}

// Happening is what an [Event] tells.
type Happening string

// The happenings in the life of a child.
const (
	// Started: the process is there.
	Started Happening = "started"
	// Ready: it answers.
	Ready Happening = "ready"
	// Died: it ended though nobody asked it to; Err says how.
	Died Happening = "died"
	// Waiting: it will be started again after Pause.
	Waiting Happening = "waiting"
	// Stopped: it ended because it was asked to; Err is set if it had to be killed.
	Stopped Happening = "stopped"
	// Said: it wrote the line Line to its standard error.
	Said Happening = "said"
)

// Event is something that happened to a child.
type Event struct {
	// Child is "engine" or "worker".
	Child string
	What  Happening
	PID   int
	Err   error
	Pause time.Duration
	Line  string
}

// keeper keeps one child running.
type keeper struct {
	name string
	// command makes the command of the next start.
	command func() (*exec.Cmd, error)
	// answers returns when the child with this pid answers, or ctx ends.
	answers func(ctx context.Context, pid int) error
	// patience is how long a child may take to answer before it is killed.
	patience time.Duration
	// grace is how long it has to end when asked to.
	grace   time.Duration
	backoff Backoff
	// final tells whether an end is the end, and no other start is worth it.
	// ready says whether any start so far has led to an answer.
	final  func(exit *ExitError, ready bool) bool
	notify func(Event)

	// up is closed at the first answer, over when keep returns; err is set then.
	up, over chan struct{}
	err      error
	// hurry, when closed, kills instead of asking.
	hurry <-chan struct{}

	mu      sync.Mutex
	current *child
	answer  bool
	// change is closed, and replaced, whenever current or answer change.
	change chan struct{}
}

// run keeps the child running until ctx ends, then stops it. The error says
// that it was given up.
func (k *keeper) run(ctx context.Context) {
	defer close(k.over)
	pause, ready := k.backoff.First, false
	for ctx.Err() == nil {
		begin := time.Now()
		exit, answered, err := k.once(ctx)
		ready = ready || answered
		switch {
		case err != nil:
			k.err = err
			return
		case exit == nil:
			return
		case k.final(exit, ready):
			k.err = exit
			return
		}
		if answered && time.Since(begin) >= k.backoff.Steady {
			pause = k.backoff.First
		}
		k.notify(Event{Child: k.name, What: Waiting, Pause: pause})
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		pause = min(2*pause, k.backoff.Last)
	}
}

// once starts the child and waits for its end. The exit is nil when it was
// asked to end, the error when it could not be started at all.
func (k *keeper) once(ctx context.Context) (exit *ExitError, answered bool, err error) {
	cmd, err := k.command()
	if err != nil {
		return nil, false, fmt.Errorf("start the %s: %w", k.name, err)
	}
	c, err := startChild(cmd, func(line string) { k.notify(Event{Child: k.name, What: Said, PID: 0, Line: line}) })
	if err != nil {
		return nil, false, fmt.Errorf("start the %s: %w", k.name, err)
	}
	k.set(c, false)
	defer k.set(nil, false)
	k.notify(Event{Child: k.name, What: Started, PID: c.pid()})
	answered = k.await(ctx, c)
	select {
	case <-c.done:
	case <-ctx.Done():
		err := c.stop(k.grace, k.hurry)
		k.notify(Event{Child: k.name, What: Stopped, PID: c.pid(), Err: err})
		return nil, answered, nil
	}
	exit = c.exit(k.name)
	k.notify(Event{Child: k.name, What: Died, PID: c.pid(), Err: exit})
	return exit, answered, nil
}

// await waits for the child's first answer. One that does not answer in time is
// killed, so that the next may do better.
func (k *keeper) await(ctx context.Context, c *child) bool {
	ctx, cancel := context.WithTimeout(ctx, k.patience)
	defer cancel()
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-gone:
		}
	}()
	err := k.answers(ctx, c.pid())
	if err == nil {
		k.set(c, true)
		k.notify(Event{Child: k.name, What: Ready, PID: c.pid()})
		select {
		case <-k.up:
		default:
			close(k.up)
		}
		return true
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.tail.add(fmt.Sprintf("%s did not answer within %s and was killed", k.name, k.patience))
		c.kill()
	}
	return false
}

func (k *keeper) set(c *child, answer bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.answer = c, answer
	close(k.change)
	k.change = make(chan struct{})
}

// state gives the process that runs (0 for none), whether it answers, and a
// channel that is closed when either changes.
func (k *keeper) state() (pid int, answers bool, change <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil {
		pid = k.current.pid()
	}
	return pid, k.answer, k.change
}

// kill ends the process that runs, without asking, and gives its pid.
func (k *keeper) kill() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return 0
	}
	k.current.kill()
	return k.current.pid()
}

// awaitOther waits for a process other than pid that answers, and gives its pid.
func (k *keeper) awaitOther(ctx context.Context, pid int) (int, error) {
	for {
		now, answers, change := k.state()
		if answers && now != pid {
			return now, nil
		}
		select {
		case <-change:
		case <-k.over:
			return 0, errors.Join(errors.New("it is not started again"), k.err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
