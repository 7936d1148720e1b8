package term

import (
	"fmt"
	"io"
	"strings"
)

// gap is what stands between two columns.
const gap = "  "

// Table writes rows under a header, each column as wide as its widest cell.
// Cells are cleaned; the last column is not padded, so that no line ends in
// spaces.
func Table(w io.Writer, header []string, rows [][]string) {
	all := make([][]string, 0, len(rows)+1)
	all = append(all, header)
	all = append(all, rows...)
	widths := make([]int, len(header))
	for i, row := range all {
		clean := make([]string, len(header))
		for c := range clean {
			if c < len(row) {
				clean[c] = Clean(row[c])
			}
			widths[c] = max(widths[c], Width(clean[c]))
		}
		all[i] = clean
	}
	for _, row := range all {
		var b strings.Builder
		for c, cell := range row {
			if c > 0 {
				b.WriteString(gap)
			}
			b.WriteString(Pad(cell, widths[c]))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// Field is one line of [Fields].
type Field struct{ Name, Value string }

// Fields writes names and values in two columns. Fields without a value are
// left out.
func Fields(w io.Writer, fields []Field) {
	widest := 0
	for _, f := range fields {
		if f.Value != "" {
			widest = max(widest, Width(f.Name))
		}
	}
	for _, f := range fields {
		if f.Value != "" {
			fmt.Fprintln(w, Pad(f.Name, widest)+gap+Clean(f.Value))
		}
	}
}
