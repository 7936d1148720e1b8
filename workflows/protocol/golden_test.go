package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var update = flag.Bool("update", false, "add what is new to the golden files")

// messages are all structs of the contract. TestEveryMessageIsGolden holds the
// list complete.
var messages = []any{
	protocol.Callback{},
	protocol.Outcome{},
	protocol.Page{},
	protocol.ToolBinding{},
	protocol.TaskInput{},
	protocol.Carry{},
	protocol.TaskRecord{},
	protocol.Handle{},
	protocol.Blob{},
	protocol.Cancel{},
	protocol.Answer{},
	protocol.Attach{},
	protocol.Retry{},
	protocol.Detach{},
	protocol.Resolve{},
	protocol.Reconcile{},
	protocol.Reconciled{},
	protocol.Standing{},
	protocol.JobStarted{},
	protocol.Begun{},
	protocol.RunRequest{},
	protocol.RunNote{},
	protocol.CompensateRequest{},
	protocol.CompensateResult{},
	protocol.ListJobsRequest{},
	protocol.ListJobsResult{},
	protocol.ListedJob{},
	protocol.SweepInput{},
	protocol.SweepReport{},
	protocol.ResumeRequest{},
	protocol.Description{},
	protocol.Rejected{},
	protocol.TaskFinished{},
	protocol.Problem{},
	protocol.Job{},
	protocol.SubmitRequest{},
	protocol.SubmitResult{},
	protocol.ProbeRequest{},
	protocol.ProbeResult{},
	protocol.CancelRequest{},
	protocol.LeaseRequest{},
	protocol.StoreRequest{},
	protocol.NotifyRequest{},
	protocol.NotifyResult{},
	protocol.LogsRequest{},
	protocol.LogsResult{},
	protocol.DeliveryInput{},
	protocol.DeliveryRecord{},
	protocol.Redeliver{},
	protocol.SendRequest{},
	protocol.SendResult{},
	protocol.RuntimeBinding{},
	protocol.RunInput{},
	protocol.RunCarry{},
	protocol.RunRecord{},
	protocol.RunRetry{},
	protocol.Claim{},
	protocol.Claimed{},
	protocol.Commit{},
	protocol.StepHeartbeat{},
	protocol.CallID{},
	protocol.Approve{},
	protocol.AnswerCall{},
	protocol.CancelOneCall{},
	protocol.RunSaid{},
	protocol.Pause{},
	protocol.Recover{},
	protocol.Recovered{},
	protocol.CallDrift{},
	protocol.RunFinished{},
	protocol.RunAsks{},
	protocol.Ask{},
	protocol.RunDescription{},
	protocol.StartCallsRequest{},
	protocol.CallStart{},
	protocol.CallResult{},
	protocol.StartCallsResult{},
	protocol.CallBegun{},
	protocol.OpenCall{},
	protocol.CancelCallsRequest{},
	protocol.CancelTask{},
	protocol.WatchCallsRequest{},
	protocol.CallsFound{},
	protocol.CallFound{},
	protocol.PrepareStepRequest{},
	protocol.PushStepRequest{},
	protocol.PushStepResult{},
	protocol.StoreContentRequest{},
	protocol.NotifyParentRequest{},
	protocol.SubmitCall{},
	protocol.SubmittedCall{},
	protocol.SubmitRun{},
	protocol.CallRefused{},
	protocol.CallsTold{},
	protocol.ForgetContentsRequest{},
	protocol.Seen{},
}

// names of types, in the file system and in the source.
func nameOf(m any) string { return reflect.TypeOf(m).Name() }

// ledger is a ledger with one entry, whose packed form is part of the contract:
// it is carried in histories.
func ledger() *domain.Ledger {
	l := &domain.Ledger{Conflicts: 3, Repeats: 4}
	l.Remember("cb-1", "delivery-1", strings.Repeat("0f", 16), domain.Transition{Reason: domain.ReasonProgress, Changed: true, Late: true, Task: domain.Task{Version: 7}})
	return l
}

// fill puts a value into every field, which follows from the field's place.
func fill(v reflect.Value, path string) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	n := int64(h.Sum32()%900) + 100
	switch v.Interface().(type) {
	case domain.Ledger:
		v.Set(reflect.ValueOf(ledger()).Elem())
		return
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, n))
		return
	case []byte:
		v.SetBytes(fmt.Appendf(nil, "<%d>", n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path+"[0]")
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.String:
		v.SetString(path[strings.LastIndexByte(path, '.')+1:] + fmt.Sprint(n))
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n) + 0.5)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("no value for " + path + " of " + v.Type().String())
	}
}

// golden is what a file holds of a message.
type golden struct {
	// Full has every field set, Zero none.
	Full json.RawMessage `json:"full"`
	Zero json.RawMessage `json:"zero"`
}

// TestGolden holds the JSON of every message to its file. A file is appended to
// and never changed: -update adds members that are new and keeps all others, and
// a member that went or has another value fails with it too.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		t.Run(nameOf(m), func(t *testing.T) {
			t.Parallel()
			full := reflect.New(reflect.TypeOf(m))
			fill(full.Elem(), nameOf(m))
			now := golden{Full: marshal(t, full.Interface()), Zero: marshal(t, m)}
			path := filepath.Join("testdata", "golden", nameOf(m)+".json")
			if *update {
				appendTo(t, path, now)
			}
			var kept golden
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; run: go test ./workflows/protocol -update", err)
			}
			if err := json.Unmarshal(raw, &kept); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(t, kept.Full), plain(t, now.Full)); diff != "" {
				t.Errorf("full (-kept +now):\n%s", diff)
			}
			if diff := cmp.Diff(plain(t, kept.Zero), plain(t, now.Zero)); diff != "" {
				t.Errorf("zero (-kept +now):\n%s", diff)
			}
			back := reflect.New(reflect.TypeOf(m))
			var compact bytes.Buffer
			if err := json.Compact(&compact, kept.Full); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(compact.Bytes(), back.Interface()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(full.Interface(), back.Interface(), cmpopts.EquateEmpty(), cmp.Comparer(sameLedger), ignoreJitter); diff != "" {
				t.Errorf("read back (-written +read):\n%s", diff)
			}
		})
	}
}

// ignoreJitter: a lot that is drawn is no part of any message.
var ignoreJitter = cmpopts.IgnoreFields(domain.Event{}, "Jitter")

func sameLedger(a, b domain.Ledger) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plain(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// appendTo adds to a file what it does not have.
func appendTo(t *testing.T, path string, now golden) {
	t.Helper()
	merged := map[string]any{"full": plain(t, now.Full), "zero": plain(t, now.Zero)}
	if raw, err := os.ReadFile(path); err == nil {
		merged = merge(plain(t, raw), merged).(map[string]any)
	}
	b, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// merge keeps what was there and adds the members that are new.
func merge(kept, now any) any {
	k, isObject := kept.(map[string]any)
	n, both := now.(map[string]any)
	if !isObject || !both {
		ks, isList := kept.([]any)
		ns, both := now.([]any)
		if isList && both && len(ks) == 1 && len(ns) == 1 {
			return []any{merge(ks[0], ns[0])}
		}
		return kept
	}
	for name, v := range n {
		if old, ok := k[name]; ok {
			v = merge(old, v)
		}
		k[name] = v
	}
	return k
}

func TestMergeKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	kept := map[string]any{"a": 1.0, "gone": true, "in": map[string]any{"x": 1.0}, "list": []any{map[string]any{"y": 1.0}}}
	now := map[string]any{"a": 2.0, "new": "n", "in": map[string]any{"x": 9.0, "z": 3.0}, "list": []any{map[string]any{"y": 9.0, "w": 4.0}}}
	want := map[string]any{
		"a": 1.0, "gone": true, "new": "n", "in": map[string]any{"x": 1.0, "z": 3.0}, "list": []any{map[string]any{"y": 1.0, "w": 4.0}},
	}
	if diff := cmp.Diff(any(want), merge(kept, now)); diff != "" {
		t.Error(diff)
	}
}

// source parses the package.
func source(t *testing.T) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// eachSpec calls f for every exported type, constant and variable.
func eachSpec(t *testing.T, f func(d *ast.GenDecl, s ast.Spec)) {
	t.Helper()
	for _, file := range source(t) {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					f(g, s)
				}
			}
		}
	}
}

// A struct that is added without a golden file would be free to change.
func TestEveryMessageIsGolden(t *testing.T) {
	t.Parallel()
	var listed, declared []string
	for _, m := range messages {
		listed = append(listed, nameOf(m))
	}
	eachSpec(t, func(_ *ast.GenDecl, s ast.Spec) {
		ts, ok := s.(*ast.TypeSpec)
		if !ok || !ts.Name.IsExported() {
			return
		}
		_, isStruct := ts.Type.(*ast.StructType)
		if isStruct || ts.Assign.IsValid() {
			declared = append(declared, ts.Name.Name)
		}
	})
	slices.Sort(listed)
	slices.Sort(declared)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("messages (-declared +listed):\n%s", diff)
	}
}

// Every message survives a reader that is older or newer: unknown members are
// passed over, missing ones are zero.
func TestReadersPassOverWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		into := reflect.New(reflect.TypeOf(m)).Interface()
		if err := json.Unmarshal([]byte(`{"aMemberOfTheYear2099":{"x":[1]}}`), into); err != nil {
			t.Errorf("%s: %v", nameOf(m), err)
		}
		if diff := cmp.Diff(m, reflect.ValueOf(into).Elem().Interface(), cmpopts.EquateEmpty(), cmp.Comparer(sameLedger)); diff != "" {
			t.Errorf("%s:\n%s", nameOf(m), diff)
		}
	}
}
