package workflows_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// bad are messages that are refused whatever the task, each as the JSON that
// crosses the wire, with the field that is named.
var bad = map[string]struct{ text, field string }{
	"no id":                  {`{"event":{"type":"start"}}`, "callbackId"},
	"a blank id":             {`{"callbackId":"  ","event":{"type":"start"}}`, "callbackId"},
	"an id that is too long": {`{"callbackId":"` + strings.Repeat("x", 201) + `","event":{"type":"start"}}`, "callbackId"},
	"a delivery id too long": {`{"callbackId":"c","deliveryId":"` + strings.Repeat("x", 201) + `","event":{"type":"start"}}`, "deliveryId"},
	"no event":               {`{"callbackId":"c"}`, "event.type"},
	"an unknown event":       {`{"callbackId":"c","event":{"type":"explode"}}`, "event.type"},
	"expire through a door":  {`{"callbackId":"c","event":{"type":"expire"}}`, "event.type"},
	"requeue through a door": {`{"callbackId":"c","event":{"type":"requeue"}}`, "event.type"},
	"a negative time":        {`{"callbackId":"c","event":{"type":"start","atMs":-1}}`, "event.atMs"},
	"a fractional time":      {`{"callbackId":"c","event":{"type":"start","atMs":1.5}}`, "event.atMs"},
	"a time beyond 64 bits":  {`{"callbackId":"c","event":{"type":"start","atMs":1e30}}`, "event.atMs"},
	"a time as a string":     {`{"callbackId":"c","event":{"type":"start","atMs":"1"}}`, "event.atMs"},
	"a negative clock":       {`{"callbackId":"c","occurredAtMs":-1,"event":{"type":"start"}}`, "occurredAtMs"},
	"a negative attempt":     {`{"callbackId":"c","event":{"type":"start","attempt":-1}}`, "event.attempt"},
	"progress beyond 100":    {`{"callbackId":"c","event":{"type":"progress","progress":101}}`, "event.progress"},
	"half a percent":         {`{"callbackId":"c","event":{"type":"progress","progress":50.5}}`, "event.progress"},
	"no progress":            {`{"callbackId":"c","event":{"type":"progress"}}`, "event.progress"},
	"a result without hash":  {`{"callbackId":"c","event":{"type":"succeed","resultRef":"r"}}`, "event.resultHash"},
	"a result without place": {`{"callbackId":"c","event":{"type":"succeed","resultHash":"h"}}`, "event.resultRef"},
	"both kinds of results":  {`{"callbackId":"c","event":{"type":"succeed","resultRef":"r","result":1}}`, "event.result"},
	"a code in small":        {`{"callbackId":"c","event":{"type":"fail","error":{"message":"m","code":"boom"}}}`, "event.error.code"},
	"an unknown severity":    {`{"callbackId":"c","event":{"type":"fail","error":{"message":"m","severity":"dire"}}}`, "event.error.severity"},
	"an error as a number":   {`{"callbackId":"c","event":{"type":"fail","error":7}}`, "event.error"},
	"a long error":           {`{"callbackId":"c","event":{"type":"fail","error":"` + strings.Repeat("x", domain.MaxErrorText+1) + `"}}`, "event.error.message"},
	"a question of nobody":   {`{"callbackId":"c","event":{"type":"input-required","prompt":"why?"}}`, "event.questionId"},
	"2 MiB of result":        {`{"callbackId":"c","event":{"type":"succeed","result":"` + strings.Repeat("x", 2<<20) + `"}}`, "event.result"},
	"2 MiB of cursor":        {`{"callbackId":"c","event":{"type":"progress","progress":1,"cursor":"` + strings.Repeat("x", 2<<20) + `"}}`, "event.cursor"},
	"2 MiB of id":            {`{"callbackId":"` + strings.Repeat("x", 2<<20) + `","event":{"type":"start"}}`, "callbackId"},
	"a list":                 {`[1,2]`, "message"},
	"null":                   {`null`, "message"},
}

func TestInvalidCallbacksChangeNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var update *reply
			var before, after protocol.Description
			e.at(time.Minute, func() { e.signal(callback("s", started(1))) })
			e.at(2*time.Minute, func() {
				before = e.describe()
				update = e.update(protocol.UpdateCallback, "u", raw(tc.text))
				e.SignalWorkflow(protocol.SignalCallback, raw(tc.text))
			})
			e.at(3*time.Minute, func() { after = e.describe() })
			e.run(external())
			p := update.problem(t)
			require.Equal(t, tc.field, p.Field, shorten(p.Rule))
			require.NotEmpty(t, p.Rule)
			require.Less(t, len(p.Rule), 200, "an error does not repeat what was sent")
			require.Equal(t, before.Task, after.Task)
			require.Nil(t, before.LastRejected)
			require.NotNil(t, after.LastRejected)
			require.Contains(t, after.LastRejected.Error, tc.field)
			require.LessOrEqual(t, len(after.LastRejected.Error), 310)
			require.LessOrEqual(t, len(after.LastRejected.CallbackID), 310)
			require.Equal(t, 1, e.record().Ledger.Len(), "only the start is remembered")
		})
	}
}

func shorten(s string) string { return s[:min(len(s), 200)] }

// An id that was answered is answered again before its event is looked at, also
// when the event can't be read at all.
func TestARepeatIsAnsweredBeforeItsEventIsLookedAt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"callbackId":"c","event":{"type":"explode"}}`,
		`{"callbackId":"c","event":{"type":"start","atMs":"noon"}}`,
		`{"callbackId":"c","event":{"type":"progress","progress":-5}}`,
		`{"callbackId":"c"}`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var r *reply
			var after protocol.Description
			e.at(time.Minute, func() { e.signal(callback("c", started(1))) })
			e.at(2*time.Minute, func() {
				r = e.update(protocol.UpdateCallback, "u", raw(text))
				e.SignalWorkflow(protocol.SignalCallback, raw(text))
			})
			e.at(3*time.Minute, func() { after = e.describe() })
			e.run(external())
			out := r.refusal(t)
			require.Equal(t, domain.ReasonDuplicateCallback, out.Reason)
			require.True(t, out.Conflict)
			require.Nil(t, after.LastRejected)
			require.EqualValues(t, 1, after.Conflicts)
		})
	}
}

func TestOtherUpdatesAreCheckedToo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2<<20)
	for _, tc := range []struct{ update, text, field string }{
		{protocol.UpdateCancel, `{"reason":7}`, "reason"},
		{protocol.UpdateCancel, `{"atMs":-1}`, "event.atMs"},
		{protocol.UpdateCancel, `{"atMs":0.5}`, "atMs"},
		{protocol.UpdateCancel, `{"reason":"` + long + `"}`, "event.reason"},
		{protocol.UpdateCancel, `{"by":"` + strings.Repeat("x", 300) + `"}`, "event.by"},
		{protocol.UpdateCancel, `"stop"`, "message"},
		{protocol.UpdateAnswer, `{"questionId":"q","answer":` + `"` + long + `"}`, "event.answer"},
		{protocol.UpdateAnswer, `{"questionId":"q"}`, "answer"},
		{protocol.UpdateAnswer, `{"questionId":["q"],"answer":1}`, "questionId"},
		{protocol.UpdateAttach, `{"target":" "}`, "target"},
		{protocol.UpdateAttach, `{"target":"a/b"}`, "target"},
		{protocol.UpdateAttach, `{"target":"` + long + `"}`, "target"},
		{protocol.UpdateAttach, `{}`, "target"},
		{protocol.UpdateRetry, `{"ttlMs":1.5}`, "ttlMs"},
		{protocol.UpdateRetry, `{"ttlMs":"soon"}`, "ttlMs"},
	} {
		t.Run(fmt.Sprintf("%s %.40s", tc.update, tc.text), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var r *reply
			e.at(time.Minute, func() {
				e.signal(callback("q", domain.Event{Type: domain.EventInputRequired, QuestionID: "q", Prompt: "?"}))
			})
			e.at(2*time.Minute, func() { r = e.update(tc.update, "u", raw(tc.text)) })
			e.run(external())
			require.Equal(t, tc.field, r.problem(t).Field)
			require.EqualValues(t, 3, e.record().Task.Version, "started, asked, expired")
		})
	}
}

func TestUnknownMembersArePassedOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var r *reply
	e.at(time.Minute, func() {
		r = e.update(protocol.UpdateCallback, "u", raw(`{"callbackId":"c","later":{"x":1},"event":{"type":"start","colour":"red"}}`))
	})
	e.run(external())
	require.NoError(t, r.err)
	require.Equal(t, domain.ReasonStarted, r.out.Reason)
}

// Signals that wait are older than the update behind them, whatever the update
// says, so the validator can't refuse it for what the signals will have changed.
func TestAnUpdateWaitsForTheSignalsBeforeIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	var p50, p30, cancel, again *reply
	e.at(time.Minute, func() {
		e.queue(callback("a", progress(40)))
		p50 = e.callbackUpdate(callback("b", progress(50)))
		e.queue(callback("c", progress(60)))
		p30 = e.callbackUpdate(callback("d", progress(55)))
	})
	e.at(2*time.Minute, func() {
		e.queue(callback("q", domain.Event{Type: domain.EventInputRequired, QuestionID: "q", Prompt: "?"}))
		cancel = e.update(protocol.UpdateCancel, "x", protocol.Cancel{By: "ann"})
	})
	e.at(3*time.Minute, func() {
		e.queue(callback("p", progress(70)))
		again = e.update(protocol.UpdateCancel, "y", protocol.Cancel{By: "bob"})
	})
	e.at(4*time.Minute, func() { e.signal(callback("end", succeed("h"))) })
	e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.CancelGraceMs = time.Hour.Milliseconds() }))
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, domain.ReasonProgress, p50.out.Reason)
	require.Equal(t, domain.ReasonStaleProgress, p30.answer(t).Reason)
	require.Equal(t, domain.ReasonCancelRequested, cancel.out.Reason)
	require.Equal(t, domain.ReasonDuplicateCancel, again.answer(t).Reason)
	rec := e.record()
	require.Equal(t, "ann", rec.Task.Cancel.By)
	require.Equal(t, []domain.EventType{
		domain.EventStart, domain.EventProgress, domain.EventProgress, domain.EventProgress,
		domain.EventInputRequired, domain.EventCancelRequested, domain.EventProgress, domain.EventSucceed,
	}, eventTypes(rec.Task))
}

// By default what would change nothing is refused at the door; with strict it is
// answered by the handler and remembered, as in the core.
func TestStrictRemembersRefusals(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint(strict), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, &world{})
			var early, stale, repeat *reply
			e.at(1*time.Minute, func() { early = e.callbackUpdate(callback("early", progress(10))) })
			e.at(2*time.Minute, func() { e.callbackUpdate(callback("s", started(0))) })
			e.at(3*time.Minute, func() { e.callbackUpdate(callback("p", progress(50))) })
			e.at(4*time.Minute, func() { stale = e.callbackUpdate(callback("stale", progress(40))) })
			e.at(5*time.Minute, func() { repeat = e.update(protocol.UpdateCallback, "again", callback("stale", progress(40))) })
			e.run(external(func(in *protocol.TaskInput) { in.Create.Policy.Strict = strict }))
			if strict {
				require.NoError(t, stale.err)
				require.Equal(t, domain.ReasonNotRunning, early.out.Reason)
				require.Equal(t, domain.ReasonStaleProgress, stale.out.Reason)
				require.Equal(t, domain.ReasonStaleProgress, repeat.out.Reason, "the same delivery gets its own answer")
				require.Equal(t, 4, e.record().Ledger.Len())
				return
			}
			require.Equal(t, domain.ReasonProgress, early.out.Reason, "work that reports has begun")
			require.Equal(t, domain.ReasonStaleProgress, stale.refusal(t).Reason)
			require.Equal(t, domain.ReasonStaleProgress, repeat.refusal(t).Reason)
			require.Equal(t, 2, e.record().Ledger.Len(), "early and p; already-running was refused")
		})
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &world{})
	pages := map[int64]protocol.Page{}
	e.at(time.Minute, func() {
		for i := 1; i <= 12; i++ {
			e.queue(callback(fmt.Sprint(i), progress(float64(i))))
		}
	})
	e.at(2*time.Minute, func() { e.signal(callback("13", progress(13))) })
	e.at(3*time.Minute, func() {
		for _, cursor := range []int64{0, 5, 6, 13, 14, 99} {
			v, err := e.QueryWorkflow(protocol.QueryResume, protocol.ResumeRequest{Cursor: cursor})
			require.NoError(t, err)
			var p protocol.Page
			require.NoError(t, v.Get(&p))
			pages[cursor] = p
		}
		_, err := e.QueryWorkflow(protocol.QueryResume, protocol.ResumeRequest{Cursor: -1})
		require.ErrorContains(t, err, "cursor must be an integer >= 0")
		v, err := e.QueryWorkflow(protocol.QueryResume, protocol.ResumeRequest{Cursor: 0, Retention: 64})
		require.NoError(t, err)
		var p protocol.Page
		require.NoError(t, v.Get(&p))
		require.Equal(t, domain.ModeDelta, p.Mode)
		require.Len(t, p.Events, 14)
	})
	e.run(external())
	for cursor, want := range map[int64]struct {
		mode   domain.Mode
		events int
	}{0: {domain.ModeSnapshot, 0}, 5: {domain.ModeSnapshot, 0}, 6: {domain.ModeDelta, 8}, 13: {domain.ModeDelta, 1}, 14: {domain.ModeCaughtUp, 0}, 99: {domain.ModeCaughtUp, 0}} {
		require.Equal(t, want.mode, pages[cursor].Mode, "cursor %d", cursor)
		require.Len(t, pages[cursor].Events, want.events, "cursor %d", cursor)
		require.EqualValues(t, 14, pages[cursor].Task.Version)
	}
}

// The largest that is allowed still fits.
func TestTheLimitsThemselvesAreAllowed(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := newEnv(t, w)
	result := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), domain.MaxInlineResult-2)...), '"')
	var p, s *reply
	e.at(time.Minute, func() {
		ev := progress(1)
		ev.Cursor, ev.Stage, ev.Worker = strings.Repeat("c", domain.MaxCursor), strings.Repeat("s", domain.MaxStage), strings.Repeat("w", domain.MaxWorker)
		p = e.callbackUpdate(domain.Callback{CallbackID: strings.Repeat("i", domain.MaxCallbackID), DeliveryID: strings.Repeat("d", domain.MaxCallbackID), Event: ev})
	})
	e.at(2*time.Minute, func() { s = e.callbackUpdate(callback("end", domain.Event{Type: domain.EventSucceed, Result: result})) })
	e.run(external())
	require.NoError(t, p.err)
	require.NoError(t, s.err)
	require.Equal(t, string(result), string(w.stored[0].Blob.Content))
}
