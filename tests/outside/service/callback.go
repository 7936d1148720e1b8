package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const (
	// callbackTimeout bounds one try of a callback.
	callbackTimeout = 20 * time.Second
	// callbackTries is how often a callback is tried.
	callbackTries = 20
	// callbackPause is the time between two tries.
	callbackPause = 500 * time.Millisecond
)

// endCallback is the word of a job's end.
func (j *job) endCallback(id string) Callback {
	return Callback{
		Tenant: j.Tenant, Task: j.Task, Attempt: j.Attempt, ID: j.id + "-" + id,
		State: j.state, Progress: 100, Result: json.RawMessage(j.result),
	}
}

func (j *job) progressCallback(percent int) Callback {
	return Callback{Tenant: j.Tenant, Task: j.Task, Attempt: j.Attempt, ID: fmt.Sprintf("%s-at-%d", j.id, percent), State: StateRunning, Progress: percent}
}

// tellEnd sends what the plan says of a job that has just ended; the caller holds the lock.
func (s *Server) tellEnd(j *job) {
	if s.o.Callback == nil || j.plan.Callback == CallbackNone || j.state == StateCancelled {
		return
	}
	end := j.endCallback("end")
	var words []Callback
	delay := time.Duration(0)
	switch j.plan.Callback {
	case CallbackEarly: // the POST waits for it, see act
		return
	case CallbackLate:
		delay = j.plan.CallbackDelay
		words = []Callback{end}
	case CallbackTwice:
		words = []Callback{end, end, j.endCallback("end-again")}
	case CallbackDisorder:
		words = []Callback{end, j.progressCallback(60), j.progressCallback(30)}
	default:
		words = []Callback{end}
	}
	if j.plan.Callback != CallbackPlain {
		s.disturb(j.Submission, j.plan.Callback)
	}
	s.after(delay, func() {
		for _, w := range words {
			s.call(w)
			s.mu.Lock()
			j.told = true
			s.mu.Unlock()
		}
	})
}

// call sends a callback until it is taken.
func (s *Server) call(c Callback) {
	for range callbackTries {
		ctx, cancel := context.WithTimeout(s.ctx, callbackTimeout)
		err := s.o.Callback(ctx, c)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(callbackPause):
		case <-s.ctx.Done():
			return
		}
	}
}
