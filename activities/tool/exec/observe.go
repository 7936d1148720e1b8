package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// maxMessage is the contract's bound of an error's text, in bytes.
	maxMessage = 4 << 10
	// A running job is worth another look after a tenth of its age, within these bounds: a short
	// job is seen to end soon, a long one costs little.
	minNext, maxNext = 250 * time.Millisecond, 5 * time.Second
	// remainsNext is when to look again while remains are being ended.
	remainsNext = 200 * time.Millisecond
	// endTime bounds how long one call waits for killed processes to be gone.
	endTime = 2 * time.Second
)

// Observe looks at the files of a run. When it finds the run lost it ends what is left of it;
// when it finds it succeeded it stores the result, once.
func (e *Executor) Observe(ctx context.Context, h tool.Handle) (tool.Observation, error) {
	j, data, err := e.resolve(h)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe: %w", err)
	}
	obs, err := e.observe(ctx, j)
	if err != nil {
		return tool.Observation{}, fmt.Errorf("observe %q: %w", data.SubmissionKey, err)
	}
	return obs, nil
}

func (e *Executor) observe(ctx context.Context, j job) (tool.Observation, error) {
	v, err := e.look(j)
	if err != nil {
		return tool.Observation{}, err
	}
	obs := tool.Observation{Attempt: v.request.Attempt, Worker: e.cfg.Host}
	if p := v.identity.Tool; p != nil {
		obs.Worker = fmt.Sprintf("%s/pid %d", e.cfg.Host, p.PID)
	}
	var pr progress
	if _, err := readJSON(j.file(progressFile), &pr); err == nil { // a hint: unreadable is none
		obs.Progress, obs.Stage, obs.LastSeenAtMs = pr.Progress, pr.Stage, pr.AtMs
	}
	switch v.phase {
	case phaseAbsent:
		return tool.Observation{State: tool.StateUnknown, Error: failure(CodeUnknownJob, "there are no files of this job on "+e.cfg.Host, tool.ClassSystem, false)}, nil
	case phasePending:
		return e.observePending(ctx, j, v, obs)
	case phaseRunning:
		return running(obs, v), nil
	case phaseLost:
		return e.observeLost(j, v, obs)
	case phaseOver:
		obs.LastSeenAtMs = v.status.EndedAtMs
		return e.observeOver(ctx, j, v, obs)
	}
	return tool.Observation{}, fmt.Errorf("unknown phase %d", v.phase)
}

func running(obs tool.Observation, v view) tool.Observation {
	now := time.Now()
	obs.State = tool.StateRunning
	obs.LastSeenAtMs = now.UnixMilli()
	age := now.Sub(time.UnixMilli(v.request.CreatedAtMs))
	obs.NextInMs = min(max(age/10, minNext), maxNext).Milliseconds()
	return obs
}

// observePending: Submit returns no handle of such a run, except when it could not tell. After the
// time in which a supervisor would have come, the run is called off.
func (e *Executor) observePending(ctx context.Context, j job, v view, obs tool.Observation) (tool.Observation, error) {
	if v.request.CreatedAtMs == 0 {
		// The request comes before everything else, so a run without one has lost files. It may
		// have been started; "not started" would be a definite word that nobody can give.
		return tool.Observation{State: tool.StateUnknown, Error: failure(CodeUnknownJob, "files of this job on "+e.cfg.Host+" are missing", tool.ClassSystem, false)}, nil
	}
	if time.Since(time.UnixMilli(v.request.CreatedAtMs)) < 2*e.cfg.AckTimeout {
		return running(obs, v), nil
	}
	calledOff, err := e.callOff(j, "no supervisor took charge")
	if err != nil {
		return tool.Observation{}, err
	}
	if !calledOff {
		return running(obs, v), nil
	}
	return e.observe(ctx, j) // it is over now
}

// observeLost ends what is left, and says lost only when nothing is.
func (e *Executor) observeLost(j job, v view, obs tool.Observation) (tool.Observation, error) {
	left, err := endRemains(v, syscall.SIGKILL)
	if err != nil {
		return tool.Observation{}, err
	}
	if !left.none() {
		obs.State = tool.StateUnknown
		obs.NextInMs = remainsNext.Milliseconds()
		obs.Error = failure(CodeWorkerLost, fmt.Sprintf("the supervisor is gone, and %d of its processes may still run", len(left.ours)+len(left.doubtful)), tool.ClassSystem, true)
		return obs, nil
	}
	// When it ended is not known; this is the last time at which something was heard of it.
	cancelAtMs, cancelled, err := modified(j.file(cancelFile))
	if err != nil {
		return tool.Observation{}, err
	}
	identityAtMs, _, err := modified(j.file(identityFile))
	if err != nil {
		return tool.Observation{}, err
	}
	obs.LastSeenAtMs = max(obs.LastSeenAtMs, identityAtMs, cancelAtMs)
	if cancelled {
		obs.State, obs.Definite = tool.StateCancelled, true
		return obs, nil
	}
	message := "the supervisor was killed; the tool runs no more, and nobody knows how far it came"
	if boot, err := bootID(); err == nil && boot != v.identity.BootID {
		message = "the host was restarted while the tool ran; nobody knows how far it came"
	}
	obs.State = tool.StateLost
	obs.Error = failure(CodeWorkerLost, message, tool.ClassSystem, true)
	return obs, nil
}

// endRemains signals what is left of a lost run until it is gone or the time for one call is over,
// and answers with what is still there.
func endRemains(v view, sig syscall.Signal) (left remains, err error) {
	poll(groupTick, endTime, func() bool {
		if left, err = findRemains(v.identity, v.request.Token); err != nil || len(left.ours) == 0 {
			return true
		}
		left.signal(sig)
		return false
	})
	return left, err
}

// observeOver says how the run ended.
func (e *Executor) observeOver(ctx context.Context, j job, v view, obs tool.Observation) (tool.Observation, error) {
	st := v.status
	obs.State, obs.Definite = tool.StateFailed, true
	if e.didItsWork(j, st) {
		return e.succeed(ctx, j, v, obs)
	}
	switch {
	case st.EndedBy == endedByCancel:
		obs.State = tool.StateCancelled
	case st.EndedBy == endedByDeadline:
		obs.Error = failure(CodeTimeout, "the tool was ended at its deadline", tool.ClassThirdParty, true)
	case st.EndedBy == endedByOutputLimit:
		obs.Error = failure(CodeOutputLimit, fmt.Sprintf("the tool was ended, for it wrote more than %d bytes", v.request.MaxOutputBytes), tool.ClassThirdParty, false)
	case st.EndedBy == endedByTermination:
		obs.Error = failure(CodeInterrupted, "the tool was ended because the host or its service manager asked the supervisor to end", tool.ClassSystem, true)
	case st.NotStarted != "":
		obs.Error = failure(CodeNotStarted, st.NotStarted, tool.ClassSystem, true)
	case st.StartError != "":
		obs.Error = failure(CodeStartFailed, "the program could not be started: "+st.StartError, tool.ClassSystem, true)
	case st.Signal != 0:
		sig := syscall.Signal(st.Signal)
		obs.Error = failure(CodeExitSignal, e.withStderr(j, fmt.Sprintf("the tool was ended by signal %d (%v)", st.Signal, sig)), tool.ClassThirdParty, true)
		obs.Error.Details = details(map[string]any{"signal": st.Signal})
	default:
		retryable := e.cfg.RetryExitCodes == nil || slices.Contains(e.cfg.RetryExitCodes, st.ExitCode)
		obs.Error = failure(CodeExitStatus, e.withStderr(j, fmt.Sprintf("the tool ended with exit status %d", st.ExitCode)), tool.ClassThirdParty, retryable)
		obs.Error.Details = details(map[string]any{"exitCode": st.ExitCode})
	}
	return obs, nil
}

// didItsWork: the run is over and has a result.
func (e *Executor) didItsWork(j job, st status) bool {
	return st.exitedZero() && (st.EndedBy == "" || e.wroteResult(j, st))
}

// exitedZero: the tool ran and ended with exit status 0.
func (st status) exitedZero() bool {
	return st.NotStarted == "" && st.StartError == "" && st.Signal == 0 && st.ExitCode == 0
}

// wroteResult tells a tool that finished its work just as it was asked to end from one that merely
// ended politely: the former has written its result file.
func (e *Executor) wroteResult(j job, st status) bool {
	there, err := exists(j.file(resultFile))
	return err == nil && there && st.EndedBy != endedByOutputLimit
}

func failure(code, message, class string, retryable bool) *tool.Failure {
	return &tool.Failure{Code: code, Message: message, Severity: tool.SeverityError, Class: class, Retryable: retryable}
}

func details(v map[string]any) json.RawMessage {
	data, _ := json.Marshal(v) // numbers and strings always marshal
	return data
}

// withStderr adds the last lines of stderr to a message, as many as fit.
func (e *Executor) withStderr(j job, message string) string {
	const separator = ": "
	room := maxMessage - len(message) - len(separator)
	tail, err := logTail(j.dir(), tool.StreamStderr, room)
	text := strings.TrimSpace(strings.ToValidUTF8(string(tail), "?")) // never longer than tail
	if err == nil && text != "" {
		return message + separator + text
	}
	return message
}
