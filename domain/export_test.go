package domain

// Deciding gives the numbers, in [Rules], of the rules that decide what an
// event comes to: one, two when a task is started by what it reports, none for
// an unknown type.
func Deciding(t Task, e Event) []int {
	if startsUnheard(t, e) {
		start := Event{Type: EventStart, AtMs: e.AtMs, Attempt: e.Attempt}
		first, err := applyOne(t, start)
		if err != nil {
			return deciding(t, start)
		}
		return append(deciding(t, start), deciding(first.Task, e)...)
	}
	return deciding(t, e)
}

func deciding(t Task, e Event) []int {
	for i := range rules {
		r := &rules[i]
		if r.fits(t, e) && (r.Kind != Rejects || r.check(t, e) != nil) {
			return []int{i}
		}
	}
	return nil
}

// CanonicalJSON is tested by itself.
var CanonicalJSON = canonicalJSON
