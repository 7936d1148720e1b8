package run_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/domain/run/runtest"
)

var update = flag.Bool("update", false, "rewrite golden files and the printed pages of docs/")

// golden holds a file against what a test makes; -update rewrites it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-file +now); if the change is meant, run: go test ./domain/run -update\n%s", path, diff)
	}
}

func event(t *testing.T, line string) run.Event {
	t.Helper()
	e, err := runtest.Event(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return e
}

// lived lives a life that is told: a creation and events, between semicolons. An event
// without a time is one millisecond after the one before.
func lived(t *testing.T, life string) *runtest.Pair {
	t.Helper()
	create, events, _ := strings.Cut(life, ";")
	c, err := runtest.Create(create)
	if err != nil {
		t.Fatalf("%s: %v", create, err)
	}
	p, err := runtest.NewPair(c)
	if err != nil {
		t.Fatalf("%s: %v", create, err)
	}
	p.Careful = true
	now := c.NowMs
	for line := range strings.SplitSeq(events, ";") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		e := event(t, line)
		if e.AtMs == 0 {
			e.AtMs = now + 1
		}
		now = e.AtMs
		if _, err := p.Apply(e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return p
}

// next gives one more event to a run that has lived.
func next(t *testing.T, p *runtest.Pair, line string) run.Transition {
	t.Helper()
	tr, err := p.Apply(event(t, line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return tr
}

// field gives the field that an error is about, "" for no error.
func field(t *testing.T, err error) string {
	t.Helper()
	var invalid *domain.InvalidError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &invalid):
		t.Fatalf("it is no InvalidError: %v", err)
	}
	return invalid.Field
}

func summary(r run.Run) string {
	return fmt.Sprintf("%s v%d", r.State, r.Version)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }
