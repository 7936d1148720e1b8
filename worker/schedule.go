package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const (
	// sweepRun bounds one sweep. While it runs no other begins.
	sweepRun = 6 * time.Hour
	// sweepCatchup is how late a sweep may begin that an engine missed while it was
	// down. The next one does its work anyway.
	sweepCatchup = 10 * time.Minute
	// scheduleTry bounds one look at a schedule, scheduleAgain is the first pause
	// after one that failed, scheduleAtMost the longest.
	scheduleTry    = 30 * time.Second
	scheduleAgain  = 10 * time.Second
	scheduleAtMost = time.Hour
)

// scheduleClient is what is needed of Temporal's schedules; [client.ScheduleClient] has it.
type scheduleClient interface {
	Create(ctx context.Context, options client.ScheduleOptions) (client.ScheduleHandle, error)
	GetHandle(ctx context.Context, scheduleID string) client.ScheduleHandle
}

// scheduler makes sure that the sweeps are scheduled, without holding up the worker.
type scheduler struct {
	schedules scheduleClient
	sweeps    []protocol.SweepInput
	queue     string
	every     time.Duration
	log       *slog.Logger

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// scheduler gives that of a worker: its tenant's results, and if there are executors
// that keep files of their jobs, this host's.
func (o Options) scheduler(executors map[string]tool.Executor) *scheduler {
	s := &scheduler{schedules: o.Temporal.ScheduleClient(), queue: o.TaskQueue, every: o.Config.SweepEvery, log: o.Logger}
	s.sweeps = []protocol.SweepInput{{Tenant: o.Config.Tenant, TaskQueue: o.TaskQueue}}
	for _, ex := range executors {
		_, lists := ex.(tool.Lister)
		if _, removes := ex.(tool.Remover); lists && removes {
			s.sweeps = append(s.sweeps, protocol.SweepInput{
				Tenant: o.Config.Tenant, Host: o.Host, TaskQueue: protocol.HostTaskQueue(o.TaskQueue, o.Host),
			})
			break
		}
	}
	return s
}

// start begins, close ends and waits.
func (s *scheduler) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for _, in := range s.sweeps {
		s.ended.Go(func() { s.keep(ctx, in) })
	}
}

func (s *scheduler) close() {
	if s.stop != nil {
		s.stop()
	}
	s.ended.Wait()
}

// keep tries until the schedule is there. A worker that may not make one works all
// the same: somebody else may have made it, or sweep by hand.
func (s *scheduler) keep(ctx context.Context, in protocol.SweepInput) {
	level := slog.LevelWarn
	for wait := scheduleAgain; ; wait = min(2*wait, scheduleAtMost) {
		err := s.ensure(ctx, in)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Log(ctx, level, "the sweep could not be scheduled; without it, run `wakepoint sweep` from time to time",
			"schedule", protocol.SweepScheduleID(in.Tenant, in.Host), "error", err)
		level = slog.LevelDebug // said once
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// ensure gets or creates a schedule, and brings one to the configured interval. That
// somebody paused it stays.
func (s *scheduler) ensure(ctx context.Context, in protocol.SweepInput) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTry)
	defer cancel()
	err := s.update(ctx, in)
	var missing *serviceerror.NotFound
	if !errors.As(err, &missing) {
		return err
	}
	_, err = s.schedules.Create(ctx, s.options(in))
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		// Another worker was faster, perhaps with another interval.
		return s.update(ctx, in)
	}
	return err
}

func (s *scheduler) update(ctx context.Context, in protocol.SweepInput) error {
	want := s.options(in)
	return s.schedules.GetHandle(ctx, want.ID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(now client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := now.Description.Schedule
			if s.same(next) {
				return nil, temporal.ErrSkipScheduleUpdate
			}
			next.Spec, next.Action = &want.Spec, want.Action
			next.Policy = &client.SchedulePolicies{Overlap: want.Overlap, CatchupWindow: want.CatchupWindow}
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	})
}

// same compares what can differ: all else follows from the id.
func (s *scheduler) same(is client.Schedule) bool {
	a, ok := is.Action.(*client.ScheduleWorkflowAction)
	return ok && a.TaskQueue == s.queue && a.WorkflowRunTimeout == sweepRun && is.Spec != nil && len(is.Spec.Intervals) == 1 &&
		is.Spec.Intervals[0].Every == s.every && is.Spec.Jitter == s.jitter()
}

// jitter keeps the hosts of an installation from sweeping all at once.
func (s *scheduler) jitter() time.Duration {
	const part, most = 6, 10 * time.Minute
	return min(s.every/part, most).Truncate(time.Second)
}

func (s *scheduler) options(in protocol.SweepInput) client.ScheduleOptions {
	id := protocol.SweepScheduleID(in.Tenant, in.Host)
	summary := "sweep the results of tenant " + in.Tenant
	if in.Host != "" {
		summary = "sweep the jobs of tenant " + in.Tenant + " on host " + in.Host
	}
	return client.ScheduleOptions{
		ID:            id,
		Spec:          client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: s.every}}, Jitter: s.jitter()},
		Overlap:       enums.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: sweepCatchup,
		Note:          "made by wakepoint; its interval is sweep.every of the configuration",
		Action: &client.ScheduleWorkflowAction{
			ID: id, Workflow: protocol.WorkflowSweep, Args: []any{in}, TaskQueue: s.queue, WorkflowRunTimeout: sweepRun, StaticSummary: summary,
		},
	}
}
