package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// keeping is an executor that keeps files of its jobs. Its cursor is the last key of
// a page, so that what is removed moves no page.
type keeping struct {
	*tooltest.Executor
	jobs      []tool.Listed
	listErr   error
	removeErr map[string]error
	removed   []string
	lists     []string
}

const keepingPage = 2

func (k *keeping) List(_ context.Context, cursor string) (tool.Listing, error) {
	k.lists = append(k.lists, cursor)
	if k.listErr != nil {
		return tool.Listing{}, k.listErr
	}
	var page tool.Listing
	for _, j := range k.jobs {
		switch {
		case j.SubmissionKey <= cursor:
		case len(page.Jobs) == keepingPage:
			page.Next = page.Jobs[keepingPage-1].SubmissionKey
			return page, nil
		default:
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

func (k *keeping) Remove(_ context.Context, h tool.Handle) error {
	if err := k.removeErr[h.ID]; err != nil {
		return fmt.Errorf("remove %s: %w", h.ID, err)
	}
	k.removed = append(k.removed, h.ID)
	k.jobs = slices.DeleteFunc(k.jobs, func(j tool.Listed) bool { return j.Handle.ID == h.ID })
	return nil
}

// kept makes the bench's tool one that keeps jobs.
func (b *bench) kept(jobs ...tool.Listed) *keeping {
	k := &keeping{Executor: b.tool, jobs: jobs, removeErr: map[string]error{}}
	slices.SortFunc(k.jobs, func(a, b tool.Listed) int { return strings.Compare(a.SubmissionKey, b.SubmissionKey) })
	b.o.Executors["build"] = k
	return k
}

// left is a job of a task that was started nine hours ago.
func (b *bench) left(key string, s tool.State) tool.Listed {
	return tool.Listed{Handle: tool.Handle{ID: key}, SubmissionKey: key, State: s, StartedAtMs: b.now.Add(-9 * time.Hour).UnixMilli()}
}

func TestSweepJobs(t *testing.T) {
	t.Parallel()
	b, e, s := sweeping(t, nil)
	e.tasks = map[string]end{
		"done":    b.over(domain.StateSucceeded, 4*time.Hour, 0),
		"lately":  b.over(domain.StateSucceeded, time.Hour, 0),
		"expired": b.over(domain.StateExpired, 4*time.Hour, 0),
		"open":    {runID: "r"},
		"broken":  {runID: "r", status: completed, failure: errors.New("the data is encrypted")},
	}
	young := b.left("acme/young/1", tool.StateSucceeded)
	young.StartedAtMs = b.now.UnixMilli()
	ageless := b.left("acme/ageless/1", tool.StateFailed)
	ageless.StartedAtMs = 0
	k := b.kept(
		b.left("acme/done/1", tool.StateFailed), b.left("acme/done/2", tool.StateSucceeded), b.left("acme/done/3", tool.StateRunning),
		b.left("acme/done/4", tool.StateUnknown),
		b.left("acme/lately/1", tool.StateSucceeded), b.left("acme/open/1", tool.StateFailed),
		b.left("acme/expired/1", tool.StateFailed), b.left("acme/expired/2", tool.StateSucceeded),
		b.left("acme/gone/1", tool.StateSucceeded), b.left("acme/gone/2", tool.StateRunning), b.left("acme/gone/3", tool.StateUnknown),
		b.left("acme/broken/1", tool.StateFailed), b.left("acme/stuck/1", tool.StateFailed), young, ageless,
		b.left("umbrella/gone/1", tool.StateFailed), b.left("acme/gone", tool.StateFailed), b.left("acme/go ne/1", tool.StateFailed), b.left("acme/gone/x", tool.StateFailed),
	)
	// An unknown job may turn out to run.
	k.removeErr["acme/done/4"], k.removeErr["acme/stuck/1"] = tool.ErrStillRunning, errors.New("permission denied")
	b.o.Executors["lists-only"] = tooltest.New()
	due := []string{"acme/done/1", "acme/done/2", "acme/expired/1", "acme/gone/1", "acme/gone/3"}

	look, err := b.sweepJobs(protocol.SweepInput{Tenant: "acme", Host: "h", DryRun: true})
	if err != nil || look.Looked != 15 || look.Gone+look.Outlived != 7 || look.Deleted != 0 || len(k.removed) > 0 {
		t.Errorf("looking: %+v, %v, removed %q", look, err, k.removed)
	}
	b.heartbeat = nil
	got, err := b.sweepJobs(protocol.SweepInput{Tenant: "acme", Host: "h"})
	want := protocol.SweepReport{Looked: 15, Deleted: 5, Gone: 2, Outlived: 3, Failed: 2, LastError: "remove acme/stuck/1: permission denied", EndedAtMs: b.now.UnixMilli()}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if diff := cmp.Diff(due, k.removed); diff != "" {
		t.Errorf("removed: %s", diff)
	}
	if e.asked["young"] > 0 || len(s.temporary) > 0 {
		t.Error("more was looked at than the jobs that can be due")
	}
}

// A try that is cut off goes on at its page, not before, and with the tool it was at.
func TestSweepJobsGoesOn(t *testing.T) {
	t.Parallel()
	b, e, _ := sweeping(t, map[string]end{"a": {runID: "r"}})
	first := &keeping{Executor: tooltest.New(), jobs: []tool.Listed{b.left("acme/z/1", tool.StateFailed)}}
	b.o.Executors["a-tool"] = first
	k := b.kept(b.left("acme/a/1", tool.StateFailed), b.left("acme/b/1", tool.StateFailed), b.left("acme/c/1", tool.StateFailed), b.left("acme/d/1", tool.StateFailed))
	e.before = func(taskID string, _ int) {
		if taskID == "d" {
			e.down = serviceerror.NewResourceExhausted(0, "busy")
		}
	}
	if _, err := b.sweepJobs(acme); err == nil || failure(t, err).NonRetryable() {
		t.Fatal(err)
	}
	if !slices.Equal(k.removed, []string{"acme/b/1", "acme/c/1"}) {
		t.Fatalf("removed %q", k.removed)
	}
	e.before, e.down = nil, nil
	got, err := b.sweepJobs(acme)
	if err != nil || got.Deleted < 3 || !slices.Equal(k.removed, []string{"acme/b/1", "acme/c/1", "acme/d/1"}) || !slices.Equal(first.removed, []string{"acme/z/1"}) {
		t.Errorf("%+v, %v, removed %q and %q", got, err, k.removed, first.removed)
	}
	if e.asked["a"] != 1 || !slices.Equal(first.lists, []string{""}) {
		t.Errorf("asked for a %d times, listed %q", e.asked["a"], first.lists)
	}
}

// A tool whose jobs cannot be listed does not keep those of another.
func TestSweepJobsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	b, _, _ := sweeping(t, nil)
	b.o.Executors["a-tool"] = &keeping{Executor: tooltest.New(), listErr: errors.New("no such folder")}
	k := b.kept(b.left("acme/b/1", tool.StateFailed))
	got, err := b.sweepJobs(acme)
	if err != nil || got.Deleted != 1 || got.Failed != 1 || got.LastError != "no such folder" || len(k.removed) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
