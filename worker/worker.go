package worker

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Worker serves the task queues of one host: the main one, those that tools
// name for themselves, and the host's own.
type Worker struct {
	o       Options
	workers []sdkworker.Worker
	queues  []string
	sweeps  *scheduler
}

// New makes a worker. Every tool is checked here, so that a program that is not
// there stops the start and not a task in the middle.
func New(o Options) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	executors, wrong := o.executors()
	targets, err := o.targets()
	runtimes, noRuntimes := o.runtimes()
	if err := allMistakes(wrong, err, noRuntimes); err != nil {
		return nil, err
	}
	acts, err := activities.New(activities.Options{
		Executors: executors, Blobs: o.Store, Signals: o.Temporal, Targets: targets, HTTP: o.HTTP, Logger: o.Logger,
		Host: o.Host, Tools: o.Config.Tool, Tasks: o.Temporal, TaskQueue: o.TaskQueue,
		Calls: o.Calls, Contents: o.Store, Runtimes: runtimes,
		Stored: o.Store, Lifetimes: activities.LifetimesOf(o.Config),
	})
	if err != nil {
		return nil, err
	}
	queues, err := o.queues()
	if err != nil {
		return nil, err
	}
	w := &Worker{o: o, sweeps: o.scheduler(executors)}
	for i, q := range queues {
		sw := sdkworker.New(o.Temporal, q.name, o.sdkOptions(q, i == 0))
		if i == 0 {
			RegisterWorkflows(sw)
		}
		if q.limited {
			RegisterSubmissions(sw, acts)
		} else {
			RegisterActivities(sw, acts)
			o.registerFunctions(sw, q.name)
		}
		w.workers, w.queues = append(w.workers, sw), append(w.queues, q.name)
	}
	return w, nil
}

// sdkOptions are the same for every queue, but for the workflows, which only the
// main queue has, and for the limits.
func (o Options) sdkOptions(q queue, main bool) sdkworker.Options {
	auto := func() sdkworker.PollerBehavior {
		return sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{})
	}
	return sdkworker.Options{
		// With the two fixed pollers of the default, a tenth to a quarter of
		// the tasks stall for seconds under a burst.
		WorkflowTaskPollerBehavior: auto(),
		ActivityTaskPollerBehavior: auto(),
		WorkerStopTimeout:          o.StopTimeout,
		DisableWorkflowWorker:      !main,
		// Of this process: each of several workers has as many.
		MaxConcurrentActivityExecutionSize: q.maxConcurrent,
		// Of the queue: the engine holds all its workers to it.
		TaskQueueActivitiesPerSecond: q.perSecond,
	}
}

// queue is a task queue that a worker serves.
type queue struct {
	name string
	// limited says that it has limits and takes nothing but submissions. Anything
	// else would wait for its turn with them: a look at a job behind the very jobs
	// that hold the slots.
	limited bool
	// maxConcurrent and perSecond are the limits; 0 means none.
	maxConcurrent int
	perSecond     float64
}

// queues lists the task queues: the main one, the host's, those that tools name, those
// of the limits of tools.
func (o Options) queues() ([]queue, error) {
	qs := []queue{{name: o.TaskQueue}, {name: protocol.HostTaskQueue(o.TaskQueue, o.Host)}}
	served := func(name string) bool {
		return slices.ContainsFunc(qs, func(q queue) bool { return q.name == name })
	}
	for _, t := range o.Config.Tools {
		if t.TaskQueue != "" && !served(t.TaskQueue) {
			qs = append(qs, queue{name: t.TaskQueue})
		}
	}
	for _, t := range o.Config.Tools {
		name := t.SubmitQueue()
		switch {
		case name == "":
		case served(name):
			// The configuration knows neither the option's task queue nor the host's.
			return nil, domain.Invalid("taskQueue", "must leave %s to the limits of tool %s", name, t.Name)
		default:
			qs = append(qs, queue{name: name, limited: true, maxConcurrent: t.MaxConcurrent, perSecond: t.Rate.PerSecond()})
		}
	}
	for _, f := range o.Config.ForeignQueues() {
		if served(f.TaskQueue) {
			// As above. What comes there would meet a worker that does not know it.
			return nil, domain.Invalid("taskQueue", "must leave %s to the worker that does the work of %s", f.TaskQueue, f.Of)
		}
	}
	return qs, nil
}

// TaskQueues lists the task queues that the worker serves, the main one first.
func (w *Worker) TaskQueues() []string { return slices.Clone(w.queues) }

// Start begins to serve and returns at once.
func (w *Worker) Start() error {
	for i, sw := range w.workers {
		if err := sw.Start(); err != nil {
			for _, started := range w.workers[:i] {
				started.Stop()
			}
			return fmt.Errorf("task queue %s: %w", w.queues[i], err)
		}
	}
	w.sweeps.start()
	w.o.Logger.Info("worker started", "taskQueues", w.queues, "tools", len(w.o.Config.Tools))
	return nil
}

// Stop takes nothing new and waits for what runs, at most the stop timeout.
func (w *Worker) Stop() {
	w.sweeps.close()
	for i := len(w.workers) - 1; i >= 0; i-- {
		w.workers[i].Stop()
	}
	w.o.Logger.Info("worker stopped")
}

// Run serves until ctx is done, then stops.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}

// RegisterWorkflows registers Wakepoint's workflows under their public names.
func RegisterWorkflows(r sdkworker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(workflows.AsyncTask, workflow.RegisterOptions{Name: protocol.WorkflowAsyncTask})
	r.RegisterWorkflowWithOptions(workflows.AgentRun, workflow.RegisterOptions{Name: protocol.WorkflowAgentRun})
	r.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: protocol.WorkflowDelivery})
	r.RegisterWorkflowWithOptions(workflows.Sweep, workflow.RegisterOptions{Name: protocol.WorkflowSweep})
}

// named is an activity and its public name.
type named struct {
	name string
	f    any
}

// RegisterActivities registers Wakepoint's activities under their public names.
func RegisterActivities(r sdkworker.ActivityRegistry, a *activities.Activities) {
	for _, x := range append(submissions(a), []named{
		{protocol.ActivityProbe, a.Probe},
		{protocol.ActivityAsk, a.Ask},
		{protocol.ActivityCancel, a.Cancel},
		{protocol.ActivityLease, a.Lease},
		{protocol.ActivityStore, a.Store},
		{protocol.ActivityNotifyRun, a.NotifyRun},
		{protocol.ActivitySend, a.Send},
		{protocol.ActivityLogs, a.Logs},
		{protocol.ActivityCompensate, a.Compensate},
		{protocol.ActivityListJobs, a.ListJobs},
		{protocol.ActivityStartCalls, a.StartCalls},
		{protocol.ActivityCancelCalls, a.CancelCalls},
		{protocol.ActivityWatchCalls, a.WatchCalls},
		{protocol.ActivityInspectCalls, a.InspectCalls},
		{protocol.ActivityPrepareStep, a.PrepareStep},
		{protocol.ActivityPushStep, a.PushStep},
		{protocol.ActivityStoreContent, a.StoreContent},
		{protocol.ActivityNotifyParent, a.NotifyParent},
		{protocol.ActivityForgetContents, a.ForgetContents},
		{protocol.ActivitySweepBlobs, a.SweepBlobs},
		{protocol.ActivitySweepJobs, a.SweepJobs},
	}...) {
		r.RegisterActivityWithOptions(x.f, activity.RegisterOptions{Name: x.name})
	}
}

// RegisterSubmissions registers those that submit jobs, and no others, for the task
// queue of a tool with limits.
func RegisterSubmissions(r sdkworker.ActivityRegistry, a *activities.Activities) {
	for _, x := range submissions(a) {
		r.RegisterActivityWithOptions(x.f, activity.RegisterOptions{Name: x.name})
	}
}

func submissions(a *activities.Activities) []named {
	return []named{{protocol.ActivitySubmit, a.Submit}, {protocol.ActivityRun, a.Run}}
}
