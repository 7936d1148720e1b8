// Package gofunc makes tools of Go functions that a program registers with our worker. A job is a
// standalone activity of the type wakepoint.go/<name>; the function needs no Temporal. Heartbeats
// are made for it. See docs/temporal-tools.md.
package gofunc

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// Func is a tool. What it returns is the result, as JSON; bytes stay bytes. An error that is a
// [*Failure] says itself whether another attempt makes sense; after any other error, and after a
// panic, it does. When ctx ends the function should return: it is cancelled, its deadline has
// passed, or its worker stops. Returning a result all the same is right when the work is done.
type Func func(ctx context.Context, call Call) (any, error)

// Failure is why a function failed, in the terms of the contract.
type Failure tool.Failure

// Error names the code and the message.
func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Call is one job of a function.
type Call struct {
	Tenant string `json:"tenant"`
	TaskID string `json:"taskId"`
	// Attempt is the attempt of the task that this job serves, 1 or more.
	Attempt int `json:"attempt"`
	// SubmissionKey stays the same when a job whose end nobody knows is repeated: hand it on as an
	// idempotency key.
	SubmissionKey string `json:"submissionKey"`
	Tool          string `json:"tool"`
	// Input is the JSON that the tool is called with, already checked against the tool's schema.
	Input json.RawMessage `json:"input"`

	said *said
}

// Progress tells how far the job is, 0 to 100, and what it is doing. It sends nothing itself, so
// it may be called as often as one likes, from any goroutine; the newest word is sent with the
// next heartbeat. Beyond the bounds it is taken as the bound. An empty stage leaves the last one.
func (c Call) Progress(percent int, stage string) {
	if c.said == nil {
		return // a call that a test made by hand
	}
	c.said.set(percent, stage)
}

// said is the newest word of a job.
type said struct {
	mu   sync.Mutex
	word word
}

// word is what is in the heartbeats, in the shape that every activity may use.
type word struct {
	Progress *int   `json:"progress,omitempty"`
	Stage    string `json:"stage,omitempty"`
}

func (s *said) set(percent int, stage string) {
	percent = min(max(percent, 0), 100)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.word.Progress = &percent
	if stage != "" {
		s.word.Stage = stage
	}
}

func (s *said) get() word {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.word
}
