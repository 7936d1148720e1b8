package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter/agent"
)

// script is what the model of the scenario says, turn by turn. When it is over the model
// repeats all that it was told, so that the final answer depends on every result and on
// their order. The runtime in TypeScript reads the same JSON.
type script struct {
	Turns []turn `json:"turns"`
}

type turn struct {
	Text  string         `json:"text,omitempty"`
	Calls []run.ToolCall `json:"calls"`
	// Hangs is how many attempts of the step get no answer, as of a service that is
	// stuck.
	Hangs int `json:"hangs,omitempty"`
}

// line is a message that the model was told: what a person said, or how a call ended.
type line struct {
	Role    string          `json:"role"`
	Call    string          `json:"call,omitempty"`
	Step    int             `json:"step,omitempty"`
	State   run.CallState   `json:"state,omitempty"`
	Code    string          `json:"code,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
}

// entry is a line of the log that a runtime keeps, beside all that it commits.
type entry struct {
	// Event is asked when it was handed a step, and answered just before it answers.
	Event   string   `json:"event"`
	Step    int      `json:"step"`
	Attempt int      `json:"attempt"`
	Token   string   `json:"token"`
	Results []string `json:"results"`
	Inputs  []string `json:"inputs"`
}

// player is the runtime of the scenario.
type player struct {
	script script
	mu     sync.Mutex
	log    *os.File
}

// step tells the model the results and then the inputs, and hands on what it says.
func (p *player) step(ctx context.Context, req run.StepRequest) (run.StepResponse, error) {
	var c struct {
		Turns int    `json:"turns"`
		Told  []line `json:"told"`
	}
	if len(req.Checkpoint) > 0 {
		if err := json.Unmarshal(req.Checkpoint, &c); err != nil {
			return run.StepResponse{}, agent.Final(err)
		}
	}
	e := entry{Event: "asked", Step: req.Step, Attempt: req.Attempt, Token: req.StepToken, Results: []string{}, Inputs: []string{}}
	for _, r := range req.Results {
		e.Results = append(e.Results, fmt.Sprintf("%d/%s", r.AskedAtStep, r.ToolCallID))
		l := line{Role: "tool", Call: r.ToolCallID, Step: r.AskedAtStep, State: r.State, Content: r.Result}
		if r.Error != nil {
			l.Code = r.Error.Code
		}
		c.Told = append(c.Told, l)
	}
	for _, in := range req.Inputs {
		e.Inputs = append(e.Inputs, in.InputID)
		c.Told = append(c.Told, line{Role: "user", Content: in.Content})
	}
	if err := p.write(e); err != nil {
		return run.StepResponse{}, err
	}
	var resp run.StepResponse
	if c.Turns < len(p.script.Turns) {
		turn := p.script.Turns[c.Turns]
		if req.Attempt <= turn.Hangs {
			<-ctx.Done()
			return resp, context.Cause(ctx)
		}
		resp.ToolCalls = turn.Calls
		c.Turns++
	} else {
		final, err := json.Marshal(map[string]any{"told": c.Told})
		if err != nil {
			return resp, err
		}
		resp.Final = final
	}
	var err error
	if resp.Checkpoint, err = json.Marshal(c); err != nil {
		return resp, err
	}
	e.Event = "answered"
	return resp, p.write(e)
}

func (p *player) write(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.log.Write(append(b, '\n'))
	return err
}
