package exec

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// maxKey bounds a submission key, in bytes: it is handed over in the environment.
	maxKey = 512
	// maxInput bounds the input, in bytes, as the contract bounds any request.
	maxInput = 1 << 20
	// ackTick is how often Submit looks whether the supervisor has taken charge.
	ackTick = 5 * time.Millisecond
	// submitTick is how often Submit asks for the submit lock.
	submitTick = 20 * time.Millisecond
)

// Submit gets or creates the job of a key on this host; see [tool.Executor].
func (e *Executor) Submit(ctx context.Context, req tool.Request) (tool.Handle, error) {
	if len(bytes.TrimSpace(req.Input)) == 0 {
		req.Input = json.RawMessage("{}")
	}
	if rule := brokenRule(req); rule != "" {
		return tool.Handle{}, notStarted(CodeInvalidRequest, rule, tool.ClassUser, false, nil)
	}
	ambiguous := func(err error) (tool.Handle, error) {
		return tool.Handle{}, &tool.AmbiguousError{Op: "submit", SubmissionKey: req.SubmissionKey, Cause: err}
	}
	j := e.job(keyHash(req.SubmissionKey), 0)
	lock, err := lockKey(ctx, j.keyDir)
	if err != nil {
		return ambiguous(err)
	}
	defer lock.release()
	if j.run, err = latestRun(j.keyDir); err != nil {
		return ambiguous(err)
	}
	if j.run > 0 {
		adopted, err := e.adopt(j, req)
		if _, definite := tool.DefiniteFailure(err); definite {
			return tool.Handle{}, err
		}
		if err != nil {
			return ambiguous(err)
		}
		if adopted {
			return e.handle(j, req.SubmissionKey)
		}
	}
	j.run++
	if err := e.create(j, req); err != nil {
		return tool.Handle{}, err
	}
	if err := e.launch(ctx, j); err != nil {
		if _, definite := tool.DefiniteFailure(err); definite {
			return tool.Handle{}, err
		}
		return ambiguous(err)
	}
	return e.handle(j, req.SubmissionKey)
}

func brokenRule(req tool.Request) string {
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	switch {
	case strings.TrimSpace(req.SubmissionKey) == "":
		return "submissionKey must not be blank"
	case len(req.SubmissionKey) > maxKey || control(req.SubmissionKey):
		return fmt.Sprintf("submissionKey must have at most %d bytes and no control characters", maxKey)
	case req.Tenant == "" || control(req.Tenant):
		return "tenant must not be empty or contain control characters"
	case req.TaskID == "" || control(req.TaskID):
		return "taskId must not be empty or contain control characters"
	case req.Attempt < 1:
		return "attempt must be 1 or more"
	case req.DeadlineAtMs < 0:
		return "deadlineAtMs must not be negative"
	case len(req.Input) > maxInput:
		return fmt.Sprintf("input must have at most %d bytes", maxInput)
	case !json.Valid(req.Input):
		return "input must be JSON"
	}
	return ""
}

func notStarted(code, message, class string, retryable bool, cause error) error {
	return &tool.NotStartedError{
		Failure: tool.Failure{Code: code, Message: message, Severity: tool.SeverityError, Class: class, Retryable: retryable},
		Cause:   cause,
	}
}

// lockKey makes the key's folder and takes its submit lock, waiting while another Submit of the
// key is at work.
func lockKey(ctx context.Context, keyDir string) (*fileLock, error) {
	for {
		if err := makeDir(keyDir); err != nil {
			return nil, err
		}
		lock, err := tryLock(filepath.Join(keyDir, submitLockFile))
		// Not there: Remove took the folder in between.
		if err == nil || !errors.Is(err, errLocked) && !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another submit of this key is at work: %w", ctx.Err())
		case <-time.After(submitTick):
		}
	}
}

// makeDir makes a folder that is still there after a power failure.
func makeDir(dir string) error {
	if there, err := exists(dir); there || err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// adopt decides whether the newest run of the key is the one that is asked for. False means that a
// new run is to be started, and that this one can't go on any more.
func (e *Executor) adopt(j job, req tool.Request) (bool, error) {
	v, err := e.look(j)
	if err != nil {
		return false, err
	}
	if err := e.sameJob(j, v.request, req); err != nil {
		return false, err
	}
	switch v.phase {
	case phaseAbsent:
		return false, fmt.Errorf("%s disappeared", j.dir())
	case phasePending:
		calledOff, err := e.callOff(j, "whoever submitted it died before it was started")
		return !calledOff, err
	case phaseRunning:
		return true, nil
	case phaseOver:
		// A run that ended without a result has had its attempt. Whoever asks for a later one under
		// the same key did not wait for that end: the task expired, and was retried by hand.
		hadItsAttempt := req.Attempt > v.request.Attempt && !e.didItsWork(j, v.status)
		return !v.calledOff() && !hadItsAttempt, nil
	case phaseLost:
		if req.Attempt <= v.request.Attempt {
			return true, nil // to be observed as lost; nobody has decided to repeat it
		}
		left, err := endRemains(v, syscall.SIGKILL)
		if err == nil && !left.none() {
			err = errors.New("the last run of this key has lost its supervisor, and something of it may still run")
		}
		return false, err
	}
	return false, fmt.Errorf("unknown phase %d", v.phase)
}

// sameJob refuses a key that was used for something else.
func (e *Executor) sameJob(j job, had runRequest, req tool.Request) error {
	differs := ""
	switch {
	case had.Tenant != req.Tenant:
		differs = "tenant"
	case had.TaskID != req.TaskID:
		differs = "task"
	case had.Tool != e.cfg.Name:
		differs = "tool"
	default:
		input, err := os.ReadFile(j.file(inputFile))
		if err != nil {
			return err
		}
		if !sameJSON(input, req.Input) {
			differs = "input"
		}
	}
	if differs == "" {
		return nil
	}
	return notStarted(CodeKeyReused, fmt.Sprintf("submissionKey %q was used with another %s", req.SubmissionKey, differs), tool.ClassSystem, false, nil)
}

// sameJSON compares values, not spelling.
func sameJSON(a, b []byte) bool {
	decode := func(data []byte) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&v)
		return v, err
	}
	va, errA := decode(a)
	vb, errB := decode(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

// create writes the files of a new run. They appear at once, by a rename. The error is definite:
// nobody starts what is not there.
func (e *Executor) create(j job, req tool.Request) error {
	argv, err := renderArgv(e.argv, req.Input)
	if err != nil {
		return notStarted(CodeInvalidInput, err.Error(), tool.ClassUser, false, nil)
	}
	if now := time.Now().UnixMilli(); req.DeadlineAtMs > 0 && now >= req.DeadlineAtMs {
		return notStarted(CodeTimeout, "the deadline has passed already", tool.ClassUser, false, nil)
	}
	argv[0] = e.program
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails
	dir := e.cfg.Dir
	if dir == "" {
		dir = j.file(workDir)
	}
	request := runRequest{
		Version: layoutVersion, Tenant: req.Tenant, TaskID: req.TaskID, Attempt: req.Attempt, SubmissionKey: req.SubmissionKey,
		Tool: e.cfg.Name, Argv: argv, Dir: dir, DeadlineAtMs: req.DeadlineAtMs, MaxOutputBytes: e.cfg.MaxOutputBytes,
		OnOutputLimit: e.cfg.OnOutputLimit, KillGraceMs: e.cfg.KillGrace.Milliseconds(), AckTimeoutMs: e.cfg.AckTimeout.Milliseconds(),
		CreatedAtMs: time.Now().UnixMilli(), Token: hex.EncodeToString(token),
	}
	err = writeRun(j, request, req.Input)
	if err != nil {
		return notStarted(CodeStartFailed, "its files could not be written", tool.ClassSystem, true, err)
	}
	return nil
}

func writeRun(j job, request runRequest, input []byte) error {
	staged := filepath.Join(j.keyDir, ".new")
	if err := os.RemoveAll(staged); err != nil { // of a Submit that died
		return err
	}
	if err := os.MkdirAll(filepath.Join(staged, workDir), 0o700); err != nil {
		return err
	}
	crash("submit after mkdir")
	if err := writeFile(filepath.Join(staged, inputFile), input, true); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(staged, requestFile), request, true); err != nil {
		return err
	}
	crash("submit before rename")
	if err := os.Rename(staged, j.dir()); err != nil {
		return err
	}
	return syncDir(j.keyDir)
}

// launch starts the supervisor and waits until it has taken charge. If it does not, the run is
// called off, and the error is definite; only when it neither answers nor lets go is it ambiguous.
func (e *Executor) launch(ctx context.Context, j job) error {
	crash("submit before spawn")
	gone, err := e.spawn(j)
	if err != nil {
		return e.giveUp(j, "the supervisor could not be started", err)
	}
	crash("submit after spawn")
	timeout := time.NewTimer(e.cfg.AckTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(ackTick)
	defer tick.Stop()
	for {
		acknowledged, err := exists(j.file(identityFile))
		if err != nil {
			return err
		}
		if acknowledged {
			crash("submit after acknowledgment")
			return nil
		}
		select {
		case <-tick.C:
			continue
		case err = <-gone:
			// It may have taken charge and ended between two looks.
			if there, lookErr := exists(j.file(identityFile)); there || lookErr != nil {
				return lookErr
			}
			err = fmt.Errorf("it ended at once: %w; %s", err, selfLogTail(j))
		case <-timeout.C:
			err = fmt.Errorf("no word of it in %v", e.cfg.AckTimeout)
		case <-ctx.Done():
			err = ctx.Err()
		}
		return e.giveUp(j, "the supervisor did not take charge", err)
	}
}

// spawn starts the supervisor in a session of its own, with nothing of ours but a log file. The
// tool's environment is handed over as the supervisor's, so that secrets in it touch no disk.
func (e *Executor) spawn(j job) (gone <-chan error, err error) {
	log, err := os.OpenFile(j.file(selfLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := &osexec.Cmd{
		Path:        e.cfg.SupervisorArgv[0],
		Args:        append(slices.Clone(e.cfg.SupervisorArgv), j.dir()),
		Dir:         "/",
		Env:         e.cfg.environment(),
		Stdout:      log,
		Stderr:      log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait() // so that it is no zombie of ours
		if err == nil {
			err = errors.New("exit status 0")
		}
		ended <- err
	}()
	return ended, nil
}

func (e *Executor) giveUp(j job, message string, cause error) error {
	calledOff, err := e.callOff(j, message)
	if err != nil {
		return errors.Join(cause, err)
	}
	if calledOff {
		return notStarted(CodeStartFailed, message, tool.ClassSystem, true, cause)
	}
	// Somebody holds the lock: the supervisor, at the last moment.
	if there, err := exists(j.file(identityFile)); there && err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", message, cause)
}

// selfLogTail is the end of what the supervisor said, for an error.
func selfLogTail(j job) string {
	const limit = 512
	data, _ := os.ReadFile(j.file(selfLogFile))
	return strings.ToValidUTF8(string(data[max(0, len(data)-limit):]), "")
}
