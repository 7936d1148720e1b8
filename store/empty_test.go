package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/store"
)

// Deleting the last result of a task leaves its folder, which goes some time later.
func TestSweepOfEmptyFolders(t *testing.T) {
	t.Parallel()
	s, dir := folder(t)
	tasks := filepath.Join(dir, "acme", "task")
	refs := map[string]store.Ref{}
	for _, id := range []string{"deleted", "full", "lately"} {
		refs[id] = put(t, s, store.Key{Tenant: "acme", TaskID: id}, id)
	}
	for _, id := range []string{"deleted", "lately"} {
		if err := s.Delete(t.Context(), refs[id].Ref); err != nil {
			t.Fatal(err)
		}
	}
	runs := filepath.Join(dir, "acme", "run")
	for _, id := range []string{"deleted", "full"} {
		refs[id] = put(t, s, store.Key{Tenant: "acme", RunID: id}, id)
	}
	if err := s.Delete(t.Context(), refs["deleted"].Ref); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(tasks, "link")); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(dir, "acme", "notes", "empty")
	if err := os.MkdirAll(stranger, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, path := range []string{filepath.Join(tasks, "deleted"), filepath.Join(tasks, "full"), filepath.Join(runs, "deleted"), filepath.Join(runs, "full"), stranger, elsewhere} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if n, err := s.SweepTemporary(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
	}
	for folder, want := range map[string][]string{tasks: {"full", "lately", "link"}, runs: {"full"}} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	}
	for _, path := range []string{stranger, elsewhere} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s was none of ours to sweep: %v", path, err)
		}
	}
	// The folder comes back with the next result.
	if ref := put(t, s, store.Key{Tenant: "acme", TaskID: "deleted"}, "again"); ref.Ref == "" {
		t.Error("no reference")
	}
}
