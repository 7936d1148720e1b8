// Package workflowconformance_test plays the recorded conversations of
// tests/conformance through the workflows themselves and the client in front of
// them: AsyncTask and Delivery run in the SDK's test environment, with the clock
// held, and every answer must be the recorded one.
package workflowconformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/conformance/book"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const tenant = "acme"

func conversations(t *testing.T) []book.Conversation {
	t.Helper()
	f, err := os.Open("../conformance/testdata/async_book.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	all, err := book.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// answer is what a recorded operation must answer, as far as it is needed here.
type answer struct {
	OK *struct {
		Reason domain.Reason `json:"reason"`
		Task   struct {
			State domain.State `json:"state"`
		} `json:"task"`
	} `json:"ok"`
}

func recorded(t *testing.T, op book.Op) answer {
	t.Helper()
	var a answer
	// A drain answers with a list.
	if op.Op != "drain" {
		if err := json.Unmarshal(op.Want, &a); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// The reasons for which a conversation cannot be had with the product.
const (
	sharedIDs  = "the same callback id is used for two tasks: the reference has one space of them for the whole book, here each task has its own"
	sentExpiry = "an expiry is sent by somebody: here it comes from the timer alone, and the door refuses it"
)

// repeatAfterEnd is no reason not to play a conversation. All of its answers are
// compared, except what such a repeat is called.
const repeatAfterEnd = "a callback that was first answered after the end comes again: the reference remembers it, the record of a closed task is closed, so it is answered as if it were the first time"

// repeatsAfterEnd gives the operations of that kind.
func repeatsAfterEnd(t *testing.T, c book.Conversation) map[int]bool {
	t.Helper()
	ended, answeredThen := map[string]bool{}, map[string]bool{}
	out := map[int]bool{}
	for i, op := range c.Ops {
		a := recorded(t, op)
		if op.Op != "apply" || a.OK == nil {
			continue
		}
		key := op.TaskID + " " + op.CallbackID
		switch {
		case !ended[op.TaskID] || op.CallbackID == "":
		case a.OK.Reason != domain.ReasonDuplicateCallback:
			answeredThen[key] = true
		case answeredThen[key]:
			out[i] = true
		}
		ended[op.TaskID] = a.OK.Task.State.Terminal()
	}
	return out
}

// cannot gives the reason why a conversation is not played, or "".
func cannot(t *testing.T, c book.Conversation) string {
	t.Helper()
	usedFor := map[string]string{}
	created := map[string]bool{}
	for _, op := range c.Ops {
		switch op.Op {
		case "create":
			var in struct {
				ID string `json:"id"`
			}
			_ = json.Unmarshal(op.Input, &in)
			created[in.ID] = true
		case "apply":
			var e struct {
				Type domain.EventType `json:"type"`
			}
			_ = json.Unmarshal(op.Event, &e)
			// A repeat is answered before its event is looked at, and so is an
			// unknown task.
			if a := recorded(t, op); e.Type == domain.EventExpire && a.OK != nil && a.OK.Reason != domain.ReasonDuplicateCallback {
				return sentExpiry
			}
			if op.CallbackID == "" || !created[op.TaskID] {
				continue
			}
			if other, ok := usedFor[op.CallbackID]; ok && other != op.TaskID {
				return sharedIDs
			}
			usedFor[op.CallbackID] = op.TaskID
		}
	}
	return ""
}

func tasksOf(c book.Conversation) int {
	n := 0
	for _, op := range c.Ops {
		if op.Op == "create" && !strings.Contains(string(op.Want), `"error"`) {
			n++
		}
	}
	return n
}

// TestConversations plays all that can be played, and counts.
func TestConversations(t *testing.T) {
	t.Parallel()
	var played, single, two, none int
	why := map[string][]string{}
	all := conversations(t)
	for _, c := range all {
		if reason := cannot(t, c); reason != "" {
			why[reason] = append(why[reason], c.Name)
			continue
		}
		played++
		open := repeatsAfterEnd(t, c)
		if len(open) > 0 {
			why[repeatAfterEnd] = append(why[repeatAfterEnd], c.Name)
		}
		switch tasksOf(c) {
		case 0:
			none++
		case 1:
			single++
		default:
			two++
		}
		for _, door := range []string{"update", "signal"} {
			t.Run(c.Name+" by "+door, func(t *testing.T) {
				t.Parallel()
				play(t, c, door, open)
			})
		}
	}
	t.Logf("%d of %d conversations are played through the workflows: %d about one task, %d about two, %d in which none comes to be", played, len(all), single, two, none)
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		verb := "are not"
		if reason == repeatAfterEnd {
			verb = "of these not to the last word"
		}
		t.Logf("%d %s, because %s: %s", len(why[reason]), verb, reason, strings.Join(why[reason], " "))
	}
	got := fmt.Sprintf("%d of %d: %d single, %d two, %d none; %d with repeats after the end; not %d with shared ids, %d with sent expiries",
		played, len(all), single, two, none, len(why[repeatAfterEnd]), len(why[sharedIDs]), len(why[sentExpiry]))
	const want = "242 of 300: 197 single, 30 two, 15 none; 35 with repeats after the end; not 42 with shared ids, 16 with sent expiries"
	if got != want {
		t.Errorf("played %s\nwant   %s", got, want)
	}
}

// player is one conversation.
type player struct {
	t *testing.T
	e *engine
	c *starter.Client
	// signal takes the door that doesn't answer; what it came to is read from
	// the task.
	signal bool
	step   int
}

func play(t *testing.T, c book.Conversation, door string, open map[int]bool) {
	t.Helper()
	p := &player{t: t, e: newEngine(t), signal: door == "signal"}
	defer p.e.finish()
	var err error
	p.c, err = starter.New(starter.Options{Temporal: p.e, Tenant: tenant, TrustTimes: true, Now: func() int64 { return p.e.nowMs }})
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range c.Ops {
		p.step = i
		got, err := p.do(op)
		if errors.Is(err, starter.ErrInvalid) || errors.Is(err, starter.ErrUnknownTask) {
			err = domain.Invalid("taskId", "%v", err)
		}
		if open[i] {
			if errors.Is(err, domain.ErrInvalid) {
				// The event is looked at again.
				continue
			}
			leaveOpen(got)
		}
		if d := book.Difference(p.want(op, got), got, err); d != "" {
			t.Fatalf("op %d (%s): %s", i, op.Op, d)
		}
	}
}

// leaveOpen drops what the answer to a repeat after the end may differ in. That
// it changed nothing, and how the task stands, is compared like always.
func leaveOpen(got any) {
	if said, ok := got.(map[string]any); ok {
		for _, member := range []string{"reason", "duplicate", "duplicateCallback"} {
			delete(said, member)
		}
	}
}

// want is the recorded answer, less what the product must not show and what the
// answer leaves open.
func (p *player) want(op book.Op, got any) json.RawMessage {
	var want map[string]map[string]any
	if json.Unmarshal(op.Want, &want) != nil || want["ok"] == nil {
		return op.Want
	}
	if want["ok"]["reason"] == string(domain.ReasonKeyReused) {
		// The reference shows the receipt of the other task.
		delete(want["ok"], "receipt")
	}
	if said, ok := got.(map[string]any); ok && op.Op == "apply" {
		for member := range want["ok"] {
			if _, there := said[member]; !there {
				delete(want["ok"], member)
			}
		}
	}
	b, err := json.Marshal(want)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

func (p *player) do(op book.Op) (any, error) {
	switch op.Op {
	case "create":
		return p.create(op)
	case "apply":
		return p.apply(op)
	case "resume":
		return p.resume(op)
	case "deliver":
		return p.deliver(op)
	case "drain":
		return p.drain(), nil
	}
	return nil, fmt.Errorf("unknown operation %q", op.Op)
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return domain.Invalid("message", "must be of its type: %v", err)
	}
	return nil
}

func (p *player) create(op book.Op) (any, error) {
	var c domain.Create
	if err := decode(op.Input, &c); err != nil {
		return nil, err
	}
	p.e.nowMs = c.NowMs
	if err := p.e.createTask(tenant, c); err != nil {
		var app *temporal.ApplicationError
		if errors.As(err, &app) && app.Type() == protocol.ErrTypeInvalid {
			return nil, domain.Invalid("create", "%s", app.Message())
		}
		return nil, err
	}
	return p.task(c.ID)
}

func (p *player) task(id string) (map[string]any, error) {
	d, err := p.c.Describe(context.Background(), id)
	if err != nil {
		return nil, err
	}
	return book.CoreTask(d.Task), nil
}

func (p *player) apply(op book.Op) (any, error) {
	cb := domain.Callback{CallbackID: op.CallbackID}
	if cb.CallbackID == "" {
		cb.CallbackID = fmt.Sprint("nameless-", p.step)
	}
	if err := decode(op.Event, &cb.Event); err != nil {
		return nil, err
	}
	if p.signal {
		return p.applyBySignal(op, cb)
	}
	v, err := p.c.Callback(context.Background(), op.TaskID, cb)
	if err != nil {
		return nil, err
	}
	task, err := p.task(op.TaskID)
	if err != nil {
		return nil, err
	}
	o := v.Outcome
	return map[string]any{
		"task": task, "changed": o.Changed, "duplicate": o.Duplicate, "notify": o.Changed && o.State.Terminal(),
		"reason": o.Reason, "duplicateCallback": o.Reason == domain.ReasonDuplicateCallback,
	}, nil
}

// applyBySignal sends the callback without asking; that it was invalid is seen
// where people look for it.
func (p *player) applyBySignal(op book.Op, cb domain.Callback) (any, error) {
	ctx := context.Background()
	before, err := p.c.Describe(ctx, op.TaskID)
	if err != nil {
		return nil, err
	}
	if before.Closed {
		// The record answers by the other door.
		p.signal = false
		defer func() { p.signal = true }()
		return p.apply(op)
	}
	// Not by the client, which checks what nobody would answer.
	if err := p.e.SignalWorkflow(ctx, before.WorkflowID, "", protocol.SignalCallback, cb); err != nil {
		return nil, err
	}
	after, err := p.c.Describe(ctx, op.TaskID)
	if err != nil {
		return nil, err
	}
	if r := after.LastRejected; !after.Closed && r != nil && r.CallbackID == cb.CallbackID && (before.LastRejected == nil || *r != *before.LastRejected) {
		return nil, domain.Invalid("callback", "%s", r.Error)
	}
	return map[string]any{"task": book.CoreTask(after.Task), "changed": after.Task.Version != before.Task.Version}, nil
}

func (p *player) resume(op book.Op) (any, error) {
	var cursor int64
	if err := decode(op.Cursor, &cursor); err != nil {
		return nil, err
	}
	page, err := p.c.Resume(context.Background(), op.TaskID, cursor)
	if err != nil {
		return nil, err
	}
	events := book.CoreTask(domain.Task{History: page.Events})["history"]
	return map[string]any{"mode": page.Mode, "events": events, "task": book.CoreTask(page.Task)}, nil
}

func (p *player) deliver(op book.Op) (any, error) {
	if err := decode(op.NowMs, &p.e.nowMs); err != nil {
		return nil, err
	}
	d, err := p.c.Deliver(context.Background(), op.TaskID, op.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (p *player) drain() any {
	out := []map[string]any{}
	for _, n := range p.e.drain() {
		out = append(out, map[string]any{"taskId": n.Task.ID, "state": n.Task.State, "atMs": n.AtMs})
	}
	return out
}
