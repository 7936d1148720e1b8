package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// sweepEnv runs a sweep whose activities are given.
func sweepEnv(t *testing.T, in protocol.SweepInput, sweep func(ctx context.Context, name string) (protocol.SweepReport, error)) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := s.NewTestWorkflowEnvironment()
	e.SetTestTimeout(time.Minute)
	e.RegisterWorkflowWithOptions(workflows.Sweep, workflow.RegisterOptions{Name: protocol.WorkflowSweep})
	for _, name := range []string{protocol.ActivitySweepBlobs, protocol.ActivitySweepJobs} {
		e.RegisterActivityWithOptions(func(ctx context.Context, got protocol.SweepInput) (protocol.SweepReport, error) {
			if got != in {
				return protocol.SweepReport{}, temporal.NewNonRetryableApplicationError("another input", "test", nil)
			}
			return sweep(ctx, name)
		}, activity.RegisterOptions{Name: name})
	}
	e.ExecuteWorkflow(protocol.WorkflowSweep, in)
	require.True(t, e.IsWorkflowCompleted())
	return e
}

func TestSweepRunsWhereItsInputSays(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]protocol.SweepInput{
		protocol.ActivitySweepBlobs: {Tenant: "acme", TaskQueue: "q"},
		protocol.ActivitySweepJobs:  {Tenant: "acme", Host: "h", TaskQueue: "q-host-h", DryRun: true},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			tries := 0
			e := sweepEnv(t, in, func(ctx context.Context, name string) (protocol.SweepReport, error) {
				info := activity.GetInfo(ctx)
				if name != want || info.TaskQueue != in.TaskQueue || info.HeartbeatTimeout == 0 {
					return protocol.SweepReport{}, temporal.NewNonRetryableApplicationError(name+" on "+info.TaskQueue, "test", nil)
				}
				if tries++; tries < 3 {
					return protocol.SweepReport{}, errors.New("the engine is away")
				}
				return protocol.SweepReport{Looked: 3, Deleted: 2, Gone: 2}, nil
			})
			require.NoError(t, e.GetWorkflowError())
			var got protocol.SweepReport
			require.NoError(t, e.GetWorkflowResult(&got))
			require.Equal(t, protocol.SweepReport{Looked: 3, Deleted: 2, Gone: 2}, got)
			require.Equal(t, 3, tries)
		})
	}
}

// A sweep that cannot be done ends, so that it is seen and the next one can begin.
func TestSweepThatFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		tries int
	}{
		"for now":  {errors.New("the engine is away"), 10},
		"for good": {temporal.NewNonRetryableApplicationError("tenant must not be blank", protocol.ErrTypeInvalid, nil), 1},
		"no host":  {temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			e := sweepEnv(t, protocol.SweepInput{Tenant: "acme", TaskQueue: "q"}, func(context.Context, string) (protocol.SweepReport, error) {
				tries++
				return protocol.SweepReport{}, tc.err
			})
			require.Error(t, e.GetWorkflowError())
			require.Equal(t, tc.tries, tries)
		})
	}
}
