package starter_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
)

// withStore is a world whose client has a store in a folder of the test.
func withStore(t *testing.T) (*world, *store.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return setup(t, func(o *starter.Options) { o.Store = s }), s, dir
}

// succeeded is a task whose result is stored.
func succeeded(t *testing.T, w *world, s *store.Store, content []byte) (id string, ref store.Ref) {
	t.Helper()
	id = w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	ref, err := s.PutBytes(t.Context(), store.Key{Tenant: "acme", TaskID: id}, content, "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	w.call(t, id, "1", domain.Event{Type: domain.EventSucceed, ResultRef: ref.Ref, ResultHash: ref.Hash, ContentType: "text/plain", Bytes: ref.Bytes})
	return id, ref
}

func TestResultIsReadInEveryWay(t *testing.T) {
	t.Parallel()
	w, s, _ := withStore(t)
	content := bytes.Repeat([]byte("one line of text\n"), 200_000)
	id, ref := succeeded(t, w, s, content)
	r, err := w.Result(t.Context(), id)
	if err != nil || r.Ref != ref.Ref || r.Hash != ref.Hash || r.ContentType != "text/plain" || r.Bytes != int64(len(content)) || r.Late || r.Outside {
		t.Fatalf("%+v (%v)", r, err)
	}
	rd, err := r.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(rd); err != nil || !bytes.Equal(all, content) {
		t.Errorf("read %d bytes (%v)", len(all), err)
	}
	if err := rd.Close(); err != nil {
		t.Error(err)
	}
	if n, err := rd.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after closing: %d (%v)", n, err)
	}
	if data, total, err := r.Range(t.Context(), 4, 8); err != nil || string(data) != "line of " || total != int64(len(content)) {
		t.Errorf("%q of %d (%v)", data, total, err)
	}
	if p, err := r.Page(t.Context(), 0, 40); err != nil || len(p.Lines) != 2 || p.Next != 34 {
		t.Errorf("%+v (%v)", p, err)
	}
	_, _, err = r.Range(t.Context(), int64(len(content))+1, 1)
	is(t, err, starter.ErrInvalid)
}

func TestResultThatIsGone(t *testing.T) {
	t.Parallel()
	w, s, _ := withStore(t)
	id, ref := succeeded(t, w, s, []byte("x"))
	r, err := w.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ended := r.KeptUntilMs - config.DefaultResultTTL.Milliseconds()
	if d, err := w.Describe(t.Context(), id); err != nil || d.Task.EndedAtMs != ended || d.KeptUntilMs != r.KeptUntilMs {
		t.Errorf("it ended at %d and is kept until %d, or %d (%v)", d.Task.EndedAtMs, d.KeptUntilMs, r.KeptUntilMs, err)
	}
	if err := s.Delete(t.Context(), ref.Ref); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at   time.Duration
		want *starter.Error
	}{
		{0, starter.ErrResultMissing}, // somebody else deleted it
		{config.DefaultResultTTL - 6*time.Minute, starter.ErrResultMissing},
		{config.DefaultResultTTL - 4*time.Minute, starter.ErrResultExpired}, // by a sweep whose clock is ahead
		{config.DefaultResultTTL + time.Hour, starter.ErrResultExpired},
	} {
		w.clock.Store(ended + tc.at.Milliseconds())
		_, err = w.Result(t.Context(), id)
		is(t, err, tc.want)
		_, err = r.Open(t.Context())
		is(t, err, tc.want)
		_, err = r.Page(t.Context(), 0, 0)
		if e := as(t, err, tc.want); e.Hint == "" {
			t.Error("no hint")
		}
	}
}

func TestResultThatIsDamaged(t *testing.T) {
	t.Parallel()
	w, s, dir := withStore(t)
	id, ref := succeeded(t, w, s, []byte("the truth"))
	if err := os.WriteFile(filepath.Join(dir, "acme", "task", id, ref.Hash), []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := w.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Open(t.Context())
	is(t, err, starter.ErrResultCorrupt)
}

func TestResultOfATaskWithoutOne(t *testing.T) {
	t.Parallel()
	w, _, _ := withStore(t)
	_, err := w.Result(t.Context(), w.submit(t, starter.Submission{TaskID: "open"}).TaskID)
	is(t, err, starter.ErrNotEnded)
	_, err = w.Result(t.Context(), w.ended(t, domain.StateFailed))
	if e := as(t, err, starter.ErrNotSucceeded); e.Hint == "" {
		t.Error("no hint")
	}
	_, err = w.LateResult(t.Context(), "open")
	is(t, err, starter.ErrNotSucceeded)
}

// TestResultOfSomebodyElse: whoever may send callbacks for one task could name the
// result of another, of another tenant even, and read it through his own.
func TestResultOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]string{
		"another task":   "blob:acme/task/b/",
		"another tenant": "blob:umbrella/task/a/",
		"a run":          "blob:acme/run/a/",
		"another place":  "https://example.com/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, _ := withStore(t)
			id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
			var hash string
			for _, k := range []store.Key{{Tenant: "acme", TaskID: "b"}, {Tenant: "umbrella", TaskID: "a"}, {Tenant: "acme", RunID: "a"}} {
				put, err := s.PutBytes(t.Context(), k, []byte("a secret"), "")
				if err != nil {
					t.Fatal(err)
				}
				hash = put.Hash
			}
			w.call(t, id, "1", domain.Event{Type: domain.EventSucceed, ResultRef: ref + hash, ResultHash: hash})
			r, err := w.Result(t.Context(), id)
			if err != nil || !r.Outside || r.Ref != ref+hash {
				t.Fatalf("%+v (%v)", r, err)
			}
			_, err = r.Open(t.Context())
			is(t, err, starter.ErrResultOutside)
		})
	}
}

func TestLateResultThatIsGone(t *testing.T) {
	t.Parallel()
	w, _, _ := withStore(t)
	id := w.submit(t, starter.Submission{Tool: "late", TaskID: "a"}).TaskID
	w.clock.Add(61_000)
	// This engine stores nothing, so the bytes are missing from the start.
	w.call(t, id, "1", succeed())
	_, err := w.LateResult(t.Context(), id)
	is(t, err, starter.ErrResultMissing)
	// It lives from when it came.
	w.clock.Add(config.DefaultResultTTL.Milliseconds() - time.Hour.Milliseconds())
	_, err = w.LateResult(t.Context(), id)
	is(t, err, starter.ErrResultMissing)
	w.clock.Add(2 * time.Hour.Milliseconds())
	_, err = w.LateResult(t.Context(), id)
	is(t, err, starter.ErrResultExpired)
}

func TestLateResult(t *testing.T) {
	t.Parallel()
	w, s, _ := withStore(t)
	id := w.submit(t, starter.Submission{Tool: "late", TaskID: "a"}).TaskID
	ref, err := s.PutBytes(t.Context(), store.Key{Tenant: "acme", TaskID: id}, []byte("better late"), "")
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Add(61_000)
	w.call(t, id, "1", domain.Event{Type: domain.EventSucceed, ResultRef: ref.Ref, ResultHash: ref.Hash})
	_, err = w.Result(t.Context(), id)
	is(t, err, starter.ErrNotSucceeded)
	r, err := w.LateResult(t.Context(), id)
	if err != nil || !r.Late || r.Bytes != 11 {
		t.Fatalf("%+v (%v)", r, err)
	}
	rd, err := r.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(rd); err != nil || string(all) != "better late" {
		t.Errorf("%q (%v)", all, err)
	}
}

func TestResultWithoutAStore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, err := w.Result(t.Context(), w.ended(t, domain.StateSucceeded))
	if err != nil || !strings.HasPrefix(r.Ref, "blob:acme/task/ended-succeeded/") {
		t.Fatalf("%+v (%v)", r, err)
	}
	_, err = r.Open(t.Context())
	is(t, err, starter.ErrInternal)
}
