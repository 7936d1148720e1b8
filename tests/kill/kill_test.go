package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// seed makes a run of the tests repeatable; what the machine does beside it is
// not.
func seed(t testing.TB) uint64 {
	if text := os.Getenv("WAKEPOINT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	return 20261130
}

// each runs f for every kill of a moment, with its own random numbers.
func each(t *testing.T, moment string, f func(t *testing.T, what target, rng *rand.Rand)) {
	for i := range killsPerMoment {
		for j, what := range targets() {
			if !inThisRun(moment, j) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", what, i), func(t *testing.T) {
				f(t, what, rand.New(rand.NewPCG(seed(t), uint64(i*100+j))))
			})
		}
	}
}

// wait is a pause of a random length: the moment of a kill is what the test is
// about, not something that it waits for.
func wait(rng *rand.Rand, most time.Duration) { <-time.After(time.Duration(rng.Int64N(int64(most)))) }

// journalTool is a program that writes what it does to a file, in one write a
// line, so that the file tells the truth about overlaps.
func journalTool(journal, lasts string) string {
	script := fmt.Sprintf(`echo "start $WAKEPOINT_SUBMISSION_KEY $$" >> %[1]s; echo "::wakepoint progress=30 stage=half"; sleep %[2]s; echo "end $WAKEPOINT_SUBMISSION_KEY $$" >> %[1]s; printf '"done"' > "$WAKEPOINT_RESULT"`, journal, lasts)
	return fmt.Sprintf("tools:\n  job:\n    ttl: 30m\n    maxAttempts: 3\n    exec:\n      argv: [/bin/sh, -c, %q]\n", script)
}

// overlaps reads the tool's own journal: how many runs there were of each key,
// and whether two of one key were under way at the same time.
func overlaps(t testing.TB, journal string) (runs map[string]int, problem string) {
	t.Helper()
	b, err := os.ReadFile(journal)
	require.NoError(t, err)
	runs = map[string]int{}
	open := map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		require.Len(t, f, 3, "a line of the journal: %q", line)
		what, key, pid := f[0], f[1], f[2]
		switch {
		case what == "start" && open[key] != "":
			return runs, fmt.Sprintf("key %s: run %s began while run %s was under way", key, pid, open[key])
		case what == "start":
			open[key] = pid
			runs[key]++
		case open[key] != pid:
			return runs, fmt.Sprintf("key %s: run %s ended and had not begun", key, pid)
		default:
			delete(open, key)
		}
	}
	return runs, ""
}

// tasksPerKill is how many tasks are hit by one kill.
const tasksPerKill = 4

func (s *stack) submitJobs(rng *rand.Rand) []string {
	var ids []string
	for i := range tasksPerKill {
		key := fmt.Sprintf("job-%d-%d", i, rng.Uint64())
		sub := persist(s, "submit", func(ctx context.Context) (starter.Submitted, error) {
			return s.client.Submit(ctx, starter.Submission{Tool: "job", IdempotencyKey: key})
		})
		ids = append(ids, sub.TaskID)
	}
	return ids
}

func (s *stack) awaitEnd(id string) domain.Task {
	s.t.Helper()
	var task domain.Task
	harness.Until(s.t, patience, "task "+id+" has ended", func() bool {
		task = persist(s, "describe", func(ctx context.Context) (starter.Description, error) { return s.client.Describe(ctx, id) }).Task
		return task.State.Terminal()
	})
	return task
}

// endedWell checks that a job ended as it does when nothing is killed.
func (s *stack) endedWell(ids []string, journal string) {
	s.t.Helper()
	for _, id := range ids {
		task := s.awaitEnd(id)
		require.Equal(s.t, domain.StateSucceeded, task.State, "task %s: %+v", id, task.Error)
		require.Equal(s.t, 1, task.Attempts, "a kill of the worker or the engine is no failed attempt: %+v", task.History)
		b, err := s.store.Get(context.Background(), task.ResultRef, task.ResultHash)
		require.NoError(s.t, err)
		require.Equal(s.t, `"done"`, string(b))
		for i, h := range task.History {
			require.Equal(s.t, int64(i+1), h.Version, "versions have no gaps")
		}
	}
	runs, problem := overlaps(s.t, journal)
	require.Empty(s.t, problem)
	require.Len(s.t, runs, len(ids))
	for key, n := range runs {
		require.Equal(s.t, 1, n, "runs of %s", key)
	}
}

func TestKillBetweenSubmitAndStart(t *testing.T) {
	each(t, "submit", func(t *testing.T, what target, rng *rand.Rand) {
		journal := filepath.Join(t.TempDir(), "journal")
		s := newStack(t, journalTool(journal, "0.5"))
		ids := s.submitJobs(rng)
		wait(rng, 150*time.Millisecond)
		s.kill(what)
		s.endedWell(ids, journal)
	})
}

func TestKillInAnExecRun(t *testing.T) {
	each(t, "exec", func(t *testing.T, what target, rng *rand.Rand) {
		journal := filepath.Join(t.TempDir(), "journal")
		s := newStack(t, journalTool(journal, "4"))
		ids := s.submitJobs(rng)
		harness.Until(t, patience, "all jobs run", func() bool {
			b, _ := os.ReadFile(journal)
			return strings.Count(string(b), "start ") == len(ids)
		})
		wait(rng, time.Second)
		s.kill(what)
		s.endedWell(ids, journal)
	})
}

// A job that holds a slot goes on when its worker is killed, and its end does not
// wait behind the others for a slot; those get the slots that there are.
func TestKillWhileSlotsAreHeld(t *testing.T) {
	each(t, "slot", func(t *testing.T, what target, rng *rand.Rand) {
		journal := filepath.Join(t.TempDir(), "journal")
		s := newStack(t, journalTool(journal, "4")+"    maxConcurrent: 2\n")
		ids := s.submitJobs(rng)
		harness.Until(t, patience, "the slots are taken", func() bool {
			b, _ := os.ReadFile(journal)
			return strings.Count(string(b), "start ") >= 2
		})
		wait(rng, time.Second)
		s.kill(what)
		s.endedWell(ids, journal)
		if what != worker {
			return
		}
		lost := 0
		for _, id := range ids {
			events, err := harness.History(t.Context(), s.temporal, protocol.TaskWorkflowID("default", id), "")
			require.NoError(t, err)
			for _, e := range events {
				if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT {
					lost++
				}
			}
		}
		require.Equal(t, 2, lost, "both tasks were told that the activity was lost, and did not wait for its turn")
	})
}

// receiver is a webhook target that answers only when it may.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	open bool
	got  map[string]int
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{got: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[q.Header.Get("Webhook-Id")]++
		if !r.open {
			// Taken, and the sender never hears of it.
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) let(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = open
}

func (r *receiver) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[id]
}

func TestKillBetweenCallbackAndReceipt(t *testing.T) {
	each(t, "delivery", func(t *testing.T, what target, rng *rand.Rand) {
		hook := newReceiver(t)
		s := newStack(t, fmt.Sprintf("targets:\n  hook:\n    url: %s\ntools:\n  review:\n    executor: external\n    ttl: 30m\n    targets: [hook]\n", hook.URL))
		var ids []string
		for range tasksPerKill {
			id := fmt.Sprintf("review-%d", rng.Uint64())
			persist(s, "submit", func(ctx context.Context) (starter.Submitted, error) {
				return s.client.Submit(ctx, starter.Submission{Tool: "review", TaskID: id})
			})
			v := persist(s, "callback", func(ctx context.Context) (starter.Verdict, error) {
				return s.client.Callback(ctx, id, domain.Callback{CallbackID: "end-" + id, Event: domain.Event{Type: domain.EventSucceed, Result: []byte(`{"ok":true}`)}})
			})
			require.Contains(t, []starter.CallbackVerdict{starter.VerdictAccepted, starter.VerdictTaken, starter.VerdictDuplicate}, v.Verdict)
			ids = append(ids, id)
		}
		wait(rng, 500*time.Millisecond)
		s.kill(what)
		hook.let(true)
		for _, id := range ids {
			task := s.awaitEnd(id)
			require.Equal(t, domain.StateSucceeded, task.State)
			require.Equal(t, int64(2), task.Version, "a start and a success, whatever was repeated: %+v", task.History)
			key := fmt.Sprintf("%s/succeeded/%d/hook", id, task.Version)
			harness.Until(t, patience, "delivery "+key, func() bool {
				rec, err := s.client.DeliveryStatus(t.Context(), key)
				return err == nil && rec.State == protocol.DeliveryDone
			})
			require.GreaterOrEqual(t, hook.count(key), 1, "delivered at least once, always under the same id")
			got := persist(s, "deliver", func(ctx context.Context) (domain.Delivered, error) { return s.client.Deliver(ctx, id, "pull-"+id) })
			require.True(t, got.OK)
		}
		hook.mu.Lock()
		defer hook.mu.Unlock()
		require.Len(t, hook.got, len(ids), "one id for each task")
	})
}

// callbacksOfAStorm lead to several continue-as-news at the stack's threshold.
const callbacksOfAStorm = 90

func TestKillInAContinueAsNew(t *testing.T) {
	each(t, "continue", func(t *testing.T, what target, rng *rand.Rand) {
		s := newStack(t, "tools:\n  review:\n    executor: external\n    ttl: 30m\n")
		persist(s, "submit", func(ctx context.Context) (starter.Submitted, error) {
			return s.client.Submit(ctx, starter.Submission{Tool: "review", TaskID: "storm"})
		})
		// The threshold is crossed about every 16 updates, so somewhere in the
		// middle a kill meets a run that is about to be, or has just been, left.
		killAt := 10 + rng.IntN(callbacksOfAStorm-20)
		killed := make(chan struct{})
		stage := func(i int) domain.Callback {
			return domain.Callback{CallbackID: fmt.Sprintf("cb-%d", i), Event: domain.Event{Type: domain.EventProgress, Progress: ptr(0), Stage: fmt.Sprintf("stage %d", i)}}
		}
		for i := range callbacksOfAStorm {
			if i == killAt {
				go func() {
					defer close(killed)
					wait(rng, 100*time.Millisecond)
					s.kill(what)
				}()
			}
			persist(s, "callback", func(ctx context.Context) (starter.Verdict, error) { return s.client.Callback(ctx, "storm", stage(i)) })
		}
		<-killed
		persist(s, "callback", func(ctx context.Context) (starter.Verdict, error) {
			return s.client.Callback(ctx, "storm", domain.Callback{CallbackID: "end", Event: domain.Event{Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h"}})
		})
		task := s.awaitEnd("storm")
		require.Equal(t, domain.StateSucceeded, task.State)
		require.Equal(t, int64(callbacksOfAStorm+2), task.Version, "a start, each stage once, a success")
		first := task.History[0].Version
		for i, h := range task.History {
			require.Equal(t, first+int64(i), h.Version, "versions have no gaps")
		}
		runs, err := harness.Runs(t.Context(), s.temporal, protocol.TaskWorkflowID("default", "storm"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(runs), 4, "at least three continue-as-news")
	})
}

func ptr(f float64) *float64 { return &f }
