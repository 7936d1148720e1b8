package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/wakepoint/wakepoint/store/blobref"
)

// folderBatch is how many entries of a folder are in memory at a time.
const folderBatch = 1000

// removeEmpty removes the folders of tasks and runs whose last object was deleted before a
// time. Deleting an object leaves its folder, and there would be one for every task there
// ever was. A Put that finds its folder gone at the very moment fails and is repeated; the
// age keeps that to those that have had none for long.
func (s *Store) removeEmpty(ctx context.Context, before time.Time) error {
	return eachFolder(s.root, func(tenant string) error {
		for _, kind := range blobref.Kinds() {
			err := eachFolder(filepath.Join(tenant, string(kind)), func(owner string) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if info, err := os.Lstat(owner); err != nil || !info.ModTime().Before(before) {
					return ignoreMissing(err)
				}
				_ = os.Remove(owner) // which refuses all but empty ones
				return nil
			})
			if err := ignoreMissing(err); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachFolder goes through the folders right in a folder. Links are no folders.
func eachFolder(dir string, do func(path string) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		entries, err := f.ReadDir(folderBatch)
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if err := do(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
