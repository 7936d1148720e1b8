package config_test

import (
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "5m": 5 * time.Minute, "72h": 72 * time.Hour, "3d": 3 * day, "1d12h": 36 * time.Hour,
		"0.5d": 12 * time.Hour, "1500ms": 1500 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "0s": 0, "0d": 0, "1d0.25s": day + 250*time.Millisecond,
		"100000d": 100_000 * day,
	} {
		got, err := config.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "30", "0", "1.5", "s", "d", "-1s", "-1d", "3 d", "1d ", "3dd", "1h3d", "1us", "1.0001s", "1e3s", "1e3d", "infd", "200000d", "2562048h", "9e18d", "0x1d", ".d",
	} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestFormatDurationIsReadBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{time.Millisecond, "1ms"},
		{90 * time.Second, "1m30s"},
		{36 * time.Hour, "1d12h"},
		{30 * 24 * time.Hour, "30d"},
		{25*time.Hour + 61*time.Second + 5*time.Millisecond, "1d1h1m1s5ms"},
	} {
		text := config.FormatDuration(tc.d)
		if back, err := config.ParseDuration(text); text != tc.want || err != nil || back != tc.d {
			t.Errorf("%v is %q, want %q; read back as %v (%v)", tc.d, text, tc.want, back, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"3d", "1d12h", "0.5d", "30s", "-1d", "1e3d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := config.ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 || d%time.Millisecond != 0 {
			t.Errorf("%q was read as %v", s, d)
		}
		if back, err := config.ParseDuration(config.FormatDuration(d)); err != nil || back != d {
			t.Errorf("%v came back as %v (%v)", d, back, err)
		}
	})
}
