package cli_test

import (
	"context"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Sweep gives what the test scripted.
func (f *fake) Sweep(_ context.Context, r starter.SweepRequest) ([]starter.Swept, error) {
	return f.swept, f.called("sweep", r)
}

func sweepLines() []line {
	results := starter.Swept{WorkflowID: "default/sweep-now", Report: protocol.SweepReport{Looked: 120, Deleted: 7, Gone: 2, Outlived: 5, Bytes: 3 << 20, EndedAtMs: start}}
	clean := func(f *fake) {
		f.swept = []starter.Swept{results, {Host: "h1", WorkflowID: "default/sweep/h1-now", Report: protocol.SweepReport{Looked: 4, Deleted: 1, Outlived: 1, EndedAtMs: start}}}
	}
	trouble := func(f *fake) {
		broken := results
		broken.Report.Failed, broken.Report.LastError = 1, "delete blob:default/task/a/h: permission denied"
		f.swept = []starter.Swept{broken, {Host: "h2", WorkflowID: "default/sweep/h2-now", Error: &starter.Error{
			Code: starter.CodeNoWorker, Message: "no worker of host h2 took the sweep up", Hint: "start a worker on it",
		}}}
	}
	return []line{
		{line: "sweep", with: clean},
		{line: "sweep --json", with: clean},
		{line: "sweep --dry-run --host h1 --for 1m", with: clean},
		{line: "sweep --host h2", with: trouble},
		{line: "sweep --host h2 --json", with: trouble},
		{line: "sweep a"},
		{line: "sweep --for 0"},
		{line: "sweep --help"},
	}
}
