package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// The codes of the failures of this executor.
const (
	CodeInvalidRequest = "INVALID_REQUEST"   // the request itself breaks a rule
	CodeInvalidInput   = "INVALID_INPUT"     // the input can't fill a placeholder of argv
	CodeKeyReused      = "KEY_REUSED"        // the key was used for another task, tool or input
	CodeStartFailed    = "START_FAILED"      // the supervisor or the program could not be started
	CodeNotStarted     = "NOT_STARTED"       // the start was called off before it happened
	CodeExitStatus     = "EXIT_STATUS"       // the tool ended with another code than 0
	CodeExitSignal     = "EXIT_SIGNAL"       // a signal that we did not send ended the tool
	CodeTimeout        = "TIMEOUT"           // the deadline passed
	CodeOutputLimit    = "OUTPUT_LIMIT"      // more output than allowed, with FailOnOutput
	CodeOutputLost     = "OUTPUT_LOST"       // the output that is the result could not be written down
	CodeResultTooLarge = "RESULT_TOO_LARGE"  // the result is larger than allowed
	CodeResultUnusable = "RESULT_UNREADABLE" // the result is no regular file
	CodeInterrupted    = "INTERRUPTED"       // the supervisor was asked to end, as when the host shuts down
	CodeWorkerLost     = "WORKER_LOST"       // the supervisor was killed or the host restarted
	CodeUnknownJob     = "UNKNOWN_JOB"       // there are no files of this job
)

// Executor runs one declared tool. It keeps nothing in memory: any number of processes on the host
// may use the same data folder at once. It implements [tool.Executor], [tool.LogReader] and
// [tool.Remover].
type Executor struct {
	cfg     Config
	program string
	argv    []argument
	root    string
}

var (
	_ tool.Executor  = (*Executor)(nil)
	_ tool.LogReader = (*Executor)(nil)
	_ tool.Remover   = (*Executor)(nil)
)

// New checks the declaration of a tool, so that a wrong one stops the worker at its start, finds
// its program and makes the data folder.
func New(cfg Config) (*Executor, error) {
	cfg = cfg.withDefaults()
	fail := func(err error) (*Executor, error) { return nil, fmt.Errorf("exec tool %q: %w", cfg.Name, err) }
	if err := cfg.validate(); err != nil {
		return fail(err)
	}
	argv, err := compileArgv(cfg.Argv)
	if err != nil {
		return fail(err)
	}
	program, err := cfg.lookProgram()
	if err != nil {
		return fail(err)
	}
	if cfg.Dir != "" {
		if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
			return fail(fmt.Errorf("dir %q must be a folder that exists", cfg.Dir))
		}
	}
	root := filepath.Join(cfg.DataDir, "exec")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fail(fmt.Errorf("dataDir: %w", err))
	}
	if err := clearTrash(root); err != nil {
		return fail(fmt.Errorf("dataDir: %w", err))
	}
	if _, err := bootID(); err != nil {
		return fail(fmt.Errorf("this host does not tell its boot id: %w", err))
	}
	return &Executor{cfg: cfg, program: program, argv: argv, root: root}, nil
}

// job is one run of a key on disk.
type job struct {
	keyDir string
	hash   string
	run    int
}

func (j job) dir() string             { return filepath.Join(j.keyDir, runName(j.run)) }
func (j job) file(name string) string { return filepath.Join(j.dir(), name) }

// handleData is Handle.Data.
type handleData struct {
	Host          string `json:"host"`
	SubmissionKey string `json:"submissionKey"`
}

func (e *Executor) handle(j job, submissionKey string) (tool.Handle, error) {
	data, err := json.Marshal(handleData{Host: e.cfg.Host, SubmissionKey: submissionKey})
	if err != nil {
		return tool.Handle{}, err
	}
	return tool.Handle{Executor: Kind, TaskQueue: e.cfg.TaskQueue, ID: handleID(j.hash, j.run), Data: data}, nil
}

// resolve finds the files that a handle means. They need not exist.
func (e *Executor) resolve(h tool.Handle) (job, handleData, error) {
	if h.Executor != Kind {
		return job{}, handleData{}, fmt.Errorf("%w: executor %q is not %q", tool.ErrUnknownHandle, h.Executor, Kind)
	}
	hash, run, err := parseHandleID(h.ID)
	if err != nil {
		return job{}, handleData{}, err
	}
	var data handleData
	if err := json.Unmarshal(h.Data, &data); err != nil {
		return job{}, handleData{}, fmt.Errorf("%w: data: %w", tool.ErrUnknownHandle, err)
	}
	if data.Host != e.cfg.Host {
		return job{}, handleData{}, fmt.Errorf("%w: %q, and this is %q", tool.ErrWrongHost, data.Host, e.cfg.Host)
	}
	return e.job(hash, run), data, nil
}

func (e *Executor) job(hash string, run int) job {
	return job{keyDir: filepath.Join(e.root, hash), hash: hash, run: run}
}

// phase is how far a run has come, as its files and its lock tell.
type phase int

const (
	// phaseAbsent: there are no files.
	phaseAbsent phase = iota
	// phasePending: the files are there and nobody is in charge. A supervisor may be on its way.
	phasePending
	// phaseRunning: a supervisor is in charge.
	phaseRunning
	// phaseLost: a supervisor was in charge and is gone without a word.
	phaseLost
	// phaseOver: the status tells.
	phaseOver
)

// view is one look at a run.
type view struct {
	phase    phase
	request  runRequest
	identity identity
	status   status
}

// look reads where a run stands. The order of reading is what makes it right: the identity is
// written by the holder of the lock, and the status before the lock is released. So when the
// identity was there before the lock was found free, either the status is there by now, or nobody
// is left to write it.
func (e *Executor) look(j job) (view, error) {
	var v view
	if there, err := exists(j.dir()); err != nil || !there {
		return v, err
	}
	if _, err := readJSON(j.file(requestFile), &v.request); err != nil {
		return v, err
	}
	identified, err := readJSON(j.file(identityFile), &v.identity)
	if err != nil {
		return v, err
	}
	latest, err := latestRun(j.keyDir)
	if err != nil {
		return v, err
	}
	held := false
	if j.run == latest { // the holder of the lock is in charge of the newest run
		if held, err = lockHeld(filepath.Join(j.keyDir, lockFile)); err != nil {
			return v, err
		}
	}
	over, err := readJSON(j.file(statusFile), &v.status)
	switch {
	case err != nil:
		return v, err
	case over:
		v.phase = phaseOver
	case held:
		v.phase = phaseRunning
	case identified:
		v.phase = phaseLost
	default:
		v.phase = phasePending
	}
	return v, nil
}

// Find looks the newest run of a key up. A run that nobody is in charge of is not found: Submit
// takes care of it.
func (e *Executor) Find(_ context.Context, submissionKey string) (tool.Handle, bool, error) {
	j := e.job(keyHash(submissionKey), 0)
	var err error
	if j.run, err = latestRun(j.keyDir); err != nil || j.run == 0 {
		return tool.Handle{}, false, err
	}
	v, err := e.look(j)
	if err != nil {
		return tool.Handle{}, false, fmt.Errorf("find %q: %w", submissionKey, err)
	}
	if v.phase <= phasePending || v.calledOff() {
		return tool.Handle{}, false, nil
	}
	h, err := e.handle(j, submissionKey)
	return h, err == nil, err
}

// calledOff: the run never began, and not because of a cancel or the deadline, so that starting it
// is still what everybody wants.
func (v view) calledOff() bool {
	return v.phase == phaseOver && v.status.NotStarted != "" && v.status.EndedBy == ""
}

// A probe of another process holds the lock for a moment, so whoever means to have it tries for
// some time.
const (
	lockFor   = 100 * time.Millisecond
	lockPause = 5 * time.Millisecond
)

// callOff closes a run that nobody is in charge of, for good: a supervisor that is still on its way
// finds the status and does nothing. It answers false when somebody is in charge after all. The
// caller holds the submit lock.
func (e *Executor) callOff(j job, why string) (bool, error) {
	lock, err := lockForGood(filepath.Join(j.keyDir, lockFile))
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.release()
	if taken, err := runIsTaken(j.dir()); err != nil || taken {
		return false, err
	}
	st := status{Version: layoutVersion, NotStarted: why, EndedAtMs: time.Now().UnixMilli()}
	return true, writeJSON(j.file(statusFile), st, true)
}

func lockForGood(path string) (lock *fileLock, err error) {
	poll(lockPause, lockFor, func() bool {
		lock, err = tryLock(path)
		return !errors.Is(err, errLocked)
	})
	return lock, err
}

// Remove deletes the files of all runs of the handle's key.
func (e *Executor) Remove(_ context.Context, h tool.Handle) error {
	j, data, err := e.resolve(h)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	fail := func(err error) error { return fmt.Errorf("remove %q: %w", data.SubmissionKey, err) }
	// Both locks: nobody starts, nobody runs. They go with the folder; whoever waits for them
	// notices, see flock.
	for _, name := range []string{submitLockFile, lockFile} {
		lock, err := lockForGood(filepath.Join(j.keyDir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, errLocked):
			return fail(tool.ErrStillRunning)
		case err != nil:
			return fail(err)
		}
		defer lock.release()
	}
	if err := e.noRemains(j.keyDir); err != nil {
		return fail(err)
	}
	// Renamed first, so that a crash in the middle leaves no half of a key.
	trash := j.keyDir + trashSuffix
	if err := os.RemoveAll(trash); err != nil {
		return fail(err)
	}
	if err := os.Rename(j.keyDir, trash); err != nil {
		return fail(err)
	}
	if err := os.RemoveAll(trash); err != nil {
		return fail(err)
	}
	return nil
}

// trashSuffix marks a key's folder that is being deleted.
const trashSuffix = ".removed"

// clearTrash finishes what a Remove that died has begun.
func clearTrash(root string) error {
	entries, err := os.ReadDir(root)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), trashSuffix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, entry.Name())))
		}
	}
	return err
}

// noRemains refuses while something of the newest run lives without a supervisor: the files are
// how it is recognised.
func (e *Executor) noRemains(keyDir string) error {
	latest, err := latestRun(keyDir)
	if err != nil || latest == 0 {
		return err
	}
	v, err := e.look(job{keyDir: keyDir, run: latest})
	if err != nil || v.phase == phaseOver {
		return err
	}
	left, err := findRemains(v.identity, v.request.Token)
	if err == nil && !left.none() {
		err = tool.ErrStillRunning
	}
	return err
}
