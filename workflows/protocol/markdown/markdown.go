// Package markdown puts text of others into the markdown that the Temporal UI
// shows, so that the page shows the text and nothing else. Whoever submits a
// task or works on it is not who reads that page.
package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how much of one text is shown, in bytes. More is cut.
const MaxText = 300

// Text is s within a line. The page shows it as it is, also where a renderer
// would make it prettier: the Temporal UI's turns 1/2 into a fraction, -- into
// a dash, (c) into a sign and $a$ into a formula. Quotes alone it bends in any case.
func Text(s string) string { return Line(s, MaxText) }

// Line is [Text] of at most so many bytes before they are escaped.
func Line(s string, limit int) string { return escapes.Replace(Shorten(oneLine(s), limit)) }

// Code is s in code font within a line. No escape works inside of code, and
// nothing but a backtick ends it, so a backtick becomes an apostrophe.
func Code(s string) string {
	return "`" + strings.ReplaceAll(Shorten(oneLine(s), MaxText), "`", "'") + "`"
}

// Shorten cuts s to so many bytes, a mark of three bytes not counted, without
// breaking a character.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// escapes takes the meaning from every punctuation mark that has one: by a
// backslash where the UI's renderer takes one, and else by its number. The names
// of characters (&lt;) are shown as they are written.
var escapes = func() *strings.Replacer {
	pairs := []string{"/", "&#47;", "=", "&#61;", "@", "&#64;"}
	for _, c := range "\\`*_{}[]()#+-.!:|&<>~^$" {
		pairs = append(pairs, string(c), `\`+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// oneLine drops what would break the line or hide in it, such as characters
// that turn the direction of writing.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s))
}
