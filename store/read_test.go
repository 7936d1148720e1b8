package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/store"
)

func TestRangeAtTheBorders(t *testing.T) {
	t.Parallel()
	dirStore, _ := folder(t)
	for name, s := range map[string]*store.Store{"folder": dirStore, "memory": open(t, "mem://")} {
		ref := put(t, s, acme, "0123456789")
		for _, tc := range []struct {
			offset, length int64
			want           string
			err            error
		}{
			{0, 10, "0123456789", nil},
			{0, 1 << 40, "0123456789", nil},
			{0, 0, "", nil},
			{3, 4, "3456", nil},
			{9, 1, "9", nil},
			{9, 2, "9", nil},
			{10, 0, "", nil},
			{10, 5, "", nil},
			{11, 0, "", store.ErrRange},
			{-1, 5, "", store.ErrRange},
			{0, -1, "", store.ErrRange},
			{1<<63 - 1, 1<<63 - 1, "", store.ErrRange},
			{5, 1<<63 - 1, "56789", nil},
		} {
			got, total, err := s.Range(t.Context(), ref.Ref, ref.Hash, tc.offset, tc.length)
			if !errors.Is(err, tc.err) || string(got) != tc.want || total != 10 {
				t.Errorf("%s: range(%d, %d) = %q, %d, %v; want %q, 10, %v", name, tc.offset, tc.length, got, total, err, tc.want, tc.err)
			}
		}
		empty := put(t, s, acme, "")
		if got, total, err := s.Range(t.Context(), empty.Ref, "", 0, 5); len(got) != 0 || total != 0 || err != nil {
			t.Errorf("%s: range of an empty object = %q, %d, %v", name, got, total, err)
		}
		if _, _, err := s.Range(t.Context(), store.RefFor("acme", "none", ref.Hash), "", 0, 5); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: range of nothing: %v, want ErrNotFound", name, err)
		}
	}
}

// A large object is read as a whole once, not once per range: the second range succeeds although
// what lies outside of it can no longer be read back as it was, in place and unnoticed.
func TestRangesVerifyOncePerProcess(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	ref := put(t, s, acme, "0123456789")
	if _, _, err := s.Range(t.Context(), ref.Ref, "", 0, 5); err != nil {
		t.Fatal(err)
	}
	file := theObject(t, dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("01234!!!!!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Range(t.Context(), ref.Ref, "", 0, 5); err != nil || string(got) != "01234" {
		t.Errorf("second range = %q, %v", got, err)
	}
	if _, err := s.Get(t.Context(), ref.Ref, ""); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("get: %v, want ErrCorrupt: it hashes what it gives every time", err)
	}
	if _, _, err := reopen(t, dir).Range(t.Context(), ref.Ref, "", 0, 5); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("range in another process: %v, want ErrCorrupt", err)
	}
}

func TestConcurrentRanges(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	ref := put(t, s, acme, string(data))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			offset := int64(i * 1000)
			got, _, err := s.Range(t.Context(), ref.Ref, ref.Hash, offset, 1000)
			if err != nil || !bytes.Equal(got, data[offset:offset+1000]) {
				t.Errorf("range at %d: %d bytes, %v", offset, len(got), err)
			}
		})
	}
	wg.Wait()
}

func TestReadsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	ref := put(t, s, acme, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.PutBytes(ctx, acme, []byte("y"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v, want context.Canceled", err)
	}
	if _, err := s.Get(t.Context(), store.RefFor("acme", "task_1", sha([]byte("y"))), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the cancelled put left an object: %v", err)
	}
	if got, err := s.Get(t.Context(), ref.Ref, ""); err != nil || string(got) != "x" {
		t.Errorf("get = %q, %v", got, err)
	}
}

// readPages reads a whole text page by page.
func readPages(t *testing.T, s *store.Store, ref string, maxBytes int) (pages []store.Page) {
	t.Helper()
	for cursor, rounds := int64(0), 0; ; rounds++ {
		page, err := s.Page(t.Context(), ref, "", cursor, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
		if page.End {
			return pages
		}
		if page.Next <= cursor || rounds > 10_000 {
			t.Fatalf("page at %d does not get on: %+v", cursor, page)
		}
		cursor = page.Next
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := open(t, "mem://")
	for name, tc := range map[string]struct {
		text     string
		maxBytes int
		want     []store.Page
	}{
		"empty":                 {"", 8, []store.Page{{Next: 0, End: true}}},
		"one page":              {"a\nb\n", 8, []store.Page{{Lines: []string{"a", "b"}, Next: 4, End: true}}},
		"exactly one page":      {"abc\ndef\n", 8, []store.Page{{Lines: []string{"abc", "def"}, Next: 8, End: true}}},
		"no line feed at last":  {"a\nb", 8, []store.Page{{Lines: []string{"a", "b"}, Next: 3, End: true}}},
		"empty lines":           {"\n\na\n\n", 8, []store.Page{{Lines: []string{"", "", "a", ""}, Next: 5, End: true}}},
		"lines are not divided": {"abcd\nefgh\nij", 8, []store.Page{{Lines: []string{"abcd"}, Next: 5}, {Lines: []string{"efgh", "ij"}, Next: 12, End: true}}},
		"a long line is cut":    {"abcdefghij\nk", 8, []store.Page{{Lines: []string{"abcdefgh"}, Next: 8, Cut: true}, {Lines: []string{"ij", "k"}, Next: 12, End: true}}},
		"between characters":    {"abcde€€", 7, []store.Page{{Lines: []string{"abcde"}, Next: 5, Cut: true}, {Lines: []string{"€€"}, Next: 11, End: true}}},
		"four-byte characters":  {"😀😀", 5, []store.Page{{Lines: []string{"😀"}, Next: 4, Cut: true}, {Lines: []string{"😀"}, Next: 8, End: true}}},
		"below the least page":  {"😀x", 1, []store.Page{{Lines: []string{"😀"}, Next: 4, Cut: true}, {Lines: []string{"x"}, Next: 5, End: true}}},
		"not utf-8":             {"a\xffb\n", 8, []store.Page{{Lines: []string{"a\uFFFDb"}, Next: 4, End: true}}},
		"only stray bytes":      {"\x80\x80\x80\x80\x80\x80", 4, []store.Page{{Lines: []string{"\uFFFD"}, Next: 4, Cut: true}, {Lines: []string{"\uFFFD"}, Next: 6, End: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := put(t, s, store.Key{Tenant: "acme", TaskID: "pages"}, tc.text)
			if diff := cmp.Diff(tc.want, readPages(t, s, ref.Ref, tc.maxBytes)); diff != "" {
				t.Errorf("pages differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPagesGiveTheWholeText(t *testing.T) {
	t.Parallel()
	s, _ := folder(t)
	text := strings.Repeat("a short line\n"+strings.Repeat("long ", 50)+"\n\n", 200)
	ref := put(t, s, acme, text)
	for _, maxBytes := range []int{16, 100, 4096, 0} {
		var got strings.Builder
		for _, page := range readPages(t, s, ref.Ref, maxBytes) {
			got.WriteString(strings.Join(page.Lines, "\n"))
			if !page.Cut {
				got.WriteString("\n")
			}
		}
		if got.String() != text {
			t.Errorf("pages of %d bytes give %d bytes, want %d", maxBytes, got.Len(), len(text))
		}
	}
	if _, err := s.Page(t.Context(), ref.Ref, "", int64(len(text)+1), 0); !errors.Is(err, store.ErrRange) {
		t.Errorf("cursor behind the end: %v, want ErrRange", err)
	}
}
