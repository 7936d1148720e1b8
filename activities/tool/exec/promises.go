package exec

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/wakepoint/wakepoint/activities/tool"
)

var (
	_ tool.Promiser = (*Executor)(nil)
	_ tool.Lister   = (*Executor)(nil)
)

// Promises says what holds, see the package's doc. Find is a hint: a run whose Submit died on the
// way is not found, and its supervisor may still take charge of it, unless another Submit calls it
// off first.
func (e *Executor) Promises() tool.Promises {
	return tool.Promises{
		SubmitOnce: tool.ScopeHost, Find: tool.FindHint, Cancel: tool.CancelForced, Observe: true, List: true, Logs: true, Survives: true,
		Remembers: "until its files are removed, at the end of the task's lifetime",
	}
}

// listPage is how many keys are looked at for a page.
const listPage = 100

// List gives the newest run of every key of this tool on this host, in the order of the keys'
// hashes; the cursor is the hash of the last one.
func (e *Executor) List(ctx context.Context, cursor string) (tool.Listing, error) {
	entries, err := os.ReadDir(e.root) // in the order of their names
	if err != nil {
		return tool.Listing{}, fmt.Errorf("list: %w", err)
	}
	from, found := slices.BinarySearchFunc(entries, cursor, func(entry os.DirEntry, cursor string) int { return strings.Compare(entry.Name(), cursor) })
	if found {
		from++
	}
	var page tool.Listing
	for i, entry := range entries[from:] {
		if i == listPage {
			page.Next = entries[from+i-1].Name()
			break
		}
		if err := ctx.Err(); err != nil {
			return tool.Listing{}, fmt.Errorf("list: %w", err)
		}
		listed, ok, err := e.listed(entry.Name())
		if err != nil {
			return tool.Listing{}, fmt.Errorf("list: %w", err)
		}
		if ok {
			page.Jobs = append(page.Jobs, listed)
		}
	}
	return page, nil
}

// listed is a key in a list; false when it holds nothing of this tool.
func (e *Executor) listed(hash string) (tool.Listed, bool, error) {
	j := e.job(hash, 0)
	if _, _, err := parseHandleID(handleID(hash, 1)); err != nil {
		return tool.Listed{}, false, nil // no key's folder
	}
	var err error
	if j.run, err = latestRun(j.keyDir); err != nil || j.run == 0 {
		return tool.Listed{}, false, err
	}
	v, err := e.look(j)
	if err != nil || v.request.Tool != e.cfg.Name || v.phase <= phasePending || v.calledOff() {
		return tool.Listed{}, false, err
	}
	h, err := e.handle(j, v.request.SubmissionKey)
	return tool.Listed{Handle: h, SubmissionKey: v.request.SubmissionKey, State: e.listedState(j, v), StartedAtMs: v.request.CreatedAtMs}, err == nil, err
}

// listedState is how a run stands, without doing anything about it.
func (e *Executor) listedState(j job, v view) tool.State {
	switch {
	case v.phase == phaseRunning:
		return tool.StateRunning
	case v.phase == phaseLost:
		return tool.StateUnknown // only Observe makes sure that nothing of it runs
	case e.didItsWork(j, v.status):
		return tool.StateSucceeded
	case v.status.EndedBy == endedByCancel:
		return tool.StateCancelled
	}
	return tool.StateFailed
}
