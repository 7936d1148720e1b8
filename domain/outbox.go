package domain

import (
	"cmp"
	"slices"
)

// Outbox holds what has to be told, each entry once: they are keyed by task,
// state and version. The zero value is empty and ready.
type Outbox struct {
	Entries []Notification `json:"entries,omitempty"`
}

// Add puts n in, unless it is there.
func (o *Outbox) Add(n Notification) {
	for _, e := range o.Entries {
		if e.TaskID == n.TaskID && e.State == n.State && e.Version == n.Version {
			return
		}
	}
	o.Entries = append(o.Entries, n)
}

// Drain empties the box and gives its entries by task id, then time.
func (o *Outbox) Drain() []Notification {
	out := o.Entries
	o.Entries = nil
	slices.SortStableFunc(out, func(a, b Notification) int {
		return cmp.Or(cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.AtMs, b.AtMs))
	})
	return out
}
