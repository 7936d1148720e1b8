package starter

import (
	"context"
	"sync"
)

// gates bounds how many callers are at work on one key at a time.
type gates struct {
	width int
	mu    *sync.Mutex
	open  map[string]*gate
}

type gate struct {
	slots chan struct{}
	// users are those inside and those who wait; the last one takes the gate away.
	users int
}

func newGates(width int) gates {
	return gates{width: width, mu: new(sync.Mutex), open: make(map[string]*gate)}
}

// enter waits for a place. leave must be called once, also after an error it may be.
func (g gates) enter(ctx context.Context, key string) (leave func(), err error) {
	g.mu.Lock()
	at, ok := g.open[key]
	if !ok {
		at = &gate{slots: make(chan struct{}, g.width)}
		g.open[key] = at
	}
	at.users++
	g.mu.Unlock()
	select {
	case at.slots <- struct{}{}:
		return func() {
			<-at.slots
			g.left(key, at)
		}, nil
	case <-ctx.Done():
		g.left(key, at)
		return func() {}, context.Cause(ctx)
	}
}

func (g gates) left(key string, at *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at.users--
	if at.users == 0 {
		delete(g.open, key)
	}
}
