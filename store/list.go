package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/store/blobref"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// List gives the objects of a task, of a tenant (taskID empty), both of its runs and of its tasks,
// or of everybody (both empty). Those of one task or run come together, and a tenant's runs before
// its tasks, from a folder and from all stores that list by name; more order is not promised. What
// is in the bucket and is no object of ours is passed over. After an error it ends.
func (s *Store) List(ctx context.Context, tenant, taskID string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		prefix, err := listPrefix(tenant, taskID)
		if err != nil {
			yield(Info{}, fmt.Errorf("list: %w", err))
			return
		}
		for obj, err := range s.objects(ctx, prefix) {
			if err != nil {
				yield(Info{}, fmt.Errorf("list: %w", err))
				return
			}
			ref, ok := refOfKey(obj.Key)
			if !ok {
				continue
			}
			if !yield(Info{Ref: ref, Bytes: obj.Size, ModTime: obj.ModTime}, nil) {
				return
			}
		}
	}
}

// SweepTemporary removes what a crash in the middle of a Put left behind in a folder, if it is
// older than before, and the folders of tasks and runs that have been empty since then. It answers
// how many files that were.
func (s *Store) SweepTemporary(ctx context.Context, before time.Time) (int, error) {
	if s.root == "" {
		return 0, nil
	}
	removed := 0
	for obj, err := range s.objects(ctx, "") {
		if err != nil {
			return removed, fmt.Errorf("sweep: %w", err)
		}
		if !isTemporary(obj.Key) || !obj.ModTime.Before(before) {
			continue
		}
		if err := s.bucket.Delete(ctx, obj.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return removed, fmt.Errorf("sweep %s: %w", obj.Key, err)
		}
		removed++
	}
	if err := s.removeEmpty(ctx, before); err != nil {
		return removed, fmt.Errorf("sweep: %w", err)
	}
	return removed, nil
}

// isTemporary recognises the folder driver's unfinished writes: an object's key, a number and
// ".tmp".
func isTemporary(key string) bool {
	rest, ok := strings.CutSuffix(key, ".tmp")
	if !ok {
		return false
	}
	i := strings.LastIndexByte(rest, '.')
	if i < 0 {
		return false
	}
	_, ok = refOfKey(rest[:i])
	return ok
}

func (s *Store) objects(ctx context.Context, prefix string) iter.Seq2[*blob.ListObject, error] {
	return func(yield func(*blob.ListObject, error) bool) {
		it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			obj, err := it.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(obj, err) || err != nil {
				return
			}
		}
	}
}

// listPrefix composes what the keys begin with. The names are checked as those of a reference are,
// with a stand-in for what is left open.
func listPrefix(tenant, taskID string) (string, error) {
	switch {
	case tenant == "" && taskID == "":
		return "", nil
	case taskID == "":
		return escapeSegment(tenant) + "/", blobref.Check(tenant, "any", anyHash)
	}
	return folderOf(tenant, blobref.KindTask, taskID), blobref.Check(tenant, taskID, anyHash)
}
