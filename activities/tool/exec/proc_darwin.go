package exec

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Darwin is for development: it cannot take a tool down with its supervisor, and does not show the
// environment of another process, so that what a killed supervisor leaves is recognised only
// while the tool itself lives.

// stateZombie is SZOMB of sys/proc.h.
const stateZombie = 5

// exitPoll is how often a child is asked for; there is no waiting without reaping here.
const exitPoll = 20 * time.Millisecond

func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

func lookProcess(pid int) (process, bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return process{}, false
	}
	return fromKinfo(info), true
}

func fromKinfo(info *unix.KinfoProc) process {
	started := info.Proc.P_starttime
	return process{
		processID: processID{PID: int(info.Proc.P_pid), Start: uint64(started.Sec)*1e6 + uint64(started.Usec)},
		pgrp:      int(info.Eproc.Pgid),
		dead:      info.Proc.P_stat == stateZombie,
	}
}

func listProcesses() ([]process, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]process, len(infos))
	for i := range infos {
		all[i] = fromKinfo(&infos[i])
	}
	return all, nil
}

func hasToken(int, string) bool { return false }

func toolAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func awaitExit(pid int) error {
	poll(exitPoll, forever, func() bool {
		p, ok := lookProcess(pid)
		return !ok || p.dead
	})
	return nil
}
