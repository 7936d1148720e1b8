package exec

import (
	"context"
	"path/filepath"
)

// For the tests outside of the package.

// SetCrash says what happens at the points where a test may kill the process.
func SetCrash(f func(point string)) { crash = f }

// RunDir is where the files of a job lie.
func RunDir(e *Executor, handleID string) string {
	hash, run, err := parseHandleID(handleID)
	if err != nil {
		panic(err)
	}
	return e.job(hash, run).dir()
}

// KeyDir is where the runs of a key lie.
func KeyDir(e *Executor, key string) string { return filepath.Join(e.root, keyHash(key)) }

// LockHeld reports whether a supervisor is in charge of a key.
func LockHeld(e *Executor, key string) (bool, error) {
	return lockHeld(filepath.Join(KeyDir(e, key), lockFile))
}

// HoldSubmitLock takes the lock under which a key is submitted.
func HoldSubmitLock(e *Executor, key string) (release func(), err error) {
	lock, err := lockKey(context.Background(), KeyDir(e, key))
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}
