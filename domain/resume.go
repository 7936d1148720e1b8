package domain

// Retention is how many versions back a cursor may lie and still get the
// events one by one. Default of [Resume].
const Retention = 8

// Mode says what a resume brings.
type Mode string

// The modes of a resume.
const (
	// ModeCaughtUp means that nothing happened since the cursor.
	ModeCaughtUp Mode = "caught-up"
	// ModeDelta brings the events after the cursor.
	ModeDelta Mode = "delta"
	// ModeSnapshot means that the cursor is too old; the task itself is the answer.
	ModeSnapshot Mode = "snapshot"
)

// Page is the answer to a resume. Its task is always there.
type Page struct {
	Mode   Mode    `json:"mode"`
	Events []Entry `json:"events"`
	Task   Task    `json:"task"`
}

// Resume tells a reader at the cursor what it has missed. The cursor is the
// version that the reader knows, 0 for none; retention 0 means [Retention],
// and no more than [HistoryLimit] events and [HistoryBytes] are kept.
func Resume(t Task, cursor int64, retention int) (Page, error) {
	if cursor < 0 {
		return Page{}, Invalid("cursor", "must be an integer >= 0, it is %d", cursor)
	}
	if retention <= 0 {
		retention = Retention
	}
	retention = min(retention, HistoryLimit)
	p := Page{Mode: ModeDelta, Events: []Entry{}, Task: t}
	switch {
	case t.Version <= cursor:
		p.Mode = ModeCaughtUp
	case t.Version-cursor > int64(retention), len(t.History) == 0, t.History[0].Version > cursor+1:
		// The last: very large events push others out before their time.
		p.Mode = ModeSnapshot
	default:
		for _, h := range t.History {
			if h.Version > cursor {
				p.Events = append(p.Events, h)
			}
		}
	}
	return p, nil
}
