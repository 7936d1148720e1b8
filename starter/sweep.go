package starter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// sweepRun bounds a sweep that was asked for, as that of a schedule is.
const sweepRun = 6 * time.Hour

// SweepRequest asks for a sweep now.
type SweepRequest struct {
	// Hosts are hosts whose jobs are swept too, beside those that are found by
	// themselves: by workers that poll, or else by what tasks say.
	Hosts []string
	// DryRun deletes nothing and says what would be deleted.
	DryRun bool
	// Wait is how long the sweeps may take; they go on when it is over. Default: 10m.
	Wait time.Duration
}

// Swept is what one sweep did: of the tenant's results, or of its jobs on a host.
type Swept struct {
	// Host is empty for the store of results.
	Host       string               `json:"host,omitempty"`
	WorkflowID string               `json:"workflowId"`
	Report     protocol.SweepReport `json:"report"`
	Error      *Error               `json:"error,omitempty"`

	in protocol.SweepInput
}

// Sweep deletes what has outlived its task, now, and waits for it: the results of the
// tenant, and what hosts keep of its jobs. A sweep that was asked for twice at once is
// one. Errors: invalid-request; none about one of the sweeps.
func (c *Client) Sweep(ctx context.Context, r SweepRequest) ([]Swept, error) {
	for _, h := range r.Hosts {
		if err := domain.CheckID("host", h); err != nil {
			return nil, invalid(err)
		}
	}
	const patience = 10 * time.Minute
	if r.Wait == 0 {
		r.Wait = patience
	}
	if r.Wait < 0 {
		return nil, invalidf("wait", "must be > 0, it is %s", r.Wait)
	}
	all := []Swept{c.sweepOf("", r)}
	for _, h := range c.sweptHosts(ctx, r.Hosts) {
		all = append(all, c.sweepOf(h, r))
	}
	wait, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	each(wait, len(all), all, func(s *Swept) { s.Error = asError(c.sweep(ctx, wait, s, r.Wait)) })
	return all, context.Cause(ctx)
}

func (c *Client) sweepOf(host string, r SweepRequest) Swept {
	id, queue := protocol.SweepScheduleID(c.o.Tenant, host)+"-now", c.o.TaskQueue
	if r.DryRun {
		id = protocol.SweepScheduleID(c.o.Tenant, host) + "-look"
	}
	if host != "" {
		queue = protocol.HostTaskQueue(c.o.TaskQueue, host)
	}
	return Swept{Host: host, WorkflowID: id, in: protocol.SweepInput{Tenant: c.o.Tenant, Host: host, TaskQueue: queue, DryRun: r.DryRun}}
}

// sweptHosts are the hosts that can have kept something of jobs.
func (c *Client) sweptHosts(ctx context.Context, named []string) []string {
	queues := c.polledHosts(ctx)
	if len(queues) == 0 {
		for _, t := range c.o.Config.Tools {
			if t.Executor == config.ExecutorExec {
				queues = append(queues, c.handleQueues(ctx, t.Name)...)
			}
		}
	}
	hosts := slices.Clone(named)
	for _, q := range queues {
		if host, ok := strings.CutPrefix(q, protocol.HostTaskQueue(c.o.TaskQueue, "")); ok && host != "" {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// sweep starts one, or joins the one that runs, and waits for its report.
func (c *Client) sweep(ctx, wait context.Context, s *Swept, patience time.Duration) error {
	what := "sweep the results"
	if s.Host != "" {
		what = "sweep the jobs of host " + s.Host
	}
	run, err := c.engine.ExecuteWorkflow(wait, client.StartWorkflowOptions{
		ID: s.WorkflowID, TaskQueue: c.o.TaskQueue, WorkflowRunTimeout: sweepRun, StaticSummary: what + " of tenant " + c.o.Tenant,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, protocol.WorkflowSweep, s.in)
	if err == nil {
		err = run.Get(wait, &s.Report)
	}
	var (
		late   *temporal.TimeoutError
		engine serviceerror.ServiceError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &late) && late.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return fail(CodeNoWorker, "start a worker on it", "no worker of host %s took the sweep up", s.Host).because(err)
	case over(ctx) == nil && over(wait) != nil:
		return fail(CodeWaitTimeout, "it goes on: look at workflow "+s.WorkflowID+" in the Temporal UI; does a worker run?",
			"%s: it has not ended within %s", what, config.FormatDuration(patience)).because(err)
	case over(ctx) == nil && !errors.As(err, &engine):
		return fail(CodeInternal, "look at workflow "+s.WorkflowID+" in the Temporal UI", "%s: %s", what, innermost(err)).because(err)
	}
	return engineError(ctx, what, err)
}

// innermost is what began a chain of errors, without what the engine wraps around it.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
