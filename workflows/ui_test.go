package workflows_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got), "run: go test ./workflows -update")
}

// details is what the Temporal UI shows of the running task: it asks by the
// query that every SDK answers.
func (e *env) details() string {
	e.t.Helper()
	v, err := e.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(e.t, err)
	var m sdkpb.WorkflowMetadata
	require.NoError(e.t, v.Get(&m))
	require.NotEmpty(e.t, m.CurrentDetails)
	return m.CurrentDetails
}

func TestCurrentDetails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in  protocol.TaskInput
		w   *world
		do  func(*env)
		end bool
	}{
		"submitted":        {in: external(), do: func(*env) {}},
		"submitted-tool":   {in: executed(), w: &world{submit: func(protocol.SubmitRequest) (protocol.SubmitResult, error) { return protocol.SubmitResult{}, errGoesOn }}, do: func(*env) {}},
		"running":          {in: executed(), do: func(*env) {}},
		"waiting-external": {in: external(), do: func(e *env) { p := progress(40); p.Stage = "compiling"; e.signal(callback("p", p)) }},
		"waiting-input":    {in: external(), do: func(e *env) { e.signal(callback("q", ask("q1"))) }},
		"retry-wait": {in: external(func(in *protocol.TaskInput) {
			in.Create.Policy.Backoff = domain.Backoff{InitialMs: 600_000, MaxMs: 600_000, Jitter: 1e-9}
		}), do: func(e *env) {
			e.signal(callback("f", retryable(1)))
		}},
		"suspected-lost": {in: executed(), w: &world{
			probe: func(protocol.ProbeRequest) (protocol.ProbeResult, error) { return protocol.ProbeResult{}, errHostLost },
			ask: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{}, temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})
			},
		}, do: func(*env) {}},
		"cancelling": {in: executed(func(in *protocol.TaskInput) { in.Create.Policy.CancelGraceMs = 600_000 }), do: func(e *env) {
			e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann", Reason: "enough"})
		}},
		"retried": {in: external(func(in *protocol.TaskInput) {
			in.Create.TTLMs, in.Create.Policy.LatePolicy = 1, domain.LateRecord
		}), do: func(e *env) {
			e.update(protocol.UpdateRetry, "r", protocol.Retry{TTLMs: time.Hour.Milliseconds(), By: "ann"})
		}},
		"succeeded": {in: external(), end: true, do: func(e *env) { e.signal(callback("e", domain.Event{Type: domain.EventSucceed, Result: []byte(`1`)})) }},
		"failed": {in: external(), end: true, do: func(e *env) {
			e.signal(callback("e", domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "NO_SPACE", Message: "disk full", Class: domain.ClassSystem}}))
		}},
		"outcome-unknown": {in: executed(func(in *protocol.TaskInput) { in.Create.Policy.Effects = domain.EffectsUnsafe }), end: true, do: func(*env) {}, w: &world{
			probe: func(protocol.ProbeRequest) (protocol.ProbeResult, error) {
				return protocol.ProbeResult{Lost: true}, nil
			},
		}},
		"expired":   {in: external(), end: true, do: func(*env) {}},
		"cancelled": {in: executed(), end: true, do: func(e *env) { e.update(protocol.UpdateCancel, "c", protocol.Cancel{By: "ann"}) }},
		"late": {in: external(func(in *protocol.TaskInput) {
			in.Create.TTLMs, in.Create.Policy.LatePolicy = 1000, domain.LateRecord
		}), end: true, do: func(e *env) { e.signal(callback("l", attempt(0, succeed("h")))) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.w == nil {
				tc.w = &world{}
			}
			e := newEnv(t, tc.w)
			var open string
			e.at(5*time.Second, func() { tc.do(e) })
			e.at(6*time.Second, func() { open = e.details() })
			tc.in.Create.Title = "the weekly review"
			e.run(tc.in)
			if tc.end {
				open = workflows.Details(e.record().Task)
			}
			golden(t, filepath.Join("details", name+".md"), open)
		})
	}
}

// hostile are texts that would be more than text if they were left as they are.
var hostile = []string{
	"[click](https://evil.example)", "![x](https://evil.example/pixel)", "**bold** __bold__ *it* _it_", "`code`", "<script>alert(1)</script>",
	"<img src=x onerror=alert(1)>", "a\n# heading", "a\r\n- item\n\n---\n", "| a | b |", "~~gone~~", "&lt;b&gt; &#91;x&#93;", `\[x](y)`, `\\[x](y)`, "\\`x\\`",
	"a\u2028# b\u2029# c", "\u202egnissim", "x\x00y\x1b[31mred", "\u200b\ufeff", "``` \nfence\n```", strings.Repeat("*", 1000), "ends with \\", "costs $5 and $6", "step 3/12 (c) -- \"done\"", "&copy; &#169;",
}

func TestDetailsHoldNoMarkupOfOthers(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		checkDetails(t, s)
	}
	// Random texts of what matters. Not a fuzz test: to instrument the SDK takes
	// longer than to try all of these.
	alphabet := []rune("\\`*_[]()<>&|~!#-.:/ab \n\r\t\u2028\u202e\x00é")
	lot := rand.New(rand.NewPCG(1, 2))
	for range 4_000 {
		s := make([]rune, lot.IntN(24))
		for i := range s {
			s[i] = alphabet[lot.IntN(len(alphabet))]
		}
		checkDetails(t, string(s))
	}
	e := newEnv(t, &world{})
	var shown string
	e.at(time.Minute, func() {
		p := progress(1)
		p.Stage, p.Worker = hostile[0], hostile[6]
		e.signal(callback("p", p))
	})
	e.at(2*time.Minute, func() { shown = e.details() })
	e.run(external(func(in *protocol.TaskInput) { in.Create.Title = hostile[4] }))
	golden(t, filepath.Join("details", "hostile.md"), shown)
}

// checkDetails puts s wherever a tool or a caller can write, and looks at what
// is left of it line by line, without knowing how it was escaped.
func checkDetails(t *testing.T, s string) {
	t.Helper()
	task := domain.Task{
		State: domain.StateRunning, Tool: s, Title: s, Stage: s, Worker: s, MaxAttempts: 1, Attempts: 1,
		Cancel:    &domain.CancelRequest{AtMs: 1, By: s, Reason: s},
		Questions: []domain.Question{{QuestionID: s, Prompt: s, AskedAtMs: 1}},
		Error:     &domain.TaskError{Code: "X", Message: s},
		ResultRef: "r" + s, Late: &domain.LateResult{ResultRef: "r" + s, AtMs: 1},
	}
	plainTask := domain.Task{
		State: domain.StateRunning, Tool: "x", Title: "x", Stage: "x", Worker: "x", MaxAttempts: 1, Attempts: 1,
		Cancel: &domain.CancelRequest{AtMs: 1}, Questions: []domain.Question{{QuestionID: "x", AskedAtMs: 1}}, Error: &domain.TaskError{Message: "x"}, ResultRef: "x",
		Late: &domain.LateResult{ResultRef: "x"},
	}
	got, want := workflows.Details(task), workflows.Details(plainTask)
	lines := strings.Split(got, "\n")
	blanks := strings.Count(s, s) - 1 // an empty title, stage or worker has no line
	if s == "" {
		blanks = 3
	}
	if len(lines) != len(strings.Split(want, "\n"))-max(blanks, 0) {
		t.Fatalf("%q makes %d lines:\n%s", s, len(lines), got)
	}
	for _, line := range lines[2:] {
		if line == "" {
			continue
		}
		rest, ok := strings.CutPrefix(line, "- **")
		if !ok {
			t.Fatalf("%q begins a line: %q", s, line)
		}
		for _, r := range rest {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
				t.Fatalf("%q leaves %U in %q", s, r, line)
			}
		}
		if _, inner, is := strings.Cut(rest, "esult:** "); is && !strings.HasPrefix(rest, "Question") {
			inner = strings.TrimSuffix(inner, ", 1970-01-01 00:00:00 UTC")
			if strings.Count(inner, "`") != 2 || inner[0] != '`' || inner[len(inner)-1] != '`' {
				t.Fatalf("%q leaves its code: %q", s, line)
			}
			continue
		}
		if left := live(rest); left != "**" {
			t.Fatalf("%q is still markup: %q has %q", s, line, left)
		}
	}
}

// live gives the characters of a line that mean something in markdown: all that
// no backslash stands before, and that are not written as a number.
func live(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && strings.IndexByte("\\`*_{}[]()#+-.!:|&<>~^$", line[i+1]) >= 0:
			i++
		case strings.IndexByte("\\`*_[]()|~<>$", c) >= 0:
			b.WriteByte(c)
		case c == '&' && !strings.HasPrefix(line[i:], "&#"):
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Work that stands still shows it when its stall time is over, though no event says
// so, and no longer when it moves on.
func TestStallIsShown(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	shown := map[string]bool{}
	look := func(when string) { shown[when] = strings.Contains(e.details(), "**Stalled:**") }
	e.at(90*time.Second, func() { look("before") })
	e.at(4*time.Minute, func() { look("standing still") })
	e.at(5*time.Minute, func() { e.signal(callback("p", domain.Event{Type: domain.EventProgress, Progress: ptr(40)})) })
	e.at(6*time.Minute, func() { look("moved on") })
	e.at(8*time.Minute, func() { look("still again") })
	e.at(9*time.Minute, func() { e.signal(callback("s", succeed("h"))) })
	e.at(time.Minute, func() { e.signal(callback("b", domain.Event{Type: domain.EventStart})) })
	e.run(external(func(in *protocol.TaskInput) {
		in.Create.Policy.StallMs, in.Revision = (2 * time.Minute).Milliseconds(), protocol.Revision
	}))
	require.Equal(t, map[string]bool{"before": false, "standing still": true, "moved on": false, "still again": true}, shown)
}
