package harness

import (
	"context"
	"fmt"
	"sync"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// ScriptKind is the executor kind of a [Script] in handles and in the YAML of
// tests.
const ScriptKind = "script"

// Script is an executor whose jobs do what a test says. It stands for a system
// outside: it outlives the workers that use it. Make it with [NewScript].
type Script struct {
	mu      sync.Mutex
	jobs    map[string]*scriptJob
	changed chan struct{}
}

type scriptJob struct {
	now       tool.Observation
	submits   int
	looks     int
	cancelled bool
}

// NewScript makes an executor without jobs. Its jobs begin by running.
func NewScript() *Script {
	return &Script{jobs: make(map[string]*scriptJob), changed: make(chan struct{})}
}

// Executors is the script under its kind, for [Install].
func (s *Script) Executors() map[string]tool.Executor { return map[string]tool.Executor{ScriptKind: s} }

// note wakes whoever waits; the caller holds the lock.
func (s *Script) note() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Script) job(key string) *scriptJob {
	j, ok := s.jobs[key]
	if !ok {
		j = &scriptJob{now: tool.Observation{State: tool.StateRunning, Worker: "script/" + key}}
		s.jobs[key] = j
	}
	return j
}

// Submit gets or creates the job of a key.
func (s *Script) Submit(_ context.Context, req tool.Request) (tool.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job(req.SubmissionKey).submits++
	s.note()
	return tool.Handle{Executor: ScriptKind, ID: req.SubmissionKey}, nil
}

// Observe says what the test has said.
func (s *Script) Observe(_ context.Context, h tool.Handle) (tool.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[h.ID]
	if !ok {
		return tool.Observation{}, fmt.Errorf("%w: %s", tool.ErrUnknownHandle, h.ID)
	}
	j.looks++
	s.note()
	return j.now, nil
}

// Cancel remembers that it was asked for.
func (s *Script) Cancel(_ context.Context, h tool.Handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job(h.ID).cancelled = true
	s.note()
	return nil
}

// Find looks a job up.
func (s *Script) Find(_ context.Context, key string) (tool.Handle, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[key]
	return tool.Handle{Executor: ScriptKind, ID: key}, ok && j.submits > 0, nil
}

// Say sets what a job is like from now on; it may come before the submission.
func (s *Script) Say(key string, o tool.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job(key).now = o
	s.note()
}

// Counts is how often something was done with a job.
type Counts struct {
	Submits   int
	Looks     int
	Cancelled bool
}

// Counts gives them.
func (s *Script) Counts(key string) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[key]
	if !ok {
		return Counts{}
	}
	return Counts{Submits: j.submits, Looks: j.looks, Cancelled: j.cancelled}
}

// Await waits until the counts of a job satisfy a condition.
func (s *Script) Await(ctx context.Context, key string, holds func(Counts) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if holds(s.Counts(key)) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("job %s: %w at %+v", key, context.Cause(ctx), s.Counts(key))
		}
	}
}

// Result is the observation of a job that has ended with a small result.
func Result(json string) tool.Observation {
	return tool.Observation{
		State: tool.StateSucceeded, Definite: true,
		Result: &tool.Result{Inline: []byte(json), ContentType: "application/json"},
	}
}

// Stored is the observation of a job whose result lies somewhere already.
func Stored(ref, hash string) tool.Observation {
	return tool.Observation{
		State: tool.StateSucceeded, Definite: true,
		Result: &tool.Result{Ref: ref, Hash: hash, ContentType: "application/json"},
	}
}
