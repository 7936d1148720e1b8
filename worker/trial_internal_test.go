package worker

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
)

// The bug: after a submission without a clear answer the folder of the job was removed,
// under a job that may have been started.
func TestTrialKeepsTheFolderOfAJobThatMayRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		kept bool
	}{
		"ambiguous":   {&tool.AmbiguousError{Op: "submit", SubmissionKey: "k", Cause: errors.New("reset")}, true},
		"not started": {&tool.NotStartedError{Failure: tool.Failure{Code: "NO"}}, false},
	} {
		ex := tooltest.New()
		ex.SetPromises(tool.Promises{Observe: true})
		ex.Fail(tooltest.Submit, tooltest.AnyKey, c.err)
		trial := &Trial{
			o: Options{Config: &config.Config{Tenant: "acme"}}, ex: ex, dir: t.TempDir(),
			tool: config.Tool{Name: "x", Policy: domain.Policy{Effects: domain.EffectsUnsafe}},
		}
		if _, err := trial.Run(t.Context(), []byte(`{}`), time.Minute, func(Step) {}); (err != nil) != c.kept {
			t.Errorf("%s: %v", name, err)
		}
		if err := trial.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(trial.dir); (err == nil) != c.kept {
			t.Errorf("%s: the folder: %v", name, err)
		}
	}
}
