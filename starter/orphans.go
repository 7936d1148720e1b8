package starter

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const (
	// listTry bounds one page of a list of jobs, listWait includes the wait for a
	// worker.
	listTry  = 30 * time.Second
	listWait = 35 * time.Second
	// mostPages bounds a list whose other side never comes to an end.
	mostPages = 10_000
)

// OrphansRequest asks for the outside jobs that nobody waits for.
type OrphansRequest struct {
	// Tool is the only one whose jobs are listed. Default: every tool with an
	// executor.
	Tool string
	// Hosts are hosts whose jobs are listed too, beside those that are found by
	// themselves: by workers that poll, and by what open tasks say.
	Hosts []string
	// Cancel asks each orphan to stop.
	Cancel bool
	// Reason is for the other side.
	Reason string
}

// Why a job is an orphan.
const (
	// OrphanUnknown: no task of that id is there; it never was, or its retention is
	// over.
	OrphanUnknown = "unknown-task"
	// OrphanEnded: the task has ended.
	OrphanEnded = "task-ended"
	// OrphanTerminated: the task's workflow was terminated or timed out in Temporal.
	OrphanTerminated = "task-terminated"
	// OrphanMovedOn: the task works under another submission key by now.
	OrphanMovedOn = "moved-on"
)

// Orphan is an outside job that runs, or may run, and that nobody waits for.
type Orphan struct {
	Tool          string          `json:"tool"`
	TaskID        string          `json:"taskId"`
	SubmissionKey string          `json:"submissionKey"`
	Handle        protocol.Handle `json:"handle"`
	TaskQueue     string          `json:"taskQueue"`
	State         string          `json:"state"`
	StartedAtMs   int64           `json:"startedAtMs,omitempty"`
	// Why is one of the Orphan constants.
	Why string `json:"why"`
	// Cancelled says that it was asked to stop.
	Cancelled bool `json:"cancelled,omitempty"`
	// Error says why it could not be asked.
	Error *Error `json:"error,omitempty"`
}

// Unlisted is what could not be looked at: the jobs of a tool on a queue, or one job
// whose task gave no answer.
type Unlisted struct {
	Tool      string `json:"tool"`
	TaskQueue string `json:"taskQueue,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Error     *Error `json:"error"`
}

// Orphaned is what a sweep for orphans found.
type Orphaned struct {
	Orphans []Orphan `json:"orphans"`
	// Looked counts the running jobs of the tenant that were looked at.
	Looked int `json:"looked"`
	// CannotList are tools whose executor has no list.
	CannotList []string `json:"cannotList,omitempty"`
	// Unlisted is what is not known. Nothing there was taken for an orphan.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
}

// Orphans lists the jobs that the outside knows, of executors that can list, and
// gives those that nobody waits for: their task is unknown, has ended, or works
// under another submission key. Jobs of other tenants and jobs that are over are
// left out. The task is asked itself, after the list was read, so that a job that
// was submitted meanwhile is never an orphan.
//
// Two installations that share an outside service and a tenant name would take each
// other's jobs for orphans, and a tool that is just being tried out (tools test) has no
// task either; look before you cancel. Errors: invalid-request,
// unknown-tool; none about one tool or job.
func (c *Client) Orphans(ctx context.Context, r OrphansRequest) (Orphaned, error) {
	tools, err := c.listable(r.Tool)
	if err != nil {
		return Orphaned{}, err
	}
	for _, h := range r.Hosts {
		if err := domain.CheckID("host", h); err != nil {
			return Orphaned{}, invalid(err)
		}
	}
	out := Orphaned{Orphans: []Orphan{}}
	for _, t := range tools {
		if err := c.orphansOf(ctx, t, r, &out); err != nil {
			return out, err
		}
	}
	if r.Cancel {
		each(ctx, atATime, out.Orphans, func(o *Orphan) { c.stopOrphan(ctx, r, o) })
	}
	return out, context.Cause(ctx)
}

// listable are the tools whose jobs somebody else may know.
func (c *Client) listable(name string) ([]config.Tool, error) {
	if name != "" {
		t, ok := c.o.Config.Tool(name)
		if !ok {
			return nil, c.unknownTool(name)
		}
		return []config.Tool{t}, nil
	}
	return slices.DeleteFunc(c.Tools(), func(t config.Tool) bool { return t.Policy.External }), nil
}

func (c *Client) orphansOf(ctx context.Context, t config.Tool, r OrphansRequest, out *Orphaned) error {
	if t.Policy.External {
		out.CannotList = append(out.CannotList, t.Name)
		return nil
	}
	seen := make(map[string]bool)
	lists := false
	var jobs []Orphan
	queues, sure := c.jobQueues(ctx, t, r.Hosts)
	for _, queue := range queues {
		listed, supported, err := c.listJobs(ctx, t.Name, queue)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			out.Unlisted = append(out.Unlisted, Unlisted{Tool: t.Name, TaskQueue: queue, Error: asError(err)})
		}
		lists = lists || supported || err != nil
		for _, j := range listed {
			// The same job may be on the lists of several queues. Of two hosts jobs of one
			// key have the same id and are two.
			same := strings.Join([]string{j.SubmissionKey, j.Handle.ID, j.Handle.TaskQueue}, "\x00")
			if o, ok := c.candidate(t.Name, queue, j); ok && !seen[same] {
				seen[same] = true
				jobs = append(jobs, o)
			}
		}
	}
	if !sure {
		out.Unlisted = append(out.Unlisted, Unlisted{Tool: t.Name, Error: fail(CodeUnavailable, "name the hosts: --host", "the hosts that run jobs of %s are not known", t.Name)})
	} else if !lists {
		out.CannotList = append(out.CannotList, t.Name)
	}
	out.Looked += len(jobs)
	unclear := make([]*Error, len(jobs))
	each(ctx, atATime, indexes(len(jobs)), func(i *int) { jobs[*i].Why, unclear[*i] = c.whyOrphan(ctx, jobs[*i]) })
	for i, j := range jobs {
		switch {
		case unclear[i] != nil:
			out.Unlisted = append(out.Unlisted, Unlisted{Tool: t.Name, TaskQueue: j.TaskQueue, TaskID: j.TaskID, Error: unclear[i]})
		case j.Why != "":
			out.Orphans = append(out.Orphans, j)
		}
	}
	return context.Cause(ctx)
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// jobQueues are the task queues where the jobs of a tool can be listed: its own,
// or for jobs that are bound to a host those of the hosts. False says that none is
// known.
func (c *Client) jobQueues(ctx context.Context, t config.Tool, hosts []string) (queues []string, sure bool) {
	if t.Executor != config.ExecutorExec {
		return []string{t.TaskQueue}, true
	}
	for _, h := range hosts {
		queues = append(queues, protocol.HostTaskQueue(c.o.TaskQueue, h))
	}
	queues = append(queues, c.polledHosts(ctx)...)
	queues = append(queues, c.handleQueues(ctx, t.Name)...)
	slices.Sort(queues)
	queues = slices.Compact(queues)
	return queues, len(queues) > 0
}

// polledHosts are the queues of hosts whose workers the engine has heard of.
func (c *Client) polledHosts(ctx context.Context) []string {
	services, ok := c.engine.(interface {
		WorkflowService() workflowservice.WorkflowServiceClient
	})
	if !ok || c.o.Namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTry)
	defer cancel()
	prefix := protocol.HostTaskQueue(c.o.TaskQueue, "")
	var queues []string
	var token []byte
	for {
		resp, err := services.WorkflowService().ListWorkers(ctx, &workflowservice.ListWorkersRequest{Namespace: c.o.Namespace, PageSize: MaxPageSize, NextPageToken: token})
		if err != nil {
			// An engine that keeps no list of workers is no fault: the tasks know too.
			c.o.Logger.Debug("the engine does not list workers", "error", err)
			return queues
		}
		for _, w := range resp.GetWorkers() {
			if strings.HasPrefix(w.GetTaskQueue(), prefix) {
				queues = append(queues, w.GetTaskQueue())
			}
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			return queues
		}
	}
}

// handleQueues are the queues that the handles of the newest tasks of a tool name.
func (c *Client) handleQueues(ctx context.Context, tool string) []string {
	page, err := c.List(ctx, ListRequest{Tool: tool, PageSize: DefaultPageSize})
	if err != nil {
		c.o.Logger.Debug("the tasks of a tool could not be listed", "tool", tool, "error", err)
		return nil
	}
	at := make([]string, len(page.Tasks))
	each(ctx, atATime, indexes(len(page.Tasks)), func(i *int) {
		f := found{taskID: page.Tasks[*i].TaskID}
		if c.tells(ctx, &f) && f.s.desc.Handle != nil {
			at[*i] = f.s.desc.Handle.TaskQueue
		}
	})
	return slices.DeleteFunc(at, func(queue string) bool { return queue == "" })
}

// listJobs reads the whole list of one queue.
func (c *Client) listJobs(ctx context.Context, tool, queue string) (jobs []protocol.ListedJob, supported bool, err error) {
	req := protocol.ListJobsRequest{Tool: tool}
	for range mostPages {
		var page protocol.ListJobsResult
		err := c.alone(ctx, lonely{
			activity: protocol.ActivityListJobs, id: "jobs", queue: queue, try: listTry, wait: listWait, summary: "jobs of " + tool, arg: req,
		}, &page)
		if err != nil {
			return jobs, false, c.listFailed(ctx, tool, queue, err)
		}
		jobs = append(jobs, page.Jobs...)
		if req.Cursor = page.Next; req.Cursor == "" {
			return jobs, page.Supported, nil
		}
	}
	return jobs, true, fail(CodeInternal, "look at the service: its list never ends", "the list of jobs of %s has more than %d pages", tool, mostPages)
}

func (c *Client) listFailed(ctx context.Context, tool, queue string, err error) error {
	var app *temporal.ApplicationError
	switch {
	case errors.Is(err, errNoAnswer):
		return fail(CodeNoWorker, "start a worker that serves the queue", "no worker listed the jobs of %s on queue %s", tool, queue).because(err)
	case errors.As(err, &app):
		return fail(CodeInternal, "read the worker's log", "the jobs of %s cannot be listed: %s", tool, app.Message()).because(err)
	}
	return engineError(ctx, "list the jobs of "+tool, err)
}

// jobEnds are the states of jobs that are over, in the words of executors.
var jobEnds = []string{"succeeded", "failed", "cancelled", "lost"}

// candidate reads a listed job: one of this tenant that is not over.
func (c *Client) candidate(tool, queue string, j protocol.ListedJob) (Orphan, bool) {
	tenant, rest, ok := strings.Cut(j.SubmissionKey, "/")
	taskID, number, numbered := strings.Cut(rest, "/")
	_, err := strconv.Atoi(number)
	if !ok || !numbered || err != nil || tenant != c.o.Tenant || domain.CheckID("taskId", taskID) != nil || slices.Contains(jobEnds, j.State) {
		return Orphan{}, false
	}
	if j.Handle.TaskQueue != "" {
		queue = j.Handle.TaskQueue
	}
	return Orphan{
		Tool: tool, TaskID: taskID, SubmissionKey: j.SubmissionKey, Handle: j.Handle, TaskQueue: queue, State: j.State, StartedAtMs: j.StartedAtMs,
	}, true
}

// whyOrphan asks the task of a job; empty is that it waits for this very job.
func (c *Client) whyOrphan(ctx context.Context, o Orphan) (string, *Error) {
	s, err := c.read(ctx, o.TaskID)
	switch {
	case errors.Is(err, ErrUnknownTask):
		return OrphanUnknown, nil
	case errors.Is(err, ErrTerminated):
		return OrphanTerminated, nil
	case err != nil:
		return "", asError(err)
	case s.ended():
		return OrphanEnded, nil
	case c.o.Tenant+"/"+s.desc.Task.SubmissionKey() != o.SubmissionKey:
		return OrphanMovedOn, nil
	}
	return "", nil
}

// stopOrphan asks one job to stop, unless its task took it up again meanwhile.
func (c *Client) stopOrphan(ctx context.Context, r OrphansRequest, o *Orphan) {
	switch why, err := c.whyOrphan(ctx, *o); {
	case err != nil:
		o.Error = err
		return
	case why == "":
		o.Error = fail(CodeConflict, "", "task %s waits for the job by now", o.TaskID)
		return
	}
	err := c.alone(ctx, lonely{
		activity: protocol.ActivityCancel, id: "stop", queue: o.TaskQueue, try: listTry, wait: listWait, summary: "stop " + o.SubmissionKey,
		arg: protocol.CancelRequest{
			Job:    protocol.Job{Tenant: c.o.Tenant, TaskID: o.TaskID, Tool: o.Tool, SubmissionKey: o.SubmissionKey, Handle: &o.Handle},
			Reason: r.Reason,
		},
	}, nil)
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		o.Cancelled = true
	case errors.Is(err, errNoAnswer):
		o.Error = fail(CodeNoWorker, "start a worker that serves the queue", "no worker asked the job to stop on queue %s", o.TaskQueue).because(err)
	case errors.As(err, &app):
		o.Error = fail(CodeInternal, "read the worker's log", "the job could not be asked to stop: %s", app.Message()).because(err)
	default:
		o.Error = asError(engineError(ctx, "stop the job "+o.SubmissionKey, err))
	}
}
