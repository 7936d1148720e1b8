package term_test

import (
	"testing"

	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func TestCleanMakesOneHarmlessLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":            {"go vet", "go vet"},
		"empty":            {"", ""},
		"line breaks":      {"one\r\ntwo\n\nthree\n", "one two three"},
		"escape":           {"\x1b[2Jgone\x1b]0;title\a", "[2Jgone ]0;title"},
		"leading space":    {"  \t x", "x"},
		"c1 control":       {"a\u009bb", "a b"},
		"direction marks":  {"abc\u202edef\u2066", "abcdef"},
		"zero width":       {"a\u200bb\ufeff", "ab"},
		"line separator":   {"a\u2028b", "a b"},
		"invalid utf-8":    {"a\xffb", "a\ufffdb"},
		"wide letters":     {"漢字", "漢字"},
		"combining accent": {"e\u0301", "e\u0301"},
	} {
		if got := term.Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", name, c.in, got, c.want)
		}
	}
}

func TestWidthCountsColumns(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"": 0, "abc": 3, "漢字": 4, "e\u0301": 1, "█▌░": 3, "…": 1, "é": 1} {
		if got := term.Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestFitNeverExceeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd…"},
		{"abcdef", 1, "…"},
		{"abcdef", 0, ""},
		{"abcdef", -1, ""},
		{"漢字漢字", 5, "漢字…"},
		{"漢字漢字", 4, "漢…"},
		{"ab cd", 4, "ab…"},
	} {
		got := term.Fit(c.in, c.n)
		if got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
		if term.Width(got) > max(c.n, 0) {
			t.Errorf("Fit(%q, %d) takes %d columns", c.in, c.n, term.Width(got))
		}
	}
	if got := term.Pad("漢", 4); got != "漢  " {
		t.Errorf("Pad = %q", got)
	}
}
