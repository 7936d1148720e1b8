package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	mainFile       = "main.db"
	visibilityFile = "visibility.db"
	// lockSuffix follows the main file's name, so that --data-dir D and --db-filename D/main.db, which
	// mean the same file, are held by the same lock.
	lockSuffix = ".lock"
	tempPrefix = "wakepoint-engine-"
)

// dataFiles are the files of one engine, held by its lock.
type dataFiles struct {
	// shown is the path that people know the data by: the folder or the database file.
	shown string
	// dir is the folder of the files.
	dir string
	// main holds workflows, tasks and namespaces; it is the truth.
	main string
	// visibility holds the list that `task list` and the UI search; it is written after the fact.
	visibility string
	// temporary folders are removed by close.
	temporary bool

	lock *fileLock
}

// openData finds or makes the place of the data and locks it. An *InUseError says who has it.
func openData(o options) (*dataFiles, error) {
	d, err := placeData(o)
	if err != nil {
		return nil, err
	}
	if d.lock, err = takeLock(d.main+lockSuffix, d.shown); err != nil {
		if d.temporary {
			_ = os.RemoveAll(d.dir)
		}
		return nil, err
	}
	return d, nil
}

func placeData(o options) (*dataFiles, error) {
	switch {
	case o.dataDir != "":
		if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
			return nil, fmt.Errorf("make data folder: %w", err)
		}
		dir, err := realPath(o.dataDir)
		if err != nil {
			return nil, fmt.Errorf("find data folder: %w", err)
		}
		return &dataFiles{
			shown: dir, dir: dir,
			main: filepath.Join(dir, mainFile), visibility: filepath.Join(dir, visibilityFile),
		}, nil
	case o.dbFilename != "":
		path, err := realPath(o.dbFilename)
		if errors.Is(err, fs.ErrNotExist) {
			// The file is to be made; its folder has to be there, as with `temporal server start-dev`.
			if path, err = realPath(filepath.Dir(o.dbFilename)); err == nil {
				path = filepath.Join(path, filepath.Base(o.dbFilename))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("find folder of database file: %w", err)
		}
		return &dataFiles{shown: path, dir: filepath.Dir(path), main: path, visibility: path + ".visibility"}, nil
	default:
		sweepTemporary(os.TempDir())
		dir, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			return nil, fmt.Errorf("make temporary folder: %w", err)
		}
		return &dataFiles{
			shown: dir, dir: dir, temporary: true,
			main: filepath.Join(dir, mainFile), visibility: filepath.Join(dir, visibilityFile),
		}, nil
	}
}

// realPath is path made absolute, with symbolic links followed: two ways to the same file have to meet at one lock.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// close gives the data back.
func (d *dataFiles) close() {
	if d.temporary {
		_ = os.RemoveAll(d.dir) // while it is still locked, so that a sweep does not come between
	}
	d.lock.release()
}

// sweepTemporary removes the temporary folders of engines that were killed. A folder is only touched when its lock
// file says that an engine had it (so it is not one that is just being made) and the lock is free now.
func sweepTemporary(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, mainFile+lockSuffix)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			continue
		}
		lock, err := tryLock(path)
		if err != nil {
			continue // in use, or somebody else's
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}
