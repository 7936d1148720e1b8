package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
)

// runStartFlags are those of run start.
type runStartFlags struct {
	file, input string
	labels      []string
	ttl         duration
	limits      limitFlags
	wait        bool
	patience    duration
	s           starter.RunStart
}

func (a *app) runStartCommand() *cobra.Command {
	var f runStartFlags
	cmd := &cobra.Command{
		Use: "start [RUNTIME]", Short: "start a run of an agent, or one that follows a file", Args: atMost(1),
		Long: `Starts a run of a declared runtime, or with -f one that follows a file and needs no
agent, and prints its id. That it was accepted does not mean that it is done: watch
it, or give --wait.

With --key the same start is the same run, however often it is sent; the same key
with something else is refused. Limits can be lower than the declared ones.`,
		Example: `  wakepoint run start assistant --input '"book me a trip"'
  wakepoint run start -f run.yaml --wait
  id=$(wakepoint run start assistant --key order-4711 --max-steps 20)`,
		ValidArgsFunction: a.completeRuntimes,
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.file, "file", "f", "", "file with the calls of the run, or - for standard input")
	fl.StringVarP(&f.input, "input", "i", "", "the first thing that is said to it, as JSON, @FILE, or - for standard input")
	fl.StringVar(&f.s.IdempotencyKey, "key", "", "idempotency key")
	fl.StringVar(&f.s.RunID, "id", "", "id of your own for the run")
	fl.StringVar(&f.s.Title, "title", "", "title for people")
	fl.Var(&f.ttl, "ttl", "time to live, such as 30m, 12h or 3d (default the runtime's)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label NAME=TEXT (may be repeated)")
	fl.StringVar(&f.s.RuntimeVersion, "runtime-version", "", "only a runtime of this version takes its steps (default the declared one)")
	f.limits.add(cmd)
	fl.BoolVarP(&f.wait, "wait", "w", false, "wait for the end, and exit with 4 when it is no success")
	fl.Var(&f.patience, "for", "with --wait: how long, such as 30s or 5m; then exit with 7, and the run goes on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, limitNames("file", "input", "key", "id", "title", "ttl", "runtime-version", "for")...); err != nil {
			return err
		}
		if err := a.prepareRun(cmd, &f, args); err != nil {
			return err
		}
		return a.with(needs{secret: f.s.IdempotencyKey != ""}, func(ctx context.Context, s *session, _ []string) error {
			return a.startRun(ctx, s, f)
		})(cmd, args)
	}
	return cmd
}

// prepareRun reads what the command line names.
func (a *app) prepareRun(cmd *cobra.Command, f *runStartFlags, args []string) (err error) {
	given := cmd.Flags().Changed
	hint := "usage: " + cmd.UseLine()
	switch {
	case f.patience.Duration > 0 && !f.wait:
		return usage("give --wait too", "--for needs --wait")
	case len(args) == 0 && f.file == "":
		return usage(hint+", or -f FILE; list the runtimes: wakepoint runtimes", "argument RUNTIME is missing")
	case len(args) > 0 && f.file != "":
		return usage("what the file says is done without an agent", "a runtime and --file exclude each other")
	case f.file != "" && (given("input") || given("runtime-version")):
		return usage("write it into the file", "--input and --runtime-version go with a runtime")
	}
	if f.s.Labels, err = pairs("--label", f.labels); err != nil {
		return err
	}
	f.s.TTL, f.s.Limits = f.ttl.Duration, f.limits.given()
	if f.file != "" {
		return a.preparePlan(f)
	}
	f.s.Runtime = args[0]
	if given("input") {
		f.s.Input, err = a.jsonContent("--input", f.input, run.MaxInput)
	}
	return err
}

// preparePlan reads the file; what the flags say comes before what it says.
func (a *app) preparePlan(f *runStartFlags) error {
	p, err := a.loadPlan(f.file)
	if err != nil {
		return planError(err)
	}
	a.waits = true
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := p.Check(cfg); err != nil {
		return planError(err)
	}
	s := planStart(p)
	f.s.Plan, f.s.Title, f.s.TTL = s.Plan, cmp.Or(f.s.Title, s.Title), cmp.Or(f.s.TTL, s.TTL)
	labels := s.Labels
	maps.Copy(labels, f.s.Labels)
	f.s.Labels = labels
	if l := f.s.Limits; l != nil {
		l.MaxSteps, l.MaxCalls, l.MaxOpenCalls = cmp.Or(l.MaxSteps, p.Limits.MaxSteps), cmp.Or(l.MaxCalls, p.Limits.MaxCalls), cmp.Or(l.MaxOpenCalls, p.Limits.MaxOpenCalls)
		l.MaxTokens, l.MaxCostUSD = cmp.Or(l.MaxTokens, p.Limits.MaxTokens), cmp.Or(l.MaxCostUSD, p.Limits.MaxCostUSD)
	} else {
		f.s.Limits = s.Limits
	}
	return nil
}

// planStart is the start of a run that follows a file.
func planStart(p *config.Plan) starter.RunStart {
	s := starter.RunStart{Plan: p.Calls, Title: p.Title, TTL: p.TTL, Labels: map[string]string{}}
	maps.Copy(s.Labels, p.Labels)
	if p.Limits != (run.Limits{}) {
		s.Limits = &p.Limits
	}
	return s
}

func (a *app) loadPlan(file string) (*config.Plan, error) {
	if file == "-" {
		b, err := io.ReadAll(io.LimitReader(a.in, config.MaxFile+1))
		if err != nil {
			return nil, err
		}
		return config.ParsePlan("standard input", b)
	}
	path := file
	if !filepath.IsAbs(path) {
		wd, err := a.deps.dir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(wd, path)
	}
	p, err := config.LoadPlan(path)
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("name the file of the run", "there is no file %s", file)
	case errors.As(err, &at):
		return nil, usage("name the file of the run", "read %s: %s", file, at.Err.Error())
	}
	return p, err
}

// planError says where the keys of such a file are told.
func planError(err error) error {
	var broken config.Errors
	if !errors.As(err, &broken) {
		return err
	}
	return &failure{code: codeConfig, message: broken.Error(), hint: "mend the file; docs/runs.md lists its keys", cause: err}
}

func (a *app) startRun(ctx context.Context, s *session, f runStartFlags) error {
	started, err := s.runs.StartRun(ctx, f.s)
	if err != nil {
		return err
	}
	if !f.wait {
		if a.json {
			return a.printJSON(started)
		}
		a.runAccepted(s, started)
		follow := "watch"
		if started.State == run.StateSucceeded {
			follow = "result"
		}
		a.say("hint: wakepoint run %s %s", follow, started.RunID)
		return nil
	}
	return a.startRunAndWait(ctx, s, started, f.patience.Duration)
}

// runAccepted prints the id to standard output, alone, for scripts.
func (a *app) runAccepted(s *session, started starter.RunStarted) {
	fmt.Fprintln(a.out, started.RunID)
	switch {
	case !started.Existing:
		a.say("accepted, not done yet")
	case started.State == "":
		a.say("accepted before")
	default:
		a.say("accepted before, it %s", starter.RunStanding(started.State))
	}
	if link := s.link(started.WorkflowID, ""); link != "" {
		a.say("temporal ui: %s", link)
	}
}

func (a *app) startRunAndWait(ctx context.Context, s *session, started starter.RunStarted, patience time.Duration) error {
	if !a.json {
		a.runAccepted(s, started)
	}
	// The progress is beside the result, which is the id.
	w := a.newRunWatcher(a.err, started.RunID)
	w.quiet, w.patience = a.json, patience
	err := w.run(ctx, s)
	if a.json && w.last != nil {
		if err := a.printJSON(runViewOf(w.last.Description)); err != nil {
			return err
		}
	}
	return err
}

// runJSON is a run for programs: what it said and what it answered stand beside the
// record, where they are as our own programs keep them.
type runJSON struct {
	starter.RunDescription
	Outputs []outputJSON    `json:"outputs,omitempty"`
	Final   json.RawMessage `json:"final,omitempty"`
}

type outputJSON struct {
	Step    int             `json:"step"`
	AtMs    int64           `json:"atMs"`
	Content json.RawMessage `json:"content"`
}

// runViewOf is a description for programs, without the history: the events of a run are
// told once, where they happen.
func runViewOf(d starter.RunDescription) runJSON {
	d.Run.History = []run.Entry{}
	return runWhole(d)
}

func runWhole(d starter.RunDescription) runJSON {
	v := runJSON{RunDescription: d, Outputs: outputsJSON(d.Run.Outputs)}
	if f := d.Run.Final; f != nil && json.Valid(f.Data) {
		v.Final = f.Data
	}
	return v
}

func outputsJSON(outputs []run.Output) []outputJSON {
	var list []outputJSON
	for _, o := range outputs {
		if json.Valid(o.Content) {
			list = append(list, outputJSON{Step: o.Step, AtMs: o.AtMs, Content: o.Content})
		}
	}
	return list
}
