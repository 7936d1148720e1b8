package exec

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
)

// process is what the kernel says of one process.
type process struct {
	processID
	pgrp int
	// dead: it runs no more, in no thread, and only waits for its parent.
	dead bool
}

// self names the calling process.
func self() (processID, error) {
	p, ok := lookProcess(os.Getpid())
	if !ok {
		return processID{}, errors.New("the kernel does not tell when this process started")
	}
	return p.processID, nil
}

// alive reports whether it is still that very process, and not one that was given its number.
func (id processID) alive() bool {
	p, ok := lookProcess(id.PID)
	return ok && !p.dead && p.Start == id.Start
}

// groupMembers are the living processes of a group.
func groupMembers(pgrp int) ([]process, error) {
	all, err := listProcesses()
	return slices.DeleteFunc(all, func(p process) bool { return p.dead || p.pgrp != pgrp }), err
}

// signalGroup signals a group whose leader is known to be ours. A stopped process handles no
// SIGTERM before it is continued.
func signalGroup(pgrp int, sig syscall.Signal) {
	_ = syscall.Kill(-pgrp, sig)
	if sig == syscall.SIGTERM {
		_ = syscall.Kill(-pgrp, syscall.SIGCONT)
	}
}

// remains are the processes that a supervisor left behind.
type remains struct {
	// ours are proven to belong to the run.
	ours []process
	// doubtful are in a group of the tool's number, but nothing proves whether that is still the
	// tool's group. They are not touched.
	doubtful []process
}

func (r remains) none() bool { return len(r.ours)+len(r.doubtful) == 0 }

// findRemains looks for what lives of a run whose supervisor is gone. A number alone proves
// nothing, for the kernel gives it away again. What does: the same boot, and for a group, that its
// leader is the recorded process, or for a process, that the run's token is in its environment.
func findRemains(id identity, token string) (remains, error) {
	boot, err := bootID()
	if err != nil {
		return remains{}, err
	}
	if boot != id.BootID {
		return remains{}, nil
	}
	all, err := listProcesses()
	if err != nil {
		return remains{}, err
	}
	leader := func() (p process, known bool) {
		if id.Tool == nil {
			return process{}, false
		}
		i := slices.IndexFunc(all, func(p process) bool { return p.PID == id.Tool.PID })
		if i < 0 {
			return process{}, false
		}
		return all[i], true
	}
	led, leaderKnown := leader()
	groupOurs := leaderKnown && led.Start == id.Tool.Start
	groupForeign := leaderKnown && !groupOurs

	var found remains
	for _, p := range all {
		inGroup := id.Tool != nil && p.pgrp == id.Tool.PID
		// Without a recorded tool the supervisor died while it was starting it, and the token is
		// all there is to go by.
		if p.dead || p.processID != id.Supervisor && !inGroup && id.Tool != nil {
			continue
		}
		switch {
		// A killed supervisor loses its lock before its last thread is gone, and only then is the
		// tool killed by the kernel.
		case p.processID == id.Supervisor, inGroup && groupOurs, hasToken(p.PID, token):
			found.ours = append(found.ours, p)
		case inGroup && !groupForeign:
			found.doubtful = append(found.doubtful, p)
		}
	}
	return found, nil
}

// signal sends a signal to each process of ours, unless its number has changed hands since.
func (r remains) signal(sig syscall.Signal) {
	for _, p := range r.ours {
		handle, err := os.FindProcess(p.PID) // on Linux a pidfd: what it names cannot change
		if err != nil {
			continue
		}
		if p.alive() {
			_ = handle.Signal(sig)
			if sig == syscall.SIGTERM {
				_ = handle.Signal(syscall.SIGCONT)
			}
		}
		_ = handle.Release()
	}
}

// tokenIn looks for the mark in an environment block.
func tokenIn(environ []byte, token string) bool {
	want := []byte(envToken + "=" + token)
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}
