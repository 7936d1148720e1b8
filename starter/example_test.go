package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/startertest"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// connect gives a client on an engine in memory; a program passes a client.Client of
// Temporal instead.
func connect() (*starter.Client, *startertest.Engine) {
	cfg, err := config.Parse("wakepoint.yaml", []byte(declared))
	if err != nil {
		panic(err)
	}
	blobs, err := store.Open(context.Background(), "mem://")
	if err != nil {
		panic(err)
	}
	engine := startertest.New()
	c, err := starter.New(starter.Options{Temporal: engine, Config: cfg, Store: blobs, Secret: []byte("0123456789abcdef")})
	if err != nil {
		panic(err)
	}
	return c, engine
}

// done is a task that has succeeded.
func done(c *starter.Client, id string) {
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: id, MaxAttempts: 1}); err != nil {
		panic(err)
	}
	if _, err := c.Callback(ctx, id, domain.Callback{CallbackID: "done", Event: domain.Event{
		Type: domain.EventSucceed, Result: json.RawMessage(`{"accuracy":0.93}`),
	}}); err != nil {
		panic(err)
	}
}

func ExampleClient_Submit() {
	c, _ := connect()
	ctx := context.Background()
	s := starter.Submission{Tool: "train", Input: json.RawMessage(`{"n":3}`), IdempotencyKey: "order-7"}
	first, err := c.Submit(ctx, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, _ := c.Submit(ctx, s)
	fmt.Println(first.Status, first.State, "existing:", first.Existing, "ask again after", first.PollAfterSeconds, "s")
	fmt.Println("the same task:", again.TaskID == first.TaskID, "existing:", again.Existing)
	s.Input = json.RawMessage(`{"n":4}`)
	_, err = c.Submit(ctx, s)
	fmt.Println(err)
	// Output:
	// accepted queued existing: false ask again after 10 s
	// the same task: true existing: true
	// id-in-use: the idempotency key belongs to another submission
}

func ExampleClient_Describe() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	d, err := c.Describe(ctx, "t1")
	fmt.Println(d.Phase, "waits for", d.WaitsFor, err)
	_, err = c.Describe(ctx, "nobody")
	fmt.Println(errors.Is(err, starter.ErrUnknownTask))
	// Output:
	// SUBMITTED waits for somebody outside to start it <nil>
	// true
}

func ExampleClient_Resume() {
	c, _ := connect()
	done(c, "t1")
	for _, cursor := range []int64{0, 1, 2} {
		p, err := c.Resume(context.Background(), "t1", cursor)
		fmt.Println(p.Mode, len(p.Events), "events, version", p.Task.Version, err)
	}
	// Output:
	// delta 2 events, version 2 <nil>
	// delta 1 events, version 2 <nil>
	// caught-up 0 events, version 2 <nil>
}

func ExampleClient_Watch() {
	c, _ := connect()
	done(c, "t1")
	for change, err := range c.Watch(context.Background(), "t1", 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range change.Page.Events {
			fmt.Println(e.Version, e.Event.Type)
		}
	}
	// Output:
	// 1 start
	// 2 succeed
}

func ExampleClient_Callback() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	percent := 40.0
	cb := domain.Callback{CallbackID: "build-9/40", Event: domain.Event{Type: domain.EventProgress, Progress: &percent}}
	for range 2 {
		v, err := c.Callback(ctx, "t1", cb)
		fmt.Println(v.Verdict, v.Outcome.Reason, err)
	}
	cb.Event.Type = domain.EventExpire
	cb.CallbackID = "build-9/x"
	v, err := c.Callback(ctx, "t1", cb)
	fmt.Println(v.Verdict, err)
	// Output:
	// accepted progress <nil>
	// duplicate duplicate-callback <nil>
	// rejected invalid-request: event.type must be one that may be sent from outside, "expire" is not
}

func ExampleClient_Signal() {
	c, engine := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	engine.Workers(false)
	err := c.Signal(ctx, "t1", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventStart}})
	fmt.Println("kept without a worker:", err == nil)
	engine.Workers(true)
	d, _ := c.Describe(ctx, "t1")
	fmt.Println(d.Task.State)
	// Output:
	// kept without a worker: true
	// running
}

func ExampleClient_Heartbeat() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Callback(ctx, "t1", domain.Callback{CallbackID: "1", Event: domain.Event{Type: domain.EventStart, Attempt: 1}}); err != nil {
		fmt.Println(err)
		return
	}
	a, err := c.Heartbeat(ctx, "t1", starter.Heartbeat{Attempt: 1})
	fmt.Println("stop:", a.CancelRequested, err)
	if _, err := c.Cancel(ctx, "t1", protocol.Cancel{By: "ann"}); err != nil {
		fmt.Println(err)
		return
	}
	a, err = c.Heartbeat(ctx, "t1", starter.Heartbeat{Attempt: 1})
	fmt.Println("stop:", a.CancelRequested, err)
	// Output:
	// stop: false <nil>
	// stop: true <nil>
}

func ExampleClient_Cancel() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		out, err := c.Cancel(ctx, "t1", protocol.Cancel{By: "ann", Reason: "not needed any more"})
		fmt.Println(out.Reason, out.State, err)
	}
	// Output:
	// cancelled cancelled <nil>
	// terminal-conflict cancelled <nil>
}

func ExampleClient_Answer() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	for i, e := range []domain.Event{{Type: domain.EventStart}, {Type: domain.EventInputRequired, QuestionID: "size", Prompt: "how large?"}} {
		if _, err := c.Callback(ctx, "t1", domain.Callback{CallbackID: fmt.Sprint(i), Event: e}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, answer := range []string{`"small"`, `"large"`} {
		out, err := c.Answer(ctx, "t1", protocol.Answer{QuestionID: "size", Answer: json.RawMessage(answer), By: "ann"})
		fmt.Println(out.Reason, err)
	}
	// Output:
	// answered <nil>
	// answer-conflict <nil>
}

func ExampleClient_Attach() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "approve", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	a, err := c.Attach(ctx, "t1", protocol.Attach{Target: "dev"})
	fmt.Println(a.Outcome.Reason, err)
	done(c, "t2")
	a, err = c.Attach(ctx, "t2", protocol.Attach{Target: "dev"})
	fmt.Println(a.Outcome.Reason, a.Task.State, err)
	// Output:
	// attached <nil>
	// terminal-conflict succeeded <nil>
}

func ExampleClient_Retry() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1", MaxAttempts: 1}); err != nil {
		fmt.Println(err)
		return
	}
	fail := domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "OUT_OF_MEMORY", Message: "killed"}}
	if _, err := c.Callback(ctx, "t1", domain.Callback{CallbackID: "1", Event: fail}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r, err := c.Retry(ctx, "t1", starter.Retry{By: "ann", Reason: "more memory"})
		fmt.Println(r.State, "version", r.Version, "existing:", r.Existing, err)
	}
	// Output:
	// queued version 3 existing: false <nil>
	// queued version 3 existing: true <nil>
}

func ExampleClient_Deliver() {
	c, _ := connect()
	done(c, "t1")
	for _, task := range []string{"t1", "t1", "t2"} {
		d, err := c.Deliver(context.Background(), task, "invoice-7")
		fmt.Println(task, d.OK, d.Reason, d.Receipt != nil, err)
	}
	// Output:
	// t1 true delivered true <nil>
	// t1 true duplicate-delivery true <nil>
	// t2 false key-reused-for-other-task false <nil>
}

func ExampleClient_DeliveryStatus() {
	c, _ := connect()
	ctx := context.Background()
	done(c, "t1")
	if _, err := c.Deliver(ctx, "t1", "invoice-7"); err != nil {
		fmt.Println(err)
		return
	}
	rec, err := c.DeliveryStatus(ctx, "invoice-7")
	fmt.Println(rec.Kind, rec.State, rec.TaskID, err)
	// Output:
	// pull delivered t1 <nil>
}

func ExampleClient_Redeliver() {
	c, _ := connect()
	ctx := context.Background()
	done(c, "t1")
	if _, err := c.Deliver(ctx, "t1", "invoice-7"); err != nil {
		fmt.Println(err)
		return
	}
	_, err := c.Redeliver(ctx, "invoice-7", protocol.Redeliver{By: "ann"})
	fmt.Println(err)
	// Output:
	// conflict: the delivery is delivered
}

func ExampleClient_Result() {
	ctx := context.Background()
	cfg, _ := config.Parse("wakepoint.yaml", []byte(declared))
	blobs, _ := store.Open(ctx, "mem://")
	c, err := starter.New(starter.Options{Temporal: startertest.New(), Config: cfg, Store: blobs})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, err := blobs.PutBytes(ctx, store.Key{Tenant: "acme", TaskID: "t1"}, []byte("93 %\n"), "text/plain")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Submit(ctx, starter.Submission{Tool: "train", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	e := domain.Event{Type: domain.EventSucceed, ResultRef: ref.Ref, ResultHash: ref.Hash, ContentType: "text/plain", Bytes: ref.Bytes}
	if _, err := c.Callback(ctx, "t1", domain.Callback{CallbackID: "1", Event: e}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.Result(ctx, "t1")
	if err != nil {
		fmt.Println(err)
		return
	}
	content, err := r.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = content.Close() }()
	fmt.Println(r.ContentType, r.Bytes, "bytes")
	if _, err := io.Copy(os.Stdout, content); err != nil {
		fmt.Println(err)
	}
	// Output:
	// text/plain 5 bytes
	// 93 %
}

func ExampleClient_LateResult() {
	c, _ := connect()
	done(c, "t1")
	_, err := c.LateResult(context.Background(), "t1")
	fmt.Println(err)
	// Output:
	// not-succeeded: task t1 has no late result
}

func ExampleClient_Logs() {
	c, engine := connect()
	ctx := context.Background()
	s, err := c.Submit(ctx, starter.Submission{Tool: "vet", TaskID: "t1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// What the executor does in a real installation.
	if err := engine.Apply(s.WorkflowID, domain.Event{Type: domain.EventStart, Attempt: 1}); err != nil {
		fmt.Println(err)
		return
	}
	engine.SetHandle(s.WorkflowID, &protocol.Handle{Executor: "exec", ID: "job-1"})
	engine.SetLog("job-1", "stderr", []byte("vet: looks good\n"))
	for chunk, err := range c.Logs(ctx, "t1", starter.LogRequest{Stream: "stderr"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("attempt %d: %s", chunk.Attempt, chunk.Data)
	}
	// Output:
	// attempt 1: vet: looks good
}

func ExampleClient_List() {
	c, _ := connect()
	ctx := context.Background()
	done(c, "t1")
	page, err := c.List(ctx, starter.ListRequest{Tool: "train", State: domain.StateSucceeded})
	for _, t := range page.Tasks {
		fmt.Println(t.TaskID, t.State)
	}
	fmt.Println("more:", page.Cursor != "", err)
	// Output:
	// t1 succeeded
	// more: false <nil>
}

func ExampleClient_Tools() {
	c, _ := connect()
	for _, t := range c.Tools() {
		fmt.Println(t.Name, t.Executor, config.FormatDuration(t.TTL))
	}
	// Output:
	// train external 1h
	// approve external 1d
	// late external 1m
	// vet exec 1h
	// pay external 1h
}
