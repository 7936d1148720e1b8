package stepio_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/stepio"
)

func memory(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// result is one of a task that left these bytes.
func result(t *testing.T, st *store.Store, tenant, taskID, data string) run.Result {
	t.Helper()
	ref, err := st.PutBytes(t.Context(), store.Key{Tenant: tenant, TaskID: taskID}, []byte(data), "")
	if err != nil {
		t.Fatal(err)
	}
	return run.Result{ToolCallID: taskID, TaskID: taskID, State: run.CallSucceeded, ResultRef: ref.Ref, ResultHash: ref.Hash}
}

func filled(t *testing.T, st *store.Store, results ...run.Result) []run.Result {
	t.Helper()
	req, err := stepio.Fill(t.Context(), st, "acme", run.StepRequest{Results: results}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req.Results
}

func invalidField(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("got %v, want one about %s", err, field)
	}
}

func TestSmallContentsStayInline(t *testing.T) {
	t.Parallel()
	resp := run.StepResponse{Checkpoint: json.RawMessage(`{ "a" : 1 }`), Final: json.RawMessage("null"), Output: json.RawMessage("null"), Await: run.AwaitInput}
	out, checkpoint, final, err := stepio.Pack(t.Context(), nil, "acme", "r", resp)
	if err != nil || final != nil || len(out.Checkpoint) > 0 || len(out.Final) > 0 || len(out.Output) > 0 || out.Await != run.AwaitInput {
		t.Fatalf("%+v, final %v (%v)", out, final, err)
	}
	if string(checkpoint.Data) != `{ "a" : 1 }` || checkpoint.Hash != run.Hash(checkpoint.Data) || checkpoint.Bytes != 11 {
		t.Errorf("checkpoint %+v", checkpoint)
	}
	if string(resp.Checkpoint) != `{ "a" : 1 }` {
		t.Error("the response of the caller was changed")
	}
}

func TestLargeContentsGoThroughTheStoreByteForByte(t *testing.T) {
	t.Parallel()
	st := memory(t)
	checkpoint := `{ "x" : "` + strings.Repeat("<\\u003c é", run.MaxInline/8) + "\" }\n"
	final := `"` + strings.Repeat("f", run.MaxInline) + `"`
	pack := func() (*run.Content, *run.Content) {
		_, c, f, err := stepio.Pack(t.Context(), st, "acme", "r", run.StepResponse{Checkpoint: json.RawMessage(checkpoint), Final: json.RawMessage(final)})
		if err != nil {
			t.Fatal(err)
		}
		return c, f
	}
	c, f := pack()
	if len(c.Data) > 0 || c.Ref == "" || c.Bytes != int64(len(checkpoint)) || len(f.Data) > 0 || f.Hash != run.Hash([]byte(final)) {
		t.Fatalf("%+v, %+v", c, f)
	}
	again, _ := pack()
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("packing again gives another content: %s", diff)
	}
	req, err := stepio.Fill(t.Context(), st, "acme", run.StepRequest{RunID: "r", CheckpointRef: &run.ContentRef{}}, c)
	if err != nil || string(req.Checkpoint) != checkpoint || req.CheckpointRef != nil {
		t.Errorf("checkpoint comes back with %d bytes (%v)", len(req.Checkpoint), err)
	}
	byRef, err := stepio.FillByReference(t.Context(), st, "acme", run.StepRequest{RunID: "r"}, c)
	if err != nil || len(byRef.Checkpoint) > 0 || byRef.CheckpointRef == nil || *byRef.CheckpointRef != (run.ContentRef{Ref: c.Ref, Hash: c.Hash, Bytes: c.Bytes}) {
		t.Errorf("by reference: %+v (%v)", byRef.CheckpointRef, err)
	}
	if _, err := stepio.Fill(t.Context(), nil, "acme", run.StepRequest{}, c); !errors.Is(err, stepio.ErrNoStore) {
		t.Errorf("without a store: %v", err)
	}
	if err := st.Delete(t.Context(), c.Ref); err != nil {
		t.Fatal(err)
	}
	if _, err := stepio.Fill(t.Context(), st, "acme", run.StepRequest{}, c); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a checkpoint that is gone: %v", err)
	}
}

func TestInlineCheckpointIsVerified(t *testing.T) {
	t.Parallel()
	c := run.Inline([]byte("{}"), "")
	c.Data = []byte("[]")
	if _, err := stepio.Fill(t.Context(), nil, "acme", run.StepRequest{}, c); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestPackRefusesWhatTheRunCannotSee(t *testing.T) {
	t.Parallel()
	st := memory(t)
	_, other, _, err := stepio.Pack(t.Context(), st, "acme", "other", run.StepResponse{Checkpoint: json.RawMessage(`"` + strings.Repeat("c", run.MaxInline) + `"`)})
	if err != nil {
		t.Fatal(err)
	}
	_, mine, _, err := stepio.Pack(t.Context(), st, "acme", "r", run.StepResponse{Checkpoint: json.RawMessage(`"` + strings.Repeat("c", run.MaxInline) + `"`)})
	if err != nil {
		t.Fatal(err)
	}
	ref := func(c *run.Content, change ...func(*run.ContentRef)) run.StepResponse {
		r := run.ContentRef{Ref: c.Ref, Hash: c.Hash, Bytes: c.Bytes}
		for _, f := range change {
			f(&r)
		}
		return run.StepResponse{CheckpointRef: &r}
	}
	both := ref(mine)
	both.Checkpoint = json.RawMessage("1")
	for name, tc := range map[string]struct {
		resp  run.StepResponse
		field string
	}{
		"too large":          {run.StepResponse{Checkpoint: make(json.RawMessage, run.MaxCheckpoint+1)}, "checkpoint"},
		"no json":            {run.StepResponse{Checkpoint: json.RawMessage(strings.Repeat("{", run.MaxInline+1))}, "checkpoint"},
		"no text":            {run.StepResponse{Checkpoint: json.RawMessage("\"\xff\"")}, "checkpoint"},
		"a large final":      {run.StepResponse{Final: make(json.RawMessage, run.MaxFinal+1)}, "final"},
		"final is no json":   {run.StepResponse{Final: json.RawMessage("{")}, "final"},
		"both":               {both, "checkpointRef"},
		"of another run":     {ref(other), "checkpointRef"},
		"no reference":       {ref(mine, func(r *run.ContentRef) { r.Ref = "https://example.com" }), "checkpointRef"},
		"of another content": {ref(mine, func(r *run.ContentRef) { r.Hash = run.Hash(nil) }), "checkpointRef.hash"},
		"of another size":    {ref(mine, func(r *run.ContentRef) { r.Bytes++ }), "checkpointRef.bytes"},
	} {
		_, _, _, err := stepio.Pack(t.Context(), st, "acme", "r", tc.resp)
		t.Log(name)
		invalidField(t, err, tc.field)
	}
	_, c, _, err := stepio.Pack(t.Context(), st, "acme", "r", ref(mine, func(r *run.ContentRef) { r.Hash, r.Bytes = "", 0 }))
	if diff := cmp.Diff(mine, c); diff != "" || err != nil {
		t.Errorf("%s (%v)", diff, err)
	}
	if err := st.Delete(t.Context(), mine.Ref); err != nil {
		t.Fatal(err)
	}
	_, _, _, err = stepio.Pack(t.Context(), st, "acme", "r", ref(mine))
	invalidField(t, err, "checkpointRef")
	if _, _, _, err = stepio.Pack(t.Context(), nil, "acme", "r", ref(mine)); !errors.Is(err, stepio.ErrNoStore) {
		t.Errorf("without a store: %v", err)
	}
}

func TestResultsAreGivenAsFarAsTheyFit(t *testing.T) {
	t.Parallel()
	st := memory(t)
	long := strings.Repeat("ä", run.MaxInlineResult)
	answered := run.Result{ToolCallID: "asked", State: run.CallSucceeded, Result: json.RawMessage(`"yes"`)}
	got := filled(t, st,
		result(t, st, "acme", "json", `{ "a": 1 }`), result(t, st, "acme", "text", "a <b>\n"), result(t, st, "acme", "long", long),
		result(t, st, "acme", "binary", "\xff\x00\xfe"), result(t, st, "acme", "empty", ""), answered,
		run.Result{ToolCallID: "outside", TaskID: "o", State: run.CallSucceeded, ResultRef: "s3://x/y", ResultHash: "h"})
	for i, want := range []struct {
		result, preview string
		truncated       bool
	}{
		{`{ "a": 1 }`, "", false},
		{`"a <b>\n"`, "", false},
		{"", long[:run.MaxPreview], true},
		{"", "\uFFFD\x00\uFFFD", true},
		{`""`, "", false},
		{`"yes"`, "", false},
		{"", "", false},
	} {
		r := got[i]
		if string(r.Result) != want.result || r.Preview != want.preview || r.Truncated != want.truncated {
			t.Errorf("%s: %q, preview %q, truncated %v", r.ToolCallID, r.Result, r.Preview, r.Truncated)
		}
	}
	if got[2].Bytes != int64(len(long)) {
		t.Errorf("the size is %d", got[2].Bytes)
	}
}

func TestResultsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	st := memory(t)
	var results []run.Result
	for i := range 20 {
		results = append(results, result(t, st, "acme", "t"+string(rune('a'+i)), `"`+strings.Repeat("x", run.MaxInlineResult-2)+`"`))
	}
	whole := 0
	for i, r := range filled(t, st, results...) {
		if len(r.Result) > 0 {
			whole++
		} else if !r.Truncated || len(r.Preview) != run.MaxPreview || i < 16 {
			t.Errorf("%d: truncated %v with %d bytes", i, r.Truncated, len(r.Preview))
		}
	}
	if whole*run.MaxInlineResult != run.MaxInlineResults {
		t.Errorf("%d are whole", whole)
	}
	if len(results[0].Result) > 0 {
		t.Error("the request of the caller was changed")
	}
}

func TestResultsOfOthersAreNotRead(t *testing.T) {
	t.Parallel()
	st := memory(t)
	foreign := result(t, st, "other", "t", `"secret"`)
	another := result(t, st, "acme", "theirs", `"secret"`)
	another.TaskID = "mine"
	notSub := result(t, st, "acme", "theirs", `"secret"`)
	notSub.TaskID = ""
	for _, r := range filled(t, st, foreign, another, notSub) {
		if len(r.Result) > 0 || r.Preview != "" || r.Truncated {
			t.Errorf("%s gives %s %s", r.ToolCallID, r.Result, r.Preview)
		}
	}
}

// The final answer of a run that did the work of a call has no task.
func TestResultOfASubRunIsRead(t *testing.T) {
	t.Parallel()
	st := memory(t)
	final := `"` + strings.Repeat("f", run.MaxInline) + `"`
	_, _, c, err := stepio.Pack(t.Context(), st, "acme", domain.PrefixSubRun+"x", run.StepResponse{Final: json.RawMessage(final)})
	if err != nil {
		t.Fatal(err)
	}
	r := filled(t, st, run.Result{ToolCallID: "c", State: run.CallSucceeded, ResultRef: c.Ref, ResultHash: c.Hash})[0]
	if !r.Truncated || r.Preview != final[:run.MaxPreview] {
		t.Errorf("%+v", r)
	}
}

// A result that is gone or damaged would otherwise stop the run for ever.
func TestResultThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	st := memory(t)
	gone, other := result(t, st, "acme", "gone", "1"), result(t, st, "acme", "other", "2")
	if err := st.Delete(t.Context(), gone.ResultRef); err != nil {
		t.Fatal(err)
	}
	other.ResultHash = gone.ResultHash
	got := filled(t, st, gone, other)
	for i, code := range []string{stepio.CodeResultMissing, stepio.CodeResultCorrupt} {
		if r := got[i]; r.Error == nil || r.Error.Code != code || r.State != run.CallSucceeded || len(r.Result) > 0 {
			t.Errorf("%+v", r)
		}
	}
	if _, err := stepio.Results(t.Context(), nil, "acme", run.StepRequest{Results: []run.Result{gone}}); !errors.Is(err, stepio.ErrNoStore) {
		t.Errorf("without a store: %v", err)
	}
}

func FuzzPreview(f *testing.F) {
	f.Add([]byte("ab"))
	f.Add([]byte(strings.Repeat("€", run.MaxPreview)))
	f.Add([]byte(strings.Repeat("\xff", run.MaxPreview+1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := stepio.Preview(data)
		if len(p) > run.MaxPreview || !utf8.ValidString(p) {
			t.Errorf("%q", p)
		}
		if len(data) <= run.MaxPreview && utf8.Valid(data) && p != string(data) {
			t.Errorf("%q became %q", data, p)
		}
		if content, ok := stepio.Inline(data); ok != utf8.Valid(data) || ok && !json.Valid(content) {
			t.Errorf("%q", content)
		}
	})
}
