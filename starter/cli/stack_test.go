package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	domainrun "github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// fakeStack is an engine and a worker that are only said to run.
type fakeStack struct {
	options dev.Options
	info    dev.Info
	// waited is called when somebody waits for the end, and gives it.
	waited func() error
	onKill func()
	// stopping is called while the stack is stopped.
	stopping func(hurry context.Context)
	killed   int
	stopped  int
}

func (s *fakeStack) Info() dev.Info { return s.info }

func (s *fakeStack) Wait(ctx context.Context) error {
	if s.waited != nil {
		return s.waited()
	}
	<-ctx.Done()
	return nil
}

func (s *fakeStack) KillWorker() (int, error) {
	s.killed++
	if s.onKill != nil {
		s.onKill()
	}
	return 100, nil
}

func (s *fakeStack) AwaitWorker(_ context.Context, pid int) (int, error) { return pid + 1, nil }

func (s *fakeStack) Stop(ctx context.Context) error {
	if s.stopping != nil {
		s.stopping(ctx)
	}
	s.stopped++
	return nil
}

// starts gives a stack that starts as asked.
func (s *fakeStack) starts(_ context.Context, o dev.Options) (cli.Stack, error) {
	s.options = o
	s.info = dev.Info{
		PID: 1, Address: "127.0.0.1:4711", Namespace: o.Namespace, UIURL: "http://127.0.0.1:4712", DataDir: o.DataDir, Config: o.Config,
		Engine: o.Engine.Kind, Durability: o.Durability,
	}
	return s, nil
}

func TestDevSaysWhereEverythingIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wakepoint.yaml"), "tools:\n  nap:\n    exec: {argv: [\"true\"]}\n")
	s := &fakeStack{waited: func() error { return nil }}
	var stdout, stderr bytes.Buffer
	args := []string{"dev", "--engine", "cluster:7233", "--data", "d", "--durability", "full", "--namespace", "ns", "--log-level", "info"}
	env := []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}
	code := cli.RunWith(t.Context(), args, strings.NewReader(""), &stdout, &stderr, env, cli.Parts{Now: now, Dir: dir, Self: "/bin/wakepoint", Start: s.starts})
	if code != cli.ExitOK || s.stopped != 1 {
		t.Fatalf("exit %d, stopped %d times: %s", code, s.stopped, &stderr)
	}
	data := filepath.Join(dir, "d")
	want := "engine       127.0.0.1:4711\ntemporal ui  http://127.0.0.1:4712\nnamespace    ns\ntools        1 tool from " + filepath.Join(dir, "wakepoint.yaml") +
		"\ndata         " + data + "\ndurability   full: neither a crash nor a power cut loses what was acknowledged\n"
	if stdout.String() != want {
		t.Errorf("it says\n%swant\n%s", &stdout, want)
	}
	if want := "ready; stop with ctrl-c\nhint: in another terminal: wakepoint task submit nap --wait\n"; stderr.String() != want {
		t.Errorf("it said %q, want %q", &stderr, want)
	}
	got := s.options.Worker(s.info, "/ready")
	argv := []string{
		"/bin/wakepoint", "worker", "--address", "127.0.0.1:4711", "--namespace", "ns", "--data", data, "--ready-file", "/ready", "--exit-with-stdin",
		"--log-level", "info", "--config", filepath.Join(dir, "wakepoint.yaml"),
	}
	if !slices.Equal(got, argv) {
		t.Errorf("the worker is %q, want %q", got, argv)
	}
}

func TestDevTellsWhatHappensToItsChildren(t *testing.T) {
	t.Parallel()
	s := &fakeStack{}
	var stdout, stderr bytes.Buffer
	s.waited = func() error {
		for _, e := range []dev.Event{
			{Child: "engine", What: dev.Started, PID: 7},
			{Child: "engine", What: dev.Ready, PID: 7},
			{Child: "engine", What: dev.Said, Line: "a warning\x1b[31m"},
			{Child: "engine", What: dev.Died, PID: 7, Err: &dev.ExitError{Name: "engine", How: "signal: killed"}},
			{Child: "engine", What: dev.Waiting, Pause: 200_000_000},
			{Child: "worker", What: dev.Stopped, PID: 8, Err: errors.New("it was killed")},
			{Child: "engine", What: dev.Stopped, PID: 9},
		} {
			s.options.Notify(e)
		}
		return &dev.ExitError{Name: "worker", How: "exit status 2", Code: 2}
	}
	dir := t.TempDir()
	env := []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}
	code := cli.RunWith(t.Context(), []string{"dev", "--engine", "x:1", "--json"}, strings.NewReader(""), &stdout, &stderr, env, cli.Parts{Now: now, Dir: dir, Start: s.starts})
	var info dev.Info
	if err := json.Unmarshal(stdout.Bytes(), &info); err != nil || info != s.info || code != cli.ExitUsage {
		t.Errorf("exit %d, %q, %v", code, &stdout, err)
	}
	if want := "{\"error\":{\"code\":\"invalid-configuration\",\"message\":\"the worker ended: exit status 2\"}}\n"; stderr.String() != want {
		t.Errorf("with --json it said %q", &stderr)
	}
	stderr.Reset()
	cli.RunWith(t.Context(), []string{"dev", "--engine", "x:1", "--no-worker"}, strings.NewReader(""), &stdout, &stderr, env, cli.Parts{Now: now, Dir: dir, Start: s.starts})
	want := "ready; stop with ctrl-c\nthe engine works (pid 7)\nengine: a warning [31m\nthe engine (pid 7) ended: signal: killed\nthe engine is started again in 0.2s\nthe worker (pid 8): it was killed\nerror: the worker ended: exit status 2\n"
	if stderr.String() != want {
		t.Errorf("it said\n%swant\n%s", &stderr, want)
	}
	if s.options.Worker != nil {
		t.Error("--no-worker has a worker")
	}
}

// TestDevChecksTheToolsBeforeItStarts: an engine is not started for tools that no
// worker would take.
func TestDevChecksTheToolsBeforeItStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "wakepoint.yaml"), "tools:\n  gone: {exec: {argv: [no-such-program-anywhere]}}\n  shell: {exec: {argv: [sh, -c, \"echo ${input.x}\"]}}\n")
	var stdout, stderr bytes.Buffer
	env := []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}
	s := &fakeStack{waited: func() error { return nil }}
	parts := cli.Parts{Now: now, Dir: dir, Self: "/bin/wakepoint", Start: s.starts}
	code := cli.RunWith(t.Context(), []string{"dev", "--engine", "x:1"}, strings.NewReader(""), &stdout, &stderr, env, parts)
	lines := strings.Split(stderr.String(), "\n")
	if code != cli.ExitUsage || s.options.DataDir != "" || len(lines) != 4 || !strings.HasPrefix(lines[0], "error: "+file+":2:17: tools.gone.exec.argv: program ") ||
		!strings.HasPrefix(lines[1], file+":3:33: tools.shell.exec.argv[2]: ") || lines[2] != "hint: mend the tools in "+file+"; see docs/config.md" {
		t.Errorf("exit %d, started %q: %s", code, s.options.DataDir, &stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if code := cli.RunWith(t.Context(), []string{"dev", "--engine", "x:1", "--no-worker"}, strings.NewReader(""), &stdout, &stderr, env, parts); code != cli.ExitOK {
		t.Errorf("without a worker: exit %d", code)
	}
}

// TestOnlyASecondCtrlCKills: a service manager repeats SIGTERM, and one press may
// arrive twice.
func TestOnlyASecondCtrlCKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var clock atomic.Int64
	signals := make(chan os.Signal)
	s := &fakeStack{waited: func() error {
		cancel()
		return nil
	}}
	s.stopping = func(hurry context.Context) {
		// Each is taken only when the one before has been dealt with.
		for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGTERM, syscall.SIGTERM} {
			signals <- sig
		}
		clock.Store(int64(2 * time.Second))
		signals <- syscall.SIGTERM
		if hurry.Err() != nil {
			t.Error("it was killed before anybody asked for that")
		}
		signals <- os.Interrupt
		<-hurry.Done()
	}
	var stdout, stderr bytes.Buffer
	code := cli.RunWith(ctx, []string{"dev", "--engine", "x:1"}, strings.NewReader(""), &stdout, &stderr, []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")},
		cli.Parts{Clock: func() time.Time { return now.Add(time.Duration(clock.Load())) }, Signals: signals, Dir: dir, Start: s.starts})
	if code != cli.ExitOK || s.stopped != 1 || !strings.HasSuffix(stderr.String(), "stopping; ctrl-c again kills\n") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

func TestDevRefuses(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct {
		code int
		want string
	}{
		"dev --durability some":    {cli.ExitUsage, `error: --durability must be normal or full, not "some"`},
		"dev --port 70000":         {cli.ExitUsage, "must be auto, 0 (any free one) or a port up to 65535"},
		"dev --log-level loud":     {cli.ExitUsage, `error: --log-level must be debug, info, warn or error, not "loud"`},
		"dev --engine /nowhere":    {cli.ExitUnreachable, `error: no engine: "/nowhere" is neither a program nor host:port`},
		"dev --config none.yaml":   {cli.ExitUsage, "there is no file "},
		"worker --log-level loud":  {cli.ExitUsage, `error: --log-level must be debug, info, warn or error, not "loud"`},
		"worker --config x.yaml":   {cli.ExitUsage, "there is no file "},
		"demo /nowhere":            {cli.ExitUsage, "error: no Go source tree: there is no go.mod in /nowhere"},
		"demo":                     {cli.ExitUsage, "error: no Go source tree: there is no go.mod in or above "},
		"internal-tool":            {cli.ExitFailure, "error: name one tool"},
		"internal-leash":           {cli.ExitFailure, "error: no program to run"},
		"setup --retention 5m --x": {cli.ExitUsage, "there is no flag --x"},
	} {
		got := runIn(t, setup(t), cli.Parts{Now: now, Dir: t.TempDir(), Self: filepath.Join(t.TempDir(), "wakepoint")}, "", strings.Fields(line)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// module writes a small Go module that is no git work tree.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/small\n")
	return dir
}

// demoTools are those of a demo on a module that is no git work tree.
var demoTools = []string{demo.ToolVet, demo.ToolTest, demo.ToolFormat, demo.ToolCount, demo.ToolReport}

// demoRun scripts the run of a demo and its tasks, which have the names of their tools.
// The one that fails, if any, ends otherwise than succeeded.
func demoRun(t *testing.T, fails string) *fake {
	t.Helper()
	f := setup(t)
	planned := domainrun.StepResponse{}
	var ends []domainrun.Event
	for _, tool := range demoTools {
		planned.ToolCalls = append(planned.ToolCalls, domainrun.ToolCall{ToolCallID: tool, Tool: tool})
		id := "task-" + tool
		f.changes[id] = history(t, id, started, half, succeeded)
		f.results[id] = []byte("{\"of\": \"" + tool + "\"}")
		end := domainrun.End{State: domainrun.CallSucceeded, ResultRef: "blob:x"}
		if tool == fails {
			f.changes[id] = history(t, id, started, broken)
			end = domainrun.End{State: domainrun.CallFailed, Error: broken.Error}
		}
		ends = append(ends, domainrun.Event{Type: domainrun.EventCallStarted, Call: domainrun.Key{Step: 1, ID: tool}, Started: &domainrun.Started{TaskID: id}}, callEnded(1, tool, end))
	}
	f.results["task-"+demo.ToolReport] = []byte("# the report\n")
	last := committed(2, domainrun.StepResponse{Final: json.RawMessage(`{"calls":[]}`)})
	if fails != "" {
		last = domainrun.Event{Type: domainrun.EventStepFailed, Token: "t2", Error: &domain.TaskError{Code: domainrun.CodePlanFailed, Message: "not all calls succeeded"}}
	}
	events := append([]domainrun.Event{claimed(1), committed(1, planned)}, ends...)
	f.runChanges["demo"] = runHistory(agentRun(t, "demo", append(events, claimed(2), last)...))
	return f
}

// runDemo runs a demo on a small module.
func runDemo(t *testing.T, ctx context.Context, f *fake, s *fakeStack, args ...string) (r result, report string) { //nolint:revive // t is first in tests
	t.Helper()
	tree, wd := module(t), t.TempDir()
	var stdout, stderr bytes.Buffer
	env := append(os.Environ(), "TEMPORAL_CONFIG_FILE="+filepath.Join(wd, "none.toml"))
	line := append([]string{"demo", tree, "--engine", "x:1"}, args...)
	code := cli.RunWith(ctx, line, strings.NewReader(""), &stdout, &stderr, env, cli.Parts{Tasks: f, Runs: f, Now: now, Dir: wd, Self: "/bin/wakepoint", Start: s.starts})
	b, err := os.ReadFile(filepath.Join(wd, "wakepoint-demo-report.md"))
	if err != nil {
		report = err.Error()
	} else {
		report = string(b)
	}
	return result{code: code, stdout: stdout.String(), stderr: stderr.String(), calls: f.calls}, report
}

func TestDemoWritesTheSameReportWithACrash(t *testing.T) {
	t.Parallel()
	calm, crashed := &fakeStack{}, &fakeStack{}
	plain, report := runDemo(t, t.Context(), demoRun(t, ""), calm)
	withCrash, again := runDemo(t, t.Context(), demoRun(t, ""), crashed, "--crash")
	if plain.code != cli.ExitOK || withCrash.code != cli.ExitOK || report != again {
		t.Fatalf("%v\n%v\n%s\n%s", plain, withCrash, report, again)
	}
	if calm.killed != 0 || crashed.killed != 1 || calm.stopped != 1 || crashed.stopped != 1 {
		t.Errorf("killed %d and %d times, stopped %d and %d times", calm.killed, crashed.killed, calm.stopped, crashed.stopped)
	}
	for _, want := range []string{
		"skipped git-history: the tree is no git work tree, or git may not read it\n", "temporal ui: http://127.0.0.1:4712/namespaces/default/workflows\n",
		"task of go-vet: task-go-vet\n", "run 03:04:06 v1 claim: claimed, now RUNNING\n", "go-vet 03:04:07 v2 progress, 50%, image 5 of 10\n",
		" was at 50%; its tools run on\n", "worker process 100 was killed with SIGKILL while ", "worker process 101 has taken over\n", "report:\n",
	} {
		if !strings.Contains(withCrash.stderr, want) {
			t.Errorf("it said\n%swithout %q", withCrash.stderr, want)
		}
	}
	if !strings.HasSuffix(strings.TrimSpace(plain.stdout), "wakepoint-demo-report.md") || strings.Count(plain.stdout, "\n") != 1 {
		t.Errorf("standard output is %q, want the path of the report", plain.stdout)
	}
	if _, err := os.Stat(calm.options.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary data folder is still there: %v", err)
	}
	if report != "# the report\n" {
		t.Errorf("the report is\n%s", report)
	}
}

func TestDemoAsJSON(t *testing.T) {
	t.Parallel()
	got, _ := runDemo(t, t.Context(), demoRun(t, ""), &fakeStack{}, "--crash", "--json")
	var body struct {
		Report, Module, RunID    string
		KilledWorker, NextWorker int
		Tasks                    []struct{ Tool, State, Skipped string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &body); err != nil || got.stderr != "" {
		t.Fatalf("%v: %v", err, got)
	}
	if body.Module != "example.com/small" || body.KilledWorker != 100 || body.NextWorker != 101 || !strings.HasPrefix(body.RunID, "demo-") || len(body.Tasks) != 6 || body.Tasks[0].State != "succeeded" || body.Tasks[4].Skipped == "" ||
		body.Tasks[5].Tool != "report" {
		t.Errorf("it says %+v", body)
	}
}

func TestDemoWithATaskThatFails(t *testing.T) {
	t.Parallel()
	got, report := runDemo(t, t.Context(), demoRun(t, demo.ToolVet), &fakeStack{})
	if got.code != cli.ExitTaskEnded || !strings.Contains(got.stderr, "call go-vet, failed with NO_SPACE: the disk is full, now ") ||
		!strings.HasSuffix(got.stderr, "error: 1 task did not succeed\nhint: read the report: "+strings.TrimSpace(got.stdout)+"\n") || report != "# the report\n" {
		t.Errorf("%v\n%s", got, report)
	}
}

func TestDemoWithoutAReport(t *testing.T) {
	t.Parallel()
	got, report := runDemo(t, t.Context(), demoRun(t, demo.ToolReport), &fakeStack{})
	if got.code != cli.ExitTaskEnded || !strings.Contains(got.stderr, "error: there is no report: NO_SPACE: the disk is full\n") || !strings.Contains(report, "no such file") {
		t.Errorf("%v\n%s", got, report)
	}
}

// TestCrashThatComesTooLateIsSaid: a demo that shows nothing must not look as if
// it did.
func TestCrashThatComesTooLateIsSaid(t *testing.T) {
	t.Parallel()
	f := demoRun(t, "")
	for id, changes := range f.changes {
		if strings.HasPrefix(id, "task-") {
			f.changes[id] = changes[len(changes)-1:]
		}
	}
	s := &fakeStack{}
	got, report := runDemo(t, t.Context(), f, s, "--crash")
	if got.code != cli.ExitFailure || s.killed != 0 || s.stopped != 1 || !strings.Contains(got.stderr, "error: the tools ended before the worker could be killed") {
		t.Errorf("%v", got)
	}
	if !strings.Contains(report, "no such file") {
		t.Errorf("there is a report:\n%s", report)
	}
}

// TestInterruptedDemoLeavesNothingBehind: tools outlive their worker, so a demo
// that is interrupted has to cancel its run and wait for the tasks.
func TestInterruptedDemoLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := demoRun(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	f.hang["demo"] = true
	all := f.runChanges["demo"]
	f.runChanges["demo"] = all[:len(all)-1]
	f.onRunCancel = func(id string) {
		// The run closes first. A task can be cancelled before its workflow closes.
		f.runs[id] = all[len(all)-1].Description
		for _, tool := range demoTools {
			id := "task-" + tool
			d := describe(newTask(t, id, domain.Policy{}, domain.Event{Type: domain.EventCancelRequested}))
			d.Closed = false
			f.tasks[id] = d
		}
	}
	looks := map[string]int{}
	f.onDescribe = func(id string) {
		if looks[id]++; looks[id] == 3 {
			d := f.tasks[id]
			d.Closed = true
			f.tasks[id] = d
		}
	}
	s := &fakeStack{}
	s.onKill = cancel
	got, _ := runDemo(t, ctx, f, s, "--crash")
	if got.code != cli.ExitInterrupted || s.stopped != 1 || !strings.HasSuffix(got.stderr, "error: interrupted; its tools were stopped, nothing is left\n") {
		t.Errorf("%v", got)
	}
	for _, tool := range demoTools {
		if n := looks["task-"+tool]; n != 3 {
			t.Errorf("looked %d times at %s, which had closed at the third", n, tool)
		}
	}
	cancelled := slices.DeleteFunc(got.calls, func(c string) bool {
		return !strings.HasPrefix(c, `cancel-run "demo"`) || !strings.Contains(c, "the demo was interrupted")
	})
	if len(cancelled) != 1 {
		t.Errorf("cancelled %q", cancelled)
	}
}

func TestDemoThatIsKept(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	data := t.TempDir()
	s := &fakeStack{waited: func() error {
		cancel()
		return nil
	}}
	got, _ := runDemo(t, ctx, demoRun(t, ""), s, "--keep", "--data", data)
	want := regexp.MustCompile(`engine and worker stay up until ctrl-c; in another terminal: wakepoint run show demo-[0-9a-f]{8} --data ` + regexp.QuoteMeta(data) + `\nstopping; ctrl-c again kills\n$`)
	if got.code != cli.ExitOK || s.stopped != 1 || !want.MatchString(got.stderr) {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"wakepoint.yaml", "run.yaml"} {
		if _, err := os.Stat(filepath.Join(data, name)); err != nil {
			t.Errorf("the data folder that was given is not kept: %v", err)
		}
	}
	if d := s.options.Durability; d != dev.DurabilityNormal {
		t.Errorf("the durability is %q", d)
	}
}
