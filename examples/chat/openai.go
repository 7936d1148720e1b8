package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter/agent"
)

// The wire format of chat completions with tools, as far as it is needed here: it is a
// few structs, and every provider departs from it in places that a library would hide.

// Message is one message of a conversation.
type Message struct {
	Role string `json:"role"`
	// Content is null in an answer that only calls tools.
	Content    *string    `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	// ReasoningContent has to come back in the turns of tools (DeepSeek, Kimi).
	ReasoningContent string `json:"reasoning_content,omitempty"`
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
	// ExtraContent has to come back as it was (Gemini's thought signatures).
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// FunctionCall names a tool. Its arguments are JSON in a string, if the model kept to it.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Function offers a tool to a model.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// offer is a [Function] as it goes over the wire.
type offer struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// The reasons for which a model ends its answer.
const (
	finishLength        = "length"
	finishContentFilter = "content_filter"
)

// Completion is what a model answered.
type Completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Message      Message `json:"message"`
		FinishReason string  `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// Endpoint is a service that completes chats. It is safe for use by many steps at a time.
type Endpoint struct {
	// BaseURL is the part before /chat/completions, such as https://api.openai.com/v1.
	BaseURL string
	// Key authorizes. Default: none, as local services want it.
	Key string
	// Model is the name that the service knows it by.
	Model string
	// Timeout bounds one answer. Default: 10 minutes.
	Timeout time.Duration
	// HTTP sends. Default: a client that follows no redirects, which would take the
	// conversation and perhaps the key elsewhere.
	HTTP *http.Client

	mu sync.Mutex
	// notBefore is when the service wants to be asked again.
	notBefore time.Time
}

const (
	defaultTimeout = 10 * time.Minute
	// maxAnswer bounds what is read of an answer; a checkpoint may have no more.
	maxAnswer = 16 << 20
	// maxRetryAfter bounds how long the service is believed.
	maxRetryAfter = 10 * time.Minute
)

var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Complete asks the model for the next message. It first waits until the time that the
// service has named with a Retry-After. An error is one that a step may return: 408, 429,
// 5xx and a broken connection may pass, anything else ends the run.
func (e *Endpoint) Complete(ctx context.Context, messages []Message, tools []Function) (Completion, error) {
	body := map[string]any{"model": e.Model, "messages": messages}
	if len(tools) > 0 { // an empty list is refused by OpenAI
		offers := make([]offer, len(tools))
		for i, t := range tools {
			offers[i] = offer{"function", t}
		}
		body["tools"] = offers
	}
	b, err := json.Marshal(body)
	if err != nil {
		return Completion{}, agent.Final(err)
	}
	if err := e.pause(ctx); err != nil {
		return Completion{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Timeout, defaultTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(e.BaseURL, "/")+"/chat/completions", bytes.NewReader(b))
	if err != nil {
		return Completion{}, agent.Final(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	resp, err := cmp.Or(e.HTTP, noRedirects).Do(req)
	if err != nil {
		return Completion{}, unavailable("the model could not be reached: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Completion{}, unavailable("the model's answer broke off: %v", err)
	case resp.StatusCode != http.StatusOK:
		return Completion{}, e.refused(resp, answer)
	case len(answer) > maxAnswer:
		return Completion{}, unavailable("the model's answer has more than %d bytes", maxAnswer)
	}
	return readCompletion(answer)
}

func readCompletion(answer []byte) (Completion, error) {
	var c Completion
	if err := json.Unmarshal(answer, &c); err != nil {
		return c, unavailable("the model's answer is no completion: %v", err)
	}
	if len(c.Choices) == 0 {
		// Routers answer 200 with an error of the service behind them.
		return c, unavailable("the model gave no choice: %s", saying(answer))
	}
	return c, nil
}

// refused makes an error of a status.
func (e *Endpoint) refused(resp *http.Response, answer []byte) error {
	text := fmt.Sprintf("the model's service answered %s: %s", resp.Status, saying(answer))
	switch code := resp.StatusCode; {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		if wait := retryAfter(resp.Header.Get("Retry-After"), time.Now()); wait > 0 {
			e.mu.Lock()
			e.notBefore = time.Now().Add(wait)
			e.mu.Unlock()
			text += fmt.Sprintf(" (to be asked again in %s)", wait)
		}
		return unavailable("%s", text)
	}
	return refusal("MODEL_REFUSED", "%s", text)
}

// pause waits for the time that the service has named. It is waited for here and not
// by the run, whose backoff knows nothing of it; the step's heartbeats go on meanwhile.
func (e *Endpoint) pause(ctx context.Context) error {
	e.mu.Lock()
	wait := time.Until(e.notBefore)
	e.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryAfter reads the header: seconds, or a date. What cannot be read is no wish.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		wait = time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// saying is what an answer that is no completion says: its error's message, else its
// beginning.
func saying(answer []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text := string(answer)
	if json.Unmarshal(answer, &e) == nil && e.Error.Message != "" {
		text = e.Error.Message
	}
	const most = 500
	return cut(strings.TrimSpace(text), most)
}

// unavailable is an error that may pass: the step is tried again.
func unavailable(format string, args ...any) error {
	return &agent.FailedError{Reason: domain.TaskError{
		Code: "MODEL_UNAVAILABLE", Class: domain.ClassThirdParty, Message: fmt.Sprintf(format, args...), Retryable: true,
	}}
}

// refusal is an error that no repeat mends: the run fails.
func refusal(code, format string, args ...any) error {
	return &agent.FailedError{Reason: domain.TaskError{Code: code, Class: domain.ClassThirdParty, Message: fmt.Sprintf(format, args...)}}
}

// cut shortens text to a limit in bytes, between two characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
