package run

import "github.com/wakepoint/wakepoint/domain"

// DefaultRetention is how far back [Resume] gives entries one by one.
const DefaultRetention = HistoryLimit

// Page answers resume.
type Page struct {
	// Mode is caught-up, snapshot or delta, as for a task.
	Mode    domain.Mode `json:"mode"`
	Events  []Entry     `json:"events"`
	Outputs []Output    `json:"outputs,omitempty"`
	Run     Run         `json:"run"`
}

// Resume gives what happened since the version that a reader knows.
func Resume(r Run, cursor int64) (Page, error) {
	if cursor < 0 {
		return Page{}, domain.Invalid("cursor", "must be >= 0, it is %d", cursor)
	}
	p := Page{Mode: domain.ModeDelta, Events: []Entry{}, Outputs: r.Outputs, Run: r}
	switch {
	case r.Version <= cursor:
		p.Mode = domain.ModeCaughtUp
	case r.Version-cursor > int64(len(r.History)):
		p.Mode = domain.ModeSnapshot
	default:
		p.Events = r.History[len(r.History)-int(r.Version-cursor):]
	}
	p.Run.History = []Entry{}
	return p, nil
}
