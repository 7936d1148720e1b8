package starter_test

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestSubmitStartsTheWorkflowOfTheContract(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.EagerStart, o.ContinueAfterEvents = true, 77 })
	out := w.submit(t, starter.Submission{
		Input: json.RawMessage(`{"n": 3}`), TaskID: "mine", Title: "one `run`", RunID: "r1", ToolCallID: "call 1", TTL: 2 * time.Hour,
		MaxAttempts: 1, Priority: 2, Labels: map[string]string{"b": "<x>", "a": "y"}, Targets: []string{"dev", "ops"},
	})
	want := starter.Submitted{
		TaskID: "mine", Status: "accepted", State: domain.StateQueued, PollAfterSeconds: 10, SupportsCancel: true,
		ExpiresAtMs: epoch + 7_200_000, WorkflowID: "acme/task/mine", RunID: "run-1", WaiterID: domain.WaiterSubmitter,
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	o, in := w.engine.Started("acme/task/mine")
	fingerprint, err := domain.Fingerprint("train", json.RawMessage(`{"n":3}`))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.TaskQueue != "wakepoint",
		o.WorkflowIDReusePolicy != enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		o.WorkflowIDConflictPolicy != enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		!o.WorkflowExecutionErrorWhenAlreadyStarted, !o.EnableEagerStart,
		o.StaticSummary != "train: one `run`",
		o.Memo[protocol.MemoFingerprint] != fingerprint,
		o.Memo[protocol.MemoWaiter] != "run_tk6yal6zouo3ge7g64nxnb4urx3mmkjs",
		o.Priority != temporal.Priority{PriorityKey: 2, FairnessKey: "acme", FairnessWeight: 1}:
		t.Errorf("options are %+v", o)
	}
	for key, want := range map[temporal.SearchAttributeKeyKeyword]string{
		protocol.AttrTenant: "acme", protocol.AttrRun: "r1", protocol.AttrTool: "train", protocol.AttrToolCall: "call 1", protocol.AttrState: "queued",
	} {
		if got, _ := o.TypedSearchAttributes.GetKeyword(key); got != want {
			t.Errorf("%s is %q, want %q", key.GetName(), got, want)
		}
	}
	const details = "Trains \\*slowly\\*\\.\n\n- **Task:** mine\n- **Tool:** train\n- **Title:** one \\`run\\`\n- **Tenant:** acme\n- **Run:** r1\n- **Tool call:** call 1\n- **Attempts:** at most 1\n- **Label a:** y\n- **Label b:** \\<x\\>\n"
	if diff := cmp.Diff(details, o.StaticDetails); diff != "" {
		t.Error(diff)
	}
	wantIn := protocol.TaskInput{
		Create: domain.Create{
			ID: "mine", TTLMs: 7_200_000, MaxAttempts: 1, Tenant: "acme", RunID: "r1", ToolCallID: "call 1", Tool: "train", Title: "one `run`",
			Priority: 2, Labels: map[string]string{"b": "<x>", "a": "y"}, ResultTTLMs: 259_200_000,
			Policy: domain.Policy{LeaseMs: 30_000, LatePolicy: domain.LateReject, Effects: domain.EffectsIdempotent, External: true, Expected: &domain.Window{LowMs: 40_000, HighMs: 120_000}},
		},
		Input: json.RawMessage(`{"n":3}`), Tool: protocol.ToolBinding{Executor: "external", TaskQueue: "wakepoint", PollMs: 1000, HostLostMs: 120_000},
		Targets: []string{"ops", "dev"}, Fingerprint: fingerprint, ContinueAfterEvents: 77, Revision: protocol.Revision,
	}
	if diff := cmp.Diff(wantIn, in); diff != "" {
		t.Error(diff)
	}
}

func TestSubmitMakesIDs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first, second := w.submit(t, starter.Submission{}), w.submit(t, starter.Submission{})
	if !regexp.MustCompile(`^task_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first.TaskID) || first.TaskID == second.TaskID {
		t.Errorf("made %s and %s", first.TaskID, second.TaskID)
	}
	keyed := w.submit(t, starter.Submission{IdempotencyKey: "order 7"})
	if want := domain.KeyedID([]byte("0123456789abcdef"), "acme", "order 7"); keyed.TaskID != want {
		t.Errorf("keyed %s, want %s", keyed.TaskID, want)
	}
}

func TestSubmitTwiceIsOnce(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]starter.Submission{
		"by key": {Tool: "train", IdempotencyKey: "k", Input: json.RawMessage(`{"n":1,"x":2}`)},
		"by id":  {Tool: "train", TaskID: "k", Input: json.RawMessage(`{"n":1,"x":2}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			first := w.submit(t, s)
			again := s
			again.Input = json.RawMessage(`{ "x": 2, "n": 1 }`)
			again.Title = "another title"
			second := w.submit(t, again)
			if first.Existing || !second.Existing || second.TaskID != first.TaskID || second.State != domain.StateQueued || w.engine.Runs(first.WorkflowID) != 1 {
				t.Errorf("first %+v, second %+v", first, second)
			}
			w.call(t, first.TaskID, "1", succeed())
			if third := w.submit(t, s); !third.Existing || third.State != domain.StateSucceeded || w.engine.Runs(first.WorkflowID) != 1 {
				t.Errorf("after the end: %+v", third)
			}
			other := s
			other.Input = json.RawMessage(`{"n":2}`)
			_, err := w.Submit(t.Context(), other)
			is(t, err, starter.ErrIDInUse)
			w.engine.Workers(false)
			if fourth := w.submit(t, s); fourth.State != domain.StateSucceeded {
				t.Errorf("without a worker: %+v", fourth)
			}
		})
	}
}

func TestSubmitManyAtOnceWithOneKeyIsOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var fresh, existing int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			out, err := w.Submit(t.Context(), starter.Submission{Tool: "train", IdempotencyKey: "one"})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case out.Existing:
				existing++
			default:
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 || existing != 19 {
		t.Errorf("%d started, %d found", fresh, existing)
	}
}

func TestSubmitSurvivesLostAnswers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.LoseAnswers(1)
	out := w.submit(t, starter.Submission{})
	if out.Existing || w.engine.Runs(out.WorkflowID) != 1 || w.engine.Calls("ExecuteWorkflow") != 2 {
		t.Errorf("%+v after %d calls", out, w.engine.Calls("ExecuteWorkflow"))
	}
	w.engine.LoseAnswers(1)
	if out := w.submit(t, starter.Submission{IdempotencyKey: "k"}); w.engine.Runs(out.WorkflowID) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestSubmitAfterRetentionStartsAnew(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out := w.submit(t, starter.Submission{TaskID: "old"})
	w.engine.Forget(out.WorkflowID)
	if again := w.submit(t, starter.Submission{TaskID: "old"}); again.Existing {
		t.Errorf("found %+v", again)
	}
}

func TestSubmitWhileTheEngineIsDown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Down(true)
	_, err := w.Submit(t.Context(), starter.Submission{Tool: "train"})
	if e := as(t, err, starter.ErrUnavailable); e.Hint == "" {
		t.Error("no hint")
	}
	if _, err := w.Submit(cancelled(t), starter.Submission{Tool: "train"}); starter.CodeOf(err) != "" || err == nil {
		t.Errorf("got %v", err)
	}
}

func TestSubmitRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	labels := make(map[string]string)
	for i := range 33 {
		labels["l"+strings.Repeat("x", i)] = ""
	}
	for name, tc := range map[string]struct {
		s     starter.Submission
		want  *starter.Error
		field string
	}{
		"unknown tool":         {starter.Submission{Tool: "trian"}, starter.ErrUnknownTool, ""},
		"monstrous tool":       {starter.Submission{Tool: long}, starter.ErrUnknownTool, ""},
		"no tool":              {starter.Submission{Tool: " "}, starter.ErrInvalid, "tool"},
		"schema":               {starter.Submission{Input: json.RawMessage(`{"n":"x"}`)}, starter.ErrInvalid, "input.n"},
		"schema of the whole":  {starter.Submission{Input: json.RawMessage(`[]`)}, starter.ErrInvalid, "input"},
		"no JSON":              {starter.Submission{Input: json.RawMessage(`{`)}, starter.ErrInvalid, "input"},
		"too large":            {starter.Submission{Input: json.RawMessage(`{"x":"` + strings.Repeat("y", 2<<20) + `"}`)}, starter.ErrInvalid, "input"},
		"input not UTF-8":      {starter.Submission{Input: json.RawMessage("{\"x\":\"\xff\"}")}, starter.ErrInvalid, "input"},
		"id and key":           {starter.Submission{TaskID: "a", IdempotencyKey: "b"}, starter.ErrInvalid, "taskId"},
		"blank id":             {starter.Submission{TaskID: "  "}, starter.ErrInvalid, "taskId"},
		"odd id":               {starter.Submission{TaskID: "a/b"}, starter.ErrInvalid, "taskId"},
		"long id":              {starter.Submission{TaskID: strings.Repeat("x", 129)}, starter.ErrInvalid, "taskId"},
		"our own prefix":       {starter.Submission{TaskID: "task_1"}, starter.ErrInvalid, "taskId"},
		"our other prefix":     {starter.Submission{TaskID: "key_1"}, starter.ErrInvalid, "taskId"},
		"our third prefix":     {starter.Submission{TaskID: "cache_1"}, starter.ErrInvalid, "taskId"},
		"waiter":               {starter.Submission{WaiterID: "a b"}, starter.ErrInvalid, "waiterId"},
		"the first waiter":     {starter.Submission{WaiterID: "submitter"}, starter.ErrInvalid, "waiterId"},
		"blank key":            {starter.Submission{IdempotencyKey: "\t"}, starter.ErrInvalid, "idempotencyKey"},
		"long key":             {starter.Submission{IdempotencyKey: long}, starter.ErrInvalid, "idempotencyKey"},
		"key not UTF-8":        {starter.Submission{IdempotencyKey: "\xff"}, starter.ErrInvalid, "idempotencyKey"},
		"title":                {starter.Submission{Title: long}, starter.ErrInvalid, "title"},
		"title not UTF-8":      {starter.Submission{Title: "\xff"}, starter.ErrInvalid, "title"},
		"title with zero":      {starter.Submission{Title: "a\x00"}, starter.ErrInvalid, "title"},
		"run":                  {starter.Submission{RunID: "a b"}, starter.ErrInvalid, "runId"},
		"tool call":            {starter.Submission{ToolCallID: long}, starter.ErrInvalid, "toolCallId"},
		"blank tool call":      {starter.Submission{ToolCallID: " "}, starter.ErrInvalid, "toolCallId"},
		"negative ttl":         {starter.Submission{TTL: -time.Second}, starter.ErrInvalid, "ttlMs"},
		"tiny ttl":             {starter.Submission{TTL: time.Microsecond}, starter.ErrInvalid, "ttlMs"},
		"ttl over the tool's":  {starter.Submission{TTL: 49 * time.Hour}, starter.ErrInvalid, "ttlMs"},
		"ttl over the maximum": {starter.Submission{Tool: "approve", TTL: 11 * 24 * time.Hour}, starter.ErrInvalid, "ttlMs"},
		"attempts":             {starter.Submission{MaxAttempts: 3}, starter.ErrInvalid, "maxAttempts"},
		"negative attempts":    {starter.Submission{MaxAttempts: -1}, starter.ErrInvalid, "maxAttempts"},
		"priority":             {starter.Submission{Priority: 6}, starter.ErrInvalid, "priority"},
		"negative priority":    {starter.Submission{Priority: -1}, starter.ErrInvalid, "priority"},
		"target":               {starter.Submission{Targets: []string{"opps"}}, starter.ErrInvalid, "targets"},
		"targets":              {starter.Submission{Targets: make([]string, 17)}, starter.ErrInvalid, "targets"},
		"label name":           {starter.Submission{Labels: map[string]string{"a b": ""}}, starter.ErrInvalid, "labels"},
		"label name length":    {starter.Submission{Labels: map[string]string{strings.Repeat("x", 65): ""}}, starter.ErrInvalid, "labels"},
		"label value":          {starter.Submission{Labels: map[string]string{"a": long}}, starter.ErrInvalid, "labels.a"},
		"labels":               {starter.Submission{Labels: maps.Clone(labels)}, starter.ErrInvalid, "labels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			if tc.s.Tool == "" {
				tc.s.Tool = "train"
			}
			_, err := w.Submit(t.Context(), tc.s)
			e := as(t, err, tc.want)
			if e.Field != tc.field || e.Message == "" || len(e.Message) > 1000 {
				t.Errorf("field %q: %.200s", e.Field, e.Message)
			}
			if invalid := errors.Is(err, domain.ErrInvalid); invalid != (tc.want == starter.ErrInvalid) {
				t.Errorf("is the domain's invalid: %v", invalid)
			}
			if n := w.engine.Calls("ExecuteWorkflow"); n != 0 {
				t.Errorf("%d workflows were started", n)
			}
		})
	}
}

func TestSubmitWithAKeyNeedsTheSecret(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.Secret = nil })
	_, err := w.Submit(t.Context(), starter.Submission{Tool: "train", IdempotencyKey: "k"})
	if e := as(t, err, starter.ErrInvalid); e.Field != "idempotencyKey" {
		t.Errorf("got %v", err)
	}
}

func TestSummaryStaysWithinTheEnginesLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out := w.submit(t, starter.Submission{Title: strings.Repeat("ä", 100)})
	o, _ := w.engine.Started(out.WorkflowID)
	if len(o.StaticSummary) > 180 || !strings.HasSuffix(o.StaticSummary, "ä…") {
		t.Errorf("%d bytes: %s", len(o.StaticSummary), o.StaticSummary)
	}
}

func TestNewRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for field, o := range map[string]starter.Options{
		"Temporal":            {},
		"MaxUpdatesInFlight":  {Temporal: w.engine, MaxUpdatesInFlight: -1},
		"UpdateTimeout":       {Temporal: w.engine, UpdateTimeout: -1},
		"QueryTimeout":        {Temporal: w.engine, QueryTimeout: -1},
		"ContinueAfterEvents": {Temporal: w.engine, ContinueAfterEvents: -1},
		"Secret":              {Temporal: w.engine, Secret: []byte("short")},
		"tenant":              {Temporal: w.engine, Tenant: "a b"},
		"Poll.Min":            {Temporal: w.engine, Poll: starter.Poll{Min: -1}},
		"Poll.Max":            {Temporal: w.engine, Poll: starter.Poll{Min: time.Second, Max: time.Millisecond}},
	} {
		var invalid *domain.InvalidError
		if _, err := starter.New(o); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	c, err := starter.New(starter.Options{Temporal: w.engine})
	if err != nil || c.Tenant() != "default" || len(c.Tools()) != 0 {
		t.Errorf("defaults: %v", err)
	}
	if names := w.Tools(); len(names) != 5 || names[0].Name != "train" {
		t.Errorf("tools are %v", names)
	}
}
