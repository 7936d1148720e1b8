package tooltest

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// pageSize is how many jobs are on a page of the fake's list, few, so that tests meet several pages.
const pageSize = 2

// Promises is what a fake holds to, unless [Executor.SetPromises] says otherwise.
func Promises() tool.Promises {
	return tool.Promises{
		SubmitOnce: tool.ScopeAlways, Find: tool.FindSure, Cancel: tool.CancelAsked, Observe: true, List: true, Logs: true, Survives: true,
		Remembers: "until the test is over",
	}
}

// SetPromises changes what the fake says of itself, not what it does.
func (e *Executor) SetPromises(p tool.Promises) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.promises = p
}

// Promises implements [tool.Promiser].
func (e *Executor) Promises() tool.Promises {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.promises
}

// Say changes what the looks at the newest run of a key give from now on, whatever its script was.
// It says nothing of a job that is not there.
func (e *Executor) Say(key string, looks ...tool.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if runs := e.jobs[key]; len(runs) > 0 && len(looks) > 0 {
		runs[len(runs)-1].rest = slices.Clone(looks)
	}
}

// Forget makes the outside forget the runs of a key: looks learn nothing, Find does not find it, and
// the next Submit starts it anew. [Executor.Started] still counts them.
func (e *Executor) Forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.jobs[key] {
		r.forgotten, r.rest = true, []tool.Observation{Unknown()}
	}
}

// Active says how many runs of a key are under way.
func (e *Executor) Active(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, r := range e.jobs[key] {
		if r.rest[0].State == tool.StateRunning {
			n++
		}
	}
	return n
}

// List implements [tool.Lister]: the newest run of every key, by the order of the keys.
func (e *Executor) List(_ context.Context, cursor string) (tool.Listing, error) {
	var page tool.Listing
	err := e.call(Call{Verb: List}, func() error {
		var keys []string
		for key, runs := range e.jobs {
			if !runs[len(runs)-1].forgotten {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		from := 0
		if cursor != "" {
			var err error
			if from, err = strconv.Atoi(cursor); err != nil || from < 0 {
				return errors.New("list: the cursor is none")
			}
		}
		keys = keys[min(from, len(keys)):]
		if len(keys) > pageSize {
			keys, page.Next = keys[:pageSize], strconv.Itoa(from+pageSize)
		}
		for _, key := range keys {
			n := len(e.jobs[key])
			page.Jobs = append(page.Jobs, tool.Listed{Handle: handle(key, n), SubmissionKey: key, State: e.jobs[key][n-1].rest[0].State})
		}
		return nil
	})
	return page, err
}
