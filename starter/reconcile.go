package starter

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const (
	// reconcileWait is how long the outside of one task may take to answer. The
	// activity that asks it has 15 s and is tried again.
	reconcileWait = 60 * time.Second
	// atATime is how many tasks are asked at once: each holds a slot of a worker
	// while its outside answers.
	atATime = 8
	// reconcilePage is how many tasks a page of the engine's list has.
	reconcilePage = 500
)

// Reconcile asks the outside of an open task at once how the work stands and takes
// what it says. It is safe to repeat: a task that the outside agrees with stays as
// it is. A task that has ended has nothing to ask about. Errors: invalid-request,
// unknown-task, terminated, no-worker, unavailable.
func (c *Client) Reconcile(ctx context.Context, taskID string, r protocol.Reconcile) (protocol.Reconciled, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return protocol.Reconciled{}, invalid(err)
	}
	if err := checkPerson(r.By, ""); err != nil {
		return protocol.Reconciled{}, err
	}
	op := "reconcile task " + taskID
	m := message{workflowID: c.workflowID(taskID), name: protocol.UpdateReconcile, updateID: once(), arg: r, wait: reconcileWait}
	for lap := 0; ; lap++ {
		var out protocol.Reconciled
		err := c.update(ctx, m, &out)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, errNoAnswer):
			return out, fail(CodeNoWorker, hintWorker, "no worker answered for task %s within %s", taskID, reconcileWait)
		case !errors.Is(err, errClosed):
			return out, engineError(ctx, op, err)
		}
		s, err := c.readAfter(ctx, taskID, lap)
		if err != nil {
			return out, err
		}
		if s.closed() {
			stands := protocol.Standing{State: s.desc.Task.State, Phase: s.desc.Phase, Version: s.desc.Task.Version, Attempt: s.desc.Task.Attempts}
			return protocol.Reconciled{Before: stands, After: stands, Outside: protocol.OutsideNotAsked, Note: "the task " + Standing(stands.State)}, nil
		}
	}
}

// ReconcileRequest names the tasks to reconcile: some, or every open one of the
// tenant that fits.
type ReconcileRequest struct {
	// Tasks are these and no others.
	Tasks []string
	// Run and Tool narrow every open task down.
	Run  string
	Tool string
	By   string
}

// checkNamed refuses the name of a tool that neither is declared nor has any task: an
// empty answer to a slip of the pen would read as if all were well.
func (c *Client) checkNamed(tool string, found int) error {
	if _, declared := c.o.Config.Tool(tool); tool == "" || declared || found > 0 {
		return nil
	}
	return c.unknownTool(tool)
}

// ReconciledTask is what became of one task.
type ReconciledTask struct {
	TaskID string `json:"taskId"`
	Tool   string `json:"tool,omitempty"`
	// Reconciled is nil when there is an Error.
	*protocol.Reconciled
	// Error says why the task could not be reconciled.
	Error *Error `json:"error,omitempty"`
}

// Settled tells whether the outside has been heard, or there was nothing to hear.
// What is not settled is worth another try.
func (r ReconciledTask) Settled() bool {
	return r.Reconciled != nil && r.Outside != protocol.OutsideNoAnswer
}

// ReconcileAll reconciles many tasks, eight at a time, and gives one line for each,
// in the order of the request or by id. What could not be reconciled has its error
// on its line. Open tasks are found in the engine's list, which lags behind by
// moments. Errors: invalid-request, unknown-tool, not-set-up, unavailable; none about
// one task.
func (c *Client) ReconcileAll(ctx context.Context, r ReconcileRequest) ([]ReconciledTask, error) {
	if err := checkPerson(r.By, ""); err != nil {
		return nil, err
	}
	var tasks []ReconciledTask
	for i, id := range r.Tasks {
		if err := domain.CheckID("taskId", id); err != nil {
			return nil, invalid(err)
		}
		if !slices.Contains(r.Tasks[:i], id) {
			tasks = append(tasks, ReconciledTask{TaskID: id})
		}
	}
	if len(r.Tasks) == 0 {
		open, err := c.openTasks(ctx, r.Tool, r.Run)
		if err != nil {
			return nil, err
		}
		if err := c.checkNamed(r.Tool, len(open)); err != nil {
			return nil, err
		}
		tasks = open
	}
	each(ctx, atATime, tasks, func(t *ReconciledTask) {
		out, err := c.Reconcile(ctx, t.TaskID, protocol.Reconcile{By: r.By})
		if t.Error = asError(err); err == nil {
			t.Reconciled = &out
		}
	})
	return tasks, context.Cause(ctx)
}

// each does something with every element, so many at a time, until ctx ends.
func each[T any](ctx context.Context, width int, all []T, do func(*T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range all {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			do(&all[i])
		})
	}
	wg.Wait()
}

// asError gives any error as one of this package, for a line of a list.
func asError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	}
	return fail(CodeInternal, "", "%s", err.Error()).because(err)
}

// openTasks lists every open task that fits, each once, by id.
func (c *Client) openTasks(ctx context.Context, tool, run string) ([]ReconciledTask, error) {
	query, err := c.listQuery(ListRequest{Tool: tool, Run: run, State: domain.StateRunning})
	if err != nil {
		return nil, invalid(err)
	}
	var all []ReconciledTask
	err = c.pages(ctx, query, func(t Listed) {
		all = append(all, ReconciledTask{TaskID: t.TaskID, Tool: t.Tool})
	})
	slices.SortFunc(all, func(a, b ReconciledTask) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return slices.CompactFunc(all, func(a, b ReconciledTask) bool { return a.TaskID == b.TaskID }), err
}

// pages goes through a whole list of the engine.
func (c *Client) pages(ctx context.Context, query string, do func(Listed)) error {
	var token []byte
	for {
		resp, err := c.engine.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: reconcilePage, NextPageToken: token, Query: query})
		if err != nil {
			return engineError(ctx, "list tasks", err)
		}
		for _, e := range resp.GetExecutions() {
			if t, ok := c.listed(e); ok {
				do(t)
			}
		}
		if token = resp.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}
