package cli_test

import (
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func stands(state domain.State, phase domain.Phase, version int64) protocol.Standing {
	return protocol.Standing{State: state, Phase: phase, Version: version, Attempt: 1}
}

func reconcileLines() []line {
	running := stands(domain.StateRunning, domain.PhaseRunning, 2)
	same := starter.ReconciledTask{TaskID: "a", Tool: "train", Reconciled: &protocol.Reconciled{
		Before: running, After: running, Outside: protocol.OutsideRunning, Note: "40 %",
	}}
	some := func(f *fake) {
		f.reconciled = []starter.ReconciledTask{
			same,
			{TaskID: "b", Tool: "train", Reconciled: &protocol.Reconciled{
				Before: running, After: stands(domain.StateSucceeded, domain.PhaseSucceeded, 3), Outside: protocol.OutsideEnded, Note: protocol.OutsideEnded, Did: domain.ReasonSucceeded,
			}},
			{TaskID: "c", Tool: "pay", Reconciled: &protocol.Reconciled{Before: running, After: running, Outside: protocol.OutsideNoAnswer, Note: "connection refused"}},
			{TaskID: "d", Tool: "pay", Error: &starter.Error{Code: starter.CodeNoWorker, Message: "no worker answered for task d within 1m0s", Hint: "start a worker"}},
			{TaskID: "e", Error: &starter.Error{Code: starter.CodeTerminated, Message: "the workflow of task e was terminated in Temporal and left no record"}},
		}
	}
	return []line{
		{line: "reconcile --all", with: some},
		{line: "reconcile --tool train --json", with: some},
		{line: "reconcile a", with: func(f *fake) { f.reconciled = []starter.ReconciledTask{same} }},
		{line: "reconcile --run r"},
		{line: "reconcile --run r --json"},
		{line: "reconcile"},
		{line: "reconcile a --all"},
		{line: "reconcile --all --tool train"},
		{line: "reconcile --all --cancel"},
		{line: "reconcile --help"},
	}
}

func orphanLines() []line {
	some := func(cancelled bool) func(*fake) {
		return func(f *fake) {
			f.orphaned = starter.Orphaned{Looked: 12, CannotList: []string{"pay"}, Orphans: []starter.Orphan{
				{Tool: "train", TaskID: "a", SubmissionKey: "default/a/1", Handle: protocol.Handle{ID: "job-1"}, State: "running", StartedAtMs: start, Why: starter.OrphanEnded, Cancelled: cancelled},
				{Tool: "train", TaskID: "b", SubmissionKey: "default/b/2", Handle: protocol.Handle{ID: "job-2"}, State: "unknown", Why: starter.OrphanUnknown},
			}}
		}
	}
	return []line{
		{line: "reconcile --orphans"},
		{line: "reconcile --orphans --tool train", with: some(false)},
		{line: "reconcile --orphans --cancel --reason cleanup", with: func(f *fake) {
			some(true)(f)
			f.orphaned.Orphans[1].Error = &starter.Error{Code: starter.CodeNoWorker, Message: "no worker asked the job to stop on queue wakepoint"}
		}},
		{line: "reconcile --orphans --host h --json", with: func(f *fake) {
			f.orphaned = starter.Orphaned{Orphans: []starter.Orphan{}, Unlisted: []starter.Unlisted{{
				Tool: "train", TaskQueue: "wakepoint-host-h", Error: &starter.Error{Code: starter.CodeNoWorker, Message: "no worker listed the jobs of train on queue wakepoint-host-h", Hint: "start a worker that serves the queue"},
			}}}
		}},
		{line: "reconcile --orphans", with: func(f *fake) {
			f.orphaned = starter.Orphaned{Orphans: []starter.Orphan{}, Unlisted: []starter.Unlisted{{
				Tool: "train", Error: &starter.Error{Code: starter.CodeUnavailable, Message: "the hosts that run jobs of train are not known", Hint: "name the hosts: --host"},
			}}}
		}},
		{line: "reconcile --orphans a"},
	}
}
