package limits

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// shared is the engine of all tests.
var shared *harness.Engine

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &shared)) }

// crowd is a system outside whose jobs end at the second look at them, once the
// gate is open. It remembers the order in which they began, and how many there were
// at a time.
type crowd struct {
	mu      sync.Mutex
	changed chan struct{}
	open    bool
	began   []start
	looks   map[string]int
	running int
	most    int
}

// start is a job that began.
type start struct {
	tenant, task string
	at           time.Time
}

func newCrowd() *crowd {
	return &crowd{changed: make(chan struct{}), looks: map[string]int{}}
}

func (c *crowd) note() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *crowd) Submit(_ context.Context, req tool.Request) (tool.Handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := tool.Handle{Executor: "crowd", ID: req.SubmissionKey}
	if _, there := c.looks[req.SubmissionKey]; there {
		return h, nil
	}
	c.looks[req.SubmissionKey] = 0
	c.began = append(c.began, start{req.Tenant, req.TaskID, time.Now()})
	c.running++
	c.most = max(c.most, c.running)
	c.note()
	return h, nil
}

func (c *crowd) Observe(_ context.Context, h tool.Handle) (tool.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return tool.Observation{State: tool.StateRunning}, nil
	}
	if c.looks[h.ID]++; c.looks[h.ID] == 2 {
		c.running--
		c.note()
	}
	if c.looks[h.ID] < 2 {
		return tool.Observation{State: tool.StateRunning}, nil
	}
	return harness.Result(`{"ok":true}`), nil
}

func (c *crowd) Cancel(context.Context, tool.Handle) error { return nil }

func (c *crowd) Find(_ context.Context, key string) (tool.Handle, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.looks[key]
	return tool.Handle{Executor: "crowd", ID: key}, there, nil
}

// release opens the gate.
func (c *crowd) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
	c.note()
}

// await waits until a condition on what is seen holds.
func (c *crowd) await(t *testing.T, what string, d time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		ok, changed := holds(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatalf("%s: %d jobs began, %d run", what, len(c.began), c.running)
		}
	}
}

// bed is an installation whose one tool is the crowd's.
type bed struct {
	*harness.Installation
	c *crowd
}

func newBed(t *testing.T, keys string) bed {
	t.Helper()
	tenant := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	c := newCrowd()
	yaml := "tools:\n  job:\n    executor: crowd\n    poll: 100ms\n    ttl: 2h\n    priority: 3\n" + keys
	return bed{harness.Install(t, shared, tenant, yaml, map[string]tool.Executor{"crowd": c}), c}
}

// as is a way in for another tenant of the same tools and queues.
func (b bed) as(t *testing.T, tenant string) *starter.Client {
	t.Helper()
	c, err := starter.New(starter.Options{Temporal: b.Temporal, Tenant: tenant, TaskQueue: b.Config.TaskQueue, Config: b.Config, Store: b.Store})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// submit starts n tasks, some at a time.
func submit(t *testing.T, c *starter.Client, n int, s starter.Submission) {
	t.Helper()
	const atOnce = 8
	var all sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i := range n {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			one := s
			one.Tool, one.TaskID = "job", fmt.Sprintf("%s%d", s.TaskID, i)
			if _, err := c.Submit(t.Context(), one); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// waiting says how many activities wait on the queue of the tool's limits.
func (b bed) waiting(t *testing.T) int {
	t.Helper()
	n, err := backlog(t.Context(), b.Temporal, b.Config.Tools[0].SubmitQueue())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
