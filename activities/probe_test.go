package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// goesOn checks that a probe will look again, and gives the delay.
func goesOn(t *testing.T, err error) time.Duration {
	t.Helper()
	app := failure(t, err)
	if app.Type() != protocol.ErrTypeStillRunning || app.NonRetryable() {
		t.Fatalf("error = %v, want a job that goes on", err)
	}
	return app.NextRetryDelay()
}

// What a probe sees is told once for each change, under an id that follows from
// what was seen; what was told crosses to the next look in the heartbeat.
func TestProbeTellsEachChangeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.Running(), // taken by the look of the submission
		tooltest.Running(), tooltest.RunningAt(10, "a"), tooltest.RunningAt(10, "a"), tooltest.RunningAt(20, "a"),
		tooltest.RunningAt(20, "b"), tooltest.RunningAt(15, "b"), tooltest.RunningAt(30, ""), tooltest.RunningAt(30, "b"), tooltest.Running())
	req := protocol.ProbeRequest{Job: b.started()}
	for range 9 {
		_, err := b.probe(req)
		goesOn(t, err)
	}
	var got []string
	for _, s := range b.signals {
		c := s.arg.(domain.Callback)
		if s.workflowID != workflowID || s.runID != "" || s.name != protocol.SignalCallback || c.DeliveryID != c.CallbackID || c.Source != "probe" ||
			c.Event.Attempt != 1 || c.Event.AtMs != b.now.UnixMilli() {
			t.Errorf("signal = %+v", s)
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		p := "-"
		if c.Event.Progress != nil {
			p = strings.TrimSuffix(json.Number(mustJSON(t, *c.Event.Progress)).String(), ".0")
		}
		got = append(got, string(c.Event.Type)+" "+p+" "+c.Event.Stage+" "+c.CallbackID)
	}
	want := []string{
		"progress 10 a " + domain.ProbeCallbackID(1, 10, "a"), "progress 20 a " + domain.ProbeCallbackID(1, 20, "a"),
		"heartbeat - b " + domain.ProbeCallbackID(1, 20, "b"), "progress 30  " + domain.ProbeCallbackID(1, 30, "b"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if b.heartbeat["progress"] != 30.0 || b.heartbeat["stage"] != "b" || b.heartbeat["state"] != "running" {
		t.Errorf("heartbeat = %v", b.heartbeat)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A worker that dies between the signal and the heartbeat tells the same again,
// and the ledger of the task knows the id.
func TestProbeThatDiesTellsTheSameAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.RunningAt(40, "x"))
	req := protocol.ProbeRequest{Job: b.started()}
	for range 2 {
		b.heartbeat = nil
		_, err := b.probe(req)
		goesOn(t, err)
	}
	first, second := b.signals[0].arg.(domain.Callback), b.signals[1].arg.(domain.Callback)
	if first.CallbackID != second.CallbackID || first.Event.Digest() != second.Event.Digest() {
		t.Errorf("told as %+v and as %+v", first, second)
	}
}

// A task that knows more than a heartbeat-less probe is not told of it again.
func TestProbeBeginsWithWhatTheTaskKnows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.RunningAt(40, "x"))
	_, err := b.probe(protocol.ProbeRequest{Job: b.started(), Progress: 40, Stage: "x"})
	goesOn(t, err)
	if len(b.signals) != 0 {
		t.Errorf("signals = %+v", b.signals)
	}
}

func TestProbeThatCannotSignalLooksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.RunningAt(40, "x"))
	b.signalErr = errors.New("unavailable")
	req := protocol.ProbeRequest{Job: b.started()}
	if _, err := b.probe(req); err == nil || failure(t, err).NonRetryable() {
		t.Errorf("error = %v, want one that is retried", err)
	}
	if b.heartbeat != nil {
		t.Errorf("heartbeat = %v: the change would never be told", b.heartbeat)
	}
	b.signalErr = nil
	_, err := b.probe(req)
	goesOn(t, err)
	if len(b.signals) != 2 {
		t.Errorf("%d signals, want the lost one and its repeat", len(b.signals))
	}
}

func TestProbeNamesItsNextLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pollMs, nextInMs int64
		want             time.Duration
	}{
		"nobody says":                 {0, 0, time.Second},
		"the tool's declaration":      {5000, 0, 5 * time.Second},
		"the executor knows better":   {5000, 250, 250 * time.Millisecond},
		"the executor asks for a day": {0, 86_400_000, time.Hour},
		"the tool asks for a day":     {86_400_000, 0, time.Hour},
		"nonsense":                    {-5, -7, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tool.Script(key, tool.Observation{State: tool.StateRunning, NextInMs: tc.nextInMs})
			_, err := b.probe(protocol.ProbeRequest{Job: b.started(), PollMs: tc.pollMs})
			if got := goesOn(t, err); got != tc.want {
				t.Errorf("next look in %v, want %v", got, tc.want)
			}
		})
	}
}

// The outside may be behind for some seconds before its not knowing counts.
func TestProbeGivesAnUnknownJobTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	unknown, known := tooltest.Unknown(), tooltest.Running()
	b.tool.Script(key, known, unknown, unknown, known, unknown, unknown, unknown)
	req := protocol.ProbeRequest{Job: b.started()}
	for i, after := range []time.Duration{0, 14 * time.Second, time.Second, 20 * time.Second, 15*time.Second - time.Millisecond} {
		b.now = b.now.Add(after)
		_, err := b.probe(req)
		if goesOn(t, err); t.Failed() {
			t.Fatalf("look %d", i)
		}
	}
	b.now = b.now.Add(time.Millisecond)
	_, err := b.probe(req)
	if app := failure(t, err); !app.NonRetryable() || app.Type() != "OutsideUnknown" {
		t.Errorf("error = %v, want one that the task acts on", err)
	}
	if len(b.signals) != 0 {
		t.Errorf("signals = %+v", b.signals)
	}
}

func TestProbeThatCannotLookIsRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	req := protocol.ProbeRequest{Job: b.started()}
	b.tool.Fail(tooltest.Observe, key, io.ErrUnexpectedEOF)
	if _, err := b.probe(req); failure(t, err).NonRetryable() {
		t.Errorf("error = %v, want one that is retried", err)
	}
}

// Every end of a job is mapped here and nowhere else, for the probe and for the
// direct question alike.
func TestEnds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", domain.MaxErrorText)
	hash := "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
	for name, tc := range map[string]struct {
		obs  tool.Observation
		want protocol.ProbeResult
	}{
		"succeeded with an inline result": {
			tooltest.Succeeded(`1`),
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventSucceed, ResultRef: domain.BlobRef("acme", "t1", hash), ResultHash: hash, ContentType: "application/json", Bytes: 1}},
		},
		"succeeded with a reference": {
			tool.Observation{State: tool.StateSucceeded, Definite: true, Result: &tool.Result{Ref: "s3://x", Hash: "h", ContentType: "text/plain", Bytes: 9}},
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventSucceed, ResultRef: "s3://x", ResultHash: "h", ContentType: "text/plain", Bytes: 9}},
		},
		"succeeded with nothing": {
			tool.Observation{State: tool.StateSucceeded, Definite: true},
			protocol.ProbeResult{Event: &domain.Event{
				Type: domain.EventSucceed, ResultRef: domain.BlobRef("acme", "t1", "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
				ResultHash: "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b", ContentType: "application/json", Bytes: 4,
			}},
		},
		"failed": {
			tooltest.Failed("EXIT_STATUS", true),
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventFail, Error: &domain.TaskError{
				Code: "EXIT_STATUS", Message: "scripted failure", Severity: domain.SeverityError, Class: domain.ClassThirdParty, Retryable: true,
			}}},
		},
		"failed without a word": {
			tool.Observation{State: tool.StateFailed, Definite: true},
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "FAILED", Message: "the tool failed and did not say why"}}},
		},
		"failed with too many words": {
			tool.Observation{State: tool.StateFailed, Error: &tool.Failure{Code: "X", Message: long, Details: json.RawMessage(`"` + strings.Repeat("x", domain.MaxDetails) + `"`)}},
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "X", Message: long[:domain.MaxErrorText]}}},
		},
		"failed with details that are no JSON": {
			tool.Observation{State: tool.StateFailed, Error: &tool.Failure{Code: "X", Message: "\xff", Details: json.RawMessage(`{`)}},
			protocol.ProbeResult{Event: &domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "X", Message: "\uFFFD"}}},
		},
		"cancelled": {tooltest.Cancelled(), protocol.ProbeResult{Event: &domain.Event{Type: domain.EventCancelled}}},
		"lost":      {tooltest.Lost(), protocol.ProbeResult{Lost: true, Note: "scripted loss"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tc.obs.LastSeenAtMs, tc.obs.Worker = 77, "host/pid 1"
			b.tool.Script(key, tc.obs)
			if e := tc.want.Event; e != nil {
				// When it ended, not when somebody looked: work done in time is in time.
				e.AtMs, e.Attempt, e.Source, e.Worker = 77, 1, "probe", "host/pid 1"
			}
			req := protocol.ProbeRequest{Job: b.started()}
			for verb, look := range map[string]func(protocol.ProbeRequest) (protocol.ProbeResult, error){"probe": b.probe, "ask": b.ask} {
				got, err := look(req)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Jitter" }, cmp.Ignore())); diff != "" {
					t.Errorf("%s (-want +got):\n%s", verb, diff)
				}
			}
			if tc.want.Event != nil && strings.HasPrefix(tc.want.Event.ResultRef, "blob:") {
				if _, err := b.store.Get(t.Context(), tc.want.Event.ResultRef, tc.want.Event.ResultHash); err != nil {
					t.Error(err)
				}
			}
			if len(b.signals) != 0 {
				t.Errorf("signals = %+v: an end is the probe's result", b.signals)
			}
		})
	}
}

// A result that can't be stored is no end yet.
func TestEndWaitsForItsResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tool.Script(key, tooltest.Succeeded(`1`))
	b.o.Blobs = brokenStore{}
	if _, err := b.probe(protocol.ProbeRequest{Job: b.started()}); failure(t, err).NonRetryable() {
		t.Errorf("error = %v, want one that is retried", err)
	}
}

type brokenStore struct{}

func (brokenStore) PutBytes(context.Context, store.Key, []byte, string) (store.Ref, error) {
	return store.Ref{}, io.ErrShortWrite
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obs  tool.Observation
		want protocol.ProbeResult
	}{
		"running": {tooltest.RunningAt(50, "x"), protocol.ProbeResult{Known: true, Note: "running"}},
		"unknown": {tooltest.Unknown(), protocol.ProbeResult{Note: "unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tool.Script(key, tc.obs)
			for _, j := range []protocol.Job{b.started(), job()} {
				got, err := b.ask(protocol.ProbeRequest{Job: j})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("handle %v (-want +got):\n%s", j.Handle, diff)
				}
			}
			if b.tool.Count(tooltest.Find, key) != 1 {
				t.Error("a job without a handle is found by its key")
			}
			if len(b.signals) != 0 {
				t.Errorf("signals = %+v", b.signals)
			}
		})
	}
	t.Run("no job under the key", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		got, err := b.ask(protocol.ProbeRequest{Job: job()})
		if err != nil || got.Known || got.Lost || got.Event != nil || !strings.Contains(got.Note, "no job") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("the outside can't be asked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.tool.Fail(tooltest.Find, key, io.EOF)
		if _, err := b.ask(protocol.ProbeRequest{Job: job()}); failure(t, err).NonRetryable() {
			t.Errorf("error = %v, want one that is retried", err)
		}
	})
}
