package starter_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/starter"
)

// flapping is an engine that refuses its first queries as those of a closed workflow,
// which is open again when it is looked at.
type flapping struct {
	starter.Engine
	left atomic.Int64
}

func (f *flapping) QueryWorkflowWithOptions(ctx context.Context, r *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	if f.left.Add(-1) >= 0 {
		return &client.QueryWorkflowWithOptionsResponse{QueryRejected: &querypb.QueryRejected{Status: enums.WORKFLOW_EXECUTION_STATUS_FAILED}}, nil
	}
	return f.Engine.QueryWorkflowWithOptions(ctx, r)
}

// The bug: a reader of what closed and opened under its hands too often was told
// something internal, "the task was retried meanwhile", also of a run, and asked the
// engine again without a pause.
func TestReadersFollowWhatIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused int64
		read    bool
	}{"some": {5, true}, "too many": {6, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &flapping{}
				w := setupRuns(t, func(o *starter.Options) {
					f.Engine = o.Temporal
					o.Temporal = f
				})
				task, run := w.submit(t, starter.Submission{TaskID: "t"}).TaskID, w.startRun(t, "r")
				for what, read := range map[string]func() error{
					"task t": func() error { _, err := w.Describe(t.Context(), task); return err },
					"run r":  func() error { _, err := w.DescribeRun(t.Context(), run); return err },
				} {
					f.left.Store(c.refused)
					err := read()
					if c.read {
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
						continue
					}
					if e := as(t, err, starter.ErrUnavailable); !strings.Contains(e.Message, what+" closes and opens too fast") || e.Hint != "repeat the call" {
						t.Errorf("%s: %q, hint %q", what, e.Message, e.Hint)
					}
				}
			})
		})
	}
}
