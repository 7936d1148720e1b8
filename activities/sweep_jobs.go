package activities

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// SweepJobs deletes what executors on this host keep of a tenant's jobs that are over
// and whose task is gone or was closed longer ago than its results live: files and
// logs. A job that runs is never touched, whatever became of its task. It heartbeats
// where it is, and is safe to repeat.
func (a *Activities) SweepJobs(ctx context.Context, req protocol.SweepInput) (protocol.SweepReport, error) {
	s, err := a.sweeper(ctx, req)
	if err != nil {
		return protocol.SweepReport{}, err
	}
	defer s.beat(ctx)()
	for _, name := range slices.Sorted(maps.Keys(a.o.Executors)) {
		keeps, ok := a.o.Executors[name].(keeper)
		if !ok || name < s.mark().Tool {
			continue
		}
		s.set(func(at *sweepMark) {
			if at.Tool != name {
				at.Tool, at.Cursor = name, ""
			}
		})
		if err := s.jobs(ctx, keeps); err != nil {
			return protocol.SweepReport{}, err
		}
	}
	return s.report(ctx)
}

// keeper is an executor that keeps something of its jobs which can be found and
// removed.
type keeper interface {
	tool.Lister
	tool.Remover
}

// jobs goes through the jobs of one tool.
func (s *sweeper) jobs(ctx context.Context, ex keeper) error {
	for {
		page, err := ex.List(ctx, s.mark().Cursor)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// The jobs of other tools can be swept all the same.
			s.failed(err)
			return nil
		}
		for _, j := range page.Jobs {
			if err := s.job(ctx, ex, j); err != nil {
				return err
			}
		}
		s.set(func(at *sweepMark) { at.Cursor = page.Next })
		activity.RecordHeartbeat(ctx, s.mark())
		if page.Next == "" {
			return nil
		}
	}
}

// job decides about one job.
func (s *sweeper) job(ctx context.Context, ex keeper, j tool.Listed) error {
	taskID, ok := taskOfKey(s.req.Tenant, j.SubmissionKey)
	if !ok {
		return nil
	}
	s.set(func(at *sweepMark) { at.Report.Looked++ })
	now, l := s.a.o.Now(), s.a.o.Lifetimes
	var started time.Time
	if j.StartedAtMs > 0 {
		started = time.UnixMilli(j.StartedAtMs)
	}
	if j.State == tool.StateRunning || !started.IsZero() && l.young(started, now) {
		return nil
	}
	f, err := s.a.fateOf(ctx, s.req.Tenant, ofTask(taskID))
	if err != nil {
		return s.unclear(ctx, err)
	}
	why := f.job(l, j.State, started, now)
	if why == dueNot {
		return nil
	}
	if !s.req.DryRun {
		if sure, err := s.a.unchanged(ctx, s.req.Tenant, ofTask(taskID), f); err != nil || !sure {
			return err
		}
		switch err := ex.Remove(ctx, j.Handle); {
		case errors.Is(err, tool.ErrStillRunning):
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.failed(err)
			return nil
		}
	}
	s.count(why, 0)
	return nil
}

// taskOfKey reads the task out of a submission key of the tenant.
func taskOfKey(tenant, key string) (string, bool) {
	parts := strings.Split(key, "/")
	const all = 3
	if len(parts) != all || parts[0] != tenant || domain.CheckID("taskId", parts[1]) != nil {
		return "", false
	}
	_, err := strconv.Atoi(parts[2])
	return parts[1], err == nil
}
