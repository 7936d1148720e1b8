package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// pollPause lies between two looks at something that gives no event.
	pollPause = 10 * time.Millisecond
	// tailLines is how much of what a child wrote last goes into an error.
	tailLines = 12
	// maxLine bounds a line of a child, in bytes; the rest is cut off.
	maxLine = 8 << 10
	// outputDelay is how long the output of a dead child is waited for, when a
	// process that it left behind keeps the pipe open.
	outputDelay = time.Second
)

// child is a running process in a process group of its own, so that a Ctrl-C
// on the terminal reaches only this program, which stops its children in order.
type child struct {
	cmd  *exec.Cmd
	tail *tail
	// leash is the child's standard input. It ends with this process.
	leash io.Closer
	done  chan struct{}
	// err is what Wait gave; it is set when done is closed.
	err error
}

// startChild starts a command; each line that it writes goes to emit.
func startChild(cmd *exec.Cmd, emit func(line string)) (*child, error) {
	c := &child{cmd: cmd, tail: &tail{}, done: make(chan struct{})}
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.leash = leash
	said := &lineWriter{emit: func(line string) {
		c.tail.add(line)
		emit(line)
	}}
	// What an engine prints at its start is for whoever started it by hand.
	cmd.Stdout, cmd.Stderr = io.Discard, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = outputDelay
	if err := cmd.Start(); err != nil {
		_ = leash.Close()
		return nil, err
	}
	go func() {
		c.err = cmd.Wait()
		said.flush()
		close(c.done)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// exitCode is the child's once it has ended, -1 when a signal ended it.
func (c *child) exitCode() int { return c.cmd.ProcessState.ExitCode() }

// exit says how the child ended.
func (c *child) exit(name string) *ExitError {
	how := "exit status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	return &ExitError{Name: name, How: how, Code: c.exitCode(), Tail: c.tail.get()}
}

// ExitError says that a child ended though nobody asked it to.
type ExitError struct {
	// Name of the child: engine or worker.
	Name string
	// How it ended: "exit status 1", "signal: killed".
	How string
	// Code is its exit code, -1 when a signal ended it.
	Code int
	// Tail is what it wrote last to its standard error.
	Tail []string
}

func (e *ExitError) Error() string { return fmt.Sprintf("the %s ended: %s", e.Name, e.How) }

// stop asks the child to end, waits for the grace, then ends it. Closing kill
// ends the wait at once.
func (c *child) stop(grace time.Duration, kill <-chan struct{}) error {
	// An error means that it has ended already.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
		c.kill()
		<-c.done
		return errKilled
	case <-kill:
	}
	c.kill()
	<-c.done
	return errHurried
}

// errKilled is that a child did not end when it was asked to.
var errKilled = errors.New("it did not end when asked to, and was killed")

// errHurried is that somebody would not wait for its end.
var errHurried = errors.New("killed, as asked")

// kill ends the child without asking.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

// tail keeps the last lines that a child wrote.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

func (t *tail) get() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// lineWriter gives what is written to it line by line.
type lineWriter struct {
	emit func(string)
	mu   sync.Mutex
	buf  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		if room := maxLine - len(w.buf); room > 0 {
			w.buf = append(w.buf, line[:min(len(line), room)]...)
		}
		if !found {
			return n, nil
		}
		w.emit(string(w.buf))
		w.buf, p = w.buf[:0], rest
	}
}

// flush gives a last line that had no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) > 0 {
		w.emit(string(w.buf))
		w.buf = nil
	}
}
