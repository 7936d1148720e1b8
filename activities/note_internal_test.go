package activities

import (
	"testing"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// A note vouches for its own try only: what the one after it did is not known when
// that one's heartbeats did not arrive.
func TestNoteOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		note    note
		attempt int32
		begun   bool
		host    string
	}{
		"of the try before, not begun":      {note{Try: 2}, 3, false, ""},
		"of the try before, begun":          {note{Try: 2, RunNote: protocol.RunNote{Begun: true, Host: "a"}}, 3, true, "a"},
		"of an earlier try, not begun":      {note{Try: 1, RunNote: protocol.RunNote{Host: "a"}}, 3, true, ""},
		"of an earlier try, on some host":   {note{Try: 1, RunNote: protocol.RunNote{Begun: true, Host: "a"}}, 3, true, ""},
		"without a number":                  {note{RunNote: protocol.RunNote{Host: "a"}}, 3, true, ""},
		"of a try before a reset by people": {note{Try: 7, RunNote: protocol.RunNote{Begun: true, Host: "a"}}, 1, true, "a"},
	} {
		if n := tc.note.at(tc.attempt); n.Begun != tc.begun || n.Host != tc.host {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
