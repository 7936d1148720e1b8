package workflows

import (
	"sync"

	"github.com/wakepoint/wakepoint/domain/run"
)

// faults are wrappers of [run.Apply] by the id of the run that shall have them.
var faults sync.Map

func init() {
	faulty = func(r run.Run, e run.Event) (run.Transition, error) {
		if f, ok := faults.Load(r.ID); ok {
			return f.(func(run.Run, run.Event) (run.Transition, error))(r, e)
		}
		return run.Apply(r, e)
	}
}

// InjectFault puts f in the place of [run.Apply] for one run.
func InjectFault(runID string, f func(run.Run, run.Event) (run.Transition, error)) {
	faults.Store(runID, f)
}
