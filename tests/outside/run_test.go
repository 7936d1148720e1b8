package outside_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/tests/outside/service"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// seedOf makes a run repeatable, as far as the machine lets it.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("WAKEPOINT_SEED")
	if text == "" {
		return 20261130
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("WAKEPOINT_SEED: %v", err)
	}
	return n
}

// toolKind is a declared tool of the run.
type toolKind struct {
	name string
	mode service.Mode
	// yaml is its declaration, with BASE for the service's URL.
	yaml string
}

// tools are what services are like: one that acts once for a key and finds jobs, one that only acts
// once, one that knows no keys and finds surely, and one that knows nothing.
var tools = []toolKind{
	{"steady", service.Safe, `
    effects: idempotent
    http:
      url: BASE/safe/jobs
      idempotent: true
      timeout: 2s
      find: {url: "BASE/safe/find?key={key}"}
      status: {url: "BASE/safe/jobs/{id}"}`},
	{"blind", service.Safe, `
    effects: idempotent
    http:
      url: BASE/safe/jobs
      idempotent: true
      timeout: 2s
      callback: true`},
	{"ship", service.Unsafe, `
    effects: unsafe
    onUnknown: manual
    http:
      url: BASE/unsafe/jobs
      timeout: 2s
      find: {url: "BASE/unsafe/find?key={key}", sure: true}
      status: {url: "BASE/unsafe/jobs/{id}"}`},
	{"pay", service.Unsafe, `
    effects: unsafe
    onUnknown: fail
    http:
      url: BASE/unsafe/jobs
      timeout: 2s`},
}

// declaration is the wakepoint.yaml of a run.
func declaration(base string) string {
	var b strings.Builder
	b.WriteString("tools:\n")
	for _, k := range tools {
		fmt.Fprintf(&b, "  %s:\n    ttl: 30m\n    maxAttempts: 8\n    cancelGrace: 5s\n    backoff: {initial: 100ms, max: 1s}%s\n", k.name, strings.ReplaceAll(k.yaml, "BASE", base))
	}
	return b.String()
}

// run is one seeded run.
type run struct {
	t       *testing.T
	seed    uint64
	dir     string
	service *service.Server
	client  *starter.Client
	store   *store.Store
	fleet   *fleet
	mu      sync.Mutex
	// asked are the tasks that the test has cancelled.
	asked map[string]bool
}

func taskID(i int) string { return fmt.Sprintf("job-%04d", i) }

// toolOf spreads the tasks over the tools.
func toolOf(i int) toolKind { return tools[i%len(tools)] }

// newRun starts an engine, the service and two workers.
func newRun(t *testing.T, mix service.Mix) *run {
	t.Helper()
	r := &run{t: t, seed: seedOf(t), dir: t.TempDir(), asked: map[string]bool{}}
	t.Logf("seed %d; WAKEPOINT_SEED repeats it", r.seed)
	engine, err := harness.StartEngine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Kill)
	r.service, err = service.New(service.Options{LogFile: filepath.Join(r.dir, "outside.log"), Plan: service.Seeded(r.seed, mix), Callback: r.callback})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.service)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	file := filepath.Join(r.dir, "wakepoint.yaml")
	if err := os.WriteFile(file, []byte(declaration(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if r.store, err = store.Open(t.Context(), cfg.BlobURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	temporal, err := engine.Client("default")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(temporal.Close)
	r.client, err = starter.New(starter.Options{Temporal: temporal, Config: cfg, Store: r.store, Secret: []byte("a secret of the tests, for ids")})
	if err != nil {
		t.Fatal(err)
	}
	r.fleet = newFleet(t, r.dir, file, engine.Address(), hosts...)
	return r
}

var hosts = []string{"host-a", "host-b"}

// callback is how the service tells: by the door that answers, or by the one that does not, as the
// callback's id decides.
func (r *run) callback(ctx context.Context, c service.Callback) error {
	e := domain.Event{Attempt: c.Attempt}
	switch c.State {
	case service.StateSucceeded:
		e.Type, e.Result = domain.EventSucceed, c.Result
	case service.StateFailed:
		retryable := true
		e.Type, e.Retryable = domain.EventFail, &retryable
		e.Error = &domain.TaskError{Code: "BROKEN", Message: "the job broke, as planned"}
	default:
		percent := float64(c.Progress)
		e.Type, e.Progress = domain.EventProgress, &percent
	}
	cb := domain.Callback{CallbackID: c.ID, Event: e, Source: "service"}
	if hashOf(c.ID)%2 == 0 {
		return r.client.Signal(ctx, c.Task, cb)
	}
	_, err := r.client.Callback(ctx, c.Task, cb)
	return err
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}

// persist repeats what may fail while workers are away.
func persist[T any](r *run, what string, do func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(runWithin)
	for {
		ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
		v, err := do(ctx)
		cancel()
		if err == nil {
			return v, nil
		}
		if r.t.Context().Err() != nil || time.Now().After(deadline) {
			return v, fmt.Errorf("%s: %w", what, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// lane takes tasks one after the other from their submission to their end, or to where a person has
// to look.
func (r *run) lane(numbers <-chan int) error {
	for i := range numbers {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
		id := taskID(i)
		if _, err := persist(r, "submit "+id, func(ctx context.Context) (starter.Submitted, error) {
			return r.client.Submit(ctx, starter.Submission{Tool: toolOf(i).name, TaskID: id})
		}); err != nil {
			return err
		}
		if rng.IntN(15) == 0 {
			<-time.After(time.Duration(rng.Int64N(int64(2 * time.Second))))
			r.mu.Lock()
			r.asked[id] = true
			r.mu.Unlock()
			if _, err := persist(r, "cancel "+id, func(ctx context.Context) (domain.Outcome, error) {
				return r.client.Cancel(ctx, id, protocol.Cancel{Reason: "part of the test"})
			}); err != nil {
				return err
			}
		}
		if err := r.awaitEnd(id); err != nil {
			return err
		}
	}
	return nil
}

// settled: nothing will happen any more by itself.
func settled(task domain.Task) bool { return task.State.Terminal() || task.Manual != nil }

func (r *run) describe(id string) (domain.Task, error) {
	d, err := persist(r, "describe "+id, func(ctx context.Context) (starter.Description, error) { return r.client.Describe(ctx, id) })
	return d.Task, err
}

func (r *run) awaitEnd(id string) error {
	for deadline := time.Now().Add(runWithin); ; {
		task, err := r.describe(id)
		if err != nil || settled(task) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("task %s has not ended within %v: %+v", id, runWithin, task)
		}
		<-time.After(500 * time.Millisecond)
	}
}

// drive takes all tasks through, and kills workers meanwhile. It gives the number of kills.
func (r *run) drive() int {
	numbers, stop := make(chan int), make(chan struct{})
	var kills int
	var killErr error
	var killer, lanes sync.WaitGroup
	killer.Go(func() {
		kills, killErr = r.fleet.killing(stop, rand.New(rand.NewPCG(r.seed, 1<<32)), killPause, hosts...)
	})
	failed := make(chan error, runLanes)
	for range runLanes {
		lanes.Go(func() {
			if err := r.lane(numbers); err != nil {
				failed <- err
			}
		})
	}
	var err error
feed:
	for i := range runTasks {
		select {
		case numbers <- i:
		case err = <-failed:
			break feed
		}
	}
	close(numbers)
	lanes.Wait()
	close(stop)
	killer.Wait()
	close(failed)
	for e := range failed {
		err = e
	}
	if err != nil || killErr != nil {
		r.t.Fatalf("%v; %v", err, killErr)
	}
	return kills
}

// TestServiceThatMisbehaves takes tasks of four tools through a service that misbehaves and workers
// that are killed, and judges by the service's log.
func TestServiceThatMisbehaves(t *testing.T) {
	r := newRun(t, service.DefaultMix())
	began := time.Now()
	kills := r.drive()
	took := time.Since(began)
	// What the service still has to say may move a task on that waits for a person.
	harness.Until(t, 2*time.Minute, "the service has said all that it had to say", func() bool { return r.service.Open() == 0 })
	ends := map[string]domain.Task{}
	for i := range runTasks {
		task, err := r.describe(taskID(i))
		if err != nil {
			t.Fatal(err)
		}
		ends[task.ID] = task
	}
	posts := r.repeatedPosts()
	r.fleet.close()
	if err := r.service.Close(); err != nil {
		t.Fatalf("the service's log cannot be trusted: %v", err)
	}
	log, err := service.ReadLog(filepath.Join(r.dir, "outside.log"))
	if err != nil {
		t.Fatal(err)
	}
	j := judge{say: t.Errorf, asked: r.asked, log: log, ends: ends, read: func(ref, hash string) ([]byte, error) { return r.store.Get(t.Context(), ref, hash) }}
	j.all()
	t.Logf("%d tasks in %v with %d kills of workers; %d keys were posted more than once\n%s", runTasks, took.Round(time.Second), kills, posts, j.table())
	if kills < minKills {
		t.Errorf("%d workers were killed, want at least %d: the run shows nothing", kills, minKills)
	}
	if n := len(j.faults()); n < minFaults {
		t.Errorf("%d sorts of misbehaviour happened, want at least %d: the run shows nothing", n, minFaults)
	}
	if posts == 0 {
		t.Error("no submission was repeated: the run shows nothing")
	}
}

// repeatedPosts counts the keys that were posted more than once.
func (r *run) repeatedPosts() int {
	n := 0
	for i := range runTasks {
		for g := 1; g <= 8; g++ {
			if r.service.Posts(toolOf(i).mode, fmt.Sprintf("%s/%s/%d", r.client.Tenant(), taskID(i), g)) > 1 {
				n++
			}
		}
	}
	return n
}
