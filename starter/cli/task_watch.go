package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) watchCommand() *cobra.Command {
	var cursor int64
	var patience duration
	cmd := &cobra.Command{
		Use: "watch TASK...", Short: "follow tasks until they end", Args: exactly("TASK..."),
		Long: `Follows tasks until all of them have ended: as bars on a terminal, elsewhere one
line for each change. Ctrl-C ends the watching, not the tasks. Restarts of the
engine and of workers are waited for. The exit code is 4 when a task ended
otherwise than succeeded, 7 when the time of --for was over first.`,
		RunE: needing([]string{"for"}, a.with(needs{}, func(ctx context.Context, s *session, args []string) error {
			ids := slices.Clone(args)
			slices.Sort(ids)
			if len(slices.Compact(ids)) < len(args) {
				return usage("", "a task is named twice")
			}
			w := a.newWatcher(a.out, args, cursor)
			w.patience = patience.Duration
			return w.run(ctx, s.tasks)
		})),
	}
	cmd.Flags().Var(&patience, "for", "how long to watch, such as 30s or 5m (default until the end)")
	cmd.Flags().Int64Var(&cursor, "cursor", 0, "only what came after this version of the task")
	return cmd
}

// watcher follows some tasks and shows them.
type watcher struct {
	a      *app
	w      io.Writer
	ids    []string
	names  []string
	cursor int64
	// patience is how long to follow; 0 is until the end.
	patience time.Duration
	// quiet shows nothing at all.
	quiet  bool
	screen *term.Screen
	// last is the newest that is known of each task.
	last []*starter.Change
	errs []error
}

// newWatcher shows tasks on w.
func (a *app) newWatcher(w io.Writer, ids []string, cursor int64) *watcher {
	wt := &watcher{a: a, w: w, cursor: cursor}
	for _, id := range ids {
		wt.add(id, id)
	}
	return wt
}

// add makes it follow one more task, shown under a name.
func (w *watcher) add(name, id string) {
	w.names, w.ids, w.last, w.errs = append(w.names, name), append(w.ids, id), append(w.last, nil), append(w.errs, nil)
}

// news is what a follower of one task has to say.
type news struct {
	i    int
	ch   starter.Change
	err  error
	over bool
}

// redraw is how often times are brought up to date on a terminal.
const redraw = time.Second

// run follows until all tasks have ended. The error says how many of them did
// not succeed, or that the watching was interrupted.
func (w *watcher) run(ctx context.Context, tasks Tasks) error {
	all := make(chan news)
	// When this returns, nobody reads the channel any more.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, id := range w.ids {
		go follow(ctx, tasks, i, id, w.cursor, all)
	}
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	if w.a.bars(w.w) && !w.quiet {
		w.screen = term.NewScreen(w.w)
		w.a.show(w.screen)
	}
	w.draw()
	var over <-chan time.Time
	if w.patience > 0 {
		timer := time.NewTimer(w.patience)
		defer timer.Stop()
		over = timer.C
	}
	for open := len(w.ids); open > 0; {
		select {
		case <-over:
			w.close()
			return w.impatient()
		case n := <-all:
			if n.over {
				open--
			}
			w.take(n)
		case <-ticker.C:
			w.draw()
		case <-ctx.Done():
			w.close()
			return w.interrupted()
		}
	}
	w.close()
	if ctx.Err() != nil {
		return w.interrupted()
	}
	return w.verdict()
}

func follow(ctx context.Context, tasks Tasks, i int, id string, cursor int64, all chan<- news) {
	send := func(n news) bool {
		select {
		case all <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for ch, err := range tasks.Watch(ctx, id, cursor) {
		if !send(news{i: i, ch: ch, err: err}) || err != nil {
			break
		}
	}
	send(news{i: i, over: true})
}

func (w *watcher) take(n news) {
	switch {
	case n.over:
		return
	case n.err != nil:
		w.errs[n.i] = n.err
	default:
		w.last[n.i] = &n.ch
	}
	switch {
	case w.quiet:
	case w.screen != nil:
		w.draw()
	case n.err == nil && w.a.json:
		_ = w.a.printJSON(changeJSON{TaskID: w.ids[n.i], Mode: n.ch.Page.Mode, Events: n.ch.Page.Events, Description: viewOf(n.ch.Description)})
	case n.err == nil:
		w.a.taskLines(w.w, w.names[n.i], n.ch)
	case len(w.ids) > 1:
		// A single one is told of at the end.
		w.a.say("%s: %s", w.names[n.i], term.Clean(n.err.Error()))
	}
}

// changeJSON is a change for programs.
type changeJSON struct {
	TaskID      string              `json:"taskId"`
	Mode        domain.Mode         `json:"mode"`
	Events      []domain.Entry      `json:"events"`
	Description starter.Description `json:"description"`
}

// taskLines writes a line for each event, or one for the state when there is none to
// tell: at the start, and when more happened than a task keeps.
func (a *app) taskLines(to io.Writer, name string, ch starter.Change) {
	if len(ch.Page.Events) == 0 {
		t := ch.Description.Task
		e := join(", ", "now "+string(t.State), percentOf(t), note(ch.Description))
		at := ch.Description.ServerTimeMs
		if t.Version == 0 {
			at = t.CreatedAtMs
		}
		a.line(to, join(" ", name, a.clock(at), fmt.Sprintf("v%d", t.Version), term.Clean(e)))
		return
	}
	for _, e := range ch.Page.Events {
		a.line(to, a.eventLine(name, e))
	}
}

func percentOf(t domain.Task) string {
	if t.State != domain.StateRunning {
		return ""
	}
	return fmt.Sprintf("%d%%", t.Progress)
}

// eventLine is one event of a task.
func (a *app) eventLine(name string, e domain.Entry) string {
	return join(" ", name, a.clock(e.Event.AtMs), fmt.Sprintf("v%d", e.Version), term.Clean(eventText(e.Event)))
}

func (a *app) clock(ms int64) string {
	return time.UnixMilli(ms).In(a.deps.zone).Format("15:04:05")
}

func (w *watcher) draw() {
	if w.screen == nil {
		return
	}
	rows := make([]term.Row, len(w.ids))
	for i := range w.ids {
		rows[i] = term.Row{Name: w.names[i], State: "...", Percent: -1}
		if w.last[i] != nil {
			rows[i] = rowOf(w.names[i], w.last[i].Description)
		}
		if w.errs[i] != nil {
			rows[i].Note = w.errs[i].Error()
		}
	}
	w.screen.Draw(rows)
}

func (w *watcher) close() {
	if w.screen != nil {
		w.draw()
		w.a.show(nil)
		w.screen.Close()
		w.screen = nil
	}
}

func (w *watcher) interrupted() error { return w.stopped(codeInterrupted, "interrupted") }

// impatient is the end of a watch whose time is over.
func (w *watcher) impatient() error {
	return w.stopped(string(starter.CodeWaitTimeout), "the wait of "+config.FormatDuration(w.patience)+" is over")
}

// stopped is the end of a watch before that of its tasks.
func (w *watcher) stopped(code, why string) error {
	left := 0
	for i := range w.ids {
		if w.last[i] == nil || !w.last[i].Description.Task.State.Terminal() {
			left++
		}
	}
	text := why + "; the task goes on"
	if left != 1 {
		text = fmt.Sprintf("%s; %d tasks go on", why, left)
	}
	return &failure{code: code, message: text, hint: "wakepoint task watch " + strings.Join(w.ids, " ")}
}

// verdict is the error of tasks that ended otherwise than hoped for, or could
// not be followed.
func (w *watcher) verdict() error {
	var failed []string
	for i, id := range w.ids {
		if w.errs[i] != nil {
			if len(w.ids) == 1 {
				return w.errs[i]
			}
			failed = append(failed, id)
			continue
		}
		if w.last[i] == nil || w.last[i].Description.Task.State != domain.StateSucceeded {
			failed = append(failed, id)
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case len(w.ids) > 1:
		return errors.Join(&failure{
			code: codeTaskEnded, message: fmt.Sprintf("%d of %s did not succeed: %s", len(failed), term.Count(len(w.ids), "task"), strings.Join(failed, ", ")),
			hint: "wakepoint task show " + failed[0],
		}, errors.Join(w.errs...))
	case w.last[0] == nil:
		// The reader knew the end already: the cursor was the last version.
		return nil
	}
	return ended(w.last[0].Description)
}

// ended is the error of a task that ended otherwise than succeeded.
func ended(d starter.Description) error {
	t := d.Task
	text := fmt.Sprintf("task %s %s", t.ID, map[domain.State]string{
		domain.StateFailed: "failed", domain.StateExpired: "expired", domain.StateCancelled: "was cancelled",
	}[t.State])
	if t.Error != nil && t.State != domain.StateCancelled {
		text += ": " + t.Error.Error()
	}
	return &failure{code: codeTaskEnded, message: text, hint: d.NextStep}
}
