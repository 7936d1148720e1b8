package domain_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
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
		t.Errorf("%s differs (-file +now); if the change is meant, run: go test ./domain/... -update\n%s", path, diff)
	}
}

func event(t *testing.T, line string) domain.Event {
	t.Helper()
	e, err := domaintest.Event(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return e
}

func newPair(t *testing.T, create string) *domaintest.Pair {
	t.Helper()
	c, err := domaintest.Create(create)
	if err != nil {
		t.Fatalf("%s: %v", create, err)
	}
	p, err := domaintest.NewPair(c)
	if err != nil {
		t.Fatalf("%s: %v", create, err)
	}
	return p
}

// apply gives an event to the task and its oracle; both must take it.
func apply(t *testing.T, p *domaintest.Pair, line string) domain.Transition {
	t.Helper()
	tr, err := p.Apply(event(t, line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return tr
}

// task lives a life that is told: a creation and events, between semicolons.
func task(t *testing.T, life string) domain.Task {
	t.Helper()
	return lived(t, life).Task
}

func lived(t *testing.T, life string) *domaintest.Pair {
	t.Helper()
	create, events, _ := strings.Cut(life, ";")
	p := newPair(t, create)
	for line := range strings.SplitSeq(events, ";") {
		if strings.TrimSpace(line) != "" {
			apply(t, p, line)
		}
	}
	return p
}

func callback(t *testing.T, id, line string) domain.Callback {
	t.Helper()
	return domain.Callback{CallbackID: id, DeliveryID: "d-" + id, Event: event(t, line)}
}
