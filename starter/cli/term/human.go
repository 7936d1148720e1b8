package term

import (
	"fmt"
	"strconv"
	"time"
)

const day = 24 * time.Hour

// Duration says a length of time in at most two units: 0.4s, 12.3s, 3m 05s,
// 2h 10m, 3d 4h. A negative one is said as its length.
func Duration(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Minute:
		return Seconds(d)
	case d < time.Hour:
		d = d.Round(time.Second)
		if d < time.Hour {
			return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
		}
	case d < day:
		d = d.Round(time.Minute)
	}
	if d < day {
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
}

// Seconds says a length of time in seconds with one decimal, whatever its
// size. It is the one form of durations in reports, so that one pattern finds
// them all: digits, a dot, one digit, s.
func Seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}

// Relative says where a moment lies, seen from now: "in 5m 00s", "12.3s ago",
// "now" within half a second.
func Relative(now, at time.Time) string {
	switch d := at.Sub(now); {
	case d.Abs() < 500*time.Millisecond:
		return "now"
	case d > 0:
		return "in " + Duration(d)
	default:
		return Duration(d) + " ago"
	}
}

// Moment says a moment absolutely, to the second, with its zone.
func Moment(at time.Time) string { return at.Format("2006-01-02 15:04:05 MST") }

// Bytes says a size: 17 B, 1.5 KiB, 3.0 MiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n)/(1<<10), 0
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= 1<<10 && unit < len(units)-1 {
		value /= 1 << 10
		unit++
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + units[unit]
}

// Count says a number with its noun: "1 task", "3 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
