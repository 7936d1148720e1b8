package starter

import (
	"context"
	"time"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Next and Again show the pure parts of polling to the tests.
func (p Poll) Next(d protocol.Description, quiet time.Duration, lot float64) time.Duration {
	return p.next(d, quiet, lot)
}

func (p Poll) Again(failures int, lot float64) time.Duration { return p.again(failures, lot) }

// Sharer is a sharer of texts.
type Sharer struct{ s sharer[string] }

func NewSharer() Sharer { return Sharer{newSharer[string]()} }

func (s Sharer) Do(ctx context.Context, key string, read func(context.Context) (string, error)) (string, error) {
	return s.s.do(ctx, key, read)
}

// Keys is how many keys are being read.
func (s Sharer) Keys() int {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	return len(s.s.keys)
}

// Gates bound who is inside.
type Gates struct{ g gates }

func NewGates(width int) Gates { return Gates{newGates(width)} }

func (g Gates) Enter(ctx context.Context, key string) (func(), error) { return g.g.enter(ctx, key) }

// Open is how many keys have a gate.
func (g Gates) Open() int {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return len(g.g.open)
}

// AgainKey names the delivery that follows a dead letter.
func AgainKey(key string) string { return againKey(key) }
