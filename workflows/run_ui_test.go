package workflows_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// details is what the Temporal UI shows of the running run.
func (e *runEnv) details() string {
	e.t.Helper()
	v, err := e.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(e.t, err)
	var m sdkpb.WorkflowMetadata
	require.NoError(e.t, v.Get(&m))
	require.NotEmpty(e.t, m.CurrentDetails)
	return m.CurrentDetails
}

func TestCurrentDetailsOfARun(t *testing.T) {
	t.Parallel()
	some := func(e *runEnv) {
		e.take(func(run.StepRequest) run.StepResponse {
			return run.StepResponse{
				ToolCalls: []run.ToolCall{
					toolCall("a"), toolCall("b", needs("a")), toolCall("bg", func(c *run.ToolCall) { c.Background = true }), toolCall("sub", of(run.ToolRun, `{}`)),
					toolCall("ship", of("deploy", `{}`)), toolCall("q", of(run.ToolAsk, `{"prompt":"which one?"}`)),
				},
				Output: json.RawMessage(`"looking into it"`), Usage: []run.Usage{{Model: "m", InputTokens: 1200, OutputTokens: 34, CostUSD: 0.0123}},
			}
		})
	}
	for name, tc := range map[string]struct {
		do   func(*runEnv)
		then func(*runEnv)
		end  bool
	}{
		"running": {do: func(e *runEnv) { e.claims("w1") }},
		"due":     {do: func(*runEnv) {}},
		"waiting": {do: some, then: func(e *runEnv) { e.SignalWorkflow(protocol.SignalRunAsks, subAsk("sub", "shall I?")) }},
		"taken":   {do: some, then: func(e *runEnv) { e.finish(taskOf(1, "a"), failedWith("BOOM")) }},
		"retry": {do: func(e *runEnv) {
			e.claims("w1", func(run.StepRequest) { e.commits(run.StepResponse{Error: failure("MODEL_AWAY", true)}) })
		}},
		"paused":     {do: func(e *runEnv) { e.update(protocol.UpdatePause, protocol.Pause{By: "ann"}) }},
		"cancelling": {do: some, then: func(e *runEnv) { e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann", Reason: "enough"}) }},
		"failed": {end: true, do: func(e *runEnv) {
			e.claims("w1", func(run.StepRequest) { e.commits(run.StepResponse{Error: failure("NO_KEY", false)}) })
		}},
		"succeeded": {end: true, do: func(e *runEnv) { e.take(func(run.StepRequest) run.StepResponse { return final(`1`) }) }},
		"expired":   {end: true, do: func(*runEnv) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &runWorld{}
			w.begin = func(c protocol.CallStart) (protocol.CallBegun, error) {
				if c.Tool == run.ToolRun {
					return subRuns(c)
				}
				return asking(time.Hour)(c)
			}
			e := newRunEnv(t, w)
			var shown string
			e.at(5*time.Second, func() { tc.do(e) })
			if tc.then != nil {
				e.at(6*time.Second, func() { tc.then(e) })
			}
			e.at(7*time.Second, func() { shown = e.details() })
			e.run(pulls(func(in *protocol.RunInput) { in.Create.Parent = &run.Parent{RunID: "above", ToolCallID: "c1", Step: 3} }))
			if tc.end {
				shown = workflows.RunDetails(e.record(), "default", nil)
			}
			golden(t, filepath.Join("details", "run-"+name+".md"), shown)
		})
	}
}

// hostileRun has a text of others wherever one of a run can stand.
func hostileRun(s string) (run.Run, []protocol.Ask) {
	call := func(id string) run.Call {
		return run.Call{
			Key: run.Key{Step: 1, ID: id}, ToolCall: run.ToolCall{ToolCallID: id, Tool: s, DependsOn: []string{s, s}, Background: true}, State: run.CallFailed, TaskID: "t" + s,
			Error: &domain.TaskError{Code: "X" + s, Message: s}, TakenAt: 2,
		}
	}
	sub := call("y" + s)
	sub.State, sub.SubRunID, sub.Error = run.CallOpen, "r"+s, nil
	r := run.Run{
		ID: "r" + s, Tenant: "acme", State: run.StateFailed, Title: "t" + s, Step: &run.Step{Number: 1, Holder: "h" + s, Cause: run.CauseStart, Error: &domain.TaskError{Code: "X", Message: s}},
		Parent: &run.Parent{RunID: "p" + s, ToolCallID: "c" + s}, Cancel: &domain.CancelRequest{By: "b" + s, Reason: "r" + s}, Error: &domain.TaskError{Code: "X", Message: s},
		Outputs: []run.Output{{Step: 1, Content: []byte("o" + s)}}, Calls: []run.Call{call("x" + s), sub},
	}
	return r, []protocol.Ask{{RunID: s, ToolCallID: "a" + s, Kind: "k" + s, Prompt: "p" + s}}
}

// bare is a line without the contents of its code and the addresses of its links, which
// nothing can leave; what is left means what it means.
func bare(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			b.WriteString(line[i : i+2])
			i++
		case line[i] == '`':
			if n := strings.IndexByte(line[i+1:], '`'); n >= 0 {
				i += n + 1
			}
			b.WriteString("``")
		case strings.HasPrefix(line[i:], "](/namespaces/"):
			n := strings.IndexByte(line[i:], ')')
			b.WriteString("]()")
			i += n
		default:
			b.WriteByte(line[i])
		}
	}
	return live(b.String())
}

func checkRunDetails(t *testing.T, s string) {
	t.Helper()
	r, asks := hostileRun(s)
	p, plainAsks := hostileRun("x")
	got, want := strings.Split(workflows.RunDetails(r, "default", asks), "\n"), strings.Split(workflows.RunDetails(p, "default", plainAsks), "\n")
	if len(got) != len(want) {
		t.Fatalf("%q makes %d lines, not %d:\n%s", s, len(got), len(want), strings.Join(got, "\n"))
	}
	for i, line := range got {
		if bare(line) != bare(want[i]) {
			t.Fatalf("%q is still markup: %q has %q, not %q", s, line, bare(line), bare(want[i]))
		}
		for _, c := range line {
			if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' {
				t.Fatalf("%q leaves %U in %q", s, c, line)
			}
		}
	}
}

func TestDetailsOfARunHoldNoMarkupOfOthers(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		checkRunDetails(t, s)
	}
	alphabet := []rune("\\`*_[]()<>&|~!#-.:/ab \n\r\t\u2028\u202e\x00é")
	lot := rand.New(rand.NewPCG(3, 4))
	for range 1_500 {
		s := make([]rune, lot.IntN(24))
		for i := range s {
			s[i] = alphabet[lot.IntN(len(alphabet))]
		}
		checkRunDetails(t, string(s))
	}
	r, asks := hostileRun(hostile[4] + hostile[0])
	golden(t, filepath.Join("details", "run-hostile.md"), workflows.RunDetails(r, "default", asks))
}

// The details of a run with very many calls show the newest.
func TestDetailsOfARunWithManyCalls(t *testing.T) {
	t.Parallel()
	var r run.Run
	for i := range 200 {
		r.Calls = append(r.Calls, run.Call{Key: run.Key{Step: i, ID: "c"}, ToolCall: run.ToolCall{ToolCallID: "c"}, State: run.CallOpen})
	}
	shown := workflows.RunDetails(r, "default", nil)
	require.Contains(t, shown, "| 199 |")
	require.NotContains(t, shown, "| 159 |")
	require.Less(t, len(shown), 20_000)
}

// Lists show that a person is asked, and the end; nothing between is worth a write.
func TestWhatListsShowOfARun(t *testing.T) {
	t.Parallel()
	e := newRunEnv(t, &runWorld{begin: asking(0)})
	for _, s := range []run.State{run.StateWaitingInput, run.StateRunning, run.StateSucceeded} {
		e.OnUpsertTypedSearchAttributes(temporal.NewSearchAttributes(protocol.AttrState.ValueSet(string(s)))).Return(nil).Once()
	}
	e.at(1*time.Second, func() { e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("a")) }) })
	e.at(2*time.Second, func() { e.finish(taskOf(1, "a")) })
	e.at(3*time.Second, func() {
		e.take(func(run.StepRequest) run.StepResponse { return asks(toolCall("d", of("deploy", `{}`))) })
	})
	e.at(4*time.Second, func() {
		e.update(protocol.UpdateApprove, raw(`{"toolCallId":"d","decision":"deny"}`), came(t, run.ReasonDenied))
	})
	e.ends(5 * time.Second)
	e.run(pulls())
	e.AssertExpectations(t)
}
