package workflows_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// wireTypes are the messages that docs/wire.md speaks of.
var wireTypes = map[string]any{
	"TaskInput": protocol.TaskInput{}, "Create": domain.Create{}, "Policy": domain.Policy{}, "ToolBinding": protocol.ToolBinding{},
	"Callback": protocol.Callback{}, "Event": domain.Event{}, "TaskError": domain.TaskError{}, "Outcome": protocol.Outcome{}, "Problem": protocol.Problem{},
	"Cancel": protocol.Cancel{}, "Answer": protocol.Answer{}, "Attach": protocol.Attach{}, "Retry": protocol.Retry{},
	"Detach": protocol.Detach{}, "Resolve": protocol.Resolve{}, "Reconcile": protocol.Reconcile{}, "Reconciled": protocol.Reconciled{},
	"Description": protocol.Description{}, "ResumeRequest": protocol.ResumeRequest{}, "Page": protocol.Page{}, "Task": domain.Task{}, "TaskRecord": protocol.TaskRecord{},
	"TaskFinished": protocol.TaskFinished{}, "DeliveryInput": protocol.DeliveryInput{}, "DeliveryRecord": protocol.DeliveryRecord{}, "Redeliver": protocol.Redeliver{},
}

// messageOf is the type that goes with a name on the wire.
var messageOf = map[string]string{
	"callback": "Callback", "cancel": "Cancel", "answer": "Answer", "attach": "Attach", "retry": "Retry", "detach": "Detach", "resolve": "Resolve", "reconcile": "Reconcile", "resume": "ResumeRequest", "redeliver": "Redeliver",
}

func wirePage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/wire.md")
	require.NoError(t, err)
	return string(b)
}

// decodeStrictly reads JSON into a type that must know every member.
func decodeStrictly(t *testing.T, name, text string) reflect.Value {
	t.Helper()
	m, ok := wireTypes[name]
	require.True(t, ok, "no message %q", name)
	v := reflect.New(reflect.TypeOf(m))
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(v.Interface()), "%s: %s", name, text)
	return v
}

// tagged finds the blocks of JSON behind a comment of a kind.
func tagged(page, kind string) [][2]string {
	var out [][2]string
	for _, m := range regexp.MustCompile("(?s)<!-- "+kind+": (.*?) -->\n```json\n(.*?)```").FindAllStringSubmatch(page, -1) {
		out = append(out, [2]string{m[1], m[2]})
	}
	return out
}

func TestWireExamplesDecode(t *testing.T) {
	t.Parallel()
	page := wirePage(t)
	examples := tagged(page, "decodes")
	require.GreaterOrEqual(t, len(examples), 9)
	require.Equal(t, strings.Count(page, "```json"), len(examples)+len(tagged(page, "play")), "every block of JSON is either decoded or played")
	for _, x := range examples {
		decodeStrictly(t, x[0], x[1])
	}
	for _, text := range []string{`{"callbackId": "c", "event": {"typ": "start"}}`} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		require.Error(t, d.Decode(&protocol.Callback{}), "the check sees a wrong name")
	}
}

// What stands in the code of other languages is JSON too, and every callback
// among it is taken by a task.
func TestWireCodeExamples(t *testing.T) {
	t.Parallel()
	page := wirePage(t)
	type message struct{ name, id, text string }
	var found []message
	shell := regexp.MustCompile(`(?s)temporal workflow (signal|update execute|query) --workflow-id acme/task/pr-7 --name (\w+)(?: --update-id (\S+))?(?: \\\n )? --input '(.*?)'`)
	for _, m := range shell.FindAllStringSubmatch(page, -1) {
		found = append(found, message{m[2], m[3], m[4]})
	}
	for _, m := range regexp.MustCompile(`\.signal\("(\w+)", (\{.*\})\)`).FindAllStringSubmatch(page, -1) {
		found = append(found, message{m[1], "", m[2]})
	}
	for _, m := range regexp.MustCompile(`(?s)executeUpdate\("(\w+)", \{\s*updateId: "(.*?)",\s*args: \[(.*?)\],\n`).FindAllStringSubmatch(page, -1) {
		found = append(found, message{m[1], m[2], m[3]})
	}
	for _, m := range regexp.MustCompile(`(?s)execute_update\(\s*"(\w+)",\s*(\{.*?\}),\n\s*id="(.*?)"`).FindAllStringSubmatch(page, -1) {
		found = append(found, message{m[1], m[3], m[2]})
	}
	require.Len(t, found, 8, "%+v", found)
	for _, m := range found {
		v := decodeStrictly(t, messageOf[m.name], m.text)
		c, ok := v.Interface().(*protocol.Callback)
		if !ok {
			continue
		}
		require.NoError(t, c.Validate(), m.text)
		if m.id != "" {
			require.Equal(t, protocol.CallbackUpdateID(c.CallbackID), m.id)
		}
		e := newEnv(t, &world{})
		var r *reply
		e.at(time.Minute, func() { r = e.update(m.name, "x", raw(m.text)) })
		e.run(external())
		// A heartbeat reaches a task that nobody has started.
		if out := r.answer(t); !out.Changed && out.Reason != domain.ReasonNotRunning {
			t.Errorf("%s came to %+v", m.text, out)
		}
	}
}

// Every member of every message is on the page, and no other.
func TestWireNamesEveryMember(t *testing.T) {
	t.Parallel()
	page := wirePage(t)
	tables := regexp.MustCompile(`(?s)<!-- fields: (\w+) -->\n\| member \| meaning \|\n\| --- \| --- \|\n(.*?)\n(?:\n|$)`).FindAllStringSubmatch(page, -1)
	seen := map[string]bool{}
	for _, table := range tables {
		seen[table[1]] = true
		var told []string
		for _, row := range strings.Split(table[2], "\n") {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(first, -1) {
				told = append(told, name[1])
			}
		}
		want := members(reflect.TypeOf(wireTypes[table[1]]))
		slices.Sort(told)
		slices.Sort(want)
		require.Empty(t, cmp.Diff(want, told), table[1])
	}
	for name := range wireTypes {
		require.True(t, seen[name], "%s has no table", name)
	}
}

// members are the JSON names of a struct, with those of embedded ones.
func members(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, members(f.Type)...)
		case name != "-":
			out = append(out, name)
		}
	}
	return out
}

// Every name of the contract is on the page.
func TestWireNamesEveryName(t *testing.T) {
	t.Parallel()
	page := wirePage(t)
	raw, err := os.ReadFile("protocol/testdata/names.json")
	require.NoError(t, err)
	var names map[string]string
	require.NoError(t, json.Unmarshal(raw, &names))
	for constant, name := range names {
		if strings.HasPrefix(constant, "Receipt") {
			// What an activity answers to the workflow.
			continue
		}
		require.Contains(t, page, "`"+name+"`", constant)
	}
}

// The table of repeats is what the Go client does.
func TestWireVerdicts(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(wirePage(t), "<!-- verdicts -->\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	require.Len(t, rows, 5)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		c := callback("c", progress(1))
		stored := said(cells[0])
		stored.DeliveryID, stored.Digest = "other", "other"
		if cells[1] == "yes" {
			stored.DeliveryID = c.DeliveryID
		}
		if cells[2] == "yes" {
			stored.Digest = c.Event.Digest()
		}
		got, want := stored.For(c), stored
		if cells[3] != "as it is" {
			want = said(cells[3])
		}
		require.Equal(t, []any{want.Reason, want.Duplicate, want.Conflict, want.Changed}, []any{got.Reason, got.Duplicate, got.Conflict, got.Changed}, row)
	}
}

// said reads an outcome from words.
func said(words string) domain.Outcome {
	reason, _, _ := strings.Cut(words, ",")
	return domain.Outcome{
		Reason: domain.Reason(strings.Trim(reason, "`")), Changed: strings.Contains(words, "changed"),
		Duplicate: strings.Contains(words, ", duplicate"), Conflict: strings.Contains(words, ", conflict"),
	}
}

// TestWireConversation plays the conversation of the page through the workflow,
// one step a minute, and compares every answer that it shows. What an answer has
// beside that is no difference.
func TestWireConversation(t *testing.T) {
	t.Parallel()
	page := wirePage(t)
	steps := tagged(page, "play")
	require.Greater(t, len(steps), 15)
	e := newEnv(t, &world{})
	var last *reply
	minute := 0
	for _, step := range steps {
		what, text := strings.Fields(step[0]), step[1]
		switch what[0] {
		case "signal":
			minute++
			e.at(time.Duration(minute)*time.Minute, func() { e.SignalWorkflow(what[1], raw(text)) })
		case "update":
			minute++
			m := decodeLoosely(t, messageOf[what[1]], text)
			if c, ok := m.(*protocol.Callback); ok {
				require.Equal(t, protocol.CallbackUpdateID(c.CallbackID), what[2])
			}
			e.at(time.Duration(minute)*time.Minute, func() {
				last = &reply{}
				e.UpdateWorkflow(what[1], what[2], last.take(), raw(text))
			})
		case "answers", "refused", "invalid":
			e.at(time.Duration(minute)*time.Minute+time.Second, func() {
				got := any(last.out)
				switch what[0] {
				case "refused":
					got = last.refusal(t)
				case "invalid":
					got = last.problem(t)
				default:
					require.NoError(t, last.err)
				}
				requireWithin(t, text, got)
			})
		case "query":
			var args []any
			if len(what) > 2 {
				args = append(args, raw(strings.Join(what[2:], " ")))
			}
			e.at(time.Duration(minute)*time.Minute+time.Second, func() {
				v, err := e.QueryWorkflow(what[1], args...)
				require.NoError(t, err)
				var got any
				require.NoError(t, v.Get(&got))
				requireWithin(t, text, got)
			})
		case "record":
			defer func() { requireWithin(t, text, e.record()) }()
		default:
			t.Fatalf("no step %q", step[0])
		}
	}
	var in protocol.TaskInput
	require.NoError(t, json.Unmarshal([]byte(tagged(page, "decodes")[0][1]), &in))
	e.run(in)
	require.NoError(t, e.GetWorkflowError())
}

// decodeLoosely is for examples that are wrong on purpose.
func decodeLoosely(t *testing.T, name, text string) any {
	t.Helper()
	v := reflect.New(reflect.TypeOf(wireTypes[name])).Interface()
	_ = json.Unmarshal([]byte(text), v)
	return v
}

// take fills the reply in.
func (r *reply) take() *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnReject: func(err error) { r.err = err },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			if r.err = err; err == nil {
				r.out = v.(domain.Outcome)
			}
		},
	}
}

// requireWithin checks that all that the text shows is so.
func requireWithin(t *testing.T, text string, got any) {
	t.Helper()
	var want, have any
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &have))
	if differs := within(want, have, "$"); differs != "" {
		t.Errorf("%s\nthe page says %s\nit is        %s", differs, strings.TrimSpace(text), bytes.TrimSpace(b))
	}
}

func within(want, have any, path string) string {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return path + " is no object"
		}
		for name, v := range w {
			// What is left out is false, 0 or empty.
			there, ok := h[name]
			if !ok && (v == false || v == 0.0 || v == "") {
				continue
			}
			if d := within(v, there, path+"."+name); d != "" {
				return d
			}
		}
		return ""
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return path + " has another length"
		}
		for i := range w {
			if d := within(w[i], h[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, have) {
		return fmt.Sprintf("%s is %v, not %v", path, have, want)
	}
	return ""
}
