package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// timetable is an engine's schedules.
type timetable struct {
	mu        sync.Mutex
	schedules map[string]*client.Schedule
	// err answers every call; rival is made by somebody else right before ours.
	err            error
	rival          *client.ScheduleOptions
	calls, updates int
	created        []string
}

func scheduleOf(o client.ScheduleOptions) *client.Schedule {
	return &client.Schedule{
		Action: o.Action, Spec: &o.Spec, Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow},
		State: &client.ScheduleState{Note: o.Note},
	}
}

func (tt *timetable) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.calls++
	if tt.rival != nil && tt.rival.ID == o.ID {
		tt.schedules[tt.rival.ID] = scheduleOf(*tt.rival)
	}
	if tt.schedules[o.ID] != nil {
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	tt.schedules[o.ID], tt.created = scheduleOf(o), append(tt.created, o.ID)
	return nil, tt.err
}

func (tt *timetable) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return scheduleHandle{tt: tt, id: id}
}

type scheduleHandle struct {
	client.ScheduleHandle
	tt *timetable
	id string
}

func (h scheduleHandle) Update(_ context.Context, o client.ScheduleUpdateOptions) error {
	h.tt.mu.Lock()
	defer h.tt.mu.Unlock()
	h.tt.calls++
	if h.tt.err != nil {
		return h.tt.err
	}
	s := h.tt.schedules[h.id]
	if s == nil {
		return serviceerror.NewNotFound("no schedule")
	}
	next, err := o.DoUpdate(client.ScheduleUpdateInput{Description: client.ScheduleDescription{Schedule: *s}})
	switch {
	case errors.Is(err, temporal.ErrSkipScheduleUpdate):
		return nil
	case err == nil:
		h.tt.schedules[h.id] = next.Schedule
		h.tt.updates++
	}
	return err
}

func sweeps(tt *timetable, every time.Duration) *scheduler {
	return &scheduler{schedules: tt, queue: "q", every: every, log: slog.New(slog.DiscardHandler), sweeps: []protocol.SweepInput{
		{Tenant: "acme", TaskQueue: "q"}, {Tenant: "acme", Host: "h", TaskQueue: "q-host-h"},
	}}
}

// ran starts a scheduler, lets it do what it does at once and closes it.
func ran(s *scheduler) {
	s.start()
	synctest.Wait()
	s.close()
}

func TestSweepsAreScheduledOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := &timetable{schedules: map[string]*client.Schedule{}}
		ran(sweeps(tt, time.Hour))
		ran(sweeps(tt, time.Hour))
		if len(tt.created) != 2 || tt.updates != 0 {
			t.Fatalf("made %q, changed %d", tt.created, tt.updates)
		}
		for id, in := range map[string]protocol.SweepInput{
			"acme/sweep": {Tenant: "acme", TaskQueue: "q"}, "acme/sweep/h": {Tenant: "acme", Host: "h", TaskQueue: "q-host-h"},
		} {
			s := tt.schedules[id]
			a, ok := s.Action.(*client.ScheduleWorkflowAction)
			if !ok || a.ID != id || a.Workflow != protocol.WorkflowSweep || a.TaskQueue != "q" || a.WorkflowRunTimeout != sweepRun ||
				len(a.Args) != 1 || a.Args[0] != in || !strings.Contains(a.StaticSummary, "acme") {
				t.Errorf("%s: %+v", id, s.Action)
			}
			if len(s.Spec.Intervals) != 1 || s.Spec.Intervals[0].Every != time.Hour || s.Spec.Jitter != 10*time.Minute || s.Policy.Overlap != enums.SCHEDULE_OVERLAP_POLICY_SKIP {
				t.Errorf("%s: %+v, %+v", id, s.Spec, s.Policy)
			}
		}
		// Another interval comes with the configuration; that it is paused is a person's.
		tt.schedules["acme/sweep"].State.Paused = true
		ran(sweeps(tt, time.Minute))
		s := tt.schedules["acme/sweep"]
		if tt.updates != 2 || s.Spec.Intervals[0].Every != time.Minute || s.Spec.Jitter != 10*time.Second || !s.State.Paused {
			t.Errorf("changed %d: %+v, %+v", tt.updates, s.Spec, s.State)
		}
	})
}

// Of two workers that start at once one makes the schedule, the other takes it.
func TestSweepsAreScheduledBySomebodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rival := sweeps(nil, 2*time.Hour).options(protocol.SweepInput{Tenant: "acme", TaskQueue: "q"})
		tt := &timetable{schedules: map[string]*client.Schedule{}, rival: &rival}
		ran(sweeps(tt, time.Hour))
		if s := tt.schedules["acme/sweep"]; s.Spec.Intervals[0].Every != time.Hour || len(tt.created) != 1 {
			t.Errorf("%+v, made %q", s.Spec, tt.created)
		}
	})
}

// A worker that may not make schedules says so once and tries again, until it may or
// is stopped.
func TestSweepsThatCannotBeScheduled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := &timetable{schedules: map[string]*client.Schedule{}, err: serviceerror.NewPermissionDenied("no", "")}
		var said strings.Builder
		s := sweeps(tt, time.Hour)
		s.sweeps = s.sweeps[:1]
		s.log = slog.New(slog.NewTextHandler(&said, nil))
		s.start()
		<-time.After(24 * time.Hour) // of the bubble's clock
		synctest.Wait()
		if got := strings.Count(said.String(), "wakepoint sweep"); got != 1 {
			t.Errorf("said %d times: %s", got, said.String())
		}
		if tt.calls < 24 || tt.calls > 40 {
			t.Errorf("tried %d times in a day", tt.calls)
		}
		tt.mu.Lock()
		tt.err = nil
		tt.mu.Unlock()
		<-time.After(time.Hour)
		synctest.Wait()
		if len(tt.created) != 1 {
			t.Errorf("made %q", tt.created)
		}
		s.close()
		tt.err = serviceerror.NewUnavailable("away")
		ran(sweeps(tt, time.Hour))
	})
}
