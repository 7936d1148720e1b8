package exec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bootID is new with each start of the kernel.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// lookProcess reads /proc/<pid>/stat, see proc_pid_stat(5); false when there is no such process.
func lookProcess(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The second field is the program's name in parentheses and may hold anything, so counting
	// begins after the last parenthesis, with field 3 of the manual.
	i := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[i+1:]))
	const state, pgrp, threads, start = 0, 2, 17, 19 // fields 3, 5, 20 and 22
	if i < 0 || len(fields) <= start {
		return process{}, false
	}
	group, err1 := strconv.Atoi(fields[pgrp])
	ticks, err2 := strconv.ParseUint(fields[start], 10, 64)
	if err1 != nil || err2 != nil {
		return process{}, false
	}
	// The state is that of the first thread; others may live on after it.
	zombie := fields[state] == "Z" && (fields[threads] == "0" || fields[threads] == "1")
	return process{
		processID: processID{PID: pid, Start: ticks},
		pgrp:      group,
		dead:      zombie || fields[state] == "X",
	}, true
}

func listProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := lookProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// hasToken reports whether the process was started with the run's mark.
func hasToken(pid int, token string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && tokenIn(environ, token)
}

// toolAttr: the tool leads a session and a group of its own, and dies with its supervisor. The
// kernel watches the thread that forks, so the supervisor's stays locked to it.
func toolAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child is over and leaves it a zombie, so that its number, and with it its
// group's, cannot be given to anybody else.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				return fmt.Errorf("waitid: %w", err)
			}
			return nil
		}
	}
}
