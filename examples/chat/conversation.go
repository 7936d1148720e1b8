package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wakepoint/wakepoint/domain/run"
)

// conversation is the checkpoint: what the model was told and has said, and what it
// must not be told yet.
type conversation struct {
	Messages []Message `json:"messages"`
	// Asked are the calls of the model's last message, in its order, until every one has
	// its result: a model that gets some of them refuses.
	Asked []asked `json:"asked,omitempty"`
	// AskedAt is the step that asked. Models repeat the ids of calls in their next turn.
	AskedAt int `json:"askedAt,omitempty"`
	// Said is what people said meanwhile: it comes after the results.
	Said []string `json:"said,omitempty"`
}

// asked is a call without its message.
type asked struct {
	// ID is the one of the model, Call the one of the run, empty for a call that the run
	// was not asked for.
	ID   string `json:"id"`
	Call string `json:"call,omitempty"`
	// Text is the result, once there is one.
	Text *string `json:"text,omitempty"`
}

// formatName marks the checkpoints of this program.
const formatName = "chat/1"

// read gives the conversation of a checkpoint.
func read(req run.StepRequest, system string) (conversation, error) {
	var c conversation
	if len(req.Checkpoint) == 0 {
		if system != "" {
			c.Messages = []Message{{Role: "system", Content: &system}}
		}
		return c, nil
	}
	if f := req.CheckpointFormat; f != formatName {
		return c, fmt.Errorf("the checkpoint has the format %q, and not %q", f, formatName)
	}
	if err := json.Unmarshal(req.Checkpoint, &c); err != nil {
		return c, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	return c, nil
}

// take takes in what a step brings.
func (c *conversation) take(req run.StepRequest) {
	for _, r := range req.Results {
		if a := c.find(r); a != nil {
			text := resultText(r)
			a.Text = &text
			continue
		}
		// The model has an answer for that call, or none is wanted: it is news.
		c.Said = append(c.Said, "News of the call "+r.ToolCallID+" of "+r.Tool+": "+resultText(r))
	}
	for _, in := range req.Inputs {
		c.Said = append(c.Said, plain(in.Content))
	}
}

func (c *conversation) find(r run.Result) *asked {
	if r.AskedAtStep != c.AskedAt || r.Background {
		return nil
	}
	for i := range c.Asked {
		if a := &c.Asked[i]; a.Call == r.ToolCallID && a.Text == nil {
			return a
		}
	}
	return nil
}

// complete tells whether every call of the last turn has its result.
func (c *conversation) complete() bool {
	for _, a := range c.Asked {
		if a.Text == nil {
			return false
		}
	}
	return true
}

// turn writes down what the model is to be told: the results in the order of its calls,
// then what people said. It tells whether there is anything that the model would answer.
func (c *conversation) turn() bool {
	for _, a := range c.Asked {
		c.Messages = append(c.Messages, Message{Role: "tool", ToolCallID: a.ID, Content: a.Text})
	}
	for _, said := range c.Said {
		c.Messages = append(c.Messages, Message{Role: "user", Content: &said})
	}
	c.Asked, c.Said, c.AskedAt = nil, nil, 0
	if len(c.Messages) == 0 {
		return false
	}
	last := c.Messages[len(c.Messages)-1].Role
	return last == "user" || last == "tool"
}

// plain is JSON as a model reads it best: a text as it stands, anything else as JSON.
func plain(v json.RawMessage) string {
	var text string
	if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// resultText is what the model is told of the end of a call: the result, or why there is
// none.
func resultText(r run.Result) string {
	var b strings.Builder
	if r.InputEdited {
		b.WriteString("A person has changed the arguments to " + string(r.Input) + ".\n")
	}
	if a := r.Approval; a != nil && a.Message != "" && r.State != run.CallDenied {
		b.WriteString("A person has approved this: " + a.Message + "\n")
	}
	switch {
	case r.State == run.CallDenied:
		b.WriteString("error: a person has denied this call, it was not done")
		if r.Approval != nil && r.Approval.Message != "" {
			b.WriteString(": " + r.Approval.Message)
		}
	case r.State != run.CallSucceeded:
		b.WriteString("error: " + string(r.State))
		if e := r.Error; e != nil {
			fmt.Fprintf(&b, ": %s: %s", e.Code, e.Message)
			if len(e.Details) > 0 {
				b.WriteString(" " + string(e.Details))
			}
		}
	case len(r.Result) > 0:
		b.WriteString(plain(r.Result))
	case r.Truncated:
		fmt.Fprintf(&b, "%s\n[cut off: the result has %d bytes and is kept as %s]", r.Preview, r.Bytes, r.ResultRef)
	case r.ResultRef != "":
		fmt.Fprintf(&b, "done; the result (%s, %d bytes) is kept as %s", r.ContentType, r.Bytes, r.ResultRef)
	default:
		b.WriteString("done")
	}
	return b.String()
}
