package term_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// emulator is a terminal of a given size that understands what [term.Screen]
// writes: text, line feeds, carriage returns, cursor up and erasing.
type emulator struct {
	columns, rows int
	lines         [][]rune
	x, y          int
	writes        int
}

func (e *emulator) TerminalSize() (int, int, bool) { return e.columns, e.rows, true }

func (e *emulator) Write(p []byte) (int, error) {
	e.writes++
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\n':
			e.x, e.y = 0, e.y+1
			e.line()
		case '\r':
			e.x = 0
		case '\x1b':
			i += e.escape(string(text[i:]))
		default:
			e.put(r)
		}
	}
	return len(p), nil
}

func (e *emulator) line() {
	for len(e.lines) <= e.y {
		e.lines = append(e.lines, nil)
	}
}

func (e *emulator) put(r rune) {
	if e.x >= e.columns {
		e.x, e.y = 0, e.y+1
	}
	e.line()
	for len(e.lines[e.y]) <= e.x {
		e.lines[e.y] = append(e.lines[e.y], ' ')
	}
	e.lines[e.y][e.x] = r
	e.x++
}

// escape carries one sequence out and gives its length less one.
func (e *emulator) escape(s string) int {
	end := strings.IndexAny(s, "AKJ")
	arg := s[2:end]
	e.line()
	switch s[end] {
	case 'A':
		n, err := strconv.Atoi(arg)
		if err != nil || n > e.y {
			panic(fmt.Sprintf("cursor up %q from line %d", arg, e.y))
		}
		e.y -= n
	case 'K':
		e.lines[e.y] = e.lines[e.y][:min(e.x, len(e.lines[e.y]))]
	case 'J':
		e.lines[e.y] = e.lines[e.y][:min(e.x, len(e.lines[e.y]))]
		e.lines = e.lines[:e.y+1]
	}
	return end
}

func (e *emulator) String() string {
	var b strings.Builder
	for _, l := range e.lines {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func TestScreenDrawsOverItself(t *testing.T) {
	t.Parallel()
	e := &emulator{columns: 60, rows: 10}
	s := term.NewScreen(e)
	s.Draw([]term.Row{{Name: "go-vet", State: "running", Percent: 10, Note: "domain"}, {Name: "go-test", State: "queued", Percent: -1}})
	s.Print("worker 1 killed")
	s.Draw([]term.Row{{Name: "go-vet", State: "running", Percent: 50, Note: "starter"}, {Name: "go-test", State: "running", Percent: 0}})
	s.Draw([]term.Row{{Name: "go-vet", State: "succeeded", Percent: 100}})
	s.Close()
	fmt.Fprintln(e, "done")
	want := "worker 1 killed\ngo-vet  succeeded  ████████████████ 100%\ndone\n"
	if got := e.String(); got != want {
		t.Errorf("the terminal shows\n%swant\n%s", got, want)
	}
	if e.writes != 5 {
		t.Errorf("%d writes, want one for each change and one for the last line", e.writes)
	}
}

func TestScreenFollowsANarrowerTerminal(t *testing.T) {
	t.Parallel()
	e := &emulator{columns: 70, rows: 10}
	s := term.NewScreen(e)
	rows := []term.Row{{Name: "go-vet", State: "running", Percent: 10, Note: "a stage of some length"}, {Name: "b", State: "x", Percent: 1}}
	s.Draw(rows)
	// The terminal breaks the old lines, as real ones do.
	e.columns = 40
	var broken [][]rune
	for _, l := range e.lines {
		for len(l) > e.columns {
			broken, l = append(broken, l[:e.columns]), l[e.columns:]
		}
		broken = append(broken, l)
	}
	e.lines, e.y = broken, len(broken)-1
	s.Draw(rows)
	if got := strings.Count(e.String(), "\n"); got != 2 {
		t.Errorf("%d lines on the terminal, want 2:\n%s", got, e)
	}
}

func TestLinesStayWithinTheTerminal(t *testing.T) {
	t.Parallel()
	rows := []term.Row{
		{Name: "a-tool-with-a-rather-long-name-indeed", State: "WAITING_EXTERNAL", Percent: 42, Note: "漢字漢字漢字漢字漢字漢字 and more\x1b[2J\n"},
		{Name: "b", State: "RUNNING", Percent: -1, Note: ""},
		{Name: "c", State: "RUNNING", Percent: 250, Note: "x"},
	}
	for columns := range 140 {
		for height := range 5 {
			lines := term.Lines(rows, columns, height)
			if len(lines) > max(height, 1) {
				t.Fatalf("%d lines on a terminal of %d", len(lines), height)
			}
			for _, l := range lines {
				if term.Width(l) > max(columns, 1) {
					t.Fatalf("%q takes %d columns of %d", l, term.Width(l), columns)
				}
				if strings.ContainsAny(l, "\x1b\n") {
					t.Fatalf("%q holds what the tool wrote", l)
				}
			}
		}
	}
	if got := term.Lines(rows, 80, 2); got[1] != "and 2 more" {
		t.Errorf("the last line is %q", got[1])
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for p, want := range map[int]string{-1: "░░░░", 0: "░░░░", 50: "██░░", 100: "████", 300: "████", 30: "█▏░░", 99: "███▉"} {
		if got := term.Bar(p, 4); got != want {
			t.Errorf("Bar(%d) = %q, want %q", p, got, want)
		}
	}
}

func TestTableAlignsColumns(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	term.Table(&b, []string{"TASK", "TOOL", "TITLE"}, [][]string{{"t1", "漢字", "one\ntwo"}, {"task_2", "x"}})
	want := "TASK    TOOL  TITLE\nt1      漢字  one two\ntask_2  x\n"
	if b.String() != want {
		t.Errorf("the table is\n%swant\n%s", &b, want)
	}
	b.Reset()
	term.Fields(&b, []term.Field{{"state", "running"}, {"a-long-empty-name", ""}, {"tool", "x"}})
	if want := "state  running\ntool   x\n"; b.String() != want {
		t.Errorf("the fields are\n%swant\n%s", &b, want)
	}
}

func TestSizeOfWhatIsNoTerminal(t *testing.T) {
	t.Parallel()
	if _, _, ok := term.Size(&bytes.Buffer{}); ok {
		t.Error("a buffer has the size of a terminal")
	}
	if c, r, ok := term.Size(&emulator{columns: 3, rows: 2}); c != 3 || r != 2 || !ok {
		t.Errorf("Size = %d, %d, %v", c, r, ok)
	}
}
