package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// What doctor asks the engine.

// cluster is an engine as doctor sees it; a Temporal client is one.
type cluster interface {
	starter.Services
	Close()
}

// reach connects to an engine, or says where it tried.
func reach(ctx context.Context, e endpoint) (cluster, error) {
	c, err := e.dial(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return c, nil
}

const (
	// clockOff and clockFarOff are differences between the clocks from which times are
	// misleading, and from which deadlines are.
	clockOff    = 2 * time.Second
	clockFarOff = time.Minute
	// pollTimeout is how long a poll means to wait. It is ended much sooner.
	pollTimeout = 30 * time.Second
	// pollerFresh is how old the last poll of a live worker can be: it polls for a
	// minute at a time.
	pollerFresh = 2 * time.Minute
)

// engineChecks are those that need an engine.
var engineChecks = []string{checkNamespace, checkRetention, checkAttributes, checkStandalone, checkClock, checkQueues}

func (x *examination) engine(ctx context.Context) {
	if slices.ContainsFunc(x.findings, func(f finding) bool { return f.Check == checkEngine }) {
		x.skip("no engine was found", engineChecks...)
		return
	}
	e, err := x.a.endpoint(x.dataDir)
	if err != nil {
		f := failureOf(ctx, err)
		x.problem(checkEngine, f.hint, "%s", f.message)
		x.skip("no engine was found", engineChecks...)
		return
	}
	c, err := x.a.deps.reach(ctx, e)
	if err != nil {
		f := failureOf(ctx, err)
		x.problem(checkEngine, f.hint, "%s%s", f.message, because(f.cause))
		x.skip("no engine answers", engineChecks...)
		return
	}
	defer c.Close()
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	info, err := c.WorkflowService().GetSystemInfo(look, &workflowservice.GetSystemInfoRequest{})
	cancel()
	if err != nil {
		x.problem(checkEngine, "check the credentials and that a Temporal server listens there; see wakepoint help connection",
			"what answers at %s (from %s) is of no use: %v", e.options.HostPort, e.from, err)
		x.skip("the engine does not say what it is", engineChecks...)
		return
	}
	x.ok(checkEngine, "%s (from %s), server version %s", e.options.HostPort, e.from, cmp.Or(info.GetServerVersion(), "unknown"))
	if x.namespace(ctx, c, e.options.Namespace) {
		x.attributes(ctx, c, e.options.Namespace)
		behind := x.clock(ctx, c, e.options.Namespace)
		x.queues(ctx, c, e.options.Namespace, behind)
	}
}

// because is a cause behind a colon. That no answer came in time is said already.
func because(err error) string {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		return ""
	}
	text := err.Error()
	// What gRPC puts around it says nothing more.
	if _, inner, ok := strings.Cut(text, "Error while dialing: "); ok {
		text = strings.TrimSuffix(inner, `"`)
	}
	return ": " + text
}

// namespace tells whether it can be used.
func (x *examination) namespace(ctx context.Context, c cluster, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	var missing *serviceerror.NamespaceNotFound
	rest := engineChecks[1:]
	switch {
	case errors.As(err, &missing):
		x.problem(checkNamespace, "make it: wakepoint setup --namespace "+name+"; or name another with --namespace", "there is no namespace %s", name)
		x.skip("there is no namespace", rest...)
		return false
	case err != nil:
		x.problem(checkNamespace, "check the credentials; see wakepoint help connection", "namespace %s cannot be looked at: %v", name, err)
		x.skip("the namespace cannot be looked at", rest...)
		return false
	}
	caps := d.GetNamespaceInfo().GetCapabilities()
	if caps != nil && !caps.GetSyncUpdate() {
		x.problem(checkNamespace, "enable frontend.enableUpdateWorkflowExecution in the engine's dynamic configuration, or use a newer engine",
			"namespace %s takes no updates of workflows", name)
	} else {
		x.ok(checkNamespace, "%s is there", name)
	}
	x.retention(name, d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	x.standalone(caps)
	return true
}

// retention compares how long the engine keeps what has ended with how long results
// are to be kept.
func (x *examination) retention(namespace string, kept time.Duration) {
	if x.cfg == nil {
		x.ok(checkRetention, "what has ended is kept for %s", config.FormatDuration(kept))
		return
	}
	longest, who := x.cfg.ResultTTL, "resultTTL"
	for _, t := range x.cfg.Tools {
		if t.ResultTTL > longest {
			longest, who = t.ResultTTL, "resultTTL of tool "+t.Name
		}
	}
	if longest > kept {
		x.warn(checkRetention, "lower it, or keep more: temporal operator namespace update -n "+namespace+" --retention "+hours(longest),
			"the engine forgets what has ended after %s, %s is %s: results outlive their tasks", config.FormatDuration(kept), who, config.FormatDuration(longest))
		return
	}
	x.ok(checkRetention, "what has ended is kept for %s, results for at most %s", config.FormatDuration(kept), config.FormatDuration(longest))
}

// hours rounds up to what the tool's flag can say.
func hours(d time.Duration) string { return fmt.Sprintf("%dh", (d+time.Hour-1)/time.Hour) }

// standalone activities carry the tools of the executors activity and go.
func (x *examination) standalone(caps *namespace.NamespaceInfo_Capabilities) {
	var need []string
	if x.cfg != nil {
		for _, t := range x.cfg.Tools {
			if t.Activity != nil || t.Go != nil {
				need = append(need, t.Name)
			}
		}
	}
	switch {
	case caps.GetStandaloneActivities():
		x.ok(checkStandalone, "activities can run by themselves")
	case len(need) > 0:
		x.problem(checkStandalone, "use an engine of version 1.31 or later that has them enabled, or the executor workflow",
			"the engine does not run activities by themselves, which %s needs", strings.Join(need, ", "))
	default:
		x.ok(checkStandalone, "activities cannot run by themselves, and no tool here needs that")
	}
}

func (x *examination) attributes(ctx context.Context, c cluster, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resp, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		x.warn(checkAttributes, "see whether they are there: temporal operator search-attribute list -n "+namespace, "the search attributes cannot be listed: %v", err)
		return
	}
	var missing, wrong []string
	for _, name := range protocol.SearchAttributes() {
		switch kind, ok := resp.GetCustomAttributes()[name]; {
		case !ok:
			missing = append(missing, name)
		case kind != enums.INDEXED_VALUE_TYPE_KEYWORD:
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		x.problem(checkAttributes, "use a namespace of our own: wakepoint setup --namespace NAME", "not of type Keyword: %s", strings.Join(wrong, ", "))
	}
	if len(missing) > 0 {
		x.problem(checkAttributes, "make them: wakepoint setup --namespace "+namespace, "missing: %s", strings.Join(missing, ", "))
	}
	if len(wrong)+len(missing) == 0 {
		x.ok(checkAttributes, "all %d are there", len(protocol.SearchAttributes()))
	}
}

// clock compares the engine's clock with this host's, and gives how far the engine's
// is ahead, 0 if that is not known.
func (x *examination) clock(ctx context.Context, c cluster, namespace string) time.Duration {
	ahead, within, err := skew(ctx, c, namespace, x.a.deps.now)
	if err != nil {
		x.warn(checkClock, "compare them yourself, with date on both hosts", "the engine's clock cannot be compared with this host's: %v", err)
		return 0
	}
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	text := fmt.Sprintf("the engine's clock is %v %s this host's, give or take %v", ahead.Abs().Round(time.Millisecond), word, within.Round(time.Millisecond))
	const do = "synchronise the clocks of both hosts (NTP)"
	switch off := ahead.Abs() - within; {
	case off > clockFarOff:
		x.problem(checkClock, do, "%s: deadlines are misjudged", text)
	case off > clockOff:
		x.warn(checkClock, do, "%s: times that are shown mislead", text)
	default:
		x.ok(checkClock, "%s", text)
	}
	return ahead
}

// skew measures how far the engine's clock is ahead, some times, and gives the best: the
// first one waits for the engine to load the queue.
func skew(ctx context.Context, c cluster, namespace string, now func() time.Time) (ahead, within time.Duration, err error) {
	const times = 3
	queue := &taskqueue.TaskQueue{Name: "wakepoint-doctor-" + rand.Text(), Kind: enums.TASK_QUEUE_KIND_NORMAL}
	for i := range times {
		a, w, err := skewOnce(ctx, c, namespace, queue, now)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 || w < within {
			ahead, within = a, w
		}
	}
	return ahead, within, nil
}

// skewOnce measures once. No call answers with the time, but
// the engine notes when a queue was polled last: so a queue of nobody's is polled, and
// looked at until it shows that. The poll reached the engine after it was sent and
// before it was seen, which bounds the error: by half that time.
func skewOnce(ctx context.Context, c cluster, namespace string, queue *taskqueue.TaskQueue, now func() time.Time) (ahead, within time.Duration, err error) {
	// The engine warns of polls that mean to wait for less than twenty seconds.
	polling, stop := context.WithTimeout(ctx, pollTimeout)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	me, sent := rand.Text(), now()
	var pollErr error
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		_, pollErr = c.WorkflowService().PollActivityTaskQueue(polling, &workflowservice.PollActivityTaskQueueRequest{Namespace: namespace, TaskQueue: queue, Identity: me})
	}()
	defer func() {
		stop()
		<-polled
	}()
	for {
		d, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: namespace, TaskQueue: queue, TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY,
		})
		seen := now()
		if err != nil {
			return 0, 0, err
		}
		for _, p := range d.GetPollers() {
			if p.GetIdentity() == me && p.GetLastAccessTime() != nil {
				within = seen.Sub(sent) / 2
				return p.GetLastAccessTime().AsTime().Sub(sent.Add(within)), within, nil
			}
		}
		select {
		case <-polled:
			return 0, 0, cmp.Or(pollErr, errors.New("the engine did not hold the poll"))
		case <-ctx.Done():
			return 0, 0, errors.New("the engine did not show the poll in time")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// served is a task queue that somebody has to serve.
type served struct {
	name     string
	workflow bool
	// why says who needs it, do what serves it.
	why, do string
	// rate is what its workers should ask the engine for, 0 for anything.
	rate float64
	// optional says that work goes on without it.
	optional bool
}

const doWorker = "start a worker: wakepoint worker (or wakepoint dev)"

// servedQueues lists the queues of a configuration.
func servedQueues(cfg *config.Config, host string) []served {
	all := []served{
		{name: cfg.TaskQueue, workflow: true, why: "tasks", do: doWorker},
		{name: cfg.TaskQueue, why: "the work of tasks", do: doWorker},
	}
	add := func(s served) {
		i := slices.IndexFunc(all, func(o served) bool { return o.name == s.name && o.workflow == s.workflow })
		if i < 0 {
			all = append(all, s)
		} else if !strings.Contains(all[i].why, s.why) && all[i].name != cfg.TaskQueue {
			all[i].why += ", " + s.why
		}
	}
	for _, t := range cfg.Tools {
		who := "tool " + t.Name
		if t.Exec != nil && host != "" {
			add(served{
				name: protocol.HostTaskQueue(cfg.TaskQueue, host), why: "jobs of this host", optional: true,
				do: "if tools of the executor exec are to run here: wakepoint worker, with the same --host as before",
			})
		}
		if t.TaskQueue != cfg.TaskQueue {
			add(served{name: t.TaskQueue, why: who, do: "start a worker on a machine that is for it: wakepoint worker"})
		}
		if q := t.SubmitQueue(); q != "" {
			add(served{name: q, why: "limits of " + who, do: doWorker + " with this configuration", rate: t.Rate.PerSecond()})
		}
		switch {
		case t.Activity != nil:
			add(served{name: t.Activity.TaskQueue, why: who, do: "start the worker that has the activity " + t.Activity.Type})
		case t.Workflow != nil:
			add(served{name: t.Workflow.TaskQueue, workflow: true, why: who, do: "start the worker that has the workflow " + t.Workflow.Type})
		}
	}
	return all
}

func (x *examination) queues(ctx context.Context, c cluster, namespace string, ahead time.Duration) {
	if x.cfg == nil {
		x.skip("the configuration cannot be read", checkQueues)
		return
	}
	for _, q := range servedQueues(x.cfg, x.host) {
		x.queue(ctx, c, namespace, q, ahead)
	}
}

func (x *examination) queue(ctx context.Context, c cluster, namespace string, q served, ahead time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	kind, kindName := enums.TASK_QUEUE_TYPE_ACTIVITY, "activities"
	if q.workflow {
		kind, kindName = enums.TASK_QUEUE_TYPE_WORKFLOW, "workflows"
	}
	d, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueue.TaskQueue{Name: q.name, Kind: enums.TASK_QUEUE_KIND_NORMAL}, TaskQueueType: kind, ReportStats: true,
	})
	if err != nil {
		x.warn(checkQueues, "see for yourself: temporal task-queue describe -n "+namespace+" -t "+q.name, "task queue %s cannot be looked at: %v", q.name, err)
		return
	}
	backlog := ""
	if n := d.GetStats().GetApproximateBacklogCount(); n > 0 {
		backlog = fmt.Sprintf(", about %d wait", n)
	}
	at := x.a.deps.now().Add(ahead)
	var workers []string
	var last time.Time
	other := 0.0
	for _, p := range d.GetPollers() {
		polled := p.GetLastAccessTime().AsTime()
		if polled.After(last) {
			last = polled
		}
		if at.Sub(polled) > pollerFresh {
			continue
		}
		if !slices.Contains(workers, p.GetIdentity()) {
			workers = append(workers, p.GetIdentity())
		}
		if q.rate > 0 && p.GetRatePerSecond() != q.rate {
			other = p.GetRatePerSecond()
		}
	}
	report := x.problem
	if q.optional {
		report = x.warn
	}
	since := ""
	if !last.IsZero() {
		since = " since " + term.Relative(at, last)
	}
	switch {
	case len(workers) == 0:
		report(checkQueues, q.do, "no worker takes %s from task queue %s (%s)%s%s", kindName, q.name, q.why, since, backlog)
	case other > 0:
		x.warn(checkQueues, "restart the workers with this configuration: the last one decides",
			"a worker of task queue %s (%s) asks for %v a second, declared are %v", q.name, q.why, other, q.rate)
	default:
		slices.Sort(workers)
		x.ok(checkQueues, "%s on %s (%s): %s, %s%s", kindName, q.name, q.why, term.Count(len(workers), "worker"), strings.Join(workers, ", "), backlog)
	}
}
