package starter

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// How the usual time of a tool's work is learned from its finished tasks.
const (
	// learnFrom is how many of the newest tasks are looked at, fewest how many it
	// takes to know better than the operator.
	learnFrom, fewest = 100, 5
	// lowShare and highShare are the percentiles between which the window lies.
	lowShare, highShare = 0.1, 0.9
	// learnEvery is how long what was learned serves one client.
	learnEvery = time.Minute
	// learnWait is the most that a submission waits for it, learnTry bounds the
	// look itself, which goes on without it.
	learnWait = 300 * time.Millisecond
	learnTry  = 5 * time.Second
)

// windows remembers what was learned of each tool.
type windows struct {
	mu    sync.Mutex
	tools map[string]*learned
}

// learned is what is known of one tool.
type learned struct {
	// window is nil while too few tasks have succeeded.
	window *domain.Window
	// at is when it was learned, or when that failed.
	at time.Time
	// busy is closed when the look that is under way is over; nil when none is.
	busy chan struct{}
}

func newWindows() *windows { return &windows{tools: make(map[string]*learned)} }

// of is how long the work of a tool usually takes: what its tasks have shown once
// there are enough of them, else what the operator declared, else nothing. What a
// tool does beats what somebody once thought it would. A submission is never held
// up for long by a list that is slow or down.
func (w *windows) of(ctx context.Context, c *Client, tool config.Tool) *domain.Window {
	l, busy := w.refresh(ctx, c, tool.Name)
	if busy != nil {
		timer := time.NewTimer(learnWait)
		defer timer.Stop()
		select {
		case <-busy:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.window != nil {
		return l.window
	}
	return tool.Policy.Expected
}

// refresh begins a look when what is known is old. Only who knows nothing yet has
// something to wait for.
func (w *windows) refresh(ctx context.Context, c *Client, tool string) (l *learned, busy <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.tools[tool]
	if !ok {
		l = &learned{}
		w.tools[tool] = l
	}
	first := l.at.IsZero()
	if l.busy == nil && (first || time.Since(l.at) >= learnEvery) {
		l.busy = make(chan struct{})
		go w.learn(context.WithoutCancel(ctx), c, tool, l)
	}
	if first {
		return l, l.busy
	}
	return l, nil
}

func (w *windows) learn(ctx context.Context, c *Client, tool string, l *learned) {
	ctx, cancel := context.WithTimeout(ctx, learnTry)
	defer cancel()
	took, err := c.durations(ctx, tool)
	if err != nil {
		c.o.Logger.Debug("the usual time of a tool could not be learned", "tool", tool, "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		l.window = windowOf(took)
	}
	l.at = time.Now()
	close(l.busy)
	l.busy = nil
}

// durations are those of the newest tasks of a tool that succeeded.
func (c *Client) durations(ctx context.Context, tool string) ([]time.Duration, error) {
	resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: learnFrom, Query: strings.Join([]string{
		equals("WorkflowType", protocol.WorkflowAsyncTask),
		equals(protocol.AttrTenant.GetName(), c.o.Tenant),
		equals(protocol.AttrTool.GetName(), tool),
		equals(protocol.AttrState.GetName(), string(domain.StateSucceeded)),
		equals("ExecutionStatus", "Completed"),
	}, " AND ")})
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, e := range resp.GetExecutions() {
		// Clocks of an engine that differ make times of nothing and less.
		if d := e.GetExecutionDuration(); d.IsValid() && d.AsDuration() >= time.Millisecond {
			took = append(took, d.AsDuration())
		}
	}
	return took, nil
}

// windowOf is the window of some durations, nil when they are too few.
func windowOf(took []time.Duration) *domain.Window {
	if len(took) < fewest {
		return nil
	}
	took = slices.Sorted(slices.Values(took))
	at := func(share float64) int64 { return took[int(share*float64(len(took)-1)+0.5)].Milliseconds() }
	return &domain.Window{LowMs: at(lowShare), HighMs: at(highShare)}
}
