// Package term writes for people who sit at a terminal: text that cannot
// escape its line, columns that line up, progress bars that are drawn over
// themselves, and times as one says them. It knows nothing of tasks.
package term
