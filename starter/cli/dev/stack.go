package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Options say what a stack consists of.
type Options struct {
	// DataDir is the data folder, made if missing. Required.
	DataDir string
	// Engine is what [Search.Engine] found. Required.
	Engine Engine
	// Port of the engine; 0 is any free one, [PortDefault] the usual one if it is
	// free. Default: 0.
	Port int
	// UIPort of the Temporal UI; 0 is any free one, [PortDefault] that of the
	// engine and 1000 if it is free. Default: 0.
	UIPort int
	// Namespace to work in. Default: "default".
	Namespace string
	// Durability of the engine: full or normal. Default: full.
	Durability string
	// LogLevel of the engine: debug, info, warn or error. Default: its own.
	LogLevel string
	// Config is the file with the tools, for [Info]. Default: none.
	Config string
	// Worker makes the command line of the worker for the given stack; the worker
	// writes its pid as JSON to readyFile once it works, and ends when its
	// standard input ends. Nil means no worker.
	Worker func(info Info, readyFile string) []string
	// Leash is the command line that runs what is appended to it by [Leash].
	// Required for an engine of [KindTemporal].
	Leash []string
	// Env is the environment of both children.
	Env []string
	// Dial tells whether the engine at an address answers. Required.
	Dial func(ctx context.Context, address string) error
	// Prepare is called once, when the engine answers, before the worker starts.
	// Default: nothing.
	Prepare func(ctx context.Context, info Info) error
	// Notify is told what happens to the children, from several goroutines.
	// Default: nobody.
	Notify func(Event)
	// Backoff between starts of a child that dies.
	Backoff Backoff
	// Patience is how long a child may take to answer. Default: 60 s.
	Patience time.Duration
	// Handover is how long an engine that a killed process left behind may take to
	// let go of the data. Default: 30 s.
	Handover time.Duration
	// Grace is how long a child has to end when asked to; the embedded engine
	// itself gives up after 20 s. Default: 25 s.
	Grace time.Duration
	// Watch is how often it is looked whether the data folder is still there.
	// Default: 2 s.
	Watch time.Duration
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Durability == "" {
		o.Durability = DurabilityFull
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	if o.Prepare == nil {
		o.Prepare = func(context.Context, Info) error { return nil }
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if o.Handover == 0 {
		o.Handover = 30 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 25 * time.Second
	}
	if o.Watch == 0 {
		o.Watch = 2 * time.Second
	}
	o.Backoff = o.Backoff.withDefaults()
	return o
}

func (o Options) validate() error {
	switch {
	case o.DataDir == "":
		return errors.New("dataDir must be set")
	case o.Dial == nil:
		return errors.New("dial must be set")
	case o.Durability != DurabilityFull && o.Durability != DurabilityNormal:
		return fmt.Errorf("durability must be %s or %s, not %q", DurabilityFull, DurabilityNormal, o.Durability)
	case o.Port < PortDefault || o.Port > 65535:
		return fmt.Errorf("port must be 0 (any free one) to 65535, it is %d", o.Port)
	case o.UIPort < PortDefault || o.UIPort > 65535:
		return fmt.Errorf("uiPort must be 0 (any free one) to 65535, it is %d", o.UIPort)
	case o.Engine.Kind == KindTemporal && len(o.Leash) == 0:
		return errors.New("leash must be set for a temporal command")
	}
	return nil
}

// ErrNotReached is that an engine outside does not answer.
var ErrNotReached = errors.New("the engine does not answer")

// Stack is an engine and a worker that are kept running.
type Stack struct {
	o    Options
	lock *lock
	info Info

	engine, worker *keeper
	// stopEngine and stopWorker ask the keepers to end.
	stopEngine, stopWorker context.CancelFunc
	hurry                  chan struct{}
	stop                   sync.Once
	stopErr                error
}

// Start brings everything up and returns when the worker works. An error means
// that nothing runs any more.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.DataDir, err = filepath.Abs(o.DataDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	s := &Stack{o: o, hurry: make(chan struct{})}
	if s.lock, err = takeLock(o.DataDir); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	if err := remove(filepath.Join(s.o.DataDir, infoFile)); err != nil {
		return err
	}
	s.info = Info{
		PID: os.Getpid(), Namespace: s.o.Namespace, DataDir: s.o.DataDir, Config: s.o.Config,
		Engine: s.o.Engine.Kind, EngineVersion: s.o.Engine.Version,
	}
	if err := s.startEngine(ctx); err != nil {
		return err
	}
	if err := s.o.Prepare(ctx, s.info); err != nil {
		return err
	}
	if s.o.Worker != nil {
		if err := s.startWorker(ctx); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(s.o.DataDir, infoFile), s.info)
}

func (s *Stack) startEngine(ctx context.Context) error {
	if s.o.Engine.Kind == KindOutside {
		s.info.Address = s.o.Engine.Address
		if err := s.o.Dial(ctx, s.info.Address); err != nil {
			return fmt.Errorf("%w at %s: %w", ErrNotReached, s.info.Address, err)
		}
		return nil
	}
	p := &engineProgram{
		Engine: s.o.Engine, dataDir: s.o.DataDir, namespace: s.o.Namespace, durability: s.o.Durability,
		self: s.o.Leash, env: s.o.Env, dial: s.o.Dial, logLevel: s.o.LogLevel,
	}
	if err := p.choosePorts(s.o.Port, s.o.UIPort); err != nil {
		return err
	}
	handover := time.Now().Add(s.o.Handover)
	s.engine = s.keeper("engine", p.command, p.answers)
	s.engine.final = func(exit *ExitError, ready bool) bool {
		// The lock of the folder is ours, so whoever still has the engine's data is
		// the engine of a process that was killed, and is about to end.
		waits := p.Kind == KindOwn && exit.Code == exitInUse && time.Now().Before(handover)
		return !ready && !waits
	}
	s.stopEngine = s.run(s.engine)
	if err := s.up(ctx, s.engine); err != nil {
		return err
	}
	s.info.Address, s.info.UIURL, s.info.Durability = p.address(), p.uiURL(), s.o.Durability
	if p.Kind == KindTemporal {
		s.info.Durability = ""
	}
	return nil
}

func (s *Stack) startWorker(ctx context.Context) error {
	path := filepath.Join(s.o.DataDir, workerReadyFile)
	argv := s.o.Worker(s.info, path)
	command := func() (*exec.Cmd, error) {
		if err := remove(path); err != nil {
			return nil, err
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = s.o.Env
		return cmd, nil
	}
	s.worker = s.keeper("worker", command, func(ctx context.Context, pid int) error {
		var r ready
		return poll(ctx, func() bool { return readReady(path, pid, &r) })
	})
	// One that never worked will not work the next time; one that did, will.
	s.worker.final = func(_ *ExitError, ready bool) bool { return !ready }
	s.stopWorker = s.run(s.worker)
	return s.up(ctx, s.worker)
}

func (s *Stack) keeper(name string, command func() (*exec.Cmd, error), answers func(context.Context, int) error) *keeper {
	return &keeper{
		name: name, command: command, answers: answers, patience: s.o.Patience, grace: s.o.Grace, backoff: s.o.Backoff,
		notify: s.o.Notify, up: make(chan struct{}), over: make(chan struct{}), change: make(chan struct{}), hurry: s.hurry,
	}
}

// run starts a keeper. Its context is not that of the caller: what ends the
// caller must end the children in order, not both at once.
func (s *Stack) run(k *keeper) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	go k.run(ctx)
	return cancel
}

// up waits for the first answer of a child.
func (s *Stack) up(ctx context.Context, k *keeper) error {
	select {
	case <-k.up:
		return nil
	case <-k.over:
		return k.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Info says where everything is.
func (s *Stack) Info() Info { return s.info }

// ErrFolderLost is that the data folder of a running stack was removed or
// replaced: what the children write is lost, and nobody finds them any more.
var ErrFolderLost = errors.New("the data folder was removed or replaced while it was in use")

// Wait returns when ctx ends, or with the reason when a child was given up or the
// data folder is gone.
func (s *Stack) Wait(ctx context.Context) error {
	var engine, worker <-chan struct{}
	if s.engine != nil {
		engine = s.engine.over
	}
	if s.worker != nil {
		worker = s.worker.over
	}
	ticker := time.NewTicker(s.o.Watch)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-engine:
			return s.engine.err
		case <-worker:
			return s.worker.err
		case <-ticker.C:
			if !s.lock.ours() {
				return fmt.Errorf("%w: %s", ErrFolderLost, s.o.DataDir)
			}
		}
	}
}

// ErrNoWorker is that a stack has no worker process at the moment.
var ErrNoWorker = errors.New("no worker process runs")

// KillWorker ends the worker's process by SIGKILL and gives its pid. Another one
// is started; [Stack.AwaitWorker] waits for it.
func (s *Stack) KillWorker() (int, error) {
	if s.worker != nil {
		if pid := s.worker.kill(); pid != 0 {
			return pid, nil
		}
	}
	return 0, ErrNoWorker
}

// AwaitWorker waits for a worker that works in another process than pid, and
// gives its pid.
func (s *Stack) AwaitWorker(ctx context.Context, pid int) (int, error) {
	if s.worker == nil {
		return 0, ErrNoWorker
	}
	return s.worker.awaitOther(ctx, pid)
}

// Stop ends the worker, then the engine, and lets go of the data folder. When
// ctx ends, what still runs is killed. A second call gives the same answer.
func (s *Stack) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		defer context.AfterFunc(ctx, func() { close(s.hurry) })()
		if s.worker != nil {
			s.stopWorker()
			<-s.worker.over
		}
		if s.engine != nil {
			s.stopEngine()
			<-s.engine.over
		}
		// The files of another folder in the same place are somebody else's.
		if s.lock.ours() {
			s.stopErr = errors.Join(
				remove(filepath.Join(s.o.DataDir, infoFile)),
				remove(filepath.Join(s.o.DataDir, workerReadyFile)),
				remove(filepath.Join(s.o.DataDir, engineReadyFile)),
			)
		}
		s.lock.release()
	})
	return s.stopErr
}
