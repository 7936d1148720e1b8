package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	sdkclient "go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/worker"
)

// tryFlags are those of tools test.
type tryFlags struct {
	input      string
	inputGiven bool
	args       []string
	timeout    duration
}

func (a *app) tryCommand() *cobra.Command {
	var f tryFlags
	cmd := &cobra.Command{
		Use: "test TOOL", Short: "run a tool once, without a task", Args: exactly("TOOL"), ValidArgsFunction: a.completeTools,
		Long: `Runs a tool once by the executor that a worker would use, without a task: prints what
the executor promises, follows the job to its end, and prints the result, or why there
is none. The work is really done. Nothing is tried again and nothing is kept. Ctrl-C
asks the job to end.

Commands and services need no engine. Activities and workflows of other workers run
in Temporal, so those need one, and the worker. A tool that is external cannot be run
from here: its work begins outside.`,
		Example: `  wakepoint tools test go-test --arg package=./domain
  wakepoint tools test render --input @scene.json --timeout 5m --json`,
		PreRun: func(cmd *cobra.Command, _ []string) { f.inputGiven = cmd.Flags().Changed("input") },
		RunE: needing([]string{"timeout"}, func(cmd *cobra.Command, args []string) error {
			return a.try(cmd.Context(), args[0], f)
		}),
	}
	a.engineFlags(cmd.Flags())
	fl := cmd.Flags()
	fl.StringVarP(&f.input, "input", "i", "", "input as JSON, @FILE, or - for standard input")
	fl.StringArrayVarP(&f.args, "arg", "a", nil, "one field of the input: NAME=TEXT or NAME:=JSON (may be repeated)")
	fl.Var(&f.timeout, "timeout", "how long to wait for the end, such as 30s or 5m (default the tool's ttl)")
	return cmd
}

func (a *app) try(ctx context.Context, name string, f tryFlags) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	t, err := declared(cfg, name)
	if err != nil {
		return err
	}
	if err := triable(t); err != nil {
		return err
	}
	input, err := a.tryInput(f)
	if err != nil {
		return err
	}
	if err := t.ValidateInput(input); err != nil {
		return err
	}
	o, end, err := a.tryOptions(ctx, cfg, t)
	if err != nil {
		return err
	}
	defer end()
	trial, err := worker.NewTrial(ctx, o, t.Name)
	if err != nil {
		return &failure{code: codeConfig, message: err.Error(), hint: "mend the tool; " + docsConfig, cause: err}
	}
	// What is left of a job that goes on is left to it.
	defer func() { _ = trial.Close() }()
	a.tryIntroduction(t, trial)
	within := cmp.Or(f.timeout.Duration, t.TTL)
	show := a.tryWatcher(t)
	tried, err := trial.Run(ctx, input, within, show.step)
	show.close()
	return a.tryEnd(ctx, t, trial, tried, err)
}

// triable refuses what has no executor in this program.
func triable(t config.Tool) error {
	switch {
	case t.Executor == config.ExecutorExternal:
		return usage("try it as a task: wakepoint task submit "+t.Name+", then bring news as the outside would: wakepoint task callback",
			"there is nothing to run: the work of tool %s begins outside, and the outside calls back", t.Name)
	case t.Go == nil && !slices.Contains(ownExecutors, t.Executor):
		return usage("try it as a task, with that program as the worker: wakepoint task submit "+t.Name+" --wait",
			"the executor %s of tool %s belongs to another program", t.Executor, t.Name)
	}
	return nil
}

func (a *app) tryInput(f tryFlags) (json.RawMessage, error) {
	switch {
	case f.inputGiven && len(f.args) > 0:
		return nil, usage("give the whole input by one of them", "--input and --arg exclude each other")
	case f.inputGiven:
		return a.jsonContent("--input", f.input, domain.MaxBody)
	case len(f.args) > 0:
		return argsInput(f.args)
	}
	return json.RawMessage("{}"), nil
}

// tryOptions connects to the engine only for a tool that runs there.
func (a *app) tryOptions(ctx context.Context, cfg *config.Config, t config.Tool) (worker.Options, func(), error) {
	o := worker.Options{Config: cfg, Getenv: a.env.get, Logger: slog.New(slog.DiscardHandler)}
	self, err := a.deps.self()
	if err != nil {
		return o, nil, err
	}
	o.SupervisorArgv = []string{self, worker.SuperviseArgument}
	if !worker.NeedsTemporal(t) {
		return o, func() {}, nil
	}
	a.waits = true
	e, err := a.endpoint(cfg.DataDir)
	if err != nil {
		return o, nil, err
	}
	var c sdkclient.Client
	if c, err = e.dial(ctx, o.Logger); err != nil {
		return o, nil, err
	}
	o.Temporal = c
	a.say("engine: %s (from %s), namespace %s", e.options.HostPort, e.from, e.options.Namespace)
	return o, c.Close, nil
}

// tryIntroduction says what can be expected.
func (a *app) tryIntroduction(t config.Tool, trial *worker.Trial) {
	a.say("tool %s is run once by the executor %s, without a task", t.Name, t.Executor)
	for _, line := range worker.Words(trial.Promises()) {
		a.say("  %s", line)
	}
	switch {
	case t.Activity != nil:
		a.say("note: the activity %s runs in Temporal by itself; the worker of task queue %s has to take it", t.Activity.Type, t.Activity.TaskQueue)
	case t.Workflow != nil:
		a.say("note: the workflow %s runs in Temporal and stays in its lists; the worker of task queue %s has to take it", t.Workflow.Type, t.Workflow.TaskQueue)
	case t.Go != nil:
		a.say("note: the function %s runs where a worker of task queue %s has it", t.Go.Function, t.TaskQueue)
	case t.HTTP != nil && t.HTTP.Callback:
		a.say("note: callbacks of the service are not received here; the job is looked at, if that is possible")
	}
	if t.Policy.Effects == domain.EffectsUnsafe {
		a.say("note: its effects are declared unsafe, and this does its work")
	}
	if t.SubmitQueue() != "" {
		a.say("note: maxConcurrent and rate do not hold here")
	}
}

// tryWatcher shows how the job goes: a bar on a terminal, else a line a change.
type tryWatcher struct {
	a      *app
	name   string
	screen *term.Screen
	last   string
}

func (a *app) tryWatcher(t config.Tool) *tryWatcher {
	w := &tryWatcher{a: a, name: t.Name}
	if a.bars(a.err) {
		w.screen = term.NewScreen(a.err)
		a.show(w.screen)
	}
	return w
}

func (w *tryWatcher) step(s worker.Step) {
	if s.Look == nil {
		w.a.say("%s", term.Clean(s.Note))
		return
	}
	r := term.Row{Name: w.name, State: string(s.Look.State), Percent: -1, Note: join(", ", s.Look.Stage, s.Look.Worker)}
	if s.Look.Progress != nil {
		r.Percent = *s.Look.Progress
	}
	if w.screen != nil {
		w.screen.Draw([]term.Row{r})
		return
	}
	percent := ""
	if r.Percent >= 0 {
		percent = fmt.Sprintf("%d%%", r.Percent)
	}
	if line := join(", ", r.State, percent, r.Note); line != w.last {
		w.last = line
		w.a.say("%s", term.Clean(line))
	}
}

func (w *tryWatcher) close() {
	if w.screen != nil {
		w.screen.Close()
		w.a.show(nil)
	}
}

// triedJSON is what `wakepoint tools test --json` prints.
type triedJSON struct {
	Tool     string `json:"tool"`
	Executor string `json:"executor"`
	// Promises are the executor's, in the words of the wire.
	Promises any `json:"promises"`
	worker.Tried
	// Result is the result if it is JSON, Text if it is other text.
	Result json.RawMessage `json:"result,omitempty"`
	Text   string          `json:"text,omitempty"`
	Stderr string          `json:"stderr,omitempty"`
	// Problem says why the end was not seen, or the result not read.
	Problem string `json:"problem,omitempty"`
}

// tryEnd prints the result, or says why there is none.
func (a *app) tryEnd(ctx context.Context, t config.Tool, trial *worker.Trial, tried worker.Tried, err error) error {
	ended := a.tryFailure(ctx, t, tried, err)
	if a.json {
		out := triedJSON{Tool: t.Name, Executor: t.Executor, Promises: trial.Promises(), Tried: tried, Stderr: string(tried.Stderr)}
		switch {
		case json.Valid(tried.Result):
			out.Result = tried.Result
		case utf8.Valid(tried.Result):
			out.Text = string(tried.Result)
		}
		if ended != nil {
			a.exit = ended.exit()
		}
		if err != nil {
			out.Problem = err.Error()
		}
		return a.printJSON(out)
	}
	if ended != nil {
		return ended
	}
	if _, err := a.out.Write(tried.Result); err != nil {
		return err
	}
	if _, _, terminal := term.Size(a.out); terminal && len(tried.Result) > 0 && tried.Result[len(tried.Result)-1] != '\n' {
		fmt.Fprintln(a.out)
	}
	cut := ""
	if tried.Truncated {
		cut = ", cut off: the tool wrote more"
	}
	a.say("succeeded in %s: %s of %s%s", term.Duration(ms(tried.TookMs)), term.Bytes(tried.Bytes), tried.ContentType, cut)
	return nil
}

// tryFailure is nil when the tool succeeded and its result is there.
func (a *app) tryFailure(ctx context.Context, t config.Tool, tried worker.Tried, err error) *failure {
	left := "; the job has not ended, and may go on"
	if tried.State.Terminal() {
		left = "; the job has ended: " + string(tried.State)
	}
	if tried.Job == "" {
		left = ""
	}
	var tail []string
	if len(tried.Stderr) > 0 {
		tail = strings.Split(strings.TrimRight(string(tried.Stderr), "\n"), "\n")
	}
	after := " after " + term.Duration(ms(tried.TookMs))
	switch {
	case ctx.Err() != nil:
		return failf(codeInterrupted, "", "interrupted%s", left)
	case err != nil:
		return &failure{code: codeTaskEnded, message: "tool " + t.Name + ": " + err.Error() + left, tail: tail, cause: err}
	case tried.State == "succeeded":
		return nil
	case tried.Error == nil:
		return &failure{code: codeTaskEnded, message: fmt.Sprintf("tool %s: %s%s", t.Name, tried.State, after), tail: tail}
	}
	again := "another attempt would end the same way"
	if tried.Error.Retryable {
		again = "another attempt may end otherwise"
	}
	return &failure{
		code: codeTaskEnded, tail: tail, hint: again,
		message: fmt.Sprintf("tool %s: %s%s: %s: %s", t.Name, tried.State, after, tried.Error.Code, tried.Error.Message),
	}
}
