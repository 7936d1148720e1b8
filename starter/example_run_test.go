package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/startertest"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// connectRuns is connect with the runtime "agent", and a run of it.
func connectRuns() *starter.Client {
	cfg, err := config.Parse("wakepoint.yaml", []byte(declaredRuns))
	if err != nil {
		panic(err)
	}
	c, err := starter.New(starter.Options{Temporal: startertest.New(), Config: cfg})
	if err != nil {
		panic(err)
	}
	if _, err := c.StartRun(context.Background(), starter.RunStart{RunID: "r1", Runtime: "agent", Input: json.RawMessage(`"go"`)}); err != nil {
		panic(err)
	}
	return c
}

// A runtime takes a step, does its part of the work and commits it, until the run has ended.
func ExampleClient_Next() {
	c := connectRuns()
	ctx := context.Background()
	for {
		req, err := c.Next(ctx, "r1", starter.NextOptions{Holder: "worker-1", Wait: time.Minute})
		if errors.Is(err, starter.ErrEnded) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("step", req.Step, "because of", req.Cause, "with", string(req.Inputs[0].Content))
		out, err := c.Commit(ctx, "r1", req.Step, req.StepToken, run.StepResponse{Final: json.RawMessage(`{"booked":true}`)})
		fmt.Println(out.Reason, out.State, err)
	}
	answer, err := c.RunResult(ctx, "r1")
	fmt.Println(string(answer.Content), err)
	// Output:
	// step 1 because of start with "go"
	// finished SUCCEEDED <nil>
	// {"booked":true} <nil>
}

func ExampleClient_Commit() {
	c := connectRuns()
	ctx := context.Background()
	req, err := c.Next(ctx, "r1", starter.NextOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Commit(ctx, "r1", req.Step, "an old token", run.StepResponse{Await: run.AwaitInput})
	var refused *run.RefusedError
	fmt.Println(errors.Is(err, starter.ErrStaleToken), errors.As(err, &refused) && refused.Outcome.Reason == run.ReasonStaleToken)
	out, err := c.Commit(ctx, "r1", req.Step, req.StepToken, run.StepResponse{Await: run.AwaitInput, Checkpoint: json.RawMessage(`{"at": 1}`)})
	fmt.Println(out.Reason, out.State, err)
	// Output:
	// true true
	// committed WAITING_INPUT <nil>
}

func ExampleClient_Say() {
	c := connectRuns()
	ctx := context.Background()
	s := protocol.RunSaid{InputID: "message-1", Content: json.RawMessage(`"make it two"`), Source: "ann"}
	first, err := c.Say(ctx, "r1", s)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, _ := c.Say(ctx, "r1", s)
	s.Content = json.RawMessage(`"make it three"`)
	other, _ := c.Say(ctx, "r1", s)
	fmt.Println(first.Reason, again.Reason, other.Reason)
	// Output:
	// input duplicate-input input-conflict
}
