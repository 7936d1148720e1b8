package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Row is one line of a [Screen].
type Row struct {
	// Name says what the row is about.
	Name string
	// State is a word or two.
	State string
	// Percent is 0 to 100, or less than 0 when it is not known.
	Percent int
	// Note is whatever else there is to say; it gets the rest of the line.
	Note string
}

// Screen draws rows at the bottom of a terminal, again and again over
// themselves, while other lines go above them.
type Screen struct {
	w io.Writer

	mu sync.Mutex
	// rows are drawn last; widths are those of the lines on the terminal.
	rows   []Row
	widths []int
}

// NewScreen draws on w, whose size is asked for at every drawing: people resize
// their terminals.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w} }

// Draw replaces the rows.
func (s *Screen) Draw(rows []Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append([]Row(nil), rows...)
	s.paint("")
}

// Print puts a line above the rows.
func (s *Screen) Print(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paint(line + "\x1b[K\n")
}

// Close leaves the rows as they are; what is written next stands below them.
func (s *Screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.widths = nil, nil
}

// paint writes everything in one go, so that no half picture is seen.
func (s *Screen) paint(above string) {
	columns, height, ok := Size(s.w)
	if !ok {
		columns, height = 80, 24
	}
	var b strings.Builder
	if n := wrapped(s.widths, columns); n > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", n)
	}
	b.WriteString(above)
	s.widths = s.widths[:0]
	for _, line := range Lines(s.rows, columns-1, height-1) {
		s.widths = append(s.widths, Width(line))
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	// Whoever closes the terminal does not want to be told about it.
	_, _ = io.WriteString(s.w, b.String())
}

// wrapped is how many lines of a terminal the given ones take: one that has
// become narrower has broken those that were drawn for more.
func wrapped(widths []int, columns int) int {
	n := 0
	for _, w := range widths {
		n += 1 + max(w-1, 0)/max(columns, 1)
	}
	return n
}

// The columns of [Lines].
const (
	minBar, maxBar = 10, 30
	percent        = 4
)

// Lines lays rows out for a terminal: no line longer than columns, no more
// lines than height, the last of them counting those left out.
func Lines(rows []Row, columns, height int) []string {
	columns, height = max(columns, 1), max(height, 1)
	left := 0
	if len(rows) > height {
		left = len(rows) - height + 1
		rows = rows[:height-1]
	}
	name, state := 0, 0
	for _, r := range rows {
		name, state = max(name, Width(Clean(r.Name))), max(state, Width(Clean(r.State)))
	}
	name, state = min(name, max(columns/3, 8)), min(state, 20)
	// Half of the rest whatever the notes say, or the bars would jump with them.
	rest := columns - name - state - percent - 3*len(gap) - 1
	bar := min(max(rest/2, minBar), maxBar)
	if rest < minBar {
		bar = 0
	}
	lines := make([]string, 0, len(rows)+1)
	for _, r := range rows {
		parts := []string{Pad(Clean(r.Name), name), Pad(Clean(r.State), state)}
		if bar > 0 {
			parts = append(parts, Bar(r.Percent, bar)+" "+percentText(r.Percent))
		} else {
			parts = append(parts, percentText(r.Percent))
		}
		line := strings.Join(append(parts, Clean(r.Note)), gap)
		lines = append(lines, Fit(strings.TrimRight(line, " "), columns))
	}
	if left > 0 {
		lines = append(lines, Fit(fmt.Sprintf("and %d more", left), columns))
	}
	return lines
}

func percentText(p int) string {
	if p < 0 {
		return Pad("", percent)
	}
	return fmt.Sprintf("%3d%%", min(p, 100))
}

// eighths fill a column from the left.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bar draws p percent in the given columns; less than 0 draws an empty bar.
func Bar(p, columns int) string {
	p = min(max(p, 0), 100)
	full := p * columns * 8 / 100
	s := strings.Repeat("█", full/8) + eighths[full%8]
	return s + strings.Repeat("░", columns-Width(s))
}
