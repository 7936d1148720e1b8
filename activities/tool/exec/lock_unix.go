//go:build unix

package exec

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// errLocked: another process, or another descriptor of this one, holds the lock.
var errLocked = errors.New("locked")

// fileLock is a held flock. It is tied to the open file, which no child inherits, so that it ends
// with the process that took it, however that ends.
type fileLock struct{ f *os.File }

func (l *fileLock) release() { _ = l.f.Close() }

// tryLock takes a lock for this process alone, or answers errLocked.
func tryLock(path string) (*fileLock, error) {
	return flock(path, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX)
}

// lockHeld reports whether somebody holds the lock alone. Probes do not see each other: they take
// it shared. For the moment of a probe nobody can take it alone, so whoever means to must try more
// than once.
func lockHeld(path string) (bool, error) {
	l, err := flock(path, os.O_RDONLY, syscall.LOCK_SH)
	switch {
	case errors.Is(err, errLocked):
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	l.release()
	return false, nil
}

func flock(path string, flags, how int) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			continue
		}
		if err != nil {
			_ = f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		// Remove may have unlinked the file between the two calls; a lock on a file without a
		// name excludes nobody.
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &fileLock{f}, nil
		}
		_ = f.Close()
		if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return nil, err2
		}
	}
}
