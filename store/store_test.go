package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
)

var acme = store.Key{Tenant: "acme", TaskID: "task_1"}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// folder opens a store in a new folder.
func folder(t *testing.T) (*store.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "with space", "blobs")
	return reopen(t, dir), dir
}

func reopen(t *testing.T, dir string) *store.Store {
	t.Helper()
	u, err := store.FileURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, u)
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func put(t *testing.T, s *store.Store, key store.Key, data string) store.Ref {
	t.Helper()
	ref, err := s.PutBytes(t.Context(), key, []byte(data), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// objectFiles lists what lies in a store's folder.
func objectFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func theObject(t *testing.T, dir string) string {
	t.Helper()
	files := objectFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("files %q, want exactly one", files)
	}
	return files[0]
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	dirStore, _ := folder(t)
	for name, s := range map[string]*store.Store{"folder": dirStore, "memory": open(t, "mem://")} {
		for size, data := range map[string][]byte{"empty": {}, "small": []byte("hello"), "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
			ref, err := s.PutBytes(t.Context(), acme, data, "text/plain")
			if err != nil {
				t.Fatalf("%s, %s: %v", name, size, err)
			}
			want := store.Ref{Ref: "blob:acme/task/task_1/" + sha(data), Hash: sha(data), Bytes: int64(len(data)), ContentType: "text/plain"}
			if diff := cmp.Diff(want, ref); diff != "" {
				t.Errorf("%s, %s: ref differs (-want +got):\n%s", name, size, diff)
			}
			if got := store.RefFor("acme", "task_1", sha(data)); got != ref.Ref {
				t.Errorf("%s, %s: RefFor = %s, want %s", name, size, got, ref.Ref)
			}
			for _, hash := range []string{ref.Hash, ""} {
				got, err := s.Get(t.Context(), ref.Ref, hash)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s, %s: get %d bytes, %v; want %d bytes", name, size, len(got), err, len(data))
				}
			}
		}
	}
}

func TestPutFromReaders(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	half := strings.NewReader("skipped, kept")
	if _, err := half.Seek(int64(len("skipped, ")), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		r    io.Reader
		want string
	}{
		"no seeker":              {io.MultiReader(strings.NewReader("a"), strings.NewReader("b")), "ab"},
		"one byte at a time":     {iotest.OneByteReader(strings.NewReader("slow")), "slow"},
		"seeker after its start": {half, "kept"},
	} {
		ref, err := s.Put(t.Context(), acme, tc.r, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := s.Get(t.Context(), ref.Ref, "")
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
		}
		if ref.ContentType != "application/octet-stream" {
			t.Errorf("%s: content type %q", name, ref.ContentType)
		}
	}
}

func TestPutLeavesNothingOfAFailedRead(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	_, err := s.Put(t.Context(), acme, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrNoProgress)), "")
	if !errors.Is(err, io.ErrNoProgress) {
		t.Fatalf("error = %v, want the reader's", err)
	}
	if files := objectFiles(t, dir); len(files) != 0 {
		t.Errorf("left behind: %q", files)
	}
}

// changing gives other content each time it is read from its start.
type changing struct {
	strings.Reader
	next []string
}

func (c *changing) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekStart && len(c.next) > 0 {
		c.Reset(c.next[0])
		c.next = c.next[1:]
	}
	return c.Reader.Seek(offset, whence)
}

func TestPutNoticesContentThatChanges(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	src := &changing{next: []string{"second"}}
	src.Reset("first!")
	if _, err := s.Put(t.Context(), acme, src, ""); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Fatalf("error = %v, want one about changed content", err)
	}
	if files := objectFiles(t, dir); len(files) != 0 {
		t.Errorf("left behind: %q", files)
	}
}

func TestPutTwiceKeepsOneObject(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	first := put(t, s, acme, "same")
	file := theObject(t, dir)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if again := put(t, s, acme, "same"); again != first {
		t.Errorf("second put = %+v, want %+v", again, first)
	}
	after, err := os.Stat(theObject(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the object was written a second time")
	}
	other := put(t, s, store.Key{Tenant: "acme", TaskID: "task_2"}, "same")
	if other.Ref == first.Ref || len(objectFiles(t, dir)) != 2 {
		t.Error("two tasks share an object: deleting one would take the other's result")
	}
}

func TestConcurrentPutsOfTheSameContent(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	otherProcess := reopen(t, dir) // shares nothing but the folder
	data := bytes.Repeat([]byte("x"), 1<<20)
	var wg sync.WaitGroup
	for i := range 16 {
		target := s
		if i%2 == 1 {
			target = otherProcess
		}
		wg.Go(func() {
			ref, err := target.PutBytes(t.Context(), acme, data, "")
			if err != nil {
				t.Errorf("put: %v", err)
				return
			}
			if got, err := target.Get(t.Context(), ref.Ref, ref.Hash); err != nil || len(got) != len(data) {
				t.Errorf("get: %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	theObject(t, dir)
}

func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	put(t, s, acme, "secret")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	const content = "line one\nline two\n"
	for name, damage := range map[string]func(*testing.T, string){
		"a changed byte": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte("line one\nline 2wo\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"truncated": func(t *testing.T, file string) {
			if err := os.Truncate(file, 4); err != nil {
				t.Fatal(err)
			}
		},
		"emptied": func(t *testing.T, file string) {
			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
		},
		"longer": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(content+"more"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, readBefore := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, dir := folder(t)
				ref := put(t, s, acme, content)
				if readBefore {
					if _, _, err := s.Range(t.Context(), ref.Ref, ref.Hash, 0, 4); err != nil {
						t.Fatal(err)
					}
				}
				damage(t, theObject(t, dir))
				// The size or the time of the file tells the cached verdict that it is void.
				stamp := time.Now().Add(time.Hour)
				if err := os.Chtimes(theObject(t, dir), stamp, stamp); err != nil {
					t.Fatal(err)
				}
				_, getErr := s.Get(t.Context(), ref.Ref, ref.Hash)
				_, _, rangeErr := s.Range(t.Context(), ref.Ref, ref.Hash, 0, 4)
				_, pageErr := s.Page(t.Context(), ref.Ref, ref.Hash, 0, 100)
				for verb, err := range map[string]error{"get": getErr, "range": rangeErr, "page": pageErr} {
					var corrupt *store.CorruptError
					if !errors.As(err, &corrupt) || !errors.Is(err, store.ErrCorrupt) {
						t.Errorf("%s: error %v, want ErrCorrupt", verb, err)
						continue
					}
					if corrupt.Ref != ref.Ref || corrupt.Wanted != ref.Hash || corrupt.Found == ref.Hash || len(corrupt.Found) != 64 {
						t.Errorf("%s: error does not name what was wanted and found: %+v", verb, corrupt)
					}
				}
				put(t, s, acme, content) // the same content again heals it
				if got, err := s.Get(t.Context(), ref.Ref, ref.Hash); err != nil || string(got) != content {
					t.Errorf("after another put: %q, %v", got, err)
				}
			})
		}
	}
}

// A process that dies in the middle of a Put leaves a temporary file: no object, and swept later.
func TestSweepOfUnfinishedWrites(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	ref := put(t, s, acme, "whole")
	object := theObject(t, dir)
	strangers := []string{filepath.Join(dir, "notes.tmp"), filepath.Join(dir, "acme", "x.17.tmp")}
	stranded := object + ".18a3.tmp"
	for _, f := range append(strangers, stranded) {
		if err := os.WriteFile(f, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := refs(t, s, "", ""); !cmp.Equal(got, []string{ref.Ref}) {
		t.Errorf("listed %q, want the finished object only", got)
	}
	if n, err := s.SweepTemporary(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("swept %d, %v; nothing is old enough", n, err)
	}
	if n, err := s.SweepTemporary(t.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want 1", n, err)
	}
	if _, err := os.Stat(stranded); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stranded file: %v, want it gone", err)
	}
	for _, f := range append(strangers, object) {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("%s was none of ours to sweep: %v", f, err)
		}
	}
}

func refs(t *testing.T, s *store.Store, tenant, taskID string) []string {
	t.Helper()
	var got []string
	for info, err := range s.List(t.Context(), tenant, taskID) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Ref)
	}
	return got
}

func TestListAndDelete(t *testing.T) {
	t.Parallel()
	dirStore, _ := folder(t)
	for name, s := range map[string]*store.Store{"folder": dirStore, "memory": open(t, "mem://")} {
		// Names in which the folder driver would see its own escapes, or the way up.
		odd := store.Key{Tenant: "__0x41__", TaskID: "x.."}
		a := put(t, s, acme, "a").Ref
		b := put(t, s, store.Key{Tenant: "acme", TaskID: "task_10"}, "b").Ref
		c := put(t, s, odd, "c").Ref
		// A run of the same id is another owner, also of the same content.
		ofRun := put(t, s, store.Key{Tenant: "acme", RunID: "task_1"}, "a").Ref
		oddRun := put(t, s, store.Key{Tenant: odd.Tenant, RunID: odd.TaskID}, "c").Ref
		if ofRun != blobref.ForRun("acme", "task_1", sha([]byte("a"))) {
			t.Errorf("%s: the content of a run is %s", name, ofRun)
		}
		for ref, want := range map[string]string{ofRun: "a", oddRun: "c"} {
			if got, err := s.Get(t.Context(), ref, ""); err != nil || string(got) != want {
				t.Errorf("%s: get of %s: %q, %v", name, ref, got, err)
			}
		}
		if got, err := s.Get(t.Context(), c, ""); err != nil || string(got) != "c" {
			t.Errorf("%s: get of odd names: %q, %v", name, got, err)
		}
		for _, tc := range []struct {
			tenant, taskID string
			want           []string
		}{
			{"", "", []string{c, oddRun, ofRun, a, b}},
			{"acme", "", []string{ofRun, a, b}},
			{"acme", "task_1", []string{a}},
			{odd.Tenant, odd.TaskID, []string{c}},
			{"acm", "", nil},
		} {
			got := refs(t, s, tc.tenant, tc.taskID)
			if len(got) != len(tc.want) {
				t.Errorf("%s: list of %q %q = %q, want %q", name, tc.tenant, tc.taskID, got, tc.want)
			}
			for _, w := range tc.want {
				if !contains(got, w) {
					t.Errorf("%s: list of %q %q = %q lacks %q", name, tc.tenant, tc.taskID, got, w)
				}
			}
		}
		// Those of runs come before those of tasks.
		if got := refs(t, s, "acme", ""); !slices.IsSorted(got) {
			t.Errorf("%s: list in the order %q", name, got)
		}
		for range 2 { // the second time there is nothing to delete
			if err := s.Delete(t.Context(), a); err != nil {
				t.Errorf("%s: delete: %v", name, err)
			}
		}
		if _, err := s.Get(t.Context(), a, ""); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: get after delete: %v, want ErrNotFound", name, err)
		}
		if got := refs(t, s, "acme", ""); !cmp.Equal(got, []string{ofRun, b}) {
			t.Errorf("%s: after delete %q, want %q and %q", name, got, ofRun, b)
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func TestStat(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	ref := put(t, s, acme, "four")
	info, err := s.Stat(t.Context(), ref.Ref)
	if err != nil || info.Bytes != 4 || info.Ref != ref.Ref || time.Since(info.ModTime).Abs() > time.Minute {
		t.Errorf("stat = %+v, %v", info, err)
	}
	if _, err := s.Stat(t.Context(), store.RefFor("acme", "task_1", sha([]byte("never")))); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("stat of nothing: %v, want ErrNotFound", err)
	}
}

// Every verb that takes a reference refuses a bad one before it touches the folder.
func TestBadReferences(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := sha([]byte("secret"))
	for _, ref := range []string{
		"", "blob:", "blob:../outside", "blob:../task/../" + h, "blob:acme/task/../../../outside",
		"blob:../run/../" + h, "blob:acme/run/../../../outside", "blob:acme/run/r/" + strings.ToUpper(h), "blob:acme/run//" + h,
		"blob:/run/" + outside + "/" + h, "blob:/task/" + outside + "/" + h, "file://" + outside, "blob:acme/task/t/" + strings.ToUpper(h), outside,
	} {
		_, getErr := s.Get(t.Context(), ref, "")
		_, _, rangeErr := s.Range(t.Context(), ref, "", 0, 10)
		_, pageErr := s.Page(t.Context(), ref, "", 0, 10)
		_, statErr := s.Stat(t.Context(), ref)
		deleteErr := s.Delete(t.Context(), ref)
		for verb, err := range map[string]error{"get": getErr, "range": rangeErr, "page": pageErr, "stat": statErr, "delete": deleteErr} {
			if !errors.Is(err, store.ErrRef) {
				t.Errorf("%s of %q: %v, want ErrRef", verb, ref, err)
			}
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("the file outside: %v", err)
	}
	for _, key := range []store.Key{
		{},
		{Tenant: "..", TaskID: "t"},
		{Tenant: "a/b", TaskID: "t"},
		{Tenant: "a", TaskID: "../../x"},
		{Tenant: "a", TaskID: ""},
		{Tenant: "..", RunID: "r"},
		{Tenant: "a", RunID: "../../x"},
		{Tenant: "a", RunID: ".."},
		{Tenant: "a", TaskID: "t", RunID: "r"},
	} {
		if _, err := s.PutBytes(t.Context(), key, []byte("x"), ""); !errors.Is(err, store.ErrRef) {
			t.Errorf("put for %+v: %v, want ErrRef", key, err)
		}
		if key == (store.Key{}) {
			continue // lists everything
		}
		if key.TaskID == "" || key.RunID != "" {
			continue // lists the tenant, or has no list of its own
		}
		for _, err := range s.List(t.Context(), key.Tenant, key.TaskID) {
			if !errors.Is(err, store.ErrRef) {
				t.Errorf("list of %+v: %v, want ErrRef", key, err)
			}
		}
	}
}

func TestRecordedHashMustAgree(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	ref := put(t, s, acme, "right")
	if _, err := s.Get(t.Context(), ref.Ref, sha([]byte("wrong"))); !errors.Is(err, store.ErrRef) || !strings.Contains(err.Error(), "differs") {
		t.Errorf("error = %v, want ErrRef about the recorded hash", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ url, says string }{
		"unknown scheme": {"nosuch://bucket", "nosuch"},
		"relative":       {"file://data/blobs", "absolute path"},
		"parameters":     {"file:///tmp/x?metadata=skip", "no parameters"},
		"not a folder":   {"file://" + file, "not a directory"},
		"no url":         {"://", "store url"},
	} {
		if _, err := store.Open(t.Context(), tc.url); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error = %v, want one with %q", name, err, tc.says)
		}
	}
}
