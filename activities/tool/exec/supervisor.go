package exec

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The variables that every run has.
const (
	envTaskID        = envPrefix + "TASK_ID"
	envAttempt       = envPrefix + "ATTEMPT"
	envSubmissionKey = envPrefix + "SUBMISSION_KEY"
	envInput         = envPrefix + "INPUT"
	envResult        = envPrefix + "RESULT"
	envToken         = envPrefix + "RUN_TOKEN"
)

const (
	// superviseTick is how often the supervisor looks for a cancel request and at the deadline.
	superviseTick = 100 * time.Millisecond
	// groupTick is how often it looks whether the group is gone, once it should be.
	groupTick = 20 * time.Millisecond
	// drainTime is how long output is still read after the whole group is gone. Only a process
	// that left the group can still hold the pipe.
	drainTime = time.Second
	// lockTick is how often it tries to take the lock, which a probe may hold for a moment.
	lockTick = 5 * time.Millisecond
	// fullDiskTick is how often it tries to write down the end while the disk is full.
	fullDiskTick = time.Second
)

// crash is where a test kills the process to see what its successor makes of it; the names are
// in the tests.
var crash = func(point string) {}

// SupervisorMain is the supervisor's process: the program calls it with the arguments after its
// hidden sub-command and exits with the answer. It must be called on a goroutine that does nothing
// else, normally the main one. What it has to say goes to its standard error, which is a file of
// the run.
func SupervisorMain(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "the supervisor takes one argument, the folder of a run; it is started by the worker, not by hand")
		return 2
	}
	if err := supervise(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// supervisor runs one run of a tool.
type supervisor struct {
	dir      string
	req      runRequest
	identity identity
	progress *progressWriter
	out, err *streamReader

	terminated chan os.Signal
	overLimit  chan struct{}

	cmd       *osexec.Cmd
	exited    chan error
	endedBy   string
	killAt    time.Time
	leftovers int
	startedAt time.Time
}

func supervise(dir string) error {
	// The kernel ends the tool when the thread that forked it ends.
	runtime.LockOSThread()
	s := &supervisor{dir: dir, terminated: make(chan os.Signal, 1), overLimit: make(chan struct{}, 2), exited: make(chan error, 1)}
	signal.Notify(s.terminated, syscall.SIGTERM)
	// Caught and dropped, not ignored: the tool would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)

	if found, err := readJSON(filepath.Join(dir, requestFile), &s.req); err != nil || !found {
		return fmt.Errorf("read the request: found %v, %w", found, err)
	}
	crash("supervisor before lock")
	lock, err := s.takeCharge()
	if err != nil || lock == nil {
		return err
	}
	defer lock.release()
	crash("supervisor after lock")
	if err := s.identify(nil); err != nil {
		return fmt.Errorf("write the identity: %w", err)
	}
	crash("supervisor after identity")
	return s.finish(s.run())
}

// takeCharge takes the key's lock. It answers nil when the run is not to be started: it was called
// off, or another supervisor is in charge of it.
func (s *supervisor) takeCharge() (lock *fileLock, err error) {
	limit := time.Duration(s.req.AckTimeoutMs) * time.Millisecond
	settled := poll(lockTick, limit, func() bool {
		lock, err = tryLock(filepath.Join(filepath.Dir(s.dir), lockFile))
		if err != nil && !errors.Is(err, errLocked) {
			return true
		}
		var taken bool
		taken, err = runIsTaken(s.dir)
		if lock != nil && (taken || err != nil) {
			lock.release()
			lock = nil
		}
		return lock != nil || taken || err != nil
	})
	if !settled {
		err = errors.New("the key is locked, and whoever started this run has given it up by now")
	}
	return lock, err
}

// runIsTaken reports whether the run has begun or has been called off. It is final when the
// caller holds the key's lock.
func runIsTaken(dir string) (bool, error) {
	for _, name := range []string{identityFile, statusFile} {
		if there, err := exists(filepath.Join(dir, name)); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// identify writes down who runs what, before anybody can need to know.
func (s *supervisor) identify(toolID *processID) error {
	me, err := self()
	if err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	s.identity = identity{Version: layoutVersion, BootID: boot, Supervisor: me, Tool: toolID}
	return writeJSON(filepath.Join(s.dir, identityFile), s.identity, true)
}

// run takes the tool from its start to its end.
func (s *supervisor) run() status {
	if s.cancelRequested() {
		return status{NotStarted: "cancelled before the start", EndedBy: endedByCancel}
	}
	if s.deadlinePassed() {
		return status{NotStarted: "the deadline passed before the start", EndedBy: endedByDeadline}
	}
	if err := s.start(); err != nil {
		return status{StartError: err.Error()}
	}
	s.watch()
	s.endLeftovers()
	for _, r := range []*streamReader{s.out, s.err} {
		r.drain(drainTime)
	}
	s.progress.flush()
	_ = s.cmd.Wait() // the exit status is in ProcessState
	st := status{
		EndedBy:     s.endedBy,
		StartedAtMs: s.startedAt.UnixMilli(),
		Stdout:      s.out.log.close(),
		Stderr:      s.err.log.close(),
		Leftovers:   s.leftovers,
	}
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		st.Signal = int(ws.Signal())
	} else {
		st.ExitCode = s.cmd.ProcessState.ExitCode()
	}
	return st
}

// start starts the tool and writes down who it is.
func (s *supervisor) start() error {
	input, err := os.Open(filepath.Join(s.dir, inputFile))
	if err != nil {
		return err
	}
	defer func() { _ = input.Close() }()
	s.progress = newProgressWriter(filepath.Join(s.dir, progressFile))
	outEnd, err := s.openStreams()
	if err != nil {
		return err
	}
	s.cmd = &osexec.Cmd{
		Path: s.req.Argv[0],
		Args: s.req.Argv,
		Dir:  s.req.Dir,
		Env: append(os.Environ(),
			envTaskID+"="+s.req.TaskID,
			fmt.Sprintf("%s=%d", envAttempt, s.req.Attempt),
			envSubmissionKey+"="+s.req.SubmissionKey,
			envInput+"="+filepath.Join(s.dir, inputFile),
			envResult+"="+filepath.Join(s.dir, resultFile),
			envToken+"="+s.req.Token,
			"PWD="+s.req.Dir,
		),
		Stdin:       input,
		Stdout:      outEnd[0],
		Stderr:      outEnd[1],
		SysProcAttr: toolAttr(),
	}
	crash("supervisor before start")
	err = s.cmd.Start()
	for _, f := range outEnd {
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	crash("supervisor after start")
	s.startedAt = time.Now()
	pid := s.cmd.Process.Pid
	go func() { s.exited <- awaitExit(pid) }()
	leader, _ := lookProcess(pid) // there, if only as a zombie: it has not been reaped
	if err := s.identify(&leader.processID); err != nil {
		// Unrecorded it could not be found again after our death.
		signalGroup(pid, syscall.SIGKILL)
		fmt.Fprintln(os.Stderr, "ended the tool, for its identity could not be written:", err)
	}
	crash("supervisor after tool identity")
	return nil
}

// openStreams makes the pipes and begins to read them; it answers with the tool's ends.
func (s *supervisor) openStreams() ([]*os.File, error) {
	onLimit := func() {
		if s.req.OnOutputLimit == FailOnOutput {
			s.overLimit <- struct{}{} // at most once per stream, and the channel holds two
		}
	}
	var ends []*os.File
	for _, stream := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		reader := newStreamReader(r, newLogWriter(s.dir, stream, s.req.MaxOutputBytes, onLimit))
		if stream == "stdout" {
			reader.filter = &controlFilter{output: reader.log.write, control: s.progress.set}
			s.out = reader
		} else {
			s.err = reader
		}
		go reader.read()
		ends = append(ends, w)
	}
	return ends, nil
}

// watch waits for the tool's end, and ends it when it should.
func (s *supervisor) watch() {
	tick := time.NewTicker(superviseTick)
	defer tick.Stop()
	for {
		select {
		case err := <-s.exited:
			if err != nil {
				fmt.Fprintln(os.Stderr, "wait for the tool:", err)
			}
			return
		case <-s.terminated:
			s.end(endedByTermination)
		case <-s.overLimit:
			s.end(endedByOutputLimit)
		case <-tick.C:
			s.progress.flushWhenDue()
			switch {
			case s.endedBy != "":
				if !time.Now().Before(s.killAt) {
					signalGroup(s.cmd.Process.Pid, syscall.SIGKILL)
				}
			case s.cancelRequested():
				s.end(endedByCancel)
			case s.deadlinePassed():
				s.end(endedByDeadline)
			}
		}
	}
}

// end asks the whole group to end. The first reason stands. A tool that is over already was not
// ended by us.
func (s *supervisor) end(why string) {
	if s.endedBy != "" {
		return
	}
	if p, ok := lookProcess(s.cmd.Process.Pid); !ok || p.dead {
		return
	}
	s.endedBy = why
	s.killAt = time.Now().Add(s.killGrace())
	signalGroup(s.cmd.Process.Pid, syscall.SIGTERM)
}

// endLeftovers makes sure that nothing of the group lives when the run is called over: otherwise
// the next run of the key would overlap with it. It takes as long as it takes.
func (s *supervisor) endLeftovers() {
	pgrp := s.cmd.Process.Pid // still a zombie, so the number is still ours
	killAt := s.killAt
	poll(groupTick, forever, func() bool {
		members, err := groupMembers(pgrp)
		if err == nil && len(members) == 0 {
			return true
		}
		s.leftovers = max(s.leftovers, len(members))
		if killAt.IsZero() {
			killAt = time.Now().Add(s.killGrace())
			signalGroup(pgrp, syscall.SIGTERM)
		}
		if !time.Now().Before(killAt) {
			signalGroup(pgrp, syscall.SIGKILL)
		}
		return false
	})
}

// finish writes down how it ended; only then is the lock released. On a full disk it waits for
// room, holding the lock, for the end of a long run is worth waiting.
func (s *supervisor) finish(st status) error {
	st.Version = layoutVersion
	st.EndedAtMs = time.Now().UnixMilli()
	crash("supervisor before status")
	var err error
	poll(fullDiskTick, forever, func() bool {
		err = writeJSON(filepath.Join(s.dir, statusFile), st, true)
		return !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT)
	})
	crash("supervisor after status")
	return err
}

func (s *supervisor) killGrace() time.Duration {
	return time.Duration(s.req.KillGraceMs) * time.Millisecond
}

func (s *supervisor) cancelRequested() bool {
	there, _ := exists(filepath.Join(s.dir, cancelFile)) // an error is no request; the next tick asks again
	return there
}

// deadlinePassed goes by the wall clock: a timer would stand still while the host sleeps.
func (s *supervisor) deadlinePassed() bool {
	return s.req.DeadlineAtMs > 0 && time.Now().UnixMilli() >= s.req.DeadlineAtMs
}
