package activities

import (
	"context"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// ListJobs gives a page of the jobs that the outside knows of a tool, so that those
// nobody waits for can be found. Clients run it as an activity of its own. It only
// reads, so it is safe to repeat.
func (a *Activities) ListJobs(ctx context.Context, req protocol.ListJobsRequest) (protocol.ListJobsResult, error) {
	ex, err := a.executor(req.Tool)
	if err != nil {
		return protocol.ListJobsResult{}, err
	}
	l, ok := ex.(tool.Lister)
	if !ok || !tool.PromisesOf(ex).List {
		return protocol.ListJobsResult{}, nil
	}
	page, err := l.List(ctx, req.Cursor)
	if err != nil {
		return protocol.ListJobsResult{}, err
	}
	out := protocol.ListJobsResult{Supported: true, Next: page.Next}
	for _, j := range page.Jobs {
		out.Jobs = append(out.Jobs, protocol.ListedJob{
			Handle: handleTo(j.Handle), SubmissionKey: j.SubmissionKey, State: string(j.State), StartedAtMs: j.StartedAtMs,
		})
	}
	return out, nil
}
