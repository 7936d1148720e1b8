package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// releaseTools are those of the scenario. What is copied shows that the input is there.
const releaseTools = `
tools:
  lint: {executor: external, ttl: 1h}
  scan: {executor: external, ttl: 1h}
  build: {ttl: 5m, exec: {argv: [sh, -c, 'cat >/dev/null; echo "{\"artifact\": \"wakepoint.tgz\"}"'], resultContentType: application/json}}
  publish: {ttl: 5m, exec: {argv: [cat], resultContentType: application/json}}
  sign: {ttl: 5m, exec: {argv: [cat], resultContentType: application/json}}
  deploy: {ttl: 5m, approval: required, exec: {argv: [cat], resultContentType: application/json}}
`

// release is the script: parallel calls, one that depends on another, one that fails and
// one that is skipped for it; then, with ids that come again, an approval, a question and a
// tool that there is not.
func release() script {
	return script{Turns: []turn{
		{Calls: []run.ToolCall{
			{ToolCallID: "call:0", Tool: "lint", Input: raw(`{}`)},
			{ToolCallID: "call:1", Tool: "build", Input: raw(`{}`)},
			{ToolCallID: "call:2", Tool: "publish", Input: raw(`{"file": {"$from": "call:1", "pointer": "/artifact"}}`), DependsOn: []string{"call:1"}},
			{ToolCallID: "call:3", Tool: "scan", Input: raw(`{}`)},
			{ToolCallID: "call:4", Tool: "sign", Input: raw(`{}`), DependsOn: []string{"call:3"}},
		}},
		{Calls: []run.ToolCall{
			{ToolCallID: "call:0", Tool: "deploy", Input: raw(`{"to": "production"}`)},
			{ToolCallID: "call:1", Tool: run.ToolAsk, Input: raw(`{"prompt": "What shall it be called?"}`)},
			{ToolCallID: "call:2", Tool: "teleport", Input: raw(`{}`)},
		}},
	}}
}

// released is the final answer, whoever takes the steps and whatever happens to him.
const released = `{"told": [
	{"role": "user", "content": "release it"},
	{"role": "tool", "step": 1, "call": "call:0", "state": "succeeded", "content": {"warnings": 0}},
	{"role": "tool", "step": 1, "call": "call:1", "state": "succeeded", "content": {"artifact": "wakepoint.tgz"}},
	{"role": "tool", "step": 1, "call": "call:2", "state": "succeeded", "content": {"file": "wakepoint.tgz"}},
	{"role": "tool", "step": 1, "call": "call:3", "state": "failed", "code": "SCANNER_BROKEN"},
	{"role": "tool", "step": 1, "call": "call:4", "state": "skipped", "code": "DEPENDENCY_FAILED"},
	{"role": "user", "content": "and hurry"},
	{"role": "tool", "step": 2, "call": "call:0", "state": "succeeded", "content": {"to": "production"}},
	{"role": "tool", "step": 2, "call": "call:1", "state": "succeeded", "content": "Nightingale"},
	{"role": "tool", "step": 2, "call": "call:2", "state": "failed", "code": "UNKNOWN_TOOL"},
	{"role": "user", "content": "is it out?"}
]}`

// stage is one run of the scenario.
type stage struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // one test, one deadline
	in  *harness.Installation
	// runID is known before the run is there.
	runID       string
	script, log string
	process     *process
}

// newStage installs the tools and the runtime, and starts the worker. hangs lets the first
// attempt of the second step hang.
func newStage(t testing.TB, name, runtime string, hangs bool) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, ctx: within(t, 3*time.Minute), runID: "release-" + uuid.NewString(), script: filepath.Join(dir, "script.json"), log: filepath.Join(dir, "log.jsonl")}
	says := release()
	if hangs {
		says.Turns[1].Hangs = 1
	}
	b, err := json.Marshal(says)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.script, b, 0o600))
	s.in = harness.Install(t, shared, name, releaseTools+"runtimes: {releaser: {"+runtime+", lease: 2s, stepAttempts: 50, backoff: {initial: 100ms, max: 1s}}}\n", nil)
	s.in.Options.Getenv = func(name string) string {
		if name == "PUSH_SECRET" {
			return pushSecret
		}
		return ""
	}
	s.in.StartWorker()
	return s
}

const pushSecret = "a secret of the runtime's"

// entries reads the log of the runtime.
func (s *stage) entries() []entry {
	s.t.Helper()
	b, err := os.ReadFile(s.log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(s.t, err)
	var all []entry
	for text := range bytes.Lines(b) {
		if !bytes.HasSuffix(text, []byte("\n")) {
			break // it is being written
		}
		var e entry
		require.NoError(s.t, json.Unmarshal(text, &e), "%s", text)
		all = append(all, e)
	}
	return all
}

// asked waits until the runtime was handed a step so often.
func (s *stage) asked(step, times int) {
	s.t.Helper()
	harness.Until(s.t, time.Minute, fmt.Sprintf("the runtime has step %d for the %d. time", step, times), func() bool {
		n := 0
		for _, e := range s.entries() {
			if e.Event == "asked" && e.Step == step {
				n++
			}
		}
		return n >= times
	})
}

func (s *stage) say(id, text string) {
	s.t.Helper()
	out, err := s.in.Client.Say(s.ctx, s.runID, protocol.RunSaid{InputID: id, Content: raw(strconv.Quote(text))})
	require.NoError(s.t, err)
	require.Equal(s.t, run.ReasonInput, out.Reason)
}

// play plays the scenario. A disturbed runtime is killed in the middle of the second step,
// and again while the run waits for people.
func (s *stage) play(disturbed bool) run.Run {
	t, ctx, c := s.t, s.ctx, s.in.Client
	t.Helper()
	_, err := c.StartRun(ctx, starter.RunStart{RunID: s.runID, Runtime: "releaser", Input: raw(`"release it"`)})
	require.NoError(t, err)
	s.process.start()
	until(ctx, t, s.in, s.runID, callIs(1, "call:2", run.CallSucceeded))
	until(ctx, t, s.in, s.runID, callIs(1, "call:3", run.CallOpen))
	r := until(ctx, t, s.in, s.runID, callIs(1, "call:0", run.CallOpen))
	require.Equal(t, run.StateWaitingTool, r.State)
	s.say("hurry", "and hurry")
	no := false
	_, err = c.Callback(ctx, protocol.CallTaskID(s.runID, 1, "call:3"), domain.Callback{CallbackID: "done", Event: domain.Event{
		Type: domain.EventFail, Error: &domain.TaskError{Code: "SCANNER_BROKEN", Message: "it smokes"}, Retryable: &no,
	}})
	require.NoError(t, err)
	succeed(ctx, t, s.in, protocol.CallTaskID(s.runID, 1, "call:0"), `{"warnings": 0}`)

	if disturbed {
		s.asked(2, 1)
		s.process.kill()
		s.process.start()
	}
	until(ctx, t, s.in, s.runID, callIs(2, "call:0", run.CallApproval))
	r = until(ctx, t, s.in, s.runID, stateIs(run.StateWaitingInput))
	require.Nil(t, r.Step)
	if disturbed {
		s.process.kill()
	}
	s.say("out", "is it out?")
	out, err := c.Approve(ctx, s.runID, protocol.Approve{CallID: protocol.CallID{ToolCallID: "call:0"}, Decision: run.DecisionApprove, By: "ada"})
	require.NoError(t, err)
	require.Equal(t, run.ReasonApproved, out.Reason)
	out, err = c.AnswerRun(ctx, s.runID, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "call:1"}, Answer: raw(`"Nightingale"`), By: "ada"})
	require.NoError(t, err)
	require.Equal(t, run.ReasonAnswered, out.Reason)
	if disturbed {
		s.process.start()
	}
	return ended(ctx, t, s.in, s.runID)
}

// check holds the end against that of a run to which nothing happens, and the log of the
// runtime against what it may be told.
func (s *stage) check(r run.Run, disturbed bool) {
	t := s.t
	t.Helper()
	require.JSONEq(t, released, string(r.Final.Data))
	require.Equal(t, 3, r.StepsDone)
	require.Equal(t, 8, r.CallsMade)
	byStep := map[int][]entry{}
	var results, inputs []string
	for _, e := range s.entries() {
		if e.Event == "asked" {
			byStep[e.Step] = append(byStep[e.Step], e)
			continue
		}
		results, inputs = append(results, e.Results...), append(inputs, e.Inputs...)
	}
	require.Equal(t, strings.Fields("1/call:0 1/call:1 1/call:2 1/call:3 1/call:4 2/call:0 2/call:1 2/call:2"), results, "each result once")
	require.Equal(t, []string{starter.FirstInput, "hurry", "out"}, inputs, "each input once")
	times := []int{1, 1, 1}
	if disturbed {
		times[1] = 2
	}
	for i, n := range times {
		again := byStep[i+1]
		require.Len(t, again, n, "step %d", i+1)
		for _, e := range again[1:] {
			require.Greater(t, e.Attempt, again[0].Attempt)
			require.NotEqual(t, again[0].Token, e.Token)
			require.True(t, slices.Equal(again[0].Results, e.Results) && slices.Equal(again[0].Inputs, e.Inputs), "the same step: %+v", again)
		}
	}
}

// eachTime plays the scenario undisturbed, and with kills, each for a tenant of its own.
func eachTime(t *testing.T, mode string, play func(t *testing.T, tenant string, disturbed bool)) {
	t.Helper()
	for name, disturbed := range map[string]bool{"undisturbed": false, "killed": true} {
		if !disturbed && (mode == modeLater || mode == modeActivity) {
			continue // it shows nothing that the others do not
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, "scenario-"+mode+"-"+name[:1], disturbed)
		})
	}
}

// TestTheScenario is finished by runtimes in Go over every way in, as processes of their
// own, and by killed ones as if nothing had happened.
func TestTheScenario(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{modePull, modePush, modeLater, modeActivity} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachTime(t, mode, func(t *testing.T, tenant string, disturbed bool) {
				t.Helper()
				ports, err := harness.FreePorts(1)
				require.NoError(t, err)
				to := settings{Mode: mode, Agents: "agents-" + tenant, Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), Secret: pushSecret}
				section := "push: {url: 'http://" + to.Listen + "/', secret: {env: PUSH_SECRET}}"
				switch mode {
				case modePull:
					section = "pull: {}"
				case modeActivity:
					section = "activity: {taskQueue: " + to.Agents + ", heartbeats: true}"
				}
				s := newStage(t, tenant, section, disturbed)
				to.Engine, to.Tenant, to.TaskQueue = shared.Address(), tenant, s.in.Config.TaskQueue
				to.RunID, to.Script, to.Log = s.runID, s.script, s.log
				to.Blobs, err = store.FileURL(filepath.Join(s.in.Config.Dir, "blobs"))
				require.NoError(t, err)
				s.process = playerProcess(t, to)
				s.check(s.play(disturbed), disturbed)
			})
		})
	}
}
