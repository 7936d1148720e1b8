//go:build unix

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// holder is what a running engine writes into its lock file, for whoever is refused.
type holder struct {
	// PID of the engine's process.
	PID int `json:"pid"`
	// Address is the frontend's, host:port. Empty while the engine is choosing its ports.
	Address string `json:"address,omitempty"`
}

// InUseError says that another process holds the data.
type InUseError struct {
	// Path of the data, a folder or a database file.
	Path string
	// PID of the process that holds it; 0 if it had not yet written it.
	PID int
	// Address where that process listens, host:port; empty if it had not yet written it.
	Address string
}

func (e *InUseError) Error() string {
	who := "another engine"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	where := ""
	if e.Address != "" {
		where = ", which listens on " + e.Address
	}
	return fmt.Sprintf("%s is in use by %s%s", e.Path, who, where)
}

// fileLock is an flock'ed file. The kernel drops the lock with the process, however it dies, so there are no stale
// locks to judge by age or pid. The file itself stays: removing it would let two engines hold locks on two
// different files of the same name.
type fileLock struct {
	file *os.File
}

// holderWait is how long a refused engine waits for the holder to write its address, which it does
// within milliseconds of taking the lock; holderPause lies between two looks.
const (
	holderWait  = 500 * time.Millisecond
	holderPause = 10 * time.Millisecond
)

// tryLock opens and locks the file at path, made if it is not there, without waiting.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// takeLock locks the file at path, which guards dataPath, or returns an *InUseError.
func takeLock(path, dataPath string) (*fileLock, error) {
	file, err := tryLock(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h := awaitHolder(path)
		return nil, &InUseError{Path: dataPath, PID: h.PID, Address: h.Address}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == syscall.ENOLCK || errno == syscall.ENOTSUP) {
		return nil, &hintedError{err: err, hint: "put the data on a local file system; SQLite needs its locks too"}
	}
	if err != nil {
		return nil, err
	}
	l := &fileLock{file: file}
	if err := l.describe(holder{PID: os.Getpid()}); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// describe replaces what the lock file says about this process.
func (l *fileLock) describe(h holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode lock file: %w", err)
	}
	if _, err := l.file.WriteAt(append(data, '\n'), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if err := l.file.Truncate(int64(len(data)) + 1); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// release empties the file and drops the lock.
func (l *fileLock) release() {
	_ = l.file.Truncate(0) // the text is only for people; the lock is what counts
	_ = l.file.Close()
}

// awaitHolder reads what the holder wrote, waiting a little for the part that it writes last.
func awaitHolder(path string) holder {
	var h holder
	for deadline := time.Now().Add(holderWait); ; <-time.After(holderPause) {
		var got holder
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &got) == nil {
			h = got
		}
		if h.Address != "" || time.Now().After(deadline) {
			return h
		}
	}
}
