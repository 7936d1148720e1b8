package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/startertest"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// A task that two runs share is given up when both give it up.
func ExampleClient_Submit_shared() {
	c, _ := connect()
	ctx := context.Background()
	s := starter.Submission{Tool: "approve", IdempotencyKey: "order-7", RunID: "run-1"}
	first, err := c.Submit(ctx, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.RunID = "run-2"
	second, err := c.Submit(ctx, s)
	fmt.Println("the same task:", first.TaskID == second.TaskID, "attached:", second.Attached, err)
	for _, waiter := range []string{second.WaiterID, first.WaiterID} {
		out, err := c.Cancel(ctx, first.TaskID, protocol.Cancel{WaiterID: waiter})
		fmt.Println(out.Reason, err)
	}
	// Output:
	// the same task: true attached: true <nil>
	// detached <nil>
	// cancelled <nil>
}

func ExampleClient_Detach() {
	c, _ := connect()
	ctx := context.Background()
	sub, err := c.Submit(ctx, starter.Submission{Tool: "approve", TaskID: "t1", RunID: "run-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := c.Detach(ctx, "t1", protocol.Detach{WaiterID: sub.WaiterID, Reason: domain.DetachWaitTimeout})
	fmt.Println(out.Reason, out.State, err)
	// Output:
	// detached queued <nil>
}

func ExampleClient_Wait() {
	c, _ := connect()
	ctx := context.Background()
	if _, err := c.Submit(ctx, starter.Submission{Tool: "approve", TaskID: "t1"}); err != nil {
		fmt.Println(err)
		return
	}
	_, err := c.Wait(ctx, "t1", starter.WaitOptions{For: 10 * time.Millisecond})
	fmt.Println("out of patience:", errors.Is(err, starter.ErrWaitTimeout))
	done(c, "t2")
	d, err := c.Wait(ctx, "t2", starter.WaitOptions{For: time.Minute})
	fmt.Println(d.End.Text, err)
	// Output:
	// out of patience: true
	// the work was done <nil>
}

// lost is a task of which nobody knows whether its work was done.
func lost(c *starter.Client, engine *startertest.Engine, id string) {
	if _, err := c.Submit(context.Background(), starter.Submission{Tool: "pay", TaskID: id}); err != nil {
		panic(err)
	}
	for _, e := range []domain.Event{
		{Type: domain.EventStart, Worker: "host-1"},
		{Type: domain.EventRequeue, Error: &domain.TaskError{Message: "the bank's answer was lost"}},
	} {
		if err := engine.Apply(protocol.TaskWorkflowID(c.Tenant(), id), e); err != nil {
			panic(err)
		}
	}
}

func ExampleClient_Manual() {
	c, engine := connect()
	lost(c, engine, "t1")
	page, err := c.Manual(context.Background(), starter.ManualRequest{})
	for _, m := range page.Tasks {
		fmt.Println(m.TaskID, "is not clear:", m.Why)
		for _, t := range m.Tried {
			fmt.Println("tried:", t.Text)
		}
		fmt.Println(m.Commands[2])
	}
	fmt.Println(err)
	// Output:
	// t1 is not clear: the bank's answer was lost
	// tried: started by host-1
	// tried: the outside could not say what became of the work: the bank's answer was lost
	// wakepoint task resolve t1 --repeat
	// <nil>
}

func ExampleClient_Resolve() {
	c, engine := connect()
	lost(c, engine, "t1")
	r := protocol.Resolve{Action: domain.ResolveSucceeded, Result: json.RawMessage(`{"transfer":4711}`), By: "ann", Reason: "asked the bank"}
	for range 2 {
		out, err := c.Resolve(context.Background(), "t1", r)
		fmt.Println(out.Reason, out.State, err)
	}
	// Output:
	// resolved succeeded <nil>
	// terminal-conflict succeeded <nil>
}

func ExampleClient_ReconcileAll() {
	c, engine := connect()
	ctx := context.Background()
	for _, id := range []string{"a", "b"} {
		if _, err := c.Submit(ctx, starter.Submission{Tool: "vet", TaskID: id}); err != nil {
			fmt.Println(err)
			return
		}
		if err := engine.Apply(protocol.TaskWorkflowID(c.Tenant(), id), domain.Event{Type: domain.EventStart}); err != nil {
			fmt.Println(err)
			return
		}
	}
	engine.SetOutside(protocol.TaskWorkflowID(c.Tenant(), "a"), startertest.Outside{Says: protocol.OutsideRunning})
	engine.SetOutside(protocol.TaskWorkflowID(c.Tenant(), "b"), startertest.Outside{
		Says: protocol.OutsideEnded, Event: &domain.Event{Type: domain.EventSucceed, ResultRef: "s3://results/b", ResultHash: "h"},
	})
	for range 2 {
		all, err := c.ReconcileAll(ctx, starter.ReconcileRequest{})
		for _, t := range all {
			fmt.Printf("%s %s %s %q\n", t.TaskID, t.Before.State, t.Outside, t.Did)
		}
		fmt.Println(err)
	}
	// Output:
	// a running running ""
	// b running ended "succeeded"
	// <nil>
	// a running running ""
	// <nil>
}

func ExampleClient_Orphans() {
	c, engine := connect()
	queue := protocol.HostTaskQueue("wakepoint", "host-1")
	engine.SetJobs("vet", queue, []protocol.ListedJob{{
		SubmissionKey: "acme/long-gone/1", State: "running", Handle: protocol.Handle{Executor: "exec", ID: "4711", TaskQueue: queue},
	}})
	out, err := c.Orphans(context.Background(), starter.OrphansRequest{Tool: "vet", Hosts: []string{"host-1"}, Cancel: true})
	for _, o := range out.Orphans {
		fmt.Println(o.SubmissionKey, o.Why, "asked to stop:", o.Cancelled)
	}
	fmt.Println(err)
	// Output:
	// acme/long-gone/1 unknown-task asked to stop: true
	// <nil>
}
