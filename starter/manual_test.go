package starter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// unsafely makes doing the work of a tool twice harmful, so that a person is asked.
func (w *world) unsafely(tool string) {
	for i := range w.config.Tools {
		if w.config.Tools[i].Name == tool {
			w.config.Tools[i].Policy.Effects, w.config.Tools[i].Policy.OnUnknown = domain.EffectsUnsafe, domain.UnknownManual
		}
	}
}

// unclear is a task whose work nobody knows the end of.
func (w *world) unclear(t *testing.T, id string) {
	t.Helper()
	w.unsafely("train")
	w.submit(t, starter.Submission{TaskID: id, Title: "the invoice"})
	w.engine.SetHandle(w.workflowID(id), &protocol.Handle{Executor: "http", ID: "job-1"})
	for _, e := range []domain.Event{
		{Type: domain.EventStart, Worker: "host-1/pid 7"},
		{Type: domain.EventSuspect},
		{Type: domain.EventRequeue, Source: "probe", Error: &domain.TaskError{Message: "the answer was lost"}},
	} {
		w.clock.Add(1000)
		if err := w.engine.Apply(w.workflowID(id), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManualListsWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.submit(t, starter.Submission{TaskID: "other"})
	w.unclear(t, "a")
	page, err := w.Manual(t.Context(), starter.ManualRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := starter.ManualListing{Tasks: []starter.ManualTask{{
		TaskID: "a", Tool: "train", Title: "the invoice", SinceMs: epoch + 3000, Why: "the answer was lost", ExpiresAtMs: epoch + 3_600_000,
		Tried: []starter.Tried{
			{AtMs: epoch + 1000, Attempt: 1, Text: "started by host-1/pid 7"},
			{AtMs: epoch + 2000, Attempt: 1, Text: "nothing was heard of the work; the outside was asked"},
			{AtMs: epoch + 3000, Attempt: 1, Text: "the outside could not say what became of the work: the answer was lost"},
		},
		SubmissionKey: "acme/a/1", Handle: &protocol.Handle{Executor: "http", ID: "job-1"},
		Commands: []string{"wakepoint task resolve a --succeeded --result JSON", "wakepoint task resolve a --failed --error TEXT", "wakepoint task resolve a --repeat"},
	}}}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	if page, err := w.Manual(t.Context(), starter.ManualRequest{Tool: "approve"}); err != nil || len(page.Tasks) != 0 {
		t.Errorf("of another tool: %+v (%v)", page, err)
	}
	list, err := w.List(t.Context(), starter.ListRequest{State: domain.StateRunning})
	if err != nil || len(list.Tasks) != 2 || !list.Tasks[0].Manual && !list.Tasks[1].Manual || list.Tasks[0].Manual == list.Tasks[1].Manual {
		t.Errorf("%+v (%v)", list, err)
	}
}

func TestManualPagesAndFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		for _, id := range []string{"a", "b", "c"} {
			w.clock.Store(0)
			w.unclear(t, id)
		}
		first, err := w.Manual(t.Context(), starter.ManualRequest{PageSize: 2})
		if err != nil || len(first.Tasks) != 2 || first.Cursor == "" {
			t.Fatalf("%+v (%v)", first, err)
		}
		second, err := w.Manual(t.Context(), starter.ManualRequest{PageSize: 2, Cursor: first.Cursor})
		if err != nil || len(second.Tasks) != 1 || second.Cursor != "" {
			t.Errorf("%+v (%v)", second, err)
		}
		w.engine.Workers(false)
		silent, err := w.Manual(t.Context(), starter.ManualRequest{})
		if err != nil || len(silent.Tasks) != 3 || silent.Tasks[0].Error == nil || silent.Tasks[0].Error.Code != starter.CodeNoWorker {
			t.Errorf("%+v (%v)", silent, err)
		}
		w.engine.Down(true)
		_, err = w.Manual(t.Context(), starter.ManualRequest{})
		is(t, err, starter.ErrUnavailable)
		for field, r := range map[string]starter.ManualRequest{"tool": {Tool: "/"}, "pageSize": {PageSize: 501}, "cursor": {Cursor: "x"}} {
			_, err := w.Manual(t.Context(), r)
			if e := as(t, err, starter.ErrInvalid); e.Field != field {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r    protocol.Resolve
		want domain.State
	}{
		"done":     {protocol.Resolve{Action: domain.ResolveSucceeded, Result: json.RawMessage(`{"ok":1}`), By: "ann"}, domain.StateSucceeded},
		"kept":     {protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "s3://b/k", ResultHash: "h"}, domain.StateSucceeded},
		"not done": {protocol.Resolve{Action: domain.ResolveFailed, Error: &domain.TaskError{Message: "no"}}, domain.StateFailed},
		"repeat":   {protocol.Resolve{Action: domain.ResolveRepeat, Reason: "the bank knows nothing"}, domain.StateQueued},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.unclear(t, "a")
			out, err := w.Resolve(t.Context(), "a", c.r)
			if err != nil || out.Reason != domain.ReasonResolved || out.State != c.want {
				t.Errorf("%+v (%v)", out, err)
			}
			want := domain.ReasonNotManual
			if c.want.Terminal() {
				want = domain.ReasonTerminalConflict
			}
			if out, err := w.Resolve(t.Context(), "a", c.r); err != nil || out.Changed || out.Reason != want {
				t.Errorf("again: %+v (%v)", out, err)
			}
			if page, err := w.Manual(t.Context(), starter.ManualRequest{}); err != nil || len(page.Tasks) != 0 {
				t.Errorf("still listed: %+v (%v)", page, err)
			}
		})
	}
}

func TestResolveRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w, _, _ := withStore(t)
	w.unclear(t, "a")
	one := json.RawMessage(`1`)
	nothing := protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "blob:acme/task/zzz/" + strings.Repeat("0f", 32), ResultHash: strings.Repeat("0f", 32)}
	if _, err := w.Resolve(t.Context(), "a", nothing); as(t, err, starter.ErrInvalid).Field != "resultRef" {
		t.Errorf("a result that is not there: %v", err)
	}
	for name, c := range map[string]struct {
		r     protocol.Resolve
		field string
	}{
		"no action":        {protocol.Resolve{}, "action"},
		"unknown action":   {protocol.Resolve{Action: "maybe"}, "action"},
		"no result":        {protocol.Resolve{Action: domain.ResolveSucceeded}, "result"},
		"two results":      {protocol.Resolve{Action: domain.ResolveSucceeded, Result: one, ResultRef: "x", ResultHash: "h"}, "result"},
		"a failed result":  {protocol.Resolve{Action: domain.ResolveFailed, Result: one}, "result"},
		"no JSON":          {protocol.Resolve{Action: domain.ResolveSucceeded, Result: json.RawMessage(`{`)}, "result"},
		"too large":        {protocol.Resolve{Action: domain.ResolveSucceeded, Result: json.RawMessage(`"` + strings.Repeat("x", 70<<10) + `"`)}, "result"},
		"an error of none": {protocol.Resolve{Action: domain.ResolveRepeat, Error: &domain.TaskError{}}, "error"},
		"a bad code":       {protocol.Resolve{Action: domain.ResolveFailed, Error: &domain.TaskError{Code: "bad code"}}, "event.error.code"},
		"no reference":     {protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "blob:acme/task/zzz/nope", ResultHash: "h"}, "resultRef"},
		"of another":       {protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "blob:other/task/zzz/" + strings.Repeat("0f", 32), ResultHash: strings.Repeat("0f", 32)}, "resultRef"},
		"another hash":     {protocol.Resolve{Action: domain.ResolveSucceeded, ResultRef: "blob:acme/task/zzz/" + strings.Repeat("0f", 32), ResultHash: "h"}, "resultHash"},
		"a long name":      {protocol.Resolve{Action: domain.ResolveRepeat, By: strings.Repeat("x", 300)}, "by"},
	} {
		_, err := w.Resolve(t.Context(), "a", c.r)
		if e := as(t, err, starter.ErrInvalid); e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.Resolve(t.Context(), "nobody", protocol.Resolve{Action: domain.ResolveRepeat})
	is(t, err, starter.ErrUnknownTask)
}
