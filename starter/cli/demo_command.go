package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
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
		Use: "demo [DIR]", Short: "do real work on a Go source tree as durable tasks", Args: atMost(1),
		Long: `Starts an engine and a worker and has real tools work on a Go source tree as durable
tasks: go vet, go test, gofmt, a count of the code, a summary of the git history.
No network is needed. Shows them live and writes a report.

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
	// tasks are the ids of the steps that are not skipped, at their places.
	tasks []string
	crash *crash
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
	outcomes, err := d.work(ctx)
	if err != nil {
		return d.giveUp(ctx, err)
	}
	if err := d.write(outcomes); err != nil {
		return err
	}
	if err := d.tell(outcomes); err != nil || !f.keep {
		return err
	}
	a.say("engine and worker stay up until ctrl-c; in another terminal: wakepoint task list --data %s", dir)
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

// work submits the steps and follows them to their ends.
func (d *demonstration) work(ctx context.Context) ([]demo.Outcome, error) {
	w := d.a.newWatcher(d.a.err, nil, 0)
	w.quiet = d.a.json
	input, err := json.Marshal(demo.Input{Dir: d.tree.Dir, Exclude: []string{d.report}})
	if err != nil {
		return nil, err
	}
	d.tasks = make([]string, len(d.steps))
	// The ids are chosen here, so that a task whose submission was interrupted
	// half way is known too.
	run := uuid.NewString()[:8]
	for i, step := range d.steps {
		if step.Skip != "" {
			d.a.say("skipped %s: %s", step.Tool, step.Skip)
			continue
		}
		d.tasks[i] = "demo-" + run + "-" + step.Tool
		if _, err := d.s.tasks.Submit(ctx, starter.Submission{Tool: step.Tool, TaskID: d.tasks[i], Title: step.Title, Input: input}); err != nil {
			return nil, err
		}
		w.add(step.Tool, d.tasks[i])
	}
	if d.f.crash {
		d.crash = newCrash(d.stack, w)
	}
	err = w.run(ctx, d.s.tasks)
	var f *failure
	switch {
	case errors.As(err, &f) && f.code == codeTaskEnded:
	case err != nil:
		return nil, err
	}
	if err := d.crash.result(ctx); err != nil {
		return nil, err
	}
	return d.outcomes(ctx, w)
}

func (d *demonstration) outcomes(ctx context.Context, w *watcher) ([]demo.Outcome, error) {
	var outcomes []demo.Outcome
	for i, step := range d.steps {
		o := demo.Outcome{Step: step}
		if step.Skip == "" {
			desc, err := w.lastOf(d.tasks[i])
			if err != nil {
				return nil, err
			}
			t := desc.Task
			o.State, o.Took = string(t.State), ms(t.EndedAtMs-t.CreatedAtMs)
			if t.Error != nil {
				o.Error = t.Error.Error()
			}
			if t.State == domain.StateSucceeded {
				if o.Result, err = d.result(ctx, t.ID); err != nil {
					return nil, err
				}
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
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

func (d *demonstration) write(outcomes []demo.Outcome) error {
	var b bytes.Buffer
	if err := demo.Report(&b, d.tree, outcomes); err != nil {
		return err
	}
	const ordinary = 0o644
	if err := os.WriteFile(d.report, b.Bytes(), ordinary); err != nil {
		return &failure{code: codeFailure, message: "write the report: " + err.Error(), hint: "name another file with --report", cause: err}
	}
	return nil
}

// demoJSON is what `wakepoint demo --json` prints.
type demoJSON struct {
	Report string     `json:"report"`
	Tree   string     `json:"tree"`
	Module string     `json:"module"`
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

// tell says where the report is. The error says how many tasks did not succeed.
func (d *demonstration) tell(outcomes []demo.Outcome) error {
	out := demoJSON{Report: d.report, Tree: d.tree.Dir, Module: d.tree.Module}
	out.KilledWorker, out.NextWorker = d.crash.pids()
	failed := 0
	for i, o := range outcomes {
		if o.Skip == "" && o.State != string(domain.StateSucceeded) {
			failed++
		}
		out.Tasks = append(out.Tasks, stepJSON{
			Tool: o.Tool, TaskID: d.tasks[i], State: o.State, Skipped: o.Skip, TookMs: o.Took.Milliseconds(), Error: o.Error, Result: o.Result,
		})
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
	d.a.say("stopping the tools")
	left := 0
	for _, id := range d.tasks {
		if id == "" {
			continue
		}
		_, err := d.s.tasks.Cancel(ctx, id, protocol.Cancel{Reason: "the demo was interrupted", By: "wakepoint demo"})
		if err == nil {
			err = d.closed(ctx, id)
		}
		if err != nil && !errors.Is(err, starter.ErrUnknownTask) {
			left++
		}
	}
	switch {
	case left > 0:
		return failf(codeFailure, "look for processes of "+commandTool, "the demo was given up, and %s may still run", term.Count(left, "tool"))
	case interrupted:
		text := "interrupted; its tools were stopped"
		if d.temporary {
			text += ", nothing is left"
		}
		return failf(codeInterrupted, "", "%s", text)
	}
	return before
}

// closed waits until the workflow of a task has closed. A task can be cancelled
// before that, while its tool is still being told.
func (d *demonstration) closed(ctx context.Context, taskID string) error {
	for {
		desc, err := d.s.tasks.Describe(ctx, taskID)
		if err != nil || desc.Closed {
			return err
		}
		select {
		case <-time.After(closedPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
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
