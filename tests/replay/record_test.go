package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wakepoint/wakepoint/tests/harness"
)

const testdata = "testdata"

// TestRecord lives every life on the real engine, with the workflow cache off,
// and replays what came of it. With -record it writes the histories of the lives
// that have none yet, which TestReplay replays ever after: what older releases did
// must stay as they did it.
func TestRecord(t *testing.T) {
	t.Parallel()
	for _, l := range lives() {
		recorded, err := filepath.Glob(filepath.Join(testdata, l.name+"-[0-9]*.json"))
		require.NoError(t, err)
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			s := harness.NewScript()
			b := harness.NewBed(ctx, t, engine, tools(receiver(t)), s)
			b.StartWorker()
			id := "t-" + l.name
			l.live(b, s, id)
			d := b.UntilClosed(id)
			require.Equal(t, l.want, d.Task.State)
			workflows := []string{b.WorkflowID(id)}
			if l.also != nil {
				workflows = append(workflows, l.also(b, id)...)
			}
			n := 0
			for _, w := range workflows {
				runs, err := harness.Runs(ctx, b.Temporal, w)
				require.NoError(t, err)
				for _, events := range runs {
					n++
					h := &historypb.History{Events: events}
					require.False(t, sticky(h), "the cache is off, so no workflow task may rely on it")
					require.NoError(t, replay(h))
					if *record && len(recorded) == 0 {
						write(t, fmt.Sprintf("%s-%d.json", l.name, n), h)
					}
				}
			}
			if l.name == "continue-as-new" {
				require.Greater(t, n, 2, "it continued as new")
			}
		})
	}
}

// sticky tells whether a workflow task was sent to a worker because it had the
// workflow in its cache.
func sticky(h *historypb.History) bool {
	for _, e := range h.GetEvents() {
		if e.GetWorkflowTaskScheduledEventAttributes().GetTaskQueue().GetKind() == enumspb.TASK_QUEUE_KIND_STICKY {
			return true
		}
	}
	return false
}

func write(t *testing.T, name string, h *historypb.History) {
	t.Helper()
	out, err := protojson.MarshalOptions{Indent: " "}.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(testdata, name), append(out, '\n'), 0o644)) //nolint:gosec // for everybody
}
