package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseControl(t *testing.T) {
	t.Parallel()
	n := func(i int) *int { return &i }
	s := func(s string) *string { return &s }
	for line, want := range map[string]*control{
		`::wakepoint progress=42`:                                {Progress: n(42)},
		`::wakepoint progress=0`:                                 {Progress: n(0)},
		`::wakepoint progress=100 stage=done`:                    {Progress: n(100), Stage: s("done")},
		`::wakepoint stage="linking the kernel" progress=7`:      {Progress: n(7), Stage: s("linking the kernel")},
		`::wakepoint stage="say \"hi\" \u00e9"`:                  {Stage: s(`say "hi" é`)},
		`::wakepoint stage=""`:                                   {Stage: s("")},
		"::wakepoint progress=1\r":                               {Progress: n(1)},
		`::wakepoint  progress=1 	stage=x `:                      {Progress: n(1), Stage: s("x")},
		`::wakepoint progress=1 eta=soon`:                        {Progress: n(1)},
		`::wakepoint {"progress":42,"stage":"x","more":{"a":1}}`: {Progress: n(42), Stage: s("x")},
		`::wakepoint {}`:                                         {},
		"::wakepoint {\"stage\":\"two\\nlines\\u0007\"}":         {Stage: s("two lines")},
		`::wakepoint stage="` + strings.Repeat("é", 150) + `"`:   {Stage: s(strings.Repeat("é", 100))},
		`::wakepoint progress=101`:                               nil,
		`::wakepoint progress=-1`:                                nil,
		`::wakepoint progress=4.5`:                               nil,
		`::wakepoint progress=`:                                  nil,
		`::wakepoint progress`:                                   nil,
		`::wakepoint =4`:                                         nil,
		`::wakepoint stage="open`:                                nil,
		`::wakepoint stage="a"b`:                                 nil,
		`::wakepoint stage=a"b`:                                  nil,
		`::wakepoint {"progress":4.5}`:                           nil,
		`::wakepoint {"progress":101}`:                           nil,
		`::wakepoint {"progress":1} x`:                           nil,
		`::wakepoint [1]`:                                        nil,
		`::wakepoint `:                                           nil,
		`::wakepoint`:                                            nil,
		`::wakepointprogress=1`:                                  nil,
		` ::wakepoint progress=1`:                                nil,
		`::Wakepoint progress=1`:                                 nil,
	} {
		got, ok := parseControl(line)
		if ok != (want != nil) {
			t.Errorf("%q: control = %v, want %v", line, ok, want != nil)
			continue
		}
		if ok && !cmp.Equal(got, *want) {
			t.Errorf("%q: %s", line, cmp.Diff(*want, got))
		}
	}
}

// filtered runs a stream through the filter in chunks of a size.
func filtered(stream string, size int) (output string, controls int) {
	f := controlFilter{output: func(p []byte) { output += string(p) }, control: func(control) { controls++ }}
	for len(stream) > 0 {
		n := min(size, len(stream))
		f.write([]byte(stream[:n]))
		stream = stream[n:]
	}
	f.end()
	return output, controls
}

func TestControlFilter(t *testing.T) {
	t.Parallel()
	long := controlPrefix + `stage="` + strings.Repeat("x", maxControlLine) + `"`
	for stream, want := range map[string]struct {
		output   string
		controls int
	}{
		"":                                 {"", 0},
		"a\nb\n":                           {"a\nb\n", 0},
		"a\n::wakepoint progress=1\nb":     {"a\nb", 1},
		"::wakepoint progress=1":           {"", 1},
		"::wakepoint progress=1\n\n":       {"\n", 1},
		"a::wakepoint progress=1\n":        {"a::wakepoint progress=1\n", 0},
		"::wakepoint progress=x\n":         {"::wakepoint progress=x\n", 0},
		"::wake":                           {"::wake", 0},
		"::\n::wakepoint stage=a\n:":       {"::\n:", 1},
		long + "\n::wakepoint stage=a\n":   {long + "\n", 1},
		long + long:                        {long + long, 0},
		"\n\n::wakepoint stage=a\r\nb\r\n": {"\n\nb\r\n", 1},
	} {
		for _, size := range []int{1, 2, 3, 7, 100, 1 << 20} {
			output, controls := filtered(stream, size)
			if output != want.output || controls != want.controls {
				t.Errorf("%.40q in chunks of %d: %.40q and %d controls, want %.40q and %d", stream, size, output, controls, want.output, want.controls)
			}
		}
	}
}

// What is output is passed on at once, also half a line: somebody may be watching.
func TestControlFilterHoldsBackOnlyWhatMayBeControl(t *testing.T) {
	t.Parallel()
	var output string
	f := controlFilter{output: func(p []byte) { output += string(p) }, control: func(control) {}}
	for _, step := range []struct{ write, want string }{
		{"load", "load"}, {"ing...", "loading..."}, {"\n:", "loading...\n"}, {":wakepoint ", "loading...\n"}, {"x\n", "loading...\n::wakepoint x\n"},
	} {
		f.write([]byte(step.write))
		if output != step.want {
			t.Fatalf("after %q: %q, want %q", step.write, output, step.want)
		}
	}
}

func FuzzControlFilter(f *testing.F) {
	f.Add("a\n::wakepoint progress=1\nb", 3)
	f.Add("::wakepoint {\"stage\":\"x\"}\n::wakepoint stage=\"", 1)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		if size < 1 {
			size = 1
		}
		wholeOutput, wholeControls := filtered(stream, len(stream)+1)
		output, controls := filtered(stream, size)
		if output != wholeOutput || controls != wholeControls {
			t.Fatalf("in chunks of %d: %q and %d, at once: %q and %d", size, output, controls, wholeOutput, wholeControls)
		}
		if controls == 0 && output != stream {
			t.Fatalf("%q became %q without a control line", stream, output)
		}
	})
}

// An offset means the same byte while segments come and go.
func TestLogOffsetsAreStable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var over int
	w := newLogWriter(dir, "stdout", minOutputBytes, func() { over++ })
	var whole strings.Builder
	const alphabet = "abcdefghijklmnopqrstuvwxyz"
	for i := range 3000 {
		part := alphabet[i%7 : i%7+1+i%19]
		whole.WriteString(part)
		w.write([]byte(part))
		if i%100 > 0 {
			continue
		}
		for _, offset := range []int64{0, w.total / 2, w.total - 1, w.total} {
			chunk, atEnd, err := readLog(dir, "stdout", offset, 100)
			if err != nil {
				t.Fatal(err)
			}
			if want := whole.String()[chunk.Offset:chunk.Next]; string(chunk.Data) != want || chunk.Offset != offset+chunk.Skipped {
				t.Fatalf("after %d bytes, from %d: %q at %d, want %q", w.total, offset, chunk.Data, chunk.Offset, want)
			}
			if atEnd != (chunk.Next == w.total) {
				t.Fatalf("after %d bytes, from %d to %d: at end %v", w.total, offset, chunk.Next, atEnd)
			}
		}
	}
	if st := w.close(); !st.Truncated || st.Bytes != int64(whole.Len()) || st.Error != "" || over != 1 {
		t.Errorf("status = %+v, over the limit %d times; want %d bytes, truncated, once", st, over, whole.Len())
	}
	chunk, _, err := readLog(dir, "stdout", 0, whole.Len())
	if err != nil || len(chunk.Data) != minOutputBytes/2 {
		t.Errorf("the head has %d bytes, %v; want half of the limit", len(chunk.Data), err)
	}
	tail, _, err := readLog(dir, "stdout", chunk.Next, whole.Len())
	if err != nil || tail.Next != w.total || tail.Skipped == 0 || len(tail.Data) < 3*minOutputBytes/8 {
		t.Errorf("the tail has %d bytes after %d skipped, to %d of %d, %v", len(tail.Data), tail.Skipped, tail.Next, w.total, err)
	}
}

// A log that can't be written is told of, and does not stop the stream.
func TestLogOnABrokenDisk(t *testing.T) {
	t.Parallel()
	w := newLogWriter(filepath.Join(t.TempDir(), "nowhere"), "stdout", minOutputBytes, func() {})
	w.write([]byte("lost"))
	if st := w.close(); st.Bytes != 4 || !st.Truncated || !strings.Contains(st.Error, "no such file") {
		t.Errorf("status = %+v", st)
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := lockHeld(path); held || err != nil {
		t.Fatalf("without a file: held %v, %v", held, err)
	}
	lock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := lockHeld(path); !held || err != nil {
		t.Errorf("held %v, %v; want true", held, err)
	}
	if _, err := tryLock(path); err == nil {
		t.Error("locked twice")
	}
	// A lock on a file that has been removed excludes nobody, and nobody gets one.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := tryLock(path)
	if err != nil {
		t.Fatalf("after the file was removed: %v", err)
	}
	again.release()
	lock.release()
	if held, err := lockHeld(path); held || err != nil {
		t.Errorf("after the release: held %v, %v", held, err)
	}
}
