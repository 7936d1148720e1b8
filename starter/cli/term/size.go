package term

import (
	"io"
	"os"

	xterm "golang.org/x/term"
)

// Sizer is a writer that knows the size of the terminal behind it. Tests give
// one to play a terminal; an [os.File] is asked itself.
type Sizer interface {
	// TerminalSize gives columns and rows, and false when there is no terminal.
	TerminalSize() (columns, rows int, ok bool)
}

// Size gives the size of the terminal behind w, and false when there is none.
func Size(w io.Writer) (columns, rows int, ok bool) {
	switch w := w.(type) {
	case Sizer:
		return w.TerminalSize()
	case *os.File:
		columns, rows, err := xterm.GetSize(int(w.Fd()))
		// A serial console may not know its size, and says nought.
		return columns, rows, err == nil && columns > 0 && rows > 0
	}
	return 0, 0, false
}
