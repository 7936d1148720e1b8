package term_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func TestDurationHasAtMostTwoUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                "0.0s",
		400 * time.Millisecond:           "0.4s",
		-400 * time.Millisecond:          "0.4s",
		12345 * time.Millisecond:         "12.3s",
		185 * time.Second:                "3m 05s",
		time.Hour - 100*time.Millisecond: "1h 00m",
		2*time.Hour + 10*time.Minute:     "2h 10m",
		24*time.Hour - time.Second:       "1d 0h",
		3*24*time.Hour + 4*time.Hour:     "3d 4h",
		3*24*time.Hour + 4*time.Hour + 45*time.Minute: "3d 5h",
	} {
		if got := term.Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestSecondsHasOneForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^\d+\.\ds$`)
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, 90 * time.Second, 100 * time.Hour} {
		if got := term.Seconds(d); !form.MatchString(got) {
			t.Errorf("Seconds(%v) = %q, which %v does not match", d, got, form)
		}
	}
}

func TestRelativeSaysWhichSide(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	for d, want := range map[time.Duration]string{
		0: "now", 499 * time.Millisecond: "now", -499 * time.Millisecond: "now",
		5 * time.Minute: "in 5m 00s", -12300 * time.Millisecond: "12.3s ago",
	} {
		if got := term.Relative(now, now.Add(d)); got != want {
			t.Errorf("Relative(%v) = %q, want %q", d, got, want)
		}
	}
	if got := term.Moment(now.UTC()); got != "2023-11-14 22:13:20 UTC" {
		t.Errorf("Moment = %q", got)
	}
}

func TestBytesAndCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 50: "5120.0 TiB"} {
		if got := term.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 tasks", 1: "1 task", 2: "2 tasks"} {
		if got := term.Count(n, "task"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
