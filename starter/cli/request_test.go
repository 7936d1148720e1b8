package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli"
)

// madeUp is the id of a callback for which none was given.
var madeUp = regexp.MustCompile(`cli-[0-9a-f-]{36}`)

// TestRequests checks what a command line asks the client for.
func TestRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.json"), []byte("{\"n\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"submit, everything": {
			args: []string{
				"task", "submit", "resize", "--input", `{"a": 1}`, "--id", "x", "--title", "t", "--ttl", "2d", "--max-attempts", "1", "--priority", "2",
				"-l", "a=1", "-l", "b=x=y", "--target", "ops", "--run", "r", "--tool-call", "c",
			},
			want: `submit {"tool":"resize","input":{"a":1},"taskId":"x","title":"t","runId":"r","toolCallId":"c","maxAttempts":1,"priority":2,"labels":{"a":"1","b":"x=y"},"targets":["ops"]} "48h0m0s"`,
		},
		"submit, args": {
			args: []string{"task", "submit", "resize", "-a", "text=5", "-a", "number:=5", "-a", "list:=[1,2]", "-a", "empty=", "-a", "eq=a=b"},
			want: `submit {"tool":"resize","input":{"empty":"","eq":"a=b","list":[1,2],"number":5,"text":"5"}} "0s"`,
		},
		"submit, a file":         {args: []string{"task", "submit", "resize", "-i", "@in.json"}, want: `submit {"tool":"resize","input":{"n":1}} "0s"`},
		"submit, standard input": {args: []string{"task", "submit", "resize", "-i", "-", "--key", "k"}, stdin: `[1]`, want: `submit {"tool":"resize","input":[1],"idempotencyKey":"k"} "0s"`},
		"list":                   {args: []string{"task", "list", "--state", "failed", "--limit", "3"}, want: `list {"Tool":"","Run":"","ToolCall":"","State":"failed","PageSize":3,"Cursor":""}`},
		"cancel":                 {args: []string{"task", "cancel", "running", "--reason", "slow"}, want: `cancel "running" {"reason":"slow","by":"ada"}`},
		"cancel by another":      {args: []string{"task", "cancel", "running", "--by", "eve"}, want: `cancel "running" {"by":"eve"}`},
		"cancel for one":         {args: []string{"task", "cancel", "running", "--waiter", "run_x"}, want: `cancel "running" {"by":"ada","waiterId":"run_x"}`},
		"attach a target":        {args: []string{"task", "attach", "running", "ops"}, want: `attach "running" {"target":"ops"}`},
		"attach a waiter":        {args: []string{"task", "attach", "running", "--waiter", "w", "--run", "r", "--tool-call", "c"}, want: `attach "running" {"target":"","waiter":{"id":"w","runId":"r","toolCallId":"c"}}`},
		"detach":                 {args: []string{"task", "detach", "running", "w", "--reason", "late"}, want: `detach "running" {"waiterId":"w","reason":"late","by":"ada"}`},
		"submit, shared":         {args: []string{"task", "submit", "resize", "--no-cache", "--waiter", "w"}, want: `submit {"tool":"resize","noCache":true,"waiterId":"w"} "0s"`},
		"resolve, done":          {args: []string{"task", "resolve", "running", "--succeeded", "--result", "@in.json", "--reason", "asked the bank"}, want: `resolve "running" {"action":"succeeded","result":{"n":1},"by":"ada","reason":"asked the bank"}`},
		"resolve, kept":          {args: []string{"task", "resolve", "running", "--succeeded", "--result-ref", "s3://b/k", "--result-hash", "h", "--content-type", "text/plain"}, want: `resolve "running" {"action":"succeeded","resultRef":"s3://b/k","resultHash":"h","contentType":"text/plain","by":"ada"}`},
		"resolve, not done":      {args: []string{"task", "resolve", "running", "--failed", "--error", `{"code":"NO","message":"m"}`}, want: `resolve "running" {"action":"failed","error":{"code":"NO","message":"m"},"by":"ada"}`},
		"resolve, again":         {args: []string{"task", "resolve", "running", "--repeat", "--by", "eve"}, want: `resolve "running" {"action":"repeat","by":"eve"}`},
		"manual":                 {args: []string{"manual", "--tool", "pay", "--limit", "3"}, want: `manual {"Tool":"pay","PageSize":3,"Cursor":""}`},
		"reconcile some":         {args: []string{"reconcile", "a", "b"}, want: `reconcile {"Tasks":["a","b"],"Run":"","Tool":"","By":"ada"}`},
		"reconcile a run":        {args: []string{"reconcile", "--run", "r", "--by", "eve"}, want: `reconcile {"Tasks":[],"Run":"r","Tool":"","By":"eve"}`},
		"orphans":                {args: []string{"reconcile", "--orphans", "--tool", "pay", "--host", "h", "--cancel", "--reason", "x"}, want: `orphans {"Tool":"pay","Hosts":["h"],"Cancel":true,"Reason":"x"}`},
		"retry":                  {args: []string{"task", "retry", "failed", "--ttl", "90s"}, want: `retry "failed" {"TTL":90000000000,"By":"ada","Reason":""}`},
		"answer in words":        {args: []string{"task", "answer", "asking", "q1", "--text", `say "yes"`}, want: `answer "asking" {"questionId":"q1","answer":"say \"yes\"","by":"ada"}`},
		"answer as JSON":         {args: []string{"task", "answer", "asking", "q1", "--answer", "-"}, stdin: ` {"ok": true} `, want: `answer "asking" {"questionId":"q1","answer":{"ok":true},"by":"ada"}`},
		"heartbeat":              {args: []string{"task", "heartbeat", "asking", "--attempt", "2", "--details", "[1]"}, want: `heartbeat "asking" {"Attempt":2,"Details":[1]}`},
		"callback, progress": {
			args: []string{"task", "callback", "running", "--type", "progress", "--progress", "0", "--stage", "s", "--attempt", "2", "--worker", "w", "--callback-id", "c1"},
			want: `callback "running" {"callbackId":"c1","event":{"type":"progress","atMs":0,"attempt":2,"worker":"w","progress":0,"stage":"s"},"source":"cli"}`,
		},
		"callback, succeed": {
			args: []string{"task", "callback", "running", "--type", "succeed", "--result", `{"a":1}`, "--source", "me"},
			want: `callback "running" {"callbackId":"MADE-UP","event":{"type":"succeed","atMs":0,"result":{"a":1}},"source":"me"}`,
		},
		"callback, a result elsewhere": {
			args: []string{"task", "callback", "running", "--type", "succeed", "--result-ref", "s3://b/k", "--result-hash", "h"},
			want: `callback "running" {"callbackId":"MADE-UP","event":{"type":"succeed","atMs":0,"resultRef":"s3://b/k","resultHash":"h"},"source":"cli"}`,
		},
		"callback, fail in words": {
			args: []string{"task", "callback", "running", "--type", "fail", "--error", "no paper", "--retryable"},
			want: `callback "running" {"callbackId":"MADE-UP","event":{"type":"fail","atMs":0,"error":{"message":"no paper"},"retryable":true},"source":"cli"}`,
		},
		"callback, fail as JSON": {
			args: []string{"task", "callback", "running", "--type", "fail", "--error", `{"code":"NO_PAPER","message":"m","class":"user"}`, "--retryable=false"},
			want: `callback "running" {"callbackId":"MADE-UP","event":{"type":"fail","atMs":0,"error":{"code":"NO_PAPER","message":"m","class":"user"},"retryable":false},"source":"cli"}`,
		},
		"callback, the whole event": {
			args: []string{"task", "callback", "running", "--event", `{"type":"input-required","questionId":"q","prompt":"p"}`},
			want: `callback "running" {"callbackId":"MADE-UP","event":{"type":"input-required","atMs":0,"questionId":"q","prompt":"p"},"source":"cli"}`,
		},
		"callback, by signal": {
			args: []string{"task", "callback", "running", "--type", "heartbeat", "--signal"},
			want: `signal "running" {"callbackId":"MADE-UP","event":{"type":"heartbeat","atMs":0},"source":"cli"}`,
		},
		"result, late": {args: []string{"task", "result", "done", "--late"}, want: `result "done" true`},
		"logs":         {args: []string{"task", "logs", "done", "-f", "--offset", "5"}, want: `logs "done" {"Stream":"stdout","Offset":5,"Limit":0,"Follow":true}`},
		"redeliver":    {args: []string{"task", "redeliver", "k"}, want: `redeliver "k" {"by":"ada"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runIn(t, setup(t), cli.Parts{Now: now, Dir: dir}, c.stdin, c.args...)
			if got.code != cli.ExitOK {
				t.Errorf("%v", got)
			}
			for i, call := range got.calls {
				got.calls[i] = madeUp.ReplaceAllString(call, "MADE-UP")
			}
			if !slices.Equal(got.calls, []string{c.want}) {
				t.Errorf("asked for %q, want %q", got.calls, c.want)
			}
		})
	}
}

// TestRefusedBeforeAsking checks command lines that are wrong in themselves: the
// client is not asked.
func TestRefusedBeforeAsking(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"task submit resize --input {} --arg a=1":                 "--input and --arg exclude each other",
		"task submit resize --input nonsense":                     "--input must be JSON",
		"task submit resize --input @nowhere.json":                "--input: there is no file /",
		"task submit resize --arg a":                              `--arg "a" must be NAME=TEXT or NAME:=JSON`,
		"task submit resize --arg =a":                             `--arg "=a" must be NAME=TEXT or NAME:=JSON`,
		"task submit resize --arg a=1 --arg a:=2":                 "--arg a is given twice",
		"task submit resize --arg a:=x":                           `--arg a:= must be JSON, it is "x"`,
		"task submit resize --label a":                            `--label "a" must be NAME=TEXT`,
		"task submit resize --label a=1 --label a=2":              "--label a is given twice",
		"task submit resize --ttl 5":                              "must be a duration such as 30s",
		"task submit resize --priority high":                      `invalid argument "high" for "--priority" flag: must be a number`,
		"task submit resize --key=":                               "--key must not be empty",
		"task submit resize --id=":                                "--id must not be empty",
		"task submit resize --ttl 0s":                             "--ttl must be more than 0",
		"task submit resize --max-attempts 0":                     "--max-attempts must be more than 0",
		"task retry failed --ttl 0s":                              "--ttl must be more than 0",
		"task list --tool=":                                       "--tool must not be empty",
		"task list --limit 0":                                     "--limit must be more than 0",
		"task callback running --type heartbeat --attempt 0":      "--attempt must be more than 0",
		"task result done --length 0":                             "--length must be more than 0",
		"task attach running":                                     "give a target, or --waiter",
		"task attach running --run r":                             "--run and --tool-call need --waiter",
		"task attach running a b":                                 `unexpected argument "b"`,
		"task attach":                                             "argument TASK is missing",
		"task cancel running --waiter=":                           "--waiter must not be empty",
		"task watch running --for 0s":                             "--for must be more than 0",
		"task resolve running --succeeded --result oops":          "--result must be JSON",
		`task resolve running --failed --error {"message":1}`:     "--error is no error: ",
		"task resolve running --failed --error=":                  "--error must not be empty",
		"reconcile --tool=":                                       "--tool must not be empty",
		"setup --retention 0s":                                    "--retention must be more than 0",
		"task callback running":                                   "the type of the event is missing",
		"task callback running --event {} --stage x":              "--event and --stage exclude each other",
		"task callback running --event []":                        "--event is no event: ",
		`task callback running --event {"type":"progress","x":1}`: `--event is no event: unknown field "x"`,
		"task callback running --type succeed --result oops":      "--result must be JSON",
		`task callback running --type fail --error {"message":1}`: "--error is no error: ",
		"task heartbeat asking --details x":                       "--details must be JSON",
		"task logs done --limit -":                                "must be a number",
	} {
		f := setup(t)
		got := run(t, f, "", strings.Fields(line)...)
		if got.code != cli.ExitUsage || !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("%s: %v\nwant %q", line, got, want)
		}
		if len(f.calls) > 0 {
			t.Errorf("%s: the client was asked: %q", line, f.calls)
		}
	}
	huge := run(t, setup(t), strings.Repeat("x", domain.MaxBody+1), "task", "submit", "resize", "--input", "-")
	if huge.code != cli.ExitUsage || !strings.Contains(huge.stderr, "--input must be at most 1048576 bytes") {
		t.Errorf("a huge input: %v", huge)
	}
}

func TestVerdictsOfCallbacks(t *testing.T) {
	t.Parallel()
	want := map[starter.CallbackVerdict]int{
		starter.VerdictAccepted: cli.ExitOK, starter.VerdictTaken: cli.ExitOK, starter.VerdictDuplicate: cli.ExitOK,
		starter.VerdictStale: cli.ExitConflict, starter.VerdictLate: cli.ExitConflict, starter.VerdictConflict: cli.ExitConflict,
		starter.VerdictRejected: cli.ExitConflict, starter.VerdictUnknownTask: cli.ExitConflict,
	}
	for _, v := range starter.CallbackVerdicts() {
		f := setup(t)
		f.verdict = starter.Verdict{Verdict: v, Outcome: domain.Outcome{Reason: "the-reason", State: domain.StateRunning, Version: 2}}
		got := run(t, f, "", "task", "callback", "running", "--type", "heartbeat")
		code, ok := want[v]
		if !ok || got.code != code || !strings.Contains(got.stdout+got.stderr, string(v)+": the-reason; the task is running at version 2") {
			t.Errorf("%s: %v, want exit %d", v, got, code)
		}
	}
}

// TestStaleCallbackNamesTheAttempt: after a retry a callback needs its attempt, and
// the refusal says which.
func TestStaleCallbackNamesTheAttempt(t *testing.T) {
	t.Parallel()
	again := newTask(t, "again", domain.Policy{}, started, broken)
	again.State, again.Retries, again.MaxAttempts = domain.StateQueued, 1, 3
	runs := again
	runs.ID, runs.State, runs.Attempts = "runs", domain.StateRunning, 2
	for line, want := range map[string]string{
		"task callback again --type start":    "hint: if it is for the attempt that begins, give --attempt 2\n",
		"task callback again --type succeed":  "hint: attempt 2 has not begun: send --type start --attempt 2 first\n",
		"task callback runs --type heartbeat": "hint: if it is for the attempt that runs, give --attempt 2\n",
		"task callback done --type heartbeat": "hint: look at the task: wakepoint task show done\n",
	} {
		f := setup(t)
		f.tasks["again"], f.tasks["runs"] = describe(again), describe(runs)
		f.verdict = starter.Verdict{Verdict: starter.VerdictStale, Outcome: domain.Outcome{Reason: domain.ReasonStaleAttempt, State: domain.StateQueued, Version: 3}}
		got := run(t, f, "", strings.Fields(line)...)
		if got.code != cli.ExitConflict || got.stderr != "error: stale: it belongs to another attempt; the task is queued at version 3\n"+want {
			t.Errorf("%s: %v, want %s", line, got, want)
		}
	}
	f := setup(t)
	f.tasks["again"] = describe(again)
	if got := run(t, f, "", "task", "show", "again"); !strings.Contains(got.stdout, "1 of 3, attempt 2 comes next\n") {
		t.Errorf("%v", got)
	}
}

// TestRefusalsAreWords: what the rules call their reasons is for programs.
func TestRefusalsAreWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		reason domain.Reason
		state  domain.State
		want   string
	}{
		{"task answer asking q1 --text yes", domain.ReasonAnswerConflict, domain.StateRunning, "error: question q1 was answered already; the task is running\n"},
		{"task answer asking q9 --text yes", domain.ReasonUnknownQuestion, domain.StateRunning, "error: the task asks no question q9; the task is running\n"},
		{"task cancel done", domain.ReasonTerminalConflict, domain.StateSucceeded, "error: the task has succeeded\n"},
		{"task cancel gone", domain.ReasonTerminalConflict, domain.StateCancelled, "error: the task was cancelled\n"},
	} {
		f := setup(t)
		f.outcome = domain.Outcome{Reason: c.reason, State: c.state, Version: 3}
		got := run(t, f, "", strings.Fields(c.line)...)
		if got.code != cli.ExitConflict || !strings.HasPrefix(got.stderr, c.want) {
			t.Errorf("%s: %v\nwant %s", c.line, got, c.want)
		}
	}
}

// TestDeliverOfATaskWithoutResult tells a result that is to come from none.
func TestDeliverOfATaskWithoutResult(t *testing.T) {
	t.Parallel()
	for id, c := range map[string]struct {
		code int
		want string
	}{
		"running": {cli.ExitConflict, "error: task running is running and has no result yet\nhint: wait for its end: wakepoint task watch running\n"},
		"failed":  {cli.ExitTaskEnded, "error: task failed has failed and has no result to deliver\nhint: look at the task: wakepoint task show failed\n"},
	} {
		f := setup(t)
		f.deliver.Reason = domain.ReasonNotSucceeded
		if got := run(t, f, "", "task", "deliver", id, "--key", "k"); got.code != c.code || got.stderr != c.want {
			t.Errorf("%v\nwant %s", got, c.want)
		}
	}
}

// TestInputOfAnotherTypeHasAHint: on a shell everything is text, and the error of
// the schema alone does not say how a number is given.
func TestInputOfAnotherTypeHasAHint(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.err = &starter.Error{Code: starter.CodeInvalid, Field: "input.width", Message: "input.width must be an integer"}
	got := run(t, f, "", "task", "submit", "resize", "--arg", "width=5")
	want := "error: input.width must be an integer\nhint: numbers, true, false and lists are given as JSON: --arg width:=JSON\n"
	if got.code != cli.ExitUsage || got.stderr != want {
		t.Errorf("%v", got)
	}
}

// TestRefusedInputNamesWhatTheToolTakes: a newcomer's first submission misses a field.
func TestRefusedInputNamesWhatTheToolTakes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.err = &starter.Error{Code: starter.CodeInvalid, Field: "input", Message: "input must match the tool's schema: missing property 'width'"}
	got := run(t, f, "", "task", "submit", "resize")
	want := "error: input must match the tool's schema: missing property 'width'\nhint: what it takes: wakepoint tools resize\n"
	if got.code != cli.ExitUsage || got.stderr != want {
		t.Errorf("%v", got)
	}
}

func TestResultFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parts := cli.Parts{Now: now, Dir: dir}
	got := runIn(t, setup(t), parts, "", "task", "result", "done", "-o", "out.json")
	if got.code != cli.ExitOK || got.stdout != "" || got.stderr != "14 B written to out.json\n" {
		t.Errorf("%v", got)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out.json"))
	if err != nil || string(b) != `{"images": 10}` {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if got := runIn(t, setup(t), parts, "", "task", "result", "done", "-o", "out.json", "--offset", "99"); got.code != cli.ExitUsage {
		t.Errorf("%v", got)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "out.json")); err != nil || string(again) != string(b) {
		t.Errorf("a result that could not be read replaced the file: %q, %v", again, err)
	}
	if got := runIn(t, setup(t), parts, "", "task", "result", "done", "-o", "no/such/folder"); got.code != cli.ExitFailure {
		t.Errorf("%v", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
