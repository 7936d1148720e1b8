package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const vectors = "testdata/async_book.jsonl.gz"

func plain(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open(vectors)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func try(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestAllPass: every recorded conversation, gzipped and plain.
func TestAllPass(t *testing.T) {
	t.Parallel()
	for _, path := range []string{vectors, file(t, "plain.jsonl", plain(t))} {
		code, out, errs := try(path)
		if code != 0 || out != "300 passed, 0 failed\n" || errs != "" {
			t.Errorf("%s: exit %d\n%s%s", path, code, out, errs)
		}
	}
}

// TestDifferences: a corrupted vector fails, its first difference is shown,
// and the last line still counts.
func TestDifferences(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(plain(t))), "\n")
	done := map[int]bool{}
	for _, c := range [][2]string{
		{`"reason":"started"`, `"reason":"finished"`},
		{`"version":1`, `"version":2`},
		{`"notify":false`, `"notify":true`},
		{`"mode":"delta"`, `"mode":"snapshot"`},
		{`"error":"invalid-request"`, `"ok":null`},
		{`"state":"queued"`, `"state":"running"`},
		{`"duplicate":true`, `"duplicate":false`},
	} {
		i := 0
		for done[i] || !strings.Contains(lines[i], c[0]) {
			i++
		}
		lines[i] = strings.Replace(lines[i], c[0], c[1], 1)
		done[i] = true
	}
	code, out, errs := try(file(t, "corrupted.jsonl", []byte(strings.Join(lines, "\n"))))
	shown := strings.Count(out, "\n  want ")
	if code != 1 || !strings.HasSuffix(out, "\n293 passed, 7 failed\n") || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if shown != shownDifferences || strings.Count(out, "\n  got ") != shown || !strings.Contains(out, "open-0, op ") {
		t.Errorf("%d differences are shown:\n%s", shown, out)
	}
}

// TestUnreadable: what cannot be read is exit 2, and says why on stderr.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	zipped, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no file":         {},
		"two files":       {vectors, vectors},
		"a missing file":  {filepath.Join(t.TempDir(), "missing")},
		"a folder":        {t.TempDir()},
		"no JSON":         {file(t, "a", []byte("hello\n"))},
		"half a line":     {file(t, "b", plain(t)[:5000])},
		"a broken gzip":   {file(t, "c", []byte{0x1f, 0x8b, 1, 2, 3})},
		"half a gzip":     {file(t, "d", zipped[:len(zipped)/2])},
		"another shape":   {file(t, "e", []byte(`{"name":"x","ops":5}`))},
		"another content": {file(t, "f", []byte(`["x"]`))},
	} {
		code, out, errs := try(args...)
		if code != 2 || out != "" || errs == "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, code, out, errs)
		}
	}
}

// TestEmpty: nothing to pass is no failure; empty lines are no conversations.
func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n\n"} {
		if code, out, _ := try(file(t, "empty", []byte(content))); code != 0 || out != "0 passed, 0 failed\n" {
			t.Errorf("%q: exit %d, %q", content, code, out)
		}
	}
}
