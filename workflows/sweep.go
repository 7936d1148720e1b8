package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/workflows/protocol"
	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

const (
	// sweepTry bounds one try of a sweep: a store of a hundred thousand results takes
	// minutes, a slow one far away more. A try that is cut off is gone on with.
	sweepTry = 2 * time.Hour
	// sweepTaken is how long a sweep waits for a worker of its task queue. A host that
	// is gone ends it then, so that its sweeps do not pile up.
	sweepTaken = 10 * time.Minute
	// sweepTries bounds the tries of one sweep; with their pauses they outlast an
	// engine or a store that is away for some minutes. The next sweep is not far.
	sweepTries = 10
	// sweepSilence is how long a sweep may go without a sign of life. It beats every
	// three seconds.
	sweepSilence = 30 * time.Second
)

func sweepOptions(queue, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary,
		ScheduleToStartTimeout: sweepTaken, StartToCloseTimeout: sweepTry, HeartbeatTimeout: sweepSilence,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: sweepTries,
		},
	}
}

// Sweep deletes what has outlived its task: the stored results of a tenant, or with a
// host what that host keeps of the tenant's jobs. A schedule starts it, or a person.
func Sweep(ctx workflow.Context, in protocol.SweepInput) (*protocol.SweepReport, error) {
	name, summary := protocol.ActivitySweepBlobs, "sweep the results"
	if in.Host != "" {
		name, summary = protocol.ActivitySweepJobs, "sweep the jobs of the host"
	}
	workflow.SetCurrentDetails(ctx, sweepDetails(in))
	var report protocol.SweepReport
	opts := workflow.WithActivityOptions(ctx, sweepOptions(in.TaskQueue, summary))
	if err := workflow.ExecuteActivity(opts, name, in).Get(ctx, &report); err != nil {
		return nil, err
	}
	workflow.SetCurrentDetails(ctx, sweepDetails(in)+"\n\n"+sweptDetails(report))
	return &report, nil
}

func sweepDetails(in protocol.SweepInput) string {
	text := "Results of tenant **" + markdown.Text(in.Tenant) + "**"
	if in.Host != "" {
		text = "Jobs of tenant **" + markdown.Text(in.Tenant) + "** on host **" + markdown.Text(in.Host) + "**"
	}
	if in.DryRun {
		text += ", only looking"
	}
	return text + "."
}

func sweptDetails(r protocol.SweepReport) string {
	text := "Looked at " + itoa(r.Looked) + ", deleted " + itoa(r.Deleted) + ": " + itoa(r.Gone) + " whose task is gone, " + itoa(r.Outlived) + " whose lifetime is over."
	if r.Failed > 0 {
		text += " " + itoa(r.Failed) + " failed: " + markdown.Text(r.LastError)
	}
	return text
}
