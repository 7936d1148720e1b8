package blobref_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/store/blobref"
)

const hash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ tenant, taskID string }{
		{"acme", "task_01"}, {"A-b.c_d", "..x.."}, {"t", "..."}, {strings.Repeat("t", 32), strings.Repeat("i", 128)}, {"__0x41__", "a..b"},
	} {
		ref := blobref.For(tc.tenant, tc.taskID, hash)
		got, err := blobref.Parse(ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if want := (blobref.Ref{Tenant: tc.tenant, TaskID: tc.taskID, Hash: hash}); got != want {
			t.Errorf("parsed %+v, want %+v", got, want)
		}
		if got.String() != ref {
			t.Errorf("String = %s, want %s", got, ref)
		}
		if err := blobref.Check(tc.tenant, tc.taskID, hash); err != nil {
			t.Errorf("Check: %v", err)
		}
		if kind, id := got.Owner(); kind != blobref.KindTask || id != tc.taskID {
			t.Errorf("%s is of %s %s", ref, kind, id)
		}
		// A run may have every id that a task may have.
		ref = blobref.ForRun(tc.tenant, tc.taskID, hash)
		ofRun, err := blobref.Parse(ref)
		if want := (blobref.Ref{Tenant: tc.tenant, RunID: tc.taskID, Hash: hash}); err != nil || ofRun != want {
			t.Errorf("parsed %+v (%v), want %+v", ofRun, err, want)
		}
		if ofRun.String() != ref || ofRun == got {
			t.Errorf("String = %s, want %s", ofRun, ref)
		}
		if err := ofRun.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
		if kind, id := ofRun.Owner(); kind != blobref.KindRun || id != tc.taskID {
			t.Errorf("%s is of %s %s", ref, kind, id)
		}
	}
}

// An object belongs to one task or one run.
func TestCheckWantsOneOwner(t *testing.T) {
	t.Parallel()
	for rule, ref := range map[string]blobref.Ref{
		"not both":                 {Tenant: "acme", TaskID: "t", RunID: "r", Hash: hash},
		"taskId must not be empty": {Tenant: "acme", Hash: hash},
		`runId must not be "."`:    {Tenant: "acme", RunID: "..", Hash: hash},
		"tenant must not be empty": {RunID: "r", Hash: hash},
		"hash must be":             {Tenant: "acme", RunID: "r"},
	} {
		if err := ref.Check(); !errors.Is(err, blobref.ErrRef) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%+v: %v, want %s", ref, err, rule)
		}
	}
}

func TestKindsAreInTheOrderOfReferences(t *testing.T) {
	t.Parallel()
	if got := blobref.Kinds(); !slices.IsSorted(got) || len(got) != 2 {
		t.Errorf("the kinds are %v", got)
	}
}

func TestParseNamesTheBrokenRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ ref, rule string }{
		"empty":           {"", `begin with "blob:"`},
		"other scheme":    {"s3:acme/task/t/" + hash, `begin with "blob:"`},
		"absolute":        {"blob:/etc/task/passwd/" + hash, "<tenant>/task/<taskId>/<sha256>"},
		"no task":         {"blob:acme/tusk/t/" + hash, "<tenant>/run/<runId>/<sha256>"},
		"kind up":         {"blob:acme/../t/" + hash, "<tenant>/run/<runId>/<sha256>"},
		"other case":      {"blob:acme/Run/t/" + hash, "<tenant>/run/<runId>/<sha256>"},
		"run too short":   {"blob:acme/run/" + hash, "<tenant>/run/<runId>/<sha256>"},
		"run in a run":    {"blob:acme/run/r/run/r/" + hash, "<tenant>/run/<runId>/<sha256>"},
		"no id of a run":  {"blob:acme/run//" + hash, "runId must not be empty"},
		"run up":          {"blob:acme/run/../" + hash, `runId must not be "." or ".."`},
		"run here":        {"blob:acme/run/./" + hash, `runId must not be "." or ".."`},
		"run, escaped":    {"blob:acme/run/..%2ftask/" + hash, "runId must consist of"},
		"run, back slash": {`blob:acme/run/..\x/` + hash, "runId must consist of"},
		"run, zero byte":  {"blob:acme/run/r\x00/" + hash, "runId must consist of"},
		"long id of run":  {"blob:acme/run/" + strings.Repeat("i", 129) + "/" + hash, "runId must have at most 128"},
		"run, short hash": {"blob:acme/run/r/" + hash[:63], "hash must be"},
		"no id of a task": {"blob:acme/task//" + hash, "taskId must not be empty"},
		"too few parts":   {"blob:acme/task/" + hash, "<tenant>/task/<taskId>/<sha256>"},
		"too many parts":  {"blob:acme/task/t/" + hash + "/x", "<tenant>/task/<taskId>/<sha256>"},
		"no tenant":       {"blob:/task/t/" + hash, "tenant must not be empty"},
		"tenant up":       {"blob:../task/t/" + hash, `tenant must not be "." or ".."`},
		"id up":           {"blob:acme/task/../" + hash, `taskId must not be "." or ".."`},
		"id here":         {"blob:acme/task/./" + hash, `taskId must not be "." or ".."`},
		"up in the hash":  {"blob:acme/task/t/../../../../etc/passwd", "<tenant>/task/<taskId>/<sha256>"},
		"escaped slash":   {"blob:acme/task/..%2f..%2fetc/" + hash, "taskId must consist of"},
		"back slash":      {`blob:acme/task/..\x/` + hash, "taskId must consist of"},
		"zero byte":       {"blob:acme\x00/task/t/" + hash, "tenant must consist of"},
		"not ascii":       {"blob:äcme/task/t/" + hash, "tenant must consist of"},
		"invalid utf-8":   {"blob:\xff/task/t/" + hash, "tenant must consist of"},
		"long tenant":     {"blob:" + strings.Repeat("t", 33) + "/task/t/" + hash, "tenant must have at most 32"},
		"long id":         {"blob:acme/task/" + strings.Repeat("i", 129) + "/" + hash, "taskId must have at most 128"},
		"short hash":      {"blob:acme/task/t/" + hash[:63], "hash must be"},
		"long hash":       {"blob:acme/task/t/" + hash + "0", "hash must be"},
		"upper-case hash": {"blob:acme/task/t/" + strings.ToUpper(hash), "hash must be"},
		"not hexadecimal": {"blob:acme/task/t/" + hash[:63] + "g", "hash must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := blobref.Parse(tc.ref)
			if !errors.Is(err, blobref.ErrRef) {
				t.Fatalf("Parse(%q) = %+v, %v; want ErrRef", tc.ref, got, err)
			}
			var re *blobref.RefError
			if !errors.As(err, &re) || !strings.Contains(re.Rule, tc.rule) {
				t.Errorf("error %q does not name the rule %q", err, tc.rule)
			}
		})
	}
}

func TestErrorsQuoteShortly(t *testing.T) {
	t.Parallel()
	_, err := blobref.Parse(strings.Repeat("x", 1<<20))
	if err == nil || len(err.Error()) > 1024 {
		t.Errorf("error of %d bytes, want one that fits into a log line", len(err.Error()))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("blob:acme/task/t/" + hash)
	f.Add("blob:../task/../" + hash)
	f.Add("blob:acme/run/r/" + hash)
	f.Add("blob:acme/run/../" + hash)
	f.Add("blob:acme/run/task/" + hash)
	f.Fuzz(func(t *testing.T, ref string) {
		r, err := blobref.Parse(ref)
		if err != nil {
			if !errors.Is(err, blobref.ErrRef) {
				t.Fatalf("error is no ErrRef: %v", err)
			}
			return
		}
		if r.String() != ref {
			t.Fatalf("%q came back as %q", ref, r)
		}
		if (r.TaskID == "") == (r.RunID == "") {
			t.Fatalf("%q has not one owner: %+v", ref, r)
		}
		if err := r.Check(); err != nil {
			t.Fatalf("%q was parsed and breaks a rule: %v", ref, err)
		}
		_, id := r.Owner()
		for _, part := range []string{r.Tenant, id} {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\%\x00") {
				t.Fatalf("%q has the part %q", ref, part)
			}
		}
	})
}
