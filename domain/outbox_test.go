package domain_test

import (
	"encoding/json"
	"fmt"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
)

func TestOutbox(t *testing.T) {
	t.Parallel()
	var o domain.Outbox
	if got := o.Drain(); len(got) != 0 {
		t.Errorf("an empty box gives %v", got)
	}
	add := func(task string, state domain.State, version, at int64) {
		o.Add(domain.Notification{TaskID: task, State: state, Version: version, AtMs: at})
	}
	add("b", domain.StateFailed, 2, 10)
	add("a", domain.StateExpired, 3, 50)
	add("a", domain.StateFailed, 1, 20)
	add("b", domain.StateFailed, 2, 99) // The same news again.
	add("b", domain.StateSucceeded, 2, 5)
	add("a", domain.StateFailed, 7, 20) // After a manual retry: other news.
	want := []string{"a failed 1 20", "a failed 7 20", "a expired 3 50", "b succeeded 2 5", "b failed 2 10"}
	var got []string
	for _, n := range o.Drain() {
		got = append(got, fmt.Sprintf("%s %s %d %d", n.TaskID, n.State, n.Version, n.AtMs))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(o.Drain()) != 0 {
		t.Error("the box is not empty after it was drained")
	}
	// What was drained and comes again is news again: the workflow has told it,
	// and closes; nobody else adds to its box.
	add("a", domain.StateFailed, 1, 20)
	if len(o.Drain()) != 1 {
		t.Error("a drained box takes nothing any more")
	}
}

// FuzzOutbox holds the box against a map, through JSON as a continue-as-new
// does.
func FuzzOutbox(f *testing.F) {
	f.Add([]byte("told, and told again"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o domain.Outbox
		dumb := map[string]domain.Notification{}
		for i, b := range data[:min(len(data), 200)] {
			n := domain.Notification{TaskID: fmt.Sprint("t", b%3), State: domain.States()[b%6], Version: int64(b % 5), AtMs: int64(i % 7)}
			o.Add(n)
			key := fmt.Sprint(n.TaskID, n.State, n.Version)
			if _, ok := dumb[key]; !ok {
				dumb[key] = n
			}
			if b%16 == 0 {
				raw, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				o = domain.Outbox{}
				if err := json.Unmarshal(raw, &o); err != nil {
					t.Fatal(err)
				}
			}
		}
		out := o.Drain()
		if len(out) != len(dumb) || len(o.Entries) != 0 {
			t.Fatalf("%d entries, %d told, %d left", len(out), len(dumb), len(o.Entries))
		}
		for _, n := range out {
			if dumb[fmt.Sprint(n.TaskID, n.State, n.Version)] != n {
				t.Fatalf("%+v is not what was told first", n)
			}
		}
		if !sort.SliceIsSorted(out, func(i, j int) bool {
			return out[i].TaskID < out[j].TaskID || out[i].TaskID == out[j].TaskID && out[i].AtMs < out[j].AtMs
		}) {
			t.Fatalf("not in order: %+v", out)
		}
	})
}
