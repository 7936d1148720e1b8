package markdown_test

import (
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/workflows/protocol/markdown"
)

// tests/e2e shows what the Temporal UI itself makes of such texts.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain words, 62 %":         "plain words, 62 %",
		"host/1":                    "host&#47;1",
		"step 3/12":                 "step 3&#47;12",
		"go test --race":            `go test \-\-race`,
		"[x](http://a.b)":           `\[x\]\(http\:&#47;&#47;a\.b\)`,
		"<b>&lt;":                   `\<b\>\&lt;`,
		`say "it's"`:                `say "it's"`,
		"$5 and $6":                 `\$5 and \$6`,
		"two\nlines\r\n\tand more ": "two lines   and more",
		"\u202etxt\x00\u200b":       "txt",
		"bad \xff byte":             "bad  byte",
		"grün 水":                    "grün 水",
	} {
		if got := markdown.Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	if got, want := markdown.Code("a`b\n*c*/1"), "`a'b *c*/1`"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongTextIsCut(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("x", 1000), strings.Repeat("ü", 1000), "x" + strings.Repeat("水", 1000)} {
		got := markdown.Text(s)
		if len(got) > markdown.MaxText+len("…") || len(got) < markdown.MaxText-3 || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("cut to %d bytes: %q", len(got), got)
		}
	}
	if got := markdown.Shorten("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}
