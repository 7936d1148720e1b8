package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      environ
	deps     deps

	// The flags that every command has.
	json bool
	// The flags of commands that use the configuration or the engine.
	configFile, dataDir                 string
	address, namespace, profile, tenant string
	// local means that the engine is on this machine and needs no credentials.
	local bool

	// ctx gives the context of the run, for what the flags alone decide.
	ctx func() context.Context
	// waits says that the command needs what runs in the data folder.
	waits bool

	// exit is the code of a run that failed in no way of its own.
	exit int

	// mu keeps lines of several goroutines apart; screen, when there is one, is
	// where bars are drawn, and lines go above them.
	mu     sync.Mutex
	screen *term.Screen
}

// deps is what the tests replace.
type deps struct {
	// now is the clock.
	now func() time.Time
	// connect opens the way to the engine.
	connect func(ctx context.Context, a *app, need needs) (*session, error)
	// dir is the current folder, self this program.
	dir, self func() (string, error)
	// zone is where the person sits, for times.
	zone *time.Location
	// signals gives the signals that ask for the end, until it is released.
	signals func() (<-chan os.Signal, func())
	// reach connects doctor to an engine, free says how much of a disk is free.
	reach func(ctx context.Context, e endpoint) (cluster, error)
	free  func(dir string) (uint64, error)
	// start starts an engine and a worker.
	start func(ctx context.Context, o dev.Options) (stack, error)
}

// stack is what the commands need of a [dev.Stack].
type stack interface {
	Info() dev.Info
	Wait(ctx context.Context) error
	KillWorker() (int, error)
	AwaitWorker(ctx context.Context, pid int) (int, error)
	Stop(ctx context.Context) error
}

func realDeps() deps {
	return deps{
		now: time.Now, connect: connect, dir: os.Getwd, self: os.Executable, zone: time.Local, signals: listen, reach: reach, free: freeSpace,
		start: func(ctx context.Context, o dev.Options) (stack, error) { return dev.Start(ctx, o) },
	}
}

// session is an open connection.
type session struct {
	tasks     Tasks
	runs      Runs
	namespace string
	// uiURL is where the Temporal UI is, if that is known.
	uiURL string
	// close ends the connection.
	close func()
}

// environ is an environment.
type environ []string

// Environ and LookupEnv make it what envconfig reads.
func (e environ) Environ() []string { return e }

// LookupEnv finds a variable; the last one of a name counts, as for a process.
func (e environ) LookupEnv(name string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (e environ) get(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

// printJSON writes a value for programs, one line.
func (a *app) printJSON(v any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say writes a line for people to standard error, from any goroutine.
func (a *app) say(format string, args ...any) {
	if !a.json {
		a.line(a.err, fmt.Sprintf(format, args...))
	}
}

// line writes a line, above the bars if there are any.
func (a *app) line(w io.Writer, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.screen != nil {
		a.screen.Print(text)
		return
	}
	fmt.Fprintln(w, text)
}

// show makes a screen the one that lines go above; nil is none any more.
func (a *app) show(s *term.Screen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.screen = s
}

// moment says a time of a task, absolutely and from now; nothing for 0.
func (a *app) moment(ms int64) string {
	if ms == 0 {
		return ""
	}
	at := time.UnixMilli(ms).In(a.deps.zone)
	return term.Moment(at) + " (" + term.Relative(a.deps.now(), at) + ")"
}

// ago says how far a time is from now.
func (a *app) ago(ms int64) string {
	if ms == 0 {
		return ""
	}
	return term.Relative(a.deps.now(), time.UnixMilli(ms))
}

// bars tells whether progress can be drawn on w: a terminal that understands
// how, and nobody who asked for plain text.
func (a *app) bars(w io.Writer) bool {
	_, _, ok := term.Size(w)
	return ok && !a.json && a.env.get("TERM") != "dumb"
}

// logger writes what the client says beside its answers: for people as lines, at
// most one for the same message in a row.
func (a *app) logger() *slog.Logger {
	if a.json {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&noteHandler{say: a.say})
}

// noteHandler prints log records as notes.
type noteHandler struct {
	say   func(format string, args ...any)
	attrs []slog.Attr
}

func (h *noteHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *noteHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(at slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", at.Key, at.Value)
		return true
	}
	for _, at := range h.attrs {
		add(at)
	}
	r.Attrs(add)
	h.say("note: %s", term.Clean(b.String()))
	return nil
}

func (h *noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &noteHandler{say: h.say, attrs: append(append([]slog.Attr{}, h.attrs...), attrs...)}
}

func (h *noteHandler) WithGroup(string) slog.Handler { return h }

// data is the data folder, absolute: that of the flag, of the environment, else
// fallback, which is the configuration's or the usual one.
func (a *app) data(fallback string) (string, error) {
	for _, dir := range []string{a.dataDir, a.env.get(envData), fallback} {
		if dir == "" {
			continue
		}
		if filepath.IsAbs(dir) {
			return filepath.Clean(dir), nil
		}
		wd, err := a.deps.dir()
		return filepath.Join(wd, dir), err
	}
	return "", nil
}

// running is the stack that `wakepoint dev` runs in the data folder, if any. One
// that is starting is waited for, unless an engine was named: the worker of a
// stack that starts is given an address.
func (a *app) running(fallback string) (dev.Info, bool, error) {
	if a.address == "" && a.waits {
		// Only that it has started matters here, not which engine to use.
		return a.stackIn(fallback, defaultAddress)
	}
	dir, err := a.data(fallback)
	if err != nil || dir == "" {
		return dev.Info{}, false, err
	}
	info, ok := dev.Find(dir)
	return info, ok, nil
}

// context is that of the run.
func (a *app) context() context.Context { return a.ctx() }

// search is where engines are looked for.
func (a *app) search() dev.Search {
	self, err := a.deps.self()
	if err != nil {
		self = ""
	} else if plain, err := filepath.EvalSymlinks(self); err == nil {
		self = plain
	}
	return dev.Search{Self: self, Named: a.env.get(envEngine), Path: a.env.get("PATH")}
}

// The environment variables of the commands. Those of the connection are
// Temporal's own.
const (
	envData   = "WAKEPOINT_DATA"
	envConfig = "WAKEPOINT_CONFIG"
	envEngine = dev.EnvEngine
	envUI     = "WAKEPOINT_UI_URL"
)
