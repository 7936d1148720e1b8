package run_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// TestCycleIsNamed: an error about a graph says which way leads around, and a graph that
// only looks like a cycle is none.
func TestCycleIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ words, cycle string }{
		{"call=a:x,needs=b call=b:x,needs=c call=c:x,needs=b", "b -> c -> b"},
		{"call=a:x,needs=a", "a -> a"},
		{"call=a:x call=b:x,needs=a call=c:x,needs=a call=d:x,needs=b+c", ""},
		{"call=d:x,needs=b+c call=c:x,needs=a call=b:x,needs=a call=a:x", ""},
	} {
		_, err := lived(t, held).Apply(event(t, "commit at=9 step=1 token=t1 "+tc.words))
		var invalid *domain.InvalidError
		switch {
		case tc.cycle == "" && err != nil:
			t.Errorf("%s: %v", tc.words, err)
		case tc.cycle != "" && (!errors.As(err, &invalid) || !strings.HasSuffix(invalid.Rule, "in a cycle: "+tc.cycle)):
			t.Errorf("%s: %v", tc.words, err)
		}
	}
}

// TestWideGraph: looking for cycles takes no longer than the graph is large.
func TestWideGraph(t *testing.T) {
	t.Parallel()
	p := lived(t, "maxOpenCalls=100"+held)
	e := event(t, "commit at=9 step=1 token=t1")
	e.Response.ToolCalls = manyCalls(run.MaxStepCalls)
	for i := range e.Response.ToolCalls {
		for _, c := range e.Response.ToolCalls[:i] {
			e.Response.ToolCalls[i].DependsOn = append(e.Response.ToolCalls[i].DependsOn, c.ToolCallID)
		}
	}
	tr, err := run.Apply(p.Run, e)
	if err != nil || len(run.Next(tr.Run, 9).Start) != 1 {
		t.Errorf("%v, %+v", err, tr.Outcome)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		input string
		want  []run.Reference
		wrong string
	}{
		{``, nil, ""},
		{`{"x":1}`, nil, ""},
		{`"$from"`, nil, ""},
		{`{"a":"$from"}`, nil, ""},
		{`{"$from":"a"}`, []run.Reference{{From: "a"}}, ""},
		{`{"$from":"a","pointer":""}`, []run.Reference{{From: "a"}}, ""},
		{`{"y":[1,{"$from":"b"}],"x":{"$from":"a","pointer":"/0/n"}}`, []run.Reference{{"a", "/0/n"}, {"b", ""}}, ""},
		{`{"x":{"$from":"a"},"y":{"$from":"a"}}`, []run.Reference{{From: "a"}, {From: "a"}}, ""},
		{`{"$from":""}`, nil, "the id of a call"},
		{`{"$from":7}`, nil, "the id of a call"},
		{`{"$from":"a","pointer":"x"}`, nil, "a JSON pointer"},
		{`{"$from":"a","pointer":7}`, nil, "a JSON pointer"},
		{`{"$from":"a","otherwise":7}`, nil, "nothing beside"},
		{`{"$from"`, nil, ""},
	} {
		got, err := run.References(raw(tc.input))
		if tc.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: %v", tc.input, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v (%v)", tc.input, got, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	results := func(r run.Reference) (json.RawMessage, error) {
		switch r.From {
		case "a":
			return run.Point(raw(`{"n":[1,{"x y":true}],"":0,"a/b":2,"m~n":3,"01":4}`), r.Pointer)
		case "b":
			return raw(`"text"`), nil
		}
		return nil, errors.New("no result of " + r.From)
	}
	for _, tc := range []struct{ input, want, wrong string }{
		// What refers to nothing stays as it is, byte for byte.
		{`{ "b" : 1,  "a":1e2 }`, `{ "b" : 1,  "a":1e2 }`, ""},
		{`{"x":{"$from":"b"},"y":[{"$from":"a","pointer":"/n/1/x y"}]}`, `{"x":"text","y":[true]}`, ""},
		{`{"$from":"b"}`, `"text"`, ""},
		{`{"big":12345678901234567890.0,"x":{"$from":"b"}}`, `{"big":12345678901234567890.0,"x":"text"}`, ""},
		{`[{"$from":"a","pointer":"/a~1b"},{"$from":"a","pointer":"/m~0n"},{"$from":"a","pointer":"/"},{"$from":"a","pointer":"/01"}]`, `[2,3,0,4]`, ""},
		{`{"x":{"$from":"a","pointer":"/n/2"}}`, "", "nothing at /n/2"},
		{`{"x":{"$from":"a","pointer":"/n/-"}}`, "", "nothing at /n/-"},
		{`{"x":{"$from":"a","pointer":"/n/01"}}`, "", "nothing at /n/01"},
		{`{"x":{"$from":"a","pointer":"/n/0/x"}}`, "", "nothing at"},
		{`{"x":{"$from":"a","pointer":"/nothing"}}`, "", "nothing at /nothing"},
		{`{"x":{"$from":"z"}}`, "", "no result of z"},
	} {
		got, err := run.Resolve(raw(tc.input), results)
		if tc.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: %s (%v)", tc.input, got, err)
			}
			continue
		}
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s (%v)", tc.input, got, err)
		}
	}
}

// TestDeepInput: an input that is nested without end costs no stack. What lies deeper
// than references are looked for stays as it is.
func TestDeepInput(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 5000) + `{"$from":"a"}` + strings.Repeat("]", 5000)
	got, err := run.Resolve(raw(deep), func(run.Reference) (json.RawMessage, error) { return raw("1"), nil })
	if err != nil || string(got) != deep {
		t.Errorf("%d bytes became %d (%v)", len(deep), len(got), err)
	}
}
