package worker

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Worker serves the task queues of one host: the main one, those that tools
// name for themselves, and the host's own.
type Worker struct {
	o       Options
	workers []sdkworker.Worker
	queues  []string
}

// New makes a worker. Every tool is checked here, so that a program that is not
// there stops the start and not a task in the middle.
func New(o Options) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	executors, err := o.executors()
	if err != nil {
		return nil, err
	}
	targets, err := o.targets()
	if err != nil {
		return nil, err
	}
	acts, err := activities.New(activities.Options{
		Executors: executors, Blobs: o.Store, Signals: o.Temporal, Targets: targets, HTTP: o.HTTP, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	w := &Worker{o: o, queues: o.queues()}
	for i, q := range w.queues {
		sw := sdkworker.New(o.Temporal, q, o.sdkOptions(i == 0))
		if i == 0 {
			RegisterWorkflows(sw)
		}
		RegisterActivities(sw, acts)
		w.workers = append(w.workers, sw)
	}
	return w, nil
}

// sdkOptions are the same for every queue, but for the workflows: only the
// main queue has any.
func (o Options) sdkOptions(main bool) sdkworker.Options {
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
	}
}

// queues lists the task queues, the main one first.
func (o Options) queues() []string {
	qs := []string{o.TaskQueue, protocol.HostTaskQueue(o.TaskQueue, o.Host)}
	for _, t := range o.Config.Tools {
		if t.TaskQueue != "" && !slices.Contains(qs, t.TaskQueue) {
			qs = append(qs, t.TaskQueue)
		}
	}
	return qs
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
	w.o.Logger.Info("worker started", "taskQueues", w.queues, "tools", len(w.o.Config.Tools))
	return nil
}

// Stop takes nothing new and waits for what runs, at most the stop timeout.
func (w *Worker) Stop() {
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
	r.RegisterWorkflowWithOptions(workflows.Delivery, workflow.RegisterOptions{Name: protocol.WorkflowDelivery})
}

// RegisterActivities registers Wakepoint's activities under their public names.
func RegisterActivities(r sdkworker.ActivityRegistry, a *activities.Activities) {
	for _, x := range []struct {
		name string
		f    any
	}{
		{protocol.ActivitySubmit, a.Submit},
		{protocol.ActivityProbe, a.Probe},
		{protocol.ActivityAsk, a.Ask},
		{protocol.ActivityCancel, a.Cancel},
		{protocol.ActivityLease, a.Lease},
		{protocol.ActivityStore, a.Store},
		{protocol.ActivityNotifyRun, a.NotifyRun},
		{protocol.ActivitySend, a.Send},
		{protocol.ActivityLogs, a.Logs},
	} {
		r.RegisterActivityWithOptions(x.f, activity.RegisterOptions{Name: x.name})
	}
}
