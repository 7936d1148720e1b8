package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func (a *app) runWatchCommand() *cobra.Command {
	var cursor int64
	var patience duration
	var tasks bool
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "follow a run until it ends", Args: exactly("RUN"),
		Long: `Follows a run until it has ended: on a terminal with a bar for each open call,
elsewhere one line for each change. What the run says is shown as it says it. Ctrl-C
ends the watching, not the run. Restarts of the engine and of workers are waited for.
The exit code is 4 when the run ended otherwise than succeeded, 7 when the time of
--for was over first.`,
		RunE: needing([]string{"for"}, a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			w := a.newRunWatcher(a.out, args[0])
			w.cursor, w.patience, w.tasks = cursor, patience.Duration, tasks
			return w.run(ctx, s)
		})),
	}
	cmd.Flags().Var(&patience, "for", "how long to watch, such as 30s or 5m (default until the end)")
	cmd.Flags().Int64Var(&cursor, "cursor", 0, "only what came after this version of the run")
	cmd.Flags().BoolVar(&tasks, "tasks", false, "also the changes of its tasks")
	return cmd
}

// runWatcher follows a run and the tasks of its calls, and shows them.
type runWatcher struct {
	a *app
	w io.Writer
	// id is the run's, name what it is called in lines.
	id, name string
	cursor   int64
	// patience is how long to follow; 0 is until the end.
	patience time.Duration
	// quiet shows nothing at all, tasks tells of the changes of tasks too.
	quiet, tasks bool
	screen       *term.Screen

	// last is the newest that is known of the run, err why no more is.
	last  *starter.RunChange
	err   error
	calls []*watchedCall
	// told is the newest step whose output was shown.
	told int
	// hint is what the runtime said last about the step that is out.
	hint string

	// onCall is told of every call that has got its task, onTask of every change of a
	// task.
	onCall func(c run.Call)
	onTask func(name string, ch starter.Change)
}

// watchedCall is a call that was seen, and its task.
type watchedCall struct {
	run.Call
	task     *starter.Change
	err      error
	followed bool
}

func (a *app) newRunWatcher(w io.Writer, runID string) *runWatcher {
	return &runWatcher{a: a, w: w, id: runID, name: runID, onCall: func(run.Call) {}, onTask: func(string, starter.Change) {}}
}

// runNews is what the followers of a run and of its tasks have to say.
type runNews struct {
	run  *starter.RunChange
	call *watchedCall
	task *starter.Change
	err  error
	over bool
}

// lingering is how long the last words of tasks are waited for when their run has ended.
// They have ended before it.
const lingering = 5 * time.Second

// run follows until the run has ended. The error says how it ended, if not well, or that
// the watching was interrupted.
func (w *runWatcher) run(ctx context.Context, s *session) error {
	all := make(chan runNews)
	// When this returns, nobody reads the channel any more.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go w.followRun(ctx, s.runs, all)
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	if w.a.bars(w.w) && !w.quiet {
		w.screen = term.NewScreen(w.w)
		w.a.show(w.screen)
	}
	defer w.close()
	w.draw()
	var over, linger <-chan time.Time
	if w.patience > 0 {
		timer := time.NewTimer(w.patience)
		defer timer.Stop()
		over = timer.C
	}
	for open := 1; open > 0; {
		select {
		case <-over:
			return w.stopped(string(starter.CodeWaitTimeout), "the wait of "+config.FormatDuration(w.patience)+" is over")
		case n := <-all:
			open += w.take(ctx, s, n, all)
			if n.run == nil && n.call == nil && n.over {
				timer := time.NewTimer(lingering)
				defer timer.Stop()
				linger, over = timer.C, nil
			}
		case <-linger:
			open = 0
		case <-ticker.C:
			w.draw()
		case <-ctx.Done():
			return w.stopped(codeInterrupted, "interrupted")
		}
	}
	if ctx.Err() != nil {
		return w.stopped(codeInterrupted, "interrupted")
	}
	return w.verdict()
}

func (w *runWatcher) followRun(ctx context.Context, runs Runs, all chan<- runNews) {
	for ch, err := range runs.WatchRun(ctx, w.id, w.cursor) {
		if !tell(ctx, all, runNews{run: &ch, err: err}) || err != nil {
			break
		}
	}
	tell(ctx, all, runNews{over: true})
}

func followTask(ctx context.Context, tasks Tasks, c *watchedCall, taskID string, all chan<- runNews) {
	for ch, err := range tasks.Watch(ctx, taskID, 0) {
		if !tell(ctx, all, runNews{call: c, task: &ch, err: err}) || err != nil {
			break
		}
	}
	tell(ctx, all, runNews{call: c, over: true})
}

func tell(ctx context.Context, all chan<- runNews, n runNews) bool {
	select {
	case all <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// take takes news in and shows it. It gives how many more followers there are.
func (w *runWatcher) take(ctx context.Context, s *session, n runNews, all chan<- runNews) int {
	switch {
	case n.over:
		return -1
	case n.call != nil && n.err != nil:
		n.call.err = n.err
	case n.call != nil:
		n.call.task = n.task
		w.onTask(w.callName(n.call.Call), *n.task)
		if w.screen == nil && w.tasks && !w.quiet && !w.a.json {
			w.a.taskLines(w.w, w.callName(n.call.Call), *n.task)
		}
	case n.err != nil:
		w.err = n.err
	default:
		more := w.takeRun(*n.run)
		for _, c := range more {
			go followTask(ctx, s.tasks, c, c.TaskID, all)
		}
		return len(more)
	}
	w.draw()
	return 0
}

// takeRun takes a change of the run. It gives the calls whose tasks are to be followed
// from now on.
func (w *runWatcher) takeRun(ch starter.RunChange) []*watchedCall {
	first := w.last == nil
	w.last = &ch
	r := ch.Description.Run
	if first && w.cursor > 0 && len(ch.Page.Events) > 0 {
		// What was said before the cursor the reader knows.
		for _, o := range ch.Page.Outputs {
			if o.AtMs < ch.Page.Events[0].AtMs {
				w.told = o.Step
			}
		}
	}
	if w.hint = ""; len(ch.Description.Delta) > 0 {
		w.hint = string(ch.Description.Delta)
	}
	fresh := w.fresh(ch.Page.Outputs)
	switch {
	case w.quiet:
	case w.a.json:
		_ = w.a.printJSON(runChangeJSON{
			RunID: w.id, Mode: ch.Page.Mode, Events: ch.Page.Events, Outputs: outputsJSON(fresh), Delta: ch.Delta, Description: runViewOf(ch.Description),
		})
	default:
		w.lines(ch, fresh)
	}
	var more []*watchedCall
	for _, calls := range [][]run.Call{r.Done, r.Calls} {
		for _, c := range calls {
			if w.meet(c) {
				more = append(more, w.calls[w.index(c.Key)])
			}
		}
	}
	w.draw()
	return more
}

// meet notes a call, and tells whether its task is to be followed from now on.
func (w *runWatcher) meet(c run.Call) bool {
	i := w.index(c.Key)
	if i < 0 {
		w.calls = append(w.calls, &watchedCall{})
		i = len(w.calls) - 1
	}
	w.calls[i].Call = c
	if c.TaskID == "" || w.calls[i].followed {
		return false
	}
	w.calls[i].followed = true
	w.onCall(c)
	// Nothing else is shown of tasks than their bars and lines.
	return w.screen != nil || w.tasks
}

func (w *runWatcher) index(k run.Key) int {
	return slices.IndexFunc(w.calls, func(c *watchedCall) bool { return c.Key == k })
}

// fresh are the outputs that were not shown yet.
func (w *runWatcher) fresh(outputs []run.Output) []run.Output {
	var list []run.Output
	for _, o := range outputs {
		if o.Step > w.told {
			list = append(list, o)
			w.told = o.Step
		}
	}
	return list
}

// runChangeJSON is a change for programs.
type runChangeJSON struct {
	RunID       string       `json:"runId"`
	Mode        domain.Mode  `json:"mode"`
	Events      []run.Entry  `json:"events"`
	Outputs     []outputJSON `json:"outputs,omitempty"`
	Delta       rawJSON      `json:"delta,omitempty"`
	Description runJSON      `json:"description"`
}

// lines writes a line for each event, or one for the state when there is none to tell;
// on a terminal only what the run says.
func (w *runWatcher) lines(ch starter.RunChange, fresh []run.Output) {
	say := func(atMs int64, version int64, text string) {
		v := ""
		if version >= 0 {
			v = fmt.Sprintf("v%d", version)
		}
		w.a.line(w.w, join(" ", w.name, w.a.clock(atMs), v, term.Clean(text)))
	}
	said := func(upTo int) {
		for len(fresh) > 0 && fresh[0].Step <= upTo {
			say(fresh[0].AtMs, -1, "says "+words(fresh[0].Content))
			fresh = fresh[1:]
		}
	}
	r := ch.Description.Run
	switch {
	case w.screen != nil:
	case len(ch.Page.Events) == 0 && len(ch.Delta) > 0 && ch.Page.Mode == domain.ModeCaughtUp:
		say(ch.Description.ServerTimeMs, -1, "hint "+words(ch.Delta))
	case len(ch.Page.Events) == 0:
		at := ch.Description.ServerTimeMs
		if r.Version == 0 {
			at = r.CreatedAtMs
		}
		say(at, r.Version, join(", ", "now "+string(r.State), prefixed("waits for ", ch.Description.WaitsFor)))
	default:
		for _, e := range ch.Page.Events {
			say(e.AtMs, e.Version, entryText(e, r))
			if e.Event == string(run.EventCommit) {
				said(e.Step)
			}
		}
	}
	said(r.StepsDone + 1)
}

// entryText is one event of a run in words. How a call ended stands with the call.
func entryText(e run.Entry, r run.Run) string {
	what := e.Event
	if string(e.Reason) != e.Event {
		what += ": " + string(e.Reason)
	}
	step := ""
	if e.Step > 0 {
		step = fmt.Sprintf("step %d", e.Step)
	}
	how := ""
	c, known := r.Find(run.Key{Step: e.Step, ID: e.ToolCallID})
	switch {
	case e.Event != string(run.EventCallEnded):
	case e.Reason == run.ReasonInput:
		how = "its late end is an input now"
	case known && e.Reason == run.ReasonCallEnded:
		how = string(c.State)
		if c.Error != nil {
			how += " with " + c.Error.Error()
		}
	}
	return join(", ", what, step, prefixed("call ", e.ToolCallID), how, prefixed("by ", e.By), e.Text, "now "+string(e.State))
}

// draw shows the run and the calls of its newest step, and older ones that are open.
func (w *runWatcher) draw() {
	if w.screen == nil {
		return
	}
	row := term.Row{Name: w.name, State: "...", Percent: -1}
	if w.last != nil {
		d := w.last.Description
		row.State = string(d.Run.State)
		row.Note = join(", ", fmt.Sprintf("step %d", d.Run.StepsDone+1), prefixed("waits for ", d.WaitsFor), w.hint)
		if d.Run.State.Terminal() {
			row.Note = runNote(d)
		}
	}
	if w.err != nil {
		row.Note = w.err.Error()
	}
	rows := []term.Row{row}
	newest, ended := 0, 0
	for _, c := range w.calls {
		newest = max(newest, c.Step)
	}
	for _, c := range w.calls {
		if c.Step != newest && c.State.Ended() {
			continue
		}
		rows = append(rows, w.row(c))
		if c.State.Ended() {
			ended++
		}
	}
	// What an agent will ask for yet nobody knows; a plan is known.
	if w.last != nil && w.last.Description.Runtime.Mode == protocol.ModePlan && len(rows) > 1 {
		rows[0].Percent = 100 * ended / (len(rows) - 1)
	}
	w.screen.Draw(rows)
}

// runNote says how a run ended.
func runNote(d starter.RunDescription) string {
	if d.Run.Error != nil {
		return d.Run.Error.Error()
	}
	return "in " + term.Duration(ms(d.Run.EndedAtMs-d.Run.CreatedAtMs))
}

func (w *runWatcher) row(c *watchedCall) term.Row {
	name := w.callName(c.Call)
	if c.task != nil && (c.task.Description.Task.State.Terminal() == c.State.Ended() || c.State == run.CallOpen) {
		return rowOf(name, c.task.Description)
	}
	r := term.Row{Name: name, State: string(c.Phase()), Percent: -1, Note: callNote(c.Call)}
	if c.err != nil {
		r.Note = c.err.Error()
	}
	return r
}

// callNote is what there is to say about a call beside its task.
func callNote(c run.Call) string {
	switch c.State {
	case run.CallBlocked:
		return "waits for other calls"
	case run.CallApproval:
		return "a person has to approve it"
	case run.CallAsking:
		return join(": ", "a person has to answer it", c.Title)
	case run.CallOpen:
		return prefixed("run ", c.SubRunID)
	case run.CallReady, run.CallSucceeded, run.CallFailed, run.CallExpired, run.CallCancelled, run.CallSkipped, run.CallDenied:
	}
	if c.Error != nil {
		return c.Error.Error()
	}
	return ""
}

// callName is what a call is called: its id, which another step may have used too.
func (w *runWatcher) callName(c run.Call) string {
	for _, o := range w.calls {
		if o.ID == c.ID && o.Step != c.Step {
			return fmt.Sprintf("%s (step %d)", c.ID, c.Step)
		}
	}
	return c.ID
}

func (w *runWatcher) close() {
	if w.screen != nil {
		w.draw()
		w.a.show(nil)
		w.screen.Close()
		w.screen = nil
	}
}

// stopped is the end of a watch before that of its run.
func (w *runWatcher) stopped(code, why string) error {
	return &failure{code: code, message: why + "; the run goes on", hint: "wakepoint run watch " + w.id}
}

// verdict is the error of a run that ended otherwise than hoped for, or could not be
// followed.
func (w *runWatcher) verdict() error {
	switch {
	case w.err != nil:
		return w.err
	case w.last == nil || w.last.Description.Run.State == run.StateSucceeded:
		// Without news the reader knew the end already: the cursor was the last version.
		return nil
	}
	return runEnded(w.last.Description)
}

// runEnded is the error of a run that ended otherwise than succeeded.
func runEnded(d starter.RunDescription) error {
	r := d.Run
	text := fmt.Sprintf("run %s %s", r.ID, starter.RunStanding(r.State))
	if r.Error != nil {
		text += ": " + r.Error.Error()
	}
	return &failure{code: codeRunEnded, message: text, hint: d.NextStep}
}
