package starter_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// read gives all of a log as text, a mark for each new attempt.
func (w *world) read(ctx context.Context, id string, req starter.LogRequest) (string, int, error) {
	var text strings.Builder
	pieces, attempt := 0, 0
	for c, err := range w.Logs(ctx, id, req) {
		if err != nil {
			return text.String(), pieces, err
		}
		if attempt != 0 && c.Attempt != attempt {
			text.WriteString("|")
		}
		attempt = c.Attempt
		text.Write(c.Data)
		pieces++
	}
	return text.String(), pieces, nil
}

// job is a running task of an executor, with a log.
func (w *world) job(t *testing.T, log string) string {
	t.Helper()
	id := w.submit(t, starter.Submission{Tool: "vet", TaskID: "a"}).TaskID
	w.attempt(t, id, "j1", 1, log)
	return id
}

func (w *world) attempt(t *testing.T, id, job string, n int, log string) {
	t.Helper()
	if err := w.engine.Apply(w.workflowID(id), domain.Event{Type: domain.EventStart, Attempt: n}); err != nil {
		t.Error(err)
	}
	w.engine.SetLog(job, "stdout", []byte(log))
	w.engine.SetHandle(w.workflowID(id), &protocol.Handle{Executor: "exec", ID: job, TaskQueue: "host"})
}

func TestLogsAreReadToTheirPresentEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	long := strings.Repeat("0123456789", 60_000)
	id := w.job(t, long)
	if text, pieces, err := w.read(t.Context(), id, starter.LogRequest{}); text != long || pieces != 3 || err != nil {
		t.Errorf("%d bytes in %d pieces (%v)", len(text), pieces, err)
	}
	if text, _, err := w.read(t.Context(), id, starter.LogRequest{Offset: 599_990}); text != "0123456789" || err != nil {
		t.Errorf("%q (%v)", text, err)
	}
	if text, _, err := w.read(t.Context(), id, starter.LogRequest{Offset: 5, Limit: 7}); text != "5678901" || err != nil {
		t.Errorf("%q (%v)", text, err)
	}
	if text, _, err := w.read(t.Context(), id, starter.LogRequest{Offset: 600_000}); text != "" || err != nil {
		t.Errorf("%q (%v)", text, err)
	}
	_, _, err := w.read(t.Context(), id, starter.LogRequest{Stream: "stderr"})
	is(t, err, starter.ErrNoLogs)
}

func TestLogsAreFollowedThroughAttemptsToTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		id := w.job(t, "first ")
		yes := true
		go func() {
			after(10 * time.Second)
			w.engine.SetLog("j1", "stdout", []byte("first attempt"))
			after(10 * time.Second)
			if err := w.engine.Apply(w.workflowID(id), domain.Event{Type: domain.EventFail, Retryable: &yes}); err != nil {
				t.Error(err)
			}
			w.engine.SetHandle(w.workflowID(id), nil)
			after(10 * time.Second)
			w.attempt(t, id, "j2", 2, "second")
			after(10 * time.Second)
			w.engine.SetLog("j2", "stdout", []byte("second, done"))
			if err := w.engine.Apply(w.workflowID(id), domain.Event{Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h"}); err != nil {
				t.Error(err)
			}
		}()
		text, _, err := w.read(t.Context(), id, starter.LogRequest{Follow: true})
		if text != "first attempt|second, done" || err != nil {
			t.Errorf("%q (%v)", text, err)
		}
	})
}

func TestLogsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		external := w.submit(t, starter.Submission{TaskID: "external"}).TaskID
		for _, follow := range []bool{false, true} {
			_, _, err := w.read(t.Context(), external, starter.LogRequest{Follow: follow})
			if e := as(t, err, starter.ErrNoLogs); e.Hint != "look where it is worked on" {
				t.Errorf("%v, hint %q", err, e.Hint)
			}
		}
		for field, req := range map[string]starter.LogRequest{"stream": {Stream: "stdin"}, "offset": {Offset: -1}, "limit": {Limit: -1}} {
			_, _, err := w.read(t.Context(), external, req)
			if e := as(t, err, starter.ErrInvalid); e.Field != field {
				t.Errorf("%v", err)
			}
		}
		id := w.job(t, "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if text, _, err := w.read(ctx, id, starter.LogRequest{Follow: true}); text != "x" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q (%v)", text, err)
		}
		if err := w.engine.Apply(w.workflowID(id), domain.Event{Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h"}); err != nil {
			t.Fatal(err)
		}
		if text, _, err := w.read(t.Context(), id, starter.LogRequest{Follow: true}); text != "x" || err != nil {
			t.Errorf("ended: %q (%v)", text, err)
		}
		w.engine.Workers(false)
		_, _, err := w.read(t.Context(), id, starter.LogRequest{})
		is(t, err, starter.ErrNoWorker)
		w.engine.Workers(true)
		for _, err := range w.Logs(t.Context(), id, starter.LogRequest{}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	})
}

// tired is an engine that gives up on activities a little before it was told to.
type tired struct{ starter.Engine }

func (tired) ExecuteActivity(context.Context, client.StartActivityOptions, any, ...any) (client.ActivityHandle, error) {
	return tiredHandle{}, nil
}

type tiredHandle struct{ client.ActivityHandle }

func (tiredHandle) Get(context.Context, any) error { return serviceerror.NewDeadlineExceeded("enough") }

// The bug: whether a host without a worker was no-worker or unavailable hung on
// which of two clocks rang first.
func TestLogsWithoutAWorkerAreNotAnEngineThatIsAway(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *starter.Options) { o.Temporal = tired{o.Temporal} })
	id := w.job(t, "x")
	_, _, err := w.read(t.Context(), id, starter.LogRequest{})
	is(t, err, starter.ErrNoWorker)
}

func TestLogsSurviveBytesOfAnyKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		data := make([]byte, 256)
		for i := range data {
			data[i] = byte(i)
		}
		id := w.job(t, string(data))
		text, _, err := w.read(t.Context(), id, starter.LogRequest{})
		if !bytes.Equal([]byte(text), data) || err != nil {
			t.Errorf("%q (%v)", text, err)
		}
	})
}
