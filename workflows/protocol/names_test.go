package protocol_test

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// TestNames holds every name of the contract to testdata/names.json: what is
// there stays for ever, what is new is added by -update.
func TestNames(t *testing.T) {
	t.Parallel()
	now := map[string]string{}
	eachSpec(t, func(d *ast.GenDecl, s ast.Spec) {
		vs, ok := s.(*ast.ValueSpec)
		if !ok || !vs.Names[0].IsExported() {
			return
		}
		for i, name := range vs.Names {
			now[name.Name] = text(t, d, vs, i)
		}
	})
	for _, e := range domain.EventTypes() {
		if e.Door() {
			now["event:"+string(e)] = string(e)
		}
	}
	for _, s := range domain.States() {
		now["state:"+string(s)] = string(s)
	}
	path := filepath.Join("testdata", "names.json")
	kept := map[string]string{}
	if raw, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(raw, &kept); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	for name, value := range kept {
		if now[name] != value {
			t.Errorf("%s was %q and is %q: histories and other people's programs hold the old one", name, value, now[name])
		}
	}
	if *update {
		for name, value := range now {
			if _, ok := kept[name]; !ok {
				kept[name] = value
			}
		}
		b, err := json.MarshalIndent(kept, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(kept, now); diff != "" {
		t.Errorf("names (-kept +now), to add new ones run go test ./workflows/protocol -update:\n%s", diff)
	}
}

// text is the value of a constant, or the name of a search attribute.
func text(t *testing.T, d *ast.GenDecl, vs *ast.ValueSpec, i int) string {
	t.Helper()
	if len(vs.Values) <= i {
		t.Fatalf("%s has no value of its own", vs.Names[i].Name)
	}
	lit, ok := vs.Values[i].(*ast.BasicLit)
	if ok && d.Tok == token.CONST && lit.Kind == token.INT {
		return lit.Value
	}
	if call, isCall := vs.Values[i].(*ast.CallExpr); isCall && d.Tok == token.VAR && len(call.Args) == 1 {
		lit, ok = call.Args[0].(*ast.BasicLit)
	}
	if !ok || lit.Kind != token.STRING {
		t.Fatalf("%s is no plain string", vs.Names[i].Name)
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The constants that the compiler sees are those that the source shows.
func TestNamesAreUsable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ got, want string }{
		{protocol.WorkflowAsyncTask, "AsyncTask"},
		{protocol.WorkflowDelivery, "Delivery"},
		{protocol.SignalCallback, "callback"},
		{protocol.UpdateCallback, "callback"},
		{protocol.SignalTaskFinished, "task-finished"},
		{protocol.UpdateCancel, "cancel"},
		{protocol.UpdateAnswer, "answer"},
		{protocol.UpdateAttach, "attach"},
		{protocol.UpdateRetry, "retry"},
		{protocol.QueryResume, "resume"},
		{protocol.QueryDescribe, "describe"},
		{protocol.HostTaskQueue("q", "h"), "q-host-h"},
		{protocol.LeaseActivityID(3), "lease-3"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	attrs := protocol.SearchAttributes()
	if len(attrs) != 5 || len(slices.Compact(slices.Sorted(slices.Values(attrs)))) != 5 {
		t.Errorf("search attributes %v", attrs)
	}
	for _, a := range attrs {
		// Temporal's SQL stores have ten columns of type Keyword for all of a
		// cluster's programs, so the names say whose they are.
		if !strings.HasPrefix(a, "Wakepoint") {
			t.Errorf("%s does not say whose it is", a)
		}
	}
}
