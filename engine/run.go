package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	"go.temporal.io/server/temporal"
)

const (
	// startTimeout bounds everything up to the first answer. The usual start takes half a second; the bound is for
	// a disk that hangs.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds the clean stop, which takes seconds unless the machine is starved. The server itself would wait
	// up to five minutes for each service.
	stopTimeout = time.Minute
	// gcPercent lets the heap grow to three times what is in use before a collection, for about a tenth of the
	// processor time; the server makes much short-lived garbage. The GOGC variable of the environment goes before.
	gcPercent = 200
)

// errForced says that a second signal came while the engine was starting or stopping.
var errForced = errors.New("stopped at once by a second signal; what was acknowledged is on the disk")

// signalStop is the cause of a stop by signal.
type signalStop struct{ os.Signal }

func (s signalStop) Error() string { return s.String() }

// errStdinClosed is the cause of a stop by --exit-with-stdin.
var errStdinClosed = errors.New("end of stdin")

// lifecycle carries what ends an engine from outside and from inside.
type lifecycle struct {
	// ctx ends when the engine should stop cleanly; its cause says why.
	ctx context.Context
	// forced is closed when it should stop without waiting.
	forced chan struct{}
	// fatal carries the error after which the server can't go on.
	fatal chan error
}

// newLifecycle watches ctx, the signals, and stdin if asked to. release stops watching.
func newLifecycle(ctx context.Context, stdin io.Reader) (lc *lifecycle, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	lc = &lifecycle{ctx: ctx, forced: make(chan struct{}), fatal: make(chan error, 1)}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(signalStop{s})
		case <-done:
			return
		}
		select {
		case <-signals:
			close(lc.forced)
		case <-done:
		}
	}()
	if stdin != nil {
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // an error ends stdin as well
			cancel(errStdinClosed)
		}()
	}
	return lc, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// abandonedError says that a part of starting or stopping was left behind while it ran. What it touches must not be
// used any more; the process is about to end.
type abandonedError struct{ error }

func (e abandonedError) Unwrap() error { return e.error }

// step runs one part of starting or stopping. It returns early, with an abandonedError, when the part takes too long,
// when the server gives up or when a second signal comes.
func (lc *lifecycle) step(what string, limit time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case err := <-lc.fatal:
		return abandonedError{err}
	case <-lc.forced:
		return abandonedError{errForced}
	case <-timer.C:
		return abandonedError{fmt.Errorf("%s took longer than %s", what, limit)}
	}
}

// instance is one engine from its first file to its last.
type instance struct {
	o      options
	data   *dataFiles
	ports  listeners
	held   *portSet
	level  *slog.LevelVar
	logger *serverLogger
	server temporal.Server
	ui     *uiserver.Server
	ready  Ready
	stdout io.Writer
	stderr io.Writer
}

// startDev runs `server start-dev`.
func startDev(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseStartDev(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, startHelp)
		return nil
	}
	if err != nil {
		return err
	}
	if !o.exitWithStdin {
		stdin = nil
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	lc, release := newLifecycle(ctx, stdin)
	defer release()
	in := &instance{o: o, level: &slog.LevelVar{}, stdout: stdout, stderr: stderr}
	in.level.Set(o.logLevel)
	in.logger = newServerLogger(stderr, in.level, o.logJSON, lc.fatal)
	if in.data, err = openData(o); err != nil {
		return err
	}
	defer in.data.close()
	if err := removeReady(o.readyFile); err != nil { // of an engine that was killed; the lock is ours now
		return err
	}
	return in.live(lc)
}

// live starts the engine, waits for its end and stops it.
func (in *instance) live(lc *lifecycle) error {
	err := lc.step("start", startTimeout, func() error { return in.start(lc.ctx) })
	if err == nil {
		err = in.announce()
	}
	if err == nil {
		select {
		case <-lc.ctx.Done():
		case err = <-lc.fatal:
			err = abandonedError{err}
		}
	} else if lc.ctx.Err() != nil && errors.Is(err, lc.ctx.Err()) {
		err = nil // asked to stop before it was up
	}
	if err == nil {
		fmt.Fprintf(in.stdout, "stopping: %v\n", context.Cause(lc.ctx))
	}
	err = errors.Join(err, removeReady(in.o.readyFile))
	if errors.As(err, new(abandonedError)) {
		return err // a server that gave up can't be asked to stop; the files are in order at any moment
	}
	return errors.Join(err, lc.step("stop", stopTimeout, in.stop))
}

// start brings everything up, in the order in which each part needs the one before.
func (in *instance) start(ctx context.Context) (err error) {
	if in.ports, in.held, err = choosePorts(in.o); err != nil {
		return err
	}
	defer in.held.release()
	in.ready = readyOf(in.o, in.ports, in.data)
	if err := in.data.lock.describe(holder{PID: in.ready.PID, Address: in.ready.FrontendAddress}); err != nil {
		return err
	}
	visibility, main := visibilityDatabase(in.data, in.o), mainDatabase(in.data, in.o)
	if err := in.openDatabases(visibility, main); err != nil {
		return err
	}
	if err := ensureNamespaces(main.sqlConfig(), in.o); err != nil {
		return err
	}
	conf := serverConfig(in.o, in.ports, main.sqlConfig(), visibility.sqlConfig())
	in.held.release()
	server, err := newServer(in.o, in.ports, conf, in.logger)
	if err != nil {
		return err
	}
	in.server = server
	if err := server.Start(); err != nil {
		return fmt.Errorf("start temporal server: %w", err)
	}
	if ui := newUI(in.o, in.ports); ui != nil {
		in.ui = ui
		go func() { _ = ui.Start() }() // ends the process by itself if it can't listen
	}
	return awaitAnswers(ctx, in.ready)
}

// openDatabases makes or checks the two files. The main one is made last: where it exists, the other one did too.
func (in *instance) openDatabases(visibility, main database) error {
	_, statErr := os.Stat(main.path)
	hadMain := statErr == nil
	madeVisibility, err := visibility.ensure()
	if err != nil {
		return err
	}
	if hadMain && madeVisibility {
		fmt.Fprintf(in.stderr, "warning: %s was missing and starts empty: open workflows go on, but lists show them only after their next change\n", visibility.path)
	}
	_, err = main.ensure()
	return err
}

// announce tells people and machines that the engine answers.
func (in *instance) announce() error {
	r := in.ready
	fmt.Fprintln(in.stdout, versionLine())
	line := func(name, value string) { fmt.Fprintf(in.stdout, "%-12s%s\n", name, value) }
	line("server", r.FrontendAddress)
	if r.UIURL != "" {
		note := ""
		if in.ports.uiMoved {
			note = fmt.Sprintf(" (port %d is taken)", in.o.port+uiPortOffset)
		}
		line("ui", r.UIURL+note)
	}
	if r.MetricsURL != "" {
		line("metrics", r.MetricsURL)
	}
	for _, name := range r.Namespaces {
		line("namespace", name)
	}
	where := in.data.shown
	if r.Temporary {
		where += " (temporary, removed at stop)"
	}
	line("data", where)
	line("durability", r.Synchronous+": "+durability[r.Synchronous])
	for _, ip := range []struct {
		is   bool
		name string
	}{{in.o.ip.IsLoopback(), "--ip " + in.o.ip.String()}, {in.o.headless || in.o.uiIP.IsLoopback(), "--ui-ip " + in.o.uiIP.String()}} {
		if !ip.is {
			fmt.Fprintf(in.stderr, "warning: %s: there is no authentication; whoever reaches this address can read and change everything\n", ip.name)
		}
	}
	if in.o.readyFile == "" {
		return nil
	}
	return writeReady(in.o.readyFile, r)
}

// durability says in words what a --synchronous value promises.
var durability = map[string]string{
	syncFull:   "what was acknowledged survives a crash of the process and a power cut",
	syncNormal: "what was acknowledged survives a crash of the process; a power cut may take the last moments",
	syncOff:    "nothing outlives this process",
}

// stop ends what start began, the outside first.
func (in *instance) stop() error {
	if !in.o.logLevelGiven {
		in.level.Set(levelNever) // the server logs each call that the stop cuts off as an error
	}
	if in.ui != nil {
		in.ui.Stop()
	}
	if in.server == nil {
		return nil
	}
	if err := in.server.Stop(); err != nil {
		return fmt.Errorf("stop temporal server: %w", err)
	}
	if in.data.temporary {
		return nil
	}
	return errors.Join(mainDatabase(in.data, in.o).fold(), visibilityDatabase(in.data, in.o).fold())
}
