// Package book is the reference's async task book, built from the functions of
// package domain: many tasks, and one name space for callback ids and delivery
// keys, where the product scopes them to the task and the tenant.
package book

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/wakepoint/wakepoint/domain"
)

// Book holds tasks. Use [New].
type Book struct {
	tasks    map[string]domain.Task
	ledger   domain.Ledger
	receipts map[string]domain.Receipt
	outbox   domain.Outbox
}

// New gives an empty book.
func New() *Book {
	return &Book{tasks: map[string]domain.Task{}, receipts: map[string]domain.Receipt{}}
}

// Op is one line of a conversation.
type Op struct {
	Op             string          `json:"op"`
	Input          json.RawMessage `json:"input"`
	TaskID         string          `json:"taskId"`
	Event          json.RawMessage `json:"event"`
	CallbackID     string          `json:"callbackId"`
	Cursor         json.RawMessage `json:"cursor"`
	IdempotencyKey string          `json:"idempotencyKey"`
	NowMs          json.RawMessage `json:"nowMs"`
	Want           json.RawMessage `json:"want"`
}

// Do carries out one operation. Its answer is what `want.ok` holds; an error is
// a refusal with the class invalid-request.
func (b *Book) Do(op Op) (any, error) {
	switch op.Op {
	case "create":
		return b.create(op)
	case "apply":
		return b.apply(op)
	case "resume":
		return b.resume(op)
	case "deliver":
		return b.deliver(op)
	case "drain":
		return drained(b.outbox.Drain()), nil
	default:
		return nil, fmt.Errorf("unknown operation %q", op.Op)
	}
}

func (b *Book) create(op Op) (any, error) {
	var c domain.Create
	input, err := withWholeNumbers("input", op.Input, "nowMs", "ttlMs", "maxAttempts")
	if err != nil {
		return nil, err
	}
	if err := decode("input", input, &c); err != nil {
		return nil, err
	}
	c.Policy.Strict = true
	t, err := domain.New(c)
	if err != nil {
		return nil, err
	}
	b.tasks[t.ID] = t
	return CoreTask(t), nil
}

func (b *Book) apply(op Op) (any, error) {
	t, ok := b.tasks[op.TaskID]
	if !ok {
		return nil, domain.Invalid("taskId", "must name a task that exists, %q does not", op.TaskID)
	}
	if op.CallbackID != "" {
		if _, seen := b.ledger.Seen(op.CallbackID); seen {
			return applied(domain.Transition{Task: t, Duplicate: true, Reason: domain.ReasonDuplicateCallback}), nil
		}
	}
	event, err := withWholeNumbers("event", op.Event, "atMs")
	if err != nil {
		return nil, err
	}
	var e domain.Event
	if err := decode("event", event, &e); err != nil {
		return nil, err
	}
	tr, err := domain.Apply(t, e)
	if err != nil {
		return nil, err
	}
	b.ledger.Remember(op.CallbackID, "", e.Digest(), tr)
	b.tasks[t.ID] = tr.Task
	if tr.Notification != nil {
		b.outbox.Add(*tr.Notification)
	}
	return applied(tr), nil
}

func (b *Book) resume(op Op) (any, error) {
	t, ok := b.tasks[op.TaskID]
	if !ok {
		return nil, domain.Invalid("taskId", "must name a task that exists, %q does not", op.TaskID)
	}
	cursor, err := wholeNumber("cursor", op.Cursor)
	if err != nil {
		return nil, err
	}
	p, err := domain.Resume(t, cursor, domain.Retention)
	if err != nil {
		return nil, err
	}
	return map[string]any{"mode": p.Mode, "events": coreEntries(p.Events), "task": CoreTask(p.Task)}, nil
}

func (b *Book) deliver(op Op) (any, error) {
	nowMs, err := wholeNumber("nowMs", op.NowMs)
	if err != nil {
		return nil, err
	}
	var task *domain.Task
	if t, ok := b.tasks[op.TaskID]; ok {
		task = &t
	}
	var prior *domain.Receipt
	if r, ok := b.receipts[op.IdempotencyKey]; ok {
		prior = &r
	}
	d, err := domain.Deliver(op.TaskID, task, prior, op.IdempotencyKey, nowMs)
	if err != nil {
		return nil, err
	}
	switch d.Reason {
	case domain.ReasonDelivered:
		b.receipts[op.IdempotencyKey] = *d.Receipt
	case domain.ReasonKeyReused:
		// The model shows the other task's receipt; the product must not.
		d.Receipt = prior
	default:
	}
	return d, nil
}

// wholeNumber reads an integer, however it is written: 100, 1e2 or 100.0. What
// is missing or null was no finite number in the reference.
func wholeNumber(field string, raw json.RawMessage) (int64, error) {
	var f *float64
	if err := json.Unmarshal(raw, &f); err != nil || f == nil || *f != math.Trunc(*f) || math.Abs(*f) > 1<<53 {
		return 0, domain.Invalid(field, "must be an integer")
	}
	return int64(*f), nil
}

// withWholeNumbers writes the named members as integers. A progress that is no
// number is left out: the reference looks at the state of the task before it.
func withWholeNumbers(field string, raw json.RawMessage, members ...string) (json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	if err := decode(field, raw, &m); err != nil {
		return nil, err
	}
	for _, name := range members {
		n, err := wholeNumber(field+"."+name, m[name])
		if err != nil {
			return nil, err
		}
		m[name] = strconv.AppendInt(nil, n, 10)
	}
	var f *float64
	if json.Unmarshal(m["progress"], &f) != nil {
		delete(m, "progress")
	}
	return json.Marshal(m)
}

func decode(field string, raw json.RawMessage, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return domain.Invalid(field, "must be of its type: %v", err)
	}
	return nil
}

// CoreTask is a task as the reference shows it: the strict core's fields, and
// an error that has only a message as a plain string.
func CoreTask(t domain.Task) map[string]any {
	m := map[string]any{
		"id": t.ID, "state": t.State, "expiresAtMs": t.ExpiresAtMs, "attempts": t.Attempts, "maxAttempts": t.MaxAttempts,
		"progress": t.Progress, "version": t.Version, "history": coreEntries(t.History),
	}
	if t.ResultRef != "" {
		m["resultRef"], m["resultHash"] = t.ResultRef, t.ResultHash
	}
	if t.Error != nil {
		m["error"] = t.Error.Message
	}
	return m
}

func coreEntries(entries []domain.Entry) []map[string]any {
	out := make([]map[string]any, 0, len(entries))
	for _, h := range entries {
		out = append(out, map[string]any{"version": h.Version, "event": coreEvent(h.Event)})
	}
	return out
}

func coreEvent(e domain.Event) map[string]any {
	m := map[string]any{"type": e.Type, "atMs": e.AtMs}
	for k, v := range map[string]string{"worker": e.Worker, "cursor": e.Cursor, "resultRef": e.ResultRef, "resultHash": e.ResultHash} {
		if v != "" {
			m[k] = v
		}
	}
	if e.Progress != nil {
		m["progress"] = *e.Progress
	}
	if e.Error != nil {
		m["error"] = e.Error.Message
	}
	if e.Retryable != nil {
		m["retryable"] = *e.Retryable
	}
	return m
}

func applied(tr domain.Transition) map[string]any {
	return map[string]any{
		"task": CoreTask(tr.Task), "changed": tr.Changed, "duplicate": tr.Duplicate, "notify": tr.Notify,
		"reason": tr.Reason, "duplicateCallback": tr.Reason == domain.ReasonDuplicateCallback,
	}
}

func drained(ns []domain.Notification) []map[string]any {
	out := make([]map[string]any, 0, len(ns))
	for _, n := range ns {
		out = append(out, map[string]any{"taskId": n.TaskID, "state": n.State, "atMs": n.AtMs})
	}
	return out
}
