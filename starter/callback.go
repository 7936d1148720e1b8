package starter

import (
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// CallbackVerdict is what a callback came to, in one word. The set is closed.
type CallbackVerdict string

// The verdicts of a callback.
const (
	// VerdictAccepted means that it was applied, or noted as a heartbeat.
	VerdictAccepted CallbackVerdict = "accepted"
	// VerdictTaken means that it is kept and will be applied: no worker was there
	// to say what it comes to.
	VerdictTaken CallbackVerdict = "taken"
	// VerdictDuplicate means that it, or what it says, had been applied before.
	VerdictDuplicate CallbackVerdict = "duplicate"
	// VerdictStale means that it belongs to another attempt or to the past.
	VerdictStale CallbackVerdict = "stale"
	// VerdictLate means that it came at or after the deadline.
	VerdictLate CallbackVerdict = "late"
	// VerdictConflict means that it contradicts what is known: the id came with
	// another body, or the task has ended otherwise.
	VerdictConflict CallbackVerdict = "conflict"
	// VerdictRejected means that it was invalid; the error says why.
	VerdictRejected CallbackVerdict = "rejected"
	// VerdictUnknownTask means that there is no such task.
	VerdictUnknownTask CallbackVerdict = "unknown-task"
)

// CallbackVerdicts lists all of them.
func CallbackVerdicts() []CallbackVerdict {
	return []CallbackVerdict{
		VerdictAccepted, VerdictTaken, VerdictDuplicate, VerdictStale, VerdictLate, VerdictConflict, VerdictRejected, VerdictUnknownTask,
	}
}

// Verdict answers a callback.
type Verdict struct {
	Verdict CallbackVerdict `json:"verdict"`
	// Outcome is the task's own answer; empty with taken, rejected and
	// unknown-task.
	Outcome domain.Outcome `json:"outcome,omitzero"`
}

// verdictOf puts an outcome in one word.
func verdictOf(o domain.Outcome) Verdict {
	v := VerdictStale
	switch {
	case o.Conflict:
		v = VerdictConflict
	case o.Duplicate:
		v = VerdictDuplicate
	case o.Late:
		v = VerdictLate
	case o.Changed, o.Reason == domain.ReasonHeartbeat:
		v = VerdictAccepted
	case o.Reason == domain.ReasonTerminalConflict:
		v = VerdictConflict
	}
	return Verdict{Verdict: v, Outcome: o}
}

// Callback brings a callback by the door that answers. A repeat, recognised by its
// CallbackID, changes nothing and is told so. Without a worker the callback is
// left as a signal, which the engine keeps: the verdict is taken. A closed task is
// answered from its record.
//
// A missing DeliveryID is made up, and so is a missing time of the event: that of
// receipt. With an error of code invalid-request the verdict is rejected, with
// unknown-task it is that. After any other error the outcome is unknown; the same
// call, with the same CallbackID, is safe to repeat.
func (c *Client) Callback(ctx context.Context, taskID string, cb domain.Callback) (Verdict, error) {
	v, err := c.callback(ctx, taskID, cb)
	switch {
	case errors.Is(err, ErrInvalid):
		v.Verdict = VerdictRejected
	case errors.Is(err, ErrUnknownTask):
		v.Verdict = VerdictUnknownTask
	}
	return v, err
}

func (c *Client) callback(ctx context.Context, taskID string, cb domain.Callback) (Verdict, error) {
	cb, err := c.prepare(taskID, cb)
	if err != nil {
		return Verdict{}, err
	}
	m := message{
		workflowID: c.workflowID(taskID), name: protocol.UpdateCallback, updateID: protocol.CallbackUpdateID(cb.CallbackID), arg: cb,
	}
	for lap := 0; ; lap++ {
		var out domain.Outcome
		err := c.update(ctx, m, &out)
		var refused *domain.RefusedError
		switch {
		case err == nil:
			return verdictOf(out.For(cb)), nil
		case errors.As(err, &refused):
			return verdictOf(refused.Outcome.For(cb)), nil
		case errors.Is(err, errNoAnswer):
			if err = c.bySignal(ctx, taskID, cb); err == nil {
				return Verdict{Verdict: VerdictTaken}, nil
			}
		}
		if !errors.Is(err, errClosed) {
			return Verdict{}, engineError(ctx, "callback for task "+taskID, err)
		}
		s, err := c.readAfter(ctx, taskID, lap)
		if err != nil {
			return Verdict{}, err
		}
		if s.closed() {
			return c.judge(*s.record, cb)
		}
	}
}

// Signal brings a callback by the door that does not answer: it is kept by the
// engine and applied by the next worker. Errors: invalid-request, unknown-task,
// ended, unavailable.
func (c *Client) Signal(ctx context.Context, taskID string, cb domain.Callback) error {
	cb, err := c.prepare(taskID, cb)
	if err != nil {
		return err
	}
	err = c.bySignal(ctx, taskID, cb)
	if !errors.Is(err, errClosed) {
		return engineError(ctx, "signal task "+taskID, err)
	}
	if _, err := c.read(ctx, taskID); err != nil {
		return err
	}
	return fail(CodeEnded, "use a callback, which is answered from the task's record", "task %s has ended and takes no signal", taskID)
}

// bySignal sends what nobody will answer, so it must be sound in itself.
func (c *Client) bySignal(ctx context.Context, taskID string, cb domain.Callback) error {
	if err := cb.Validate(); err != nil {
		return invalid(err)
	}
	err := c.engine.SignalWorkflow(ctx, c.workflowID(taskID), "", protocol.SignalCallback, cb)
	if notFound(err) {
		return errClosed
	}
	return err
}

// judge answers for a task that has closed, by the rules that would have answered
// while it was open. Nothing can change any more.
func (c *Client) judge(rec protocol.TaskRecord, cb domain.Callback) (Verdict, error) {
	clean, digest, _, err := domain.Unpack(rec.Task, cb)
	if err != nil {
		return Verdict{}, invalid(err)
	}
	tr, out, err := domain.Judge(rec.Task, rec.Ledger, clean, digest, c.o.Now())
	if err != nil {
		return Verdict{}, invalid(err)
	}
	if tr.Changed && out.Changed && out.Reason != domain.ReasonDuplicateCallback {
		// A late result that claims a time within the grace, which is over.
		out.Reason, out.Changed, out.State, out.Version = domain.ReasonTerminalConflict, false, rec.Task.State, rec.Task.Version
	}
	return verdictOf(out), nil
}

// prepare checks what can be checked without the task, and stamps.
func (c *Client) prepare(taskID string, cb domain.Callback) (domain.Callback, error) {
	if err := domain.CheckID("taskId", taskID); err != nil {
		return cb, invalid(err)
	}
	if cb.DeliveryID == "" {
		cb.DeliveryID = uuid.NewString()
	}
	if now := c.o.Now(); !c.o.TrustTimes && (cb.Event.AtMs == 0 || cb.Event.AtMs > now) {
		cb.Event.AtMs = now
	}
	// Whether the event makes sense is the task's to say: a repeat is answered
	// before its event is looked at. The envelope is checked here, and what JSON
	// would silently change or could not hold.
	if err := checkUTF8(cb); err != nil {
		return cb, invalid(err)
	}
	b, err := json.Marshal(cb)
	if err != nil {
		return cb, invalidf("event", "must be sound JSON: %v", err)
	}
	if len(b) > domain.MaxBody {
		return cb, invalidf("callback", "must be at most %d bytes, it has %d", domain.MaxBody, len(b))
	}
	if _, _, _, err := domain.Unpack(domain.Task{}, cb); err != nil {
		return cb, invalid(err)
	}
	return cb, nil
}

// checkUTF8 looks at every text: encoding/json replaces broken bytes without a
// word, and another text would arrive than was sent.
func checkUTF8(cb domain.Callback) error {
	e := cb.Event
	texts := []struct{ field, text string }{
		{"callbackId", cb.CallbackID},
		{"deliveryId", cb.DeliveryID},
		{"source", cb.Source},
		{"event.type", string(e.Type)},
		{"event.worker", e.Worker},
		{"event.cursor", e.Cursor},
		{"event.stage", e.Stage},
		{"event.resultRef", e.ResultRef},
		{"event.resultHash", e.ResultHash},
		{"event.contentType", e.ContentType},
		{"event.result", string(e.Result)},
		{"event.questionId", e.QuestionID},
		{"event.prompt", e.Prompt},
		{"event.schema", string(e.Schema)},
		{"event.answer", string(e.Answer)},
		{"event.by", e.By},
		{"event.reason", e.Reason},
		{"event.source", e.Source},
	}
	if e.Error != nil {
		texts = append(texts, []struct{ field, text string }{
			{"event.error.code", e.Error.Code},
			{"event.error.message", e.Error.Message},
			{"event.error.details", string(e.Error.Details)},
		}...)
	}
	for _, t := range texts {
		if !utf8.ValidString(t.text) {
			return domain.Invalid(t.field, "must be valid UTF-8")
		}
	}
	return nil
}
