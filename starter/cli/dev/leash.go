package dev

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// leashGrace is how long a program on a leash has to end when asked to.
const leashGrace = 15 * time.Second

// Leash runs argv for as long as stdin is open and no signal asks it to end: a
// stand-in for engines that cannot watch their own standard input. It gives the
// exit code of the program, 0 when a signal ended it.
func Leash(argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("no program to run")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = outputDelay
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	c := &child{cmd: cmd, done: make(chan struct{}), tail: &tail{}}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // an error ends it as well
		close(ended)
	}()
	select {
	case <-c.done:
	case <-ended:
		_ = c.stop(leashGrace, nil)
	case <-signals:
		_ = c.stop(leashGrace, nil)
	}
	return max(c.exitCode(), 0), nil
}
