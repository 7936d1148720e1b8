package cli_test

import (
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func manualLines() []line {
	two := func(f *fake) {
		f.manual = starter.ManualListing{Cursor: "next", Tasks: []starter.ManualTask{
			{
				TaskID: "unclear", Tool: "pay", Title: "invoice 4711", SinceMs: start + 3000, Why: "the answer of the bank was lost", ExpiresAtMs: start + 3_600_000,
				Tried: []starter.Tried{
					{AtMs: start + 1000, Attempt: 1, Text: "started by host-1/pid 7"},
					{AtMs: start + 2000, Attempt: 1, Text: "nothing was heard of the work; the outside was asked"},
				},
				Compensation: "undo_1", CompensationFailed: "REFUSED: too late", SubmissionKey: "default/unclear/1",
				Handle:   &protocol.Handle{Executor: "http", ID: "job-7\x1b[2J", TaskQueue: "bank"},
				Commands: starter.ResolveCommands(domain.Task{ID: "unclear"}),
			},
			{TaskID: "silent", Tool: "pay", Error: &starter.Error{Code: starter.CodeNoWorker, Message: "no worker answers for task silent", Hint: "start a worker"}},
		}}
	}
	resolved := func(f *fake) {
		f.outcome = domain.Outcome{Reason: domain.ReasonResolved, Changed: true, State: domain.StateSucceeded, Version: 4}
	}
	return []line{
		{line: "manual"},
		{line: "manual --tool pay --limit 2", with: two},
		{line: "manual --json", with: two},
		{line: "task resolve unclear --succeeded --result {\"invoice\":4711}", with: resolved},
		{line: "task resolve unclear --repeat", with: func(f *fake) {
			f.outcome = domain.Outcome{Reason: domain.ReasonResolved, Changed: true, State: domain.StateQueued, Version: 4}
		}},
		{line: "task resolve running --failed --error nothing", with: func(f *fake) {
			f.outcome = domain.Outcome{Reason: domain.ReasonNotManual, State: domain.StateRunning, Version: 2}
		}},
		{line: "task resolve done --repeat --json", with: func(f *fake) {
			f.outcome = domain.Outcome{Reason: domain.ReasonTerminalConflict, State: domain.StateSucceeded, Version: 3}
		}},
		{line: "task resolve unclear"},
		{line: "task resolve unclear --failed --repeat"},
		{line: "task resolve unclear --succeeded"},
		{line: "task resolve unclear --failed --result 1"},
		{line: "task resolve unclear --repeat --error x"},
		{line: "task resolve --help"},
	}
}
