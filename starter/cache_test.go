package starter_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// hour is the lifetime of results in the tests, and so the length of a bucket.
const hour = int64(3_600_000)

// withCache gives the tool train a cache of an hour.
func withCache(version string) func(*starter.Options) {
	return func(o *starter.Options) {
		i := slices.IndexFunc(o.Config.Tools, func(t config.Tool) bool { return t.Name == "train" })
		o.Config.Tools[i].Cache, o.Config.Tools[i].Version = &config.Cache{TTL: time.Hour}, version
	}
}

func call1(n string) starter.Submission {
	return starter.Submission{Tool: "train", Input: json.RawMessage(n)}
}

func TestEqualCallsShareATask(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache("v1"))
	first := w.submit(t, call1(`{"n":1,"x":[1.0,"ä"]}`))
	if first.Existing || first.Cached || !regexp.MustCompile(`^cache_[a-z2-7]{52}_1$`).MatchString(first.TaskID) {
		t.Fatalf("%+v", first)
	}
	again := w.submit(t, call1(`{ "x": [1, "\u00e4"], "n": 1e0 }`))
	if again.TaskID != first.TaskID || !again.Existing || !again.Cached || again.Attached || again.Task != nil || again.State != domain.StateQueued {
		t.Errorf("an equal call: %+v", again)
	}
	w.call(t, first.TaskID, "1", succeed())
	ended := w.submit(t, call1(`{"n":1,"x":[1,"ä"]}`))
	if ended.TaskID != first.TaskID || ended.State != domain.StateSucceeded || ended.Task == nil || ended.Task.ResultHash == "" || len(ended.Task.History) != 0 {
		t.Errorf("after the end: %+v", ended)
	}
	others := map[string]starter.Submitted{
		"another input":      w.submit(t, call1(`{"n":2}`)),
		"no cache":           w.submit(t, starter.Submission{Input: json.RawMessage(`{"n":1,"x":[1,"ä"]}`), NoCache: true}),
		"an id":              w.submit(t, starter.Submission{Input: json.RawMessage(`{"n":1,"x":[1,"ä"]}`), TaskID: "mine"}),
		"a key":              w.submit(t, starter.Submission{Input: json.RawMessage(`{"n":1,"x":[1,"ä"]}`), IdempotencyKey: "k"}),
		"a number too large": w.submit(t, call1(`{"x":9007199254740993}`)),
		"a member twice":     w.submit(t, call1(`{"n":1,"n":1}`)),
	}
	for name, out := range others {
		if out.Cached || out.Existing || out.TaskID == first.TaskID {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := w.submit(t, call1(`{"x":9007199254740993}`)); out.Existing {
		t.Errorf("a number that a double cannot hold was taken from the cache: %+v", out)
	}
}

func TestOtherVersionsAndTenantsHaveTheirOwnCache(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache("v1"))
	first := w.submit(t, call1(`{"n":1}`))
	for name, change := range map[string]func(*starter.Options){
		"version": withCache("v2"),
		"tenant":  func(o *starter.Options) { withCache("v1")(o); o.Tenant = "umbrella" },
	} {
		other := setup(t, change, func(o *starter.Options) { o.Temporal = w.engine })
		if out := other.submit(t, call1(`{"n":1}`)); out.Existing || out.TaskID == first.TaskID {
			t.Errorf("another %s: %+v", name, out)
		}
	}
	same := setup(t, withCache("v1"), func(o *starter.Options) { o.Temporal = w.engine })
	if out := same.submit(t, call1(`{"n":1}`)); !out.Cached || out.TaskID != first.TaskID {
		t.Errorf("another client: %+v", out)
	}
}

// TestWhatFailedNeverAnswers: the next generation does, also after many.
func TestWhatFailedNeverAnswers(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache(""))
	seen := map[string]bool{}
	for i := range 11 {
		s := call1(`{"n":1}`)
		s.MaxAttempts = 1
		out := w.submit(t, s)
		if out.Existing || seen[out.TaskID] {
			t.Fatalf("call %d got %+v", i, out)
		}
		seen[out.TaskID] = true
		if again := w.submit(t, s); again.TaskID != out.TaskID || !again.Cached {
			t.Fatalf("an equal call %d got %+v, not %s", i, again, out.TaskID)
		}
		switch i % 4 {
		case 0:
			w.call(t, out.TaskID, "f", domain.Event{Type: domain.EventFail})
		case 1:
			if _, err := w.Cancel(t.Context(), out.TaskID, protocol.Cancel{}); err != nil {
				t.Fatal(err)
			}
		case 2:
			w.engine.Terminate(out.WorkflowID)
		default:
			// A running one that was asked to stop will not end well either.
			w.call(t, out.TaskID, "s", start())
			if _, err := w.Cancel(t.Context(), out.TaskID, protocol.Cancel{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestResultsGrowOld(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache(""))
	w.clock.Store(epoch - epoch%hour + hour/2)
	s := call1(`{"n":1}`)
	s.TTL = 10 * time.Hour
	first := w.submit(t, s)
	w.clock.Add(hour * 3 / 4) // the next bucket
	if out := w.submit(t, s); out.TaskID != first.TaskID || !out.Cached {
		t.Errorf("an open one of the bucket before: %+v", out)
	}
	w.call(t, first.TaskID, "1", succeed())
	w.clock.Add(hour/2 - 1)
	if out := w.submit(t, s); out.TaskID != first.TaskID || out.State != domain.StateSucceeded {
		t.Errorf("a young result of the bucket before: %+v", out)
	}
	w.clock.Add(hour/2 + 1)
	second := w.submit(t, s)
	if second.Existing || second.TaskID == first.TaskID {
		t.Errorf("a result of exactly an hour: %+v", second)
	}
	if out := w.submit(t, s); out.TaskID != second.TaskID {
		t.Errorf("beside an old one: %+v", out)
	}
}

func TestEqualCallsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache(""))
	var mu sync.Mutex
	var wg sync.WaitGroup
	ids, fresh := map[string]bool{}, 0
	for range 20 {
		wg.Go(func() {
			out, err := w.Submit(t.Context(), call1(`{"n":7}`))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[out.TaskID] = true
			if !out.Existing {
				fresh++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Errorf("%d tasks, %d started", len(ids), fresh)
	}
}

func TestCacheNeedsTheSecretAndTheEngine(t *testing.T) {
	t.Parallel()
	w := setup(t, withCache(""), func(o *starter.Options) { o.Secret = nil })
	_, err := w.Submit(t.Context(), call1(`{"n":1}`))
	if e := as(t, err, starter.ErrInvalid); e.Field != "noCache" {
		t.Errorf("%v", err)
	}
	if _, err := w.Submit(t.Context(), starter.Submission{Tool: "train", NoCache: true}); err != nil {
		t.Error(err)
	}
	w = setup(t, withCache(""))
	w.engine.Down(true)
	_, err = w.Submit(t.Context(), call1(`{"n":1}`))
	is(t, err, starter.ErrUnavailable)
	w.engine.Down(false)
	w.engine.LoseAnswers(1)
	if out := w.submit(t, call1(`{"n":1}`)); w.engine.Runs(out.WorkflowID) != 1 {
		t.Errorf("a lost answer: %+v", out)
	}
}

// TestCacheWithoutAWorker: an open task that nobody answers for is still there.
func TestCacheWithoutAWorker(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		withCache("")(&starter.Options{Config: w.config})
		first := w.submit(t, call1(`{"n":1}`))
		w.engine.Workers(false)
		if out := w.submit(t, call1(`{"n":1}`)); !out.Cached || out.TaskID != first.TaskID || out.State != "" {
			t.Errorf("%+v", out)
		}
		s := call1(`{"n":1}`)
		s.RunID = "r2"
		out, err := w.Submit(t.Context(), s)
		is(t, err, starter.ErrNoWorker)
		if out.TaskID != first.TaskID {
			t.Errorf("the task that is there is not named: %+v", out)
		}
	})
}
