package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// demoFlags are those of demo.
type demoFlags struct {
	stackFlags
	dir, report string
	crash, keep bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo [DIR]", Short: "do real work on a Go source tree as one durable run", Args: atMost(1),
		Long: `Starts an engine and a worker and has real tools work on a Go source tree, as one
durable run: go vet, go test, gofmt, a count of the code and a summary of the git
history at the same time, then a report about what all of them have found. No network
is needed. Shows them live. The file of the run lies in the data folder.

With --crash the worker is killed by SIGKILL in the middle of the work, and another
one takes over: the report is the same, but for durations. DIR is the root of a Go
module (default the one around the current folder, else around this program).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.dir = args[0]
			}
			return a.demo(cmd.Context(), f)
		},
	}
	a.stackFlags(cmd, &f.stackFlags, 0)
	fl := cmd.Flags()
	fl.BoolVar(&f.crash, "crash", false, "kill the worker in the middle of the work")
	fl.BoolVar(&f.keep, "keep", false, "keep engine, worker and data at the end, until ctrl-c")
	fl.StringVar(&f.report, "report", "wakepoint-demo-report.md", "file of the report")
	fl.StringVar(&a.dataDir, "data", "", "data folder (default a temporary one, removed at the end)")
	return cmd
}

// demonstration is one run of the demo.
type demonstration struct {
	a      *app
	f      demoFlags
	tree   demo.Tree
	report string
	steps  []demo.Step
	stack  stack
	s      *session
	// temporary says that the data folder goes with the demo.
	temporary bool
	// plan is what the run does, runID its id once it may have been started.
	plan  *config.Plan
	runID string
	crash *crash
}

// demoStep is a call of the run, and what came of it.
type demoStep struct {
	demo.Step
	call run.Call
	took time.Duration
	// result is what the tool wrote, if it succeeded.
	result []byte
}

func (a *app) demo(ctx context.Context, f demoFlags) (err error) {
	d := &demonstration{a: a, f: f}
	if err := d.look(ctx); err != nil {
		return err
	}
	dir, remove, err := d.dataFolder()
	if err != nil {
		return err
	}
	defer remove()
	if err := d.start(ctx, dir); err != nil {
		return err
	}
	defer func() { err = a.stopStack(ctx, d.stack, err) }()
	if d.s, err = a.deps.connect(ctx, a, needs{results: true}); err != nil {
		return err
	}
	defer d.s.close()
	steps, err := d.work(ctx)
	if err != nil {
		return d.giveUp(ctx, err)
	}
	if err := d.write(steps); err != nil {
		return err
	}
	if err := d.tell(steps); err != nil || !f.keep {
		return err
	}
	a.say("engine and worker stay up until ctrl-c; in another terminal: wakepoint run show %s --data %s", d.runID, dir)
	return d.stack.Wait(ctx)
}

// look finds out what there is to do, before anything is started.
func (d *demonstration) look(ctx context.Context) (err error) {
	wd, err := d.a.deps.dir()
	if err != nil {
		return err
	}
	self, err := d.a.deps.self()
	if err != nil {
		return err
	}
	if d.f.dir != "" && !filepath.IsAbs(d.f.dir) {
		d.f.dir = filepath.Join(wd, d.f.dir)
	}
	if d.tree, err = demo.FindTree(d.f.dir, wd, filepath.Dir(self)); err != nil {
		return err
	}
	if d.report = d.f.report; !filepath.IsAbs(d.report) {
		d.report = filepath.Join(wd, d.report)
	}
	if info, err := os.Stat(filepath.Dir(d.report)); err != nil || !info.IsDir() {
		return usage("name another file with --report", "there is no folder for the report %s", d.report)
	}
	d.steps = demo.Plan(ctx, d.tree, d.a.env)
	return nil
}

// dataFolder is the folder of the flag, or a temporary one.
func (d *demonstration) dataFolder() (dir string, remove func(), err error) {
	if d.a.dataDir != "" {
		dir, err = d.a.data("")
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		return dir, func() {}, err
	}
	if dir, err = os.MkdirTemp("", "wakepoint-demo-"); err != nil {
		return "", nil, err
	}
	d.a.dataDir, d.temporary = dir, true
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// start declares the tools in the data folder, and starts engine and worker.
func (d *demonstration) start(ctx context.Context, dir string) error {
	self, err := d.a.deps.self()
	if err != nil {
		return err
	}
	d.a.configFile = filepath.Join(dir, config.FileName)
	if err := os.WriteFile(d.a.configFile, demo.Config([]string{self, commandTool}), 0o600); err != nil {
		return err
	}
	cfg, err := d.a.config()
	if err != nil {
		return err
	}
	if err := d.writePlan(dir, cfg); err != nil {
		return err
	}
	o, err := d.a.stackOptions(ctx, cfg, d.f.stackFlags)
	if err != nil {
		return err
	}
	o.Notify = d.event
	d.a.say("starting engine and worker")
	if d.stack, err = d.a.deps.start(ctx, o); err != nil {
		return err
	}
	info := d.stack.Info()
	// From here on this run is a client of its own engine, whatever the environment says.
	d.a.address, d.a.namespace = info.Address, info.Namespace
	if d.a.env.get(envUI) == "" {
		d.a.env = append(d.a.env, envUI+"="+info.UIURL)
	}
	d.a.say("source tree: %s (%s)", d.tree.Dir, d.tree.Module)
	if info.UIURL != "" {
		d.a.say("temporal ui: %s/namespaces/%s/workflows", info.UIURL, info.Namespace)
	}
	return nil
}

// writePlan writes the file of the run and reads it, as anybody's.
func (d *demonstration) writePlan(dir string, cfg *config.Config) error {
	b, err := demo.RunFile(d.tree, d.steps, []string{d.report})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	if d.plan, err = config.LoadPlan(file); err != nil {
		return err
	}
	return d.plan.Check(cfg)
}

// work starts the run and follows it to its end.
func (d *demonstration) work(ctx context.Context) ([]demoStep, error) {
	for _, step := range d.steps {
		if step.Skip != "" {
			d.a.say("skipped %s: %s", step.Tool, step.Skip)
		}
	}
	start := planStart(d.plan)
	// The id is chosen here, so that a run whose start was interrupted half way is known
	// too.
	start.RunID = "demo-" + uuid.NewString()[:8]
	d.runID = start.RunID
	started, err := d.s.runs.StartRun(ctx, start)
	if err != nil {
		return nil, err
	}
	d.a.say("run: %s", join(" ", d.runID, d.s.link(started.WorkflowID, "")))
	w := d.a.newRunWatcher(d.a.err, d.runID)
	w.name, w.quiet, w.tasks = "run", d.a.json, true
	w.onCall = func(c run.Call) {
		// The tenant of the demo's own configuration is the default one.
		d.a.say("task of %s: %s", c.ID, join(" ", c.TaskID, d.s.taskLink(config.DefaultTenant, c.TaskID)))
	}
	if d.f.crash {
		d.crash = newCrash(d.stack, d.a.say)
		w.onTask = d.crash.seen
	}
	err = w.run(ctx, d.s)
	var f *failure
	switch {
	case errors.As(err, &f) && f.code == codeRunEnded:
	case err != nil:
		return nil, err
	}
	if err := d.crash.result(ctx); err != nil {
		return nil, err
	}
	return d.outcomes(ctx, w)
}

// outcomes are the steps, and the report as the last one.
func (d *demonstration) outcomes(ctx context.Context, w *runWatcher) ([]demoStep, error) {
	var steps []demoStep
	for _, step := range append(d.steps, demo.Step{Tool: demo.ToolReport, Title: "report about what was found"}) {
		o := demoStep{Step: step}
		i := slices.IndexFunc(w.calls, func(c *watchedCall) bool { return c.ID == step.Tool })
		switch {
		case step.Skip != "":
			steps = append(steps, o)
			continue
		case i < 0:
			return nil, fmt.Errorf("nothing was heard of call %s", step.Tool)
		}
		o.call = w.calls[i].Call
		if t := w.calls[i].task; t != nil {
			o.took = ms(t.Description.Task.EndedAtMs - t.Description.Task.CreatedAtMs)
		}
		if o.call.State == run.CallSucceeded {
			var err error
			if o.result, err = d.result(ctx, o.call.TaskID); err != nil {
				return nil, err
			}
		}
		steps = append(steps, o)
	}
	return steps, nil
}

func (d *demonstration) result(ctx context.Context, taskID string) ([]byte, error) {
	_, reader, err := d.s.tasks.Result(ctx, taskID, false)
	if err != nil {
		return nil, err
	}
	r, err := reader.Open(ctx)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// write writes the report to its file: the result of the last call.
func (d *demonstration) write(steps []demoStep) error {
	report := steps[len(steps)-1]
	if report.result == nil {
		text := "there is no report"
		if report.call.Error != nil {
			text += ": " + report.call.Error.Error()
		}
		return failf(codeRunEnded, "keep the data to look at the run: wakepoint demo --keep --data DIR", "%s", text)
	}
	const ordinary = 0o644
	if err := os.WriteFile(d.report, report.result, ordinary); err != nil {
		return &failure{code: codeFailure, message: "write the report: " + err.Error(), hint: "name another file with --report", cause: err}
	}
	return nil
}

// demoJSON is what `wakepoint demo --json` prints.
type demoJSON struct {
	Report string     `json:"report"`
	Tree   string     `json:"tree"`
	Module string     `json:"module"`
	RunID  string     `json:"runId"`
	Tasks  []stepJSON `json:"tasks"`
	// KilledWorker and NextWorker are processes, with --crash.
	KilledWorker int `json:"killedWorker,omitempty"`
	NextWorker   int `json:"nextWorker,omitempty"`
}

type stepJSON struct {
	Tool    string          `json:"tool"`
	TaskID  string          `json:"taskId,omitempty"`
	State   string          `json:"state,omitempty"`
	Skipped string          `json:"skipped,omitempty"`
	TookMs  int64           `json:"tookMs,omitempty"`
	Error   string          `json:"error,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// tell says where the report is. The error says how many calls did not succeed.
func (d *demonstration) tell(steps []demoStep) error {
	out := demoJSON{Report: d.report, Tree: d.tree.Dir, Module: d.tree.Module, RunID: d.runID}
	out.KilledWorker, out.NextWorker = d.crash.pids()
	failed := 0
	for _, o := range steps {
		if o.Skip == "" && o.call.State != run.CallSucceeded {
			failed++
		}
		one := stepJSON{Tool: o.Tool, TaskID: o.call.TaskID, State: string(o.call.State), Skipped: o.Skip, TookMs: o.took.Milliseconds()}
		if o.call.Error != nil {
			one.Error = o.call.Error.Error()
		}
		if o.Tool != demo.ToolReport {
			one.Result = o.result
		}
		out.Tasks = append(out.Tasks, one)
	}
	if d.a.json {
		if err := d.a.printJSON(out); err != nil {
			return err
		}
	} else {
		d.a.say("report:")
		fmt.Fprintln(d.a.out, d.report)
	}
	if failed == 0 {
		return nil
	}
	return failf(codeTaskEnded, "read the report: "+d.report, "%s did not succeed", term.Count(failed, "task"))
}

// cleanUpTime bounds how long tools have to stop when the demo is interrupted:
// more than it takes to tell them, and to kill them when they don't listen.
const cleanUpTime = 30 * time.Second

// giveUp cancels what runs and waits for it to stop: tools outlive their worker,
// and the demo leaves nothing behind. It gives the error to end with.
func (d *demonstration) giveUp(ctx context.Context, before error) error {
	interrupted := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	if d.runID == "" {
		return before
	}
	d.a.say("stopping the tools")
	left, err := d.stop(ctx)
	switch {
	case err != nil || left > 0:
		return failf(codeFailure, "look for processes of "+commandTool, "the demo was given up, and %s may still run", term.Count(max(left, 1), "tool"))
	case interrupted:
		text := "interrupted; its tools were stopped"
		if d.temporary {
			text += ", nothing is left"
		}
		return failf(codeInterrupted, "", "%s", text)
	}
	return before
}

// stop cancels the run and waits until its tasks have closed; it gives how many have
// not. A task can be cancelled before that, while its tool is still being told.
func (d *demonstration) stop(ctx context.Context) (left int, err error) {
	_, err = d.s.runs.CancelRun(ctx, d.runID, protocol.Cancel{Reason: "the demo was interrupted", By: "wakepoint demo"})
	if err != nil && !errors.Is(err, starter.ErrUnknownRun) {
		return 0, err
	}
	var desc starter.RunDescription
	for !desc.Closed {
		// A worker may be on its way: the question is put again until the time is over.
		switch desc, err = d.s.runs.DescribeRun(ctx, d.runID); {
		case errors.Is(err, starter.ErrUnknownRun):
			return 0, nil
		case desc.Closed:
		default:
			if stop := wait(ctx, closedPause); stop != nil {
				return 0, cmp.Or(err, stop)
			}
		}
	}
	for _, calls := range [][]run.Call{desc.Run.Done, desc.Run.Calls} {
		for _, c := range calls {
			if c.TaskID != "" && d.closed(ctx, c.TaskID) != nil {
				left++
			}
		}
	}
	return left, nil
}

// closed waits until the workflow of a task has closed.
func (d *demonstration) closed(ctx context.Context, taskID string) error {
	for {
		desc, err := d.s.tasks.Describe(ctx, taskID)
		if err != nil || desc.Closed {
			return err
		}
		if err := wait(ctx, closedPause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closedPause lies between two looks at a task that is closing.
const closedPause = 100 * time.Millisecond

// event says what happens to the children, where it is not expected.
func (d *demonstration) event(e dev.Event) {
	if e.What == dev.Died && (e.Child == "engine" || !d.f.crash) {
		d.a.tellEvent(e)
	}
}
