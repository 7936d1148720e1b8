package activity

import (
	"context"
	"fmt"
	"strconv"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

// pageSize is how many activities a page looks at.
const pageSize = 200

// List lists the jobs of the tool from the server's visibility, which lags behind by a moment. The
// cursor counts: what begins or ends between two pages may be missed or come twice. See
// [tool.Lister].
func (e *Executor) List(ctx context.Context, cursor string) (tool.Listing, error) {
	skip := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			return tool.Listing{}, fmt.Errorf("list: cursor %q must be one of this list", cursor)
		}
		skip = n
	}
	query := fmt.Sprintf("ActivityType = %s AND TaskQueue = %s", outside.Quote(e.cfg.Tool.Type), outside.Quote(e.cfg.Tool.TaskQueue))
	found, err := e.cfg.Client.ListActivities(ctx, client.ListActivitiesOptions{Query: query})
	if err != nil {
		return tool.Listing{}, fmt.Errorf("list: %w", err)
	}
	var page tool.Listing
	n := 0
	for a, err := range found.Results {
		if err != nil {
			return tool.Listing{}, fmt.Errorf("list: %w", err)
		}
		if n++; n <= skip {
			continue
		}
		if n > skip+pageSize {
			page.Next = strconv.Itoa(n - 1)
			break
		}
		job, ok, err := e.listed(ctx, a)
		if err != nil {
			return tool.Listing{}, fmt.Errorf("list: %w", err)
		}
		if ok {
			page.Jobs = append(page.Jobs, job)
		}
	}
	return page, nil
}

// listed is an activity of the list, if it is one of ours. What was noted with it is not in the
// list, so it is asked for.
func (e *Executor) listed(ctx context.Context, a *client.ActivityExecutionInfo) (tool.Listed, bool, error) {
	if _, ours := outside.Key(a.ActivityID); !ours {
		return tool.Listed{}, false, nil
	}
	desc, err := e.describe(ctx, a.ActivityID, a.ActivityRunID, client.DescribeActivityOptions{})
	if outside.Gone(err) {
		return tool.Listed{}, false, nil // forgotten meanwhile
	}
	if err != nil {
		return tool.Listed{}, false, err
	}
	rec, err := recordOf(desc)
	if err != nil || rec.Tool != e.cfg.Name || outside.ID(rec.SubmissionKey) != a.ActivityID {
		return tool.Listed{}, false, err
	}
	h, err := outside.Handle(e.cfg.Kind, rec, a.ActivityRunID)
	return tool.Listed{
		Handle: h, SubmissionKey: rec.SubmissionKey, State: listState(desc.Status), StartedAtMs: desc.ScheduleTime.UnixMilli(),
	}, err == nil, err
}

// listState is how a job stands, as far as its status tells.
func listState(s enumspb.ActivityExecutionStatus) tool.State {
	switch s {
	case enumspb.ACTIVITY_EXECUTION_STATUS_COMPLETED:
		return tool.StateSucceeded
	case enumspb.ACTIVITY_EXECUTION_STATUS_FAILED, enumspb.ACTIVITY_EXECUTION_STATUS_TERMINATED:
		return tool.StateFailed
	case enumspb.ACTIVITY_EXECUTION_STATUS_CANCELED:
		return tool.StateCancelled
	case enumspb.ACTIVITY_EXECUTION_STATUS_TIMED_OUT:
		return tool.StateLost
	default:
		return tool.StateRunning
	}
}
