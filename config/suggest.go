package config

import "strings"

// Suggest names the known word that is nearest to a wrong one, as the end of
// an error; without a near one it lists them all.
func Suggest(wrong string, known []string) string {
	if best := nearest(wrong, known); best != "" {
		return "; did you mean " + best + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return "; known are " + strings.Join(known, ", ")
}

// nearest is the known word with the fewest edits, if these are few enough for a
// slip. Case, underscores and hyphens don't count.
func nearest(wrong string, known []string) string {
	best, fewest := "", len(wrong)
	for _, k := range known {
		a, b := plain(wrong), plain(k)
		n := edits(a, b)
		allowed := max(1, min(len(a), len(b))/3)
		if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) && len(a) > 2 {
			// ttlMs for ttl, desc for description.
			allowed = max(len(a), len(b))
		}
		if n <= allowed && (best == "" || n < fewest) {
			best, fewest = k, n
		}
	}
	return best
}

func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// edits counts the insertions, removals, replacements and swaps of neighbours
// between two words.
func edits(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
