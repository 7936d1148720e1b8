package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file below testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, d)
	}
}

// line is a command line, and what is scripted for it.
type line struct {
	line string
	with func(*fake)
}

// TestCommands runs one command line after the other and compares all that they
// wrote with a file for each group.
func TestCommands(t *testing.T) {
	t.Parallel()
	more := func(f *fake) {
		f.listing = starter.Listing{Cursor: "next", Tasks: []starter.Listed{
			{TaskID: "running", Tool: "resize", Title: "the images", Open: true, StartedAtMs: start},
			{TaskID: "unclear", Tool: "pay", Open: true, Manual: true, StartedAtMs: start},
			{TaskID: "done", Tool: "resize", State: domain.StateSucceeded, StartedAtMs: start - 7_200_000, ClosedAtMs: start - 7_100_000},
			{TaskID: "gone", Tool: "resize", StartedAtMs: start - 90_000_000, ClosedAtMs: start - 89_000_000},
		}}
	}
	for name, lines := range map[string][]line{
		"help":  {{line: ""}, {line: "help exit-codes"}, {line: "help connection"}, {line: "task submit --help"}, {line: "run --help"}, {line: "run start --help"}, {line: "run next --help"}, {line: "run commit --help"}, {line: "help nothing"}},
		"show":  {{line: "task show queued"}, {line: "task show running"}, {line: "task show asking"}, {line: "task show done --history"}, {line: "task show failed"}, {line: "task show full"}, {line: "task show shared --history"}, {line: "task show patient"}, {line: "task show unclear --history"}, {line: "task show undoing"}, {line: "task show throttled"}},
		"json":  {{line: "task show running --json"}, {line: "task show nothing --json"}, {line: "task watch done --json"}, {line: "--json task submit resize"}, {line: "task list --json", with: more}, {line: "task result done --json"}},
		"list":  {{line: "task list", with: more}, {line: "task list --tool resize --state running --run r --tool-call c --limit 7 --cursor x"}, {line: "task ls now"}},
		"watch": {{line: "task watch done"}, {line: "task watch failed"}, {line: "task watch nothing"}, {line: "task watch done done"}, {line: "task watch"}},
		"submit": {
			{line: "task submit resize"},
			{line: "task submit resize --key again"},
			{line: "task submit resize --id done --wait"},
			{line: "task submit resize --id failed --wait"},
			{line: "task submit resize --id failed --wait --json"},
			{line: "task submit"},
			{line: "task submit resize --no-cache --waiter ann"},
			{line: "task submit resize", with: func(f *fake) {
				f.submitted = starter.Submitted{TaskID: "cache_x_1", WorkflowID: "default/task/cache_x_1", State: domain.StateSucceeded, Existing: true, Cached: true}
			}},
			{line: "task submit resize --run run-8", with: func(f *fake) {
				f.submitted = starter.Submitted{TaskID: "cache_x_1", WorkflowID: "default/task/cache_x_1", State: domain.StateRunning, Existing: true, Cached: true, Attached: true, WaiterID: "run_x"}
			}},
			{line: "task submit resize --for 5s"},
		},
		"result": {{line: "task result done"}, {line: "task result done --offset 2 --length 6"}, {line: "task result done --info"}, {line: "task result failed"}, {line: "task result done --offset 99"}, {line: "task result done --offset -1"}, {line: "task result done --length -1"}},
		"act": {
			{line: "task cancel running --reason slow"},
			{line: "task cancel running", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonTerminalConflict, State: domain.StateSucceeded}
			}},
			{line: "task cancel running", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonCancelRequested}
			}},
			{line: "task cancel queued", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonCancelled, Changed: true, State: domain.StateCancelled}
			}},
			{line: "task retry failed --ttl 2d", with: func(f *fake) {
				f.retried = starter.Retried{TaskID: "failed", ExpiresAtMs: start + 172_800_000, Note: "the run may have consumed the failure"}
			}},
			{line: "task retry failed", with: func(f *fake) { f.retried = starter.Retried{TaskID: "failed", Existing: true} }},
			{line: "task retry failed --ttl soon"},
			{line: "task answer asking q1 --text yes", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonDuplicateAnswer, Duplicate: true, State: domain.StateRunning}
			}},
			{line: "task answer asking q1"},
			{line: "task answer asking q1 --text yes --answer 1"},
			{line: "task answer asking q1 --answer yes"},
			{line: "task attach running ops", with: func(f *fake) {
				f.attach = starter.Attached{Outcome: domain.Outcome{Reason: domain.ReasonAttached, Changed: true, State: domain.StateRunning}}
			}},
			{line: "task attach done ops", with: func(f *fake) {
				f.attach = starter.Attached{Task: &domain.Task{State: domain.StateSucceeded}}
			}},
			{line: "task attach shared --waiter ann", with: func(f *fake) {
				f.attach = starter.Attached{Outcome: domain.Outcome{Reason: domain.ReasonDuplicateWaiter, Duplicate: true, State: domain.StateRunning}}
			}},
			{line: "task detach shared ann", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonDetached, Changed: true, State: domain.StateRunning}
			}},
			{line: "task detach shared bob", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonUnknownWaiter, State: domain.StateRunning}
			}},
			{line: "task cancel shared --waiter ann", with: func(f *fake) {
				f.outcome = domain.Outcome{Reason: domain.ReasonDetached, Changed: true, State: domain.StateRunning}
			}},
			{line: "task heartbeat asking --attempt 2 --details {}"},
			{line: "task heartbeat asking", with: func(f *fake) { f.hb.CancelRequested = true }},
		},
		"deliver": {
			{line: "task deliver done"},
			{line: "task deliver done --key k", with: func(f *fake) {
				f.deliver = domain.Delivered{OK: true, Duplicate: true, Receipt: &domain.Receipt{TaskID: "done", ResultRef: "blob:x", ResultHash: "abc", IdempotencyKey: "k", DeliveredAtMs: start}}
			}},
			{line: "task deliver done --key k", with: func(f *fake) { f.deliver.Reason = domain.ReasonKeyReused }},
			{line: "task deliver running --key k", with: func(f *fake) { f.deliver.Reason = domain.ReasonNotSucceeded }},
			{line: "task delivery k"},
			{line: "task redeliver k"},
		},
		"manual":      manualLines(),
		"reconcile":   reconcileLines(),
		"orphans":     orphanLines(),
		"sweep":       sweepLines(),
		"run-start":   runStartLines(),
		"run-show":    {{line: "run show due"}, {line: "run show held"}, {line: "run show waiting --history"}, {line: "run show finished"}, {line: "run show broken"}, {line: "run show nothing"}, {line: "run show due --json"}},
		"run-watch":   {{line: "run watch finished"}, {line: "run watch finished --cursor 4"}, {line: "run watch broken"}, {line: "run watch nothing"}, {line: "run watch broken --json"}, {line: "run watch"}},
		"run-act":     runActLines(),
		"run-step":    runStepLines(),
		"run-recover": runRecoverLines(),
		"run-list":    runListLines(),
		"usage": {
			{line: "tsk"},
			{line: "task"},
			{line: "task shwo running"},
			{line: "task show"},
			{line: "task show a b"},
			{line: "task list --too x"},
			{line: "task list --limit many"},
			{line: "task submit resize --json --nothing"},
			{line: "tools a b"},
		},
		"logs": {
			{line: "task logs done --stream stderr --follow --limit 100", with: func(f *fake) {
				f.logs = []starter.LogChunk{
					{Attempt: 1, LogsResult: protocol.LogsResult{Data: []byte("one\n")}},
					{Attempt: 2, LogsResult: protocol.LogsResult{Data: []byte("two\n"), Skipped: 4096}},
				}
			}},
			{line: "task logs done --json", with: func(f *fake) {
				f.logs = []starter.LogChunk{{Attempt: 1, LogsResult: protocol.LogsResult{Data: []byte("one\n"), Next: 4, End: true}}}
			}},
			{line: "task logs done", with: func(f *fake) { f.err = &starter.Error{Code: starter.CodeNoLogs, Message: "no job"} }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for _, l := range lines {
				f := setup(t)
				if l.with != nil {
					l.with(f)
				}
				b.WriteString("$ wakepoint " + l.line + "\n" + run(t, f, "", strings.Fields(l.line)...).String() + "\n")
			}
			golden(t, name, b.String())
		})
	}
}
