package store

import (
	"container/list"
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/store/blobref"
	"gocloud.dev/blob"
)

// verify makes sure that the object is what its reference says, and answers with its size.
//
// A range of an object cannot be checked by itself, so the whole object is read and hashed once
// per process, and the verdict kept for its size and modification time: reading a large result
// in a thousand ranges then costs two readings of it instead of a thousand. Rejected: verifying
// while streaming (a range from the middle would be handed out before the end is known to be
// right) and a tree of hashes beside each object (a second file that could be lost or damaged
// apart from it). What this does not catch is damage to a medium that leaves size and time as they
// were, after the first reading and until the process ends; [Store.Get] hashes what it gives
// every time.
func (s *Store) verify(ctx context.Context, r blobref.Ref) (int64, error) {
	key, ref := keyOf(r), r.String()
	attrs, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return 0, notFound(err, ref)
	}
	version := version{size: attrs.Size, modTime: attrs.ModTime}
	if s.verdicts.has(key, version) {
		return attrs.Size, nil
	}
	found, size, err := s.hashObject(ctx, key)
	if err != nil {
		return 0, notFound(err, ref)
	}
	if found != r.Hash {
		return 0, &CorruptError{Ref: ref, Wanted: r.Hash, Found: found, Bytes: size}
	}
	if size == attrs.Size {
		s.verdicts.add(key, version)
	}
	return size, nil
}

func (s *Store) hashObject(ctx context.Context, key string) (string, int64, error) {
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return "", 0, err
	}
	defer func(r *blob.Reader) { _ = r.Close() }(r)
	return digest(r)
}

// enter lets one caller per object in at a time, so that many readers of a new object hash it
// once and many writers write it once. It gives up with the context.
func (s *Store) enter(ctx context.Context, key string) (release func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	stripe := s.stripes[h.Sum32()%stripes]
	select {
	case stripe <- struct{}{}:
		return func() { <-stripe }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxVerdicts bounds the memory of what was verified: about 200 bytes each.
const maxVerdicts = 8192

// version tells one content of a key from another without reading it.
type version struct {
	size    int64
	modTime time.Time
}

// verdicts remembers the newest verified objects.
type verdicts struct {
	mu     sync.Mutex
	limit  int
	byKey  map[string]*list.Element
	recent *list.List // of verdict, the most recently used first
}

type verdict struct {
	key     string
	version version
}

func newVerdicts(limit int) verdicts {
	return verdicts{limit: limit, byKey: make(map[string]*list.Element), recent: list.New()}
}

func (v *verdicts) has(key string, of version) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.byKey[key]
	if !ok {
		return false
	}
	known := e.Value.(verdict).version
	if known.size != of.size || !known.modTime.Equal(of.modTime) {
		return false
	}
	v.recent.MoveToFront(e)
	return true
}

func (v *verdicts) add(key string, of version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.byKey[key]; ok {
		e.Value = verdict{key, of}
		v.recent.MoveToFront(e)
		return
	}
	v.byKey[key] = v.recent.PushFront(verdict{key, of})
	if v.recent.Len() > v.limit {
		oldest := v.recent.Back()
		delete(v.byKey, v.recent.Remove(oldest).(verdict).key)
	}
}
