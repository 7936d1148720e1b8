package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	domainrun "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// comesTo scripts what a request to a run comes to.
func comesTo(reason domainrun.Reason, state domainrun.State, changed, duplicate bool) func(*fake) {
	return func(f *fake) {
		f.runOutcome = domainrun.Outcome{Reason: reason, State: state, Changed: changed, Duplicate: duplicate, Version: 7}
	}
}

func runStartLines() []line {
	return []line{
		{line: "run start assistant"},
		{line: "run start assistant --key again"},
		{line: "run start assistant --id finished --wait"},
		{line: "run start assistant --id broken --wait"},
		{line: "run start assistant --id broken --wait --json"},
		{line: "run start assistant --json"},
		{line: "run start assistant", with: func(f *fake) {
			f.runStarted = starter.RunStarted{RunID: "finished", WorkflowID: "default/run/finished", State: domainrun.StateSucceeded, Existing: true}
		}},
		{line: "run start"},
		{line: "run start assistant --for 5s"},
		{line: "run start assistant -f run.yaml"},
		{line: "run start -f run.yaml --input 1"},
		{line: "run start assistant --max-steps 0"},
		{line: "run start assistant --input nonsense"},
		{line: "run start a b"},
		{line: "runtimes"},
		{line: "runtimes --json"},
	}
}

func runActLines() []line {
	return []line{
		{line: "run input waiting --text hello", with: comesTo(domainrun.ReasonInput, domainrun.StateRunning, true, false)},
		{line: "run input waiting --text hello --id i", with: comesTo(domainrun.ReasonDuplicateInput, domainrun.StateRunning, false, true)},
		{line: "run input waiting --text hello --id i", with: comesTo(domainrun.ReasonInputConflict, domainrun.StateRunning, false, false)},
		{line: "run input waiting --input 1", with: func(f *fake) { f.runOutcome = domainrun.Outcome{Reason: starter.ReasonTaken} }},
		{line: "run input waiting"},
		{line: "run answer waiting q --text Rome", with: comesTo(domainrun.ReasonAnswered, domainrun.StateWaitingTool, true, false)},
		{line: "run answer waiting q --text Rome --json", with: comesTo(domainrun.ReasonAnswerConflict, domainrun.StateWaitingTool, false, false)},
		{line: "run answer waiting nope --answer 1", with: comesTo(domainrun.ReasonUnknownCall, domainrun.StateWaitingTool, false, false)},
		{line: "run answer waiting t1 --answer 1", with: comesTo(domainrun.ReasonNotAsked, domainrun.StateWaitingTool, false, false)},
		{line: "run approve waiting d", with: comesTo(domainrun.ReasonApproved, domainrun.StateWaitingTool, true, false)},
		{line: "run approve waiting d --deny", with: comesTo(domainrun.ReasonDenied, domainrun.StateWaitingTool, true, false)},
		{line: "run approve waiting d --edit {}", with: comesTo(domainrun.ReasonEdited, domainrun.StateWaitingTool, true, false)},
		{line: "run approve waiting d --deny --edit {}"},
		{line: "run cancel waiting", with: comesTo(domainrun.ReasonCancelRequested, domainrun.StateRunning, true, false)},
		{line: "run cancel waiting", with: func(f *fake) { f.runOutcome = domainrun.Outcome{Reason: domainrun.ReasonCancelRequested} }},
		{line: "run cancel waiting", with: comesTo(domainrun.ReasonRunEnding, domainrun.StateRunning, false, false)},
		{line: "run cancel finished", with: comesTo(domainrun.ReasonRunClosed, domainrun.StateSucceeded, false, false)},
		{line: "run cancel waiting --call t1", with: comesTo(domainrun.ReasonCancelRequested, domainrun.StateWaitingTool, true, false)},
		{line: "run cancel waiting --step 1"},
		{line: "run pause waiting", with: comesTo(domainrun.ReasonPaused, domainrun.StatePaused, true, false)},
		{line: "run pause waiting", with: comesTo(domainrun.ReasonUnchanged, domainrun.StatePaused, false, true)},
		{line: "run pause waiting --off --json", with: comesTo(domainrun.ReasonUnpaused, domainrun.StateWaitingTool, true, false)},
		{line: "run retry broken --ttl 2d --max-steps 60", with: func(f *fake) {
			f.runRetried = starter.RunRetried{RunID: "broken", ExpiresAtMs: start + 172_800_000, Note: "run above may have consumed the failure"}
		}},
		{line: "run retry broken", with: func(f *fake) { f.runRetried = starter.RunRetried{RunID: "broken", Existing: true} }},
		{line: "run retry broken --ttl soon"},
		{line: "run result finished"},
		{line: "run result finished --json"},
		{line: "run result broken"},
	}
}

// refuses scripts an error of the client.
func refuses(code starter.Code, message, hint string) func(*fake) {
	return func(f *fake) { f.err = &starter.Error{Code: code, Message: message, Hint: hint} }
}

func runStepLines() []line {
	return []line{
		{line: "run next held"},
		{line: "run next held --wait 1s --json", with: refuses(starter.CodeNoStep, "run held has no step to be taken now; it waits for tools", "ask again, and wait for it")},
		{line: "run next held", with: refuses(starter.CodeStepHeld, "run held has a step that another runtime holds; it is running", "ask again")},
		{line: "run next held", with: refuses(starter.CodeEnded, "run held has ended; it has succeeded", "stop working on it")},
		{line: "run next held --lease 0s"},
		{line: `run commit held --step 1 --token t1 --response {"final":1}`},
		{line: `run commit held --step 1 --token t1 --response {"final":1} --json`},
		{line: `run commit held --step 1 --token t1 --response {"final":1}`, with: comesTo(domainrun.ReasonDuplicateCommit, domainrun.StateSucceeded, false, true)},
		{line: `run commit held --step 1 --token t1 --response {"error":{"message":"m"}}`, with: comesTo(domainrun.ReasonStepRetry, domainrun.StateRunning, true, false)},
		{line: `run commit held --step 1 --token t1 --response {"error":{"message":"m"}}`, with: comesTo(domainrun.ReasonStepGivenUp, domainrun.StateFailed, true, false)},
		{line: `run commit held --step 1 --token t1 --response {"toolCalls":[]}`, with: comesTo(domainrun.ReasonLimit, domainrun.StateFailed, true, false)},
		{line: `run commit held --step 1 --token t0 --response {"final":1} --json`, with: refuses(starter.CodeStaleToken, "run held has given the step to a newer attempt", "drop the work")},
		{line: `run commit held --step 1 --response {"final":1}`},
		{line: `run commit held --step 1 --token t1`},
		{line: `run commit held --step 1 --token t1 --response {"finl":1}`},
		{line: `run commit held --step 1 --token t1 --response [1]`},
		{line: `run commit held --step 1 --token t1 --response {"final":1}{}`},
		{line: `run commit held --step 1 --token t1 --response {"toolCalls":5}`},
		{line: `run commit held --request {} --response {"final":1}`},
		{line: `run commit held --request {} --step 1 --response {"final":1}`},
		{line: `run commit held --request - --response -`},
		{line: "run heartbeat held --token t1 --delta 1", with: comesTo(domainrun.ReasonRenewed, domainrun.StateRunning, true, false)},
		{line: "run heartbeat held", with: comesTo(domainrun.ReasonRenewed, domainrun.StateRunning, true, false)},
	}
}

func runRecoverLines() []line {
	drift := protocol.Recovered{
		State: domainrun.StateWaitingTool, Changed: 1,
		Calls: []protocol.CallDrift{
			{Key: domainrun.Key{Step: 1, ID: "a"}, Tool: "resize", TaskID: "call_a", Knew: domainrun.CallOpen, Found: protocol.FoundTerminated, Did: "result taken", Note: "TASK_TERMINATED: it was terminated"},
			{Key: domainrun.Key{Step: 1, ID: "b"}, Tool: "resize", TaskID: "call_b", Knew: domainrun.CallOpen, Found: "RUNNING", Outside: protocol.OutsideRunning, Note: "40 %"},
			{Key: domainrun.Key{Step: 1, ID: "c"}, Tool: domainrun.ToolRun, SubRunID: "sub_1", Knew: domainrun.CallOpen, Found: "running"},
		},
	}
	lost := protocol.Recovered{State: domainrun.StateWaitingTool, Step: "a runtime to take step 2", Calls: []protocol.CallDrift{
		{Key: domainrun.Key{Step: 1, ID: "d"}, Tool: "pay", TaskID: "call_d", Knew: domainrun.CallOpen, Found: protocol.FoundNoAnswer, Note: "no worker answered"},
	}}
	some := func(f *fake) {
		f.recovered = []recovery{
			{runID: "r2", err: &starter.Error{Code: starter.CodeNoWorker, Message: "no worker answered for run r2 within 3m0s", Hint: "start a worker"}},
			{runID: "r1", out: drift},
		}
	}
	return []line{
		{line: "run recover r1", with: func(f *fake) { f.recovered = []recovery{{out: drift}} }},
		{line: "run recover r1 --dry-run --json", with: func(f *fake) { f.recovered = []recovery{{out: drift}} }},
		{line: "run recover r3", with: func(f *fake) { f.recovered = []recovery{{out: lost}} }},
		{line: "run recover finished"},
		{line: "run recover --all", with: some},
		{line: "run recover --all --json", with: some},
		{line: "run recover --all"},
		{line: "run recover"},
		{line: "run recover r1 --all"},
	}
}

func runListLines() []line {
	some := func(f *fake) {
		f.runListing = starter.RunListing{Cursor: "next", Runs: []starter.ListedRun{
			{RunID: "r1", Runtime: "assistant", Title: "book a trip", State: domainrun.StateWaitingTool, Open: true, StartedAtMs: start},
			{RunID: "r2", Open: true, StartedAtMs: start},
			{RunID: "r3", Runtime: "assistant", State: domainrun.StateFailed, StartedAtMs: start - 7_200_000, ClosedAtMs: start - 7_100_000},
			{RunID: "r4", Runtime: "assistant", State: domainrun.StateRunning, StartedAtMs: start - 90_000_000, ClosedAtMs: start - 89_000_000},
		}}
	}
	return []line{
		{line: "run list", with: some},
		{line: "run list --json", with: some},
		{line: "run ls --state waiting-tool --runtime assistant --limit 7 --cursor x"},
		{line: "run list now"},
	}
}

// TestRunRequests checks what a command line asks the client for.
func TestRunRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "step.json"), `{"runId":"held","step":3,"attempt":1,"stepToken":"t3","checkpoint":{"step":9}}`)
	write(t, filepath.Join(dir, "wakepoint.yaml"), "tools:\n  vet: {exec: {argv: [\"true\"]}}\n")
	write(t, filepath.Join(dir, "run.yaml"), "title: nightly\nttl: 2h\nlabels: {a: \"1\", b: \"2\"}\nlimits: {maxCalls: 9, maxSteps: 8}\ncalls:\n  one: {tool: vet}\n  two: {tool: vet, input: {$from: one}}\n")
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"start, everything": {
			args: []string{"run", "start", "assistant", "--input", `{"a": 1}`, "--id", "x", "--title", "t", "--ttl", "2d", "-l", "a=1", "--max-steps", "5", "--max-tokens", "9", "--max-cost-usd", "0.5", "--runtime-version", "v2"},
			want: `start {"runId":"x","runtime":"assistant","title":"t","input":{"a":1},"limits":{"maxSteps":5,"maxTokens":9,"maxCostUsd":0.5},"labels":{"a":"1"},"runtimeVersion":"v2"} "48h0m0s"`,
		},
		"start, standard input": {args: []string{"run", "start", "assistant", "-i", "-", "--key", "k"}, stdin: `"hi"`, want: `start {"idempotencyKey":"k","runtime":"assistant","input":"hi"} "0s"`},
		"start, a file": {
			args: []string{"run", "start", "-f", "run.yaml", "--key", "k"},
			want: `start {"idempotencyKey":"k","plan":[{"toolCallId":"one","tool":"vet"},{"toolCallId":"two","tool":"vet","input":{"$from":"one"},"dependsOn":["one"]}],"title":"nightly","limits":{"maxSteps":8,"maxCalls":9},"labels":{"a":"1","b":"2"}} "2h0m0s"`,
		},
		"start, flags before a file": {
			args: []string{"run", "start", "-f", "-", "--title", "other", "--ttl", "1h", "-l", "b=3", "--max-calls", "5"}, stdin: "title: x\nttl: 9h\nlimits: {maxSteps: 8, maxCalls: 9}\nlabels: {b: x}\ncalls: {one: {tool: vet}}",
			want: `start {"plan":[{"toolCallId":"one","tool":"vet"}],"title":"other","limits":{"maxSteps":8,"maxCalls":5},"labels":{"b":"3"}} "1h0m0s"`,
		},
		"next":                {args: []string{"run", "next", "held", "--wait", "1m", "--holder", "h", "--runtime-version", "v", "--lease", "2m"}, want: `next "held" {"Holder":"h","Lease":120000000000,"RuntimeVersion":"v","Wait":60000000000}`},
		"commit":              {args: []string{"run", "commit", "held", "--step", "2", "--token", "t2", "--response", "-"}, stdin: `{"checkpoint": {"b" :  1}, "await": "input"}`, want: `commit "held" 2 "t2" "{\"b\" :  1}" {"checkpoint":{"b":1},"await":"input"}`},
		"commit of a request": {args: []string{"run", "commit", "held", "--request", "@step.json", "--response", `{"final": 1}`}, want: `commit "held" 3 "t3" "" {"final":1}`},
		"heartbeat":           {args: []string{"run", "heartbeat", "held", "--request", "@step.json", "--delta", `"x"`}, want: `step-heartbeat "held" "t3" "x"`},
		"input":               {args: []string{"run", "input", "waiting", "--text", `say "yes"`, "--id", "i", "--source", "chat"}, want: `say "waiting" {"inputId":"i","content":"say \"yes\"","source":"chat"}`},
		"input as JSON":       {args: []string{"run", "input", "waiting", "-i", "[1]"}, want: `say "waiting" {"inputId":"","content":[1],"source":"cli"}`},
		"answer":              {args: []string{"run", "answer", "waiting", "q", "--answer", `{"a": 1}`, "--step", "2"}, want: `answer-run "waiting" {"toolCallId":"q","askedAtStep":2,"answer":{"a":1},"by":"ada"}`},
		"approve":             {args: []string{"run", "approve", "waiting", "d 1", "--message", "ok", "--by", "eve"}, want: `approve "waiting" {"toolCallId":"d 1","decision":"approve","message":"ok","by":"eve"}`},
		"deny":                {args: []string{"run", "approve", "waiting", "d", "--deny", "--step", "1"}, want: `approve "waiting" {"toolCallId":"d","askedAtStep":1,"decision":"deny","by":"ada"}`},
		"edit":                {args: []string{"run", "approve", "waiting", "d", "--edit", `{"to": "b"}`}, want: `approve "waiting" {"toolCallId":"d","decision":"edit","input":{"to":"b"},"by":"ada"}`},
		"cancel":              {args: []string{"run", "cancel", "waiting", "--reason", "slow"}, want: `cancel-run "waiting" {"reason":"slow","by":"ada"}`},
		"cancel a call":       {args: []string{"run", "cancel", "waiting", "--call", "t1", "--step", "1", "--reason", "slow"}, want: `cancel-call "waiting" {"toolCallId":"t1","askedAtStep":1,"message":"slow","by":"ada"}`},
		"pause":               {args: []string{"run", "pause", "waiting", "--reason", "night"}, want: `pause "waiting" {"by":"ada","reason":"night"}`},
		"unpause":             {args: []string{"run", "pause", "waiting", "--off"}, want: `unpause "waiting" {"by":"ada"}`},
		"recover":             {args: []string{"run", "recover", "waiting", "--dry-run"}, want: `recover "waiting" {"by":"ada","dryRun":true}`},
		"retry":               {args: []string{"run", "retry", "broken", "--ttl", "90s", "--max-calls", "9", "--reason", "r"}, want: `retry-run "broken" {"TTL":90000000000,"Limits":{"maxCalls":9},"By":"ada","Reason":"r"}`},
		"list":                {args: []string{"run", "list", "--state", "waiting_input", "--runtime", "a", "--limit", "3"}, want: `list-runs {"State":"WAITING_INPUT","Runtime":"a","PageSize":3,"Cursor":""}`},
	} {
		got := runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, c.stdin, c.args...)
		if !slices.Equal(got.calls, []string{c.want}) {
			t.Errorf("%s: asked for\n%q, want\n%q\n%v", name, got.calls, c.want, got)
		}
	}
}

// TestRunFileMistakes: what is wrong with a file is told before anything is asked for.
func TestRunFileMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), "tools:\n  vet: {exec: {argv: [\"true\"]}}\n")
	for text, want := range map[string]string{
		"calls: {one: {tool: vett}}": "run.yaml:1:21: calls.one.tool: must be a declared tool, \"vett\" is none; did you mean vet?\nhint: mend the file; docs/runs.md lists its keys\n",
		"calls: {one: {tol: vet}}":   "calls.one.tol: is not a known key; did you mean tool?\n",
	} {
		write(t, filepath.Join(dir, "run.yaml"), text)
		got := runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, "", "run", "start", "-f", "run.yaml")
		if got.code != cli.ExitUsage || len(got.calls) > 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	for file, want := range map[string]string{"none.yaml": "error: there is no file none.yaml\n", ".": "error: read .: is a directory\n"} {
		if got := runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, "", "run", "start", "-f", file); got.code != cli.ExitUsage || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%s: %v", file, got)
		}
	}
}

// TestNextKeepsTheCheckpoint: a runtime that hashes what it keeps has to know it again.
func TestNextKeepsTheCheckpoint(t *testing.T) {
	t.Parallel()
	got := run(t, setup(t), "", "run", "next", "held")
	if got.code != cli.ExitOK || !strings.HasSuffix(got.stdout, `"checkpoint":{"b" :  1, "a": "<"}}`+"\n") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("%v", got)
	}
}

func TestRunWatchDrawsBarsOnATerminal(t *testing.T) {
	t.Parallel()
	for id, want := range map[string][]string{
		"finished": {"finished  SUCCEEDED  ", "in 6.0s\x1b[K\n", "t1        SUCCEEDED  █████", " 100%  in 3.0s\x1b[K\n"},
		"broken":   {"broken  FAILED", "NO_KEY: the key is wrong\x1b[K\n"},
	} {
		f := setup(t)
		out := &terminal{columns: 80, rows: 24}
		var stderr bytes.Buffer
		code := cli.RunWith(t.Context(), []string{"run", "watch", id}, strings.NewReader(""), out, &stderr, nil, cli.Parts{Tasks: f, Runs: f, Now: now})
		if wantCode := map[string]int{"broken": cli.ExitTaskEnded}[id]; code != wantCode {
			t.Errorf("%s: exit %d: %s", id, code, &stderr)
		}
		frames := strings.Split(out.b.String(), "\x1b[J")
		last := frames[len(frames)-2]
		for _, w := range want {
			if !strings.Contains(last, w) {
				t.Errorf("%s: the last picture is %q, want %q in it", id, last, w)
			}
		}
		if said := strings.Contains(out.b.String(), " says one moment\x1b[K\n"); said != (id == "finished") {
			t.Errorf("%s: it drew %q", id, out.b.String())
		}
	}
}

// TestRunWatchTellsOfTasks: the lines of each keep their order, whoever comes first.
func TestRunWatchTellsOfTasks(t *testing.T) {
	t.Parallel()
	got := run(t, setup(t), "", "run", "watch", "finished", "--tasks")
	var task []string
	for line := range strings.Lines(got.stdout) {
		if rest, ok := strings.CutPrefix(line, "t1 "); ok {
			task = append(task, strings.TrimSpace(rest))
		}
	}
	want := []string{"03:04:05 v0 now queued", "03:04:06 v1 start, by worker host-1/pid 7", "03:04:07 v2 progress, 50%, image 5 of 10", "03:04:08 v3 succeed, result of 2.0 KiB"}
	if got.code != cli.ExitOK || !slices.Equal(task, want) || strings.Count(got.stdout, "\n") != len(want)+8 {
		t.Errorf("%v", got)
	}
}

// TestRunWatchOfARunThatGoesOn ends the watching before the run.
func TestRunWatchOfARunThatGoesOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.hang["waiting"] = true
	for line, want := range map[string]string{
		"run watch waiting --for 50ms":                       "error: the wait of 50ms is over; the run goes on\nhint: wakepoint run watch waiting\n",
		"run start assistant --id waiting --wait --for 50ms": "error: the wait of 50ms is over; the run goes on\nhint: wakepoint run watch waiting\n",
	} {
		if got := run(t, f, "", strings.Fields(line)...); got.code != cli.ExitWaitTimeout || !strings.HasSuffix(got.stderr, want) {
			t.Errorf("%s: %v", line, got)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &terminal{columns: 80, rows: 24, wrote: func(all string) {
		if strings.Contains(all, "v7 call-ended") {
			cancel(errors.New("ctrl-c"))
		}
	}}
	var stderr bytes.Buffer
	code := cli.RunWith(ctx, []string{"run", "watch", "waiting"}, strings.NewReader(""), out, &stderr, []string{"TERM=dumb"}, cli.Parts{Tasks: f, Runs: f, Now: now})
	if code != cli.ExitInterrupted || stderr.String() != "error: interrupted; the run goes on\nhint: wakepoint run watch waiting\n" {
		t.Errorf("exit %d, said %q", code, &stderr)
	}
}

// TestRunShowOfManyCalls: what does not fit one screen in full is a table.
func TestRunShowOfManyCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	d := f.runs["waiting"]
	first := d.Calls[0]
	d.Asks, d.Calls = nil, nil
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		c := first
		c.ToolCallID = id
		d.Calls = append(d.Calls, c)
	}
	d.Calls[6] = starter.CallDescription{ToolCallID: "g", AskedAtStep: 1, Tool: "resize", State: domainrun.CallBlocked, Phase: domain.PhaseSubmitted, WaitsFor: "the calls that it depends on"}
	f.runs["waiting"] = d
	got := run(t, f, "", "run", "show", "waiting")
	_, table, _ := strings.Cut(got.stdout, "\nCALL ")
	lines := strings.Split(table, "\n")
	if len(lines) != 9 || strings.Join(strings.Fields(lines[1]), " ") != "a (step 1) resize call_t1 RUNNING 50% image 5 of 10 2.0s ago in 10.0s in 19m 00s the tool to end exec job-7, queue host-1" ||
		strings.Join(strings.Fields(lines[7]), " ") != "g (step 1) resize SUBMITTED the calls that it depends on" {
		t.Errorf("%v", got)
	}
	d.Calls = d.Calls[6:]
	d.Run.Calls[0].Key, d.Run.Calls[0].DependsOn = domainrun.Key{Step: 1, ID: "g"}, []string{"a", "b"}
	f.runs["waiting"] = d
	if got := run(t, f, "", "run", "show", "waiting"); !strings.HasSuffix(got.stdout, "\ncall       g of step 1\ntool       resize\nphase      SUBMITTED (call blocked)\nneeds      a, b\nwaits for  the calls that it depends on\n") {
		t.Errorf("%v", got)
	}
}

// TestRunWatchShowsHints: what a runtime says while it works is news of its own.
func TestRunWatchShowsHints(t *testing.T) {
	t.Parallel()
	f := setup(t)
	changes := f.runChanges["finished"]
	hint := changes[1]
	hint.Page.Mode, hint.Page.Events, hint.Delta = domain.ModeCaughtUp, []domainrun.Entry{}, []byte(`"thinking"`)
	hint.Description.Delta = hint.Delta
	f.runChanges["finished"] = slices.Insert(slices.Clone(changes), 2, hint)
	got := run(t, f, "", "run", "watch", "finished")
	if got.code != cli.ExitOK || !strings.Contains(got.stdout, "finished 03:05:05 hint thinking\n") {
		t.Errorf("%v", got)
	}
}

func TestRuntimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), "runtimes:\n  assistant: {pull: {}, version: v1, title: the assistant, limits: {maxTokens: 1000, maxCostUSD: 2}}\n  planner: {activity: {taskQueue: planners}, stepTimeout: 5m}\n")
	var b strings.Builder
	for _, args := range []string{"runtimes", "runtimes assistant", "runtimes planner", "runtimes assistent", "runtimes --json", "runtimes planner --json"} {
		b.WriteString("$ wakepoint " + args + "\n" + runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, "", strings.Fields(args)...).String() + "\n")
	}
	golden(t, "runtimes", b.String())
}

// TestDocsNameEveryRunCommand compares docs/cli.md with the commands.
func TestDocsNameEveryRunCommand(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(b), "\n## wakepoint run, wakepoint runtimes\n")
	if !ok {
		t.Fatal("docs/cli.md has no section about runs")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	help := run(t, setup(t), "", "run", "--help").stdout
	_, commands, _ := strings.Cut(help, "Available Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		name := strings.Fields(line)[0]
		if !strings.Contains(page, "| `"+name+" ") && !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/cli.md has no row for run %s", name)
		}
	}
}
