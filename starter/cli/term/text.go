package term

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Clean makes one harmless line of any text. What comes from a tool or a
// webhook may hold escape sequences that would repaint the screen, or line
// breaks that would break a table; both become a single space, bytes that are
// no UTF-8 the replacement character. Direction marks are dropped: they would
// reorder what stands beside them.
func Clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\ufeff':
			continue
		case unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Width is how many columns a clean text takes: two for the wide characters of
// East Asia, none for marks that sit on the letter before them.
func Width(s string) int {
	if isASCII(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}

// Fit cuts a clean text to at most n columns and says by an ellipsis that it did.
func Fit(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if Width(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > n-1 {
			return strings.TrimRight(s[:i], " ") + ellipsis
		}
		used += w
	}
	return s
}

// Pad fits a text to exactly n columns, filled up with spaces on the right.
func Pad(s string, n int) string {
	s = Fit(s, n)
	return s + strings.Repeat(" ", max(n-Width(s), 0))
}
