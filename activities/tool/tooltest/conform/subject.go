package conform

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// T is what the suite needs of a test. [Run] makes one of a *testing.T.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf ends the goroutine that called it.
	Fatalf(format string, args ...any)
	// Context is done when the test is.
	Context() context.Context
	// Run runs a sub-test and reports whether it passed.
	Run(name string, f func(T)) bool
}

// Plan is how a job is going to behave. A job of the suite runs until it is told to end, by
// Subject.Succeed, Subject.Fail, a cancel, or Subject.Lose.
type Plan struct {
	// IgnoreCancel: asked to end, the job goes on all the same. One that can be forced to end is
	// forced.
	IgnoreCancel bool
}

// Subject is an executor together with the outside that it starts jobs in. The functions may be
// called from any goroutine.
type Subject struct {
	// New makes an executor as a process that has just been started has it, with nothing in memory.
	// It is called several times, and all that it makes share the one outside: the later ones stand
	// for the processes that replace the first. Required.
	New func(t T) tool.Executor

	// Plan is told how the next job of a key is going to behave, before it is submitted, and gives
	// the input to submit it with. Required.
	Plan func(t T, key string, p Plan) json.RawMessage

	// Started is how many jobs the outside has really started for a key, by the outside's own
	// count. Required.
	Started func(t T, key string) int

	// Running is how many jobs of a key really run at this moment. Required.
	Running func(t T, key string) int

	// Succeed tells the running job of a key to end with a result, a JSON value. It need not wait
	// for the end. Required.
	Succeed func(t T, key string, result json.RawMessage)

	// Fail tells the running job of a key to end by itself without success. It need not wait for
	// the end. Required.
	Fail func(t T, key string)

	// Read reads a result that lies in the blob store.
	// Default: none, the results are inline.
	Read func(t T, r tool.Result) []byte

	// Lose ends the running job of a key, with nothing left to say how, and waits until it is gone.
	// Default: none, the outside always knows how a job ended.
	Lose func(t T, key string)

	// Forget makes the outside forget a job that is over.
	// Default: none, the outside forgets nothing.
	Forget func(t T, key string)

	// LoseAnswer submits a request so that the job is started and the answer is lost, for example
	// from a process that is killed in between. It gives what Submit answered, nil when there was
	// nobody left to answer to.
	// Default: none, an answer is never lost.
	LoseAnswer func(t T, ex tool.Executor, req tool.Request) error

	// LoseRequest submits a request so that it never gets to the outside, and gives what Submit
	// answered.
	// Default: none, a request is never lost.
	LoseRequest func(t T, ex tool.Executor, req tool.Request) error

	// Refuse gives an input for which the outside surely starts no job, now or later.
	// Default: none, the outside refuses no input.
	Refuse func(t T, key string) json.RawMessage

	// Throttle makes the outside refuse the next submit of a key for now, without acting.
	// Default: none, the outside is never busy.
	Throttle func(t T, key string)

	// NoRestart says why a key whose job ended without success is not started again for a higher
	// attempt, as when the outside answers a known key with the old job. It is printed.
	// Default: empty, it is started again.
	NoRestart string

	// Tool is the name of the tool in requests.
	// Default: conform.
	Tool string

	// Patience is how long anything may take.
	// Default: 60 s.
	Patience time.Duration

	// Quiet is for how long the suite looks on where nothing may happen.
	// Default: 300 ms.
	Quiet time.Duration

	// Pause is the time between two looks.
	// Default: 10 ms.
	Pause time.Duration
}

func (s Subject) withDefaults() Subject {
	if s.Tool == "" {
		s.Tool = "conform"
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	if s.Quiet == 0 {
		s.Quiet = 300 * time.Millisecond
	}
	if s.Pause == 0 {
		s.Pause = 10 * time.Millisecond
	}
	return s
}

func (s Subject) validate() error {
	switch {
	case s.New == nil:
		return errors.New("subject: new must be given")
	case s.Plan == nil:
		return errors.New("subject: plan must be given")
	case s.Started == nil:
		return errors.New("subject: started must be given")
	case s.Running == nil:
		return errors.New("subject: running must be given")
	case s.Succeed == nil:
		return errors.New("subject: succeed must be given")
	case s.Fail == nil:
		return errors.New("subject: fail must be given")
	case s.Patience < 0 || s.Quiet < 0 || s.Pause < 0:
		return errors.New("subject: patience, quiet and pause must be > 0")
	}
	return nil
}
