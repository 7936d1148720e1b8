// Package store keeps the results of tasks and the contents of runs: bytes that are too big for
// history, addressed by task or run and sha-256 and verified on the way out.
//
// It is a thin layer over gocloud.dev/blob. A folder (file://) and memory (mem://) are built in;
// another scheme works once the program imports its driver. The form of a reference lives in the
// package blobref, which a workflow may import.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/store/blobref"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	_ "gocloud.dev/blob/memblob" // the scheme mem://
)

// The sentinels of this package, for errors.Is.
var (
	// ErrNotFound: there is no object of this reference.
	ErrNotFound = errors.New("blob not found")
	// ErrCorrupt is what every [*CorruptError] is.
	ErrCorrupt = errors.New("blob is corrupt")
	// ErrRef: the reference, or a part of one, breaks a rule; see [blobref.RefError].
	ErrRef = blobref.ErrRef
	// ErrRange: the range asked for begins before or after the content.
	ErrRange = errors.New("range is outside of the blob")
)

// CorruptError says that what is stored is not what the reference promises.
type CorruptError struct {
	Ref string
	// Wanted and Found are sha-256 in hexadecimal; Bytes is the size found.
	Wanted, Found string
	Bytes         int64
}

// Error names the reference and both hashes.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s: wanted sha-256 %s, found %s (%d bytes)", ErrCorrupt, e.Ref, e.Wanted, e.Found, e.Bytes)
}

// Is makes the error an [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// anyHash stands in for a hash where only the other parts of a reference are checked.
const anyHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Key says whose an object is: a task's or a run's.
type Key struct {
	Tenant string
	// Exactly one of TaskID and RunID is set.
	TaskID string
	RunID  string
}

func (k Key) ref(hash string) blobref.Ref {
	return blobref.Ref{Tenant: k.Tenant, TaskID: k.TaskID, RunID: k.RunID, Hash: hash}
}

// Ref describes a stored object.
type Ref struct {
	// Ref is the reference, Hash the sha-256 of the content in hexadecimal.
	Ref  string
	Hash string
	// Bytes is the size of the content.
	Bytes int64
	// ContentType is what Put was told. A folder does not keep it: whoever keeps the reference
	// keeps the type.
	ContentType string
}

// RefFor computes the reference of a task's content before it is stored; see [blobref.For] and, for
// that of a run, [blobref.ForRun].
func RefFor(tenant, taskID, hash string) string { return blobref.For(tenant, taskID, hash) }

// Store is a blob store. It is safe for concurrent use, also by several processes.
type Store struct {
	bucket *blob.Bucket
	// root is the folder of a file:// store, empty for any other.
	root     string
	verdicts verdicts
	stripes  [stripes]chan struct{}
}

// stripes is how many objects can be written or verified at once without waiting for each other.
const stripes = 32

// Open opens the store at a URL of gocloud.dev/blob. A folder of file:// is created when it is not
// there; what is created in it is readable by its owner only (0700 and 0600). No error repeats the
// password or the parameters of the URL.
func Open(ctx context.Context, rawURL string) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("store url: is no URL") // the cause repeats it
	}
	s := &Store{verdicts: newVerdicts(maxVerdicts)}
	for i := range s.stripes {
		s.stripes[i] = make(chan struct{}, 1)
	}
	if u.Scheme == "file" {
		s.bucket, s.root, err = openFolder(u)
	} else {
		s.bucket, err = blob.OpenBucket(ctx, rawURL)
	}
	if err != nil {
		shown := Shown(u)
		if text := err.Error(); strings.Contains(text, rawURL) {
			err = errors.New(strings.ReplaceAll(text, rawURL, shown))
		}
		return nil, fmt.Errorf("open store %s: %w", shown, err)
	}
	return s, nil
}

// Shown is a store's URL for people: without the password and the parameters, which may
// open the store.
func Shown(u *url.URL) string {
	bare := *u
	bare.RawQuery, bare.ForceQuery = "", false
	return bare.Redacted()
}

// Close releases what the store holds open.
func (s *Store) Close() error { return s.bucket.Close() }

// PutBytes is [Store.Put] of a slice.
func (s *Store) PutBytes(ctx context.Context, key Key, data []byte, contentType string) (Ref, error) {
	return s.Put(ctx, key, bytes.NewReader(data), contentType)
}

// Put stores what r gives and answers with its reference. Storing the same content for the same
// task or run again finds the object that is there, and heals it if it is damaged. An object appears
// whole or not at all; in a folder it has reached the disk when Put returns.
//
// The content is read twice, since its hash is its address: an r that is an io.Seeker is rewound,
// from anything else the content is spooled to a temporary file first. An empty contentType
// means application/octet-stream.
func (s *Store) Put(ctx context.Context, key Key, r io.Reader, contentType string) (Ref, error) {
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	if err := key.ref(anyHash).Check(); err != nil {
		return Ref{}, fmt.Errorf("put: %w", err)
	}
	src, done, err := seekable(r)
	if err != nil {
		return Ref{}, fmt.Errorf("put: %w", err)
	}
	defer done()
	hash, size, err := digest(src)
	if err != nil {
		return Ref{}, fmt.Errorf("put: read the content: %w", err)
	}
	parsed := key.ref(hash)
	ref := Ref{Ref: parsed.String(), Hash: hash, Bytes: size, ContentType: contentType}
	objectKey := keyOf(parsed)

	release, err := s.enter(ctx, objectKey)
	if err != nil {
		return Ref{}, fmt.Errorf("put %s: %w", ref.Ref, err)
	}
	defer release()
	switch _, err := s.verify(ctx, parsed); {
	case err == nil:
		return ref, nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrCorrupt):
	default:
		return Ref{}, fmt.Errorf("put %s: %w", ref.Ref, err)
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return Ref{}, fmt.Errorf("put %s: rewind the content: %w", ref.Ref, err)
	}
	if err := s.write(ctx, objectKey, src, hash, contentType); err != nil {
		return Ref{}, fmt.Errorf("put %s: %w", ref.Ref, err)
	}
	return ref, nil
}

// write puts the content at its key. It hashes once more while it copies, so that a source that
// changed between the two readings is not stored under the hash of the first.
func (s *Store) write(ctx context.Context, objectKey string, src io.Reader, hash, contentType string) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	var file *os.File
	w, err := s.bucket.NewWriter(ctx, objectKey, &blob.WriterOptions{
		ContentType: contentType,
		BeforeWrite: func(as func(any) bool) error {
			if s.root != "" && as(&file) {
				return file.Chmod(0o600)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(w, sum), src)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != hash {
		err = errors.New("the content changed while it was stored")
	}
	if err == nil && file != nil {
		err = file.Sync()
	}
	if err != nil {
		// A cancelled context makes Close throw the object away.
		abort()
		_ = w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if file != nil {
		return syncFolders(file.Name(), s.root)
	}
	return nil
}

// Delete removes an object. Removing one that is not there is no error, so that a sweep can be
// repeated.
func (s *Store) Delete(ctx context.Context, ref string) error {
	parsed, err := blobref.Parse(ref)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := s.bucket.Delete(ctx, keyOf(parsed)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete %s: %w", ref, err)
	}
	return nil
}

// Info is what is known of an object without reading it.
type Info struct {
	Ref     string
	Bytes   int64
	ModTime time.Time
}

// Stat looks an object up. It does not verify it.
func (s *Store) Stat(ctx context.Context, ref string) (Info, error) {
	parsed, err := blobref.Parse(ref)
	if err != nil {
		return Info{}, fmt.Errorf("stat: %w", err)
	}
	attrs, err := s.bucket.Attributes(ctx, keyOf(parsed))
	if err != nil {
		return Info{}, fmt.Errorf("stat: %w", notFound(err, ref))
	}
	return Info{Ref: ref, Bytes: attrs.Size, ModTime: attrs.ModTime}, nil
}

// notFound turns the driver's word for a missing object into ours.
func notFound(err error, ref string) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, ref)
	}
	return err
}

func digest(r io.Reader) (hash string, size int64, err error) {
	sum := sha256.New()
	size, err = io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), size, err
}

// seekable gives a reader that can be read twice, from where r stands, and what to call afterwards.
func seekable(r io.Reader) (io.ReadSeeker, func(), error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil && at == 0 {
			return s, func() {}, nil
		}
	}
	f, err := os.CreateTemp("", "wakepoint-put-*")
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	if _, err := io.Copy(f, r); err != nil {
		done()
		return nil, nil, fmt.Errorf("read the content: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}

// keyOf is the name of an object in the bucket: the reference without its scheme. The folder
// driver reads "../" and "__0x" in a key as its own escapes; both can occur in legal names, so
// they are broken up by a '%', which cannot.
func keyOf(r blobref.Ref) string {
	kind, id := r.Owner()
	return folderOf(r.Tenant, kind, id) + r.Hash
}

// folderOf is what the names of all objects of a task or run begin with.
func folderOf(tenant string, kind blobref.Kind, id string) string {
	return escapeSegment(tenant) + "/" + string(kind) + "/" + escapeSegment(id) + "/"
}

func escapeSegment(s string) string {
	s = strings.ReplaceAll(s, "__0x", "__%0x")
	if strings.HasSuffix(s, "..") {
		s += "%"
	}
	return s
}

// refOfKey is the inverse of keyOf; false for anything in the bucket that is not an object of ours.
func refOfKey(key string) (string, bool) {
	ref := blobref.Scheme + strings.ReplaceAll(key, "%", "")
	parsed, err := blobref.Parse(ref)
	if err != nil || keyOf(parsed) != key {
		return "", false
	}
	return ref, true
}
