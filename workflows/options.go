package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The time-outs of activities, each with its reason.
const (
	// submitTry bounds one try to submit: an executor answers when the job has
	// been started, not when it is over.
	submitTry = time.Minute
	// submitPause is the wait after a submission that ended neither way.
	submitPause = time.Minute
	// probeTry bounds one look at an outside job, storing its result included.
	probeTry = 2 * time.Minute
	// askWithin bounds a direct question to the outside, retries and the wait
	// for a worker included: longer than a worker takes to be replaced.
	askWithin = 2 * time.Minute
	// askAtDeadline is shorter: a deadline should not be a surprise.
	askAtDeadline = 15 * time.Second
	// silence is how long an activity that talks to the outside may go without
	// a sign of life: a worker that was killed is replaced this fast, and not
	// after the whole try. The activities beat every three seconds.
	silence = 10 * time.Second
	// cancelTry bounds one try to tell the outside to stop.
	cancelTry = 10 * time.Second
	// cancelWithin bounds all of them, at the end of a task also how long its
	// closing waits for a host that does not answer.
	cancelWithin = 30 * time.Second
	// localTry bounds a local activity: the answer to the update that led to it
	// is held back for as long.
	localTry = 2 * time.Second
	// storeTry bounds one try to store a small result by a regular activity.
	storeTry = 30 * time.Second
	// storeAgain is the wait after a result could not be stored at all.
	storeAgain = time.Minute
	// notifyWithin bounds how long the end of a task waits for its run to take the
	// signal. A run looks by itself at what it waits for, so it is not lost.
	notifyWithin = 10 * time.Minute
	// hostLost is how long a job's host may be gone before the job is
	// suspected lost, unless the tool says otherwise.
	hostLost = 2 * time.Minute
	// slotSpare is how much longer than the deadline a job may hold its slot, so that
	// the end at the deadline is the task's and not a time-out's.
	slotSpare = time.Minute
	// compensateTry bounds one start of, or look at, a task that undoes.
	compensateTry = 30 * time.Second
	// giveUpDelivery is how long a webhook is tried.
	giveUpDelivery = 72 * time.Hour
	// sendTry bounds one webhook request.
	sendTry = 30 * time.Second
)

// retryBriefly is for calls that should work at once or soon.
func retryBriefly() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second}
}

func submitOptions(queue, summary string, until time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary,
		// The deadline of the task bounds everything; no worker is no failure.
		ScheduleToCloseTimeout: until, StartToCloseTimeout: submitTry, HeartbeatTimeout: silence,
		// Soon at first, then no more than once a minute: each try may start a job.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Minute},
		// A task that ends meanwhile has to know whether a job was started.
		WaitForCancellation: true,
	}
}

func probeOptions(queue, summary string, lost time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary,
		// Not bounded as a whole: the server gives an activity up as soon as its
		// next try would come too late, so a slow poll near the deadline would
		// be taken for silence, over and over. It ends with the attempt.
		StartToCloseTimeout: probeTry, HeartbeatTimeout: silence,
		// Counted anew for each look: silence of the host that holds the job.
		ScheduleToStartTimeout: lost,
		// The probe names the next delay itself; this is for its failures.
		RetryPolicy: retryBriefly(),
	}
}

func askOptions(queue, summary string, within time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary,
		ScheduleToCloseTimeout: within, StartToCloseTimeout: min(within, probeTry), HeartbeatTimeout: silence,
		RetryPolicy: retryBriefly(),
	}
}

func cancelOptions(queue string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: "ask the outside to stop",
		ScheduleToCloseTimeout: cancelWithin, StartToCloseTimeout: cancelTry,
		RetryPolicy: retryBriefly(),
	}
}

func compensateOptions(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: summary, StartToCloseTimeout: compensateTry,
		// Not bounded as a whole: it ends with the task that undoes, or with ours.
		RetryPolicy: retryBriefly(),
	}
}

func leaseOptions(attempt int, lease, until time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		ActivityID: protocol.LeaseActivityID(attempt), Summary: "lease of the worker outside",
		StartToCloseTimeout: until, HeartbeatTimeout: lease,
		// Silence is the answer that is wanted, so it is not retried; and a
		// cancel waits for the worker outside to say that it has stopped.
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}, WaitForCancellation: true,
	}
}

func localOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: localTry, ScheduleToCloseTimeout: localTry,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

func storeOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "store", StartToCloseTimeout: storeTry,
		// A result that cannot be stored keeps the task open: it is never lost.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
	}
}

func notifyOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "tell the run", StartToCloseTimeout: storeTry, ScheduleToCloseTimeout: notifyWithin,
		RetryPolicy: retryBriefly(),
	}
}

func sendOptions(target string, giveUp time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "send to " + target, ScheduleToCloseTimeout: giveUp, StartToCloseTimeout: sendTry,
		// From seconds to hours: a receiver that is down for a moment is served
		// soon, one that is down for a day is not worn out.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 5 * time.Second, BackoffCoefficient: 2.5, MaximumInterval: 6 * time.Hour},
	}
}

// The activities of runs.

// startCallTry is how long the start of one call may take, and what all of them have in
// any case.
const (
	startCallTry  = time.Second
	startCallsTry = 20 * time.Second
	// inspectTry bounds one inspection of all open calls, each of which may ask an
	// outside that does not answer.
	inspectTry    = 2 * time.Minute
	inspectWithin = 4 * time.Minute
	// watchTry bounds one look of the standing check.
	watchTry = time.Minute
)

func startCallsOptions(calls int) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "start " + itoa(calls) + " calls", StartToCloseTimeout: startCallsTry + time.Duration(calls)*startCallTry,
		// Not bounded as a whole: no worker, or no engine, is no failure of a call.
		RetryPolicy: retryBriefly(),
	}
}

func tellCallsOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "tell tasks what the run wants", StartToCloseTimeout: storeTry, ScheduleToCloseTimeout: notifyWithin,
		RetryPolicy: retryBriefly(),
	}
}

func watchCallsOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "standing check", StartToCloseTimeout: watchTry,
		// It ends when it has found something, or with what it looks at.
		RetryPolicy: retryBriefly(),
	}
}

func inspectCallsOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		Summary: "recover", StartToCloseTimeout: inspectTry, ScheduleToCloseTimeout: inspectWithin, HeartbeatTimeout: silence,
		RetryPolicy: retryBriefly(),
	}
}

func prepareOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{Summary: "prepare step", StartToCloseTimeout: storeTry, RetryPolicy: retryBriefly()}
}

func stepOptions(queue, summary string, timeout time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary, StartToCloseTimeout: timeout,
		// Each try is an attempt with a token of its own, so the run makes it.
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}
