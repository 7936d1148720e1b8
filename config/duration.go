package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var (
	errDuration = errors.New("must be a duration such as 30s, 5m, 72h or 3d")
	errSize     = errors.New("must be a size such as 4096, 64KiB, 10MiB or 1GiB")
)

// ParseDuration reads what [time.ParseDuration] reads, and days before it: 3d,
// 1d12h. A day is 24 hours. It must be a whole number of milliseconds and not
// negative.
func ParseDuration(s string) (time.Duration, error) {
	rest := s
	var days time.Duration
	if n, after, ok := strings.Cut(s, "d"); ok {
		f, err := strconv.ParseFloat(n, 64)
		if err != nil || !plainNumber(n) || f > float64(math.MaxInt64/int64(day)) {
			return 0, errDuration
		}
		days, rest = time.Duration(f*float64(day)), after
		if rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err != nil, rest == s && strings.Trim(s, "0123456789.") == "":
		return 0, errDuration
	case d < 0:
		return 0, fmt.Errorf("must not be negative")
	case days > math.MaxInt64-d:
		return 0, errDuration
	case (days+d)%time.Millisecond != 0:
		return 0, fmt.Errorf("must be a whole number of milliseconds")
	}
	return days + d, nil
}

// FormatDuration is the shortest form that [ParseDuration] reads.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if days := d / day; days > 0 {
		fmt.Fprintf(&b, "%dd", days)
		d %= day
	}
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.unit; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.unit
		}
	}
	return b.String()
}

// parseSize reads a number of bytes.
func parseSize(s string) (int64, error) {
	unit := int64(1)
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = n, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, errSize
	}
	return n * unit, nil
}

func plainNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.") == "" && strings.Count(s, ".") <= 1
}
