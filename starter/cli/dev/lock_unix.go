//go:build unix

package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The files of a data folder that belong to this package.
const (
	lockFile        = "dev.lock"
	infoFile        = "dev.json"
	engineReadyFile = "engine.json"
	workerReadyFile = "worker.json"
)

// InUseError says that another process has the data folder.
type InUseError struct {
	// DataDir is the folder.
	DataDir string
	// PID of the process that holds it; 0 if it has not said so yet.
	PID int
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the data folder %s is in use by %s", e.DataDir, who)
}

// lock holds a data folder for as long as this process lives.
type lock struct{ file *os.File }

// lockPatience is how long a lock that is taken is tried for: [Find] holds it
// for an instant to see whether anybody else does.
const lockPatience = 300 * time.Millisecond

// takeLock locks a data folder or gives an [InUseError]. The file stays when
// the lock goes: if it were removed, two processes could each hold a lock on a
// file of that name.
func takeLock(dir string) (*lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			break
		}
		<-time.After(pollPause)
	}
	if err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUseError{DataDir: dir, PID: holder(file.Name())}
		}
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	text, err := json.Marshal(map[string]int{"pid": os.Getpid()})
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return &lock{file: file}, nil
}

// ours tells whether the folder is still the one that was locked: one that was
// removed, or put in its place, is not.
func (l *lock) ours() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(held, there)
}

// release empties the file, whose text is for people, and drops the lock.
func (l *lock) release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

// held tells whether some process has the data folder.
func held(dir string) bool {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// holder reads who wrote the lock file, 0 when nobody did.
func holder(path string) int {
	var h struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return 0
	}
	return h.PID
}
