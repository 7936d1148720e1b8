package run

import "github.com/wakepoint/wakepoint/domain"

// Deciding gives the number, in [Rules], of the rule that decides what an event comes to,
// -1 for none.
func Deciding(r Run, e Event) int {
	for i := range rules {
		rule := &rules[i]
		if e.AtMs >= 0 && rule.fits(r, e) && (rule.Kind != domain.Rejects || rule.check(r, e) != nil) {
			return i
		}
	}
	return -1
}
