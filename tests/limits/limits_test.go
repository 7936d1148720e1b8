package limits

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

const patience = 3 * time.Minute

// backlog is how many activities wait on a task queue, roughly.
func backlog(ctx context.Context, c client.Client, queue string) (int, error) {
	resp, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueue.TaskQueue{Name: queue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
	})
	if err != nil {
		return 0, err
	}
	return int(resp.GetStats().GetApproximateBacklogCount()), nil
}

// allEnded waits until every task has succeeded.
func allEnded(t *testing.T, c *starter.Client, ids []string) {
	t.Helper()
	for _, id := range ids {
		harness.Until(t, patience, "task "+id+" has ended", func() bool {
			d, err := c.Describe(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return d.Task.State == domain.StateSucceeded
		})
	}
}

// No more jobs run at a time than the tool allows, and no fewer when there are more
// to run; a worker that stops in the middle hands its jobs on.
func TestMaxConcurrent(t *testing.T) {
	const limit, tasks = 3, 12
	b := newBed(t, "    maxConcurrent: 3\n")
	b.StartWorker()
	submit(t, b.Client, tasks, starter.Submission{TaskID: "t"})
	b.c.await(t, "the slots are taken", patience, func() bool { return b.c.running == limit })
	harness.Until(t, patience, "the others wait for a slot", func() bool { return b.waiting(t) >= tasks-limit })
	b.StopWorker()
	b.StartWorker()
	b.c.release()
	b.c.await(t, "all have begun", patience, func() bool { return len(b.c.began) == tasks && b.c.running == 0 })
	var ids []string
	seen := map[string]bool{}
	for _, s := range b.c.began {
		if seen[s.task] {
			t.Errorf("task %s had two jobs", s.task)
		}
		seen[s.task] = true
		ids = append(ids, s.task)
	}
	allEnded(t, b.Client, ids)
	// The jobs of the stopped worker hold no slot until it is their turn again, so
	// others may begin beside them; without that there are never more.
	if b.c.most < limit || b.c.most > 2*limit {
		t.Errorf("%d jobs at a time, the limit is %d", b.c.most, limit)
	}
}

// Undisturbed, the limit is exact.
func TestMaxConcurrentExactly(t *testing.T) {
	const limit, tasks = 2, 10
	b := newBed(t, "    maxConcurrent: 2\n")
	b.StartWorker()
	submit(t, b.Client, tasks, starter.Submission{TaskID: "t"})
	b.c.await(t, "the slots are taken", patience, func() bool { return b.c.running == limit })
	b.c.release()
	b.c.await(t, "all are over", patience, func() bool { return len(b.c.began) == tasks && b.c.running == 0 })
	if b.c.most != limit {
		t.Errorf("%d jobs at a time, the limit is %d", b.c.most, limit)
	}
}

// No more jobs are submitted in a second than the tool allows. A lower bound on the
// time holds on any machine.
func TestRate(t *testing.T) {
	const tasks, perSecond = 16, 4
	b := newBed(t, "    rate: 4/s\n")
	b.c.release()
	b.StartWorker()
	submit(t, b.Client, tasks, starter.Submission{TaskID: "t"})
	b.c.await(t, "all have begun", patience, func() bool { return len(b.c.began) == tasks })
	first, last := b.c.began[0].at, b.c.began[tasks-1].at
	// The engine lets a second's worth through at once, and rounds up.
	least := time.Duration(tasks-2*perSecond-1) * time.Second / perSecond
	if took := last.Sub(first); took < least {
		t.Errorf("%d submissions in %v, at %d a second that takes at least %v", tasks, took, perSecond, least)
	}
}

// What is urgent does not wait behind what is not.
func TestPriority(t *testing.T) {
	const later, urgent = 30, 5
	b := newBed(t, "    maxConcurrent: 1\n")
	b.StartWorker()
	submit(t, b.Client, later, starter.Submission{TaskID: "later", Priority: 5})
	b.c.await(t, "the slot is taken", patience, func() bool { return b.c.running == 1 })
	harness.Until(t, patience, "the others wait", func() bool { return b.waiting(t) >= later-1 })
	submit(t, b.Client, urgent, starter.Submission{TaskID: "urgent", Priority: 1})
	harness.Until(t, patience, "the urgent ones wait too", func() bool { return b.waiting(t) >= later+urgent-1 })
	b.c.release()
	b.c.await(t, "all have begun", patience, func() bool { return len(b.c.began) == later+urgent })
	sum, places := 0, []int{}
	for i, s := range b.c.began {
		if s.task[0] == 'u' {
			sum += i + 1
			places = append(places, i+1)
		}
	}
	t.Logf("the urgent jobs began at places %v of %d", places, later+urgent)
	// A queue has several partitions in the engine, and order holds within each. First
	// come, first served the mean would be beyond the others' number.
	if mean := sum / urgent; mean > (later+urgent)/2 {
		t.Errorf("the urgent jobs began at place %d in the mean (%v), of %d", mean, places, later+urgent)
	}
}

// A tenant with a few tasks does not wait behind another's thousands.
func TestFairness(t *testing.T) {
	b := newBed(t, "    maxConcurrent: 4\n")
	small := b.as(t, "small")
	b.StartWorker()
	submit(t, b.Client, manyOfTheBig, starter.Submission{TaskID: "b"})
	harness.Until(t, 20*time.Minute, "the big tenant's backlog is there", func() bool { return b.waiting(t) >= manyOfTheBig-4 })
	submit(t, small, fewOfTheSmall, starter.Submission{TaskID: "s"})
	all := manyOfTheBig + fewOfTheSmall
	harness.Until(t, 5*time.Minute, "the small tenant's too", func() bool { return b.waiting(t) >= all-4 })
	began := time.Now()
	b.c.release()
	b.c.await(t, "all have begun", 60*time.Minute, func() bool { return len(b.c.began) == all })
	var places []int
	for i, s := range b.c.began {
		if s.tenant == "small" {
			places = append(places, i+1)
		}
	}
	slices.Sort(places)
	middle, last := places[len(places)/2], places[len(places)-1]
	t.Logf("backlog of %d and %d tasks, 4 at a time: the small tenant's jobs began at places %d (first), %d (middle), %d (last) of %d; first come, first served they would begin after place %d; %.1f jobs a second",
		manyOfTheBig, fewOfTheSmall, places[0], middle, last, all, manyOfTheBig, float64(all)/time.Since(began).Seconds())
	// Turn by turn the middle one is number few and the last 2 x few; some are handed
	// out before, and a queue has several partitions, in each of which turns are taken.
	if most := 2*fewOfTheSmall + 40; middle > most {
		t.Errorf("half of the small tenant's jobs began by place %d, turn by turn it is %d, at most %d would be right", middle, fewOfTheSmall, most)
	}
	if last > manyOfTheBig*3/4 {
		t.Errorf("the small tenant's last job began at place %d, as if it had waited behind the big one's %d", last, manyOfTheBig)
	}
}
