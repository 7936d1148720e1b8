package starter

import (
	"context"
	"sync"
)

// sharer lets readers of one key share reads. Somebody who comes while a read is
// in flight must not get its answer, which may be older than what he has just
// written; he shares the next one with everybody else who has come meanwhile. So
// any number of readers cost at most two reads at a time, and each gets an answer
// that is not older than his question.
type sharer[T any] struct {
	mu   *sync.Mutex
	keys map[string]*turns[T]
}

type turns[T any] struct{ current, next *turn[T] }

type turn[T any] struct {
	ctx    context.Context
	cancel context.CancelFunc
	read   func(context.Context) (T, error)
	// waiters is guarded by the sharer's mutex.
	waiters int
	done    chan struct{}
	value   T
	err     error
}

func newSharer[T any]() sharer[T] {
	return sharer[T]{mu: new(sync.Mutex), keys: make(map[string]*turns[T])}
}

// do gives what read gives, called for this or for a later question. A reader who
// gives up leaves; when all have left, the read is cancelled.
func (s sharer[T]) do(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	t := s.join(ctx, key, read)
	select {
	case <-t.done:
		return t.value, t.err
	case <-ctx.Done():
		s.leave(key, t)
		var zero T
		return zero, context.Cause(ctx)
	}
}

func (s sharer[T]) join(ctx context.Context, key string, read func(context.Context) (T, error)) *turn[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.keys[key]
	if !ok {
		at = &turns[T]{current: newTurn(ctx, read)}
		s.keys[key] = at
		at.current.waiters++
		go s.run(key, at.current)
		return at.current
	}
	if at.next == nil {
		at.next = newTurn(ctx, read)
	}
	at.next.waiters++
	return at.next
}

// newTurn keeps the values of the first reader's context, not its end.
func newTurn[T any](ctx context.Context, read func(context.Context) (T, error)) *turn[T] {
	t := &turn[T]{read: read, done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

func (s sharer[T]) run(key string, t *turn[T]) {
	for t != nil {
		t.value, t.err = t.read(t.ctx)
		t.cancel()
		close(t.done)
		t = s.advance(key)
	}
}

// advance makes the next turn the current one, if anybody waits for it.
func (s sharer[T]) advance(key string) *turn[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.keys[key]
	at.current, at.next = at.next, nil
	if at.current == nil {
		delete(s.keys, key)
	}
	return at.current
}

func (s sharer[T]) leave(key string, t *turn[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.waiters--
	if t.waiters > 0 {
		return
	}
	t.cancel()
	if at, ok := s.keys[key]; ok && at.next == t {
		at.next = nil
	}
}
