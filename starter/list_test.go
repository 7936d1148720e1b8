package starter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.submit(t, starter.Submission{TaskID: fmt.Sprint("t", i), RunID: fmt.Sprint("r", i%2), Title: "no. " + fmt.Sprint(i)})
		w.clock.Add(1000)
	}
	w.submit(t, starter.Submission{Tool: "approve", TaskID: "x", ToolCallID: `it's \ odd`})
	w.call(t, "t0", "1", succeed())
	w.call(t, "t1", "1", domain.Event{Type: domain.EventFail})
	ids := func(r starter.ListRequest) string {
		t.Helper()
		var all []string
		for {
			page, err := w.List(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range page.Tasks {
				all = append(all, task.TaskID)
			}
			if r.Cursor = page.Cursor; r.Cursor == "" {
				return strings.Join(all, " ")
			}
		}
	}
	for want, r := range map[string]starter.ListRequest{
		"x t4 t3 t2 t1 t0": {PageSize: 2},
		"t4 t3 t2 t1 t0":   {Tool: "train"},
		"t4 t2 t0":         {Run: "r0"},
		"t0":               {State: domain.StateSucceeded},
		"t1":               {State: domain.StateFailed},
		"x t4 t3 t2":       {State: domain.StateRunning},
		"x":                {ToolCall: `it's \ odd`},
		"":                 {ToolCall: "x' OR WorkflowType = 'AsyncTask"},
	} {
		if got := ids(r); got != want {
			t.Errorf("%+v gives %q, want %q", r, got, want)
		}
	}
	page, err := w.List(t.Context(), starter.ListRequest{State: domain.StateSucceeded})
	want := starter.Listed{TaskID: "t0", Tool: "train", Title: "no. 0", State: domain.StateSucceeded, Run: "r0", StartedAtMs: epoch, ClosedAtMs: epoch + 5000, WorkflowID: "acme/task/t0"}
	if err != nil || len(page.Tasks) != 1 || !cmp.Equal(page.Tasks[0], want) {
		t.Errorf("%+v (%v)", page, err)
	}
}

func TestListShowsARetriedTaskOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.ended(t, domain.StateFailed)
	w.clock.Add(1000)
	if _, err := w.Retry(t.Context(), id, starter.Retry{}); err != nil {
		t.Fatal(err)
	}
	page, err := w.List(t.Context(), starter.ListRequest{})
	if err != nil || len(page.Tasks) != 1 || !page.Tasks[0].Open || page.Tasks[0].State != "" {
		t.Errorf("%+v (%v)", page, err)
	}
}

func TestListRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for field, r := range map[string]starter.ListRequest{
		"state": {State: "paused"}, "pageSize": {PageSize: 501}, "cursor": {Cursor: "!"}, "cursor ": {Cursor: "xx"}, "tool": {Tool: "x' OR WorkflowType = 'AsyncTask"}, "toolCallId": {ToolCall: "\xff"}, "runId": {Run: strings.Repeat("x", 300)},
	} {
		_, err := w.List(t.Context(), r)
		if e := as(t, err, starter.ErrInvalid); e.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for range 2 {
		w.submit(t, starter.Submission{})
	}
	page, err := w.List(t.Context(), starter.ListRequest{PageSize: 1})
	if err != nil || page.Cursor == "" {
		t.Fatalf("%+v (%v)", page, err)
	}
	_, err = w.List(t.Context(), starter.ListRequest{Tool: "train", Cursor: page.Cursor})
	if e := as(t, err, starter.ErrInvalid); e.Field != "cursor" {
		t.Errorf("the cursor of another list: %v", err)
	}
	w.engine.Down(true)
	_, err = w.List(t.Context(), starter.ListRequest{})
	is(t, err, starter.ErrUnavailable)
}
