package main_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	chat "github.com/wakepoint/wakepoint/examples/chat"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var engine *harness.Engine

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &engine)) }

const slowTools = `
tools:
  list_dir:
    description: Lists a folder.
    executor: external
    inputSchema: {type: object, properties: {path: {type: string}}, required: [path], additionalProperties: false}
  search: {executor: external, description: Searches the web.}
`

// script is what the model says in TestChat.
func script() []reply {
	return []reply{
		{text: "I look around.", calls: []chat.ToolCall{call("list_dir:0", "list_dir", `{"path": "src"}`), call("search:1", "search", `{"q": "licence"}`)}},
		{status: http.StatusTooManyRequests, retryAfter: "1"},
		{calls: []chat.ToolCall{
			// The ids are those of the turn before, as Kimi gives them.
			call("list_dir:0", "list_dir", `{"path": "doc"}`),
			call("search:1", "search", ``),
			call("teleport:2", "teleport", `{"to": "mars"}`),
			call("list_dir:3", "list_dir", `{"path": 7}`),
			call("list_dir:4", "list_dir", `{"path": "half`),
		}},
		{calls: []chat.ToolCall{call("ask:0", "wakepoint_ask", `{"prompt": "Which licence?"}`)}},
		{text: "All done."},
	}
}

// told is the last conversation of TestChat, as the model got it.
var told = []string{
	"system: You are brief.",
	"user: look around",
	`assistant: I look around. list_dir:0=list_dir{"path": "src"} search:1=search{"q": "licence"}`,
	`tool list_dir:0: ["a.go"]`,
	`tool search:1: error: failed: OFFLINE: it did not work`,
	"user: and be quick",
	`assistant list_dir:0=list_dir{"path": "doc"} search:1=search{} teleport:2=teleport{"to": "mars"} list_dir:3=list_dir{"path": 7} list_dir:4=list_dir{}`,
	`tool list_dir:0: ["b.md"]`,
	`tool search:1: found`,
	`tool teleport:2: error: there is no tool "teleport"; there are wakepoint_ask, list_dir, search`,
	"tool list_dir:3: error: failed: INVALID_INPUT: ",
	`tool list_dir:4: error: the arguments are no JSON: {"path": "half`,
	`assistant ask:0=wakepoint_ask{"prompt": "Which licence?"}`,
	"tool ask:0: Apache-2.0",
}

// bed is an installation with a client.
type bed struct {
	harness.Bed
	runID string
}

func (b bed) until(what string, holds func(run.Run) bool) {
	b.T.Helper()
	var last run.Run
	for ch, err := range b.Client.WatchRun(b.Ctx, b.runID, 0) {
		require.NoError(b.T, err, "%s: the run is %s: %+v", what, last.State, last.Calls)
		if last = ch.Description.Run; holds(last) {
			return
		}
	}
	b.T.Fatalf("%s: the run has ended %s: %+v", what, last.State, last.Error)
}

// open waits until a call has its task, and gives its id.
func (b bed) open(step int, id string) string {
	b.T.Helper()
	b.until("the task of "+id, func(r run.Run) bool {
		c, ok := r.Find(run.Key{Step: step, ID: id})
		return ok && c.State == run.CallOpen
	})
	return protocol.CallTaskID(b.runID, step, id)
}

func (b bed) succeed(step int, id, result string) {
	b.T.Helper()
	b.Callback(b.open(step, id), "done", domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(result)})
}

// world does what the tools and the person of the script do.
func (b bed) world() {
	b.T.Helper()
	first := b.open(1, "list_dir:0")
	b.open(1, "search:1")
	_, err := b.Client.Say(b.Ctx, b.runID, protocol.RunSaid{InputID: "quick", Content: json.RawMessage(`"and be quick"`)})
	require.NoError(b.T, err)
	// The second one ends first.
	b.Callback(b.open(1, "search:1"), "broken", harness.Fail("OFFLINE", false))
	b.Callback(first, "done", domain.Event{Type: domain.EventSucceed, Result: json.RawMessage(`["a.go"]`)})
	b.succeed(2, "list_dir:0", `["b.md"]`)
	b.succeed(2, "search:1", `"found"`)
	b.until("the question", func(r run.Run) bool { return r.State == run.StateWaitingInput })
	out, err := b.Client.AnswerRun(b.Ctx, b.runID, protocol.AnswerCall{CallID: protocol.CallID{ToolCallID: "ask:0"}, Answer: json.RawMessage(`"Apache-2.0"`), By: "ada"})
	require.NoError(b.T, err)
	require.Equal(b.T, run.ReasonAnswered, out.Reason)
}

// TestChat holds the whole conversation over each way in, by the program as a user starts
// it: against a service that refuses what the providers refuse.
func TestChat(t *testing.T) {
	t.Parallel()
	ports, err := harness.FreePorts(1)
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	for mode, section := range map[string]string{
		"pull":     "pull: {}",
		"push":     "push: {url: 'http://" + address + "/', secret: {env: PUSH_SECRET}}",
		"activity": "activity: {taskQueue: chats, heartbeats: true}",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := serve(t, script()...)
			yaml := slowTools + "runtimes: {assistant: {" + section + ", backoff: {initial: 100ms}}}\n"
			hb := harness.NewBed(t.Context(), t, engine, yaml, nil)
			env := map[string]string{"OPENAI_BASE_URL": s.URL + "/v1", "OPENAI_MODEL": model, "OPENAI_API_KEY": key, "PUSH_SECRET": "whsec_aGVsbG8gd29ybGQ="}
			hb.Options.Getenv = func(name string) string { return env[name] }
			hb.StartWorker()
			started, err := hb.Client.StartRun(t.Context(), starter.RunStart{Runtime: "assistant", Input: json.RawMessage(`"look around"`)})
			require.NoError(t, err)
			b := bed{hb, started.RunID}

			var out, logs bytes.Buffer
			var ended sync.WaitGroup
			ended.Go(func() {
				args := []string{"-config", file(t, b, yaml), "-run", b.runID, "-system", "You are brief.", "-listen", address, "-address", engine.Address()}
				if err := chat.Main(t.Context(), args, &out, &logs, func(name string) string { return env[name] }); err != nil {
					t.Errorf("the program ended: %v", err)
				}
			})
			b.world()
			d, err := b.Client.WaitRun(t.Context(), b.runID, 0)
			require.NoError(t, err)
			ended.Wait()
			require.Equal(t, "All done.\n", out.String())
			check(t, s, d.Run)
			require.NotContains(t, logs.String(), key)
		})
	}
}

func check(t *testing.T, s *service, r run.Run) {
	t.Helper()
	require.Equal(t, run.StateSucceeded, r.State)
	got := s.last()
	require.Len(t, got, len(told))
	for i, line := range told {
		if strings.HasSuffix(line, ": ") {
			require.True(t, strings.HasPrefix(got[i], line), got[i])
			continue
		}
		require.Equal(t, line, got[i])
	}
	require.Len(t, s.told, 5, "each turn was asked for once, and one was refused")
	require.GreaterOrEqual(t, s.at[2].Sub(s.at[1]), time.Second, "Retry-After")
	require.Equal(t, []string{"wakepoint_ask", "list_dir", "search"}, s.offered)
	require.Equal(t, []run.Usage{{Model: model + "-2026", InputTokens: 400, OutputTokens: 40, CachedInputTokens: 160}}, r.Usage)
	require.Equal(t, 4, r.StepsDone)
	require.Equal(t, `"I look around."`, string(r.Outputs[0].Content))
}

// file writes the configuration of an installation for the program.
func file(t *testing.T, b bed, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wakepoint.yaml")
	blobs, err := store.FileURL(filepath.Join(b.Config.Dir, "blobs"))
	require.NoError(t, err)
	text := "tenant: " + b.Config.Tenant + "\ntaskQueue: " + b.Config.TaskQueue + "\nblobs: '" + blobs + "'\n" + yaml
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
